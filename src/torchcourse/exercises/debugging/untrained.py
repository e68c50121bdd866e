"""The exercise `untrained`: its probe, visible cases and hints."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import kind

KEYS = ("frozen", "not_in_optimizer", "no_gradient")


class Net(nn.Module):
    """A backbone of two layers, a head and a layer that is never called."""

    def __init__(self, width: int, tied: bool) -> None:
        super().__init__()
        self.stem = nn.Linear(width, width)
        self.backbone = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width))
        self.spare = nn.Linear(width, 2)
        self.head = nn.Linear(width, width)
        if tied:
            self.head.weight = self.stem.weight
        for p in (self.stem.bias, self.head.bias):
            nn.init.zeros_(p)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.backbone(self.stem(x)))
        return out


def optimizer_for(model: Net, which: str) -> torch.optim.Optimizer:
    """Return an optimizer that holds all parameters, or a part, in one group or several."""
    if which == "all, a group for each layer":
        return torch.optim.SGD([{"params": list(part.parameters())} for part in model.children()], 0.1)
    if which == "the head alone":
        return torch.optim.SGD(model.head.parameters(), 0.1)
    if which == "all but the backbone":
        groups: list[Any] = [{"params": [*model.stem.parameters(), *model.spare.parameters()]},
                             {"params": list(model.head.parameters()), "lr": 0.01}]  # fmt: skip
        return torch.optim.AdamW(groups, 0.1)
    if which == "the second name of a tied weight":
        return torch.optim.SGD([*model.head.parameters(), *model.backbone.parameters(), model.stem.bias], 0.1)
    return torch.optim.Adam(model.parameters(), 0.1)


def changed(model: Net, how: str) -> None:
    """Change the model after its optimizer was made."""
    if how in ("a new head", "a copy of the head"):
        model.head = copy.deepcopy(model.head)
        if how == "a new head":
            model.head.reset_parameters()
            nn.init.zeros_(model.head.bias)
    if how == "frozen backbone":
        model.backbone.requires_grad_(False)
    if how == "frozen and unused":
        model.spare.requires_grad_(False)
        model.stem.bias.requires_grad_(False)


def probe(answer: Watched, width: int, seed: int, tied: bool, holds: str, how: str, backward: bool) -> Observations:
    """Observe the names under each key, and whether parameters and gradients are as they were."""
    torch.manual_seed(seed)
    model = Net(width, tied)
    optimizer = optimizer_for(model, holds)
    changed(model, how)
    if backward:
        out = model(torch.linspace(-1, 1, 3 * width).view(3, -1))
        (0 * out).sum().backward() if how == "zero gradients" else out.square().sum().backward()
    values = [p.detach().clone() for p in model.parameters()]
    gradients = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
    found = answer(model, optimizer)
    if not isinstance(found, dict):
        return {"returned": kind(found)}
    now = list(zip(model.parameters(), values, gradients, strict=True))
    same = all(torch.equal(p, v) and (p.grad is g is None or _equal(p.grad, g)) for p, v, g in now)
    return {
        **{key: _names(found.get(key, "no such key")) for key in KEYS},
        "order of the names": "sorted" if all(v == _names(v) for k, v in found.items() if k in KEYS) else "not sorted",
        "other keys": sorted(str(key) for key in found.keys() - set(KEYS)),
        "parameters and gradients": "as before" if same else "changed",
    }


def _names(found: Any) -> Any:
    """Return names in order, whatever order they came in; the order is an observation of its own."""
    return sorted(map(str, found)) if isinstance(found, list) else found


def _equal(one: Tensor | None, other: Tensor | None) -> bool:
    return one is not None and other is not None and torch.equal(one, other)


def cases(draw: Draw) -> list[Case]:
    def drawn(holds: str = "all", how: str = "", tied: bool = False, backward: bool = True) -> dict[str, Any]:
        return {"width": draw.size(3, 5), "seed": draw.size(0, 9999), "tied": tied, "holds": holds, "how": how,
                "backward": backward}  # fmt: skip

    return [
        case("everything is held", **drawn()),
        case("the head alone is held", **drawn("the head alone")),
        case("a backbone that was forgotten, in two groups", **drawn("all but the backbone")),
        case("a frozen backbone, not held", **drawn("all but the backbone", "frozen backbone")),
        case("the head was replaced afterwards", **drawn(how="a new head")),
        case("the head was copied afterwards", **drawn(how="a copy of the head")),
        case("gradients of zero", **drawn(how="zero gradients")),
        case("held under its second name", **drawn("the second name of a tied weight", tied=True)),
        case("before any backward", **drawn(how="frozen and unused", tied=True, backward=False)),
    ]


def quotes(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    missed = {key: sorted({*wanted[key]} - {*seen[key]}) for key in KEYS if isinstance(seen.get(key), list)}
    added = {key: sorted({*seen[key]} - {*wanted[key]}) for key in KEYS if isinstance(seen.get(key), list)}
    fields: dict[str, object] = {f"missed_{key}": ", ".join(names) for key, names in missed.items() if names}
    return fields | {f"added_{key}": ", ".join(names) for key, names in added.items() if names}


EXERCISE = Exercise(
    "untrained",
    probe,
    cases,
    hints=(
        "Where does an optimizer keep the parameters it holds? There may be several groups. And what does it mean "
        "that a list of tensors is asked with `in`?",
        "Two tensors with the same numbers are two tensors. Which function of Python tells one object from another, "
        "whatever it holds?",
        "Three questions, in a fixed order, and the first that applies counts. Which of them is asked of the "
        "parameter itself, which of the optimizer, and which of `.grad`?",
    ),
    any_device=False,
    quotes=quotes,
)
