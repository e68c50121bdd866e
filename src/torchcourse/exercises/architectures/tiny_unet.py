"""The exercise `TinyUNet`: its probe, visible cases and hints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from torchcourse.checking.call_watch import OperatorMode
from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations, Raised
from torchcourse.probes.modules import build, called, count_ineffective_weights, ends_when_unusable, quoting
from torchcourse.probes.observe import kept, kind, where

FAULTS = {
    "except in dimension 1": "features to be joined differ in size",
    "except in dimension": "features joined along another dimension",
    "Calculated padded input size": "no room for the kernel",
    "channels, but got": "another number of channels than expected",
    "more than 1 value per channel": "one value a channel",
    "more than 1 spatial element": "one value a channel",
    "Module.half()": "a part is called half",
    "Module.float()": "a part is called float",
}
"""The reasons that parts of torch's messages stand for."""


RESIZING = ("pool", "convolution", "upsample")
"""Parts of the names of the operators that make features of another size."""


class Sharpness:
    """Knows how many pixels the features had where the way from the image to a tensor was narrowest.

    Of several ways the widest counts, and a tensor that is not known to come from the image counts as sharp, so that
    only features are called blurred all of which were smaller once.
    """

    def __init__(self, image: Tensor) -> None:
        self.pixels = {id(image): image.shape[2] * image.shape[3]}
        self.alive: list[Tensor] = [image]  # otherwise another tensor might get the id of one that is gone

    def note(self, name: str, inputs: Iterable[Any], results: Iterable[Any]) -> None:
        """Note what an operator made of its inputs."""
        inputs = [t for t in inputs if isinstance(t, Tensor)]
        known = [pixels for pixels in map(self.of, inputs) if pixels is not None]
        if not known or "_like" in name or name.startswith("new_"):
            return
        for result in (t for t in results if isinstance(t, Tensor)):
            in_place = any(result is t for t in inputs)
            if in_place and self.of(result) is None:
                continue
            resized = result.ndim == 4 and any(part in name for part in RESIZING)
            pixels = min(max(known), result.shape[2] * result.shape[3]) if resized else max(known)
            self.pixels[id(self.owner(result))] = pixels
            self.alive.append(self.owner(result))

    def of(self, tensor: Tensor) -> int | None:
        return self.pixels.get(id(self.owner(tensor)), self.pixels.get(id(tensor)))

    @staticmethod
    def owner(tensor: Tensor) -> Tensor:
        """Return the tensor whose memory this one is a view of, or itself."""
        return tensor if tensor._base is None else tensor._base

    def blurred(self, tensor: Tensor) -> bool:
        """Return whether all of a tensor was once much smaller; a few rows less than now are no loss."""
        pixels = self.of(tensor)
        return pixels is not None and 3 * pixels < tensor.shape[2] * tensor.shape[3]


