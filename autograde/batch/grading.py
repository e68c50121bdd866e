"""Grade a batch: every submission of the lessons gets one verdict for each exercise, whatever it contains.

From file to grade: a submission is read, its key is looked up in the journal, a worker pool grades it if it is not
there, and a recorder writes the results.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TypedDict, Unpack

from autograde.batch.journal import Journal, is_recorded
from autograde.batch.preflight import check_folder, check_gradebook, explain_write_errors
from autograde.batch.recording import Recorded, Recorder, Result
from autograde.batch.student_names import printable_name, student_names, students
from autograde.batch.worker_pool import LocalPool, WorkerPool
from autograde.errors import RefusedError
from autograde.judge.exposed import exposed_answers_problem
from autograde.judge.fingerprint import submission_key
from autograde.judge.lesson_grader import Graded, LessonGrader
from autograde.judge.submission import Submission, read_submission
from autograde.judge.verdict import Verdict
from autograde.results.gradebook import Writer
from autograde.results.gradebook_url import gradebook_url
from autograde.sandbox.configuration import Isolation
from autograde.sandbox.requirements import isolation_problem, switch_to_gpu, trusted_run_problem
from autograde.sandbox.sandbox import SandboxError
from autograde.settings import LIMITS, SEED, Limits
from autograde.source.release import load_release
from torchcourse.model.catalogue import LESSONS

__all__ = [
    "Graded",
    "LessonGrader",
    "Options",
    "OverlapError",
    "grade",
    "grade_class",
    "misplaced",
    "renew_pages",
    "withdrawn",
]

LOAD_DEPENDENT = {"crashed", "memory", "timeout"}
"""Statuses that a busy machine may have caused: such verdicts are not reused for equal submissions of others."""
MAX_PATH_LENGTH = 1000
"""Maximal length of a path that is printed whole."""


class OverlapError(ValueError):
    """Submissions would be among the results, or results among the submissions."""


class Options(TypedDict, total=False):
    """Options of grading.

    Attributes:
        workers: the number of submissions that run at once, each in its own sandbox.
        seed: the seed of the hidden cases.
        limits: what one submission may use.
        regrade: whether to grade again what earlier runs have graded.
        isolation: how submissions are isolated; the caller shows its warnings.
        scheduler: the address of a Dask scheduler whose workers grade instead of this machine's.
        gradebook: the URL of nbgrader's gradebook; by default a file in `out`.
        keep: student and lesson of submissions whose earlier verdicts stay, whatever is in `submitted` now.
        never_lower: whether a submission that is graded again keeps each score that would be lower.
        best: whether a student's earlier submission counts where a new one has fewer points.
    """

    workers: int
    seed: int
    limits: Limits
    regrade: bool
    isolation: Isolation
    scheduler: str
    gradebook: str
    keep: Collection[tuple[str, str]]
    never_lower: bool
    best: bool


def grade(
    lessons: list[str],
    submitted: Path,
    out: Path,
    *,
    progress: Callable[[Graded], None] = lambda graded: None,
    **options: Unpack[Options],
) -> list[Graded]:
    """Grade as `grade_class` does, and return all results by student and lesson: for classes that fit into memory."""
    done: list[Graded] = []

    def add(graded: Graded) -> None:
        done.append(graded)
        progress(graded)

    grade_class(lessons, submitted, out, progress=add, **options)
    return sorted(done, key=lambda g: (g.submission.student, lessons.index(g.submission.lesson)))


def grade_class(
    lessons: list[str],
    submitted: Path,
    out: Path,
    *,
    workers: int = 1, seed: int = SEED, limits: Limits = LIMITS, regrade: bool = False,
    isolation: Isolation = Isolation(),  # noqa: B008 - it is immutable
    scheduler: str = "",
    gradebook: str = "",
    keep: Collection[tuple[str, str]] = (),
    never_lower: bool = False,
    best: bool = False,
    progress: Callable[[Recorded], None] = lambda graded: None,
    part_done: Callable[[Submission, float], None] = lambda submission, share: None,
) -> None:  # fmt: skip
    """Grade every submission of `lessons` below `submitted`, and write everything below `out`.

    A submission is not graded again if an earlier run, even one that was killed, has graded it or another one with the
    same cells. Submissions do not stay in memory.

    Args:
        progress: called after each submission, in the order in which they finish; the others are as `Options` says.
        part_done: called meanwhile by the local pool's threads, with the share of a submission that was just run.

    Raises:
        SandboxError: when submissions cannot be isolated on this machine and are not trusted, there is no GPU, or
            submissions could read answers or other submissions.
        FileNotFoundError, OverlapError: when `submitted` is not a folder; when it lies among results, or they in it.
        RefusedError: when nobody has submitted, or results cannot be written to `out` or the gradebook.
        ClusterError, BusyError: when the scheduler's workers cannot grade; when another grader writes to `out`.
    """
    names, url = student_names(students(submitted)), gradebook_url(out, gradebook)
    _check(submitted, out, names.values(), lessons, None if scheduler else isolation)
    check_gradebook(url)
    submitted, out = submitted.absolute(), out.absolute()  # references change this process's working folder
    with (
        explain_write_errors(out),
        closing(_worker_pool(scheduler, workers, lessons, seed, limits, isolation, not regrade, part_done)) as pool,
        Journal(out / "journal") as journal,
        tempfile.TemporaryDirectory() as scratch,
        Writer(url, lessons, Path(scratch)) as writer,
    ):
        recorder = Recorder(out, journal, writer, never_lower, best)
        read = _read_all(names, lessons, submitted, keep, journal)
        keyed = ((s, submission_key(s, seed, limits, isolation)) for s in read)
        with closing(_grade_all(keyed, pool, journal, regrade)) as results:
            for graded in map(recorder.record, results):
                progress(graded)
        recorder.write_csv()


def renew_pages(submitted: Path, out: Path, which: Collection[tuple[str, str]], gradebook: str = "") -> None:
    """Write the pages of graded submissions again, by student and lesson, with what the gradebook has on them now.

    Raises:
        RefusedError, BusyError: as `grade_class` does.
    """
    lessons = sorted({lesson for _, lesson in which})
    with (
        explain_write_errors(out),
        Journal(out / "journal") as journal,
        tempfile.TemporaryDirectory() as scratch,
        Writer(gradebook_url(out, gradebook), lessons, Path(scratch)) as writer,
    ):
        recorder, names = Recorder(out, journal, writer), student_names(students(submitted))
        others = {(name, lesson) for name in names.values() for lesson in lessons}.difference(which)
        for submission in _read_all(names, lessons, submitted, others, journal):
            if entry := journal.read(submission.student, submission.lesson):
                recorder.record(Result(Graded(submission, entry.verdicts), entry.key, entry))


def _check_submitted(submitted: Path, lessons: Sequence[str]) -> None:
    """Check that somebody has submitted each of the lessons, and that no folder of a lesson lies where one of a student
    should.

    Raises:
        RefusedError: when this is not so; it names a notebook that lies in another place.
    """
    if astray := [name for name in students(submitted) if name in LESSONS]:
        raise RefusedError(f"{submitted / astray[0]} is named for a lesson, and lies where a student's folder should: "
                           f"the place is {submitted}/STUDENT/{astray[0]}/{astray[0]}.ipynb.")  # fmt: skip
    lacking = [lesson for lesson in lessons if not any(submitted.glob(f"*/{lesson}/{lesson}.ipynb"))]
    if not lacking:
        return
    names = ", ".join(lacking)
    if len(lacking) < len(lessons):
        raise RefusedError(f"Nobody has handed in {names}: {submitted} has no STUDENT/LESSON/LESSON.ipynb of it.")
    wanted = f"{submitted} has no STUDENT/LESSON/LESSON.ipynb for {names}"
    other = next((path for pattern in ("*.ipynb", "*/*.ipynb", "*/*/*.ipynb", "*/*/*/*.ipynb", "*/*/*/*/*.ipynb")
                  for path in sorted(submitted.glob(pattern))), None)  # fmt: skip
    raise RefusedError(
        f"{wanted}, but {_shown(other)}: choose the lesson, or the folder, that fits." if other else f"{wanted}."
    )


def misplaced(submitted: Path, lessons: Sequence[str]) -> list[str]:
    """Return a sentence for each student whose notebook of a lesson is not at the path where it counts."""
    sentences = []
    for folder, student in student_names(students(submitted)).items():
        for lesson in lessons:
            place = submitted / folder / lesson / f"{lesson}.ipynb"
            if os.path.lexists(place):
                continue
            near = [*sorted((submitted / folder).glob(f"{lesson}*.ipynb")), *sorted(place.parent.glob("**/*.ipynb"))]
            if near:
                found, wanted = _shown(near[0]), _shown(place)
                sentences.append(f"{student}: {found} does not count as {lesson}: it has to be {wanted}.")
    return sentences


def _shown(path: Path) -> str:
    """Return a path, of which learners chose a part, safe to print on a terminal."""
    return printable_name(str(path), MAX_PATH_LENGTH)


def withdrawn(submitted: Path, out: Path, lessons: Sequence[str]) -> dict[tuple[str, str], float]:
    """Return the points of submissions that were graded into `out` and are missing from their students' folders now.

    Returns:
        The points, which grading again would turn into 0, by student and lesson.
    """
    journal, found = Journal(out / "journal"), dict[tuple[str, str], float]()
    for folder, student in student_names(students(submitted)).items():
        for lesson in lessons:
            gone = not os.path.lexists(submitted / folder / lesson / f"{lesson}.ipynb")
            entry = journal.read(student, lesson) if gone else None
            if entry and (points := sum(verdict.score for verdict in entry.verdicts)):
                found[student, lesson] = points
    return found


def require_isolation(isolation: Isolation) -> None:
    """Refuse to grade if submissions cannot be isolated and are not trusted, or the requested GPU is missing.

    Raises:
        SandboxError: with the reason and the remedy.
    """
    reason = "" if isolation.trusted else isolation_problem()
    if reason:
        raise SandboxError(
            f"Submissions are not run without isolation. {reason} To run them anyway, as code that you trust, "
            "add --trust-submissions; docs/isolation.md says what that gives up."
        )
    reason = trusted_run_problem() if isolation.trusted else ""
    reason = reason or (switch_to_gpu() if isolation.gpu else "")
    if reason:
        raise SandboxError(reason)


def _check(submitted: Path, out: Path, names: Collection[str], lessons: list[str], isolation: Isolation | None) -> None:
    """Check that submissions exist, can be isolated if this machine runs them, cannot read answers, results or each
    other, and that results can be written.

    Raises:
        SandboxError, OverlapError, RefusedError: when one of these is not so.
    """
    if isolation:
        require_isolation(isolation)
    if reason := exposed_answers_problem(submitted, out):
        raise SandboxError(reason)
    _require_disjoint(submitted, out)
    _check_submitted(submitted, lessons)
    recorded = (is_recorded(out / "journal", name, lesson) for name in names for lesson in lessons)
    check_folder(out, sum(not already for already in recorded))


def _require_disjoint(submitted: Path, out: Path) -> None:
    """Refuse folders that overlap: earlier results are trusted, and overwritten.

    Raises:
        OverlapError: when they do.
    """
    submitted_to, results_in = submitted.resolve(), out.resolve()
    if results_in.is_relative_to(submitted_to):
        raise OverlapError(f"{out} lies among the submissions in {submitted}: results have to be kept elsewhere.")
    if any(submitted_to.is_relative_to(results_in / name) for name in ("journal", "autograded", "feedback")):
        raise OverlapError(f"{submitted} lies among the results in {out}: these have to be kept elsewhere.")


def _worker_pool(
    scheduler: str, workers: int, lessons: list[str], seed: int, limits: Limits, isolation: Isolation, use_cache: bool,
    part_done: Callable[[Submission, float], None],
) -> WorkerPool:  # fmt: skip
    if scheduler:
        from autograde.batch.cluster import Cluster  # `distributed` takes a second to load, and need not be there

        return Cluster(scheduler, lessons, seed, limits, isolation)
    graders = {lesson: LessonGrader(lesson, seed, isolation.gpu, use_cache) for lesson in lessons}
    return LocalPool(graders, workers, limits, isolation, part_done)


def _read_all(
    names: Mapping[str, str], lessons: list[str], submitted: Path, keep: Collection[tuple[str, str]], journal: Journal
) -> Iterator[Submission]:
    """Yield every submission that is not in `keep`; each is read only when it is asked for.

    The releases are stored, so that submissions made from them are recognised after a lesson has changed.
    """
    for lesson in lessons:
        journal.keep_release(load_release(lesson))
    earlier = {lesson: journal.earlier(lesson) for lesson in lessons}
    for folder, student in names.items():
        for lesson in (name for name in earlier if (student, name) not in keep):
            path = submitted / folder / lesson / f"{lesson}.ipynb"
            yield read_submission(path, student, lesson, earlier[lesson])


def _grade_all(
    keyed: Iterable[tuple[Submission, str]], pool: WorkerPool, journal: Journal, regrade: bool
) -> Generator[Result]:
    """Yield the result of every submission, as they finish. Submissions with the same key are run once."""
    running: dict[Future[list[Verdict]], str] = {}
    waiting: dict[str, list[Submission]] = {}
    graded_now: set[str] = set()  # the keys that this run has graded
    for submission, key in keyed:
        earlier = None if regrade else journal.read(submission.student, submission.lesson)
        same = journal.result(key, submission) if not regrade or key in graded_now else None
        if earlier and earlier.key == key and not any(v.grader_failed for v in earlier.verdicts):
            yield Result(Graded(submission, earlier.verdicts), key, earlier)
        elif key in waiting:
            waiting[key].append(replace(submission, cells=waiting[key][0].cells))  # share the cells in memory
        elif same is not None:
            yield Result(Graded(submission, same), key)
        else:
            waiting[key] = [submission]
            running[pool.submit(submission)] = key
        while len(running) >= 2 * pool.capacity():
            yield from _next_done(running, waiting, journal, graded_now)
    while running:
        yield from _next_done(running, waiting, journal, graded_now)


def _next_done(
    running: dict[Future[list[Verdict]], str],
    waiting: dict[str, list[Submission]],
    journal: Journal,
    graded_now: set[str],
) -> Iterator[Result]:
    """Yield the results that are done next, one for each submission with that key, after writing to the journal."""
    for future in wait(running, return_when=FIRST_COMPLETED).done:
        key = running.pop(future)
        verdicts = future.result()
        if LOAD_DEPENDENT.isdisjoint(verdict.status for verdict in verdicts):
            journal.write_result(key, verdicts)
            graded_now.add(key)
        for submission in waiting.pop(key):
            yield Result(Graded(submission, [replace(v, student=submission.student) for v in verdicts]), key)
