"""The exercise `broadcast_model`: its probe, visible cases and hints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import kind
from torchcourse.probes.on_ranks import MODULES, on_ranks, rank


class Mixed(nn.Module):
    """A model with every kind of tensor that a model can hold; its numbers depend on a seed."""

    def __init__(self, width: int, seed: int, dtype: torch.dtype, strided: bool) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.linear = nn.Linear(width, 3, dtype=dtype)
        self.norm = nn.BatchNorm1d(3, dtype=dtype)
        self.scale = nn.Parameter(torch.randn((), dtype=dtype), requires_grad=False)
        self.tied = self.linear.weight
        self.register_buffer("table", torch.randn(4, dtype=dtype), persistent=False)
        self.register_buffer("nothing", None)
        self.norm.running_mean.normal_()  # type: ignore[union-attr]
        self.norm.num_batches_tracked.fill_(2**25 + 2 * seed + 1)  # type: ignore[union-attr]
        if strided:
            self.every_second = nn.Parameter(torch.randn(10, dtype=dtype)[::2])
            self.register_buffer("column", torch.randn(3, 4, dtype=dtype)[:, 1])


def held(model: nn.Module) -> dict[str, Tensor]:
    """Return a model's parameters and buffers by name."""
    return dict([*model.named_parameters(), *model.named_buffers()])


def program(
    answer: Callable[..., Any], src: int, width: int, seeds: list[int], dtype: torch.dtype, strided: bool
) -> Observations:
    """Observe the model of this rank afterwards."""
    model = Mixed(width, seeds[rank()], dtype, strided)
    before = held(model)
    places = {name: (tensor.data_ptr(), tensor.requires_grad) for name, tensor in before.items()}
    returned = answer(model, src)
    after = held(model)
    same = all(after.get(name) is tensor and after[name].data_ptr() == places[name][0]
               for name, tensor in before.items())  # fmt: skip
    kept = {name: tensor.requires_grad for name, tensor in after.items()}
    return {
        **{f"parameter {name}": tensor.detach() for name, tensor in model.named_parameters()},
        **{f"buffer {name}": tensor for name, tensor in model.named_buffers()},
        "tensor objects": "the same" if same else "replaced",
        "requires_grad": "as before" if kept == {n: flag for n, (_, flag) in places.items()} else "changed",
        "returned": kind(returned) if returned is not None else "None",
    }


def probe(answer: Watched, **inputs: Any) -> Observations:
    """Observe the models of all ranks."""
    return on_ranks(answer, program, inputs, len(inputs["seeds"]))


def cases(draw: Draw) -> list[Case]:
    def models(src: int, dtype: torch.dtype = torch.float32, strided: bool = False) -> dict[str, Any]:
        seeds = [draw.size(1, 499), draw.size(500, 999)]
        return {"src": src, "width": draw.size(2, 5), "seeds": seeds, "dtype": dtype, "strided": strided}

    return [
        case("from rank 0", **models(0)),
        case("from rank 1", **models(1)),
        case("float64, from rank 1", rtol=1e-12, atol=1e-12, **models(1, torch.float64)),
        case("strided parameters and buffers", **models(0, strided=True)),
    ]


def quotes(inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    src = inputs["src"]
    return {"src": src, "ended": seen.get(f"rank {src}")}


EXERCISE = Exercise(
    "broadcast_model",
    probe,
    cases,
    hints=(
        "A model holds two kinds of tensors, and an optimizer asks for one of them only. Which kind are the running "
        "statistics of a batch norm, and does `state_dict` have all of that kind?",
        "`dist.broadcast(tensor, src)` sends from one rank and writes into the tensor on all others. Every rank has to "
        "call it, for the same tensors in the same order. Do you need to ask which rank you are?",
        "A view with gaps, such as `t[::2]`, is sent and received as if it had none. Broadcast a contiguous copy, then "
        "write it into the tensor. How do you write into a parameter without the graph noticing?",
    ),
    any_device=False,
    quotes=quotes,
    imports=MODULES,
)
