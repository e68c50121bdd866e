"""Grading a batch: every submission of the lessons, one verdict for each exercise, whatever the submission holds."""

from __future__ import annotations

import csv
import hashlib
import os
import tempfile
import unicodedata
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict, Unpack

from autograde import course
from autograde.autograded import autograded
from autograde.crew import Crew, LocalCrew
from autograde.enclosure import exposed, gpu_blocker, trust_blocker
from autograde.examiner import Examiner, Graded
from autograde.feedback import feedback
from autograde.files import digest, holds, write_atomically, writing_atomically
from autograde.gradebook import Writer, gradebook_url
from autograde.journal import Entry, Journal, key, noted
from autograde.preflight import check_folder, check_gradebook, plainly
from autograde.roster import is_formula
from autograde.sandbox import Enclosure, SandboxError, blocker
from autograde.settings import LIMITS, SEED, Limits
from autograde.submission import Submission, read_submission
from autograde.verdict import Verdict
from torchcourse.exercise import LESSONS

__all__ = ["COLUMNS", "Examiner", "Graded", "OverlapError", "grade", "run", "students"]

COLUMNS = ("student", "lesson", "exercise", "score", "max_score", "status", "misconception", "message")

CHANCE = {"crashed", "memory", "timeout"}
"""What a busy machine may have had a part in: such verdicts are kept for who got them, and for nobody else later."""
LONGEST_NAME = 255
"""Bytes of a file's name."""


class OverlapError(ValueError):
    """Submissions and results would lie in one folder."""


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


class How(TypedDict, total=False):
    """Options of `run`, which says what they are."""

    workers: int
    seed: int
    limits: Limits
    regrade: bool
    enclosure: Enclosure
    scheduler: str
    gradebook: str


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
    progress: Callable[[Graded], None] = lambda graded: None,
    **how: Unpack[How],
) -> list[Graded]:
    """Grade as `run` does, and return everything, by student and lesson: for classes that fit into memory."""
    done: list[Graded] = []

    def note(graded: Graded) -> None:
        done.append(graded)
        progress(graded)

    run(lessons, submitted, out, progress=note, **how)
    return sorted(done, key=lambda g: (g.submission.student, lessons.index(g.submission.lesson)))


def run(
    lessons: list[str],
    submitted: Path,
    out: Path,
    *,
    workers: int = 1,
    seed: int = SEED,
    limits: Limits = LIMITS,
    regrade: bool = False,
    enclosure: Enclosure = Enclosure(),  # noqa: B008 - it cannot change
    scheduler: str = "",
    gradebook: str = "",
    progress: Callable[[Graded], None] = lambda graded: None,
) -> None:
    """Grade every submission of `lessons` below `submitted`, and write everything below `out`.

    What an earlier run, also one that was killed, has found out of the same submissions is not found out again, and
    neither is what another submission of the same cells came to. Nothing of a submission stays in memory.

    Args:
        workers: how many submissions are examined at once, each in a sandbox of its own.
        seed: what the hidden cases are drawn from.
        regrade: whether to believe no earlier run.
        enclosure: how submissions are shut in; what it gives up is for the caller to say.
        scheduler: the address of a Dask scheduler, whose workers then do the examining in place of this machine's.
        gradebook: the URL of nbgrader's gradebook, if it is not to be a file in `out`.
        progress: called after each submission, in the order in which they are done.

    Raises:
        SandboxError: when submissions cannot be isolated on this machine and are not trusted, there is no GPU, or
            answers or other submissions would lie where they may be read.
        FileNotFoundError: when `submitted` is no folder.
        OverlapError: when submissions could lie where results are kept.
        RefusedError: when what is found out cannot be kept in `out` or the gradebook.
        ClusterError: when the scheduler's workers cannot do it, or no longer.
        BusyError: when another grader writes to `out`.
    """
    if not scheduler:
        refuse(enclosure)
    if reason := exposed([course.SOLUTIONS, course.AUTOGRADE / "hidden", submitted, out]):
        raise SandboxError(reason)
    called = identities(students(submitted))
    _keep_apart(submitted, out)
    url = gradebook_url(out, gradebook)
    check_folder(out, sum(not noted(out / "journal", name, lesson) for name in called.values() for lesson in lessons))
    check_gradebook(url)
    with (
        plainly(out),
        closing(_crew(scheduler, workers, lessons, seed, limits, enclosure, regrade)) as crew,
        Journal(out / "journal") as journal,
        tempfile.TemporaryDirectory() as scratch,
        Writer(url, lessons, Path(scratch)) as writer,
        closing(_all(_wanted(called, lessons, submitted, seed, limits, enclosure), crew, journal, regrade)) as results,
    ):  # fmt: skip
        for found in results:
            progress(_record(found, out, journal, writer))
        _write_csv(out / "grades.csv", journal, sorted(called.values()), lessons)


def _crew(
    scheduler: str, workers: int, lessons: list[str], seed: int, limits: Limits, enclosure: Enclosure, anew: bool
) -> Crew:
    if scheduler:
        from autograde.cluster import Cluster  # `distributed` takes a second to load, and need not be there

        return Cluster(scheduler, lessons, seed, limits, enclosure)
    examiners = {lesson: Examiner(lesson, seed, enclosure.gpu, anew) for lesson in lessons}
    return LocalCrew(examiners, workers, limits, enclosure)


