"""The instructor's command `grade`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

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
    gradebook_errors,
    is_interactive,
    lesson_names,
    place,
    pluralized,
    show_changes,
    stderr,
    stop,
    write_errors,
)
from autograde.cli.interrupts import raising_at_ctrl_c
from autograde.cli.quick_imports import quick_imports

if TYPE_CHECKING:
    from autograde.batch.grading import Options
    from autograde.batch.recording import Recorded, ScoreChange
    from autograde.judge.submission import Submission
    from autograde.sandbox.configuration import Isolation

__all__ = ["grade"]

COMPILED_EXERCISE = "rms_norm_cpp"
"""The exercise that is built with g++ and ninja."""


def grade(
    lessons: Annotated[list[str], typer.Argument(help="the lessons to grade, such as 01_tensors")],
    submitted: Annotated[Path, typer.Option(help="holds STUDENT/LESSON/LESSON.ipynb")],
    out: Annotated[Path, typer.Option(help="gets grades.csv, gradebook.db, autograded/ and feedback/")],
    workers: Annotated[int, typer.Option(min=0, max=64, help="graded at once; 0: what cores and memory allow")] = 0,
    seed: Annotated[int | None, typer.Option(help="draws the hidden cases; by default the class's own")] = None,
    regrade: Annotated[bool, typer.Option("--regrade", help="grade again what an earlier run has graded")] = False,
    trust_submissions: Annotated[
        bool, typer.Option("--trust-submissions", help="isolate none: docs/isolation.md")
    ] = False,
    gpu: Annotated[bool, typer.Option("--gpu", help="let submissions use this machine's GPU")] = False,
    scheduler: Annotated[str, typer.Option(help="grade on this Dask cluster, tcp://…: see docs/cluster.md")] = "",
    gradebook: Annotated[str, typer.Option(help="its URL; by default the class's, or OUT/gradebook.db")] = "",
    diff: Annotated[bool, typer.Option("--diff", help="show what would change, and write only if you agree")] = False,
    never_lower: Annotated[
        bool, typer.Option("--never-lower", help="a submission graded before keeps each score that would be lower")
    ] = False,
    best: Annotated[bool, typer.Option("--best", help="a learner's best submission counts, not the latest")] = False,
) -> None:
    """Grade a class: each submission runs in a sandbox and gets one verdict for each exercise.

    A run that was interrupted or killed is continued by the same command. OUT/grading-log.jsonl is a log of runs.
    """
    from autograde.sandbox import template
    from autograde.sandbox.configuration import Isolation

    if not submitted.is_dir():
        stop(f"{submitted} is not a folder: --submitted wants the one that holds a folder for each student.")
    isolation = Isolation(trusted=trust_submissions, gpu=gpu)
    if not scheduler:
        template.start_template(isolation)  # it loads while this process does
    with quick_imports():
        names = lesson_names(lessons)
        from torchcourse.model.catalogue import imports

        template.preload(imports(*names))
        from autograde.batch import grading  # noqa: F401 - loaded here without garbage collection
        from autograde.batch.worker_pool import default_workers
        from autograde.classroom.class_config import class_gradebook, class_seed
    names, seed = _lessons_of_class(names, submitted, out), class_seed(out) if seed is None else seed
    _warn(isolation, [] if scheduler else names)
    grade_into = partial(
        _grade, names, submitted, workers=workers or default_workers(), seed=seed, isolation=isolation,
        scheduler=scheduler, keep=_kept(names, submitted, out), never_lower=never_lower, best=best,
    )  # fmt: skip
    agreed = _agreed_changes(out, names, seed, partial(grade_into, regrade=regrade)) if diff else []
    if agreed is not None:
        gradebook = gradebook or class_gradebook(out)
        done = grade_into(out, regrade=regrade and not diff, gradebook=gradebook)
        _finish(done, agreed, names, seed, submitted, out, gradebook)


def _warn(isolation: Isolation, lessons: list[str]) -> None:
    """Print what the sandbox cannot do here, and what it lacks for lessons that are graded on this machine."""
    for warning in isolation.warnings():
        stderr.print(f"WARNING: {warning}")
    _warn_of_missing_tools(lessons, isolation)


def _warn_of_missing_tools(names: list[str], isolation: Isolation) -> None:
    """Print which tools the sandbox lacks, if an exercise needs them that would count as not attempted without."""
    from torchcourse.doctor import REMEDIES
    from torchcourse.model.catalogue import find
    from torchcourse.probes.native import missing_tools

    missing = missing_tools(isolation.environment("/tmp")) if find(COMPILED_EXERCISE)[0] in names else []
    if missing:
        lacks = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing here"
        install = "; ".join(REMEDIES[tool] for tool in missing)
        stderr.print(f"WARNING: {lacks}, so {COMPILED_EXERCISE} will count as not attempted. To install: {install}.")


@dataclass
class Tally:
    """What has been graded so far: student and lesson of each submission, passed exercises (`right`) and all, and the
    scores that differ from those recorded before; `failed`: the exercises on which the grader itself failed;
    `under_way`: which share of each submission that is not done has been run."""

    submissions: list[tuple[str, str]] = field(default_factory=list)
    right: int = 0
    count: int = 0
    changes: list[ScoreChange] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    under_way: dict[tuple[str, str], float] = field(default_factory=dict)

    @property
    def completed(self) -> float:
        """The number of submissions, with the shares of those under way."""
        return len(self.submissions) + sum(min(share, 1.0) for share in list(self.under_way.values()))

    def part_done(self, submission: Submission, share: float) -> None:
        """Count a share of a submission that is under way."""
        key = submission.student, submission.lesson
        self.under_way[key] = self.under_way.get(key, 0.0) + share

    def add(self, graded: Recorded) -> None:
        """Count a submission."""
        self.changes += graded.changes
        key = graded.submission.student, graded.submission.lesson
        self.under_way.pop(key, None)
        self.submissions.append(key)
        self.right += sum(verdict.status == "passed" for verdict in graded.verdicts)
        self.count += len(graded.verdicts)
        self.failed += [f"{v.student} {v.exercise}" for v in graded.verdicts if v.grader_failed]


def _grade(names: list[str], submitted: Path, out: Path, **options: Unpack[Options]) -> Tally:
    """Grade with a progress bar; stop with a message if that is not possible."""
    from autograde.batch.grading import OverlapError, grade_class
    from autograde.batch.student_names import students
    from autograde.errors import BusyError, RefusedError
    from autograde.sandbox.sandbox import SandboxError

    total = len(students(submitted)) * len(names)
    tally = Tally()
    try:
        with gradebook_errors(out), raising_at_ctrl_c(), _bar() as bar:
            task = bar.add_task("grading", total=total)

            def progress(graded: Recorded) -> None:
                tally.add(graded)
                bar.update(task, completed=tally.completed)

            def part_done(submission: Submission, share: float) -> None:
                tally.part_done(submission, share)
                bar.update(task, completed=tally.completed)  # so that the time left is known before the first is done

            grade_class(names, submitted, out, progress=progress, part_done=part_done, **options)
    except (BusyError, OverlapError, RefusedError, SandboxError) as error:
        stop(str(error))
    except KeyboardInterrupt:
        _log(out, names, options["seed"], tally, finished=False)
        done = len(tally.submissions)
        console.print(f"Interrupted: {done} of {pluralized(total, 'submission')} {'is' if done == 1 else 'are'} "
                      f"recorded in {place(out)}. Run the same command again to continue.")  # fmt: skip
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
    from autograde.classroom.class_config import class_lessons, is_class
    from autograde.classroom.class_folder import roster_of

    if not is_class(out):
        return names
    with gradebook_errors(out):
        mine = class_lessons(out)
    if not mine:
        stop(f"The class in {out} has no gradebook, or no lesson in it: `torchcourse class init {out} --lessons "
             f"{','.join(names)}` adds them, with --due for due dates.")  # fmt: skip
    for name in names:
        if name not in mine:
            console.print(f"{name} is not a lesson of the class in {out} and is left out; "
                          f"`torchcourse class init {out} --lessons {name}` adds it.")  # fmt: skip
    names = [name for name in names if name in mine]
    if not names:
        stop(f"No lesson is left to grade: name one of the class's, {', '.join(mine)}.")
    for name, difference in changed_lessons(out, names).items():
        stop(f"{name} has changed since it was released to the class ({difference}): `torchcourse class init {out} "
             "--diff` shows what that changes for whom, and applies it if you agree.")  # fmt: skip
    known = {member.id for member in roster_of(out) or ()}
    strangers = [student for student in student_names(students(submitted)).values() if student not in known]
    if known and strangers:
        console.print(f"Not on the roster, but graded anyway: {', '.join(sorted(strangers))}")
    return names


def _kept(names: Sequence[str], submitted: Path, out: Path) -> Collection[tuple[str, str]]:
    """Return the submissions, by student and lesson, that are not there any more and keep their points; print which.

    At a terminal the instructor is asked; otherwise all keep them.
    """
    from autograde.batch.grading import misplaced, withdrawn

    for sentence in misplaced(submitted, names):
        console.print(sentence)
    lost = withdrawn(submitted, out, names)
    for (student, lesson), points in lost.items():
        were = "was" if points == 1 else "were"
        console.print(f"{student} has no {lesson} any more; {pluralized(points, 'point')} {were} given before.")
    which = "this one" if len(lost) == 1 else f"these {len(lost)}"
    if lost and is_interactive() and typer.confirm(f"Give 0 points to {which}?", default=False):
        return ()
    if lost:
        kept = ("It keeps its", "its entry") if len(lost) == 1 else ("These keep their", "their entries")
        console.print(f"{kept[0]} points. To give 0, delete {kept[1]} in {out / 'journal'}.")
    return lost.keys()


def _record_times(graded: Sequence[tuple[str, str]], submitted: Path, out: Path, gradebook: str = "") -> None:
    """Record in a class folder when submissions were made, and the penalties of late ones, also on their pages.

    Args:
        graded: student and lesson of each submission.
        gradebook: the URL of the gradebook; by default the one in the class folder.
    """
    from autograde.batch.grading import renew_pages
    from autograde.classroom.class_config import is_class
    from autograde.classroom.due_dates import DueError
    from autograde.classroom.late import apply_lateness
    from autograde.errors import BusyError, RefusedError
    from autograde.results.gradebook_url import gradebook_url

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
        console.print(complaint)


def _finish(
    done: Tally,
    agreed: list[ScoreChange],
    lessons: Sequence[str],
    seed: int,
    submitted: Path,
    out: Path,
    gradebook: str,
) -> None:
    """Log a run with the changes that were `agreed` on before it, record when submissions were made, and print what
    stays as it was and how many were graded."""
    _show_kept(done.changes)
    done.changes += agreed
    _log(out, lessons, seed, done)
    earlier = _earlier_counts(done.changes)  # the timestamps there belong to lower-scoring resubmissions
    _record_times([key for key in done.submissions if key not in earlier], submitted, out, gradebook)
    graded = pluralized(len(done.submissions), "submission")
    if done.failed:
        which = ", ".join(done.failed[:10]) + (" …" if len(done.failed) > 10 else "")
        stderr.print(f"WARNING: the grader itself failed on {pluralized(len(done.failed), 'exercise')} ({which}). "
                     "The same command grades them again.")  # fmt: skip
    console.print(f"{graded} graded, {done.right} of {done.count} exercises passed: {out / 'grades.csv'}")


def _log(out: Path, lessons: Sequence[str], seed: int, done: Tally, finished: bool = True) -> None:
    """Add a run to the log of the results folder."""
    from autograde.batch.grading_log import FILE, Run, append

    with write_errors(out / FILE):
        append(out, Run(lessons, len(done.submissions), seed, finished, done.changes))


def _earlier_counts(changes: Sequence[ScoreChange]) -> set[tuple[str, str]]:
    """Return student and lesson of the submissions in place of which an earlier one counts."""
    return {(c.after.student, c.after.lesson) for c in changes if c.kept and c.resubmitted}


def _show_kept(changes: Sequence[ScoreChange]) -> None:
    """Print what stays as it was graded before."""
    from autograde.batch.grading_log import by_student

    changes = by_student(changes)
    lost: dict[tuple[str, str], float] = defaultdict(float)
    for change in (c for c in changes if c.kept and c.resubmitted):
        lost[change.after.student, change.after.lesson] += change.before.score - change.after.score
    for (student, lesson), points in lost.items():
        more = pluralized(points, "more point")
        console.print(f"{student}: an earlier submission of {lesson} counts, with {more} than the latest.")
    for change in (c for c in changes if c.kept and not c.resubmitted):
        before, after = change.before, change.after
        console.print(f"{before.student} keeps {before.score:g} in {before.exercise} of {before.lesson}, "
                      f"which would be {after.score:g} ({after.status}) now.")  # fmt: skip


def _agreed_changes(
    out: Path, lessons: Sequence[str], seed: int, grade: Callable[[Path], Tally]
) -> list[ScoreChange] | None:
    """Grade into a temporary folder, show what would change in `out` and why, and ask at a terminal whether to do it.

    Returns:
        The scores that change, if somebody agreed.
    """
    from autograde.batch.grading_log import reasons
    from autograde.classroom.compare import apply, gains_and_losses, preview
    from autograde.errors import BusyError

    changes: list[ScoreChange] = []
    try:
        with preview(out, lessons, lambda folder: changes.extend(grade(folder).changes)) as (new, found):
            show_changes(found)
            why = reasons(out, seed, [change for change in changes if not change.kept])
            for sentence in (*gains_and_losses(found), *why):
                console.print(sentence)
            _show_kept(changes)
            if not is_interactive():
                console.print(f"Nothing was written to {place(out)}: to do that, run it without --diff.")
                return None
            if not (found or changes) or not typer.confirm(f"Write this to {place(out)}?", default=False):
                return None
            apply(new, out)
            return changes
    except (BusyError, ValueError) as error:
        stop(str(error))
