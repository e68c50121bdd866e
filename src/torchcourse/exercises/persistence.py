"""Lesson 09: probes, visible cases and hints. What is right is not written here."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import decimal
import fractions
import functools
import logging
import math
import os
import shutil
import time
import uuid
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import TreeSpec, tree_unflatten

from torchcourse.exercise import Case, Draw, Exercise, Unattempted, case
from torchcourse.exercises.exporting import in_onnx_runtime, outcomes
from torchcourse.exercises.filing import (
    can_kill,
    contents,
    copied,
    deaths,
    die,
    in_a_folder,
    killed_in,
    moments,
    tagged,
)
from torchcourse.exercises.looking import kind, where
from torchcourse.exercises.resumable import Training, same
from torchcourse.exercises.savable import Exported, exported_weights, filled, savable
from torchcourse.exercises.trainable import mode
from torchcourse.observations import Observations, Raised, raised
from torchcourse.probing import Watched

EXPORT = (
    "torch.export._trace", "torch._functorch.aot_autograd", "torch._inductor.ir", "sympy.tensor.tensor", "networkx",
    "torch._export.passes.replace_autocast_with_hop_pass",
)  # fmt: skip
"""What an export loads at its first call."""
ONNX = ("onnx", "onnxruntime", "onnxscript.function_libs.torch_lib.ops", "torch.onnx._internal.exporter._core")
"""What an export to ONNX loads besides."""

NOWHERE = "cuda:63"
"""A device that no machine has: what a file says that was written elsewhere."""


def values(state: dict[str, Any]) -> Observations:
    """The tensors of a state by name; of anything else, what it is."""
    return {str(name): held if isinstance(held, Tensor) else kind(held) for name, held in state.items()}


def untouched(net: nn.Module, before: dict[str, Tensor]) -> str:
    """Whether a model's state is what it was."""
    now = net.state_dict()
    return "as before" if now.keys() == before.keys() and same(dict(now), before) else "changed"


def copy_of(net: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in net.state_dict().items()}


class Copies:
    """Pickled, it is a call: whoever executes the pickle copies a file. A harmless stand-in for any code at all."""

    def __reduce__(self) -> Any:
        return shutil.copyfile, ("page.txt", "touched.txt")


def lay_bait() -> None:
    Path("page.txt").write_text("what the code in the file copies\n")


def was_run() -> str:
    return "was run" if Path("touched.txt").exists() else "was not run"


# --- save_weights ------------------------------------------------------------------------------------------------


def weights_in(path: Path) -> Observations:
    """What a file of weights holds."""
    if not path.exists():
        return {"the file": "was not written"}
    try:
        held = torch.load(path, weights_only=True)
    except Exception as error:
        with contextlib.suppress(Exception):
            names = sorted(torch.serialization.get_unsafe_globals_in_checkpoint(str(path)))
            return {"weights-only loading": f"refused, for the file needs {', '.join(names)}"}
        return {"weights-only loading": f"failed with {type(error).__name__}"}
    if not isinstance(held, dict):
        return {"the file holds": kind(held)}
    devices = sorted({str(tensor.device) for tensor in held.values() if isinstance(tensor, Tensor)})
    return {"weights-only loading": "works", "names": sorted(map(str, held)), "values": values(held), "on": devices}


@in_a_folder
def probe_save(answer: Watched, which: str, width: int, fill: float, old: bool) -> Observations:
    net, path = savable(which, width, fill), Path("weights.pt")
    before, flag = copy_of(net), net.training
    if old:
        torch.save(savable(which, width, fill + 0.3).state_dict(), path)
    held = [contents(path)]

    def look() -> None:
        if (now := contents(path)) != held[-1]:
            held.append(now)

    with moments(look):
        answer(net, path)
    look()
    seen = weights_in(path)
    if old:
        between = [data for data in held if data not in (held[0], held[-1])]
        state = "missing" if None in between else "neither the old nor the new one" if between else "always whole"
        seen["the file, from the first moment to the last"] = state
    return {**seen, "model afterwards": untouched(net, before), "mode kept": net.training == flag}


def cases_save(draw: Draw) -> list[Case]:
    w, fill = draw.size(3, 5), draw.size(1, 5) / 10
    return [
        case("a first file", which="mlp", width=w, fill=fill, old=False),
        case("over an older file", which="mlp", width=w, fill=fill, old=True),
        case("with buffers, over an older file", which="normed", width=w, fill=fill, old=True),
        case("weights tied", which="tied", width=w, fill=fill, old=True),
    ]


