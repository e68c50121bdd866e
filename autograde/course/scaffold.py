"""Write a template of a new exercise: its cells in the lesson and its two files, with TODO marks."""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from autograde.files import write_atomically
from autograde.source import paths
from autograde.source.private_half import private_path
from torchcourse.model.catalogue import check_new_lesson, exercises, lesson_with, module_name
from torchcourse.model.own_course import own_course, own_home, topic_of

__all__ = ["ScaffoldError", "Todo", "exercise_files", "new_exercise", "new_lesson", "todos"]

PUBLIC = '''"""The exercise `{name}`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case


def probe(answer: Watched, x: Any) -> dict[str, Any]:
    # TODO({name}): the probe; call the answer and return what is observed, under names that read well on a card
    return {{"result": answer(x)}}


def cases(draw: Draw) -> list[Case]:
    # TODO({name}): the visible cases, which have to show every known mistake
    return [case("a vector", x=draw.normal(5))]


EXERCISE = Exercise(
    "{name}",
    probe,
    cases,
    hints=(
        "TODO({name}): the first hint, a question or a pointer of about 40 words",
        "TODO({name}): the second hint, a question or a pointer of about 40 words",
        "TODO({name}): the third hint, a question or a pointer of about 40 words",
    ),
)
'''
PRIVATE = '''"""The exercise `{name}`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw

WHY = "TODO({name}): in 20 to 70 words why the reference is written as it is"
# TODO({name}): the names of the mistakes that a check must always be able to name
REQUIRED: tuple[str, ...] = ()

# TODO({name}): three known mistakes or more; each a program, a sentence with {{fields}}, and the heading to reread
MISTAKES: list[Mistake] = []


def more_cases(draw: Draw) -> list[Case]:
    # TODO({name}): cases that only the grader sees: other shapes, strides, dtypes, empty and extreme inputs
    return []


# TODO({name}): two right answers or more, unlike the reference
RIGHT_ANSWERS: list[Callable[..., Any]] = []
'''
CELLS = '''# %% [markdown]
# ### Exercise: {name}
#
# TODO({name}): two sentences that say what to write, and an example

# %% exercise="{name}" points=1
{head}
    """TODO({name}): what it is, its arguments with their types"""
{method}{pad}### BEGIN SOLUTION
{pad}raise NotImplementedError("TODO({name}): the answer")
{pad}### END SOLUTION

# %% check="{name}"
check("{name}")

'''


LESSON = """# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # {number} · {title}
#
# TODO({name}): why this matters to whoever reads it at eleven at night

# %% tags=["setup"]
from typing import Any

import torch
from torch import Tensor

from torchcourse import Unattempted, case, check, hint

# %% tags=["demo"]
# %load_ext torchcourse

# %% [markdown]
# ## {title}
#
# TODO({name}): the smallest thing that shows the idea, and what goes wrong

"""


IMPORTED = {"Any", "Tensor", "Unattempted", "case", "check", "hint", "torch"}
"""The names that `LESSON` imports."""


class ScaffoldError(ValueError):
    """An exercise cannot be made; the message gives the reason and the remedy. Nothing was written."""


@dataclass(frozen=True)
class Todo:
    """A TODO mark: its file, its line and the text after it."""

    path: Path
    line: int
    what: str


def exercise_files(lesson: str, name: str) -> list[Path]:
    """Return the files of an exercise: the lesson's script, its public half and its private half."""
    return [paths.script(lesson), paths.public_topic(lesson) / f"{module_name(name)}.py", private_path(lesson, name)]


def todos(lesson: str, name: str) -> Iterator[Todo]:
    """Yield the marks `TODO(name): what` of an exercise."""
    mark = f"TODO({name}): "
    for path in exercise_files(lesson, name):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines() if path.exists() else (), 1):
            if mark in line:
                yield Todo(paths.shown(path), number, line.partition(mark)[2].strip(" \"'),;#"))


