# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 9 · Persistence
#
# A training takes hours, and its outcome is a set of numbers in memory. Sooner or later they have to leave it: for a
# file, because machines crash; for a colleague, who has another machine; for a server, a phone or a browser, where
# there may be no Python.
#
# Each of these ways out has its own format and its own traps. Files that nobody can open a year later. Files that run
# somebody else's code. A training that goes on after a crash and is quietly another one. An exported model that gives
# other answers than the model. We meet them in this order. There are thirteen exercises; it takes about 75 minutes.

# %% tags=["setup"]
import math
import os
import random
import tempfile
import warnings
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from torchcourse import Unattempted, check, hint

# %% [markdown]
# ## A file of numbers
#
# A model is code and numbers. The code is in your repository; the numbers are what training has made. `state_dict()`
# gives them by name, parameters and buffers alike:

# %%
class Net(nn.Module):
    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, width), nn.BatchNorm1d(width), nn.ReLU())
        self.head = nn.Linear(width, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x))


scratch = tempfile.TemporaryDirectory()
folder = Path(scratch.name)
torch.manual_seed(0)
net = Net()
print({name: tuple(tensor.shape) for name, tensor in net.state_dict().items()})

# %% [markdown]
# `torch.save` writes such a dict, and `torch.load` reads it back. The tensors are those of the model itself, not
# copies; what is in the file is a copy.

# %%
torch.save(net.state_dict(), folder / "weights.pt")
print((folder / "weights.pt").stat().st_size, "bytes")
print(torch.load(folder / "weights.pt", weights_only=True)["head.bias"])

# %% [markdown]
# You may meet files that hold the model as a whole: `torch.save(model, path)`. It looks shorter, and it stores no
# code either: only the *name* of the class. So the file opens where a class of this name can be found, in this
# module, and nowhere else. Here somebody renames the class a month later:

# %%
torch.save(net, folder / "whole.pt")
Classifier = Net
del Net
try:
    torch.load(folder / "whole.pt", weights_only=False)
except AttributeError as error:
    print(error)
Net = Classifier

# %% [markdown]
# Until PyTorch 2.5 `torch.load` opened such files without asking; it is the full-model pickle of many older
# tutorials. What replaced it is the `state_dict`, with the class in your code.
#
# What a `state_dict` does **not** carry: the mode (`train` or `eval`), the sizes that `Net` was made with, the
# vocabulary or the class names, the normalisation of the inputs. Put those into a file beside it, JSON for instance,
# and load both together.
#
# Two more things about writing. A GPU tensor in a file remembers its GPU, so bring everything to the CPU first. And a
# process can be killed while it writes. `torch.save(..., path)` first empties the file of this name. From then on the
# old weights are gone, and the new ones are not there yet:

# %%
path = folder / "weights.pt"
with path.open("wb") as file:
    file.write(b"the first few bytes, and then the power fails")
try:
    torch.load(path, weights_only=True)
except Exception as error:
    print(type(error).__name__)

# %% [markdown]
# The remedy is old. Write under another name, in the same folder, and then rename: `os.replace` puts one file in the
# place of another in a single step. Whoever looks sees the old file or the new one, both whole.
#
# (Renaming protects from the death of the process. If the whole machine may lose power, flush and `os.fsync` the new
# file before you rename it.)
#
# Seen: save the numbers, by name, on the CPU; write beside, then replace.

# %% [markdown]
# ### Exercise: save_weights
#
# Write `save_weights(model, path)`: the file at `path` (a `Path`) holds the model's `state_dict` with every tensor on
# the CPU. If the process is killed at any moment of the call, the file that was there before is still there, whole.
# The model stays as it is.

# %% exercise="save_weights" points=2
def save_weights(model: nn.Module, path: Path) -> None:
    """The state_dict on the CPU, in a file that is always whole."""
    ### BEGIN SOLUTION
    weights = {name: tensor.cpu() for name, tensor in model.state_dict().items()}
    draft = path.with_name(path.name + ".draft")
    torch.save(weights, draft)
    os.replace(draft, path)
    ### END SOLUTION

# %% check="save_weights"
check("save_weights")

# %% [markdown]
# ## Pickle is code
#
# Why does `torch.load` want `weights_only`? Because Python's pickle format, which `torch.save` uses, is a small
# programming language. One of its instructions says: take this function, call it with these arguments. An object may
# choose both:

# %%
class Harmless:
    def __reduce__(self) -> tuple:
        return print, ("this line was printed by opening a file",)


torch.save({"weight": torch.ones(2), "note": Harmless()}, folder / "gift.pt")
held = torch.load(folder / "gift.pt", weights_only=False)

# %% [markdown]
# Here it was `print`. It could have been `os.system`. Nothing of the file has to be *used* for that: opening is
# enough, and so a model from the internet can do whatever you can do. Weights-only loading, the default since 2.6,
# knows a short list of safe things and refuses the rest:

