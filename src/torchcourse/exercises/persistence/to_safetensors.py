"""The exercise `to_safetensors`: its probe, visible cases and hints."""

from __future__ import annotations

from pathlib import Path

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations, Raised
from torchcourse.probes.crash_points import in_a_folder
from torchcourse.probes.savable_models import copy_of, savable, untouched, values

UNSAVABLE = {"share memory": "shared memory is refused", "non contiguous": "a layout is refused"}


@in_a_folder
def probe(answer: Watched, which: str, width: int, fill: float) -> Observations:
    """Save a model, and load the file into another."""
    from safetensors.torch import load_model

    net, path = savable(which, width, fill), Path("model.safetensors")
    flags = [m.training for m in net.modules()], [p.requires_grad for p in net.parameters()]
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
    if flags != ([m.training for m in net.modules()], [p.requires_grad for p in net.parameters()]):
        seen["model afterwards"] = "in another mode, or with other flags of requires_grad"
    fresh = savable(which, width, fill + 0.4)
    try:
        load_model(fresh, str(path))
    except Exception as error:
        return {**seen, "load_model": Raised("refused", " ".join(str(error).split())[:200], type(error).__name__)}
    return {**seen, "load_model": "works", "weights": values(fresh.state_dict())}


def cases(draw: Draw) -> list[Case]:
    w, fill = draw.size(3, 5), draw.size(1, 5) / 10
    return [
        case("a small network", which="mlp", width=w, fill=fill),
        case("with buffers", which="normed", width=w, fill=fill),
        case("weights tied", which="tied", width=w, fill=fill),
        case("one layer used twice", which="shared", width=w, fill=fill),
        case("tensors that are not contiguous", which="patterned", width=w, fill=fill),
        case("both", which="tied pattern", width=w, fill=fill),
        case("two layers with equal values", which="twins", width=w, fill=fill),
        case("in float64", rtol=1e-12, atol=1e-12, which="double", width=w, fill=fill),
    ]


def quotes(_inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"afterwards": seen.get("model afterwards")}
    for field, name in (("saving", "saving"), ("loading", "load_model")):
        outcome = seen.get(name)
        if isinstance(outcome, Raised):
            fields[field] = outcome.message.split(": [")[0].replace("{", "(").replace("}", ")").rstrip(" .")
    return {name: value for name, value in fields.items() if value is not None}


EXERCISE = Exercise(
    "to_safetensors",
    probe,
    cases,
    hints=(
        "The format stores each tensor once, in the order of its elements. Which two kinds of tensors in a "
        "`state_dict` do not fit that?",
        "`save_file` takes any dict and refuses what shares memory. The library has another function that takes the "
        "model and is the partner of `load_model`.",
        "If you do it by hand: of all names of one tensor only one may be in the file, and everything has to be "
        "contiguous. The model itself stays as it is.",
    ),
    any_device=False,
    quotes=quotes,
)
