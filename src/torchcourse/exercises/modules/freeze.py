"""The exercise `freeze`: its probe, visible cases and hints."""

from __future__ import annotations

import torch

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.models import model
from torchcourse.probes.observe import refusal


def probe(answer: Watched, which: str, width: int, prefix: str, refused: bool) -> Observations:
    """Observe the names returned, or how the prefix is refused, and what is frozen and unchanged afterwards."""
    net = model(which, width)
    before = {n: p.detach().clone() for n, p in net.named_parameters()}
    held = {n: id(p) for n, p in net.named_parameters()}
    seen = refusal(lambda: answer(net, prefix), "prefix", [prefix]) if refused else {"returned": answer(net, prefix)}
    frozen = sorted(n for n, p in net.named_parameters() if not p.requires_grad)
    return {
        **seen,
        "frozen": frozen,
        "same objects": {n: id(p) for n, p in net.named_parameters()} == held,
        "values": "as before" if all(torch.equal(p, before[n]) for n, p in net.named_parameters()) else "changed",
    }


def cases(draw: Draw) -> list[Case]:
    w = draw.size(3, 5)
    return [
        case("a submodule", which="tower", width=w, prefix="encoder", refused=False),
        case("one of twelve layers", which="stack", width=w, prefix="layers.1", refused=False),
        case("a submodule of a submodule", which="tower", width=w, prefix="encoder.1", refused=False),
        case("a single parameter", which="tower", width=w, prefix="head.weight", refused=False),
        case("a parameter of the model itself", which="loose", width=w, prefix="table", refused=False),
        case("the whole list of layers", which="stack", width=w, prefix="layers", refused=False),
        case("one that is frozen already", which="frozen", width=w, prefix="backbone", refused=False),
        case("the rest is frozen already", which="frozen", width=w, prefix="head", refused=False),
        case("a name from further inside", which="tower", width=w, prefix="weight", refused=True),
        case("a part of a name", which="tower", width=w, prefix="enc", refused=True),
        case("a name that does not exist", which="tower", width=w, prefix="decoder", refused=True),
        case("a submodule without parameters", which="tower", width=w, prefix="act", refused=True),
        case("an empty prefix", which="tower", width=w, prefix="", refused=True),
    ]


def quotes(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"refused": seen.get("refused with")}
    if "frozen" in seen and "frozen" in wanted:
        fields["count"], fields["want_count"] = len(seen["frozen"]), len(wanted["frozen"])
        extra = [n for n in seen["frozen"] if n not in wanted["frozen"]]
        fields |= {"extra": extra[0]} if extra else {}
    return fields


EXERCISE = Exercise(
    "freeze",
    probe,
    cases,
    hints=(
        "`named_parameters()` gives dotted names. When does a name belong to the submodule `encoder`: if it begins "
        "with "
        "these letters, or with these letters and something more?",
        "Which letter follows the prefix in a name inside the submodule? And a parameter's own name is a prefix too.",
        "Collect the names first. What is left to do if there are none, and what if the prefix is empty? Freezing is "
        "then one attribute of each parameter.",
    ),
    any_device=False,
    quotes=quotes,
)
