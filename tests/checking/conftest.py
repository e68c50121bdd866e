"""An installation as a class has it, a wrong and a right answer's report, and what a notebook shows."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.cards import right
from torchcourse.checking import answer_cell, card_buttons, hints, references
from torchcourse.checking.check import report_on
from torchcourse.checking.report import Report
from torchcourse.workspace import session


@pytest.fixture
def class_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation without solutions, as a class has it."""
    monkeypatch.setattr(references, "SOLUTIONS", tmp_path / "solutions")
    monkeypatch.setattr(references, "PACKED", tmp_path / "references.json")
    return tmp_path


@pytest.fixture(scope="session")
def failed() -> Report:
    return report_on("row_softmax", {"row_softmax": lambda x: right(x.movedim(0, -1)).movedim(-1, 0)})


@pytest.fixture(scope="session")
def passed() -> Report:
    return report_on("row_softmax", {"row_softmax": right})


@pytest.fixture(autouse=True)
def nothing_run_or_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hints, "_asked", {})
    monkeypatch.setattr(card_buttons, "_shown", {})
    monkeypatch.setattr(answer_cell, "_runs", {})


@pytest.fixture
def front_end(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What a notebook shows: each display, or what it was replaced by."""
    shown: list[dict[str, Any]] = []

    def display(bundle: dict[str, Any], raw: bool = False, display_id: bool = False) -> Any:
        place = len(shown)
        shown.append(bundle)
        return SimpleNamespace(update=lambda new, raw: shown.__setitem__(place, new))

    pytest.importorskip("IPython")
    monkeypatch.setattr("IPython.display.display", display)
    monkeypatch.setattr(session, "in_notebook", lambda: True)
    return shown
