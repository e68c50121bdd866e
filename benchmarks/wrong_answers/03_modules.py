# %% Affine: uses-what-is-forbidden
class Affine(nn.Module):
    def __init__(self, in_features, out_features, bias=True):
        super().__init__()
        inner = nn.Linear(in_features, out_features, bias=bias)
        self.weight = inner.weight
        self.register_parameter("bias", inner.bias)
        nn.init.uniform_(self.weight, -(in_features**-0.5), in_features**-0.5)

    def forward(self, x):
        y = x @ self.weight.T
        return y if self.bias is None else y + self.bias


# %% capture: removes-others-hooks
def capture(model, names, x):
    modules = dict(model.named_modules())
    for name in names:
        if name not in modules:
            raise ValueError(f"unknown name {name}")
    out = {}

    def keep(name):
        def hook(module, inputs, output):
            out[name] = output.detach().clone()

        return hook

    for name in names:
        modules[name].register_forward_hook(keep(name))
    try:
        model(x)
    finally:
        for name in names:
            modules[name]._forward_hooks.clear()
    return out


# %% capture: matches-partial-name
def capture(model, names, x):
    modules = dict(model.named_modules())
    for name in names:
        if not any(m.startswith(name) for m in modules):
            raise ValueError(f"unknown name {name}")
    out, handles = {}, []

    def keep(name):
        def hook(module, inputs, output):
            out[name] = output.detach().clone()

        return hook

    for name in names:
        for m in modules:
            if m.startswith(name):
                handles.append(modules[m].register_forward_hook(keep(name)))
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return out


# %% capture: leaves-eval-mode
def capture(model, names, x):
    modules = dict(model.named_modules())
    for name in names:
        if name not in modules:
            raise ValueError(f"unknown name {name}")
    out, handles = {}, []

    def keep(name):
        def hook(module, inputs, output):
            out[name] = output.detach().clone()

        return hook

    for name in names:
        handles.append(modules[name].register_forward_hook(keep(name)))
    model.eval()
    try:
        with torch.no_grad():
            model(x)
    finally:
        for handle in handles:
            handle.remove()
    return out


# %% freeze: returns-the-newly-frozen
def freeze(model, prefix):
    names = []
    for name, p in model.named_parameters():
        if prefix and (name == prefix or name.startswith(prefix + ".")) and p.requires_grad:
            p.requires_grad_(False)
            names.append(name)
    if not names:
        raise ValueError(f"prefix {prefix!r} matches no parameter")
    return sorted(names)


# %% freeze: thaws-the-rest
def freeze(model, prefix):
    chosen = [n for n, _ in model.named_parameters() if prefix and (n == prefix or n.startswith(prefix + "."))]
    if not chosen:
        raise ValueError(f"prefix {prefix!r} matches no parameter")
    for name, p in model.named_parameters():
        p.requires_grad = name not in chosen
    return sorted(chosen)


# %% freeze: matches-in-the-middle
def freeze(model, prefix):
    chosen = [n for n, _ in model.named_parameters() if prefix and f".{prefix}." in f".{n}."]
    if not chosen:
        raise ValueError(f"prefix {prefix!r} matches no parameter")
    for name, p in model.named_parameters():
        if name in chosen:
            p.requires_grad = False
    return sorted(chosen)


# %% weight_decay_groups: params-in-a-set
def weight_decay_groups(model, weight_decay):
    trained = {p for p in model.parameters() if p.requires_grad}
    return [
        {"params": {p for p in trained if p.ndim >= 2}, "weight_decay": weight_decay},
        {"params": {p for p in trained if p.ndim < 2}, "weight_decay": 0.0},
    ]


# %% weight_decay_groups: decay-hard-coded
def weight_decay_groups(model, weight_decay):
    trained = [p for p in model.parameters() if p.requires_grad]
    return [
        {"params": [p for p in trained if p.ndim >= 2], "weight_decay": 0.01},
        {"params": [p for p in trained if p.ndim < 2], "weight_decay": 0.0},
    ]


# %% init_weights: subclasses-left
def init_weights(model):
    for m in model.modules():
        if type(m) in (nn.Linear, nn.Conv2d):
            nn.init.kaiming_normal_(m.weight, mode="fan_in", nonlinearity="relu")
            if m.bias is not None:
                nn.init.zeros_(m.bias)
        elif isinstance(m, nn.LayerNorm | nn.GroupNorm | nn.modules.batchnorm._NormBase):
            if m.weight is not None:
                nn.init.ones_(m.weight)
            if m.bias is not None:
                nn.init.zeros_(m.bias)


