"""A sandbox that bubblewrap made and that nobody works in yet: its first process only waits (`inside/holder.py`)."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Callable
from functools import partial

from autograde.enclosure import Enclosure
from autograde.settings import LIMITS

__all__ = ["HoldingError", "hold", "hold_for_nobody", "let_go"]


class HoldingError(RuntimeError):
    """There is no sandbox; the message is what bubblewrap said."""


def hold(
    command: Callable[[int], list[str]], env: dict[str, str], seconds: float
) -> tuple[subprocess.Popen[bytes], int]:
    """Make a sandbox: the process that ends it when it ends or its input is closed, and the id of the first one inside.

    Args:
        command: makes bubblewrap's command, with the descriptor that it writes that id to.
        seconds: after which it is given up.

    Raises:
        HoldingError: when there is none by then.
    """
    ours, told = os.pipe()
    deadline = time.monotonic() + seconds
    try:
        process = subprocess.Popen(
            command(told), env=env, pass_fds=[told],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
    except OSError:
        os.close(ours)
        raise
    finally:
        os.close(told)
    assert process.stdout is not None
    try:
        described = b""
        while not described.rstrip().endswith(b"}"):
            described += _some(ours, deadline)
        _some(process.stdout.fileno(), deadline)  # it says that it is there once everything is mounted
        return process, int(json.loads(described)["child-pid"])
    except (EOFError, TimeoutError, ValueError, KeyError) as error:
        raise HoldingError(let_go(process) or f"bubblewrap made no sandbox ({type(error).__name__})") from None
    finally:
        os.close(ours)


def hold_for_nobody(seconds: float) -> tuple[subprocess.Popen[bytes], int]:
    """Make a sandbox that is no worker's, as `hold` does."""
    enclosure = Enclosure()
    return hold(partial(enclosure.holding, 0, LIMITS.scratch_bytes), enclosure.environment("/tmp"), seconds)


def _some(descriptor: int, deadline: float) -> bytes:
    if not select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
        raise TimeoutError
    data = os.read(descriptor, 1 << 12)
    if not data:
        raise EOFError
    return data


def let_go(process: subprocess.Popen[bytes]) -> str:
    """End a sandbox; what was said on standard error."""
    process.kill()
    return process.communicate()[1].decode(errors="replace")
