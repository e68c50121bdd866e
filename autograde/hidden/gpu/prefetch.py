"""The exercise `prefetch`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from autograde.hidden.gpu.shared import move_by_match
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "On CUDA the copies have a stream of their own: only there can the next copy run while the caller "
    "computes, provided that the batches are pinned. Each stream waits where it needs the other. Elsewhere "
    "the copy is merely ordered early. A sentinel marks the end, so None may be a batch."
)
"""Why the reference is written as it is."""
REQUIRED = ("drops-last-batch", "not-ahead", "loads-everything")
"""The mistakes that a check must always be able to name."""


END = object()


def fetch(iterator: Iterator[Any], device: torch.device) -> Any:
    batch = next(iterator, END)
    return END if batch is END else move_by_match(batch, device)


def right(loader: Iterable[Any], device: torch.device) -> Iterator[Any]:
    iterator = iter(loader)
    present = fetch(iterator, device)
    while present is not END:
        following = fetch(iterator, device)
        yield present
        present = following


def drops_the_last_batch(loader: Iterable[Any], device: torch.device) -> Iterator[Any]:
    iterator = iter(loader)
    present = fetch(iterator, device)
    while (following := fetch(iterator, device)) is not END:
        yield present
        present = following


def hands_out_the_last_twice(loader: Iterable[Any], device: torch.device) -> Iterator[Any]:
    last: Any = END
    for last in right(loader, device):
        yield last
    if last is not END:
        yield last


def skips_the_first_batch(loader: Iterable[Any], device: torch.device) -> Iterator[Any]:
    iterator = iter(loader)
    fetch(iterator, device)
    yield from right(iterator, device)


def copies_late(loader: Iterable[Any], device: torch.device) -> Iterator[Any]:
    iterator = iter(loader)
    present = next(iterator, END)
    while present is not END:
        following = next(iterator, END)
        yield move_by_match(present, device)
        present = following


def never_moves(loader: Iterable[Any], device: torch.device) -> Iterator[Any]:
    iterator = iter(loader)
    present = next(iterator, END)
    while present is not END:
        following = next(iterator, END)
        yield present
        present = following


def takes_a_first_batch_for_granted(loader: Iterable[Any], device: torch.device) -> Iterator[Any]:
    iterator = iter(loader)
    present = move_by_match(next(iterator), device)
    while present is not END:
        following = fetch(iterator, device)
        yield present
        present = following


def asks_for_the_length(loader: Any, device: torch.device) -> Iterator[Any]:
    iterator, count = iter(loader), len(loader)
    present = fetch(iterator, device)
    for _ in range(count):
        following = fetch(iterator, device)
        yield present
        present = following


def takes_none_for_the_end(loader: Iterable[Any], device: torch.device) -> Iterator[Any]:
    iterator = iter(loader)
    present = move_by_match(next(iterator, None), device)
    while present is not None:
        following = move_by_match(next(iterator, None), device)
        yield present
        present = following


def loses_namedtuples(loader: Iterable[Any], device: torch.device) -> Iterator[Any]:
    for batch in right(loader, device):
        yield tuple(batch) if hasattr(batch, "_fields") else batch


def makes_namedtuples_from_one_list(loader: Iterable[Any], device: torch.device) -> Iterator[Any]:
    for batch in right(loader, device):
        yield type(batch)(list(batch)) if isinstance(batch, tuple) else batch


def not_ahead(loader: Iterable[Any], device: torch.device) -> Iterator[Any]:
    for batch in loader:
        yield move_by_match(batch, device)


def all_at_once(loader: Iterable[Any], device: torch.device) -> Iterator[Any]:
    yield from [move_by_match(batch, device) for batch in loader]


def all_taken_at_once(loader: Iterable[Any], device: torch.device) -> Iterator[Any]:
    yield from right(list(loader), device)


AHEAD = "Copying ahead"
COUNT = 'In the case "{case}" the loader has {total} batches, and {count} came out: '
MISTAKES = [
    Mistake("drops-last-batch", drops_the_last_batch, COUNT + "when there is no next one to copy, the present one "
            "still has to be handed out.", AHEAD),
    Mistake("copies-late", copies_late, "Batches copied: {copied_ahead}. The next batch is taken from the loader in "
            "time, but its copy starts too late.", AHEAD),
    Mistake("raises-on-empty-loader", takes_a_first_batch_for_granted, 'In the case "{case}" the generator failed: '
            "either `next` was called without a default, so that the end of the loader became an error, or a first "
            "batch was taken for granted in some other way.", AHEAD),
    Mistake("asks-for-the-length", asks_for_the_length, "In the case \"{case}\" the generator failed: a loader is "
            "whatever can be iterated over, and need not have a length. Its end shows when `next` finds no more.",
            AHEAD),
    Mistake("namedtuple-lost", loses_namedtuples, 'In the case "{case}" the batches came out as {got}, and should '
            "still be namedtuples: move them as `move_to` does.", AHEAD),
    Mistake("namedtuple-lost", makes_namedtuples_from_one_list, "In the case \"{case}\" the generator failed: a "
            "namedtuple takes its fields one by one. Move batches as `move_to` does.", AHEAD),
    Mistake("takes-none-for-the-end", takes_none_for_the_end, COUNT + "a batch may be None, which `move_to` passes "
            "through, so None cannot mark the end. An object made for the purpose can, as in `next(iterator, end)`.",
            AHEAD),
    Mistake("hands-out-last-twice", hands_out_the_last_twice, COUNT + "the last one was handed out twice.", AHEAD),
    Mistake("skips-first-batch", skips_the_first_batch, COUNT + "the first one was taken and never handed out.",
            AHEAD),
    Mistake("leaves-batches-on-cpu", never_moves, "The batches that came out are on {places}: they were not moved to "
            "the device.", AHEAD),
    Mistake("not-ahead", not_ahead, "Batches taken: {taken_ahead}. The next one has to be on its way by then.", AHEAD),
    Mistake("loads-everything", all_at_once, "Batches taken: {taken_ahead}. Copy only the next one ahead; more of "
            "them, or all, take memory on the device.", AHEAD),
    Mistake("loads-everything", all_taken_at_once, "Batches taken: {taken_ahead}. Batches that were taken before "
            "the first step wait in memory; only the next one is needed.", AHEAD),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    like: dict[str, Any] = {"like": torch.zeros(1)}
    count = draw.size(9, 12)
    nested = [{"x": [draw.normal(2), draw.normal(1)], "y": draw.integers(0, 3, 2)} for _ in range(5)]
    return [
        case("many batches", batches=[(draw.normal(3), draw.integers(0, 2, 3)) for _ in range(count)], **like),
        case("lists in dicts", batches=nested, **like),
        case("one tensor", batches=[draw.normal(2)], **like),
        case("batches of zeros", batches=[torch.zeros(2), torch.zeros(1), torch.zeros(0), torch.ones(1)], **like),
    ]


# Right answers unlike the reference


def sent(batch: Any, device: torch.device) -> Any:
    return move_by_match(batch, device)


def prefetch_with_a_queue(loader: Iterable[Any], device: torch.device) -> Iterator[Any]:
    waiting: deque[Any] = deque()
    for batch in loader:
        waiting.append(sent(batch, device))
        if len(waiting) > 1:
            yield waiting.popleft()
    while waiting:
        yield waiting.popleft()


def prefetch_with_a_loop(loader: Iterable[Any], device: torch.device) -> Iterator[Any]:
    iterator = iter(loader)
    try:
        present = sent(next(iterator), device)
    except StopIteration:
        return
    for batch in iterator:
        following = sent(batch, device)
        yield present
        present = following
    yield present


class PrefetchOfClass:
    def __init__(self, loader: Iterable[Any], device: torch.device) -> None:
        self.batches, self.device = iter(loader), device
        self._load()

    def _load(self) -> None:
        self.following = [sent(batch, self.device) for batch in (next(self.batches, END),) if batch is not END]

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if not self.following:
            raise StopIteration
        (present,) = self.following
        self._load()
        return present


def prefetch_pairwise(loader: Iterable[Any], device: torch.device) -> Iterator[Any]:
    batches = (sent(batch, device) for batch in loader)
    for present, _following in itertools.pairwise(itertools.chain(batches, [None])):
        yield present


def prefetch_two(loader: Iterable[Any], device: torch.device) -> Iterator[Any]:
    """Two ahead: more than asked for, and still no more than three batches at once."""
    waiting: deque[Any] = deque()
    for batch in loader:
        waiting.append(sent(batch, device))
        if len(waiting) > 2:
            yield waiting.popleft()
    yield from waiting


RIGHT_ANSWERS: list[Callable[..., Any]] = [
    prefetch_with_a_queue,
    prefetch_with_a_loop,
    PrefetchOfClass,
    prefetch_pairwise,
    prefetch_two,
]
