"""The exercise `guarded_step`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from autograde.hidden.common import override
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case
from torchcourse.probes.trainable_models import learning

WHY = (
    "The question stands between `backward` and `step`, because a finite loss can have a gradient that is not, and the "
    "other way round. A skipped step calls nothing of the optimizer but `zero_grad`, so its averages and counters "
    "stay; the gradients go, lest they meet those of the next batch."
)
"""Why the reference is written as it is."""
REQUIRED = ("clips-nan-and-steps", "checks-loss-only", "keeps-bad-gradients")
"""The mistakes that a check must always be able to name."""

GUARD = "A guard before the step"


class Guarded:
    """A right program; a mistake overrides one of its methods."""

    def __call__(self, model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any, max_norm: float) -> Any:
        self.mode(model)
        self.clear(optimizer, model)
        loss = loss_fn(model(batch[0]), batch[1])
        self.backward(loss)
        norm = self.clip(list(model.parameters()), max_norm)
        stepped = self.fine(loss.item(), norm)
        self.act(stepped, optimizer)
        return self.returned({"loss": loss.item(), "grad_norm": norm, "stepped": stepped}, model)

    def mode(self, model: nn.Module) -> None:
        pass

    def clear(self, optimizer: Any, _model: nn.Module) -> None:
        optimizer.zero_grad()

    def backward(self, loss: Tensor) -> None:
        loss.backward()  # type: ignore[no-untyped-call]

    def clip(self, parameters: list[Tensor], max_norm: float) -> float:
        return nn.utils.clip_grad_norm_(parameters, max_norm).item()

    def fine(self, loss: float, norm: float) -> bool:
        return math.isfinite(loss) and math.isfinite(norm)

    def act(self, stepped: bool, optimizer: Any) -> None:
        if stepped:
            optimizer.step()
        else:
            optimizer.zero_grad()

    def returned(self, outcome: dict[str, Any], _model: nn.Module) -> Any:
        return outcome


def stepping(**methods: Any) -> Callable[..., Any]:
    """Return the right program with these methods in place of its own."""
    program: Callable[..., Any] = override(Guarded, **methods)()
    return program


def nothing(_self: Guarded, _optimizer: Any, _model: nn.Module) -> None:
    return None


def steps_anyway(_self: Guarded, _stepped: bool, optimizer: Any) -> None:
    optimizer.step()


def gradients_left(_self: Guarded, stepped: bool, optimizer: Any) -> None:
    if stepped:
        optimizer.step()


def steps_on_zeros(_self: Guarded, stepped: bool, optimizer: Any) -> None:
    if not stepped:
        optimizer.zero_grad(set_to_none=False)
    optimizer.step()


def not_clipped(_self: Guarded, parameters: list[Tensor], _max_norm: float) -> float:
    return nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None]).item()


def norm_afterwards(_self: Guarded, parameters: list[Tensor], max_norm: float) -> float:
    nn.utils.clip_grad_norm_(parameters, max_norm)
    return not_clipped(_self, parameters, max_norm)


def by_value(_self: Guarded, parameters: list[Tensor], max_norm: float) -> float:
    norm = not_clipped(_self, parameters, max_norm)
    nn.utils.clip_grad_value_(parameters, max_norm)
    return norm


def one_by_one(_self: Guarded, parameters: list[Tensor], max_norm: float) -> float:
    norm = not_clipped(_self, parameters, max_norm)
    for p in parameters:
        nn.utils.clip_grad_norm_([p], max_norm)
    return norm


def always_to_max_norm(_self: Guarded, parameters: list[Tensor], max_norm: float) -> float:
    norm = not_clipped(_self, parameters, max_norm)
    for p in parameters:
        assert p.grad is not None
        p.grad.mul_(max_norm / norm)
    return norm


def returning_before_backward(norm: float | None) -> Callable[..., Any]:
    """Return a program that gives this norm if the loss is not finite."""

    def returns(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any, max_norm: float) -> Any:
        optimizer.zero_grad()
        with torch.no_grad():
            loss = loss_fn(model(batch[0]), batch[1]).item()
        if not math.isfinite(loss):
            return {"loss": loss, "grad_norm": norm, "stepped": False}
        return stepping()(model, batch, loss_fn, optimizer, max_norm)

    return returns


def of_what_the_optimizer_holds(
    model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any, max_norm: float
) -> dict[str, Any]:
    held = [p for group in optimizer.param_groups for p in group["params"]]
    result: dict[str, Any] = stepping(clip=lambda self, _parameters, limit: Guarded.clip(self, held, limit))(
        model, batch, loss_fn, optimizer, max_norm
    )
    return result


def undoes_the_step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any, max_norm: float) -> Any:
    before = copy.deepcopy(model.state_dict())
    outcome = stepping(act=steps_anyway)(model, batch, loss_fn, optimizer, max_norm)
    if not outcome["stepped"]:
        model.load_state_dict(before)
        optimizer.zero_grad()
    return outcome


def always_stepped(_self: Guarded, outcome: dict[str, Any], _model: nn.Module) -> Any:
    return outcome | {"stepped": True}


STEPPED = (
    'In the case "{case}" the loss was {loss_now} and the gradient norm {norm}, and the optimizer took a step all '
    "the same: "
)
NO_NORM = (
    'In the case "{case}" the norm came out as {norm} where {true_norm} is wanted: `backward` has to run even if the '
    "loss is not finite, since the norm tells where to look."
)
MISTAKES = [
    Mistake("clips-nan-and-steps", stepping(act=steps_anyway), STEPPED + "clipping makes every gradient NaN if one is, "
            "so it is not a guard.", GUARD),
    Mistake("clips-nan-and-steps", stepping(fine=lambda self, loss, norm: True), STEPPED + "clipping makes every "
            "gradient NaN if one is, so it is not a guard.", GUARD),
    Mistake("checks-loss-only", stepping(fine=lambda self, loss, norm: math.isfinite(loss)), STEPPED + "a finite loss "
            "can have a gradient that is not finite.", GUARD),
    Mistake("checks-norm-only", stepping(fine=lambda self, loss, norm: math.isfinite(norm)), STEPPED + "the gradient "
            "is finite but the loss is not, and both have to be.", GUARD),
    Mistake("checks-for-nan-only", stepping(fine=lambda self, loss, norm: not (math.isnan(loss) or math.isnan(norm))),
            STEPPED + "infinity is not NaN, but it is not finite either.", GUARD),
    Mistake("keeps-bad-gradients", stepping(act=gradients_left), 'In the case "{case}" the step was skipped, but its '
            "gradients were {gradients}: if they are not cleared, later ones may be added to them.", GUARD),
    Mistake("steps-on-cleared-gradients", stepping(act=steps_on_zeros), STEPPED + "with gradients of zero, momentum "
            "and averages still move the parameters, and the optimizer counts the step.", GUARD),
    Mistake("undoes-the-step", undoes_the_step, STEPPED + "putting the parameters back afterwards does not put back "
            "what the optimizer remembers of the step.", GUARD),
    Mistake("missing-zero-grad", stepping(clear=nothing), "In the case \"{case}\" `{what}` came "
            "out as {got} where {want} is wanted: gradients of an earlier batch were still there.", GUARD),
    Mistake("clears-the-models-gradients", stepping(clear=lambda self, optimizer, model: model.zero_grad()), "In the "
            'case "{case}" {what} is {got} by the step, and should be {want}: `model.zero_grad()` does not reach its '
            "old gradient, but `optimizer.zero_grad()` does.", GUARD),
    Mistake("norm-after-clipping", stepping(clip=norm_afterwards), "In the case \"{case}\" the norm came out as {norm} "
            "where {true_norm} is wanted: that is what was left after clipping to {limit}.", GUARD),
    Mistake("not-clipped", stepping(clip=not_clipped), "In the case \"{case}\" the {what} differ, {got} where {want} "
            "is wanted: the gradient norm was {norm}, and it was not brought down to {limit} before the step.", GUARD),
    Mistake("clips-each-entry", stepping(clip=by_value), "In the case \"{case}\" the {what} differ, {got} where {want} "
            "is wanted: entries were clipped one by one, which turns the gradient.", GUARD),
    Mistake("clips-each-parameter", stepping(clip=one_by_one), "In the case \"{case}\" the {what} differ, {got} where "
            "{want} is wanted: each parameter was clipped by itself, which turns the gradient as a whole.", GUARD),
    Mistake("stretches-small-gradients", stepping(clip=always_to_max_norm), "In the case \"{case}\" the {what} differ, "
            "{got} where {want} is wanted: a gradient below the limit of {limit} stays as it is.", GUARD),
    Mistake("norm-of-what-the-optimizer-holds", of_what_the_optimizer_holds, 'In the case "{case}" the norm came out '
            "as {norm} where {true_norm} is wanted: the norm is taken over all `model.parameters()`, and the "
            "optimizer may hold only some of them.", GUARD),
    Mistake("no-backward-for-a-bad-loss", returning_before_backward(0.0), NO_NORM, GUARD),
    Mistake("no-backward-for-a-bad-loss", returning_before_backward(math.nan), NO_NORM, GUARD),
    Mistake("no-backward-for-a-bad-loss", returning_before_backward(math.inf), NO_NORM, GUARD),
    Mistake("always-says-stepped", stepping(returned=always_stepped), 'In the case "{case}" `stepped` is {stepped}, '
            "but the number of steps that the optimizer took is {steps}.", GUARD),
    Mistake("sets-training-mode", stepping(mode=lambda self, model: model.train()), 'In the case "{case}" the {what} '
            "is {got}, and should be {want}: leave the mode to the caller here.", GUARD),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    def drawn(loss: str, optimizer: str = "SGD", max_norm: float = 0.1, **more: Any) -> dict[str, Any]:
        inputs = learning(draw, "mean squared error", [4, draw.size(3, 9)], dtype=more.pop("dtype", torch.float32))
        kept = {"loss": loss, "optimizer": optimizer, "max_norm": max_norm, "stale": False, "starts": "training"}
        return inputs | kept | more

    spoilt = drawn("lopsided", "momentum", stale=True)
    spoilt["xs"][1][-1, -1] = torch.inf
    return [
        case("infinity in x, with old gradients", **spoilt | {"loss": "infinite loss"}),
        case("a gradient of NaN, with old gradients", **drawn("NaN gradient", "Adam", stale=True)),
        case("lopsided, evaluation mode", **drawn("lopsided", "momentum", 0.3, starts="evaluation")),
        case("float64, old gradients", **drawn("mean squared error", "Adam", 5.0, dtype=torch.float64, stale=True)),
    ]


# Right answers unlike the reference


def step_by_hand(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any, max_norm: float) -> dict[str, Any]:
    optimizer.zero_grad(set_to_none=False)
    x, y = batch
    loss = loss_fn(model(x), y)
    loss.backward()
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    norm = torch.stack([g.square().sum() for g in grads]).sum().sqrt()
    stepped = bool(torch.isfinite(loss)) and bool(torch.isfinite(norm))
    if not stepped:
        model.zero_grad(set_to_none=False)
        return {"loss": loss.detach(), "grad_norm": norm, "stepped": False}
    if norm > max_norm:
        for g in grads:
            g *= max_norm / norm
    optimizer.step()
    optimizer.zero_grad()
    return {"loss": loss.detach(), "grad_norm": norm, "stepped": True}


def step_with_an_error(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any, max_norm: float) -> dict[str, Any]:
    optimizer.zero_grad()
    loss = loss_fn(model(batch[0]), batch[1])
    loss.backward()
    norm = nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None])
    result = {"loss": float(loss), "grad_norm": float(norm), "stepped": False}
    if (loss - loss).item() == 0:
        try:
            nn.utils.clip_grad_norm_(model.parameters(), max_norm, error_if_nonfinite=True)
            optimizer.step()
            return result | {"stepped": True}
        except RuntimeError:
            pass
    for p in model.parameters():
        p.grad = None
    return result


RIGHT_ANSWERS: list[Callable[..., Any]] = [step_by_hand, step_with_an_error]
