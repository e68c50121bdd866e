"""What the build stores of a lesson so that a notebook can judge: visible cases and observations. Data, not answers.

The file of a lesson is one packed value (see `codec`): for each exercise its cases, the derived observations of the
reference, and for each known mistake name, sentence, section and observations. Observations come as a `Table`: on the
accelerator None where they are those on the CPU, and a mistake's None where they are those of the reference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import resources

from torchcourse import codec
from torchcourse.exercise import Case
from torchcourse.explaining import Known
from torchcourse.observations import Observations, Tolerance

__all__ = ["Stored", "StoredMistake", "Table", "dump", "load", "parse"]


@dataclass(frozen=True)
class Table:
    """Observations by case, on the CPU and on an accelerator."""

    on_cpu: list[Observations | None]
    elsewhere: list[Observations | None]

    def seen(self, lane: str, number: int) -> Observations | None:
        """What was observed in a case, None where the table leaves it to another."""
        there = self.elsewhere[number]
        return self.on_cpu[number] if lane == "cpu" or there is None else there


@dataclass(frozen=True)
class StoredMistake:
    """A mistake's name, sentence and section, and what its program does in each visible case.

    `parts` are the places of the two mistakes that make this one, for a pair.
    """

    name: str
    sentence: str
    read: str
    table: Table
    parts: tuple[int, ...] = ()


@dataclass(frozen=True)
class Stored:
    """One exercise's visible cases, the observations wanted in each, and its known mistakes."""

    cases: list[Case]
    wanted: Table
    mistakes: list[StoredMistake]

    def known(self) -> list[Known]:
        """The mistakes as `explaining` wants them."""
        made: list[Known] = []
        for mistake in self.mistakes:  # parts come before what they are parts of
            parts = tuple(made[i] for i in mistake.parts)
            made.append(Known(mistake.name, mistake.sentence, mistake.read, self._seen(mistake), parts))
        return made

    def _seen(self, mistake: StoredMistake) -> Callable[[str, int], Observations | None]:
        def seen(lane: str, number: int) -> Observations | None:
            theirs = mistake.table.seen(lane, number)
            return self.wanted.seen(lane, number) if theirs is None else theirs

        return seen


def dump(lesson: dict[str, Stored]) -> bytes:
    """A lesson's stored exercises as bytes."""
    return codec.pack({
        name: {
            "cases": [[c.name, c.inputs, c.tolerance.rtol, c.tolerance.atol] for c in stored.cases],
            "wanted": [stored.wanted.on_cpu, stored.wanted.elsewhere],
            "mistakes": [
                [m.name, m.sentence, m.read, m.table.on_cpu, m.table.elsewhere, m.parts] for m in stored.mistakes
            ],
        }
        for name, stored in lesson.items()
    })  # fmt: skip


def parse(data: bytes) -> dict[str, Stored]:
    """The lesson that `dump` was given."""
    return {
        name: Stored(
            [Case(n, inputs, Tolerance(rtol, atol)) for n, inputs, rtol, atol in body["cases"]],
            Table(*body["wanted"]),
            [
                StoredMistake(name, sentence, read, Table(on_cpu, elsewhere), parts)
                for name, sentence, read, on_cpu, elsewhere, parts in body["mistakes"]
            ],
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
