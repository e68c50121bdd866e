"""The learner's desk: a working copy of the notebooks, and JupyterLab opened on it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import webbrowser
from pathlib import Path
from typing import Any

from torchcourse import labsettings, progress, startpage
from torchcourse.lessons import released
from torchcourse.notebookfile import DeskError, cells, read, text

__all__ = ["copy_notebooks", "find_desk", "is_of_another_release", "open_lab", "origin"]

PORTS = 50
"""How many ports are tried, one after another."""


def origin(desk: Path, notebook: str) -> Path:
    """Where the working copy `desk` keeps the release that one of its notebooks was made from."""
    return desk / progress.STATE / "released" / notebook


def is_of_another_release(desk: Path, notebook: str) -> bool:
    """Whether it is known that one of the notebooks in `desk` was made from another release than the installed one."""
    was, now = origin(desk, notebook), released() / notebook
    return was.is_file() and now.is_file() and was.read_bytes() != now.read_bytes()


def find_desk(folder: Path | None) -> Path:
    """The working copy that is meant: `folder`, or else the one that this folder lies in, or else `work`.

    Raises:
        DeskError: when there is none.
    """
    asked = folder or progress.desk_of(Path()) or Path("work")
    if asked.is_file():
        raise DeskError(f"{asked} is a file: name the folder that it lies in, {asked.parent}.")
    if not (asked / progress.STATE).is_dir():
        raise DeskError(f"{asked} is no working copy of the lessons: torchcourse lab {asked} makes it one, "
                        "and changes no notebook in it.")  # fmt: skip
    return asked


def copy_notebooks(folder: Path) -> list[Path]:
    """Copy the lessons that are not in `folder` yet; what is there stays untouched. The new files.

    Raises:
        DeskError: when that cannot be.
    """
    try:
        origin(folder, "").mkdir(parents=True, exist_ok=True)
        targets = [folder / source.name for source in sorted(released().glob("*.ipynb"))]
        new = [target for target in targets if not os.path.lexists(target)]
        for target in targets:
            source, origins = released() / target.name, origin(folder, target.name)
            if target in new or (not origins.exists() and _is_made_from(source, target)):
                _copy(source, origins)
            if target in new:
                _copy(source, target)
    except OSError as error:
        raise DeskError(f"The lessons cannot be copied to {folder}: {error.strerror}. Name a folder where you may "
                        "write and where there is room: torchcourse lab FOLDER") from None  # fmt: skip
    return new


def _is_made_from(source: Path, copy: Path) -> bool:
    """Whether a copy of which no origin is kept has all prose of this release, so that it will be the origin."""
    try:
        mine = {cell.get("id"): text(cell) for cell in cells(read(copy))}
    except DeskError:
        return False
    prose = (cell for cell in cells(read(source)) if cell["cell_type"] == "markdown")
    return all(mine.get(cell["id"]) == text(cell) for cell in prose)


def _copy(source: Path, target: Path) -> None:
    """A whole copy or none: what is written first has another name."""
    part = target.with_name(f".{target.name}.part")
    try:
        shutil.copyfile(source, part)
        part.replace(target)
    except OSError:
        part.unlink(missing_ok=True)
        raise


def open_lab(folder: Path, browser: bool = True, port: int = 8888) -> int:
    """Run JupyterLab on the working copy in `folder` until it is closed, in place of this process where that can be;
    else its exit status.

    Raises:
        DeskError: when the working copy cannot be made, or no port is free.
    """
    lab = _jupyterlab()
    _welcome(folder)
    free = _free_port(port)
    if free != port:
        there = _server_on(folder)
        if there:
            print(f"JupyterLab is open on this folder already: {there}")
            return 0 if not browser or webbrowser.open(there) else 1
        print(f"Port {port} is in use: JupyterLab opens on {free}.")
    command = [*lab, f"--ServerApp.root_dir={folder.resolve()}", f"--port={free}"]
    command += [f"--LabApp.default_url=/lab/tree/{startpage.NAME}"] if (folder / startpage.NAME).exists() else []
    command += [] if browser else ["--no-browser"]
    command += ["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []  # a container's only user
    sys.stdout.flush()
    if os.name == "posix":  # become JupyterLab, so that whoever ends this process ends its kernels too
        os.execve(sys.executable, command, labsettings.environment())
    return subprocess.call(command, env=labsettings.environment())


def _jupyterlab() -> list[str]:
    from importlib.util import find_spec

    if find_spec("jupyterlab") is None:
        raise DeskError("JupyterLab is not installed: pip install 'torchcourse[lab]'")
    return [sys.executable, "-m", "jupyterlab"]


def _welcome(folder: Path) -> None:
    """Make the working copy and say what is in it."""
    new = copy_notebooks(folder)
    names = {path.name for path in released().glob("*.ipynb")}
    kept = [path for path in folder.glob("*.ipynb") if path.name in names and path not in new]
    print(f"Your notebooks are in {folder.resolve()}: {len(new)} new, {len(kept)} as you left them.")
    if any(is_of_another_release(folder, path.name) for path in kept):
        print(f"The lessons have a newer release: torchcourse update {folder} brings it in and keeps your answers.")
    try:
        startpage.renew(folder)
    except (DeskError, OSError) as error:
        print(f"The start page is not up to date: {error}")


def _free_port(first: int) -> int:
    for port in range(first, min(first + PORTS, 65536)):
        with socket.socket() as probe:
            if os.name == "posix":  # as servers do: a port that was left a moment ago is free
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise DeskError(f"No port from {first} to {first + PORTS - 1} may be used: name another one with --port.")


def _server_on(folder: Path) -> str:
    """The address of a running Jupyter server that shows `folder`; "" where none does."""
    from jupyter_server.serverapp import list_running_servers

    with labsettings.as_in_lab():
        servers: list[dict[str, Any]] = list(list_running_servers())
    mine = [s for s in servers if Path(s.get("root_dir", "")).resolve() == folder.resolve()]
    return f"{mine[0]['url']}lab/tree/{startpage.NAME}?token={mine[0].get('token', '')}" if mine else ""
