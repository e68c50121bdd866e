"""Build answers that are modules, give them known weights, run them forward and backward, and observe them."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Draw
from torchcourse.model.observations import Observations, Raised
from torchcourse.probes.observe import kind, same

__all__ = [
    "Unusable", "affine_weights", "attempted", "build", "called", "count_ineffective_weights", "ends_when_unusable",
    "fill_in_order", "gradients", "in_any_mode", "inventory", "inventory_of", "load", "named_shapes",
    "own_parameters", "quotes_registered", "quoting", "ramp", "sameness", "spread", "unset_memory_is_nan",
    "without_graph", "without_none",
]  # fmt: skip

NOT_INITIALISED = "Module.__init__() was not called"
MESSAGES = ("before Module.__init__() call", "attribute '_parameters'", "attribute '_modules'", "attribute '_buffers'")
Quotes = Callable[[Observations, Observations, Observations], dict[str, object]]
NOTHING = 1e-6  # a gradient that is this small beside the largest one
FILLER = 0.5  # the value of all other parameters: results must not depend on their initialisation


class Unusable(Exception):  # noqa: N818 - no error
    """Ends a probe early, with what it has seen, because the answer cannot be used further."""

    def __init__(self, seen: Observations) -> None:
        super().__init__()
        self.seen = seen


def ends_when_unusable(probe: Callable[..., Observations]) -> Callable[..., Observations]:
    """Let a probe end early if it raises `Unusable`."""

    @functools.wraps(probe)
    def guarded(*args: Any, **kwargs: Any) -> Observations:
        try:
            return probe(*args, **kwargs)
        except Unusable as end:
            return end.seen

    return guarded


def build(answer: Watched, device: torch.device, *args: Any, **kwargs: Any) -> Any:
    """Return the module that the answer builds from these arguments, moved to `device`.

    Raises:
        Unusable: if it is no module, or `Module.__init__` was not called.
    """
    try:
        module = answer(*args, **kwargs)
        if not isinstance(module, nn.Module):
            raise Unusable({"returned": kind(module)})
        return module.to(device)
    except AttributeError as error:
        message = str(error)
        if any(words in message for words in MESSAGES):
            raise Unusable({"construction": Raised("AttributeError", message[:200], NOT_INITIALISED)}) from None
        raise


@contextlib.contextmanager
def unset_memory_is_nan() -> Iterator[None]:
    """Fill tensors that are made without values, as by `torch.empty`, with NaN in this block."""
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])


def named_shapes(module: nn.Module) -> list[str]:
    """Return the name and shape of each parameter as text, sorted."""
    named = nn.Module.named_parameters(module)  # an answer's own method could still write into its results
    return sorted(f"{name} {tuple(p.shape)}" for name, p in named)


def inventory(module: nn.Module) -> Observations:
    """Return the names that a module has registered."""
    return {
        "parameters": named_shapes(module),
        "state_dict": sorted(nn.Module.state_dict(module)),
    }


def inventory_of(module: nn.Module, names: Iterable[str]) -> Observations:
    """Return the names that a module has registered, which should be `names`.

    Raises:
        Unusable: if one is missing. Which other names stand in its place is the learner's choice, and not compared.
    """
    seen = inventory(module)
    held = set(seen["state_dict"])
    if held - set(names) and set(names) - held:
        raise Unusable({"parameters": Raised("other names", ", ".join(seen["parameters"]), "other names")})
    if set(names) - held:
        raise Unusable(seen)
    return seen


def load(module: nn.Module, weights: dict[str, Tensor]) -> None:
    """Give a module these values by name, and every other parameter a constant.

    Tensors that are not registered get their values too, so that the module's results can still be compared.
    """
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.fill_(FILLER)
        for name, value in weights.items():
            held = _held(module, name)
            if isinstance(held, Tensor) and held.shape == value.shape:
                held.copy_(value)
            elif isinstance(held, Tensor) and value.ndim >= 2 and held.shape == value.mT.shape:
                held.copy_(value.mT)


def _held(module: nn.Module, name: str) -> object:
    held: object = module
    for part in name.split("."):
        held = getattr(held, part, None)
    return held


def ramp(*shape: int, low: float = -1.0, high: float = 1.0, like: Tensor | None = None) -> Tensor:
    """Return evenly spaced numbers in this shape: an input that need not be stored.

    They are made in float64, since the last digits of `linspace` differ between CPUs.
    """
    made = torch.linspace(low, high, math.prod(shape), dtype=torch.float64).view(shape)
    return made.to(torch.get_default_dtype()) if like is None else made.to(like.device, like.dtype)


def gradients(output: object, **tensors: Tensor | None) -> Observations:
    """Send a fixed gradient back through `output` and return what arrives at each of `tensors`.

    If the backward pass of an answer's own writes into its output, that is observed too.
    """
    if not isinstance(output, Tensor) or not output.requires_grad:
        return {f"gradient of {name}": "none" for name in tensors}
    for tensor in tensors.values():
        if tensor is not None:
            tensor.grad = None
    before = output.detach().clone()
    output.backward(ramp(*output.shape, low=-1.0, high=2.0, like=output))  # type: ignore[no-untyped-call]
    seen: Observations = {
        f"gradient of {name}": "none" if t is None or t.grad is None else t.grad.clone() for name, t in tensors.items()
    }
    return seen if same(output.detach(), before) else {**seen, "result after the backward pass": "changed"}


def count_ineffective_weights(module: nn.Module, output: object) -> int:
    """Count the weights, of two dimensions or more, that take part in `output` and still change (nearly) nothing."""
    if not isinstance(output, Tensor) or not output.requires_grad:
        return 0
    weights = [p for p in module.parameters() if p.ndim > 1 and p.requires_grad]
    found = torch.autograd.grad(output.square().sum(), weights, allow_unused=True)
    effects = [float(gradient.abs().max()) for gradient in found if gradient is not None]
    return sum(effect <= NOTHING * max(effects) for effect in effects)


def attempted(call: Callable[[], Any]) -> Any:
    """Return the result of a call, or torch's RuntimeError about sizes or in-place operations as an observation."""
    try:
        return call()
    except RuntimeError as error:
        message = str(error)
        if "size" in message or "shape" in message:
            return Raised("RuntimeError", message.strip().split("\n")[0][:200], "sizes do not fit")
        if "in-place operation" in message or "inplace operation" in message:
            return Raised("RuntimeError", message.split(":")[0].strip()[:200].rstrip("."), "changed in place")
        raise


