"""Seed small faults into the engine, one at a time, and show that the tests notice each of them.

    python -m benchmarks.faults CHECKOUT [--only N …] [--workers 2] [--check]

A fault is a text that stands once in the engine, what a tired person might have written in its place, and the tests
that then have to fail: `benchmarks/faults.toml`. Where code moves, nothing has to change there; where names change, the
texts do: `--check` says which no longer fit or name tests that are gone, and runs no tests. Works on copies of
CHECKOUT, and first runs all these tests on one without a fault. Ends with 1 if a fault was missed, or does not fit the
code any more.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

FAULTS = Path(__file__).with_name("faults.toml")
ENGINE = ("src/torchcourse", "autograde")
LESSONS = ("exercises", "hidden", "stored")
"""Folders with the lessons' own code, which is not part of the engine."""
LEFT_OUT = shutil.ignore_patterns(".git", ".venv*", "__pycache__", ".*_cache", ".hypothesis", "build", "dist")
PASSED, FAILED = 0, 1
"""Exit statuses of pytest after running tests; all others mean that it could not run them."""


@dataclass(frozen=True)
class Fault:
    """A small change that breaks something, and tests, as arguments of pytest, at least one of which has to fail."""

    about: str
    find: str
    replace: str
    tests: tuple[str, ...]


def main() -> int:
    """Try the faults and print a table; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--only", type=int, nargs="+", help="the numbers of the faults to try")
    parser.add_argument("--workers", type=int, default=0, help="pytest's -n")
    parser.add_argument("--check", action="store_true", help="only say which faults are out of date")
    chosen = parser.parse_args()
    faults = {n: fault for n, fault in enumerate(read(FAULTS), 1) if not chosen.only or n in chosen.only}
    if chosen.check:
        return check(faults, chosen.checkout)
    print("without a fault: ", end="", flush=True)
    with copied(chosen.checkout) as tree:
        status, seconds = run(tree, sorted({test for fault in faults.values() for test in fault.tests}), chosen.workers)
    print(f"{'the tests pass' if status == PASSED else f'the tests do NOT pass ({status})'}, {seconds:.0f} s")
    rows = []
    for number, fault in faults.items():
        outcome, seconds = tried(fault, chosen.checkout, chosen.workers)
        print(f"{number:>3} {outcome}, {seconds:.0f} s: {fault.about}", flush=True)
        rows.append((number, fault.about, outcome, seconds))
    print("\n| | fault | outcome | seconds |\n|--:|:--|:--|--:|")
    print(
        *(f"| {number} | {about} | {outcome} | {seconds:.0f} |" for number, about, outcome, seconds in rows), sep="\n"
    )
    caught = sum(outcome == "caught" for _, _, outcome, _ in rows)
    print(f"\n{caught} of {len(rows)} caught, in {sum(row[3] for row in rows) / 60:.1f} minutes")
    return int(caught < len(rows) or status != PASSED)


def read(path: Path) -> list[Fault]:
    """Return the faults in a file."""
    found = tomllib.loads(path.read_text(encoding="utf-8"))["fault"]
    return [Fault(each["about"], each["find"], each["replace"], tuple(each["tests"])) for each in found]


def check(faults: Mapping[int, Fault], checkout: Path) -> int:
    """Print which faults do not stand exactly once in the engine, or name missing tests; return the exit status."""
    fitting = 0
    for number, fault in faults.items():
        problems = [f"{test} is not there" for test in missing_tests(fault, checkout)]
        if (count := len(places(fault, checkout))) != 1:
            problems.append(f"stands {count} times")
        if problems:
            print(f"{number:>3} {', '.join(problems)}: {fault.about}")
        fitting += not problems
    print(f"{fitting} of {len(faults)} fit")
    return int(fitting < len(faults))


def missing_tests(fault: Fault, checkout: Path) -> list[str]:
    """Return the tests of a fault that are not in a checkout."""
    missing = []
    for test in fault.tests:
        file, _, name = test.partition("::")
        path = checkout / file
        if not path.is_file() or (name and f"def {name}(" not in path.read_text(encoding="utf-8")):
            missing.append(test)
    return missing


def places(fault: Fault, checkout: Path) -> list[Path]:
    """Return the module of each place where a fault's text stands: exactly one, if it fits."""
    return [path for path in engine(checkout) for _ in range(path.read_text(encoding="utf-8").count(fault.find))]


@contextmanager
def copied(checkout: Path) -> Iterator[Path]:
    """Yield a copy of a checkout that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        tree = Path(folder) / "course"
        shutil.copytree(checkout, tree, ignore=LEFT_OUT, symlinks=True)
        yield tree


def tried(fault: Fault, checkout: Path, workers: int) -> tuple[str, float]:
    """Return whether the tests notice a fault, and the seconds that it took."""
    found = places(fault, checkout)
    if len(found) != 1:
        return f"NOT SEEDED, the text stands {len(found)} times in the engine", 0.0
    with copied(checkout) as tree:
        place = tree / found[0].relative_to(checkout)
        place.write_text(place.read_text(encoding="utf-8").replace(fault.find, fault.replace), encoding="utf-8")
        status, seconds = run(tree, fault.tests, workers)
    outcome = {PASSED: "MISSED", FAILED: "caught"}
    return outcome.get(status, f"NOT TRIED, pytest ended with {status}"), seconds


def engine(checkout: Path) -> Iterator[Path]:
    """Yield the modules that a fault may be in."""
    for folder in ENGINE:
        for path in sorted((checkout / folder).rglob("*.py")):
            if not set(LESSONS) & set(path.relative_to(checkout).parts):
                yield path


def run(tree: Path, tests: Sequence[str], workers: int) -> tuple[int, float]:
    """Run tests of a checkout with its own code; return pytest's exit status and the seconds that it took."""
    begun = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-n", str(workers)]
    variables = {"PYTHONPATH": f"{tree / 'src'}:{tree}", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [*command, "--timeout", "600", *tests],
        cwd=tree,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
    )
    if done.returncode != FAILED:
        print("\n".join(done.stdout.splitlines()[-3:]), flush=True)
    return done.returncode, time.monotonic() - begun


if __name__ == "__main__":
    sys.exit(main())
