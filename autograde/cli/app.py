"""Add the author's and the instructor's commands to the command `torchcourse`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import typer

from autograde.cli.author import build, new_commands, verify
from autograde.cli.classroom import bundle, class_commands, collect, release, sample
from autograde.cli.grade import grade
from autograde.cli.report import diff, export, report

__all__ = ["join"]


def join(app: typer.Typer) -> None:
    """Add the commands of this package to `app`."""
    # The other commands use the simulated accelerator, even where there is a GPU
    if sys.argv[1:2] not in (["verify"], ["check"]):
        os.environ.setdefault("TORCHCOURSE_ACCELERATOR", "simulated")
    commands: tuple[Callable[..., None], ...] = (
        build, grade, report, sample, verify, bundle, collect, diff, export, release,
    )  # fmt: skip
    for command in commands:
        app.command()(command)
    app.add_typer(new_commands, name="new")
    app.add_typer(class_commands, name="class")
