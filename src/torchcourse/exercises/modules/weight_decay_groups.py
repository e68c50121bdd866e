"""The exercise `weight_decay_groups`: its probe, visible cases and hints."""

from __future__ import annotations

from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.models import model
from torchcourse.probes.observe import kind


def probe(answer: Watched, which: str, width: int, weight_decay: float) -> Observations:
    """Observe which parameters, by name, are in which group, and each group's decay."""
    net = model(which, width)
    names = {id(p): n for n, p in net.named_parameters()}
    groups = answer(net, weight_decay)
    if not (isinstance(groups, list | tuple) and all(isinstance(g, dict) and "params" in g for g in groups)):
        return {"returned": f"{kind(groups)}, where a list of dicts with the key `params` is wanted"}
    seen: Observations = {"number of groups": len(groups)}
    for place, group in zip(("first", "second", "third"), groups, strict=False):
        if isinstance(group["params"], set | frozenset):
            seen[f"{place} group is"] = "a set, which no optimizer takes"
        elif not hasattr(group["params"], "__len__"):
            seen[f"{place} group is"] = "an iterator, which has no length"
        held = [group["params"]] if isinstance(group["params"], Tensor) else list(group["params"])
        seen[f"{place} group"] = sorted(names.get(id(p), f"unknown: {kind(p)}") for p in held)
        decay = group.get("weight_decay", "missing")
        seen[f"decay of the {place} group"] = decay if isinstance(decay, str) else float(decay)
    return seen


def cases(draw: Draw) -> list[Case]:
    w, decays = draw.size(3, 5), draw.pick([(0.1, 0.02), (0.05, 0.3), (0.2, 0.01)])
    names = {
        "linear layers": "mlp", "with a batch norm": "normed", "convolutions": "convolutional",
        "half of it frozen": "frozen", "weights tied": "tied", "parameters of its own": "loose",
        "nested, with a layer norm": "nested", "vectors alone": "biases", "matrices alone": "matrices",
    }  # fmt: skip
    return [
        case(words, which=name, width=w, weight_decay=decays[number % 2])
        for number, (words, name) in enumerate(names.items())
    ]


def quotes(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {}
    if "first group" in seen and "first group" in wanted:
        every = [n for g in ("first group", "second group") for n in seen.get(g, [])]
        meant = [n for g in ("first group", "second group") for n in wanted[g]]
        pools = {
            "decayed": [n for n in seen["first group"] if n in wanted["second group"]],
            "undecayed": [n for n in seen.get("second group", []) if n in wanted["first group"]],
            "lost": [n for n in meant if n not in every],
            "frozen": [n for n in every if n not in meant],
            "twice": [n for n in every if every.count(n) > 1],
        }
        fields |= {name: pool[0] for name, pool in pools.items() if pool}
    return fields


EXERCISE = Exercise(
    "weight_decay_groups",
    probe,
    cases,
    hints=(
        "Which number of a tensor tells a weight matrix from a bias or the scale of a norm, without looking at its "
        "name?",
        "One walk over `parameters()` meets each parameter once, tied or not. Which attribute says that it is not "
        "trained, and what happens to those?",
        "Both groups are dicts with the keys `params` and `weight_decay`. What would an optimizer with a decay of its "
        "own use for a group that does not name one?",
    ),
    any_device=False,
    quotes=quotes,
)
