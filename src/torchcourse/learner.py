"""The learner's commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from torchcourse.notebookfile import DeskError

__all__ = ["join"]

console = Console(highlight=False, soft_wrap=True)

RELOAD = "Where the notebook is open in JupyterLab: File > Reload Notebook from Disk."

Desk = Annotated[Path | None, typer.Argument(help="your working copy: the folder you are in, or else work")]
Notebook = Annotated[str, typer.Argument(help="a lesson in your working copy, such as work/01_tensors.ipynb")]


def join(app: typer.Typer) -> None:
    """Add the commands to the `torchcourse` command."""
    for command in (lab, status, check, reset, update):
        app.command()(command)


def lab(
    folder: Annotated[Path, typer.Argument(help="where your working copy of the notebooks lies")] = Path("work"),
    browser: Annotated[bool, typer.Option(help="open a browser window")] = True,
    port: Annotated[int, typer.Option(help="the first port to try", min=1, max=65535)] = 8888,
) -> None:
    """Open the course in JupyterLab, on a working copy of the notebooks that nothing of yours is overwritten in."""
    from torchcourse.desk import open_lab

    try:
        left = open_lab(folder, browser, port)
    except (DeskError, FileNotFoundError) as error:
        _stop(error)
    raise typer.Exit(left)


def status(folder: Desk = None) -> None:
    """How far you are: exercises passed, attempted and open in each lesson."""
    from torchcourse.desk import find_desk, is_of_another_release
    from torchcourse.status import show, standings

    try:
        desk = find_desk(folder)
        found = standings(desk)
    except (DeskError, OSError) as error:
        _stop(error)
    show(found, console)
    if any(is_of_another_release(desk, f"{s.lesson.name}.ipynb") for s in found):
        console.print(f"The lessons have a newer release: torchcourse update {desk}", markup=False)


def check(
    notebook: Notebook,
    exercises: Annotated[list[str] | None, typer.Argument(help="all exercises, if none is named")] = None,
    watch: Annotated[bool, typer.Option("--watch", help="check again whenever the notebook is saved")] = False,
) -> None:
    """Check a notebook from the terminal, as its check cells do, in a process of its own."""
    from torchcourse import rerun
    from torchcourse.notebookfile import find_notebook

    left = 0
    try:
        run = rerun.watch if watch else rerun.check_notebook
        left = run(find_notebook(notebook), exercises or []) or 0
    except DeskError as error:
        _stop(error)
    except KeyboardInterrupt:
        left = 130
    raise typer.Exit(left)


def reset(
    notebook: Notebook,
    exercise: Annotated[str, typer.Argument(help="the exercise to begin again")],
) -> None:
    """Put an exercise back as it was released. Your answer is kept aside."""
    from torchcourse.notebookfile import find_notebook
    from torchcourse.resetting import reset as put_back

    try:
        path = find_notebook(notebook)
        kept = put_back(path, exercise)
    except (DeskError, FileNotFoundError) as error:
        _stop(error)
    if kept is None:
        console.print(f"{exercise} in {path} is as it was released.", markup=False)
        return
    console.print(f"{exercise} in {path} is as it was released; your answer is in {kept}. {RELOAD}", markup=False)


def update(folder: Desk = None) -> None:
    """Bring the installed release of the lessons into your working copy. Every answer is kept."""
    from torchcourse import startpage
    from torchcourse.desk import find_desk
    from torchcourse.updating import update as bring_in

    troubled = touched = False
    try:
        desk = find_desk(folder)
        for done in bring_in(desk):
            console.print(done.in_words(), markup=False)
            troubled, touched = troubled or bool(done.problem), touched or bool(done.merged)
        startpage.renew(desk)
    except (DeskError, OSError) as error:
        _stop(error)
    if touched:
        console.print(RELOAD, markup=False)
    elif not troubled:
        console.print(f"{desk} has the newest lessons of this installation.", markup=False)
    raise typer.Exit(2 if troubled else 0)


def _stop(reason: Exception) -> NoReturn:
    console.print(str(reason), markup=False)
    raise typer.Exit(2)
