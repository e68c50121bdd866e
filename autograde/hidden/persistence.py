"""Lesson 09: hidden cases and known mistakes."""

from __future__ import annotations

import copy
import io
import math
import pickletools
import random
import re
import shutil
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from autograde.hidden.common import MIXED, variants
from autograde.mistakes import Mistake, slips
from torchcourse.exercise import Case, Draw, case
from torchcourse.exercises.persistence import averaged_states, export_weights

FILES, PICKLE = "A file of numbers", "Pickle is code"
LOADING, NAMES = "Loading: what, where, and in which mode", "Names that do not fit"
RESUMING, SAFE, AVERAGES = "A checkpoint that resumes", "Safetensors", "Averages of weights"
PARITY, PROGRAM = "Parity before export", "torch.export: a program without Python"
ONNX, SCRIPT = "ONNX: a program for other runtimes", "TorchScript, as history"

State = dict[str, Tensor]

# --- save_weights ------------------------------------------------------------------------------------------------


def save_with(model: nn.Module, path: Path, *, what: str = "state", how: str = "replaced") -> None:
    """Saving with this or that done wrong."""
    things: dict[str, Callable[[], Any]] = {
        "state": model.state_dict, "module": lambda: model, "nested": lambda: {"state_dict": model.state_dict()},
        "parameters": lambda: {name: p.detach() for name, p in model.named_parameters()},
        "list": lambda: list(model.state_dict().values()),
    }  # fmt: skip
    thing, draft = things[what](), path.with_suffix(".draft")
    if how == "straight":
        torch.save(thing, path)
    elif how == "bytes":
        buffer = io.BytesIO()
        torch.save(thing, buffer)
        path.write_bytes(buffer.getvalue())
    else:
        torch.save(thing, draft)
        if how == "left beside":
            return
        if how == "removed first":
            path.unlink(missing_ok=True)
        if how == "copied":
            shutil.copyfile(draft, path)
        else:
            draft.replace(path)


WHOLE_MODEL = (
    "Weights-only loading was {loading}: the file holds the model as an object, which only opens where the same "
    "classes can be imported, and runs code when it does."
)
IN_PLACE = (
    "While it was saved over an older file, the file was {moments}: a crash at that moment leaves neither the old "
    "weights nor the new ones."
)
SAVE = [
    *slips(
        save_with, FILES,
        pickles_module=({"what": "module"}, WHOLE_MODEL),
        writes_in_place=({"how": "straight"}, IN_PLACE),
    ),
    *variants("writes-in-place", save_with, IN_PLACE, FILES, {"how": "bytes"}, {"how": "copied"}),
    *variants("deletes-the-old-first", save_with, IN_PLACE, FILES, {"how": "removed first"}),
    *variants("leaves-the-draft", save_with, "In the case \"{case}\" the file at `path` {file}: what was saved beside "
              "it has still to be put in its place, with `os.replace`.", FILES, {"how": "left beside"}),
    *variants("forgets-buffers", save_with, "The file has the names {names}, and {missing} are missing: buffers belong "
              "to the state as parameters do.", FILES, {"what": "parameters"},
              {"what": "parameters", "how": "straight"}),
    *variants("wraps-the-state", save_with, "The file has the names {names} at its top, where those of the weights are "
              "wanted: here it holds the state_dict itself.", FILES, {"what": "nested"}),
    *variants("loses-the-names", save_with, "The file holds {holds}: without names nothing says which tensor belongs "
              "where.", FILES, {"what": "list"}),
]  # fmt: skip


def more_save(draw: Draw) -> list[Case]:
    w = draw.size(4, 7)
    names = {"a nested model": "nested", "parameters of its own": "loose", "no weights at all": "none"}
    return [case(words, which=name, width=w, fill=0.2, old=draw.size(0, 1) > 0) for words, name in names.items()]


# --- load_weights ------------------------------------------------------------------------------------------------


def load_with(
    model: nn.Module, path: Path, device: str = "cpu", *, maps: bool = True, safe: bool = True, strict: bool = True,
    moves: bool = True, leaves: str = "", returns: str = "model",
) -> Any:  # fmt: skip
    """Loading with this or that done wrong."""
    weights = torch.load(path, map_location=device if maps else None, weights_only=safe)
    keys = model.load_state_dict(weights, strict=strict)
    model = model.to(device) if moves else model
    if leaves:
        model.train(leaves == "training")
    return {"model": model, "nothing": None, "keys": keys, "weights": weights}[returns]


def load_politely(model: nn.Module, path: Path, device: str = "cpu") -> nn.Module:
    try:
        model.load_state_dict(torch.load(path, map_location=device, weights_only=True))
    except RuntimeError:
        raise ValueError("the weights do not fit the model") from None
    return model.to(device)


def load_parameters(model: nn.Module, path: Path, device: str = "cpu") -> nn.Module:
    weights = torch.load(path, map_location=device, weights_only=True)
    for name, parameter in model.named_parameters():
        parameter.data = weights[name]
    return model.to(device)


MODE = (
    "After loading, the model is in {its_mode} mode, which it was not in before: loading brings numbers, and the mode "
    "is the caller's."
)
NOT_MOVED = (
    "The weights live on {lives} after loading: load_state_dict copies into the model where it is, and moves nothing."
)
LOAD = [
    *slips(
        load_with, LOADING,
        no_map_location=({"maps": False}, "A file that was saved on another machine's GPU ended with this: {message}. "
                         "Without map_location every tensor wants to go where it was."),
        unsafe_load=({"safe": False}, "The file held a pickled call, and loading it {code}: with weights_only=False "
                     "whoever wrote the file decides what happens on your machine."),
        ignores_missing_keys=({"strict": False}, "The entry {entry} did not fit, and nobody was told: there was "
                              "{refused}. With strict=False a half-loaded model looks like a loaded one."),
        calls_eval=({"leaves": "evaluation"}, MODE),
    ),
    *variants("calls-train", load_with, MODE, LOADING, {"leaves": "training"}),
    *variants("not-moved", load_with, NOT_MOVED, LOADING, {"moves": False}),
    *variants("returns-something-else", load_with, "The call returned {returned}, and should return the model itself, "
              "so that it can be used at once.", LOADING, {"returns": "nothing"}, {"returns": "keys"},
              {"returns": "weights"}),
    Mistake("forgets-buffers", load_parameters, "The entry {unfilled} is not what the file holds: buffers, such as the "
            "statistics of a batch norm, are no parameters; `load_state_dict` fills both, and complains for both.",
            LOADING),
    Mistake("hides-the-names", load_politely, "The exception said {message}, and not which entry: {entry} is what one "
            "has to know to mend it.", LOADING),
]  # fmt: skip


def more_load(draw: Draw) -> list[Case]:
    common: dict[str, Any] = {
        "which": "tied", "width": draw.size(3, 6), "fill": 0.3, "x": torch.zeros(1), "problem": "", "entry": "",
        "given": True, "train": True,
    }  # fmt: skip
    return [
        case("weights tied", **common),
        case("half of it frozen", **{**common, "which": "frozen"}),
        case("tied, and an entry is missing", **{**common, "problem": "missing", "entry": "body.bias"}),
        case("tied, no device given, in training mode", **{**common, "given": False}),
    ]


# --- Checkpointer ------------------------------------------------------------------------------------------------


