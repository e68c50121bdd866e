"""The latest check of each exercise in this process: the inputs that failed, and whether the answer was right."""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from typing import Any

from torchcourse.checking.card_cases import outcome_as_text
from torchcourse.checking.probe import observe
from torchcourse.checking.report import Report
from torchcourse.checking.result import Result, compare
from torchcourse.checking.run_record import RunRecord
from torchcourse.model import codec
from torchcourse.model.catalogue import find, name_of
from torchcourse.model.devices import CheckedDevice, checked_devices, to_device
from torchcourse.model.exercise import Unattempted

__all__ = ["case", "latest_status", "remember", "was_right"]

_latest: dict[str, tuple[Report, object]] = {}
"""The latest report on each exercise in this process, and the answer that it is about."""


def remember(report: Report, answer: object) -> None:
    """Keep a report, so that `case` finds what failed in it."""
    _latest[report.exercise] = report, answer


def was_right(exercise: str, answer: object) -> bool:
    """Return whether the latest check of an exercise was of this very function or class, and passed it."""
    report, checked = _latest.get(exercise, (None, None))
    return report is not None and report.passed and checked is answer


def latest_status(exercise: str) -> str:
    """Return the status of the latest check of an exercise in this process, "" if there was none."""
    return _latest[exercise][0].status if exercise in _latest else ""


def case(exercise: str | Callable[..., Any]) -> dict[str, Any]:
    """Call an answer on the first case that the latest check of it saw fail, and return the inputs as new tensors.

    What comes out and what is wanted is printed. The answer runs as outside a check: what it prints is shown, a
    `breakpoint` stops, and nothing limits its time.

    Args:
        exercise: its name, or the function or class itself. If a name is given, the caller's current definition of it
            is called.

    Returns:
        The inputs of the case, by name. If the answer is a function that has other parameters, such as a model or
        another function that the check makes from these inputs: the arguments of the first call.

    Raises:
        LookupError: if the exercise has not been checked, or its answer was right.
    """
    name = name_of(exercise)
    report, checked = _latest.get(name, (None, None))
    if report is None:
        raise LookupError(f'`{name}` has not been checked yet: run `check("{name}")` first.')
    failed = next((result for result in report.results if not result.passed), None)
    if failed is None:
        raise LookupError(f"No case of `{name}` failed when it was last checked.")
    device = next(d for d in checked_devices(any_device=True) if d.name == failed.device)
    print(f'{name}: the case "{failed.case.name}", {device.words}.')
    answer = sys._getframe(1).f_globals.get(name, checked) if isinstance(exercise, str) else exercise
    if callable(answer):
        print("\n".join(_outcome(name, answer, failed, device)))
    inputs: dict[str, Any] = to_device(codec.unpack(codec.pack(failed.case.inputs), trusted=True), device.device)
    if inspect.isfunction(answer) and not inputs.keys() >= _named_parameters(answer):
        return _first_arguments(name, answer, failed, device) or inputs
    return inputs


def _named_parameters(function: Callable[..., Any]) -> set[str]:
    """Return the names of a function's parameters, but for `*args` and `**kwargs`."""
    variadic = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    return {n for n, parameter in inspect.signature(function).parameters.items() if parameter.kind not in variadic}


def _first_arguments(name: str, answer: Callable[..., Any], failed: Result, device: CheckedDevice) -> dict[str, Any]:
    """Return what the check of a case calls a function with first, without calling it; nothing if it calls nothing."""
    arguments: list[dict[str, Any]] = []

    @functools.wraps(answer)
    def not_called(*args: Any, **kwargs: Any) -> None:
        arguments.append(inspect.signature(answer).bind(*args, **kwargs).arguments)
        raise LookupError("the arguments are all that is asked for")

    observe(find(name)[1], not_called, failed.case, device)
    return arguments[0] if arguments else {}


def _outcome(name: str, answer: Callable[..., Any], failed: Result, device: CheckedDevice) -> list[str]:
    """Call an answer in a case that failed; return what comes out and what is wanted, as lines of text."""
    record, exercise = RunRecord(), find(name)[1]
    keep_lines = functools.partial(record.keep_lines, failed.number, failed.device)
    try:
        with _breakpoints():
            raw = observe(exercise, answer, failed.case, device, caught=keep_lines)
    except Unattempted as stub:
        return [str(stub)]
    result = compare(exercise, failed.case, failed.number, failed.device, raw, failed.wanted)
    return ["It is right in this case now."] if result.passed else outcome_as_text(result, record)


@contextlib.contextmanager
def _breakpoints() -> Iterator[None]:
    """Have `breakpoint` stop in this block: in a kernel debugpy replaces its hook, which waits for a debugger."""
    hook = sys.breakpointhook
    if str(getattr(hook, "__module__", "")).startswith("debugpy"):
        sys.breakpointhook = sys.__breakpointhook__
    try:
        yield
    finally:
        sys.breakpointhook = hook
