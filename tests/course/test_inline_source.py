"""Programs as the text of a cell: with what they need, and only where their file says how they were made."""

from __future__ import annotations

import importlib.util
import math
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from autograde.course.inline_source import inline_source

PROGRAMS = '''
import math
from functools import wraps

SCALE = math.pi


def answer(x, *, by=1.0):
    """The answer, scaled."""
    return x * SCALE * by


def twice(x):
    return answer(x, by=2.0)


def with_a_local(x):
    solve = answer(x)
    return solve


def closure(x, unused=None):
    def inner():
        return x

    return inner


def scaled(rule, *, by=1):
    class Scaled:
        def __call__(self, x):
            return rule(x) * by

    return Scaled


class Base:
    by = 1

    def answer(self, x):
        return twice(x) * self.by

    def __call__(self, x):
        return self.answer(x)


LAMBDAS = [lambda x: answer(x, by=4), lambda x: answer(x, by=5)]
MADE = scaled(lambda x: x * SCALE, by=7)
INSTANCE = Base()
'''


@pytest.fixture
def programs(tmp_path: Path) -> ModuleType:
    path = tmp_path / "programs.py"
    path.write_text(PROGRAMS)
    spec = importlib.util.spec_from_file_location("programs", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def text_of(programs: ModuleType, program: Any, name: str, taken: tuple[str, ...] = ()) -> str:
    return inline_source(program, Path(str(programs.__file__)), name, {}, taken)


def run(text: str, name: str) -> Any:
    bound: dict[str, Any] = {}
    exec(text, bound)
    return bound[name]


@pytest.mark.parametrize("name", ["answer", "solve", "Base"])
def test_programs_are_copied_under_the_name_of_the_exercise_with_what_they_need(
    programs: ModuleType, name: str
) -> None:
    first, second = programs.LAMBDAS
    for program, value in (
        (programs.answer, 1), (programs.twice, 2), (partial(programs.answer, by=3.0), 3), (first, 4), (second, 5),
        (programs.with_a_local, 1), (partial(programs.answer, by=-math.inf), -math.inf),
    ):  # fmt: skip
        text = text_of(programs, program, name)
        assert run(text, name)(1.0) == pytest.approx(value * math.pi)
        assert "The answer, scaled." in text
        assert "wraps" not in text
    assert run(text_of(programs, programs.INSTANCE, name), name)(1.0) == pytest.approx(2 * math.pi)
    for made, value in ((programs.Base, 2), (programs.MADE, 7)):
        assert run(text_of(programs, made, name), name)()(1.0) == pytest.approx(value * math.pi)


def test_helpers_get_another_name_where_the_lesson_has_a_cell_with_theirs(programs: ModuleType) -> None:
    text = text_of(programs, programs.twice, "double", ("answer",))
    assert run(f"{text}\nanswer = 0", "double")(1.0) == pytest.approx(2 * math.pi)
    text = text_of(programs, partial(programs.answer, by=(ValueError, None, -math.inf)), "answer")
    assert "by=(ValueError, None, float('-inf'))" in text
    assert run(text_of(programs, programs.closure(1, unused=object()), "number"), "number")() == 1


def test_what_the_file_does_not_tell_is_not_written(programs: ModuleType) -> None:
    here = lambda x: x  # noqa: E731 - it stands in another file than the programs
    for program in (
        programs.closure(object()), programs.scaled(here), here, partial(programs.answer, by=programs),
        partial(programs.answer, 1),
    ):  # fmt: skip
        assert text_of(programs, program, "number") == ""
