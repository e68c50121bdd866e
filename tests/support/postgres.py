"""A PostgreSQL server for tests, where it is installed: started in a scratch folder, by an ordinary user."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

__all__ = ["HAS_POSTGRES", "database", "needs_postgres"]


def server() -> Path | None:
    """Where the newest server's programs are; Debian keeps them off the path."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return found[-1].parent if found else None


def nobody() -> list[str] | None:
    """What lets a command run as an ordinary user, which the server insists on; None where root cannot do that."""
    if os.geteuid():
        return []
    return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if shutil.which("setpriv") else None


HAS_POSTGRES = server() is not None and nobody() is not None
needs_postgres = pytest.mark.skipif(
    not HAS_POSTGRES, reason="PostgreSQL is optional; its gradebook is tested where it is installed"
)


@contextmanager
def database() -> Iterator[str]:
    """Yield the URL of an empty database. The server listens at a socket in its folder, and nowhere else."""
    bin_, prefix = server(), nobody()
    assert bin_ is not None
    assert prefix is not None
    made = subprocess.run([*prefix, "mktemp", "-d", "/tmp/torchcourse-postgres-XXXXXX"], capture_output=True, text=True,
                          check=True)  # fmt: skip
    folder = Path(made.stdout.strip())  # a short path: a socket's may have 107 characters
    user = "nobody" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    try:
        run([*prefix, bin_ / "initdb", "-D", folder / "data", "-U", user, "-A", "trust", "-N", "-E", "UTF8",
             "--locale=C"])  # fmt: skip
        options = f"-k {folder} -c listen_addresses='' -c fsync=off -c shared_buffers=16MB"
        run([*prefix, bin_ / "pg_ctl", "-D", folder / "data", "-l", folder / "log", "-w", "-t", "300", "-o", options,
             "start"])  # fmt: skip
        try:
            run([*prefix, bin_ / "createdb", "-h", folder, "-U", user, "book"])
            yield f"postgresql://{user}@/book?host={folder}"
        finally:
            run([*prefix, bin_ / "pg_ctl", "-D", folder / "data", "-m", "immediate", "stop"])
    finally:
        shutil.rmtree(folder)


def run(command: list[str | Path]) -> None:
    done = subprocess.run(command, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=600, check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout
