"""The author's and the instructor's commands."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from autograde.author_commands import keep_verifying, new
from autograde.report_command import report
from autograde.settings import SEED

if TYPE_CHECKING:
    from autograde.grading import Graded
    from autograde.sandbox import Enclosure

console = Console(highlight=False, soft_wrap=True)
aloud = Console(stderr=True, highlight=False, soft_wrap=True)
GRAMMAR = "rfc3987_syntax"


def join(app: typer.Typer) -> None:
    """Add the commands to the `torchcourse` command."""
    # But for these, all judge by what the simulated accelerator shows, on GPU machines too
    if sys.argv[1:2] not in (["verify"], ["check"]):
        os.environ.setdefault("TORCHCOURSE_ACCELERATOR", "simulated")
    for command in (build, grade, report, sample, verify):
        app.command()(command)
    app.add_typer(new, name="new")
    from autograde import class_commands  # it uses what is defined here

    class_commands.join(app)


def build(lessons: Annotated[list[str] | None, typer.Argument(help="all lessons, if none is named")] = None) -> None:
    """Build the notebooks, and what they judge by, from solutions/."""
    from autograde.building import build as build_lessons
    from autograde.script import MalformedScriptError

    try:
        changed = build_lessons(_lessons(lessons))
    except MalformedScriptError as error:
        _stop(str(error))
    for path in changed:
        console.print(f"written: {path}")
    console.print("Everything is fresh." if not changed else f"{len(changed)} files written.")


def verify(
    lessons: Annotated[
        list[str] | None, typer.Argument(help="LESSON or LESSON:EXERCISE; all, if none is named")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="verify again whenever a file of the lesson changes")] = False,
) -> None:
    """Prove the course: every answer, every mistake and every message is what it should be."""
    from autograde.verifying import verify as prove
    from torchcourse.exercise import UnknownExerciseError

    if watch:
        _lessons([name.partition(":")[0] for name in lessons or []])
        return keep_verifying(lessons or [])
    broken = 0
    try:
        for claim in prove(lessons):
            broken += not claim.holds
            console.print(f"{'ok    ' if claim.holds else 'BROKEN'} {claim.about}: {claim.says}", markup=False)
    except UnknownExerciseError as error:
        _stop(str(error.args[0]))
    console.print(f"{broken} claims do not hold." if broken else "Every claim holds.")
    raise typer.Exit(bool(broken))


def grade(
    lessons: Annotated[list[str], typer.Argument(help="the lessons to grade, such as 01_tensors")],
    submitted: Annotated[Path, typer.Option(help="holds STUDENT/LESSON/LESSON.ipynb")],
    out: Annotated[Path, typer.Option(help="gets grades.csv, gradebook.db, autograded/ and feedback/")],
    workers: Annotated[int, typer.Option(min=1, max=64, help="submissions examined at once")] = 1,
    seed: Annotated[int, typer.Option(help="what the hidden cases are drawn from")] = SEED,
    regrade: Annotated[bool, typer.Option("--regrade", help="examine also what an earlier run has examined")] = False,
    trust_submissions: Annotated[
        bool, typer.Option("--trust-submissions", help="run without isolation: see docs/isolation.md")
    ] = False,
    gpu: Annotated[bool, typer.Option("--gpu", help="let submissions use this machine's GPU")] = False,
    scheduler: Annotated[str, typer.Option(help="examine on this Dask cluster, tcp://…: see docs/cluster.md")] = "",
    gradebook: Annotated[str, typer.Option(help="the gradebook's URL, in place of OUT/gradebook.db")] = "",
    diff: Annotated[bool, typer.Option("--diff", help="show what would change, and write only if you agree")] = False,
) -> None:
    """Grade a class: each submission runs in a sandbox and gets one verdict for each exercise.

    A run that was interrupted or killed is continued by the same command.
    """
    from autograde import class_commands, template
    from autograde.enclosure import Enclosure

    if not submitted.is_dir():
        _stop(f"{submitted} is no folder: --submitted wants the one that holds a folder for each student.")
    enclosure = Enclosure(trusted=trust_submissions, gpu=gpu)
    if not scheduler and template.available(enclosure):
        template.begin()  # it loads while this process does
    with _loading():
        names = _lessons(lessons)
        from torchcourse.exercise import imports

        template.expect(imports(*names))
        from autograde import grading  # noqa: F401 - whatever needs it later finds it loaded
    names = class_commands.before_grading(names, submitted, out)
    for weaker in enclosure.warnings():
        aloud.print(f"WARNING: {weaker}", markup=False)
    run = partial(_grade, names, submitted, workers, seed, enclosure, scheduler)
    if diff and not class_commands.agreed(out, names, partial(run, regrade)):
        return
    done = run(regrade and not diff, out, gradebook)
    for reason in template.refusals():
        aloud.print(f"Each worker loaded by itself, which takes longer and half a gigabyte more for each: {reason}",
                    markup=False)  # fmt: skip
    class_commands.after_grading(done.submissions, submitted, out, gradebook)
    console.print(f"{len(done.submissions)} submissions graded, {done.right} of {done.count} exercises passed: "
                  f"{out / 'grades.csv'}")  # fmt: skip


@contextmanager
def _loading() -> Iterator[None]:
    """A block that imports what stays, without what only takes time.

    Searching all of it for garbage again and again takes a third of the time. And jsonschema, where it finds it,
    compiles a grammar of identifiers that notebooks have none of.
    """
    modules: dict[str, Any] = sys.modules
    gc.disable()
    try:
        modules.setdefault(GRAMMAR, None)  # which stands for a module that is not there
        yield
    finally:
        gc.freeze()
        gc.enable()
        if modules[GRAMMAR] is None:
            del modules[GRAMMAR]


@dataclass
class Tally:
    """What has been graded so far: student and lesson of each submission, exercises passed, and exercises in all."""

    submissions: list[tuple[str, str]] = field(default_factory=list)
    right: int = 0
    count: int = 0

    def add(self, graded: Graded) -> None:
        """One submission more."""
        self.submissions.append((graded.submission.student, graded.submission.lesson))
        self.right += sum(verdict.status == "passed" for verdict in graded.verdicts)
        self.count += len(graded.verdicts)


def _grade(
    names: list[str], submitted: Path, workers: int, seed: int, enclosure: Enclosure, scheduler: str, regrade: bool,
    out: Path, gradebook: str = "",
) -> Tally:  # fmt: skip
    """Grade with a bar that moves; stops with one message where that cannot be."""
    from sqlalchemy.exc import OperationalError

    from autograde import class_commands
    from autograde.grading import OverlapError, students
    from autograde.grading import run as grade_class
    from autograde.journal import BusyError
    from autograde.preflight import RefusedError
    from autograde.sandbox import SandboxError

    total = len(students(submitted)) * len(names)
    tally = Tally()
    with _bar() as bar:
        task = bar.add_task("grading", total=total)

        def progress(graded: Graded) -> None:
            tally.add(graded)
            bar.advance(task)

        try:
            grade_class(
                names, submitted, out, workers=workers, seed=seed, enclosure=enclosure, regrade=regrade,
                scheduler=scheduler, gradebook=gradebook, progress=progress,
            )  # fmt: skip
        except (BusyError, OverlapError, RefusedError, SandboxError) as error:
            bar.stop()
            _stop(str(error))
        except OperationalError as error:
            bar.stop()
            _stop(class_commands.locked(out, error))
        except KeyboardInterrupt:
            bar.stop()
            console.print(f"Interrupted: {len(tally.submissions)} of {total} submissions are recorded in {out}. "
                          "The same command goes on from there.", markup=False)  # fmt: skip
            raise typer.Exit(130) from None
    return tally


class Rate(ProgressColumn):
    """How many submissions get done in a second."""

    def render(self, task: Task) -> Text:
        """The number, once there is one."""
        speed = task.finished_speed or task.speed
        return Text(f"{speed:.1f}/s" if speed else "")


def _bar() -> Progress:
    times = TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn()
    return Progress(TextColumn("grading"), BarColumn(), MofNCompleteColumn(), Rate(), *times, console=console)


def sample(
    folder: Annotated[Path, typer.Argument(help="gets STUDENT/LESSON/LESSON.ipynb for ten students")],
) -> None:
    """Make a sample class of ten submissions of lesson 01: right, wrong in several ways, broken."""
    from autograde.sample import make_sample_class

    names = make_sample_class(folder)
    console.print(f"{folder} holds the submissions of {', '.join(names)}.")


def _lessons(names: list[str] | None) -> list[str]:
    from torchcourse.exercise import LESSONS, UnknownExerciseError, exercises

    for name in names or []:
        try:
            exercises(name)
        except UnknownExerciseError as error:
            _stop(str(error.args[0]))
    return list(names or LESSONS)


def _stop(reason: str) -> NoReturn:
    console.print(reason, markup=False)
    raise typer.Exit(2)
