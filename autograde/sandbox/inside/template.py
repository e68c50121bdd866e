"""The template: a process outside any sandbox that loads everything once and is forked for each worker.

It never runs a learner's code. Whatever is loaded here is shared by all workers, so nothing secret may be loaded.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import shutil
import signal
import socket
import tempfile
from typing import Any

from . import enter_namespaces, framing
from .supervisor import protect_from_children, supervise

__all__ = ["load", "run_template"]


def run_template(line: socket.socket) -> None:
    """Fork a worker for each order that comes on `line` until its other end is closed, and wait for them to end.

    The first message holds environment variables for loading. An order names modules to load and, if a worker
    is to be forked, carries the socket to the grader for that worker.
    """
    enter_namespaces.close_all_but(line.fileno())
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # so that ended workers need not be reaped
    protect_from_children()
    loading = json.loads(line.recv(1 << 16))
    os.environ.update(loading)  # they name folders that no other user can write to
    try:
        shell = load()
        while True:
            data, descriptors, _, _ = socket.recv_fds(line, 1 << 16, 1)
            if not data:
                break
            order = json.loads(data)
            load_modules(order["modules"])
            for control in descriptors:
                if os.fork() == 0:
                    line.close()
                    _start_worker(socket.socket(fileno=control), shell, order)
                os.close(control)
    finally:
        shutil.rmtree(loading["HOME"], ignore_errors=True)
    line.close()
    with contextlib.suppress(ChildProcessError):
        os.wait()


def _start_worker(control: socket.socket, shell: Any, order: dict[str, Any]) -> None:
    """Enter a sandbox and run its supervisor. Does not return."""
    try:
        if _enter_sandbox(control, shell, order):
            supervise(control, shell, order["configuration"])
    finally:
        os._exit(0)


def _enter_sandbox(control: socket.socket, shell: Any, order: dict[str, Any]) -> bool:
    """Enter a sandbox and give up all privileges; return False in the process that stays outside, and on failure."""
    configuration = order["configuration"]
    try:
        if order["group"]:
            enter_namespaces.enter_control_group(order["group"])
        if configuration["namespaces"]:
            enter_namespaces.enter(order["pid"])
            if os.fork():  # only a child is in the PID namespace
                return False
        enter_namespaces.detach(control.fileno(), configuration["home"])
        enter_namespaces.give_up_privileges(order["uid"])
        os.environ.clear()
        os.environ.update(configuration["environment"])
        _renew_folders(shell)
    except BaseException as error:
        with contextlib.suppress(OSError):
            framing.send(control, json.dumps({"failed": f"{type(error).__name__}: {error}"[:500]}).encode())
        return False
    return True


def _renew_folders(shell: Any) -> None:
    """Look up again the folders that depend on environment variables: Python and IPython remember those of the
    template."""
    tempfile.tempdir = None
    shell.ipython_dir = os.environ["IPYTHONDIR"]
    shell.init_profile_dir(None)


def load() -> Any:
    """Import what all lessons use and return the shell that runs cells.

    Nothing here may start a thread or initialise CUDA: neither survives a fork.
    """
    os.environ["TORCHCOURSE_SIMULATED"] = "off"
    gc.disable()  # until everything is loaded: collections would search all of it again and again
    import torch
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output
    from traitlets.config import Config

    torch.set_num_threads(1)
    import numpy.random  # noqa: F401 - loaded when random state is watched
    import torch._subclasses.fake_tensor
    import torch.distributed.tensor  # loaded by `assert_close` and by the first operation on a simulated device
    import torch.testing
    import torch.utils._device

    import torchcourse
    from torchcourse import simulated
    from torchcourse.checking import audit, call_watch, check, operator_record, probe  # noqa: F401
    from torchcourse.demos import style  # noqa: F401
    from torchcourse.model import catalogue

    forbids: list[tuple[str, ...]] = []
    for lesson in catalogue.LESSONS:
        with contextlib.suppress(Exception):  # an own lesson that is broken must not stop the grading of others
            forbids += [exercise.forbids for exercise in catalogue.exercises(lesson).values()]
    call_watch.warm(forbids)
    operator_record.keep_recording()
    audit.watch_preparations()
    simulated.prepare()
    config = Config()
    config.HistoryManager.enabled = False
    shell: Any = InteractiveShell.instance(config=config)
    shell.showtraceback = _do_nothing  # tracebacks are not read here, and formatting is slow
    shell.enable_gui = _do_nothing  # %matplotlib calls it
    shell._tee = lambda channel: contextlib.nullcontext()  # which would keep all that is printed in memory
    shell.display_pub.publish = _do_nothing  # the same for what is displayed
    with capture_output():
        shell.run_cell("import torch\ntorch.ones(2) + 1", store_history=False)
    shell.user_ns.pop("torch", None)
    setattr(torchcourse, "check", _do_nothing)  # noqa: B010 - cards are not seen here
    setattr(torchcourse, "hint", _do_nothing)  # noqa: B010
    return shell


def load_modules(modules: list[str]) -> None:
    """Import the modules that only some lessons use, and prepare for forks.

    Nothing is compiled here, though that would warm the compiler up: once a fake tensor exists, autograd starts a
    thread for CUDA at its first backward, which no fork of a runner survives.
    """
    from torchcourse.model.catalogue import preload

    preload(modules)
    gc.freeze()  # a collection in a fork would write to every object, and so copy all shared pages
    gc.enable()


def _do_nothing(*args: object, **kwargs: object) -> None:
    """Stand in for `check`, `hint` and what the shell would show."""
