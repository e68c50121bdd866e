"""The exercise `gradient_report`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.diagnosed_models import Snapshot, plain_number
from torchcourse.probes.observe import kind


class Branches(nn.Module):
    """A body whose parts get gradients of every kind: ordinary, zero, none."""

    def __init__(self, width: int, tied: bool) -> None:
        super().__init__()
        self.zebra = nn.Linear(width, width)  # its name sorts last
        self.dead = nn.Linear(width, width)
        self.cut = nn.Linear(width, width)
        self.unused = nn.Linear(width, 2)
        self.frozen = nn.Linear(width, width)
        self.head = nn.Linear(width, width)
        if tied:
            self.head.weight = self.zebra.weight

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.tanh(self.zebra(x))
        hidden = hidden + self.cut(x).detach() + 0 * self.dead(x) + self.frozen(hidden)
        out: Tensor = self.head(hidden)
        return out


def probe(answer: Watched, x: Tensor, seed: int, kind_of_model: str, stale: bool, backward: bool) -> Observations:
    """Observe the names and norms reported, and what became of the gradients."""
    torch.manual_seed(seed)
    model = Branches(x.shape[1], "tied" in kind_of_model).to(x.device, x.dtype)
    if stale:
        model.frozen(x).square().sum().backward()
    model.frozen.requires_grad_(False)
    if backward:
        factor = torch.nan if "NaN" in kind_of_model else torch.inf if "infinite" in kind_of_model else 1.0
        model(x * x).mul(factor).sum().backward()
    before = Snapshot(model)
    report = answer(model)
    if not isinstance(report, dict):
        return {"returned": kind(report)}
    norms = {f"norm of {name}": None if norm is None else plain_number(norm) for name, norm in sorted(report.items())}
    seen = before.seen()
    names = [name for name, _ in model.named_parameters()]
    known = [name for name in report if name in names]
    in_order = [name for name in names if name in known] == known
    return {
        **norms,
        "order": "as in named_parameters()" if in_order else "another one",
        "parameters afterwards": seen["parameters afterwards"],
        "gradients afterwards": seen["gradients afterwards"],
    }


def cases(draw: Draw) -> list[Case]:
    def drawn(kind_of_model: str = "", dtype: torch.dtype = torch.float32, **more: Any) -> dict[str, Any]:
        x = draw.normal(draw.size(3, 5), draw.size(3, 5), dtype=dtype)
        return {"x": x, "seed": draw.size(0, 9999), "kind_of_model": kind_of_model, "stale": False,
                "backward": True} | more  # fmt: skip

    return [
        case("after a backward", **drawn()),
        case("a frozen layer with an old gradient", **drawn(stale=True)),
        case("a tied weight", **drawn("tied")),
        case("before any backward", **drawn(backward=False)),
        case("a loss that was NaN", **drawn("NaN")),
        case("float64", **drawn(dtype=torch.float64)),
    ]


def quotes(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    extra = [name for name in seen if name not in wanted and name.startswith("norm of ")]
    missing = [name for name in wanted if name not in seen and name.startswith("norm of ")]
    fields: dict[str, object] = {"extra": extra[0].removeprefix("norm of ")} if extra else {}
    return fields | ({"missing": missing[0].removeprefix("norm of ")} if missing else {})


EXERCISE = Exercise(
    "gradient_report",
    probe,
    cases,
    hints=(
        "`named_parameters()` gives names and parameters in the order that is wanted. Which attribute says whether a "
        "parameter is to be trained at all?",
        "`.grad` can be a tensor of zeros, or no tensor. The first says that the loss does not change with this "
        "parameter; what does the second say?",
        "The norm is the root of the sum of squares, over all entries of one gradient. Which method of a tensor gives "
        "it, and which one makes a Python float of it?",
    ),
    quotes=quotes,
)
