"""The nbgrader exchange around a class folder: what is released, fetched, submitted and collected."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograde import course
from autograde.classroom import make_class
from autograde.roster import Member
from tests.exchange import Learner, collect, release

LESSON = "01_tensors"
RELEASED = course.NOTEBOOKS / f"{LESSON}.ipynb"


def test_a_lesson_goes_out_and_the_latest_submission_of_each_comes_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room, exchange = tmp_path / "room", tmp_path / "exchange"
    make_class(room, [LESSON], members=[Member("ada"), Member("bo")], exchange=exchange)
    release(room, LESSON)
    outbound = exchange / "torchcourse" / "outbound"
    assert [p.relative_to(outbound) for p in outbound.rglob("*") if p.is_file()] == [Path(LESSON, f"{LESSON}.ipynb")]
    texts = {}
    for name in ("ada", "bo"):
        learner = Learner(name, tmp_path / name, exchange)
        notebook = learner.fetch(LESSON)
        assert notebook.read_bytes() == RELEASED.read_bytes()
        for attempt in ("first", "second") if name == "ada" else ("only",):
            texts[name] = RELEASED.read_text().replace("# 1 · Tensors", f"# {attempt} of {name}")
            notebook.write_text(texts[name])
            monkeypatch.setattr("nbgrader.exchange.abc.exchange.Exchange.set_timestamp", _clock(attempt))
            learner.submit(LESSON)
    collect(room, LESSON)
    for name, text in texts.items():
        folder = room / "submitted" / name / LESSON
        assert (folder / f"{LESSON}.ipynb").read_text() == text
        assert (folder / "timestamp.txt").read_text().startswith("2026-11-20 1")
        assert (folder / "submission_secret.txt").is_file()


def _clock(attempt: str) -> object:
    """In place of waiting a second between two submissions."""
    hour = {"first": 10, "second": 11, "only": 12}[attempt]

    def set_timestamp(self: object) -> None:
        self.timestamp = f"2026-11-20 {hour}:00:00.000000 UTC"  # type: ignore[attr-defined]

    return set_timestamp
