"""Jupyter's trust in a notebook outlives `update` and `reset`, and is never given to one that had none."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.sign import NotebookNotary

from torchcourse import desk, labsettings, lessons, notebookfile, signing
from torchcourse.notebookfile import Notebook, read
from torchcourse.resetting import reset
from torchcourse.updating import update

LESSON = "01_tensors.ipynb"
CARD = {"output_type": "display_data", "metadata": {}, "data": {"text/html": ["<style>p{color:red}</style>"]}}


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where Jupyter keeps its signatures."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A lesson in a working copy, one exercise solved and checked, as Jupyter has saved it."""
    desk.copy_notebooks(tmp_path / "work")
    path = tmp_path / "work" / LESSON
    notebook = read(path)
    for cell in notebook["cells"]:
        if notebookfile.grade_id(cell) == "describe":
            cell["source"] = ["def describe(t):\n", "    return {}"]
        if notebookfile.grade_id(cell) == "check_describe":
            cell["outputs"] = [CARD]
    path.write_text(json.dumps(notebook), encoding="utf-8")
    return path


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
    release: Notebook = read(lessons.released() / LESSON)
    release["cells"][0]["source"] += ["\n", "More."]
    (tmp_path / "release").mkdir()
    (tmp_path / "release" / LESSON).write_text(json.dumps(release), encoding="utf-8")
    for module in ("desk", "updating"):
        monkeypatch.setattr(f"torchcourse.{module}.released", lambda: tmp_path / "release")


@pytest.mark.parametrize("trusted", [True, False])
def test_an_update_leaves_trust_as_it_was(
    data: Path, mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trusted: bool
) -> None:
    signed(data, desk.origin(mine.parent, LESSON), sign=True)  # Jupyter has signed something else, at least
    assert signed(data, mine, sign=trusted) == trusted
    newer(tmp_path, monkeypatch)
    (done,) = update(mine.parent)
    assert done.merged is not None
    assert CARD in [output for cell in read(mine)["cells"] for output in cell.get("outputs", ())]
    assert signed(data, mine) == trusted


@pytest.mark.parametrize("trusted", [True, False])
def test_a_reset_leaves_trust_as_it_was(data: Path, mine: Path, trusted: bool) -> None:
    signed(data, desk.origin(mine.parent, LESSON), sign=True)
    signed(data, mine, sign=trusted)
    assert reset(mine, "describe") is not None
    assert signed(data, mine) == trusted


def test_where_jupyter_has_signed_nothing_no_file_of_its_is_made(data: Path, mine: Path) -> None:
    reset(mine, "describe")
    assert list(data.iterdir()) == []


def test_a_store_of_signatures_that_cannot_be_used_keeps_nobody_from_working(data: Path, mine: Path) -> None:
    signed(data, mine, sign=True)
    for path in data.iterdir():
        path.unlink()
        path.mkdir()
    shutil.rmtree(data / "notebook_secret")
    (data / "notebook_secret").write_bytes(b"secret")
    assert reset(mine, "describe") is not None


def test_without_jupyter_a_notebook_is_written_all_the_same(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Any:
        raise ImportError("no nbformat here")

    monkeypatch.setattr(signing, "_notary", missing)
    assert reset(mine, "describe") is not None


def test_jupyters_folders_are_those_that_lab_tells_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JUPYTER_PLATFORM_DIRS", raising=False)
    with labsettings.as_in_lab():
        assert os.environ["JUPYTER_PLATFORM_DIRS"] == labsettings.environment()["JUPYTER_PLATFORM_DIRS"] == "1"
    assert "JUPYTER_PLATFORM_DIRS" not in os.environ
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "0")
    with labsettings.as_in_lab():
        assert os.environ["JUPYTER_PLATFORM_DIRS"] == "0"
