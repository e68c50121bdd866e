"""`torchcourse reset`: an exercise begun again; and how notebooks are written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.commands import run_command
from tests.support.working_copies import RIGHT, WRONG, answered
from torchcourse.model import notebook_file
from torchcourse.model.notebook_file import find_cell, read, source_of, write
from torchcourse.workspace import progress, working_copy


def test_reset_puts_the_stub_back_and_keeps_the_answer_aside(mine: Path) -> None:
    released = read(mine)
    answered(mine, WRONG)
    progress.record(mine.parent, "row_softmax", "passed")
    status, output = run_command("reset", mine, "row_softmax")
    assert status == 0
    assert read(mine) == released
    (kept,) = (mine.parent / "aside").iterdir()
    assert kept.read_text() == WRONG + "\n"
    assert str(kept) in output
    assert progress.read(mine.parent) == {}
    run_command("reset", answered(mine, RIGHT), "row_softmax")  # in the same second
    assert {p.read_text() for p in (mine.parent / "aside").iterdir()} == {WRONG + "\n", RIGHT + "\n"}


@pytest.mark.parametrize(
    ("exercise", "wanted", "words"),
    [
        ("row_softmax", 0, "as it was released"),
        ("row_softmx", 2, "Did you mean 'row_softmax'?"),
        ("zzz", 2, "There is no exercise 'zzz'. The notebook has describe, "),
        ("check_one_hot", 2, ""),
    ],
)
def test_reset_of_a_stub_or_of_what_is_no_exercise_changes_nothing(
    mine: Path, exercise: str, wanted: int, words: str
) -> None:
    before = mine.read_bytes()
    status, output = run_command("reset", mine, exercise)
    assert (status, mine.read_bytes()) == (wanted, before)
    assert words in output
    assert not (mine.parent / "aside").exists()


def test_reset_takes_the_stub_of_the_notebooks_own_release_or_if_that_is_damaged_the_installed_one(
    mine: Path,
) -> None:
    released, origin = read(mine), working_copy.origin(mine.parent, mine.name)
    answered(origin, "an older stub")
    run_command("reset", answered(mine, WRONG), "row_softmax")
    assert source_of(find_cell(read(mine), "row_softmax") or {}) == "an older stub"
    origin.write_text("{")
    run_command("reset", mine, "row_softmax")
    assert read(mine) == released


def test_reset_loses_nothing_where_nothing_can_be_written(mine: Path) -> None:
    before = answered(mine, WRONG).read_bytes()
    (mine.parent / "aside").write_text("a file stands where the folder should be")
    status, output = run_command("reset", mine, "row_softmax")
    assert (status, mine.read_bytes()) == (2, before)
    assert "cannot be created" in output


def test_a_link_stays_a_link_and_permissions_stay(tmp_path: Path) -> None:
    (tmp_path / "real.ipynb").write_text("old")
    (tmp_path / "real.ipynb").chmod(0o600)
    (tmp_path / "link.ipynb").symlink_to("real.ipynb")
    notebook_file.replace_text(tmp_path / "link.ipynb", "new")
    assert (tmp_path / "link.ipynb").is_symlink()
    assert (tmp_path / "real.ipynb").read_text() == "new"
    assert (tmp_path / "real.ipynb").stat().st_mode & 0o777 == 0o600


def test_what_jupyter_wrote_is_written_back_byte_for_byte(mine: Path) -> None:
    before = mine.read_bytes()
    write(mine, json.loads(before))
    assert mine.read_bytes() == before
