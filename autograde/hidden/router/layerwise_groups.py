"""The exercise `layerwise_groups`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "The parts stand in a row from the head down, and the rate follows from the place in it. The model itself is the "
    "last part: whatever was not placed before belongs to it, so no parameter can be lost, also one that somebody adds "
    "next year. The set of those placed keeps shared ones out of a second group."
)
"""Why the reference is written as it is."""
REQUIRED = ("decay-reversed", "loses-parameters", "starts-one-layer-late")
"""The mistakes that a check must always be able to name."""


class Grouping:
    """A right grouping; a mistake overrides one of its methods."""

    def __call__(self, model: Any, lr: float, decay: float) -> Any:
        parts = self.parts(model)
        groups: list[dict[str, Any]] = []
        placed: set[Any] = set()
        for depth, part in enumerate(parts):
            params = [p for p in part.parameters() if self.is_free(p, placed)]
            placed.update(params)
            if params:
                groups.append({"params": params, "lr": self.rate(lr, decay, depth, len(parts) - 1)})
        return self.returned(groups)

    def parts(self, model: Any) -> list[nn.Module]:
        return [model.head, *reversed(model.layers), model]

    def is_free(self, p: Any, placed: set[Any]) -> bool:
        return p.requires_grad and p not in placed

    def rate(self, lr: float, decay: float, depth: int, lowest: int) -> float:
        return lr * decay**depth

    def returned(self, groups: list[dict[str, Any]]) -> Any:
        return groups


class DecayReversed(Grouping):
    def rate(self, lr: float, decay: float, depth: int, lowest: int) -> float:
        return lr * decay ** (lowest - depth)


class LayersReversed(Grouping):
    def parts(self, model: Any) -> list[nn.Module]:
        return [model.head, *model.layers, model]


class ReversedExceptTheHead(Grouping):
    def rate(self, lr: float, decay: float, depth: int, lowest: int) -> float:
        return lr if depth == 0 else lr * decay ** (lowest + 1 - depth)


class OneLayerLate(Grouping):
    def rate(self, lr: float, decay: float, depth: int, lowest: int) -> float:
        return lr * decay ** max(depth - 1, 0)


class HeadDecaysToo(Grouping):
    def rate(self, lr: float, decay: float, depth: int, lowest: int) -> float:
        return lr * decay ** (depth + 1)


class EmbeddingsLikeTheLowest(Grouping):
    def rate(self, lr: float, decay: float, depth: int, lowest: int) -> float:
        return lr * decay ** min(depth, lowest - 1)


class EmbeddingsAtTheTop(Grouping):
    def rate(self, lr: float, decay: float, depth: int, lowest: int) -> float:
        return lr if depth == lowest else lr * decay**depth


class StepsByGroup(Grouping):
    """The rate falls with each group, and a frozen part has none."""

    def returned(self, groups: list[dict[str, Any]]) -> Any:
        return [group | {"lr": group["lr"] * self.decay**depth} for depth, group in enumerate(groups)]

    def rate(self, lr: float, decay: float, depth: int, lowest: int) -> float:
        self.decay = decay
        return lr


class OneRate(Grouping):
    def rate(self, lr: float, decay: float, depth: int, lowest: int) -> float:
        return lr


class OneDecay(Grouping):
    def rate(self, lr: float, decay: float, depth: int, lowest: int) -> float:
        return lr * decay if depth else lr


class Linearly(Grouping):
    def rate(self, lr: float, decay: float, depth: int, lowest: int) -> float:
        return lr * (1 - (1 - decay) * depth)


class Divides(Grouping):
    def rate(self, lr: float, decay: float, depth: int, lowest: int) -> float:
        return lr / decay**depth


class LosesTheRest(Grouping):
    def parts(self, model: Any) -> list[nn.Module]:
        return [model.head, *reversed(model.layers), model.words]


class EmbeddingsOnly(Grouping):
    def parts(self, model: Any) -> list[nn.Module]:
        return [model.head, *reversed(model.layers), nn.ModuleList([model.words, model.places])]


class LosesTheEmbeddings(Grouping):
    def parts(self, model: Any) -> list[nn.Module]:
        return [model.head, *reversed(model.layers)]


class WeightsOnly(Grouping):
    def is_free(self, p: Any, placed: set[Any]) -> bool:
        return super().is_free(p, placed) and p.ndim > 1


class TakesFrozen(Grouping):
    def is_free(self, p: Any, placed: set[Any]) -> bool:
        return p not in placed


def by_name(model: Any, lr: float, decay: float) -> Any:
    groups: list[dict[str, Any]] = []
    for part, depth in [("head.", 0), *((f"layers.{i}", len(model.layers) - i) for i in range(len(model.layers)))]:
        params = [p for name, p in model.named_parameters() if name.startswith(part) and p.requires_grad]
        groups.append({"params": params, "lr": lr * decay**depth})
    rest = [p for n, p in model.named_parameters() if not n.startswith(("head.", "layers.")) and p.requires_grad]
    return [*groups, {"params": rest, "lr": lr * decay ** (len(model.layers) + 1)}]


def by_first_name(model: Any, lr: float, decay: float) -> Any:
    groups: dict[int, list[Any]] = {}
    for name, p in model.named_parameters():
        part, *rest = name.split(".")
        depth = 0 if part == "head" else len(model.layers) - int(rest[0]) if part == "layers" else len(model.layers) + 1
        if p.requires_grad:
            groups.setdefault(depth, []).append(p)
    return [{"params": params, "lr": lr * decay**depth} for depth, params in sorted(groups.items())]


def children_only(model: Any, lr: float, decay: float) -> Any:
    rest = [child for name, child in model.named_children() if name not in ("head", "layers")]
    groups: list[dict[str, Any]] = []
    placed: set[Any] = set()
    for depth, parts in enumerate([[model.head], *([layer] for layer in reversed(model.layers)), rest]):
        params = [p for part in parts for p in part.parameters() if p.requires_grad and p not in placed]
        placed.update(params)
        groups += [{"params": params, "lr": lr * decay**depth}] if params else []
    return groups


def shared_twice(model: Any, lr: float, decay: float) -> Any:
    parts = [model.head, *reversed(model.layers), nn.ModuleList([model.words, model.places])]
    groups: list[dict[str, Any]] = [
        {"params": [p for p in part.parameters() if p.requires_grad], "lr": lr * decay**depth}
        for depth, part in enumerate(parts)
    ]
    inside = {id(p) for group in groups for p in group["params"]}
    rest = [p for p in model.parameters() if id(p) not in inside and p.requires_grad]
    groups[-1]["params"] += rest
    return [group for group in groups if group["params"]]


def by_beginning(model: Any, lr: float, decay: float) -> Any:
    """Take every part whose name begins with `head` or `layers` for one of these."""
    depths: dict[Any, int] = {}
    for name, p in model.named_parameters(remove_duplicate=False):
        number = name.split(".")[1]
        own = len(model.layers) + 1
        if name.startswith("head"):
            own = 0
        elif name.startswith("layers"):
            own = len(model.layers) - (int(number) if number.isdigit() else 0)
        if p.requires_grad:
            depths[p] = min(own, depths.get(p, own))
    return [{"params": [p], "lr": lr * decay**own} for p, own in depths.items()]


def shared_between_children(model: Any, lr: float, decay: float) -> Any:
    rest = [child for name, child in model.named_children() if name not in ("head", "layers")]
    parts = [[model.head], *([layer] for layer in reversed(model.layers)), rest]
    groups: list[dict[str, Any]] = [
        {"params": [p for part in each for p in part.parameters() if p.requires_grad], "lr": lr * decay**depth}
        for depth, each in enumerate(parts)
    ]
    groups[-1]["params"] += [p for p in model.parameters(recurse=False) if p.requires_grad]
    return [group for group in groups if group["params"]]


def by_first_beginning(model: Any, lr: float, decay: float) -> Any:
    """Gives each parameter the rate of the first part whose name is the beginning of its own."""
    depth = len(model.layers)
    parts = {"head": 0} | {f"layers.{i}": depth - i for i in range(depth)}
    steps: dict[Any, int] = {}
    for name, p in model.named_parameters(remove_duplicate=False):
        own = next((n for part, n in parts.items() if name.startswith(part)), depth + 1)
        steps[p] = min(own, steps.get(p, own))
    return [{"params": [p], "lr": lr * decay**own} for p, own in steps.items() if p.requires_grad]


class RestBeforeLayers(Grouping):
    """Places what is in neither head nor layers before the layers."""

    def __call__(self, model: Any, lr: float, decay: float) -> Any:
        head = set(model.head.parameters())
        rest = {p for n, p in model.named_parameters() if not n.startswith(("head.", "layers."))} - head
        groups = [{"params": [p for p in rest if p.requires_grad], "lr": lr * decay ** (len(model.layers) + 1)}]
        for depth, part in enumerate([model.head, *reversed(model.layers)]):
            params = [p for p in part.parameters() if self.is_free(p, rest)]
            rest |= set(params)
            groups.append({"params": params, "lr": lr * decay**depth})
        return [group for group in groups if group["params"]]


def head_first_then_by_name(model: Any, lr: float, decay: float) -> Any:
    head = set(model.head.parameters())
    groups: list[dict[str, Any]] = [{"params": [p for p in model.head.parameters() if p.requires_grad], "lr": lr}]
    for name, p in model.named_parameters():
        depth = len(model.layers) - int(name.split(".")[1]) if name.startswith("layers.") else len(model.layers) + 1
        if p.requires_grad and p not in head:
            groups.append({"params": [p], "lr": lr * decay**depth})
    return [group for group in groups if group["params"]]


class OnlyParameters(Grouping):
    def returned(self, groups: list[dict[str, Any]]) -> Any:
        return [group["params"] for group in groups]


class AnOptimizerInstead(Grouping):
    def returned(self, groups: list[dict[str, Any]]) -> Any:
        return {"params": groups}


RATES = "Smaller steps further down"
IS = 'In the case "{case}" the {what} is {got} where {want} is wanted: '
ALL = (
    'In the case "{case}" the head learns at {head}, the top layer at {top} and the lowest at {lowest}, where '
    "{want_head}, {want_top} and {want_lowest} are wanted: "
)
LOST = 'In the case "{case}" these are in no group and learn nothing: {out}. '
MISTAKES = [
    Mistake("decay-reversed", DecayReversed(), ALL + "the rate falls towards the head, which has to learn most.",
            RATES),
    Mistake("decay-reversed", LayersReversed(), ALL + "among the layers, the rate falls towards the head.", RATES),
    Mistake("decay-reversed", ReversedExceptTheHead(), ALL + "below the head, the rate grows on the way down instead "
            "of falling.", RATES),
    Mistake("decay-reversed", Divides(), ALL + "each rate was divided by `decay`, which makes it larger.", RATES),
    Mistake("starts-one-layer-late", OneLayerLate(), ALL + "the top layer has the head's rate, and all below it are "
            "one step behind.", RATES),
    Mistake("starts-one-layer-early", HeadDecaysToo(), ALL + "the head has to learn at `lr` itself.", RATES),
    Mistake("embeddings-like-lowest-layer", EmbeddingsLikeTheLowest(), IS + "the embeddings lie below the lowest layer "
            "and have one step more.", RATES),
    Mistake("frozen-parts-skipped", StepsByGroup(), IS + "a frozen layer still counts as a step.", RATES),
    Mistake("embeddings-at-full-rate", EmbeddingsAtTheTop(), IS + "what is in no layer got the full rate, but the "
            "embeddings should have the lowest.", RATES),
    Mistake("no-decay", OneRate(), ALL + "`decay` has no effect.", RATES),
    Mistake("decays-once", OneDecay(), ALL + "each layer has `decay` times the rate of the one above it, not of the "
            "head.", RATES),
    Mistake("decays-by-subtraction", Linearly(), ALL + "the rates fall by equal amounts, not by equal factors.", RATES),
    Mistake("loses-parameters", LosesTheRest(), LOST + "Only parts with known names were collected.", RATES),
    Mistake("loses-parameters", EmbeddingsOnly(), LOST + "Only parts of known names or types were collected. What the "
            "model has besides belongs to the embeddings.", RATES),
    Mistake("loses-parameters", LosesTheEmbeddings(), LOST + "The embeddings and all else need a group, too.", RATES),
    Mistake("loses-parameters", WeightsOnly(), LOST + "Biases and norms learn, too.", RATES),
    Mistake("loses-parameters", children_only, LOST + "Only modules were visited, but a parameter that belongs to the "
            "model itself is in none of them.", RATES),
    Mistake("shared-goes-by-first-name", by_first_name, IS + "`named_parameters()` names a shared parameter once, by "
            "where it came first. It belongs to the part nearer the head.", RATES),
    Mistake("shared-goes-by-first-name", head_first_then_by_name, IS + "layers that share a parameter were asked by "
            "name, from the lowest up. It belongs to the part nearer the head.", RATES),
    Mistake("rest-before-layers", RestBeforeLayers(), IS + "what is in no layer was put into a group before the layers "
            "were, along with a parameter that a layer shares. That belongs to the part nearer the head.", RATES),
    Mistake("takes-parts-by-their-beginnings", by_beginning, IS + "that part is neither the head nor a layer; its name "
            "only begins like one of theirs.", RATES),
    Mistake("takes-parts-by-their-beginnings", by_first_beginning, IS + "a part was taken for another because its name "
            "begins in the same way: `layers.10` for `layers.1`, `headroom` for `head`.", RATES),
    Mistake("takes-frozen", TakesFrozen(), 'In the case "{case}" these {what}: {got}. A frozen parameter is in no '
            "group; weight decay or momentum could still move it.", RATES),
    *(Mistake("shared-in-two-groups", program, 'In the case "{case}" a parameter that two parts share is in two '
              "groups. It belongs to the part nearer the head alone; the optimizer refuses a parameter that comes "
              "twice.", RATES) for program in (shared_twice, shared_between_children)),
    Mistake("matches-beginnings-of-names", by_name, 'In the case "{case}" '
            "some parameters are in several groups: the name `layers.10` begins with `layers.1`, too.", RATES),
    Mistake("groups-without-rates", OnlyParameters(), "The call gave {returned}.", RATES),
    Mistake("groups-without-rates", AnOptimizerInstead(), "The call gave {returned}.", RATES),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    near: dict[str, Any] = {"rtol": 1e-6, "atol": 0.0}
    return [
        case("one layer, all extras", depth=1, extras=["norm", "scale", "tied"], lr=1.0, decay=0.9, **near),
        case("drawn", depth=draw.size(4, 9), extras=["scale"], lr=draw.size(1, 99) / 1e4,
             decay=draw.size(50, 99) / 100, **near),
        case("no decay", depth=2, extras=["norm", "frozen head"], lr=0.01, decay=1.0, **near),
    ]  # fmt: skip


# Right answers unlike the reference


def a_group_for_each(model: Any, lr: float, decay: float) -> list[dict[str, Any]]:
    rate = {id(p): lr * decay ** (len(model.layers) + 1) for p in model.parameters()}
    for steps, layer in zip(range(len(model.layers), 0, -1), model.layers, strict=True):
        rate |= {id(p): lr * decay**steps for p in layer.parameters()}
    rate |= {id(p): lr for p in model.head.parameters()}
    return [{"params": [p], "lr": rate[id(p)], "name": n} for n, p in model.named_parameters() if p.requires_grad]


def by_path(model: Any, lr: float, decay: float) -> list[dict[str, Any]]:
    depth = len(model.layers)

    def steps(name: str) -> int:
        part, *rest = name.split(".")
        return 0 if part == "head" else depth - int(rest[0]) if part == "layers" else depth + 1

    best: dict[Any, int] = {}
    for name, p in model.named_parameters(remove_duplicate=False):
        if p.requires_grad:
            best[p] = min(best.get(p, depth + 1), steps(name))
    return [
        {"lr": lr * decay**n, "params": [p for p, own in best.items() if own == n]} for n in sorted(set(best.values()))
    ]


RIGHT_ANSWERS: list[Callable[..., Any]] = [a_group_for_each, by_path]
