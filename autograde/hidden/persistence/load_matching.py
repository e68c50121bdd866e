"""The exercise `load_matching`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from autograde.hidden.common import one
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "Names and shapes have to agree; `strict=False` forgives a missing name but not a shape. Copying into the model's "
    "own tensors keeps device, dtype and what an optimizer refers to. The rest is reported, so that nobody believes "
    "that more was loaded than was."
)
"""Why the reference is written as it is."""
REQUIRED = ("crashes-on-shape", "rebinds-parameter")
"""The mistakes that a check must always be able to name."""


State = dict[str, Tensor]


class Match:
    """A right answer, as an object that is called. Most mistakes below are this one with one method written
    otherwise."""

    def __call__(self, model: nn.Module, state: State) -> Any:
        own = self.entries(model)
        loaded = [name for name, tensor in state.items() if name in own and self.fits(own[name], tensor)]
        for name in loaded:
            self.write(model, name, own[name], state[name])
        return self.lists(loaded, [name for name in state if name not in loaded], own)

    def entries(self, model: nn.Module) -> State:
        state: State = model.state_dict()
        return state

    def fits(self, own: Tensor, tensor: Tensor) -> bool:
        return own.shape == tensor.shape

    def write(self, model: nn.Module, name: str, own: Tensor, tensor: Tensor) -> None:
        with torch.no_grad():
            own.copy_(tensor)

    def lists(self, loaded: list[str], skipped: list[str], own: State) -> Any:
        return sorted(loaded), sorted(skipped)


def crashes_on_shape(model: nn.Module, state: State) -> Any:
    keys = model.load_state_dict(state, strict=False)
    return sorted(set(state) - set(keys.unexpected_keys)), sorted(keys.unexpected_keys)


class Rebinds(Match):
    def write(self, model: nn.Module, name: str, own: Tensor, tensor: Tensor) -> None:
        place, _, last = name.rpartition(".")
        owner, value = model.get_submodule(place), tensor.clone().to(own.device)
        setattr(owner, last, nn.Parameter(value) if last in owner._parameters else value)


def assigns(model: nn.Module, state: State) -> Any:
    own = model.state_dict()
    fitting = {n: t.to(own[n].device) for n, t in state.items() if n in own and own[n].shape == t.shape}
    model.load_state_dict(fitting, strict=False, assign=True)
    return sorted(fitting), sorted(state.keys() - fitting.keys())


class SkipsBuffers(Match):
    def entries(self, model: nn.Module) -> State:
        return dict(model.named_parameters(remove_duplicate=False))


class SkipsSecondNames(Match):
    def entries(self, model: nn.Module) -> State:
        return dict(model.named_parameters()) | dict(model.named_buffers())


class SkipsBuffersAndSecondNames(Match):
    def entries(self, model: nn.Module) -> State:
        return dict(model.named_parameters())


class ListsWhatTheModelHas(Match):
    def lists(self, loaded: list[str], skipped: list[str], own: State) -> Any:
        return sorted(loaded), sorted({*skipped, *own} - {*loaded})


class ComparesNumbersOfElements(Match):
    def fits(self, own: Tensor, tensor: Tensor) -> bool:
        return own.numel() == tensor.numel()

    def write(self, model: nn.Module, name: str, own: Tensor, tensor: Tensor) -> None:
        super().write(model, name, own, tensor.reshape(own.shape))


class Broadcasts(Match):
    def fits(self, own: Tensor, tensor: Tensor) -> bool:
        try:
            return tensor.expand(own.shape).shape == own.shape
        except RuntimeError:
            return False


class NeverSorts(Match):
    def lists(self, loaded: list[str], skipped: list[str], own: State) -> Any:
        return loaded, skipped


class SwapsTheLists(Match):
    def lists(self, loaded: list[str], skipped: list[str], own: State) -> Any:
        return sorted(skipped), sorted(loaded)


class CopiesNothing(Match):
    def write(self, model: nn.Module, name: str, own: Tensor, tensor: Tensor) -> None:
        pass


def hands_over(model: nn.Module, state: State, remove_duplicate: bool = True) -> Any:
    own = dict(model.named_parameters(remove_duplicate=remove_duplicate)) | dict(model.named_buffers())
    loaded = [name for name in state if name in own and own[name].shape == state[name].shape]
    for name in loaded:
        own[name].data = state[name]
    return sorted(loaded), sorted(state.keys() - set(loaded))


def takes_the_dtype_over(model: nn.Module, state: State) -> Any:
    own = model.state_dict(keep_vars=True)
    loaded = [name for name in state if name in own and own[name].shape == state[name].shape]
    for name in loaded:
        own[name].data = state[name].to(own[name].device, copy=True)
    return sorted(loaded), sorted(state.keys() - set(loaded))


def lists_missing_keys(model: nn.Module, state: State) -> Any:
    own = model.state_dict()
    fitting = {n: t for n, t in state.items() if n in own and own[n].shape == t.shape}
    return sorted(fitting), sorted(model.load_state_dict(fitting, strict=False).missing_keys)


def deletes_what_does_not_fit(model: nn.Module, state: State) -> Any:
    loaded, skipped = Match()(model, state)
    for name in skipped:
        del state[name]
    return loaded, skipped


NAMES = "Names that do not fit"
REBOUND = (
    "The parameter {replaced} is another object afterwards: an optimizer that was made before goes on training the old "
    "one, which nobody uses any more."
)
SHARED = (
    "When the model was trained after the call, `state` changed along with it: `.data = ` and `assign=True` hand "
    "over the tensor {shared} itself. Copy its numbers instead."
)
LISTS = 'In the case "{case}" `{what}` is {got} where {want} is wanted: '
MISTAKES = [
    one("crashes-on-shape", crashes_on_shape, 'In the case "{case}" the call raised "{error}": strict=False forgives '
        'names that do not fit, but never a shape.', NAMES),
    one("rebinds-parameter", Rebinds(), REBOUND, NAMES),
    one("skips-the-buffers", SkipsBuffers(), LISTS + "buffers are entries just as parameters are.", NAMES),
    one("skips-second-names", SkipsSecondNames(), LISTS + "a tied tensor has two names in the state, but "
        "`named_parameters()` gives it only once.", NAMES),
    one("skips-the-buffers", SkipsBuffersAndSecondNames(), LISTS + "buffers are entries just as parameters are, and "
        "so is a tied tensor under its second name.", NAMES),
    one("lists-what-the-model-lacks", ListsWhatTheModelHas(), "Among the skipped names is {extra}, which the state "
        "does not have at all: both lists are about the entries of `state`.", NAMES),
    one("rebinds-parameter", assigns, REBOUND, NAMES),
    one("compares-numbers-of-elements", ComparesNumbersOfElements(), LISTS + "as many numbers in another shape are "
        "not a match.", NAMES),
    one("broadcasts-silently", Broadcasts(), LISTS + "a row can be copied into a whole table, but it is not a match.",
        NAMES),
    one("not-sorted", NeverSorts(), LISTS + "both lists are sorted.", NAMES),
    one("swaps-the-lists", SwapsTheLists(), LISTS + "what was loaded comes first, and then what was skipped.", NAMES),
    one("copies-nothing", CopiesNothing(), "The entry {entry} is listed as loaded, but its numbers are not in the "
        "model: nothing was copied into the model's own tensors. What is put into the dict that `state_dict()` "
        "returns does not reach them.",
        NAMES),
    one("shares-memory", hands_over, SHARED, NAMES),
    one("shares-memory", hands_over, SHARED, NAMES, remove_duplicate=False),
    one("takes-the-dtype-over", takes_the_dtype_over, 'In the case "{case}" the entry {cast} of the model is {dtype} '
        "afterwards, which it was not before: `.data = ` exchanges the tensor, and `copy_` converts into the one "
        "that is there.", NAMES),
    one("lists-what-the-model-lacks", lists_missing_keys, LISTS + "the missing keys of `load_state_dict` are those "
        "that the state lacks; the entries of `state` are asked for.", NAMES),
    one("changes-its-input", deletes_what_does_not_fit, "The caller's own dict was {got} by the call, and should be "
        "{want}: take nothing out of it, as `del` does.", NAMES),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
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


# Right answers unlike the reference


def match_by_loading(model: nn.Module, state: dict[str, Tensor]) -> tuple[list[str], list[str]]:
    own = model.state_dict()
    fitting, rest = {}, []
    for name, value in state.items():
        if name in own and tuple(own[name].size()) == tuple(value.size()):
            fitting[name] = value
        else:
            rest.append(name)
    model.load_state_dict(fitting, strict=False)
    return sorted(fitting), sorted(rest)


def match_by_walking(model: nn.Module, state: dict[str, Tensor]) -> Any:
    places = dict(model.named_parameters(remove_duplicate=False)) | dict(model.named_buffers(remove_duplicate=False))
    loaded, skipped = [], []
    for name in sorted(state):
        if name in places and places[name].shape == state[name].shape:
            places[name].data.copy_(state[name])
            loaded.append(name)
        else:
            skipped.append(name)
    return [loaded, skipped]


RIGHT_ANSWERS: list[Callable[..., Any]] = [match_by_loading, match_by_walking]