class Sizes(OperatorMode):  # type: ignore[no-untyped-call]
    """Records the sizes at which a model joins features along the channels, and those of its convolutions."""

    def __init__(self, image: Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.joined: list[tuple[int, int]] = []
        self.joined_sharp: set[tuple[int, int]] = set()
        self.convolved: list[tuple[int, int]] = []
        self.added = self.joined_image = False
        self.image = image
        self.sharpness = Sharpness(image)

    def __torch_dispatch__(self, func: Any, types: Sequence[type], args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator; note the size of what a concatenation or convolution gave."""
        result = func(*args, **(kwargs or {}))
        name = func.name().split("::")[-1].split(".")[0]
        self.sharpness.note(name, tree_leaves((args, kwargs)), tree_leaves(result))
        if isinstance(result, Tensor) and result.ndim == 4:
            size = (result.shape[2], result.shape[3])
            dim = args[1] if len(args) > 1 else (kwargs or {}).get("dim", 0)
            if name in ("cat", "concat") and dim in (1, -3) and len(args[0]) > 1:
                self.joined.append(size)
                sharp = [t for t in args[0] if not self.sharpness.blurred(t)]
                self.joined_sharp |= {size} if sharp else set()
                self.joined_image = self.joined_image or (bool(sharp) and all(t is self.image for t in sharp))
            self.added = self.added or (name in ("add", "add_") and isinstance(args[1], Tensor) and args[1].ndim == 4)
            if name in ("convolution", "mkldnn_convolution"):
                self.convolved.append(size)
        return result


class Joined(TorchFunctionMode):
    """Collects what is concatenated of the features of an image, each part as a tensor of its own."""

    def __init__(self, sharpness: Sharpness) -> None:
        super().__init__()
        self.sharpness = sharpness
        self.parts: list[Tensor] = []

    def __torch_function__(self, func: Any, types: Sequence[type], args: Any = (), kwargs: Any = None) -> Any:
        """Replace the parts of a concatenation by views, so that gradients tell what becomes of them there."""
        kwargs = dict(kwargs or {})
        if func in (torch.cat, torch.concat, torch.concatenate, torch.hstack):
            tensors, *rest = (kwargs.pop("tensors"), *args) if "tensors" in kwargs else args
            own = [t.view_as(t) if t.ndim == 4 and self.sharpness.of(t) is not None else t for t in tensors]
            self.parts += [part for part, t in zip(own, tensors, strict=True) if part is not t]
            args = (own, *rest)
        return func(*args, **kwargs)

    def idle(self, output: Tensor) -> int:
        """Return how many of the parts have no effect on the output, or are cut off from what made them."""
        learning = [part for part in self.parts if part.requires_grad]
        if not learning or not output.requires_grad:
            return len(self.parts)
        found = torch.autograd.grad(output.square().sum(), learning, retain_graph=True, allow_unused=True)
        used = [bool(part.any()) and gradient is not None and bool(gradient.any())
                for part, gradient in zip(learning, found, strict=True)]  # fmt: skip
        return len(self.parts) - sum(used)


@ends_when_unusable
def probe(answer: Watched, channels: int, classes: int, x: Tensor) -> Observations:
    """Observe what a new model makes of images, in training: shapes, joins, and which parameters take part."""
    module = build(answer, x.device, channels=channels, classes=classes)
    seen: Observations = {"has parameters": any(True for _ in module.parameters())}
    before = x.clone()
    x.requires_grad_()
    sizes = Sizes(x)
    output = fitting(lambda: watched(answer, module, x, sizes))
    if isinstance(output, Raised):
        return {**seen, "outcome": output}
    if not isinstance(output, Tensor):
        return {**seen, "returned": kind(output)}
    seen |= {"shape": tuple(output.shape), "device": where(output, x), "finite": bool(output.isfinite().all())}
    if output.shape == (len(x), classes, *x.shape[2:]):
        seen["after the last layer"] = ending(output, classes)
    seen |= levels(sizes, x.shape[2], x.shape[3])
    seen |= {**trained(module, output), **judged(answer, module, x.detach(), classes)}
    if min(x.shape[2:]) >= 12:
        unsettle(module)
        if x.device.type == "cpu":
            seen["joined features that change nothing"] = idle_joins(answer, module, x)
        seen["weights that change nothing"] = count_ineffective_weights(module, called(answer, module, x.detach()))
    return {**seen, **kept(x=(x.detach(), before))}


def watched(answer: Watched, module: nn.Module, x: Tensor, sizes: Sizes) -> Any:
    """Return the module's output; its sizes are recorded on the CPU."""
    if x.device.type != "cpu":
        return called(answer, module, x)
    with sizes:
        return called(answer, module, x)


def idle_joins(answer: Watched, module: nn.Module, x: Tensor) -> str:
    """Return whether some of the concatenated features have no effect, or get no gradient."""
    sizes = Sizes(x)
    joined = Joined(sizes.sharpness)
    with sizes, joined:
        output = called(answer, module, x)
    return "some" if isinstance(output, Tensor) and joined.idle(output) else "none"


def fitting(call: Callable[[], Any]) -> Any:
    """Return the result of a call, or an expected error as an observation."""
    try:
        return call()
    except (RuntimeError, TypeError, ValueError) as error:
        message = str(error).strip().split("\n")[0].rstrip(".")
        for words, reason in FAULTS.items():
            if words in message:
                return Raised(type(error).__name__, message[:200], reason)
        raise


def levels(sizes: Sizes, height: int, width: int) -> Observations:
    """Return at how many sizes features are joined, and for sizes that halve evenly also at which."""
    if not sizes.convolved:
        return {}
    joined = sorted(set(sizes.joined), reverse=True)
    seen: Observations = {"sizes at which features are joined": len(joined), "joins": min(len(sizes.joined), 2)}
    seen["joined by"] = "concatenation" if joined else "addition" if sizes.added else "nothing"
    if height % 4 == width % 4 == 0:
        smallest = min(sizes.convolved)
        if min(height, width) >= 12:  # in smaller images a convolution without padding loses much, too
            seen["sizes at which sharp features are joined"] = len(sizes.joined_sharp)
            seen["joined at full size"] = "the image itself" if sizes.joined_image else "features"
        seen["joined at"] = [f"1/{height // h}" if h and height % h == 0 else f"{h} of {height}" for h, _ in joined]
        seen["smallest size"] = f"1/{height // smallest[0]} of the height, 1/{width // smallest[1]} of the width"
    return seen


def ending(output: Tensor, classes: int) -> str:
    """Describe what the output shows of a function after the last layer."""
    if classes > 1 and torch.allclose(output.sum(1), torch.ones_like(output[:, 0]), atol=1e-4):
        return "a softmax"
    if classes > 1 and torch.allclose(output.exp().sum(1), torch.ones_like(output[:, 0]), atol=1e-4):
        return "a log_softmax"
    if bool((output == 0).any()) and not bool((output < 0).any()):
        return "a relu"
    return "nothing"


def judged(answer: Watched, module: nn.Module, x: Tensor, classes: int) -> Observations:
    """Return the shape of the output in evaluation mode, and what it shows of a function after the last layer."""
    module.eval()
    output = called(answer, module, x)
    module.train()
    fits = isinstance(output, Tensor) and output.shape == (len(x), classes, *x.shape[2:])
    return {"after the last layer, in evaluation mode": ending(output, classes) if fits else kind(output)}


def trained(module: nn.Module, output: Tensor) -> Observations:
    """Return how many parameters a backward does not reach."""
    if not output.requires_grad:
        return {"parameters without a gradient": "all"}
    output.square().sum().backward()  # type: ignore[no-untyped-call]
    return {"parameters without a gradient": sum(p.grad is None for p in module.parameters())}


def unsettle(module: nn.Module) -> None:
    """Add a little to each parameter: what starts at zero would let no gradient through."""
    with torch.no_grad():
        for p in module.parameters():
            p.add_(0.05 * torch.arange(p.numel(), device=p.device).sin().view(p.shape))


def images(draw: Draw, name: str, channels: int, classes: int, n: int, height: int, width: int) -> Case:
    """Return the case of n drawn images."""
    return case(name, channels=channels, classes=classes, x=draw.normal(n, channels, height, width))


def cases(draw: Draw) -> list[Case]:
    classes = draw.size(3, 5)
    return [
        images(draw, "an even size", 3, classes, 2, 16, 24),
        images(draw, "one channel, two classes", 1, 2, 2, 8, 8),
        images(draw, "an odd size", 2, classes, 2, 9, 13),
        images(draw, "twice an odd size", 2, classes, 1, 10, 14),
        images(draw, "odd height, even width", 1, 2, 1, 7, 8),
        images(draw, "the smallest size, one image", 3, 2, 1, 4, 4),
        images(draw, "five by seven", 1, 3, 1, 5, 7),
    ]


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    x = inputs["x"]
    fields: dict[str, object] = {"x_shape": tuple(x.shape), "height": x.shape[2], "width": x.shape[3]}
    for field, name in (("joins", "sizes at which features are joined"), ("joined", "joined at"), ("shape", "shape"),
                        ("sharp", "sizes at which sharp features are joined"), ("smallest", "smallest size"),
                        ("sharpest", "joined at full size"),
                        ("outcome", "outcome"), ("ending", "after the last layer"),
                        ("judged", "after the last layer, in evaluation mode"),
                        ("idle", "parameters without a gradient"),
                        ("muted", "weights that change nothing")):  # fmt: skip
        fields |= {field: seen[name]} if name in seen else {}
    return {**fields, "want_shape": wanted.get("shape"), "want_smallest": wanted.get("smallest size")}


EXERCISE = Exercise(
    "TinyUNet",
    probe,
    cases,
    hints=(
        "On the way down there are features at three sizes. Which of them does the way up need again, and are they "
        "taken before or after the pooling that follows?",
        "`torch.cat` along the channels adds their numbers. How many channels does the convolution after it get, and "
        "which dimensions have to agree?",
        "7 pools to 3, and 3 doubled is 6. `F.interpolate` takes a scale or a size: whose size is known to be right?",
    ),
    quotes=quoting(quotes),
    seconds=20.0,
)
