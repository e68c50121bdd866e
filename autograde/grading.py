"""Grading a batch: every submission of the lessons, one verdict for each exercise, whatever the submission holds."""

from __future__ import annotations

import csv
import io
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from autograde.autograded import autograded
from autograde.enclosure import gpu_blocker, trust_blocker
from autograde.examining import examine
from autograde.feedback import feedback
from autograde.gradebook import Writer
from autograde.oracle import hidden, oracles, visible
from autograde.sandbox import Enclosure, Sandbox, SandboxError, blocker
from autograde.settings import LIMITS, SEED, Limits
from autograde.submission import Submission, read_submission, release
from autograde.verdict import Verdict, decide, without_examination
from torchcourse.exercise import exercises, imports
from torchcourse.lanes import accelerator_lane

__all__ = ["COLUMNS", "Examiner", "Graded", "grade", "students"]

COLUMNS = ("student", "lesson", "exercise", "score", "max_score", "status", "misconception", "message")

ONE_ORACLE = threading.Lock()
"""Oracles, of whatever lesson, run programs in this process and set its defaults while they do: one at a time."""


@dataclass(frozen=True)
class Graded:
    """A submission and its verdicts, one for each exercise of the lesson."""

    submission: Submission
    verdicts: list[Verdict]


class Examiner:
    """What is needed to give verdicts on one lesson: oracles with visible and hidden cases, made once for a batch."""

    def __init__(self, lesson: str, seed: int = SEED, gpu: bool = False) -> None:
        lane = accelerator_lane("" if gpu else "simulated")  # before any backward runs here
        self.lesson, self.accelerator = lesson, lane.name
        self.visible = {name: len(visible(e)) for name, e in exercises(lesson).items()}
        cases = {e.name: [*visible(e), *hidden(lesson, e, seed)] for e in exercises(lesson).values()}
        self.oracles = {o.exercise.name: o for o in oracles(lesson, lambda e: cases[e.name])}

    def grade(self, sandbox: Sandbox, submission: Submission) -> Graded:
        """The verdicts on one submission."""
        early = {name: without_examination(submission, name) for name in release(self.lesson).exercises}
        pending = [self.oracles[name] for name, verdict in early.items() if verdict is None]
        lanes = examine(sandbox, submission, pending, self.accelerator) if pending else {}
        with ONE_ORACLE:
            decided = {
                o.exercise.name: decide(
                    submission, o, self.visible[o.exercise.name],
                    {lane: found[o.exercise.name] for lane, found in lanes.items() if o.exercise.name in found},
                )
                for o in pending
            }  # fmt: skip
        return Graded(submission, [verdict or decided[name] for name, verdict in early.items()])


def refuse(enclosure: Enclosure) -> None:
    """Refuse to grade where submissions would run unconfined without anybody having said so.

    Raises:
        SandboxError: with the reason and the remedy.
    """
    reason = "" if enclosure.trusted else blocker()
    if reason:
        raise SandboxError(
            f"Submissions are not run without isolation. {reason} To run them all the same, as programs that you "
            "trust, add --trust-submissions; docs/isolation.md says what that gives up."
        )
    reason = trust_blocker() if enclosure.trusted else ""
    reason = reason or (gpu_blocker() if enclosure.gpu else "")
    if reason:
        raise SandboxError(reason)


def students(submitted: Path) -> list[str]:
    """The names of the folders in `submitted`, sorted."""
    entries = (entry for entry in submitted.iterdir() if not entry.name.startswith("."))
    return sorted(entry.name for entry in entries if entry.is_dir() or entry.is_symlink())


def grade(
    lessons: list[str],
    submitted: Path,
    out: Path,
    *,
    workers: int = 1,
    seed: int = SEED,
    limits: Limits = LIMITS,
    enclosure: Enclosure = Enclosure(),  # noqa: B008 - it cannot change
    progress: Callable[[Graded], None] = lambda graded: None,
) -> list[Graded]:
    """Grade every submission of `lessons` below `submitted`, and write everything below `out`.

    Args:
        workers: how many submissions are examined at once, each in a sandbox of its own.
        seed: what the hidden cases are drawn from.
        enclosure: how submissions are shut in; what it gives up is for the caller to say.
        progress: called after each submission, in the order in which they are done.

    Raises:
        SandboxError: when submissions cannot be isolated on this machine and are not trusted, or there is no GPU.
        FileNotFoundError: when `submitted` is no folder.
    """
    refuse(enclosure)
    names = students(submitted)
    examiners = {lesson: Examiner(lesson, seed, enclosure.gpu) for lesson in lessons}
    out.mkdir(parents=True, exist_ok=True)
    done: list[Graded] = []
    with tempfile.TemporaryDirectory() as scratch, Writer(out / "gradebook.db", lessons, Path(scratch)) as writer:
        for graded in _all(examiners, names, submitted, workers, limits, enclosure):
            _write(graded, out, writer)
            done.append(graded)
            progress(graded)
    done.sort(key=lambda g: (g.submission.student, lessons.index(g.submission.lesson)))
    write_atomically(out / "grades.csv", as_csv(done))
    return done


def _all(
    examiners: dict[str, Examiner],
    names: list[str],
    submitted: Path,
    workers: int,
    limits: Limits,
    enclosure: Enclosure,
) -> Iterator[Graded]:
    """Every submission graded, as they get done."""
    idle: SimpleQueue[Sandbox] = SimpleQueue()
    modules = sorted({module for lesson in examiners for module in imports(lesson)})
    sandboxes = [Sandbox(limits, number, modules, enclosure) for number in range(workers)]
    for sandbox in sandboxes:
        idle.put(sandbox)

    def one(folder: str, lesson: str) -> Graded:
        student = folder.encode("utf-8", "backslashreplace").decode()  # a folder's name may be no text at all
        submission = read_submission(submitted / folder / lesson / f"{lesson}.ipynb", student, lesson)
        sandbox = idle.get()
        try:
            return examiners[lesson].grade(sandbox, submission)
        finally:
            idle.put(sandbox)

    try:
        with ThreadPoolExecutor(workers) as pool:
            running: set[Future[Graded]] = set()
            for student in names:
                for lesson in examiners:
                    running.add(pool.submit(one, student, lesson))
                    if len(running) >= 2 * workers:
                        finished, running = wait(running, return_when=FIRST_COMPLETED)
                        yield from (future.result() for future in finished)
            while running:
                finished, running = wait(running, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in finished)
    finally:
        for sandbox in sandboxes:
            sandbox.close()


def _write(graded: Graded, out: Path, writer: Writer) -> None:
    submission = graded.submission
    student, lesson = submission.student, submission.lesson
    write_atomically(out / "autograded" / student / lesson / f"{lesson}.ipynb", autograded(submission, graded.verdicts))
    write_atomically(out / "feedback" / student / f"{lesson}.html", feedback(submission, graded.verdicts))
    writer.write(student, lesson, graded.verdicts)


def as_csv(done: list[Graded]) -> str:
    """grades.csv as text: a row for each student and exercise."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for graded in done:
        for v in graded.verdicts:
            score, most = f"{v.score:g}", f"{v.max_score:g}"
            writer.writerow([v.student, v.lesson, v.exercise, score, most, v.status, v.misconception, v.message])
    return text.getvalue()


def write_atomically(path: Path, text: str) -> None:
    """Write a file so that it is whole or as it was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=path.suffix)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
