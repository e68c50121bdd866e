"""Hand learners the inputs on which their answer failed, so that they can look at them and call it themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torchcourse.checking.report import Report
from torchcourse.model import codec
from torchcourse.model.devices import checked_devices, place

__all__ = ["case", "remember"]

_reports: dict[str, Report] = {}
"""The latest report on each exercise in this process."""


def remember(report: Report) -> None:
    """Keep a report, so that `case` finds what failed in it."""
    _reports[report.exercise] = report


def case(exercise: str | Callable[..., Any]) -> dict[str, Any]:
    """Return the inputs, by name, of the first case that the latest check of an exercise saw fail, as new tensors.

    Args:
        exercise: its name, or the function or class itself.

    Raises:
        LookupError: if the exercise has not been checked, or its answer was right.
    """
    name = exercise if isinstance(exercise, str) else getattr(exercise, "__name__", type(exercise).__name__)
    report = _reports.get(name)
    if report is None:
        raise LookupError(f'`{name}` has not been checked yet: run `check("{name}")` first.')
    failed = next((result for result in report.results if not result.passed), None)
    if failed is None:
        raise LookupError(f"No case of `{name}` failed when it was last checked.")
    device = next(d for d in checked_devices(any_device=True) if d.name == failed.device)
    inputs: dict[str, Any] = place(codec.unpack(codec.pack(failed.case.inputs), trusted=True), device.device)
    print(f'{name}: the case "{failed.case.name}", {device.words}.')
    return inputs
