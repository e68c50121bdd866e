# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 9 · Persistence

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

# %% [markdown]
# ### Exercise: save_weights

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

# %% [markdown]
# ### Exercise: unsafe_globals

# %% exercise="unsafe_globals" points=1
def unsafe_globals(path: Path) -> list[str]:
    """The names that a checkpoint would need beyond weights-only loading, sorted; nothing in it is executed."""
    ### BEGIN SOLUTION
    return sorted(torch.serialization.get_unsafe_globals_in_checkpoint(path))
    ### END SOLUTION

# %% check="unsafe_globals"
check("unsafe_globals")

# %% [markdown]
# ## Loading: what, where, and in which mode

# %% [markdown]
# ### Exercise: load_weights

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

# %% [markdown]
# ### Exercise: strip_prefixes

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
# ### Exercise: load_matching

# %% exercise="load_matching" points=2
def load_matching(model: nn.Module, state: dict[str, Tensor]) -> tuple[list[str], list[str]]:
    """Copy the entries whose name and shape agree; the sorted names of those that did, and of those that did not."""
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

# %% [markdown]
# ### Exercise: Checkpointer

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

# %% [markdown]
# ### Exercise: to_safetensors

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

# %% [markdown]
# ### Exercise: EMA

# %% exercise="EMA" points=2
class EMA:
    """A moving average of a model's weights."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        ### BEGIN SOLUTION
        self.decay = decay
        self.average = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        for name, tensor in model.state_dict().items():
            if tensor.is_floating_point():
                self.average[name].lerp_(tensor, 1 - self.decay)
            else:
                self.average[name].copy_(tensor)

    def copy_to(self, model: nn.Module) -> None:
        model.load_state_dict(self.average)
        ### END SOLUTION

# %% check="EMA"
check("EMA")

# %% [markdown]
# ### Exercise: average_checkpoints

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

# %% [markdown]
# ### Exercise: max_difference

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

# %% [markdown]
# ### Exercise: export_program

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

# %% [markdown]
# ### Exercise: export_onnx

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

# %% [markdown]
# ### Exercise: trace_differs

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
