"""What gives verdicts on the submissions of one lesson: a sandbox is driven, and what comes out of it judged."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from autograde.examining import Examined, examine
from autograde.kept import Kept
from autograde.oracle import Oracle, hidden, oracles, visible
from autograde.sandbox import Sandbox
from autograde.settings import SEED
from autograde.submission import Submission, release
from autograde.verdict import Verdict, decide, unjudged, without_examination
from torchcourse.exercise import exercises
from torchcourse.lanes import accelerator_lane, lanes

__all__ = ["Examiner", "Graded", "examiner"]

ONE_ORACLE = threading.Lock()
"""Oracles, of whatever lesson, run programs in this process and set its defaults while they do: one at a time."""


@dataclass(frozen=True)
class Graded:
    """A submission and its verdicts, one for each exercise of the lesson."""

    submission: Submission
    verdicts: list[Verdict]


class Examiner:
    """What is needed to give verdicts on one lesson: oracles with visible and hidden cases, made once for a batch."""

    def __init__(self, lesson: str, seed: int = SEED, gpu: bool = False, anew: bool = False) -> None:
        """Take what earlier runs found out of references and mistakes, unless everything is to be found out `anew`."""
        lane = accelerator_lane("" if gpu else "simulated")  # before any backward runs here
        self.lesson, self.accelerator = lesson, lane.name
        self.visible = {name: len(visible(e)) for name, e in exercises(lesson).items()}
        cases = {e.name: [*visible(e), *hidden(lesson, e, seed)] for e in exercises(lesson).values()}
        self.oracles = {o.exercise.name: o for o in oracles(lesson, lambda e: cases[e.name])}
        self.kept = Kept(lesson, seed, lane.name)
        for oracle in [] if anew else self.oracles.values():
            self.kept.recall(oracle)

    def prepare(self, submission: Submission) -> Iterator[None]:
        """Find out already, case by case, what a submission will be compared with: for when there is time to spare."""
        for name, oracle in self.oracles.items():
            if without_examination(submission, name) is not None:
                continue
            for lane in lanes(oracle.exercise.any_device, self.accelerator):
                for number in range(len(oracle.packed)):
                    with ONE_ORACLE:
                        oracle.wanted(lane.name, number)
                    yield

    def close(self) -> None:
        """Keep what was found out for the next run."""
        for oracle in self.oracles.values():
            self.kept.keep(oracle)
        self.kept.forget_old()

    def grade(self, sandbox: Sandbox, submission: Submission) -> Graded:
        """The verdicts on one submission."""
        early = {name: without_examination(submission, name) for name in release(self.lesson).exercises}
        pending = [self.oracles[name] for name, verdict in early.items() if verdict is None]
        found = examine(sandbox, submission, pending, self.accelerator, self.visible) if pending else {}
        decided = {o.exercise.name: self._decide(submission, o, found) for o in pending}
        return Graded(submission, [verdict or decided[name] for name, verdict in early.items()])

    def _decide(self, submission: Submission, oracle: Oracle, found: dict[str, dict[str, Examined]]) -> Verdict:
        name = oracle.exercise.name
        seen = {lane: examined[name] for lane, examined in found.items() if name in examined}
        try:
            with ONE_ORACLE:
                return decide(submission, oracle, self.visible[name], seen)
        except Exception as error:  # observations can be made to be anything, and must not stop a batch
            return unjudged(submission, name, error)


@cache
def examiner(lesson: str, seed: int = SEED, gpu: bool = False) -> Examiner:
    """One for all that this process grades: what references and mistakes do is then found out once."""
    made = Examiner(lesson, seed, gpu)
    atexit.register(made.close)
    return made
