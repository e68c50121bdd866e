"""What the build stores of a lesson so that a notebook can judge: visible cases and observations. Data, not answers.

The file of a lesson is an index and, for each exercise, a packed value (see `codec`): its cases, the derived
observations of the reference, and for each known mistake name, sentence, section and observations. Observations come
as a `Table`: on the accelerator None where they are those on the CPU, and a mistake's None where they are those of the
reference.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from torchcourse import codec
from torchcourse.exercise import Case
from torchcourse.explaining import Known
from torchcourse.observations import Observations, Tolerance, Value

__all__ = ["Stored", "StoredLesson", "StoredMistake", "Table", "dump", "load"]

LENGTH = struct.Struct("<Q")


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
    packs = {name: codec.pack(_plain(stored)) for name, stored in lesson.items()}
    index = json.dumps({name: len(pack) for name, pack in packs.items()}).encode()
    return LENGTH.pack(len(index)) + index + b"".join(packs.values())


def _plain(stored: Stored) -> Value:
    return {
        "cases": [[c.name, c.inputs, c.tolerance.rtol, c.tolerance.atol] for c in stored.cases],
        "wanted": [stored.wanted.on_cpu, stored.wanted.elsewhere],
        "mistakes": [
            [m.name, m.sentence, m.read, m.table.on_cpu, m.table.elsewhere, m.parts] for m in stored.mistakes
        ],
    }


def _stored(body: Value) -> Stored:
    return Stored(
        [Case(n, inputs, Tolerance(rtol, atol)) for n, inputs, rtol, atol in body["cases"]],
        Table(*body["wanted"]),
        [
            StoredMistake(name, sentence, read, Table(on_cpu, elsewhere), parts)
            for name, sentence, read, on_cpu, elsewhere, parts in body["mistakes"]
        ],
    )


class StoredLesson(Mapping[str, Stored]):
    """The exercises of what `dump` made, each unpacked when it is first asked for: a check needs only one."""

    def __init__(self, data: bytes) -> None:
        (length,) = LENGTH.unpack_from(data)
        begin = LENGTH.size + length
        self._packs: dict[str, bytes] = {}
        for name, size in json.loads(data[LENGTH.size : begin]).items():
            self._packs[name] = data[begin : begin + size]
            begin += size
        self._made: dict[str, Stored] = {}

    def __getitem__(self, name: str) -> Stored:
        if name not in self._made:
            self._made[name] = _stored(codec.unpack(self._packs[name], trusted=True))
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._packs)

    def __len__(self) -> int:
        return len(self._packs)


@cache
def load(lesson: str) -> StoredLesson:
    """What is stored of `lesson`.

    Raises:
        FileNotFoundError: when the build has stored nothing for it.
    """
    return StoredLesson((resources.files("torchcourse") / "stored" / f"{lesson}.bin").read_bytes())