def quotes_save(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {
        "loading": seen.get("weights-only loading"),
        "moments": seen.get("the file, from the first moment to the last"),
        "holds": seen.get("the file holds", "a dict"),
        "file": seen.get("the file", "still holds what it held before"),
    }
    if "names" in seen and "names" in wanted:
        fields["names"] = seen["names"]
        fields["missing"] = [name for name in wanted["names"] if name not in seen["names"]]
    return fields


save_weights = Exercise(
    "save_weights",
    probe_save,
    cases_save,
    hints=(
        "Which method of a model gives its tensors by name, and nothing of its class? And what brings each of them to "
        "the CPU, so that the file says nothing about a GPU?",
        "While `torch.save` writes to `path`, the old file is gone already and the new one is not there yet. Where "
        "could the new one be written in the meantime?",
        "`os.replace(a, b)` puts one file in the place of another in a single step of the file system. Both must lie "
        "in the same folder, or at least on the same disk.",
    ),
    any_device=False,
    quotes=quotes_save,
)

# --- load_weights ------------------------------------------------------------------------------------------------

NO_DEVICE = ("Attempting to deserialize", "don't know how to restore data location", "torch.cuda.is_available")


def written(which: str, width: int, fill: float, problem: str, name: str) -> Path:
    """A file of weights with this or that about it; `name` is what is missing from it, or too much in it."""
    path = Path("weights.pt")
    state: dict[str, Any] = dict(savable(which, width, fill).state_dict())
    if problem == "missing":
        del state[name]
    elif problem == "unexpected":
        state[name] = torch.ones(2)
    elif problem == "code":
        state[name] = Copies()
    with tagged(NOWHERE) if problem == "elsewhere" else contextlib.nullcontext():
        torch.save(state, path)
    return path


@in_a_folder
def probe_load(
    answer: Watched, which: str, width: int, fill: float, x: Tensor, problem: str, entry: str, given: bool, train: bool
) -> Observations:
    lay_bait()
    path = written(which, width, fill, problem, entry)
    net = savable(which, width, fill + 0.4, torch.device("cpu") if given else x.device).train(train)
    arguments = (net, path, str(x.device)) if given else (net, path)
    try:
        returned = answer(*arguments)
    except Unattempted:
        raise
    except Exception as error:
        return {**_not_loaded(error, problem, entry), "code in the file": was_run()}
    if problem in ("missing", "unexpected", "code"):
        return {"refused": f"no exception but {kind(returned)}", "code in the file": was_run()}
    home = x.device if given else torch.device("cpu")
    places = {"the device asked for" if t.device == home else str(t.device) for t in net.state_dict().values()}
    return {
        "returned": "the model" if returned is net else kind(returned),
        "weights": values(net.state_dict()),
        "they live on": sorted(places),
        "mode": mode(net),
        "code in the file": was_run(),
    }


def _not_loaded(error: Exception, problem: str, entry: str) -> Observations:
    message = str(error)
    if problem == "code":
        return {"refused": "with an exception"}
    if problem in ("missing", "unexpected"):
        told = "names it" if entry in message else "does not name it"
        return {"refused": Raised("an exception", message.strip().replace("\n", " ")[:200], told)}
    if any(words in message for words in NO_DEVICE):
        return {"refused": Raised("RuntimeError", message.split(".")[0][:200], "no such device here")}
    raise error


def cases_load(draw: Draw) -> list[Case]:
    w, fill = draw.size(3, 5), draw.size(1, 5) / 10
    common: dict[str, Any] = {
        "which": "normed", "width": w, "fill": fill, "x": torch.zeros(1), "problem": "", "entry": "", "given": True,
        "train": False,
    }  # fmt: skip
    return [
        case("weights, in eval mode", **common),
        case("weights, in training mode", **{**common, "train": True}),
        case("no device given", **{**common, "given": False}),
        case(f"a file that was saved on {NOWHERE}", **{**common, "problem": "elsewhere"}),
        case("an entry is missing", **{**common, "problem": "missing", "entry": draw.pick(["0.bias", "3.weight"])}),
        case("one entry too many", **{**common, "problem": "unexpected", "entry": draw.pick(["head.bias", "4.scale"])}),
        case("a file with code in it", **{**common, "problem": "code", "entry": "note"}),
    ]


def quotes_load(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    refused = seen.get("refused")
    fields: dict[str, object] = {"entry": inputs["entry"], "refused": refused, "its_mode": seen.get("mode")}
    fields |= {"message": refused.message} if isinstance(refused, Raised) else {}
    fields |= {"code": seen.get("code in the file"), "lives": seen.get("they live on")}
    if isinstance(seen.get("weights"), dict) and isinstance(wanted.get("weights"), dict):
        other = [n for n, t in wanted["weights"].items() if not same(seen["weights"].get(n), t)]
        fields |= {"unfilled": other[0]} if other else {}
    return {**fields, "returned": seen.get("returned")}


load_weights = Exercise(
    "load_weights",
    probe_load,
    cases_load,
    hints=(
        "A file remembers on which device each tensor was. Which argument of `torch.load` says where they go instead, "
        "on a machine that has no such device?",
        "Loading with `weights_only=True` reads tensors and refuses code. Which argument of `load_state_dict`, left "
        "as it is, makes it name all the keys that do not fit?",
        "Loading fills the model where it lives: it is not moved by that. What moves it and returns it? Neither `eval` "
        "nor `train` is asked for.",
    ),
    quotes=quotes_load,
    imports=("torch.distributed.tensor",),
)

# --- Checkpointer ------------------------------------------------------------------------------------------------


@in_a_folder
def probe_checkpointer(
    answer: Watched, weight: Tensor, metrics: list[float], keep: int, first: int, killed_save: int, killed_step: int,
    later: int, extra: bool,
) -> Observations:  # fmt: skip
    folder, store = Path("checkpoints"), Path("copies")
    folder.mkdir()
    store.mkdir()
    run = Training(weight, 1, extra)
    keeper = _keeper(answer, folder, keep)
    seen: Observations = {"before any save": [_place(keeper.latest()), _place(keeper.best())]}
    losses: list[float] = []
    states: list[dict[str, Any]] = []
    paths: list[Any] = []
    left: dict[str, list[Path]] = {}
    for number, metric in enumerate(metrics, 1):
        if number == killed_step:
            left["killed in a step"] = [_killed_in_a_step(run, folder, store / "step")]
        losses.append(run.step())
        states.append(run.state())

        def save(step: int = first + number - 1, metric: float = metric) -> None:
            paths.append(keeper.save(step, metric, **run.parts()))

        if number == killed_save:
            left["killed in a save"] = deaths(save, folder, _made(store / "save"))
        else:
            save()
        time.sleep(0.006)  # so that two files are never of one moment, to a clock that ticks slowly
    losses += [run.step() for _ in range(later)]
    returned = [kind(path) for path in paths if not isinstance(path, str | os.PathLike)]
    seen |= {"returned by save": returned[0] if returned else "paths", "losses": torch.tensor(losses).double()}
    if not returned:
        seen["still there"] = [number for number, path in enumerate(paths, 1) if Path(path).exists()]

    def resumed(place: Path, which: str, again: bool) -> Observations:
        return _resumed(_keeper(answer, place, keep), which, Training(0 * weight + 1, 2, extra), states, losses, again)

    for which in ("latest", "best"):
        seen[which] = resumed(folder, which, False)
    for label, places in left.items():
        seen[f"best, {label}"] = [resumed(place, "best", False) for place in places]
        seen[label] = [resumed(place, "latest", True) for place in places]  # last, for it writes there
    return seen


def _keeper(answer: Watched, folder: Path, keep: int) -> Any:
    """The answer over a folder; `keep` 0 leaves it to its default."""
    return answer(folder, keep=keep) if keep else answer(folder)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _place(path: object) -> str:
    return "None" if path is None else "a path" if isinstance(path, str | os.PathLike) else kind(path)


def _killed_in_a_step(run: Training, folder: Path, to: Path) -> Path:
    """What the folder holds after a death in the middle of a step: where a fork can be killed there, one is."""
    if can_kill():
        assert killed_in(lambda: run.step(die))
    copied(folder, to)
    return to


def _resumed(
    keeper: Any, which: str, run: Training, states: list[dict[str, Any]], losses: list[float], again: bool
) -> Observations:
    """What a new process makes of a folder: where it goes on, what was not brought back, and every later loss."""
    try:
        path = getattr(keeper, which)()
        if path is None:
            return {"outcome": "there is nothing to go on from"}
        found = keeper.load(path, **run.parts())
    except Unattempted:
        raise
    except Exception as error:
        return {"outcome": "what was there could not be loaded", "because": raised(error)}
    step = int(run.model.steps)
    if not 1 <= step <= len(states):
        return {"outcome": "the model was not brought back"}
    now = run.state()
    lost = [name for name, state in states[step - 1].items() if not same(now[name], state)]
    went_on = torch.tensor([run.step() for _ in range(len(losses) - step)]).double()
    seen: Observations = {"outcome": "loaded", "step": step, "not restored": lost, "losses": went_on}
    return {**seen, "load returned": kind(found), **(_saves_again(keeper, run) if again else {})}


def _saves_again(keeper: Any, run: Training) -> Observations:
    """Whether a run that was resumed can save, and finds what it has saved."""
    run.step()
    steps = int(run.model.steps)
    try:
        keeper.save(1000 + steps, 0.01, **run.parts())
        run.step()
        keeper.load(keeper.latest(), **run.parts())
    except Exception as error:
        return {"saving again": raised(error).kind}
    return {"saving again": "works" if int(run.model.steps) == steps else "the old one is still the latest"}


def derive_checkpointer(case: Case, seen: Observations) -> Observations:
    metrics, keep = case.inputs["metrics"], case.inputs["keep"] or 3
    best = 1 + min(range(len(metrics)), key=metrics.__getitem__)
    newest = list(range(max(1, len(metrics) - keep + 1), len(metrics) + 1))
    tidy: Observations = {"before any save": seen["before any save"], "returned by save": seen["returned by save"]}
    if "still there" in seen:
        there = seen["still there"]
        tidy["newest that are gone"] = [n for n in newest if n not in there]
        tidy["older ones still there"] = [n for n in there if n not in newest and n != best]
    losses = seen["losses"]
    for which in ("latest", "best"):
        tidy |= {f"{which}(): {what}": told for what, told in _told(seen[which], losses).items()}
    for label in ("killed in a step", "killed in a save"):
        if label in seen:
            tidy[label] = sorted({_in_words(each, losses) for each in seen[label]})
            tidy[f"best(), {label}"] = sorted({_in_words(each, losses) for each in seen[f"best, {label}"]})
    return tidy


def _told(each: Observations, losses: Tensor) -> Observations:
    """What came of one resumption, in the terms in which it is compared."""
    if each["outcome"] != "loaded":
        return {"outcome": each["outcome"]}
    return {
        "goes on after save": each["step"], "not restored": each["not restored"],
        "every later loss": _compared(each["losses"], losses[each["step"] :]), "load returned": each["load returned"],
    }  # fmt: skip


def _compared(losses: Tensor, wanted: Tensor) -> str:
    """Bit for bit."""
    if losses.shape != wanted.shape:
        return "of another number"
    differ = (losses != wanted).nonzero()
    return f"another one from later step {int(differ[0]) + 1} on" if len(differ) else "the same to the last bit"


def _in_words(each: Observations, losses: Tensor) -> str:
    told = _told(each, losses)
    if "outcome" in told:
        return str(told["outcome"])
    same_losses = "the same" if told["every later loss"].startswith("the same") else "other"
    saving = each.get("saving again", "works")
    then = "" if saving == "works" else f", but then saving fails: {saving}"
    return f"it goes on after save {told['goes on after save']} with {same_losses} losses{then}"


def cases_checkpointer(draw: Draw) -> list[Case]:
    falling = sorted((draw.size(1, 9) / 100 + n / 10 for n in range(1, 7)), reverse=True)
    weight = draw.normal(3, 2)
    common: dict[str, Any] = {
        "weight": weight, "keep": 2, "first": 1, "killed_save": 0, "killed_step": 0, "later": 4, "extra": False,
    }  # fmt: skip
    one, two, three, four, five, six = falling
    return [
        case("six saves, the second is the best", metrics=[one, six, two, three, four, five], **{**common, "first": 7}),
        case("five saves, each better than the one before", metrics=falling[:5], **{**common, "keep": 0}),
        case("killed in the third save of four", metrics=[five, one, two, three],
             **{**common, "keep": 1, "killed_save": 3, "killed_step": 4}),
        case("killed in a save that is the best so far", metrics=[two, four, six],
             **{**common, "keep": 1, "killed_save": 3}),
    ]  # fmt: skip


def quotes_checkpointer(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"keep": inputs["keep"] or 3}
    for which in ("latest", "best"):
        for what, field in (("goes on after save", "step"), ("not restored", "lost"), ("every later loss", "loss"),
                            ("outcome", "outcome")):  # fmt: skip
            name = f"{which}(): {what}"
            fields |= {f"{which}_{field}": seen[name]} if name in seen else {}
            fields |= {f"want_{which}_{field}": wanted[name]} if name in wanted else {}
    lost = seen.get("latest(): not restored")
    fields |= {"lost": ", ".join(lost)} if lost else {}
    fields |= {"gone": seen.get("newest that are gone"), "older": seen.get("older ones still there")}
    for label, field in (("killed in a save", "killed"), ("best(), killed in a save", "killed_best")):
        bad = [told for told in seen.get(label, []) if told not in wanted.get(label, [])]
        fields |= {field: bad[0]} if bad else {}
    return {name: value for name, value in fields.items() if value not in (None, [])}


Checkpointer = Exercise(
    "Checkpointer",
    probe_checkpointer,
    cases_checkpointer,
    hints=(
        "Everything that decides the next loss has to be in the file: the state of each part, and three generators of "
        "random numbers. Which functions read and set the states of `random`, of NumPy and of torch?",
        "A process may die between any two lines of `save`. What does the folder hold then? Write under another name, "
        "put it in place in one step, and only then delete what is too old.",
        "After a death there is a new object over an old folder: what it remembered is gone. How can a file's name say "
        "its step and its metric, and how do numbers sort as text?",
    ),
    any_device=False,
    derive=derive_checkpointer,
    quotes=quotes_checkpointer,
    imports=("torch._dynamo",),
)

# --- strip_prefixes ----------------------------------------------------------------------------------------------


def probe_strip(answer: Watched, names: list[str]) -> Observations:
    state = OrderedDict((name, torch.tensor(float(place))) for place, name in enumerate(names))
    result = answer(state)
    kept = list(state) == names and all(float(v) == n for n, v in enumerate(state.values()))
    seen: Observations = {"input afterwards": "as before" if kept else "changed"}
    if not isinstance(result, dict):
        return {**seen, "returned": kind(result)}
    return {**seen, "names": sorted(map(str, result)), "values": values(result), "a new dict": result is not state}


def cases_strip(draw: Draw) -> list[Case]:
    last = draw.pick(["weight", "bias"])
    return [
        case("trained by DistributedDataParallel", names=[f"module.0.{last}", "module.1.running_mean"]),
        case("compiled", names=[f"_orig_mod.encoder.{last}", "_orig_mod.head.bias"]),
        case("compiled, then wrapped", names=[f"module._orig_mod.encoder.{last}", "module._orig_mod.head.bias"]),
        case("wrapped, then compiled", names=[f"_orig_mod.module.encoder.{last}", "_orig_mod.module.head.bias"]),
        case("three layers of it", names=[f"module._orig_mod.module.fc.{last}", "module.module.fc2.bias"]),
        case("nothing to remove", names=[f"encoder.{last}", "head.bias"]),
        case("the words inside of names", names=[f"encoder.module.{last}", "blocks.0._orig_mod.bias"]),
        case("names that begin alike", names=[f"modules.0.{last}", "module_list.1.bias", "model.bias", "module"]),
        case("only some have it", names=[f"module.encoder.{last}", "head.bias", "_orig_mod.scale"]),
    ]


def quotes_strip(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    if "names" not in seen or "names" not in wanted:
        return {}
    wrong = [n for n in seen["names"] if n not in wanted["names"]]
    meant = [n for n in wanted["names"] if n not in seen["names"]]
    fields: dict[str, object] = {"afterwards": seen["input afterwards"], "new": seen["a new dict"]}
    return {**fields, "count": len(seen["names"]), "want_count": len(wanted["names"]), "first": inputs["names"][0],
            **({"name": wrong[0]} if wrong else {}), **({"meant": meant[0]} if meant else {})}  # fmt: skip


strip_prefixes = Exercise(
    "strip_prefixes",
    probe_strip,
    cases_strip,
    hints=(
        "A name may begin with one prefix, and what is left with the other, and so on. When is it time to stop?",
        "`str.replace` looks everywhere in a name. Which methods of a string ask how it begins and take off just that?",
        "The prefixes end in a dot, and the dot matters: `modules.0.weight` begins with the same letters and is a name "
        "in its own right. Build a new dict on the way.",
    ),
    any_device=False,
    quotes=quotes_strip,
)

# --- load_matching -----------------------------------------------------------------------------------------------


def probe_matching(
    answer: Watched, which: str, width: int, fill: float, drop: list[str], add: dict[str, Tensor], x: Tensor, cpu: bool
) -> Observations:
    net = savable(which, width, fill + 0.4, x.device)
    source = savable(which, width, fill, torch.device("cpu") if cpu else x.device)
    state = {n: t for n, t in source.state_dict().items() if n not in drop} | add
    before = {name: tensor.detach().clone() for name, tensor in state.items()}
    held = {name: id(p) for name, p in net.named_parameters()}
    grads = {name: p.requires_grad for name, p in net.named_parameters()}
    returned = answer(net, state)
    now = dict(net.named_parameters())
    seen: Observations = {
        "weights": values(copy_of(net)),
        "parameters replaced": sorted(name for name, p in now.items() if held.get(name) != id(p)),
        "flags": "as before" if {name: p.requires_grad for name, p in now.items()} == grads else "changed",
        "they live": sorted({where(t, x) for t in net.state_dict().values()}),
        "state afterwards": "as before" if state.keys() == before.keys() and same(state, before) else "changed",
    }
    filled(net, 0.15)  # the model goes on, and the state should not go with it
    seen["entries of state that go on with the model"] = [n for n, t in state.items() if not same(t, before.get(n))]
    if not (isinstance(returned, tuple | list) and len(returned) == 2):
        return {**seen, "returned": kind(returned)}
    loaded, skipped = (list(names) if isinstance(names, list | tuple) else kind(names) for names in returned)
    return {"loaded": loaded, "skipped": skipped, **seen}


def cases_matching(draw: Draw) -> list[Case]:
    w, fill = draw.size(3, 5), draw.size(1, 5) / 10
    common: dict[str, Any] = {"which": "normed", "width": w, "fill": fill, "drop": [], "add": {}, "x": torch.zeros(1),
                              "cpu": False}  # fmt: skip
    other_head = {"3.weight": draw.normal(5, w + 1), "3.bias": draw.normal(5)}
    return [
        case("all of it fits", **common),
        case("another head", **{**common, "add": other_head}),
        case("names that the model does not have", **{**common, "add": {"head.weight": draw.normal(2, 3)}}),
        case("some names are missing", **{**common, "drop": ["0.weight", "1.running_var"]}),
        case("a row where a table is wanted", **{**common, "add": {"3.weight": draw.normal(1, w + 1)}}),
        case("as many numbers in another shape", **{**common, "add": {"0.weight": draw.normal(w, w + 1)}}),
        case("weights tied, the state on the CPU", **{**common, "which": "tied", "cpu": True}),
        case("half of it frozen", **{**common, "which": "frozen", "add": {"head.bias": draw.normal(7)}}),
    ]


def quotes_matching(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"loaded": seen.get("loaded"), "skipped": seen.get("skipped")}
    fields |= {"want_loaded": wanted.get("loaded"), "want_skipped": wanted.get("skipped")}
    replaced = seen.get("parameters replaced")
    if isinstance(seen.get("weights"), dict) and isinstance(wanted.get("weights"), dict):
        wrong = [n for n, t in wanted["weights"].items() if not same(seen["weights"].get(n), t)]
        fields |= {"entry": wrong[0]} if wrong else {}
    both = {"extra": (seen, wanted), "lost": (wanted, seen)}
    for field, (one, other) in both.items():
        names = [n for n in one.get("skipped") or [] if n not in (other.get("skipped") or [])]
        fields |= {field: names[0]} if names else {}
    fields |= {"replaced": replaced[0]} if replaced else {}
    shared = seen.get("entries of state that go on with the model")
    fields |= {"shared": shared[0]} if shared else {}
    return {name: value for name, value in fields.items() if value is not None}


load_matching = Exercise(
    "load_matching",
    probe_matching,
    cases_matching,
    hints=(
        "`load_state_dict(strict=False)` forgives names, but never shapes. Which two questions have you to ask about "
        "each entry yourself?",
        "The tensors in `model.state_dict()` share memory with it. Which in-place method writes into one of them "
        "from any device and dtype?",
        "`copy_` broadcasts: a row fits into a table. So compare shapes, not numbers of elements, and do not wait for "
        "an exception. Entries that only the model has belong in neither list.",
    ),
    quotes=quotes_matching,
)

# --- to_safetensors ----------------------------------------------------------------------------------------------

UNSAVABLE = {"share memory": "shared memory is refused", "non contiguous": "a layout is refused"}


@in_a_folder
def probe_safetensors(answer: Watched, which: str, width: int, fill: float) -> Observations:
    from safetensors.torch import load_model

    net, path = savable(which, width, fill), Path("model.safetensors")
    before, held = copy_of(net), {name: id(p) for name, p in net.named_parameters(remove_duplicate=False)}
    strides = {name: p.stride() for name, p in net.named_parameters()}
    try:
        answer(net, path)
    except (RuntimeError, ValueError) as error:
        reason = next((reason for words, reason in UNSAVABLE.items() if words in str(error)), "")
        message = " ".join(str(error).split())
        return {"saving": Raised(type(error).__name__, message[:200], reason)}
    after = {name: id(p) for name, p in net.named_parameters(remove_duplicate=False)}
    unmoved = after == held and {name: p.stride() for name, p in net.named_parameters()} == strides
    seen: Observations = {"model afterwards": untouched(net, before) if unmoved else "its tensors were replaced"}
    fresh = savable(which, width, fill + 0.4)
    try:
        load_model(fresh, str(path))
    except Exception as error:
        return {**seen, "load_model": Raised("refused", " ".join(str(error).split())[:200], type(error).__name__)}
    return {**seen, "load_model": "works", "weights": values(fresh.state_dict())}


def cases_safetensors(draw: Draw) -> list[Case]:
    w, fill = draw.size(3, 5), draw.size(1, 5) / 10
    return [
        case("a small network", which="mlp", width=w, fill=fill),
        case("with buffers", which="normed", width=w, fill=fill),
        case("weights tied", which="tied", width=w, fill=fill),
        case("one layer used twice", which="shared", width=w, fill=fill),
        case("tensors that are not contiguous", which="patterned", width=w, fill=fill),
        case("both", which="tied pattern", width=w, fill=fill),
    ]


def quotes_safetensors(_inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"afterwards": seen.get("model afterwards")}
    for field, name in (("saving", "saving"), ("loading", "load_model")):
        outcome = seen.get(name)
        if isinstance(outcome, Raised):
            fields[field] = outcome.message.split(": [")[0].replace("{", "(").replace("}", ")").rstrip(" .")
    return {name: value for name, value in fields.items() if value is not None}


to_safetensors = Exercise(
    "to_safetensors",
    probe_safetensors,
    cases_safetensors,
    hints=(
        "The format stores each tensor once, in the order of its elements. Which two kinds of tensors in a "
        "`state_dict` do not fit that?",
        "`save_file` takes any dict and refuses what shares memory. The library has another function that takes the "
        "model and is the partner of `load_model`.",
        "If you do it by hand: of all names of one tensor only one may be in the file, and everything has to be "
        "contiguous. The model itself stays as it is.",
    ),
    any_device=False,
    quotes=quotes_safetensors,
)

# --- unsafe_globals ----------------------------------------------------------------------------------------------


def held_things(width: int) -> dict[str, Callable[[], Any]]:
    """What a checkpoint may hold, by a name for it."""
    return {
        "weights": lambda: savable("normed", width, 0.1).state_dict(),
        "namespace": lambda: argparse.Namespace(lr=0.1, width=width),
        "fraction": lambda: fractions.Fraction(1, width), "decimal": lambda: decimal.Decimal(width),
        "duration": lambda: datetime.timedelta(width), "id": lambda: uuid.UUID(int=width),
        "counter": lambda: Counter("abca"), "ordered": lambda: OrderedDict(a=1), "dtype": lambda: torch.float16,
        "device": lambda: torch.device("cpu"), "size": lambda: torch.Size([width]),
        "model": lambda: savable("mlp", width, 0.1), "code": Copies, "text": lambda: "shutil.copyfile os.system eval",
    }  # fmt: skip


@contextlib.contextmanager
def only_what_torch_admits() -> Iterator[None]:
    """A block in which weights-only loading accepts what it does as it comes: somebody may have admitted more."""
    admitted = torch.serialization.get_safe_globals()
    torch.serialization.clear_safe_globals()
    try:
        yield
    finally:
        torch.serialization.clear_safe_globals()
        torch.serialization.add_safe_globals(admitted)


@in_a_folder
def probe_unsafe(answer: Watched, holds: list[str], width: int) -> Observations:
    lay_bait()
    things = held_things(width)
    torch.save({f"{name} {place}": things[name]() for place, name in enumerate(holds)}, "checkpoint.pt")
    with only_what_torch_admits():
        result = answer(Path("checkpoint.pt"))
    seen: Observations = {"code in the file": was_run()}
    if not isinstance(result, list):
        return {**seen, "returned": kind(result)}
    return {**seen, "names": [name if isinstance(name, str) else kind(name) for name in result]}


def cases_unsafe(draw: Draw) -> list[Case]:
    w = draw.size(2, 6)
    return [
        case("weights alone", holds=["weights"], width=w),
        case("weights and settings", holds=["weights", "namespace"], width=w),
        case("things of several kinds", holds=["namespace", "fraction", "duration", "decimal", "counter"], width=w),
        case("one kind twice", holds=["fraction", "weights", "fraction"], width=w),
        case("a whole model", holds=["model"], width=w),
        case("code that copies a file", holds=["weights", "code"], width=w),
        case("code between other things", holds=["id", "code", "namespace", "ordered"], width=w),
        case("a text that names functions", holds=["text", "dtype", "device", "size"], width=w),
    ]


def quotes_unsafe(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"code": seen.get("code in the file")}
    if "names" in seen and "names" in wanted:
        extra = [n for n in seen["names"] if n not in wanted["names"]]
        lost = [n for n in wanted["names"] if n not in seen["names"]]
        fields |= {"names": seen["names"], "want_names": wanted["names"]}
        fields |= {"extra": extra[0]} if extra else {}
        fields |= {"lost": lost[0]} if lost else {}
    return fields


unsafe_globals = Exercise(
    "unsafe_globals",
    probe_unsafe,
    cases_unsafe,
    hints=(
        "A pickle names every class and function that it wants to use. Reading the names is one thing, calling them "
        "another: which of the two does `torch.load(weights_only=False)` do?",
        "`torch.serialization` has a function with a long name that does this. Search its documentation for the words "
        "of the exercise.",
        "By hand: the file is a zip with a `data.pkl` in it, and `pickletools.genops` lists its operations without "
        "executing any. Some globals are fine with weights-only loading.",
    ),
    any_device=False,
    quotes=quotes_unsafe,
)

# --- export_onnx -------------------------------------------------------------------------------------------------

BATCHES = (1, 2, 7)
LARGE = 7000
"""A batch of a program that may have any size, beyond the bounds that are often given to a dimension."""


@in_a_folder
def probe_onnx(
    answer: Watched, weights: dict[str, Tensor], x: Tensor, example: int, normed: bool, turns: bool, train: bool
) -> Observations:
    net = Exported(weights, normed, turns).train(train)
    before, path = copy_of(net), Path("model.onnx")
    answer(net, x[:example].clone(), path)
    seen: Observations = {"mode afterwards": mode(net), "model afterwards": untouched(net, before)}
    if not path.exists():
        return {**seen, "the file": "was not written"}
    return {**seen, **outcomes(in_onnx_runtime(path), x, BATCHES)}


def export_weights(draw: Draw, i: int, h: int, o: int) -> dict[str, Tensor]:
    return exported_weights(draw.normal(h, i), 0.5 + draw.normal(h).abs(), draw.normal(o, h), draw.normal(o))


def cases_onnx(draw: Draw) -> list[Case]:
    i, h, o = draw.size(3, 4), draw.size(5, 6), draw.size(2, 3)
    common: dict[str, Any] = {"x": draw.normal(7, i), "example": 2, "turns": False, "rtol": 1e-3, "atol": 1e-4}
    return [
        case("a model in training mode", weights=export_weights(draw, i, h, o), normed=False, train=True, **common),
        case("a model in eval mode", weights=export_weights(draw, i, h, o), normed=True, train=False, **common),
    ]


def quotes_onnx(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"example": inputs["example"], "its_mode": seen.get("mode afterwards")}
    fields |= {"want_mode": wanted.get("mode afterwards"), "file": seen.get("the file")}
    for batch in BATCHES:
        got, want = (side.get(f"batch of {batch}") for side in (seen, wanted))
        if isinstance(got, Raised):
            fields |= {"batch": batch, "refused": got.message}
        elif isinstance(got, Tensor) and isinstance(want, Tensor) and got.shape == want.shape:
            fields["gap"] = (got - want).abs().max().item()
    return {name: value for name, value in fields.items() if value is not None}


export_onnx = Exercise(
    "export_onnx",
    probe_onnx,
    cases_onnx,
    hints=(
        "In which mode should a model be that only answers questions from now on? Note the old mode, and think of the "
        "block of Python that runs in any case.",
        "`torch.onnx.export` takes `dynamic_shapes`: for each input, which of its dimensions may vary. The batch is "
        "dimension 0 of the only input.",
        "The input goes in as a tuple. `{0: torch.export.Dim(\"batch\")}` says that dimension 0 varies; one such dict "
        "stands for each input.",
    ),
    any_device=False,
    quotes=quotes_onnx,
    seconds=20.0,
    imports=(*EXPORT, *ONNX),
)

# --- export_program ----------------------------------------------------------------------------------------------


@in_a_folder
def probe_program(
    answer: Watched, weights: dict[str, Tensor], x: Tensor, example: int, normed: bool, turns: bool
) -> Observations:
    net, path = Exported(weights, normed, turns).eval(), Path("model.pt2")
    returned = answer(net, x[:example].clone(), path)
    seen: Observations = {"the file": "was not written"}
    if path.exists():
        seen = {f"from the file, {name}": value for name, value in program_outcomes(_program(path), x).items()}
    if not isinstance(returned, nn.Module):
        return {**seen, "returned": kind(returned)}
    filled(net, 0.3)  # what was loaded back has weights of its own
    fresh = {f"returned, {name}": value for name, value in program_outcomes(_as_exported(returned), x).items()}
    copied = "a copy of the model, as Python holds it" if isinstance(returned, Exported) else "another module"
    return {**seen, "returned": "the model itself" if returned is net else copied, **fresh}


def program_outcomes(run: Callable[[Tensor], Any], x: Tensor) -> Observations:
    """What a program makes of several batches, and of a very large one: only its last row, for that is long."""
    def last_row(many: Tensor) -> Any:
        result = run(many)
        return result[-1:] if isinstance(result, Tensor) else result

    return {**outcomes(run, x, BATCHES), **outcomes(last_row, x.repeat(LARGE // len(x) + 1, 1), (LARGE,))}


def _as_exported(module: nn.Module) -> Callable[[Tensor], Any]:
    """The module, called as its example was given: a program exported with a keyword takes its input by keyword."""
    taken = getattr(module, "_in_spec", None)
    if not isinstance(taken, TreeSpec) or taken.num_leaves != 1:
        return module
    by_position, by_name = tree_unflatten([0], taken)
    return module if by_position else lambda x: module(**dict.fromkeys(by_name, x))


def _program(path: Path) -> Callable[[Tensor], Any]:
    logging.disable()  # of a file that is no program it would print a page
    try:
        loaded = _as_exported(torch.export.load(path).module())
    except Exception as error:
        problem = error

        def broken(x: Tensor) -> Any:
            raise problem

        return broken
    finally:
        logging.disable(logging.NOTSET)
    return loaded


def cases_program(draw: Draw) -> list[Case]:
    i, h, o = draw.size(3, 4), draw.size(5, 6), draw.size(2, 3)
    common: dict[str, Any] = {"x": draw.normal(7, i), "turns": False, "rtol": 1e-3, "atol": 1e-4}
    return [
        case("a network", weights=export_weights(draw, i, h, o), example=2, normed=False, **common),
        case("with a batch norm, from an example of three", weights=export_weights(draw, i, h, o), example=3,
             normed=True, **common),
    ]  # fmt: skip


def quotes_program(inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"example": inputs["example"], "returned": seen.get("returned")}
    fields["file"] = seen.get("the file")
    for source in ("returned", "from the file"):
        for batch in (LARGE, *BATCHES[::-1]):
            got = seen.get(f"{source}, batch of {batch}")
            if isinstance(got, Raised):
                fields |= {"batch": batch, "refused": got.message}
    return {name: value for name, value in fields.items() if value is not None}


export_program = Exercise(
    "export_program",
    probe_program,
    cases_program,
    hints=(
        "`torch.export` has three functions for the three things to do: make a program of the model, save it, load it.",
        "Without `dynamic_shapes` the batch of the example is built in for good. For each input there is one entry, "
        "which says for each dimension whether it may vary.",
        "What `torch.export.load` returns is a program, not a module. Which of its methods makes a module of it?",
    ),
    any_device=False,
    quotes=quotes_program,
    seconds=20.0,
    imports=EXPORT,
)

# --- max_difference ----------------------------------------------------------------------------------------------


class Table:
    """A function from inputs to given outputs; an input says by its first number which one it wants."""

    def __init__(self, outputs: list[Tensor]) -> None:
        self.outputs = outputs

    def __call__(self, x: Tensor) -> Tensor:
        return self.outputs[int(x.flatten()[0])].clone()


def probe_difference(answer: Watched, reference: list[Tensor], candidate: list[Tensor], refused: bool) -> Observations:
    inputs = [torch.full((2, 3), float(n)) for n in range(len(reference))]
    try:
        found = answer(Table(reference), Table(candidate), inputs)
    except Unattempted:
        raise
    except Exception as error:
        if refused:
            return {"refused": "with an exception"}
        raise error
    if refused:
        return {"refused": f"no exception but {kind(found)}"}
    return {"difference": found} if isinstance(found, float) else {"returned": kind(found)}


def cases_difference(draw: Draw) -> list[Case]:
    n, d = draw.size(3, 5), draw.size(2, 4)
    outs = [draw.normal(n, d) for _ in range(3)]
    shifted = [out + (-1) ** k * (0.01 + k / 100) for k, out in enumerate(outs)]
    spike = [out.clone() for out in outs]
    spike[0][1, 0] -= 5.0
    holes, filled_holes = ([out.clone() for out in outs] for _ in range(2))
    holes[1][0, 1] = math.nan
    filled_holes[1][0, 1] = math.nan
    filled_holes[2] = filled_holes[2] + 0.25
    column, flat = [draw.normal(n, 1)], [draw.normal(n)]
    same_column = [flat[0].view(n, 1)]
    return [
        case("equal", reference=outs, candidate=outs, refused=False),
        case("a little off everywhere", reference=outs, candidate=shifted, refused=False),
        case("one entry of the first is far off", reference=outs, candidate=spike, refused=False),
        case("NaN where a number should be", reference=outs, candidate=holes, refused=False),
        case("a number where NaN should be", reference=holes, candidate=outs, refused=False),
        case("NaN on both sides", reference=holes, candidate=filled_holes, refused=False),
        case("a column and a row", reference=column, candidate=flat, refused=True),
        case("the same numbers, one dimension more", reference=flat, candidate=same_column, refused=True),
        case("one output is too short", reference=outs, candidate=[*outs[:2], outs[2][:1]], refused=True),
    ]


def quotes_difference(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields = {"found": seen.get("difference"), "meant": wanted.get("difference"), "refused": seen.get("refused")}
    fields["returned"] = seen.get("returned")
    return {name: value for name, value in fields.items() if value is not None}


max_difference = Exercise(
    "max_difference",
    probe_difference,
    cases_difference,
    hints=(
        "A mean over a million entries hides one that is far off. Which reduction does not, and over what else than "
        "one output has it to go?",
        "`a - b` broadcasts without a word: a column and a row make a table. What do you compare before you subtract?",
        "NaN is equal to nothing, not even to itself, and `max` of Python and of torch treat it in two ways. `isnan` "
        "of both sides gives two masks: when do they agree, and what if not?",
    ),
    any_device=False,
    quotes=quotes_difference,
)

# --- EMA ---------------------------------------------------------------------------------------------------------


def held_tensors(value: object, depth: int = 5) -> Iterable[Tensor]:
    """The tensors that an object holds, in its attributes and what they hold in turn."""
    if isinstance(value, Tensor):
        yield value
    elif depth and isinstance(value, dict):
        for item in value.values():
            yield from held_tensors(item, depth - 1)
    elif depth and isinstance(value, list | tuple):
        for item in value:
            yield from held_tensors(item, depth - 1)
    elif depth and isinstance(getattr(value, "__dict__", None), dict) and not isinstance(value, type):
        yield from held_tensors(vars(value), depth - 1)


def probe_ema(answer: Watched, which: str, width: int, decay: float, fills: list[float], x: Tensor) -> Observations:
    answer.watching = False
    net = savable(which, width, fills[0], x.device)
    average = answer(net, decay)
    for fill in fills[1:]:
        filled(net, fill)
        average.update(net)
    graph = any(tensor.grad_fn is not None for tensor in held_tensors(average))
    before, other = copy_of(net), savable(which, width, 0.95, x.device)
    held = {name: id(p) for name, p in other.named_parameters()}
    average.copy_to(other)
    now = dict(other.named_parameters())
    seen: Observations = {
        "copied": values(other.state_dict()),
        "graph kept": graph or any(p.grad_fn is not None for p in now.values()),
        "parameters replaced": sorted(name for name, p in now.items() if held.get(name) != id(p)),
        "flags": all(p.requires_grad for p in now.values()),
        "they live": sorted({where(t, x) for t in other.state_dict().values()}),
        "model afterwards": untouched(net, before),
    }
    filled(other, 0.5)  # what was copied into goes its own way
    third = savable(which, width, 0.75, x.device)
    average.copy_to(third)
    return {**seen, "copied again": values(third.state_dict())}


def cases_ema(draw: Draw) -> list[Case]:
    w, fill = draw.size(3, 5), draw.size(1, 5) / 10
    common: dict[str, Any] = {"width": w, "x": torch.zeros(1)}
    return [
        case("one update", which="mlp", decay=0.9, fills=[fill, fill + 0.3], **common),
        case("three updates", which="mlp", decay=0.75, fills=[fill, fill + 0.3, fill + 0.6, fill + 0.1], **common),
        case("with a batch norm", which="normed", decay=0.6, fills=[fill, fill + 0.5, fill + 0.7], **common),
        case("no update yet", which="normed", decay=0.5, fills=[fill], **common),
        case("weights tied", which="tied", decay=0.6, fills=[fill, fill + 0.2, fill + 0.4], **common),
        case("the decay is 0", which="mlp", decay=0.0, fills=[fill, fill + 0.2], **common),
    ]


def quotes_ema(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"graph": seen.get("graph kept")}
    for name in ("copied", "copied again"):
        got, want = seen.get(name), wanted.get(name)
        if not (isinstance(got, dict) and isinstance(want, dict)):
            continue
        for entry, right in want.items():
            theirs = got.get(entry)
            if isinstance(theirs, Tensor) and theirs.shape == right.shape and "entry" not in fields:
                gap = (theirs.double() - right.double()).abs().flatten()
                if theirs.dtype != right.dtype or gap.max() > 1e-4:
                    at = int(gap.argmax())
                    pair = (theirs.flatten()[at].item(), right.flatten()[at].item())
                    fields |= {"entry": entry, "value": pair[0], "want_value": pair[1]}
    replaced = seen.get("parameters replaced")
    fields |= {"replaced": replaced[0]} if replaced else {}
    return {name: value for name, value in fields.items() if value is not None}


EMA = Exercise(
    "EMA",
    probe_ema,
    cases_ema,
    hints=(
        "The average has to stay where it is while the model moves on. What does `state_dict()` give you: copies, or "
        "the model's own tensors?",
        "`average = decay * average + (1 - decay) * value`, for floats. A counter of batches has no average: which "
        "method of a tensor tells the two kinds apart?",
        "Averaging is no part of what is learned. In which context does an operation record nothing? Which in-place "
        "method writes an average into a model's own parameters?",
    ),
    quotes=quotes_ema,
)

# --- average_checkpoints -----------------------------------------------------------------------------------------


@in_a_folder
def probe_average(answer: Watched, states: list[dict[str, Tensor]], times: int = 1) -> Observations:
    paths = [Path(f"epoch-{number}.pt") for number in range(times * len(states))]
    for path, state in zip(paths, times * states, strict=True):
        torch.save(state, path)
    result = answer(paths)
    return {"result": values(result)} if isinstance(result, dict) else {"returned": kind(result)}


def averaged_states(draw: Draw, count: int, dtype: torch.dtype, size: float) -> list[dict[str, Tensor]]:
    return [
        {"weight": (size * (1 + draw.uniform(0.0, 0.2, 3, 2))).to(dtype), "bias": draw.normal(3, dtype=dtype),
         "steps": torch.tensor(10 * n + draw.size(1, 9)), "mask": draw.flags(4)}
        for n in range(count)
    ]  # fmt: skip


def cases_average(draw: Draw) -> list[Case]:
    return [
        case("three files", states=averaged_states(draw, 3, torch.float32, 1.0)),
        case("one file", states=averaged_states(draw, 1, torch.float32, 1.0)),
        case("half precision, large numbers", rtol=2e-3, states=averaged_states(draw, 4, torch.float16, 3e4)),
        case("bfloat16, twelve files", rtol=8e-3, atol=8e-3, states=averaged_states(draw, 12, torch.bfloat16, 300.0)),
        case("bfloat16, three files over and over", rtol=8e-3, atol=8e-3, times=32,
             states=averaged_states(draw, 3, torch.bfloat16, 300.0)),
    ]  # fmt: skip


def quotes_average(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    got, want = seen.get("result"), wanted.get("result")
    fields: dict[str, object] = {}
    if isinstance(got, dict) and isinstance(want, dict):
        for name, right in want.items():
            theirs = got.get(name)
            if not isinstance(theirs, Tensor) or fields:
                continue
            if theirs.dtype != right.dtype:
                fields |= {"entry": name, "dtype": theirs.dtype, "want_dtype": right.dtype}
            gap = (theirs.double() - right.double()).abs().nan_to_num(nan=math.inf).flatten()
            if gap.max() > 0.01 * right.double().abs().max() + 1e-3:
                at = int(gap.argmax())
                fields |= {"entry": name, "value": theirs.flatten()[at].item(),
                           "want_value": right.flatten()[at].item()}  # fmt: skip
    return fields


average_checkpoints = Exercise(
    "average_checkpoints",
    probe_average,
    cases_average,
    hints=(
        "Load each file and add up. In which dtype is there room for a sum of numbers that are themselves close to "
        "their dtype's limit?",
        "A mean of counters is no counter. Which entries have no mean, and from which file are they taken?",
        "After the division an entry goes back to the dtype it has in the files. `tensor.is_floating_point()` tells "
        "the two kinds apart.",
    ),
    any_device=False,
    quotes=quotes_average,
)

# --- trace_differs -----------------------------------------------------------------------------------------------


def sign_decides(x: Tensor) -> Tensor:
    if x.sum() > 0:
        return x * 2
    return x - 1


def length_decides(x: Tensor) -> Tensor:
    if x.shape[0] > 3:
        return x.mean(0)
    return x.sum(0)


def adds_rows(x: Tensor) -> Tensor:
    total = torch.zeros(x.shape[1])
    for i in range(x.shape[0]):
        total = total * 0.5 + x[i]
    return total


def no_branch(x: Tensor) -> Tensor:
    return torch.where(x > 0, x * 2, x - 1) / x.shape[1]


def branch_alike(x: Tensor) -> Tensor:
    if x.sum() > 0:
        return x.abs()
    return torch.maximum(x, -x)


def picks_larger(x: Tensor) -> Tensor:
    return sorted([x - 1, x * 2], key=lambda t: float(t.sum()))[-1]


def scales_by_width(x: Tensor) -> Tensor:
    scaled: Tensor = x * (x.shape[1] ** -0.5)
    return scaled


def swaps_columns(x: Tensor) -> Tensor:
    if x.sum() > 0:
        return torch.cat([x[:, 1:2], x[:, :1], x[:, 2:]], 1)
    return x + 0


def doubles_a_column(x: Tensor) -> Tensor:
    if x.sum() > 0:
        return torch.cat([x[:, :1] * 2, x[:, 1:]], 1)
    return x + 0


FUNCTIONS = {
    "a branch on the sum": sign_decides, "a branch on the length": length_decides, "a loop over the rows": adds_rows,
    "no branch": no_branch, "branches that agree": branch_alike,
    "a choice in plain Python": picks_larger, "a factor made of the width": scales_by_width,
    "a branch that swaps two columns": swaps_columns, "a branch that doubles a column": doubles_a_column,
}  # fmt: skip


def noting(fn: Callable[[Tensor], Tensor], inputs: list[Any]) -> Callable[[Tensor], Tensor]:
    """The function, and each input its Python ran on. To a script it is the function itself, by `wraps`."""

    @functools.wraps(fn)
    def noted(x: Tensor) -> Tensor:
        inputs.append(x)  # looked at later: while a trace is made, a look would be recorded
        return fn(x)

    return noted


def among(inputs: list[Any], named: dict[str, Tensor]) -> list[str]:
    """The names of those tensors whose values are among the inputs; what only stands for a tensor is none of them."""
    plain = [x for x in inputs if type(x) is Tensor]
    return [
        name for name, tensor in named.items()
        if any(x.shape == tensor.shape and torch.equal(x.detach().to(tensor.dtype), tensor) for x in plain)
    ]  # fmt: skip


def probe_trace(answer: Watched, function: str, example: Tensor, other: Tensor) -> Observations:
    answer.watching = False
    before, inputs = {"example": example.clone(), "other": other.clone()}, list[Any]()
    found = answer(noting(FUNCTIONS[function], inputs), example, other)
    seen: Observations = {"other afterwards": "as before" if torch.equal(other, before["other"]) else "changed"}
    seen["fn was run on"] = " and ".join(among(inputs, before)) or "neither input"
    if isinstance(found, bool):
        return {**seen, "differs": found}
    return {**seen, "returned": "a bool of NumPy" if type(found).__module__ == "numpy" else kind(found)}


def cases_trace(draw: Draw) -> list[Case]:
    n, d = draw.size(2, 3), draw.size(3, 4)
    high, low, more = draw.uniform(0.1, 2.0, n, d), -draw.uniform(0.1, 2.0, n, d), draw.uniform(0.1, 2.0, n + 2, d)
    return [
        case("the other side of a branch", function="a branch on the sum", example=high, other=low),
        case("the same side of a branch", function="a branch on the sum", example=high, other=high + 1),
        case("a longer input, a branch on its length", function="a branch on the length", example=high, other=more),
        case("a longer input, a loop over it", function="a loop over the rows", example=high, other=more),
        case("no branch at all", function="no branch", example=high, other=low),
        case("two branches that give the same", function="branches that agree", example=high, other=low),
        case("a choice by sorting", function="a choice in plain Python", example=high + 2, other=low - 2),
        case("nothing but rounding", function="a factor made of the width", example=draw.uniform(0.1, 2.0, 2, 6),
             other=draw.uniform(0.1, 2.0, 4, 6)),
        case("two columns swapped", function="a branch that swaps two columns", example=high, other=low),
        case("one column doubled", function="a branch that doubles a column", example=high, other=low),
    ]  # fmt: skip


def quotes_trace(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields = {"function": inputs["function"], "found": seen.get("differs"), "meant": wanted.get("differs")}
    fields |= {"returned": seen.get("returned"), "ran_on": seen.get("fn was run on")}
    return {name: value for name, value in fields.items() if value is not None}


trace_differs = Exercise(
    "trace_differs",
    probe_trace,
    cases_trace,
    hints=(
        "`torch.jit.trace` runs the function once on the example and writes down the operations. Which input do you "
        "have to try then, to see what it did not write down?",
        "Two results are to be compared, and both come from `other`: one from the trace and one from whom?",
        "`torch.allclose` compares with a tolerance. The answer is a Python bool, and True means that they disagree.",
    ),
    any_device=False,
    quotes=quotes_trace,
)

EXERCISES = (
    save_weights, load_weights, unsafe_globals, strip_prefixes, load_matching, Checkpointer, to_safetensors, EMA,
    average_checkpoints, max_difference, export_program, export_onnx, trace_differs,
)  # fmt: skip
