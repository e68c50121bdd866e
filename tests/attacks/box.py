"""The outer box that destructive attacks are graded in: a hole in the sandbox must fail a test, never the machine.

An unprivileged user, a PID namespace that dies with its first process, few processes, little memory: for each process,
and for all together where a control group can be made. bubblewrap nests inside.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from autograde.sandbox.control_group import make_group
from autograde.source import paths as course

UID = 64_990
OTHERS = 0 if os.geteuid() == 0 else 300
"""Processes and threads that an ordinary user may have come to have outside since the box was made: they count too."""
PROCESSES, DATA_BYTES, FILE_BYTES, ALL_BYTES = 150, 3 << 30, 1 << 29, 6 << 30
SHOW = """
set -e
hold=$(mktemp -d)
while [ "$1" != -- ]; do
    if [ "$1" = top ]; then
        top=$2
        mount --bind "$top" "$hold"
        mount -t tmpfs -o mode=0755 tmpfs "$top"
    else
        mkdir -p "$2"
        mount --bind "$hold${2#"$top"}" "$2"
    fi
    shift 2
done
while umount -l "$hold" 2>/dev/null; do :; done
rmdir "$hold"
shift
exec "$@"
"""
"""Root's shell, in a mount namespace of its own: of each `top`, a folder that only root may enter, only what is needed
is left. Python may lie in root's home, and nobody else could start it there."""


@contextmanager
def box(*command: str) -> Iterator[list[str]]:
    """`command`, to be run in the box."""
    limits = [f"--nproc={PROCESSES + OTHERS + _mine()}", f"--data={DATA_BYTES}", f"--fsize={FILE_BYTES}", "--core=0"]
    inner = ["prlimit", *limits, "unshare", "--user", "--map-current-user", "--pid", "--fork", "--kill-child",
             "--mount-proc", *command]  # fmt: skip
    if os.geteuid() == 0:
        dropped = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", *inner]
        inner = ["unshare", "--mount", "sh", "-c", SHOW, "sh", *_hidden(), "--", *dropped]
    group = make_group(ALL_BYTES, PROCESSES)
    try:
        yield group.inside(inner) if group else inner
    finally:
        if group:
            group.remove()


def _hidden() -> list[str]:
    """Folders that only root may enter, each followed by what is needed of it."""
    needed: dict[str, list[str]] = {}
    for path in sorted({sys.base_prefix, sys.prefix, str(course.ROOT)}):
        closed = [p for p in reversed(Path(path).parents) if not p.stat().st_mode & 0o001]
        if closed:
            needed.setdefault(str(closed[0]), []).append(path)
    return [word for top, paths in needed.items() for word in ("top", top, *(w for p in paths for w in ("needed", p)))]


def _mine() -> int:
    """The limit counts an ordinary user's other processes and threads too."""
    if os.geteuid() == 0:
        return 0
    owned = (p for p in Path("/proc").glob("[0-9]*") if p.exists() and p.stat().st_uid == os.getuid())
    return sum(len(list((p / "task").iterdir())) for p in owned if (p / "task").is_dir())


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder that the user in the box can reach: pytest's own let nobody else through."""
    with tempfile.TemporaryDirectory(prefix="box-", ignore_cleanup_errors=True) as made:
        yield Path(made)


def run_in_box(*arguments: str, folder: Path, seconds: float = 900.0) -> subprocess.CompletedProcess[str]:
    """Python with these arguments, in the box; `folder` is its scratch folder and will be its user's."""
    if os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, UID, UID)
    env = {**os.environ, "HOME": str(folder), "TMPDIR": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    with box(sys.executable, *arguments) as command:
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=seconds, check=False)
