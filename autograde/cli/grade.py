"""The instructor's command `grade`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
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

from autograde.cli.console import (
    console,
    counted,
    gradebook_errors,
    is_interactive,
    lesson_names,
    show_changes,
    stderr,
    stop,
)
from autograde.cli.quick_imports import quick_imports
from autograde.settings import SEED

if TYPE_CHECKING:
    from autograde.batch.grading import Graded
    from autograde.sandbox.configuration import Isolation

__all__ = ["grade"]


def grade(
    lessons: Annotated[list[str], typer.Argument(help="the lessons to grade, such as 01_tensors")],
    submitted: Annotated[Path, typer.Option(help="holds STUDENT/LESSON/LESSON.ipynb")],
    out: Annotated[Path, typer.Option(help="gets grades.csv, gradebook.db, autograded/ and feedback/")],
    workers: Annotated[int, typer.Option(min=1, max=64, help="submissions graded at once")] = 1,
    seed: Annotated[int, typer.Option(help="what the hidden cases are drawn from")] = SEED,
    regrade: Annotated[bool, typer.Option("--regrade", help="grade again what an earlier run has graded")] = False,
    trust_submissions: Annotated[
        bool, typer.Option("--trust-submissions", help="run without isolation: see docs/isolation.md")
    ] = False,
    gpu: Annotated[bool, typer.Option("--gpu", help="let submissions use this machine's GPU")] = False,
    scheduler: Annotated[str, typer.Option(help="grade on this Dask cluster, tcp://…: see docs/cluster.md")] = "",
    gradebook: Annotated[str, typer.Option(help="the gradebook's URL; by default OUT/gradebook.db")] = "",
    diff: Annotated[bool, typer.Option("--diff", help="show what would change, and write only if you agree")] = False,
) -> None:
    """Grade a class: each submission runs in a sandbox and gets one verdict for each exercise.

    A run that was interrupted or killed is continued by the same command.
    """
    from autograde.sandbox import template
    from autograde.sandbox.configuration import Isolation

    if not submitted.is_dir():
        stop(f"{submitted} is no folder: --submitted wants the one that holds a folder for each student.")
    isolation = Isolation(trusted=trust_submissions, gpu=gpu)
    if not scheduler:
        template.start_template(isolation)  # it loads while this process does
    with quick_imports():
        names = lesson_names(lessons)
        from torchcourse.model.catalogue import imports

        template.preload(imports(*names))
        from autograde.batch import grading  # noqa: F401 - loaded here without garbage collection
    names = _lessons_of_class(names, submitted, out)
    for warning in isolation.warnings():
        stderr.print(f"WARNING: {warning}", markup=False)
    keep = _kept(names, submitted, out)
    run = partial(_grade, names, submitted, workers, seed, isolation, scheduler, keep)
    if diff and not _is_agreed(out, names, partial(run, regrade)):
        return
    done = run(regrade and not diff, out, gradebook)
    _record_times(done.submissions, submitted, out, gradebook)
    graded = counted(len(done.submissions), "submission")
    console.print(f"{graded} graded, {done.right} of {done.count} exercises passed: {out / 'grades.csv'}")


@dataclass
class Tally:
    """What has been graded so far: student and lesson of each submission, passed exercises (`right`) and all."""

    submissions: list[tuple[str, str]] = field(default_factory=list)
    right: int = 0
    count: int = 0

    def add(self, graded: Graded) -> None:
        """Count a submission."""
        self.submissions.append((graded.submission.student, graded.submission.lesson))
        self.right += sum(verdict.status == "passed" for verdict in graded.verdicts)
        self.count += len(graded.verdicts)


def _grade(
    names: list[str], submitted: Path, workers: int, seed: int, isolation: Isolation, scheduler: str,
    keep: Collection[tuple[str, str]], regrade: bool, out: Path, gradebook: str = "",
) -> Tally:  # fmt: skip
    """Grade with a progress bar; stop with a message if that is not possible."""
    from autograde.batch.grading import OverlapError
    from autograde.batch.grading import run as grade_class
    from autograde.batch.student_names import students
    from autograde.errors import BusyError, RefusedError
    from autograde.sandbox.sandbox import SandboxError

    total = len(students(submitted)) * len(names)
    tally = Tally()
    try:
        with gradebook_errors(out), _bar() as bar:
            task = bar.add_task("grading", total=total)

            def progress(graded: Graded) -> None:
                tally.add(graded)
                bar.advance(task)

            grade_class(
                names, submitted, out, workers=workers, seed=seed, isolation=isolation, regrade=regrade,
                scheduler=scheduler, gradebook=gradebook, keep=keep, progress=progress,
            )  # fmt: skip
    except (BusyError, OverlapError, RefusedError, SandboxError) as error:
        stop(str(error))
    except KeyboardInterrupt:
        console.print(f"Interrupted: {len(tally.submissions)} of {counted(total, 'submission')} are recorded in {out}. "
                      "The same command goes on from there.", markup=False)  # fmt: skip
        raise typer.Exit(130) from None
    return tally


class Rate(ProgressColumn):
    """Submissions graded per second."""

    def render(self, task: Task) -> Text:
        """Return the rate, once it is known."""
        speed = task.finished_speed or task.speed
        return Text(f"{speed:.1f}/s" if speed else "")


def _bar() -> Progress:
    times = TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn()
    return Progress(TextColumn("grading"), BarColumn(), MofNCompleteColumn(), Rate(), *times, console=console)


def _lessons_of_class(names: list[str], submitted: Path, out: Path) -> list[str]:
    """Return the lessons to grade: in a class folder only its own. Print the lessons and students that it lacks."""
    from autograde.batch.student_names import student_names, students
    from autograde.classroom.changed_lesson import changed_lessons
    from autograde.classroom.class_folder import class_lessons, is_class, roster_of

    if not is_class(out):
        return names
    with gradebook_errors(out):
        mine = class_lessons(out)
    for name in names:
        if name not in mine:
            console.print(f"{name} is not a lesson of the class in {out} and is left out; "
                          f"`torchcourse class init {out} --lessons {name}` adds it.", markup=False)  # fmt: skip
    names = [name for name in names if name in mine]
    if not names:
        stop("No lesson is left to grade.")
    for name, difference in changed_lessons(out, names).items():
        stop(f"{name} has changed since it was released to the class ({difference}): `torchcourse class init {out} "
             "--diff` shows what that changes for whom, and takes it over if you agree.")  # fmt: skip
    known = {member.id for member in roster_of(out) or ()}
    strangers = [student for student in student_names(students(submitted)).values() if student not in known]
    if known and strangers:
        console.print(f"Not on the roster, and graded all the same: {', '.join(sorted(strangers))}", markup=False)
    return names


def _kept(names: Sequence[str], submitted: Path, out: Path) -> Collection[tuple[str, str]]:
    """Return the submissions, by student and lesson, that are not there any more and keep their points.

    At a terminal the instructor is asked; otherwise all keep them.
    """
    from autograde.batch.grading import withdrawn

    lost = withdrawn(submitted, out, names)
    for (student, lesson), points in lost.items():
        console.print(f"{student} has no {lesson} any more; {points:g} points were graded before.", markup=False)
    if lost and is_interactive() and typer.confirm(f"Give 0 points to these {len(lost)}?", default=False):
        return ()
    if lost:
        console.print(f"These keep their points. To give 0, delete their entries in {out / 'journal'}.", markup=False)
    return lost.keys()


def _record_times(graded: Sequence[tuple[str, str]], submitted: Path, out: Path, gradebook: str = "") -> None:
    """Record in a class folder when submissions were made, and the penalties of late ones, also on their pages.

    Args:
        graded: student and lesson of each submission.
        gradebook: the URL of the gradebook; by default the one in the class folder.
    """
    from autograde.batch.grading import renew_pages
    from autograde.classroom.class_folder import is_class
    from autograde.classroom.due_dates import DueError
    from autograde.classroom.late import apply_lateness
    from autograde.errors import BusyError, RefusedError
    from autograde.results.gradebook import gradebook_url

    if not is_class(out):
        return
    try:
        with gradebook_errors(out):
            complaints, changed = apply_lateness(out, gradebook_url(out, gradebook), submitted, graded)
            if changed:
                renew_pages(submitted, out, changed, gradebook)
    except (BusyError, DueError, RefusedError) as error:
        stop(str(error))
    for complaint in complaints:
        console.print(complaint, markup=False)


def _is_agreed(out: Path, lessons: Sequence[str], grade: Callable[[Path], object]) -> bool:
    """Grade into a temporary folder, show what would change in `out`, and ask at a terminal whether to write it."""
    from autograde.classroom.compare import apply, preview
    from autograde.errors import BusyError

    try:
        with preview(out, lessons, grade) as (new, found):
            show_changes(found)
            if not is_interactive():
                console.print(f"Nothing was written to {out}: the same command without --diff does that.", markup=False)
                return False
            if not typer.confirm(f"Write this to {out}?", default=False):
                return False
            apply(new, out)
            return True
    except (BusyError, ValueError) as error:
        stop(str(error))
