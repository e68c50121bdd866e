"""The learner's working copy of the notebooks, and JupyterLab opened on it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import webbrowser
from pathlib import Path
from typing import Any

from torchcourse.model.lessons import released
from torchcourse.model.notebook_file import WorkspaceError, cells, read, replace_file, source_of
from torchcourse.workspace import jupyter_settings, progress, start_page

__all__ = ["copy_notebooks", "find_working_copy", "is_of_another_release", "open_lab", "origin", "prepare"]

PORTS = 50
"""The number of ports to try, one after another."""


def origin(folder: Path, notebook: str) -> Path:
    """Return the file in the working copy `folder` with the release that one of its notebooks was made from."""
    return folder / progress.STATE / "released" / notebook


def is_of_another_release(folder: Path, notebook: str) -> bool:
    """Return whether a notebook of the working copy `folder` is from another release than the installed one."""
    was, now = origin(folder, notebook), released().get(notebook)
    return was.is_file() and now is not None and was.read_bytes() != now.read_bytes()


def chosen_folder(folder: Path | None) -> Path:
    """Return `folder`; if None, the working copy that the current folder is in, or else `work`."""
    return folder or progress.working_copy_of(Path()) or Path("work")


def find_working_copy(folder: Path | None) -> Path:
    """Return the folder that is chosen if it is a working copy.

    Raises:
        WorkspaceError: if it is none.
    """
    chosen = chosen_folder(folder)
    if chosen.is_file():
        raise WorkspaceError(f"{chosen} is a file: name the folder that it is in, {chosen.parent}.")
    if not (chosen / progress.STATE).is_dir():
        raise WorkspaceError(
            f"{chosen} is no working copy of the lessons: torchcourse lab {chosen} makes it one, "
            "and changes no notebook in it."
        )
    return chosen


def copy_notebooks(folder: Path) -> list[Path]:
    """Copy the lessons that `folder` does not have yet, change nothing else, and return the new files.

    Raises:
        WorkspaceError: if that fails.
    """
    try:
        origin(folder, "").mkdir(parents=True, exist_ok=True)
        targets = [folder / name for name in released()]
        new = [target for target in targets if not os.path.lexists(target)]
        for target in targets:
            source, base = released()[target.name], origin(folder, target.name)
            if target in new or (not base.exists() and _is_made_from(source, target)):
                replace_file(base, source.read_bytes())
            if target in new:
                replace_file(target, source.read_bytes())
    except OSError as error:
        raise WorkspaceError(
            f"The lessons cannot be copied to {folder}: {error.strerror}. Choose a folder that you may write to, on a "
            "disk with free space: torchcourse lab FOLDER"
        ) from None
    return new


def _is_made_from(source: Path, copy: Path) -> bool:
    """Return whether a copy, whose release is not recorded, has all the prose of `source`."""
    try:
        mine = {cell.get("id"): source_of(cell) for cell in cells(read(copy))}
    except WorkspaceError:
        return False
    prose = (cell for cell in cells(read(source)) if cell["cell_type"] == "markdown")
    return all(mine.get(cell["id"]) == source_of(cell) for cell in prose)


def open_lab(folder: Path, browser: bool = True, port: int = 8888) -> int:
    """Run JupyterLab on the working copy in `folder`. On POSIX it replaces this process; elsewhere return its status.

    Raises:
        WorkspaceError: if the working copy cannot be made, or no port is free.
    """
    lab = _jupyterlab()
    prepare(folder)
    free = _free_port(port)
    if free != port:
        address = _running_server(folder)
        if address:
            print(f"JupyterLab is already open on this folder: {address}")
            return 0 if not browser or webbrowser.open(address) else 1
        print(f"Port {port} is in use: JupyterLab opens on {free}.")
    command = [*lab, f"--ServerApp.root_dir={folder.resolve()}", f"--port={free}"]
    command += [f"--LabApp.default_url=/lab/tree/{start_page.NAME}"] if (folder / start_page.NAME).exists() else []
    command += [] if browser else ["--no-browser"]
    command += ["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []  # a container's only user
    sys.stdout.flush()
    if os.name == "posix":  # become JupyterLab, so that whoever ends this process ends its kernels too
        os.execve(sys.executable, command, jupyter_settings.environment())
    return subprocess.call(command, env=jupyter_settings.environment())


def _jupyterlab() -> list[str]:
    from importlib.util import find_spec

    if find_spec("jupyterlab") is None:
        raise WorkspaceError("JupyterLab is not installed: pip install 'torchcourse[lab]'")
    return [sys.executable, "-m", "jupyterlab"]


def prepare(folder: Path) -> None:
    """Make or complete the working copy and report what is in it.

    Raises:
        WorkspaceError: if that fails.
    """
    new = copy_notebooks(folder)
    old = [path for path in folder.glob("*.ipynb") if path.name in released() and path not in new]
    print(f"Your notebooks are in {folder.resolve()}: {len(new)} new, {len(old)} as you left them.")
    if any(is_of_another_release(folder, path.name) for path in old):
        print(f"The lessons have a newer release: torchcourse update {folder} brings it in and keeps your answers.")
    try:
        start_page.renew(folder)
    except (WorkspaceError, OSError) as error:
        print(f"The start page is not up to date: {error}")


def _free_port(first: int) -> int:
    for port in range(first, min(first + PORTS, 65536)):
        with socket.socket() as probe:
            if os.name == "posix":  # as servers do: a port that was closed a moment ago is free
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise WorkspaceError(f"No port from {first} to {first + PORTS - 1} is free: choose another one with --port.")


def _running_server(folder: Path) -> str:
    """Return the address of a running Jupyter server that shows `folder`; "" if there is none."""
    from jupyter_server.serverapp import list_running_servers

    with jupyter_settings.as_in_lab():
        servers: list[dict[str, Any]] = list(list_running_servers())
    matching = [s for s in servers if Path(s.get("root_dir", "")).resolve() == folder.resolve()]
    return f"{matching[0]['url']}lab/tree/{start_page.NAME}?token={matching[0].get('token', '')}" if matching else ""
