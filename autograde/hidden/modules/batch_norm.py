"""The exercise `BatchNorm`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from autograde.hidden.common import override
from autograde.hidden.modules.shared import UNBEGUN
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "The batch is normalised by the variance divided by n, while the running one takes n - 1, as torch does. "
    "The running numbers are buffers updated without a graph; otherwise each step would hang on to the graph of"
    " the one before. The shape `(1, C, 1, 1)` lines up the channels."
)
"""Why the reference is written as it is."""
REQUIRED = ("biased-running-variance", "batch-statistics-in-eval", "momentum-reversed", "statistics-keep-graph")
"""The mistakes that a check must always be able to name."""

REGISTER = "What a module remembers"
NORM = "Batch norm by hand"


class BatchNorm(nn.Module):
    """A right norm; a mistake overrides one of its methods."""

    running_mean: Any
    running_var: Any
    num_batches_tracked: Any

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight, self.bias = nn.Parameter(torch.ones(num_features)), nn.Parameter(torch.zeros(num_features))
        self.hold("running_mean", torch.zeros(num_features))
        self.hold("running_var", torch.ones(num_features))
        self.hold("num_batches_tracked", torch.tensor(0))

    def hold(self, name: str, tensor: Tensor) -> None:
        self.register_buffer(name, tensor)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.check(x)
            mean, var = self.of_the_batch(x)
            self.update(mean, var, x.numel() // x.shape[1])
        else:
            mean, var = self.gathered(x)
        return self.scaled((x - mean) / self.root(var))

    def check(self, x: Tensor) -> None:
        if x.numel() // x.shape[1] < 2:
            raise ValueError(f"x has shape {tuple(x.shape)}: more than one value a channel is needed")

    def dims(self, x: Tensor) -> list[int]:
        return [d for d in range(x.ndim) if d != 1]

    def of_the_batch(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x.mean(self.dims(x), keepdim=True), x.var(self.dims(x), correction=0, keepdim=True)

    def gathered(self, x: Tensor) -> tuple[Tensor, Tensor]:
        shape = (1, -1) + (1,) * (x.ndim - 2)
        return self.running_mean.view(shape), self.running_var.view(shape)

    def update(self, mean: Tensor, var: Tensor, n: int) -> None:
        self.count()
        mean, var = self.by_channel(mean.detach()), self.of_the_sample(self.by_channel(var.detach()), n)
        self.keep(self.mixed(self.running_mean, mean), self.mixed(self.running_var, var))

    def keep(self, mean: Tensor, var: Tensor) -> None:
        self.running_mean, self.running_var = mean, var

    def count(self) -> None:
        self.num_batches_tracked += 1

    def by_channel(self, statistic: Tensor) -> Tensor:
        return statistic.flatten()

    def of_the_sample(self, var: Tensor, n: int) -> Tensor:
        return var * n / max(n - 1, 1)

    def mixed(self, old: Tensor, new: Tensor) -> Tensor:
        return (1 - self.momentum) * old + self.momentum * new

    def root(self, var: Tensor) -> Tensor:
        return (var + self.eps).sqrt()

    def scaled(self, y: Tensor) -> Tensor:
        shape = (1, -1) + (1,) * (y.ndim - 2)
        return y * self.weight.view(shape) + self.bias.view(shape)


class RefusesOneRow(BatchNorm):
    def check(self, x: Tensor) -> None:
        if len(x) == 1:
            raise ValueError("one row has no variance")


class KeepsGraph(BatchNorm):
    def update(self, mean: Tensor, var: Tensor, n: int) -> None:
        self.count()
        self.running_mean = self.mixed(self.running_mean, mean.flatten())
        self.running_var = self.mixed(self.running_var, self.of_the_sample(var.flatten(), n))


class SampleVariance(BatchNorm):
    def of_the_batch(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x.mean(self.dims(x), keepdim=True), x.var(self.dims(x), keepdim=True)

    def of_the_sample(self, var: Tensor, n: int) -> Tensor:
        return var


class UpdatesInEval(BatchNorm):
    def gathered(self, x: Tensor) -> tuple[Tensor, Tensor]:
        self.update(*self.of_the_batch(x), x.numel() // x.shape[1])
        return super().gathered(x)


class OverTheBatchOnly(BatchNorm):
    def dims(self, x: Tensor) -> list[int]:
        return [0]

    def by_channel(self, statistic: Tensor) -> Tensor:
        return statistic[0].flatten(1).mean(1)


class HeldAsParameter(BatchNorm):
    def hold(self, name: str, tensor: Tensor) -> None:
        if tensor.is_floating_point():
            setattr(self, name, nn.Parameter(tensor, requires_grad=False))
        else:
            self.register_buffer(name, tensor)

    def keep(self, mean: Tensor, var: Tensor) -> None:
        self.running_mean.data, self.running_var.data = mean, var


class CastsToFloat32(BatchNorm):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.float())


class StartsAtZero(BatchNorm):
    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__(num_features, eps, momentum)
        self.running_var.zero_()


class Unbegun(nn.Module):
    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float = 0.1) -> None:
        self.weight = nn.Parameter(torch.ones(num_features))


def momentum_ignored(self: BatchNorm, num_features: int, eps: float = 1e-5, momentum: float = 0.1) -> None:
    BatchNorm.__init__(self, num_features, eps)


RUNNING_MEAN = 'In the case "{case}" the running mean is {its_running_mean} and should be {want_running_mean}: '
VALUE = 'In the case "{case}" the value at {at} is {got_at} and should be {want_at}: '
AT = "The value at {at} is {got_at} and should be {want_at}: "
NO_BUFFERS = (
    "The state_dict came out with other names: `{what}` is {got} where {want} is wanted. Running statistics are "
    "buffers."
)
MISTAKES = [
    Mistake("missing-super-init", Unbegun, UNBEGUN, REGISTER),
    Mistake("biased-running-variance", override(BatchNorm, of_the_sample=lambda self, var, n: var), "In the case "
            "\"{case}\" the running variance is {its_running_var} and should be {want_running_var}: it is updated with "
            "the sample variance, which divides by n - 1.", NORM),
    Mistake("batch-statistics-in-eval", override(BatchNorm, gathered=BatchNorm.of_the_batch), "The {what} at {at} is "
            "{got_at} and should be {want_at}: there the running statistics are used, not the batch's.", NORM),
    Mistake("momentum-reversed",
            override(BatchNorm, mixed=lambda self, old, new: self.momentum * old + (1 - self.momentum) * new),
            RUNNING_MEAN + "in PyTorch, momentum is the weight of the new batch, not of what has been gathered so far.",
            NORM),
    Mistake("momentum-reversed", override(BatchNorm, mixed=lambda self, old, new: new), RUNNING_MEAN + "the batch's "
            "mean replaced the old one, where it should only get the weight momentum.", NORM),
    Mistake("old-value-keeps-its-weight",
            override(BatchNorm, mixed=lambda self, old, new: old + self.momentum * new), "In the case \"{case}\" the "
            "running variance is {its_running_var} and should be {want_running_var}: the new one was added to the "
            "whole of the old one, whose weight should be 1 - momentum.", NORM),
    Mistake("momentum-ignored", override(BatchNorm, __init__=momentum_ignored), RUNNING_MEAN + "the argument momentum "
            "has no effect.", NORM),
    Mistake("never-updates", override(BatchNorm, update=lambda self, mean, var, n: None), RUNNING_MEAN + "training did "
            "not update it.", NORM),
    Mistake("statistics-keep-graph", KeepsGraph, "In the case \"{case}\" the running statistics carry a graph, "
            "and so they keep every batch seen so far in memory; update them under `no_grad`, or detach.", NORM),
    Mistake("batches-not-counted", override(BatchNorm, count=lambda self: None), "`num_batches_tracked` came out as "
            "{tracked} after training steps: each one adds 1 to it.", NORM),
    Mistake("updates-in-eval", UpdatesInEval, "`{what}` came out as {got} where {want} is wanted: in eval mode the "
            "running statistics and their counter stay as they are.", NORM),
    Mistake("variance-starts-at-zero", StartsAtZero, "The running variance of a fresh module is {got} where {want} is "
            "wanted: it starts at one, so that an untrained norm in eval mode leaves its input alone.", NORM),
    Mistake("plain-attribute", override(BatchNorm, hold=lambda *named: setattr(*named)), NO_BUFFERS, NORM),
    Mistake("buffer-as-parameter", HeldAsParameter, "`{what}` came out as {got} where {want} is wanted. Running "
            "statistics are measured and not trained, so they are buffers.", NORM),
    Mistake("one-value-accepted", override(BatchNorm, check=lambda self, x: None), "With input of shape {shape} in "
            "training the outcome was {refused}: a single value per channel has no variance, and a ValueError should "
            "say so.",
            NORM),
    Mistake("one-row-refused", RefusesOneRow, "With input of shape {shape} in training the call raised {error}: one "
            "image has as many values per channel as it has pixels; count values, not rows.", NORM),
    Mistake("eps-outside-root", override(BatchNorm, root=lambda self, var: var.sqrt() + self.eps), VALUE + "eps is "
            "added to the variance, under the root.", NORM),
    Mistake("eps-ignored", override(BatchNorm, root=lambda self, var: var.sqrt()), VALUE + "the argument eps has "
            "no effect, and it belongs under the root.", NORM),
    Mistake("divided-by-variance", override(BatchNorm, root=lambda self, var: var + self.eps), AT + "it was divided by "
            "the variance, and not by its root.", NORM),
    Mistake("computes-in-float32", CastsToFloat32, "In the case \"{case}\" the value at {at} agrees with the "
            "wanted one in the first digits only: the parameters were moved to float64, but the batch was rounded to "
            "float32.", NORM),
    Mistake("sample-variance-in-the-batch", SampleVariance, VALUE + "the batch itself is divided by its population "
            "standard deviation.", NORM),
    Mistake("no-scale-and-shift", override(BatchNorm, scaled=lambda self, y: y), AT + "weight and bias are not "
            "applied.", NORM),
    Mistake("statistics-over-the-batch-only", OverTheBatchOnly, VALUE + "a channel's statistics go over all its "
            "pixels, too.", NORM),
    Mistake("statistics-over-everything", override(BatchNorm, dims=lambda self, x: list(range(x.ndim))), AT + "each "
            "channel has statistics of its own.", NORM),
    Mistake("statistics-detached",
            override(BatchNorm, of_the_batch=lambda self, x: BatchNorm.of_the_batch(self, x.detach())), "The {what} at "
            "{at} is {got_at} and should be {want_at}: the batch's mean and variance depend on x as well, so gradients "
            "go through them.", NORM),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    c = draw.size(1, 5)
    weights = {"weight": draw.normal(c), "bias": draw.normal(c)}
    options = {"momentum": draw.pick([0.01, 0.5, 1.0]), "eps": draw.pick([1e-3, 0.1])}
    loose: dict[str, Any] = {"weights": weights, "refused": False, "rtol": 1e-3, "atol": 1e-3}
    return [
        case("drawn options", options=options, batches=[draw.normal(5, c, 2, 3) for _ in range(3)], **loose),
        case("channels last", options={}, batches=[draw.normal(3, 4, 2, c).permute(0, 3, 1, 2)], **loose),
        case("batches of several sizes", options={}, batches=[draw.normal(n, c) for n in (2, 7, 3)], **loose),
        case("one image of one pixel", options=options, batches=[draw.normal(1, c, 1, 1)], weights=weights,
             refused=True),
    ]  # fmt: skip


# Right answers unlike the reference


class BatchNormRegistered(nn.Module):
    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.weight = nn.Parameter(torch.ones(num_features))
        self.bias = nn.Parameter(torch.zeros(num_features))
        self.register_buffer("running_mean", torch.zeros(num_features))
        self.register_buffer("running_var", torch.ones(num_features))
        self.register_buffer("num_batches_tracked", torch.zeros((), dtype=torch.long))

    def forward(self, x: Tensor) -> Tensor:
        rows = x.movedim(1, -1).reshape(-1, self.num_features)
        if self.training:
            if len(rows) <= 1:
                raise ValueError(f"Expected more than 1 value per channel when training, got input size {x.shape}")
            mean = rows.mean(0)
            squares = (rows - mean).pow(2)
            var = squares.mean(0)
            sample = squares.sum(0) / (len(rows) - 1)
            self.running_mean = (1 - self.momentum) * self.running_mean + self.momentum * mean.detach()
            self.running_var = (1 - self.momentum) * self.running_var + self.momentum * sample.detach()
            self.num_batches_tracked.add_(1)
        else:
            mean, var = self.running_mean, self.running_var
        rows = (rows - mean) / torch.sqrt(var + self.eps) * self.weight + self.bias
        return rows.reshape(x.movedim(1, -1).shape).movedim(-1, 1)


class BatchNormByInheritance(nn.BatchNorm2d):
    """Names and state come from torch's own; the arithmetic does not."""

    running_mean: Any
    running_var: Any
    momentum: Any
    num_batches_tracked: Any

    def forward(self, x: Tensor) -> Tensor:
        mean, var = self.running_mean, self.running_var
        if self.training:
            flat = x.transpose(0, 1).flatten(1)
            if flat.shape[1] == 1:
                raise ValueError(f"one value a channel in x of shape {tuple(x.shape)}")
            var, mean = torch.var_mean(flat, 1, correction=0)
            with torch.no_grad():
                self.running_mean += self.momentum * (mean - self.running_mean)
                self.running_var += self.momentum * (flat.var(1) - self.running_var)
                self.num_batches_tracked += 1
        view = [1, x.shape[1]] + [1] * (x.dim() - 2)
        hat = (x - mean.view(view)) * torch.rsqrt(var.view(view) + self.eps)
        return torch.addcmul(self.bias.view(view), hat, self.weight.view(view))


RIGHT_ANSWERS: list[Callable[..., Any]] = [BatchNormRegistered, BatchNormByInheritance]
