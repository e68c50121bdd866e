"""The exercise `strip_prefixes`: its probe, visible cases and hints."""

from __future__ import annotations

from collections import OrderedDict

import torch

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import kind
from torchcourse.probes.savable_models import values


def probe(answer: Watched, names: list[str]) -> Observations:
    """Strip a state of these names, whose tensors hold their places."""
    state = OrderedDict((name, torch.tensor(float(place))) for place, name in enumerate(names))
    held = list(state.values())
    result = answer(state)
    kept = list(state) == names and all(float(v) == n for n, v in enumerate(state.values()))
    seen: Observations = {"input afterwards": "as before" if kept else "changed"}
    if not isinstance(result, dict):
        return {**seen, "returned": kind(result)}
    return {**seen, "names": sorted(map(str, result)), "values": values(result), "a new dict": result is not state,
            "tensors": "the same ones" if {*map(id, result.values())} <= {*map(id, held)} else "copies"}  # fmt: skip


def cases(draw: Draw) -> list[Case]:
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


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    if "names" not in seen or "names" not in wanted:
        return {}
    wrong = [n or "''" for n in seen["names"] if n not in wanted["names"]]
    meant = [n or "''" for n in wanted["names"] if n not in seen["names"]]
    fields: dict[str, object] = {"afterwards": seen["input afterwards"], "new": seen["a new dict"]}
    return {**fields, "count": len(seen["names"]), "want_count": len(wanted["names"]), "first": inputs["names"][0],
            **({"name": wrong[0]} if wrong else {}), **({"meant": meant[0]} if meant else {})}  # fmt: skip


EXERCISE = Exercise(
    "strip_prefixes",
    probe,
    cases,
    hints=(
        "A name may begin with one prefix, and what is left with the other, and so on. When is it time to stop?",
        "`str.replace` looks everywhere in a name. Which methods of a string ask how it begins and take off just that?",
        "The prefixes end in a dot, and the dot matters: `modules.0.weight` begins with the same letters and is a name "
        "in its own right. Build a new dict on the way.",
    ),
    any_device=False,
    quotes=quotes,
)
