"""Grading a batch: every submission of the lessons, one verdict for each exercise, whatever the submission holds."""

from __future__ import annotations

import csv
import hashlib
import io
import os
import tempfile
import threading
import unicodedata
from collections.abc import Callable, Generator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from queue import SimpleQueue

from autograde import course
from autograde.autograded import autograded
from autograde.enclosure import exposed, gpu_blocker, trust_blocker
from autograde.examining import Examined, examine
from autograde.feedback import feedback
from autograde.files import digest, holds, write_atomically
from autograde.gradebook import Writer
from autograde.journal import Entry, Journal, fingerprint, key
from autograde.oracle import Oracle, hidden, oracles, visible
from autograde.sandbox import Enclosure, Sandbox, SandboxError, blocker
from autograde.settings import LIMITS, SEED, Limits
from autograde.submission import Submission, read_submission, release
from autograde.verdict import Verdict, decide, unjudged, without_examination
from torchcourse.exercise import exercises, imports
from torchcourse.lanes import accelerator_lane

__all__ = ["COLUMNS", "Examiner", "Graded", "OverlapError", "examiner", "grade", "students"]

COLUMNS = ("student", "lesson", "exercise", "score", "max_score", "status", "misconception", "message")

LONGEST_NAME = 255
"""Bytes of a file's name."""

ONE_ORACLE = threading.Lock()
"""Oracles, of whatever lesson, run programs in this process and set its defaults while they do: one at a time."""


class OverlapError(ValueError):
    """Submissions and results would lie in one folder."""


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
        lanes = examine(sandbox, submission, pending, self.accelerator, self.visible) if pending else {}
        decided = {o.exercise.name: self._decide(submission, o, lanes) for o in pending}
        return Graded(submission, [verdict or decided[name] for name, verdict in early.items()])

    def _decide(self, submission: Submission, oracle: Oracle, lanes: dict[str, dict[str, Examined]]) -> Verdict:
        name = oracle.exercise.name
        seen = {lane: found[name] for lane, found in lanes.items() if name in found}
        try:
            with ONE_ORACLE:
                return decide(submission, oracle, self.visible[name], seen)
        except Exception as error:  # observations can be made to be anything, and must not stop a batch
            return unjudged(submission, name, error)


@cache
def examiner(lesson: str, seed: int = SEED) -> Examiner:
    """One for all that this process grades: what references and mistakes do is then found out once."""
    return Examiner(lesson, seed)


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


def identities(folders: list[str]) -> dict[str, str]:
    """What the student of each folder is called in everything that is written: the folder's name.

    A name that is no text, or acts on a terminal, is spelt out with backslashes; where that is too long for a folder,
    or is another's name already, a hash of the name takes the place of its end.
    """
    found: dict[str, str] = {}
    for folder in sorted(folders, key=lambda name: (_spelt(name) != name, name)):  # plain names keep what they are
        name = _spelt(folder)
        if len(name.encode()) > LONGEST_NAME or name in found.values():
            mark = hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]
            name = f"{name.encode()[: LONGEST_NAME - 20].decode(errors='ignore')}…{mark}"
        found[folder] = name
    return found


def _spelt(name: str) -> str:
    """A name with these spelt out: surrogates, which stand for bytes that are no text, control characters, ends of
    lines, and what turns the direction of writing. Joiners stay: some scripts need them."""
    return "".join(c.encode("unicode_escape").decode() if _acts(c) else c for c in name)


def _acts(character: str) -> bool:
    turns = unicodedata.bidirectional(character) in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
    return turns or unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")


def grade(
    lessons: list[str],
    submitted: Path,
    out: Path,
    *,
    workers: int = 1,
    seed: int = SEED,
    limits: Limits = LIMITS,
    regrade: bool = False,
    enclosure: Enclosure = Enclosure(),  # noqa: B008 - it cannot change
    progress: Callable[[Graded], None] = lambda graded: None,
) -> list[Graded]:
    """Grade every submission of `lessons` below `submitted`, and write everything below `out`.

    What an earlier run, also one that was killed, has found out of the same submissions is not found out again.

    Args:
        workers: how many submissions are examined at once, each in a sandbox of its own.
        seed: what the hidden cases are drawn from.
        regrade: whether to believe no earlier run.
        enclosure: how submissions are shut in; what it gives up is for the caller to say.
        progress: called after each submission, in the order in which they are done.

    Raises:
        SandboxError: when submissions cannot be isolated on this machine and are not trusted, there is no GPU, or
            answers or other submissions would lie where they may be read.
        FileNotFoundError: when `submitted` is no folder.
        OverlapError: when submissions could lie where results are kept.
        BusyError: when another grader writes to `out`.
    """
    refuse(enclosure)
    if reason := exposed([course.SOLUTIONS, course.AUTOGRADE / "hidden", submitted, out]):
        raise SandboxError(reason)
    names = students(submitted)
    _keep_apart(submitted, out)
    examiners = {lesson: Examiner(lesson, seed, enclosure.gpu) for lesson in lessons}
    done: list[Graded] = []
    with (
        Journal(out / "journal") as journal,
        tempfile.TemporaryDirectory() as scratch,
        Writer(out / "gradebook.db", lessons, Path(scratch)) as writer,
        closing(_all(examiners, names, submitted, workers, seed, limits, enclosure, journal, regrade)) as results,
    ):
        for found in results:
            done.append(_record(found, out, journal, writer))
            progress(done[-1])
        done.sort(key=lambda g: (g.submission.student, lessons.index(g.submission.lesson)))
        write_atomically(out / "grades.csv", as_csv(done))
    return done


