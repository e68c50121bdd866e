"""The pages about a class in a browser, with names hidden, and on a narrow screen."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from autograde.report.class_report import report
from autograde.report.exercise_page import exercise_page
from autograde.results.grades_table import COLUMNS
from autograde.source.release import load_release
from tests.support.reports import write_answer

LESSON = "01_tensors"


@pytest.mark.parametrize("name", ["report.html", "row_softmax.html"])
def test_on_a_narrow_screen_tables_scroll_in_their_boxes_and_names_leave_room(
    page: Page, tmp_path: Path, name: str
) -> None:
    exercises = load_release(LESSON).exercises
    rows = [f"ann.with.a.long.name,{LESSON},{exercise},0,1,failed,,said" for exercise in exercises]
    (tmp_path / "grades.csv").write_text("\n".join([",".join(COLUMNS), *rows]))
    write_answer(tmp_path, "ann.with.a.long.name", "def row_softmax(x):\n    return x")
    made = report(tmp_path) if name == "report.html" else exercise_page(tmp_path, "row_softmax")
    (tmp_path / name).write_text(made)
    page.set_viewport_size({"width": 400, "height": 800})
    page.goto((tmp_path / name).as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 400, "nothing is cut"
    for section in page.locator("section").all():
        assert section.evaluate("e => e.getBoundingClientRect().right") <= 400 - 16, "the margin"
    for box in page.locator(".wide:has(.heat)").all():
        last, first = box.locator("tbody td").last, box.locator("tbody th").first
        box.evaluate("e => e.scrollLeft = e.scrollWidth")
        left, right = box.evaluate("e => [e.getBoundingClientRect().left, e.getBoundingClientRect().right]")
        assert last.evaluate("e => e.getBoundingClientRect().right") <= right + 1
        place = first.evaluate("e => [e.getBoundingClientRect().left, e.getBoundingClientRect().width]")
        assert place[0] == pytest.approx(left, abs=1) and place[1] < 0.4 * (right - left)


def test_where_names_are_hidden_no_link_to_a_person_is_printed_or_reached_by_keyboard(
    page: Page, tmp_path: Path
) -> None:
    feedback = tmp_path / "feedback" / "ann.lee" / f"{LESSON}.html"
    feedback.parent.mkdir(parents=True)
    feedback.touch()
    (tmp_path / "grades.csv").write_text(f"{','.join(COLUMNS)}\nann.lee,{LESSON},describe,1,1,passed,,\n")
    path = tmp_path / "report.html"
    path.write_text(report(tmp_path, path))
    page.goto(path.as_uri())
    assert b"ann.lee" in page.pdf(), "the address of a link"
    page.check("#hide-names")
    expect(page.get_by_role("link")).to_have_count(0)
    expect(page.locator("td .alias").first).to_have_text("100 %")
    assert b"ann.lee" not in page.pdf()
    for _ in range(page.locator("a, input, summary").count()):
        page.keyboard.press("Tab")
        assert not page.evaluate("document.activeElement.matches('a')")
