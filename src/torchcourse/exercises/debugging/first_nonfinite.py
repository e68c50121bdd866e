"""The exercise `first_nonfinite`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations, Raised
from torchcourse.probes.diagnosed_models import count_of_hooks, expecting, hooks, left_hooks, modes, modes_now
from torchcourse.probes.observe import kept, kind
from torchcourse.probes.winding_models import BREAKS, winding


def probe(answer: Watched, x: Tensor, seed: int, flaws: dict[str, str], again: bool, breaks: bool) -> Observations:
    """Observe the name, the hooks left behind, and whether the model's own exception arrives."""
    model = overflowing_leaf(x) if "" in flaws else half_trained(x, seed, flaws, again, breaks)
    runs: list[int] = []
    model.register_forward_pre_hook(lambda *_: runs.append(1))
    before, hooked, raw = modes(model), hooks(model), x.clone()
    found = expecting(lambda: answer(model, x), BREAKS)
    named = found if found is None or isinstance(found, str | Raised) else kind(found)
    return {
        "first": "None" if named is None else named,
        "the model ran": "more than once" if len(runs) > 1 else "once",
        "hooks left": left_hooks(hooks(model) - hooked),
        **modes_now(before, model),
        **kept(x=(x, raw)),
    }


def half_trained(x: Tensor, seed: int, flaws: dict[str, str], again: bool, breaks: bool) -> nn.Module:
    """Return a model with these flaws, whose encoder is in evaluation mode."""
    model = winding(x.shape[1], seed, flaws, x, again=again)
    model.breaks = breaks
    model.encoder.eval()
    return model


def overflowing_leaf(x: Tensor) -> nn.Module:
    """Return a model without submodules that puts out infinity."""
    model = nn.Linear(x.shape[1], 2).to(x)
    nn.init.constant_(model.bias, torch.inf)
    return model


def cases(draw: Draw) -> list[Case]:
    def drawn(again: bool = False, breaks: bool = False, **flaws: str) -> dict[str, Any]:
        x = draw.normal(draw.size(2, 4), draw.size(3, 5))
        named = {name.replace("_", "."): flaw for name, flaw in flaws.items()}
        return {"x": x, "seed": draw.size(0, 9999), "flaws": named, "again": again, "breaks": breaks}

    nan_in_x = drawn()
    nan_in_x["x"][0, 0] = torch.nan
    return [
        case("nothing wrong", **drawn()),
        case("NaN in the encoder", **drawn(encoder_1_0="nan")),
        case("infinity, which tanh hides again", **drawn(decoder_block_first="inf")),
        case("minus infinity in the head, NaN in the spare part", **drawn(head="-inf", spare="nan")),
        case("infinity, and later NaN", **drawn(encoder_1_1="-inf", head="nan")),
        case("infinity in two layers of the encoder", **drawn(encoder_0="inf", encoder_1_0="-inf")),
        case("inside a dict and a list", **drawn(encoder_0="inf extra", head="nan")),
        case("in a layer's second call", **drawn(True, encoder_0="nan main 1", head="nan")),
        case("NaN by a container's own arithmetic", **drawn(decoder_block="nan")),
        case("NaN in the input", **nan_in_x),
        case("a model that is a leaf itself", **drawn() | {"flaws": {"": "inf"}}),
        case("forward raises later", **drawn(breaks=True, encoder_0="nan")),
        case("float64", **drawn(decoder_block_second="nan") | {"x": draw.normal(3, 4, dtype=torch.float64)}),
        case("huge numbers", **drawn(head="huge")),
    ]


def quotes(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    return {
        "found": seen.get("first") or "an empty name",
        "right": wanted.get("first"),
        "left": count_of_hooks(seen),
    }


EXERCISE = Exercise(
    "first_nonfinite",
    probe,
    cases,
    hints=(
        "A forward hook runs when its module is done, so the order in which hooks run is the order of execution. "
        "Which modules are leaves, and how do you ask a module for its children?",
        "Each hook has to know the name of its module, and whether another one has found something already. What does "
        "`isfinite` say that `isnan` does not?",
        "`register_forward_hook` returns a handle. In which block do you remove all of them, so that it happens even "
        "if the model raises, and the exception still goes on to the caller?",
    ),
    quotes=quotes,
)