def _keep_apart(submitted: Path, out: Path) -> None:
    """Results are believed when they are found again, and written over, so no submission may lie where they are kept.

    Raises:
        OverlapError: when one could.
    """
    theirs, ours = submitted.resolve(), out.resolve()
    if ours.is_relative_to(theirs):
        raise OverlapError(f"{out} lies among the submissions in {submitted}: results have to be kept elsewhere.")
    if any(theirs.is_relative_to(ours / name) for name in ("journal", "autograded", "feedback")):
        raise OverlapError(f"{submitted} lies among the results in {out}: these have to be kept elsewhere.")


@dataclass(frozen=True)
class _Wanted:
    """A submission, and the key of all that its verdicts depend on."""

    submission: Submission
    key: str


@dataclass(frozen=True)
class _Found:
    """A graded submission, the key of its journal entry, and that entry where it is from an earlier run."""

    graded: Graded
    key: str
    believed: Entry | None = None



def _wanted(
    called: Mapping[str, str], lessons: list[str], submitted: Path, seed: int, limits: Limits, enclosure: Enclosure
) -> Iterator[_Wanted]:
    """Every submission, read when its turn comes."""
    for folder, student in called.items():
        for lesson in lessons:
            submission = read_submission(submitted / folder / lesson / f"{lesson}.ipynb", student, lesson)
            yield _Wanted(submission, key(submission, seed, limits, enclosure))


def _all(everything: Iterable[_Wanted], crew: Crew, journal: Journal, regrade: bool) -> Generator[_Found]:
    """Every submission graded, as they get done. Those of one key are examined once, whoever submitted them."""
    running: dict[Future[list[Verdict]], str] = {}
    waiting: dict[str, list[Submission]] = {}
    afresh: set[str] = set()  # what is known since this run began, if nothing older is to be believed
    for wanted in everything:
        submission, its_key = wanted.submission, wanted.key
        earlier = None if regrade else journal.read(submission.student, submission.lesson)
        result = None
        if not regrade or its_key in afresh:
            result = journal.result(its_key, submission.student, submission.lesson)
        if earlier and earlier.key == its_key:
            yield _Found(Graded(submission, earlier.verdicts), its_key, earlier)
        elif its_key in waiting:
            waiting[its_key].append(replace(submission, cells=waiting[its_key][0].cells))  # they are held once
        elif result is not None:
            yield _Found(Graded(submission, result), its_key)
        else:
            waiting[its_key] = [submission]
            running[crew.submit(submission)] = its_key
        while len(running) >= 2 * crew.breadth():
            yield from _finished(running, waiting, journal, afresh if regrade else set())
    while running:
        yield from _finished(running, waiting, journal, afresh if regrade else set())


def _finished(
    running: dict[Future[list[Verdict]], str],
    waiting: dict[str, list[Submission]],
    journal: Journal,
    afresh: set[str],
) -> Iterator[_Found]:
    """What is done next, for everyone who waits for it; what it came to is written down first."""
    for future in wait(running, return_when=FIRST_COMPLETED).done:
        its_key = running.pop(future)
        verdicts = future.result()
        if CHANCE.isdisjoint(verdict.status for verdict in verdicts):
            journal.write_result(its_key, verdicts)
            afresh.add(its_key)
        for submission in waiting.pop(its_key):
            yield _Found(Graded(submission, [replace(v, student=submission.student) for v in verdicts]), its_key)


def _record(found: _Found, out: Path, journal: Journal, writer: Writer) -> Graded:
    """Write down what was found of a submission; the verdicts as they are written, without the cells.

    The journal comes first: what is in it is not found out again, and whatever a killed run left undone after it
    differs from what the entry says, and so is done now.
    """
    submission, entry = found.graded.submission, found.believed
    student, lesson = submission.student, submission.lesson
    if entry is None:
        good = _last_good(found.graded, journal, writer)
        entry = Entry(found.key, [_mention(v, submission, good) for v in found.graded.verdicts], good, {})
    places = {
        "autograded": out / "autograded" / student / lesson / f"{lesson}.ipynb",
        "feedback": out / "feedback" / student / f"{lesson}.html",
    }
    remarks = writer.remarks(student, lesson)
    added = {"remarks": digest(repr(remarks))} if remarks else {}  # a comment makes the page anew
    kept = entry.files and added.get("remarks") == entry.files.get("remarks")
    if not (kept and all(holds(path, entry.files[name]) for name, path in places.items())):
        page = feedback(submission, entry.verdicts, remarks)
        made = {"autograded": autograded(submission, entry.verdicts), "feedback": page}
        entry = replace(entry, files={name: digest(text) for name, text in made.items()} | added)
        if entry != found.believed:
            journal.write(student, lesson, entry)
        for name, text in made.items():
            write_atomically(places[name], text)
    writer.write(student, lesson, entry.verdicts)
    return Graded(replace(submission, cells=()), entry.verdicts)


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


def _write_csv(path: Path, journal: Journal, names: list[str], lessons: list[str]) -> None:
    """grades.csv, of what the journal holds: a row for each student and exercise, of `lessons` and of those that were
    graded here before, as in the gradebook beside it; in the course's order, whichever was graded last."""
    with writing_atomically(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for student in names:
            graded = journal.lessons(student).union(lessons)
            for lesson in (name for name in LESSONS if name in graded):
                entry = journal.read(student, lesson)
                writer.writerows(map(row, entry.verdicts if entry else ()))


def row(verdict: Verdict) -> list[str]:
    """The fields of a verdict in grades.csv, under `COLUMNS`."""
    v, score, most = verdict, f"{verdict.score:g}", f"{verdict.max_score:g}"
    return [*map(_as_text, (v.student, v.lesson, v.exercise, score, most, v.status, v.misconception, v.message))]


def _as_text(field: str) -> str:
    """A field that no spreadsheet takes for a formula: an apostrophe says that it is text."""
    return f"'{field}" if is_formula(field) else field
