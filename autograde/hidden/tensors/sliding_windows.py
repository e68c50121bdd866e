"""The exercise `sliding_windows`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograde.hidden.common import COPIES, ERRORS, NUMPY_ONLY, with_numpy, writing_into
from autograde.hidden.tensors.shared import SAYS_LITTLE
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "A window that starts one step later begins `step` strides further on, and its entries lie one stride "
    "apart: two numbers describe all windows, and nothing is copied. The offset has to be handed on, because "
    "`x` may itself begin in the middle of its storage."
)
"""Why the reference is written as it is."""
REQUIRED = ("copies-data", "drops-last-window", "runs-past-end", "ignores-stride")
"""The mistakes that a check must always be able to name."""

BY_HAND = "Building a view by hand"


def refusing(error: Callable[[str], Exception]) -> Callable[..., None]:
    """Return a check of the arguments that raises `error("size is 0, wanted 1 to n")`, and so on."""

    def check(x: Tensor, size: int, step: int) -> None:
        if not 1 <= size <= len(x):
            raise error(f"size is {size}, wanted 1 to n")
        if step < 1:
            raise error(f"step is {step}, wanted at least 1")

    return check


def both_named(x: Tensor, size: int, step: int) -> None:
    if size < 1 or size > len(x) or step < 1:
        raise ValueError(f"bad size or step: {size} {step}")


check = refusing(ValueError)


def sliding(count: Callable[[int, int, int], int], check: Callable[..., None] = check) -> Any:
    """Return a right program but for the number of windows, `count(n, size, step)`, and the `check` of arguments."""

    def windows(x: Tensor, size: int, step: int = 1) -> Tensor:
        check(x, size, step)
        stride = x.stride(0)
        return x.as_strided((count(len(x), size, step), size), (step * stride, stride), x.storage_offset())

    return windows


def right_count(n: int, size: int, step: int) -> int:
    return (n - size) // step + 1


sliding_windows = sliding(right_count)


def cut(x: Tensor, size: int, step: int = 1) -> list[Tensor]:
    check(x, size, step)
    return [x[begin : begin + size] for begin in range(0, len(x) - size + 1, step)]


def stacked_up_to_the_last(x: Tensor, size: int, step: int = 1) -> Tensor:
    check(x, size, step)
    return torch.stack([x[begin : begin + size] for begin in range(0, len(x) - size, step)])


def ignores_stride(x: Tensor, size: int, step: int = 1) -> Tensor:
    check(x, size, step)
    return x.as_strided((right_count(len(x), size, step), size), (step, 1), x.storage_offset())


def ignores_offset(x: Tensor, size: int, step: int = 1) -> Tensor:
    check(x, size, step)
    return x.as_strided((right_count(len(x), size, step), size), (step * x.stride(0), x.stride(0)), 0)


def strides_swapped(x: Tensor, size: int, step: int = 1) -> Tensor:
    check(x, size, step)
    stride = x.stride(0)
    return x.as_strided((right_count(len(x), size, step), size), (stride, step * stride), x.storage_offset())


def ignores_step(x: Tensor, size: int, step: int = 1) -> Any:
    check(x, size, step)
    return sliding_windows(x, size)


def whole_length_refused(x: Tensor, size: int, step: int = 1) -> Any:
    if size == len(x):
        raise ValueError(f"size is {size}, out of range")
    return sliding_windows(x, size, step)


COPIED = (
    'In the case "{case}" the {what} were {got} where {want} is wanted: the windows are a copy and not a view of x.'
)
WRONG_KIND = 'In the case "{case}" a ValueError is wanted; the outcome was {refused}.'
DROPS = "There are {windows} windows and should be {wanted_windows}: the last one, {wanted_last}, still fits."
PAST = (
    "In the case \"{case}\" with n = {n} and step {step}, {wanted_windows} windows fit, the last of them being "
    "{wanted_last}; the answer has more, and their elements lie past the end of x."
)  # fmt: skip
MISTAKES = [
    Mistake("copies-data", lambda x, size, step=1: torch.stack(cut(x, size, step)), COPIED, BY_HAND),
    Mistake("returns-a-list", cut, "In the case \"{case}\" the answer returned {returned}: the windows together should "
            "be a single tensor.", BY_HAND),
    Mistake("drops-last-window", sliding(lambda n, size, step: (n - size) // step), DROPS, BY_HAND),
    Mistake("drops-last-window", sliding(lambda n, size, step: len(range(0, n - size, step))), DROPS, BY_HAND),
    Mistake("drops-last-window", stacked_up_to_the_last, DROPS, BY_HAND),
    Mistake("runs-past-end", sliding(lambda n, size, step: (n - size) // step + 2), PAST, BY_HAND),
    Mistake("runs-past-end", sliding(lambda n, _size, step: n // step), PAST, BY_HAND),
    Mistake("runs-past-end", sliding(lambda n, size, step: math.ceil((n - size) / step) + 1), PAST, BY_HAND),
    Mistake("runs-past-end", sliding(lambda n, size, _step: n - size + 1), PAST, BY_HAND),
    Mistake("ignores-stride", ignores_stride, "The first window is {first} and should be {wanted_first}: neighbours in "
            "x lie {stride} apart in storage, and a stride of 1 was assumed.", BY_HAND),
    Mistake("ignores-offset", ignores_offset, "The first window is {first} and should be {wanted_first}: x begins at "
            "element {offset} of its storage, and the windows begin at 0.", BY_HAND),
    Mistake("ignores-step", ignores_step, "There are {windows} windows and should be {wanted_windows}: with step "
            "{step}, a window starts {step} entries after the one before it.", BY_HAND),
    Mistake("strides-swapped", strides_swapped, "The value at {at} is {got_at} and should be {want_at}: the first "
            "stride leads to the next window, the second to the next entry within a window.", BY_HAND),
    Mistake("rows-and-columns-swapped", lambda x, size, step=1: sliding_windows(x, size, step).t(), "The result has "
            "shape {got_shape} where {want_shape} is wanted: a window is a row.", BY_HAND),
    Mistake("bad-arguments-accepted", sliding(right_count, lambda *_: None), WRONG_KIND, BY_HAND),
    Mistake("whole-length-refused", whole_length_refused, "In the case \"{case}\" with n = {n} the call raised "
            "{error}: a window may be as long as x.", BY_HAND),
    *(Mistake("wrong-exception", sliding(right_count, refusing(kind)), WRONG_KIND, BY_HAND)
      for kind in (RuntimeError, AssertionError, TypeError, IndexError, Exception)),
    *(Mistake("message-says-too-little", sliding(right_count, refusing(error)), SAYS_LITTLE, BY_HAND)
      for error in (
          lambda _says: ValueError("out of range"),
          lambda says: ValueError("bad " + says.split()[0]),
          lambda says: ValueError("bad " + says.split()[2].strip(",")),
          lambda says: ValueError(says.split(",")[0]),
          lambda says: ValueError(says.split()[0] + ":" + says.split(",")[1]),
      )),
    Mistake("message-says-too-little", sliding(right_count, both_named), SAYS_LITTLE, BY_HAND),
    Mistake("made-on-cpu", with_numpy(sliding_windows), NUMPY_ONLY, ERRORS),
    Mistake("changes-its-input", writing_into(0, sliding_windows), "In the case "
            "\"{case}\" `{what}` is {got} where {want} is wanted: an operation that works in place wrote into the "
            "caller's own tensor.", COPIES),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    n, size, step = draw.size(12, 20), draw.size(2, 5), draw.size(2, 4)
    common: dict[str, Any] = {"refused": ""}
    return [
        case("drawn size and step", **common, x=draw.normal(n), size=size, step=step),
        case("a step wider than the window", **common, x=draw.normal(n), size=2, step=5),
        case("a strided middle", **common, x=draw.normal(3 * n)[2:-3:3], size=size, step=step),
        case("integers", **common, x=draw.integers(0, 99, n), size=size, step=None),
        case("one number, expanded", **common, x=draw.normal(1).expand(n), size=size, step=step),
        case("a negative size", x=draw.normal(n), size=-2, step=1, refused="size"),
        case("size far too large", x=draw.normal(n), size=n + 77, step=2, refused="size"),
    ]


# Right answers unlike the reference


def _check_windows(n: int, size: int, step: int) -> None:
    for name, got, good, wanted in (
        ("size", size, 0 < size <= n, f"an integer from 1 to {n}"),
        ("step", step, step > 0, "a positive integer"),
    ):
        if not good:
            raise ValueError(f"{name}: got {got}, want {wanted}")


def windows_by_strides(x: Tensor, size: int, step: int = 1) -> Tensor:
    (n,), (stride,) = x.shape, x.stride()
    _check_windows(n, size, step)
    starts = range(0, n - size + 1, step)
    return torch.as_strided(x, (len(starts), size), (stride * step, stride))


class _BadWindowError(ValueError):
    pass


def windows_then_every_step(x: Tensor, size: int, step: int = 1) -> Tensor:
    if step < 1:
        raise _BadWindowError(f"step must be positive, not {step!r}")
    if size < 1 or size > x.numel():
        raise _BadWindowError(f"Expected 1 <= size <= {x.numel()}, got size={size}")
    jump = x.stride()[0]
    return x.as_strided(size=(x.numel() - size + 1, size), stride=(jump, jump))[::step]


def windows_of_a_slice(x: Tensor, size: int, step: int = 1) -> Tensor:
    _check_windows(x.shape[0], size, step)
    number = math.floor((x.shape[0] - size) / step) + 1
    first = x[:size]
    return first.as_strided((number, size), (first.stride(0) * step, first.stride(0)), first.storage_offset())


def windows_by_set(x: Tensor, size: int, step: int = 1) -> Tensor:
    _check_windows(x.shape[0], size, step)
    number = 1
    while number * step + size <= x.shape[0]:
        number += 1
    stride = x.stride(-1)
    with torch.no_grad():
        return x.detach().as_strided([number, size], [step * stride, stride])


RIGHT_ANSWERS: list[Callable[..., Any]] = [
    windows_by_strides,
    windows_then_every_step,
    windows_of_a_slice,
    windows_by_set,
]
