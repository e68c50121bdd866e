"""What demonstrations run on a rank. It imports little, because every rank imports it anew."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

__all__ = ["Span", "every_collective", "recorded", "span"]

Span = tuple[str, float, float]
"""What a rank did, and from when to when, in seconds."""
_spans: list[Span] = []


@contextlib.contextmanager
def span(name: str) -> Iterator[None]:
    """Record that this rank spends the block on `name`, "work" or "exchange"."""
    begun = time.monotonic()
    try:
        yield
    finally:
        _spans.append((name, begun, time.monotonic()))


def recorded(function: Callable[[], object]) -> list[Any]:
    """Call a function when all ranks are ready, and return the spans that it records."""
    dist.barrier()
    _spans.clear()
    function()
    return [list(one) for one in _spans]


def every_collective() -> dict[str, tuple[Tensor, Tensor]]:
    """Run each collective on this rank; return what it held before and after."""
    size = dist.get_world_size()
    rank = dist.get_rank()
    mine = torch.arange(size) + 10 * (rank + 1)
    found: dict[str, tuple[Tensor, Tensor]] = {}

    def note(name: str, before: Tensor, after: Tensor) -> None:
        found[name] = before.clone(), after.clone()

    note("broadcast from 0", mine, _changed(mine, lambda t: dist.broadcast(t, 0)))
    note("reduce to 0", mine, _changed(mine, lambda t: dist.reduce(t, 0)) if rank == 0 else _reduced_away(mine))
    note("all_reduce", mine, _changed(mine, dist.all_reduce))
    parts = [torch.empty(1, dtype=mine.dtype) for _ in range(size)]
    dist.all_gather(parts, mine[:1].clone())
    note("all_gather", mine[:1], torch.cat(parts))
    chunk = torch.empty(1, dtype=mine.dtype)
    dist.reduce_scatter_tensor(chunk, mine.clone())
    note("reduce_scatter", mine, chunk)
    swapped = torch.empty_like(mine)
    dist.all_to_all_single(swapped, mine.clone())
    note("all_to_all", mine, swapped)
    return found


def _changed(tensor: Tensor, call: Callable[[Tensor], object]) -> Tensor:
    copy = tensor.clone()
    call(copy)
    return copy


def _reduced_away(tensor: Tensor) -> Tensor:
    """Take part in a reduce to another rank, after which this rank's tensor is undefined: show what it had."""
    dist.reduce(tensor.clone(), 0)
    return tensor
