"""The exercise `capture`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations, Raised
from torchcourse.probes.diagnosed_models import hooks
from torchcourse.probes.models import model
from torchcourse.probes.modules import fill_in_order
from torchcourse.probes.observe import kept, kind, refusal


def probe(
    answer: Watched, which: str, width: int, names: list[str], x: Tensor, refused: str, modes: str, others: list[str]
) -> Observations:
    """Observe what was captured, how often the model ran, and how many hooks were left behind, also after an error.

    Args:
        others: the submodules that have a hook already.
    """
    net = model(which, width).eval().to(x.dtype)
    fill_in_order(list(net.parameters()))
    if modes == "the model in training":
        net.train()
        net.get_submodule("act").eval()
    runs: list[int] = []
    net.register_forward_hook(lambda *_: runs.append(1), always_call=True)
    for name in others:
        net.get_submodule(name).register_forward_hook(lambda *_: None)
    before, raw, training = hooks(net), x.clone(), [m.training for m in net.modules()]
    if refused:
        return {**refusal(lambda: answer(net, names, x), "", [refused]), "hooks left": hooks(net) - before}
    try:
        found = answer(net, names, x)
    except RuntimeError as error:
        return {"forward raised": Raised("RuntimeError", str(error)[:200]), "hooks left": hooks(net) - before}
    seen: Observations = {"hooks left": hooks(net) - before, "model(x) ran": len(runs), **kept(x=(x, raw))}
    seen["modes"] = "as before" if [m.training for m in net.modules()] == training else "changed"
    if not isinstance(found, dict):
        return {**seen, "returned": kind(found)}
    tensors = {n: t for n, t in found.items() if isinstance(t, Tensor)}
    x.sub_(5)  # a view of x, or x itself, would change
    seen |= {"names": sorted(map(str, found)), "no tensors": sorted(str(n) for n in found if n not in tensors)}
    seen |= {f"output of {n}": t for n, t in sorted(tensors.items())}
    return {**seen, "part of a graph": sorted(n for n, t in tensors.items() if t.requires_grad)}


def cases(draw: Draw) -> list[Case]:
    w, n = draw.size(3, 4), draw.size(2, 3)
    common: dict[str, Any] = {"width": w, "refused": "", "modes": "", "others": []}
    return [
        case("a layer and the head", which="tower", names=["pre_encoder", "head"], x=draw.normal(n, w), **common),
        case("a layer inside of a submodule", which="tower", names=["encoder.0"], x=draw.normal(n, w), **common),
        case("an in-place relu follows", which="tower", names=["encoder2", "encoder.1"], x=draw.normal(n, w), **common),
        case("a layer that returns its input", which="tower", names=["pass_on"], x=draw.normal(n, w), **common),
        case("no names", which="tower", names=[], x=draw.normal(n, w), **common),
        case("the second layer raises", which="breaking", names=["first", "second"], x=draw.normal(n, w), **common),
        case("a submodule that holds others", which="tower", names=["encoder"], x=draw.normal(n, w), **common),
        case("the model in training", which="tower", names=["head"], x=draw.normal(n, w),
             **common | {"modes": "the model in training"}),
        case("a model of float64", which="tower", names=["head"], x=draw.normal(n, w, dtype=torch.float64), **common),
        case("somebody else's hook", which="tower", names=["head"], x=draw.normal(n, w),
             **common | {"others": ["head"]}),
        case("an unknown name", which="tower", names=["decoder"], x=draw.normal(n, w),
             **common | {"refused": "decoder"}),
        case("a part of a name", which="tower", names=["enc"], x=draw.normal(n, w), **common | {"refused": "enc"}),
        case("one known, one unknown", which="tower", names=["head", "encoder.9"], x=draw.normal(n, w),
             **common | {"refused": "encoder.9"}),
    ]  # fmt: skip


def quotes(_inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    fields = {"left": "hooks left", "graph": "part of a graph", "refused": "refused with", "runs": "model(x) ran"}
    quoted: dict[str, object] = {field: seen[name] for field, name in fields.items() if name in seen}
    return {field: value for field, value in quoted.items() if value not in ([], None)}


EXERCISE = Exercise(
    "capture",
    probe,
    cases,
    hints=(
        "`register_forward_hook` returns a handle. What is it for, and which block of Python runs whether or not an "
        "exception came?",
        "A hook gets the module, its inputs and its output. How does it know under which name to store it, if the same "
        "function serves several modules? A loop variable in a lambda is a trap.",
        "`detach()` leaves the graph, but shares memory. What must happen as well so that a later in-place relu does "
        "not show?",
    ),
    any_device=False,
    quotes=quotes,
)
