"""The exercise `Standardizer`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations, Raised
from torchcourse.probes.modules import attempted, build, called, ends_when_unusable, gradients, in_any_mode, quoting
from torchcourse.probes.observe import kept, kind, look

STATISTICS = ("mean", "std")


@ends_when_unusable
def probe(answer: Watched, data: Tensor, x: Tensor) -> Observations:
    """Observe a fitted module, what is registered, and whether it can be saved, loaded and moved."""
    home = data.device
    module = build(answer, home, data.shape[1])
    seen: Observations = {"result before fit": called(answer, module, x.clone())}
    before = data.clone()
    with answer.watched():
        returned = module.fit(data)
    output = called(answer, module, x.requires_grad_())
    seen |= {**{name: narrow(getattr(module, name, None)) for name in STATISTICS}, **look(output, x)}
    seen |= {**gradients(output, x=x), **in_any_mode(module, lambda: called(answer, module, x), output)}
    seen |= {
        "fit returned": "the module" if returned is module else kind(returned),
        "buffers": [name for name in STATISTICS if name in dict(module.named_buffers())],
        "parameters": sorted(name for name, _ in module.named_parameters()),
        "state_dict": [name for name in STATISTICS if name in module.state_dict()],
        **kept(data=(data, before)),
    }
    other = build(answer, home, data.shape[1])
    keys = attempted(lambda: other.load_state_dict(module.state_dict(), strict=False))
    if isinstance(keys, Raised):
        return {**seen, "loading into a fresh one": keys}
    seen["result of a fresh one after loading"] = called(answer, other, x.detach())
    seen["keys that found no place"] = sorted(keys.unexpected_keys)
    twice = build(answer, home, data.shape[1])
    with answer.watched():
        for table in (2 * data + 1, data):
            twice.fit(table)
    seen["mean after a second fit"] = narrow(getattr(twice, "mean", None))
    moved = module.to(torch.float64)
    seen["dtype of mean after .to(torch.float64)"] = getattr(getattr(moved, "mean", None), "dtype", None)
    return {**seen, "moved to the CPU": elsewhere(answer, module, x)}


def narrow(statistic: Any) -> Any:
    """Return a statistic in float32 if it was gathered in float64, as it may be."""
    return statistic.float() if isinstance(statistic, Tensor) and statistic.dtype == torch.float64 else statistic


def elsewhere(answer: Watched, module: nn.Module, x: Tensor) -> Any:
    """Return what the module makes of `x` when both are brought to the CPU."""
    return called(answer, module.to("cpu"), x.detach().cpu().double())


def cases(draw: Draw) -> list[Case]:
    n, d = draw.size(4, 6), draw.size(2, 3)
    constant = 2 + 3 * draw.normal(n, d)
    constant[:, 1] = 3.0
    return [
        case("a table", data=2 + 3 * draw.normal(n, d), x=draw.normal(3, d)),
        case("as many rows as columns", data=2 + 3 * draw.normal(d, d), x=draw.normal(d, d)),
        case("a constant column", data=constant, x=draw.normal(3, d)),
        case("a single row", data=draw.integers(-4, 5, 1, d).float(), x=draw.normal(3, d)),
        case("small numbers", data=1e-12 * draw.normal(n, d), x=1e-12 * draw.normal(2, d)),
        case("half precision", rtol=2e-2, atol=2e-2, data=2 + 3 * draw.normal(n, d),
             x=draw.normal(3, d, dtype=torch.float16)),
    ]  # fmt: skip


def quotes_standardizer(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    names = ("buffers", "parameters", "state_dict")
    fields: dict[str, object] = {f"its_{name}": ", ".join(seen[name]) or "none" for name in names if name in seen}
    if seen.get("keys that found no place"):
        fields["unplaced"] = seen["keys that found no place"]
    for name in ("mean", "std"):
        if isinstance(seen.get(name), Tensor):
            fields |= {f"its_{name}": seen[name], f"want_{name}": wanted[name]}
    return fields


EXERCISE = Exercise(
    "Standardizer",
    probe,
    cases,
    hints=(
        "Mean and std must move with the module and be saved, but no optimizer may change them. Parameter, buffer or "
        "plain attribute: which of the three is that?",
        "Which values of mean and std make `(x - mean) / std` return x itself? They are what a fresh module holds, and "
        "they have the shape that fit will give them.",
        "Which argument makes `std` divide by n? And `torch.where` can put a 1 wherever the outcome is 0. What does "
        "fit return so that it can be chained?",
    ),
    quotes=quoting(quotes_standardizer),
)