class CheckpointerWith:
    """Checkpoints with this or that done wrong."""

    def __init__(
        self, directory: Path, keep: int = 3, *, without: tuple[str, ...] = (), draws: str = "python numpy torch",
        spares_best: bool = True, write: str = "replaced", sorts: str = "numbers", remembers: str = "disk",
        better: str = "lower", kept: int = 0, tidies: str = "after", returns: bool = True, best_copy: bool = False,
    ) -> None:  # fmt: skip
        self.directory, self.keep = Path(directory), keep + kept
        self.without, self.draws, self.spares_best, self.write = without, draws, spares_best, write
        self.sorts, self.remembers, self.sign = sorts, remembers, 1 if better == "lower" else -1
        self.tidies, self.returns, self.best_copy = tidies, returns, best_copy
        self.record: tuple[float, Path] | None = None

    def save(self, step: int, metric: float, **parts: Any) -> Path:
        checkpoint = {
            "step": step, "metric": metric, "random": self._drawn(),
            "parts": {name: part.state_dict() for name, part in parts.items() if name not in self.without},
        }  # fmt: skip
        number = f"{step:09d}" if self.sorts == "numbers" else str(step)
        path = self.directory / f"{number}_{float(metric)!r}.pt"
        if self.tidies == "before":
            self._tidy(self.keep - 1)
        if self.write == "straight":
            torch.save(checkpoint, path)
        elif self.write == "beside":  # a draft that looks like a checkpoint
            draft = self.directory / f"{number}_{float(metric)!r}_draft.pt"
            torch.save(checkpoint, draft)
            draft.replace(path)
        else:
            torch.save(checkpoint, path.with_suffix(".draft"))
            path.with_suffix(".draft").replace(path)
        if self.record is None or self.sign * metric < self.record[0]:
            self.record = self.sign * metric, path
            if self.best_copy:
                shutil.copyfile(path, self.directory / "best")
        if self.tidies != "never":
            self._tidy(self.keep)
        return path

    def _tidy(self, count: int) -> None:
        saved = self._saved()
        best = self.record[1] if self.remembers == "memory" and self.record else self._lowest()
        for old in saved[: max(0, len(saved) - count)]:
            if not (self.spares_best and old == best):
                old.unlink()

    def _drawn(self) -> dict[str, Any]:
        kind, keys, *rest = np.random.get_state()
        states = {
            "python": random.getstate(), "torch": torch.get_rng_state(),
            "numpy": (kind, torch.from_numpy(np.array(keys).copy()), *rest),
        }  # fmt: skip
        return {name: state for name, state in states.items() if name in self.draws}

    def load(self, path: Path, **parts: Any) -> Any:
        checkpoint = torch.load(path, weights_only=True)
        for name, part in parts.items():
            if name in checkpoint["parts"]:
                part.load_state_dict(checkpoint["parts"][name])
        drawn = checkpoint["random"]
        if "python" in drawn:
            random.setstate(drawn["python"])
        if "numpy" in drawn:
            kind, keys, *rest = drawn["numpy"]
            np.random.set_state((kind, keys.numpy(), *rest))
        if "torch" in drawn:
            torch.set_rng_state(drawn["torch"])
        return checkpoint if self.returns else None

    def _saved(self) -> list[Path]:
        return sorted(self.directory.glob("*.pt"))

    def _lowest(self) -> Path | None:
        return min(self._saved(), key=lambda p: self.sign * float(p.stem.split("_")[1]), default=None)

    def latest(self) -> Path | None:
        return max(self._saved(), default=None)

    def best(self) -> Path | None:
        if self.best_copy:
            copy = self.directory / "best"
            return copy if copy.exists() else None
        if self.remembers == "memory":
            return self.record[1] if self.record else None
        return self._lowest()


LOST = (
    "After load, this is not what it was when it was saved: {lost}. The first loss after a resume may still agree, and "
    "the later ones do not: here it is {latest_loss}."
)
TORN = (
    "The training was killed in the middle of a save, and for one such moment the outcome was: {killed}. A file has to "
    "be whole before it gets the name under which it is looked for."
)
CHECKPOINTER = [
    *slips(
        CheckpointerWith, RESUMING,
        forgets_rng=({"draws": ""}, LOST),
        deletes_best=({"spares_best": False}, "The best was save {want_best_step}; best() leads to save {best_step} "
                      "now, for the best one was deleted with the old ones."),
        writes_in_place=({"write": "straight"}, TORN),
    ),
    *variants("forgets-optimizer", CheckpointerWith, LOST, RESUMING, {"without": ("optimizer",)}),
    *variants("forgets-scheduler", CheckpointerWith, LOST, RESUMING, {"without": ("scheduler",)}),
    *variants("forgets-scaler", CheckpointerWith, LOST, RESUMING, {"without": ("scaler",)}),
    *variants("forgets-rng", CheckpointerWith, LOST, RESUMING, {"draws": "torch"}, {"draws": "torch python"},
              {"draws": "torch numpy"}),
    *variants("saves-the-model-alone", CheckpointerWith, LOST, RESUMING,
              {"without": ("optimizer", "scheduler", "scaler"), "draws": ""},
              {"without": ("scheduler", "scaler"), "draws": ""}),
    *variants("writes-in-place", CheckpointerWith, "A copy of the best was made anew while the training was killed, "
              "and at one such moment the outcome for best() was: {killed_best}.", RESUMING, {"best_copy": True}),
    *variants("writes-in-place", CheckpointerWith, TORN, RESUMING, {"write": "beside"}),
    *variants("deletes-before-writing", CheckpointerWith, "With keep={keep} the old ones were deleted before the new "
              "one was there. The training was killed in between, and the outcome was: {killed}.", RESUMING,
              {"tidies": "before"}),
    *variants("steps-sorted-as-text", CheckpointerWith, "The method latest() leads to save {latest_step}, and the "
              "newest is save {want_latest_step}: as text \"10\" comes before \"9\".", RESUMING, {"sorts": "text"}),
    *variants("best-kept-in-memory", CheckpointerWith, "A new object over the folder was asked for the best, and "
              "{best_outcome}: what an object remembers dies with its process.", RESUMING, {"remembers": "memory"}),
    *variants("higher-is-better", CheckpointerWith, "The method best() leads to save {best_step}, and the lowest "
              "metric is that of save {want_best_step}.", RESUMING, {"better": "higher"}),
    *variants("keeps-everything", CheckpointerWith, "With keep={keep} these older saves are still there: {older}. A "
              "long training would fill the disk.", RESUMING, {"tidies": "never"}, {"kept": 1}),
    *variants("keeps-too-few", CheckpointerWith, "With keep={keep} these saves are gone, and they are among the "
              "newest: {gone}.", RESUMING, {"kept": -1}),
    *variants("load-returns-nothing", CheckpointerWith, "In the case \"{case}\" `{what}` is {got} where {want} is "
              "wanted: `load` returns what else the file holds, such as the step.", RESUMING, {"returns": False}),
]  # fmt: skip


def more_checkpointer(draw: Draw) -> list[Case]:
    ups = [draw.size(10, 99) / 100 + n for n in range(12)]
    common: dict[str, Any] = {"weight": draw.normal(4, 3), "later": 5, "extra": False, "killed_step": 0}
    return [
        case("twelve saves from step 95 on", metrics=ups, keep=4, first=95, killed_save=0, **common),
        case("killed in the first save", metrics=ups[:2], keep=2, first=1, killed_save=1, **common),
        case("killed in the last of five, one more part", metrics=[0.5, 0.25, 1e-7, 3e5, 1e-5], keep=2, first=7,
             killed_save=5, **{**common, "extra": True, "killed_step": 4}),
    ]  # fmt: skip


# --- strip_prefixes ----------------------------------------------------------------------------------------------

PREFIXES = ("module.", "_orig_mod.")


def strip_everywhere(state: State) -> State:
    return {name.replace("module.", "").replace("_orig_mod.", ""): tensor for name, tensor in state.items()}


