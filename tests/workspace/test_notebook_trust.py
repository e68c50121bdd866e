"""Jupyter's trust in a notebook outlives `update` and `reset`, and is never given to one that had none."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.sign import NotebookNotary

from tests.support.working_copies import answered
from torchcourse.model import lessons, notebook_file
from torchcourse.model.notebook_file import Notebook, find_cell, read
from torchcourse.workspace import jupyter_settings, progress, start_page, working_copy
from torchcourse.workspace.reset import reset
from torchcourse.workspace.update import update

LESSON = "01_tensors.ipynb"
CARD = {"output_type": "display_data", "metadata": {}, "data": {"text/html": ["<style>p{color:red}</style>"]}}


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where Jupyter keeps its signatures."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


@pytest.fixture
def checked(mine: Path) -> Path:
    """A lesson in a working copy, one exercise solved and checked, as Jupyter has saved it."""
    notebook = read(answered(mine, "def describe(t):\n    return {}", name="describe"))
    check = find_cell(notebook, "check_describe")
    assert check is not None
    check["outputs"] = [CARD]
    notebook_file.write(mine, notebook)
    return mine


def signed(data: Path, path: Path, sign: bool = False) -> bool:
    """Whether Jupyter trusts the notebook at `path`, or does from now on."""
    notary = NotebookNotary(data_dir=str(data))
    notebook = nbformat.read(path, as_version=4)  # as its server reads it
    try:
        if sign:
            notary.sign(notebook)
        return bool(notary.check_signature(notebook))
    finally:
        notary.store.close()


def newer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on a release of this one lesson is installed that says more."""
    release: Notebook = read(lessons.released()[LESSON])
    release["cells"][0]["source"] += ["\n", "More."]
    (tmp_path / "release").mkdir()
    notebook_file.write(tmp_path / "release" / LESSON, release)
    for module in ("working_copy", "update"):
        monkeypatch.setattr(f"torchcourse.workspace.{module}.released", lambda: {LESSON: tmp_path / "release" / LESSON})


@pytest.mark.parametrize("trusted", [True, False])
def test_an_update_and_a_reset_leave_trust_as_it_was(
    data: Path, checked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trusted: bool
) -> None:
    signed(data, working_copy.origin(checked.parent, LESSON), sign=True)  # Jupyter has signed something, at least
    assert signed(data, checked, sign=trusted) == trusted
    newer(tmp_path, monkeypatch)
    (done,) = update(checked.parent)
    assert done.merged is not None
    assert CARD in [output for cell in read(checked)["cells"] for output in cell.get("outputs", ())]
    assert signed(data, checked) == trusted
    assert reset(checked, "describe") is not None
    assert signed(data, checked) == trusted


def test_a_store_of_signatures_that_cannot_be_used_keeps_nobody_from_working(data: Path, checked: Path) -> None:
    signed(data, checked, sign=True)
    for path in data.iterdir():
        path.unlink()
        path.mkdir()
    shutil.rmtree(data / "notebook_secret")
    (data / "notebook_secret").write_bytes(b"secret")
    assert reset(checked, "describe") is not None


def test_without_jupyter_a_notebook_is_written_all_the_same_and_no_file_of_jupyters(
    data: Path, checked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert reset(checked, "describe") is not None
    monkeypatch.setitem(sys.modules, "nbformat", None)
    assert reset(answered(checked, "def describe(t): ...", name="describe"), "describe") is not None
    assert list(data.iterdir()) == []


def test_jupyters_folders_are_those_that_lab_tells_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JUPYTER_PLATFORM_DIRS", raising=False)
    with jupyter_settings.as_in_lab():
        assert os.environ["JUPYTER_PLATFORM_DIRS"] == jupyter_settings.environment()["JUPYTER_PLATFORM_DIRS"] == "1"
    assert "JUPYTER_PLATFORM_DIRS" not in os.environ
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "0")
    with jupyter_settings.as_in_lab():
        assert os.environ["JUPYTER_PLATFORM_DIRS"] == "0"


def test_jupyter_trusts_the_start_page_that_we_made_and_not_what_others_add(data: Path, mine: Path) -> None:
    page = mine.parent / start_page.NAME
    start_page.renew(mine.parent)
    assert signed(data, page)
    notebook_file.write(
        page, {**read(page), "cells": [*read(page)["cells"], {**read(page)["cells"][1], "id": "other"}]}
    )
    progress.record(mine.parent, "describe", "passed")
    start_page.renew(mine.parent)
    assert not signed(data, page)
