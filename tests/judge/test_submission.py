"""Reading submissions: tolerant of honest oddities, one reason for each broken file.

What else may be done to a notebook or its file is graded in tests/attacks/test_notebooks.py.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autograde.classroom.synthetic_class import answered_notebook, code_cell, write_notebook
from autograde.judge.submission import Submission, read_submission
from autograde.source.release import load_release, release_of
from tests.support.costs import cpu_below
from torchcourse.model.notebook_file import find_cell, normalized

LESSON = "01_tensors"


@pytest.fixture
def notebook() -> Any:
    return answered_notebook(LESSON, {})


@pytest.fixture
def submit(tmp_path: Path) -> Callable[[Any], Submission]:
    return lambda content: read_submission(write_notebook(tmp_path, "ann", LESSON, content), "ann", LESSON)


def sources(submission: Submission) -> list[str]:
    """The cells that grading runs at first."""
    return [cell.source for cell in submission.cells_to_run()]


def test_a_released_notebook_is_read_whole_and_is_unattempted_everywhere(submit: Any, notebook: Any) -> None:
    read = submit(notebook)
    assert not read.problem
    assert not read.tampered
    assert [c.grade_id for c in read.cells if c.grade_id] == list(load_release(LESSON).cells)
    assert all(read.untouched(name) for name in load_release(LESSON).exercises)


@pytest.mark.parametrize("points", [100, 0, -1, "2", "", None, float("nan"), float("inf"), True, [2], {"a": 1}, 10**40])
def test_changed_points_are_tampering(submit: Any, notebook: Any, points: Any) -> None:
    find_cell(notebook, "check_row_softmax")["metadata"]["nbgrader"]["points"] = points
    assert list(submit(notebook).tampered) == ["row_softmax"]


def test_comments_and_white_space_are_no_attempt(submit: Any, notebook: Any) -> None:
    stub = find_cell(notebook, "row_softmax")
    stub["source"] = ["# I will do this later\n", stub["source"], "\n\n\n"]
    assert submit(notebook).untouched("row_softmax")


def test_an_answer_in_another_cell_is_an_attempt(submit: Any, notebook: Any) -> None:
    notebook["cells"].append(code_cell("def row_softmax(x):\n    return x"))
    assert not submit(notebook).untouched("row_softmax")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is empty"),
        (b"   \n", "it is empty"),
        (b'{"cells": [', "not a notebook"),
        (b"import torch", "not a notebook"),
        (b"NaN", "not a notebook"),
        (b"[1, 2]", "not a notebook"),
        (b'{"cells": [' + b"{}, " * 2500 + b"{}]}", "2501 cells"),
        (b'"text"', "not a notebook"),
        (b"{}", "no cells"),
        (b'{"cells": 3}', "no cells"),
        (b"[" * 200_000, "nested too deeply"),
        (b'{"a":' * 200_000, "nested too deeply"),
        (bytes(range(256)) * 40, "not a notebook"),
        (b'{"cells": ' + b"9" * 9000 + b"}", "not a notebook"),
    ],
)
def test_broken_files_are_unreadable_with_a_reason(submit: Any, content: bytes, reason: str) -> None:
    read = submit(content)
    assert read.problem == "unreadable"
    assert reason in read.reason


def test_a_file_of_20_mb_of_lists_costs_less_than_a_second(submit: Any) -> None:
    text = b'{"cells": [], "metadata": [' + b"[]," * 6_900_000 + b"[]]}"
    with cpu_below(1):
        assert "6900004 opening brackets" in submit(text).reason


def test_code_of_many_megabytes_is_unreadable_and_of_two_is_read_in_a_second(submit: Any, notebook: Any) -> None:
    notebook["cells"].append(code_cell("\n" * 5_000_000))
    assert "its code has 50" in submit(notebook).reason
    notebook["cells"][-1] = code_cell("\n" * 2_000_000)
    read = submit(notebook)
    with cpu_below(1):
        assert all(read.untouched(name) for name in load_release(LESSON).exercises)


@pytest.mark.parametrize("cells", [5, None, "text", {"a": 1}, [3]])
def test_strange_worksheets_are_survived(submit: Any, cells: Any) -> None:
    read = submit({"nbformat": 3, "cells": 5, "worksheets": [{"cells": cells}, {}, 7]})
    assert (read.problem, read.cells) == ("", ())


def test_strange_cells_are_survived(submit: Any, notebook: Any) -> None:
    whole = sources(submit(notebook))
    strange = [None, 3, "cell", {}, {"cell_type": 7}, {"cell_type": "code", "source": 5, "metadata": []},
               {"cell_type": "code", "source": [1, None, "x = 1"], "metadata": {"nbgrader": "yes"}}]  # fmt: skip
    notebook["cells"] += strange
    assert sources(submit(notebook)) == [*whole, "", "x = 1"]


def test_a_missing_notebook_says_what_is_there_instead(tmp_path: Path) -> None:
    folder = tmp_path / "ann" / LESSON
    folder.mkdir(parents=True)
    (folder / "Untitled.ipynb").write_text("{}")
    read = read_submission(folder / f"{LESSON}.ipynb", "ann", LESSON)
    assert read.problem == "missing"
    assert "Untitled.ipynb" in read.reason


def test_a_linked_folder_is_not_followed(tmp_path: Path, notebook: Any) -> None:
    write_notebook(tmp_path, "bob", LESSON, notebook)
    (tmp_path / "ann").symlink_to(tmp_path / "bob")
    assert read_submission(tmp_path / "ann" / LESSON / f"{LESSON}.ipynb", "ann", LESSON).problem == "unreadable"


def test_a_folder_in_place_of_a_notebook_is_unreadable_and_leaves_nothing_open(tmp_path: Path) -> None:
    place = tmp_path / "ann" / LESSON / f"{LESSON}.ipynb"
    place.mkdir(parents=True)
    before = set(Path("/proc/self/fd").iterdir())
    assert read_submission(place, "ann", LESSON).reason == f"{place.name} is not a regular file."
    assert set(Path("/proc/self/fd").iterdir()) == before


def test_a_heading_that_was_added_to_a_question_is_an_answer_to_a_later_release_too(tmp_path: Path) -> None:
    lesson, question = "15_quizzes", "larger_than_memory"
    before = copy.deepcopy(load_release(lesson).notebook)
    before["cells"][0]["source"] = "# As it was called before"
    cell = find_cell(before, question)
    assert cell is not None
    cell["source"] = "Write your answer here:"
    earlier = release_of(lesson, copy.deepcopy(before))
    answers = []
    for text in (cell["source"], f"{cell['source']}\n# In shards, because opening files costs time"):
        cell["source"] = text
        path = write_notebook(tmp_path, "ann", lesson, before)
        answers.append(read_submission(path, "ann", lesson, [earlier]).answer_in_words(question))
    assert answers == ["", cell["source"]]


def test_normalized_keeps_what_matters() -> None:
    assert normalized("a = 1  # one\n\n  # two\nb=2") == "a=1b=2"
    assert normalized("x = '#no comment'") == "x='#nocomment'"


def test_half_a_surrogate_pair_is_replaced(submit: Any, notebook: Any) -> None:
    find_cell(notebook, "row_softmax")["source"] = "x = '\ud800'"
    find_cell(notebook, "one_hot")["metadata"]["nbgrader"]["grade_id"] = "\udfff"
    read = submit(notebook)
    assert "x = '?'" in sources(read)
    assert all(reason.encode() for reason in read.tampered.values())