def _keep_apart(submitted: Path, out: Path) -> None:
    """Results are believed when they are found again, so no submission may lie where they are kept.

    Raises:
        OverlapError: when one could.
    """
    theirs, ours = submitted.resolve(), out.resolve()
    if ours.is_relative_to(theirs) or theirs.is_relative_to(ours / "journal"):
        raise OverlapError(f"{out} lies among the submissions in {submitted}: results have to be kept elsewhere.")


@dataclass(frozen=True)
class _Found:
    """A graded submission, the key of its journal entry, and that entry where it is from an earlier run."""

    graded: Graded
    key: str
    believed: Entry | None = None


def _all(
    examiners: dict[str, Examiner], names: list[str], submitted: Path, workers: int, seed: int, limits: Limits,
    enclosure: Enclosure, journal: Journal, regrade: bool,
) -> Generator[_Found]:  # fmt: skip
    """Every submission graded, as they get done."""
    for lesson in examiners:
        fingerprint(lesson)  # here, once, and not in every thread
    called = identities(names)
    idle: SimpleQueue[Sandbox] = SimpleQueue()
    modules = sorted({module for lesson in examiners for module in imports(lesson)})
    sandboxes = [Sandbox(limits, number, modules, enclosure) for number in range(workers)]
    for sandbox in sandboxes:
        idle.put(sandbox)

    def one(folder: str, lesson: str) -> _Found:
        student = called[folder]
        submission = read_submission(submitted / folder / lesson / f"{lesson}.ipynb", student, lesson)
        wanted = key(submission, seed, limits, enclosure)
        earlier = None if regrade else journal.read(student, lesson)
        if earlier and earlier.key == wanted:
            return _Found(Graded(submission, earlier.verdicts), wanted, earlier)
        sandbox = idle.get()
        try:
            return _Found(examiners[lesson].grade(sandbox, submission), wanted)
        finally:
            idle.put(sandbox)

    pool = ThreadPoolExecutor(workers)
    try:
        running: set[Future[_Found]] = set()
        for student in names:
            for lesson in examiners:
                running.add(pool.submit(one, student, lesson))
                if len(running) >= 2 * workers:
                    finished, running = wait(running, return_when=FIRST_COMPLETED)
                    yield from (future.result() for future in finished)
        while running:
            finished, running = wait(running, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in finished)
    finally:  # after an interrupt what is under way is given up: nothing of it is recorded
        for sandbox in sandboxes:
            sandbox.end()
        pool.shutdown(cancel_futures=True)
        for sandbox in sandboxes:
            sandbox.close()


def _record(found: _Found, out: Path, journal: Journal, writer: Writer) -> Graded:
    """Write down what was found of a submission.

    The journal comes first: what is in it is not found out again, and whatever a killed run left undone after it
    differs from what the entry says, and so is done now.
    """
    submission, entry = found.graded.submission, found.believed
    student, lesson = submission.student, submission.lesson
    if entry is None:
        good = _last_good(found.graded, journal, writer)
        entry = Entry(found.key, [_mention(v, submission, good) for v in found.graded.verdicts], good, {})
    graded = Graded(submission, entry.verdicts)
    places = {
        "autograded": out / "autograded" / student / lesson / f"{lesson}.ipynb",
        "feedback": out / "feedback" / student / f"{lesson}.html",
    }
    if not (entry.files and all(holds(path, entry.files[name]) for name, path in places.items())):
        made = {"autograded": autograded(submission, entry.verdicts), "feedback": feedback(submission, entry.verdicts)}
        entry = replace(entry, files={name: digest(text) for name, text in made.items()})
        if entry != found.believed:
            journal.write(student, lesson, entry)
        for name, text in made.items():
            write_atomically(places[name], text)
    writer.write(student, lesson, entry.verdicts)
    return graded


def _last_good(graded: Graded, journal: Journal, writer: Writer) -> dict[str, float]:
    """The scores of the last submission that could be read, of this one if it could."""
    student, lesson = graded.submission.student, graded.submission.lesson
    if not graded.submission.problem:
        return {v.exercise: v.score for v in graded.verdicts}
    before = journal.read(student, lesson)
    return before.good if before else writer.scores(student, lesson)


def _mention(verdict: Verdict, submission: Submission, good: dict[str, float]) -> Verdict:
    """The verdict on a broken submission, with the score of the last one that was not."""
    if not submission.problem or not any(good.values()):
        return verdict
    score = f"{good.get(verdict.exercise, 0.0):g} of {verdict.max_score:g}"
    return replace(verdict, message=f"{verdict.message} An earlier submission that could be read scored {score} here.")


def as_csv(done: list[Graded]) -> str:
    """grades.csv as text: a row for each student and exercise."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for graded in done:
        for v in graded.verdicts:
            score, most = f"{v.score:g}", f"{v.max_score:g}"
            row = [v.student, v.lesson, v.exercise, score, most, v.status, v.misconception, v.message]
            writer.writerow(map(_as_text, row))
    return text.getvalue()


def _as_text(field: str) -> str:
    """A field that no spreadsheet takes for a formula: an apostrophe says that it is text."""
    return f"'{field}" if field.startswith(("=", "+", "-", "@")) else field
