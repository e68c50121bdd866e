"""What tests of the sandbox share: cells run in it one after another, and what is seen of processes from outside."""

from __future__ import annotations

from pathlib import Path

from autograde.sandbox import LostError, Sandbox

__all__ = ["arguments", "states"]


def states(sandbox: Sandbox, *cells: str) -> list[str]:
    """How each cell ended, "died" where the process did."""
    ended: list[str] = []
    try:
        with sandbox.job("cpu", list(cells), []) as job:
            for _ in cells:
                ended.append(str(job.receive(120).get("state")))
    except LostError:
        ended.append("died")
    return ended


def arguments(process: Path) -> bytes:
    """The command line of the process with this folder in /proc; nothing where it is gone."""
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""
