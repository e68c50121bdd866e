"""The learner's desk: a working copy of the notebooks, and JupyterLab opened on it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

__all__ = ["copy_notebooks", "open_lab"]


def notebooks() -> Path:
    """Where the lessons lie: beside a checkout's package, or inside an installed one.

    Raises:
        FileNotFoundError: when neither is there.
    """
    here = Path(__file__).resolve().parent
    for folder in (here.parents[1] / "notebooks", here / "notebooks"):
        if any(folder.glob("*.ipynb")):
            return folder
    raise FileNotFoundError("This installation of torchcourse holds no notebooks.")


def copy_notebooks(folder: Path) -> list[Path]:
    """Copy the lessons that are not in `folder` yet; what is there stays untouched. The new files."""
    folder.mkdir(parents=True, exist_ok=True)
    new = [folder / source.name for source in sorted(notebooks().glob("*.ipynb"))]
    new = [target for target in new if not target.exists()]
    for target in new:
        shutil.copyfile(notebooks() / target.name, target)
    return new


def open_lab(folder: Path, browser: bool = True, port: int = 8888) -> int:
    """Run JupyterLab on the working copy in `folder` until it is closed, in place of this process where that can be;
    else its exit status."""
    new = copy_notebooks(folder)
    kept = len(list(folder.glob("*.ipynb"))) - len(new)
    print(f"Your notebooks are in {folder.resolve()}: {len(new)} new, {kept} as you left them.")
    first = min(folder.glob("*.ipynb"), default=None)
    command = [sys.executable, "-m", "jupyterlab", f"--notebook-dir={folder}", f"--port={port}"]
    command += [f"--LabApp.default_url=/lab/tree/{first.name}"] if first else []
    command += [] if browser else ["--no-browser"]
    command += ["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []  # a container's only user
    sys.stdout.flush()
    if os.name == "posix":  # become JupyterLab, so that whoever ends this process ends its kernels too
        os.execve(sys.executable, command, _environment())
    return subprocess.call(command, env=_environment())


def _environment() -> dict[str, str]:
    """Ours, with settings for learners: no question about news on the first start, no instructor's panels."""
    settings = str(Path(__file__).resolve().parent / "jupyter")
    paths = [settings, *filter(None, [os.environ.get("JUPYTER_CONFIG_PATH", "")])]
    return {"JUPYTER_PLATFORM_DIRS": "1", **os.environ, "JUPYTER_CONFIG_PATH": os.pathsep.join(paths)}
