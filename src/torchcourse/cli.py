"""The `torchcourse` command: what learners use; in a clone, the instructor's commands as well.

Each command imports what it needs when it is called: torch alone takes seconds to import.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.console import Console

from torchcourse.model.notebook_file import WorkspaceError
from torchcourse.model.own_course import VARIABLE
from torchcourse.workspace.own_programs import put_on_path

if TYPE_CHECKING:
    from torchcourse.doctor import Finding

app = typer.Typer(no_args_is_help=True, add_completion=False)
console = Console(markup=False, emoji=False, highlight=False, soft_wrap=True)

CHECKOUT = Path(__file__).resolve().parents[2]
RELOAD = "If the notebook is open in JupyterLab: File > Reload Notebook from Disk."

WorkingCopy = Annotated[
    Path | None, typer.Argument(help="your working copy: by default the current folder if it is one, or else work")
]
Notebook = Annotated[str, typer.Argument(help="a lesson in your working copy, such as work/01_tensors.ipynb")]


def has_instructor_half() -> bool:
    """Return whether this is a clone, which has the instructor's half as well."""
    return (CHECKOUT / "autograde" / "__init__.py").exists()


@app.callback()
def course(
    context: typer.Context,
    own: Annotated[
        Path | None,
        typer.Option(
            "--course",
            envvar=VARIABLE,
            metavar="DIR",
            help="a folder with lessons of your own, for authors",
            hidden=not has_instructor_half(),
        ),
    ] = None,
) -> None:
    """Learn PyTorch by building it: lessons that check every answer."""
    if own is None:
        return
    if own.resolve().is_relative_to(CHECKOUT):
        _fail(f"{own} is in the course's own folder, so learners' packages would contain its answers: choose another.")
    if not own.is_dir() and (own.exists() or context.invoked_subcommand != "new"):
        _fail(f"There is no folder {own}: torchcourse --course {own} new lesson 16_graphs NAME makes one.")
    if own.is_dir() and not (own / "solutions").is_dir() and context.invoked_subcommand != "new":
        _fail(f"{own} holds no lessons of your own: it has no folder of scripts, `solutions`.")
    os.environ[VARIABLE] = str(own.resolve())
    from torchcourse.model.catalogue import check_new_lesson  # it looks for lessons of one's own when it is imported

    for script in sorted((own / "solutions").glob("*.py")):
        try:
            check_new_lesson(script.stem)
        except ValueError as error:
            _fail(f"{script}: {error}")


@app.command()
def lab(
    folder: WorkingCopy = None,
    browser: Annotated[bool, typer.Option(help="open a browser window")] = True,
    port: Annotated[int, typer.Option(help="the first port to try", min=1, max=65535)] = 8888,
) -> None:
    """Open the course in JupyterLab, on a working copy of the notebooks. Nothing of yours is ever overwritten."""
    from torchcourse.workspace.working_copy import chosen_folder, open_lab

    try:
        exit_code = open_lab(chosen_folder(folder), browser, port)
    except (WorkspaceError, FileNotFoundError) as error:
        _fail(error)
    raise typer.Exit(exit_code)


@app.command()
def start(folder: WorkingCopy = None) -> None:
    """Make a working copy of the notebooks and open nothing: for VS Code or another editor."""
    from torchcourse.workspace.working_copy import chosen_folder, prepare

    try:
        prepare(chosen_folder(folder))
    except WorkspaceError as error:
        _fail(error)


@app.command()
def status(folder: WorkingCopy = None) -> None:
    """Show your progress: exercises passed, attempted and open in each lesson."""
    from torchcourse.workspace.status import read_lesson_progress, show
    from torchcourse.workspace.working_copy import find_working_copy, is_of_another_release

    try:
        folder = find_working_copy(folder)
        lessons = read_lesson_progress(folder)
    except WorkspaceError as error:
        _fail(error)
    except OSError as error:
        _fail(f"{error.filename or folder} cannot be read: {error.strerror or error}.")
    show(lessons, console)
    if any(is_of_another_release(folder, f"{s.lesson.name}.ipynb") for s in lessons):
        console.print(f"The lessons have a newer release: torchcourse update {folder}")


