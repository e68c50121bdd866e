"""The exercise `chunked_cross_entropy`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from autograde.hidden.common import MIXED, reading, rounding, with_floats
from autograde.source.mistakes import Mistake
from torchcourse.exercises.efficiency.chunked_cross_entropy import rows_case
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "A loop alone would not save memory, since autograd keeps each chunk's logits for backward. The checkpoint keeps "
    "the rows of hidden states instead, and computes the logits again, a chunk at a time. The sum is divided once, so "
    "a smaller last chunk counts as much as its rows."
)
"""Why the reference is written as it is."""
REQUIRED = ("mean-of-chunk-means", "keeps-all-logits", "no-weight-gradient", "drops-last-chunk")
"""The mistakes that a check must always be able to name."""

READ = "A loss without the logits"


def part(rows: Tensor, weight: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(rows @ weight.T, labels, reduction="sum")


def added(losses: Any, count: int) -> Tensor:
    result: Tensor = sum(losses) / count
    return result


def again(function: Callable[..., Tensor], *args: Any) -> Tensor:
    result: Tensor = checkpoint(function, *args, use_reentrant=False)
    return result


def chunks(hidden: Tensor, labels: Tensor, chunk: int) -> Any:
    return zip(hidden.split(chunk), labels.split(chunk), strict=True)  # type: ignore[no-untyped-call]


def right(hidden: Tensor, weight: Tensor, labels: Tensor, chunk: int) -> Tensor:
    return added((again(part, rows, weight, y) for rows, y in chunks(hidden, labels, chunk)), len(labels))


def mean_of_means(hidden: Tensor, weight: Tensor, labels: Tensor, chunk: int) -> Tensor:
    parts = [again(part, rows, weight, y) / len(y) for rows, y in chunks(hidden, labels, chunk)]
    return added(parts, len(parts))


def eight_or_more(hidden: Tensor, weight: Tensor, labels: Tensor, chunk: int) -> Tensor:
    return right(hidden, weight, labels, max(chunk, 8))


def number_of_chunks(hidden: Tensor, weight: Tensor, labels: Tensor, chunk: int) -> Tensor:
    return right(hidden, weight, labels, -(-len(labels) // chunk))


def number_of_chunks_and_means(hidden: Tensor, weight: Tensor, labels: Tensor, chunk: int) -> Tensor:
    return mean_of_means(hidden, weight, labels, -(-len(labels) // chunk))


def mean_of_means_keeping(hidden: Tensor, weight: Tensor, labels: Tensor, chunk: int) -> Tensor:
    return torch.stack([F.cross_entropy(h @ weight.T, y) for h, y in chunks(hidden, labels, chunk)]).mean()


def whole(hidden: Tensor, weight: Tensor, labels: Tensor, chunk: int) -> Tensor:
    return F.cross_entropy(hidden @ weight.T, labels)


def loop_only(hidden: Tensor, weight: Tensor, labels: Tensor, chunk: int) -> Tensor:
    return added((part(rows, weight, y) for rows, y in chunks(hidden, labels, chunk)), len(labels))


def kept_in_bytes(hidden: Tensor, weight: Tensor, labels: Tensor, chunk: int) -> Tensor:
    def pack(t: Tensor) -> Any:
        if t.is_leaf:
            return t
        return bytes(t.detach().cpu().flatten().view(torch.uint8).tolist()), t.dtype, t.shape, t.device

    def unpack(kept: Any) -> Tensor:
        if isinstance(kept, Tensor):
            return kept
        data, dtype, shape, device = kept
        return torch.frombuffer(bytearray(data), dtype=dtype).reshape(shape).to(device)

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        return loop_only(hidden, weight, labels, chunk)


def one_checkpoint(hidden: Tensor, weight: Tensor, labels: Tensor, chunk: int) -> Tensor:
    return again(loop_only, hidden, weight, labels, chunk)


def weight_detached(hidden: Tensor, weight: Tensor, labels: Tensor, chunk: int) -> Tensor:
    return right(hidden, weight.detach(), labels, chunk)


def hidden_detached(hidden: Tensor, weight: Tensor, labels: Tensor, chunk: int) -> Tensor:
    return right(hidden.detach(), weight, labels, chunk)


def without_graph(hidden: Tensor, weight: Tensor, labels: Tensor, chunk: int) -> Tensor:
    with torch.no_grad():
        return right(hidden, weight, labels, chunk)


def drops_last(hidden: Tensor, weight: Tensor, labels: Tensor, chunk: int) -> Tensor:
    full = len(labels) // chunk * chunk or len(labels)
    return right(hidden[:full], weight, labels[:full], chunk)


def drops_last_keeps_count(hidden: Tensor, weight: Tensor, labels: Tensor, chunk: int) -> Tensor:
    full = len(labels) // chunk * chunk or len(labels)
    return right(hidden[:full], weight, labels[:full], chunk) * full / len(labels)


def summed(hidden: Tensor, weight: Tensor, labels: Tensor, chunk: int) -> Tensor:
    return right(hidden, weight, labels, chunk) * len(labels)


def by_exponentials(hidden: Tensor, weight: Tensor, labels: Tensor, chunk: int) -> Tensor:
    def naive(rows: Tensor, weight: Tensor, y: Tensor) -> Tensor:
        e = (rows @ weight.T).exp()
        return -(e.gather(1, y[:, None]) / e.sum(1, keepdim=True)).log().sum()

    return added((again(naive, rows, weight, y) for rows, y in chunks(hidden, labels, chunk)), len(labels))


class _Own(torch.autograd.Function):
    """A right Function, but for what a subclass overrides: it computes the gradients in forward."""

    keeps_grad = True

    @classmethod
    def of_rows(cls, rows: Tensor, weight: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        logits = rows @ weight.T
        log = logits.log_softmax(1)
        loss = -log.gather(1, y[:, None]).sum()
        slope = log.exp_().scatter_add_(1, y[:, None], -torch.ones_like(y[:, None], dtype=log.dtype))
        return loss, slope

    @classmethod
    def run(cls, ctx: Any, hidden: Tensor, weight: Tensor, labels: Tensor, chunk: int) -> Tensor:
        total, to_hidden, to_weight = hidden.new_zeros(()), torch.zeros_like(hidden), torch.zeros_like(weight)
        for i in range(0, len(labels), chunk):
            rows = hidden[i : i + chunk]
            loss, slope = cls.of_rows(rows, weight, labels[i : i + chunk])
            total += loss
            to_hidden[i : i + chunk] = slope @ weight
            to_weight += slope.T @ rows
        ctx.save_for_backward(to_hidden / len(labels), to_weight / len(labels))
        return total / len(labels)

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, labels: Tensor, chunk: int) -> Tensor:
        return _Own.run(ctx, hidden, weight, labels, chunk)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        to_hidden, to_weight = ctx.saved_tensors
        return grad * to_hidden, grad * to_weight, None, None


class _IgnoresGrad(_Own):
    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return *ctx.saved_tensors, None, None


def ignores_grad(hidden: Tensor, weight: Tensor, labels: Tensor, chunk: int) -> Tensor:
    result: Tensor = _IgnoresGrad.apply(hidden, weight, labels, chunk)
    return result


def losses_on_cpu(hidden: Tensor, weight: Tensor, labels: Tensor, chunk: int) -> Tensor:
    parts = [again(part, rows, weight, y)[None] for rows, y in chunks(hidden, labels, chunk)]
    return torch.cat([torch.zeros(1, dtype=hidden.dtype), *parts]).sum() / len(labels)


LOSS = 'In the case "{case}", with {rows} rows in chunks of {chunk}, `{what}` is {got} where {want} is wanted: '
PEAK = "Forward and backward of a large call held {peak}: "
HELD = (
    "the logits of all rows were held at once, either made by one product, or chunk by chunk and kept for backward. A "
    "checkpoint around each chunk frees them."
)
ROWS = "more than `chunk` rows were there at once. `chunk` is how many rows a chunk has, not how many chunks there are"
CUT = 'In the case "{case}", `{what}` is {got} where {want} is wanted: '
MISTAKES = [
    Mistake("mean-of-chunk-means", mean_of_means, LOSS + "the mean of the chunks' means gives the rows of a small last "
            "chunk more weight than the others.", READ),
    Mistake("mean-of-chunk-means", mean_of_means_keeping, PEAK + "the logits of all rows were held at once. And the "
            "mean of the chunks' means gives the rows of a small last chunk more weight.", READ),
    Mistake("number-of-chunks", number_of_chunks, PEAK + ROWS + ".", READ),
    Mistake("number-of-chunks", number_of_chunks_and_means, PEAK + ROWS + "; and chunks of different sizes do not "
            "count alike.", READ),
    Mistake("larger-chunks", eight_or_more, "The largest tensor of a call had {largest}: that is more than "
            "`chunk` rows at a time.", READ),
    Mistake("keeps-all-logits", whole, PEAK + HELD, READ),
    Mistake("keeps-all-logits", loop_only, PEAK + HELD, READ),
    Mistake("keeps-all-logits", kept_in_bytes, PEAK + HELD, READ),
    Mistake("keeps-all-logits", one_checkpoint, PEAK + HELD, READ),
    Mistake("no-weight-gradient", weight_detached, CUT + "the weight was cut off from the loss.", READ),
    Mistake("no-hidden-gradient", hidden_detached, CUT + "the hidden states were cut off from the loss.", READ),
    Mistake("no-gradient", without_graph, CUT + "the loss has no history, as under `no_grad` or after `.item()`.",
            READ),
    Mistake("drops-last-chunk", drops_last, LOSS + "the last rows, which do not fill a chunk, were left out.", READ),
    Mistake("drops-last-chunk", drops_last_keeps_count, LOSS + "the last rows, which do not fill a chunk, were left "
            "out of the sum.", READ),
    Mistake("sum-not-mean", summed, LOSS + "this is the sum over all rows, not the mean.", READ),
    Mistake("exp-overflows", by_exponentials, LOSS + "exp of a large logit is infinite; `F.cross_entropy` takes logits "
            "and knows how to avoid that.", READ),
    Mistake("ignores-grad-output", ignores_grad, CUT + "the gradient that arrives has to be passed on as a factor.",
            READ),
    Mistake("made-on-cpu", losses_on_cpu, MIXED, READ),
    # without the first of these: a number on the CPU mixes with any device
    *reading(READ, [*with_floats(right, 0)[1:], rounding(right)]),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    rows, chunk = draw.size(5, 30), draw.size(2, 7)
    strided = draw.normal(4, 2 * rows)[:, ::2].T
    return [
        rows_case(draw, "drawn sizes", rows, chunk, measured=True),
        rows_case(draw, "as many rows as a chunk", 6, 6),
        rows_case(draw, "one row", 1, chunk),
        case("strided hidden states", rtol=1e-3, hidden=strided, weight=draw.normal(7, 4),
             labels=draw.integers(0, 7, rows), chunk=chunk),
    ]  # fmt: skip


# Right answers unlike the reference


def by_function(hidden: Tensor, weight: Tensor, labels: Tensor, chunk: int) -> Tensor:
    result: Tensor = _Own.apply(hidden, weight, labels, chunk)
    return result


def by_closure(hidden: Tensor, weight: Tensor, labels: Tensor, chunk: int) -> Tensor:
    total = torch.zeros((), dtype=hidden.dtype, device=hidden.device)
    for start in range(0, labels.numel(), chunk):
        stop = start + chunk

        def loss(rows: Tensor, start: int = start, stop: int = stop) -> Tensor:
            logits = F.linear(rows, weight)
            wanted = logits.gather(1, labels[start:stop].unsqueeze(1)).squeeze(1)
            return (logits.logsumexp(1) - wanted).sum()

        total = total + again(loss, hidden[start:stop])
    return total.div(labels.numel())


RIGHT_ANSWERS: list[Callable[..., Any]] = [by_function, by_closure]
