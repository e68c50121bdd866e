"""The exercise `training_flops`: its probe, visible cases and hints."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.compilers import as_count


class Attention(nn.Module):
    """One head, by hand: four products of matrices."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.q, self.k = nn.Linear(width, width), nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        shares = (self.q(x) @ self.k(x).mT).softmax(-1)
        mixed: Tensor = shares @ x
        return mixed


class Frozen(nn.Sequential):
    """Two layers, of which the first is not trained."""

    def __init__(self, width: int) -> None:
        super().__init__(nn.Linear(width, 6), nn.ReLU(), nn.Linear(6, 3))
        self[0].requires_grad_(False)


class Tied(nn.Module):
    """One weight that is used twice."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.layer(self.layer(x)))


MODELS: dict[str, Callable[[int], nn.Module]] = {
    "one layer": lambda width: nn.Linear(width, 5),
    "two layers": lambda width: nn.Sequential(nn.Linear(width, 7), nn.ReLU(), nn.Linear(7, 2)),
    "a convolution": lambda channels: nn.Sequential(nn.Conv2d(channels, 3, 3), nn.ReLU(), nn.Conv2d(3, 2, 1)),
    "attention": Attention,
    "a frozen first layer": Frozen,
    "one layer, used twice": Tied,
}


def probe(answer: Watched, model: str, width: int, x: Tensor, followed: bool, earlier: bool) -> Observations:
    """Observe the count for one of `MODELS`, and whether the gradients are still those from before."""
    made = MODELS[model](width).to(x.device)
    x.requires_grad_(followed)
    leaves = {"x": x, **dict(made.named_parameters())}
    for leaf in leaves.values():
        if earlier and (leaf.requires_grad or leaf is not x):  # a frozen parameter may have one, too
            leaf.grad = torch.full_like(leaf, 2.0)
    before = {name: leaf.grad for name, leaf in leaves.items()}
    seen: Observations = {"result": as_count(answer.answer(made, x))}
    state = [_state(leaf.grad, before[name]) for name, leaf in leaves.items()]
    return {
        **seen,
        "gradients afterwards": next((s for s in state if s != "as before"), "as before"),
        "x requires grad afterwards": x.requires_grad,
    }


def _state(now: Tensor | None, before: Tensor | None) -> str:
    if now is None or before is None:
        return "as before" if now is before else "lost" if now is None else "new, where there were none"
    return "as before" if bool((now == 2).all()) else "changed"


def model_case(
    draw: Draw, model: str, *shape: int, name: str = "", width: int = 0, followed: bool = False, earlier: bool = False
) -> Case:
    """Return the case of a model on a drawn input that is `followed` by autograd, with `earlier` gradients or none."""
    width = width or shape[-1]
    return case(name or model, model=model, width=width, x=draw.normal(*shape), followed=followed, earlier=earlier)


def cases(draw: Draw) -> list[Case]:
    n, d = draw.size(3, 6), draw.size(4, 8)
    return [
        model_case(draw, "one layer", n, d),
        model_case(draw, "one layer", n, d, name="one layer, x requires grad", followed=True),
        model_case(draw, "two layers", n, d, name="two layers with gradients from before", earlier=True),
        model_case(draw, "a frozen first layer", n, d, earlier=True),
        model_case(draw, "a convolution", 2, 2, n + 4, d + 4, width=2),
        model_case(draw, "attention", 2, n, d),
    ]


EXERCISE = Exercise(
    "training_flops",
    probe,
    cases,
    hints=(
        "`torch.utils.flop_counter.FlopCounterMode(display=False)` counts while its block runs. What belongs inside of "
        "the block, if forward and backward shall count?",
        "`loss.backward()` adds to every `.grad`. What did each of them hold before, None included, and how do you put "
        "that back afterwards? Do not forget x.",
        "Adding to a gradient in place would change the very tensor that you noted. What can you set `.grad` to before "
        "backward, so that backward makes a new one?",
    ),
)
