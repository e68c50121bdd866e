"""Names and times that come with a submission: of its folder, of files beside it, of what it says of itself."""

from __future__ import annotations

import csv
import os
import shutil
from pathlib import Path

import pytest

from autograde.batch.grading import grade
from autograde.batch.student_names import student_names
from autograde.judge.verdict import Verdict
from autograde.results.exchange_files import read_time
from autograde.results.grades_table import write_table
from autograde.source.release import load_release
from tests.support.results import grade_rows
from tests.support.stand_ins import LESSON, SOLVED, submit, use_stand_in

NAMES = [
    os.fsdecode(b"caf\xe9"), "caf\\xe9", "caf\\udce9", os.fsdecode(b"\xe9" * 120), "é" * 127, "\x1b[2J\x1b]0;x\x07",
    "two\nlines", "=cmd|' C calc'!A0", "+1", "-1", "@SUM(1)", "a,b\"c", "gnp.\u202eann", "क्\u200dष", "ann",
    "<script>alert(1)",
]  # fmt: skip


def test_every_folder_has_a_name_of_its_own_that_can_be_shown_and_kept() -> None:
    called = student_names(NAMES)
    assert len(set(called.values())) == len(NAMES)
    for name in called.values():
        assert not set(name) & {"\x1b", "\n", "\u202e", "<", ">", "&", '"', "`"}
        assert len(name.encode()) <= 255
    assert called["ann"] == "ann"
    assert called["é" * 127] == "é" * 127
    assert called["क्\u200dष"] == "क्\u200dष"
    assert student_names(NAMES[::-1]) == called


def test_nobody_can_call_themselves_as_somebody_elses_name_was_shortened() -> None:
    long = os.fsdecode(b"\xe9" * 120)
    shortened = student_names([long])[long]
    called = student_names([long, shortened])
    assert called[long] == shortened != called[shortened]


def test_a_class_of_odd_names_is_graded_and_nothing_in_its_table_is_a_formula(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_stand_in(monkeypatch, tmp_path)
    first = submit(tmp_path / "class", "ann", SOLVED).parents[1]
    for name in [name for name in NAMES if name != "ann"]:
        shutil.copytree(first, tmp_path / "class" / name)
    shown = grade([LESSON], tmp_path / "class", tmp_path / "out")
    assert len({graded.submission.student for graded in shown}) == len(list((tmp_path / "class").iterdir()))
    text = (tmp_path / "out" / "grades.csv").read_text()
    assert not set(text) & {"\x1b", "\u202e"}
    rows = grade_rows(tmp_path / "out" / "grades.csv")
    assert len(rows) == len(shown) * len(load_release(LESSON).exercises)
    assert not [field for row in rows for field in row.values() if field[:1] in ("=", "+", "-", "@")]
    pages = list((tmp_path / "out" / "feedback").glob(f"*/{LESSON}.html"))
    assert len(pages) == len(shown)
    assert not [page for page in pages if "<script" in page.read_text()]


def written(folder: Path, verdict: Verdict) -> list[str]:
    write_table(folder / "grades.csv", [verdict])
    return next(csv.reader((folder / "grades.csv").read_text().splitlines()[1:]))


def test_no_field_of_the_table_is_a_formula(tmp_path: Path) -> None:
    verdict = Verdict("=1", "01_tensors", "describe", 1.0, 1.0, "passed", "+mistake", "@message")
    assert written(tmp_path, verdict) == ["'=1", "01_tensors", "describe", "1", "1", "passed", "'+mistake", "'@message"]
    wide = Verdict("\uff1d1", "01_tensors", "describe", 1.0, 1.0, "passed")
    assert written(tmp_path, wide)[0] == "'\uff1d1"


@pytest.mark.parametrize("separator", [";", "|", ';"'])
def test_no_field_is_a_formula_where_a_spreadsheet_takes_another_separator(tmp_path: Path, separator: str) -> None:
    """In many languages it is the semicolon: what follows one in a message would be a cell of its own."""
    verdict = Verdict("ann", "01_tensors", "describe", 0, 1, "error", "", f"ValueError: x{separator}=cmd|' /C calc'!A0")
    told = written(tmp_path, verdict)[-1]
    assert told.endswith(f"x{separator}'=cmd|' /C calc'!A0")


@pytest.mark.parametrize(
    ("text", "year"),
    [
        (b"2015-02-02 15:58:23.948203 UTC\n", 2015), (b"2099-12-31 23:59:59 +0100", 2099), (b"whenever", None),
        (b"", None), (b"\xff\xfe\x00", None),
        (b"9999-12-31 23:00:00 UTC", None), (b"0001-01-02 00:00:00 UTC", None),
        (b"0001-01-01 00:00:00 +2300", None), (b"9" * 5000, None),
        (b"2015-02-02 15:58:23 99999999999999999999", None),
    ],
)  # fmt: skip
def test_a_timestamp_that_says_no_time_is_none(tmp_path: Path, text: bytes, year: int | None) -> None:
    (tmp_path / "timestamp.txt").write_bytes(text)
    time = read_time(tmp_path)
    assert (time and time.year) == year


def test_a_timestamp_that_is_no_file_is_none(tmp_path: Path) -> None:
    for name in ("pipe", "link", "nothing", "folder"):
        (tmp_path / name).mkdir()
    os.mkfifo(tmp_path / "pipe" / "timestamp.txt")
    (tmp_path / "link" / "timestamp.txt").symlink_to("/etc/hostname")
    (tmp_path / "folder" / "timestamp.txt").mkdir()
    assert [read_time(tmp_path / name) for name in ("pipe", "link", "nothing", "folder")] == [None] * 4
