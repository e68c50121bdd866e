"""What differs between two gradings, and what another one would change."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograde.batch.journal import Journal
from autograde.classroom.compare import apply, changes, preview, read_grades
from autograde.errors import BusyError
from autograde.results.grades_table import COLUMNS
from tests.support.commands import run_instructors
from tests.support.results import tree

LESSON = "01_tensors"


def grades(folder: Path, **scores: float) -> None:
    folder.mkdir(exist_ok=True)
    lines = [",".join(COLUMNS)]
    for student, score in scores.items():
        lines.append(f"{student},{LESSON},describe,{score:g},2,{'passed' if score else 'failed'},,a message")
    (folder / "grades.csv").write_text("\n".join([*lines, ""]))


def test_diff_lists_students_who_gain_lose_come_and_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grades(tmp_path / "old", ada=2, bo=0, cy=2, dan=1)
    grades(tmp_path / "new", ada=2, bo=2, cy=1, eve=2)
    monkeypatch.chdir(tmp_path)
    status, output = run_instructors("diff", "old", "new/grades.csv")
    assert status == 0
    assert output.splitlines() == [
        f"bo {LESSON} describe: 0 of 2 (failed) -> 2 of 2 (passed)",
        f"cy {LESSON} describe: 2 of 2 (passed) -> 1 of 2 (passed)",
        f"eve {LESSON} describe: nothing -> 2 of 2 (passed)",
        f"dan {LESSON} describe: 1 of 2 (passed) -> nothing",
        "4 verdicts of 4 students differ: 4 points gained, 2 lost.",
    ]
    assert changes(read_grades(tmp_path / "old"), read_grades(tmp_path / "old")) == []
    grades(tmp_path / "one", ada=2, bo=0, cy=2, dan=2)
    last = run_instructors("diff", "old", "one")[1].splitlines()[-1]
    assert last == "1 verdict of one student differs: 1 point gained, 0 lost."


def test_diff_lists_every_change(tmp_path: Path) -> None:
    names = [f"s{number}" for number in range(90)]
    grades(tmp_path / "old", **dict.fromkeys(names, 0))
    grades(tmp_path / "new", **dict.fromkeys(names, 2))
    lines = run_instructors("diff", tmp_path / "old", tmp_path / "new")[1].splitlines()
    assert [line.split()[0] for line in lines[:-1]] == names


@pytest.mark.parametrize("text", ["a\n\0\n", "student,score\na,1\n", "student,lesson,exercise,score\na,b,c,d\n", None])
def test_diff_refuses_what_is_no_table_of_grades(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "grades.csv").write_text(text)
    status, output = run_instructors("diff", tmp_path, tmp_path)
    assert status == 2
    assert any(words in output.replace("\n", " ") for words in ("has no column", "is no table of grades", "is missing"))


def test_a_preview_writes_nothing_and_begins_with_the_journal(tmp_path: Path) -> None:
    out = tmp_path / "out"
    grades(out, ada=2, bo=0)
    (out / "journal" / "ada").mkdir(parents=True)
    (out / "journal" / "ada" / f"{LESSON}.json").write_text("known")
    before = tree(out)

    def grade(folder: Path) -> None:
        assert (folder / "journal" / "ada" / f"{LESSON}.json").read_text() == "known"
        grades(folder, ada=2, bo=2)

    with preview(out, [LESSON], grade) as (new, found):
        assert [str(change) for change in found] == [f"bo {LESSON} describe: 0 of 2 (failed) -> 2 of 2 (passed)"]
        with Journal(out / "journal"), pytest.raises(BusyError, match="Another grader"):
            apply(new, out)
    assert not new.exists()
    assert tree(out) == before
