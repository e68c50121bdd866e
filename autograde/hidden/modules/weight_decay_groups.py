"""The exercise `weight_decay_groups`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from torch import nn

from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "Matrices and kernels are what decay is meant for; biases and the scales of norms have one dimension, and "
    "pulling them to zero only hurts. Looking at `ndim` needs no list of names. Frozen parameters are left out "
    "of both."
)
"""Why the reference is written as it is."""
REQUIRED = ("decays-bias-and-norm", "loses-parameters", "includes-frozen")
"""The mistakes that a check must always be able to name."""

FREEZING = "Freezing, and what decays"
Named = Iterable[tuple[str, nn.Parameter]]
Groups = list[dict[str, Any]]


def split(named: Named, weight_decay: float, decays: Callable[[str, nn.Parameter], bool]) -> Groups:
    """Return the two groups; frozen parameters are left in."""
    named = list(named)
    first = [p for name, p in named if decays(name, p)]
    second = [p for name, p in named if not decays(name, p)]
    return [{"params": first, "weight_decay": weight_decay}, {"params": second, "weight_decay": 0.0}]


def matrices(_name: str, p: nn.Parameter) -> bool:
    return p.ndim >= 2


def trained(named: Named) -> Named:
    return [(name, p) for name, p in named if p.requires_grad]


def groups(model: nn.Module, weight_decay: float) -> Groups:
    return split(trained(model.named_parameters()), weight_decay, matrices)


def by(decays: Callable[[str, nn.Parameter], bool]) -> Callable[..., Groups]:
    """Return a program in whose first group is what `decays(name, parameter)`."""
    return lambda model, weight_decay: split(trained(model.named_parameters()), weight_decay, decays)


def frozen_too(decays: Callable[[str, nn.Parameter], bool]) -> Callable[..., Groups]:
    """Return a program that does not look at `requires_grad`."""
    return lambda model, weight_decay: split(model.named_parameters(), weight_decay, decays)


def over(walk: Callable[[nn.Module], Named]) -> Callable[..., Groups]:
    """Return a program that only finds the parameters on such a walk."""
    return lambda model, weight_decay: split(trained(walk(model)), weight_decay, matrices)


def no_bias(name: str, _p: nn.Parameter) -> bool:
    return not name.endswith("bias")


def everything(_name: str, _p: nn.Parameter) -> bool:
    return True


def by_the_type_of_norms(model: nn.Module, weight_decay: float) -> Groups:
    norms = {id(p) for m in model.modules() if "Norm" in type(m).__name__ for p in m.parameters(recurse=False)}
    return by(lambda name, p: no_bias(name, p) and id(p) not in norms)(model, weight_decay)


def of_known_layers(model: nn.Module) -> Named:
    known = [m for m in model.modules() if type(m).__module__.startswith("torch.nn")]
    return [named for m in known for named in m.named_parameters(recurse=False)]


def of_linear_layers(model: nn.Module) -> Named:
    return [n for m in model.modules() if isinstance(m, nn.Linear | nn.Conv2d) for n in m.named_parameters()]


def of_the_children(model: nn.Module) -> Named:
    return [named for m in model.children() for named in m.named_parameters(recurse=False)]


def of_usual_names(model: nn.Module) -> Named:
    return [(name, p) for name, p in model.named_parameters() if name.endswith(("weight", "bias"))]


def by_the_type_of_layers(model: nn.Module, weight_decay: float) -> Groups:
    layers = nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d
    chosen = {id(m.weight) for m in model.modules() if isinstance(m, layers)}
    return by(lambda _name, p: id(p) in chosen)(model, weight_decay)


def second_without_a_decay(model: nn.Module, weight_decay: float) -> Groups:
    first, second = groups(model, weight_decay)
    return [first, {"params": second["params"]}]


def both_decay(model: nn.Module, weight_decay: float) -> Groups:
    return [group | {"weight_decay": weight_decay} for group in groups(model, weight_decay)]


def decay_hard_coded(model: nn.Module, _weight_decay: float) -> Groups:
    return groups(model, 0.01)


def in_sets(model: nn.Module, weight_decay: float) -> Groups:
    return [group | {"params": set(group["params"])} for group in groups(model, weight_decay)]


def in_generators(model: nn.Module, weight_decay: float) -> Groups:
    return [group | {"params": (p for p in group["params"])} for group in groups(model, weight_decay)]


DECAYS = (
    'In the case "{case}" {decayed} is in the first group: pulling a bias or the scale of a norm towards zero makes '
    "nothing simpler; only tensors of two or more dimensions decay."
)
LOSES = (
    'In the case "{case}" {lost} is in no group: the optimizer would never train it. Each trainable parameter belongs '
    "to exactly one."
)
MISTAKES = [
    Mistake("decays-bias-and-norm", by(everything), DECAYS, FREEZING),
    Mistake("decays-bias-and-norm", by(no_bias), DECAYS, FREEZING),
    Mistake("decays-bias-and-norm", by(lambda name, p: p.ndim >= 1), DECAYS, FREEZING),
    Mistake("decays-bias-and-norm", by(lambda name, p: "norm" not in name and "bias" not in name), DECAYS, FREEZING),
    Mistake("decays-bias-and-norm", by(lambda name, p: name.endswith("weight")), DECAYS, FREEZING),
    Mistake("decays-bias-and-norm", frozen_too(everything), DECAYS, FREEZING),
    Mistake("decays-bias-and-norm", frozen_too(no_bias), DECAYS, FREEZING),
    Mistake("decays-what-is-not-named-bias", by_the_type_of_norms, "In the case \"{case}\" {decayed} is in the first "
            "group: the number of dimensions decides, and a parameter of one's own may have any name.", FREEZING),
    Mistake("decay-hard-coded", decay_hard_coded, "In the case \"{case}\" `{what}` is {got} where {want} is wanted: it "
            "should be the argument `weight_decay`, not a number of your own.", FREEZING),
    Mistake("params-in-a-set", in_sets, "In the case \"{case}\" the {what} {got}: a set has no order, and an "
            "optimizer numbers its parameters. A parameter comes once in `parameters()` anyway.", FREEZING),
    Mistake("params-in-a-generator", in_generators, "In the case \"{case}\" the {what} {got}: whoever goes through it "
            "once, to count it for instance, leaves nothing for the optimizer. Make a list of it.", FREEZING),
    Mistake("spares-matrices", by(lambda name, p: p.ndim > 2), "In the case \"{case}\" {undecayed} is in the second "
            "group: two dimensions are enough to decay.", FREEZING),
    Mistake("matrices-alone", by(lambda name, p: p.ndim == 2), "In the case \"{case}\" {undecayed} is in the second "
            "group: two dimensions or more decay, and the weight of a convolution has more.", FREEZING),
    Mistake("decays-known-layers-only", by_the_type_of_layers, "In the case \"{case}\" {undecayed} is in the second "
            "group: the number of dimensions decides, whatever layer the tensor belongs to.", FREEZING),
    Mistake("nothing-decays", by(lambda name, p: False), "In the case \"{case}\" {undecayed} is in the second group: "
            "tensors of two or more dimensions decay.", FREEZING),
    Mistake("includes-frozen", frozen_too(matrices), "In the case \"{case}\" {frozen} is in a group, though it is "
            "frozen.", FREEZING),
    Mistake("loses-parameters", over(of_linear_layers), LOSES, FREEZING),
    Mistake("loses-parameters", over(of_known_layers), LOSES, FREEZING),
    Mistake("loses-parameters", over(of_the_children), LOSES, FREEZING),
    Mistake("loses-parameters", over(of_usual_names), LOSES, FREEZING),
    Mistake("counts-tied-twice", over(lambda model: model.named_parameters(remove_duplicate=False)), "In the case "
            "\"{case}\" {twice} comes twice: a tied tensor is one parameter, and the optimizer would refuse it.",
            FREEZING),
    Mistake("leaves-out-empty-groups", lambda m, decay: [g for g in groups(m, decay) if g["params"]], "In the case "
            "\"{case}\" the number of groups is {got} where {want} are wanted: both should be there, even if one is "
            "empty.",
            FREEZING),
    Mistake("groups-swapped", lambda m, decay: groups(m, decay)[::-1], "In the case \"{case}\" the {what} is {got} "
            "where {want} is wanted: the group that decays comes first.", FREEZING),
    Mistake("second-decay-not-named", second_without_a_decay, "The {what} group is {got} where {want} is wanted: the "
            "optimizer would use its own default there, 0.01 with AdamW.", FREEZING),
    Mistake("both-decay", both_decay, "The {what} group is {got} where {want} is wanted: what is in it does not decay.",
            FREEZING),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    w, decay = draw.size(2, 6), draw.size(1, 9) / 100
    return [
        case("no decay", which="normed", width=w, weight_decay=0.0),
        case("twelve layers", which="stack", width=w, weight_decay=decay),
        case("one layer used twice", which="shared", width=w, weight_decay=decay),
        case("nothing to train", which="none", width=w, weight_decay=decay),
    ]


# Right answers unlike the reference


def groups_by_loop(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    decay: list[nn.Parameter] = []
    rest: list[nn.Parameter] = []
    for _name, p in model.named_parameters():
        if not p.requires_grad:
            continue
        (decay if p.dim() > 1 else rest).append(p)
    return [{"params": decay, "weight_decay": weight_decay}, {"params": rest, "weight_decay": 0}]


def groups_by_filter(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    trained = dict.fromkeys(p for m in model.modules() for p in m.parameters(recurse=False) if p.requires_grad)

    def group(name: str, flat: bool, decay: float) -> dict[str, Any]:
        return {"name": name, "params": tuple(p for p in trained if (len(p.shape) < 2) == flat), "weight_decay": decay}

    return [group("decays", False, weight_decay), group("rests", True, 0.0)]


RIGHT_ANSWERS: list[Callable[..., Any]] = [groups_by_loop, groups_by_filter]
