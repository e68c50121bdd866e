"""The exercise `freeze`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from autograde.hidden.common import one
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "A prefix is a path: `layer1` must not freeze `layer10`, hence the dot. Names that match nothing are an "
    "error, because freezing nothing by a misspelt name would go unnoticed for a whole training."
)
"""Why the reference is written as it is."""
REQUIRED = ("matches-partial-name", "freezes-everything")
"""The mistakes that a check must always be able to name."""

FREEZING = "Freezing, and what decays"


def inside(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(prefix + ".")


def complaint(prefix: str) -> ValueError:
    return ValueError(f"prefix is {prefix!r}, but has to name a submodule or a parameter")


def both(prefix: str, names: list[str]) -> None:
    """Refuse an empty prefix, and one that nothing begins with."""
    if not prefix or not names:
        raise complaint(prefix)


def only_unknown(prefix: str, names: list[str]) -> None:
    if not names:
        raise complaint(prefix)


def only_empty(prefix: str, _names: list[str]) -> None:
    if not prefix:
        raise complaint(prefix)


def by_key_error(prefix: str, names: list[str]) -> None:
    only_empty(prefix, names)
    if not names:
        raise KeyError(prefix)


def nothing(_prefix: str, _names: list[str]) -> None:
    pass


def freeze(
    model: nn.Module,
    prefix: str,
    *,
    inside: Callable[[str, str], bool] = inside,
    refuse: Callable[[str, list[str]], None] = both,
) -> list[str]:
    names = [name for name, _ in model.named_parameters() if inside(name, prefix)]
    refuse(prefix, names)
    for name in names:
        model.get_parameter(name).requires_grad_(False)
    return sorted(names)


def in_the_order_of_the_model(model: nn.Module, prefix: str) -> list[str]:
    names = freeze(model, prefix)
    return [name for name, _ in model.named_parameters() if name in names]


def everything(model: nn.Module, prefix: str) -> list[str]:
    names = freeze(model, prefix)
    model.requires_grad_(False)
    return names


def the_others(model: nn.Module, prefix: str) -> list[str]:
    before = {name: p.requires_grad for name, p in model.named_parameters()}
    names = freeze(model, prefix)
    for name, p in model.named_parameters():
        p.requires_grad_(before[name] and name in names)
    return names


def all_that_is_frozen(model: nn.Module, prefix: str) -> list[str]:
    freeze(model, prefix)
    return sorted(name for name, p in model.named_parameters() if not p.requires_grad)


def nothing_frozen(model: nn.Module, prefix: str) -> list[str]:
    names = sorted(name for name, _ in model.named_parameters() if inside(name, prefix))
    both(prefix, names)
    return names


def zeroed(model: nn.Module, prefix: str) -> list[str]:
    names = nothing_frozen(model, prefix)
    for name in names:
        model.get_parameter(name).data.zero_()
    return names


def newly_frozen(model: nn.Module, prefix: str) -> list[str]:
    names = [n for n, p in model.named_parameters() if inside(n, prefix) and p.requires_grad]
    both(prefix, names)
    for name in names:
        model.get_parameter(name).requires_grad_(False)
    return sorted(names)


def named_newly_frozen(model: nn.Module, prefix: str) -> list[str]:
    before = {n for n, p in model.named_parameters() if p.requires_grad}
    return [name for name in freeze(model, prefix) if name in before]


def thaws_the_rest(model: nn.Module, prefix: str) -> list[str]:
    names = freeze(model, prefix)
    for name, p in model.named_parameters():
        p.requires_grad_(name not in names)
    return names


def freeze_by_submodule(model: nn.Module, prefix: str) -> list[str]:
    module = model.get_submodule(prefix)
    module.requires_grad_(False)
    return sorted(f"{prefix}.{name}" for name, _ in module.named_parameters())


PARTIAL = (
    'In the case "{case}", with the prefix {prefix!r}, {extra} was frozen as well: its name begins with the same '
    "letters, but belongs to something else."
)
COUNT = "With the prefix {prefix!r} the number of frozen parameters is {count} and should be {want_count}: "
NAMES = 'In the case "{case}" the names came back as {got} and should be {want}: '
RETURNED = 'In the case "{case}" the call returned {got} where {want} is wanted: '
REFUSED = "For the prefix {prefix!r} the outcome was {refused}, where a ValueError is wanted"
AS_NAMED = NAMES + "they should be those that `model.named_parameters()` gives."


def parameters_not_names(model: nn.Module, prefix: str) -> list[nn.Parameter]:
    frozen = freeze(model, prefix)
    return [parameter for name, parameter in model.named_parameters() if name in frozen]


NEWLY = (
    'In the case "{case}" the outcome was {got} where {want} is wanted: names of parameters that were frozen before '
    "belong in the list, too."
)
NO_LIST = RETURNED + "a sorted list of names."
MISTAKES = [
    one("matches-partial-name", freeze, PARTIAL, FREEZING, inside=str.startswith),
    one("matches-partial-name", freeze, PARTIAL, FREEZING, inside=str.__contains__),
    one("matches-partial-name", freeze, PARTIAL, FREEZING, inside=str.startswith, refuse=only_unknown),
    one("matches-partial-name", freeze, PARTIAL, FREEZING, inside=str.startswith, refuse=nothing),
    one("matches-partial-name", freeze, PARTIAL, FREEZING, inside=str.__contains__, refuse=only_unknown),
    one("matches-partial-name", freeze, PARTIAL, FREEZING, inside=str.__contains__, refuse=nothing),
    one("matches-in-the-middle", freeze, "For the prefix {prefix!r} the outcome was {refused}, and {count} parameters "
        "are frozen, not {want_count}: a name further along a path is not a prefix of it.", FREEZING,
        inside=lambda name, prefix: f".{prefix}." in f".{name}."),
    Mistake("returns-the-newly-frozen", newly_frozen, NEWLY, FREEZING),
    Mistake("returns-the-newly-frozen", named_newly_frozen, NEWLY, FREEZING),
    Mistake("thaws-the-rest", thaws_the_rest, COUNT + "what had been frozen before was unfrozen; only what is inside "
            "the prefix should change.", FREEZING),
    Mistake("freezes-everything", everything, COUNT + "the rest of the model has to go on training.", FREEZING),
    one("freezes-everything", freeze, COUNT + "all parameters were frozen, whatever the prefix.", FREEZING,
        inside=lambda name, prefix: True),
    one("parameter-names-missed", freeze, "With the prefix {prefix!r} nothing was found, but there is a parameter of "
        "this name: the number of frozen ones is {count}, not {want_count}.", FREEZING,
        inside=lambda name, prefix: name.startswith(prefix + "."), refuse=only_empty),
    one("parameter-names-missed", freeze, "With the prefix {prefix!r} the call raised {error}, but there is a "
        "parameter of this name.", FREEZING, inside=lambda name, prefix: name.startswith(prefix + ".")),
    Mistake("parameter-names-missed", freeze_by_submodule, REFUSED + ": `get_submodule` raises an AttributeError of "
            "its own, takes an empty name for the model, and does not find single parameters.", FREEZING),
    one("first-part-only", freeze, COUNT + "names may have several parts.", FREEZING,
        inside=lambda name, prefix: name.split(".")[0] == prefix, refuse=only_empty),
    one("only-exact-names", freeze, COUNT + "the names of a submodule's parameters begin with its name and go on after "
        "a dot.", FREEZING,
        inside=str.__eq__, refuse=only_empty),
    one("unknown-prefix-accepted", freeze, REFUSED + ": a typo would freeze nothing, and nobody would notice.",
        FREEZING,
        refuse=only_empty),
    one("empty-prefix-accepted", freeze, REFUSED + ": an empty prefix would freeze the whole model.", FREEZING,
        inside=lambda name, prefix: not prefix or inside(name, prefix), refuse=only_unknown),
    one("other-exception", freeze, REFUSED + ", with a message that names the argument and what it got.", FREEZING,
        refuse=by_key_error),
    Mistake("nothing-frozen", nothing_frozen, COUNT + "names were collected, but `requires_grad` was left as it was.",
            FREEZING),
    Mistake("freezes-the-others", the_others, COUNT + "all the others were frozen, and those inside the prefix were "
            "not.", FREEZING),
    Mistake("returns-all-frozen", all_that_is_frozen, NAMES + "those that were frozen before, elsewhere in the model, "
            "do not belong to the prefix.", FREEZING),
    Mistake("zeroed-not-frozen", zeroed, COUNT + "the values were changed instead.", FREEZING),
    Mistake("names-unsorted", in_the_order_of_the_model, NAMES + "the list should be sorted.", FREEZING),
    Mistake("names-without-prefix", lambda m, prefix: sorted(n.removeprefix(prefix + ".") for n in freeze(m, prefix)),
            AS_NAMED, FREEZING),
    Mistake("names-without-prefix", lambda m, prefix: sorted(n.split(".")[-1] for n in freeze(m, prefix)), AS_NAMED,
            FREEZING),
    Mistake("returns-nothing", lambda m, prefix: freeze(m, prefix) and None, RETURNED + "the list of names is missing.",
            FREEZING),
    Mistake("no-list-of-names", lambda m, prefix: set(freeze(m, prefix)), NO_LIST, FREEZING),
    Mistake("no-list-of-names", lambda m, prefix: len(freeze(m, prefix)), NO_LIST, FREEZING),
    Mistake("no-list-of-names", parameters_not_names, NO_LIST, FREEZING),
    Mistake("no-list-of-names", lambda m, prefix: tuple(freeze(m, prefix)), NO_LIST, FREEZING),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    w, n = draw.size(2, 5), draw.size(2, 9)
    return [
        case("a drawn layer", which="stack", width=w, prefix=f"layers.{n}", refused=False),
        case("a layer that is not there", which="stack", width=w, prefix="layers.12", refused=True),
        case("a prefix with a dot at its end", which="tower", width=w, prefix="encoder.", refused=True),
        case("a number of no dimensions", which="loose", width=w, prefix="scale", refused=False),
        case("a parameter of a layer", which="stack", width=w, prefix=f"layers.{n}.bias", refused=False),
    ]


# Right answers unlike the reference


def freeze_by_parts(model: nn.Module, prefix: str) -> list[str]:
    parts = prefix.split(".")
    names = []
    for name, p in model.named_parameters():
        if name.split(".")[: len(parts)] == parts:
            p.requires_grad = False
            names.append(name)
    if not names:
        raise ValueError(f"prefix {prefix!r} matches no parameter; wanted the name of a submodule or parameter")
    names.sort()
    return names


def freeze_by_lookup(model: nn.Module, prefix: str) -> list[str]:
    if not prefix:
        raise ValueError("prefix is '', an empty prefix would freeze everything; name a submodule or a parameter")
    named = dict(model.named_parameters())
    if prefix in named:
        named[prefix].requires_grad_(False)
        return [prefix]
    try:
        module = model.get_submodule(prefix.rstrip("."))
    except AttributeError:
        raise ValueError(f"prefix {prefix!r} is neither a submodule nor a parameter") from None
    names = sorted(f"{prefix}.{name}" for name, _ in module.named_parameters())
    if not names or prefix.endswith("."):
        raise ValueError(f"prefix {prefix!r} holds no parameters, and has to hold some")
    module.requires_grad_(False)
    return names


RIGHT_ANSWERS: list[Callable[..., Any]] = [freeze_by_parts, freeze_by_lookup]
