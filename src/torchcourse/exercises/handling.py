"""Handling answers that are modules: building one, giving it known weights, running it forward and back."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from torchcourse.exercises.looking import kind
from torchcourse.observations import Observations, Raised
from torchcourse.probing import Watched

__all__ = [
    "Unusable", "attempted", "build", "gradients", "inventory", "load", "named_shapes", "probing_a_module", "ramp",
]  # fmt: skip

NOT_BEGUN = "Module.__init__() was not called"
UNBEGUN = ("before Module.__init__() call", "attribute '_parameters'", "attribute '_modules'", "attribute '_buffers'")
FILLER = 0.5  # what a parameter holds that nobody gave a value: outcomes must not depend on how it was initialised


class Unusable(Exception):  # noqa: N818 - a way to end a probe early, no error
    """What a probe saw of an answer with which nothing further can be done."""

    def __init__(self, seen: Observations) -> None:
        super().__init__()
        self.seen = seen


def probing_a_module(probe: Callable[..., Observations]) -> Callable[..., Observations]:
    """A probe that ends early where the answer is unusable."""

    @functools.wraps(probe)
    def guarded(*args: Any, **kwargs: Any) -> Observations:
        try:
            return probe(*args, **kwargs)
        except Unusable as end:
            return end.seen

    return guarded


def build(answer: Watched, device: torch.device, *args: Any, **kwargs: Any) -> Any:
    """The module that the answer makes of these arguments, brought to `device`.

    Raises:
        Unusable: when it is no module, or was never initialised as one.
    """
    try:
        module = answer(*args, **kwargs)
        if not isinstance(module, nn.Module):
            raise Unusable({"returned": kind(module)})
        return module.to(device)
    except AttributeError as error:
        said = str(error)
        if any(words in said for words in UNBEGUN):
            raise Unusable({"construction": Raised("AttributeError", said[:200], NOT_BEGUN)}) from None
        raise


def named_shapes(module: nn.Module) -> list[str]:
    """The name and shape of each parameter, sorted: as text, which reads well in a sentence."""
    return sorted(f"{name} {tuple(p.shape)}" for name, p in module.named_parameters())


def inventory(module: nn.Module) -> Observations:
    """What a module has registered."""
    return {
        "parameters": named_shapes(module),
        "state_dict": sorted(module.state_dict()),
    }


def load(module: nn.Module, weights: dict[str, Tensor]) -> None:
    """Give a module these values by name, and every other parameter a constant.

    A tensor that was never registered gets its values too, so that what it computes can be compared all the same.
    """
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.fill_(FILLER)
        for name, value in weights.items():
            held = _held(module, name)
            if isinstance(held, Tensor) and held.shape == value.shape:
                held.copy_(value)
            elif isinstance(held, Tensor) and held.shape == value.mT.shape:
                held.copy_(value.mT)


def _held(module: nn.Module, name: str) -> object:
    held: object = module
    for part in name.split("."):
        held = getattr(held, part, None)
    return held


def ramp(*shape: int, low: float = -1.0, high: float = 1.0, like: Tensor | None = None) -> Tensor:
    """Evenly spaced numbers in this shape: an input that needs no storing."""
    count = 1
    for size in shape:
        count *= size
    made = torch.linspace(low, high, count).view(shape)
    return made if like is None else made.to(like.device, like.dtype)


def gradients(output: object, **tensors: Tensor | None) -> Observations:
    """Send a fixed gradient back through `output`; what arrives at each of `tensors`."""
    if not isinstance(output, Tensor) or not output.requires_grad:
        return {f"gradient of {name}": "none" for name in tensors}
    for tensor in tensors.values():
        if tensor is not None:
            tensor.grad = None
    output.backward(ramp(*output.shape, low=-1.0, high=2.0, like=output))  # type: ignore[no-untyped-call]
    return {
        f"gradient of {name}": "none" if t is None or t.grad is None else t.grad.clone() for name, t in tensors.items()
    }


def attempted(call: Callable[[], Any]) -> Any:
    """What a call returns, or the RuntimeError that torch raised about sizes, as an observation."""
    try:
        return call()
    except RuntimeError as error:
        said = str(error)
        if "size" in said or "shape" in said:
            return Raised("RuntimeError", said.strip().split("\n")[0][:200], "sizes do not fit")
        raise
