"""Results for learners: archives named as Moodle and Canvas take them back, and own pages through the exchange."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest

from tests.support.archives import ADA, BO, LESSON, archive
from tests.support.commands import run_instructors
from tests.support.exchange import Learner

ROSTER = "id,first_name,last_name,lms_user_id\n" + "".join(
    f'{m.id},{m.first_name},"{m.last_name}",{m.lms_user_id}\n' for m in (ADA, BO)
)


def graded(folder: Path, *students: str) -> None:
    """Write results as grading does."""
    for student in students:
        for path in (f"feedback/{student}/{LESSON}.html", f"autograded/{student}/{LESSON}/{LESSON}.ipynb"):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(f"{student}: {Path(path).suffix}")


def given_back(folder: Path, files: dict[str, bytes], *students: str) -> tuple[dict[str, str], str]:
    """Collect an archive, take results for graded, and return the archive for the platform and what was said."""
    (folder / "roster.csv").write_text(ROSTER)
    into = folder / "submitted"
    assert run_instructors("collect", archive(folder, files), "--lesson", LESSON, "--into", into)[0] == 0
    graded(folder, *students)
    status, output = run_instructors("release", LESSON, "--class", folder, "--zip", folder / "back.zip")
    assert status == 0, output
    with zipfile.ZipFile(folder / "back.zip") as opened:
        return {name: opened.read(name).decode() for name in opened.namelist()}, output


def moodle_takes(name: str) -> tuple[int, str]:
    """Return participant and file as Moodle reads them: the first part of the path with four or more parts counts."""
    parts = name.split("/")
    while parts:
        info = parts.pop(0).split("_", 4)
        if len(info) >= 4 and info[1].isdigit() and info[2:4] == ["assignsubmission", "file"]:
            return int(info[1]), "/".join([*info[4:5], *parts]).strip("/")
    raise AssertionError(name)


def canvas_takes(name: str) -> tuple[int, int]:
    """Return user and attachment as Canvas reads them: the first two parts that are numbers."""
    numbers = [part for part in name.rsplit("/")[-1].split("_") if re.fullmatch(r"\d+", part)]
    return int(numbers[0]), int(numbers[1])


@pytest.mark.parametrize("form", ["_file/{}", "_file_/{}", "_file_{}", "_file_/sub folder/{}"])
def test_moodle_finds_everybody_and_gets_their_pages(tmp_path: Path, form: str) -> None:
    name = form.format(f"{LESSON}.ipynb")
    files = {f"Ada Lovelace_12_assignsubmission{name}": b"a", f"Bo ONeil-Müller_13_assignsubmission{name}": b"b"}
    back, _ = given_back(tmp_path, files, "ada", "bo")
    assert {moodle_takes(name): text for name, text in back.items()} == {
        (12, f"{LESSON}.html"): "ada: .html", (13, f"{LESSON}.html"): "bo: .html",
    }  # fmt: skip


def test_canvas_finds_everybody_and_gets_notebooks_since_it_keeps_their_names(tmp_path: Path) -> None:
    files = {f"submissions/lovelaceada_40001_7_{LESSON}.ipynb": b"a", f"oneilbo_LATE_40002_8_{LESSON}-1.ipynb": b"b"}
    back, output = given_back(tmp_path, files, "ada")
    assert {canvas_takes(name): text for name, text in back.items()} == {(40001, 7): "ada: .ipynb"}
    assert all(name.endswith(".ipynb") for name in back)
    assert "left out: bo, not graded yet" in output
    assert f"Results of 1 student in {LESSON}, in 1 file: {tmp_path / 'back.zip'}" in output


def test_whoever_is_graded_and_in_no_archive_is_named(tmp_path: Path) -> None:
    _, output = given_back(tmp_path, {f"lovelaceada_40001_7_{LESSON}.ipynb": b"a"}, "ada", "cy")
    page = tmp_path / "feedback" / "cy" / f"{LESSON}.html"
    assert f"left out: cy, in no archive that was collected; the page is {page}" in output


def test_what_cannot_be_given_back_is_said_with_the_remedy(tmp_path: Path) -> None:
    graded(tmp_path, "ada")
    words = ["release", LESSON, "--class", tmp_path]
    for more, says in (([], "name one with --class"), (["--zip", tmp_path / "b.zip"], "run `torchcourse collect`")):
        status, output = run_instructors(*words, *more)
        assert (status, says in output.replace("\n", " ")) == (2, True), output
    (tmp_path / "nbgrader_config.py").write_text("c = get_config()\n")
    status, output = run_instructors(*words)
    assert (status, "use --zip" in output.replace("\n", " ")) == (2, True), output


def test_own_pages_reach_learners_through_the_exchange(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exchange, folder = tmp_path / "exchange", tmp_path / "spring"
    exchange.mkdir(mode=0o777)
    exchange.chmod(0o777)
    inbound = exchange / "torchcourse"
    for step in ("inbound", "outbound", "feedback"):
        (inbound / step).mkdir(parents=True, exist_ok=True)
    (inbound / "inbound").chmod(0o733)
    (inbound / "outbound" / LESSON).mkdir()
    (inbound / "outbound" / LESSON / f"{LESSON}.ipynb").write_text(
        '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    ada = Learner("ada", tmp_path / "ada", exchange)
    ada.fetch(LESSON)
    ada.submit(LESSON)
    (handed_in,) = (inbound / "inbound").iterdir()

    graded(folder, "ada", "bo")
    for name in ("timestamp.txt", "submission_secret.txt"):
        source = handed_in / name
        if not source.exists():
            source = next((tmp_path / "ada").rglob(name))
        (folder / "autograded" / "ada" / LESSON / name).write_bytes(source.read_bytes())
    (folder / "nbgrader_config.py").write_text(
        f"c = get_config()\nc.CourseDirectory.course_id = 'torchcourse'\nc.CourseDirectory.root = {str(folder)!r}\n"
        f"c.Exchange.root = {str(exchange)!r}\n"
    )
    status, output = run_instructors("release", LESSON, "--class", folder)
    assert status == 0, output
    assert "left out: bo, not handed in through the exchange" in output
    assert ada.feedback(LESSON) == ["ada: .html"]
