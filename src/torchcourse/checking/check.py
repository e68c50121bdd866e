"""`check` and `hint`: the functions that learners call in a notebook."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

from torchcourse.checking import hints
from torchcourse.checking.failed_case import latest_status, remember
from torchcourse.checking.probe import observe
from torchcourse.checking.report import TITLES, Report, judge
from torchcourse.checking.result import Result, compare
from torchcourse.checking.run_record import RunRecord, own_lines
from torchcourse.checking.starvation import Stopwatch
from torchcourse.model import stored_observations
from torchcourse.model.catalogue import UnknownExerciseError, find, name_of, preload
from torchcourse.model.devices import checked_devices
from torchcourse.model.exercise import Exercise, Unattempted
from torchcourse.model.observations import Raised
from torchcourse.workspace.progress import record_check

if TYPE_CHECKING:
    from torchcourse.checking.card import Shown

__all__ = ["TimeIsUpError", "check", "hint", "report_on"]


class TimeIsUpError(BaseException):
    """Raised inside a check that takes too long. A learner's `except Exception` does not catch it."""


def check(answer: str | Callable[..., Any] | None = None) -> None:
    """Check an answer and show the outcome; without an answer, list the lesson's exercises and where each stands.

    Never raises, except under nbgrader's Validate: that expects an AssertionError if the answer is not right.

    Args:
        answer: the name of an exercise, or the function or class itself.
    """
    from torchcourse.checking.card import show

    caller = sys._getframe(1).f_globals
    if answer is None:
        _list_exercises(caller)
        return
    shown = _checked(answer, caller)
    if "NBGRADER_EXECUTION" in os.environ:
        if not shown.report.passed:
            raise AssertionError(f"{shown.report.exercise}: {shown.report.status}. {shown.report.message}")
        return
    show(shown, again=partial(_checked, shown.report.exercise, caller))


def _checked(answer: str | Callable[..., Any], namespace: dict[str, Any]) -> Shown:
    """Check an answer, record the outcome, and return what to show."""
    record = RunRecord()
    try:
        report = report_on(answer, namespace, record)
    except UnknownExerciseError as error:
        report = Report(str(answer), "unknown", str(error.args[0]))
    function = namespace.get(answer) if isinstance(answer, str) else answer
    shown = _as_saved(report, function, record)
    remember(shown.report, function)
    record_check(report.exercise, shown.report.status)
    return shown


def _as_saved(report: Report, answer: object, record: RunRecord) -> Shown:
    """Return what to show of a report: "right" only if the saved notebook has no other text for the answer."""
    from torchcourse.checking.card import Shown
    from torchcourse.checking.card_details import card_details

    stale = report.passed and _is_stale(answer, report.exercise)
    said = replace(report, status="stale") if stale else report
    return Shown(said, card_details(said, answer, record), reread=partial(_as_saved, report, answer, record))


def _is_stale(answer: object, exercise: str) -> bool:
    """Return whether the cell on the screen is known to differ from the answer that was checked. Never raises."""
    from torchcourse.checking.answer_cell import changed_since

    try:
        return changed_since(answer, exercise) != ""
    except Exception:  # an answer can be any object, and inspecting one can raise anything
        return False


def _list_exercises(namespace: dict[str, Any]) -> None:
    """Show the exercises of this notebook's lesson, or of the one whose exercises it defines, with their states."""
    from torchcourse.checking.card import say
    from torchcourse.model.lessons import lessons
    from torchcourse.workspace import progress, session
    from torchcourse.workspace.standing import recorded

    file = session.notebook_file()
    named = [lesson for lesson in lessons() if file is not None and lesson.name == file.stem]
    defining = [lesson for lesson in lessons() if any(name in namespace for name in lesson.exercises)]
    if not named and not defining:
        say('Name an exercise, such as `check("row_softmax")`.')
        return
    lesson, states = (named or defining)[0], recorded() or {}
    lines = [f"`{name}`: {_state(name, states.get(name, progress.OPEN))}" for name in lesson.exercises]
    say("\n".join([f"{lesson.title}:", *lines]))


def _state(exercise: str, state: str) -> str:
    """Return where an exercise stands, in words: one that has passed may have been changed since."""
    latest = latest_status(exercise)
    fell_back = state == "passed" and latest not in ("", "passed", "stale")
    return f"{state}, but the latest check says: {TITLES[latest].lower()}" if fell_back else state


