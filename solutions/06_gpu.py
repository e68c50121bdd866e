# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 6 · GPUs
#
# %% tags=["setup"]
import time
from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from torchcourse import Unattempted, check, hint

# %% [markdown]
# ## Choosing a device
#
# %% [markdown]
# ### Exercise: pick_device

# %% exercise="pick_device" points=2
def pick_device(prefer: str | torch.device | None = None) -> torch.device:
    """The preferred device if it is there; without a preference the accelerator, or else the CPU."""
    ### BEGIN SOLUTION
    if prefer is None:
        return torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")
    try:
        device = torch.device(prefer)
        module = torch.get_device_module(device)
    except RuntimeError:
        raise ValueError(f"prefer is {prefer!r}, but has to be the name of a device, such as 'cpu' or 'cuda'") from None
    count = module.device_count() if module.is_available() else 0
    if count <= (device.index or 0):
        raise ValueError(f"prefer is {prefer!r}, but has to be available, and this machine has {count} of that kind")
    return device
    ### END SOLUTION

# %% check="pick_device"
check("pick_device")

# %% [markdown]
# ## Moving what you have
#
# %% [markdown]
# ### Exercise: move_to

# %% exercise="move_to" points=2
def move_to(obj, device: torch.device):
    """obj with every tensor in it on `device`; dicts, lists, tuples and namedtuples keep their kind."""
    ### BEGIN SOLUTION
    if isinstance(obj, Tensor):
        return obj.to(device, non_blocking=True)
    if isinstance(obj, dict):
        return {key: move_to(value, device) for key, value in obj.items()}
    if isinstance(obj, list):
        return [move_to(value, device) for value in obj]
    if isinstance(obj, tuple):
        moved = (move_to(value, device) for value in obj)
        return type(obj)(*moved) if hasattr(obj, "_fields") else tuple(moved)
    return obj
    ### END SOLUTION

# %% check="move_to"
check("move_to")

# %% [markdown]
# ## Making things where the data is
#
# %% [markdown]
# ### Exercise: causal_mask

# %% exercise="causal_mask" points=1
def causal_mask(x: Tensor) -> Tensor:
    """For x of shape (b, t, d), a bool mask (t, t): True where position i may not attend to position j."""
    ### BEGIN SOLUTION
    t = x.shape[1]
    return torch.ones(t, t, dtype=torch.bool, device=x.device).triu(diagonal=1)
    ### END SOLUTION

# %% check="causal_mask"
check("causal_mask")

# %% [markdown]
# ### Exercise: PositionalEncoding

