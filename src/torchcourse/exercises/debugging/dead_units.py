"""The exercise `dead_units`: its probe, visible cases and hints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.diagnosed_models import (
    Halving,
    Runs,
    Snapshot,
    changed_modes,
    count_of_hooks,
    expecting,
    plain_number,
)
from torchcourse.probes.winding_models import BREAKS


class Hidden(nn.Module):
    """A hidden layer with a relu, behind a dropout that draws nothing, and a head.

    Later operations write into what the linear layer and the relu put out.

    Args:
        forward: "once"; "twice": the relu is called again, with the numbers of other units; or "raises".
    """

    def __init__(self, weight: Tensor, bias: Tensor, forward: str) -> None:
        super().__init__()
        self.way = forward
        self.runs = Runs()
        units, inputs = weight.shape
        self.body = nn.ModuleDict({"drop": Halving(), "stem": nn.Linear(inputs, units), "act": nn.ReLU(inplace=True)})
        self.norm = nn.LayerNorm(units)
        self.head = nn.Linear(units, 2)
        with torch.no_grad():
            self.body["stem"].weight.copy_(weight)  # type: ignore[operator]
            self.body["stem"].bias.copy_(bias)  # type: ignore[operator]

    def forward(self, x: Tensor) -> Tensor:
        self.runs.add(self)
        hidden = self.body["stem"](self.body["drop"](x))
        shifted = hidden.roll(1, -1)
        hidden = self.body["act"](hidden)
        if self.way == "twice":
            hidden = hidden + self.body["act"](shifted)
        if self.way == "raises":
            raise RuntimeError(BREAKS)
        out: Tensor = self.head(self.norm(hidden.add_(1)))
        return out


class Loader:
    """Gives batches in order, as often as it is gone through; like a DataLoader it has no index."""

    def __init__(self, batches: list[Any]) -> None:
        self.batches = batches

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.batches)


def probe(
    answer: Watched, x: Tensor, weight: Tensor, bias: Tensor, layer: str, batch: int, pairs: bool, starts: str,
    forward: str = "once",
) -> Observations:  # fmt: skip
    """Observe the share, and what became of the model."""
    model = Hidden(weight, bias, forward).to(x.device, x.dtype)
    model.train(starts != "evaluation")
    model.norm.train(starts == "training")
    parts = torch.split(x, batch)
    labelled = [(part, torch.zeros(len(part), dtype=torch.int64)) for part in parts]
    # lists, as a DataLoader makes them, and tuples
    loader = Loader([list(pair) if n % 2 else pair for n, pair in enumerate(labelled)] if pairs else [*parts])
    before = Snapshot(model)
    share = expecting(lambda: answer(model, layer, loader=loader), BREAKS)
    seen: Observations = {} if forward == "raises" else {"share": plain_number(share)}
    return {**seen, "the model ran in": model.runs.modes, **before.seen()}


def firing(draw: Draw, x: Tensor, times: list[int]) -> dict[str, Tensor]:
    """Draw a layer whose units put out something for exactly so many of the rows of x each."""
    rows = x.reshape(-1, x.shape[-1]).double()
    weight = draw.normal(len(times), x.shape[-1], dtype=torch.float64)
    sizes = (rows @ weight.T).sort(dim=0, descending=True).values
    padded = torch.cat([sizes[:1] + 1, sizes, sizes[-1:] - 1])
    bias = torch.stack([-(padded[n, unit] + padded[n + 1, unit]) / 2 for unit, n in enumerate(times)])
    return {"weight": weight.to(x.dtype), "bias": bias.to(x.dtype)}


def cancelling(draw: Draw, units: int, width: int) -> dict[str, Any]:
    """Draw inputs for which the outputs of each unit of the linear layer add up to zero, and are not zero."""
    row = draw.normal(1, width)
    layer = {"weight": draw.normal(units, width), "bias": torch.zeros(units), "layer": "body.stem"}
    return {"x": torch.cat([row, -row]), **layer, "batch": 2, "pairs": True, "starts": "training"}


def tiny(draw: Draw, times: list[int], width: int) -> dict[str, Any]:
    """Draw a layer as `firing` does, whose outputs are too small to be squared."""
    x = draw.normal(8, width)
    layer = {name: t * 1e-30 for name, t in firing(draw, x, times).items()}
    return {"x": x, **layer, "layer": "body.act", "batch": 4, "pairs": True, "starts": "training"}


def not_above_zero(draw: Draw, units: int, width: int) -> dict[str, Any]:
    """Draw a linear layer that puts out negative numbers and zeros; the last unit is dead."""
    row, weight = draw.normal(1, width), draw.normal(units, width)
    weight *= -(weight @ row.T).sign()
    weight[-1] = 0
    layer = {"weight": weight, "bias": torch.zeros(units), "layer": "body.stem"}
    return {"x": torch.cat([0 * row, row, 2 * row, 0 * row]), **layer, "batch": 2, "pairs": True, "starts": "training"}


def cases(draw: Draw) -> list[Case]:
    def drawn(
        *shape: int, batch: int, times: list[int], layer: str = "body.act", pairs: bool = True,
        starts: str = "training", dtype: torch.dtype = torch.float32,
    ) -> dict[str, Any]:  # fmt: skip
        x = draw.normal(*shape, dtype=dtype)
        return {"x": x, **firing(draw, x, times), "layer": layer, "batch": batch, "pairs": pairs, "starts": starts}

    d = draw.size(3, 5)
    return [
        case("some units never fire", **drawn(12, d, batch=4, times=[0, 0, 1, 2, 6, 12])),
        case("all units fire once", **drawn(9, d, batch=4, times=[1, 1, 1, 1, 1])),
        case("a frozen submodule", **drawn(10, d, batch=5, times=[0, 3, 1, 10], starts="frozen norm")),
        case("a model in evaluation mode", **drawn(8, d, batch=3, times=[0, 2, 8, 0], starts="evaluation")),
        case("batches without labels", **drawn(7, d, batch=3, times=[0, 0, 0, 5, 2], pairs=False)),
        case("sequences", **drawn(4, 3, d, batch=2, times=[0, 1, 2, 0, 5, 12, 1, 1, 2, 0, 3])),
        case("a layer that puts out negative numbers", **drawn(8, d, batch=4, times=[0, 0, 3, 4], layer="body.stem")),
        case("float64", **drawn(6, d, batch=2, times=[0, 1, 2], dtype=torch.float64)),
        case("outputs that cancel", **cancelling(draw, 4, d)),
        case("outputs very near zero", **tiny(draw, [0, 1, 3, 8, 2], d)),
        case("zero at most", **not_above_zero(draw, 4, d)),
        case("a relu that is called twice", **drawn(8, d, batch=4, times=[0, 0, 3, 0, 8]), forward="twice"),
        case("the model raises", **drawn(6, d, batch=3, times=[0, 2, 6], starts="frozen norm"), forward="raises"),
    ]


def quotes(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"share": seen.get("share"), "right": wanted.get("share")}
    fields |= {"ran": seen.get("the model ran in"), "left": count_of_hooks(seen)}
    return fields | {"modes": changed_modes(seen)}


EXERCISE = Exercise(
    "dead_units",
    probe,
    cases,
    hints=(
        "A unit is dead if it is silent everywhere, so one sample is enough to acquit it. What do you have to remember "
        "about each unit from batch to batch?",
        "A hook on the submodule sees its outputs. The last dimension counts the units; how do you bring all others "
        "into one, whatever their number?",
        "Take the output at once, not later: an operation after it may write into it. And what has to be put back "
        "after the last batch, besides the hook?",
    ),
    quotes=quotes,
)
