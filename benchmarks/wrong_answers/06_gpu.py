# %% PositionalEncoding: detached
class PositionalEncoding(nn.Module):
    def __init__(self, dim, max_len):
        super().__init__()
        pos = torch.arange(max_len)[:, None]
        freq = 10000.0 ** (-torch.arange(0, dim, 2) / dim)
        table = torch.zeros(max_len, dim)
        table[:, 0::2], table[:, 1::2] = torch.sin(pos * freq), torch.cos(pos * freq)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x):
        return x.detach() + self.table[: x.shape[1]].to(x.dtype)


# %% move_to: detached
def move_to(obj, device):
    if isinstance(obj, Tensor):
        return obj.detach().to(device)
    if isinstance(obj, dict):
        return {k: move_to(v, device) for k, v in obj.items()}
    if isinstance(obj, tuple) and hasattr(obj, "_fields"):
        return type(obj)(*(move_to(v, device) for v in obj))
    if isinstance(obj, (list, tuple)):
        return type(obj)(move_to(v, device) for v in obj)
    return obj


# %% move_to: takes-other-things-apart
def move_to(obj, device):
    if isinstance(obj, Tensor):
        return obj.to(device)
    if isinstance(obj, str):
        return obj
    if isinstance(obj, dict):
        return {k: move_to(v, device) for k, v in obj.items()}
    if isinstance(obj, tuple) and hasattr(obj, "_fields"):
        return type(obj)(*(move_to(v, device) for v in obj))
    if hasattr(obj, "__iter__") and not isinstance(obj, nn.Module):
        moved = [move_to(v, device) for v in obj]
        return tuple(moved) if isinstance(obj, tuple) else moved
    return obj


# %% checkpointed: changes-x
def checkpointed(blocks, x):
    x.requires_grad_()
    for block in blocks:
        x = checkpoint(block, x, use_reentrant=True)
    return x


# %% checkpointed: needs-a-list
def checkpointed(blocks, x):
    for i in range(len(blocks)):
        x = checkpoint(blocks[i], x, use_reentrant=False)
    return x


# %% pick_device: counts-cuda-for-every-kind
def pick_device(prefer=None):
    if prefer is None:
        return torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")
    try:
        device = torch.device(prefer)
    except RuntimeError:
        raise ValueError(f"prefer is {prefer!r}, which is no device") from None
    if device.type == "cpu":
        return device
    if (device.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"prefer is {prefer!r}, which is not available")
    return device


# %% largest_batch: reads-the-message
def largest_batch(run, start, limit):
    def fits(size):
        try:
            run(size)
            return True
        except RuntimeError as error:
            if "out of memory" in str(error):
                return False
            raise

    good, bad, size = 0, limit + 1, min(start, limit)
    while bad - good > 1:
        if fits(size):
            good = size
        else:
            bad = size
        size = min(2 * good, limit) if bad > limit else (good + bad) // 2
    return good


# %% largest_batch: runs-zero
def largest_batch(run, start, limit):
    def fits(size):
        try:
            run(size)
            return True
        except torch.OutOfMemoryError:
            return False

    low, high, size = -1, limit + 1, start
    while high - low > 1:
        if fits(size):
            low = size
        else:
            high = size
        size = (low + high) // 2
    return max(low, 0)


# %% stray_tensors: index-ignored
def stray_tensors(model, device):
    strays = []
    for path, module in model.named_modules():
        own = {**module._parameters, **module._buffers, **vars(module)}
        for name, value in own.items():
            if isinstance(value, Tensor) and value.device.type != torch.device(device).type:
                strays.append(f"{path}.{name}" if path else name)
    return sorted(strays)


# %% causal_mask: made-on-cpu
masks = {}


def causal_mask(x):
    t = x.shape[1]
    if t not in masks:
        masks[t] = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
    return masks[t]


# %% pick_device: hardcoded-cuda, trusts-preference
def pick_device(prefer=None):
    if prefer is not None:
        return torch.device(prefer)
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


# %% move_to: namedtuple-lost, mutates-input
def move_to(obj, device):
    if isinstance(obj, Tensor):
        return obj.to(device)
    if isinstance(obj, dict):
        for k in obj:
            obj[k] = move_to(obj[k], device)
        return obj
    if isinstance(obj, list):
        for i in range(len(obj)):
            obj[i] = move_to(obj[i], device)
        return obj
    if isinstance(obj, tuple):
        return tuple(move_to(v, device) for v in obj)
    return obj


# %% training_bytes: forgets-gradients, states-in-param-dtype
def training_bytes(num_params, *, param_dtype=torch.float32, optimizer="adamw", master_weights=False):
    states = {"adamw": 2, "momentum": 1, "sgd": 0}
    if optimizer not in states:
        raise ValueError(f"optimizer is {optimizer!r}, but has to be adamw, momentum or sgd")
    return num_params * param_dtype.itemsize * (1 + states[optimizer]) + (4 * num_params if master_weights else 0)


# %% PositionalEncoding: saved-in-state-dict, sine-and-cosine-swapped
class PositionalEncoding(nn.Module):
    def __init__(self, dim, max_len):
        super().__init__()
        angle = torch.arange(max_len)[:, None] / 10000 ** (torch.arange(0, dim, 2) / dim)
        table = torch.zeros(max_len, dim)
        table[:, 0::2], table[:, 1::2] = angle.cos(), angle.sin()
        self.register_buffer("table", table)

    def forward(self, x):
        return x + self.table[: x.shape[1]].to(x.dtype)
