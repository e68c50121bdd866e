"""Find the reference answers that cards show after passing, in clones and in the self-study package.

The bundle and wheel for a class have none; there `reference` returns None, and cards show no reference. Only the
requested exercise is read, and no code is run.
"""

from __future__ import annotations

import ast
import json
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

from torchcourse.model.catalogue import LESSONS, module_name
from torchcourse.model.own_course import folder_of

__all__ = ["GIVEN", "PACKED", "Reference", "pack", "reference", "without_markers"]

PACKAGE = Path(__file__).resolve().parents[1]
SOLUTIONS = PACKAGE.parents[1] / "solutions"
"""The solved lessons of a clone."""
PACKED = PACKAGE / "references.json"
"""The file of references in the self-study package. `tools.selfstudy` makes it; it is never in the repository."""
GIVEN = "#>"
"""Begins a line of an answer cell that only learners get, after the stub: code to repair."""
MARKERS = re.compile(rf"^[ \t]*(### (BEGIN|END) SOLUTION[ \t]*|{GIVEN}.*)(\n|\Z)", re.MULTILINE)


@dataclass(frozen=True)
class Reference:
    """The source of a reference answer, and `why` it is written that way ("" if unknown)."""

    source: str
    why: str = ""


def reference(lesson: str, exercise: str) -> Reference | None:
    """Return the reference of an exercise; None if this installation has none, or it cannot be read."""
    try:
        return _from_scripts(lesson, exercise) or _from_package(exercise)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, SyntaxError):  # a damaged file
        return None


def _from_scripts(lesson: str, exercise: str) -> Reference | None:
    script = folder_of(lesson, "solutions", SOLUTIONS) / f"{lesson}.py"
    if not script.is_file():
        return None
    source = reference_source(script.read_text(encoding="utf-8"), exercise)
    return Reference(source, _reason(lesson, exercise)) if source else None


def reference_source(script: str, exercise: str) -> str:
    """Return the reference of an exercise, as a lesson script has it in its answer cell; "" if there is none."""
    cell = re.search(
        rf'^# %% [^\n]*\bexercise="{re.escape(exercise)}"[^\n]*\n(.*?)(?=^# %%|\Z)', script, re.MULTILINE | re.DOTALL
    )
    return without_markers(cell[1]) if cell else ""


def without_markers(answer_cell: str) -> str:
    """Return the reference in an answer cell: without the solution markers, and without the code given to learners."""
    return MARKERS.sub("", answer_cell).strip()


def _reason(lesson: str, exercise: str) -> str:
    """Return `WHY` from the private half of an exercise, without running it; "" if there is none."""
    halves = folder_of(lesson, "hidden", SOLUTIONS.parent / "autograde" / "hidden")
    path = halves / LESSONS[lesson] / f"{module_name(exercise)}.py"
    if not path.is_file():
        return ""
    for statement in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and getattr(statement.targets[0], "id", "") == "WHY":
            return str(ast.literal_eval(statement.value))
    return ""


def _from_package(exercise: str) -> Reference | None:
    if not PACKED.is_file():
        return None
    packed = json.loads(PACKED.read_text(encoding="utf-8")).get(exercise)
    return Reference(str(packed["source"]), str(packed["why"])) if packed else None


def pack(exercises: dict[str, list[str]]) -> str:
    """Return the content of the self-study package's file of references.

    Args:
        exercises: names of exercises by lesson.

    Raises:
        LookupError: if this installation lacks the reference of one of them.
    """
    packed = {}
    for lesson, names in exercises.items():
        for name in names:
            found = reference(lesson, name)
            if found is None:
                raise LookupError(f"There is no reference of {name}: packing needs a clone with {SOLUTIONS.name}/.")
            packed[name] = {"source": textwrap.dedent(found.source), "why": found.why}
    return json.dumps(packed, ensure_ascii=False, indent=1) + "\n"
