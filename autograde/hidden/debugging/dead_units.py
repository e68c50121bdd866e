"""The exercise `dead_units`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from autograde.hidden.common import override
from autograde.hidden.debugging.shared import (
    LEFT_HOOKS,
    LOST_MODE,
    NOT_FINALLY,
    ONE_MODE,
    TRACES,
    Modes,
    judged,
    no_eval,
    remembers_one,
    restores_nothing,
    restores_one,
    restores_training,
    train_mode,
)
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "A unit is acquitted by a single sample, in whichever batch it comes. So each batch leaves one bool for each "
    "unit, and `any` joins them at the end: shares of batches cannot be averaged. The bools are made inside the hook, "
    "before a later in-place operation can write into the output."
)
"""Why the reference is written as it is."""
REQUIRED = ("share-of-zeros", "last-batch-only", "averages-batches", "train-mode")
"""The mistakes that a check must always be able to name."""

DEAD = "Units that never fire"


def first(batch: Any) -> Tensor:
    x: Tensor = batch[0] if isinstance(batch, list | tuple) else batch
    return x


class DeadUnits(Modes):
    """A right program; a mistake overrides one of its methods."""

    def __call__(self, model: nn.Module, name: str, loader: Any) -> Any:
        seen: list[Tensor] = []
        handle = self.module(model, name).register_forward_hook(lambda _m, _i, out: seen.append(self.fires(out)))
        modes = self.before(model)
        try:
            with torch.no_grad():
                for batch in loader:
                    model(self.inputs(batch))
                    self.done(seen)
        except Exception:
            self.failed(model, handle, modes)
            raise
        self.remove(handle)
        self.after(model, modes)
        return self.share(seen)

    def failed(self, model: nn.Module, handle: Any, modes: Any) -> None:
        self.remove(handle)
        self.after(model, modes)

    def done(self, seen: list[Tensor]) -> None:
        """Look at what was seen after each batch."""

    def module(self, model: nn.Module, name: str) -> nn.Module:
        return model.get_submodule(name)

    def inputs(self, batch: Any) -> Tensor:
        return first(batch)

    def remove(self, handle: Any) -> None:
        handle.remove()

    def fires(self, out: Tensor) -> Tensor:
        return self.rows(out) != 0

    def rows(self, out: Tensor) -> Tensor:
        return out.reshape(-1, out.shape[-1])

    def share(self, seen: list[Tensor]) -> Any:
        return (~torch.cat(seen).any(0)).float().mean().item()


def counting(**methods: Any) -> Callable[..., Any]:
    """Return the right program with these methods in place of its own."""
    program: Callable[..., Any] = override(DeadUnits, **methods)()
    return program


def only_of(kind: Any) -> Callable[..., Any]:
    """Return a method that takes x out of pairs of this kind alone."""
    return lambda self, batch: batch[0] if isinstance(batch, kind) else batch


def of_batches(seen: list[Tensor]) -> Any:
    return sum(DeadUnits().share([fired]) for fired in seen) / len(seen)


class LastCall(DeadUnits):
    """Keeps one output for each batch."""

    batches = 0

    def __call__(self, model: nn.Module, name: str, loader: Any) -> Any:
        self.batches = 0
        return super().__call__(model, name, loader)

    def done(self, seen: list[Tensor]) -> None:
        del seen[self.batches : -1]
        self.batches += 1


class AddsUp(DeadUnits):
    def fires(self, out: Tensor) -> Tensor:
        return self.rows(out).sum(0, keepdim=True)

    def share(self, seen: list[Tensor]) -> Any:
        return (torch.cat(seen).sum(0) == 0).float().mean().item()


def of_first_positions(_self: Any, out: Tensor) -> Tensor:
    return out[:, 0] if out.dim() > 2 else out


def of_positions_and_units(_self: Any, out: Tensor) -> Tensor:
    return out.flatten(1)


def of_dimension_one(_self: Any, out: Tensor) -> Tensor:
    return out.transpose(1, -1).reshape(-1, out.shape[1])


def zero_everywhere(outputs: list[Tensor]) -> Any:
    return (torch.cat(outputs) == 0).all(0).float().mean().item()


def nothing(_self: DeadUnits, _model: nn.Module, _handle: Any, _modes: Any) -> None:
    return None


def only_modes(self: DeadUnits, model: nn.Module, _handle: Any, modes: Any) -> None:
    self.after(model, modes)


def only_the_hook(self: DeadUnits, _model: nn.Module, handle: Any, _modes: Any) -> None:
    self.remove(handle)


SHARE = 'In the case "{case}" the share came out as {share} where {right} is wanted: '
RAN = "The model ran in {ran}, and evaluation mode is wanted: dropout also silences units that are not dead."
MISTAKES = [
    Mistake("share-of-zeros", counting(share=lambda self, seen: (~torch.cat(seen)).float().mean().item()), SHARE
            + "that is the share of zeros among all outputs. A relu may well put out zero half of the time without a "
            "single dead unit.", DEAD),
    Mistake("last-batch-only", counting(share=lambda self, seen: DeadUnits().share(seen[-1:])), SHARE + "only the "
            "last batch counted, but a unit may have fired before.", DEAD),
    Mistake("first-batch-only", counting(share=lambda self, seen: DeadUnits().share(seen[:1])), SHARE + "only the "
            "first batch counted, but a unit may fire later.", DEAD),
    Mistake("averages-batches", counting(share=lambda self, seen: of_batches(seen)), SHARE + "the shares of the "
            "batches were averaged. A unit that fires in a single batch is silent in the others, but not dead.", DEAD),
    Mistake("adds-up-outputs", AddsUp(), SHARE + "the outputs of a unit were added up, and positive and negative ones "
            "cancel.", DEAD),
    Mistake("train-mode", counting(before=no_eval), RAN, TRACES),
    Mistake("train-mode", counting(before=train_mode), RAN, TRACES),
    Mistake("leaves-hooks", counting(remove=lambda self, handle: None), LEFT_HOOKS, DEAD),
    Mistake("leaves-hooks", counting(failed=nothing), LEFT_HOOKS, DEAD),
    Mistake("leaves-hooks", counting(failed=only_modes), LEFT_HOOKS, DEAD),
    Mistake("leaves-eval-mode-when-it-raises", counting(failed=only_the_hook), NOT_FINALLY, TRACES),
    Mistake("last-call-only", LastCall(), SHARE + "the submodule runs more than once in a forward, and only its last "
            "output counted.", DEAD),
    Mistake("leaves-eval-mode", counting(after=restores_nothing), LOST_MODE, TRACES),
    Mistake("leaves-train-mode", counting(after=restores_training), LOST_MODE, TRACES),
    Mistake("restores-one-mode", counting(before=remembers_one, after=restores_one), ONE_MODE, TRACES),
    Mistake("ever-silent", counting(share=lambda self, seen: (~torch.cat(seen).all(0)).float().mean().item()), SHARE
            + "that counts units which are silent for some sample; a dead one is silent for all.", DEAD),
    Mistake("share-alive", counting(share=lambda self, seen: torch.cat(seen).any(0).float().mean().item()), SHARE
            + "that is the share of the units that do fire.", DEAD),
    Mistake("counts-not-share", counting(share=lambda self, seen: float((~torch.cat(seen).any(0)).sum())), SHARE
            + "that is the number of dead units, not their share.", DEAD),
    Mistake("negative-counts-as-dead", counting(fires=lambda self, out: self.rows(out) > 0), SHARE + "a negative "
            "output is an output. Only zero is silence.", DEAD),
    Mistake("small-counts-as-dead", counting(fires=lambda self, out: self.rows(out).abs() > 1e-3), SHARE + "an output "
            "near zero is an output, however small. Compare with zero itself.", DEAD),
    Mistake("largest-is-zero", counting(fires=lambda self, out: self.rows(out).amax(0, keepdim=True) != 0), SHARE
            + "a unit whose largest output is zero may have negative ones. Only one that always puts out zero is dead.",
            DEAD),
    Mistake("looks-after-later-writing", counting(fires=lambda self, out: self.rows(out), share=lambda self, seen:
            zero_everywhere(seen)), SHARE + "the outputs were only kept, and an in-place operation wrote into them "
            "later. Look at each output inside the hook.", DEAD),
    Mistake("units-in-the-wrong-dimension", counting(rows=of_positions_and_units), SHARE + "each position counted as a "
            "unit of its own; the units are the last dimension.", DEAD),
    Mistake("units-in-the-wrong-dimension", counting(rows=of_dimension_one), SHARE + "dimension 1 was taken for the "
            "units; they are the last dimension, even of sequences.", DEAD),
    *(Mistake("pairs-of-one-kind", counting(inputs=only_of(kind)), 'In the case "{case}" the call raised {error}: the '
              "whole pair went into the model. A pair may be a tuple, or a list, as a DataLoader makes it.", DEAD)
      for kind in (list, tuple)),
    Mistake("first-position-only", counting(rows=of_first_positions), SHARE + "only the first position of each "
            "sequence was looked at.", DEAD),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    from torchcourse.exercises.debugging.dead_units import firing

    def drawn(*shape: int, batch: int, times: list[int], **more: Any) -> dict[str, Any]:
        x = draw.normal(*shape)
        return {"x": x, **firing(draw, x, times), "layer": "body.act", "batch": batch, "pairs": True,
                "starts": "training"} | more  # fmt: skip

    d = draw.size(2, 6)
    many = [draw.size(0, 2) for _ in range(draw.size(5, 20))]
    return [
        case("many units, batches of one", **drawn(8, d, batch=1, times=many)),
        case("everything is dead", **drawn(6, d, batch=4, times=[0, 0, 0])),
        case("sequences, a frozen submodule, no labels", **drawn(3, 4, d, batch=2, times=[0, 1, 12, 0, 3],
             starts="frozen norm", pairs=False)),
    ]  # fmt: skip


# Right answers unlike the reference


def dead_by_largest(model: nn.Module, name: str, loader: Any) -> float:
    largest: Tensor | None = None

    def hook(_module: nn.Module, _args: Any, out: Tensor) -> None:
        nonlocal largest
        size = out.detach().abs().flatten(end_dim=-2).amax(0)
        largest = size if largest is None else torch.maximum(largest, size)

    with judged(model), torch.no_grad(), dict(model.named_modules())[name].register_forward_hook(hook):
        for batch in loader:
            x = batch if isinstance(batch, Tensor) else batch[0]
            model(x)
    assert largest is not None
    return int((largest == 0).sum()) / largest.numel()


def dead_with_sets(model: nn.Module, name: str, loader: Any) -> float:
    alive: set[int] = set()
    width = [0]

    def note(_module: nn.Module, _args: Any, out: Tensor) -> None:
        width[0] = out.shape[-1]
        alive.update(out.nonzero()[:, -1].tolist())

    hook = model.get_submodule(name).register_forward_hook(note)
    try:
        with judged(model), torch.inference_mode():
            for batch in loader:
                model(first(batch))
    finally:
        hook.remove()
    return (width[0] - len(alive)) / width[0]


RIGHT_ANSWERS: list[Callable[..., Any]] = [dead_by_largest, dead_with_sets]