def called(answer: Watched, module: Any, x: Tensor) -> Any:
    """Return the module's output for x; its torch calls count as the answer's."""
    return answer.run(module, x)


def in_any_mode(module: nn.Module, run: Callable[[], object], output: object) -> Observations:
    """Observe whether `run` gives `output` in eval mode, too, and without a graph.

    Args:
        module: what it calls, which is to ignore `training`; in training mode, also afterwards.
        output: what it gave in training mode.
    """
    module.eval()
    again = run()
    module.train()
    tracked = [isinstance(each, Tensor) and each.requires_grad for each in (output, again)]
    changes = "another result" if not _close(again, output) else "another graph" if len({*tracked}) > 1 else ""
    return {"in eval mode": changes or "the same", **without_graph(run, output)}


def without_graph(run: Callable[[], object], output: object) -> Observations:
    """Observe whether `run`, which calls a module, gives `output` under `torch.no_grad`, too."""
    with torch.no_grad():
        again = run()
    return {"under torch.no_grad()": "the same" if _close(again, output) else "another result"}


def _close(one: object, other: object) -> bool:
    if not (isinstance(one, Tensor) and isinstance(other, Tensor)):
        return kind(one) == kind(other)
    if (one.shape, one.dtype) != (other.shape, other.dtype):
        return False
    return torch.allclose(one.float(), other.float(), rtol=1e-3, atol=1e-4, equal_nan=True)


def own_parameters(answer: Watched, module: Any, names: Iterable[str]) -> dict[str, Any]:
    """Return the module's parameters with these names.

    `named_parameters` may be the learner's own method and could still compute the result, so the call counts as the
    answer's.
    """
    found: dict[str, Any] = answer.run(lambda: {n: p for n, p in module.named_parameters() if n in names})
    return found


def spread(weight: object, bound: float) -> Observations:
    """Return statistics of a new tensor in multiples of `bound`, which hardly depend on the numbers drawn."""
    if not isinstance(weight, Tensor) or weight.numel() < 2:
        return {"largest entry": "no tensor"}
    scaled = weight.double().flatten() / bound
    size = scaled.std()
    return {
        "largest entry": scaled.abs().max().item(),
        "standard deviation": size.item(),
        "mean": scaled.mean().item(),
        "share within one standard deviation": ((scaled - scaled.mean()).abs() <= size).double().mean().item(),
    }


def quoting(quotes: Quotes) -> Quotes:
    """Wrap `quotes`: add a field with the error if the module could not be built."""

    def wider(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
        fields = {"construction": seen["construction"]} if "construction" in seen else {}
        return {**fields, **quotes(inputs, seen, wanted)}

    return wider


def without_none(**options: Any) -> dict[str, Any]:
    """Return the options that are not None; for the others the answer's own defaults apply."""
    return {name: value for name, value in options.items() if value is not None}


def affine_weights(draw: Draw, in_features: int, out_features: int, *names: str) -> dict[str, Tensor]:
    """Draw tensors by name: of shape (out_features,) if called "bias", else (out_features, in_features)."""
    shapes = {name: (out_features,) if name == "bias" else (out_features, in_features) for name in names}
    return {name: draw.normal(*shape) for name, shape in shapes.items()}


def quotes_registered(inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    """Return the fields `sizes` and `registered`, the names of the parameters, for messages."""
    fields: dict[str, object] = {"sizes": inputs.get("sizes")}
    if "parameters" in seen:
        found = seen["parameters"]
        fields["registered"] = found.message if isinstance(found, Raised) else ", ".join(found) or "none"
    return fields


def fill_in_order(parameters: Sequence[Tensor]) -> None:
    """Give each parameter known values that depend on its place among those with as many dimensions."""
    places: dict[int, int] = {}
    with torch.no_grad():
        for p in parameters:
            place = places[p.ndim] = places.get(p.ndim, -1) + 1
            wave = torch.sin(torch.arange(p.numel()) * (1.3 + 0.4 * place) + place)
            p.copy_((wave if p.ndim > 1 else 0.5 + 0.4 * wave).view(p.shape))


def sameness(one: object, other: object) -> str:
    """Describe whether two results are equal tensors."""
    if not (isinstance(one, Tensor) and isinstance(other, Tensor) and one.shape == other.shape):
        return f"{kind(one)} and {kind(other)}"
    return "the same" if bool((one == other).all()) else "different"
