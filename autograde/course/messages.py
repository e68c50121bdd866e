"""List what learners read about the known mistakes, so that authors can read all of it at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torchcourse.checking.explain import Result, compare_derived
from torchcourse.checking.report import judge
from torchcourse.model import stored_observations
from torchcourse.model.catalogue import LESSONS, UnknownExerciseError, exercises
from torchcourse.model.devices import checked_devices
from torchcourse.model.known_mistake import KnownMistake

__all__ = ["Message", "messages"]


@dataclass(frozen=True)
class Message:
    """What a notebook says of a known mistake, and what it would say of it if the mistake were unknown."""

    about: str
    mistake: str
    says: str
    unnamed: str


def messages(which: Sequence[str] | None = None) -> Iterator[Message]:
    """Yield the messages of lessons, or of exercises as LESSON:EXERCISE; of the whole course by default.

    They come from the stored observations of each mistake, and no answer runs.

    Raises:
        UnknownExerciseError: for a lesson or exercise that does not exist.
    """
    for name in which or LESSONS:
        lesson, _, only = name.partition(":")
        known = exercises(lesson)
        if only and only not in known:
            raise UnknownExerciseError(f"{lesson} has no exercise {only!r}.")
        for exercise_name in [only] if only else known:
            stored = stored_observations.load(lesson)[exercise_name]
            exercise, mistakes = known[exercise_name], stored.known_mistakes()
            for mistake in mistakes:
                results = _results(exercise.any_device, stored, mistake)
                says, unnamed = judge(exercise, results, mistakes).message, judge(exercise, results, []).message
                yield Message(f"{lesson}:{exercise_name}", mistake.name, says, unnamed)


def _results(any_device: bool, stored: stored_observations.Stored, mistake: KnownMistake) -> list[Result]:
    """Return the results of a mistake in the visible cases."""
    results = []
    for device in checked_devices(any_device):
        for number, case in enumerate(stored.cases):
            seen, wanted = mistake.seen(device.name, number), stored.wanted.seen(device.name, number)
            assert seen is not None and wanted is not None, "the build stores both for every case"
            results.append(compare_derived(case, number, device.name, seen, wanted))
    return results
