"""Store what notebooks check answers against: visible cases, and the observations of references and known mistakes."""

from __future__ import annotations

import os
import subprocess
import sys

from autograde.files import write_atomically
from autograde.judge.oracle import Oracle, oracles
from autograde.judge.oracle_cache import OracleCache
from autograde.source import paths
from torchcourse.model import stored_observations
from torchcourse.model.known_mistake import KnownMistake
from torchcourse.model.observations import Observations, Tolerance, agree
from torchcourse.model.stored_observations import UNREADABLE, Stored, StoredMistake, Table

__all__ = ["exercise_fresh", "make", "proven_fresh", "write"]


def make(lesson: str, use_cache: bool = False) -> dict[str, Stored]:
    """Run the references and mistakes of a lesson; return what is to be stored, by exercise.

    Args:
        lesson: the lesson.
        use_cache: whether to run only exercises that have changed since they ran last on this machine.
    """
    earlier, made = OracleCache(lesson, None, "simulated"), dict[str, Stored]()
    for oracle in oracles(lesson):
        if use_cache:
            earlier.load(oracle)
        made[oracle.exercise.name] = _stored(oracle, everywhere=True)
        if use_cache:
            earlier.save(oracle)
    earlier.remove_old()
    return made


def _stored(oracle: Oracle, *, everywhere: bool) -> Stored:
    """Return what is to be stored.

    Args:
        everywhere: whether to store, for mistakes that already fail on the CPU, what they do on the simulated
            accelerator.
    """
    mistakes = [
        StoredMistake(k.name, k.sentence, k.section, _mistake_table(oracle, k, everywhere)) for k in oracle.known
    ]
    return Stored(oracle.cases, _reference_table(oracle), mistakes)


def _if_different(
    oracle: Oracle, number: int, here: Observations | None, there: Observations | None
) -> Observations | None:
    return None if agree(there, here, oracle.cases[number].tolerance) else there


def _reference_table(oracle: Oracle) -> Table:
    numbers = range(len(oracle.cases))
    here = [oracle.wanted("cpu", n) for n in numbers]
    if not oracle.exercise.any_device:
        return Table(list(here), [None] * len(here))
    return Table(list(here), [_if_different(oracle, n, here[n], oracle.wanted("simulated", n)) for n in numbers])


def _mistake_table(oracle: Oracle, known: KnownMistake, everywhere: bool) -> Table:
    numbers = range(len(oracle.cases))
    here = [known.seen("cpu", n) for n in numbers]
    same = [agree(here[n], oracle.wanted("cpu", n), oracle.cases[n].tolerance) for n in numbers]
    on_cpu = [None if same[n] else here[n] for n in numbers]
    if not oracle.exercise.any_device:
        return Table(on_cpu, [None] * len(on_cpu))
    if not everywhere and not all(same):
        return Table(on_cpu, [])
    elsewhere = [_if_different(oracle, n, oracle.wanted("simulated", n) if same[n] else here[n],
                               known.seen("simulated", n)) for n in numbers]  # fmt: skip
    return Table(on_cpu, elsewhere)


ROUNDED = Tolerance(rtol=1e-3, atol=1e-4)
"""What a mistake computes in float32 differs between CPUs, also where float64 and ten digits are wanted."""


def _fresh(lesson: str, made: dict[str, Stored]) -> bool:
    """Return whether what is stored of a lesson agrees with `made`; the last digits of floats differ between CPUs."""
    try:
        old = _stored_lesson(lesson)
        return list(old) == list(made) and all(_same(old[name], made[name]) for name in made)
    except UNREADABLE:
        return False


def exercise_fresh(lesson: str, oracle: Oracle) -> bool:
    """Return whether what is stored of an exercise agrees with its oracle of visible cases.

    What mistakes that fail on the CPU do on the simulated accelerator is left to `proven_fresh`.
    """
    try:
        return _same(_stored_lesson(lesson)[oracle.exercise.name], _stored(oracle, everywhere=False))
    except UNREADABLE:
        return False


def _stored_lesson(lesson: str) -> stored_observations.StoredLesson:
    return stored_observations.StoredLesson(paths.stored(lesson).read_bytes())


def _same(old: Stored, new: Stored) -> bool:
    def texts(s: Stored) -> object:
        named = [(m.name, m.sentence, m.section) for m in s.mistakes]
        return [(c.name, c.tolerance) for c in s.cases], named

    if texts(old) != texts(new):
        return False
    for n, (a, b) in enumerate(zip(old.cases, new.cases, strict=True)):
        if not agree(a.inputs, b.inputs, a.tolerance) or not _rows_agree(old.wanted, new.wanted, n, a.tolerance):
            return False
        rough = Tolerance(max(a.tolerance.rtol, ROUNDED.rtol), max(a.tolerance.atol, ROUNDED.atol))
        mistakes = zip(old.mistakes, new.mistakes, strict=True)
        if not all(_rows_agree(m.table, k.table, n, rough) for m, k in mistakes):
            return False
    return True


def _rows_agree(old: Table, new: Table, number: int, tolerance: Tolerance) -> bool:
    """Return whether two tables agree in a case; `new` has nothing of the accelerator where that was not asked."""
    here = agree(old.on_cpu[number], new.on_cpu[number], tolerance)
    return here and (not new.elsewhere or agree(old.elsewhere[number], new.elsewhere[number], tolerance))


def proven_fresh(lesson: str) -> bool:
    """Return whether what is stored of a lesson agrees with what would be stored now.

    That runs in another process: it needs the simulated accelerator, which a process that uses CUDA cannot have.
    """
    env = {**os.environ, "TORCHCOURSE_ACCELERATOR": "simulated"}
    command = [sys.executable, "-m", "autograde.course.store", lesson]
    return subprocess.run(command, cwd=paths.ROOT, env=env, check=False).returncode == 0


def write(lesson: str) -> bool:
    """Store a lesson, unless what is stored already agrees; return whether it was written."""
    made = make(lesson, use_cache=True)
    if _fresh(lesson, made):
        return False
    paths.stored(lesson).parent.mkdir(exist_ok=True)
    write_atomically(paths.stored(lesson), stored_observations.dump(made))
    return True


if __name__ == "__main__":
    sys.exit(not _fresh(sys.argv[1], make(sys.argv[1])))
