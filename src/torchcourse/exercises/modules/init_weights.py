"""The exercise `init_weights`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations, Raised
from torchcourse.probes.models import model
from torchcourse.probes.modules import spread
from torchcourse.probes.observe import where
from torchcourse.probes.trainable_models import with_detail

LEFT_OVER = 7.0  # what every parameter holds before

ENOUGH = 2000  # of so many normal numbers, some 19 lie beyond 2.6 standard deviations


def probe(answer: Watched, which: str, width: int, like: Tensor) -> Observations:
    """Observe every parameter of a network that held one number throughout before."""
    net = model(which, width).to(like.device)
    with torch.no_grad():
        for p in net.parameters():
            p.fill_(LEFT_OVER)
    before = {n: id(p) for n, p in net.named_parameters()}
    answer(net)
    after = dict(net.named_parameters())
    first = {n: p.detach().clone() for n, p in sorted(after.items())}
    answer(net)
    drawn = [n for n, p in first.items() if p.ndim > 1 and bool((p != LEFT_OVER).any())]
    again = [n for n in drawn if torch.equal(first[n], dict(net.named_parameters())[n])]
    new = sorted(n for n, p in after.items() if before.get(n) != id(p))
    return {
        "same objects": with_detail("not all", ", ".join(new)) if new else "all",
        "device": sorted({where(p, like) for p in after.values()}),
        "require grad": all(p.requires_grad and p.is_leaf for p in after.values()),
        "numbers of a second call": "the same" if again else "others" if drawn else "none",
        **first,
    }


def derive(_case: Case, seen: Observations) -> Observations:
    """Describe constants by their value and weights by their spread: single draws are not compared."""
    tidy: Observations = {}
    weights = [v / v.std() for v in seen.values() if isinstance(v, Tensor) and v.ndim > 1]
    if sum(w.numel() for w in weights) >= ENOUGH:
        far = any(bool((w.abs() > 2.6).any()) for w in weights)
        tidy["weights beyond 2.6 standard deviations"] = "some" if far else "none"
    for name, value in seen.items():
        if not isinstance(value, Tensor):
            tidy[name] = value
        elif bool((value == value.flatten()[0]).all()):
            tidy[name] = f"all {value.flatten()[0].item():g}"
        elif value.ndim < 2:
            tidy[name] = "of several values"
        else:
            fan_in = value[0].numel()
            found = spread(value, (2 / fan_in) ** 0.5)
            within = found["share within one standard deviation"]
            tidy[f"{name}: spread against sqrt(2 / fan_in)"] = found["standard deviation"]
            tidy[f"{name}: mean"] = found["mean"]
            tidy[f"{name}: form"] = "bell" if abs(within - 0.683) < 0.05 else "flat" if within < 0.6 else "other"
    return tidy


def cases(draw: Draw) -> list[Case]:
    width = draw.pick([8, 10, 12])
    names = {
        "a convolutional net": "convolutional", "layers inside of layers": "nested", "a single linear layer": "linear",
        "without bias, with other norms": "no bias", "with an embedding and a Conv1d": "embedded",
        "a subclass of nn.Linear": "labelled",
    }  # fmt: skip
    like: dict[str, Any] = {"width": width, "like": torch.zeros(1), "rtol": 0.12, "atol": 0.06}
    grouped = case("groups, and norms without numbers", which="grouped", **like | {"width": 16})
    return [*(case(words, which=name, **like) for words, name in names.items()), grouped]


def quotes(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    same = seen.get("same objects")
    fields: dict[str, object] = {
        "new": same.message if isinstance(same, Raised) else "none",
        "its_device": seen.get("device"),
    }
    spreads = [n for n in seen if n.endswith("sqrt(2 / fan_in)") and n in wanted]
    if spreads:
        furthest = max(spreads, key=lambda n: abs(seen[n] - wanted[n]))
        fields |= {"layer": furthest.split(":")[0], "ratio": seen[furthest]}
    kept_old = [n for n, v in seen.items() if v == f"all {LEFT_OVER:g}" != wanted.get(n)]
    fields["second"] = seen.get("numbers of a second call")
    changed = [n for n, v in wanted.items() if v == f"all {LEFT_OVER:g}" != seen.get(n)]
    fields |= {"changed": changed[0]} if changed else {}
    return {**fields, **({"untouched": kept_old[0]} if kept_old else {})}


EXERCISE = Exercise(
    "init_weights",
    probe,
    cases,
    hints=(
        "`children()` gives the next level only. Which method walks over all levels, the model itself included? Or "
        "which one calls a function on each of them?",
        "The functions of `nn.init` that end in an underscore write in place. Which two arguments of `kaiming_normal_` "
        "say whose fan counts, and which activation follows?",
        "Norm layers are several classes. What do they all have if they are affine, and what if they are not? Bias can "
        "be None.",
    ),
    derive=derive,
    quotes=quotes,
)
