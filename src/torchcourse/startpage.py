"""START.ipynb: the page that JupyterLab opens first. It lists the lessons, and how far the learner is in each.

Its table is markdown, so it looks the same with and without widgets, in every theme. `torchcourse lab` brings it up to
date, and running its cell does.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torchcourse import progress
from torchcourse.notebookfile import Cell, Notebook, cells, read, write
from torchcourse.status import as_markdown, standings

__all__ = ["NAME", "progress_here", "renew"]

NAME = "START.ipynb"
CELL = "progress"
WELCOME = """# torchcourse

Each lesson is a notebook. Open one by its name in the table, run its cells from top to bottom with Shift+Enter, write
the missing functions, and run the check below each of them. A check says at once what is right and what is not;
`hint("…")` with the name of an exercise helps in three steps. Everything you write stays in this folder.

The cell below shows how far you are. Run it again to bring it up to date."""
SOURCE = "from torchcourse.startpage import progress_here\n\nprogress_here()"
METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"file_extension": ".py", "mimetype": "text/x-python", "name": "python"},
}


def progress_here() -> None:
    """Show how far the learner is whose working copy this notebook lies in."""
    from IPython.display import Markdown, display

    desk = progress.desk_of(Path.cwd())
    if desk is None:
        display(Markdown("This folder is no working copy: `torchcourse lab FOLDER` makes one."))
    else:
        display(Markdown(as_markdown(standings(desk))))


def renew(desk: Path) -> None:
    """Make the start page of the working copy `desk`, or bring its table up to date and leave all else as it is.

    Raises:
        DeskError: when a file of that name is there that is no whole notebook, or it cannot be written.
    """
    path = desk / NAME
    page = read(path) if path.exists() else _page()
    table = next((cell for cell in cells(page) if cell.get("id") == CELL), None)
    if table is None:
        return  # the learner's own page
    shown = _output(as_markdown(standings(desk)))
    if table.get("outputs") != [shown]:
        table["outputs"] = [shown]
        write(path, page)


def _page() -> Notebook:
    welcome: Cell = {"cell_type": "markdown", "id": "welcome", "metadata": {}, "source": WELCOME.splitlines(True)}
    table: Cell = {
        "cell_type": "code", "execution_count": None, "id": CELL, "metadata": {}, "outputs": [],
        "source": SOURCE.splitlines(True),
    }  # fmt: skip
    return {"cells": [welcome, table], "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5}


def _output(markdown: str) -> dict[str, Any]:
    data = {"text/markdown": markdown.splitlines(True), "text/plain": ["<IPython.core.display.Markdown object>"]}
    return {"data": data, "metadata": {}, "output_type": "display_data"}
