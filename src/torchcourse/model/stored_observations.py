"""The data that the build stores so that notebooks can judge answers: visible cases and observations, no answers.

The file of a lesson is an index and, for each exercise, a packed value (see `codec`): its cases, the derived
observations of the reference, and for each known mistake its name, sentence, section and observations. A `Table` of
observations has None on the accelerator where they equal those on the CPU; a mistake's table has None where they
equal the reference's.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from torchcourse.model import codec
from torchcourse.model.exercise import Case
from torchcourse.model.known_mistake import KnownMistake
from torchcourse.model.observations import Observations, Tolerance, Value
from torchcourse.model.own_course import own_home

__all__ = ["UNREADABLE", "Stored", "StoredLesson", "StoredMistake", "Table", "dump", "load"]

LENGTH = struct.Struct("<Q")
UNREADABLE = (OSError, ValueError, LookupError, TypeError, AttributeError, struct.error)
"""Exceptions on reading a lesson's file that is missing, damaged or in an older format."""


@dataclass(frozen=True)
class Table:
    """The observations in each case, on the CPU and on an accelerator."""

    on_cpu: list[Observations | None]
    elsewhere: list[Observations | None]

    def seen(self, device: str, number: int) -> Observations | None:
        """Return the observations in a case; in a mistake's table None if they equal the reference's."""
        there = self.elsewhere[number]
        return self.on_cpu[number] if device == "cpu" or there is None else there


@dataclass(frozen=True)
class StoredMistake:
    """A mistake's name, sentence and section, and what its program does in each visible case."""

    name: str
    sentence: str
    section: str
    table: Table


@dataclass(frozen=True)
class Stored:
    """One exercise's visible cases, the observations wanted in each, and its known mistakes."""

    cases: list[Case]
    wanted: Table
    mistakes: list[StoredMistake]

    def known_mistakes(self) -> list[KnownMistake]:
        """Return the mistakes in the form that `explain` takes."""
        return [KnownMistake(m.name, m.sentence, m.section, self._observations_of(m)) for m in self.mistakes]

    def _observations_of(self, mistake: StoredMistake) -> Callable[[str, int], Observations | None]:
        def seen(device: str, number: int) -> Observations | None:
            own = mistake.table.seen(device, number)
            return self.wanted.seen(device, number) if own is None else own

        return seen


def dump(lesson: dict[str, Stored]) -> bytes:
    """Return the content of a lesson's file."""
    packs = {name: codec.pack(_plain(stored)) for name, stored in lesson.items()}
    index = json.dumps({name: len(pack) for name, pack in packs.items()}).encode()
    return LENGTH.pack(len(index)) + index + b"".join(packs.values())


def _plain(stored: Stored) -> Value:
    return {
        "cases": [[c.name, c.inputs, c.tolerance.rtol, c.tolerance.atol] for c in stored.cases],
        "wanted": [stored.wanted.on_cpu, stored.wanted.elsewhere],
        "mistakes": [[m.name, m.sentence, m.section, m.table.on_cpu, m.table.elsewhere] for m in stored.mistakes],
    }


def _stored(body: Value) -> Stored:
    return Stored(
        [Case(n, inputs, Tolerance(rtol, atol)) for n, inputs, rtol, atol in body["cases"]],
        Table(*body["wanted"]),
        [
            StoredMistake(name, sentence, section, Table(on_cpu, elsewhere))
            for name, sentence, section, on_cpu, elsewhere in body["mistakes"]
        ],
    )


class StoredLesson(Mapping[str, Stored]):
    """The exercises in a lesson's file, each unpacked at its first use: a check needs only one."""

    def __init__(self, data: bytes) -> None:
        (length,) = LENGTH.unpack_from(data)
        begin = LENGTH.size + length
        self._packs: dict[str, bytes] = {}
        for name, size in json.loads(data[LENGTH.size : begin]).items():
            self._packs[name] = data[begin : begin + size]
            begin += size
        self._unpacked: dict[str, Stored] = {}

    def __getitem__(self, name: str) -> Stored:
        if name not in self._unpacked:
            self._unpacked[name] = _stored(codec.unpack(self._packs[name], trusted=True))
        return self._unpacked[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._packs)

    def __len__(self) -> int:
        return len(self._packs)


@cache
def load(lesson: str) -> StoredLesson:
    """Return what the build has stored for `lesson`.

    Raises:
        FileNotFoundError: when the build has stored nothing for it.
    """
    home = own_home(lesson) or resources.files("torchcourse")
    return StoredLesson((home / "stored" / f"{lesson}.bin").read_bytes())