def new_exercise(lesson: str, name: str, after: str) -> list[Path]:
    """Write a template of an exercise that follows the exercise `after`; return the files written.

    A name in CapitalLetters becomes a class, another one a function.

    Raises:
        UnknownExerciseError: when there is no such lesson.
        ScaffoldError: when the name is taken or not allowed, or the lesson has no exercise `after`.
    """
    known = exercises(lesson)
    if after not in known:
        raise ScaffoldError(f"{lesson} has no exercise {after!r} to come after; it has {', '.join(known)}.")
    _check_name(name)
    if own_course() and not own_home(lesson):
        raise ScaffoldError(f"{lesson} is a lesson of the course itself: leave out --course to add to it.")
    script, public, private = exercise_files(lesson, name)
    _check_free(public, private)
    lines = script.read_text(encoding="utf-8").splitlines(keepends=True)
    check = next((n for n, line in enumerate(lines) if line.startswith(f'# %% check="{after}"')), None)
    if check is None:
        raise ScaffoldError(f"{paths.shown(script)} has no check cell of {after!r}; add it first.")
    end = next((n for n in range(check + 1, len(lines)) if lines[n].startswith("# %%")), len(lines))
    write_atomically(public, PUBLIC.format(name=name))
    write_atomically(private, PRIVATE.format(name=name))
    blank = ["\n"] if lines[end - 1].strip() else []
    write_atomically(script, "".join([*lines[:end], *blank, _cells(name), *lines[end:]]))
    return [script, public, private]


def new_lesson(lesson: str, title: str, name: str) -> list[Path]:
    """Write a template of a lesson with one exercise, in the instructor's own course; return the files written.

    Raises:
        ScaffoldError: when there is no course of one's own, a name is taken or not allowed, or the lesson exists.
    """
    own = own_course()
    if own is None:
        raise ScaffoldError("Name the folder of your own course: torchcourse --course DIR new lesson …")
    try:
        check_new_lesson(lesson)
    except ValueError as error:
        raise ScaffoldError(str(error)) from None
    script = own / "solutions" / f"{lesson}.py"
    if script.exists():
        raise ScaffoldError(f"{script} exists already: add to it with torchcourse --course DIR new exercise {lesson} …")
    _check_name(name)
    halves = {own / "exercises": PUBLIC, own / "hidden": PRIVATE}
    files = {folder / topic_of(lesson) / f"{module_name(name)}.py": text for folder, text in halves.items()}
    _check_free(*files)
    text = LESSON.format(number=int(lesson[:2]), title=title, name=name) + _cells(name)
    for path, content in {script: text, **{path: half.format(name=name) for path, half in files.items()}}.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content)
    return [script, *files]


def _check_free(*files: Path) -> None:
    if there := [path for path in files if path.exists()]:
        raise ScaffoldError(f"{paths.shown(there[0])} exists already: move it away first.")


def _check_name(name: str) -> None:
    if not name.isidentifier() or not name.isascii() or keyword.iskeyword(name) or name.startswith("_"):
        raise ScaffoldError(f"{name!r} is not a name for a function or a class.")
    if name in dir(builtins):
        raise ScaffoldError(f"{name!r} is a built-in name of Python, which the exercise would hide.")
    if name in IMPORTED:
        raise ScaffoldError(f"{name!r} is a name that the setup cell of a lesson imports.")
    if lesson := lesson_with(name):
        taken = {module_name(known): known for known in exercises(lesson)}[module_name(name)]
        raise ScaffoldError(f"{lesson} has an exercise {taken!r} already; names are unique in the course.")


def _cells(name: str) -> str:
    if name[0].isupper():
        method = "\n    def __init__(self):\n"
        return CELLS.format(name=name, head=f"class {name}:", method=method, pad=" " * 8)
    return CELLS.format(name=name, head=f"def {name}(x):", method="", pad=" " * 4)
