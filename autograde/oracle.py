"""What is wanted, and what each known mistake does: the reference and the mistakes, run by the probe.

All of this stays outside the sandbox.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from typing import Any

from autograde import course
from autograde.mistakes import Mistake, combined
from autograde.script import answers
from torchcourse import codec
from torchcourse.exercise import Case, Draw, Exercise, exercises
from torchcourse.explaining import Known, Result, compare, derived
from torchcourse.lanes import CPU, Lane, accelerator_lane
from torchcourse.observations import Observations
from torchcourse.probing import observe

__all__ = [
    "LONGEST_FAMILIAR",
    "REFERENCE",
    "VISIBLE_SEED",
    "Oracle",
    "hidden",
    "oracle",
    "oracles",
    "references",
    "visible",
]

VISIBLE_SEED = 1
LONGEST_FAMILIAR, MOST_FAMILIAR = 1 << 14, 8
"""Of replies up to so many bytes, so many different right ones are remembered for each case."""
REFERENCE, REPORTED = -1, -2
"""In what was found out: derived observations of the reference, and raw ones. Mistakes have their number."""


@cache
def references(lesson: str) -> dict[str, Callable[..., Any]]:
    """The reference of each exercise: the answer cell of the solved lesson."""
    return answers(course.SOLUTIONS / f"{lesson}.py")


class Oracle:
    """One exercise with a list of cases: wanted observations and the mistakes', each run once, when asked for."""

    def __init__(
        self, exercise: Exercise, reference: Callable[..., Any], mistakes: list[Mistake], cases: list[Case]
    ) -> None:
        self.exercise, self.reference, self.cases = exercise, reference, cases
        self.mistakes = mistakes
        self.found: dict[tuple[int, str, int], Observations] = {}
        """What was found out, by who answers (the place of a mistake, or `REFERENCE`, or `REPORTED`), lane and case."""
        self._familiar: dict[tuple[str, int], dict[bytes, Result]] = {}

    @cached_property
    def packed(self) -> list[bytes]:
        """What is sent into the sandbox of each case, the same for all submissions: its inputs."""
        return [codec.pack(case.inputs) for case in self.cases]

    def narrowed(self, count: int) -> Oracle:
        """An oracle of the first `count` cases alone; what one of the two finds out the other knows."""
        narrow = Oracle(self.exercise, self.reference, self.mistakes, self.cases[:count])
        narrow.found = self.found
        return narrow

    def lane(self, name: str) -> Lane:
        return CPU if name == CPU.name else accelerator_lane("simulated" if name == "simulated" else "")

    def run(self, answer: Callable[..., Any], lane: str, number: int) -> Observations:
        """What `answer` does in a case, derived."""
        return self._derived(number, self._observed(answer, lane, number))

    def _observed(self, answer: Callable[..., Any], lane: str, number: int) -> Observations:
        return observe(self.exercise, answer, self.cases[number], self.lane(lane))

    def _derived(self, number: int, raw: Observations) -> Observations:
        return derived(self.exercise, self.cases[number], raw)

    def wanted(self, lane: str, number: int) -> Observations:
        """What the reference does in a case."""
        if (REFERENCE, lane, number) not in self.found:
            raw = self.found[REPORTED, lane, number] = self._observed(self.reference, lane, number)
            self.found[REFERENCE, lane, number] = self._derived(number, raw)
        return self.found[REFERENCE, lane, number]

    def admitted(self, lane: str, number: int, raw: Observations) -> Observations:
        """Raw observations from a process that nobody trusts, without what only deriving may say of them.

        Those are names that the reference's raw observations do not have and its derived ones do, and derived words
        under names where the probe reports no words. Else who rewrites the probe would send the properties that are
        wanted, which anybody can guess, in place of what they are to be derived from.
        """
        wanted = self.wanted(lane, number)
        reported = self.found[REPORTED, lane, number]

        def said_outside(name: str) -> bool:
            if name not in wanted or name not in reported:
                return name in wanted
            return isinstance(wanted[name], str) and not isinstance(reported[name], str) and raw[name] == wanted[name]

        return {name: value for name, value in raw.items() if not said_outside(name)}

    def result(self, lane: str, number: int, raw: Observations, data: bytes = b"") -> Result:
        """What raw observations, read from the reply `data`, come to; remembered where that is right."""
        wanted, admitted = self.wanted(lane, number), self.admitted(lane, number, raw)
        result = compare(self.exercise, self.cases[number], number, lane, admitted, wanted)
        familiar = self._familiar.setdefault((lane, number), {})
        if result.passed and data and len(familiar) < MOST_FAMILIAR:
            familiar[data] = result
        return result

    def familiar(self, lane: str, number: int, data: bytes) -> Result | None:
        """What the very bytes of a reply have come to before, if that is remembered: then nobody need read them."""
        return self._familiar.get((lane, number), {}).get(data)

    def _remembered(self, who: int, answer: Callable[..., Any], lane: str, number: int) -> Observations:
        key = (who, lane, number)
        if key not in self.found:
            self.found[key] = self.run(answer, lane, number)
        return self.found[key]

    @cached_property
    def known(self) -> list[Known]:
        """The mistakes as data, and those made together; what they do is found out when it is asked for."""
        singles = {id(m): self._known(i, m) for i, m in enumerate(self.mistakes)}
        pairs = [
            self._known(len(singles) + i, both, singles[id(one)], singles[id(other)])
            for i, (one, other, both) in enumerate(combined(self.mistakes))
        ]
        return [*singles.values(), *pairs]

    def _known(self, who: int, mistake: Mistake, *parts: Known) -> Known:
        def seen(lane: str, number: int) -> Observations:
            return self._remembered(who, mistake.answer(), lane, number)

        return Known(mistake.name, mistake.sentence, mistake.read, seen, parts)


def visible(exercise: Exercise) -> list[Case]:
    """The cases that the notebook shows."""
    return exercise.cases(Draw(VISIBLE_SEED))


def hidden(lesson: str, exercise: Exercise, seed: int) -> list[Case]:
    """The cases that only the grader sees, drawn from the seed of a run."""
    digest = hashlib.sha256(f"{seed}:{exercise.name}".encode()).digest()
    draw = Draw(int.from_bytes(digest[:6], "big"))
    return [*exercise.cases(draw), *course.hidden_cases(lesson)[exercise.name](draw)]


def oracle(lesson: str, name: str, cases: Callable[[Exercise], list[Case]] = visible) -> Oracle:
    """The oracle of one exercise."""
    exercise = exercises(lesson)[name]
    return Oracle(exercise, references(lesson)[name], course.mistakes(lesson)[name], cases(exercise))


def oracles(lesson: str, cases: Callable[[Exercise], list[Case]] = visible) -> Iterator[Oracle]:
    """An oracle for each exercise of a lesson."""
    return (oracle(lesson, name, cases) for name in exercises(lesson))
