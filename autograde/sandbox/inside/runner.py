"""The runner: executes the cells of one submission on one device and has its exercises probed."""

from __future__ import annotations

import os
import socket
from typing import Any

from .apart import end_others
from .framing import receive, send
from .limits import confine, cpu_time_limit
from .prober import Prober, probe_apart, probe_exercise, replace_thread_pool

__all__ = ["run_submission"]


def run_submission(job: socket.socket, shell: Any, message: dict[str, Any], configuration: dict[str, Any]) -> None:
    """Run the cells that come on `job`, then probe exercises for as long as the grader asks for them.

    The first message that is sent, before any cell has run, holds why the set-up failed, or "".
    """
    from torchcourse.model import codec
    from torchcourse.model.catalogue import find

    try:
        device = _set_up(message, configuration)
    except Exception as error:
        send(job, codec.pack({"fault": f"{type(error).__name__}: {error}"[:300]}))
        return
    send(job, codec.pack({"fault": ""}))
    _run_cells(job, shell, message)
    probers: list[Prober] = []
    while True:
        request = codec.unpack(receive(job))
        if request["do"] == "cases":  # meant for a prober that has ended
            receive(job)
            continue
        if find(request["exercise"])[1].has_rules:
            end_others(prober.pid for prober in probers)
        if device.name == "cpu":
            send(job, codec.pack({"ended": probe_apart(job, shell, request, device, probers)}))
        else:
            probe_exercise(job, shell, request, device)
            send(job, codec.pack({"ended": "done"}))


def _set_up(message: dict[str, Any], configuration: dict[str, Any]) -> Any:
    """Confine this process, prepare torch for the forks to come, and return the device to check on."""
    os.setsid()
    confine(message["limits"], configuration)
    replace_thread_pool()
    device = _device(message["device"])
    if device.name == "cpu":
        _run_first_backward()
    return device


def _run_cells(job: socket.socket, shell: Any, message: dict[str, Any]) -> None:
    """Run each cell that is not to be skipped, and report to the grader how it ended."""
    from torchcourse.model import codec

    skip = set(message["skip"])
    for number, source in enumerate(codec.unpack(receive(job))["cells"]):
        state, missing = "skipped", ""
        if number not in skip:
            state, missing = _run_cell(shell, source, message["cell_seconds"], message["wall_clock_factor"])
        send(job, codec.pack({"cell": number, "state": state, "missing": missing}))


def _run_first_backward() -> None:
    """Run a first backward now, so that autograd starts no device thread, which would not survive the fork of a prober.

    Autograd counts devices at the first backward; once a fake tensor has been made, as torch.compile does, it counts
    CUDA as one, whether there is a GPU or not.
    """
    import torch

    torch.ones(1, requires_grad=True).sum().backward()  # type: ignore[no-untyped-call]


def _device(name: str) -> Any:
    from torchcourse.model import devices

    return devices.CPU if name == "cpu" else devices.find_accelerator("simulated" if name == "simulated" else "")


def _run_cell(shell: Any, source: str, seconds: float, wall_clock_factor: float) -> tuple[str, str]:
    """Run one cell: return "done", "timeout" or the name of the exception that it raised, and the text of the
    exception where a name or an attribute is missing."""
    from torchcourse.checking.check import TimeIsUpError

    try:
        with cpu_time_limit(seconds, wall_clock_factor):
            result = shell.run_cell(source, store_history=False)
            raised = result.error_in_exec or result.error_before_exec
            missing = str(raised)[:200] if isinstance(raised, NameError | AttributeError) else ""
    except TimeIsUpError:
        return "timeout", ""
    except BaseException as error:
        return type(error).__name__, ""
    how = "timeout" if isinstance(raised, TimeIsUpError) else type(raised).__name__ if raised else "done"
    return how, missing
