"""The oracle of an exercise: what its reference and each known mistake do, as observed by the probe.

None of this enters the sandbox.
"""

from __future__ import annotations

import hashlib
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from autograde.errors import CourseError
from autograde.judge.derive_in_fork import derive_in_fork
from autograde.source import paths
from autograde.source.mistakes import Mistake
from autograde.source.private_half import private_half
from autograde.source.script import answers
from torchcourse.checking.probe import is_raised_by_probe, observe
from torchcourse.checking.result import Result, compare_derived, derive
from torchcourse.model import codec
from torchcourse.model.catalogue import exercises
from torchcourse.model.devices import CPU, CheckedDevice, find_accelerator
from torchcourse.model.exercise import Case, Draw, Exercise
from torchcourse.model.known_mistake import KnownMistake
from torchcourse.model.observations import FORBIDDEN, Observations

__all__ = [
    "MAX_REMEMBERED_LENGTH",
    "REFERENCE",
    "RIGHT_ANSWER",
    "VISIBLE_SEED",
    "Oracle",
    "hidden",
    "oracle",
    "oracles",
    "references",
    "visible",
]

VISIBLE_SEED = 1
MAX_REMEMBERED_LENGTH, MAX_REMEMBERED = 1 << 14, 8
"""The longest right reply that is remembered, in bytes, and how many different ones for each case."""
REFERENCE, REFERENCE_RAW, RIGHT_ANSWER = -1, -2, -3
"""Keys in `Oracle.observed`: the derived and the raw observations of the reference, and, from `RIGHT_ANSWER` downwards,
those of right answers."""


@cache
def references(lesson: str) -> dict[str, Callable[..., Any]]:
    """Return the reference of each exercise, defined by its answer cell in the solved lesson."""
    return answers(paths.script(lesson))


