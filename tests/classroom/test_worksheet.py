"""When submissions were handed in, from Moodle's grading worksheet."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from autograde.classroom.collect import CollectError
from autograde.classroom.worksheet import read_times
from tests.support.archives import ADA, BO, LESSON, archive
from tests.support.commands import run_instructors

HEADER = 'Identifier,"Full name",Status,Grade,"Last modified (submission)","Last modified (grade)"\n'
ROSTER = f"id,first_name,last_name\nada,Ada,Lovelace\nbo,Bo,{BO.last_name}\n"


@pytest.fixture(autouse=True)
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_the_times_of_the_worksheet_stand_beside_the_notebooks(tmp_path: Path) -> None:
    (tmp_path / "roster.csv").write_text(ROSTER)
    sheet = tmp_path / "sheet.csv"
    ada = 'Participant 12,"Ada Lovelace",S,-,"Tuesday, 1 December 2026, 6:30\u202fPM",-\n'
    sheet.write_text("\ufeff" + HEADER + ada + 'Participant 13,"Bo",S,-,-,-\n')
    files = {f"Ada Lovelace_12_assignsubmission_file/{LESSON}.ipynb": b"a",
             f"Bo ONeil-Müller_13_assignsubmission_file/{LESSON}.ipynb": b"b"}  # fmt: skip
    into = tmp_path / "submitted"
    words = ["collect", archive(tmp_path, files), "--lesson", LESSON, "--into", into]
    assert "--times" in run_instructors(*words)[1], "the remedy"
    status, output = run_instructors(*words, "--times", sheet)
    assert status == 0, output
    assert (into / ADA.id / LESSON / "timestamp.txt").read_text() == "2026-12-01 17:30:00 UTC"
    assert not (into / BO.id / LESSON / "timestamp.txt").exists()
    assert f"{sheet} has no time for bo." in output.replace("\n", " ")


def test_what_people_wrote_online_may_be_long(tmp_path: Path) -> None:
    sheet, header = tmp_path / "sheet.csv", HEADER.replace("Status", '"Online text"')
    sheet.write_text(header + f'Participant 12,A,{"x" * 200_000},-,"Tuesday, 1 December 2026, 6:30 PM",-\n')
    assert set(read_times(sheet)) == {"12"}


def test_the_number_of_a_group_is_no_participants(tmp_path: Path) -> None:
    (tmp_path / "roster.csv").write_text(
        ROSTER.replace("last_name", "last_name,group").replace("Lovelace", "Lovelace,A")
    )
    sheet = tmp_path / "sheet.csv"
    sheet.write_text(HEADER + 'Participant 12,"Somebody else",S,-,"Tuesday, 1 December 2026, 6:30 PM",-\n')
    group = archive(tmp_path, {f"A_12_assignsubmission_file/{LESSON}.ipynb": b"ours"})
    into = tmp_path / "submitted"
    status, output = run_instructors("collect", group, "--lesson", LESSON, "--into", into, "--groups", "--times", sheet)
    assert (status, f"{sheet} has no time for ada." in output.replace("\n", " ")) == (0, True), output
    assert sorted(path.name for path in (into / "ada" / LESSON).iterdir()) == [f"{LESSON}.ipynb"]


def test_the_time_of_an_author_counts_for_the_others_of_a_group(tmp_path: Path) -> None:
    roster = (
        ROSTER.replace("last_name", "last_name,group").replace("Lovelace", "Lovelace,A").replace("Müller", "Müller,A")
    )
    (tmp_path / "roster.csv").write_text(roster)
    sheet = tmp_path / "sheet.csv"
    sheet.write_text(HEADER + 'Participant 12,"Ada Lovelace",S,-,"Tuesday, 1 December 2026, 6:30 PM",-\n')
    one = archive(tmp_path, {f"Ada Lovelace_12_assignsubmission_file/{LESSON}.ipynb": b"ours"})
    into = tmp_path / "submitted"
    status, output = run_instructors("collect", one, "--lesson", LESSON, "--into", into, "--groups", "--times", sheet)
    assert status == 0, output
    times = [(into / student / LESSON / "timestamp.txt").read_text() for student in (ADA.id, BO.id)]
    assert times == ["2026-12-01 17:30:00 UTC"] * 2


@pytest.mark.parametrize(
    ("text", "says"),
    [("id,name\n1,a\n", "is no grading worksheet"), (HEADER + "Participant 1,A,S,-,gestern,-\n", "no time as Moodle")],
)
def test_another_file_is_refused_with_the_remedy(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "sheet.csv").write_text(text)
    with pytest.raises(CollectError, match=says):
        read_times(tmp_path / "sheet.csv")
