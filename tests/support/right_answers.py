"""Print which right answers differ, on this machine, from what the notebooks check answers against.

    python -m tests.support.right_answers

Only cases that compare more digits than a float32 has are tried: the last digits of a float32 differ between CPUs.
"""

from __future__ import annotations

from collections.abc import Iterator

from autograde.judge.oracle import RIGHT_ANSWER, oracles
from autograde.source.private_half import private_half
from torchcourse.model import stored_observations
from torchcourse.model.catalogue import LESSONS
from torchcourse.model.observations import differing

__all__ = ["different"]

DIGITS = 1e-6
"""Cases with a relative tolerance below this one are tried."""


def different(lesson: str) -> Iterator[str]:
    """Yield a line for each visible case in which the reference or a right answer would not pass."""
    stored = stored_observations.load(lesson)
    for oracle in oracles(lesson):
        name = oracle.exercise.name
        answers = [oracle.reference, *private_half(lesson, name).right_answers]
        tight = [(n, case) for n, case in enumerate(stored[name].cases) if case.tolerance.rtol < DIGITS]
        for number, case in tight:
            wanted = stored[name].wanted.on_cpu[number]
            for place, answer in enumerate(answers):
                seen = oracle.observe_once(RIGHT_ANSWER - place, answer, "cpu", number)
                if names := differing(seen, wanted or {}, case.tolerance):
                    yield f"{name}, right answer {place}, case {case.name!r}: {', '.join(names)}"


if __name__ == "__main__":
    for chosen in LESSONS:
        for line in different(chosen):
            print(line)