# %% Dropout: drops-an-exact-count
class Dropout(nn.Module):
    def __init__(self, p=0.5):
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"p is {p}, but has to lie between 0 and 1")
        self.p = p

    def forward(self, x):
        if not self.training:
            return x
        if self.p == 1:
            return torch.zeros_like(x)
        mask = torch.ones(x.numel(), dtype=torch.bool, device=x.device)
        mask[torch.randperm(x.numel(), device=x.device)[: round(self.p * x.numel())]] = False
        return x * mask.view(x.shape) / (1 - self.p)


# %% Affine: plain-tensor, bias-false-ignored
class Affine(nn.Module):
    def __init__(self, in_features, out_features, bias=True):
        super().__init__()
        b = in_features**-0.5
        self.weight = torch.empty(out_features, in_features).uniform_(-b, b)
        self.bias = torch.empty(out_features).uniform_(-b, b)

    def forward(self, x):
        return x @ self.weight.T + self.bias


# %% Affine: starts-normal, bias-starts-at-zero
class Affine(nn.Module):
    def __init__(self, in_features, out_features, bias=True):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out_features, in_features) / in_features**0.5)
        if bias:
            self.bias = nn.Parameter(torch.zeros(out_features))
        else:
            self.register_parameter("bias", None)

    def forward(self, x):
        y = x @ self.weight.T
        return y if self.bias is None else y + self.bias


# %% Standardizer: sample-deviation, zero-deviation-kept
class Standardizer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("std", torch.ones(dim))

    def fit(self, x):
        self.mean.copy_(x.mean(0))
        self.std.copy_(x.std(0))
        return self

    def forward(self, x):
        return ((x - self.mean) / self.std).to(x.dtype)


# %% GatedLinear: gate-not-sigmoid, weight-transposed
class GatedLinear(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        b = in_features**-0.5
        self.weight = nn.Parameter(torch.empty(in_features, out_features).uniform_(-b, b))
        self.gate_weight = nn.Parameter(torch.empty(in_features, out_features).uniform_(-b, b))
        self.bias = nn.Parameter(torch.zeros(out_features))

    def forward(self, x):
        return (x @ self.weight + self.bias) * torch.tanh(x @ self.gate_weight)


# %% Dropout: not-rescaled, out-of-range-accepted
class Dropout(nn.Module):
    def __init__(self, p=0.5):
        super().__init__()
        self.p = p

    def forward(self, x):
        if not self.training:
            return x
        return x * (torch.rand(x.shape, device=x.device) >= self.p)


# %% Dropout: active-in-eval, nan-at-one
class Dropout(nn.Module):
    def __init__(self, p=0.5):
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"p is {p}, but has to lie between 0 and 1")
        self.p = p

    def forward(self, x):
        return x * (torch.rand(x.shape, device=x.device) >= self.p) / (1 - self.p)


# %% count_parameters: counts-tensors, ignores-trainable-only
def count_parameters(model, trainable_only=False):
    return len(list(model.parameters()))


# %% freeze: matches-partial-name, empty-prefix-accepted, unknown-prefix-accepted
def freeze(model, prefix):
    names = []
    for n, p in model.named_parameters():
        if n.startswith(prefix):
            p.requires_grad = False
            names.append(n)
    return names


# %% BatchNorm: one-value-accepted, biased-running-variance
class BatchNorm(nn.Module):
    def __init__(self, num_features, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(num_features))
        self.bias = nn.Parameter(torch.zeros(num_features))
        self.register_buffer("running_mean", torch.zeros(num_features))
        self.register_buffer("running_var", torch.ones(num_features))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        dims = [0] if x.ndim == 2 else [0, 2, 3]
        if self.training:
            mean, var = x.mean(dims), x.var(dims, unbiased=False)
            with torch.no_grad():
                self.running_mean.mul_(1 - self.momentum).add_(self.momentum * mean)
                self.running_var.mul_(1 - self.momentum).add_(self.momentum * var)
                self.num_batches_tracked += 1
        else:
            mean, var = self.running_mean, self.running_var
        s = (1, -1) if x.ndim == 2 else (1, -1, 1, 1)
        return (x - mean.view(s)) / torch.sqrt(var.view(s) + self.eps) * self.weight.view(s) + self.bias.view(s)


# %% weight_decay_groups: decays-bias-and-norm, includes-frozen
def weight_decay_groups(model, weight_decay):
    decay = [p for n, p in model.named_parameters() if not n.endswith("bias")]
    rest = [p for n, p in model.named_parameters() if n.endswith("bias")]
    return [{"params": decay, "weight_decay": weight_decay}, {"params": rest, "weight_decay": 0.0}]