def strip_middle(state: State) -> State:
    parts = {name: [part for part in name.split(".") if part not in ("module", "_orig_mod")] for name in state}
    return {".".join(parts[name]) or name: tensor for name, tensor in state.items()}


def strip_once(state: State, order: tuple[str, ...] = PREFIXES) -> State:
    def bare(name: str) -> str:
        for prefix in order:
            name = name.removeprefix(prefix)
        return name

    return {bare(name): tensor for name, tensor in state.items()}


def strip_one(state: State) -> State:
    def bare(name: str) -> str:
        found = next((prefix for prefix in PREFIXES if name.startswith(prefix)), "")
        return name.removeprefix(found)

    return {bare(name): tensor for name, tensor in state.items()}


def strip_in_turn(state: State) -> State:
    def bare(name: str) -> str:
        for prefix in PREFIXES:
            while name.startswith(prefix):
                name = name.removeprefix(prefix)
        return name

    return {bare(name): tensor for name, tensor in state.items()}


def strip_letters(state: State) -> State:
    return {name.lstrip("module.").lstrip("_orig_mod."): tensor for name, tensor in state.items()}  # noqa: B005


def strip_to_the_last(state: State) -> State:
    def bare(name: str) -> str:
        while any(prefix in name for prefix in PREFIXES):
            name = name.split(".", 1)[1]
        return name

    return {bare(name): tensor for name, tensor in state.items()}


def strip_without_dots(state: State) -> State:
    return {re.sub(r"^((module|_orig_mod)\.?)+", "", name): tensor for name, tensor in state.items()}


def strip_in_place(state: State) -> State:
    for name in list(state):
        bare = name
        while bare.startswith(PREFIXES):
            bare = bare.split(".", 1)[1]
        state[bare] = state.pop(name)
    return state


def strip_by_the_first(state: State) -> State:
    first, cut = next(iter(state)), 0
    while first[cut:].startswith(PREFIXES):
        cut += len(first[cut:].split(".", 1)[0]) + 1
    return {name[cut:]: tensor for name, tensor in state.items()}


def strip_only(state: State, prefix: str = "module.") -> State:
    stripped = {}
    for name, tensor in state.items():
        while name.startswith(prefix):
            name = name.removeprefix(prefix)
        stripped[name] = tensor
    return stripped


INSIDE = "The result has the name {name} where {meant} is wanted: the prefix is also taken out of the middle of names."
LEVELS = (
    "The result has the name {name} where {meant} is wanted: one layer of prefixes was taken off, and more were left."
)
STRIP = [
    Mistake("replaces-inside-names", strip_everywhere, INSIDE, NAMES),
    Mistake("replaces-inside-names", strip_middle, INSIDE, NAMES),
    Mistake("replaces-inside-names", strip_to_the_last, "The result has the name {name} where {meant} is wanted: all "
            "up to the last such word was cut off, and only what stands in front is the wrapper's.", NAMES),
    Mistake("one-level-only", strip_once, LEVELS, NAMES),
    *variants("one-level-only", strip_once, LEVELS, NAMES, {"order": PREFIXES[::-1]}),
    Mistake("one-level-only", strip_one, LEVELS, NAMES),
    Mistake("one-level-only", strip_in_turn, LEVELS, NAMES),
    Mistake("strips-letters", strip_letters, "The result has the name {name} where {meant} is wanted: `lstrip` takes "
            "off any of the given letters, not the word they make.", NAMES),
    Mistake("forgets-the-dot", strip_without_dots, "The result has the name {name} where {meant} is wanted: a name "
            "that only begins with the same letters lost them.", NAMES),
    Mistake("changes-its-input", strip_in_place, "The state that was handed in is {afterwards} afterwards, for the "
            "names were taken out of it; a new dict is wanted.", NAMES),
    Mistake("goes-by-the-first-name", strip_by_the_first, "The result has the name {name} where {meant} is wanted: "
            "as much was cut from every name as the first one needed.", NAMES),
    *variants("knows-one-prefix", strip_only, "The result has the name {name} where {meant} is wanted: wrappers put "
              "`module.` in front, compiling puts `_orig_mod.` there.", NAMES, {}, {"prefix": "_orig_mod."}),
]  # fmt: skip


def more_strip(draw: Draw) -> list[Case]:
    layers = [draw.pick(PREFIXES) for _ in range(draw.size(3, 6))]
    return [
        case("many layers, drawn", names=["".join(layers) + "fc.weight", "".join(layers[::-1]) + "fc.bias"]),
        case("an empty state", names=[]),
        case("a submodule called module_", names=["module._module.weight", "_orig_mod.module_.weight", "_orig_mod"]),
    ]


# --- load_matching -----------------------------------------------------------------------------------------------


def match_not_strictly(model: nn.Module, state: State) -> Any:
    keys = model.load_state_dict(state, strict=False)
    return sorted(set(state) - set(keys.unexpected_keys)), sorted(keys.unexpected_keys)


def match_with(
    model: nn.Module, state: State, *, fits: str = "shape", writes: str = "copied", buffers: bool = True,
    lists: str = "both", orders: bool = True, dropping: bool = False,
) -> Any:  # fmt: skip
    """Loading what matches with this or that done wrong."""
    own: dict[str, Tensor] = dict(model.state_dict() if buffers else model.named_parameters())
    loaded, skipped = [], []
    for name, tensor in list(state.items()):
        if name not in own or not _fits(own[name], tensor, fits):
            skipped.append(name)
            if dropping:
                del state[name]
            continue
        loaded.append(name)
        _write(model, name, own[name], tensor, writes)
    if lists == "the model's too":
        skipped += [name for name in own if name not in state]
    return (sorted(loaded), sorted(skipped)) if orders else (loaded, skipped)


def _fits(own: Tensor, tensor: Tensor, how: str) -> bool:
    if how == "numel":
        return own.numel() == tensor.numel()
    if how == "broadcast":
        try:
            return bool((own * 0 + tensor).shape == own.shape)
        except RuntimeError:
            return False
    return own.shape == tensor.shape


def _write(model: nn.Module, name: str, own: Tensor, tensor: Tensor, how: str) -> None:
    value = tensor.reshape(own.shape) if tensor.numel() == own.numel() else tensor
    place, _, last = name.rpartition(".")
    owner = model.get_submodule(place)
    if how == "rebound" and last in owner._parameters:
        setattr(owner, last, nn.Parameter(value.clone().to(own.device)))
    elif how == "rebound":
        setattr(owner, last, value.clone().to(own.device))
    elif how == "nothing":
        pass
    else:
        with torch.no_grad():
            own.copy_(value)


def match_by_handing_over(model: nn.Module, state: State, tied: bool = False) -> Any:
    own = dict(model.named_parameters(remove_duplicate=not tied)) | dict(model.named_buffers())
    loaded = [name for name in state if name in own and own[name].shape == state[name].shape]
    for name in loaded:
        own[name].data = state[name]
    return sorted(loaded), sorted(state.keys() - set(loaded))


def match_and_list_missing(model: nn.Module, state: State) -> Any:
    own = model.state_dict()
    fitting = {n: t for n, t in state.items() if n in own and own[n].shape == t.shape}
    return sorted(fitting), sorted(model.load_state_dict(fitting, strict=False).missing_keys)


def match_by_assigning(model: nn.Module, state: State) -> Any:
    own = model.state_dict()
    fitting = {n: t.to(own[n].device) for n, t in state.items() if n in own and own[n].shape == t.shape}
    model.load_state_dict(fitting, strict=False, assign=True)
    return sorted(fitting), sorted(state.keys() - fitting.keys())


