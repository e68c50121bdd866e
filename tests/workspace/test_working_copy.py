"""The working copy, its start page, and JupyterLab on it."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
from IPython.display import HTML, Markdown

from tests.support.alone import alone
from tests.support.commands import run_command
from tests.support.results import tree
from tests.support.working_copies import fill_disk
from torchcourse import cli
from torchcourse.model import lessons
from torchcourse.model.catalogue import LESSONS, exercises
from torchcourse.model.notebook_file import source_of
from torchcourse.workspace import progress, server_extension, start_page, working_copy
from torchcourse.workspace.working_copy import copy_notebooks, origin

COUNT = len(exercises("01_tensors"))


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


def page(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / start_page.NAME).read_text(encoding="utf-8"))
    nbformat.validate(nbformat.from_dict(found))
    return found


def test_lab_makes_a_working_copy_and_opens_its_start_page(tmp_path: Path, started: list[list[str]]) -> None:
    status, output = run_command("lab", tmp_path / "work", "--no-browser")
    assert status == 0
    assert f"{len(LESSONS)} new, 0 as you left them" in output
    wanted = {f"--ServerApp.root_dir={tmp_path / 'work'}", "--LabApp.default_url=/lab/tree/START.ipynb", "--no-browser"}
    assert wanted <= set(started[0])
    kept, released = origin(tmp_path / "work", "01_tensors.ipynb"), lessons.released()["01_tensors.ipynb"]
    assert kept.read_bytes() == released.read_bytes()


def test_start_makes_a_working_copy_and_opens_nothing(tmp_path: Path, started: list[list[str]]) -> None:
    status, output = run_command("start", tmp_path / "work")
    assert (status, started) == (0, [])
    assert f"{len(LESSONS)} new" in output
    assert (tmp_path / "work" / "START.ipynb").exists()
    (tmp_path / "file").touch()
    status, output = run_command("start", tmp_path / "file" / "work")
    assert (status, "cannot be copied" in output) == (2, True)


def test_kernels_and_terminals_find_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = str(Path(sys.executable).parent)
    for before, after in (("/usr/bin", f"{folder}{os.pathsep}/usr/bin"), (f"/usr/bin{os.pathsep}{folder}",) * 2):
        monkeypatch.setenv("PATH", before)
        server_extension._load_jupyter_server_extension(None)
        assert os.environ["PATH"] == after


def test_the_command_finds_programs_beside_its_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.setattr(cli, "app", lambda: None)
    monkeypatch.setattr(cli, "has_instructor_half", lambda: False)
    monkeypatch.setattr(cli.atexit, "register", lambda call: None)
    cli.main()
    assert os.environ["PATH"] == f"{Path(sys.executable).parent}{os.pathsep}/usr/bin"


def test_a_terminal_finds_the_command_though_its_profile_sets_the_path_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".profile").write_text("PATH=/usr/bin:/bin\n")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False, raising=False)
    for shell, is_known in (("/bin/sh", True), ("/bin/csh", False)):
        monkeypatch.setenv("SHELL", shell)
        server = SimpleNamespace(terminado_settings={"type": "xterm"})
        server_extension._link_jupyter_server_extension(server)
        assert ("shell_command" in server.terminado_settings) == is_known
        if is_known:
            command, env = server.terminado_settings["shell_command"], {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
            asked = {"input": "command -v torchcourse\n", "env": env, "text": True, "capture_output": True}
            assert subprocess.run(command, check=True, **asked).stdout.startswith(str(Path(sys.executable).parent))
    server = SimpleNamespace(terminado_settings={"shell_command": ["fish"]})
    server_extension._link_jupyter_server_extension(server)
    assert server.terminado_settings == {"shell_command": ["fish"]}


def test_lab_again_changes_nothing_but_the_start_pages_table(tmp_path: Path, started: list[list[str]]) -> None:
    run_command("lab", tmp_path)
    (tmp_path / "01_tensors.ipynb").write_text("mine")
    before = tree(tmp_path)
    assert f"0 new, {len(LESSONS)} as you left them" in run_command("lab", tmp_path)[1]
    assert tree(tmp_path) == before
    progress.record(tmp_path, "describe", "passed")
    run_command("lab", tmp_path)
    assert f" 1 of {COUNT} |" in "".join(page(tmp_path)["cells"][1]["outputs"][0]["data"]["text/markdown"])


@pytest.mark.parametrize(("change", "sure"), [("import torch", True), ("A tensor is a grid", False)])
def test_a_copy_that_was_made_by_hand_gets_its_origin_where_that_is_sure(
    tmp_path: Path, change: str, sure: bool
) -> None:
    source = lessons.released()["01_tensors.ipynb"]
    (tmp_path / source.name).write_text(source.read_text("utf-8").replace(change, "x"), "utf-8")
    copy_notebooks(tmp_path)
    assert origin(tmp_path, source.name).exists() == sure


def test_lab_and_start_complete_the_working_copy_that_one_is_in(
    tmp_path: Path, started: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_command("start", tmp_path)
    monkeypatch.chdir(tmp_path)
    for command in (["start"], ["lab", "--no-browser"]):
        assert f"0 new, {len(LESSONS)} as you left them" in run_command(*command)[1]
    assert not (tmp_path / "work").exists()


def test_what_a_learner_writes_into_the_start_page_stays(tmp_path: Path) -> None:
    (tmp_path / progress.STATE).mkdir()
    start_page.renew(tmp_path)
    found = page(tmp_path)
    found["cells"].append({"cell_type": "markdown", "id": "mine", "metadata": {}, "source": ["tomorrow: masks"]})
    (tmp_path / start_page.NAME).write_text(json.dumps(found))
    progress.record(tmp_path, "describe", "passed")
    start_page.renew(tmp_path)
    assert source_of(page(tmp_path)["cells"][2]) == "tomorrow: masks"
    own = {**found, "cells": found["cells"][2:]}
    (tmp_path / start_page.NAME).write_text(json.dumps(own))
    start_page.renew(tmp_path)
    assert page(tmp_path) == own


def test_a_start_page_that_is_not_whole_is_left_and_lab_opens_all_the_same(
    tmp_path: Path, started: list[list[str]]
) -> None:
    (tmp_path / start_page.NAME).write_text('{"cells": [')
    status, output = run_command("lab", tmp_path)
    assert status == 0
    assert "not up to date" in output
    assert len(started) == 1
    assert (tmp_path / start_page.NAME).read_text() == '{"cells": ['


def test_the_start_pages_cell_shows_the_table_in_a_notebook_and_says_so_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []
    monkeypatch.setattr("IPython.display.display", lambda markdown, **_: shown.append(markdown.data))
    monkeypatch.chdir(tmp_path)
    start_page.progress_here()
    (tmp_path / progress.STATE).mkdir()
    progress.record(tmp_path, "describe", "passed")
    start_page.progress_here()
    assert "no working copy" in shown[0]
    assert f" 1 of {COUNT} |" in shown[1]


def test_once_its_cell_has_run_the_start_page_follows_the_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []

    def displayed(output: Markdown | HTML, display_id: bool = False) -> SimpleNamespace:
        if isinstance(output, Markdown):  # not the script
            shown.append(output.data)
        return SimpleNamespace(update=lambda new: shown.append(new.data))

    monkeypatch.setattr("IPython.display.display", displayed)
    monkeypatch.setattr(start_page, "SECONDS", 0.01)
    monkeypatch.chdir(tmp_path)
    (tmp_path / progress.STATE).mkdir()

    async def an_evening() -> list[str]:
        start_page.progress_here()
        start_page.progress_here()  # the cell is run again: one task is left
        await asyncio.sleep(0.05)
        assert [task.get_coro().__name__ for task in asyncio.all_tasks()].count("_follow") == 1  # type: ignore[union-attr]
        progress.record(tmp_path, "describe", "passed")
        while len(shown) < 3:
            await asyncio.sleep(0.01)
        return shown[1:]

    before, after = asyncio.run(asyncio.wait_for(an_evening(), 20))
    assert f" 1 of {COUNT} |" not in before
    assert f" 1 of {COUNT} |" in after


def test_the_start_pages_kernel_imports_no_torch(tmp_path: Path) -> None:
    (tmp_path / "START.ipynb").write_text("{}")
    program = """import sys, types
