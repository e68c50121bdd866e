"""Making the file from which a notebook judges: visible cases, what is wanted in them and what known mistakes do."""

from __future__ import annotations

import os
import struct
import subprocess
import sys

from autograde import course
from autograde.oracle import Oracle, oracles
from torchcourse import stored
from torchcourse.explaining import Known
from torchcourse.observations import Observations, agree
from torchcourse.stored import Stored, StoredMistake, Table

__all__ = ["exercise_fresh", "make", "proven_fresh", "write"]

UNREADABLE = (OSError, ValueError, LookupError, TypeError, struct.error)
"""What is raised where nothing is stored, or something of an older form."""


def make(lesson: str) -> dict[str, Stored]:
    """What is to be stored of a lesson, made by running everything."""
    return {oracle.exercise.name: _stored(oracle) for oracle in oracles(lesson)}


def _stored(oracle: Oracle) -> Stored:
    places = {id(known): place for place, known in enumerate(oracle.known)}
    mistakes = [
        StoredMistake(k.name, k.sentence, k.read, _mistaken(oracle, k), tuple(places[id(p)] for p in k.parts))
        for k in oracle.known
    ]
    return Stored(oracle.cases, _wanted(oracle), mistakes)


def _elsewhere(oracle: Oracle, number: int, here: Observations, there: Observations) -> Observations | None:
    return None if agree(there, here, oracle.cases[number].tolerance) else there


def _wanted(oracle: Oracle) -> Table:
    numbers = range(len(oracle.cases))
    here = [oracle.wanted("cpu", n) for n in numbers]
    if not oracle.exercise.any_device:
        return Table(list(here), [None] * len(here))
    return Table(list(here), [_elsewhere(oracle, n, here[n], oracle.wanted("simulated", n)) for n in numbers])


def _mistaken(oracle: Oracle, known: Known) -> Table:
    on_cpu: list[Observations | None] = []
    elsewhere: list[Observations | None] = []
    for number, case in enumerate(oracle.cases):
        here = known.seen("cpu", number)
        same = agree(here, oracle.wanted("cpu", number), case.tolerance)
        on_cpu.append(None if same else here)
        if not oracle.exercise.any_device:
            elsewhere.append(None)
            continue
        there = known.seen("simulated", number)
        like = oracle.wanted("simulated", number) if same else here
        elsewhere.append(None if agree(there, like, case.tolerance) else there)
    return Table(on_cpu, elsewhere)


def _fresh(lesson: str, made: dict[str, Stored]) -> bool:
    """Whether what is stored of a lesson says the same as `made`; the last digits of floats differ between CPUs."""
    try:
        old = _old(lesson)
        return list(old) == list(made) and all(_same(old[name], made[name]) for name in made)
    except UNREADABLE:
        return False


def exercise_fresh(lesson: str, oracle: Oracle) -> bool:
    """Whether what is stored of one exercise is what its oracle, of visible cases, would have stored now."""
    try:
        return _same(_old(lesson)[oracle.exercise.name], _stored(oracle))
    except UNREADABLE:
        return False


def _old(lesson: str) -> stored.StoredLesson:
    return stored.StoredLesson((course.STORED / f"{lesson}.bin").read_bytes())


def _same(old: Stored, new: Stored) -> bool:
    def texts(s: Stored) -> object:
        named = [(m.name, m.sentence, m.read, m.parts) for m in s.mistakes]
        return [(c.name, c.tolerance) for c in s.cases], named

    def tables(s: Stored) -> list[Table]:
        return [s.wanted, *(m.table for m in s.mistakes)]

    if texts(old) != texts(new):
        return False
    return all(
        agree(a.inputs, b.inputs, a.tolerance)
        and all(
            agree(s.on_cpu[n], t.on_cpu[n], a.tolerance) and agree(s.elsewhere[n], t.elsewhere[n], a.tolerance)
            for s, t in zip(tables(old), tables(new), strict=True)
        )
        for n, (a, b) in enumerate(zip(old.cases, new.cases, strict=True))
    )


def proven_fresh(lesson: str) -> bool:
    """Whether what is stored of a lesson is what would be stored now, found out in a process of its own: it needs the
    simulated accelerator, which a process that uses CUDA cannot have."""
    env = {**os.environ, "TORCHCOURSE_ACCELERATOR": "simulated"}
    command = [sys.executable, "-m", "autograde.storing", lesson]
    return subprocess.run(command, cwd=course.ROOT, env=env, check=False).returncode == 0


def write(lesson: str) -> bool:
    """Store a lesson afresh, unless what is stored says the same. Whether anything was written."""
    made = make(lesson)
    if _fresh(lesson, made):
        return False
    course.STORED.mkdir(exist_ok=True)
    (course.STORED / f"{lesson}.bin").write_bytes(stored.dump(made))
    return True


if __name__ == "__main__":
    sys.exit(not _fresh(sys.argv[1], make(sys.argv[1])))
