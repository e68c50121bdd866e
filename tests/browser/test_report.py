"""The class report in a browser, with names hidden."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page, expect

from autograde.report.class_report import report
from autograde.results.grades_table import COLUMNS

LESSON = "01_tensors"


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