REBOUND = (
    "The parameter {replaced} is another object afterwards: an optimizer that was made before goes on training the old "
    "one, which nobody uses any more."
)
SHARED = (
    "After the call the model was trained on, and then `state` was changed along with it: `.data = ` hands over the "
    "tensor {shared} itself, and its numbers are to be copied."
)
LISTS = "In the case \"{case}\" `{what}` is {got} where {want} is wanted: "
MATCHING = [
    Mistake("crashes-on-shape", match_not_strictly, "In the case \"{case}\" the call raised {got}: strict=False "
            "forgives names that do not fit, and never a shape.", NAMES),
    *slips(
        match_with, NAMES,
        rebinds_parameter=({"writes": "rebound"}, REBOUND),
        skips_the_buffers=({"buffers": False}, LISTS + "buffers are entries as parameters are."),
        lists_what_the_model_lacks=({"lists": "the model's too"}, "Among the skipped is {extra}, which the state does "
                                    "not have at all: both lists are about the entries of `state`."),
    ),
    Mistake("rebinds-parameter", match_by_assigning, REBOUND, NAMES),
    *variants("compares-numbers-of-elements", match_with, LISTS + "as many numbers in another shape are no match.",
              NAMES, {"fits": "numel"}),
    *variants("broadcasts-silently", match_with, LISTS + "a row can be copied into a whole table, and is no match.",
              NAMES, {"fits": "broadcast"}),
    *variants("not-sorted", match_with, LISTS + "both lists are sorted.", NAMES, {"orders": False}),
    *variants("copies-nothing", match_with, "The entry {entry} is listed, and the model does not have it: the names "
              "were compared, and nothing was copied.", NAMES, {"writes": "nothing"}),
    *variants("shares-memory", match_by_handing_over, SHARED, NAMES, {}, {"tied": True}),
    Mistake("lists-what-the-model-lacks", match_and_list_missing, LISTS + "the missing keys of `load_state_dict` are "
            "those that the state lacks; asked for are entries of `state`.", NAMES),
    *variants("changes-its-input", match_with, "`{what}` is {got} where {want} is wanted: entries were deleted from "
              "the caller's own dict.", NAMES, {"dropping": True}),
]  # fmt: skip


def more_matching(draw: Draw) -> list[Case]:
    w = draw.size(3, 6)
    common: dict[str, Any] = {"which": "tower", "width": w, "fill": 0.2, "drop": [], "add": {}, "x": torch.zeros(1),
                              "cpu": True}  # fmt: skip
    return [
        case("a nested model, the state on the CPU", **common),
        case("nothing fits", **{**common, "which": "mlp", "drop": ["0.weight", "0.bias", "2.weight"],
                                "add": {"2.bias": draw.normal(w + 9), "x": draw.normal(1)}}),
        case("another number of classes", **{**common, "add": {"head.weight": draw.normal(7, w)}}),
        case("one more dimension", **{**common, "add": {"head.bias": draw.normal(1, 3)}}),
    ]  # fmt: skip


# --- to_safetensors ----------------------------------------------------------------------------------------------


def safely_by_file(model: nn.Module, path: Path, contiguous: bool = True, cloned: bool = False) -> None:
    from safetensors.torch import save_file

    state = model.state_dict()
    state = {name: tensor.contiguous() for name, tensor in state.items()} if contiguous else dict(state)
    state = {name: tensor.clone() for name, tensor in state.items()} if cloned else state
    save_file(state, str(path))


def safely_as_it_lies(model: nn.Module, path: Path) -> None:
    from safetensors.torch import save_model

    save_model(model, str(path), force_contiguous=False)


def safely_the_parameters(model: nn.Module, path: Path) -> None:
    from safetensors.torch import save_file

    save_file({name: p.detach().contiguous() for name, p in model.named_parameters()}, str(path))


def safely_pickled(model: nn.Module, path: Path) -> None:
    torch.save(model.state_dict(), path)


def safely_after_turning(model: nn.Module, path: Path) -> None:
    from safetensors.torch import save_model

    for parameter in model.parameters():
        parameter.data = parameter.data.contiguous()
    save_model(model, str(path))


def safely_after_replacing(model: nn.Module, path: Path) -> None:
    from safetensors.torch import save_model

    for module in model.modules():
        for name, parameter in module._parameters.items():
            module._parameters[name] = parameter if parameter is None else nn.Parameter(parameter.contiguous())
    save_model(model, str(path))


ON_TIED = "In the case \"{case}\" saving ended so: {saving}. Tied tensors share memory, and the file holds each once."
SAFETENSORS = [
    Mistake("fails-on-tied", safely_by_file, ON_TIED, SAFE),
    *variants("fails-on-tied", safely_by_file, ON_TIED, SAFE, {"contiguous": False}),
    Mistake("fails-on-noncontiguous", safely_as_it_lies, "In the case \"{case}\" saving ended with this: {saving}. The "
            "file holds elements in their order, so they have to be put in order first.", SAFE),
    *variants("stores-tied-twice", safely_by_file, "In the case \"{case}\" load_model said: {loading}. A tied tensor "
              "was stored under each of its names, as if there were two.", SAFE, {"cloned": True}),
    Mistake("forgets-buffers", safely_the_parameters, "In the case \"{case}\" load_model said: {loading}. Buffers "
            "belong into the file as parameters do.", SAFE),
    Mistake("pickles-instead", safely_pickled, "In the case \"{case}\" load_model said: {loading}. What torch.save "
            "writes is a pickle in a zip, whatever the file is called.", SAFE),
    Mistake("changes-the-model", safely_after_replacing, "The model that was only to be saved has changed: "
            "{afterwards}. Make contiguous copies for the file, and leave the model's parameters as they are.", SAFE),
    Mistake("changes-the-model", safely_after_turning, "The model that was only to be saved has changed: {afterwards}. "
            "Make the copies contiguous, not its own parameters.", SAFE),
]  # fmt: skip


def more_safetensors(draw: Draw) -> list[Case]:
    w = draw.size(4, 7)
    return [case(f"a model called {name}", which=name, width=w, fill=0.3) for name in ("nested", "loose", "frozen")]


# --- unsafe_globals ----------------------------------------------------------------------------------------------


def _asked_for(path: Path) -> list[str]:
    """Every global that the pickle in a file names, in its order."""
    with zipfile.ZipFile(path) as archive:
        name = next(n for n in archive.namelist() if n.endswith("data.pkl"))
        operations = pickletools.genops(archive.read(name))
        return [str(argument).replace(" ", ".") for code, argument, _ in operations if code.name == "GLOBAL"]


def _unsafe(path: Path) -> list[str]:
    return sorted(torch.serialization.get_unsafe_globals_in_checkpoint(str(path)))


def unsafe_by_loading(path: Path) -> list[str]:
    held = torch.load(path, weights_only=False)
    found = {f"{type(value).__module__}.{type(value).__qualname__}" for value in held.values()}
    return sorted(name for name in found if not name.startswith(("builtins", "collections", "torch.Tensor")))


def unsafe_after_loading(path: Path) -> list[str]:
    torch.load(path, weights_only=False)
    return _unsafe(path)


def unsafe_and_safe(path: Path) -> list[str]:
    return sorted(set(_asked_for(path)))


def unsafe_without_torch(path: Path) -> list[str]:
    return sorted(name for name in set(_asked_for(path)) if not name.startswith(("torch.", "__builtin__", "builtins")))


def unsafe_in_order(path: Path) -> list[str]:
    bad = set(_unsafe(path))
    return [name for name in dict.fromkeys(_asked_for(path)) if name in bad][::-1]


def unsafe_first(path: Path) -> list[str]:
    bad = set(_unsafe(path))
    return [name for name in _asked_for(path) if name in bad][:1]


