"""The exercise `load_weights`: its probe, visible cases and hints."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, Unattempted, case
from torchcourse.model.observations import Observations, Raised
from torchcourse.probes.crash_points import in_a_folder, tagged
from torchcourse.probes.observe import kind
from torchcourse.probes.resumable_training import equal_nested
from torchcourse.probes.savable_models import Copies, baited, savable, values
from torchcourse.probes.trainable_models import mode

NOWHERE = "cuda:63"
"""A device that no machine has: what a file says that was written elsewhere."""
NO_DEVICE = ("Attempting to deserialize", "don't know how to restore data location", "torch.cuda.is_available")


def written(which: str, width: int, fill: float, problem: str, name: str) -> Path:
    """Write a file of weights with a `problem`; `name` is the entry that is missing from it or superfluous in it."""
    path = Path("weights.pt")
    state: dict[str, Any] = dict(savable(which, width, fill).state_dict())
    if problem == "missing":
        del state[name]
    elif problem == "unexpected":
        state[name] = torch.ones(2)
    elif problem == "shape":
        state[name] = state[name].repeat(2, *[1] * (state[name].ndim - 1))
    elif problem == "code":
        state[name] = Copies()
    with tagged(NOWHERE) if problem == "elsewhere" else contextlib.nullcontext():
        torch.save(state, path)
    return path


@in_a_folder
def probe(
    answer: Watched, which: str, width: int, fill: float, x: Tensor, problem: str, entry: str, given: bool, train: bool
) -> Observations:
    """Load a file that may have a `problem`: an entry too few, too many or of another shape, code, or a device that
    is not here."""
    path = written(which, width, fill, problem, entry)
    net = savable(which, width, fill + 0.4, torch.device("cpu") if given else x.device).train(train)
    before = len(list(net.parameters()))
    arguments = (net, path, str(x.device)) if given else (net, path)
    with baited() as was_run:
        try:
            returned = answer(*arguments)
        except Unattempted:
            raise
        except Exception as error:
            return {**_not_loaded(error, problem, entry), "code in the file": was_run()}
    if problem in ("missing", "unexpected", "shape", "code"):
        return {"refused": f"no exception but {kind(returned)}", "code in the file": was_run()}
    home = x.device if given else torch.device("cpu")
    places = {"the device asked for" if t.device == home else str(t.device) for t in net.state_dict().values()}
    return {
        "returned": "the model" if returned is net else kind(returned),
        "weights": values(net.state_dict()),
        "they live on": sorted(places),
        "tied weights": "as before" if len(list(net.parameters())) == before else "not tied any more",
        "mode": mode(net),
        "code in the file": was_run(),
    }


def _not_loaded(error: Exception, problem: str, entry: str) -> Observations:
    message = str(error)
    if problem in ("code", "shape"):
        return {"refused": "with an exception"}
    if problem in ("missing", "unexpected"):
        named = "names it" if entry in message else "does not name it"
        return {"refused": Raised("an exception", message.strip().replace("\n", " ")[:200], named)}
    if any(words in message for words in NO_DEVICE):
        return {"refused": Raised("RuntimeError", message.split(". ")[0][:200], "no such device here")}
    raise error


def cases(draw: Draw) -> list[Case]:
    w, fill = draw.size(3, 5), draw.size(1, 5) / 10
    common: dict[str, Any] = {
        "which": "normed", "width": w, "fill": fill, "x": torch.zeros(1), "problem": "", "entry": "", "given": True,
        "train": False,
    }  # fmt: skip
    return [
        case("weights, in eval mode", **common),
        case("weights tied, in training mode", **{**common, "which": "tied", "train": True}),
        case("no device given", **{**common, "given": False}),
        case(f"a file that was saved on {NOWHERE}", **{**common, "problem": "elsewhere"}),
        case("an entry is missing", **{**common, "problem": "missing", "entry": draw.pick(["0.bias", "3.weight"])}),
        case("one entry too many", **{**common, "problem": "unexpected", "entry": draw.pick(["head.bias", "4.scale"])}),
        case("an entry of another shape", **{**common, "problem": "shape", "entry": draw.pick(["0.bias", "3.weight"])}),
        case("a file with code in it", **{**common, "problem": "code", "entry": "note"}),
    ]


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    refused = seen.get("refused")
    fields: dict[str, object] = {"entry": inputs["entry"], "refused": refused, "its_mode": seen.get("mode")}
    fields |= {"message": refused.message} if isinstance(refused, Raised) else {}
    fields |= {"code": seen.get("code in the file"), "lives": seen.get("they live on")}
    fields |= {"tied": seen.get("tied weights")}
    if isinstance(seen.get("weights"), dict) and isinstance(wanted.get("weights"), dict):
        other = [n for n, t in wanted["weights"].items() if not equal_nested(seen["weights"].get(n), t)]
        fields |= {"unfilled": other[0]} if other else {}
    return {**fields, "returned": seen.get("returned")}


EXERCISE = Exercise(
    "load_weights",
    probe,
    cases,
    hints=(
        "A file remembers on which device each tensor was. Which argument of `torch.load` says where they go instead, "
        "on a machine that has no such device?",
        "Loading with `weights_only=True` reads tensors and refuses code. Which argument of `load_state_dict`, left "
        "as it is, makes it name all the keys that do not fit?",
        "Loading fills the model where it lives: it is not moved by that. What moves it and returns it? Neither `eval` "
        "nor `train` is asked for.",
    ),
    quotes=quotes,
    imports=("torch.distributed.tensor",),
)
