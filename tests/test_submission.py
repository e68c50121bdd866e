"""Reading submissions: tolerant of honest oddities, deaf to tricks, one reason for each broken file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autograde import course
from autograde.submission import Submission, read_submission, release, squeezed

LESSON = "01_tensors"


@pytest.fixture
def notebook() -> Any:
    return json.loads((course.NOTEBOOKS / f"{LESSON}.ipynb").read_text())


@pytest.fixture
def submit(tmp_path: Path) -> Callable[[Any], Submission]:
    path = tmp_path / "ann" / LESSON / f"{LESSON}.ipynb"
    path.parent.mkdir(parents=True)

    def submit(content: Any) -> Submission:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        path.write_bytes(data)
        return read_submission(path, "ann", LESSON)

    return submit


def cell(notebook: Any, grade_id: str) -> Any:
    return next(c for c in notebook["cells"] if c["metadata"].get("nbgrader", {}).get("grade_id") == grade_id)


def same_cells(one: Submission, other: Submission) -> bool:
    return one.cells == other.cells and not one.problem and not one.tampered


def test_a_released_notebook_is_read_whole_and_is_unattempted_everywhere(submit: Any, notebook: Any) -> None:
    read = submit(notebook)
    assert not read.problem
    assert not read.tampered
    assert [c.grade_id for c in read.cells if c.grade_id] == list(release(LESSON).cells)
    assert all(read.untouched(name) for name in release(LESSON).exercises)


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda t: b"\xef\xbb\xbf" + t, id="a BOM"),
        pytest.param(lambda t: t.replace(b"\n", b"\r\n"), id="CRLF"),
        pytest.param(lambda t: t.decode().encode("utf-16"), id="UTF-16"),
        pytest.param(lambda t: t + b"\n\n\n", id="empty lines at the end"),
    ],
)
def test_how_the_bytes_are_written_costs_nothing(submit: Any, notebook: Any, spoil: Callable[[bytes], bytes]) -> None:
    assert same_cells(submit(spoil(json.dumps(notebook, indent=1).encode())), submit(notebook))


@pytest.mark.parametrize("key", ["nbformat", "nbformat_minor", "metadata"])
def test_missing_notebook_fields_cost_nothing(submit: Any, notebook: Any, key: str) -> None:
    whole = submit(notebook)
    del notebook[key]
    assert same_cells(submit(notebook), whole)


def test_a_notebook_of_format_3_is_read(submit: Any, notebook: Any) -> None:
    whole = submit(notebook)
    cells = [{**c, "input": c["source"]} if c["cell_type"] == "code" else c for c in notebook["cells"]]
    for old in cells:
        if "input" in old:
            del old["source"]
    assert same_cells(submit({"nbformat": 3, "worksheets": [{"cells": cells}]}), whole)


def test_check_cells_may_be_deleted_edited_moved_and_doubled(submit: Any, notebook: Any) -> None:
    running = submit(notebook).to_run()
    cell(notebook, "check_one_hot")["source"] = "assert True"
    notebook["cells"].append(dict(cell(notebook, "check_describe"), id="another"))
    notebook["cells"].remove(cell(notebook, "check_row_softmax"))
    notebook["cells"].insert(0, notebook["cells"].pop())
    read = submit(notebook)
    assert not read.tampered
    assert read.to_run() == running


@pytest.mark.parametrize("points", [100, 0, -1, "2", "", None, float("nan"), float("inf"), True, [2], {"a": 1}, 10**40])
def test_changed_points_are_tampering(submit: Any, notebook: Any, points: Any) -> None:
    cell(notebook, "check_row_softmax")["metadata"]["nbgrader"]["points"] = points
    assert list(submit(notebook).tampered) == ["row_softmax"]


@pytest.mark.parametrize("grade_id", ["mine", "one_hot", None, 7])
def test_a_changed_grade_id_is_tampering_with_its_exercise(submit: Any, notebook: Any, grade_id: Any) -> None:
    cell(notebook, "row_softmax")["metadata"]["nbgrader"]["grade_id"] = grade_id
    assert list(submit(notebook).tampered) == ["row_softmax"]


def test_a_changed_cell_type_is_tampering(submit: Any, notebook: Any) -> None:
    cell(notebook, "row_softmax")["cell_type"] = "markdown"
    assert list(submit(notebook).tampered) == ["row_softmax"]


@pytest.mark.parametrize("version", [0, 99, -1, "three", None])
def test_any_schema_version_is_read(submit: Any, notebook: Any, version: Any) -> None:
    for each in notebook["cells"]:
        if "nbgrader" in each["metadata"]:
            each["metadata"]["nbgrader"]["schema_version"] = version
    assert not submit(notebook).tampered


def test_tags_on_an_answer_cost_nothing(submit: Any, notebook: Any) -> None:
    answer = cell(notebook, "row_softmax")
    answer["source"] = "def row_softmax(x):\n    return x"
    answer["metadata"]["tags"] = ["skip-execution", "demo"]
    assert answer["source"] in submit(notebook).to_run()


def test_released_demo_cells_are_not_run(submit: Any, notebook: Any) -> None:
    demos = [c for c in notebook["cells"] if "demo" in c["metadata"].get("tags", [])]
    assert demos
    running = submit(notebook).to_run()
    assert not {"".join(d["source"]) for d in demos} & set(running)


def test_comments_and_white_space_are_no_attempt(submit: Any, notebook: Any) -> None:
    stub = cell(notebook, "row_softmax")
    stub["source"] = ["# I will do this later\n", *stub["source"], "\n\n\n"]
    assert submit(notebook).untouched("row_softmax")


def test_an_answer_in_another_cell_is_an_attempt(submit: Any, notebook: Any) -> None:
    more = {"cell_type": "code", "metadata": {}, "outputs": [], "source": "def row_softmax(x):\n    return x"}
    notebook["cells"].append(more)
    assert not submit(notebook).untouched("row_softmax")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is empty"),
        (b"   \n", "it is empty"),
        (b'{"cells": [', "no notebook"),
        (b"[1, 2]", "something else"),
        (b'{"cells": [' + b"{}, " * 2500 + b"{}]}", "2501 cells"),
        (b'"text"', "something else"),
        (b"{}", "no cells"),
        (b'{"cells": 3}', "no cells"),
        (b"[" * 200_000, "nested too deeply"),
        (b'{"a":' * 200_000, "nested too deeply"),
        (b"\x00\xff\xfe\x9c", "no notebook"),
        (b'{"cells": ' + b"9" * 9000 + b"}", "no notebook"),
    ],
)
def test_broken_files_are_unreadable_with_a_reason(submit: Any, content: bytes, reason: str) -> None:
    read = submit(content)
    assert read.problem == "unreadable"
    assert reason in read.reason


@pytest.mark.parametrize("cells", [5, None, "text", {"a": 1}, [3]])
def test_strange_worksheets_are_survived(submit: Any, cells: Any) -> None:
    read = submit({"nbformat": 3, "cells": 5, "worksheets": [{"cells": cells}, {}, 7]})
    assert (read.problem, read.cells) == ("", ())


def test_strange_cells_are_survived(submit: Any, notebook: Any) -> None:
    whole = submit(notebook).to_run()
    strange = [None, 3, "cell", {}, {"cell_type": 7}, {"cell_type": "code", "source": 5, "metadata": []},
               {"cell_type": "code", "source": [1, None, "x = 1"], "metadata": {"nbgrader": "yes"}}]  # fmt: skip
    notebook["cells"] += strange
    assert submit(notebook).to_run() == [*whole, "", "x = 1"]


def test_a_missing_notebook_says_what_is_there_instead(tmp_path: Path) -> None:
    folder = tmp_path / "ann" / LESSON
    folder.mkdir(parents=True)
    (folder / "Untitled.ipynb").write_text("{}")
    read = read_submission(folder / f"{LESSON}.ipynb", "ann", LESSON)
    assert read.problem == "missing"
    assert "Untitled.ipynb" in read.reason


def test_links_fifos_and_folders_are_not_followed(tmp_path: Path) -> None:
    folder = tmp_path / "ann" / LESSON
    folder.mkdir(parents=True)
    path = folder / f"{LESSON}.ipynb"
    secret = course.SOLUTIONS / f"{LESSON}.py"
    makers: list[Callable[[], object]] = [lambda: path.symlink_to(secret), lambda: os.mkfifo(path), path.mkdir]
    for make in makers:
        make()
        assert read_submission(path, "ann", LESSON).problem == "unreadable"
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()


def test_a_linked_folder_is_not_followed(tmp_path: Path, notebook: Any) -> None:
    other = tmp_path / "bob" / LESSON
    other.mkdir(parents=True)
    (other / f"{LESSON}.ipynb").write_text(json.dumps(notebook))
    (tmp_path / "ann").symlink_to(tmp_path / "bob")
    assert read_submission(tmp_path / "ann" / LESSON / f"{LESSON}.ipynb", "ann", LESSON).problem == "unreadable"


def test_a_huge_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "ann" / LESSON / f"{LESSON}.ipynb"
    path.parent.mkdir(parents=True)
    with path.open("wb") as file:
        file.truncate(1 << 33)  # sparse: takes no disk
    read = read_submission(path, "ann", LESSON)
    assert read.problem == "unreadable"
    assert "limit" in read.reason


def test_squeezed_keeps_what_matters() -> None:
    assert squeezed("a = 1  # one\n\n  # two\nb=2") == "a=1b=2"
    assert squeezed("x = '#no comment'") == "x='#nocomment'"


def test_half_a_surrogate_pair_is_replaced(submit: Any, notebook: Any) -> None:
    cell(notebook, "row_softmax")["source"] = "x = '\ud800'"
    cell(notebook, "one_hot")["metadata"]["nbgrader"]["grade_id"] = "\udfff"
    read = submit(notebook)
    assert "x = '?'" in read.to_run()
    assert all(reason.encode() for reason in read.tampered.values())
