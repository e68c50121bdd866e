"""The exercise `load_matching`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import kind, where
from torchcourse.probes.resumable_training import equal_nested
from torchcourse.probes.savable_models import copy_of, filled, savable, values


def probe(
    answer: Watched, which: str, width: int, fill: float, drop: list[str], add: dict[str, Tensor], x: Tensor, cpu: bool,
    half: bool = False,
) -> Observations:  # fmt: skip
    """Load a state without the entries `drop` and with those of `add`, then train on and see what is shared."""
    net = savable(which, width, fill + 0.4, x.device)
    source = savable(which, width, fill, torch.device("cpu") if cpu else x.device)
    source = source.half() if half else source
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
        "state afterwards": "as before" if state.keys() == before.keys() and equal_nested(state, before) else "changed",
    }
    filled(net, 0.15)  # the model trains on, and the state should not change with it
    seen["entries of state that go on with the model"] = [
        n for n, t in state.items() if not equal_nested(t, before.get(n))
    ]
    if not (isinstance(returned, tuple | list) and len(returned) == 2):
        return {**seen, "returned": kind(returned)}
    loaded, skipped = (list(names) if isinstance(names, list | tuple) else kind(names) for names in returned)
    return {"loaded": loaded, "skipped": skipped, **seen}


def cases(draw: Draw) -> list[Case]:
    w, fill = draw.size(3, 5), draw.size(1, 5) / 10
    common: dict[str, Any] = {"which": "normed", "width": w, "fill": fill, "drop": [], "add": {}, "x": torch.zeros(1),
                              "cpu": False}  # fmt: skip
    other_head = {"3.weight": draw.normal(5, w + 1), "3.bias": draw.normal(5)}
    return [
        case("all of it fits", **common),
        case("another head", **{**common, "add": other_head}),
        case("names that the model does not have", **{**common, "add": {"head.weight": draw.normal(2, 3)}}),
        case("a state in half precision", **common, half=True),
        case("some names are missing", **{**common, "drop": ["0.weight", "1.running_var"]}),
        case("a row where a table is wanted", **{**common, "add": {"3.weight": draw.normal(1, w + 1)}}),
        case("as many numbers in another shape", **{**common, "add": {"0.weight": draw.normal(w, w + 1)}}),
        case("weights tied, the state on the CPU", **{**common, "which": "tied", "cpu": True}),
        case("half of it frozen", **{**common, "which": "frozen", "add": {"head.bias": draw.normal(7)}}),
    ]


def quotes(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"loaded": seen.get("loaded"), "skipped": seen.get("skipped")}
    fields |= {"want_loaded": wanted.get("loaded"), "want_skipped": wanted.get("skipped")}
    replaced = seen.get("parameters replaced")
    if isinstance(seen.get("weights"), dict) and isinstance(wanted.get("weights"), dict):
        now = seen["weights"]
        wrong = [n for n, t in wanted["weights"].items() if not equal_nested(now.get(n), t)]
        fields |= {"entry": wrong[0]} if wrong else {}
        cast = [n for n, t in wanted["weights"].items() if isinstance(now.get(n), Tensor) and now[n].dtype != t.dtype]
        fields |= {"cast": cast[0], "dtype": now[cast[0]].dtype} if cast else {}
    both = {"extra": (seen, wanted), "lost": (wanted, seen)}
    for field, (one, other) in both.items():
        names = [n for n in one.get("skipped") or [] if n not in (other.get("skipped") or [])]
        fields |= {field: names[0]} if names else {}
    fields |= {"replaced": replaced[0]} if replaced else {}
    shared = seen.get("entries of state that go on with the model")
    fields |= {"shared": shared[0]} if shared else {}
    return {name: value for name, value in fields.items() if value is not None}


EXERCISE = Exercise(
    "load_matching",
    probe,
    cases,
    hints=(
        "`load_state_dict(strict=False)` forgives names, but never shapes. Which two questions do you have to ask "
        "about each entry yourself?",
        "The tensors in `model.state_dict()` share memory with it. Which in-place method writes into one of them "
        "from any device and dtype?",
        "`copy_` broadcasts: a row fits into a table. So compare shapes, not numbers of elements, and do not wait for "
        "an exception. Entries that only the model has belong in neither list.",
    ),
    quotes=quotes,
)