def unsafe_bare(path: Path) -> list[str]:
    return sorted(name.rpartition(".")[2] for name in _unsafe(path))


def unsafe_functions(path: Path) -> list[str]:
    return [name for name in _unsafe(path) if not name.startswith("torch.")]


EXECUTED = (
    "The code in the file {code}: to find out what a pickle would do, it was executed, which is what should not happen."
)
SAFE_LISTED = (
    "The list has {extra}, which weights-only loading accepts: only what it would refuse is wanted."
)
UNSAFE = [
    Mistake("executes-pickle", unsafe_by_loading, EXECUTED, PICKLE),
    Mistake("executes-pickle", unsafe_after_loading, EXECUTED, PICKLE),
    Mistake("lists-safe-ones", unsafe_and_safe, SAFE_LISTED, PICKLE),
    Mistake("lists-safe-ones", unsafe_without_torch, SAFE_LISTED, PICKLE),
    Mistake("not-sorted", unsafe_in_order, "The names came as {names} where {want_names} is wanted: they are sorted.",
            PICKLE),
    Mistake("only-the-first", unsafe_first, "The names came as {names} where {want_names} is wanted: the exception of "
            "weights-only loading names the first that it meets, and there are more.", PICKLE),
    Mistake("names-without-module", unsafe_bare, "The names came as {names} where {want_names} is wanted: what a name "
            "means depends on the module it is from.", PICKLE),
    Mistake("trusts-torch", unsafe_functions, "The list lacks {lost}: a name from torch is not safe for being from "
            "torch, since a whole module is an object with code.", PICKLE),
]  # fmt: skip


def more_unsafe(draw: Draw) -> list[Case]:
    some = [draw.pick(["namespace", "fraction", "decimal", "duration", "id", "counter"]) for _ in range(5)]
    return [
        case("drawn things", holds=["weights", *some], width=draw.size(2, 6)),
        case("a model and code", holds=["code", "model", "dtype"], width=draw.size(2, 6)),
        case("nothing at all", holds=[], width=2),
    ]


# --- export_onnx -------------------------------------------------------------------------------------------------


def onnx_with(
    model: nn.Module, example: Tensor, path: Path, *, dynamic: bool = True, evaluates: bool = True, after: str = "old",
    writes: bool = True,
) -> None:  # fmt: skip
    """Exporting with this or that done wrong, by the older exporter: it does the same in a fraction of the time."""
    training = model.training
    if evaluates:
        model.eval()
    axes = {"input": {0: "batch"}, "output": {0: "batch"}} if dynamic else None
    if writes:
        torch.onnx.export(
            model, (example,), str(path), dynamo=False, input_names=["input"], output_names=["output"],
            dynamic_axes=axes, training=torch.onnx.TrainingMode.PRESERVE,
        )  # fmt: skip
    if after == "old":
        model.train(training)
    elif after == "training":
        model.train()


def onnx_without_batch(model: nn.Module, example: Tensor, path: Path) -> None:
    onnx_with(model, example[:1], path, dynamic=False)


FIXED = (
    "The example had a batch of {example}, and then a batch of {batch} was refused: {refused}. Without being told that "
    "dimension 0 may vary, the export writes the example's size into the program."
)
EXPORT_ONNX = [
    *slips(
        onnx_with, ONNX,
        fixed_batch=({"dynamic": False}, FIXED),
        train_mode_export=({"evaluates": False}, "The exported program is off by up to {gap}: the model was exported "
                           "in training mode, and does there something else than when it is used."),
        leaves_eval_mode=({"after": "eval"}, "The model was in {want_mode} mode before, and is in {its_mode} mode "
                          "after the export: who goes on training it would never notice."),
    ),
    *variants("leaves-training-mode", onnx_with, "The model was in {want_mode} mode before, and is in {its_mode} mode "
              "after the export: `train()` is not the same as the old mode.", ONNX, {"after": "training"}),
    *variants("never-saves", onnx_with, "In the case \"{case}\" the file at `path` is what is examined, and it {file}.",
              ONNX, {"writes": False}),
    Mistake("fixed-batch", onnx_without_batch, FIXED, ONNX),
]  # fmt: skip


def more_onnx(draw: Draw) -> list[Case]:
    i, h, o = draw.size(2, 6), draw.size(3, 8), draw.size(2, 5)
    return [case("drawn sizes, the columns turned", rtol=1e-3, atol=1e-4, weights=export_weights(draw, i, h, o),
                 x=draw.normal(7, i), example=4, normed=True, turns=True, train=True)]  # fmt: skip


# --- export_program ----------------------------------------------------------------------------------------------


def program_with(
    model: nn.Module, example: Tensor, path: Path, *, dynamic: bool = True, returns: str = "loaded",
    saves: bool = True, most: int = 0, mode: str = "eval", beside: bool = False,
) -> Any:  # fmt: skip
    """Exporting a program with this or that done wrong."""
    model = model.train() if mode == "train" else model
    rows = torch.export.Dim("rows", max=most) if most else torch.export.Dim.DYNAMIC
    shapes = ({0: rows},) if dynamic else None
    program = torch.export.export(model, (example,), dynamic_shapes=shapes)
    path = path.with_suffix(".program.pt2") if beside else path
    if saves:
        torch.export.save(program, path)
    kinds: dict[str, Callable[[], Any]] = {
        "loaded": lambda: torch.export.load(path).module(), "original": lambda: model, "unsaved": program.module,
        "program": lambda: torch.export.load(path), "nothing": lambda: None, "copy": lambda: copy.deepcopy(model),
    }  # fmt: skip
    return kinds[returns]()


def program_pickled(model: nn.Module, example: Tensor, path: Path) -> Any:
    torch.save(model, path)
    return torch.load(path, weights_only=False)


FIXED_PROGRAM = (
    "The example had a batch of {example}, and then a batch of {batch} was refused: {refused}. Say in dynamic_shapes "
    "that dimension 0 may vary."
)
NOT_BACK = (
    "When the model's own weights were changed afterwards, `{what}` changed with them, and is {got} where {want} is "
    "wanted: what came back is not what was loaded from the file."
)
EXPORT_PROGRAM = [
    *slips(
        program_with, PROGRAM,
        fixed_batch=({"dynamic": False}, FIXED_PROGRAM),
        returns_original=({"returns": "original"}, NOT_BACK),
    ),
    *variants("returns-original", program_with, NOT_BACK, PROGRAM, {"returns": "unsaved"}),
    *variants("returns-original", program_with, "The call returned {returned}: wanted is what was loaded back from the "
              "file, which shows whether the file is any good.", PROGRAM, {"returns": "copy"}),
    *variants("bounded-batch", program_with, "A batch of {batch} was refused: {refused}. A Dim with a `max` promises "
              "that no batch is larger, and here it may have any size.", PROGRAM, {"most": 1024}, {"most": 6}),
    *variants("exports-in-train-mode", program_with, 'In the case "{case}", `{what}` is {got} where {want} is '
              "wanted: the model was put into training mode, and the mode is part of what was written down.", PROGRAM,
              {"mode": "train"}),
    *variants("saves-elsewhere", program_with, "The file at `path` {file}: the program was saved under another name.",
              PROGRAM, {"beside": True}),
    *variants("returns-the-program", program_with, "The call returned {returned}: a program is not called itself; its "
              "method `module()` gives what can be.", PROGRAM, {"returns": "program"}),
    *variants("returns-nothing", program_with, "The call returned {returned}; a module that can be called is wanted, "
              "loaded back from the file.", PROGRAM, {"returns": "nothing"}),
    *variants("never-saves", program_with, "The file at `path` {file}: the program was made, and not saved.", PROGRAM,
              {"saves": False, "returns": "unsaved"}),
    Mistake("pickles-module", program_pickled, "Read as a program and called with a tensor, the file was refused: "
            "{refused}. Wanted there is what `torch.export.save` writes, which needs no class and no Python.", PROGRAM),
]  # fmt: skip


