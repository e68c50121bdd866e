"""The buttons below a card, what stands for them where there are none, and a card that follows the notebook."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.support.cards import right, shown_card
from tests.support.pages import Page
from tests.support.working_copies import WRONG, answered
from torchcourse.checking import answer_cell, card, card_buttons, hints
from torchcourse.checking.answer_cell import LastRun
from torchcourse.checking.card_details import card_details
from torchcourse.checking.report import Report
from torchcourse.model.catalogue import find
from torchcourse.model.lessons import lessons
from torchcourse.model.notebook_file import find_cell, read
from torchcourse.workspace import jupyter_settings
from torchcourse.workspace.working_copy import copy_notebooks


def test_the_button_gives_one_hint_more_each_time_and_then_stays(
    failed: Report, front_end: list[dict[str, Any]]
) -> None:
    pytest.importorskip("ipywidgets")
    card.show(shown_card(failed))
    shown, button = front_end
    assert "application/vnd.jupyter.widget-view+json" in button
    start_over = 'check("row_softmax") checks again, and torchcourse reset 01_tensors row_softmax starts over.'
    assert button["text/plain"] == f'hint("row_softmax") shows the next hint, {start_over}'
    made = card_buttons._shown["row_softmax"][0]
    assert made.description == "Next hint (1 of 3)"
    for level in (1, 2, 3):
        made.click()
        shown = front_end[0]
        assert f"Hints so far: {level} of 3" in shown["text/html"]
        assert shown["text/html"].count('role="alert"') == 1
        assert f"hint {level}: " in shown["text/plain"]
        assert "logsumexp" not in shown["text/html"] + shown["text/plain"]
    assert made.description == "Show the answer"
    made.click()
    assert '<details class="tc-answers" open><summary>Your answer beside the reference' in front_end[0]["text/html"]
    assert "x.amax(dim=-1, keepdim=True)" in front_end[0]["text/plain"]
    assert made.description == "The answer is shown above"
    assert not made.disabled
    card.show(shown_card(failed))
    assert len(front_end) == 3, "nothing is left to ask for, so there is no button"
    assert "Your answer beside the reference" in front_end[2]["text/html"]
    hints._asked.clear()
    card.show(shown_card(failed))
    assert card_buttons._shown["row_softmax"][0] is not made
    assert made.comm is None, "checking again leaves one button"


def test_the_buttons_of_another_cell_stay(
    failed: Report, front_end: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ipywidgets")
    card.show(shown_card(failed))
    (first,) = [made[0] for place, made in card_buttons._shown.items() if place == "row_softmax"]
    monkeypatch.setattr(answer_cell, "_runs", {"check()": LastRun(1.0, "another-cell")})
    card.show(shown_card(failed))
    assert first.comm is not None
    assert card_buttons._shown.pop("row_softmax another-cell")


def test_a_button_checks_again_on_the_same_card(
    failed: Report, passed: Report, front_end: list[dict[str, Any]]
) -> None:
    pytest.importorskip("ipywidgets")
    card.show(shown_card(failed), again=lambda: shown_card(passed))
    _, repeat, restart, _, _ = card_buttons._shown["row_softmax"]
    assert [repeat.description, restart.description] == ["Check again", "Reset this exercise"]
    assert "Not right yet" in front_end[0]["text/html"]
    more_hints = card_buttons._shown["row_softmax"][0]
    assert more_hints.layout.display is None
    repeat.click()
    assert "Right" in front_end[0]["text/plain"]
    assert len(front_end) == 2
    assert more_hints.layout.display == "none", "a right answer needs no hint"


def test_a_right_card_has_buttons_and_a_wrong_one_links_to_the_next_exercise(
    failed: Report, passed: Report, front_end: list[dict[str, Any]]
) -> None:
    pytest.importorskip("ipywidgets")
    card.show(shown_card(passed), again=lambda: shown_card(passed))
    repeat, restart, *_ = card_buttons._shown["row_softmax"]
    assert [repeat.description, restart.description] == ["Check again", "Reset this exercise"]
    assert front_end[1]["text/plain"].startswith('check("row_softmax") checks again, and torchcourse reset')
    page = Page(card.as_html(failed, card_details(failed, right)))
    names = lessons()[0].exercises
    after = names[names.index("row_softmax") + 1]
    assert f"starts over. Next: {after}" in page.text
    assert page.all("a")[-1]["href"] == f"#Exercise:-{after}"


def test_a_card_follows_the_saved_notebook(
    failed: Report, passed: Report, front_end: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    renewals: dict[str, Callable[[], None]] = {}
    monkeypatch.setattr(card, "after_each_save", renewals.__setitem__)
    saved = [shown_card(passed)]
    card.show(dataclasses.replace(shown_card(passed), reread=lambda: saved[0]))
    was = front_end[0]
    renewals["row_softmax"]()
    assert front_end[0] is was, "what is unfolded on a card stays so until the card says something else"
    saved = [shown_card(dataclasses.replace(passed, status="stale"))]
    renewals["row_softmax"]()
    assert front_end[0]["text/plain"].startswith("row_softmax: Checked an earlier version.")


def text_of(output: Any) -> str:
    (shown,) = output.outputs
    return str(shown["data"]["text/html"])


def test_a_button_resets_the_exercise_once_its_answer_is_saved(
    failed: Report, front_end: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ipywidgets")
    copy_notebooks(tmp_path)
    path = answered(tmp_path / "01_tensors.ipynb", WRONG)
    monkeypatch.setenv("JPY_SESSION_NAME", str(path))
    monkeypatch.setattr(answer_cell, "_runs", {WRONG: LastRun(1.0), WRONG + "  # better": LastRun(2.0)})
    card.show(shown_card(failed), again=lambda: card.Shown(failed))
    _, _, restart, said, _ = card_buttons._shown["row_softmax"]
    restart.click()
    assert text_of(said).startswith("Save the notebook")
    assert not (tmp_path / "aside").exists()
    answered(path, WRONG + "  # better")
    restart.click()
    (aside,) = (tmp_path / "aside").iterdir()
    assert aside.read_text() == WRONG + "  # better\n"
    assert f"aside/{aside.name}" in text_of(said)
    assert "Reload Notebook from Disk" in text_of(said)
    assert "aside" not in front_end[0]["text/html"]
    assert "better" not in path.read_text()


def test_in_our_jupyterlab_a_script_resets_the_cell_and_the_file_is_left_to_jupyterlab(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy_notebooks(tmp_path)
    path = answered(tmp_path / "01_tensors.ipynb", WRONG)
    before = path.read_bytes()
    monkeypatch.setenv("JPY_SESSION_NAME", str(path))
    monkeypatch.setattr(answer_cell, "_runs", {WRONG: LastRun(1.0)})
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", jupyter_settings.environment()["JUPYTER_CONFIG_PATH"])
    said = card_buttons.reset_here("row_softmax")
    (aside,) = (tmp_path / "aside").iterdir()
    assert said.startswith(f"<span>Your answer to row_softmax is in aside/{aside.name}.")
    assert "torchcourse reset 01_tensors.ipynb row_softmax resets it in the file" in said
    stub = find_cell(read(path), "row_softmax")
    assert stub is not None and f'"cell_id": "{stub["id"]}"' in said and "raise Unattempted" in said
    assert path.read_bytes() == before


def test_without_widgets_the_card_says_how_to_ask(
    failed: Report, front_end: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    card.show(shown_card(failed))
    (shown,) = front_end
    words = Page(shown["text/html"]).text
    assert "gives a hint" in words
    assert "torchcourse reset 01_tensors row_softmax" in words
    assert shown["text/plain"].endswith('\n  hint("row_softmax") gives a hint.')
    hints.next_hint(find("row_softmax")[1])
    card.show(shown_card(failed))
    assert front_end[-1]["text/plain"].endswith('\n  hint("row_softmax") gives the next hint.')
    assert 'hint("row_softmax") gives the next hint' in Page(front_end[-1]["text/html"]).text
    for _ in range(2):
        hints.next_hint(find("row_softmax")[1])
    card.show(shown_card(failed))
    for words in (Page(front_end[-1]["text/html"]).text, front_end[-1]["text/plain"]):
        assert 'hint("row_softmax") shows the answer' in words
    hints.next_hint(find("row_softmax")[1], has_reference=True)
    card.show(shown_card(failed))
    words = Page(front_end[-1]["text/html"]).text
    assert "hint(" not in words and "torchcourse reset 01_tensors row_softmax starts over" in words
    assert '<details class="tc-answers">' in front_end[-1]["text/html"]  # folded: it was opened when it was asked for


@pytest.mark.slow
def test_a_program_that_shows_neither_html_nor_widgets_gets_the_card_as_text(tmp_path: Path) -> None:
    lines = ("from torchcourse import check, hint", "def row_softmax(x): return x", 'check("row_softmax")')
    cells = [nbformat.v4.new_code_cell(line) for line in (*lines, 'hint("row_softmax")')]
    notebook = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(notebook, resources={"metadata": {"path": tmp_path}}).execute()
    shown = [[output["data"]["text/plain"] for output in cell.outputs] for cell in notebook.cells[2:]]
    assert shown[0][0].startswith("row_softmax: Not right yet. ")
    assert shown[0][1].startswith('hint("row_softmax") shows the next hint, check("row_softmax") checks again')
    assert "1 of 3" in shown[1][0]


def test_a_class_has_no_answer_to_show_after_the_hints(
    class_bundle: Path, failed: Report, front_end: list[dict[str, Any]]
) -> None:
    pytest.importorskip("ipywidgets")
    card.show(shown_card(failed))
    made = card_buttons._shown["row_softmax"][0]
    for _ in range(4):
        made.click()
    assert made.description == "All 3 hints are shown above"
    assert "reference" not in front_end[0]["text/html"]
