"""Models that lesson 10's answers examine, and observations of what a diagnosis must leave as it was."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules import module as global_hooks

from torchcourse.model.observations import Observations, Raised
from torchcourse.probes.observe import same
from torchcourse.probes.trainable_models import SharedNotes

__all__ = [
    "Classifier",
    "Halving",
    "Runs",
    "Snapshot",
    "changed_modes",
    "classifier",
    "count_of_hooks",
    "expecting",
    "hooks",
    "left_hooks",
    "modes",
    "modes_now",
    "plain_number",
    "starting",
]


CHANGED = "changed: "


class Runs(SharedNotes):
    """How a model ran: for each forward the modes of its submodules, and whether a graph was built."""

    def add(self, model: nn.Module) -> None:
        """Note the modes of all submodules, and whether a graph is built."""
        modes = sorted({"training" if module.training else "evaluation" for module in model.modules()})
        self.append((" and ".join(modes), torch.is_grad_enabled()))

    @property
    def modes(self) -> str:
        """The modes in words, the same for any number of runs."""
        found = sorted({mode for mode, _ in self})
        return "; ".join(f"{mode} mode" for mode in found) or "not at all"

    @property
    def graphs(self) -> str:
        """Whether runs built graphs."""
        return "built" if any(graph for _, graph in self) else "not built"


class Halving(nn.Module):
    """Halves its input in training mode: a dropout that draws nothing."""

    def forward(self, x: Tensor) -> Tensor:
        return 0.5 * x if self.training else x


class Classifier(nn.Module):
    """Two linear layers with a batch norm and a dropout between them.

    Args:
        inputs, hidden, classes: widths.
        options: "draws" adds a little noise in either mode, "casts" brings inputs to its own dtype and device,
            "integers first" begins with an integer parameter, "random dropout" has a true one, "a double head" ends
            with a layer of float64, "picky" raises a ValueError in evaluation mode, "out of range" an IndexError,
            "a pair" puts out a tuple.
    """

    def __init__(self, inputs: int, hidden: int, classes: int, *options: str) -> None:
        super().__init__()
        self.runs, self.options = Runs(), options
        if "integers first" in options:
            self.table = nn.Parameter(torch.arange(3), requires_grad=False)
        self.first = nn.Linear(inputs, hidden, bias=False)  # a norm follows
        self.norm = nn.BatchNorm1d(hidden)
        self.act = nn.ReLU()
        self.drop = nn.Dropout(0.5) if "random dropout" in options else Halving()
        self.last = nn.Linear(hidden, classes)

    def forward(self, x: Tensor) -> Any:
        self.runs.add(self)
        if "picky" in self.options and not self.training:
            raise ValueError(f"x has {x.shape[1]} columns, and this model wants none")
        if "out of range" in self.options and not self.training:
            raise IndexError("index out of range in self")
        if "casts" in self.options:
            x = x.to(self.first.weight)
        if "draws" in self.options:
            x = x + 1e-4 * torch.randn(x.shape).to(x)
        hidden = self.drop(self.act(self.norm(self.first(x))))
        out: Tensor = self.last(hidden.to(self.last.weight.dtype))
        return (out, hidden) if "a pair" in self.options and not self.training else out


def classifier(seed: int, device: torch.device, dtype: torch.dtype, sizes: list[int], *options: str) -> Classifier:
    """Return a classifier with drawn weights and batch statistics, in training mode."""
    inputs, hidden, classes = sizes
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Classifier(inputs, hidden, classes, *options).to(dtype)
        if "a double head" in options:
            model.last.double()
        with torch.no_grad():
            for p in (model.first.weight, model.last.weight):
                p.mul_(2)
            model.norm.bias.normal_()
            model.norm.running_mean.normal_()  # type: ignore[union-attr]
            model.norm.running_var.uniform_(0.5, 2)  # type: ignore[union-attr]
    return model.to(device)


def starting(model: Classifier, starts: str) -> Classifier:
    """Return the model in "training" or "evaluation" mode, or in training with a "frozen norm"."""
    model.train(starts != "evaluation")
    if starts == "frozen norm":
        model.norm.eval()
    return model


def hooks(model: nn.Module) -> int:
    """Count the hooks on a model, its modules and parameters, and those that apply to all modules."""
    own = sum(
        len(m._forward_hooks) + len(m._forward_pre_hooks) + len(m._backward_hooks) + len(m._backward_pre_hooks)
        for m in model.modules()
    )
    everywhere = (global_hooks._global_forward_hooks, global_hooks._global_forward_pre_hooks)
    own += sum(_shadowing(m) for m in model.modules())
    return own + sum(len(p._backward_hooks or ()) for p in model.parameters()) + sum(map(len, everywhere))


def _shadowing(module: nn.Module) -> int:
    """Count the methods of a module in whose place something else was put."""
    own = {name: getattr(type(module), name, None) for name in vars(module)}
    return sum(callable(f) and getattr(vars(module)[name], "__func__", None) is not f for name, f in own.items())


def left_hooks(count: int) -> Any:
    """Observe hooks left behind; their number is a detail."""
    return Raised("some", f"{count} of them", "hooks") if count else "none"


def count_of_hooks(seen: Observations) -> str | None:
    """Return how many hooks were left behind, as `left_hooks` told; None if there were none."""
    left = seen.get("hooks left")
    return left.message if isinstance(left, Raised) else None


def random_states() -> tuple[object, ...]:
    """Return the random states of torch, Python and NumPy, to be compared."""
    numpys = np.random.get_state(legacy=False)["state"]
    return torch.get_rng_state().numpy().tobytes(), random.getstate(), numpys["key"].tobytes(), numpys["pos"]


def modes(*models: nn.Module) -> list[dict[str, bool]]:
    """Return the mode of every submodule of these models."""
    return [{name: m.training for name, m in model.named_modules()} for model in models]


def modes_now(before: list[dict[str, bool]], *models: nn.Module) -> Observations:
    """Observe whether every submodule has the mode it had."""
    now = modes(*models)
    changed = sorted({name or "the model itself" for a, b in zip(now, before, strict=True) for name in a
                      if a[name] != b.get(name)})  # fmt: skip
    return {"modes afterwards": CHANGED + ", ".join(changed) if changed else "as before"}


def changed_modes(seen: Observations) -> str:
    """Return the names of the modules whose mode changed, as `modes_now` observed them."""
    return str(seen.get("modes afterwards")).removeprefix(CHANGED)


class Snapshot:
    """The state of a model, to be compared with what is there after a diagnosis."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.modes = modes(model)
        self.parameters = {name: p.detach().clone() for name, p in model.named_parameters()}
        self.gradients = {n: None if p.grad is None else p.grad.clone() for n, p in model.named_parameters()}
        self.buffers = {name: b.clone() for name, b in model.named_buffers()}
        self.requires = [p.requires_grad for p in model.parameters()]
        self.hooks = hooks(model)
        self.random = random_states()

    def modes_now(self) -> Observations:
        """Observe whether each submodule has the mode it had."""
        return modes_now(self.modes, self.model)

    def seen(self) -> Observations:
        """Observe whether modes, numbers, hooks and the random state are as they were."""
        model = self.model
        gradients = {n: p.grad for n, p in model.named_parameters()}
        parameters = {n: p.detach() for n, p in model.named_parameters()}
        trainable = [p.requires_grad for p in model.parameters()]
        drawn = any(now != before for now, before in zip(random_states(), self.random, strict=True))
        return {
            **self.modes_now(),
            "parameters afterwards": _words(parameters, self.parameters, trainable == self.requires),
            "gradients afterwards": _words(gradients, self.gradients),
            "batch statistics afterwards": _words(dict(model.named_buffers()), self.buffers),
            "random state afterwards": "moved on" if drawn else "as before",
            "hooks left": left_hooks(hooks(model) - self.hooks),
        }


def _words(now: dict[str, Any], before: dict[str, Any], and_so: bool = True) -> str:
    unchanged = now.keys() == before.keys() and all(_unchanged(now[name], before[name]) for name in now)
    return "as before" if unchanged and and_so else "changed"


def _unchanged(now: Tensor | None, before: Tensor | None) -> bool:
    return now is before if now is None or before is None else same(now, before)


def expecting(call: Callable[[], Any], words: str) -> Any:
    """Return the result of a call. Two exceptions become observations: the model's own, recognised by `words`, and one
    about a dict where a tensor was expected."""
    try:
        return call()
    except (TypeError, AttributeError) as error:
        if "'dict'" not in str(error) and "not dict" not in str(error):
            raise
        return Raised("TypeError", str(error).split("\n")[0][:160], "an output that is no tensor")
    except RuntimeError as error:
        if words not in str(error):
            raise
        return Raised("RuntimeError", str(error).split("\n")[0][:160], "the model's own exception")


def plain_number(value: object) -> float | str:
    """Return a Python number as a float, and a description of anything else."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    return "None" if value is None else f"a value of type {type(value).__name__}"
