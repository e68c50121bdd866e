"""The cell that an answer came from, and the warning if it was edited but not run."""

from __future__ import annotations

import asyncio
import json
import linecache
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from torchcourse.checking import answer_cell, save_watch
from torchcourse.checking.card import as_html, as_text
from torchcourse.checking.check import _checked
from torchcourse.checking.failed_case import was_right
from torchcourse.workspace import progress, session


def ran(cell: str, name: str = "/tmp/ipykernel_1/1.py") -> dict[str, Any]:
    """What a cell with this text binds, its text kept where IPython keeps it."""
    linecache.cache[name] = (len(cell), None, [line + "\n" for line in cell.splitlines()], name)
    names: dict[str, Any] = {"__name__": "__main__", "torch": torch}
    exec(compile(cell, name, "exec"), names)
    return names


@pytest.mark.parametrize(
    "cell",
    [
        "from dataclasses import *\n\n@dataclass\nclass own:\n    size: int\n\n    def forward(self):\n        pass",
        '@torch.library.custom_op("tests::own", mutates_args=())\ndef own(x: torch.Tensor) -> None:\n    return None',
        "import functools\n\n@functools.cache\ndef own(x):\n    return x",
        "def own(x):\n    pass",
    ],
)
def test_the_cell_of_an_answer_is_found(cell: str) -> None:
    assert answer_cell.cell_of(ran(cell)["own"]) == cell


@pytest.mark.parametrize("answer", [None, 3, len, torch.softmax, torch.nn.Softmax(-1), eval("lambda x: x")])
def test_of_what_has_no_cell_nothing_is_said_and_nothing_raised(answer: object) -> None:
    assert "def own" not in answer_cell.cell_of(answer)
    assert answer_cell.changed_since(answer) == ""


OLD, NEW = "def own(x):\n    return x", "def own(x):\n    return x + 1"
Run = Callable[[str], object]