def more_program(draw: Draw) -> list[Case]:
    i, h, o = draw.size(2, 6), draw.size(3, 8), draw.size(2, 5)
    return [case("drawn sizes, the columns turned", rtol=1e-3, atol=1e-4, weights=export_weights(draw, i, h, o),
                 x=draw.normal(7, i), example=5, normed=True, turns=True)]  # fmt: skip


# --- max_difference ----------------------------------------------------------------------------------------------

Function = Callable[[Tensor], Tensor]


def difference_with(
    reference: Function, candidate: Function, inputs: list[Tensor], *, within: str = "max", over: str = "max",
    nan: str = "law", shapes: bool = True, sign: bool = False, tensor: bool = False,
) -> Any:  # fmt: skip
    """A difference with this or that done wrong."""
    worst: list[Tensor] = []
    for x in inputs:
        wanted, found = reference(x), candidate(x)
        if shapes and wanted.shape != found.shape:
            raise ValueError(f"{wanted.shape} and {found.shape}")
        gap = wanted.double() - found.double()
        gap = gap if sign else gap.abs()
        both = wanted.isnan() & found.isnan()
        if nan == "law":
            gap = gap.masked_fill(both, 0).masked_fill(gap.isnan() & ~both, math.inf)
        elif nan == "ignored":
            gap = gap.nan_to_num(nan=0.0)
        elif nan == "always inf":
            gap = gap.masked_fill(gap.isnan(), math.inf)
        worst.append({"mean": gap.mean(), "norm": gap.square().sum().sqrt()}.get(within, gap.max()))
    chosen = {"max": torch.stack(worst).max(), "mean": torch.stack(worst).mean(), "last": worst[-1], "first": worst[0]}
    return chosen[over] if tensor else chosen[over].item()


def difference_by_python(reference: Function, candidate: Function, inputs: list[Tensor]) -> float:
    largest = 0.0
    for x in inputs:
        wanted, found = reference(x), candidate(x)
        if wanted.shape != found.shape:
            raise ValueError(f"{wanted.shape} and {found.shape}")
        for gap in (wanted.double() - found.double()).abs().flatten().tolist():
            largest = max(largest, gap)
    return largest


MEAN = "The difference came out as {found} where {meant} is wanted: a mean hides the one entry that is far off."
IGNORED = (
    "The difference came out as {found} where {meant} is wanted: a NaN on one side alone is as wrong as can be, and it "
    "was passed over."
)
DIFFERENCE = [
    *slips(
        difference_with, PARITY,
        mean_hides_outlier=({"within": "mean"}, MEAN),
        takes_a_norm=({"within": "norm"}, "The difference came out as {found} where {meant} is wanted: a norm adds up "
                      "all entries, and the largest single difference is meant."),
        nan_ignored=({"nan": "ignored"}, IGNORED),
        broadcasts_silently=({"shapes": False}, "Outputs of two shapes gave {refused}: subtraction broadcasts them "
                             "into a third, which nobody meant."),
        signed=({"sign": True}, "The difference came out as {found} where {meant} is wanted: without abs, what is too "
                "low counts as no difference."),
    ),
    Mistake("nan-ignored", difference_by_python, IGNORED, PARITY),
    *variants("mean-hides-outlier", difference_with, MEAN, PARITY, {"over": "mean"},
              {"within": "mean", "over": "mean"}),
    *variants("nan-propagates", difference_with, "The difference came out as {found} where {meant} is wanted: NaN "
              "against NaN is no difference, and against a number an infinite one.", PARITY, {"nan": "kept"}),
    *variants("nan-never-equal", difference_with, "The difference came out as {found} where {meant} is wanted: both "
              "sides have NaN in the same place, and so they agree there.", PARITY, {"nan": "always inf"}),
    *variants("one-input-only", difference_with, "The difference came out as {found} where {meant} is wanted: it is "
              "that of one input, and all of them count.", PARITY, {"over": "last"}, {"over": "first"}),
    *variants("returns-tensor", difference_with, "The call returned {returned}, and a Python float is wanted.", PARITY,
              {"tensor": True}),
]  # fmt: skip


def more_difference(draw: Draw) -> list[Case]:
    n = draw.size(2, 6)
    high = [draw.normal(n, 2) for _ in range(4)]
    low = [out - (k == 2) * draw.uniform(2.0, 3.0, n, 2) for k, out in enumerate(high)]
    return [
        case("four inputs, the third is off", reference=high, candidate=low, refused=False),
        case("one number each", reference=[draw.normal(1)], candidate=[draw.normal(1)], refused=False),
        case("in double precision", rtol=1e-9, atol=0.0, reference=[draw.normal(n, dtype=torch.float64)],
             candidate=[draw.normal(n, dtype=torch.float64)], refused=False),
        case("a number and a table", reference=[draw.normal(n, n)], candidate=[draw.normal(1)], refused=True),
    ]  # fmt: skip


# --- EMA ---------------------------------------------------------------------------------------------------------


class EMAWith:
    """A moving average with this or that done wrong."""

    def __init__(
        self, model: nn.Module, decay: float, *, owns: bool = True, whole: str = "copied", graph: bool = False,
        turned: bool = False, buffers: bool = True, start: str = "model", writes: str = "copied", home: str = "model",
    ) -> None:  # fmt: skip
        self.decay = 1 - decay if turned else decay
        self.whole, self.graph, self.buffers, self.writes = whole, graph, buffers, writes
        self.average: dict[str, Tensor] = {}
        for name, tensor in self._entries(model).items():
            kept = tensor.detach().clone() if owns else tensor
            kept = torch.zeros_like(kept) if start == "zero" else kept
            self.average[name] = kept.cpu() if home == "cpu" else kept

    def _entries(self, model: nn.Module) -> dict[str, Tensor]:
        state: dict[str, Tensor] = model.state_dict(keep_vars=self.graph)
        known = dict(model.named_parameters(remove_duplicate=False))
        return state if self.buffers else {name: tensor for name, tensor in state.items() if name in known}

    def update(self, model: nn.Module) -> None:
        for name, tensor in self._entries(model).items():
            average = self.average[name]
            if tensor.is_floating_point() and self.graph:
                self.average[name] = self.decay * average + (1 - self.decay) * tensor
            elif tensor.is_floating_point():
                with torch.no_grad():
                    average.mul_(self.decay).add_(tensor, alpha=1 - self.decay)
            elif self.whole == "copied":
                average.copy_(tensor)
            elif self.whole == "averaged":
                self.average[name] = (self.decay * average + (1 - self.decay) * tensor).to(tensor.dtype)
            elif self.whole == "as floats":
                self.average[name] = self.decay * average + (1 - self.decay) * tensor

    @torch.no_grad()
    def copy_to(self, model: nn.Module) -> None:
        own = model.state_dict(keep_vars=True)
        for name, average in self.average.items():
            if self.writes == "assigned":
                model.load_state_dict(self.average, assign=True)
            elif self.writes == "shared":
                own[name].data = average.detach()
            elif self.writes == "rebound":
                owner, last = model.get_submodule(name.rpartition(".")[0]), name.rpartition(".")[2]
                fresh = average.detach().clone()
                setattr(owner, last, nn.Parameter(fresh) if last in owner._parameters else fresh)
            else:
                own[name].copy_(average)


