"""The script that tells a card when the cell on the screen has changed; the browser tests run it."""

from __future__ import annotations

import json
import re

import pytest

from torchcourse.checking import answer_cell, card
from torchcourse.checking.answer_cell import LastRun
from torchcourse.checking.card_details import CardDetails
from torchcourse.checking.cell_on_screen import script_for
from torchcourse.checking.report import Report

SOURCE = 'def own(x):\n    return "</script><b>"'


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> str:
    """The source of a cell that was run."""
    monkeypatch.setattr(answer_cell, "_runs", {SOURCE: LastRun(1.0, "a1")})
    return SOURCE


def test_the_script_knows_the_cell_and_its_source_and_no_source_ends_it(source: str) -> None:
    script = script_for(source)
    assert script.count("</script>") == 1 and script.endswith("</script>")
    (judged,) = re.findall(r"\}\)\((\{.*\})\);", script)
    told = json.loads(judged)
    assert (told["cell_id"], told["source"]) == ("a1", SOURCE)
    assert told["changed"] == answer_cell.CHANGED
    assert (told["right"], told["stale"]) == ("Right · ", "Checked an earlier version · ")


def test_there_is_no_script_where_the_cell_has_no_known_id(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_cell, "_runs", {SOURCE: LastRun(1.0)})
    assert script_for(source) == ""
    monkeypatch.setattr(answer_cell, "_runs", {})
    assert script_for(source) == ""


@pytest.mark.parametrize(
    ("warning", "has_script"), [("", True), (answer_cell.CHANGED, True), ("Its run failed.", False)]
)
def test_a_card_has_a_script_unless_its_cell_failed_when_it_was_run_again(
    source: str, warning: str, has_script: bool
) -> None:
    details = CardDetails(script=script_for(source), warning=warning)
    html = card.bundle(card.Shown(Report("own", "stale" if warning else "passed", "Right."), details))["text/html"]
    assert ("<script>" in html) == has_script
    assert html.count('class="tc-changed"') == (warning == answer_cell.CHANGED)
    assert html.count('class="tc-warning"') == (warning == "Its run failed.")
