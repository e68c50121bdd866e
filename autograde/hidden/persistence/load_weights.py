"""The exercise `load_weights`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "`map_location` brings tensors to a device that is here, `weights_only` refuses everything that is not "
    "weights, and `load_state_dict` raises where names or shapes do not match. Each of the three is a different"
    " way to go wrong unnoticed."
)
"""Why the reference is written as it is."""
REQUIRED = ("no-map-location", "unsafe-load", "ignores-missing-keys")
"""The mistakes that a check must always be able to name."""


def no_map_location(model: nn.Module, path: Path, device: str = "cpu") -> Any:
    model.load_state_dict(torch.load(path, weights_only=True))
    return model.to(device)


def unsafe_load(model: nn.Module, path: Path, device: str = "cpu") -> Any:
    model.load_state_dict(torch.load(path, map_location=device, weights_only=False))
    return model.to(device)


def ignores_missing_keys(model: nn.Module, path: Path, device: str = "cpu") -> Any:
    model.load_state_dict(torch.load(path, map_location=device, weights_only=True), strict=False)
    return model.to(device)


def ignores_unexpected_keys(model: nn.Module, path: Path, device: str = "cpu") -> Any:
    weights = torch.load(path, map_location=device, weights_only=True)
    if missing := model.load_state_dict(weights, strict=False).missing_keys:
        raise KeyError(f"missing from the file: {missing}")
    return model.to(device)


def assigns(model: nn.Module, path: Path, device: str = "cpu") -> Any:
    weights = torch.load(path, map_location=device, weights_only=True)
    model.load_state_dict(weights, assign=True)
    return model.to(device)


def skips_other_shapes(model: nn.Module, path: Path, device: str = "cpu") -> Any:
    weights, own = torch.load(path, map_location="cpu", weights_only=True), model.state_dict()
    if weights.keys() != own.keys():
        raise KeyError(sorted(weights.keys() ^ own.keys()))
    fitting = {name: tensor for name, tensor in weights.items() if tensor.shape == own[name].shape}
    model.load_state_dict(fitting, strict=False)
    return model.to(device)


def returns_the_weights(model: nn.Module, path: Path, device: str = "cpu") -> Any:
    weights = torch.load(path, map_location=device, weights_only=True)
    model.load_state_dict(weights)
    model.to(device)
    return weights


def returns_the_keys(model: nn.Module, path: Path, device: str = "cpu") -> Any:
    return model.to(device).load_state_dict(torch.load(path, map_location=device, weights_only=True))


def returns_nothing(model: nn.Module, path: Path, device: str = "cpu") -> Any:
    model.load_state_dict(torch.load(path, map_location=device, weights_only=True))
    model.to(device)


def returns_a_copy(model: nn.Module, path: Path, device: str = "cpu") -> Any:
    model.load_state_dict(torch.load(path, map_location=device, weights_only=True))
    return copy.deepcopy(model.to(device))


def never_moves(model: nn.Module, path: Path, device: str = "cpu") -> Any:
    model.load_state_dict(torch.load(path, map_location=device, weights_only=True))
    return model


def calls_eval(model: nn.Module, path: Path, device: str = "cpu") -> Any:
    model.load_state_dict(torch.load(path, map_location=device, weights_only=True))
    return model.to(device).eval()


def calls_train(model: nn.Module, path: Path, device: str = "cpu") -> Any:
    model.load_state_dict(torch.load(path, map_location=device, weights_only=True))
    return model.to(device).train()


def hides_the_names(model: nn.Module, path: Path, device: str = "cpu") -> nn.Module:
    try:
        model.load_state_dict(torch.load(path, map_location=device, weights_only=True))
    except RuntimeError:
        raise ValueError("the weights do not fit the model") from None
    return model.to(device)


def loads_parameters_only(model: nn.Module, path: Path, device: str = "cpu") -> nn.Module:
    weights = torch.load(path, map_location=device, weights_only=True)
    for name, parameter in model.named_parameters():
        parameter.data = weights[name]
    return model.to(device)


LOADING = "Loading: what, where, and in which mode"
MODE = (
    "After loading, the model is in {its_mode} mode, which it was not in before: loading brings numbers, and the "
    "mode is the caller's choice."
)
RETURNED = "The call returned {returned}. The model itself should come back, so that it can be used at once."
MISTAKES = [
    Mistake("no-map-location", no_map_location, "Loading a file that was saved on another machine's GPU ended with "
            "this: {message}. Without map_location every tensor wants to go back to where it was.", LOADING),
    Mistake("unsafe-load", unsafe_load, "The file held a pickled call, which {code} while loading: with "
            "weights_only=False whoever wrote the file decides what happens on your machine.", LOADING),
    Mistake("ignores-missing-keys", ignores_missing_keys, "The entry {entry} did not fit, and nobody was told: the "
            "outcome was {refused}. With strict=False, or a loop of your own, a half-loaded model looks like a "
            "loaded one.", LOADING),
    Mistake("ignores-unexpected-keys", ignores_unexpected_keys, "The file had an entry too many, {entry}, and the "
            "outcome was {refused}. An entry without a place in the model may be a sign of the wrong file.", LOADING),
    Mistake("skips-other-shapes", skips_other_shapes, "The entry {entry} of the file had a different shape from the "
            "model's, and the outcome was {refused}. What does not fit has to be an error, or part of the model "
            "stays random.",
            LOADING),
    Mistake("assigns", assigns, "After loading, weights that were tied are {tied}: `assign=True` puts new parameters "
            "into the model, one under each name, and they no longer learn together.", LOADING),
    Mistake("calls-eval", calls_eval, MODE, LOADING),
    Mistake("calls-train", calls_train, MODE, LOADING),
    Mistake("not-moved", never_moves, "The weights live on {lives} after loading: load_state_dict copies into the "
            "model where it is, and moves nothing.", LOADING),
    Mistake("returns-something-else", returns_a_copy, RETURNED, LOADING),
    Mistake("returns-something-else", returns_nothing, RETURNED, LOADING),
    Mistake("returns-something-else", returns_the_keys, RETURNED, LOADING),
    Mistake("returns-something-else", returns_the_weights, RETURNED, LOADING),
    Mistake("forgets-buffers", loads_parameters_only, "The entry {unfilled} is not what the file holds: buffers, "
            "such as the statistics of a batch norm, are not parameters; `load_state_dict` fills both, and complains "
            "about both.", LOADING),
    Mistake("hides-the-names", hides_the_names, 'The exception said "{message}", but not which entry: without the '
            "name {entry} nobody can mend it.", LOADING),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
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


# Right answers unlike the reference


def load_first_to_the_cpu(model: nn.Module, path: Path, device: str = "cpu") -> nn.Module:
    model.to(device)
    state = torch.load(path, map_location="cpu", weights_only=True)
    result = model.load_state_dict(state, strict=False)
    if result.missing_keys or result.unexpected_keys:
        raise KeyError(f"missing: {result.missing_keys}, unexpected: {result.unexpected_keys}")
    return model


def load_by_hand(model: nn.Module, path: Path, device: str = "cpu") -> nn.Module:
    with open(path, "rb") as file:
        state = torch.load(file, map_location=lambda storage, place: storage, weights_only=True)
    own = model.state_dict()
    odd = sorted(own.keys() ^ state.keys())
    if odd:
        raise ValueError("these do not fit: " + ", ".join(odd))
    for name, tensor in own.items():
        tensor.copy_(state[name])
    return model.to(torch.device(device))


RIGHT_ANSWERS: list[Callable[..., Any]] = [load_first_to_the_cpu, load_by_hand]
