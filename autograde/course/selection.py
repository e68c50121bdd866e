"""Select exercises by name, and compare a program's observations with the expected ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from torchcourse.checking.result import Result, compare_derived
from torchcourse.model.catalogue import LESSONS, UnknownExerciseError, exercises
from torchcourse.model.devices import checked_devices
from torchcourse.model.exercise import Case, Exercise
from torchcourse.model.known_mistake import KnownMistake
from torchcourse.model.notebook_file import did_you_mean
from torchcourse.model.observations import Observations
from torchcourse.model.stored_observations import Stored

__all__ = ["result_of", "results_of", "selected", "visible_results"]

Seen = Callable[[str, int], Observations | None]
"""Returns derived observations by device and number of the case."""


def selected(which: Sequence[str] | None) -> Iterator[tuple[str, list[str], bool]]:
    """Yield each lesson, the selected exercises in it, and whether the whole lesson was selected.

    Args:
        which: lessons, or exercises as LESSON:EXERCISE; all lessons if there are none.

    Raises:
        UnknownExerciseError: for a lesson or exercise that does not exist.
    """
    for name in which or LESSONS:
        lesson, _, exercise = name.partition(":")
        known = exercises(lesson)
        if exercise and exercise not in known:
            remedy = did_you_mean(exercise, known) or f" It has {', '.join(known)}."
            raise UnknownExerciseError(f"{lesson} has no exercise {exercise!r}.{remedy}")
        yield lesson, [exercise] if exercise else list(known), not exercise


def results_of(
    seen: Seen,
    any_device: bool,
    cases: Sequence[Case],
    wanted: Seen,
) -> list[Result]:
    """Return the results of a program in cases.

    Args:
        seen: returns the derived observations of the program, by device and number of the case.
        any_device: whether the second device counts too.
        cases: the cases.
        wanted: returns the wanted observations, by device and number of the case.
    """
    return [
        result_of(seen, device.name, number, case, wanted)
        for device in checked_devices(any_device)
        for number, case in enumerate(cases)
    ]


def result_of(seen: Seen, device: str, number: int, case: Case, wanted: Seen) -> Result:
    """Return the result of a program in one case on a device; the arguments are as in `results_of`."""
    observed, right = seen(device, number), wanted(device, number)
    assert observed is not None and right is not None, "both are observed in every case"
    return compare_derived(case, number, device, observed, right)


def visible_results(exercise: Exercise, stored: Stored, mistake: KnownMistake) -> list[Result]:
    """Return the results of a known mistake in the visible cases, from what the build stored: no answer runs."""
    return results_of(mistake.seen, exercise.any_device, stored.cases, stored.wanted.seen)