@app.command()
def check(
    names: Annotated[
        list[str],
        typer.Argument(
            help="a notebook, lesson or exercise, and further exercises; the beginning of a name is enough",
            metavar="NAME...",
        ),
    ],
    watch: Annotated[
        bool, typer.Option("--watch", help="check again at each save, and go on when an exercise is right")
    ] = False,
) -> None:
    """Check a notebook from the terminal, as its check cells do, in a process of its own."""
    from torchcourse.workspace.named import find_named

    exit_code = 0
    try:
        notebook, exercises = find_named(names)
        if watch:
            from torchcourse.checking.terminal_check import watch as check_at_each_save  # with torch: takes seconds

            check_at_each_save(notebook, exercises)
        else:
            from torchcourse.checking.warm_check import check_warm

            exit_code = check_warm(notebook, exercises)
    except WorkspaceError as error:
        _fail(error)
    except KeyboardInterrupt:
        exit_code = 130
    raise typer.Exit(exit_code)


@app.command()
def reset(
    notebook: Notebook,
    exercise: Annotated[str, typer.Argument(help="the exercise to start again")],
) -> None:
    """Put an exercise back as it was released. Your answer is set aside in a file."""
    from torchcourse.workspace.named import find_named
    from torchcourse.workspace.reset import reset as reset_exercise

    try:
        path, (exercise,) = find_named([notebook, exercise])
        kept = reset_exercise(path, exercise)
    except (WorkspaceError, FileNotFoundError) as error:
        _fail(error)
    outcome = f"{exercise} in {path} is as it was released"
    console.print(f"{outcome}; your answer is in {kept.file}. {RELOAD}" if kept else f"{outcome}.")


@app.command()
def update(folder: WorkingCopy = None) -> None:
    """Bring the installed release of the lessons into your working copy. Every answer is kept."""
    from torchcourse.workspace import start_page
    from torchcourse.workspace.update import update as update_notebooks
    from torchcourse.workspace.working_copy import find_working_copy

    problems = changes = False
    try:
        folder = find_working_copy(folder)
        for updated in update_notebooks(folder):
            console.print(updated.in_words())
            problems, changes = problems or bool(updated.problem), changes or bool(updated.merged)
        start_page.renew(folder)
    except (WorkspaceError, OSError) as error:
        _fail(error)
    if changes:
        console.print(RELOAD)
    elif not problems:
        console.print(f"{folder} has the newest lessons of this installation.")
    raise typer.Exit(2 if problems else 0)


@app.command()
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="print the findings as JSON")] = False,
    grader: Annotated[bool, typer.Option("--grader", help="only what grading needs, in a few seconds")] = False,
) -> None:
    """Examine this machine: what the course finds, what is missing, and how to fix it. Changes nothing."""
    from torchcourse import doctor as machine

    if grader and not has_instructor_half():
        _fail("The grader is not installed here: it is in a clone of the course, as autograde/.")
    examine = machine.examine_grader if grader else machine.examine_machine
    findings = examine([_sandbox] if has_instructor_half() else ())
    print(machine.as_json(findings) if as_json else machine.table(findings))
    raise typer.Exit(any(f.state == "blocked" for f in findings))


def _sandbox() -> Iterator[Finding]:
    """Check the sandbox; its modules are imported here, so that a package that is missing is a finding."""
    from autograde.sandbox.diagnosis import diagnose

    yield from diagnose()


def _fail(reason: Exception | str) -> NoReturn:
    console.print(str(reason))
    raise typer.Exit(2)


def main() -> None:
    """Run the `torchcourse` command, and end the process without torch's destructors.

    Commands have ended with "malloc(): unsorted double linked list corrupted" after everything was written: rarely, on
    a busy machine. A thread of torch's profiler, which starts with the import of torch, still runs while destructors
    do. Nor does the garbage collector go through all of torch, which takes a second.
    """
    status = 1

    def leave() -> None:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(status)

    atexit.register(leave)  # what is registered first runs last
    put_on_path()  # building an operator in C++ runs ninja, which may be installed beside this Python only
    if has_instructor_half():
        sys.path.insert(0, str(CHECKOUT))
        from autograde.cli.app import join

        join(app)
    try:
        app()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        raise
