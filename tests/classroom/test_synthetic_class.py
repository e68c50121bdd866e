"""Synthetic classes: always the same, of all kinds, with several answers to each exercise."""

from __future__ import annotations

import ast
from datetime import datetime
from pathlib import Path

import pytest

from autograde.classroom import synthetic_class
from autograde.classroom.synthetic_class import SAMPLE_LESSON as LESSON
from autograde.classroom.synthetic_class import invented_members, write_submissions
from autograde.source.release import load_release
from tests.support.results import tree
from torchcourse.model.catalogue import LESSONS

DUE = datetime(2026, 12, 1, 18)


def test_a_synthetic_class_is_always_the_same_and_of_all_kinds(tmp_path: Path) -> None:
    members = invented_members(450)
    assert len({m.id for m in members}) == len({m.email for m in members}) == 450
    assert all(m.id.isascii() for m in members)
    for name in ("one", "two"):
        write_submissions(tmp_path / name, [LESSON], members[:20], {LESSON: DUE})
    files = tree(tmp_path / "one")
    assert files == tree(tmp_path / "two")
    notebooks = {name.split("/")[0]: data for name, data in files.items() if name.endswith(".ipynb")}
    assert len(notebooks) == 19  # and one who handed in nothing
    assert sum(data.startswith(b"\xef\xbb\xbf") for data in notebooks.values()) == 1
    exercises = len(load_release(LESSON).exercises)
    untouched = [m for m in notebooks if notebooks[m].count(b"raise Unattempted") == exercises]
    assert len(untouched) == 1
    assert any(b"while True" in data for data in notebooks.values())
    assert sum(name.endswith("timestamp.txt") for name in files) == 19


@pytest.mark.parametrize("lesson", LESSONS)
def test_each_exercise_has_several_right_and_wrong_answers(lesson: str) -> None:
    for name, choice in synthetic_class._choices(lesson).items():
        # swiglu: the statements that register the operator stand around it, and are not copied
        assert len(set(choice.right)) >= (1 if name == "swiglu" else 2), name
        assert len(choice.wrong) >= 2, name
        for text in {*choice.right, *choice.wrong}:
            ast.parse(text)
    first = next(iter(synthetic_class._choices(lesson).values())).right[0]
    endless = synthetic_class._beginning_with(synthetic_class.ENDLESS, first)
    assert endless.count("while True:") == first.count("while True:") + 1
    ast.parse(endless)
