"""Find exercises by their place: `torchcourse/exercises/TOPIC/EXERCISE.py` holds one, in `EXERCISE`.

Modules whose names begin with _ hold what several exercises share.
Exercises import torch; the names of lessons are known without it.
"""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
import re
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

from torchcourse.model.notebook_file import did_you_mean
from torchcourse.model.own_course import NotAnExerciseError, has_lesson_name, more_lessons, topic_of

if TYPE_CHECKING:
    from torchcourse.model.exercise import Exercise

__all__ = [
    "BUILT_IN", "LESSONS", "UnknownExerciseError", "check_lesson", "check_new_lesson", "exercises", "find", "imports",
    "in_order", "lesson_with", "module_name", "name_of", "preload",
]  # fmt: skip

BUILT_IN = {
    "01_tensors": "tensors",
    "02_autograd": "autograd",
    "03_modules": "modules",
    "04_data": "data",
    "05_training": "training",
    "06_gpu": "gpu",
    "07_mixed_precision": "precision",
    "08_compile": "compiling",
    "09_persistence": "persistence",
    "10_debugging": "debugging",
    "11_architectures": "architectures",
    "12_distributed": "distributed",
    "13_efficiency": "efficiency",
    "14_ticket_router": "router",
    "15_quizzes": "quizzes",
}
"""The course's own lessons in order, and for each the folder of its exercises (the topic)."""
LESSONS = BUILT_IN | {lesson: topic_of(lesson) for lesson in more_lessons() if lesson not in BUILT_IN}
"""All lessons: the course's, then those of an instructor's own course."""
RESERVED = {*BUILT_IN.values(), "common"}
"""Topics that a lesson of one's own may not have: its exercises would not be found."""


class UnknownExerciseError(LookupError):
    """No exercise or lesson has this name; the message suggests the nearest."""


def module_name(exercise: str) -> str:
    """Return the name of the module that holds an exercise: `BatchNorm` lies in `batch_norm`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", exercise).lower()


def in_order(lessons: Iterable[str]) -> list[str]:
    """Return lessons in the order of the course; those that are not known here come last.

    Commands without `--course` do not know an instructor's own lessons.
    """
    names = set(lessons)
    return [name for name in LESSONS if name in names] + sorted(names.difference(LESSONS))


def check_new_lesson(name: str) -> None:
    """Check that a lesson of an instructor's own may have this name.

    Raises:
        ValueError: when it has another form, or the course or another own lesson has its topic.
    """
    if not has_lesson_name(name):
        raise ValueError(f"{name!r} is no name for a lesson: it takes two digits and a topic, such as 16_graphs.")
    topic = topic_of(name)
    if topic in RESERVED:
        raise ValueError(f"{name!r} is no name for a lesson of your own: the course has one on {topic!r}.")
    if same := [lesson for lesson, taken in LESSONS.items() if taken == topic and lesson != name]:
        raise ValueError(f"{name!r} is no name for a lesson: {same[0]} has the topic {topic!r}, and so its exercises.")


def check_lesson(name: str) -> None:
    """Check that there is a lesson of this name.

    Raises:
        UnknownExerciseError: when there is none.
    """
    if name not in LESSONS:
        remedy = did_you_mean(name, LESSONS) or f" The lessons are {', '.join(LESSONS)}."
        raise UnknownExerciseError(f"There is no lesson {name!r}.{remedy}")


@cache
def exercises(lesson: str) -> dict[str, Exercise]:
    """Return the exercises of a lesson by name, in the order of their modules' names.

    The order in which learners meet them is that of the lesson's script and notebook.

    Raises:
        UnknownExerciseError: when there is no such lesson.
    """
    check_lesson(lesson)
    loaded = (_load(lesson, module) for module in _modules(lesson))
    return {exercise.name: exercise for exercise in loaded}


def _modules(lesson: str) -> list[str]:
    name = f"torchcourse.exercises.{LESSONS[lesson]}"
    try:
        topic = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:  # what the lesson itself imports is missing
            raise
        return []  # a lesson of one's own that is half written
    return sorted(module.name for module in pkgutil.iter_modules(topic.__path__) if not module.name.startswith("_"))


def _load(lesson: str, module: str) -> Exercise:
    loaded = importlib.import_module(f"torchcourse.exercises.{LESSONS[lesson]}.{module}")
    try:
        exercise: Exercise = loaded.EXERCISE
    except AttributeError as error:
        raise NotAnExerciseError(
            f"{loaded.__file__} defines no EXERCISE; give a module that holds no exercise a name that begins with _."
        ) from error
    return exercise


def lesson_with(exercise: str) -> str:
    """Return the first lesson that has a module for an exercise of this name, "" if none has; no exercise is loaded."""
    return next((lesson for lesson in LESSONS if module_name(exercise) in _modules(lesson)), "")


@cache
def find(name: str) -> tuple[str, Exercise]:
    """Return the lesson that has the exercise `name`, and the exercise; others are loaded only to suggest a name.

    Raises:
        UnknownExerciseError: when no lesson has it.
    """
    for lesson in LESSONS:
        if module_name(name) in _modules(lesson):
            exercise = _load(lesson, module_name(name))
            if exercise.name == name:
                return lesson, exercise
    known = [known for lesson in LESSONS for known in exercises(lesson)]
    raise UnknownExerciseError(f"There is no exercise {name!r}.{did_you_mean(name, known)}")


def name_of(answer: object) -> str:
    """Return the name of the exercise that a learner means: a name, or the function or class itself."""
    return answer if isinstance(answer, str) else getattr(answer, "__name__", type(answer).__name__)


def imports(*lessons: str) -> list[str]:
    """Return the names of the modules that lessons need and that take long to load.

    Those are the ones that their exercises name and, from the second lesson on, torch's compiler, which optimizers,
    `torch.func` and checkpointing load at their first use.
    """
    late = () if set(lessons) <= {next(iter(LESSONS))} else ("torch._dynamo.eval_frame",)
    named = (e.imports for lesson in lessons for e in exercises(lesson).values())
    return sorted({*late, *(module for modules in named for module in modules)})


def preload(modules: Iterable[str]) -> None:
    """Import modules before anything is timed; a missing one fails later, where it is used."""
    for module in modules:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
