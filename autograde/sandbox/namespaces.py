"""Start sandboxes with bubblewrap, each around a pause process: its first process, which only waits."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Callable
from functools import partial

from autograde.sandbox.configuration import Isolation
from autograde.settings import LIMITS

__all__ = ["NamespacesError", "release", "start_pause_process"]


END_SECONDS = 5.0
"""How long a sandbox may take to end by itself before it is killed."""


class NamespacesError(RuntimeError):
    """No sandbox could be made; the message is what bubblewrap wrote to standard error."""


def start_pause_process(
    seconds: float, command: Callable[[int], list[str]] | None = None
) -> tuple[subprocess.Popen[bytes], int]:
    """Make a sandbox around a pause process (`inside/pause_process.py`).

    Args:
        seconds: limit on wall time.
        command: returns bubblewrap's command, given the descriptor that bubblewrap writes the process id to; by
            default the command of a sandbox for no particular worker.

    Returns:
        bubblewrap's process, with which the sandbox ends, and the id of the pause process.

    Raises:
        NamespacesError: when there is no sandbox within `seconds`.
    """
    command = command or partial(Isolation().pause_command, 0, LIMITS.scratch_bytes)
    info, child_end = os.pipe()
    deadline = time.monotonic() + seconds
    try:
        process = subprocess.Popen(
            command(child_end),
            env={"PATH": os.environ.get("PATH", "")},  # bubblewrap's environment can be read inside, in /proc/1/environ
            pass_fds=[child_end],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except OSError:
        os.close(info)
        raise
    finally:
        os.close(child_end)
    assert process.stdout is not None
    try:
        described = b""  # JSON
        while not described.rstrip().endswith(b"}"):
            described += _read(info, deadline)
        _read(process.stdout.fileno(), deadline)  # it says "ready" once everything is mounted
        return process, int(json.loads(described)["child-pid"])
    except (EOFError, TimeoutError, ValueError, KeyError) as error:
        raise NamespacesError(release(process) or f"bubblewrap made no sandbox ({type(error).__name__})") from None
    finally:
        os.close(info)


def _read(descriptor: int, deadline: float) -> bytes:
    if not select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
        raise TimeoutError
    data = os.read(descriptor, 1 << 12)
    if not data:
        raise EOFError
    return data


def release(process: subprocess.Popen[bytes]) -> str:
    """End a sandbox; return what bubblewrap wrote to standard error.

    The pause process ends when its standard input is closed, and bubblewrap reaps it. If bubblewrap were killed first,
    the pause process would be left to the first process of the machine or container, which may never reap it; and such
    zombies count against the limit on processes of the workers' user.
    """
    try:
        return process.communicate(timeout=END_SECONDS)[1].decode(errors="replace")
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[1].decode(errors="replace")
