"""Proving again whenever a file of the lesson changes."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from autograde import course, scaffold
from torchcourse.exercise import LESSONS

__all__ = ["changes", "prove_anew", "watched"]

AGAIN = "from torchcourse.cli import main; main()"
Stamps = dict[Path, tuple[int, int] | None]


def watched(which: Sequence[str]) -> list[Path]:
    """The files that the claims about lessons, or exercises as LESSON:EXERCISE, depend on."""
    lessons = dict.fromkeys(name.partition(":")[0] for name in which or LESSONS)
    shared = sorted((course.ROOT / "src" / "torchcourse" / "exercises").glob("*.py"))
    shared += [course.AUTOGRADE / "hidden" / "common.py", scaffold.SYLLABUS]
    own = [path for lesson in lessons for path in scaffold.files(lesson).values()]
    built = [path for lesson in lessons
             for path in (course.NOTEBOOKS / f"{lesson}.ipynb", course.STORED / f"{lesson}.bin")]  # fmt: skip
    return list(dict.fromkeys([*own, *built, *shared]))


def changes(paths: Sequence[Path], seconds: float = 0.5) -> Iterator[list[Path]]:
    """What has changed among `paths` since it was last asked for, once nothing changes any more.

    It looks at a few dozen files twice a second, which is next to no work and the same on every system.
    """
    known = _stamps(paths)
    while True:
        now = _stamps(paths)
        while now == known:
            time.sleep(seconds)
            now = _stamps(paths)
        settled = None
        while settled != now:  # editors write in several steps, and a build writes several files
            settled = now
            time.sleep(seconds)
            now = _stamps(paths)
        changed = [path for path in paths if now[path] != known[path]]
        known = now
        if changed:
            yield changed


def _stamps(paths: Sequence[Path]) -> Stamps:
    return {path: _stamp(path) for path in paths}


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def prove_anew(which: Sequence[str]) -> int:
    """Run `torchcourse verify` in a process of its own, which sees the files as they are now; its exit status."""
    return subprocess.run([sys.executable, "-c", AGAIN, "verify", *which], check=False).returncode
