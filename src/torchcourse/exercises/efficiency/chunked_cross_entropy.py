"""The exercise `chunked_cross_entropy`: its probe, visible cases and hints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.memory import largest_result, outside_bytes, result_and_peak
from torchcourse.probes.modules import gradients, ramp
from torchcourse.probes.observe import float32_digits, look
from torchcourse.probes.trainable_models import with_detail

ROWS, WORDS, WIDTH, CHUNK = 256, 4096, 4, 4
LOGITS = ROWS * WORDS * 4
"""The bytes of all logits of the large call whose memory is measured."""
FEWER, MANY, ALL = "a few rows at a time", "as much as many rows", "as much as all rows"
SHARE = 4
"""All logits may not be held; a quarter of them leaves room for what each chunk needs besides its logits."""


def probe(
    answer: Watched, hidden: Tensor, weight: Tensor, labels: Tensor, chunk: int, measured: bool = False
) -> Observations:
    """Observe loss and gradients; if `measured`, on the CPU, also the largest tensor of this call and the memory that a
    large one takes, forward and backward."""
    leaves = {"hidden": hidden.requires_grad_(), "weight": weight.requires_grad_()}
    result = answer(hidden, weight, labels, chunk)
    seen = {**look(result, hidden), **gradients(result, **leaves)}
    if not measured or hidden.device.type != "cpu":
        return seen
    largest = answer.run(largest_result, lambda: gradients(answer.answer(hidden, weight, labels, chunk), **leaves))
    return {**seen, "largest tensor of this call": largest, **_large_call(answer)}


def _large_call(answer: Watched) -> Observations:
    """Observe a call with many rows in small chunks, and its backward: the bytes that lived at once, in tensors or
    elsewhere, and loss and gradient."""
    hidden, weight = ramp(ROWS, WIDTH).requires_grad_(), ramp(WORDS, WIDTH).requires_grad_()
    labels = torch.arange(ROWS) % WORDS

    def forward_and_back(call: Callable[..., Any]) -> Tensor | None:
        loss = call(hidden, weight, labels, CHUNK)
        if isinstance(loss, Tensor) and loss.requires_grad:
            loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach().clone() if isinstance(loss, Tensor) else None

    loss, in_tensors = result_and_peak(lambda: forward_and_back(answer))
    gradient = hidden.grad.clone() if hidden.grad is not None else None
    largest = answer.run(largest_result, lambda: forward_and_back(answer.answer))
    elsewhere = answer.run(outside_bytes, lambda: forward_and_back(answer.answer), LOGITS // SHARE - 1)
    return {
        "peak": max(in_tensors, elsewhere),
        "largest tensor": largest,
        "loss of the large call": loss,
        "gradient of hidden in the large call": gradient,
    }


def derive(case: Case, seen: Observations) -> Observations:
    """Reduce the bytes that lived at once to whether there was room for many rows of logits, or all, among them."""
    seen = float32_digits(case, seen)
    if not isinstance(seen.get("peak"), int):
        return seen
    peak = seen["peak"]
    words = FEWER if peak < LOGITS // SHARE else MANY if peak < LOGITS else ALL
    (words_here, width), chunk = case.inputs["weight"].shape, case.inputs["chunk"]
    largest, limit, logits = seen.pop("largest tensor of this call"), words_here * max(chunk, width), words_here * chunk
    if largest <= limit:
        largest, limit, chunk, logits = seen["largest tensor"], CHUNK * max(WORDS, ROWS), CHUNK, CHUNK * WORDS
    seen["largest tensor"] = with_detail(
        "no larger than the logits of a chunk" if largest <= limit else "larger than the logits of a chunk",
        f"{largest:,} numbers, where the logits of {chunk} rows are {logits:,}",
    )
    return {**seen, "peak": with_detail(words, f"{peak:,} bytes at once, where the logits of all {ROWS} rows take "
                                   f"{LOGITS:,} and those of a chunk {LOGITS * CHUNK // ROWS:,}")}  # fmt: skip


def rows_case(
    draw: Draw,
    name: str,
    rows: int,
    chunk: int,
    *,
    size: float = 1.0,
    dtype: torch.dtype = torch.float32,
    measured: bool = False,
) -> Case:
    """Return the case of drawn hidden states and labels; `size` makes the logits larger.

    If `measured`, there are so many words that logits of several rows are the largest tensor.
    """
    words, width = draw.size(40, 60) if measured else draw.size(6, 9), draw.size(4, 5)
    hidden, weight = size * draw.normal(rows, width, dtype=dtype), draw.normal(words, width, dtype=dtype)
    labels = draw.integers(0, words, rows)
    inputs = {"hidden": hidden, "weight": weight, "labels": labels, "chunk": chunk, "measured": measured}
    rtol, atol = (1e-10, 1e-12) if dtype == torch.float64 else (1e-3, 1e-5)
    return case(name, rtol=rtol, atol=atol, **inputs)


def cases(draw: Draw) -> list[Case]:
    return [
        rows_case(draw, "chunks of the same size", 8, 4, measured=True),
        rows_case(draw, "a last chunk that is smaller", 10, 4),
        rows_case(draw, "one chunk", 5, 8),
        rows_case(draw, "one row at a time", 4, 1),
        rows_case(draw, "large logits", 9, 4, size=60.0),
        rows_case(draw, "float64", 7, 3, dtype=torch.float64),
    ]


def quotes(inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"rows": len(inputs["hidden"])}
    named = {"peak": "peak", "largest": "largest tensor"}
    return fields | {f: seen[n].message for f, n in named.items() if hasattr(seen.get(n), "message")}


EXERCISE = Exercise(
    "chunked_cross_entropy",
    probe,
    cases,
    hints=(
        "The mean over all rows is a sum divided once. What do you ask of `F.cross_entropy` for a chunk, so that "
        "chunks of different sizes add up?",
        "A loop over chunks alone frees nothing: autograd keeps the logits of each chunk until backward. Which tool of "
        "lesson 6 throws them away and computes them again?",
        "`checkpoint(function, *inputs, use_reentrant=False)` runs a function without keeping its insides. Which "
        "function of a chunk's rows and labels would you hand to it?",
    ),
    measures=True,
    derive=derive,
    quotes=quotes,
)