class EMAOfACopy:
    """The average as a second model, whose tied tensors have their turn under each of their names."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay, self.copy = decay, copy.deepcopy(model)

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        for mine, theirs in zip(self.copy.state_dict().values(), model.state_dict().values(), strict=True):
            if mine.is_floating_point():
                mine.lerp_(theirs, 1 - self.decay)
            else:
                mine.copy_(theirs)

    def copy_to(self, model: nn.Module) -> None:
        model.load_state_dict(self.copy.state_dict())


class EMAOfCopiedParameters(EMAOfACopy):
    """The average as a second model, whose buffers stay what they were."""

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        for mine, theirs in zip(self.copy.parameters(), model.parameters(), strict=True):
            mine.lerp_(theirs, 1 - self.decay)


class EMAOfParameters:
    """The average as a list of tensors with all their history."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.average = {name: p.clone() for name, p in model.named_parameters()}
        self.rest = {name: b.clone() for name, b in model.named_buffers()}

    def update(self, model: nn.Module) -> None:
        for name, p in model.named_parameters():
            self.average[name] = self.average[name] * self.decay + p * (1 - self.decay)
        for name, b in model.named_buffers():
            old = self.rest[name]
            self.rest[name] = old * self.decay + b * (1 - self.decay) if b.is_floating_point() else b.clone()

    @torch.no_grad()
    def copy_to(self, model: nn.Module) -> None:
        for name, p in model.named_parameters():
            p.copy_(self.average[name])
        for name, b in model.named_buffers():
            b.copy_(self.rest[name])


BY_REFERENCE = (
    "The entry {entry} came out as {value} where {want_value} is wanted: the average holds the model's own tensors, so "
    "it moves with every step of the model."
)
WHOLE = (
    "The entry {entry} came out as {value} where {want_value} is wanted: a counter has no average, and is copied as it "
    "is."
)
GRAPH = (
    "That the average keeps a graph is {graph}: every update hangs on to the one before, and memory grows with every "
    "step."
)
EMAS = [
    *slips(
        EMAWith, AVERAGES,
        tracks_by_reference=({"owns": False}, BY_REFERENCE),
        averages_integer_buffers=({"whole": "averaged"}, WHOLE),
        decay_turned_round=({"turned": True}, "The entry {entry} came out as {value} where {want_value} is wanted: the "
                            "decay is the weight of the old average, and the rest that of the new value."),
        starts_at_zero=({"start": "zero"}, "The entry {entry} came out as {value} where {want_value} is wanted: the "
                        "average starts at zero, and should start at the model's own values."),
    ),
    *variants("averages-integer-buffers", EMAWith, WHOLE, AVERAGES, {"whole": "as floats"}),
    *variants("keeps-graph", EMAWith, GRAPH, AVERAGES, {"graph": True}),
    Mistake("keeps-graph", EMAOfParameters, GRAPH, AVERAGES),
    Mistake("averages-tied-weights-twice", EMAOfACopy, "The entry {entry} came out as {value} where {want_value} is "
            "wanted: it is tied, and in a copy of the model it was averaged once for each of its names.", AVERAGES),
    *variants("forgets-integer-buffers", EMAWith, WHOLE, AVERAGES, {"whole": "left"}),
    *variants("forgets-buffers", EMAWith, "The entry {entry} came out as {value} where {want_value} is wanted: the "
              "statistics of a batch norm are buffers, and belong to the average too.", AVERAGES, {"buffers": False}),
    Mistake("forgets-buffers", EMAOfCopiedParameters, "The entry {entry} came out as {value} where {want_value} is "
            "wanted: it is a buffer, and `parameters()` leaves buffers out.", AVERAGES),
    *variants("shares-memory-with-the-copy", EMAWith, "After copy_to the model was changed, and a second copy of "
              "{entry} came out as {value} where {want_value} is wanted: the average itself was handed out.", AVERAGES,
              {"writes": "shared"}),
    *variants("rebinds-parameter", EMAWith, "The parameter {replaced} is another object after copy_to: write into the "
              "one that is there.", AVERAGES, {"writes": "rebound"}, {"writes": "assigned"}),
    *variants("made-on-cpu", EMAWith, MIXED, AVERAGES, {"home": "cpu"}),
]  # fmt: skip


def more_ema(draw: Draw) -> list[Case]:
    common: dict[str, Any] = {"width": draw.size(3, 6), "x": torch.zeros(1)}
    fills = [draw.size(1, 9) / 10 for _ in range(8)]
    return [
        case("eight updates", which="nested", decay=0.8, fills=fills, **common),
        case("a decay near 1", which="normed", decay=0.999, fills=fills[:4], **common),
        case("parameters and buffers of its own", which="loose", decay=0.5, fills=fills[:3], **common),
    ]


# --- average_checkpoints -----------------------------------------------------------------------------------------


def average_with(
    paths: list[Path], *, sums: str = "float32", whole: str = "last", casts: bool = True, order: str = "sum",
    divides: int = 0,
) -> Any:  # fmt: skip
    """An average of files with this or that done wrong."""
    states = [torch.load(path, map_location="cpu", weights_only=True) for path in paths]
    result = dict(states[0 if whole == "first" else -1])
    for name, last in states[-1].items():
        if not last.is_floating_point() and whole != "averaged":
            continue
        wide = last.dtype if sums == "own" and last.is_floating_point() else torch.float32
        total = states[0][name].to(wide)
        for number, state in enumerate(states[1:], 2):
            value = state[name].to(wide)
            share = {"halves": 2, "running": number}.get(order)
            total = total + (value - total) / share if share else total + value
            total = total.to(wide)
        mean = total if order in ("halves", "running") else total / (len(states) + divides)
        if order == "divided first":
            mean = sum((state[name] / len(states) for state in states), torch.zeros_like(last))
        result[name] = mean.to(last.dtype) if casts else mean
    return result


IN_HALF = (
    "The entry {entry} came out as {value} where {want_value} is wanted: the sum was formed in the files' own dtype, "
    "which has no room or no digits for it."
)
WHOLE_MEAN = (
    "The entry {entry} came out as {value} where {want_value} is wanted: counters and masks have no mean, and come "
    "from the last file."
)
AVERAGE = [
    *slips(
        average_with, AVERAGES,
        accumulates_in_half=({"sums": "own"}, IN_HALF),
        averages_integers=({"whole": "averaged"}, WHOLE_MEAN),
        not_cast_back=({"casts": False}, "The entry {entry} came out in {dtype} where {want_dtype} is wanted: after "
                       "the mean an entry goes back to the dtype of the files."),
    ),
    *variants("accumulates-in-half", average_with, IN_HALF + " Dividing first makes room, and no digits.", AVERAGES,
              {"order": "divided first"}),
    *variants("accumulates-in-half", average_with, IN_HALF + " A running mean has room, and no digits.", AVERAGES,
              {"order": "running", "sums": "own"}),
    *variants("integers-of-the-first-file", average_with, "The entry {entry} came out as {value} where {want_value} is "
              "wanted: what has no mean comes from the last file, not from the first.", AVERAGES, {"whole": "first"}),
    *variants("halves-again-and-again", average_with, "The entry {entry} came out as {value} where {want_value} is "
              "wanted: adding each file by half gives the last one half of all the weight.", AVERAGES,
              {"order": "halves"}),
    *variants("not-divided-by-the-number", average_with, "The entry {entry} came out as {value} where {want_value} is "
              "wanted: the sum was divided by another number than that of the files.", AVERAGES, {"divides": 1}),
]  # fmt: skip