sys.modules["IPython"] = types.SimpleNamespace(get_ipython=lambda: types.SimpleNamespace(
    user_ns={}, kernel=1, events=types.SimpleNamespace(callbacks={}, register=lambda *a: None)))
from torchcourse.workspace import start_page
assert "torch" not in sys.modules"""
    done = alone(program, JPY_SESSION_NAME=str(tmp_path / "START.ipynb"))
    assert done.returncode == 0, done.stderr


def test_a_port_in_use_is_said_and_the_next_one_taken_or_that_there_is_none(
    tmp_path: Path, started: list[list[str]], taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = run_command("lab", tmp_path, "--port", taken)[1]
    (port,) = [word.removeprefix("--port=") for word in started[0] if word.startswith("--port=")]
    assert int(port) > taken
    assert f"Port {taken} is in use: JupyterLab opens on {port}." in output
    monkeypatch.setattr(working_copy, "PORTS", 1)
    status, output = run_command("lab", tmp_path, "--port", taken)
    assert (status, "--port" in output) == (2, True)


def test_where_the_folder_is_open_already_its_address_is_said_and_nothing_started(
    tmp_path: Path, started: list[list[str]], taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = [
        {"root_dir": "/elsewhere", "url": "http://localhost:1/", "token": "no"},
        {"root_dir": str(tmp_path), "url": f"http://localhost:{taken}/", "token": "abc"},
    ]
    monkeypatch.setattr("jupyter_server.serverapp.list_running_servers", lambda: iter(servers))
    status, output = run_command("lab", tmp_path, "--no-browser", "--port", taken)
    assert status == 0
    assert f"already open on this folder: http://localhost:{taken}/lab/tree/START.ipynb?token=abc" in output
    assert started == []


@pytest.mark.parametrize("folder", ["/proc/torchcourse", "/dev/null/work"])
def test_a_folder_that_cannot_be_written_is_one_message(folder: str, started: list[list[str]]) -> None:
    status, output = run_command("lab", folder)
    assert status == 2
    assert f"cannot be copied to {folder}" in output
    assert "torchcourse lab FOLDER" in output
    assert started == []


def test_a_full_disk_leaves_no_half_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        fill_disk(patched, after=3)
        status, output = run_command("lab", tmp_path)
    assert status == 2
    assert "No space left on device" in output
    assert sorted(p.name for p in tmp_path.iterdir()) == [".torchcourse", "01_tensors.ipynb"]
    assert len(copy_notebooks(tmp_path)) == len(LESSONS) - 1


def test_without_jupyterlab_the_line_that_installs_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    status, output = run_command("lab", tmp_path / "work")
    assert status == 2
    assert "pip install 'torchcourse[lab]'" in output
    assert not (tmp_path / "work").exists()
