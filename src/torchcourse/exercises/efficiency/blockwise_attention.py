"""The exercise `blockwise_attention`: its probe, visible cases and hints."""

from __future__ import annotations

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.memory import outside_bytes, result_and_peak
from torchcourse.probes.modules import gradients, ramp
from torchcourse.probes.observe import look
from torchcourse.probes.trainable_models import with_detail

QUERIES, KEYS, WIDTH, BLOCK = 64, 1024, 4, 32
SCORES = QUERIES * KEYS * 4
"""The bytes of the score matrix of the large call whose memory is measured."""
FEWER, AS_MANY = "less than the scores take", "as much as the scores, or more"


def probe(answer: Watched, q: Tensor, k: Tensor, v: Tensor, block: int | None, measured: bool = False) -> Observations:
    """Observe the result and its gradients; if `measured`, on the CPU, also the memory that a large call without a
    graph takes."""
    leaves = {"q": q.requires_grad_(), "k": k.requires_grad_(), "v": v.requires_grad_()}
    result = answer(q, k, v) if block is None else answer(q, k, v, block)
    seen = {**look(result, q), **gradients(result, **leaves)}
    return {**seen, **_large_call(answer)} if measured and q.device.type == "cpu" else seen


def _large_call(answer: Watched) -> Observations:
    """Observe a call with many keys in small blocks: the bytes that lived at once, in tensors or elsewhere, and the
    result."""
    q, k, v = (ramp(1, rows, WIDTH, low=-1, high=1) for rows in (QUERIES, KEYS, KEYS))
    with torch.no_grad():
        result, in_tensors = result_and_peak(lambda: answer(q, k, v, BLOCK))
        elsewhere = answer.run(outside_bytes, lambda: answer.answer(q, k, v, BLOCK), SCORES - 1)
    return {"peak": max(in_tensors, elsewhere), "result of the large call": look(result, q).get("result")}


def derive(_case: Case, seen: Observations) -> Observations:
    """Reduce the bytes that lived at once to whether there was room for the score matrix among them."""
    if not isinstance(seen.get("peak"), int):
        return seen
    peak = seen["peak"]
    words = FEWER if peak < SCORES else AS_MANY
    scores = f"the scores of {QUERIES} queries and {KEYS} keys take {SCORES:,}"
    return {**seen, "peak": with_detail(words, f"{peak:,} bytes at once, and {scores}")}


def attention_case(
    draw: Draw, name: str, queries: int, keys: int, *, block: int | None = None, size: float = 1.0,
    dtype: torch.dtype = torch.float32, measured: bool = False,
) -> Case:  # fmt: skip
    """Return the case of drawn queries, keys and values; `size` makes their scores larger."""
    b, h, d, e = 2, draw.size(2, 3), draw.size(4, 5), draw.size(6, 7)
    q, k = size * draw.normal(b, h, queries, d, dtype=dtype), size * draw.normal(b, h, keys, d, dtype=dtype)
    v = draw.normal(b, h, keys, e, dtype=dtype)
    return case(name, rtol=1e-3, atol=1e-4, q=q, k=k, v=v, block=block, measured=measured)


def cases(draw: Draw) -> list[Case]:
    n = draw.size(3, 5)
    away = torch.full((1, n, 4), 8.0)
    return [
        attention_case(draw, "one block", n, 6),
        attention_case(draw, "three full blocks", n, 12, block=4, measured=True),
        attention_case(draw, "a last block that is not full", n, 11, block=4),
        attention_case(draw, "large scores", n, 9, block=3, size=12.0),
        case("all scores far below zero", rtol=1e-3, atol=1e-4, q=-away, k=away + draw.normal(1, n, 4),
             v=draw.normal(1, n, 3), block=2),
        attention_case(draw, "blocks of one key", n, 5, block=1),
        attention_case(draw, "float64", n, 10, block=4, dtype=torch.float64),
    ]  # fmt: skip


def quotes(inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"keys": inputs["k"].shape[-2], "block": inputs["block"] or 64}
    return fields | ({"peak": seen["peak"].message} if hasattr(seen.get("peak"), "message") else {})


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
