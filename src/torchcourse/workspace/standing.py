"""Where an exercise stands in its lesson: how many are passed by now, and what comes next."""

from __future__ import annotations

from dataclasses import dataclass

from torchcourse.model.lessons import Lesson, lessons
from torchcourse.workspace import progress, session

__all__ = ["Standing", "recorded", "standing"]


@dataclass(frozen=True)
class Standing:
    """Where an exercise stands in its lesson.

    Attributes:
        lesson: the lesson.
        passed: how many of its exercises are passed; None where nothing is recorded.
        exercise: the next exercise of it to write, "" if there is none.
        next_lesson: the lesson after it, None if it is the last.
    """

    lesson: Lesson
    passed: int | None
    exercise: str
    next_lesson: Lesson | None


def recorded() -> dict[str, str] | None:
    """Return what is recorded of each exercise in the working copy of the running notebook, None outside of one."""
    folder = progress.working_copy_of(session.notebook_folder())
    return None if folder is None else progress.read(folder)


def standing(name: str, is_right: bool) -> Standing | None:
    """Return where the exercise `name` stands; None if no lesson has it.

    Args:
        name: the exercise.
        is_right: whether it has just passed; the record may not have it yet.

    Raises:
        OSError: if the record or a lesson cannot be read.
    """
    every = lessons()
    number = next((n for n, lesson in enumerate(every) if name in lesson.exercises), None)
    if number is None:
        return None
    lesson = every[number]
    states = recorded()
    done = {e for e in lesson.exercises if (states or {}).get(e) == progress.PASSED} | ({name} if is_right else set())
    here = lesson.exercises.index(name)
    following = lesson.exercises[here + 1 :]
    others = following if states is None else (*following, *lesson.exercises[:here])
    left = [exercise for exercise in others if exercise not in done]
    passed = None if states is None else len(done)
    return Standing(lesson, passed, left[0] if left else "", next(iter(every[number + 1 : number + 2]), None))
