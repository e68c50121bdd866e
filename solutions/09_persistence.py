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
# Training takes hours, and its outcome is a set of numbers in memory. Sooner or later they have to go elsewhere: to a
# file, because machines crash; to a colleague, who has another machine; to a server, a phone or a browser, where
# there may be no Python.
#
# Each of these destinations has its own formats and its own traps. There are files that nobody can open a year later.
# There are files that run somebody else's code. A training run may continue after a crash and quietly be a different
# one. An exported model may give different answers from the original. We meet them in this order. There are thirteen
# exercises.

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

from torchcourse import Unattempted, case, check, hint

# %% tags=["demo"]
# %load_ext torchcourse

# %% [markdown]
# ## A file of numbers
#
# A model is code and numbers. The code is in your repository; the numbers are what training has produced.
# `state_dict()` gives them by name, parameters and buffers alike:

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
# `torch.save` writes such a dict, and `torch.load` reads it back. The tensors in the dict are those of the model
# itself, not copies; what is in the file is a copy.

# %%
torch.save(net.state_dict(), folder / "weights.pt")
print((folder / "weights.pt").stat().st_size, "bytes")
print(torch.load(folder / "weights.pt", weights_only=True)["head.bias"])

# %% [markdown]
# You may meet files that hold the model as a whole: `torch.save(model, path)`. It looks shorter, and it stores no
# code either: only the *name* of the class and of its module. So the file opens only where that module has a class of
# that name. Here somebody renames the class a month later:

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
# Up to and including PyTorch 2.5, `torch.load` opened such files by default, and many older tutorials save models
# in this way. Save the `state_dict` instead, and keep the class in your code.
#
# What a `state_dict` does **not** carry: the mode (`train` or `eval`), the sizes that `Net` was made with, the
# vocabulary or the class names, the normalisation of the inputs. Put those into a file beside it, JSON for instance,
# and load the two together.
#
# There are two more things to know about writing. A GPU tensor in a file remembers its GPU, so move everything to the
# CPU first. And a process can be killed while it writes. `torch.save(..., path)` first empties the file of this name.
# From then on the old weights are gone, and the new ones are not there yet:

# %%
path = folder / "weights.pt"
with path.open("wb") as file:
    file.write(b"the first few bytes, and then the process is killed")
try:
    torch.load(path, weights_only=True)
except Exception as error:
    print(type(error).__name__)

# %% [markdown]
# The remedy is an old one. Write under another name, in the same folder, and then rename: `os.replace` puts one file
# in the place of another in a single step. At any moment, readers see either the old file or the new one, both
# complete.
#
# (Renaming protects against the death of the process. If the whole machine may lose power, flush and `os.fsync` the
# new file before you rename it.)
#
# **In short:** save the numbers, by name, on the CPU; write to another file, then replace.

# %% [markdown]
# ### Exercise: save_weights
#
# Write `save_weights(model, path)`: the file at `path` (a `Path`) holds the model's `state_dict` with every tensor on
# the CPU. If the process is killed at any moment of the call, the file at `path` is whole: either the one that was
# there before, or the new one. The model stays as it is.
#
# ```
# save_weights(nn.Linear(2, 1), Path("weights.pt"))
# sorted(torch.load("weights.pt", weights_only=True))    # ['bias', 'weight']
# ```

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
# Here it was `print`. It could have been `os.system`. Nothing in the file has to be *used* for that: opening it is
# enough, and so a model from the internet can do whatever you can do. Weights-only loading, the default since 2.6,
# knows a short list of safe things and refuses the rest:

# %%
try:
    torch.load(folder / "gift.pt", weights_only=True)
except Exception as error:
    print(type(error).__name__, "Unsupported global" in str(error))

# %% [markdown]
# (The message goes on to say how to switch the protection off. Do so only for files that you wrote yourself.)
#
# A pickle can be *read* without being executed: `pickletools` lists its instructions. The ones called GLOBAL name what
# the file needs. Some of it is fine, and is on the list of weights-only loading; `torch.serialization` knows the
# difference. Mind the names: the format is old, and uses the names of Python 2. What is printed below as
# `__builtin__ print` is `builtins.print`, and `range` would appear as `__builtin__ xrange`; translate such names before
# you compare them with a list.

# %%
import pickletools
import zipfile

with zipfile.ZipFile(folder / "gift.pt") as archive:
    program = archive.read("gift/data.pkl")
print(
    [
        argument
        for code, argument, place in pickletools.genops(program)
        if code.name == "GLOBAL"
    ]
)

# %% [markdown]
# Older checkpoints often hold harmless objects that are not on the list, such as an `argparse.Namespace` with the
# settings. Then `torch.serialization.safe_globals([argparse.Namespace])` as a context manager allows just that one.
#
# **In short:** opening a pickle runs it; weights-only loading reads tensors and refuses code.

