"""Add the author's and the instructor's commands to the command `torchcourse`."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable

import typer

from autograde.cli.author import build, new_commands, verify
from autograde.cli.classroom import bundle, class_commands, collect, release, sample
from autograde.cli.console import stop
from autograde.cli.grade import grade
from autograde.cli.interrupts import ended_by_ctrl_c
from autograde.cli.report import diff, export, report
from autograde.errors import ClassError, CourseError
from torchcourse.model.own_course import NotAnExerciseError

__all__ = ["join"]


def join(app: typer.Typer) -> None:
    """Add the commands of this package to `app`."""
    commands: tuple[Callable[..., None], ...] = (
        build, grade, report, sample, bundle, collect, diff, export, release,
    )  # fmt: skip
    for command in commands:
        app.command()(_in_one_line(_without_gpu(command)))
    for group in (new_commands, class_commands):
        for registered in group.registered_commands:
            registered.callback = _in_one_line(_without_gpu(registered.callback)) if registered.callback else None
    app.command()(_in_one_line(verify))
    app.add_typer(new_commands, name="new")
    app.add_typer(class_commands, name="class")


def _in_one_line(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that says in one line what has to be mended in a lesson or a class."""

    @functools.wraps(command)
    def explained(*args: object, **kwargs: object) -> None:
        os.environ.setdefault("OMP_NUM_THREADS", "1")  # threads that share a core wait for each other; torch reads it
        try:
            command(*args, **kwargs)
        except (ClassError, CourseError, NotAnExerciseError) as error:
            stop(str(error))
        except PermissionError as error:
            stop(f"{error.filename} cannot be used: {error.strerror}.")
        except SyntaxError as error:
            stop(f"{error.filename}:{error.lineno}: {error.msg}")

    return explained


def _without_gpu(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that uses the simulated accelerator even where there is a GPU, so that it does the same
    everywhere, and that Ctrl-C ends."""

    @functools.wraps(command)
    def simulated(*args: object, **kwargs: object) -> None:
        os.environ.setdefault("TORCHCOURSE_ACCELERATOR", "simulated")
        with ended_by_ctrl_c():
            command(*args, **kwargs)

    return simulated
