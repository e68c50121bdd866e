"""The working copy, its start page, and JupyterLab on it."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from typer.testing import CliRunner

from torchcourse import desk, lessons, progress, startpage
from torchcourse.cli import app
from torchcourse.desk import copy_notebooks, origin
from torchcourse.notebookfile import text


class Started(Exception):  # noqa: N818 - no error
    """JupyterLab would have been started with this command."""


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands with which JupyterLab would have been started."""
    commands: list[list[str]] = []
    monkeypatch.setattr(os, "execve", lambda program, command, env: commands.append(command) or sys.exit(0))
    return commands


@pytest.fixture
def taken() -> Iterator[int]:
    """A port of this machine that is in use."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


def said(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, list(map(str, arguments)))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


def page(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / startpage.NAME).read_text(encoding="utf-8"))
    nbformat.validate(nbformat.from_dict(found))
    return found


def test_lab_makes_a_working_copy_and_opens_its_start_page(tmp_path: Path, started: list[list[str]]) -> None:
    status, output = said("lab", tmp_path / "work", "--no-browser")
    assert status == 0
    assert "9 new, 0 as you left them" in output
    (command,) = started
    assert f"--ServerApp.root_dir={tmp_path / 'work'}" in command
    assert "--LabApp.default_url=/lab/tree/START.ipynb" in command
    assert "--no-browser" in command
    assert origin(tmp_path / "work", "01_tensors.ipynb").read_bytes() == (
        lessons.released() / "01_tensors.ipynb"
    ).read_bytes()


def test_lab_again_changes_nothing_but_the_start_pages_table(tmp_path: Path, started: list[list[str]]) -> None:
    said("lab", tmp_path)
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    (tmp_path / "01_tensors.ipynb").write_text("mine")
    assert "0 new, 9 as you left them" in said("lab", tmp_path)[1]
    after = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    assert after == {**before, tmp_path / "01_tensors.ipynb": b"mine"}
    progress.note(tmp_path, "describe", "passed")
    said("lab", tmp_path)
    assert "| 12 | 1 | 0 | 11 |" in "".join(page(tmp_path)["cells"][1]["outputs"][0]["data"]["text/markdown"])


def test_a_copy_that_was_made_by_hand_gets_its_origin_where_that_is_sure(tmp_path: Path) -> None:
    source = lessons.released() / "01_tensors.ipynb"
    for change in ("", "A tensor is a grid"):
        folder = tmp_path / (change or "same")
        folder.mkdir()
        (folder / source.name).write_text(source.read_text("utf-8").replace(change or "import torch", "x"), "utf-8")
        copy_notebooks(folder)
        assert origin(folder, source.name).exists() == (not change)


def test_what_a_learner_writes_into_the_start_page_stays(tmp_path: Path) -> None:
    (tmp_path / progress.STATE).mkdir()
    startpage.renew(tmp_path)
    found = page(tmp_path)
    found["cells"].append({"cell_type": "markdown", "id": "mine", "metadata": {}, "source": ["tomorrow: masks"]})
    (tmp_path / startpage.NAME).write_text(json.dumps(found))
    progress.note(tmp_path, "describe", "passed")
    startpage.renew(tmp_path)
    assert text(page(tmp_path)["cells"][2]) == "tomorrow: masks"
    own = {**found, "cells": found["cells"][2:]}
    (tmp_path / startpage.NAME).write_text(json.dumps(own))
    startpage.renew(tmp_path)
    assert page(tmp_path) == own


def test_a_start_page_that_is_not_whole_is_left_and_lab_opens_all_the_same(
    tmp_path: Path, started: list[list[str]]
) -> None:
    (tmp_path / startpage.NAME).write_text('{"cells": [')
    status, output = said("lab", tmp_path)
    assert status == 0
    assert "not up to date" in output
    assert len(started) == 1
    assert (tmp_path / startpage.NAME).read_text() == '{"cells": ['


def test_the_start_pages_cell_shows_the_table_in_a_notebook_and_says_so_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []
    monkeypatch.setattr("IPython.display.display", lambda markdown: shown.append(markdown.data))
    monkeypatch.chdir(tmp_path)
    startpage.progress_here()
    (tmp_path / progress.STATE).mkdir()
    progress.note(tmp_path, "describe", "passed")
    startpage.progress_here()
    assert "no working copy" in shown[0]
    assert "| 12 | 1 | 0 | 11 |" in shown[1]


def test_a_port_in_use_is_said_and_the_next_one_taken(tmp_path: Path, started: list[list[str]], taken: int) -> None:
    output = said("lab", tmp_path, "--port", taken)[1]
    (port,) = [word.removeprefix("--port=") for word in started[0] if word.startswith("--port=")]
    assert int(port) > taken
    assert f"Port {taken} is in use: JupyterLab opens on {port}." in output


def test_where_the_folder_is_open_already_its_address_is_said_and_nothing_started(
    tmp_path: Path, started: list[list[str]], taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = [
        {"root_dir": "/elsewhere", "url": "http://localhost:1/", "token": "no"},
        {"root_dir": str(tmp_path), "url": f"http://localhost:{taken}/", "token": "abc"},
    ]
    monkeypatch.setattr("jupyter_server.serverapp.list_running_servers", lambda: iter(servers))
    status, output = said("lab", tmp_path, "--no-browser", "--port", taken)
    assert status == 0
    assert f"already: http://localhost:{taken}/lab/tree/START.ipynb?token=abc" in output
    assert started == []


def test_no_free_port_is_said(tmp_path: Path, taken: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "PORTS", 1)
    status, output = said("lab", tmp_path, "--port", taken)
    assert status == 2
    assert "--port" in output


@pytest.mark.parametrize("folder", ["/proc/torchcourse", "/dev/null/work"])
def test_a_folder_that_cannot_be_written_is_one_message(folder: str, started: list[list[str]]) -> None:
    status, output = said("lab", folder)
    assert status == 2
    assert f"cannot be copied to {folder}" in output
    assert "torchcourse lab FOLDER" in output
    assert started == []


def test_a_full_disk_leaves_no_half_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import errno
    import shutil

    copied, copy = [], shutil.copyfile

    def full(source: Path, target: Path) -> None:
        copied.append(target)
        copy(source, target)
        if len(copied) == 4:
            target.write_text("{")
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", full)
    status, output = said("lab", tmp_path)
    assert status == 2
    assert "No space left on device" in output
    assert sorted(p.name for p in tmp_path.iterdir()) == [".torchcourse", "01_tensors.ipynb"]
    monkeypatch.undo()
    assert len(copy_notebooks(tmp_path)) == 8


def test_without_jupyterlab_the_line_that_installs_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    status, output = said("lab", tmp_path / "work")
    assert status == 2
    assert "pip install 'torchcourse[lab]'" in output
    assert not (tmp_path / "work").exists()
