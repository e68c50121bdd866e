"""An instructor's afternoon: release, collect what two learners submit, autograde, comment, give feedback, export."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from autograde.classroom.class_folder import make_class
from autograde.classroom.export import export, scores_of
from autograde.classroom.roster import Member
from autograde.source import paths
from autograde.source.release import load_release
from autograde.source.script import answers_as_text
from tests.browser.conftest import class_server
from tests.browser.formgrader import press, shoot
from tests.support.exchange import Learner
from tests.support.working_copies import WRONG

pytestmark = [pytest.mark.browser, pytest.mark.sandbox]

LESSON = "01_tensors"
MOST = sum(map(load_release(LESSON).points, load_release(LESSON).exercises))
POINTS = load_release(LESSON).points("row_softmax")
COMMENT = "Which axis do the rows lie along? Read the section on reductions again."


@dataclass(frozen=True)
class ClassLab:
    """An instructor's JupyterLab, open on a class folder, and the exchange; `{}` in its address stands for the page."""

    address: str
    room: Path
    exchange: Path


@pytest.fixture
def class_lab(tmp_path: Path) -> Iterator[ClassLab]:
    room, exchange = tmp_path / "room", tmp_path / "exchange"
    members = [Member("ada", "Ada", "Lovelace", "ada@example.org"), Member("bo", "Bo", "O'Neil", "bo@example.org")]
    due = datetime.now(UTC).replace(tzinfo=None) - timedelta(hours=1)
    make_class(room, [LESSON], members=members, exchange=exchange, due={LESSON: due}, late=0.25)
    exchange.mkdir()
    with class_server(room, tmp_path / "home") as address:
        yield ClassLab(address, room, exchange)


def submit(learner: Learner, **answers: str) -> None:
    """Fetch the lesson, answer it as the reference does but for `answers`, and submit."""
    path = learner.fetch(LESSON)
    notebook = json.loads(path.read_text())
    known = answers_as_text(paths.SOLUTIONS / f"{LESSON}.py") | answers
    for cell in notebook["cells"]:
        name = cell["metadata"].get("nbgrader", {}).get("grade_id", "")
        cell["source"] = known.get(name, cell["source"])
    path.write_text(json.dumps(notebook))
    learner.submit(LESSON)


def release_lesson(page: Page, lab: ClassLab) -> None:
    page.goto(lab.address.format("lab"))
    page.get_by_role("menuitem", name="Nbgrader", exact=True).click()
    page.get_by_role("menuitem", name="Formgrader", exact=True).click()
    panel = page.frame_locator("iframe")
    row = panel.locator("tr", has_text=LESSON)
    expect(row.locator(".status")).to_have_text("draft")
    press(page, panel, row.locator(".release a"), "Successfully released")
    expect(row.locator(".status")).to_have_text("released")
    shoot(page, "formgrader-released")


def collect(page: Page) -> None:
    panel = page.frame_locator("iframe")
    row = panel.locator("tr", has_text=LESSON)
    press(page, panel, row.locator(".collect a"), "Successfully collected")
    expect(row.locator(".num-submissions")).to_have_text("2")


def autograde(page: Page, lab: ClassLab) -> None:
    page.goto(lab.address.format(f"formgrader/manage_submissions/{LESSON}"))
    for name in ("ada", "bo"):
        one = page.locator("tr", has=page.locator(".student-id", has_text=name))
        expect(one.locator(".status")).to_have_text("needs autograding")
        press(page, page, one.locator(".autograde a"), "Successfully autograded")
        expect(one.locator(".status")).to_have_text("graded")
    expect(page.locator("tr", has_text="Lovelace").locator(".score")).to_have_text(f"{MOST:g} / {MOST:g}")
    expect(page.locator("tr", has_text="O'Neil").locator(".score")).to_have_text(f"{MOST - POINTS:g} / {MOST:g}")
    shoot(page, "formgrader-autograded", 420)


def comment(page: Page, lab: ClassLab) -> None:
    """Comment on bo's answer, and give half a point for it."""
    page.goto(lab.address.format(f"formgrader/manage_students/bo/{LESSON}"))
    page.locator("td a", has_text=LESSON).click()
    answer, check = page.locator("#row_softmax-comment"), page.locator("#check_row_softmax")
    expect(check).to_have_attribute("placeholder", "0")
    expect(page.locator("body")).to_contain_text("wrong-dim")
    for field, text, kind in ((answer, COMMENT, "comment"), (check, "0.5", "grade")):
        with page.expect_response(re.compile(f"/api/{kind}/")) as saved:
            field.fill(text)
            field.blur()
        assert saved.value.ok
    answer.scroll_into_view_if_needed()
    page.wait_for_timeout(500)
    shoot(page, "formgrader-comment")


def test_an_afternoon_from_release_to_feedback(page: Page, class_lab: ClassLab, tmp_path: Path) -> None:
    release_lesson(page, class_lab)
    ada, bo = (Learner(name, tmp_path / name, class_lab.exchange) for name in ("ada", "bo"))
    submit(ada)
    submit(bo, row_softmax=WRONG)
    collect(page)
    autograde(page, class_lab)
    comment(page, class_lab)

    page.goto(class_lab.address.format("formgrader/manage_assignments"))
    row = page.locator("tr", has_text=LESSON)
    press(page, page, row.locator(".generate-feedback a"), "Successfully generated feedback")
    press(page, page, row.locator(".release-feedback a"), "Successfully released feedback")
    (adas,), (bos,) = ada.feedback(LESSON), bo.feedback(LESSON)
    assert "Which axis do the rows lie along?" in bos
    assert "Which axis" not in adas
    assert "wrong-dim" in bos
    for page_text in (adas, bos):
        assert not [word for word in ("autograde.hidden", "BEGIN SOLUTION", "more_softmax") if word in page_text]

    rows = list(csv.DictReader(io.StringIO(export(scores_of(class_lab.room / "gradebook.db"), "csv"))))
    given = {row["student_id"]: (float(row["raw_score"]), float(row["score"])) for row in rows}
    bos_raw, bos_penalty = MOST - POINTS + 0.5, 0.25 * (MOST - POINTS)  # lateness was judged before the half point
    assert given == {"ada": (MOST, 0.75 * MOST), "bo": (bos_raw, pytest.approx(bos_raw - bos_penalty))}
    (tmp_path / "feedback.html").write_text(bos)
    page.goto((tmp_path / "feedback.html").as_uri())
    page.locator("text=Which axis").first.scroll_into_view_if_needed()
    shoot(page, "nbgrader-feedback")
