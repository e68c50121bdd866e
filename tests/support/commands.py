"""Run the `torchcourse` command in this process, without its seconds of imports."""

from __future__ import annotations

import sys

import pytest
import typer
from typer.testing import CliRunner

from torchcourse.cli import app

__all__ = ["run_command", "run_instructors"]


def run_command(*arguments: object) -> tuple[int, str]:
    """Return the exit status and the output of a learner's command; what it raises is raised."""
    done = CliRunner().invoke(app, list(map(str, arguments)))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


def run_instructors(*arguments: object) -> tuple[int, str]:
    """Return the exit status and the output of a command of the instructor's half."""
    from autograde.cli.app import join  # where only the learner's half runs, it cannot be imported

    words, instructors = list(map(str, arguments)), typer.Typer()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["torchcourse", *words])
        patch.setenv("TORCHCOURSE_ACCELERATOR", "simulated")
        join(instructors)
        done = CliRunner().invoke(instructors, words)
    return done.exit_code, done.output
