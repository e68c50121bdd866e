"""The script that tells a card when the cell on the screen has changed; the browser tests run it."""

from __future__ import annotations

import json
import re

import pytest

from torchcourse.checking import answer_cell, card
from torchcourse.checking.card_details import CardDetails
from torchcourse.checking.cell_on_screen import script_for
from torchcourse.checking.report import Report

SOURCE = 'def own(x):\n    return "</script><b>"'


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> str:
    """An answer, of which only its cell matters."""
    monkeypatch.setattr("torchcourse.checking.cell_on_screen.cell_of", lambda answer: SOURCE)
    monkeypatch.setattr(answer_cell, "_ids", {SOURCE: "a1"})
    return "own"


def test_the_script_knows_the_cell_and_its_source_and_no_source_ends_it(answer: str) -> None:
    script = script_for(answer)
    assert script.count("</script>") == 1 and script.endswith("</script>")
    (judged,) = re.findall(r"\}\)\((\{.*\})\);", script)
    told = json.loads(judged)
    assert (told["cell_id"], told["source"]) == ("a1", SOURCE)
    assert told["changed"] == answer_cell.CHANGED and told["stale"].startswith("Checked an earlier version")


def test_there_is_no_script_where_the_cell_has_no_known_id(answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_cell, "_ids", {SOURCE: ""})
    assert script_for(answer) == ""
    monkeypatch.setattr(answer_cell, "_ids", {})
    assert script_for(answer) == ""


def test_a_card_that_warns_already_has_no_script(answer: str) -> None:
    def html(warning: str) -> str:
        details = CardDetails(script=script_for(answer), warning=warning)
        return card._bundle(card.Shown(Report("own", "passed", "Right."), details))["text/html"]

    assert "<script>" in html("")
    assert "<script>" not in html("The notebook was saved with a different cell.")
