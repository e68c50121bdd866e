"""The outer box that destructive attacks are graded in: a hole in the sandbox must fail a test, never the machine.

An unprivileged user, a PID namespace that dies with its first process, few processes, little memory: for each process,
and for all together where a control group can be made. bubblewrap nests inside.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from autograde.cgroup import make_group

UID = 64_990
PROCESSES, DATA_BYTES, FILE_BYTES, ALL_BYTES = 150, 3 << 30, 1 << 29, 6 << 30


@contextmanager
def box(*command: str) -> Iterator[list[str]]:
    """`command`, to be run in the box."""
    limits = [f"--nproc={PROCESSES + _mine()}", f"--data={DATA_BYTES}", f"--fsize={FILE_BYTES}", "--core=0"]
    inner = ["prlimit", *limits, "unshare", "--user", "--map-current-user", "--pid", "--fork", "--kill-child",
             "--mount-proc", *command]  # fmt: skip
    if os.geteuid() == 0:
        inner = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", *inner]
    group = make_group(ALL_BYTES, PROCESSES)
    try:
        yield group.joining(inner) if group else inner
    finally:
        if group:
            group.remove()


def _mine() -> int:
    """The limit counts an ordinary user's other processes and threads too."""
    if os.geteuid() == 0:
        return 0
    owned = (p for p in Path("/proc").glob("[0-9]*") if p.exists() and p.stat().st_uid == os.getuid())
    return sum(len(list((p / "task").iterdir())) for p in owned if (p / "task").is_dir())


def run_in_box(*arguments: str, folder: Path, seconds: float = 500.0) -> subprocess.CompletedProcess[str]:
    """Python with these arguments, in the box; `folder` is its scratch folder and will be its user's."""
    if os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, UID, UID)
        for above in folder.parents[:2]:  # pytest lets nobody else through
            above.chmod(0o711)
    env = {**os.environ, "HOME": str(folder), "TMPDIR": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    with box(sys.executable, *arguments) as command:
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=seconds, check=False)