# %% [markdown]
# ### Exercise: unsafe_globals
#
# Write `unsafe_globals(path)`: the names, sorted, as `"module.name"`, that the checkpoint at `path` would need beyond
# what weights-only loading accepts. Nothing in the file is executed. The files are in the format that `torch.save`
# writes.
#
# ```
# torch.save({"lr": fractions.Fraction(1, 3)}, path)
# unsafe_globals(path)    # ['fractions.Fraction']
# ```

# %% exercise="unsafe_globals" points=1
def unsafe_globals(path: Path) -> list[str]:
    """Return what a checkpoint needs beyond weights-only loading, sorted;
    execute nothing in it."""
    ### BEGIN SOLUTION
    return sorted(torch.serialization.get_unsafe_globals_in_checkpoint(path))
    ### END SOLUTION

# %% check="unsafe_globals"
check("unsafe_globals")

# %% [markdown]
# ## Loading: what, where, and in which mode
#
# **Where.** A tensor in a file remembers the device it was on, and is loaded back to it. On a machine without that
# device, loading fails. `map_location` names another place. The device `"meta"` exists everywhere, so we can see this
# work on any machine:

# %%
torch.save(net.state_dict(), path)
print(torch.load(path, weights_only=True)["head.bias"].device)
print(torch.load(path, map_location="meta", weights_only=True)["head.bias"].device)

# %% [markdown]
# **What.** `load_state_dict` copies into the tensors that the model has, where they are. With `strict=True`, the
# default, every name has to match, and the exception lists those that do not. `strict=False` returns the list
# instead. If nobody looks at it, part of the model keeps its random numbers, and nothing in the program says so:

# %%
state = torch.load(path, weights_only=True)
state["head.wieght"] = state.pop("head.weight")
try:
    Net().load_state_dict(state)
except RuntimeError as error:
    print(error)
print(Net().load_state_dict(state, strict=False))

# %% [markdown]
# **Large models.** Loading as above needs the memory twice: for the model's own random numbers and for those of the
# file. A model made under `torch.device("meta")` has no numbers; `mmap=True` leaves those of the file on disk until
# they are touched; and `assign=True` puts the loaded tensors into the model instead of copying them:

# %%
with torch.device("meta"):
    empty = Net()
mapped = torch.load(path, weights_only=True, mmap=True)
empty.load_state_dict(mapped, assign=True)
print(empty.head.weight.device, torch.equal(empty.head.weight, net.head.weight))

# %% [markdown]
# What is not in the file, such as a buffer with `persistent=False`, is still on `meta` afterwards and has to be made
# anew. And since the parameters are new objects, make the optimizer after loading.

# %% [markdown]
# **In which mode.** A new model is in training mode, and loading does not change that. So after loading you have to
# call `model.eval()`, or dropout and batch norm do what they do in training. See what a forgotten `eval()` costs:

# %%
loaded = Net()
loaded.load_state_dict(torch.load(path, weights_only=True))
x = torch.randn(6, 3)
wanted = net.eval()(x)
print("eval mode:", torch.allclose(loaded.eval()(x), wanted))
print("training mode:", torch.allclose(loaded.train()(x), wanted))

# %% [markdown]
# A function that loads should still leave the mode alone: to continue training you need the other mode, and only the
# caller knows which one is wanted.
#
# **In short:** say where the tensors should go, keep loading strict, and set the mode yourself.

# %% [markdown]
# ### Exercise: load_weights
#
# Write `load_weights(model, path, device="cpu")`: read the file of weights at `path`, weights-only, whatever device
# it was saved on; load them into the model; move it to `device`; return it. If an entry is missing or there is one
# too many, an exception names it. The model's mode does not change.
#
# ```
# load_weights(nn.Linear(2, 1), Path("weights.pt"))    # the same model, with the weights of the file
# load_weights(nn.Linear(3, 1), Path("weights.pt"))    # an error: size mismatch for weight: ...
# ```

# %% exercise="load_weights" points=2
def load_weights(model: nn.Module, path: Path, device: str = "cpu") -> nn.Module:
    """Fill the model from a file of weights and move it to the device."""
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
# The same weights can come under different names. Two wrappers put a word in front: `DistributedDataParallel` holds
# your model as `module`, and `torch.compile` as `_orig_mod`. The names in their state begin with these words, and if
# you save the wrapper's state, you save the prefixes too:

