"""A trial worker: enters a sandbox as workers do, without loading anything, and reports the active layers."""

from __future__ import annotations

import json
import os
import resource
from typing import Any

from . import enter_namespaces, landlock, seccomp
from .limits import enter_work_folder, restrict_files

__all__ = ["try_worker"]


def try_worker(pid: int, uid: int, configuration: dict[str, Any]) -> dict[str, Any]:
    """Return the active layers: the version of Landlock ("landlock"), whether system calls are filtered ("seccomp") and
    whether a process's memory is limited ("memory"); "failed" gives the reason where no worker could be started, or "".

    Args:
        pid: the pause process of the sandbox.
        uid: the user to become, or 0 for no change.
        configuration: `Isolation.worker_configuration`.
    """
    result, child_end = os.pipe()
    try:
        if configuration["namespaces"]:
            enter_namespaces.enter(pid)
    except (AttributeError, OSError) as error:
        return {"failed": str(error)}
    if (worker := os.fork()) == 0:
        try:
            os.write(child_end, json.dumps(_layers(child_end, uid, configuration)).encode())
        finally:
            os._exit(0)
    os.close(child_end)
    with os.fdopen(result, "rb") as answer:
        reported = json.loads(answer.read() or b"{}")
    os.waitpid(worker, 0)  # a sandbox takes two seconds to end while one of its processes has not been reaped
    return {"failed": "the trial worker ended without giving a reason", **reported}


def _layers(keep: int, uid: int, configuration: dict[str, Any]) -> dict[str, Any]:
    try:
        enter_namespaces.detach(keep, configuration["home"])
        enter_namespaces.give_up_privileges(uid)
        enter_work_folder(configuration)
        version = landlock.version() if restrict_files(configuration) else 0
    except OSError as error:
        return {"failed": str(error)}
    resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30))
    try:
        limited = not bytearray(5 << 28)
    except MemoryError:
        limited = True
    return {"failed": "", "landlock": version, "seccomp": seccomp.install_filter(), "memory": limited}
