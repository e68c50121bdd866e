"""Run a program in a Python of its own, which finds both halves of the course."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["COMMAND", "alone", "environment"]

ROOT = Path(__file__).parents[2]
COMMAND = "from torchcourse.cli import main; main()"
"""The program `torchcourse`."""


def alone(
    code: str, *arguments: object, cwd: Path | None = None, **variables: str | None
) -> subprocess.CompletedProcess[str]:
    """Run a program, with `variables` in its environment as `environment` takes them, and return how it ended."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    env = environment(**variables)
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=300, check=False)


def environment(**variables: str | None) -> dict[str, str]:
    """Return this process's environment with both halves on the path and other variables; those of None are not set."""
    ours = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]), **variables}
    return {name: value for name, value in ours.items() if value is not None}
