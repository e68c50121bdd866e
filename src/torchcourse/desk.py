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


def open_lab(folder: Path, browser: bool) -> int:
    """Run JupyterLab on the working copy in `folder` until it is closed; its exit status."""
    new = copy_notebooks(folder)
    kept = len(list(folder.glob("*.ipynb"))) - len(new)
    print(f"Your notebooks are in {folder.resolve()}: {len(new)} new, {kept} as you left them.")
    first = min(folder.glob("*.ipynb"), default=None)
    command = [sys.executable, "-m", "jupyterlab", *_quiet(), f"--notebook-dir={folder}"]
    command += [f"--LabApp.default_url=/lab/tree/{first.name}"] if first else []
    command += [] if browser else ["--no-browser"]
    os.environ.setdefault("JUPYTER_PLATFORM_DIRS", "1")
    return subprocess.call(command)


def _quiet() -> list[str]:
    """No questions on the first start: JupyterLab would ask whether to fetch news."""
    return ["--LabApp.news_url=None", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
