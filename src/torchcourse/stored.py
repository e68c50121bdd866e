"""What the build stores of a lesson so that a notebook can judge: visible cases and observations. Data, not answers.

The file of a lesson is one packed value (see `codec`): for each exercise its cases, the derived observations of the
reference, and for each known mistake name, sentence, section and observations. A mistake's observations are None
where they are those of the reference, and on the accelerator None where they are those on the CPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from torchcourse import codec
from torchcourse.exercise import Case
from torchcourse.explaining import Known
from torchcourse.observations import Observations, Tolerance

__all__ = ["Stored", "StoredMistake", "dump", "load", "parse"]


@dataclass(frozen=True)
class StoredMistake:
    """A mistake's name, sentence and section, and what its program does in each visible case."""

    name: str
    sentence: str
    read: str
    on_cpu: list[Observations | None]
    elsewhere: list[Observations | None]


@dataclass(frozen=True)
class Stored:
    """One exercise's visible cases, the observations wanted in each, and its known mistakes."""

    cases: list[Case]
    wanted: list[Observations]
    mistakes: list[StoredMistake]

    def known(self) -> list[Known]:
        """The mistakes as `explaining` wants them."""
        return [Known(m.name, m.sentence, m.read, self._seen(m)) for m in self.mistakes]

    def _seen(self, mistake: StoredMistake) -> Any:
        def seen(lane: str, number: int) -> Observations | None:
            cpu = mistake.on_cpu[number]
            cpu = self.wanted[number] if cpu is None else cpu
            there = mistake.elsewhere[number]
            return cpu if lane == "cpu" or there is None else there

        return seen


def dump(lesson: dict[str, Stored]) -> bytes:
    """A lesson's stored exercises as bytes."""
    return codec.pack({
        name: {
            "cases": [[c.name, c.inputs, c.tolerance.rtol, c.tolerance.atol] for c in stored.cases],
            "wanted": stored.wanted,
            "mistakes": [[m.name, m.sentence, m.read, m.on_cpu, m.elsewhere] for m in stored.mistakes],
        }
        for name, stored in lesson.items()
    })  # fmt: skip


def parse(data: bytes) -> dict[str, Stored]:
    """The lesson that `dump` was given."""
    return {
        name: Stored(
            [Case(n, inputs, Tolerance(rtol, atol)) for n, inputs, rtol, atol in body["cases"]],
            body["wanted"],
            [StoredMistake(*fields) for fields in body["mistakes"]],
        )
        for name, body in codec.unpack(data, trusted=True).items()
    }


@cache
def load(lesson: str) -> dict[str, Stored]:
    """What is stored of `lesson`.

    Raises:
        FileNotFoundError: when the build has stored nothing for it.
    """
    return parse((resources.files("torchcourse") / "stored" / f"{lesson}.bin").read_bytes())
