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
# A GPU is a second computer next to yours. It has memory of its own, takes orders, and carries them out later. Nearly
# everything that goes wrong with it follows from one of these three: a tensor is in the wrong memory, the memory is
# full, or a clock was read before the work was done.
#
# You do not need a GPU for this lesson. Where there is none, this course provides a *simulated accelerator*: its
# tensors hold CPU values but refuse to mix with CPU tensors, as CUDA tensors do, and every copy, every wait and every
# byte on it is counted. What it cannot have is speed, so where seconds matter we measure the CPU, or your GPU if you
# have one, with the same cells. There are eleven exercises.

# %% tags=["setup"]
import time
from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from torchcourse import Unattempted, case, check, hint

# %% tags=["demo"]
# %load_ext torchcourse

# %% tags=["demo"]
from torchcourse.demos import devices

device = devices.second()
print(device, "is", devices.name(device))

# %% [markdown]
# ## Choosing a device
#
# Code that says `"cuda"` in ten places runs on one kind of machine. Choose the device once, at the top, and let
# everything else follow. `torch.accelerator` stands for whatever the machine has: CUDA (the name covers AMD's GPUs as
# well), Apple's MPS, Intel's XPU.

# %%
accelerator = torch.accelerator
print(
    accelerator.current_accelerator(),
    accelerator.current_accelerator(check_available=True),
)
print(
    accelerator.is_available(),
    torch.cuda.is_available(),
    torch.backends.mps.is_available(),
)

# %% [markdown]
# The first line can be a trap. Without `check_available` you are told which accelerator torch was *built* for, whether
# the machine has one or not; with it you get None where there is none. (The simulated one never shows up here.)
#
# In older code you will read `"cuda" if torch.cuda.is_available() else "cpu"`. On an Apple laptop that gives "cpu".
#
# A device object is only a name. The machine is not consulted until a tensor is made on it:

# %%
print(torch.device("cuda:7"), torch.device("cuda:7").index, torch.device("cuda").index)
try:
    torch.device("gpu")
except RuntimeError as error:
    print(str(error)[:60], "...")

# %% [markdown]
# Each kind has a module with the same few functions, and `torch.get_device_module` finds it by name:

# %%
for kind in ("cpu", "cuda", "mps", "xpu"):
    module = torch.get_device_module(kind)
    print(kind, module.is_available(), module.device_count())

# %% [markdown]
# **In short:** ask for what is available, not for what torch was built for; a name is no promise.

# %% [markdown]
# ### Exercise: pick_device
#
# Write `pick_device(prefer=None)`. Without a preference it gives the accelerator that is available, of whatever kind,
# or else the CPU. `prefer` is a name such as `"cpu"` or `"cuda:1"`, or a `torch.device`; if it is available, it is
# the answer. A preference that is unknown or not available (the kind, or an index that is too large) raises
# `ValueError` with a message that names `prefer` and says what it was. The check pretends to be several machines.
#
# ```
# pick_device()                # device(type='mps') on an Apple laptop
# pick_device("cuda:1")        # ValueError on a machine with one GPU
# ```

# %% exercise="pick_device" points=2
def pick_device(prefer: str | torch.device | None = None) -> torch.device:
    """The preferred device if it is there; without a preference the accelerator,
    or else the CPU."""
    ### BEGIN SOLUTION
    if prefer is None:
        return torch.accelerator.current_accelerator(
            check_available=True
        ) or torch.device("cpu")
    try:
        device = torch.device(prefer)
        module = torch.get_device_module(device)
    except RuntimeError:
        raise ValueError(
            f"prefer is {prefer!r}, but has to be the name of a device, such as 'cpu' "
            "or 'cuda'"
        ) from None
    count = module.device_count() if module.is_available() else 0
    if count <= (device.index or 0):
        raise ValueError(
            f"prefer is {prefer!r}, but has to be available, and this machine has "
            f"{count} of that kind"
        )
    return device
    ### END SOLUTION

# %% check="pick_device"
check("pick_device")

# %% [markdown]
# ## Moving what you have
#
# `t.to(device)` gives a tensor on that device. If `t` is there already, it gives `t` itself, without a copy. A module
# is different: `model.to(device)` changes the model.

# %%
t, layer = torch.zeros(2), nn.Linear(2, 1)
print(t.to("cpu") is t, t.to("meta") is t, layer.to("cpu") is layer)
layer.to("meta")
print(t.device, layer.weight.device)

# %% [markdown]
# (Every machine has the device `"meta"`, whose tensors have no values. It is handy for trying out where things go.)
#
# A model is moved once. Batches are moved one by one, and they are seldom a single tensor: a pair, a dict with a mask
# in it, a namedtuple. If you write `x, y = x.to(device), y.to(device)` everywhere, sooner or later one of them is
# forgotten.
#
# A container should be rebuilt as the type it was. A namedtuple is a tuple, but it is constructed differently:

# %%
from collections import namedtuple

Batch = namedtuple("Batch", ["x", "mask"])
batch = Batch(torch.zeros(2), torch.ones(2))
print(
    isinstance(batch, tuple),
    tuple(batch) == batch,
    hasattr(tuple(batch), "mask"),
    batch._fields,
)
try:
    Batch([1, 2])
except TypeError as error:
    print(error)

# %% [markdown]
# And the caller still holds the container that you were given. If you assign into it, you change the caller's batch.
#
# **In short:** tensors come back new, modules change; a namedtuple takes its fields one by one.