class Oracle:
    """What the reference and the mistakes of an exercise do in a list of cases; each is run once, when needed.

    Attributes:
        observed: observations by program (number of the mistake, or one of the keys above), device and number of the
            case.
    """

    def __init__(
        self, exercise: Exercise, reference: Callable[..., Any], mistakes: list[Mistake], cases: list[Case]
    ) -> None:
        self.exercise, self.reference, self.cases = exercise, reference, cases
        self.mistakes = mistakes
        self.observed: dict[tuple[int, str, int], Observations] = {}
        self._remembered: dict[tuple[str, int], dict[bytes, Result]] = {}

    @cached_property
    def packed(self) -> list[bytes]:
        """The packed inputs of each case, which are sent into the sandbox."""
        return [codec.pack(case.inputs) for case in self.cases]

    def narrowed(self, count: int) -> Oracle:
        """Return an oracle of the first `count` cases only, which shares the observations of this one."""
        narrow = Oracle(self.exercise, self.reference, self.mistakes, self.cases[:count])
        narrow.observed = self.observed
        return narrow

    def device(self, name: str) -> CheckedDevice:
        """Return a device by its name."""
        return CPU if name == CPU.name else find_accelerator("simulated" if name == "simulated" else "")

    def run(self, answer: Callable[..., Any], device: str, number: int, *, trusted: bool = True) -> Observations:
        """Return the derived observations of `answer` in a case; an answer that is not trusted is watched closely."""
        raw = observe(self.exercise, answer, self.cases[number], self.device(device), trusted=trusted)
        return self._derived(number, raw)

    def _derived(self, number: int, raw: Observations) -> Observations:
        return derive(self.exercise, self.cases[number], raw)

    def _raw_wanted(self, device: str, number: int) -> Observations:
        """Return the raw observations of PyTorch itself where the exercise says how to ask it, else of the reference.

        PyTorch has to make the very calls that the exercise forbids answers to make.
        """
        exercise, case = self.exercise, self.cases[number]
        free = exercise if exercise.ground_truth is None else replace(exercise, forbids=(), measures=False)
        asked = exercise.ground_truth or self.reference
        seen = observe(free, asked, case, self.device(device), trusted=True, caught=_refuse_broken_probe)
        if exercise.ground_truth is None:
            return seen
        return {**seen, FORBIDDEN: []} if exercise.forbids else seen

    def wanted(self, device: str, number: int) -> Observations:
        """Return the derived observations of the reference, or of PyTorch itself, in a case."""
        if (REFERENCE, device, number) not in self.observed:
            raw = self.observed[REFERENCE_RAW, device, number] = self._raw_wanted(device, number)
            self.observed[REFERENCE, device, number] = self._derived(number, raw)
        return self.observed[REFERENCE, device, number]

    def accepted(self, device: str, number: int, raw: Observations) -> Observations:
        """Return raw observations from a submission, with any derived properties removed.

        A name is removed if the reference has it only after deriving, or if its value is already the derived text
        although the reference's raw value is not text. Otherwise a learner who replaces the probe could send the wanted
        properties, which are easy to guess, in place of the values that they are derived from.
        """
        wanted = self.wanted(device, number)
        raw_wanted = self.observed[REFERENCE_RAW, device, number]

        def is_derived(name: str) -> bool:
            if name not in wanted or name not in raw_wanted:
                return name in wanted
            return isinstance(wanted[name], str) and not isinstance(raw_wanted[name], str) and raw[name] == wanted[name]

        return {name: value for name, value in raw.items() if not is_derived(name)}

    def result(self, device: str, number: int, raw: Observations, data: bytes = b"") -> Result:
        """Compare raw observations, unpacked from the reply `data`, with the wanted ones; remember a right reply."""
        accepted = self.accepted(device, number, raw)
        result = self._compared(device, number, self._derived(number, accepted))
        remembered = self._remembered.setdefault((device, number), {})
        if result.passed and data and len(remembered) < MAX_REMEMBERED:
            remembered[data] = result
        return result

    def long_results(self, device: str, replies: dict[int, Observations]) -> dict[int, Result]:
        """Compare raw observations from which a derivation may cost much, by the number of their case.

        Raises:
            JudgingError: when deriving takes too much time or memory.
        """
        accepted = {number: self.accepted(device, number, raw) for number, raw in replies.items()}
        if self.exercise.derives and accepted:
            observed = [(self.cases[number], raw) for number, raw in accepted.items()]
            accepted = dict(zip(accepted, derive_in_fork(self.exercise, observed), strict=True))
        return {number: self._compared(device, number, seen) for number, seen in accepted.items()}

    def _compared(self, device: str, number: int, seen: Observations) -> Result:
        return compare_derived(self.cases[number], number, device, seen, self.wanted(device, number))

    def remembered(self, device: str, number: int, data: bytes) -> Result | None:
        """Return the result of an earlier reply of the same bytes, which need not be unpacked; None for a new one."""
        return self._remembered.get((device, number), {}).get(data)

    def observe_once(
        self, program: int, answer: Callable[..., Any], device: str, number: int, *, trusted: bool = True
    ) -> Observations:
        """Return the derived observations of a program in a case, running it only if `observed` does not have them."""
        key = (program, device, number)
        if key not in self.observed:
            self.observed[key] = self.run(answer, device, number, trusted=trusted)
        return self.observed[key]

    @cached_property
    def known(self) -> list[KnownMistake]:
        """The known mistakes as data; what they do is observed when needed."""
        return [self._known(place, mistake) for place, mistake in enumerate(self.mistakes)]

    def _known(self, place: int, mistake: Mistake) -> KnownMistake:
        def observations(device: str, number: int) -> Observations:
            return self.observe_once(place, mistake.program, device, number)

        return KnownMistake(mistake.name, mistake.sentence, mistake.section, observations)


def _refuse_broken_probe(error: BaseException) -> None:
    """Raise an error if a probe fails with its own reference: each answer would fail alike, and so be right."""
    if is_raised_by_probe(error):
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{paths.shown(Path(place.filename))}:{place.lineno}"
        raise CourseError(f"{where}: the probe itself raises {type(error).__name__}: {error}") from error


def visible(exercise: Exercise) -> list[Case]:
    """Return the cases that the notebook shows."""
    return exercise.cases(Draw(VISIBLE_SEED))


def hidden(lesson: str, exercise: Exercise, seed: int) -> list[Case]:
    """Return the cases that only the grader sees, drawn with the seed of a run."""
    digest = hashlib.sha256(f"{seed}:{exercise.name}".encode()).digest()
    draw = Draw(int.from_bytes(digest[:6], "big"))
    return [*exercise.cases(draw), *private_half(lesson, exercise.name).more_cases(draw)]


def oracle(lesson: str, name: str, cases: Callable[[Exercise], list[Case]] = visible) -> Oracle:
    """Return the oracle of one exercise."""
    exercise = exercises(lesson)[name]
    return Oracle(exercise, references(lesson)[name], private_half(lesson, name).mistakes, cases(exercise))


def oracles(lesson: str, cases: Callable[[Exercise], list[Case]] = visible) -> Iterator[Oracle]:
    """Yield an oracle for each exercise of a lesson."""
    return (oracle(lesson, name, cases) for name in exercises(lesson))
