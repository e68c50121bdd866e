"""START.ipynb: the page that JupyterLab opens first, with the path through the lessons and the learner's progress.

Its table is Markdown, which looks the same with and without widgets and in every theme. `torchcourse lab` updates
it. Once its cell has run, it follows the progress; in our JupyterLab a script runs the cell when the page is opened.
"""

from __future__ import annotations

import asyncio
import contextlib
import platform
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from torchcourse.model.lessons import lessons
from torchcourse.model.notebook_file import Cell, Notebook, cells, read
from torchcourse.workspace import due_quizzes, progress, session
from torchcourse.workspace.notebook_trust import rewrite
from torchcourse.workspace.page_script import page_script
from torchcourse.workspace.status import as_markdown, read_lesson_progress

if TYPE_CHECKING:
    from IPython.display import DisplayHandle

__all__ = ["NAME", "progress_here", "renew"]

NAME = session.START
CELL = "progress"
WELCOME = """# torchcourse

Each lesson is a notebook. Open one by its name in the table, run its cells from top to bottom with Shift+Enter, write
the missing functions, and run the check below each of them. A check says at once what is right and what is not;
`hint("…")` with the name of an exercise helps in three steps. Everything you write stays in this folder.

Below is your progress. In JupyterLab it stays up to date by itself; elsewhere it does once you have run the cell. The
times are estimates, made from the words of a lesson and the points of its exercises: readers took two to four hours for
a lesson, in as many sittings as they liked."""
SCRIPT = Path(__file__).with_suffix(".js")
SOURCE = "from torchcourse.workspace.start_page import progress_here\n\nprogress_here()"
METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {
        "codemirror_mode": {"name": "ipython", "version": 3}, "file_extension": ".py", "mimetype": "text/x-python",
        "name": "python", "nbconvert_exporter": "python", "pygments_lexer": "ipython3",
        "version": platform.python_version(),
    },
}  # fmt: skip
"""What JupyterLab would write when the kernel has started: it asks to save a page that has anything else."""
SECONDS = 2.0
"""How often the page looks for progress."""

_following: list[asyncio.Task[None]] = []
"""The task that updates the page, after its cell has run."""


def progress_here() -> None:
    """Show the progress recorded in the working copy of this notebook, and follow it."""
    from IPython.display import HTML, Markdown, display

    folder = progress.working_copy_of(Path.cwd())
    if folder is None:
        display(Markdown("This folder is no working copy: `torchcourse lab FOLDER` makes one."))
        return
    shown = _shown(folder)
    table = display(Markdown(shown), display_id=True)
    display(HTML(page_script(SCRIPT)))
    while _following:
        _following.pop().cancel()
    with contextlib.suppress(RuntimeError):  # no event loop, so no kernel: the table is shown as it is now
        _following.append(asyncio.get_running_loop().create_task(_follow(folder, table, shown)))


async def _follow(folder: Path, table: DisplayHandle, shown: str) -> None:
    """Update the table whenever the progress has changed. It is saved with the notebook, unlike a widget."""
    from IPython.display import Markdown

    while True:
        await asyncio.sleep(SECONDS)
        try:
            now = _shown(folder)
        except OSError:  # for a moment, on a network drive
            continue
        if now != shown:
            table.update(Markdown(now))
            shown = now


def _shown(folder: Path) -> str:
    """Return the table of lessons and, below it, the quizzes to try again today."""
    due = due_quizzes.find_due(folder, lessons(), date.today())
    return "\n\n".join(filter(None, [as_markdown(read_lesson_progress(folder)), due_quizzes.as_markdown(due)]))


def renew(folder: Path) -> None:
    """Create the start page of the working copy `folder`, or update its table and nothing else.

    Raises:
        WorkspaceError: if there is a damaged notebook of that name, or it cannot be written.
    """
    path = folder / NAME
    is_new = not path.exists()
    page = _page() if is_new else read(path)
    table = next((cell for cell in cells(page) if cell.get("id") == CELL), None)
    if table is None:
        return  # the learner has made the page their own
    shown = [_output("markdown", _shown(folder)), _output("html", page_script(SCRIPT))]
    if table.get("outputs") != shown or page.get("metadata") != METADATA:
        table["outputs"], page["metadata"] = shown, METADATA
        rewrite(path, page, ours=is_new)


def _page() -> Notebook:
    welcome: Cell = {"cell_type": "markdown", "id": "welcome", "metadata": {}, "source": WELCOME.splitlines(True)}
    table: Cell = {
        "cell_type": "code", "execution_count": None, "id": CELL, "metadata": {}, "outputs": [],
        "source": SOURCE.splitlines(True),
    }  # fmt: skip
    return {"cells": [welcome, table], "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5}


def _output(kind: Literal["markdown", "html"], text: str) -> dict[str, Any]:
    """Return a text as an output in a notebook file."""
    plain = {"markdown": "Markdown", "html": "HTML"}[kind]
    data = {f"text/{kind}": text.splitlines(True), "text/plain": [f"<IPython.core.display.{plain} object>"]}
    return {"data": data, "metadata": {}, "output_type": "display_data"}