# %% exercise="PositionalEncoding" points=2
class PositionalEncoding(nn.Module):
    """Adds sines and cosines of the position to x of shape (b, t, dim)."""

    def __init__(self, dim: int, max_len: int) -> None:
        ### BEGIN SOLUTION
        super().__init__()
        position = torch.arange(max_len, dtype=torch.float32)[:, None]
        column = torch.arange(dim)
        angle = position / 10_000 ** (2 * (column // 2) / dim)
        self.table = nn.Buffer(torch.where(column % 2 == 0, angle.sin(), angle.cos()), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.table[: x.shape[1]].to(x.dtype)
        ### END SOLUTION

# %% check="PositionalEncoding"
check("PositionalEncoding")

# %% [markdown]
# ## Finding what stayed behind
#
# %% [markdown]
# ### Exercise: stray_tensors

# %% exercise="stray_tensors" points=3
def stray_tensors(model: nn.Module, device: torch.device) -> list[str]:
    """Sorted names of the parameters, buffers and plain tensor attributes that are not on `device`."""
    ### BEGIN SOLUTION
    home = torch.empty(0, device=device).device
    strays = []
    for path, module in model.named_modules():
        own = {**module._parameters, **module._buffers, **vars(module)}
        for name, value in own.items():
            if isinstance(value, Tensor) and value.device != home:
                strays.append(f"{path}.{name}" if path else name)
    return sorted(strays)
    ### END SOLUTION

# %% check="stray_tensors"
check("stray_tensors")

# %% [markdown]
# ## What a transfer costs
#
# ## Copying ahead
#
# %% [markdown]
# ### Exercise: prefetch

# %% exercise="prefetch" points=3
def prefetch(loader: Iterable, device: torch.device) -> Iterator:
    """The loader's batches on `device`; the copy of the next one starts before the present one is handed out."""
    ### BEGIN SOLUTION
    batches = (move_to(batch, device) for batch in loader)
    present = next(batches, None)
    while present is not None:
        following = next(batches, None)
        yield present
        present = following
    ### END SOLUTION

# %% check="prefetch"
check("prefetch")

# %% [markdown]
# ## Timing what runs later
#
# %% [markdown]
# ### Exercise: elapsed

# %% exercise="elapsed" points=3
def elapsed(fn: Callable[[], object], device: torch.device, *, warmup: int = 3, repeats: int = 10) -> list[float]:
    """Seconds that each of `repeats` runs of fn takes on `device`, after `warmup` runs that are not timed."""
    ### BEGIN SOLUTION
    def wait() -> None:
        if device.type != "cpu":
            torch.accelerator.synchronize(device)

    for _ in range(warmup):
        fn()
    seconds = []
    for _ in range(repeats):
        wait()
        start = time.perf_counter()
        fn()
        wait()
        seconds.append(time.perf_counter() - start)
    return seconds
    ### END SOLUTION

# %% check="elapsed"
check("elapsed")

# %% [markdown]
# ## What a training step holds in memory
#
# %% [markdown]
# ### Exercise: training_bytes

# %% exercise="training_bytes" points=2
def training_bytes(
    num_params: int, *, param_dtype: torch.dtype = torch.float32, optimizer: str = "adamw", master_weights: bool = False
) -> int:
    """Bytes that parameters, gradients, optimizer states and a master copy take in training."""
    ### BEGIN SOLUTION
    states = {"adamw": 2, "momentum": 1, "sgd": 0}
    if optimizer not in states:
        raise ValueError(f"optimizer is {optimizer!r}, but has to be one of {', '.join(states)}")
    parameter_and_gradient = 2 * param_dtype.itemsize
    return num_params * (parameter_and_gradient + 4 * states[optimizer] + 4 * master_weights)
    ### END SOLUTION

# %% check="training_bytes"
check("training_bytes")

# %% [markdown]
# ## The caching allocator
#
# ## Out of memory
#
# %% [markdown]
# ### Exercise: largest_batch

# %% exercise="largest_batch" points=3
def largest_batch(run: Callable[[int], object], start: int, limit: int) -> int:
    """The largest size up to `limit` for which run(size) does not run out of memory; 0 if there is none."""
    ### BEGIN SOLUTION
    def fits(size: int) -> bool:
        try:
            run(size)
        except torch.OutOfMemoryError:
            return False
        return True

    good, bad, size = 0, limit + 1, min(start, limit)
    while bad - good > 1:
        if fits(size):
            good = size
        else:
            bad = size
        size = min(2 * good, limit) if bad > limit else (good + bad) // 2
    return good
    ### END SOLUTION

# %% check="largest_batch"
check("largest_batch")

# %% [markdown]
# ## Checkpointing: compute it twice
#
# %% [markdown]
# ### Exercise: checkpointed

# %% exercise="checkpointed" points=2
def checkpointed(blocks: Iterable[nn.Module], x: Tensor) -> Tensor:
    """What the blocks make of x in turn; for backward each keeps its input alone."""
    ### BEGIN SOLUTION
    for block in blocks:
        x = checkpoint(block, x, use_reentrant=False)
    return x
    ### END SOLUTION

# %% check="checkpointed"
check("checkpointed")

# %% [markdown]
# ## The roofline
#
# %% [markdown]
# ### Exercise: roofline

# %% exercise="roofline" points=2
def roofline(flops: float, bytes: float, seconds: float, peak_flops: float, peak_bandwidth: float) -> dict[str, object]:
    """How fast an operation ran, what bounds it, and its share of what can be attained."""
    ### BEGIN SOLUTION
    achieved, intensity = flops / seconds, flops / bytes
    attainable = min(peak_flops, intensity * peak_bandwidth)
    bound = "compute" if intensity >= peak_flops / peak_bandwidth else "memory"
    return {"achieved": achieved, "intensity": intensity, "bound": bound, "fraction": achieved / attainable}
    ### END SOLUTION

# %% check="roofline"
check("roofline")

# %% [markdown]
# ## Other accelerators
