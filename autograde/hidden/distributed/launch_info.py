"""The exercise `launch_info`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import torch

from autograde.source.mistakes import Mistake
from torchcourse.exercises.distributed.launch_info import torchrun
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "Every variable has a default that describes a single process, so the same script also runs without torchrun. "
    "The GPU is chosen by the local rank, because GPUs are numbered on each machine from 0. One comparison decides "
    "about device and backend together: nccl without a GPU for each process fails or shares one."
)
"""Why the reference is written as it is."""
REQUIRED = ("global-rank-as-device", "hardcoded-nccl", "fails-without-torchrun")
"""The mistakes that a check must always be able to name."""

RANKS = "Ranks, and how torchrun starts them"


def numbers(environ: Mapping[str, str]) -> dict[str, Any]:
    return {"rank": int(environ.get("RANK", 0)), "local_rank": int(environ.get("LOCAL_RANK", 0)),
            "world_size": int(environ.get("WORLD_SIZE", 1))}  # fmt: skip


def info(environ: Mapping[str, str], own_gpu: bool) -> dict[str, Any]:
    """Return a right dict, if `own_gpu` is right."""
    found = numbers(environ)
    device = torch.device("cuda", found["local_rank"]) if own_gpu else torch.device("cpu")
    return found | {"device": device, "backend": "nccl" if own_gpu else "gloo"}


def right(environ: Mapping[str, str], cuda_count: int) -> dict[str, Any]:
    return info(environ, int(environ.get("LOCAL_WORLD_SIZE", 1)) <= cuda_count)


def device_by_rank(environ: Mapping[str, str], cuda_count: int) -> dict[str, Any]:
    found = right(environ, cuda_count)
    return found | ({"device": torch.device("cuda", found["rank"])} if found["backend"] == "nccl" else {})


def always_nccl(environ: Mapping[str, str], cuda_count: int) -> dict[str, Any]:
    return info(environ, own_gpu=True)


def nccl_on_any_device(environ: Mapping[str, str], cuda_count: int) -> dict[str, Any]:
    return right(environ, cuda_count) | {"backend": "nccl"}


def nccl_with_any_gpu(environ: Mapping[str, str], cuda_count: int) -> dict[str, Any]:
    return info(environ, cuda_count > 0)


def nccl_in_turns(environ: Mapping[str, str], cuda_count: int) -> dict[str, Any]:
    found = nccl_with_any_gpu(environ, cuda_count)
    return found | ({"device": torch.device("cuda", found["local_rank"] % cuda_count)} if cuda_count else {})


def never_a_gpu(environ: Mapping[str, str], cuda_count: int) -> dict[str, Any]:
    return info(environ, own_gpu=False)


def by_world_size(environ: Mapping[str, str], cuda_count: int) -> dict[str, Any]:
    return info(environ, int(environ.get("WORLD_SIZE", 1)) <= cuda_count)


def by_local_rank(environ: Mapping[str, str], cuda_count: int) -> dict[str, Any]:
    return info(environ, int(environ.get("LOCAL_RANK", 0)) < cuda_count)


def wants_a_spare_gpu(environ: Mapping[str, str], cuda_count: int) -> dict[str, Any]:
    return info(environ, int(environ.get("LOCAL_WORLD_SIZE", 1)) < cuda_count)


def alone_on_the_cpu(environ: Mapping[str, str], cuda_count: int) -> dict[str, Any]:
    return right(environ, cuda_count) if "RANK" in environ else info(environ, own_gpu=False)


def local_rank_from_rank(environ: Mapping[str, str], cuda_count: int) -> dict[str, Any]:
    local_rank = int(environ.get("RANK", 0)) % int(environ.get("LOCAL_WORLD_SIZE", 1))
    return right({**environ, "LOCAL_RANK": str(local_rank)}, cuda_count)


def needs_torchrun(environ: Mapping[str, str], cuda_count: int) -> dict[str, Any]:
    assert environ["RANK"] and environ["LOCAL_RANK"] and environ["WORLD_SIZE"]
    return right(environ, cuda_count)


def reads_the_own_environment(environ: Mapping[str, str], cuda_count: int) -> dict[str, Any]:
    others = {name: value for name, value in os.environ.items() if "RANK" not in name and "WORLD" not in name}
    return right(others, cuda_count)


def strings(environ: Mapping[str, str], cuda_count: int) -> dict[str, Any]:
    return right(environ, cuda_count) | {name: str(value) for name, value in numbers(environ).items()}


def strings_where_set(environ: Mapping[str, str], cuda_count: int) -> dict[str, Any]:
    return right(environ, cuda_count) | {
        "rank": environ.get("RANK", 0), "local_rank": environ.get("LOCAL_RANK", 0),
        "world_size": environ.get("WORLD_SIZE", 1),
    }  # fmt: skip


def device_as_text(environ: Mapping[str, str], cuda_count: int) -> dict[str, Any]:
    found = right(environ, cuda_count)
    return found | {"device": str(found["device"])}


SHARED = (
    'In the case "{case}" the backend is {backend_used} with {gpus} GPUs and LOCAL_WORLD_SIZE {env_local_world_size}: '
)
WITH_GPUS = 'In the case "{case}" the backend is {backend_used} with {gpus} GPUs: '
MISTAKES = [
    Mistake("global-rank-as-device", device_by_rank, "RANK is {env_rank} and LOCAL_RANK {env_local_rank}, and the "
            "device came out as {used}: GPUs are numbered from 0 on each machine, so it should be {right}.", RANKS),
    Mistake("hardcoded-nccl", always_nccl, SHARED + "nccl needs a GPU for each process of the machine, and without "
            "them gloo on the CPU does the work.", RANKS),
    Mistake("hardcoded-nccl", nccl_on_any_device, SHARED + "nccl cannot exchange tensors that are on the CPU.", RANKS),
    Mistake("shares-gpus", nccl_with_any_gpu, SHARED + "two processes would share a GPU, which nccl refuses.", RANKS),
    Mistake("shares-gpus", nccl_in_turns, SHARED + "two processes would share a GPU, which nccl refuses.", RANKS),
    Mistake("shares-gpus", by_local_rank, SHARED + "some ranks of this machine would use nccl and others gloo, and "
            "they would never meet.", RANKS),
    Mistake("counts-all-machines", by_world_size, SHARED + "WORLD_SIZE, {env_world_size}, counts the processes of all "
            "machines, and the GPUs are those of one.", RANKS),
    Mistake("never-a-gpu", never_a_gpu, WITH_GPUS + "`cuda_count` says how many GPUs there are; let it decide.", RANKS),
    Mistake("wants-a-spare-gpu", wants_a_spare_gpu, WITH_GPUS + "as many GPUs as processes are enough.", RANKS),
    Mistake("alone-on-the-cpu", alone_on_the_cpu, WITH_GPUS + "a process that torchrun did not start takes a GPU "
            "as well.", RANKS),
    Mistake("local-rank-from-rank", local_rank_from_rank, "RANK is {env_rank}, LOCAL_RANK {env_local_rank} and "
            "LOCAL_WORLD_SIZE {env_local_world_size}, and the {what} came out as {got} where {want} is wanted: the "
            "remainder of RANK is the local rank only if all machines have equally many processes.", RANKS),
    Mistake("fails-without-torchrun", needs_torchrun, 'In the case "{case}" the call raised {error}: without torchrun '
            "the variables are not set, and then this is the only process.", RANKS),
    Mistake("ignores-environ", reads_the_own_environment, 'In the case "{case}" the {what} came out as {got} where '
            "{want} is wanted: the variables are in the argument `environ`.", RANKS),
    *(Mistake("strings-as-numbers", program, 'In the case "{case}" the '
              "{what} is {got}: environment variables are text, and `int` turns them into numbers.", RANKS)
      for program in (strings, strings_where_set)),
    Mistake("device-as-text", device_as_text, "The {what} is {got}; `torch.device` makes a {want}.", RANKS),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    gpus = draw.size(2, 8)
    local = draw.size(0, gpus - 1)
    return [
        case("a single node", environ=torchrun(local, local, gpus, gpus), cuda_count=gpus),
        case("one GPU too few", environ=torchrun(gpus + local, local, 3 * gpus, gpus), cuda_count=gpus - 1),
        case("more GPUs than processes", environ=torchrun(gpus + local, local, 2 * gpus, gpus), cuda_count=gpus + 1),
        case("not started by torchrun, many GPUs", environ={}, cuda_count=8),
    ]


# Right answers unlike the reference


def info_in_two_branches(environ: Mapping[str, str], cuda_count: int) -> dict[str, Any]:
    if "RANK" not in environ:
        device = "cuda:0" if cuda_count else "cpu"
        return {"rank": 0, "local_rank": 0, "world_size": 1, "device": torch.device(device),
                "backend": "nccl" if cuda_count else "gloo"}  # fmt: skip
    rank, local, world, here = (int(environ[k]) for k in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"))
    enough = cuda_count >= here
    return {"rank": rank, "local_rank": local, "world_size": world, "backend": ("gloo", "nccl")[enough],
            "device": torch.device(f"cuda:{local}" if enough else "cpu")}  # fmt: skip


def info_by_names(environ: Mapping[str, str], cuda_count: int) -> dict[str, Any]:
    defaults = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}
    found: dict[str, Any] = {name.lower(): int({**defaults, **environ}[name]) for name in defaults}
    gpu = found.pop("local_world_size") <= cuda_count
    found["device"] = torch.device(type="cuda", index=found["local_rank"]) if gpu else torch.device("cpu")
    found["backend"] = "nccl" if found["device"].type == "cuda" else "gloo"
    return found


RIGHT_ANSWERS: list[Callable[..., Any]] = [info_in_two_branches, info_by_names]
