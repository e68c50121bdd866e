"""Lesson 03: right answers in other styles than the reference's. Each must pass every case on every device."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

# --- Affine ------------------------------------------------------------------------------------------------------


class AffineByInit(nn.Module):
    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty((out_features, in_features)))
        self.register_parameter("bias", nn.Parameter(torch.empty(out_features)) if bias else None)
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(in_features)
            nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.einsum("...i,oi->...o", x, self.weight)
        return y if self.bias is None else self.bias + y


class AffineByRand(nn.Module):
    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        nn.Module.__init__(self)
        root = in_features**0.5
        self.weight = torch.nn.Parameter((2 * torch.rand(out_features, in_features) - 1) / root)
        self.bias = torch.nn.Parameter((2 * torch.rand(out_features) - 1) / root) if bias else None
        if not bias:
            del self.bias
            self.register_parameter("bias", None)

    def forward(self, x: Tensor) -> Tensor:
        y = (x.unsqueeze(-2) * self.weight).sum(-1)
        if self.bias is not None:
            y = y + self.bias
        return y


class AffineWithExtras(nn.Module):
    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = nn.Parameter(torch.zeros(out_features, in_features))
        if bias:
            self.bias = nn.Parameter(torch.zeros(out_features))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        for p in self.parameters():
            p.copy_(torch.distributions.Uniform(-1.0, 1.0).sample(p.shape) * self.in_features**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.matmul(x, self.weight.t())
        return y + self.bias if self.bias is not None else y


# --- MLP ---------------------------------------------------------------------------------------------------------


class MLPOfLists(nn.Module):
    def __init__(self, in_dim: int, hidden_dims: list[int], out_dim: int, dropout: float = 0.0) -> None:
        super().__init__()
        widths = [in_dim, *hidden_dims]
        self.out = nn.Linear(widths[-1], out_dim)
        self.norms = nn.ModuleList(nn.BatchNorm1d(w) for w in hidden_dims)
        self.linears = nn.ModuleList(nn.Linear(a, b) for a, b in zip(widths, hidden_dims, strict=False))
        self.p = dropout

    def forward(self, x: Tensor) -> Tensor:
        for linear, norm in zip(self.linears, self.norms, strict=True):
            x = F.dropout(norm(linear(x)).relu(), self.p, self.training)
        return self.out(x)


class Hidden(nn.Module):
    def __init__(self, inside: int, outside: int, dropout: float) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(inside, outside), nn.BatchNorm1d(outside)
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(F.relu(self.norm(self.linear(x))))


class MLPOfBlocks(nn.Sequential):
    def __init__(self, in_dim: int, hidden_dims: list[int], out_dim: int, dropout: float = 0.0) -> None:
        widths = [in_dim, *hidden_dims]
        blocks = [(f"block{i}", Hidden(a, b, dropout)) for i, (a, b) in enumerate(zip(widths, hidden_dims))]  # noqa: B905
        super().__init__(OrderedDict([*blocks, ("out", nn.Linear(widths[-1], out_dim))]))


class MLPByName(nn.Module):
    def __init__(self, in_dim: int, hidden_dims: list[int], out_dim: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.depth = len(hidden_dims)
        for i, width in enumerate(hidden_dims):
            self.add_module(f"linear{i}", nn.Linear(in_dim, width))
            self.add_module(f"norm{i}", nn.BatchNorm1d(width))
            in_dim = width
        self.relu, self.dropout = nn.ReLU(inplace=True), nn.Dropout(dropout)
        self.last = nn.Linear(in_dim, out_dim)

    def forward(self, x: Tensor) -> Tensor:
        for i in range(self.depth):
            x = self.get_submodule(f"norm{i}")(self.get_submodule(f"linear{i}")(x))
            x = self.dropout(self.relu(x))
        return self.last(x)


# --- Standardizer ------------------------------------------------------------------------------------------------


class StandardizerRegistered(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("std", torch.ones(dim))

    def fit(self, x: Tensor) -> StandardizerRegistered:
        with torch.no_grad():
            var, mean = torch.var_mean(x, dim=0, unbiased=False)
            std = var.sqrt()
            std[std == 0] = 1.0
            self.mean.copy_(mean)
            self.std.copy_(std)
        return self

    def forward(self, x: Tensor) -> Tensor:
        return x.sub(self.mean).div(self.std)


class StandardizerWithFlag(nn.Module):
    mean: Tensor
    std: Tensor

    def __init__(self, dim: int) -> None:
        super().__init__()
        for name, value in (("mean", 0.0), ("std", 1.0)):
            self.register_buffer(name, torch.full((dim,), value))
        self.register_buffer("fitted", torch.tensor(False))

    @torch.no_grad()
    def fit(self, x: Tensor) -> nn.Module:
        self.mean = x.sum(0) / len(x)
        std = ((x - self.mean) ** 2).mean(0).sqrt()
        self.std = std + (std == 0).to(std.dtype)
        self.fitted.fill_(True)
        return self

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean) / self.std


# --- GatedLinear -------------------------------------------------------------------------------------------------


class GatedByProducts(nn.Module):
    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        for name in ("gate_weight", "weight"):
            self.register_parameter(name, nn.Parameter(torch.randn(out_features, in_features) / in_features**0.5))
        self.bias = nn.Parameter(torch.zeros(out_features))

    def forward(self, x: Tensor) -> Tensor:
        return (x @ self.weight.mT + self.bias) * torch.sigmoid(x @ self.gate_weight.mT)


class GatedByGlu(nn.Module):
    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out_features, in_features))
        self.gate_weight = nn.Parameter(torch.empty(out_features, in_features))
        self.bias = nn.Parameter(torch.empty(out_features))
        for p in self.parameters():
            nn.init.normal_(p, std=0.1)

    def forward(self, x: Tensor) -> Tensor:
        both = F.linear(x, torch.cat([self.weight, self.gate_weight]), torch.cat([self.bias, self.bias * 0]))
        return F.glu(both, dim=-1)


# --- Dropout -----------------------------------------------------------------------------------------------------


class DropoutByBernoulli(nn.Module):
    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.keep = 1 - p

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.keep == 1:
            return x
        if self.keep == 0:
            return x * 0.0
        return x * torch.bernoulli(torch.full_like(x, self.keep)) / self.keep


class DropoutByWhere(nn.Module):
    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        assert 0.0 <= p <= 1.0, f"expected 0 <= p <= 1, got p={p}"
        self.register_buffer("p", torch.tensor(float(p)), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            factor = torch.where(self.p < 1, 1 / (1 - self.p), 0.0).to(x.dtype)
            return torch.where(torch.rand_like(x, dtype=torch.float32) < self.p, torch.zeros_like(x), x * factor)
        return x


class DropoutByUniform(nn.Module):
    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise TypeError(f"p = {p} is no probability: 0 <= p <= 1")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0.0:
            return x.clone()
        if self.p == 1.0:
            return torch.zeros_like(x)
        mask = torch.empty(x.shape, device=x.device).uniform_() > self.p
        return x.mul(mask.to(x.dtype)).div(1 - self.p)


# --- BatchNorm ---------------------------------------------------------------------------------------------------


class BatchNormRegistered(nn.Module):
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


# --- ResidualBlock -----------------------------------------------------------------------------------------------


class Projection(nn.Module):
    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(outside)
        self.conv = nn.Conv2d(inside, outside, kernel_size=1, stride=stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.conv(x))


class BlockInPlace(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, stride: int = 1) -> None:
        super().__init__()
        self.skip = nn.Sequential()
        if (in_channels, 1) != (out_channels, stride):
            self.skip = Projection(in_channels, out_channels, stride)
        self.bn2, self.bn1 = nn.BatchNorm2d(out_channels), nn.BatchNorm2d(out_channels)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, 1, "same", bias=False)
        self.conv1 = nn.Conv2d(in_channels, out_channels, (3, 3), (stride, stride), (1, 1), bias=False)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        identity = self.skip(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += identity
        return self.relu(out)


class BlockOfDict(nn.Module):
    relu = staticmethod(F.relu)

    def __init__(self, in_channels: int, out_channels: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out_channels)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out_channels)
        same = stride == 1 and in_channels == out_channels
        conv = nn.Conv2d(in_channels, out_channels, 1, stride, bias=False)
        layers = OrderedDict(conv=conv, bn=nn.BatchNorm2d(out_channels))
        self.skip = nn.Identity() if same else nn.Sequential(layers)

    def forward(self, x: Tensor) -> Tensor:
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(torch.add(self.skip(x), out))


# --- count_parameters, freeze, weight_decay_groups ---------------------------------------------------------------


def count_by_id(model: nn.Module, trainable_only: bool = False) -> int:
    seen: dict[int, int] = {}
    for module in model.modules():
        for p in module._parameters.values():
            if p is not None and (p.requires_grad or not trainable_only):
                seen[id(p)] = p.nelement()
    return sum(seen.values())


def count_by_sizes(model: nn.Module, trainable_only: bool = False) -> int:
    total = 0
    for _name, p in model.named_parameters():
        if trainable_only and not p.requires_grad:
            continue
        total += math.prod(p.shape)
    return total


def count_recursively(model: nn.Module, trainable_only: bool = False) -> int:
    return len(nn.utils.parameters_to_vector([p for p in set(model.parameters()) if p.requires_grad >= trainable_only])
               ) if any(p.requires_grad >= trainable_only for p in model.parameters()) else 0  # fmt: skip


def freeze_by_parts(model: nn.Module, prefix: str) -> list[str]:
    parts = prefix.split(".")
    names = []
    for name, p in model.named_parameters():
        if name.split(".")[: len(parts)] == parts:
            p.requires_grad = False
            names.append(name)
    if not names:
        raise ValueError(f"prefix {prefix!r} matches no parameter; wanted the name of a submodule or parameter")
    names.sort()
    return names


def freeze_by_lookup(model: nn.Module, prefix: str) -> list[str]:
    if not prefix:
        raise ValueError("prefix is '', an empty prefix would freeze everything; name a submodule or a parameter")
    named = dict(model.named_parameters())
    if prefix in named:
        named[prefix].requires_grad_(False)
        return [prefix]
    try:
        module = model.get_submodule(prefix.rstrip("."))
    except AttributeError:
        raise ValueError(f"prefix {prefix!r} is neither a submodule nor a parameter") from None
    names = sorted(f"{prefix}.{name}" for name, _ in module.named_parameters())
    if not names or prefix.endswith("."):
        raise ValueError(f"prefix {prefix!r} holds no parameters, and has to hold some")
    module.requires_grad_(False)
    return names


def groups_by_loop(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    decay, rest = [], []
    for _name, p in model.named_parameters():
        if not p.requires_grad:
            continue
        (decay if p.dim() > 1 else rest).append(p)
    return [{"params": decay, "weight_decay": weight_decay}, {"params": rest, "weight_decay": 0}]


def groups_by_filter(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    trained = dict.fromkeys(p for m in model.modules() for p in m.parameters(recurse=False) if p.requires_grad)

    def group(name: str, flat: bool, decay: float) -> dict[str, Any]:
        return {"name": name, "params": tuple(p for p in trained if (len(p.shape) < 2) == flat), "weight_decay": decay}

    return [group("decays", False, weight_decay), group("rests", True, 0.0)]


# --- capture -----------------------------------------------------------------------------------------------------


def capture_with_a_stack(model: nn.Module, names: list[str], x: Tensor) -> dict[str, Tensor]:
    outputs: dict[str, Tensor] = {}

    @contextmanager
    def listening(name: str) -> Iterator[None]:
        def keep(_m: nn.Module, _i: Any, output: Any) -> None:
            if torch.is_tensor(output):
                outputs[name] = output.clone().detach()

        try:
            module = model.get_submodule(name)
        except AttributeError as error:
            raise ValueError(f"names has {name!r}, and the model has no such submodule") from error
        with module.register_forward_hook(keep):
            yield

    with ExitStack() as stack:
        for name in names:
            stack.enter_context(listening(name))
        model(x)
    return outputs


def capture_with_no_grad(model: nn.Module, names: list[str], x: Tensor) -> dict[str, Tensor]:
    modules = dict(model.named_modules())
    if not set(names) <= modules.keys():
        raise ValueError(f"unknown names: {sorted(set(names) - modules.keys())}")
    by_module = {modules[name]: name for name in names}
    outputs: dict[str, Tensor] = {}
    handles = []
    for module, name in by_module.items():
        handles.append(module.register_forward_hook(
            lambda _m, _i, out, name=name: outputs.__setitem__(name, torch.empty_like(out).copy_(out))
        ))
    try:
        with torch.no_grad():
            model(x)
    finally:
        [handle.remove() for handle in handles]
    return {name: outputs[name] for name in names}


# --- init_weights ------------------------------------------------------------------------------------------------


def init_by_apply(model: nn.Module) -> nn.Module:
    @torch.no_grad()
    def start(module: nn.Module) -> None:
        match module:
            case nn.Linear() | nn.Conv2d():
                fan_in = module.weight[0].numel()
                module.weight.normal_(0, (2 / fan_in) ** 0.5)
                if module.bias is not None:
                    module.bias.zero_()
            case (nn.BatchNorm1d() | nn.BatchNorm2d() | nn.BatchNorm3d() | nn.LayerNorm() | nn.GroupNorm()
                  | nn.InstanceNorm1d() | nn.InstanceNorm2d() | nn.InstanceNorm3d()):
                for p, value in ((module.weight, 1.0), (module.bias, 0.0)):
                    if p is not None:
                        p.fill_(value)

    return model.apply(start)


def init_by_data(model: nn.Module) -> None:
    for module in model.modules():
        own = dict(module.named_parameters(recurse=False))
        if "Norm" in type(module).__name__ and own:
            own["weight"].data = torch.ones_like(own["weight"].data)
            own["bias"].data = torch.zeros_like(own["bias"].data)
        elif isinstance(module, (nn.Linear, nn.Conv2d)):
            nn.init.kaiming_normal_(own["weight"])
            if "bias" in own:
                own["bias"].data.mul_(0)


RIGHT: dict[str, list[Callable[..., Any]]] = {
    "Affine": [AffineByInit, AffineByRand, AffineWithExtras],
    "MLP": [MLPOfLists, MLPOfBlocks, MLPByName],
    "Standardizer": [StandardizerRegistered, StandardizerWithFlag],
    "GatedLinear": [GatedByProducts, GatedByGlu],
    "Dropout": [DropoutByBernoulli, DropoutByWhere, DropoutByUniform],
    "BatchNorm": [BatchNormRegistered, BatchNormByInheritance],
    "ResidualBlock": [BlockInPlace, BlockOfDict],
    "count_parameters": [count_by_id, count_by_sizes, count_recursively],
    "freeze": [freeze_by_parts, freeze_by_lookup],
    "weight_decay_groups": [groups_by_loop, groups_by_filter],
    "capture": [capture_with_a_stack, capture_with_no_grad],
    "init_weights": [init_by_apply, init_by_data],
}
