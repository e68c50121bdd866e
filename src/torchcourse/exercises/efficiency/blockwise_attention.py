"""The exercise `blockwise_attention`: its probe, visible cases and hints."""

from __future__ import annotations

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.memory import largest_result, outside_bytes, result_and_peak
from torchcourse.probes.modules import gradients, ramp
from torchcourse.probes.observe import float32_digits, look
from torchcourse.probes.trainable_models import with_detail

WIDTH = 4
FEWER, AS_MANY = "less than the scores take", "as much as the scores, or more"
SMALLER, AS_LARGE = "smaller than the scores", "as large as the scores, or larger"
MORE, NO_MORE = "more than with small blocks", "no more than with small blocks"
LARGER = 4
"""How many times as large the larger blocks are."""
Sizes = tuple[int, int, int]
"""The numbers of queries and keys, and the block size, of the large call whose memory is measured."""


def probe(
    answer: Watched, q: Tensor, k: Tensor, v: Tensor, block: int | None, measured: Sizes | None = None
) -> Observations:
    """Observe the result and its gradients; if `measured`, on the CPU, also the memory that a large call takes."""
    leaves = {"q": q.requires_grad_(), "k": k.requires_grad_(), "v": v.requires_grad_()}
    result = answer(q, k, v) if block is None else answer(q, k, v, block)
    seen = {**look(result, q), **gradients(result, **leaves)}
    return {**seen, **_large_call(answer, *measured)} if measured and q.device.type == "cpu" else seen


def _large_call(answer: Watched, queries: int, keys: int, block: int) -> Observations:
    """Observe calls with many keys: the bytes that lived at once, in tensors or elsewhere, for small blocks and for
    larger ones; the largest tensor where gradients are on; and the results."""
    q, k, v = (ramp(1, rows, WIDTH, low=-1, high=1) for rows in (queries, keys, keys))
    with torch.no_grad():
        result, in_tensors = result_and_peak(lambda: answer(q, k, v, block))
        elsewhere = answer.run(outside_bytes, lambda: answer.answer(q, k, v, block), queries * keys * 4 - 1)
        same, in_larger_blocks = result_and_peak(lambda: answer(q, k, v, LARGER * block))
    leaves = [t.requires_grad_() for t in (q, k, v)]
    return {
        "peak": max(in_tensors, elsewhere),
        "result of the large call": look(result, q).get("result"),
        "peaks in tensors": [in_tensors, in_larger_blocks],
        "result in larger blocks": look(same, q).get("result"),
        "largest tensor with a graph": answer.run(largest_result, lambda: answer.answer(*leaves, block)),
    }


def derive(case: Case, seen: Observations) -> Observations:
    """Reduce bytes to whether there was room for the score matrix among them, and whether they grow with the block: by
    the scores of one query at least, if queries are taken one by one, too."""
    seen = float32_digits(case, seen)
    if not isinstance(seen.get("peak"), int):
        return seen
    queries, keys, block = case.inputs["measured"]
    peak, scores, (small, large) = seen["peak"], queries * keys, seen["peaks in tensors"]
    words = FEWER if peak < 4 * scores else AS_MANY
    detail = f"the scores of {queries} queries and {keys} keys take {4 * scores:,}"
    follows = large - small >= 4 * (LARGER - 1) * block
    return {
        **{name: value for name, value in seen.items() if name != "peaks in tensors"},
        "peak": with_detail(words, f"{peak:,} bytes at once, and {detail}"),
        "peak in larger blocks": with_detail(MORE if follows else NO_MORE, f"{large:,} bytes in blocks of "
                                             f"{LARGER * block}, {small:,} in blocks of {block}"),
        "largest tensor with a graph": SMALLER if seen["largest tensor with a graph"] < scores else AS_LARGE,
    }  # fmt: skip


def attention_case(
    draw: Draw, name: str, queries: int, keys: int, *, block: int | None = None, size: float = 1.0,
    dtype: torch.dtype = torch.float32, measured: Sizes | None = None,
) -> Case:  # fmt: skip
    """Return the case of drawn queries, keys and values; `size` makes their scores larger."""
    b, h, d, e = 2, draw.size(2, 3), draw.size(4, 5), draw.size(6, 7)
    q, k = size * draw.normal(b, h, queries, d, dtype=dtype), size * draw.normal(b, h, keys, d, dtype=dtype)
    v = draw.normal(b, h, keys, e, dtype=dtype)
    atol = 1e-4 * max(1.0, size**2 / 4)  # in large scores the last digits are worth more, and so in the gradients
    near = {"rtol": 1e-9, "atol": 1e-10} if dtype == torch.float64 else {"rtol": 1e-3, "atol": atol}
    return case(name, **near, q=q, k=k, v=v, block=block, measured=measured)


def large(draw: Draw) -> Sizes:
    return draw.size(96, 128), draw.size(480, 640), draw.size(24, 32)


def cases(draw: Draw) -> list[Case]:
    n = draw.size(3, 5)
    away = torch.full((1, n, 4), 80.0)  # scores near -12800, which float32 holds exactly for these keys
    near = draw.integers(-96, 97, 1, n, 4) / 64
    return [
        attention_case(draw, "one block", n, 6),
        attention_case(draw, "three full blocks", n, 12, block=4, measured=large(draw)),
        attention_case(draw, "a last block that is not full", n, 11, block=4),
        attention_case(draw, "large scores", n, 9, block=3, size=12.0),
        case("all scores far below zero", rtol=1e-3, atol=0.1, q=-away, k=away + near, v=draw.normal(1, n, 3),
             block=2),
        attention_case(draw, "blocks of one key", n, 5, block=1),
        attention_case(draw, "float64", n, 10, block=4, dtype=torch.float64),
        case("bfloat16, two dimensions", rtol=0.05, atol=0.15, q=draw.normal(n, 4).bfloat16(),
             k=draw.normal(6, 4).bfloat16(), v=draw.normal(6, 3).bfloat16(), block=4),
    ]  # fmt: skip


def quotes(inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"keys": inputs["k"].shape[-2], "block": inputs["block"] or 64}
    fields["largest"] = seen.get("largest tensor with a graph")
    named = {"peak": "peak", "larger": "peak in larger blocks"}
    fields |= {field: seen[name].message for field, name in named.items() if hasattr(seen.get(name), "message")}
    return {name: value for name, value in fields.items() if value is not None}


EXERCISE = Exercise(
    "blockwise_attention",
    probe,
    cases,
    hints=(
        "Three things are enough to remember from block to block, for each query: the largest score so far, the sum of "
        "the weights, and the weighted sum of the values. What are they before the first block?",
        "All weights so far were computed relative to an old maximum. If a block brings a larger one, by which factor "
        "have the sum and the weighted values to shrink?",
        "`k.split(block, dim=-2)` gives the blocks, the last one smaller if it has to be. When do you divide by the "
        "sum: in every block, or once?",
    ),
    forbids=("softmax", "log_softmax", "softmin", "scaled_dot_product_attention", "multi_head_attention_forward",
             "scaled_dot_product_flash_attention_for_cpu", "scaled_dot_product_attention_math"),
    derive=derive,
    quotes=quotes,
)  # fmt: skip
