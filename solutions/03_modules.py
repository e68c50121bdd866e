# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 3 · Modules

# %% tags=["setup"]
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from torchcourse import Unattempted, check, hint

# %% [markdown]
# ## What a module remembers

# %% exercise="Affine" points=2
class Affine(nn.Module):
    """x W^T + b, with weight (out, in) and bias (out,) or a registered None."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        ### BEGIN SOLUTION
        super().__init__()
        bound = in_features**-0.5
        self.weight = nn.Parameter(torch.empty(out_features, in_features).uniform_(-bound, bound))
        if bias:
            self.bias = nn.Parameter(torch.empty(out_features).uniform_(-bound, bound))
        else:
            self.register_parameter("bias", None)

    def forward(self, x: Tensor) -> Tensor:
        y = x @ self.weight.T
        return y if self.bias is None else y + self.bias
        ### END SOLUTION

# %% check="Affine"
check("Affine")

# %% exercise="GatedLinear" points=2
class GatedLinear(nn.Module):
    """(x W^T + b) * sigmoid(x G^T)."""

    def __init__(self, in_features: int, out_features: int) -> None:
        ### BEGIN SOLUTION
        super().__init__()
        bound = in_features**-0.5
        self.weight = nn.Parameter(torch.empty(out_features, in_features).uniform_(-bound, bound))
        self.gate_weight = nn.Parameter(torch.empty(out_features, in_features).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(out_features))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias) * F.linear(x, self.gate_weight).sigmoid()
        ### END SOLUTION

# %% check="GatedLinear"
check("GatedLinear")

# %% [markdown]
# ## Buffers: state that is not trained

# %% exercise="Standardizer" points=2
class Standardizer(nn.Module):
    """(x - mean) / std, column by column; the identity until it was fitted."""

    def __init__(self, dim: int) -> None:
        ### BEGIN SOLUTION
        super().__init__()
        self.mean = nn.Buffer(torch.zeros(dim))
        self.std = nn.Buffer(torch.ones(dim))

    def fit(self, x: Tensor) -> "Standardizer":
        std = x.std(dim=0, correction=0)
        self.mean = x.mean(dim=0)
        self.std = torch.where(std == 0, 1, std)
        return self

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean) / self.std
        ### END SOLUTION

# %% check="Standardizer"
check("Standardizer")

# %% [markdown]
# ## Modules inside modules

# %% exercise="MLP" points=2
class MLP(nn.Module):
    """Linear, BatchNorm1d, ReLU, Dropout for each hidden width, then one Linear."""

    def __init__(self, in_dim: int, hidden_dims: list[int], out_dim: int, dropout: float = 0.0) -> None:
        ### BEGIN SOLUTION
        super().__init__()
        layers: list[nn.Module] = []
        width = in_dim
        for hidden in hidden_dims:
            layers += [nn.Linear(width, hidden), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Dropout(dropout)]
            width = hidden
        self.layers = nn.Sequential(*layers, nn.Linear(width, out_dim))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)
        ### END SOLUTION

# %% check="MLP"
check("MLP")

# %% [markdown]
# ## Counting and sharing

# %% exercise="count_parameters" points=1
def count_parameters(model: nn.Module, trainable_only: bool = False) -> int:
    """How many numbers a model's parameters hold."""
    ### BEGIN SOLUTION
    return sum(p.numel() for p in model.parameters() if p.requires_grad or not trainable_only)
    ### END SOLUTION

# %% check="count_parameters"
check("count_parameters")

# %% [markdown]
# ## Calling a module, and hooks

# %% exercise="capture" points=3
def capture(model: nn.Module, names: list[str], x: Tensor) -> dict[str, Tensor]:
    """Copies of what the named submodules put out during one model(x)."""
    ### BEGIN SOLUTION
    modules = dict(model.named_modules())
    unknown = [name for name in names if name not in modules]
    if unknown:
        raise ValueError(f"names holds {unknown}, but has to name submodules: {', '.join(modules)}")
    outputs: dict[str, Tensor] = {}

    def keep_as(name: str):
        def hook(module: nn.Module, inputs: object, output: object) -> None:
            if isinstance(output, Tensor):
                outputs[name] = output.detach().clone()
        return hook

    handles = [modules[name].register_forward_hook(keep_as(name)) for name in names]
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return outputs
    ### END SOLUTION

# %% check="capture"
check("capture")

# %% [markdown]
# ## Train and eval

