"""The author's commands that make or watch something."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

__all__ = ["keep_verifying", "new"]

new = typer.Typer(help="Make the parts of something new.", no_args_is_help=True)


@new.callback()
def parts() -> None:
    """Make the parts of something new."""


@new.command()
def exercise(
    lesson: Annotated[str, typer.Argument(help="such as 01_tensors")],
    name: Annotated[str, typer.Argument(help="what learners will define; in CapitalLetters it is a class")],
    after: Annotated[str, typer.Option("--after", help="the exercise of the lesson that comes before it")],
) -> None:
    """Put the parts of a new exercise in place: cells, reason, probe, cases, hints, mistakes, right answers."""
    from autograde import course
    from autograde.scaffold import SYLLABUS, ScaffoldError, scaffold, syllabus_entry
    from torchcourse.exercise import UnknownExerciseError

    try:
        paths = scaffold(lesson, name, after)
    except (ScaffoldError, UnknownExerciseError) as error:
        typer.echo(str(error.args[0]))
        raise typer.Exit(2) from None
    for path in paths:
        typer.echo(f"changed: {path.relative_to(course.ROOT)}")
    where = SYLLABUS.relative_to(course.ROOT)
    typer.echo(f'Add to "{lesson}" in {where}, with the misconceptions that it must tell apart:')
    typer.echo(f"  {syllabus_entry(name)}")
    typer.echo(f"What is left to write says `torchcourse verify {lesson}:{name} --watch`.")


def keep_verifying(which: Sequence[str]) -> None:
    """Verify, and again after each change, until interrupted."""
    from autograde import course
    from autograde.rewatch import changes, prove_anew, watched

    try:
        prove_anew(which)
        typer.echo("Waiting for a change; Ctrl-C ends it.")
        for changed in changes(watched(which)):
            typer.echo(f"\nchanged: {', '.join(str(path.relative_to(course.ROOT)) for path in changed)}")
            prove_anew(which)
            typer.echo("Waiting for a change; Ctrl-C ends it.")
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