@pytest.fixture
def run_cell(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a cell as IPython does, and return what it binds to `own`."""
    told: dict[str, list[Callable[[object], None]]] = {"pre_run_cell": [], "post_run_cell": []}
    events = SimpleNamespace(callbacks=told, register=lambda event, function: told[event].append(function))
    monkeypatch.setattr(session, "shell", lambda: SimpleNamespace(user_ns={}, events=events))
    answer_cell.watch()
    answer_cell.watch()
    ((before,), (after,)) = told.values()

    def run(cell: str) -> object:
        info = SimpleNamespace(raw_cell=cell, cell_id="a1")
        before(info)
        error = None
        try:
            return ran(cell, f"/tmp/ipykernel_1/{abs(hash(cell))}.py")["own"]
        except Exception as raised:
            error = raised
            return None
        finally:
            after(SimpleNamespace(info=info, error_before_exec=error, error_in_exec=None))

    return run


@pytest.fixture
def notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "01_tensors.ipynb"
    monkeypatch.setenv("JPY_SESSION_NAME", str(path))
    monkeypatch.setattr(answer_cell, "_runs", {})
    return path


def save(path: Path, content: bytes, later: float = 60) -> None:
    """Save a file, so many seconds from now."""
    path.write_bytes(content)
    os.utime(path, (path.stat().st_mtime + later,) * 2)


@pytest.mark.parametrize(
    ("ran_last", "saved", "later", "warns"),
    [(OLD, NEW, 60, True), (NEW, NEW, 60, False), (NEW, OLD, -60, False)],
    ids=["edited, saved and not run", "run and saved", "run and not saved yet"],
)
def test_a_cell_that_was_edited_and_saved_but_not_run_gets_a_warning(
    notebook: Path, run_cell: Run, ran_last: str, saved: str, later: float, warns: bool
) -> None:
    answer = run_cell(ran_last)
    cells = [{"cell_type": "code", "source": saved.splitlines(keepends=True)}]
    save(notebook, json.dumps({"cells": cells}).encode(), later)
    assert ("has changed since this check" in answer_cell.changed_since(answer)) is warns


def test_a_cell_whose_last_run_failed_gets_a_warning_until_it_runs(notebook: Path, run_cell: Run) -> None:
    answer = run_cell(OLD)
    run_cell("def other(x):\n    return ((")
    assert answer_cell.changed_since(answer, "own") == ""
    run_cell("def own(x):\n    return ((")
    assert answer_cell.changed_since(answer, "own").endswith(
        "SyntaxError: this is about the version that ran before it."
    )
    assert answer_cell.changed_since(None, "own") == "The last run of this cell ended with SyntaxError."
    assert answer_cell.changed_since(run_cell(NEW), "own") == ""


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"cells": 3}', b'{"cells": [{}]}', b"\xff"])
def test_a_notebook_that_cannot_be_read_is_left_alone(notebook: Path, run_cell: Run, content: bytes) -> None:
    answer = run_cell(OLD)
    save(notebook, content)
    assert answer_cell.changed_since(answer) == ""
    notebook.unlink()
    assert answer_cell.changed_since(answer) == ""


RIGHT = "def row_softmax(x):\n    return (x - x.logsumexp(-1, keepdim=True)).exp()\n\nown = row_softmax"


def test_a_right_answer_that_is_not_the_cells_is_not_called_right_and_not_recorded_as_passed(
    run_cell: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / progress.STATE).mkdir()
    monkeypatch.setattr(session, "in_notebook", lambda: True)
    monkeypatch.setattr(session, "notebook_folder", lambda: tmp_path)
    answer = run_cell(RIGHT)
    run_cell("def row_softmax(x:")
    shown = _checked("row_softmax", {"row_softmax": answer})
    report, details = shown.report, shown.details
    assert not was_right("row_softmax", answer)
    assert progress.read(tmp_path) == {"row_softmax": "attempted"}
    assert "Checked an earlier version · <code>row_softmax" in as_html(report, details)
    text = as_text(report, details)
    assert text.startswith("row_softmax: The last run of this cell ended with SyntaxError")
    assert "row_softmax: Checked an earlier version." in text
    assert "Right" not in text + as_html(report, details)
    run_cell(RIGHT)
    shown = _checked("row_softmax", {"row_softmax": answer})
    assert as_text(shown.report, shown.details).startswith("row_softmax: Right.")
    assert progress.read(tmp_path) == {"row_softmax": "passed"}


def test_a_card_that_says_right_is_taken_back_once_a_save_shows_another_text(run_cell: Run, notebook: Path) -> None:
    def save_as(source: str) -> None:
        cell = {"cell_type": "code", "source": source.splitlines(keepends=True)}
        save(notebook, json.dumps({"cells": [cell]}).encode())

    shown = _checked("row_softmax", {"row_softmax": run_cell(RIGHT)})
    assert shown.report.status == "passed" and shown.reread is not None
    save_as(RIGHT.replace("-1", "0"))
    again = shown.reread()
    assert again.report.status == "stale" and "has changed since this check" in again.details.warning
    assert again.reread is not None
    save_as(RIGHT)
    assert again.reread().report.status == "passed"


def test_saves_are_noticed_until_a_renewal_fails(notebook: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(save_watch, "SECONDS", 0.01)
    monkeypatch.setattr(save_watch, "_renewals", {})
    monkeypatch.setattr(save_watch, "_watching", [])
    seen: list[str] = []

    def broken() -> None:
        seen.append("broken")
        raise ConnectionError

    async def saves() -> None:
        save_watch.after_each_save("one", lambda: seen.append("one"))
        save_watch.after_each_save("two", broken)
        await asyncio.sleep(0)  # the first look at the file
        for number, told in ((1, 2), (2, 3)):
            save(notebook, b"{}", later=60 * number)
            while len(seen) < told:
                await asyncio.sleep(0.01)
        (task,) = save_watch._watching
        task.cancel()

    save(notebook, b"{}", later=0)
    asyncio.run(saves())
    save_watch.after_each_save("three", broken)  # there is no kernel
    assert seen == ["one", "broken", "one"]
    assert "three" not in save_watch._renewals