# %% exercise="Dropout" points=2
class Dropout(nn.Module):
    """Zeros a share p of the entries in training, and scales the others up."""

    def __init__(self, p: float = 0.5) -> None:
        ### BEGIN SOLUTION
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"p is {p}, but has to lie between 0 and 1")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        if self.p == 1:
            return torch.zeros_like(x)
        dropped = torch.rand(x.shape, device=x.device) < self.p
        return x.masked_fill(dropped, 0) / (1 - self.p)
        ### END SOLUTION

# %% check="Dropout"
check("Dropout")

# %% [markdown]
# ## Batch norm by hand

# %% exercise="BatchNorm" points=3
class BatchNorm(nn.Module):
    """Batch norm over (N, C) or (N, C, H, W), with the names and numbers of nn.BatchNorm1d and 2d."""

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float = 0.1) -> None:
        ### BEGIN SOLUTION
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(num_features))
        self.bias = nn.Parameter(torch.zeros(num_features))
        self.running_mean = nn.Buffer(torch.zeros(num_features))
        self.running_var = nn.Buffer(torch.ones(num_features))
        self.num_batches_tracked = nn.Buffer(torch.tensor(0))

    def forward(self, x: Tensor) -> Tensor:
        mean, var = self._of_the_batch(x) if self.training else (self.running_mean, self.running_var)
        shape = (1, -1) + (1,) * (x.ndim - 2)
        scale = self.weight * (var + self.eps).rsqrt()
        return (x - mean.view(shape)) * scale.view(shape) + self.bias.view(shape)

    def _of_the_batch(self, x: Tensor) -> tuple[Tensor, Tensor]:
        count = x.numel() // x.shape[1]
        if count < 2:
            raise ValueError(f"x has shape {tuple(x.shape)}: training needs more than one value a channel")
        dims = [d for d in range(x.ndim) if d != 1]
        mean, var = x.mean(dims), x.var(dims, correction=0)
        with torch.no_grad():
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(var * count / (count - 1), self.momentum)
            self.num_batches_tracked += 1
        return mean, var
        ### END SOLUTION

# %% check="BatchNorm"
check("BatchNorm")

# %% [markdown]
# ## Freezing, and what decays

# %% exercise="freeze" points=2
def freeze(model: nn.Module, prefix: str) -> list[str]:
    """Freeze the parameters of the submodule or parameter called prefix; their sorted names."""
    ### BEGIN SOLUTION
    chosen = {
        name: parameter for name, parameter in model.named_parameters()
        if prefix and (name == prefix or name.startswith(prefix + "."))
    }
    if not chosen:
        raise ValueError(f"prefix is {prefix!r}, but has to name a submodule or parameter that holds parameters")
    for parameter in chosen.values():
        parameter.requires_grad_(False)
    return sorted(chosen)
    ### END SOLUTION

# %% check="freeze"
check("freeze")

# %% exercise="weight_decay_groups" points=2
def weight_decay_groups(model: nn.Module, weight_decay: float) -> list[dict]:
    """Two groups for an optimizer: tensors of 2 or more dimensions, which decay, and the rest."""
    ### BEGIN SOLUTION
    trained = [p for p in model.parameters() if p.requires_grad]
    return [
        {"params": [p for p in trained if p.ndim >= 2], "weight_decay": weight_decay},
        {"params": [p for p in trained if p.ndim < 2], "weight_decay": 0.0},
    ]
    ### END SOLUTION

# %% check="weight_decay_groups"
check("weight_decay_groups")

# %% [markdown]
# ## Initialisation and depth

# %% exercise="init_weights" points=2
def init_weights(model: nn.Module) -> None:
    """Kaiming normal weights, zero biases, norm layers one and zero; in place."""
    ### BEGIN SOLUTION
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_in", nonlinearity="relu")
        elif isinstance(module, nn.LayerNorm | nn.GroupNorm | nn.modules.batchnorm._NormBase):
            if module.weight is not None:
                nn.init.ones_(module.weight)
        else:
            continue
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    ### END SOLUTION

# %% check="init_weights"
check("init_weights")

# %% [markdown]
# ## Convolutions and shapes

# %% exercise="ResidualBlock" points=3
class ResidualBlock(nn.Module):
    """Two 3x3 convolutions with norms, and a way around them."""

    def __init__(self, in_channels: int, out_channels: int, stride: int = 1) -> None:
        ### BEGIN SOLUTION
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(out_channels)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(out_channels)
        self.skip: nn.Module = nn.Identity()
        if stride != 1 or in_channels != out_channels:
            self.skip = nn.Sequential(
                nn.Conv2d(in_channels, out_channels, 1, stride=stride, bias=False),
                nn.BatchNorm2d(out_channels),
            )

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return self.relu(y + self.skip(x))
        ### END SOLUTION

# %% check="ResidualBlock"
check("ResidualBlock")
