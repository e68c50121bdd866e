"""The exercise `td_loss`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import float32_digits, kept, look


def probe(answer: Watched, online: Tensor, target: Tensor, shared: bool) -> dict[str, Any]:
    """Observe the loss and its gradients; with `shared`, both inputs come out of one weight, as the two halves of a
    temporal difference do."""
    leaves = [online.clone().requires_grad_(), target.clone().requires_grad_()]
    weight = torch.ones(online.shape[-1:], dtype=online.dtype, device=online.device).requires_grad_()
    guess, goal = (leaves[0] * weight, leaves[1] * weight) if shared else leaves
    before = guess.detach().clone(), goal.detach().clone()
    loss = answer(guess, goal)
    seen = look(loss, online)
    seen["follows the graph"] = bool(getattr(loss, "requires_grad", False))
    if seen["follows the graph"]:
        wanted = {"gradient of online": leaves[0], "gradient of target": leaves[1]}
        wanted |= {"gradient of the shared weight": weight} if shared else {}
        followed = {name: leaf for name, leaf in wanted.items() if leaf.requires_grad}  # an answer may have ended that
        found = torch.autograd.grad(loss.sum(), [*followed.values()], allow_unused=True)
        seen |= dict.fromkeys(wanted) | dict(zip(followed, found, strict=True))
    seen["target requires grad afterwards"] = goal.requires_grad
    return {**seen, **kept(online=(guess.detach(), before[0]), target=(goal.detach(), before[1]))}


def derive(case: Case, seen: Observations) -> Observations:
    """Take a gradient of zeros for no gradient."""
    seen = float32_digits(case, seen)
    name = "gradient of target"
    if isinstance(seen.get(name), Tensor) and not seen[name].any():
        return {**seen, name: None}
    return seen


def cases(draw: Draw) -> list[Case]:
    n = draw.size(3, 5)

    def drawn(name: str, shared: bool, *shape: int, dtype: torch.dtype = torch.float32) -> Case:
        online, target = draw.normal(*shape, dtype=dtype), draw.normal(*shape, dtype=dtype)
        digits = {"rtol": 1e-10, "atol": 1e-12} if dtype == torch.float64 else {}
        return case(name, **digits, online=online, target=target, shared=shared)

    return [
        drawn("two tensors", False, n),
        drawn("both from one weight", True, n),
        drawn("a matrix", False, 2, n),
        drawn("float64", True, n, dtype=torch.float64),
    ]


def quotes(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"loss": seen["result"], "right": wanted["result"]}
    for name in ("online", "target"):
        found = seen.get(f"gradient of {name}")
        fields |= {f"{name}_grad": found.flatten()[0]} if isinstance(found, Tensor) else {}
    return fields | {"follows": seen["follows the graph"], "requires": seen["target requires grad afterwards"]}


EXERCISE = Exercise(
    "td_loss",
    probe,
    cases,
    hints=(
        "The target is to be treated as a number that somebody handed you. Which method gives the same values without "
        "their history?",
        "If the whole loss is computed under `no_grad`, what is left to train the prediction with? Cut at one place "
        "only.",
        "Squares, then a mean over all entries. Afterwards ask for the gradient of both inputs: one should get one, "
        "the other none, and the caller's target should still require grad.",
    ),
    derive=derive,
    quotes=quotes,
)