# %%
class Wrapper(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.module = inner


print(list(Wrapper(nn.Linear(2, 2)).state_dict()))
print(list(Wrapper(Wrapper(nn.Linear(2, 2))).state_dict()))

# %% [markdown]
# (`model.compile()` compiles in place and adds nothing; nor does saving the inner model's state,
# `wrapper.module.state_dict()`, or `wrapper._orig_mod.state_dict()` after `torch.compile`.) The wrappers may be
# nested in any order. And a model may well have a submodule of its own that is called `module`, or one called
# `module_list`: in this exercise only a prefix at the very beginning, including its dot, belongs to a wrapper. (A
# submodule that was wrapped by itself has the prefix in the middle of its names.)

# %% [markdown]
# ### Exercise: strip_prefixes
#
# Write `strip_prefixes(state)`: a new dict with the same tensors, under names without any leading `module.` and
# `_orig_mod.`, however they are nested.
#
# ```
# strip_prefixes({"module._orig_mod.fc.weight": w, "encoder.module.bias": b})
# # {"fc.weight": w, "encoder.module.bias": b}
# ```

# %% exercise="strip_prefixes" points=1
def strip_prefixes(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return a new state without the prefixes that wrappers put before the names."""
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
# **Another head.** Take a model trained for 1000 classes and adapt it to your 5: all layers fit except the last.
# `strict=False` tolerates names that do not match, but still raises an error about a shape:

# %%
other = Net()
other.head = nn.Linear(4, 5)
try:
    other.load_state_dict(net.state_dict(), strict=False)
except RuntimeError as error:
    print(error)

# %% [markdown]
# So we pick the entries ourselves. Compare shapes; do not just try: `copy_` broadcasts, and would fill a table with
# copies of one row.

# %%
table = torch.zeros(2, 3)
table.copy_(torch.tensor([[1.0, 2.0, 3.0]]))

# %% [markdown]
# **Versions.** A class that renames its parameters breaks the files that people already have. Modules have a place
# for this: a number in `_version`, saved beside the weights, and a hook that may change the dict before it is loaded.
# `BatchNorm` uses the version number for its `num_batches_tracked`, which did not exist in version 1:

# %%
class Scale(nn.Module):
    _version = 2    # in version 1 the parameter was called `weight`

    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(1))
        self.register_load_state_dict_pre_hook(self.rename)

    @staticmethod
    def rename(module, state, prefix, metadata, strict, missing, unexpected, errors):
        if metadata.get("version", 1) < 2 and prefix + "weight" in state:
            state[prefix + "gain"] = state.pop(prefix + "weight")


scale = Scale()
print(scale.load_state_dict({"weight": torch.tensor([7.0])}), scale.gain)
print(scale.state_dict()._metadata)

# %% [markdown]
# The version is kept in an attribute of the dict, `_metadata`. A plain dict or a safetensors file has none, and so
# counts as version 1 here; then only the names can tell you which version it is.

# %% [markdown]
# ### Exercise: load_matching
#
# Write `load_matching(model, state)`: copy into the model those entries of `state`, buffers included, whose name and
# shape agree with the model's. Return two sorted lists of names: the entries of `state` that were loaded, and those
# that were not. The parameters stay the same objects on the same device.
#
# ```
# state = {"weight": torch.ones(1, 2), "bias": torch.ones(9), "scale": torch.ones(1)}
# load_matching(nn.Linear(2, 1), state)    # (['weight'], ['bias', 'scale'])
# ```

# %% exercise="load_matching" points=2
def load_matching(
    model: nn.Module, state: dict[str, Tensor]
) -> tuple[list[str], list[str]]:
    """Copy the entries whose name and shape agree; return the names of those,
    and of the others."""
    ### BEGIN SOLUTION
    own = model.state_dict()
    loaded = sorted(
        name
        for name, tensor in state.items()
        if name in own and own[name].shape == tensor.shape
    )
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
# There is more to a training run than its weights. AdamW has two averages for each of them. A schedule has a position,
# and a gradient scaler has its scale. Batches and dropout masks are drawn at random, so the states of three random
# generators (Python's, NumPy's and torch's) decide what comes next. Leave one of these out, and training continues, but
# as a different run.

# %%
model = nn.Linear(2, 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
model(torch.ones(1, 2)).sum().backward()
optimizer.step()
print(
    list(optimizer.state_dict()["state"][0]),
    optimizer.state_dict()["param_groups"][0]["lr"],
)

# %% [markdown]
# Below, a training run in a process of its own saves every 30 steps. In the middle of step 104 it is killed, with the
# signal that no program can catch. Then a new run continues from step 90. With everything restored, its curve matches
# the first one to the last bit:

# %% tags=["demo"]
from torchcourse.demos import resuming

resuming.draw("everything")

# %% [markdown]
# Now restore less. Without the optimizer's averages the first steps are too large: a peak. Without the scheduler the
# learning rate starts from the beginning again. Without the random state the curve looks fine, but it is a different
# one: a result that nobody can reproduce.

# %% tags=["demo"]
resuming.explore()

# %% [markdown]
# Here are the three generators, and how to save and restore the state of each:

# %%
states = random.getstate(), np.random.get_state(), torch.get_rng_state()
drawn = random.random(), np.random.rand(), torch.rand(1).item()
random.setstate(states[0])
np.random.set_state(states[1])
torch.set_rng_state(states[2])
print(drawn == (random.random(), np.random.rand(), torch.rand(1).item()))

# %% [markdown]
# With a GPU there is a fourth, `torch.cuda.get_rng_state_all()`. There is one detail for checkpoints: NumPy's state
# contains an array, which weights-only loading does not accept. Store it as a tensor:

# %%
name, numbers, *rest = np.random.get_state()
print(name, numbers.dtype, numbers.shape, rest, torch.from_numpy(numbers.copy()).dtype)

# %% [markdown]
# **In the middle of an epoch** there is one more position: that of the sampler. The `ResumableSampler` of lesson 4 has
# `state_dict()` and `load_state_dict()` for this, and its state belongs in the same file. Without it, save at the ends
# of epochs only. With workers, save the number of batches that were *trained on*, because the workers fetch ahead and
# the sampler has already moved on.

# %%
class InOrder:
    def __init__(self, n):
        self.n, self.at = n, 0

    def __iter__(self):
        while self.at < self.n:
            self.at += 1
            yield self.at - 1

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]

sampler, resumed = InOrder(6), InOrder(6)
drawn = iter(sampler)
print(next(drawn), next(drawn))
torch.save({"sampler": sampler.state_dict()}, folder / "middle.pt")
resumed.load_state_dict(torch.load(folder / "middle.pt")["sampler"])
print(list(resumed))

# %% [markdown]
# **Rotation.** Checkpoints are large, so you keep only the newest few, and always the best one: it may be old, and it
# is what you trained for. The order matters: first the new file must exist, complete, under its final name; only then
# may an old one be deleted.
#
# After a crash all objects are gone and only the folder is left. So `latest()` and `best()` of a *new* object have to
# find the answer in the folder. A file name can carry the step and the metric. Mind the way numbers sort as text:

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
# **In short:** everything that decides the next step belongs in the file; the folder, not the object, is the memory.

# %% [markdown]
# ### Exercise: Checkpointer
#
# Write `Checkpointer(directory, keep=3)`; the folder exists. Its methods:
#
# - `save(step, metric, **parts)` writes a checkpoint and returns its path. The parts (model, optimizer, scheduler,
#   scaler, under any name) have `state_dict()` and `load_state_dict()`. The states of `random`, NumPy and torch are
#   saved too. Afterwards the newest `keep` checkpoints exist, and the best one (a lower metric is better); older ones
#   are gone.
# - `load(path, **parts)` restores the parts and the random states, so that training continues, to the last bit, as if
#   nothing had happened. It returns a dict with whatever else you saved, such as the step.
# - `latest()` and `best()` return a path, or None if there is no checkpoint; this also works for a new `Checkpointer`
#   on an old folder.
#
# The process may be killed at any moment. Checkpoints that were complete stay loadable, and a new object continues
# from the last one or the one before.
#
# ```
# keeper = Checkpointer(folder, keep=2)
# for step, loss in enumerate([0.9, 0.3, 0.5, 0.7]):
#     keeper.save(step, loss, model=model, optimizer=optimizer)
# # left are steps 1 (the best), 2 and 3; keeper.latest() is step 3, keeper.best() step 1
# keeper.load(keeper.best(), model=model, optimizer=optimizer)["step"]    # 1, if you saved the step under that name
# ```

# %% exercise="Checkpointer" points=4
class Checkpointer:
    """Checkpoints in a folder: the newest few, and always the best."""

    def __init__(self, directory: Path, keep: int = 3) -> None:
        ### BEGIN SOLUTION
        self.directory, self.keep = Path(directory), keep

    def save(self, step: int, metric: float, **parts: object) -> Path:
        kind, keys, *rest = np.random.get_state()
        checkpoint = {
            "step": step,
            "metric": metric,
            "parts": {name: part.state_dict() for name, part in parts.items()},
            "random": random.getstate(),
            "numpy": (kind, torch.from_numpy(keys.copy()), *rest),
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
# Where files are passed around, a format that *cannot* hold code is better than a loader that refuses it. Safetensors
# is one: a header in JSON with the name, dtype, shape and position of each tensor, followed by the raw numbers.
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
# There are two things that such a simple format does not support. Each tensor owns its numbers: two names for one
# tensor, as with tied weights, are refused. And the numbers are stored in the order of the elements: a transposed
# view is refused too.

# %%
shared = torch.zeros(3, 2)
for state in ({"a": shared, "b": shared}, {"turned": shared.T}):
    try:
        save_file(state, folder / "refused.safetensors")
    except (RuntimeError, ValueError) as error:
        print(type(error).__name__, "|", str(error).strip()[:100])

# %% [markdown]
# For whole models the library has a pair of functions that handle both cases, `save_model` and `load_model`. The
# latter knows which of the model's tensors are tied, and expects each of them once. (A tensor that is tied to a
# *transposed* view of another, or shares only a part of its numbers with another, is beyond them.)
#
# **In short:** a file without code, in which each tensor is stored once and in order.

# %% [markdown]
# ### Exercise: to_safetensors
#
# Write `to_safetensors(model, path)`: a file that `safetensors.torch.load_model` loads into a model of the same kind,
# strictly, even when the model has tied tensors, or some that are not contiguous. The model stays as it is.
#
# ```
# to_safetensors(model, Path("model.safetensors"))
# safetensors.torch.load_model(another_of_its_kind, "model.safetensors")    # (set(), []): nothing missing
# ```

# %% exercise="to_safetensors" points=1
def to_safetensors(model: nn.Module, path: Path) -> None:
    """A file for safetensors.torch.load_model,
    whatever the model's tensors share or look like."""
    ### BEGIN SOLUTION
    from safetensors.torch import save_model

    save_model(model, str(path))
    ### END SOLUTION

# %% check="to_safetensors"
check("to_safetensors")

# %% [markdown]
# ## Averages of weights
#
# The last step of training is as noisy as any other. An average over many steps is often the better model, and costs
# nothing extra when it is used. The common one is the *exponential moving average*: after each step, `average = decay
# * average + (1 - decay) * weight`. With a decay of 0.999 it looks back over about a thousand steps.

# %%
generator = torch.Generator().manual_seed(0)
weight = average = torch.tensor(0.0)
for step in range(400):
    weight = 1 + 0.5 * torch.randn((), generator=generator)
    average = 0.98 * average + 0.02 * weight
print(
    f"the last weight {weight:.3f}, the average {average:.3f}, what it wanders "
    "around: 1"
)

# %% [markdown]
# There are three traps. `state_dict()` returns the model's own tensors: if you keep them without copying, your
# average moves along with the model. An update outside `no_grad`, on parameters, records a graph that grows with each
# step. And integer buffers have no average:

# %%
norm = nn.BatchNorm1d(2)
kept = norm.state_dict()["num_batches_tracked"]
copied = kept.clone()
norm(torch.randn(4, 2))
print("kept:", kept, " copied:", copied, " half of it:", 0.5 * norm.num_batches_tracked)

# %% [markdown]
# In torch, `torch.optim.swa_utils.AveragedModel` does this, with `multi_avg_fn=get_ema_multi_avg_fn(decay)`; by default
# it takes the plain mean of all updates. We write our own to know what is in it. Small steps in half precision would be
# rounded away, as in lesson 7, so the average of a half-precision model is kept in float32.

# %% [markdown]
# ### Exercise: EMA
#
# Write `EMA(model, decay)`, with `update(model)`, called after each step, and `copy_to(model)`. The average starts at
# the model's values. Every entry of the `state_dict` is part of it: floats, including buffers, are averaged, those of
# half precision in float32; others are copied as they are. No graph is kept, and no memory is shared with any model.
# `copy_to` writes into the model's existing tensors.
#
# ```
# model = nn.Linear(1, 1, bias=False)
# nn.init.zeros_(model.weight)
# average = EMA(model, decay=0.9)
# nn.init.ones_(model.weight)
# average.update(model)
# average.copy_to(model)    # the weight is now 0.1, which is 0.9 * 0 + 0.1 * 1
# ```

# %% exercise="EMA" points=2
class EMA:
    """A moving average of a model's weights."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        ### BEGIN SOLUTION
        self.decay = decay
        self.average = {}
        for name, tensor in model.state_dict().items():
            # small steps would be rounded away
            half = tensor.is_floating_point() and tensor.itemsize < 4
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
# The same can be done after the fact: average the last few checkpoints of a training run. Files are often in half
# precision, and a sum in half precision runs out of room (float16 ends at 65504) or of digits (bfloat16 has eight
# bits for them, counting the leading 1 that is not stored):

# %%
print(sum(torch.full((1,), 30000.0, dtype=torch.float16) for _ in range(3)))
print(sum(torch.full((1,), 1.0, dtype=torch.bfloat16) for _ in range(300)))

# %% [markdown]
# ### Exercise: average_checkpoints
#
# Write `average_checkpoints(paths)`: a dict with the names that the files of weights at `paths` contain. A float entry
# is the mean over all files, computed in float32 and cast back to its dtype. Every other entry is taken from the last
# file.
#
# ```
# # two files: {"w": [1.0], "steps": 10} and {"w": [3.0], "steps": 20}, all of them tensors
# average_checkpoints([first, second])    # {"w": [2.0], "steps": 20}
# ```

# %% exercise="average_checkpoints" points=2
def average_checkpoints(paths: list[Path]) -> dict[str, Tensor]:
    """Return the mean of several files of weights;
    what has no mean comes from the last."""
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
# So far only the numbers have gone elsewhere. What follows takes the computation along as well, in a form that runs
# without your class. Such a translation can go wrong silently. So before anything is deployed, run the model and its
# translation side by side on real inputs and compare the results: that is a check of *parity*. It comes before speed,
# and before the export is used for anything.
#
# How far apart are they, at worst? A mean says little: here one entry out of a thousand is wrong by 5.

# %%
right = torch.zeros(1000)
wrong = right.clone()
wrong[7] = 5.0
print(
    "mean:",
    (right - wrong).abs().mean().item(),
    " largest:",
    (right - wrong).abs().max().item(),
)

# %% [markdown]
# There are two more ways to be misled. `<` and `>` are False for NaN, so Python's `max` keeps whichever comes first.
# And shapes that do not match may broadcast: a column minus a row is a table.

# %%
print(max(0.0, float("nan")), max(float("nan"), 0.0))
print((torch.zeros(3, 1) - torch.zeros(3)).shape)

# %% [markdown]
# ### Exercise: max_difference
#
# Write `max_difference(reference, candidate, inputs)`: call both functions with each of the `inputs`; they return
# tensors, of floats or of integers. The result is the largest absolute difference between corresponding entries, over
# all inputs, as a float. NaN against a number counts as inf, NaN against NaN as 0. Outputs of different shapes raise an
# error.
#
# ```
# max_difference(torch.sin, lambda x: x, [torch.tensor([0.0, 1.0])])    # 0.1585, at 1
# ```

# %% exercise="max_difference" points=2
def max_difference(reference, candidate, inputs: list[Tensor]) -> float:
    """Return how far apart two functions are, at worst, over all inputs."""
    ### BEGIN SOLUTION
    largest = 0.0
    for x in inputs:
        wanted, found = reference(x), candidate(x)
        if wanted.shape != found.shape:
            raise ValueError(
                f"candidate gives the shape {tuple(found.shape)}, the reference "
                f"{tuple(wanted.shape)}"
            )
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
# `torch.export.export` runs your model with stand-ins for tensors and records what it does: one graph of ATen
# operators, with the weights beside it. The result is an `ExportedProgram`. It contains neither your class nor
# Python's `if`.

# %% tags=["demo"]
net.eval()
program = torch.export.export(net, (torch.randn(2, 3),))
print([str(node.target) for node in program.graph.nodes if node.op == "call_function"])

# %% [markdown]
# A stand-in has a shape. Unless you say otherwise, the example's shape becomes part of the program, and a batch of
# another size is refused:

# %% tags=["demo"]
try:
    program.module()(torch.randn(7, 3))
except Exception as error:
    print(type(error).__name__, "|", str(error).splitlines()[0][:120])

# %% [markdown]
# `dynamic_shapes` says which dimensions may vary: for each input a dict from the dimension to
# `torch.export.Dim.DYNAMIC`, or to a name, `torch.export.Dim("batch")`. Then use an example with a batch of two or
# more. Sizes 0 and 1 are special to the compiler (1 broadcasts, 0 is empty), and a batch of 1 would be taken for a
# constant. With `DYNAMIC` you get an error. (`Dim.AUTO` would say nothing, and fail later.)

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
# What cannot be recorded is reported at once. A branch on the *values* of a tensor has no place in a single graph;
# `torch.jit.trace`, which we will meet below, recorded one side of it and only warned:

# %% tags=["demo"]
import contextlib
import io
import logging

class Branching(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if x.sum() > 0 else x - 1


# the error says it all; torch would also log the graph so far
logging.disable(logging.ERROR)
try:
    with contextlib.redirect_stderr(io.StringIO()):
        torch.export.export(Branching(), (torch.ones(2),))
except Exception as error:
    print(type(error).__name__, "|", str(error).splitlines()[0][:100])
logging.disable(logging.NOTSET)

# %% [markdown]
# (`torch.cond` puts both branches into the graph; so does `torch.where`, which computes both.)
#
# `torch.export.save` writes a program, by convention to a `.pt2` file, and `torch.export.load` reads it; `.module()`
# turns it into a module that can be called. The mode is part of what was recorded: export in eval mode.
#
# **In short:** one graph, the shapes that you allow, and an error instead of silence.

# %% [markdown]
# ### Exercise: export_program
#
# Write `export_program(model, example, path)`: export the model, whose only input is like `example` (with a batch of
# two or more), so that the batch may have any size; save the program at `path`; and return the module loaded back
# from there, which shares nothing with the model.
#
# ```
# exported = export_program(nn.Linear(3, 2), torch.zeros(2, 3), Path("linear.pt2"))
# exported(torch.zeros(7, 3)).shape    # (7, 2)
# ```

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
# ONNX is a graph format that many runtimes read, on servers, on phones and in browsers. `torch.onnx.export` goes
# through `torch.export` and translates each operator. (`dynamo=False` still selects the older exporter, which goes
# through TorchScript; its `dynamic_axes` are now `dynamic_shapes`.)

# %%
batch = torch.export.Dim("batch")

# %% tags=["demo"]
example = (torch.randn(2, 3),)
torch.onnx.export(
    net, example, folder / "net.onnx", dynamic_shapes=({0: batch},), verbose=False
)
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
session = onnxruntime.InferenceSession(
    folder / "net.onnx", options, providers=providers
)
entry = session.get_inputs()[0]
print(entry.name, entry.shape)

# %% tags=["demo"]
for n in (1, 2, 7):
    x = torch.randn(n, 3)
    (found,) = session.run(None, {entry.name: x.numpy()})
    print(
        n,
        "rows, largest difference",
        float(np.abs(found - net(x).detach().numpy()).max()),
    )

# %% [markdown]
# They are equal up to rounding. Only now is it worth asking how fast it is. We run the two alternately, so that a
# busy machine affects both, and look at medians:

# %% tags=["demo"]
from time import perf_counter

x = torch.randn(16, 3)
times: dict[str, list[float]] = {"torch": [], "ONNX Runtime": []}
runs = {
    "torch": lambda: net(x),
    "ONNX Runtime": lambda: session.run(None, {entry.name: x.numpy()}),
}
with torch.no_grad():
    for _ in range(200):
        for name, run in runs.items():
            start = perf_counter()
            run()
            times[name].append(perf_counter() - start)
print(
    {
        name: f"{1e6 * np.median(values):.0f} microseconds"
        for name, values in times.items()
    }
)

# %% [markdown]
# For a net this small nearly all of the time is overhead, and a runtime without Python has less. For large layers both
# spend their time in matrix products, and the difference shrinks. Measure *your* model.
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
    print(
        "exported in", "training:" if training else "eval:    ", written(torch.ones(2))
    )

# %% tags=["demo"]
ends_in_dropout = nn.Sequential(nn.Linear(3, 100), nn.Dropout(0.5)).train()
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it asks whether training mode is meant
    torch.onnx.export(ends_in_dropout, example, folder / "dropout.onnx", verbose=False)
session_of_training = onnxruntime.InferenceSession(
    folder / "dropout.onnx", options, providers=providers
)
(found,) = session_of_training.run(
    None, {session_of_training.get_inputs()[0].name: example[0].numpy()}
)
print("share of zeros in ONNX Runtime:", (found == 0).mean())

# %% [markdown]
# So switch to eval, export, and switch back: you may be exporting in the middle of training.
#
# **In short:** eval mode, a dynamic batch, parity; then speed.

# %% [markdown]
# ### Exercise: export_onnx
#
# Write `export_onnx(model, example, path)`: an ONNX file at `path` that does what the model does in eval mode, for a
# batch of any size, with the same numbers in ONNX Runtime. `example` is a batch of two or more for the model's only
# input. Afterwards the model and each of its parts are back in their old modes.
#
# ```
# export_onnx(nn.Linear(3, 2), torch.zeros(2, 3), Path("linear.onnx"))
# # a session of ONNX Runtime over linear.onnx takes batches of any size
# ```

# %% exercise="export_onnx" points=2
def export_onnx(model: nn.Module, example: Tensor, path: Path) -> None:
    """Export to ONNX in eval mode, for a batch of any size,
    and restore the model's mode."""
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
# Before `torch.export` there was TorchScript, and you will still come across its files and functions.
# `torch.jit.script` compiled a subset of Python from source; `torch.jit.trace` ran a function once on an example
# and recorded the operators. Both still work, with a warning that they are deprecated (on Python 3.14: not supported):

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
# Read the TracerWarning closely. The trace has seen one path through the function. On the example it is right,
# and on the other side of the branch it is silently wrong:

# %% tags=["demo"]
for x in (torch.ones(2), torch.full((2,), -3.0)):
    print("function:", branching(x).tolist(), " trace:", traced(x).tolist())

# %% [markdown]
# A loop `for i in range(x.shape[0])` is worse: the trace has as many iterations as the example had rows, and no
# TracerWarning says so. (`for row in x` warns, and at least fails when their number changes.) For a branch, a warning
# was all you got, and in a large model there were dozens. `torch.export` refuses instead, as you have seen.

# %% [markdown]
# ### Exercise: trace_differs
#
# Write `trace_differs(fn, example, other)`: trace `fn` on `example` with `torch.jit.trace`, and return whether the
# trace gives a different result from `fn` on `other`: True or False. Another shape, or an error in the trace, is a
# different result, too; a difference that is only rounding, up to 1e-5 of a value, is not, nor is NaN where `fn` gives
# NaN.
#
# ```
# relu_or_double = lambda x: x * 2 if x.sum() > 0 else x.relu()
# trace_differs(relu_or_double, torch.ones(2), torch.ones(3))     # False: the same branch
# trace_differs(relu_or_double, torch.ones(2), -torch.ones(2))    # True: the other one
# ```

# %% exercise="trace_differs" points=1
def trace_differs(fn, example: Tensor, other: Tensor) -> bool:
    """Return whether a trace made on example differs from fn on other."""
    ### BEGIN SOLUTION
    traced = torch.jit.trace(fn, example)
    wanted = fn(other)
    try:
        found = traced(other)
    except RuntimeError:
        return True
    return found.shape != wanted.shape or not torch.allclose(
        found, wanted, equal_nan=True
    )
    ### END SOLUTION

# %% check="trace_differs"
check("trace_differs")

# %% [markdown]
# ## From training to release
#
# Your pieces, in the order in which a release needs them. A small network learns digits for a moment, while `EMA`
# keeps the average. The averaged weights go to a file, and from the file into a new network, as they would in another
# program. That network is exported twice, and both results are compared with it on batches of 1, 2 and 64 digits that
# it was not trained on.

# %% tags=["demo"]
import torch.nn.functional as F
from torchcourse import digits
from torchcourse.demos.parts import still_open

pieces = "EMA", "save_weights", "load_weights"
exports = "export_program", "export_onnx", "max_difference"
ready = not still_open(globals(), *pieces, *exports)
if ready:
    torch.manual_seed(0)
    sets = digits.split()
    images, labels = sets["train"]
    network = digits.SmallCNN()
    average = EMA(network, decay=0.95)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(4):
        for rows in torch.randperm(1200).split(64):
            loss = F.cross_entropy(network(images[rows]), labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            average.update(network)
    average.copy_to(network)
    save_weights(network, folder / "release.pt")

# %% tags=["demo"]
if ready and not still_open(globals(), "load_weights", *exports):
    released = load_weights(digits.SmallCNN(), folder / "release.pt").eval()
    images, labels = sets["val"]
    accuracy = (released(images).argmax(1) == labels).float().mean().item()
    print(f"from the file: {accuracy:.1%} of 300 unseen digits")

    program = export_program(released, images[:2], folder / "release.pt2")
    export_onnx(released, images[:2], folder / "release.onnx")
    runtime = onnxruntime.InferenceSession(
        folder / "release.onnx", options, providers=providers
    )
    name = runtime.get_inputs()[0].name
    by_onnx = lambda x: torch.from_numpy(runtime.run(None, {name: x.numpy()})[0])
    variants = {"torch.export": program, "ONNX Runtime": by_onnx}
    batches = [images[:n] for n in (1, 2, 64)]
    with torch.no_grad():
        for variant, run in variants.items():
            worst = max_difference(released, run, batches)
            print(f"{variant}: largest difference {worst:.0e}")

# %% [markdown]
# The differences are rounding: the same sums in another order. A release that is off by more than that does not go
# out, whatever its accuracy.
#
# **Without Python at all.** AOTInductor compiles an exported program into a library that C++ can load, and Python too.
# It needs a C++ compiler and takes about twenty seconds even for a small network, so the lesson only shows it:
#
# ```
# program = torch.export.load("release.pt2")
# torch._inductor.aoti_compile_and_package(program, package_path="library.pt2")
# compiled = torch._inductor.aoti_load_package("library.pt2")    # in C++: AOTIModelPackageLoader
# compiled(images)
# ```
#
# The library is made for one kind of device, and for the machine's processor: compile where it will run.

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
# | writing | to another file, then `os.replace` |
# | pickle | opening runs it; `weights_only=True` |
# | `map_location` | where the tensors go, whatever the file says |
# | strict | a name that does not fit is an error; `strict=False` still raises on shapes |
# | checkpoint | model, optimizer, scheduler, scaler, three generators; the folder is the memory |
# | safetensors | no code; each tensor once, in order |
# | averages | copies, no graph, in float32; counters are copied |
# | parity | the largest difference; watch out for NaN and shapes |
# | export | eval mode, dynamic batch, an example of two or more |
# | trace | one path; use `torch.export` |
#
# Next comes **lesson 10, debugging**: how to find what is wrong when nothing says so.
