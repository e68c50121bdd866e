"""The exercise `launch_info`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import torch

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import kind

KEYS = {"rank", "local_rank", "world_size", "device", "backend"}


def probe(answer: Watched, environ: dict[str, str], cuda_count: int) -> Observations:
    """Observe each entry of the dict, and whether the environment is changed."""
    given = dict(environ)
    found = answer(given, cuda_count)
    if not isinstance(found, dict) or found.keys() != KEYS:
        keys = f" with the keys {', '.join(sorted(map(str, found)))}" if isinstance(found, dict) else ""
        return {"returned": kind(found) + keys}
    device = found["device"]
    return {
        **{name: found[name] for name in ("rank", "local_rank", "world_size", "backend")},
        "device": str(device),
        "type of device": "torch.device" if isinstance(device, torch.device) else type(device).__name__,
        "environ afterwards": "as before" if given == environ else "changed",
    }


def torchrun(rank: int, local_rank: int, world_size: int, local_world_size: int) -> dict[str, str]:
    """Return the variables that torchrun sets for a process, with others that an environment has."""
    return {
        "HOME": "/home/learner", "RANK": str(rank), "LOCAL_RANK": str(local_rank), "WORLD_SIZE": str(world_size),
        "LOCAL_WORLD_SIZE": str(local_world_size), "MASTER_ADDR": "10.0.0.7", "MASTER_PORT": "29500",
    }  # fmt: skip


def cases(draw: Draw) -> list[Case]:
    gpus = draw.size(3, 6)
    local, node = draw.size(1, gpus - 1), draw.size(1, 4)
    # the first machine has one process fewer, so that a rank does not tell the local rank
    there: dict[str, Any] = {"environ": torchrun(node * gpus + local - 1, local, 6 * gpus - 1, gpus)}
    return [
        case("two processes, two GPUs", environ=torchrun(1, 1, 2, 2), cuda_count=2),
        case("several machines with GPUs", **there, cuda_count=gpus),
        case("several machines without GPUs", **there, cuda_count=0),
        case("fewer GPUs than processes on the machine", **there, cuda_count=gpus - 1),
        case("fewer GPUs, for the first process", environ=torchrun(gpus, 0, 2 * gpus, gpus), cuda_count=gpus - 1),
        case("GPUs to spare", environ=torchrun(0, 0, 2, 1), cuda_count=8),
        case("not started by torchrun, no GPU", environ={"HOME": "/home/learner"}, cuda_count=0),
        case("not started by torchrun, one GPU", environ={"HOME": "/home/learner"}, cuda_count=1),
    ]


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    env = inputs["environ"]
    fields: dict[str, object] = {f"env_{name.lower()}": env.get(name, "not set") for name in
                                 ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")}  # fmt: skip
    fields |= {"used": seen.get("device"), "right": wanted.get("device"), "backend_used": seen.get("backend")}
    return fields | {"gpus": inputs["cuda_count"]}


EXERCISE = Exercise(
    "launch_info",
    probe,
    cases,
    hints=(
        "Print what torchrun sets: RANK counts over all machines, LOCAL_RANK on this one. Which of the two can be the "
        "number of a GPU, if the second machine's ranks begin at 4 and its GPUs at 0?",
        "`environ` is a dict of strings. `environ.get(name, default)` copes with a process that torchrun did not "
        "start; what are rank and world size there?",
        "One comparison decides about backend and device together: are there at least as many GPUs on this machine as "
        "processes on this machine? LOCAL_WORLD_SIZE counts the latter.",
    ),
    any_device=False,
    quotes=quotes,
)
