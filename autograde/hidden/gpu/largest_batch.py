"""The exercise `largest_batch`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch

from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "Doubling finds a size that fails in few runs, and halving the gap finds the border: some 2 log n runs in "
    "all. Only `OutOfMemoryError` means too large; any other exception is a bug and comes out. The size that "
    "fits is remembered, so the answer has been run."
)
"""Why the reference is written as it is."""
REQUIRED = ("linear-search", "swallows-other-errors", "off-by-one")
"""The mistakes that a check must always be able to name."""


Run = Callable[[int], object]


class Search:
    """A right search, as an object that is called. Each subclass below is this one with one thing written otherwise."""

    too_large: type[Exception] | tuple[type[Exception], ...] = torch.OutOfMemoryError

    def __call__(self, run: Run, start: int, limit: int) -> int:
        good, bad, size = self.known_to_fit(start), limit + 1, start
        while bad - good > 1:
            if self.fits(run, size):
                good = size
            else:
                bad = size
            size = max(good + 1, min(2 * good, limit)) if bad > limit else (good + bad) // 2
        return good

    def known_to_fit(self, start: int) -> int:
        return 0

    def fits(self, run: Run, size: int) -> bool:
        try:
            run(size)
        except self.too_large:
            return False
        return True


class SwallowsRuntimeErrors(Search):
    too_large = RuntimeError


class SwallowsEverything(Search):
    too_large = Exception


class CatchesMemoryError(Search):
    too_large = MemoryError


class CatchesMemoryErrorToo(Search):
    too_large = (torch.OutOfMemoryError, MemoryError)


class ReadsTheMessage(Search):
    def fits(self, run: Run, size: int) -> bool:
        try:
            run(size)
        except RuntimeError as error:
            if "out of memory" not in str(error):
                raise
            return False
        return True


class BelievesTheWords(Search):
    def fits(self, run: Run, size: int) -> bool:
        try:
            run(size)
        except RuntimeError as error:
            if not isinstance(error, torch.OutOfMemoryError) and "memory" not in str(error).lower():
                raise
            return False
        return True


class RunsZero(Search):
    def __call__(self, run: Run, start: int, limit: int) -> int:
        low, high, size = -1, limit + 1, start
        while high - low > 1:
            low, high = (size, high) if self.fits(run, size) else (low, size)
            size = (low + high) // 2
        return max(low, 0)


class TrustsTheStart(Search):
    def known_to_fit(self, start: int) -> int:
        return start


class TrustsHalfTheStart(Search):
    def known_to_fit(self, start: int) -> int:
        return start // 2


class GivesUpAtStart(Search):
    def __call__(self, run: Run, start: int, limit: int) -> int:
        return super().__call__(run, start, limit) if self.fits(run, start) else 0


class OneTooSmall(Search):
    def __call__(self, run: Run, start: int, limit: int) -> int:
        return max(super().__call__(run, start, limit) - 1, 0)


class OneTooLarge(Search):
    def __call__(self, run: Run, start: int, limit: int) -> int:
        return super().__call__(run, start, limit) + 1


class TakesOneForGranted(Search):
    def __call__(self, run: Run, start: int, limit: int) -> int:
        return max(super().__call__(run, start, limit), 1)


class NeverTriesTheLimit(Search):
    def __call__(self, run: Run, start: int, limit: int) -> int:
        return super().__call__(run, start, limit - 1)


class IgnoresTheLimit(Search):
    def __call__(self, run: Run, start: int, limit: int) -> int:
        return super().__call__(run, start, 1 << 14)


class GoesToTwiceTheLimit(Search):
    def __call__(self, run: Run, start: int, limit: int) -> int:
        return super().__call__(run, start, 2 * limit)


fits = Search().fits


def only_halves(run: Run, start: int, limit: int) -> int:
    size = start
    while size and not fits(run, size):
        size //= 2
    return size


def halves_or_doubles(run: Run, start: int, limit: int) -> int:
    size = only_halves(run, start, limit)
    while start <= size < limit and fits(run, min(2 * size, limit)):
        size = min(2 * size, limit)
    return size


def doubles_to_the_last_that_fits(run: Run, start: int, limit: int) -> int:
    size, best = start, 0
    while size <= limit and fits(run, size):
        best, size = size, 2 * size
    return best


def doubles_to_the_first_that_does_not(run: Run, start: int, limit: int) -> int:
    size = start
    while size <= limit and fits(run, size):
        size *= 2
    return size


def doubles_too_far_but_for_the_limit(run: Run, start: int, limit: int) -> int:
    return min(doubles_to_the_first_that_does_not(run, start, limit), limit)


def one_by_one(run: Run, start: int, limit: int) -> int:
    size = 0
    while size < limit and fits(run, size + 1):
        size += 1
    return size


def one_more_from_the_start(run: Run, start: int, limit: int) -> int:
    size = start
    while size <= limit and fits(run, size):
        size += 1
    return size - 1


def one_less_each_time(run: Run, start: int, limit: int) -> int:
    return next((size for size in range(limit, 0, -1) if fits(run, size)), 0)


MEMORY = "Out of memory"
RESULT = 'In the case "{case}" the answer is {result} where {wanted_result} is right: '
MANY = (
    'In the case "{case}" there were {calls}: either one size after the other was tried, or the same size again and '
    "again."
)
UNTRIED = RESULT + "a batch of that size {fits}. The start is a guess, and neither it nor half of it has to fit."
BETWEEN = RESULT + "there are sizes left to try between the last that fitted and the first that did not."
BEYOND = RESULT + "the answer may not be larger than `limit`."
DOES_NOT_FIT = RESULT + "a batch of that size {fits}, and the largest that does is wanted."
SWALLOWED = 'In the case "{case}" the answer is {result}, and the model\'s own {wanted_error} never came out: '
MISTAKES = [
    Mistake("reads-the-message", ReadsTheMessage(), "In the case \"{case}\" the search ended with "
            "torch.OutOfMemoryError: the wording of an error differs from device to device; ask for its "
            "class, torch.OutOfMemoryError.", MEMORY),
    Mistake("runs-zero", RunsZero(), 'In the case "{case}" a size of 0 or less was tried: an empty batch always fits, '
            "or fails in a way of its own, so the search starts at 1.", MEMORY),
    Mistake("swallows-other-errors", SwallowsRuntimeErrors(), SWALLOWED + "only torch.OutOfMemoryError means that a "
            "batch is too large.", MEMORY),
    Mistake("believes-the-words", BelievesTheWords(), SWALLOWED + "its message speaks of memory, but it is about "
            "something else. Only the class torch.OutOfMemoryError means that a batch is too large.", MEMORY),
    Mistake("catches-memory-error-too", CatchesMemoryErrorToo(), SWALLOWED + "`MemoryError` is Python's own and means "
            "that the host has no memory left. Only torch.OutOfMemoryError says that a batch is too large.", MEMORY),
    Mistake("off-by-one", OneTooSmall(), RESULT + "the last size that fitted is one larger.", MEMORY),
    Mistake("ignores-the-limit", IgnoresTheLimit(), BEYOND, MEMORY),
    Mistake("trusts-the-start", TrustsTheStart(), UNTRIED, MEMORY),
    Mistake("only-doubles", halves_or_doubles, BETWEEN, MEMORY),
    Mistake("gives-up-at-start", GivesUpAtStart(), RESULT + "if the start does not fit, smaller sizes may.", MEMORY),
    Mistake("ignores-the-limit", GoesToTwiceTheLimit(), BEYOND, MEMORY),
    Mistake("trusts-the-start", TrustsHalfTheStart(), UNTRIED, MEMORY),
    Mistake("only-doubles", doubles_to_the_last_that_fits, BETWEEN, MEMORY),
    Mistake("returns-what-did-not-fit", doubles_to_the_first_that_does_not, DOES_NOT_FIT, MEMORY),
    Mistake("returns-what-did-not-fit", doubles_too_far_but_for_the_limit, DOES_NOT_FIT, MEMORY),
    Mistake("off-by-one", OneTooLarge(), RESULT + "that is the first size that did not fit.", MEMORY),
    Mistake("takes-one-for-granted", TakesOneForGranted(), RESULT + "a batch of 1 {fits} either. Where nothing does, "
            "the answer is 0.", MEMORY),
    Mistake("off-by-one", NeverTriesTheLimit(), RESULT + "the limit itself is never tried.", MEMORY),
    Mistake("swallows-other-errors", SwallowsEverything(), SWALLOWED + "an `except` that takes more than "
            "torch.OutOfMemoryError hides a broken model.", MEMORY),
    Mistake("catches-another-class", CatchesMemoryError(), 'The case "{case}" shows that the wrong class is caught: '
            "`MemoryError` is Python's own, and torch.OutOfMemoryError, which says that a batch is too large, is not "
            "a subclass of it.", MEMORY),
    Mistake("only-halves", only_halves, RESULT + "the start is a guess; where it fits, larger sizes may fit too.",
            MEMORY),
    Mistake("linear-search", one_by_one, MANY, MEMORY),
    Mistake("linear-search", one_less_each_time, MANY, MEMORY),
    Mistake("linear-search", one_more_from_the_start, MANY, MEMORY),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    def drawn(name: str, start: int, limit: int, capacity: int, error: str = "", breaks_at: int = 0) -> Case:
        return case(name, start=start, limit=limit, capacity=capacity, error=error, breaks_at=breaks_at)

    limit = draw.size(300, 2000)
    return [
        *(drawn(f"drawn {i}", draw.size(1, limit), limit, draw.size(0, limit + 5)) for i in range(6)),
        drawn("a limit of one that fits", 1, 1, 9),
        drawn("a limit of one that does not", 1, 1, 0),
        drawn("the start is the limit", limit, limit, limit - 1),
        drawn("the start is the limit, and fits", limit, limit, limit),
        drawn("a limit of 1024, almost all of it", 1, 1024, 1023),
        drawn("a limit of 4095", 1, 4095, 4094),
        drawn("another error", draw.size(1, 8), 256, 256, "KeyError", 0),
    ]


# Right answers unlike the reference


def largest_by_bisection(run: Callable[[int], object], start: int, limit: int) -> int:
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        try:
            run(middle)
            low = middle
        except torch.OutOfMemoryError:
            high = middle - 1
    return low


def largest_by_bits(run: Callable[[int], object], start: int, limit: int) -> int:
    best = 0
    for bit in reversed(range(limit.bit_length())):
        size = best + (1 << bit)
        if size > limit:
            continue
        try:
            run(size)
        except torch.cuda.OutOfMemoryError:
            continue
        best = size
    return best


def largest_by_doubling_past_the_limit(run: Callable[[int], object], start: int, limit: int) -> int:
    """Tries a size beyond the limit on its way, which nobody forbids, and returns none."""
    low, high = 0, 1
    with contextlib.suppress(torch.OutOfMemoryError):
        while low < limit:
            run(high)
            low, high = high, 2 * high
    high = min(high, limit + 1)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            run(middle)
            low = middle
        except torch.OutOfMemoryError:
            high = middle
    return min(low, limit)


def largest_from_start(run: Callable[[int], object], start: int, limit: int) -> int:
    def too_large(size: int) -> bool:
        try:
            run(size)
            return False
        except RuntimeError as error:
            if not isinstance(error, torch.OutOfMemoryError):
                raise
            return True

    size = min(start, limit)
    if too_large(size):
        fits, fails = 0, size
    else:
        fits, fails = size, limit + 1
        while fits < limit:
            size = min(fits * 2, limit)
            if too_large(size):
                fails = size
                break
            fits = size
    while fails - fits > 1:
        size = fits + (fails - fits) // 2
        if too_large(size):
            fails = size
        else:
            fits = size
    return fits


RIGHT_ANSWERS: list[Callable[..., Any]] = [
    largest_by_bisection,
    largest_by_bits,
    largest_by_doubling_past_the_limit,
    largest_from_start,
]
