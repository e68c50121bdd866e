"""The path through the lessons: every lesson has a place, after those that it needs, and the README shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchcourse.model import path
from torchcourse.model.catalogue import LESSONS

README = Path(__file__).resolve().parents[2] / "README.md"


def in_order(lessons: list[str]) -> list[str]:
    return [lesson for stage in path.stages(lessons).values() for lesson in stage]


def test_the_path_has_every_lesson_once_after_those_that_it_needs() -> None:
    order = in_order(list(LESSONS))
    assert sorted(order) == sorted(LESSONS)
    assert path.OTHERS not in path.stages(LESSONS), "each lesson belongs to a stage"
    for place, lesson in enumerate(order):
        assert set(path.needs(lesson, LESSONS)) <= set(order[:place])
    assert path.needs("05_training", LESSONS) == ("03_modules", "04_data")


def test_only_lessons_that_exist_are_shown() -> None:
    few = ["01_tensors", "11_architectures", "13_efficiency", "99_own"]
    assert in_order(few) == few
    assert path.needs("13_efficiency", few) == ("11_architectures",)
    assert path.needs("99_own", few) == ()
    assert path.stages(few)[path.OTHERS] == ("99_own",)
    shown = "- **Foundations**: 1\n- **Quizzes**: 15 (15 after 1)"
    assert path.as_markdown(["01_tensors", "15_quizzes"]) == shown


@pytest.mark.parametrize(
    ("lessons", "said"),
    [
        ((), ""),
        (("03_modules", "04_data"), "3, 4"),
        (("01_tensors", "02_autograd", "03_modules", "09_persistence"), "1 to 3, 9"),
        (("own_lesson", "10_debugging"), "own_lesson, 10"),
    ],
)
def test_lessons_are_named_by_their_numbers(lessons: tuple[str, ...], said: str) -> None:
    assert path.numbers(lessons) == said


def test_a_number_stands_for_the_one_lesson_that_has_it() -> None:
    lessons = ["01_tensors", "10_debugging", "16_graphs"]
    words = ["1", "01", "10", "16", "2", "0", "", "²", "01_tensors", "tensors"]
    named = [path.by_number(word, lessons) for word in words]
    assert named == ["01_tensors", "01_tensors", "10_debugging", "16_graphs", *words[4:]]
    with pytest.raises(path.AmbiguousNumberError, match=r"^1 may be 01_tensors or 01_mine: write the name"):
        path.by_number("1", ["01_tensors", "01_mine"])


def test_the_readme_shows_the_path_of_the_lessons_that_there_are() -> None:
    assert path.as_markdown(LESSONS) in README.read_text(), "paste it there:\n" + path.as_markdown(LESSONS)
