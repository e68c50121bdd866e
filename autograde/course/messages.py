"""List what learners read about the known mistakes, so that authors can read all of it at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autograde.course.selection import selected, visible_results
from torchcourse.checking.report import judge
from torchcourse.model import stored_observations
from torchcourse.model.catalogue import exercises

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
    for lesson, names, _ in selected(which):
        for name in names:
            stored, exercise = stored_observations.load(lesson)[name], exercises(lesson)[name]
            mistakes = stored.known_mistakes()
            for mistake in mistakes:
                results = visible_results(exercise, stored, mistake)
                says, unnamed = judge(exercise, results, mistakes).message, judge(exercise, results, []).message
                yield Message(f"{lesson}:{name}", mistake.name, says, unnamed)
