"""Lesson 03: hidden cases and known mistakes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autograde.hidden.common import apart, variants
from autograde.mistakes import Mistake, slips
from torchcourse.exercise import Case, Draw, case
from torchcourse.exercises.modules import affine_weights, block_weights

REGISTER, BUFFERS = "What a module remembers", "Buffers: state that is not trained"
INSIDE, CALLS, MODES = "Modules inside modules", "Calling a module, and hooks", "Train and eval"
NORM, COUNTING = "Batch norm by hand", "Counting and sharing"
FREEZING, INIT, CONV = "Freezing, and what decays", "Initialisation and depth", "Convolutions and shapes"

UNBEGUN = (
    "Making the module ended with {construction}: without `super().__init__()` as the first line of `__init__` there "
    "is nothing yet that could remember a parameter."
)
UNREGISTERED = (
    "`parameters()` finds {registered}: a plain tensor is an attribute like any other, so an optimizer, `.to()` "
    "and `state_dict()` never hear of it."
)


# --- Affine ------------------------------------------------------------------------------------------------------


class AffineWith(nn.Module):
    """An affine layer with this or that done wrong."""

    weight: Any
    bias: Any

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, *, plain: tuple[str, ...] = (),
        always: bool = False, none: str = "registered", bound: Callable[[int, int], float] = lambda i, o: i**-0.5,
        start: str = "uniform", bias_start: str = "uniform", turned: bool = False, detached: bool = False,
        frozen: bool = False, requires: bool = True, product: str = "transposed", adds: str = "if there",
    ) -> None:  # fmt: skip
        super().__init__()
        limit = bound(in_features, out_features)
        shape = (in_features, out_features) if turned else (out_features, in_features)
        made = {"weight": _start(start, limit, *shape), "bias": _start(bias_start, limit, out_features)}
        self.turned, self.detached, self.product, self.adds = turned, detached, product, adds
        for name, tensor in made.items():
            if name == "weight" or bias or always:
                parameter = nn.Parameter(tensor, requires_grad=not frozen)
                setattr(self, name, tensor.requires_grad_(requires) if name in plain else parameter)
        if not bias and not always:
            if none == "registered":
                self.register_parameter("bias", None)
            elif none == "zeros":
                self.register_parameter("bias", nn.Parameter(torch.zeros(out_features)))
            elif none == "plain":
                self.bias = None

    def forward(self, x: Tensor) -> Any:
        weight = self.weight.detach() if self.detached else self.weight
        y = x @ (weight if self.turned or self.product == "plain" else weight.T)
        bias = getattr(self, "bias", None)
        return y if bias is None and self.adds == "if there" else y + bias


def _start(how: str, limit: float, *shape: int) -> Tensor:
    if how == "normal":
        return torch.randn(shape) * limit
    if how == "standard":
        return torch.randn(shape)
    if how == "zero":
        return torch.zeros(shape)
    if how == "positive":
        return torch.rand(shape) * limit
    return torch.empty(shape).uniform_(-limit, limit)


class AffineUnbegun(nn.Module):
    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        self.weight = nn.Parameter(torch.empty(out_features, in_features))
        self.bias = nn.Parameter(torch.empty(out_features)) if bias else None

    def forward(self, x: Tensor) -> Any:
        return x @ self.weight.T


class AffinePlainUnbegun(nn.Module):
    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        self.weight = torch.zeros(out_features, in_features, requires_grad=True)
        self.bias = torch.zeros(out_features, requires_grad=True) if bias else None


START = "In the case \"{case}\" the {what} is {got} where {want} is wanted, in units of 1/sqrt(in): "
AFFINE = [
    Mistake("missing-super-init", AffineUnbegun, UNBEGUN, REGISTER),
    Mistake("missing-super-init", AffinePlainUnbegun, UNBEGUN, REGISTER),
    *slips(
        AffineWith, REGISTER,
        plain_tensor=({"plain": ("weight", "bias")}, UNREGISTERED),
        bias_false_ignored=({"always": True}, "With `bias=False` the module still has a bias: `parameters()` finds "
                            "{registered}."),
        weight_transposed=({"turned": True}, "`parameters` came out as {got} where {want} is wanted: the weight has "
                           "shape (out, in), as in every other module of torch."),
    ),
    *variants("plain-tensor", AffineWith, UNREGISTERED, REGISTER, {"plain": ("bias",)}, {"plain": ("weight",)},
              {"plain": ("weight", "bias"), "requires": False}, {"plain": ("weight", "bias"), "none": "plain"},
              {"plain": ("weight", "bias"), "none": "plain", "requires": False}),
    *variants("none-added", AffineWith, "In the case \"{case}\" the call raised {got}: with `bias=False` there is "
                                        "nothing "
              "to add.", REGISTER, {"adds": "always"}, {"adds": "always", "none": "plain"}),
    *variants("weight-not-transposed", AffineWith, "In the case \"{case}\" the value at {at} is {got_at} and should be "
              "{want_at}: the weight has a row for each output, so x is multiplied with its transpose.", REGISTER,
              {"product": "plain"}),
    *variants("bias-false-ignored", AffineWith, "With `bias=False` the module still has a bias: `parameters()` finds "
              "{registered}. A bias of zeros will be trained away from zero.", REGISTER, {"none": "zeros"}),
    *variants("bias-not-registered", AffineWith, "With `bias=False` the name `bias` is held as this: {got}. Register "
              "it as None, so that the module knows the name and that it is empty.", REGISTER, {"none": "plain"},
              {"none": "absent"}),
    *apart(slips(
        AffineWith, INIT,
        starts_from_another_range=({"bound": lambda i, o: 1 / i}, START + "the bound of the range is not 1/sqrt(in)."),
        starts_normal=({"start": "normal", "bias_start": "normal"}, START + "normal numbers have no bound, uniform "
                                                                            "ones "
                       "do."),
        bias_starts_at_zero=({"bias_start": "zero"}, START + "the bias is drawn from the same range as the weight."),
        starts_positive=({"start": "positive", "bias_start": "positive"}, START + "`rand` draws from 0 to 1 and has to "
                         "be brought to both sides of zero."),
        detached=({"detached": True}, "The {what} came out as {got}, and a tensor is wanted: the weight was cut out of "
                  "the graph, so nothing teaches it."),
        does_not_train=({"frozen": True}, "The {what} came out as {got}, and a tensor is wanted: the parameters do not "
                        "require grad."),
    )),
    *variants("starts-from-another-range", AffineWith, START + "the bound of the range is not 1/sqrt(in).", INIT,
              {"bound": lambda i, o: o**-0.5}, {"bound": lambda i, o: (6 / (i + o)) ** 0.5},
              {"bound": lambda i, o: (6 / i) ** 0.5}, {"bound": lambda i, o: (3 / i) ** 0.5},
              {"bound": lambda i, o: 1.0}),
    *variants("starts-normal", AffineWith, START + "normal numbers have no bound, uniform ones do.", INIT,
              {"start": "standard", "bias_start": "standard"}, {"start": "standard", "bias_start": "zero"},
              {"start": "normal", "bias_start": "zero"}, {"start": "normal"}),
]  # fmt: skip


def more_affine(draw: Draw) -> list[Case]:
    i, o = draw.size(2, 9), draw.size(2, 9)
    both = affine_weights(draw, i, o, "weight", "bias")
    return [
        case("drawn sizes", sizes=(i, o), bias=None, weights=both, x=draw.normal(3, 1, 2, i)),
        case("one input, one output", sizes=(1, 1), bias=False, weights=affine_weights(draw, 1, 1, "weight"),
             x=draw.normal(4, 1)),
        case("an empty batch", sizes=(i, o), bias=None, weights=both, x=torch.empty(0, i)),
        case("a transposed batch", sizes=(i, o), bias=None, weights=both, x=draw.normal(i, 5).t()),
    ]  # fmt: skip


# --- MLP ---------------------------------------------------------------------------------------------------------


class MLPWith(nn.Module):
    """A multilayer perceptron with this or that done wrong."""

    def __init__(
        self, in_dim: int, hidden_dims: list[int], out_dim: int, dropout: float = 0.0, *, holder: str = "Sequential",
        last: str = "", shared: str = "", order: str = "norm relu", p: float | None = None, bias: bool = True,
        twice: bool = False, always: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        width, made = in_dim, dict[tuple[str, int, int], nn.Module]()
        blocks: list[nn.Module] = []
        self.p, self.always = dropout if p is None else p, always

        def layer(kind: str, make: Callable[[], nn.Module], inside: int, outside: int) -> nn.Module:
            if kind not in shared:
                return make()
            return made.setdefault((kind, inside, outside), make())

        for h in hidden_dims:
            parts = {
                "linear": layer("linear", functools.partial(nn.Linear, width, h, bias=bias), width, h),
                "norm": layer("norm", functools.partial(nn.BatchNorm1d, h), 0, h),
                "relu": nn.ReLU(),
                "dropout": nn.Dropout(self.p),
            }
            names = {"norm relu": "linear norm relu dropout", "relu norm": "linear relu norm dropout",
                     "no norm": "linear relu dropout", "no relu": "linear norm dropout",
                     "no dropout": "linear norm relu", "norm first": "norm linear relu dropout"}  # fmt: skip
            if order == "norm first":
                parts["norm"] = nn.BatchNorm1d(width)
            blocks += [parts[name] for name in names[order].split() if not (always and name == "dropout")]
            if always:
                blocks.append(AlwaysDropping(self.p))
            width = h
        blocks.append(nn.Linear(width, out_dim))
        endings: dict[str, list[nn.Module]] = {
            "": [], "relu": [nn.ReLU()], "block": [nn.BatchNorm1d(out_dim), nn.ReLU()],
            "dropout": [nn.Dropout(self.p)], "softmax": [nn.Softmax(-1)],
            "whole block": [nn.BatchNorm1d(out_dim), nn.ReLU(), nn.Dropout(self.p)],
        }  # fmt: skip
        blocks += endings[last]
        if holder == "list":
            self.layers: Any = blocks
        elif holder == "hidden list":
            self.layers, self.out = blocks[:-1], blocks[-1]
        else:
            self.layers = nn.Sequential(*blocks)
        self.holder = holder

    def forward(self, x: Tensor) -> Any:
        for block in self.layers:
            x = block(x)
        return self.out(x) if self.holder == "hidden list" else x


class AlwaysDropping(nn.Module):
    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Any:
        return F.dropout(x, self.p)


class MLPUnbegun(nn.Module):
    def __init__(self, in_dim: int, hidden_dims: list[int], out_dim: int, dropout: float = 0.0) -> None:
        self.layers = nn.Sequential(nn.Linear(in_dim, out_dim))


IN_A_LIST = (
    "For hidden widths {hidden} `parameters()` finds {count} tensors where {want_count} are wanted: layers in a plain "
    "Python list are not registered, and so would never be trained, moved or saved."
)
SHARED = (
    "For hidden widths {hidden} there are {count} parameter tensors where {want_count} are wanted: one and the same "
    "layer was used in several places."
)
AFTER_LAST = (
    "In the case \"{case}\" the smallest output is {smallest}: something comes after the last Linear, which should "
    "have "
    "the last word, negative numbers included."
)
MLPS = [
    Mistake("missing-super-init", MLPUnbegun, UNBEGUN, REGISTER),
    *slips(
        MLPWith, INSIDE,
        python_list_of_layers=({"holder": "list"}, IN_A_LIST),
        activation_after_last=({"last": "relu"}, AFTER_LAST),
        norm_after_relu=({"order": "relu norm"}, "In the case \"{case}\" `{what}` is {got} where {want} is wanted: the "
                         "batch norm stands after the ReLU, and should stand before it."),
        dropout_argument_ignored=({"p": 0.5}, "In the case \"{case}\", with dropout {p}, `{what}` is {got} where "
                                  "{want} is wanted: the layers drop with a share of their own."),
    ),
    *variants("python-list-of-layers", MLPWith, IN_A_LIST, INSIDE, {"holder": "hidden list"}),
    *variants("activation-after-last", MLPWith, AFTER_LAST, INSIDE, {"last": "softmax"}),
    *variants("activation-after-last", MLPWith, "In the case \"{case}\" there are {count} parameter tensors where "
              "{want_count} are wanted: a whole block was put after the last Linear, too.", INSIDE, {"last": "block"},
              {"last": "whole block"}),
    *variants("shared-layer", MLPWith, SHARED, INSIDE, {"shared": "linear"}, {"shared": "norm"},
              {"shared": "linear norm"}),
    *apart(slips(
        MLPWith, INSIDE,
        no_batch_norm=({"order": "no norm"}, "There are {count} parameter tensors where {want_count} are wanted for "
                       "hidden widths {hidden}: the batch norm layers are missing."),
        no_activation=({"order": "no relu"}, "In the case \"{case}\" `{what}` is {got} where {want} is wanted: without "
                       "a ReLU in between, linear layers make one linear map."),
        no_dropout=({"order": "no dropout"}, "In the case \"{case}\", with dropout {p}, `{what}` is {got} where {want} "
                    "is wanted: nothing is dropped."),
        norm_before_linear=({"order": "norm first"}, "In the case \"{case}\" `{what}` is {got} where {want} is wanted: "
                            "the batch norm has the width that goes in, and should have the one that comes out."),
        dropout_after_last=({"last": "dropout"}, "In the case \"{case}\", with dropout {p}, `{what}` is {got} where "
                            "{want} is wanted: the outputs themselves are dropped."),
        linear_without_bias=({"bias": False}, "There are {count} parameter tensors where {want_count} are wanted for "
                             "hidden widths {hidden}: the Linear layers have their bias, as they come."),
    )),
    Mistake("dropout-stays-on", MLPWith, "In the case \"{case}\", with dropout {p}, `{what}` is {got} where {want} is "
            "wanted: `F.dropout(x, p)` does not know of `eval()`.", MODES, {"always": True}),
]  # fmt: skip


def more_mlp(draw: Draw) -> list[Case]:
    i, o, n = draw.size(1, 6), draw.size(1, 6), draw.size(5, 12)
    hidden = [draw.size(2, 8) for _ in range(draw.size(1, 4))]
    loose: dict[str, Any] = {"rtol": 1e-3, "atol": 1e-3}
    return [
        case("drawn widths", **loose, sizes=(i, hidden, o), dropout=None, x=draw.normal(n, i)),
        case("drawn widths, everything dropped", **loose, sizes=(i, hidden, o), dropout=1.0, x=draw.normal(n, i)),
        case("no hidden layer, with dropout", **loose, sizes=(i, [], o), dropout=1.0, x=draw.normal(n, i)),
    ]


# --- Standardizer ------------------------------------------------------------------------------------------------


class StandardizerWith(nn.Module):
    """A standardizer with this or that done wrong."""

    mean: Any
    std: Any

    def __init__(
        self, dim: int, *, kind: str = "buffer", correction: int = 0, zero: str = "one", returns: bool = True,
        over: int | None = 0, divide: bool = True, centre: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.kind, self.correction, self.zero, self.returns = kind, correction, zero, returns
        self.over, self.divide, self.centre = over, divide, centre
        for name, tensor in {"mean": torch.zeros(dim), "std": torch.ones(dim)}.items():
            if kind == "parameter":
                setattr(self, name, nn.Parameter(tensor))
            elif kind == "frozen parameter":
                setattr(self, name, nn.Parameter(tensor, requires_grad=False))
            elif kind in ("buffer", "unsaved", "replaced", "none"):
                empty = kind == "none"
                self.register_buffer(name, None if empty else tensor, persistent=kind != "unsaved")
            else:
                setattr(self, name, tensor)

    def fit(self, x: Tensor) -> Any:
        mean = x.mean() if self.over is None else x.mean(self.over)
        std = x.std(correction=self.correction) if self.over is None else x.std(self.over, correction=self.correction)
        mean, std = (t.expand(x.shape[1]).clone() if self.over is None else t for t in (mean, std))
        if self.zero == "one":
            std = torch.where(std == 0, 1.0, std)
        elif self.zero == "eps":
            std = std + 1e-8
        elif self.zero == "clamp":
            std = std.clamp(min=1e-6)
        elif self.zero == "least one":
            std = std.clamp(min=1.0)
        with torch.no_grad():
            if "parameter" in self.kind:
                self.mean.copy_(mean)
                self.std.copy_(std)
            else:
                self.mean, self.std = mean, std
        return self if self.returns else None

    def forward(self, x: Tensor) -> Any:
        if self.kind == "none" and self.mean is None:
            return x
        x = x - self.mean if self.centre else x
        return x / self.std if self.divide else x


class StandardizerUnbegun(nn.Module):
    def __init__(self, dim: int) -> None:
        self.mean = torch.zeros(dim)
        self.std = torch.ones(dim)


class StandardizerUnbegunBuffers(nn.Module):
    def __init__(self, dim: int) -> None:
        self.register_buffer("mean", torch.zeros(dim))


ZERO_STD = (
    "In the case \"{case}\" `std` came out as {its_std} where {want_std} is wanted: a column that never varies has "
    "the std 0, and dividing by 1 leaves it alone."
)
STANDARDIZER = [
    Mistake("missing-super-init", StandardizerUnbegun, UNBEGUN, REGISTER),
    Mistake("missing-super-init", StandardizerUnbegunBuffers, UNBEGUN, REGISTER),
    *slips(
        StandardizerWith, BUFFERS,
        plain_attribute=({"kind": "plain"}, "The buffers that the module knows of are {its_buffers}, and its "
                                            "state_dict "
                         "holds {its_state_dict}: a plain attribute is neither saved nor moved."),
        sample_deviation=({"correction": 1}, "`std` came out as {its_std} where {want_std} is wanted: it divides by "
                          "n - 1, and the population's divides by n."),
        zero_deviation_kept=({"zero": "kept"}, ZERO_STD),
        fit_returns_nothing=({"returns": False}, "`fit` returned {got}, and should return the module itself, so that "
                             "`Standardizer(3).fit(x)` is one."),
    ),
    *variants("buffer-as-parameter", StandardizerWith, "`parameters()` finds {its_parameters}: an optimizer would "
                                                       "train "
              "what was measured. State that is moved and saved, but not trained, is a buffer.", BUFFERS,
              {"kind": "parameter"}, {"kind": "frozen parameter"}),
    *apart(slips(
        StandardizerWith, BUFFERS,
        not_saved=({"kind": "unsaved"}, "The state_dict holds {its_state_dict} of the two: a buffer that is not "
                   "persistent moves with the module, but is not saved."),
        whole_table_statistics=({"over": None}, "`mean` came out as {its_mean} where {want_mean} is wanted: each "
                                "column has its own."),
        rows_not_columns=({"over": 1}, "In the case \"{case}\" the {what} is {got} and should be {want}: the "
                                       "statistics "
                          "were taken along the rows."),
        mean_not_subtracted=({"centre": False}, "The value at {at} is {got_at} and should be {want_at}: the mean was "
                             "not subtracted."),
        not_divided=({"divide": False}, "The value at {at} is {got_at} and should be {want_at}: the mean was "
                     "subtracted, but nothing was divided by std."),
        no_buffer_before_fit=({"kind": "none"}, "A fresh module could not take in the saved one: {unplaced} found no "
                              "place, because the buffers are None until `fit` is called."),
    )),
    *variants("zero-deviation-kept", StandardizerWith, ZERO_STD, BUFFERS, {"zero": "eps"}, {"zero": "clamp"},
              {"zero": "least one"}),
]  # fmt: skip


def more_standardizer(draw: Draw) -> list[Case]:
    n, d = draw.size(2, 9), draw.size(1, 6)
    constant = torch.full((n, d), float(draw.size(1, 9)))
    return [
        case("drawn sizes", data=100 + 10 * draw.normal(n, d), x=draw.normal(2, d), rtol=1e-3, atol=1e-2),
        case("every column constant", data=constant, x=draw.normal(3, d)),
        case("every second row", data=draw.normal(2 * n, d)[::2], x=draw.normal(4, d)),
    ]


# --- GatedLinear -------------------------------------------------------------------------------------------------


class GatedWith(nn.Module):
    """A gated linear layer with this or that done wrong."""

    weight: Any
    gate_weight: Any
    bias: Any

    def __init__(
        self, in_features: int, out_features: int, *, gate: str = "sigmoid", plain: tuple[str, ...] = (),
        bias: str = "value", swapped: bool = False, names: str = "own", turned: bool = False, combine: str = "times",
        requires: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        shape = (in_features, out_features) if turned else (out_features, in_features)
        if names == "layers":
            self.linear, self.gate = nn.Linear(in_features, out_features), nn.Linear(in_features, out_features, False)
        else:
            for name, size in {"weight": shape, "gate_weight": shape, "bias": (out_features,)}.items():
                tensor = torch.zeros(size).normal_()
                setattr(self, name, tensor.requires_grad_(requires) if name in plain else nn.Parameter(tensor))
        self.how, self.where, self.swapped = gate, bias, swapped
        self.names, self.turned, self.combine = names, turned, combine

    def forward(self, x: Tensor) -> Any:
        if self.names == "layers":
            return self.linear(x) * self.gate(x).sigmoid()
        value, gate = (x @ (w if self.turned else w.T) for w in (self.weight, self.gate_weight))
        if self.swapped:
            value, gate = gate, value
        value = value + self.bias if self.where in ("value", "both") else value
        gate = gate + self.bias if self.where in ("gate", "both") else gate
        gates: dict[str, Callable[[Any], Any]] = {
            "sigmoid": torch.sigmoid, "tanh": torch.tanh, "relu": torch.relu, "softmax": lambda g: g.softmax(-1),
            "none": lambda g: g, "silu": F.silu, "gelu": F.gelu,
        }  # fmt: skip
        opened = gates[self.how](gate)
        y = value + opened if self.combine == "plus" else value * opened
        return y + self.bias if self.where == "after" else y


class GatedUnbegun(nn.Module):
    def __init__(self, in_features: int, out_features: int) -> None:
        self.weight = nn.Parameter(torch.empty(out_features, in_features))


NOT_SIGMOID = (
    "The value at {at} is {got_at} and should be {want_at}: the gate is not a sigmoid, which opens from 0 to 1 for "
    "each "
    "output by itself."
)
BIAS_PLACE = (
    "The value at {at} is {got_at} and should be {want_at}: the bias belongs to x W^T, before the gate is applied."
)
GATED = [
    Mistake("missing-super-init", GatedUnbegun, UNBEGUN, REGISTER),
    *slips(
        GatedWith, REGISTER,
        gate_not_sigmoid=({"gate": "tanh"}, NOT_SIGMOID),
        plain_tensor=({"plain": ("weight", "gate_weight", "bias")}, UNREGISTERED),
        bias_in_the_wrong_place=({"bias": "after"}, BIAS_PLACE),
        gate_and_value_swapped=({"swapped": True}, "The value at {at} is {got_at} and should be {want_at}: weight and "
                                "gate_weight have changed places."),
    ),
    *variants("gate-not-sigmoid", GatedWith, NOT_SIGMOID, REGISTER, {"gate": "relu"}, {"gate": "softmax"},
              {"gate": "none"}, {"gate": "silu"}, {"gate": "gelu"}),
    *variants("plain-tensor", GatedWith, UNREGISTERED, REGISTER, {"plain": ("gate_weight",)}, {"plain": ("bias",)},
              {"plain": ("weight", "gate_weight")}, {"plain": ("weight",)},
              {"plain": ("weight", "gate_weight", "bias"), "requires": False}),
    *variants("bias-in-the-wrong-place", GatedWith, BIAS_PLACE, REGISTER, {"bias": "gate"}, {"bias": "both"}),
    *variants("bias-unused", GatedWith, "The value at {at} is {got_at} and should be {want_at}: the bias is "
                                        "registered, "
              "but forward does not add it.", REGISTER, {"bias": "nowhere"}),
    *variants("added-not-multiplied", GatedWith, "The value at {at} is {got_at} and should be {want_at}: the gate is "
              "multiplied with the value, not added.", REGISTER, {"combine": "plus"}),
    *variants("weight-transposed", GatedWith, "`parameters` came out as {got} where {want} is wanted: weights have "
              "shape (out, in), as in every other module of torch.", REGISTER, {"turned": True}),
    *variants("other-names", GatedWith, "`parameters()` finds {registered}: the three are asked for as `weight`, "
              "`gate_weight` and `bias` of the module itself.", REGISTER, {"names": "layers"}),
]  # fmt: skip


def more_gated(draw: Draw) -> list[Case]:
    i, o = draw.size(1, 9), draw.size(1, 9)
    weights = affine_weights(draw, i, o, "weight", "gate_weight", "bias")
    return [
        case("drawn sizes", sizes=(i, o), weights=weights, x=draw.normal(3, 2, i)),
        case("an empty batch", sizes=(i, o), weights=weights, x=torch.empty(0, i)),
    ]


# --- Dropout -----------------------------------------------------------------------------------------------------


class DropoutWith(nn.Module):
    """Dropout with this or that done wrong."""

    def __init__(
        self, p: float = 0.5, *, scale: str = "up", modes: str = "train", mask: str = "each call",
        at_one: str = "zeros",
        device: str = "input", refuses: str = "yes", keep: bool = False, shape: str = "entries", cast: str = "input",
        detached: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        if refuses == "yes" and not 0 <= p <= 1:
            raise ValueError(f"p is {p}, but has to lie between 0 and 1")
        if refuses == "above" and p > 1:
            raise ValueError(f"p is {p}, but has to lie between 0 and 1")
        if refuses == "mute":
            assert 0 <= p <= 1
        self.p, self.scale, self.modes, self.mask, self.at_one = p, scale, modes, mask, at_one
        self.device, self.keep, self.shape, self.cast, self.detached = device, keep, shape, cast, detached
        self.once: Tensor | None = None

    def draw(self, x: Tensor) -> Tensor:
        if self.mask == "seeded":
            torch.manual_seed(0)
        size: Any = {"entries": x.shape, "columns": x.shape[-1:], "rows": (*x.shape[:-1], 1)}[self.shape]
        drawn = torch.rand(size, device=x.device if self.device == "input" else "cpu")
        return drawn < self.p if self.keep else drawn >= self.p

    def forward(self, x: Tensor) -> Any:
        active = {"train": self.training, "always": True, "reversed": not self.training, "never": False}[self.modes]
        if not active:
            return x * (1 - self.p) if self.scale == "eval" else x
        if self.p == 1 and self.at_one == "zeros":
            return torch.zeros_like(x)
        if self.mask == "once":
            self.once = self.draw(x) if self.once is None else self.once
            kept = self.once
        else:
            kept = self.draw(x)
        y = x.detach() * kept if self.detached else x * kept
        if self.cast == "float32":
            y = y.float()
        factor = torch.tensor({"up": 1 - self.p, "p": self.p}.get(self.scale, 1.0), dtype=torch.float64)
        return y * (1 / factor).to(y.dtype).item() if self.scale != "down" else y * (1 - self.p)


class DropoutUnbegun(nn.Module):
    def __init__(self, p: float = 0.5) -> None:
        if not 0 <= p <= 1:
            raise ValueError(f"p is {p}, but has to lie between 0 and 1")
        self.p = p

    def forward(self, x: Tensor) -> Any:
        return x


NOT_RESCALED = (
    "With p = {p} the kept values are multiplied by {factor} where {want_factor} is wanted: without 1 / (1 - p), the "
    "mean in training is not the mean in eval."
)
IN_EVAL = (
    "In eval mode the output and the input {in_eval}, and should be the same: look at `self.training` before dropping "
    "anything."
)
SAME_MASK = "Two calls in training {two_calls_in_training}, with p = {p}: a mask is drawn anew in every forward."
ACCEPTED = (
    "For p = {p} there came {refused_with}: a share lies between 0 and 1, and anything else should raise at once."
)
DROPOUT = [
    Mistake("missing-super-init", DropoutUnbegun, UNBEGUN, REGISTER),
    *slips(
        DropoutWith, MODES,
        not_rescaled=({"scale": "no"}, NOT_RESCALED),
        active_in_eval=({"modes": "always"}, IN_EVAL),
        same_mask_every_call=({"mask": "once"}, SAME_MASK),
        nan_at_one=({"at_one": "divided"}, "With p = {p} there are NaNs in the output: the factor 1 / (1 - p) is 1 / 0 "
                    "there, and 0 * inf is NaN."),
        drops_the_wrong_share=({"keep": True}, "With p = {p} the share of zeros is {share_of_zeros}: p is the share "
                               "that is dropped, not the one that is kept."),
    ),
    *variants("not-rescaled", DropoutWith, NOT_RESCALED, MODES, {"scale": "p"}, {"scale": "down"}, {"scale": "eval"}),
    *variants("active-in-eval", DropoutWith, IN_EVAL, MODES, {"modes": "reversed"}),
    *variants("same-mask-every-call", DropoutWith, SAME_MASK, MODES, {"mask": "seeded"}),
    *apart(slips(
        DropoutWith, MODES,
        out_of_range_accepted=({"refuses": "no"}, ACCEPTED),
        message_says_little=({"refuses": "mute"}, "For p = {p} there came {refused_with}: a message names the "
                                                  "argument, "
                             "what it got and what it wants."),
        never_drops=({"modes": "never"}, "With p = {p} the share of zeros in training is {share_of_zeros}: nothing was "
                     "dropped."),
        drops_whole_columns=({"shape": "columns"}, "What is dropped are {got}: the mask has to have the shape of the "
                             "input, so that each entry is drawn by itself."),
        made_on_cpu=({"device": "cpu"}, "On the CPU all is right, on the second device the call raised {got}: the mask "
                     "was made without saying where."),
        dtype_not_kept=({"cast": "float32"}, "The {what} of the output is {got} where {want} is wanted: the result "
                        "keeps the input's."),
        detached=({"detached": True}, "The {what} that reaches x is {got} where this is wanted: {want}. The input was "
                  "cut out of the graph."),
    )),
    *variants("drops-whole-columns", DropoutWith, "What is dropped are {got}: the mask has to have the shape of the "
              "input, so that each entry is drawn by itself.", MODES, {"shape": "rows"}),
    *variants("out-of-range-accepted", DropoutWith, ACCEPTED, MODES, {"refuses": "above"}),
]  # fmt: skip


def more_dropout(draw: Draw) -> list[Case]:
    p = draw.size(1, 9) / 10
    common: dict[str, Any] = {"refused": False, "like": torch.zeros(1), "rtol": 0.01}
    return [
        case("a drawn p", p=p, dtype=torch.float32, **common),
        case("bfloat16", p=0.5, dtype=torch.bfloat16, **common),
        case("an integer 1", p=1, dtype=torch.float32, **common),
        case("far outside", p=-3.0, dtype=torch.float32, refused=True, like=torch.zeros(1)),
    ]


# --- BatchNorm ---------------------------------------------------------------------------------------------------


class BatchNormWith(nn.Module):
    """Batch norm with this or that done wrong."""

    running_mean: Any
    running_var: Any
    num_batches_tracked: Any

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, *, running: str = "sample",
        batch: str = "population", at_eval: str = "running", mixing: str = "torch", graph: bool = False,
        eps_at: str = "inside", refuses: str = "yes", counts: bool = True, kind: str = "buffer", over: str = "channel",
        affine: bool = True, detached: bool = False, updates: str = "train", fixed_momentum: bool = False,
        first_var: float = 1.0,
    ) -> None:  # fmt: skip
        super().__init__()
        self.eps, self.momentum = eps, 0.1 if fixed_momentum else momentum
        self.running, self.batch, self.at_eval, self.mixing, self.graph = running, batch, at_eval, mixing, graph
        self.eps_at, self.refuses, self.counts, self.over = eps_at, refuses, counts, over
        self.affine, self.detached, self.updates = affine, detached, updates
        self.weight, self.bias = nn.Parameter(torch.ones(num_features)), nn.Parameter(torch.zeros(num_features))
        state = {"running_mean": torch.zeros(num_features), "running_var": torch.full((num_features,), first_var)}
        for name, tensor in (state | {"num_batches_tracked": torch.tensor(0)}).items():
            if kind == "buffer":
                self.register_buffer(name, tensor)
            elif kind == "parameter" and tensor.is_floating_point():
                setattr(self, name, nn.Parameter(tensor, requires_grad=False))
            elif kind == "parameter":
                self.register_buffer(name, tensor)
            else:
                setattr(self, name, tensor)

    def forward(self, x: Tensor) -> Any:
        dims = {"channel": [d for d in range(x.ndim) if d != 1], "batch": [0], "all": list(range(x.ndim)),
                "example": list(range(1, x.ndim))}[self.over]  # fmt: skip
        mean, var = x.mean(dims, keepdim=True), x.var(dims, correction=self.batch == "sample", keepdim=True)
        if self.training and self.refuses == "yes" and x.numel() // x.shape[1] < 2:
            raise ValueError(f"x has shape {tuple(x.shape)}: more than one value a channel is needed")
        shape = (1, -1) + (1,) * (x.ndim - 2)
        if self.training or self.updates == "always":
            self.update(x, mean, var)
        if not self.training and self.at_eval == "running":
            mean, var = self.running_mean.view(shape), self.running_var.view(shape)
        mean, var = (mean.detach(), var.detach()) if self.detached else (mean, var)
        root = {
            "inside": (var + self.eps).sqrt(), "outside": var.sqrt() + self.eps, "none": var.sqrt(),
            "no root": var + self.eps,
        }[self.eps_at]  # fmt: skip
        y = (x - mean) / root
        return y * self.weight.view(shape) + self.bias.view(shape) if self.affine else y

    def update(self, x: Tensor, mean: Tensor, var: Tensor) -> None:
        if self.updates == "never":
            return
        size = self.running_mean.shape[0]
        mean, var = ([t.mean(0).flatten(1).mean(1) if t.numel() != 1 else t for t in (mean, var)]
                     if self.over in ("batch", "example") else (mean, var))  # fmt: skip
        mean, var = (t.reshape(-1).expand(size) for t in (mean, var))
        count = x.numel() // x.shape[1]
        if self.running == "sample" and self.batch == "population":
            var = var * count / max(count - 1, 1)
        mean, var = (mean, var) if self.graph else (mean.detach(), var.detach())
        m = {"torch": self.momentum, "reversed": 1 - self.momentum, "replaced": 1.0}[self.mixing]
        if self.counts:
            self.num_batches_tracked += 1
        new_mean = (1 - m) * self.running_mean + m * mean
        new_var = (1 - m) * self.running_var + m * var
        if isinstance(self.running_mean, nn.Parameter):
            self.running_mean.data, self.running_var.data = new_mean.detach(), new_var.detach()
        else:
            self.running_mean, self.running_var = new_mean, new_var


class BatchNormUnbegun(nn.Module):
    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float = 0.1) -> None:
        self.weight = nn.Parameter(torch.ones(num_features))


REVERSED = (
    "In the case \"{case}\" the running mean is {its_running_mean} and should be {want_running_mean}: in PyTorch, "
    "momentum is the weight of the new batch, not of what has gathered so far."
)
NO_BUFFERS = (
    "The state_dict came out with other names: `{what}` is {got} where {want} is wanted. Running statistics are "
    "buffers."
)
BATCHNORM = [
    Mistake("missing-super-init", BatchNormUnbegun, UNBEGUN, REGISTER),
    *slips(
        BatchNormWith, NORM,
        biased_running_variance=({"running": "population"}, "In the case \"{case}\" the running variance is "
                                 "{its_running_var} and should be {want_running_var}: it takes up the sample variance, "
                                 "which divides by n - 1."),
        batch_statistics_in_eval=({"at_eval": "batch"}, "The value at {at} of `{what}` is {got_at} and should be "
                                  "{want_at}: in eval mode the running statistics are used, not the batch's."),
        momentum_reversed=({"mixing": "reversed"}, REVERSED),
        statistics_keep_graph=({"graph": True}, "Whether the running statistics carry a graph: {carry}. They would "
                                                "keep "
                               "every batch seen so far in memory; update them under `no_grad`, or detach."),
    ),
    *apart(slips(
        BatchNormWith, NORM,
        eps_outside_root=({"eps_at": "outside"}, "In the case \"{case}\" the value at {at} is {got_at} and should be "
                          "{want_at}: eps is added to the variance, under the root."),
        batches_not_counted=({"counts": False}, "`num_batches_tracked` came out as {tracked} after training steps: "
                                                "each "
                             "one adds 1 to it."),
        one_value_accepted=({"refuses": "no"}, "With input of shape {shape} in training there came {refused}: one "
                                               "value "
                            "a channel has no variance, and a ValueError should say so."),
        sample_variance_in_the_batch=({"batch": "sample"}, "In the case \"{case}\" the value at {at} is {got_at} and "
                                      "should be {want_at}: the batch itself is divided by its population standard "
                                      "deviation."),
        eps_ignored=({"eps_at": "none"}, "In the case \"{case}\" the value at {at} is {got_at} and should be "
                                         "{want_at}: "
                     "eps is missing under the root."),
        divided_by_variance=({"eps_at": "no root"}, "The value at {at} is {got_at} and should be {want_at}: it was "
                             "divided by the variance, and not by its root."),
        plain_attribute=({"kind": "plain"}, NO_BUFFERS),
        buffer_as_parameter=({"kind": "parameter"}, NO_BUFFERS),
        no_scale_and_shift=({"affine": False}, "The value at {at} is {got_at} and should be {want_at}: weight and bias "
                            "are not applied."),
        statistics_over_the_batch_only=({"over": "batch"}, "In the case \"{case}\" the value at {at} is {got_at} and "
                                        "should be {want_at}: a channel's statistics go over all its pixels, too."),
        statistics_over_everything=({"over": "all"}, "The value at {at} is {got_at} and should be {want_at}: each "
                                    "channel has statistics of its own."),
        statistics_detached=({"detached": True}, "The {what} at {at} is {got_at} and should be {want_at}: the batch's "
                             "mean and variance depend on x as well, so gradients go through them."),
        updates_in_eval=({"updates": "always"}, "The {what} is {got} and should be {want}: in eval mode, nothing is "
                         "learned about the data."),
        never_updates=({"updates": "never"}, "In the case \"{case}\" the running mean is {its_running_mean} and should "
                       "be {want_running_mean}: training did not update it."),
        momentum_ignored=({"fixed_momentum": True}, "In the case \"{case}\" the running mean is {its_running_mean} and "
                          "should be {want_running_mean}: the argument momentum has no effect."),
        variance_starts_at_zero=({"first_var": 0.0}, "A fresh module has this `{what}`: {got}. The running variance "
                                 "starts at one, so that an untrained norm in eval mode leaves its input alone."),
    )),
    *variants("momentum-reversed", BatchNormWith, "In the case \"{case}\" the running mean is {its_running_mean} and "
              "should be {want_running_mean}: the batch's mean took its place, without any momentum.", NORM,
              {"mixing": "replaced"}),
]  # fmt: skip


def more_batchnorm(draw: Draw) -> list[Case]:
    c = draw.size(1, 5)
    weights = {"weight": draw.normal(c), "bias": draw.normal(c)}
    options = {"momentum": draw.pick([0.01, 0.5, 1.0]), "eps": draw.pick([1e-3, 0.1])}
    loose: dict[str, Any] = {"weights": weights, "refused": False, "rtol": 1e-3, "atol": 1e-3}
    return [
        case("drawn options", options=options, batches=[draw.normal(5, c, 2, 3) for _ in range(3)], **loose),
        case("channels last", options={}, batches=[draw.normal(3, 4, 2, c).permute(0, 3, 1, 2)], **loose),
        case("batches of several sizes", options={}, batches=[draw.normal(n, c) for n in (2, 7, 3)], **loose),
        case("one image of one pixel", options=options, batches=[draw.normal(1, c, 1, 1)], weights=weights,
             refused=True),
    ]  # fmt: skip


# --- ResidualBlock -----------------------------------------------------------------------------------------------


class BlockWith(nn.Module):
    """A residual block with this or that done wrong."""

    def __init__(
        self, in_channels: int, out_channels: int, stride: int = 1, *, project: str = "where needed",
        relu: str = "after",
        bias: bool = False, norm: bool = True, skip_bias: bool = False, strided: str = "first", add: bool = True,
        named: bool = True, shared_norm: bool = False, padding: int = 1, middle: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        first, second = {"first": (stride, 1), "second": (1, stride), "both": (stride, stride)}[strided]
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, first, padding, bias=bias)
        self.bn1 = nn.BatchNorm2d(out_channels)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, second, padding, bias=bias)
        self.bn2 = self.bn1 if shared_norm else nn.BatchNorm2d(out_channels)
        if named:
            self.relu = nn.ReLU()
        changed = {
            "where needed": stride != 1 or in_channels != out_channels, "never": False, "always": True,
            "for channels": in_channels != out_channels, "for stride": stride != 1,
        }[project]  # fmt: skip
        conv = nn.Conv2d(in_channels, out_channels, 1, stride, bias=skip_bias)
        layers = [conv, nn.BatchNorm2d(out_channels)] if norm else [conv]
        self.skip = nn.Sequential(*layers) if changed else nn.Identity()
        self.order, self.add, self.middle = relu, add, middle

    def forward(self, x: Tensor) -> Any:
        y = self.bn1(self.conv1(x))
        y = self.bn2(self.conv2(y.relu() if self.middle else y))
        if self.order == "before":
            return y.relu() + self.skip(x)
        if self.order == "both before":
            return y.relu() + self.skip(x).relu()
        y = y + self.skip(x) if self.add else y
        return y if self.order == "never" else y.relu()


class BlockUnbegun(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, stride: int = 1) -> None:
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, stride, 1, bias=False)


NO_PROJECTION = (
    "For ResidualBlock{sizes} the parameters of skip are {skip} where {want_skip} are wanted: the two paths have "
    "different shapes, so their sum ended with {outcome}."
)
BEFORE_ADD = (
    "In the case \"{case}\" the value at {at} is {got_at} and should be {want_at}: the last relu comes after the sum, "
    "not before it."
)
BLOCK = [
    Mistake("missing-super-init", BlockUnbegun, UNBEGUN, REGISTER),
    *slips(
        BlockWith, CONV,
        missing_projection=({"project": "never"}, NO_PROJECTION),
        relu_before_add=({"relu": "before"}, BEFORE_ADD),
        convolutions_with_bias=({"bias": True}, "The block has the parameters {biases}: batch norm takes away any "
                                "constant at once, so a convolution before it needs no bias."),
        projection_without_norm=({"norm": False}, "For ResidualBlock{sizes} the parameters of skip are {skip} where "
                                 "{want_skip} are wanted: the 1x1 convolution has a norm of its own."),
    ),
    *variants("missing-projection", BlockWith, NO_PROJECTION, CONV, {"project": "for channels"},
              {"project": "for stride"}),
    *variants("relu-before-add", BlockWith, BEFORE_ADD, CONV, {"relu": "both before"}),
    *apart(slips(
        BlockWith, CONV,
        no_last_relu=({"relu": "never"}, "In the case \"{case}\" the smallest output is {smallest}: after the sum, one "
                      "relu is missing."),
        no_relu_between=({"middle": False}, "The value at {at} is {got_at} and should be {want_at}: between the first "
                         "norm and the second convolution a relu is missing."),
        always_projects=({"project": "always"}, "For ResidualBlock{sizes} the parameters of skip are {skip} where "
                         "{want_skip} are wanted: where the shape stays, x goes past the block untouched."),
        skip_with_bias=({"skip_bias": True}, "For ResidualBlock{sizes} the parameters of skip are {skip} where "
                        "{want_skip} are wanted: the 1x1 convolution needs no bias either."),
        nothing_added=({"add": False}, "The value at {at} is {got_at} and should be {want_at}: the way around the "
                       "convolutions is not added."),
        stride_in_the_second=({"strided": "second"}, "In the case \"{case}\" the value at {at} is {got_at} and should "
                              "be {want_at}: the first convolution has the stride."),
        stride_in_both=({"strided": "both"}, "For ResidualBlock{sizes} the sum ended with {outcome}: only the first "
                        "convolution has the stride."),
        attributes_not_named=({"named": False}, "The attributes {got} are missing: the parts have the names that the "
                              "exercise gives."),
        one_norm_for_both=({"shared_norm": True}, "`parameters` came out as {got} where {want} is wanted: the two "
                                                  "norms "
                           "are two layers."),
        no_padding=({"padding": 0}, "For ResidualBlock{sizes} the sum ended with {outcome}: without padding, a "
                    "convolution of size 3 takes a pixel off every side."),
    )),
]  # fmt: skip


def more_block(draw: Draw) -> list[Case]:
    i, o, stride = draw.size(1, 4), draw.size(1, 4), draw.size(1, 3)
    height, width = draw.size(4, 9), draw.size(4, 9)
    loose: dict[str, Any] = {"rtol": 1e-3, "atol": 2e-3}
    return [
        case("drawn sizes", **loose, sizes=(i, o, stride), weights=block_weights(draw, i, o),
             x=draw.normal(3, i, height, width)),
        case("stride 3", **loose, sizes=(i, i, 3), weights=block_weights(draw, i, i), x=draw.normal(2, i, 8, 7)),
    ]  # fmt: skip


# --- count_parameters --------------------------------------------------------------------------------------------


def count_with(
    model: nn.Module, trainable_only: bool = False, *, walk: str = "parameters", each: str = "numel",
    flag: str = "heeded", kind: str = "int",
) -> Any:  # fmt: skip
    walks: dict[str, Callable[[], list[Tensor]]] = {
        "parameters": lambda: list(model.parameters()),
        "all modules": lambda: [p for m in model.modules() for p in m.parameters(recurse=False)],
        "duplicates": lambda: [p for _, p in model.named_parameters(remove_duplicate=False)],
        "buffers": lambda: [*model.parameters(), *model.buffers()],
        "state": lambda: list(model.state_dict(keep_vars=True).values()),
        "own": lambda: list(model.parameters(recurse=False)),
        "children": lambda: [p for m in model.children() for p in m.parameters(recurse=False)],
        "linear": lambda: [p for m in model.modules() if isinstance(m, nn.Linear) for p in m.parameters()],
        "weights": lambda: [p for n, p in model.named_parameters() if n.endswith("weight")],
        "recursive": lambda: [p for m in model.modules() for p in m.parameters()],
    }
    keep: Callable[[Any], bool] = {
        "heeded": lambda p: p.requires_grad or not trainable_only, "ignored": lambda p: True,
        "always": lambda p: p.requires_grad,
        "reversed": lambda p: p.requires_grad != trainable_only or not trainable_only,
    }[flag]  # fmt: skip
    chosen = [p for p in walks[walk]() if keep(p)]
    counts: dict[str, Callable[[Any], Any]] = {
        "numel": Tensor.numel, "one": lambda p: 1, "len": lambda p: len(p) if p.ndim else 1,
        "bytes": lambda p: p.nbytes,
    }  # fmt: skip
    total = sum(counts[each](p) for p in chosen)
    return {"int": total, "tensor": torch.tensor(total), "float": float(total)}[kind]


TWICE = (
    "In the case \"{case}\" the count is {got} and should be {want}: a tensor that is used in two places is still one "
    "tensor, and trained once."
)
BUFFERS_TOO = (
    "In the case \"{case}\" the count is {got} and should be {want}: buffers are in the state_dict, but are no "
    "parameters."
)
TOP_ONLY = "In the case \"{case}\" the count is {got} and should be {want}: submodules have submodules."
COUNT = [
    *slips(
        count_with, COUNTING,
        double_counts_tied=({"walk": "duplicates"}, TWICE),
        counts_tensors=({"each": "one"}, "In the case \"{case}\" the count is {got} and should be {want}: it is the "
                        "number of tensors, not of the elements in them."),
        ignores_trainable_only=({"flag": "ignored"}, "In the case \"{case}\" the count is {got} and should be {want}: "
                                "with `trainable_only` what is frozen does not count."),
    ),
    *variants("counts-buffers", count_with, BUFFERS_TOO, COUNTING, {"walk": "buffers"}, {"walk": "state"},
              {"walk": "buffers", "flag": "ignored"}, {"walk": "state", "flag": "ignored"}),
    *variants("double-counts-tied", count_with, TWICE, COUNTING, {"walk": "all modules"}),
    *variants("counts-again-at-each-level", count_with, "In the case \"{case}\" the count is {got} and should be "
                                                        "{want}: "
              "`parameters()` of a module holds those of its submodules already.", COUNTING, {"walk": "recursive"}),
    *variants("top-level-only", count_with, TOP_ONLY, COUNTING, {"walk": "own"}, {"walk": "children"}),
    *variants("counts-some-layers", count_with, "In the case \"{case}\" the count is {got} and should be {want}: "
              "parameters also sit in other layers, under other names, and in the model itself.", COUNTING,
              {"walk": "linear"}, {"walk": "weights"}),
    *apart(slips(
        count_with, COUNTING,
        frozen_never_count=({"flag": "always"}, "In the case \"{case}\" the count is {got} and should be {want}: "
                                                "unless "
                            "`trainable_only` is set, frozen parameters count too."),
        trainable_only_reversed=({"flag": "reversed"}, "In the case \"{case}\" the count is {got} and should be "
                                                       "{want}: "
                                 "`trainable_only` left the wrong half out."),
        counts_rows=({"each": "len"}, "In the case \"{case}\" the count is {got} and should be {want}: `len` of a "
                                      "tensor "
                     "is the size of its first dimension."),
        counts_bytes=({"each": "bytes"}, "In the case \"{case}\" the count is {got} and should be {want}: these are "
                      "bytes, four for each element."),
    )),
]  # fmt: skip


def more_count(draw: Draw) -> list[Case]:
    w = draw.size(2, 9)
    return [
        case("convolutions", which="convolutional", width=w, trainable_only=False),
        case("twelve layers", which="stack", width=w, trainable_only=None),
        case("deeply nested", which="nested", width=w, trainable_only=True),
        case("one layer used twice, trainable only", which="shared", width=w, trainable_only=True),
    ]


# --- freeze ------------------------------------------------------------------------------------------------------


def freeze_with(
    model: nn.Module, prefix: str, *, match: str = "dotted", act: str = "freeze", names: str = "sorted",
    unknown: str = "raises", empty: str = "raises",
) -> Any:  # fmt: skip
    matches: dict[str, Callable[[str], bool]] = {
        "dotted": lambda n: n == prefix or n.startswith(prefix + ".") or (prefix == "" and empty == "all"),
        "start": lambda n: n.startswith(prefix), "inside": lambda n: prefix in n, "all": lambda n: True,
        "submodule": lambda n: n.startswith(prefix + "."), "first": lambda n: n.split(".")[0] == prefix,
        "exact": lambda n: n == prefix,
    }  # fmt: skip
    chosen = [(n, p) for n, p in model.named_parameters() if matches[match](n)]
    if (empty == "raises" and prefix == "") or (not chosen and unknown == "raises"):
        raise ValueError(f"prefix is {prefix!r}, but has to name a submodule or a parameter")
    if not chosen and unknown == "other exception":
        raise KeyError(prefix)
    for n, p in model.named_parameters() if act in ("everything", "others") else chosen:
        inside = any(n == name for name, _ in chosen)
        if act in ("freeze", "everything") or (act == "others" and not inside):
            p.requires_grad_(False)
        elif act == "zero":
            p.data.zero_()
    found = [n for n, _ in chosen]
    if names == "all":
        return sorted(n for n, p in model.named_parameters() if not p.requires_grad)
    return {
        "sorted": sorted(found), "unsorted": found, "short": sorted(n.removeprefix(prefix + ".") for n in found),
        "nothing": None, "set": set(found), "last": sorted(n.split(".")[-1] for n in found), "count": len(found),
        "tuple": tuple(sorted(found)), "parameters": [p for _, p in chosen],
    }[names]  # fmt: skip


def freeze_by_submodule(model: nn.Module, prefix: str) -> Any:
    module = model.get_submodule(prefix)
    module.requires_grad_(False)
    return sorted(f"{prefix}.{name}" for name, _ in module.named_parameters())


PARTIAL = (
    "In the case \"{case}\", with the prefix {prefix!r}, {extra} was frozen as well: its name begins with the same "
    "letters, but belongs to something else."
)
ALLOWED = (
    "For the prefix {prefix!r} there came {refused}, where a ValueError is wanted: a typing error would freeze "
    "nothing, unnoticed."
)
FREEZE = [
    *slips(
        freeze_with, FREEZING,
        matches_partial_name=({"match": "start"}, PARTIAL),
        freezes_everything=({"act": "everything"}, "With the prefix {prefix!r} the number of frozen parameters is "
                            "{count} and should be {want_count}: the rest of the model has to go on training."),
        names_unsorted=({"names": "unsorted"}, "In the case \"{case}\" the names came back as {got} and should be "
                                               "{want}: "
                        "they are wanted sorted."),
        unknown_prefix_accepted=({"unknown": "accepted"}, ALLOWED),
    ),
    *variants("matches-partial-name", freeze_with, PARTIAL, FREEZING, {"match": "inside"},
              {"match": "start", "empty": "all"}, {"match": "start", "empty": "all", "unknown": "accepted"},
              {"match": "inside", "empty": "all"}, {"match": "inside", "empty": "all", "unknown": "accepted"}),
    Mistake("parameter-names-missed", freeze_by_submodule, "With the prefix {prefix!r} the number of frozen parameters "
            "is {count} and should be {want_count}: `get_submodule` finds modules alone, no parameters; it takes an "
            "empty "
            "name for the model, and raises an AttributeError of its own.", FREEZING),
    *variants("freezes-everything", freeze_with, "With the prefix {prefix!r} the number of frozen parameters is "
                                                 "{count} "
              "and should be {want_count}: the prefix was never looked at.", FREEZING, {"match": "all"}),
    *variants("parameter-names-missed", freeze_with, "With the prefix {prefix!r} nothing was found, but there is a "
              "parameter of this name: the number of frozen ones is {count}, not {want_count}.", FREEZING,
              {"match": "submodule", "unknown": "accepted"}),
    *apart(slips(
        freeze_with, FREEZING,
        empty_prefix_accepted=({"empty": "all"}, "For the prefix {prefix!r} there came {refused}, where a ValueError "
                                                 "is "
                               "wanted: an empty prefix would freeze the whole model."),
        first_part_only=({"match": "first", "unknown": "accepted"}, "With the prefix {prefix!r} the number of frozen "
                         "parameters is {count} and should be {want_count}: names may have several parts."),
        only_exact_names=({"match": "exact", "unknown": "accepted"}, "With the prefix {prefix!r} the number of frozen "
                          "parameters is {count} and should be {want_count}: a submodule's parameters have its name "
                          "and more."),
        names_without_prefix=({"names": "short"}, "In the case \"{case}\" the names came back as {got} and should be "
                              "{want}: they are wanted as `named_parameters()` of the model gives them."),
        nothing_frozen=({"act": "nothing"}, "With the prefix {prefix!r} the number of frozen parameters is {count} and "
                        "should be {want_count}: names were collected, but `requires_grad` was left as it is."),
        returns_nothing=({"names": "nothing"}, "In the case \"{case}\" the call returned {got} where {want} is wanted: "
                         "the list of names is missing."),
        returns_all_frozen=({"act": "others"}, "With the prefix {prefix!r} the number of frozen parameters is {count} "
                            "and should be {want_count}: the others were frozen, and these were not."),
        zeroed_not_frozen=({"act": "zero"}, "With the prefix {prefix!r} the number of frozen parameters is {count} and "
                           "should be {want_count}: the values were changed instead."),
    )),
    *variants("names-without-prefix", freeze_with, "In the case \"{case}\" the names came back as {got} and should be "
              "{want}: they are wanted as `named_parameters()` of the model gives them.", FREEZING, {"names": "last"}),
    *variants("no-list-of-names", freeze_with, "In the case \"{case}\" the call returned {got} where {want} is "
                                               "wanted: a "
              "sorted list of names.", FREEZING, {"names": "set"}, {"names": "count"}, {"names": "parameters"},
              {"names": "tuple"}),
    *variants("other-exception", freeze_with, "For the prefix {prefix!r} there came {refused}, where a ValueError is "
              "wanted, with a message that names the argument and what it got.", FREEZING,
              {"unknown": "other exception"}),
]  # fmt: skip


def more_freeze(draw: Draw) -> list[Case]:
    w, n = draw.size(2, 5), draw.size(2, 9)
    return [
        case("a drawn layer", which="stack", width=w, prefix=f"layers.{n}", refused=False),
        case("a layer that is not there", which="stack", width=w, prefix="layers.12", refused=True),
        case("a prefix with a dot at its end", which="tower", width=w, prefix="encoder.", refused=True),
        case("a number of no dimensions", which="loose", width=w, prefix="scale", refused=False),
        case("a parameter of a layer", which="stack", width=w, prefix=f"layers.{n}.bias", refused=False),
    ]


# --- weight_decay_groups -----------------------------------------------------------------------------------------


def groups_with(
    model: nn.Module, weight_decay: float, *, split: str = "ndim", frozen: bool = False, empty: bool = True,
    swapped: bool = False, second: float | None = 0.0, walk: str = "parameters", first: str = "given",
) -> Any:  # fmt: skip
    walks: dict[str, Callable[[], list[tuple[str, nn.Parameter]]]] = {
        "parameters": lambda: list(model.named_parameters()),
        "linear": lambda: [(n, p) for m in model.modules() if isinstance(m, nn.Linear | nn.Conv2d)
                           for n, p in m.named_parameters()],
        "known layers": lambda: [
            (n, p) for m in model.modules() if type(m).__module__.startswith("torch.nn")
            for n, p in m.named_parameters(recurse=False)
        ],
        "children": lambda: [(n, p) for m in model.children() for n, p in m.named_parameters(recurse=False)],
        "names": lambda: [(n, p) for n, p in model.named_parameters() if n.endswith(("weight", "bias"))],
        "duplicates": lambda: list(model.named_parameters(remove_duplicate=False)),
    }  # fmt: skip
    norms = {
        id(p) for m in model.modules() if "Norm" in type(m).__name__ for p in m.parameters(recurse=False)
    }  # fmt: skip
    decays: dict[str, Callable[[str, nn.Parameter], bool]] = {
        "ndim": lambda n, p: p.ndim >= 2, "everything": lambda n, p: True, "bias": lambda n, p: not n.endswith("bias"),
        "one or more": lambda n, p: p.ndim >= 1, "more than two": lambda n, p: p.ndim > 2,
        "weight": lambda n, p: n.endswith("weight"), "norm names": lambda n, p: "norm" not in n and "bias" not in n,
        "norm types": lambda n, p: not n.endswith("bias") and id(p) not in norms, "nothing": lambda n, p: False,
    }  # fmt: skip
    chosen = [(n, p) for n, p in walks[walk]() if frozen or p.requires_grad]
    one = [p for n, p in chosen if decays[split](n, p)]
    two = [p for n, p in chosen if not decays[split](n, p)]
    rest: dict[str, Any] = {"params": two} | ({} if second is None else {"weight_decay": second})
    if second == -1.0:
        rest["weight_decay"] = weight_decay
    groups = [{"params": one, "weight_decay": weight_decay}, rest]
    groups = groups[::-1] if swapped else groups
    return groups if empty else [g for g in groups if g["params"]]


DECAYS = (
    "In the case \"{case}\" {decayed} is in the first group: pulling a bias or the scale of a norm towards zero makes "
    "nothing simpler; only tensors of two or more dimensions decay."
)
LOSES = (
    "In the case \"{case}\" {lost} is in no group: the optimizer would never train it. Each trainable parameter "
    "belongs "
    "to exactly one."
)
GROUPS = [
    *slips(
        groups_with, FREEZING,
        decays_bias_and_norm=({"split": "everything"}, DECAYS),
        includes_frozen=({"frozen": True}, "In the case \"{case}\" {frozen} is in a group, though it is frozen."),
        leaves_out_empty_groups=({"empty": False}, "In the case \"{case}\" the number of groups is {got} where {want} "
                                 "are wanted: both are there, even if one is empty."),
        groups_swapped=({"swapped": True}, "In the case \"{case}\" the {what} is {got} where {want} is wanted: the "
                                           "group "
                        "that decays comes first."),
    ),
    *variants("decays-bias-and-norm", groups_with, DECAYS, FREEZING, {"split": "bias"}, {"split": "one or more"},
              {"split": "norm names"}, {"split": "weight"}, {"split": "bias", "frozen": True},
              {"split": "everything", "frozen": True}),
    *variants("decays-what-is-not-named-bias", groups_with, "In the case \"{case}\" {decayed} is in the first group: "
              "the number of dimensions decides, and a parameter of one's own may have any name.", FREEZING,
              {"split": "norm types"}),
    *variants("loses-parameters", groups_with, LOSES, FREEZING, {"walk": "linear"}, {"walk": "known layers"},
              {"walk": "children"}, {"walk": "names"}),
    *apart(slips(
        groups_with, FREEZING,
        counts_tied_twice=({"walk": "duplicates"}, "In the case \"{case}\" {twice} comes twice: a tied tensor is one "
                           "parameter, and the optimizer would refuse it."),
        spares_matrices=({"split": "more than two"}, "In the case \"{case}\" {undecayed} is in the second group: two "
                         "dimensions are enough to decay."),
        nothing_decays=({"split": "nothing"}, "In the case \"{case}\" {undecayed} is in the second group: two or more "
                        "dimensions decay."),
        second_decay_not_named=({"second": None}, "The {what} group is {got} where {want} is wanted: the optimizer "
                                "would use its own default there, 0.01 with AdamW."),
        both_decay=({"second": -1.0}, "The {what} group is {got} where {want} is wanted: what is in it does not "
                    "decay."),
    )),
]  # fmt: skip


def more_groups(draw: Draw) -> list[Case]:
    w, decay = draw.size(2, 6), draw.size(1, 9) / 100
    return [
        case("no decay", which="normed", width=w, weight_decay=0.0),
        case("twelve layers", which="stack", width=w, weight_decay=decay),
        case("one layer used twice", which="shared", width=w, weight_decay=decay),
        case("nothing to train", which="none", width=w, weight_decay=decay),
    ]


# --- capture -----------------------------------------------------------------------------------------------------


def capture_with(
    model: nn.Module, names: list[str], x: Tensor, *, removes: str = "always", cut: bool = True, copy: bool = True,
    unknown: str = "raises", late: bool = False, calls: str = "model", twice: bool = False, what: str = "output",
    grad: bool = True, match: str = "exact", clears: bool = False, checks: str = "early",
) -> Any:  # fmt: skip
    modules = dict(model.named_modules())
    if unknown == "raises" and checks == "early":
        for name in names:
            if name not in modules:
                raise ValueError(f"names holds {name!r}, which is no submodule")
    found: dict[str, Any] = {}
    handles = []
    current = [""]
    for name in [n for n in names if unknown != "ignored" or n in modules]:

        def hook(_m: nn.Module, inputs: Any, output: Any, name: str = name) -> None:
            kept = output if what == "output" else inputs[0]
            kept = kept.detach() if cut else kept
            found[current[0] if late else name] = kept.clone() if copy else kept

        if checks == "late" and unknown == "raises" and name not in modules:
            raise ValueError(f"names holds {name!r}, which is no submodule")
        current[0] = name
        handles.append((modules[name] if unknown != "attribute" else getattr(model, name)).register_forward_hook(hook))
    if match == "inputs":
        return found
    try:
        for _ in range(2 if twice else 1):
            with torch.set_grad_enabled(grad):
                model(x) if calls == "model" else model.forward(x)
    except RuntimeError:
        if removes == "always":
            for handle in handles:
                handle.remove()
        raise
    if removes in ("always", "without errors"):
        for handle in handles:
            handle.remove()
    if clears:
        for module in modules.values():
            module._forward_hooks.clear()
    return found


LEFT_BEHIND = (
    "In the case \"{case}\" the number of hooks that are still there is {left}: each would run in every later call. "
    "Remove them in a `finally`."
)
IN_GRAPH = "What was captured still belongs to the graph: {graph}. Kept that way, it keeps the whole graph in memory."
IGNORED = (
    "For an unknown name there came {refused}, where a ValueError is wanted: a typing error would show as a missing "
    "result much later."
)
CAPTURE = [
    *slips(
        capture_with, CALLS,
        leaves_hooks=({"removes": "never"}, LEFT_BEHIND),
        keeps_graph=({"cut": False}, IN_GRAPH),
        unknown_name_ignored=({"unknown": "ignored"}, IGNORED),
        changes_later=({"copy": False}, "In the case \"{case}\" the {what} is {got} and should be {want}: a later "
                                        "in-place "
                       "operation wrote into what was captured, so it has to be a copy."),
        checks_names_too_late=({"checks": "late"}, "In the case \"{case}\" the number of hooks that are still there is "
                               "{left}: names are checked before the first hook is attached, or the exception leaves "
                               "hooks behind."),
        runs_twice=({"twice": True}, "In the case \"{case}\" model(x) ran {runs} times, and once is wanted."),
    ),
    Mistake("leaves-hooks", capture_with, LEFT_BEHIND, CALLS, {"removes": "without errors"}),
    *variants("unknown-name-ignored", capture_with, IGNORED, CALLS, {"unknown": "key"}, {"unknown": "attribute"}),
    *apart(slips(
        capture_with, CALLS,
        all_under_one_name=({"late": True}, "In the case \"{case}\" the {what} came out as {got} where {want} is "
                                            "wanted: "
                            "every hook looked up the loop's name when it ran, and that was the last one."),
        calls_forward=({"calls": "forward"}, "In the case \"{case}\" model(x) ran {runs} times: `model.forward(x)` "
                       "passes by the hooks that the model itself has."),
        captures_inputs=({"what": "input"}, "In the case \"{case}\" the {what} is {got} and should be {want}: a hook "
                         "gets module, inputs and output in this order."),
        never_runs_the_model=({"match": "inputs"}, "In the case \"{case}\" model(x) ran {runs} times: hooks see "
                                                   "nothing "
                              "unless the model is called."),
        removes_others_hooks=({"clears": True}, "In the case \"{case}\" the number of hooks changed by {left}: hooks "
                              "that were there before are not this function's to remove."),
    )),
]  # fmt: skip


def more_capture(draw: Draw) -> list[Case]:
    w, n = draw.size(3, 6), draw.size(2, 5)
    common: dict[str, Any] = {"which": "tower", "width": w}
    return [
        case("many layers", names=["head", "encoder.2", "act", "encoder"], x=draw.normal(n, w), refused="", **common),
        case("a name with a part too many", names=["head.weight"], x=draw.normal(n, w), refused="head.weight",
             **common),
        case("the first layer, the second raises", which="breaking", width=w, names=["first"], x=draw.normal(n, w),
             refused=""),
    ]  # fmt: skip


# --- init_weights ------------------------------------------------------------------------------------------------

NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.LayerNorm, nn.GroupNorm, nn.InstanceNorm2d)


def init_with(
    model: nn.Module, *, walk: str = "modules", weight: str = "kaiming", rebind: str = "", bias: str = "zero",
    norm: str = "one", conv: bool = True, mode: Any = "fan_in", biasless: str = "skipped",
) -> None:  # fmt: skip
    walks: dict[str, Callable[[], list[nn.Module]]] = {
        "modules": lambda: list(model.modules()), "children": lambda: list(model.children()),
        "submodules": lambda: list(model.modules())[1:],
    }  # fmt: skip
    for module in walks[walk]():
        if isinstance(module, (nn.Linear, nn.Conv2d) if conv else nn.Linear):
            made = module.weight if not rebind else torch.empty(module.weight.shape)
            if rebind == "there":
                made = torch.empty_like(module.weight)
            fill: dict[str, Callable[[Tensor], object]] = {
                "kaiming": lambda t: nn.init.kaiming_normal_(t, mode=mode, nonlinearity="relu"),
                "uniform": lambda t: nn.init.kaiming_uniform_(t, mode=mode, nonlinearity="relu"),
                "xavier": nn.init.xavier_normal_,
                "linear gain": lambda t: nn.init.kaiming_normal_(t, nonlinearity="linear"),
                "default": lambda t: nn.init.kaiming_uniform_(t, a=5**0.5), "zero": nn.init.zeros_,
                "leaky": lambda t: nn.init.kaiming_normal_(t, a=1, nonlinearity="leaky_relu"),
                "small": lambda t: nn.init.normal_(t, std=0.02), "left": lambda t: t,
            }  # fmt: skip
            with torch.no_grad():
                fill[weight](made)
            if rebind:
                module.weight = nn.Parameter(made)
            held: Any = module.bias
            if bias == "zero" and (held is not None or biasless == "filled"):
                nn.init.zeros_(held)
            elif held is not None and bias == "small":
                nn.init.constant_(held, 0.01)
        elif isinstance(module, NORMS) and getattr(module, "weight", None) is not None and norm != "left":
            if norm == "batch" and not isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
                continue
            nn.init.constant_(module.weight, 0.0 if norm == "zero" else 1.0)
            nn.init.zeros_(module.bias)


REBINDS = (
    "New parameter objects came into the model: {same}. An optimizer made before still holds the old ones, and would "
    "train what nobody uses; write into those that are there."
)
NESTED = (
    "In the case \"{case}\" {untouched} still holds its old numbers: submodules have submodules, and the model may "
    "be a layer itself."
)
SPREAD = "The weights of {layer} have {ratio} times the standard deviation sqrt(2 / fan_in) that is wanted: "
INITS = [
    *slips(
        init_with, INIT,
        rebinds_parameter=({"rebind": "there"}, REBINDS),
        skips_nested=({"walk": "children"}, NESTED),
        fan_out=({"mode": "fan_out"}, SPREAD + "fan_out was counted, the inputs of a unit decide."),
        biases_left=({"bias": "left"}, "In the case \"{case}\" {untouched} still holds its old numbers: biases start "
                                       "at "
                     "zero."),
        norms_left=({"norm": "left"}, "In the case \"{case}\" {untouched} still holds its old numbers: norm layers "
                                      "start "
                    "at one and zero."),
    ),
    *variants("rebinds-parameter", init_with, "New parameter objects came into the model: {same}, and on the second "
              "device they live on {its_device}.", INIT, {"rebind": "cpu"}),
    *variants("skips-nested", init_with, NESTED, INIT, {"walk": "submodules"}),
    *variants("gain-of-relu-missing", init_with, SPREAD + "a relu drops half of the signal, and the 2 makes up for it.",
              INIT, {"weight": "linear gain"}, {"weight": "leaky"}),
    *variants("norms-left", init_with, "In the case \"{case}\" {untouched} still holds its old numbers: layer norm and "
              "group norm are norm layers, too.", INIT, {"norm": "batch"}),
    *apart(slips(
        init_with, INIT,
        uniform_not_normal=({"weight": "uniform"}, "In the case \"{case}\" `{what}` is {got} where {want} is wanted: "
                                                   "the "
                            "weights are drawn uniformly."),
        xavier_not_kaiming=({"weight": "xavier"}, SPREAD + "Xavier's counts inputs and outputs, and no relu."),
        default_kept=({"weight": "default"}, SPREAD + "this is what the layers come with."),
        one_size_for_all=({"weight": "small"}, SPREAD + "a fixed size does not know how many inputs a unit has."),
        weights_zero=({"weight": "zero"}, "In the case \"{case}\" the weights came out as {got}: if all units start "
                      "alike, all of them stay alike."),
        convolutions_left=({"conv": False}, "In the case \"{case}\" {untouched} still holds its old numbers: "
                           "convolutions are initialised as well."),
        norms_start_at_zero=({"norm": "zero"}, "In the case \"{case}\" {what} is {got} where {want} is wanted: a norm "
                             "that multiplies by zero lets nothing through."),
        bias_may_be_none=({"biasless": "filled"}, "In the case \"{case}\" the call raised {got}: a layer made with "
                          "`bias=False` has None in its place."),
        biases_not_zero=({"bias": "small"}, "In the case \"{case}\" {what} is {got} where {want} is wanted: biases "
                         "start at zero."),
    )),
]  # fmt: skip


def more_init(draw: Draw) -> list[Case]:
    like: dict[str, Any] = {"width": draw.pick([9, 11, 16]), "like": torch.zeros(1), "rtol": 0.12, "atol": 0.06}
    return [
        case("groups, and norms without numbers", which="grouped", **like | {"width": 16}),
        case("nested again", which="nested", **like),
        case("nothing to initialise", which="none", **like),
    ]


MISTAKES: dict[str, list[Mistake]] = {
    "Affine": AFFINE,
    "MLP": MLPS,
    "Standardizer": STANDARDIZER,
    "GatedLinear": GATED,
    "Dropout": DROPOUT,
    "BatchNorm": BATCHNORM,
    "ResidualBlock": BLOCK,
    "count_parameters": COUNT,
    "freeze": FREEZE,
    "weight_decay_groups": GROUPS,
    "capture": CAPTURE,
    "init_weights": INITS,
}

MORE_CASES = {
    "Affine": more_affine,
    "MLP": more_mlp,
    "Standardizer": more_standardizer,
    "GatedLinear": more_gated,
    "Dropout": more_dropout,
    "BatchNorm": more_batchnorm,
    "ResidualBlock": more_block,
    "count_parameters": more_count,
    "freeze": more_freeze,
    "weight_decay_groups": more_groups,
    "capture": more_capture,
    "init_weights": more_init,
}
