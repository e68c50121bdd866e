"""The exercise `checkpointed`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import checkpoint as ckpt
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from autograde.hidden.common import one
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "Each block keeps its input and computes the rest again in backward: memory for one block at a time, for "
    "about a third more time. The variant that is not reentrant also works where the input needs no gradient, "
    "and inside `torch.autograd.grad`."
)
"""Why the reference is written as it is."""
REQUIRED = ("stores-everything", "loses-gradient")
"""The mistakes that a check must always be able to name."""


Blocks = Iterable[nn.Module]


def rerun(blocks: Blocks, x: Tensor, **otherwise: Any) -> Any:
    """A right answer, but for what `otherwise` hands to `checkpoint`."""
    for block in blocks:
        x = checkpoint(block, x, **({"use_reentrant": False} | otherwise))
    return x


def in_segments(blocks: Blocks, x: Tensor, count: int = 0, **otherwise: Any) -> Any:
    """`checkpoint_sequential` in `count` segments, or one for each block."""
    blocks = list(blocks)
    segments = min(count or len(blocks), len(blocks))
    in_order: Any = checkpoint_sequential
    return in_order(blocks, segments, x, **({"use_reentrant": False} | otherwise))


def stores_everything(blocks: Blocks, x: Tensor) -> Any:
    for block in blocks:
        x = block(x)
    return x


def stores_it_in_eval_mode(blocks: Blocks, x: Tensor) -> Any:
    for block in blocks:
        x = rerun([block], x) if block.training else block(x)
    return x


def looks_up_the_block_late(blocks: Blocks, x: Tensor) -> Any:
    for block in blocks:
        x = checkpoint(lambda inner: block(inner), x, use_reentrant=False)  # noqa: B023 - this is the mistake
    return x


def keeps_it_in_bytes(blocks: Blocks, x: Tensor) -> Any:
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
        return stores_everything(blocks, x)


def leaves_out_the_last(blocks: Blocks, x: Tensor) -> Any:
    return rerun(list(blocks)[:-1], x)


def under_no_grad(blocks: Blocks, x: Tensor) -> Any:
    with torch.no_grad():
        return rerun(blocks, x)


def detaches_after_the_first(blocks: Blocks, x: Tensor) -> Any:
    first, *others = blocks
    return rerun(others, rerun([first], x).detach())


def detaches_the_input(blocks: Blocks, x: Tensor, **otherwise: Any) -> Any:
    return rerun(blocks, x.detach().requires_grad_(), **otherwise)


def wakes_x(blocks: Blocks, x: Tensor) -> Any:
    return rerun(blocks, x.requires_grad_(), use_reentrant=True)


def by_number(blocks: Any, x: Tensor) -> Any:
    for number in range(len(blocks)):
        x = checkpoint(blocks[number], x, use_reentrant=False)
    return x


TWICE = "Checkpointing: compute it twice"
STORES = 'In the case "{case}" what is kept for backward takes {bytes}: '
LOSES = 'In the case "{case}" {lost}: '
SEGMENTS = LOSES + (
    "the reentrant kind of `checkpoint` gives the parameters no gradients where its input needs none, and "
    "`checkpoint_sequential` with use_reentrant=True uses it for all segments but the last."
)
CUT_OFF = (
    LOSES + "`x` was cut off from the graph before the blocks ran, as by `detach`, so no gradient gets back to it."
)
OTHERS = (
    'In the case "{case}" the gradients differ from those without checkpointing: the second run of a block dropped '
    "different entries from the first run. `checkpoint` restores the random state unless it is told not to."
)
MISTAKES = [
    one("stores-everything", stores_everything, STORES + "the blocks ran as usual, and everything "
        "inside them was kept.", TWICE),
    one("in-training-mode-only", stores_it_in_eval_mode, 'In the case "{case}" the blocks are in eval mode, and what '
        "is kept for backward takes {bytes}: gradients may be wanted in that mode as well, so checkpoint in both.",
        TWICE),
    one("keeps-it-elsewhere", keeps_it_in_bytes, 'In the case "{case}" the tensors that are kept for backward take '
        "{bytes}, but the rest was put elsewhere: bytes, lists and files take room just as tensors do.", TWICE),
    Mistake("changes-x", wakes_x, 'In the case "{case}" `x.requires_grad` was {got} by the call, and should be {want}: '
            "x is the caller's, and `use_reentrant=False` gives gradients without changing it.", TWICE),
    Mistake("needs-a-list", by_number, "In the case \"{case}\" the call raised {error}: `blocks` may be anything that "
            "can be iterated over, so walk through it.", TWICE),
    one("loses-gradient", rerun, LOSES + "the reentrant kind of `checkpoint` gives the parameters no gradients where "
        "its input needs none.", TWICE,
        use_reentrant=True),
    one("dropout-not-repeated", rerun, OTHERS, TWICE, preserve_rng_state=False),
    one("repeats-the-last-block", looks_up_the_block_late, 'In the case "{case}", `{what}` came out as {got} where '
        "{want} is wanted: a lambda looks up `block` when it runs, and in backward that is the last one of the loop.",
        TWICE),
    one("loses-gradient", in_segments, SEGMENTS, TWICE, use_reentrant=True),
    one("dropout-not-repeated", in_segments, OTHERS, TWICE, preserve_rng_state=False),
    one("loses-gradient", in_segments, SEGMENTS, TWICE, use_reentrant=True, count=2),
    one("loses-gradient", under_no_grad, LOSES + "under `no_grad` nothing is recorded, and from a result that was "
        "detached nothing leads back.", TWICE),
    one("loses-gradient", detaches_after_the_first, LOSES + "`detach` cuts the graph, and what comes before the cut "
        "gets no gradient.", TWICE),
    one("loses-gradient", detaches_the_input, CUT_OFF, TWICE),
    one("loses-gradient", detaches_the_input, CUT_OFF, TWICE, use_reentrant=True),
    one("stores-everything", in_segments, STORES + "checkpoint_sequential runs its last segment as it is, and with one "
        "segment that is all of it.", TWICE, count=1),
    one("leaves-out-a-block", leaves_out_the_last, 'In the case "{case}" the result is {got} where {want} is wanted: a '
        "block is missing.", TWICE),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    def drawn(name: str, count: int, dropout: float = 0.0, followed: bool = True, **more: Any) -> Case:
        x = draw.normal(draw.size(14, 18), draw.size(3, 6), **more)
        return case(name, x=x, count=count, dropout=dropout, followed=followed, once=False)

    return [
        drawn("six blocks", 6),
        drawn("five blocks, x that needs no gradient", 5, followed=False),
        drawn("much dropout", 4, dropout=0.8),
        drawn("float64 and dropout", 3, dropout=0.2, dtype=torch.float64),
    ]


# Right answers unlike the reference


def checkpointed_by_lambda(blocks: Iterable[nn.Module], x: Tensor) -> Tensor:
    for block in blocks:
        x = ckpt.checkpoint(lambda inner, block=block: block(inner), x, use_reentrant=False, preserve_rng_state=True)
    return x


def checkpointed_in_segments(blocks: Iterable[nn.Module], x: Tensor) -> Tensor:
    blocks = list(blocks)
    return ckpt.checkpoint_sequential(blocks, len(blocks), x, use_reentrant=False)  # type: ignore[no-any-return, no-untyped-call]


def checkpointed_in_pairs(blocks: Iterable[nn.Module], x: Tensor) -> Tensor:
    def pair(inner: Tensor, *both: nn.Module) -> Tensor:
        for block in both:
            inner = block(inner)
        return inner

    blocks = list(blocks)
    for start in range(0, len(blocks), 2):
        x = ckpt.checkpoint(pair, x, *blocks[start : start + 2], use_reentrant=False)
    return x


def checkpointed_as_a_whole(blocks: Iterable[nn.Module], x: Tensor) -> Tensor:
    blocks = list(blocks)  # they run twice

    def run(inner: Tensor) -> Tensor:
        return functools.reduce(lambda value, block: block(value), blocks, inner)

    return ckpt.checkpoint(run, x, use_reentrant=False)


def checkpointed_the_old_way(blocks: Iterable[nn.Module], x: Tensor) -> Tensor:
    x = x if x.requires_grad else x.detach().requires_grad_()
    for block in blocks:
        x = ckpt.checkpoint(block, x, use_reentrant=True)
    return x


RIGHT_ANSWERS: list[Callable[..., Any]] = [
    checkpointed_by_lambda,
    checkpointed_in_segments,
    checkpointed_in_pairs,
    checkpointed_as_a_whole,
    checkpointed_the_old_way,
]
