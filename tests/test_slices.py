"""What an exercise depends on in a module of tables."""

from __future__ import annotations

import pytest

from autograde import course
from autograde.slices import slices
from torchcourse.exercise import LESSONS, exercises

MODULE = """
from somewhere import shared
LIMIT = 3
BOTH, OTHER = "one", "two"
def helper(x): return x + LIMIT
def a(x): return helper(x)
class B:
    text = OTHER
C = [shared]
C.append("late")
MISTAKES = {"a": [a], "b": [B], "c": C}
"""


def changed(old: str, new: str, module: str = MODULE) -> list[str]:
    """The names whose slice is another one after the change."""
    assert old in module
    before, after = (slices(text, ["MISTAKES"], "abc") for text in (module, module.replace(old, new)))
    return [name for name in "abc" if before[name] != after[name]]


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ("LIMIT = 3", "LIMIT = 4", ["a"]),
        ("x + LIMIT", "LIMIT + x", ["a"]),
        ('"two"', '"three"', ["b"]),
        ("import shared", "import other as shared", ["a", "b", "c"]),
        ('"late"', '"later"', ["a", "b", "c"]),
        ('"b": [B]', '"b": [B, B]', ["b"]),
        ("x + LIMIT", "x  +  LIMIT  # the same", []),
    ],
)
def test_a_change_touches_what_reaches_it(old: str, new: str, names: list[str]) -> None:
    assert changed(old, new) == names


@pytest.mark.parametrize("obscure", ["globals()['LIMIT'] = 4", "eval('LIMIT')"])
def test_what_cannot_be_followed_belongs_to_everyone(obscure: str) -> None:
    assert changed("LIMIT = 3", "LIMIT = 4", MODULE + obscure + "\n") == ["a", "b", "c"]
    assert changed("LIMIT = 3", "LIMIT = 4", MODULE.replace("{", "{**{}, ")) == ["a", "b", "c"]


@pytest.mark.parametrize("lesson", LESSONS)
def test_of_every_lesson_an_exercise_has_its_part_alone(lesson: str) -> None:
    text = (course.AUTOGRADE / "hidden" / f"{LESSONS[lesson]}.py").read_text()
    parts = slices(text, ("MISTAKES", "MORE_CASES"), exercises(lesson))
    assert len(set(parts.values())) == len(parts)
    assert all(len(part) < len(text) / 2 for part in parts.values())