# %%
try:
    torch.load(folder / "gift.pt", weights_only=True)
except Exception as error:
    print(type(error).__name__, "Unsupported global" in str(error))

# %% [markdown]
# (The message goes on to tell how to switch the protection off. Do so only for files that you have written.)
#
# A pickle can be *read* without being executed: `pickletools` lists its instructions. The ones called GLOBAL name
# what it wants. Some of it is fine, and stands on the list of weights-only loading; `torch.serialization` knows the
# difference. Mind the names: the format is old, and uses those of Python 2. What is printed below as `__builtin__
# print` is `builtins.print`, and `range` would appear as `__builtin__ xrange`; whoever compares such names with a
# list has to translate them first.

# %%
import pickletools
import zipfile

with zipfile.ZipFile(folder / "gift.pt") as archive:
    program = archive.read("gift/data.pkl")
print([argument for code, argument, place in pickletools.genops(program) if code.name == "GLOBAL"])

# %% [markdown]
# Older checkpoints often hold harmless objects that are not on the list, such as an `argparse.Namespace` with the
# settings. Then `torch.serialization.safe_globals([argparse.Namespace])` as a context admits just this one.
#
# Seen: opening a pickle runs it; weights-only loading reads tensors and refuses code.

# %% [markdown]
# ### Exercise: unsafe_globals
#
# Write `unsafe_globals(path)`: the names, sorted, as `"module.name"`, that the checkpoint at `path` would need beyond
# what weights-only loading accepts. Nothing in the file is executed. The files are as `torch.save` writes them.
#
# ```
# torch.save({"lr": fractions.Fraction(1, 3)}, path)
# unsafe_globals(path)    # ['fractions.Fraction']
# ```

# %% exercise="unsafe_globals" points=1
def unsafe_globals(path: Path) -> list[str]:
    """What a checkpoint needs beyond weights-only loading, sorted; nothing in it is executed."""
    ### BEGIN SOLUTION
    return sorted(torch.serialization.get_unsafe_globals_in_checkpoint(path))
    ### END SOLUTION

# %% check="unsafe_globals"
check("unsafe_globals")

# %% [markdown]
# ## Loading: what, where, and in which mode
#
# **Where.** A tensor in a file remembers the device it was on, and wants to go back there. On a machine without that
# device, loading fails. `map_location` says where to instead. The device `"meta"` has no numbers, so we can see it
# work anywhere:

# %%
torch.save(net.state_dict(), path)
print(torch.load(path, weights_only=True)["head.bias"].device)
print(torch.load(path, map_location="meta", weights_only=True)["head.bias"].device)

# %% [markdown]
# **What.** `load_state_dict` copies into the tensors that the model has, where they are. With `strict=True`, its
# default, every name has to fit, and the exception lists those that do not. `strict=False` returns the list instead.
# If nobody looks at it, the model keeps random numbers, and no line of the program says so:

# %%
state = torch.load(path, weights_only=True)
state["head.wieght"] = state.pop("head.weight")
try:
    Net().load_state_dict(state)
except RuntimeError as error:
    print(error)
print(Net().load_state_dict(state, strict=False))

# %% [markdown]
# **In which mode.** A new model is in training mode, and loading does not change that. So after loading somebody has
# to say `model.eval()`, or dropout and batch norm do what they do in training. See what a forgotten `eval()` costs:

# %%
loaded = Net()
loaded.load_state_dict(torch.load(path, weights_only=True))
x = torch.randn(6, 3)
wanted = net.eval()(x)
print("eval mode:", torch.allclose(loaded.eval()(x), wanted))
print("training mode:", torch.allclose(loaded.train()(x), wanted))

# %% [markdown]
# A function that loads should still leave the mode alone: who wants to train on needs the other one, and only the
# caller knows.
#
# Seen: say where to, keep it strict, and set the mode yourself.

# %% [markdown]
# ### Exercise: load_weights
#
# Write `load_weights(model, path, device="cpu")`: read the file of weights at `path`, weights-only, whatever device
# it was saved on; fill the model; bring it to `device`; return it. If an entry is missing or there is one too many,
# an exception names it. The model's mode stays.

# %% exercise="load_weights" points=2
def load_weights(model: nn.Module, path: Path, device: str = "cpu") -> nn.Module:
    """Fill the model from a file of weights and bring it to the device."""
    ### BEGIN SOLUTION
    weights = torch.load(path, map_location=device, weights_only=True)
    model.load_state_dict(weights)
    return model.to(device)
    ### END SOLUTION

# %% check="load_weights"
check("load_weights")

