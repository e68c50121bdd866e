"""The exercise `MLP`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autograde.hidden.common import override
from autograde.hidden.modules.shared import UNBEGUN
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "Each layer's input is the width before it, so one variable walks along. The last layer stands alone, "
    "because logits go to the loss as they are: after a ReLU half of them would be 0. `Sequential` registers "
    "what a Python list would hide."
)
"""Why the reference is written as it is."""
REQUIRED = ("python-list-of-layers", "activation-after-last", "shared-layer")
"""The mistakes that a check must always be able to name."""

REGISTER = "What a module remembers"
INSIDE = "Modules inside modules"
MODES = "Train and eval"


class MLP(nn.Module):
    """A right network; a mistake overrides one of its methods."""

    layers: Any

    def __init__(self, in_dim: int, hidden_dims: list[int], out_dim: int, dropout: float = 0.0) -> None:
        super().__init__()
        blocks: list[nn.Module] = []
        for width in hidden_dims:
            blocks += self.block(in_dim, width, dropout)
            in_dim = width
        self.hold([*blocks, *self.ending(in_dim, out_dim, dropout)])

    def block(self, i: int, o: int, p: float) -> list[nn.Module]:
        return [nn.Linear(i, o), nn.BatchNorm1d(o), nn.ReLU(), nn.Dropout(p)]

    def ending(self, i: int, o: int, _p: float) -> list[nn.Module]:
        return [nn.Linear(i, o)]

    def hold(self, layers: list[nn.Module]) -> None:
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x


class InAList(MLP):
    def hold(self, layers: list[nn.Module]) -> None:
        self.layers = layers


class HiddenInAList(MLP):
    def hold(self, layers: list[nn.Module]) -> None:
        self.layers, self.out = layers[:-1], layers[-1]

    def forward(self, x: Tensor) -> Any:
        return self.out(super().forward(x))


class NormsInAList(nn.Module):
    def __init__(self, in_dim: int, hidden_dims: list[int], out_dim: int, dropout: float = 0.0) -> None:
        super().__init__()
        widths = [in_dim, *hidden_dims]
        self.linears = nn.ModuleList(nn.Linear(a, b) for a, b in zip(widths, hidden_dims, strict=False))
        self.norms = [nn.BatchNorm1d(width) for width in hidden_dims]
        self.dropout = nn.Dropout(dropout)
        self.last = nn.Linear(widths[-1], out_dim)

    def forward(self, x: Tensor) -> Any:
        for linear, norm in zip(self.linears, self.norms, strict=True):
            x = self.dropout(norm(linear(x)).relu())
        return self.last(x)


class SharedLinear(MLP):
    def block(self, i: int, o: int, p: float) -> list[nn.Module]:
        return [self.made("linear", i, o), nn.BatchNorm1d(o), nn.ReLU(), nn.Dropout(p)]

    def made(self, kind: str, i: int, o: int) -> nn.Module:
        """Return the one layer of this kind and these sizes."""
        made: dict[Any, nn.Module] = self.__dict__.setdefault("made_before", {})
        return made.setdefault((kind, i, o), nn.Linear(i, o) if kind == "linear" else nn.BatchNorm1d(o))


class SharedNorm(SharedLinear):
    def block(self, i: int, o: int, p: float) -> list[nn.Module]:
        return [nn.Linear(i, o), self.made("norm", 0, o), nn.ReLU(), nn.Dropout(p)]


class SharedBoth(SharedLinear):
    def block(self, i: int, o: int, p: float) -> list[nn.Module]:
        return [self.made("linear", i, o), self.made("norm", 0, o), nn.ReLU(), nn.Dropout(p)]


class AlwaysDropping(nn.Module):
    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Any:
        return F.dropout(x, self.p)


class NotRescaled(AlwaysDropping):
    def forward(self, x: Tensor) -> Any:
        return x * (torch.rand_like(x) >= self.p) if self.training else x


class DropsOnce(MLP):
    def hold(self, layers: list[nn.Module]) -> None:
        super().hold([m for m in layers if not isinstance(m, nn.Dropout) or m is layers[-2]])


class Inserts(MLP):
    def __init__(self, in_dim: int, hidden_dims: list[int], out_dim: int, dropout: float = 0.0) -> None:
        super().__init__(in_dim, hidden_dims, out_dim, dropout)
        hidden_dims.insert(0, in_dim)


class NotChained(MLP):
    def __init__(self, in_dim: int, hidden_dims: list[int], out_dim: int, dropout: float = 0.0) -> None:
        nn.Module.__init__(self)
        blocks = [layer for width in hidden_dims for layer in self.block(in_dim, width, dropout)]
        self.hold([*blocks, nn.Linear(self.last([in_dim, *hidden_dims]), out_dim)])

    def last(self, widths: list[int]) -> int:
        return widths[-1]


class NoneChained(NotChained):
    def last(self, widths: list[int]) -> int:
        return widths[0]


class Unbegun(nn.Module):
    def __init__(self, in_dim: int, hidden_dims: list[int], out_dim: int, dropout: float = 0.0) -> None:
        self.layers = nn.Sequential(nn.Linear(in_dim, out_dim))


def blocks(block: Callable[[int, int, float], list[nn.Module]]) -> type:
    """Return a network of blocks like this."""
    return override(MLP, block=lambda self, i, o, p: block(i, o, p))


def ending(ending: Callable[[int, int, float], list[nn.Module]]) -> type:
    """Return a network that ends like this."""
    return override(MLP, ending=lambda self, i, o, p: ending(i, o, p))


IN_A_LIST = (
    "For hidden widths {hidden} `parameters()` finds {count} tensors where {want_count} are wanted: layers in a plain "
    "list, tuple or dict are not registered, and so would never be trained, moved or saved."
)
SHARED = (
    "For hidden widths {hidden} there are {count} parameter tensors where {want_count} are wanted: the same layer was "
    "used in several places."
)
AFTER_LAST = (
    'In the case "{case}" the smallest output is {smallest}: something comes after the last Linear, but its output '
    "should be the result as it is, negative numbers included."
)
WHOLE_BLOCK = (
    'In the case "{case}" there are {count} parameter tensors where {want_count} are wanted: a whole block was put '
    "after the last Linear, too."
)
COUNT = "There are {count} parameter tensors where {want_count} are wanted for hidden widths {hidden}: "
VALUE = 'In the case "{case}" `{what}` is {got} where {want} is wanted: '
DROPPED = 'In the case "{case}", with dropout {p}, `{what}` is {got} where {want} is wanted: '
MISTAKES = [
    Mistake("missing-super-init", Unbegun, UNBEGUN, REGISTER),
    Mistake("changes-its-input", Inserts, "In the case \"{case}\" the caller's own list `hidden_dims` was {got} by the "
            "call, and should be {want}: `insert`, `append`, `pop` and `+=` write into the list that was passed.",
            INSIDE),
    Mistake("python-list-of-layers", InAList, IN_A_LIST, INSIDE),
    Mistake("python-list-of-layers", HiddenInAList, IN_A_LIST, INSIDE),
    Mistake("python-list-of-layers", NormsInAList, IN_A_LIST, INSIDE),
    Mistake("activation-after-last", ending(lambda i, o, p: [nn.Linear(i, o), nn.ReLU()]), AFTER_LAST, INSIDE),
    Mistake("activation-after-last", ending(lambda i, o, p: [nn.Linear(i, o), nn.Softmax(-1)]), AFTER_LAST, INSIDE),
    Mistake("activation-after-last", ending(lambda i, o, p: [nn.Linear(i, o), nn.BatchNorm1d(o), nn.ReLU()]),
            WHOLE_BLOCK, INSIDE),
    Mistake("activation-after-last",
            ending(lambda i, o, p: [nn.Linear(i, o), nn.BatchNorm1d(o), nn.ReLU(), nn.Dropout(p)]), WHOLE_BLOCK,
            INSIDE),
    Mistake("shared-layer", SharedLinear, SHARED, INSIDE),
    Mistake("shared-layer", SharedNorm, SHARED, INSIDE),
    Mistake("shared-layer", SharedBoth, SHARED, INSIDE),
    Mistake("norm-after-relu", blocks(lambda i, o, p: [nn.Linear(i, o), nn.ReLU(), nn.BatchNorm1d(o), nn.Dropout(p)]),
            VALUE + "the batch norm stands after the ReLU, but should stand before it.", INSIDE),
    Mistake("another-norm", blocks(lambda i, o, p: [nn.Linear(i, o), nn.LayerNorm(o), nn.ReLU(), nn.Dropout(p)]), VALUE
            + "the norm of the hidden layers is a LayerNorm, where a BatchNorm1d is asked for.", INSIDE),
    Mistake("norm-before-linear",
            blocks(lambda i, o, p: [nn.BatchNorm1d(i), nn.Linear(i, o), nn.ReLU(), nn.Dropout(p)]), "In the case "
            "\"{case}\" the {count} parameter tensors have other shapes than those that are wanted: the batch norm has "
            "the width that goes in, but should have the one that comes out.", INSIDE),
    Mistake("no-batch-norm", blocks(lambda i, o, p: [nn.Linear(i, o), nn.ReLU(), nn.Dropout(p)]), COUNT + "the batch "
            "norm layers are missing.", INSIDE),
    Mistake("no-activation", blocks(lambda i, o, p: [nn.Linear(i, o), nn.BatchNorm1d(o), nn.Dropout(p)]), VALUE
            + "without a ReLU in between, linear layers make one linear map.", INSIDE),
    Mistake("no-dropout", blocks(lambda i, o, p: [nn.Linear(i, o), nn.BatchNorm1d(o), nn.ReLU()]), DROPPED + "nothing "
            "is dropped.", INSIDE),
    *(Mistake("widths-not-chained", program, "For hidden widths {hidden} the call ended with {outcome}: a Linear "
              "takes in what the layer before it gives out, so the first width goes into the second, and not in_dim "
              "into each.", INSIDE) for program in (NotChained, NoneChained)),
    Mistake("linear-without-bias",
            blocks(lambda i, o, p: [nn.Linear(i, o, bias=False), nn.BatchNorm1d(o), nn.ReLU(), nn.Dropout(p)]), COUNT
            + "the Linear layers keep their bias, which is their default.", INSIDE),
    Mistake("dropout-argument-ignored",
            blocks(lambda i, o, p: [nn.Linear(i, o), nn.BatchNorm1d(o), nn.ReLU(), nn.Dropout()]), DROPPED + "the "
            "layers drop with a share of their own.", INSIDE),
    Mistake("dropout-after-last", ending(lambda i, o, p: [nn.Linear(i, o), nn.Dropout(p)]), DROPPED + "the outputs "
            "themselves are dropped.", INSIDE),
    Mistake("dropout-in-the-last-only", DropsOnce, DROPPED + "only the last hidden layer drops anything, but each "
            "should have a Dropout of its own.", INSIDE),
    Mistake("drops-whole-rows",
            blocks(lambda i, o, p: [nn.Linear(i, o), nn.BatchNorm1d(o), nn.ReLU(), nn.Dropout1d(p)]), "In the "
            "case \"{case}\", with dropout {p}, {got} are dropped where {want} should be: to `nn.Dropout1d` each row "
            "of a table is a channel, and it drops channels as a whole.", MODES),
    Mistake("dropout-not-rescaled",
            blocks(lambda i, o, p: [nn.Linear(i, o), nn.BatchNorm1d(o), nn.ReLU(), NotRescaled(p)]), "In the case "
            "\"{case}\", with dropout {p}, the {what} is {got}: what is kept has to be divided by 1 - p, as "
            "`nn.Dropout` does.", MODES),
    Mistake("dropout-stays-on",
            blocks(lambda i, o, p: [nn.Linear(i, o), nn.BatchNorm1d(o), nn.ReLU(), AlwaysDropping(p)]), DROPPED
            + "dropping went on in eval mode. `F.dropout(x, p)` does not know of `eval()`, nor does an `nn.Dropout` "
            "made in `forward` or not registered.", MODES),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    i, o, n = draw.size(1, 6), draw.size(1, 6), draw.size(5, 12)
    hidden = [draw.size(2, 8) for _ in range(draw.size(1, 4))]
    loose: dict[str, Any] = {"rtol": 1e-3, "atol": 1e-3}
    return [
        case("drawn widths", **loose, sizes=(i, hidden, o), dropout=None, x=draw.normal(n, i)),
        case("drawn widths, everything dropped", **loose, sizes=(i, hidden, o), dropout=1.0, x=draw.normal(n, i)),
        case("no hidden layer, with dropout", **loose, sizes=(i, [], o), dropout=1.0, x=draw.normal(n, i)),
    ]


# Right answers unlike the reference


class MLPOfLists(nn.Module):
    def __init__(self, in_dim: int, hidden_dims: list[int], out_dim: int, dropout: float = 0.0) -> None:
        super().__init__()
        widths = [in_dim, *hidden_dims]
        self.out = nn.Linear(widths[-1], out_dim)
        self.norms = nn.ModuleList(nn.BatchNorm1d(w) for w in hidden_dims)
        self.linears = nn.ModuleList(nn.Linear(a, b) for a, b in zip(widths, hidden_dims, strict=False))
        self.p = dropout

    def forward(self, x: Tensor) -> Any:
        for linear, norm in zip(self.linears, self.norms, strict=True):
            x = F.dropout(norm(linear(x)).relu(), self.p, self.training)
        return self.out(x)


class Hidden(nn.Module):
    def __init__(self, inside: int, outside: int, dropout: float) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(inside, outside), nn.BatchNorm1d(outside)
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Any:
        return self.drop(F.relu(self.norm(self.linear(x))))


class MLPOfBlocks(nn.Sequential):
    def __init__(self, in_dim: int, hidden_dims: list[int], out_dim: int, dropout: float = 0.0) -> None:
        widths = [in_dim, *hidden_dims]
        blocks = [(f"block{i}", Hidden(a, b, dropout)) for i, (a, b) in enumerate(zip(widths, hidden_dims))]  # noqa: B905
        super().__init__(OrderedDict([*blocks, ("out", nn.Linear(widths[-1], out_dim))]))


class MLPByName(nn.Module):
    def __init__(self, in_dim: int, hidden_dims: list[int], out_dim: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.depth = len(hidden_dims)
        for i, width in enumerate(hidden_dims):
            self.add_module(f"linear{i}", nn.Linear(in_dim, width))
            self.add_module(f"norm{i}", nn.BatchNorm1d(width))
            in_dim = width
        self.relu, self.dropout = nn.ReLU(inplace=True), nn.Dropout(dropout)
        self.last = nn.Linear(in_dim, out_dim)

    def forward(self, x: Tensor) -> Any:
        for i in range(self.depth):
            x = self.get_submodule(f"norm{i}")(self.get_submodule(f"linear{i}")(x))
            x = self.dropout(self.relu(x))
        return self.last(x)


RIGHT_ANSWERS: list[Callable[..., Any]] = [MLPOfLists, MLPOfBlocks, MLPByName]