def report_on(answer: str | Callable[..., Any], namespace: dict[str, Any], record: RunRecord | None = None) -> Report:
    """Return the report that `check` shows.

    Args:
        answer: the name of an exercise, or the function or class itself.
        namespace: where a name is looked up; if it is not defined there, the exercise is "unattempted".
        record: gets what the answer prints, and where it raises.

    Raises:
        UnknownExerciseError: if no exercise has this name.
    """
    name = name_of(answer)
    lesson, exercise = find(name)
    function = namespace.get(name) if isinstance(answer, str) else answer
    if function is None:
        return Report(name, "unattempted", f"`{name}` is not defined yet: run its cell first.")
    if not callable(function):
        kind = type(function).__name__
        return Report(name, "error", f"`{name}` is bound to {kind}: it should be a function or a class.")
    return _run(lesson, exercise, function, record or RunRecord())


def _run(lesson: str, exercise: Exercise, function: Callable[..., Any], record: RunRecord) -> Report:
    stored = stored_observations.load(lesson)[exercise.name]
    results: list[Result] = []
    preload(exercise.imports)
    since = Stopwatch()
    try:
        with time_limit(exercise.seconds):
            for device in checked_devices(exercise.any_device):
                if device.name == "cuda" and any(map(_index_out_of_range, results)):
                    break
                for number, case in enumerate(stored.cases):
                    wanted = stored.wanted.seen(device.name, number)
                    assert wanted is not None, "the build stores the wanted observations of every case"
                    caught = partial(record.keep_lines, number, device.name)
                    with record.case(number, device.name):
                        raw = observe(exercise, function, case, device, caught=caught)
                    results.append(compare(exercise, case, number, device.name, raw, wanted))
    except Unattempted as stub:
        return Report(exercise.name, "unattempted", str(stub))
    except TimeIsUpError as stop:
        where = f" It was in {own[-1]}." if (own := own_lines(stop)) else ""
        message = (
            f"The check was stopped after {since.elapsed:.1f} seconds, with {len(results)} cases done: look for an "
            f"endless loop, or for something that waits.{where}"
        )
        return Report(exercise.name, "timeout", message, results=results)
    except KeyboardInterrupt:
        return Report(exercise.name, "interrupted", "The check was interrupted; nothing is lost. Run it again.")
    return judge(exercise, results, stored.known_mistakes())


def _index_out_of_range(result: Result) -> bool:
    """Return whether an index was out of range: on CUDA that would break the GPU context of this process."""
    error = result.seen.get("raised")
    return isinstance(error, Raised) and (error.kind == "IndexError" or "out of bounds" in error.message)


REPEAT_SECONDS = 0.2
"""Seconds between interruptions of a check that has to stop: a bare `except:` may have caught the first."""
WALL_CLOCK_FACTOR = 3
"""How many times its limit a check may last in wall-clock time on a busy machine."""


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `TimeIsUpError` in this block after `seconds`, repeatedly until the block ends; repeat an interrupt too.

    If the process got less CPU time than `seconds` because the machine is busy, the block may last up to
    `WALL_CLOCK_FACTOR` times as long; one that sleeps is stopped at the limit. There is no limit on platforms without
    alarms or outside the main thread.
    """
    if not hasattr(signal, "SIGALRM") or threading.current_thread() is not threading.main_thread():
        yield
        return
    reason: type[BaseException] = TimeIsUpError
    since = Stopwatch()

    def ring(number: int, frame: FrameType | None) -> None:
        short_of_cpu = since.worked < 0.9 * seconds and since.elapsed < WALL_CLOCK_FACTOR * seconds
        if reason is TimeIsUpError and short_of_cpu and not since.slept():
            return
        raise reason

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal reason
        reason = KeyboardInterrupt
        signal.setitimer(signal.ITIMER_REAL, REPEAT_SECONDS, REPEAT_SECONDS)
        raise reason

    before = signal.signal(signal.SIGALRM, ring)
    interrupted = signal.getsignal(signal.SIGINT)
    if interrupted is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds, REPEAT_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.signal(signal.SIGINT, interrupted)


def hint(exercise: str | Callable[..., Any] | None = None) -> None:
    """Show the next hint of an exercise below the earlier ones; there are three, and then its answer.

    Args:
        exercise: its name, or the function or class itself.
    """
    from torchcourse.checking.card import say
    from torchcourse.checking.references import reference

    if exercise is None:
        say('Name an exercise, such as `hint("row_softmax")`.')
        return
    try:
        lesson, found = find(name_of(exercise))
    except UnknownExerciseError as error:
        say(str(error.args[0]))
        return
    count, answer = len(found.hints), reference(lesson, found.name)
    shown = hints.next_hint(found, has_reference=answer is not None)
    text = "\n".join(f"Hint {i} of {count}. {text}" for i, text in enumerate(shown, 1))
    say(text, answer.source if answer and hints.asked_for_reference(found) else "")
