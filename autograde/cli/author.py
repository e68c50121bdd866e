"""The author's commands: build, verify, new exercise, new lesson."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from autograde.cli.console import console, lesson_names, pluralized, stop

__all__ = ["build", "new_commands", "verify"]

new_commands = typer.Typer(help="Make the parts of something new.", no_args_is_help=True)


@new_commands.callback()
def parts() -> None:
    """Make the parts of something new."""


@new_commands.command()
def exercise(
    lesson: Annotated[str, typer.Argument(help="such as 01_tensors")],
    name: Annotated[str, typer.Argument(help="what learners will define; in CapitalLetters it is a class")],
    after: Annotated[str, typer.Option("--after", help="the exercise of the lesson to put it after")],
) -> None:
    """Write a template of an exercise: its cells in the lesson, its public half and its private half."""
    from autograde.course.scaffold import ScaffoldError, new_exercise
    from torchcourse.model.catalogue import UnknownExerciseError

    try:
        _say_what_is_left(lesson, name, new_exercise(lesson, name, after))
    except (ScaffoldError, UnknownExerciseError) as error:
        stop(str(error.args[0]))


@new_commands.command()
def lesson(
    name: Annotated[str, typer.Argument(help="such as 16_graphs")],
    exercise: Annotated[str, typer.Argument(help="what learners will define in its first exercise")],
    title: Annotated[str, typer.Option("--title", help="the lesson's heading")] = "",
) -> None:
    """Write a template of a lesson of your own, with one exercise, in the folder that --course names."""
    from autograde.course.scaffold import ScaffoldError, new_lesson

    try:
        written = new_lesson(name, title or name.partition("_")[2].replace("_", " ").capitalize(), exercise)
    except ScaffoldError as error:
        stop(str(error))
    _say_what_is_left(name, exercise, written)


def _say_what_is_left(lesson: str, exercise: str, written: Sequence[Path]) -> None:
    from autograde.source import paths
    from torchcourse.model.own_course import own_course

    for path in written:
        console.print(f"written: {paths.shown(path)}")
    own = own_course()
    command = f"torchcourse{f' --course {paths.shown(own)}' if own else ''} verify {lesson}:{exercise} --watch"
    console.print(f"`{command}` says what is left to write.")


def build(lessons: Annotated[list[str] | None, typer.Argument(help="all lessons, if none is named")] = None) -> None:
    """Build the notebooks, and the data that they check answers against, from solutions/."""
    from autograde.course.build import build as build_lessons
    from autograde.source.script import MalformedScriptError

    written = 0
    for lesson in lesson_names(lessons):
        try:
            with console.status(f"building {lesson}"):
                changed = build_lessons([lesson])
        except MalformedScriptError as error:
            stop(str(error))
        written += len(changed)
        for path in changed:
            console.print(f"written: {path}")
    console.print("Everything is up to date." if not written else f"{pluralized(written, 'file')} written.")


def verify(
    lessons: Annotated[
        list[str] | None, typer.Argument(help="LESSON or LESSON:EXERCISE; all, if none is named")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="verify again whenever a file of the course changes")] = False,
    messages: Annotated[bool, typer.Option("--messages", help="print what learners read, and run nothing")] = False,
    workers: Annotated[int, typer.Option(min=0, max=64, help="verified at once; 0: what cores and memory allow")] = 0,
    anew: Annotated[bool, typer.Option("--anew", help="run what has not changed, too")] = False,
) -> None:
    """Verify the course: every answer, every mistake and every message is what it should be."""
    from autograde.batch.worker_pool import default_workers
    from autograde.course.verify import verify as claims
    from torchcourse.model.catalogue import UnknownExerciseError

    named = [name.partition(":") for name in lessons or []]
    which = [f"{name}{colon}{exercise}" for lesson, colon, exercise in named for name in lesson_names([lesson])]
    if watch:
        return _verify_again(which)
    if messages:
        return _print_messages(which)
    broken = 0
    try:
        for claim in claims(which, workers or default_workers(), use_cache=not anew):
            broken += not claim.holds
            console.print(f"{'ok    ' if claim.holds else 'BROKEN'} {claim.about}: {claim.says}")
    except UnknownExerciseError as error:
        stop(str(error.args[0]))
    do = "does" if broken == 1 else "do"
    console.print(f"{pluralized(broken, 'claim')} {do} not hold." if broken else "Every claim holds.")
    raise typer.Exit(bool(broken))


def _print_messages(which: list[str]) -> None:
    """Print what a notebook says of each known mistake, and what it would say if the mistake were unknown."""
    from autograde.course.messages import messages
    from torchcourse.model.catalogue import UnknownExerciseError

    try:
        for message in messages(which):
            console.print(f"{message.about} {message.mistake}\n  {message.says}")
            console.print(f"  (unnamed) {message.unnamed}")
    except UnknownExerciseError as error:
        stop(str(error.args[0]))


def _verify_again(which: list[str]) -> None:
    """Verify, and again after each change, until interrupted."""
    from autograde.course.watch import watch

    try:
        watch(which)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