# %% [markdown]
# ### Exercise: move_to
#
# Write `move_to(obj, device)`: the same object with every tensor in it on `device`. Look into dicts, lists, tuples and
# namedtuples, however deeply nested; each comes back as what it was (subclasses of dict and list need not). Everything
# else (text, numbers, None, modules, other objects) passes through as it is. The input is not changed.
#
# ```
# move_to({"x": torch.zeros(2), "ids": ["a7"]}, torch.device("meta"))
# ```

# %% exercise="move_to" points=2
def move_to(obj, device: torch.device):
    """obj with every tensor in it on `device`; dicts, lists,
    tuples and namedtuples keep their type."""
    ### BEGIN SOLUTION
    if isinstance(obj, Tensor):
        # to the CPU, wait for the numbers
        return obj.to(device, non_blocking=device.type != "cpu")
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
# Many errors about devices do not come from data that was left behind. They come from a tensor that a function
# creates: a mask, a range of positions, zeros for a state. Without `device=` it is made on the CPU.

# %% tags=["demo"]
def shifted(x: Tensor) -> Tensor:
    return x + torch.arange(x.shape[-1])


print(shifted(torch.zeros(3)))
try:
    shifted(torch.zeros(3, device=device))
except RuntimeError as error:
    print(error)

# %% [markdown]
# On the CPU the function works, and the tests on your laptop pass. The message names the two devices. Something was
# created on the CPU; look for a call without `device=`, starting from the line at the end of the traceback and going
# up.
#
# Here are three ways to follow the data, none of which says which device it is:

# %%
x = torch.zeros(2, 3, dtype=torch.float64, device="meta")
print(
    torch.arange(3, device=x.device).device,
    x.new_ones(3).dtype,
    torch.zeros_like(x).device,
)
print(torch.zeros(3, device=device) + torch.tensor(1.0))

# %% [markdown]
# `new_ones` and `zeros_like` copy the dtype as well. Python numbers (`x + 1`) need no device, and the last line shows
# an exception to the rule: a CPU tensor without dimensions may be mixed in. (So may CPU indices, in `x[i]`.)
#
# A fourth way changes the default: inside `with torch.device(...)` whatever is created without `device=` is created
# there. It suits building a model, since the layers are made in place and never on the CPU first. It does not suit
# functions, which should follow the tensor that they get and not a default that their caller happens to have set:

# %%
with torch.device("meta"):
    layer, made = nn.Linear(10_000, 10_000), torch.arange(3)
print(layer.weight.device, made.device, torch.arange(3).device)

# %% [markdown]
# The classic case is a mask for attention. In a text of t positions, position i may look at itself and at what came
# before:

# %%
scores = torch.zeros(3, 3)
forbidden = torch.tensor(
    [[False, True, True], [False, False, True], [False, False, False]]
)
print(scores.masked_fill(forbidden, float("-inf")).softmax(-1))

# %% [markdown]
# Mind the convention. Here, as in `nn.MultiheadAttention`, **True means forbidden**. In
# `F.scaled_dot_product_attention` True means *may attend*, and in lessons 1 and 4 True meant *real data*. A mask that
# is the wrong way round raises no error.

# %% [markdown]
# ### Exercise: causal_mask
#
# Write `causal_mask(x)`: for `x` of shape `(b, t, d)` a bool mask of shape `(t, t)` on x's device, True where
# attention is forbidden: row i is the position that attends, column j the one that is attended to, and j > i is the
# future.
#
# ```
# causal_mask(torch.zeros(2, 3, 8))
# # [[False, True, True], [False, False, True], [False, False, False]]
# ```

# %% exercise="causal_mask" points=1
def causal_mask(x: Tensor) -> Tensor:
    """For x of shape (b, t, d), a bool mask (t, t):
    True where position i may not attend to position j."""
    ### BEGIN SOLUTION
    t = x.shape[1]
    return torch.ones(t, t, dtype=torch.bool, device=x.device).triu(diagonal=1)
    ### END SOLUTION

# %% check="causal_mask"
check("causal_mask")

# %% [markdown]
# A table that a module needs on every call is made once, in `__init__`, when nobody knows yet where the module will
# live. So it must move with the module, and that is what a buffer does (lesson 3). With `persistent=False` it is not
# saved. That is right for what can be computed again: a `state_dict` saved from a model with a longer table still
# loads.
#
# Attention does not know the order of its inputs. One remedy adds a distinct pattern to each position, made of
# waves from fast to slow. Columns 2i and 2i+1 share a frequency:
#
# `angle(p, i) = p / 10000 ** (2i / dim)`, sine in column 2i, cosine in column 2i+1

