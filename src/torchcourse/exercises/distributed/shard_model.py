"""The exercise `shard_model`: its probe, visible cases and hints."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import kind
from torchcourse.probes.on_ranks import MODULES, on_ranks, rank
from torchcourse.probes.sharded_models import Blocks, drawn_model, gathered, local_elements

OPTIMIZERS: dict[str, Any] = {
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=0.05),
    "SGD with momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
}


REASONS = {
    "value was None": "sharded in the wrong order",
    "overlapping meshes": "sharded in the wrong order",
    "do not implement forward": "no forward",
}
"""What torch's exceptions are about, by words of their messages."""


def program(
    answer: Callable[..., Any], width: int, depth: int, seed: int, optimizer: str, xs: list[Tensor], ys: list[Tensor]
) -> Observations:
    """Observe what is sharded, then the losses and weights of some steps, each rank on its half of the batch."""
    model = Blocks(width, depth, seed)
    count = sum(p.numel() for p in model.parameters())
    given: list[int] = []

    def make_optimizer(parameters: Iterable[Tensor]) -> torch.optim.Optimizer:
        listed = list(parameters)
        given.append(sum(p.numel() for p in listed if isinstance(p, Tensor)))
        made: torch.optim.Optimizer = OPTIMIZERS[optimizer](listed)
        return made

    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("ranks",))
    made = answer(model, mesh, make_optimizer)
    shards = [p for p in model.parameters() if isinstance(p, DTensor)]
    seen: Observations = {
        "optimizers made": len(given),
        "elements that the optimizer was given": [n == count for n in given],
        "blocks sharded by themselves": [isinstance(block, FSDPModule) for block in model.blocks],
        "the model itself": "sharded" if isinstance(model, FSDPModule) else "not sharded",
        "parameters that are shards": len(shards),
        "mesh of the shards": "the given one" if all(p.device_mesh == mesh for p in shards) else "another one",
        "share of this rank": local_elements(model) / count,
        "modules in training mode": all(module.training for module in model.modules()),
    }
    if not isinstance(made, torch.optim.Optimizer):
        return seen | {"returned": kind(made)}
    for x, y in zip(xs, ys, strict=True):
        half = len(x) // 2
        mine = slice(0, half) if rank() == 0 else slice(half, None)
        made.zero_grad()
        F.mse_loss(model(x[mine]), y[mine]).backward()  # type: ignore[no-untyped-call]
        made.step()
    seen["blocks gathered together with another"] = gathered_with_another(model)
    return seen | {f"trained {name}": gathered(p) for name, p in model.named_parameters()}


def gathered_with_another(model: Blocks) -> int:
    """Return how many other blocks are whole while each block in turn is gathered, added up."""
    count = 0
    for one in model.blocks:
        if isinstance(one, FSDPModule):
            one.unshard()
            others = [block for block in model.blocks if block is not one]
            count += sum(any(not isinstance(p, DTensor) for p in block.parameters()) for block in others)
            one.reshard()
    return count


def probe(answer: Watched, **inputs: Any) -> Observations:
    """Observe both ranks."""
    return on_ranks(answer, program, inputs, reasons=REASONS)


def cases(draw: Draw) -> list[Case]:
    def training(optimizer: str, steps: int = 2, **more: int) -> dict[str, Any]:
        rows = 2 * draw.size(2, 4)
        xs = [draw.normal(rows, 3, dtype=torch.float64) for _ in range(steps)]
        ys = [draw.normal(rows, 2, dtype=torch.float64) for _ in range(steps)]
        return drawn_model(draw) | {"optimizer": optimizer, "xs": xs, "ys": ys} | more

    exactly = {"rtol": 1e-9, "atol": 1e-10}
    return [
        case("AdamW", **exactly, **training("AdamW")),
        case("SGD with momentum", **exactly, **training("SGD with momentum", steps=3)),
        case("before training", **exactly, **training("AdamW", steps=0, depth=draw.size(4, 6))),
    ]


def quotes(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"sharded": seen.get("blocks sharded by themselves, rank 0")}
    share = seen.get("share of this rank, rank 0")
    fields |= {"share": f"{share:.0%}"} if isinstance(share, float) else {}
    return fields | {"whole_model": seen.get("the model itself, rank 0")}


EXERCISE = Exercise(
    "shard_model",
    probe,
    cases,
    hints=(
        "`fully_shard` groups the parameters of a module that are not in a group yet, and each group is gathered "
        "together. Which groups do you get if you begin with the model, and which if you begin with the blocks?",
        "After the call each parameter of the module is another object, a shard. What does an optimizer hold that was "
        "made before?",
        "The first and the last layer are in no block. A last call for the model itself takes what is left; it also "
        "makes the model gather and reduce in the right order.",
    ),
    any_device=False,
    quotes=quotes,
    imports=MODULES,
)
