"""`check` and `hint`: what a learner calls in the notebook."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from torchcourse import hints, stored
from torchcourse.exercise import Exercise, Unattempted, UnknownExerciseError, find, preload
from torchcourse.explaining import Result, compare
from torchcourse.lanes import lanes
from torchcourse.observations import Raised
from torchcourse.probing import observe
from torchcourse.progress import remember
from torchcourse.reporting import Report, judge

__all__ = ["TimeIsUpError", "check", "examine", "hint"]


class TimeIsUpError(BaseException):
    """Raised inside a check that takes too long; no `except Exception` of a learner's swallows it."""


def check(answer: str | Callable[..., Any]) -> None:
    """Check the exercise of this name (or this function or class) and show how it went.

    Never raises in a learner's run. Under nbgrader's Validate it raises AssertionError when the answer is not right,
    which is what Validate looks for.
    """
    from torchcourse.beside import beside
    from torchcourse.card import show

    caller = sys._getframe(1).f_globals
    try:
        report = examine(answer, caller)
    except UnknownExerciseError as error:
        report = Report(str(answer), "unknown", str(error.args[0]))
    remember(report.exercise, report.status)
    if "NBGRADER_EXECUTION" in os.environ:
        if not report.passed:
            raise AssertionError(f"{report.exercise}: {report.status}. {report.message}")
        return
    show(report, beside(report, caller.get(answer) if isinstance(answer, str) else answer))


def examine(answer: str | Callable[..., Any], namespace: dict[str, Any]) -> Report:
    """The report that `check` shows. A name is looked up in `namespace`; where it is unbound, that is "unattempted".

    Raises:
        UnknownExerciseError: when no exercise has this name.
    """
    name = answer if isinstance(answer, str) else getattr(answer, "__name__", type(answer).__name__)
    lesson, exercise = find(name)
    function = namespace.get(name) if isinstance(answer, str) else answer
    if function is None:
        return Report(name, "unattempted", f"`{name}` is not defined yet: run its cell first.")
    if not callable(function):
        kind = type(function).__name__
        return Report(name, "error", f"`{name}` is bound to {kind}: it should be a function or a class.")
    return _run(lesson, exercise, function)


def _run(lesson: str, exercise: Exercise, function: Callable[..., Any]) -> Report:
    known = stored.load(lesson)[exercise.name]
    results: list[Result] = []
    preload(exercise.imports)
    try:
        with contextlib.redirect_stdout(io.StringIO()), time_limit(exercise.seconds):
            for lane in lanes(exercise.any_device):
                if lane.name == "cuda" and any(map(_index_went_out, results)):
                    break
                for number, case in enumerate(known.cases):
                    wanted = known.wanted.seen(lane.name, number)
                    assert wanted is not None, "the build stores what is wanted in every case"
                    raw = observe(exercise, function, case, lane)
                    results.append(compare(exercise, case, number, lane.name, raw, wanted))
    except Unattempted as stub:
        return Report(exercise.name, "unattempted", str(stub))
    except TimeIsUpError:
        done = f"{len(results)} cases were done"
        message = f"The check was stopped after {exercise.seconds:g} seconds, when {done}: look for an endless loop."
        return Report(exercise.name, "timeout", message, results=results)
    except KeyboardInterrupt:
        return Report(exercise.name, "interrupted", "The check was interrupted; nothing is lost. Run it again.")
    return judge(exercise, results, known.known())


def _index_went_out(result: Result) -> bool:
    """Whether an index was out of range: an exception on the CPU, but on CUDA the end of the process's GPU context."""
    error = result.seen.get("raised")
    return isinstance(error, Raised) and (error.kind == "IndexError" or "out of bounds" in error.message)


AGAIN = 0.2
"""Seconds after which a check that has to stop is told so again: a bare `except:` may have swallowed the first time."""
PATIENCE = 3
"""How many times its seconds a check may last where others keep the machine busy, and it has hardly had its turn."""


@contextlib.contextmanager
def time_limit(seconds: float, patience: float = PATIENCE) -> Iterator[None]:
    """Raise `TimeIsUpError` in this block after `seconds`, where the platform has an alarm and this is the main
    thread; elsewhere the block runs as long as it does. An interrupt, too, is raised until the block has ended.

    Where the process was given less CPU time than `seconds`, the block may last up to `patience` times as long.
    """
    if not hasattr(signal, "SIGALRM") or threading.current_thread() is not threading.main_thread():
        yield
        return
    why: type[BaseException] = TimeIsUpError
    begun, used = time.monotonic(), time.process_time()

    def ring(number: int, frame: FrameType | None) -> None:
        starved = time.process_time() - used < 0.9 * seconds and time.monotonic() - begun < patience * seconds
        if why is TimeIsUpError and starved:
            return
        raise why

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal why
        why = KeyboardInterrupt
        signal.setitimer(signal.ITIMER_REAL, AGAIN, AGAIN)
        raise why

    before = signal.signal(signal.SIGALRM, ring)
    interrupted = signal.getsignal(signal.SIGINT)
    if interrupted is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.signal(signal.SIGINT, interrupted)


def hint(name: str) -> None:
    """Show the next of an exercise's three hints; after the third, all three again."""
    from torchcourse.card import say

    try:
        _, exercise = find(name)
    except UnknownExerciseError as error:
        say(str(error.args[0]))
        return
    count = len(exercise.hints)
    say("\n".join(f"Hint {i} of {count}. {text}" for i, text in enumerate(hints.next_hint(exercise), 1)))