# %% [markdown]
# ## Names that do not fit
#
# The same weights can come under other names. Two wrappers put a word in front: `DistributedDataParallel` holds your
# model as `module`, and `torch.compile` as `_orig_mod`. Their state has these names, and whoever saves the wrapper
# saves them:

# %%
class Wrapper(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.module = inner


print(list(Wrapper(nn.Linear(2, 2)).state_dict()))
print(list(Wrapper(Wrapper(nn.Linear(2, 2))).state_dict()))

# %% [markdown]
# (`model.compile()` compiles in place and adds nothing; so does saving `wrapper.module.state_dict()`.) The wrappers
# may be nested in any order. And a model may well have a submodule of its own that is called `module`, or one called
# `modules`: only what stands in front, up to its dot, is the wrapper's.

# %% [markdown]
# ### Exercise: strip_prefixes
#
# Write `strip_prefixes(state)`: a new dict with the same tensors, in whose names every leading `module.` and
# `_orig_mod.` is gone, however they are nested.
#
# ```
# strip_prefixes({"module._orig_mod.fc.weight": w, "encoder.module.bias": b})
# # {"fc.weight": w, "encoder.module.bias": b}
# ```

# %% exercise="strip_prefixes" points=1
def strip_prefixes(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """A new state without what wrappers put before the names."""
    ### BEGIN SOLUTION
    def bare(name: str) -> str:
        while name.startswith(("module.", "_orig_mod.")):
            name = name.split(".", 1)[1]
        return name

    return {bare(name): tensor for name, tensor in state.items()}
    ### END SOLUTION

# %% check="strip_prefixes"
check("strip_prefixes")

# %% [markdown]
# **Another head.** Take a model trained for 1000 classes and adapt it to your 5: all layers fit but the last.
# `strict=False` forgives names, and still raises on a shape:

# %%
other = Net()
other.head = nn.Linear(4, 5)
try:
    other.load_state_dict(net.state_dict(), strict=False)
except RuntimeError as error:
    print(error)

# %% [markdown]
# So we pick the entries ourselves. Compare shapes, do not just try: `copy_` broadcasts, and would fill a table with
# copies of one row.

# %%
table = torch.zeros(2, 3)
table.copy_(torch.tensor([[1.0, 2.0, 3.0]]))

# %% [markdown]
# ### Exercise: load_matching
#
# Write `load_matching(model, state)`: copy the entries of `state` whose name and shape agree with the model's into
# it, buffers too. Return two sorted lists of names: the entries of `state` that were loaded, and those that were not.
# The parameters stay the same objects where they are.

# %% exercise="load_matching" points=2
def load_matching(model: nn.Module, state: dict[str, Tensor]) -> tuple[list[str], list[str]]:
    """Copy the entries whose name and shape agree; the names of those that did, and of the others."""
    ### BEGIN SOLUTION
    own = model.state_dict()
    loaded = sorted(name for name, tensor in state.items() if name in own and own[name].shape == tensor.shape)
    with torch.no_grad():
        for name in loaded:
            own[name].copy_(state[name])
    return loaded, sorted(state.keys() - set(loaded))
    ### END SOLUTION

# %% check="load_matching"
check("load_matching")

# %% [markdown]
# ## A checkpoint that resumes
#
# A training is more than its weights. AdamW has two averages for each of them. A schedule has a position, a gradient
# scaler its scale. Batches are drawn and dropout is drawn, so the states of three random generators decide what comes
# next. Leave one of them out, and the training goes on: as another one.

# %%
model = nn.Linear(2, 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
model(torch.ones(1, 2)).sum().backward()
optimizer.step()
print(list(optimizer.state_dict()["state"][0]), optimizer.state_dict()["param_groups"][0]["lr"])

# %% [markdown]
# Below, a training in a process of its own saves every 30 steps. In the middle of step 104 it is killed, with the
# signal that no program can catch. Then a new run goes on from step 90. With everything brought back, its curve is
# the first one's, to the last bit:

# %% tags=["demo"]
from torchcourse.demos import resuming

resuming.draw("everything")

# %% [markdown]
# Now bring back less. Without the optimizer's averages the first steps are too large: a peak. Without the scheduler
# the rate is that of the beginning again. Without the random state the curve looks fine, and is another one: a result
# that nobody can reproduce.

# %% tags=["demo"]
resuming.explore()

# %% [markdown]
# The three generators, and how each is asked for its state and given it back:

# %%
states = random.getstate(), np.random.get_state(), torch.get_rng_state()
drawn = random.random(), np.random.rand(), torch.rand(1).item()
random.setstate(states[0])
np.random.set_state(states[1])
torch.set_rng_state(states[2])
print(drawn == (random.random(), np.random.rand(), torch.rand(1).item()))

# %% [markdown]
# With a GPU there is a fourth, `torch.cuda.get_rng_state_all()`. In a checkpoint, one detail: NumPy's state holds an
# array, which weights-only loading does not accept. Store it as a tensor:

# %%
name, numbers, *rest = np.random.get_state()
print(name, numbers.dtype, numbers.shape, rest, torch.from_numpy(numbers.copy()).dtype)

# %% [markdown]
# **Rotation.** Checkpoints are large, so one keeps the newest few. And the best, always: it may be an old one, and it
# is what the training was for. The order matters: first the new file is there, whole, under its name; only then
# something old goes.
#
# After a crash all objects are gone and only the folder is left. So `latest()` and `best()` of a *new* object have to
# find the answer in the folder. A file name can carry the step and the metric. Mind how numbers sort as text:

# %%
print(sorted(["step-9.pt", "step-10.pt"]), sorted(["step-000009.pt", "step-000010.pt"]))

# %% [markdown]
# The unfinished file needs a name that these searches do not find, such as `step-000010.draft`. (Not just `.draft`:
# `torch.save` wants something before the last dot.)

# %%
try:
    torch.save({}, folder / ".draft")
except RuntimeError as error:
    print("invalid file name" in str(error))

# %% [markdown]
# Seen: everything that decides the next step belongs into the file; the folder, not the object, is the memory.

# %% [markdown]
# ### Exercise: Checkpointer
#
# Write `Checkpointer(directory, keep=3)`; the folder exists. Its methods:
#
# - `save(step, metric, **parts)` writes a checkpoint and returns its path. The parts (model, optimizer, scheduler,
#   scaler, under any name) have `state_dict()` and `load_state_dict()`. The states of `random`, NumPy and torch are
#   saved too. Afterwards the newest `keep` checkpoints are there, and the best (lower metric is better); older ones
#   are gone.
# - `load(path, **parts)` brings the parts and the random states back, so that training goes on to the last bit as if
#   nothing had happened. It returns a dict with what else you have saved, such as the step.
# - `latest()` and `best()` return a path, or None where there is none; also for a new `Checkpointer` over an old
#   folder.
#
# The process may be killed at any moment. What was whole before stays loadable, and a new object goes on from the
# last or the one before.

# %% exercise="Checkpointer" points=4
class Checkpointer:
    """Checkpoints in a folder: the newest few, and always the best."""

    def __init__(self, directory: Path, keep: int = 3) -> None:
        ### BEGIN SOLUTION
        self.directory, self.keep = Path(directory), keep

    def save(self, step: int, metric: float, **parts: object) -> Path:
        kind, keys, *rest = np.random.get_state()
        checkpoint = {
            "step": step, "metric": metric,
            "parts": {name: part.state_dict() for name, part in parts.items()},
            "random": random.getstate(), "numpy": (kind, torch.from_numpy(keys.copy()), *rest),
            "torch": torch.get_rng_state(),
            "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        }
        path = self.directory / f"{step:012d}_{float(metric)!r}.pt"
        draft = path.with_suffix(".draft")
        torch.save(checkpoint, draft)
        os.replace(draft, path)
        for old in self._saved()[:-self.keep]:
            if old != self.best():
                old.unlink()
        return path

    def load(self, path: Path, **parts: object) -> dict:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
        for name, part in parts.items():
            part.load_state_dict(checkpoint["parts"][name])
        kind, keys, *rest = checkpoint["numpy"]
        np.random.set_state((kind, keys.numpy(), *rest))
        random.setstate(checkpoint["random"])
        torch.set_rng_state(checkpoint["torch"])
        if torch.cuda.is_available() and checkpoint["cuda"]:
            torch.cuda.set_rng_state_all(checkpoint["cuda"])
        return checkpoint

    def latest(self) -> Path | None:
        return max(self._saved(), default=None)

    def best(self) -> Path | None:
        return min(self._saved(), key=self._metric, default=None)

    def _saved(self) -> list[Path]:
        return sorted(self.directory.glob("*.pt"))

    def _metric(self, path: Path) -> tuple[bool, float]:
        metric = float(path.stem.split("_")[1])
        return math.isnan(metric), metric
        ### END SOLUTION

# %% check="Checkpointer"
check("Checkpointer")

# %% [markdown]
# ## Safetensors
#
# Where files go from hand to hand, a format that *cannot* hold code is better than a loader that refuses it.
# Safetensors is one: a header in JSON that says name, dtype, shape and place of each tensor, then the raw numbers.
# Nothing is executed, other languages can read it, and a single tensor can be read without the rest.

# %%
from safetensors import safe_open
from safetensors.torch import save_file

tensors = {"weight": torch.arange(6.0).view(2, 3), "bias": torch.zeros(2)}
save_file(tensors, folder / "small.safetensors")
print((folder / "small.safetensors").read_bytes()[8:150])

# %%
with safe_open(folder / "small.safetensors", framework="pt") as opened:
    print(list(opened.keys()), opened.get_tensor("bias"))

# %% [markdown]
# So simple a format has two things it does not know. A tensor in it owns its numbers: two names for one tensor, as
# with tied weights, are refused. And its numbers lie in the order of its elements; a transposed view is refused too.

# %%
shared = torch.zeros(3, 2)
for state in ({"a": shared, "b": shared}, {"turned": shared.T}):
    try:
        save_file(state, folder / "refused.safetensors")
    except (RuntimeError, ValueError) as error:
        print(type(error).__name__, "|", str(error).strip()[:100])

# %% [markdown]
# For whole models the library has a pair of functions that deal with both, `save_model` and `load_model`. The second
# knows which tensors of the model are tied, and expects each of them once. (A tensor that is tied to a *transposed*
# view of another is beyond them.)
#
# Seen: a file without code, where each tensor is stored once and in order.

# %% [markdown]
# ### Exercise: to_safetensors
#
# Write `to_safetensors(model, path)`: a file that `safetensors.torch.load_model` loads into a model of the same kind,
# strictly; also when the model has tied tensors, or some that are not contiguous. The model stays as it is.

# %% exercise="to_safetensors" points=1
def to_safetensors(model: nn.Module, path: Path) -> None:
    """A file for safetensors.torch.load_model, whatever the model's tensors share or look like."""
    ### BEGIN SOLUTION
    from safetensors.torch import save_model

    save_model(model, str(path))
    ### END SOLUTION

# %% check="to_safetensors"
check("to_safetensors")

# %% [markdown]
# ## Averages of weights
#
# The last step of a training is as noisy as any other. An average over many steps is often the better model, and
# costs nothing when it is used. The common one is the *exponential moving average*: after each step, `average = decay
# * average + (1 - decay) * weight`. With a decay of 0.999 it looks back on about a thousand steps.

# %%
generator = torch.Generator().manual_seed(0)
weight = average = torch.tensor(0.0)
for step in range(400):
    weight = 1 + 0.5 * torch.randn((), generator=generator)
    average = 0.98 * average + 0.02 * weight
print(f"the last weight {weight:.3f}, the average {average:.3f}, what it wanders around: 1")

# %% [markdown]
# Three traps. `state_dict()` hands out the model's own tensors: keep them without a copy, and your average moves
# along with the model. An update outside of `no_grad`, on parameters, records a graph that grows with each step. And
# integer buffers have no average:

# %%
norm = nn.BatchNorm1d(2)
kept = norm.state_dict()["num_batches_tracked"]
copied = kept.clone()
norm(torch.randn(4, 2))
print("kept:", kept, " copied:", copied, " half of it:", 0.5 * norm.num_batches_tracked)

# %% [markdown]
# `torch.optim.swa_utils.AveragedModel` does this in torch. We write it to know what is in it.

# %% [markdown]
# ### Exercise: EMA
#
# Write `EMA(model, decay)`, with `update(model)`, called after each step, and `copy_to(model)`. The average starts at
# the model's values. Every entry of the `state_dict` belongs to it: floats, buffers too, are averaged; others are
# copied as they are. No graph is kept, and no memory shared with any model. `copy_to` writes into the tensors that
# the model has.

# %% exercise="EMA" points=2
class EMA:
    """A moving average of a model's weights."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        ### BEGIN SOLUTION
        self.decay = decay
        self.average = {}
        for name, tensor in model.state_dict().items():
            half = tensor.is_floating_point() and tensor.itemsize < 4  # small steps would be rounded away
            dtype = torch.float32 if half else tensor.dtype
            self.average[name] = tensor.detach().to(dtype, copy=True)

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        for name, tensor in model.state_dict().items():
            if tensor.is_floating_point():
                average = self.average[name]
                average.lerp_(tensor.to(average.dtype), 1 - self.decay)
            else:
                self.average[name].copy_(tensor)

    def copy_to(self, model: nn.Module) -> None:
        model.load_state_dict(self.average)
        ### END SOLUTION

# %% check="EMA"
check("EMA")

# %% [markdown]
# The same after the fact: average the last few checkpoints of a training. Files are often in half precision, and a
# sum in half precision runs out of room (float16 ends at 65504) or of digits (bfloat16 has eight bits for them):

# %%
print(sum(torch.full((1,), 30000.0, dtype=torch.float16) for _ in range(3)))
print(sum(torch.full((1,), 1.0, dtype=torch.bfloat16) for _ in range(300)))

# %% [markdown]
# ### Exercise: average_checkpoints
#
# Write `average_checkpoints(paths)`: a dict with the names of the files of weights at `paths`. A float entry is the
# mean over all files, formed in float32 and cast back to its dtype. Every other entry is that of the last file.

# %% exercise="average_checkpoints" points=2
def average_checkpoints(paths: list[Path]) -> dict[str, Tensor]:
    """The mean of several files of weights; what has no mean comes from the last."""
    ### BEGIN SOLUTION
    states = [torch.load(path, map_location="cpu", weights_only=True) for path in paths]
    average = dict(states[-1])
    for name, last in average.items():
        if last.is_floating_point():
            mean = sum(state[name].float() for state in states) / len(states)
            average[name] = mean.to(last.dtype)
    return average
    ### END SOLUTION

# %% check="average_checkpoints"
check("average_checkpoints")

# %% [markdown]
# ## Parity before export
#
# So far the numbers left, and Python stayed. What follows takes the computation along, into a form that runs without
# your class. Such a translation can go wrong without a word. So before anything is deployed, the two are run side by
# side on real inputs: *parity*. It comes before speed, and before the export is used for anything.
#
# How far apart are they, at worst? A mean says little: one entry of a thousand is wrong here by 5.

# %%
right = torch.zeros(1000)
wrong = right.clone()
wrong[7] = 5.0
print("mean:", (right - wrong).abs().mean().item(), " largest:", (right - wrong).abs().max().item())

# %% [markdown]
# Two more ways to be deceived. Every comparison with NaN is false, so Python's `max` keeps whichever comes first. And
# shapes that do not fit may broadcast: a column minus a row is a table.

# %%
print(max(0.0, float("nan")), max(float("nan"), 0.0))
print((torch.zeros(3, 1) - torch.zeros(3)).shape)

# %% [markdown]
# ### Exercise: max_difference
#
# Write `max_difference(reference, candidate, inputs)`: call both functions with each of the `inputs`; they return
# tensors. The result is the largest absolute difference between any two entries, over all inputs, as a float. NaN
# against a number counts as inf, NaN against NaN as 0. Outputs of different shapes raise.

# %% exercise="max_difference" points=2
def max_difference(reference, candidate, inputs: list[Tensor]) -> float:
    """How far two functions are apart, at worst, over all inputs."""
    ### BEGIN SOLUTION
    largest = 0.0
    for x in inputs:
        wanted, found = reference(x), candidate(x)
        if wanted.shape != found.shape:
            raise ValueError(f"candidate gives the shape {tuple(found.shape)}, the reference {tuple(wanted.shape)}")
        equal = (wanted == found) | (wanted.isnan() & found.isnan())
        gap = (wanted.double() - found.double()).abs().masked_fill(equal, 0)
        gap = gap.masked_fill(gap.isnan(), math.inf)
        largest = max(largest, gap.max().item() if gap.numel() else 0.0)
    return largest
    ### END SOLUTION

# %% check="max_difference"
check("max_difference")

# %% [markdown]
# ## torch.export: a program without Python
#
# `torch.export.export` runs your model with stand-ins for tensors and writes down what it does: one graph of ATen
# operators, with the weights beside it. The result is an `ExportedProgram`. It knows neither your class nor Python's
# `if`.

# %% tags=["demo"]
net.eval()
program = torch.export.export(net, (torch.randn(2, 3),))
print([str(node.target) for node in program.graph.nodes if node.op == "call_function"])

# %% [markdown]
# A stand-in has a shape. Unless you say otherwise, the example's shape becomes part of the program, and another batch
# is refused:

# %% tags=["demo"]
try:
    program.module()(torch.randn(7, 3))
except Exception as error:
    print(type(error).__name__, "|", str(error).splitlines()[0][:120])

# %% [markdown]
# `dynamic_shapes` says which dimensions may vary: for each input a dict from the dimension to
# `torch.export.Dim.DYNAMIC`, or to a name, `torch.export.Dim("batch")`. Then use an example with a batch of two or
# more. Sizes 0 and 1 are special to the compiler, since they broadcast, and a batch of 1 would be taken for a
# constant. With `DYNAMIC` you are told. (`Dim.AUTO` would say nothing, and fail later.)

# %%
dynamic = ({0: torch.export.Dim.DYNAMIC},)

# %% tags=["demo"]
program = torch.export.export(net, (torch.randn(2, 3),), dynamic_shapes=dynamic)
print([tuple(program.module()(torch.randn(n, 3)).shape) for n in (1, 2, 7)])
try:
    torch.export.export(net, (torch.randn(1, 3),), dynamic_shapes=dynamic)
except Exception as error:
    print(type(error).__name__)

# %% [markdown]
# What cannot be written down is said at once. A branch on the *values* of a tensor has no place in one graph;
# TorchScript, which we meet below, passed over it in silence:

# %% tags=["demo"]
import contextlib
import io
import logging

class Branching(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if x.sum() > 0 else x - 1


logging.disable(logging.ERROR)  # the error says it; torch would also show the graph so far
try:
    with contextlib.redirect_stderr(io.StringIO()):
        torch.export.export(Branching(), (torch.ones(2),))
except Exception as error:
    print(type(error).__name__, "|", str(error).splitlines()[0][:100])
logging.disable(logging.NOTSET)

# %% [markdown]
# (`torch.cond` writes both branches into the graph; so does `torch.where`, where both may be computed.)
#
# `torch.export.save` writes a program, by custom to a `.pt2` file, and `torch.export.load` reads it; `.module()`
# makes of it a module that can be called. The mode is part of what was written down: export in eval mode.
#
# Seen: one graph, shapes as you allow them, refusal instead of silence.

# %% [markdown]
# ### Exercise: export_program
#
# Write `export_program(model, example, path)`: export the model, whose only input is like `example` (with a batch of
# two or more), so that the batch may have any size; save the program at `path`; return the module that is loaded back
# from there, which shares nothing with the model.

# %% exercise="export_program" points=2
def export_program(model: nn.Module, example: Tensor, path: Path) -> nn.Module:
    """Export with a batch of any size, save, and return what is loaded back."""
    ### BEGIN SOLUTION
    shapes = ({0: torch.export.Dim.DYNAMIC},)
    program = torch.export.export(model, (example,), dynamic_shapes=shapes)
    torch.export.save(program, path)
    return torch.export.load(path).module()
    ### END SOLUTION

# %% check="export_program"
check("export_program")

# %% [markdown]
# ## ONNX: a program for other runtimes
#
# ONNX is a graph format that many runtimes read, on servers, phones and in browsers. `torch.onnx.export` goes through
# `torch.export` and translates each operator. (`dynamo=False` still selects the older exporter, which went through
# TorchScript; its `dynamic_axes` is now `dynamic_shapes`.)

# %%
batch = torch.export.Dim("batch")

# %% tags=["demo"]
example = (torch.randn(2, 3),)
torch.onnx.export(net, example, folder / "net.onnx", dynamic_shapes=({0: batch},), verbose=False)
print({file.name: file.stat().st_size for file in sorted(folder.glob("net.onnx*"))})

# %% [markdown]
# There are two files. Large weights go into the second one, which then has to travel with the first; ours are so
# small that they stayed in the first, and the second holds nothing. `external_data=False` puts everything in one, up
# to 2 GB. Now run it in ONNX Runtime, where there is no torch, and compare. A session takes NumPy arrays by the name
# of the input:

# %%
import onnxruntime

# %% tags=["demo"]
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
providers = ["CPUExecutionProvider"]
session = onnxruntime.InferenceSession(folder / "net.onnx", options, providers=providers)
entry = session.get_inputs()[0]
print(entry.name, entry.shape)

# %% tags=["demo"]
for n in (1, 2, 7):
    x = torch.randn(n, 3)
    (found,) = session.run(None, {entry.name: x.numpy()})
    print(n, "rows, largest difference", float(np.abs(found - net(x).detach().numpy()).max()))

# %% [markdown]
# Equal, but for rounding. Only now is it worth asking how fast it is. We take both in turn, so that a busy machine
# hurts both, and look at medians:

# %% tags=["demo"]
from time import perf_counter

x = torch.randn(16, 3)
times: dict[str, list[float]] = {"torch": [], "ONNX Runtime": []}
runs = {"torch": lambda: net(x), "ONNX Runtime": lambda: session.run(None, {entry.name: x.numpy()})}
with torch.no_grad():
    for _ in range(200):
        for name, run in runs.items():
            start = perf_counter()
            run()
            times[name].append(perf_counter() - start)
print({name: f"{1e6 * np.median(values):.0f} microseconds" for name, values in times.items()})

# %% [markdown]
# For a net this small nearly all of it is overhead, and a runtime without Python has less. For large layers both end
# in the same matrix products, and the difference shrinks. Measure *your* model.
#
# **The mode, again.** An export writes down what the model does in the mode it is in, and the two exporters differ in
# how much of that remains. `torch.export` keeps all of it: a branch on `self.training`, every dropout, batch norm
# with the statistics of the batch. `torch.onnx.export` writes batch norm in its eval form, and ONNX Runtime leaves
# out a dropout in the middle of a graph, so a forgotten `eval()` often goes unnoticed, until a model branches on
# `self.training` or *ends* in a dropout:

# %% tags=["demo"]
class Halving(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x / 2 if self.training else x


for training in (True, False):
    written = torch.export.export(Halving().train(training), (torch.ones(2),)).module()
    print("exported in", "training:" if training else "eval:    ", written(torch.ones(2)))

# %% tags=["demo"]
ends_in_dropout = nn.Sequential(nn.Linear(3, 100), nn.Dropout(0.5)).train()
torch.onnx.export(ends_in_dropout, example, folder / "dropout.onnx", verbose=False)
session_of_training = onnxruntime.InferenceSession(folder / "dropout.onnx", options, providers=providers)
(found,) = session_of_training.run(None, {session_of_training.get_inputs()[0].name: example[0].numpy()})
print("share of zeros in ONNX Runtime:", (found == 0).mean())

# %% [markdown]
# So switch to eval, export, and switch back: somebody may be in the middle of a training.
#
# Seen: eval mode, a dynamic batch, parity; then speed.

# %% [markdown]
# ### Exercise: export_onnx
#
# Write `export_onnx(model, example, path)`: an ONNX file at `path` that does what the model does in eval mode, for a
# batch of any size, with the same numbers in ONNX Runtime. `example` is a batch of two or more for the model's only
# input. Afterwards the model is in the mode that it was in before.

# %% exercise="export_onnx" points=2
def export_onnx(model: nn.Module, example: Tensor, path: Path) -> None:
    """Export to ONNX in eval mode, for a batch of any size; the model is then in its old mode."""
    ### BEGIN SOLUTION
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        shapes = ({0: torch.export.Dim("batch")},)
        torch.onnx.export(model, (example,), path, dynamic_shapes=shapes, verbose=False)
    finally:
        for module, training in modes:
            module.training = training
    ### END SOLUTION

# %% check="export_onnx"
check("export_onnx")

# %% [markdown]
# ## TorchScript, as history
#
# Before `torch.export` there was TorchScript, and you will meet its files and its calls. `torch.jit.script` compiled
# a part of Python from its source; `torch.jit.trace` ran a function once on an example and recorded the operators.
# Both still work, and say that their time is over:

# %% tags=["demo"]
def branching(x: Tensor) -> Tensor:
    if x.sum() > 0:
        return x * 2
    return x - 1


with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    traced = torch.jit.trace(branching, torch.ones(2))
said = [f"{w.category.__name__} | {str(w.message).split('. ')[0]}." for w in caught]
print(*dict.fromkeys(said), sep="\n")

# %% [markdown]
# Read the second kind of warning again. The trace has seen one way through the function. On the example it is right,
# and on the other side of the branch it is silently wrong:

# %% tags=["demo"]
for x in (torch.ones(2), -torch.ones(2)):
    print("function:", branching(x).tolist(), " trace:", traced(x).tolist())

# %% [markdown]
# Loops over a tensor's rows are the same: the trace has as many rounds as the example had rows. A warning was all one
# got, and in a large model there were dozens. `torch.export` refuses instead, as you have seen.

# %% [markdown]
# ### Exercise: trace_differs
#
# Write `trace_differs(fn, example, other)`: trace `fn` on `example` with `torch.jit.trace`, and say whether the trace
# gives something else on `other` than `fn` does. Rounding is no difference. The result is True or False.

# %% exercise="trace_differs" points=1
def trace_differs(fn, example: Tensor, other: Tensor) -> bool:
    """Whether a trace made on example does something else than fn on other."""
    ### BEGIN SOLUTION
    traced = torch.jit.trace(fn, example)
    wanted = fn(other)
    try:
        found = traced(other)
    except RuntimeError:
        return True
    return found.shape != wanted.shape or not torch.allclose(found, wanted, equal_nan=True)
    ### END SOLUTION

# %% check="trace_differs"
check("trace_differs")

# %% [markdown]
# ## Which format for what
#
# | where it is going | take | what it was before |
# |---|---|---|
# | back into this training | a checkpoint: all parts, random states | weights alone |
# | another Python program with your code | `state_dict`, as `.pt` or safetensors | full-model pickles |
# | the public | safetensors, and a file with the settings | pickles |
# | a Python server | the model itself, compiled, behind a web server or an inference server | TorchServe, no longer maintained |
# | C++ without Python | `torch.export`, then AOTInductor, which compiles the program into a library | TorchScript and libtorch |
# | phones and small devices | `torch.export`, then ExecuTorch | PyTorch Mobile |
# | other runtimes, browsers | ONNX, run by ONNX Runtime and its web version | the exporter through TorchScript |
#
# Whatever you choose: parity first, on real inputs, over several batch sizes; then speed.
#
# ## What you have seen
#
# | idea | remember |
# |---|---|
# | `state_dict` | numbers by name; not the mode, not the settings |
# | writing | beside, then `os.replace` |
# | pickle | opening runs it; `weights_only=True` |
# | `map_location` | where the tensors go, whatever the file says |
# | strict | a name that does not fit is an error; `strict=False` still raises on shapes |
# | checkpoint | model, optimizer, scheduler, scaler, three generators; the folder is the memory |
# | safetensors | no code; each tensor once, in order |
# | averages | copies, no graph, in float32; counters are copied |
# | parity | the largest difference; mind NaN and shapes |
# | export | eval mode, dynamic batch, an example of two or more |
# | trace | one way through; use `torch.export` |