def more_average(draw: Draw) -> list[Case]:
    count = draw.size(4, 9)
    return [
        case("drawn files", states=averaged_states(draw, count, torch.float32, 5.0)),
        case("float16, drawn files", rtol=3e-3, states=averaged_states(draw, count, torch.float16, 2.5e4)),
    ]


# --- trace_differs -----------------------------------------------------------------------------------------------

AnyFunction = Callable[[Tensor], Tensor]


def traced(fn: AnyFunction, example: Tensor) -> AnyFunction:
    recorded: AnyFunction = torch.jit.trace(fn, example)  # type: ignore[no-untyped-call]
    return recorded


def differs_on_example(fn: AnyFunction, example: Tensor, other: Tensor) -> bool:
    return not torch.allclose(traced(fn, example)(example), fn(example))


def differs_by_script(fn: AnyFunction, example: Tensor, other: Tensor) -> bool:
    return not torch.allclose(torch.jit.script(fn)(other), fn(other))


def differs_between_inputs(fn: AnyFunction, example: Tensor, other: Tensor) -> bool:
    return not alike(traced(fn, example)(example), fn(other))


def alike(one: Tensor, two: Tensor) -> bool:
    return one.shape == two.shape and torch.allclose(one, two)


def differs_between_traced_inputs(fn: AnyFunction, example: Tensor, other: Tensor) -> bool:
    recorded = traced(fn, example)
    return not alike(recorded(example), recorded(other))


def differs_in_graphs(fn: AnyFunction, example: Tensor, other: Tensor) -> bool:
    one, two = (torch.jit.trace(fn, x).graph for x in (example, other))  # type: ignore[no-untyped-call]
    return str(one) != str(two)


def differs_in_retracing(fn: AnyFunction, example: Tensor, other: Tensor) -> bool:
    try:
        torch.jit.trace(fn, example, check_inputs=[(other,)])  # type: ignore[no-untyped-call]
    except torch.jit.TracingCheckError:  # type: ignore[attr-defined]
        return True
    return False


def differs_by_warning(fn: AnyFunction, example: Tensor, other: Tensor) -> bool:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        traced(fn, example)
    kind: type[Warning] = torch.jit.TracerWarning  # type: ignore[attr-defined]
    return any(issubclass(w.category, kind) for w in caught)


def differs_in_shape(fn: AnyFunction, example: Tensor, other: Tensor) -> bool:
    return traced(fn, example)(other).shape != fn(other).shape


def differs_in_sum(fn: AnyFunction, example: Tensor, other: Tensor) -> bool:
    return not torch.allclose(traced(fn, example)(other).sum(), fn(other).sum())


def differs_bit_by_bit(fn: AnyFunction, example: Tensor, other: Tensor) -> bool:
    return not torch.equal(traced(fn, example)(other), fn(other))


def differs_everywhere(fn: AnyFunction, example: Tensor, other: Tensor) -> bool:
    return not torch.isclose(traced(fn, example)(other), fn(other)).any()


def differs_entry_by_entry(fn: AnyFunction, example: Tensor, other: Tensor) -> bool:
    return bool((traced(fn, example)(other) != fn(other)).all())


def differs_traced_on_other(fn: AnyFunction, example: Tensor, other: Tensor) -> bool:
    return not torch.allclose(traced(fn, other)(other), fn(other))


def agrees(fn: AnyFunction, example: Tensor, other: Tensor) -> bool:
    return torch.allclose(traced(fn, example)(other), fn(other))


def differs_in_tensors(fn: AnyFunction, example: Tensor, other: Tensor) -> Any:
    return (traced(fn, example)(other) != fn(other)).any()


def differs_in_numpy(fn: AnyFunction, example: Tensor, other: Tensor) -> Any:
    found, wanted = traced(fn, example)(other).numpy(), fn(other).numpy()
    return np.any(~np.isclose(found, wanted))


WRONG = "For a function with {function} the answer was {found} where {meant} is wanted: "
RECORDED = WRONG + "two recordings may have other operations, and the same results."
TRACE = [
    Mistake("compares-on-example", differs_on_example, WRONG + "on the example itself a trace is right.", SCRIPT),
    Mistake("scripts-not-traces", differs_by_script, WRONG + "a script is compiled from the source and keeps its "
            "branches; a trace has one way through.", SCRIPT),
    Mistake("compares-two-inputs", differs_between_inputs, WRONG + "results for one input were compared with results "
            "for another, and they may well differ.", SCRIPT),
    Mistake("compares-two-inputs", differs_between_traced_inputs, WRONG + "`fn` was run on {ran_on} alone, so what the "
            "trace gives for one input was compared with what it gives for another.", SCRIPT),
    Mistake("compares-on-example", differs_traced_on_other, WRONG + "`fn` was run on {ran_on} alone. A trace that was "
            "made on `other` is right there.", SCRIPT),
    Mistake("compares-recordings", differs_in_graphs, RECORDED, SCRIPT),
    Mistake("compares-recordings", differs_in_retracing, RECORDED, SCRIPT),
    Mistake("believes-warnings", differs_by_warning, WRONG + "a warning says that a trace may go wrong on some input, "
            "not that it does on `other`.", SCRIPT),
    Mistake("compares-shapes", differs_in_shape, WRONG + "two results of one shape may hold other numbers.", SCRIPT),
    Mistake("compares-sums", differs_in_sum, WRONG + "other entries may have the same sum.", SCRIPT),
    Mistake("compares-exactly", differs_bit_by_bit, WRONG + "the last digits differ by rounding, which is no "
            "difference.", SCRIPT),
    Mistake("wants-all-to-differ", differs_everywhere, WRONG + "one entry that differs is enough.", SCRIPT),
    Mistake("wants-all-to-differ", differs_entry_by_entry, WRONG + "one entry that differs is enough.", SCRIPT),
    Mistake("answer-turned-round", agrees, WRONG + "True means that they disagree.", SCRIPT),
    Mistake("returns-numpy-bool", differs_in_numpy, "The call returned {returned}, and a Python bool is wanted: "
            "`bool(...)` makes one of it.", SCRIPT),
    Mistake("returns-tensor", differs_in_tensors, "The call returned {returned}, and a Python bool is wanted.", SCRIPT),
]  # fmt: skip


def more_trace(draw: Draw) -> list[Case]:
    d = draw.size(2, 5)
    high, low = draw.uniform(0.1, 2.0, 3, d), -draw.uniform(0.1, 2.0, 3, d)
    return [
        case("traced below, asked above", function="a branch on the sum", example=low, other=high),
        case("a shorter input, no branch", function="no branch", example=high, other=low[:1]),
        case("both below", function="a branch on the sum", example=low, other=low - 1),
    ]


MISTAKES: dict[str, list[Mistake]] = {
    "save_weights": SAVE,
    "load_weights": LOAD,
    "unsafe_globals": UNSAFE,
    "strip_prefixes": STRIP,
    "load_matching": MATCHING,
    "Checkpointer": CHECKPOINTER,
    "to_safetensors": SAFETENSORS,
    "EMA": EMAS,
    "average_checkpoints": AVERAGE,
    "max_difference": DIFFERENCE,
    "export_program": EXPORT_PROGRAM,
    "export_onnx": EXPORT_ONNX,
    "trace_differs": TRACE,
}

MORE_CASES = {
    "save_weights": more_save,
    "load_weights": more_load,
    "unsafe_globals": more_unsafe,
    "strip_prefixes": more_strip,
    "load_matching": more_matching,
    "Checkpointer": more_checkpointer,
    "to_safetensors": more_safetensors,
    "EMA": more_ema,
    "average_checkpoints": more_average,
    "max_difference": more_difference,
    "export_program": more_program,
    "export_onnx": more_onnx,
    "trace_differs": more_trace,
}