# %%
dim, position = 8, 3
print([round(position / 10_000 ** (2 * i / dim), 4) for i in range(dim // 2)])

# %% [markdown]
# Remember promotion: bfloat16 plus a float32 table is float32. Converting the table to the input's dtype keeps the
# result in that dtype.

# %%
print((torch.zeros(2, dtype=torch.bfloat16) + torch.zeros(2)).dtype)

# %% [markdown]
# **In short:** whatever you create follows `x.device`; whatever you keep is a buffer.

# %% [markdown]
# ### Exercise: PositionalEncoding
#
# Write `PositionalEncoding(dim, max_len)`, `dim` even. Its table of `max_len` rows and `dim` columns holds sines in
# the even columns and cosines in the odd ones, as above. It is a buffer and not in the `state_dict`. `forward(x)`
# adds the first t rows to `x` of shape `(b, t, dim)`, t at most `max_len`, and keeps x's dtype.
#
# ```
# PositionalEncoding(2, 10)(torch.zeros(1, 3, 2))
# # [[[0.0, 1.0], [0.8415, 0.5403], [0.9093, -0.4161]]]: sine and cosine of 0, 1 and 2
# ```

# %% exercise="PositionalEncoding" points=2
class PositionalEncoding(nn.Module):
    """Adds sines and cosines of the position to x of shape (b, t, dim)."""

    def __init__(self, dim: int, max_len: int) -> None:
        ### BEGIN SOLUTION
        super().__init__()
        position = torch.arange(max_len, dtype=torch.float32)[:, None]
        column = torch.arange(dim)
        angle = position / 10_000 ** (2 * (column // 2) / dim)
        self.table = nn.Buffer(
            torch.where(column % 2 == 0, angle.sin(), angle.cos()), persistent=False
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.table[: x.shape[1]].to(x.dtype)
        ### END SOLUTION

# %% check="PositionalEncoding"
check("PositionalEncoding")

# %% [markdown]
# ## Finding what stayed behind
#
# Somebody else's model fails with an error about two devices, and it has forty modules. Which tensor stayed behind?
# Here is a module that holds tensors in three ways:

# %% tags=["demo"]
class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.mean = nn.Buffer(torch.zeros(3))
        self.scale = torch.full((3,), 2.0)

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean) * self.weight * self.scale


scaled = Scaled().to(device)
print({name: str(getattr(scaled, name).device) for name in ("weight", "mean", "scale")})

# %% [markdown]
# `scale` is a plain attribute, and `.to()` does not know about it. None of the module's lists contains it either. But
# Python knows it: `vars(obj)` is the dict of an object's attributes. Parameters, buffers and submodules are kept
# separately, in dicts of their own.

# %%
linear = nn.Linear(2, 1)
linear.extra = torch.zeros(2)
print([name for name, value in vars(linear).items() if isinstance(value, Tensor)])
print([path for path, module in nn.Sequential(nn.Sequential(linear)).named_modules()])

# %% [markdown]
# `named_modules` gives the path of each submodule, and an empty one for the model itself.
#
# Comparing devices has a trap of its own. A GPU tensor's device always has an index; a name need not have one:

# %%
print(torch.device("cuda") == torch.device("cuda:0"))

# %% [markdown]
# So either find out where a tensor created on `device` ends up, or compare the types, and compare the indices only if
# `device` has one.
#
# **In short:** there are three places to look in every submodule.

# %% [markdown]
# ### Exercise: stray_tensors
#
# Write `stray_tensors(model, device)`: the sorted dotted names of all the model's tensors that are not on `device`:
# parameters, buffers (saved or not), and tensors that are plain attributes of the model or any submodule. `device` is
# a `torch.device`, with or without an index. Nothing is moved.
#
# ```
# stray_tensors(model, device)    # ['body.0.scale', 'head.weight']
# ```

# %% exercise="stray_tensors" points=3
def stray_tensors(model: nn.Module, device: torch.device) -> list[str]:
    """Sorted names of the parameters,
    buffers and plain tensor attributes that are not on `device`."""
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
# Between the two memories there is a bus. Its speed, and that of the GPU's own memory, are in the data sheets: PCI-SIG
# gives 16 GT/s (billions of transfers a second, each of one bit) a lane for PCIe 4.0 and 32 GT/s for 5.0, with 16 lanes
# in a slot; NVIDIA gives 3.35 TB/s for the memory of the H100 SXM. Take a batch of 256 colour images of 224 by 224, in
# float32:

# %%
size = 256 * 3 * 224 * 224 * 4
lanes, coding = 16, 128 / 130  # of 130 bits on the wire, 128 are data
speeds = {
    "PCIe 4.0 x16": 16 / 8 * lanes * coding,
    "PCIe 5.0 x16": 32 / 8 * lanes * coding,
    "H100 memory": 3350,
}
for way, speed in speeds.items():
    print(
        f"{way}: {speed:6.1f} GB/s at most, {size / speed / 1e6:5.2f} ms for "
        f"{size / 1e6:.0f} MB"
    )

# %% [markdown]
# These are upper limits from specifications, not measurements. What they show is the order of magnitude: the bus is
# some fifty to a hundred times slower than the memory behind it. If you send uint8 images and convert them on the
# GPU, the batch is a quarter as large. What your machine does can be measured; here is a plain copy within the CPU's
# memory:

# %% tags=["demo"]
source = torch.ones(8_000_000)
target = torch.empty_like(source)
times = []
for _ in range(5):
    start = time.perf_counter()
    target.copy_(source)
    times.append(time.perf_counter() - start)
print(
    f"{4 * source.numel() / min(times) / 1e9:.1f} GB/s copied here, best of "
    f"{len(times)}"
)
devices.print_recorded("transfer")

# %% [markdown]
# Size is one half of the cost. The other half is waiting. The *host*, that is, the CPU and your Python program on it,
# queues work and goes on; only some calls make it stop until the device has caught up. The event log shows which:

# %% tags=["demo"]
with devices.events(device) as log:
    x = torch.ones(4).to(device)
    y = (x * 2).sum()
    z = y.item()
print(log)

# %% [markdown]
# The product and the sum, each a kernel, were only queued. Both copies made the host wait: the one to the device, and
# the single number that came back. Now some calls that do not look like copies:

# %% tags=["demo"]
x = torch.arange(4.0, device=device)
suspects = {"x * 2": lambda: x * 2, "float(x[0])": lambda: float(x[0]),
            "if x.sum() > 0": lambda: bool(x.sum() > 0), "print(x)": lambda: repr(x),
            "x[x > 1]": lambda: x[x > 1],
            "torch.where(x > 1, x, 0)": lambda: torch.where(x > 1, x, 0)}
for words, call in suspects.items():
    with devices.events(device) as log:
        call()
    waits = log.count("synchronize") + any(event.endswith("nonzero") for event in log)
    print(f"{words:25} {'waits' if waits else 'does not wait'}")

# %% [markdown]
# `x[x > 1]` waits because the host must know how many entries there are. `torch.where` has a shape that is known
# beforehand. In a training loop, a `loss.item()` in every step makes the host wait in every step; add up
# `loss.detach()` on the device, and ask for the sum every so often. On CUDA, `torch.cuda.set_sync_debug_mode("warn")`
# reports such calls.
#
# **In short:** the bus is slow, and a number that is read back stops the host.

# %% [markdown]
# ## Copying ahead
#
# If copying cannot be made cheap, it can at least happen while the device computes. `t.to(device, non_blocking=True)`
# starts a copy and returns. On CUDA that holds only if `t` lies in *pinned* memory, which the operating system
# promises not to move, so that the GPU can fetch it by itself; from ordinary memory the same call holds the host up
# until the numbers have been copied out. `DataLoader(..., pin_memory=True)` pins batches, `t.pin_memory()` a tensor,
# which is a copy on the CPU and takes time as well.

# %% tags=["demo"]
host = torch.ones(4)
if torch.accelerator.is_available() and device.type == "cuda":
    host = host.pin_memory()
with devices.events(device) as log:
    there = host.to(device, non_blocking=True)
    back = (there * 2).to("cpu", non_blocking=True)
print(log, host.is_pinned())

# %% [markdown]
# No "synchronize" at all. Towards the device that is safe: work that is queued later runs after the copy. (But do not
# write to the pinned source before the copy is done.) Towards the host it is a trap: the host goes on while the
# numbers are still under way, and `back` may be read before they arrive, without any error. So copy to the CPU
# without `non_blocking`, or wait before you read: `torch.accelerator.synchronize()`.
#
# Now for the order of things in a loop. This is what `for batch in loader: x = batch.to(device, non_blocking=True)`
# does:

# %% tags=["demo"]
loader = [torch.full((2,), float(n)) for n in range(3)]
with devices.events(device) as log:
    for n, batch in enumerate(loader):
        x = batch.to(device, non_blocking=True)
        log.append(f"step {n}")
        x.sum()
print(log)

# %% [markdown]
# Each copy is queued only when its step is due. If the next one is queued before the present batch is handed out, it
# *can* be under way while the step runs. One batch ahead is enough, and two batches in memory are all it takes.
#
# **Streams.** A GPU takes its work from a queue, called a stream, and does the work of one stream in order. So with a
# single stream a copy that is queued early merely runs before the step, and nothing overlaps. For a real overlap the
# copies need three things: pinned memory, a stream of their own, and waits in both directions. The step waits for its
# batch, and the copy waits until nothing still reads the memory that it will overwrite:

# %% [markdown]
# ```
# copies = torch.cuda.Stream()
# copies.wait_stream(torch.cuda.current_stream())     # what was queued so far may still read old memory
# with torch.cuda.stream(copies):
#     following = batch.to(device, non_blocking=True)   # runs beside the present step
# …
# torch.cuda.current_stream().wait_stream(copies)     # before the first use of `following`
# ```
#
# The CPU has the same interface, and there it does nothing:

# %%
with torch.cpu.stream(torch.cpu.Stream()):
    print(torch.ones(2).sum())

# %% [markdown]
# **In short:** start the copy early; it overlaps with the computation only from pinned memory, with
# `non_blocking=True`, in a stream of its own.

# %% [markdown]
# ### Exercise: prefetch
#
# Write `prefetch(loader, device)`: it yields the batches of `loader` in order, each on `device`, and the copy of the
# next batch is started before the present one is handed out. It never copies the whole loader at once. A batch is
# anything that `move_to` can move; an empty loader yields nothing.
#
# ```
# for batch in prefetch(loader, device):
#     train_step(model, batch, loss_fn, optimizer)
# ```

# %% exercise="prefetch" points=3
def prefetch(loader: Iterable, device: torch.device) -> Iterator:
    """The loader's batches on `device`;
    the copy of the next one starts before the present one is handed out."""
    ### BEGIN SOLUTION
    batches, end = iter(loader), object()
    copies = torch.cuda.Stream(device) if device.type == "cuda" else None

    def fetch() -> object:
        batch = next(batches, end)
        if batch is end:
            return end
        if copies is None:
            return move_to(batch, device)
        # old batches are read until here
        copies.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(copies):
            return move_to(batch, device)

    following = fetch()
    while following is not end:
        if copies is not None:
            # the step waits for its batch
            torch.cuda.current_stream(device).wait_stream(copies)
        present, following = following, fetch()
        yield present
    ### END SOLUTION

# %% check="prefetch"
check("prefetch")

# %% [markdown]
# ## Timing what runs later
#
# If you read the clock as soon as an operation has been queued, you learn how long queuing it took. Look at the
# sequence of events around a matrix product:

# %% tags=["demo"]
def stopwatch(wait: bool) -> list[str]:
    a = torch.ones(64, 64, device=device)
    with devices.events(device) as log:
        log.append("start the clock")
        b = a @ a
        if wait:
            b[0, 0].item()
        log.append("stop the clock")
        b.sum().item()
    return log


print(stopwatch(wait=False))
print(stopwatch(wait=True))

# %% [markdown]
# In the first list the wait comes after the clock has been stopped. On a GPU this measures a few microseconds, however
# large the matrices are, and it has made many slow functions look fast. Later, an innocent `.item()` pays for all of
# it. The call that only waits is `torch.accelerator.synchronize()`, or `synchronize` of the device's own module
# (`torch.cuda.synchronize()`).
#
# It is needed at *both* ends: before the start, so that earlier work is not charged to your function, and before the
# stop. On the CPU, work is done when the call returns. `torch.accelerator.synchronize()` even raises an error where
# there is no accelerator:

# %%
try:
    torch.accelerator.synchronize()
    print("there is an accelerator")
except RuntimeError as error:
    print("no accelerator to wait for:", type(error).__name__)

# %% [markdown]
# **Warm up.** The first runs are slow for reasons that do not recur: a library is loaded, a kernel is chosen or
# compiled, memory is requested from the system. **Repeat.** A single number may be a fluke. Look at the median and
# the smallest:

# %% tags=["demo"]
a, times = torch.randn(300, 300), []
for _ in range(9):
    start = time.perf_counter()
    torch.linalg.eigvalsh(a + a.T)
    times.append(1000 * (time.perf_counter() - start))
print(
    "milliseconds:",
    " ".join(f"{t:.1f}" for t in times),
    "| median",
    f"{sorted(times)[4]:.1f}",
)
devices.print_recorded("timing")

# %% [markdown]
# **Which clock?** The system's wall clock can be set by people and by the network, even in the middle of your
# measurement. Python tells you which clocks only go forward:

# %%
for clock in ("time", "perf_counter", "monotonic", "process_time"):
    info = time.get_clock_info(clock)
    print(
        f"{clock:13} goes only forward: {info.monotonic!s:5}  may be set: "
        f"{info.adjustable}"
    )

# %% [markdown]
# (`process_time` adds up what the threads of your process compute. Two busy threads make it run twice as fast, and
# while the host waits for a GPU it may stand still. So it is of no use here.)
#
# **In short:** synchronise, start, run, synchronise, stop; after a warm-up, and more than once.

# %% [markdown]
# ### Exercise: elapsed
#
# Write `elapsed(fn, device, *, warmup=3, repeats=10)`: call `fn()` `warmup` times without timing it, then `repeats`
# times, and return a list of the seconds that each of these calls took, by a clock that only goes forward. The device
# is synchronised before each start and before each stop. `device` is a `torch.device`; if it is the CPU, there is
# nothing to wait for. The check brings its own clocks and a slow device.
#
# ```
# elapsed(lambda: time.sleep(0.01), torch.device("cpu"), repeats=3)    # for instance [0.0101, 0.0101, 0.0102]
# ```

# %% exercise="elapsed" points=3
def elapsed(
    fn: Callable[[], object],
    device: torch.device,
    *,
    warmup: int = 3,
    repeats: int = 10,
) -> list[float]:
    """Seconds that each of `repeats` runs of fn takes on `device`,
    after `warmup` runs that are not timed."""
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
# **Ready-made.** `torch.utils.benchmark` does all of this: it warms up, waits for the device, repeats for as long as
# you say (`adaptive_autorange` repeats until the numbers are steady), and uses one thread unless told otherwise, so
# that results are comparable. It prints the median, the spread, and a warning where the spread is large.

# %% tags=["demo"]
from torch.utils import benchmark

timer = benchmark.Timer("a @ a", globals={"a": torch.randn(300, 300)})
print(timer.blocked_autorange(min_run_time=0.5))

# %% [markdown]
# To time a stretch of work *without* making the host wait in between, let the GPU take the times. An *event* is a mark
# in its queue, and gets its time when the GPU arrives there:

# %% tags=["demo"]
if torch.cuda.is_available():
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    a = torch.randn(2000, 2000, device="cuda")
    a @ a  # warm up
    start.record()
    a @ a
    stop.record()
    stop.synchronize()    # the only wait, at the very end
    print(f"{start.elapsed_time(stop):.2f} ms on the GPU")
else:
    print("this example needs CUDA")

# %% [markdown]
# **Errors come late, too.** A kernel that fails, usually because an index is out of range, reports it at some later
# call, at the latest when the host next waits, and the traceback ends at an innocent line. Run the program again with
# the environment variable `CUDA_LAUNCH_BLOCKING=1`, set before Python starts: each call then waits, and the traceback
# is right. Or run one batch on the CPU, where the message is also clearer. After such an error the process cannot use
# the GPU any more.

# %% [markdown]
# ## What a training step holds in memory
#
# Besides the activations, a training step holds several things for each parameter. Let us weigh them. An optimizer
# has its states only after the first step:

# %%
def nbytes(tensors) -> int:
    return sum(t.nbytes for t in tensors if isinstance(t, Tensor) and t.ndim)


model = nn.Linear(1000, 1000, bias=False)
optimizer = torch.optim.AdamW(model.parameters())
model(torch.ones(1, 1000)).sum().backward()
optimizer.step()
held = {
    "parameters": nbytes(model.parameters()),
    "gradients": nbytes(p.grad for p in model.parameters()),
    "states": nbytes(t for state in optimizer.state.values() for t in state.values()),
}
for what, size in held.items():
    print(f"{what}: {size / model.weight.numel():.0f} bytes for each parameter")

# %% [markdown]
# AdamW keeps two numbers for each parameter, a running mean of the gradient and one of its square. SGD with momentum
# keeps one, plain SGD none. So float32 training with AdamW takes 4 + 4 + 8 = 16 bytes for each parameter.
#
# In the 16-bit recipe of many large models, parameters and gradients take 2 bytes each (autocast, in lesson 7, keeps
# them in float32), the states stay float32, and a float32 *master copy* of the parameters accumulates the small updates
# (lesson 7 shows why):

# %%
recipes = {"float32": 4 + 4 + 8, "16 bit, with a master copy": 2 + 2 + 8 + 4,
           "16 bit, without one": 2 + 2 + 8}
for recipe, each in recipes.items():
    print(f"7 billion parameters, AdamW, {recipe}: {7 * each} GB")

# %% [markdown]
# 112 GB in the first two rows. So the 16-bit recipe with its master copy saves nothing here, although people often
# say that it does. What it saves is activations, which are half as large, traffic between memory and chip, and time.
# To save memory here, shard these items over several GPUs, choose an optimizer with smaller states, or train fewer
# parameters.
#
# Activations are what `backward` will need. They grow with the batch; the rest does not:

# %%
def bytes_saved(batch: int) -> int:
    sizes = {}

    def note(t: Tensor) -> Tensor:
        sizes[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
        return t

    net = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64), nn.GELU())
    weights = {p.untyped_storage().data_ptr() for p in net.parameters()}
    with torch.autograd.graph.saved_tensors_hooks(note, lambda t: t):
        out = net(torch.zeros(batch, 64))
    return sum(size for place, size in sizes.items() if place not in weights)


print({batch: bytes_saved(batch) for batch in (16, 32, 64)})

# %% [markdown]
# Over a whole step, memory rises through the forward pass, is highest at the turning point, and falls as `backward`
# releases the activations and creates gradients in exchange. Below is a real step on the second device, with what is
# held after each block. It begins with parameters and AdamW's states. Move the sliders `blocks` and `batch`.

# %% tags=["demo"]
from torchcourse.demos import memory_line

memory_line.explore()

# %% [markdown]
# **In short:** 16 bytes per parameter, plus activations that grow with the batch.

# %% [markdown]
# ### Exercise: training_bytes
#
# Write `training_bytes(num_params, *, param_dtype=torch.float32, optimizer="adamw", master_weights=False)`: the bytes,
# as an int, of parameters, gradients in the same dtype, float32 optimizer states (`"adamw"` 2 for each parameter,
# `"momentum"` 1, `"sgd"` 0), and a float32 master copy if there is one. An unknown optimizer raises an error, with a
# message that names `optimizer` and says what it was.
#
# ```
# training_bytes(7_000_000_000)    # 112000000000
# ```

# %% exercise="training_bytes" points=2
def training_bytes(
    num_params: int,
    *,
    param_dtype: torch.dtype = torch.float32,
    optimizer: str = "adamw",
    master_weights: bool = False,
) -> int:
    """Bytes that parameters, gradients,
    optimizer states and a master copy take in training."""
    ### BEGIN SOLUTION
    states = {"adamw": 2, "momentum": 1, "sgd": 0}
    if optimizer not in states:
        raise ValueError(
            f"optimizer is {optimizer!r}, but has to be one of {', '.join(states)}"
        )
    parameter_and_gradient = 2 * param_dtype.itemsize
    return num_params * (
        parameter_and_gradient + 4 * states[optimizer] + 4 * master_weights
    )
    ### END SOLUTION

# %% check="training_bytes"
check("training_bytes")

# %% [markdown]
# ## The caching allocator
#
# Asking the driver for memory is slow, and giving it back makes the host wait. So PyTorch keeps the memory that it
# has obtained. *Allocated* is what your tensors hold now, *reserved* is what PyTorch has obtained from the driver,
# and *peak* is the most that was allocated since you last reset it:

# %% tags=["demo"]
module = torch.get_device_module(device)
if hasattr(module, "memory_allocated"):
    big = torch.zeros(1_000_000, device=device)
    with_big = module.memory_allocated()
    del big
    print("given back:", with_big - module.memory_allocated(), "bytes")
    print("peak:", module.max_memory_allocated(), "bytes")
    module.reset_peak_memory_stats()

# %% [markdown]
# The simulated device has no cache. So here is a miniature caching allocator, with 100 MiB in all. It asks for
# segments of at least 20, cuts pieces from them, and keeps what comes back:

# %% tags=["demo"]
from torchcourse.demos.allocator import CachingAllocator

cache = CachingAllocator(capacity=100)
for tensor in "abcde":
    cache.take(tensor, 10)
cache.give_back("b")
cache.give_back("d")
cache.picture()

# %% [markdown]
# Half of what is reserved is free. `nvidia-smi` shows the reserved memory, since that is what the process has taken,
# plus the CUDA context, a few hundred MB of code and driver state. So a high number there does not mean
# that your tensors are large.
#
# Now a tensor needs 45 MiB in one piece. 70 of the 100 are unused:

# %% tags=["demo"]
try:
    cache.take("f", 45)
except MemoryError as error:
    print(error)
cache.empty_cache()
print("after empty_cache:", cache.allocated, "allocated,", cache.reserved, "reserved")

# %% [markdown]
# That is *fragmentation*: there is enough, but not in one piece, and a segment goes back to the driver only as a
# whole. `torch.cuda.empty_cache()` does less than its name says. It gives whole free segments back, for other
# programs. It frees nothing that a tensor holds, and PyTorch does the same by itself before it reports that it is out
# of memory. On CUDA, the setting `PYTORCH_ALLOC_CONF=expandable_segments:True` (formerly `PYTORCH_CUDA_ALLOC_CONF`)
# helps against fragmentation.
#
# **Who still holds it?** A tensor is freed when the last reference to it is gone. In a notebook there are more
# references than you see. The value that a cell's last line shows is kept in `Out`. And an exception keeps the frames
# it came through, with all their variables:

# %%
import weakref

alive = []

def failing_step() -> None:
    activations = torch.zeros(1_000_000)
    alive.append(weakref.ref(activations))
    raise RuntimeError("out of memory, say")


try:
    failing_step()
except RuntimeError as error:
    kept = error
print("after the except block:", alive[0]() is not None)
del kept
print("after the exception is gone:", alive[0]() is not None)

# %% [markdown]
# The notebook keeps an uncaught error as the *last traceback*, so a failed cell holds its activations until the next
# error. After running out of memory, restart the kernel; at the very least, do not look for the cause in what
# `memory_allocated` says now.
#
# **In short:** reserved is not allocated, and what is referenced is not freed.

# %% [markdown]
# To see who holds what on CUDA, let the allocator keep a log, with the Python stack of every allocation:
#
# ```
# torch.cuda.memory._record_memory_history()
# ...                                            # a few steps
# torch.cuda.memory._dump_snapshot("memory.pickle")
# ```
#
# Drag the file onto [pytorch.org/memory_viz](https://pytorch.org/memory_viz), which reads it in the browser. A band
# that never ends is a tensor that something still refers to; a click shows the line that made it. (The underscores say
# that the names may change.)

# %% [markdown]
# ## Out of memory
#
# What to do, from cheap to expensive:
#
# - *Something else is on the GPU*: another notebook, a finished run. Look at `nvidia-smi`.
# - *The graph is kept*: a list of losses without `.item()` or `detach()` keeps every step (lesson 5).
# - *Evaluation without `no_grad`* keeps activations that are never used.
# - *The old outputs are still there* while the next forward runs: `del` them, or keep the step in a function.
# - *The batch is too large*: a smaller one, with accumulation (lesson 5) if the step should stay the same.
# - *Activations*: a 16-bit autocast (lesson 7), or checkpointing, below.
# - *Parameters and states*: an optimizer with smaller states, or fewer trained parameters; then several GPUs.
#
# The error has a class of its own. It is a RuntimeError, like many others:

# %%
print(
    torch.OutOfMemoryError.__mro__[:3],
    torch.cuda.OutOfMemoryError is torch.OutOfMemoryError,
)

# %% [markdown]
# So `except RuntimeError` also swallows an error about mismatched shapes. Catch the class itself, and try again
# *after* the `except` block: inside it, the exception still holds the failed step's tensors.
#
# The most common reason to catch it is to find out how large the batch may be. If 64 fits, so does 63. So two numbers
# tell you everything, the largest that fitted and the smallest that did not:

# %%
def fits(size: int) -> bool:
    return size <= 41


low, high = 32, 64
while high - low > 1:
    middle = (low + high) // 2
    low, high = (middle, high) if fits(middle) else (low, middle)
    print(low, high)

# %% [markdown]
# **In short:** bisection finds one size among thousands in a dozen steps.

# %% [markdown]
# ### Exercise: largest_batch
#
# Write `largest_batch(run, start, limit)`: the largest size from 1 up to `limit` for which `run(size)` raises no
# `torch.OutOfMemoryError`, or 0 if there is none. `start` is a guess to begin with, from 1 to `limit`. Call `run`
# at most `2 * log2(limit) + 2` times. Other errors pass through. Sizes are ints.
#
# ```
# def run(size):
#     if size > 41:
#         raise torch.OutOfMemoryError("simulated")
#
# largest_batch(run, start=32, limit=1024)    # 41
# ```

# %% exercise="largest_batch" points=3
def largest_batch(run: Callable[[int], object], start: int, limit: int) -> int:
    """The largest size up to `limit` for which run(size) does not run out of memory;
    0 if there is none."""
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
# Activations wait from the forward pass until `backward` gets to them. You can also throw them away, keep only the
# input of each block, and compute the block again when `backward` needs it. That is *gradient checkpointing*: you pay
# with about a third more computation, and hold the activations of one block at a time instead of all. (It has nothing
# to do with saving a model to disk.)

# %%
calls = []
block = nn.Sequential(nn.Linear(4, 64), nn.GELU(), nn.Linear(64, 4))
block.register_forward_pre_hook(lambda *_: calls.append("block runs"))
out = checkpoint(block, torch.ones(8, 4), use_reentrant=False)
print(calls)
out.sum().backward()
print(calls)

# %% [markdown]
# What autograd saves can be listed, as in lesson 2:

# %%
def saved_shapes(run) -> list[tuple[int, ...]]:
    shapes = []

    def note(t: Tensor) -> Tensor:
        shapes.append(tuple(t.shape))
        return t

    with torch.autograd.graph.saved_tensors_hooks(note, lambda t: t):
        run()
    return shapes


x = torch.ones(8, 4)
print(saved_shapes(lambda: block(x)))
print(saved_shapes(lambda: checkpoint(block, x, use_reentrant=False)))

# %% [markdown]
# `use_reentrant=False` is the current variant, and you should always ask for it; without it, torch warns and uses the
# old one. The old variant has a trap that has cost people whole evenings. Where the input needs no gradient, as is
# usual for the input of a model, the parameters get no gradients at all:

# %%
import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    old = checkpoint(block, x, use_reentrant=True)
print(old.requires_grad, checkpoint(block, x, use_reentrant=False).requires_grad)

# %% [markdown]
# Dropout has to drop the same entries in the second run, or the gradient belongs to another function. For that,
# `checkpoint` restores torch's random state, unless `preserve_rng_state=False`. Other sources of randomness, and
# state that a block changes in each call, are up to you: the running statistics of a batch norm, for instance, are
# updated twice.
#
# In the memory timeline above, choose "checkpoint blocks". Most of the hill is gone; what is left of it, with a large
# batch, is the inputs of the blocks. (The bars show what is held after each block. What a block holds for a moment,
# while it is computed again, falls between two of them.)
#
# **In short:** only inputs are kept, each block runs twice, the gradients are the same.

# %% [markdown]
# ### Exercise: checkpointed
#
# Write `checkpointed(blocks, x)`: the result of applying the modules in `blocks` to `x`, one after the other. The
# output and all gradients are the same as without checkpointing, even with dropout in the blocks and where `x` needs
# no gradient; but less is kept for backward.
#
# ```
# blocks = [nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 4)]
# checkpointed(blocks, torch.ones(2, 4)).shape    # (2, 4)
# ```

# %% exercise="checkpointed" points=2
def checkpointed(blocks: Iterable[nn.Module], x: Tensor) -> Tensor:
    """Apply the blocks to x in turn; for backward each keeps only its input."""
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
# How fast could an operation be? A chip has two limits: how many operations it computes per second, and how many
# bytes its memory delivers. What counts is the *intensity*, the number of operations for each byte that is moved:

# %%
n = 4096
sizes = {"a + b": (n * n, 3 * n * n * 2), "a @ b": (2 * n**3, 3 * n * n * 2),
         "a @ vector": (2 * n * n, (n * n + 2 * n) * 2)}
for words, (flops, moved) in sizes.items():
    print(f"{words:11} {flops / moved:8.2f} operations a byte, in a 16-bit dtype")

# %% [markdown]
# A chip's *ridge* is the intensity at which both limits are reached at once. NVIDIA's data sheets give, for bfloat16
# without sparsity, 312 TFLOPS (trillions of operations a second) and 2.039 TB/s for the A100 80GB SXM, and 989 TFLOPS
# and 3.35 TB/s for the H100 SXM:

# %%
for chip, flops, bandwidth in (("A100", 312e12, 2.039e12), ("H100", 989e12, 3.35e12)):
    ridge, addition = flops / bandwidth, bandwidth / 6 / flops
    print(
        f"{chip}: ridge at {ridge:.0f} operations a byte; an addition reaches "
        f"{addition:.2%} of the peak"
    )

# %% [markdown]
# Below the ridge, memory is the limit, and faster arithmetic does not help. An addition that reaches a tiny share of
# the peak may be as fast as it can be. So a fair judgement compares with the *roof* at the operation's own intensity:
# the lower of the peak and of `intensity * bandwidth`. This is also why fusing pointwise operations pays off (lesson
# 8), and why a language model that writes one token at a time for one user, which is all matrix times vector, is
# limited by memory.
#
# Small matrices do not reach the peak either. Here is what your machine does:

# %% tags=["demo"]
from torchcourse.demos import matmul

matmul.explore()
devices.print_recorded("matmul")

# %% [markdown]
# **Channels last.** How images lie in memory matters too. With `channels_last` the shape stays `(N, C, H, W)` and the
# values stay; the channels of a pixel lie side by side, as the fast convolution kernels for 16-bit dtypes want them:

# %%
images = torch.randn(2, 3, 4, 4)
last = images.to(memory_format=torch.channels_last)
print(images.stride(), last.stride(), torch.equal(images, last))
conv = nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last)
print(conv(last).is_contiguous(memory_format=torch.channels_last), conv(last).shape)

# %% [markdown]
# Convert the model once and each batch as it comes in; the layers in between keep the format. `view` may then refuse
# where it worked before, and `reshape` copies. Whether it pays off is something to measure, with `elapsed`.
#
# **In short:** first the intensity, then the judgement.

# %% [markdown]
# ### Exercise: roofline
#
# Write `roofline(flops, bytes, seconds, peak_flops, peak_bandwidth)`: a dict with `achieved` (operations per second),
# `intensity` (operations per byte), `bound` (`"compute"` from the ridge up, else `"memory"`) and `fraction`,
# `achieved` as a share of the attainable roof.
#
# ```
# roofline(1e9, 1e9, 0.002, 1e13, 1e12)    # bound 'memory', fraction 0.5
# ```

# %% exercise="roofline" points=2
def roofline(
    flops: float, bytes: float, seconds: float, peak_flops: float, peak_bandwidth: float
) -> dict[str, object]:
    """How fast an operation ran, what bounds it,
    and its share of what can be attained."""
    ### BEGIN SOLUTION
    achieved, intensity = flops / seconds, flops / bytes
    attainable = min(peak_flops, intensity * peak_bandwidth)
    bound = "compute" if intensity >= peak_flops / peak_bandwidth else "memory"
    return {
        "achieved": achieved,
        "intensity": intensity,
        "bound": bound,
        "fraction": achieved / attainable,
    }
    ### END SOLUTION

# %% check="roofline"
check("roofline")

# %% [markdown]
# ## Other accelerators
#
# Apple's MPS is a device like any other, with a few differences that matter: it has no float64, so
# `torch.tensor(numpy_array).to("mps")` fails for NumPy's default floats; CPU and GPU share their memory, so copies
# are cheap and pinning is pointless; a missing operator raises an error, unless `PYTORCH_ENABLE_MPS_FALLBACK=1` sends
# it to the CPU. `torch.mps.current_allocated_memory()` tells you how much memory is in use. Code that says float32
# where it makes tensors, and asks `torch.accelerator`, runs on MPS and on CUDA alike:

# %%
import numpy as np

table = np.linspace(0, 1, 4)
print(torch.from_numpy(table).dtype, torch.from_numpy(table).to(torch.float32).dtype)

# %% [markdown]
# AMD's GPUs are called "cuda" in PyTorch, Intel's "xpu". The functions that you wrote in this lesson work with all of
# them; memory statistics and profiling tools differ.
#
# What you have built: ways to choose a device, to move things there and to find what was left behind; honest
# measurements of time and memory; a search for the batch that fits; checkpointing, and a way to judge the speed you
# get. Lesson 7 halves the number of bytes that each number takes.
