"""The exercise `update_ratios`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from autograde.hidden.common import override
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "What counts is what the optimizer really did, momentum, decay and adaptive rates included, so the parameters "
    "are copied before the step and compared after it. `clone` is needed, since the step writes into the same memory. "
    "The norm before is the measure, and a zero parameter has none."
)
"""Why the reference is written as it is."""
REQUIRED = ("uses-lr-times-gradient", "snapshot-shares-memory", "missing-zero-grad")
"""The mistakes that a check must always be able to name."""

UPDATES = "The size of an update"
Named = dict[str, Tensor]


class Ratios:
    """A right program; a mistake overrides one of its methods."""

    def __call__(self, model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> Any:
        before = {name: self.copied(p) for name, p in self.listed(model)}
        self.mode(model)
        self.clear(optimizer, model)
        loss_fn(model(batch[0]), batch[1]).backward()
        self.step(optimizer)
        return {name: self.ratio(p, before[name], optimizer) for name, p in self.listed(model)}

    def listed(self, model: nn.Module) -> Any:
        return list(model.named_parameters())

    def copied(self, p: Tensor) -> Tensor:
        return p.detach().clone()

    def mode(self, model: nn.Module) -> None:
        model.train()

    def clear(self, optimizer: Any, _model: nn.Module) -> None:
        optimizer.zero_grad()

    def step(self, optimizer: Any) -> None:
        optimizer.step()

    def ratio(self, p: Tensor, before: Tensor, optimizer: Any) -> Any:
        return self.divided(self.change(p.detach(), before, optimizer), before, p.detach())

    def change(self, p: Tensor, before: Tensor, _optimizer: Any) -> Any:
        return (p - before).norm().item()

    def divided(self, change: float, before: Tensor, _after: Tensor) -> Any:
        size = before.norm().item()
        return change / size if size else 0.0


def measuring(**methods: Any) -> Callable[..., Any]:
    """Return the right program with these methods in place of its own."""
    program: Callable[..., Any] = override(Ratios, **methods)()
    return program


class LrTimesGradient(Ratios):
    def ratio(self, p: Tensor, before: Tensor, optimizer: Any) -> Any:
        if p.grad is None:
            return 0.0
        return self.divided(optimizer.param_groups[0]["lr"] * p.grad.norm().item(), before, p)


def lr_times_gradient_and_no_step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> Any:
    return override(LrTimesGradient, step=lambda self, optimizer: None)()(model, batch, loss_fn, optimizer)


def nothing(_self: Ratios, _optimizer: Any, _model: nn.Module) -> None:
    return None


def nan_for_zero(_self: Ratios, change: float, before: Tensor, _after: Tensor) -> Any:
    return (torch.tensor(change) / before.norm().cpu()).item()


def by_the_norm_afterwards(_self: Ratios, change: float, before: Tensor, after: Tensor) -> float:
    return change / float(after.norm()) if float(before.norm()) else 0.0


def plus_a_little(_self: Ratios, change: float, before: Tensor, _after: Tensor) -> float:
    return change / (float(before.norm()) + 1e-12)


def zero_if_small(_self: Ratios, change: float, before: Tensor, _after: Tensor) -> float:
    size = before.norm().item()
    return change / size if size > 1e-8 else 0.0


def by_mean_sizes(_self: Ratios, p: Tensor, before: Tensor, _optimizer: Any) -> float:
    size = before.abs().mean().item()
    return (p.detach() - before).abs().mean().item() / size if size else 0.0


RATIO = 'In the case "{case}" the {what} came out as {got} where {want} is wanted: '
MISTAKES = [
    Mistake("uses-lr-times-gradient", LrTimesGradient(), RATIO + "the learning rate times the gradient is the step of "
            "plain SGD alone; look at what the optimizer really did.", UPDATES),
    Mistake("uses-lr-times-gradient", lr_times_gradient_and_no_step, RATIO + "the learning rate times the gradient is "
            "the step of plain SGD alone, and here no step was even taken.", UPDATES),
    *(Mistake("snapshot-shares-memory", measuring(copied=copied), RATIO + "what was kept shares the parameter's "
              "memory, as `detach`, `.data` and `state_dict` do, and moved along with it; `clone` makes a copy that "
              "stays.", UPDATES)
      for copied in (lambda self, p: p.detach(), lambda self, p: p.data)),
    Mistake("missing-zero-grad", measuring(clear=nothing), RATIO + "gradients of an earlier batch "
            "were still there, and `backward` added to them.", UPDATES),
    Mistake("clears-the-models-gradients", measuring(clear=lambda self, optimizer, model: model.zero_grad()), "In "
            'the case "{case}" {what} is {got} by the step, and should be {want}: `model.zero_grad()` does not reach '
            "its old gradient, but `optimizer.zero_grad()` does.", UPDATES),
    Mistake("small-counts-as-zero", measuring(divided=zero_if_small), RATIO + "the norm before the step was small, "
            "but not 0.",
            UPDATES),
    Mistake("nan-for-zero-parameter", measuring(divided=nan_for_zero), RATIO + "the norm before the step was 0, and "
            "then the ratio has to be 0.0.", UPDATES),
    Mistake("adds-to-the-norm", measuring(divided=plus_a_little), RATIO + "the parameter was zero, and a small "
            "number took the place of its norm. The ratio has to be 0.0 then.", UPDATES),
    Mistake("divides-by-the-norm-afterwards", measuring(divided=by_the_norm_afterwards), RATIO + "divide by the norm "
            "before the step.", UPDATES),
    Mistake("missing-zero-grad", measuring(clear=nothing, divided=by_the_norm_afterwards), RATIO
            + "gradients of an earlier batch were still there. And the norm to divide by is that before the step.",
            UPDATES),
    Mistake("difference-of-norms", measuring(change=lambda self, p, before, optimizer: abs(p.norm() - before.norm()
            ).item()), RATIO + "two norms were subtracted, but a parameter that turns without growing has moved too.",
            UPDATES),
    Mistake("not-divided", measuring(divided=lambda self, change, before, after: change), RATIO + "that is the norm "
            "of the change, which still has to be divided by the norm before the step.", UPDATES),
    Mistake("divides-by-the-norm-afterwards", measuring(mode=lambda self, model: None, divided=by_the_norm_afterwards),
            RATIO + "divide by the norm before the step. And the model was not put into training mode.", UPDATES),
    Mistake("means-not-norms", measuring(ratio=by_mean_sizes), RATIO + "it was computed from mean sizes, but norms "
            "are asked for.", UPDATES),
    Mistake("leaves-out-frozen", measuring(listed=lambda self, model: [(n, p) for n, p in model.named_parameters()
            if p.requires_grad]), "In the case \"{case}\" there is no entry for {missing}: what is frozen moves by "
            "0.0, which is worth seeing.", UPDATES),
    Mistake("eval-mode", measuring(mode=lambda self, model: model.eval()), "The model ran in {ran}, and {should_run} "
            "is wanted: this is a step of training.", UPDATES),
    Mistake("eval-mode", measuring(mode=lambda self, model: None), "The model ran in {ran}, and {should_run} is "
            "wanted: this is a step of training, so put the model into that mode.", UPDATES),
    Mistake("eval-mode", measuring(mode=lambda self, model: None, clear=nothing), "The model ran "
            "in {ran}, and {should_run} is wanted; gradients of an earlier batch were not cleared, either.", UPDATES),
    Mistake("takes-buffers-too", measuring(listed=lambda self, model: list(model.state_dict().items())), "In the case "
            "\"{case}\" the call raised {error}: `state_dict()` holds buffers as well, such as a counter, which has no "
            "norm; `named_parameters()` gives the parameters alone.", UPDATES),
    Mistake("never-steps", measuring(step=lambda self, optimizer: None), RATIO + "no step was taken.", UPDATES),
    Mistake("returns-tensors", measuring(ratio=lambda self, p, before, optimizer: torch.tensor(Ratios().ratio(p, before,
            optimizer))), RATIO + "`item()` makes a number of it.", UPDATES),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    def drawn(optimizer: str, dtype: torch.dtype = torch.float32, **more: Any) -> dict[str, Any]:
        inputs, classes, rows = draw.size(2, 6), draw.size(2, 5), draw.size(4, 9)
        return {
            "x": draw.normal(rows, inputs, dtype=dtype), "y": draw.integers(0, classes, rows),
            "sizes": [inputs, draw.size(4, 8), classes], "seed": draw.size(0, 9999), "optimizer": optimizer,
            "frozen": False, "stale": False, **more,
        }  # fmt: skip

    return [
        case("momentum, frozen, with old gradients", **drawn("momentum", frozen=True, stale=True)),
        case("AdamW, float64, with old gradients", **drawn("AdamW", torch.float64, stale=True)),
    ]


# Right answers unlike the reference


def ratios_from_a_copy(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> dict[str, float]:
    old: Named = copy.deepcopy({n: p.data for n, p in model.named_parameters()})
    optimizer.zero_grad(set_to_none=False)
    model.train(True)
    x, y = batch
    loss_fn(model(x), y).backward()
    optimizer.step()
    with torch.no_grad():
        return {
            n: 0.0 if not old[n].any() else float((p - old[n]).norm() / old[n].norm())
            for n, p in model.named_parameters()
        }


def ratios_with_a_closure(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> dict[str, Any]:
    names, parameters = zip(*model.named_parameters(), strict=True)
    before = [p.detach().cpu().clone() for p in parameters]

    def closure() -> Any:
        optimizer.zero_grad()
        loss = loss_fn(model.train()(batch[0]), batch[1])
        loss.backward()
        return loss

    optimizer.step(closure)
    ratios = []
    for p, was in zip(parameters, before, strict=True):
        moved = torch.linalg.vector_norm(p.detach().cpu() - was).item()
        ratios.append(moved / max(torch.linalg.vector_norm(was).item(), 1e-30) if was.abs().sum() > 0 else 0.0)
    return dict(zip(names, ratios, strict=True))


RIGHT_ANSWERS: list[Callable[..., Any]] = [ratios_from_a_copy, ratios_with_a_closure]
