"""The reference answers, for whoever passed and whose installation has them: a clone, or the self-study package.

A class's bundle and its wheel hold none; there `reference` finds nothing and a card has no such part. Nothing is read
before it is asked for, and then one exercise: this module only reads files, and never runs what they hold.
"""

from __future__ import annotations

import json
import re
import textwrap
import tomllib
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PACKED", "Reference", "pack", "reference"]

PACKAGE = Path(__file__).resolve().parent
SOLUTIONS = PACKAGE.parents[1] / "solutions"
"""The solved lessons, beside a clone's package."""
PACKED = PACKAGE / "references.json"
"""What the self-study package has in their place. It is never in the repository; `tools.selfstudy` makes it."""
MARKS = re.compile(r"^[ \t]*### (BEGIN|END) SOLUTION[ \t]*\n?", re.MULTILINE)


@dataclass(frozen=True)
class Reference:
    """The text of a reference answer, and why it is written as it is ("" where nobody has said)."""

    source: str
    why: str = ""


def reference(lesson: str, exercise: str) -> Reference | None:
    """The reference of an exercise; None where this installation has none, or where it cannot be read."""
    try:
        return _from_scripts(lesson, exercise) or _from_package(exercise)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # a damaged file costs the card this one part
        return None


def _from_scripts(lesson: str, exercise: str) -> Reference | None:
    script = SOLUTIONS / f"{lesson}.py"
    if not script.is_file():
        return None
    source = answer_cell(script.read_text(encoding="utf-8"), exercise)
    return Reference(source, _reasons().get(lesson, {}).get(exercise, "")) if source else None


def answer_cell(script: str, exercise: str) -> str:
    """The answer cell of an exercise in a lesson script, without its marks; "" where there is none."""
    cell = re.search(
        rf'^# %% [^\n]*\bexercise="{re.escape(exercise)}"[^\n]*\n(.*?)(?=^# %%|\Z)', script, re.MULTILINE | re.DOTALL
    )
    return MARKS.sub("", cell[1]).strip() if cell else ""


def _reasons() -> dict[str, dict[str, str]]:
    path = SOLUTIONS / "why.toml"
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def _from_package(exercise: str) -> Reference | None:
    if not PACKED.is_file():
        return None
    packed = json.loads(PACKED.read_text(encoding="utf-8")).get(exercise)
    return Reference(str(packed["source"]), str(packed["why"])) if packed else None


def pack(exercises: dict[str, list[str]]) -> str:
    """The references of `exercises` (by lesson) as the text of the one file that the self-study package carries.

    Raises:
        LookupError: when this installation lacks one of them.
    """
    packed = {}
    for lesson, names in exercises.items():
        for name in names:
            found = reference(lesson, name)
            if found is None:
                raise LookupError(f"There is no reference of {name}: packing needs a clone with {SOLUTIONS.name}/.")
            packed[name] = {"source": textwrap.dedent(found.source), "why": found.why}
    return json.dumps(packed, ensure_ascii=False, indent=1) + "\n"
