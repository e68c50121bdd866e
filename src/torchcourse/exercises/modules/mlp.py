"""The exercise `MLP`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations, Raised
from torchcourse.probes.modules import (
    attempted,
    build,
    called,
    ends_when_unusable,
    fill_in_order,
    gradients,
    quoting,
    sameness,
    without_graph,
    without_none,
)
from torchcourse.probes.observe import kind, look


class UsedParameters(TorchFunctionMode):
    """Notes the parameters that torch's functions are given, in the order of their first use, registered or not."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[int, nn.Parameter] = {}

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for value in tree_leaves((args, kwargs)):
            if isinstance(value, nn.Parameter):
                self.found.setdefault(id(value), value)
        return function(*args, **(kwargs or {}))


def in_order_of_use(module: Any, x: Tensor) -> list[nn.Parameter]:
    """Return a module's parameters in the order in which a call uses them."""
    with UsedParameters() as used, torch.no_grad():
        module.eval()(x)
    return list((used.found | {id(p): p for p in module.parameters()}).values())


@ends_when_unusable
def probe(answer: Watched, sizes: tuple[int, list[int], int], dropout: float | None, x: Tensor) -> Observations:
    """Observe a network, whatever its names, by filling its parameters in the order of their use."""
    hidden = list(sizes[1])
    module = build(answer, x.device, sizes[0], hidden, sizes[2], **without_none(dropout=dropout))
    seen: Observations = {"parameters": sorted(tuple(p.shape) for p in module.parameters())}
    seen["hidden_dims afterwards"] = "as before" if hidden == sizes[1] else "changed"
    outcome = attempted(lambda: in_order_of_use(module, x))
    if isinstance(outcome, Raised):
        return {**seen, "outcome": outcome}
    fill_in_order(outcome)
    seen["result in eval mode, untrained"] = called(answer, module.eval(), x)
    output = called(answer, module.train(), x)
    if dropout is not None and 0 < dropout < 1:  # which entries are dropped is not compared
        seen |= dropped(answer, sizes, dropout, x)
        return {**seen, "two calls in training": sameness(output, called(answer, module, x))}
    seen |= look(output, x)
    arrived = gradients(output, **{f"parameter {i}": p for i, p in enumerate(outcome)})
    seen |= {**arrived, "result in eval mode, after training": called(answer, module.eval(), x)}
    return {**seen, **without_graph(lambda: called(answer, module, x), seen["result in eval mode, after training"])}


def dropped(answer: Watched, sizes: tuple[int, list[int], int], dropout: float, x: Tensor) -> Observations:
    """Observe what dropout does to the last hidden layer, which the last Linear is made to return as it is."""
    outputs, width = [], sizes[1][-1]
    for share in (0.0, dropout):
        module = build(answer, x.device, in_dim=sizes[0], hidden_dims=[*sizes[1]], out_dim=width, dropout=share)
        parameters = in_order_of_use(module, x)
        fill_in_order(parameters)
        with torch.no_grad():
            for weight in [p for p in parameters if p.ndim > 1][-1:]:
                weight.copy_(torch.eye(*weight.shape))
            for bias in [p for p in parameters if p.ndim == 1][-1:]:
                bias.zero_()
            output = called(answer, module.train(), x.repeat(2000 // len(x), 1))
        if not isinstance(output, Tensor) or output.ndim != 2:
            return {"returned": kind(output)}
        outputs.append(output.double())
    without, having = outputs
    kept = [1 - (output == 0).double().mean().item() for output in outputs]
    gone = 1 - kept[1] / kept[0] if kept[0] else 1.0
    empty = {"rows": (having == 0).all(1), "columns": (having == 0).all(0)}
    whole = [name for name, lines in empty.items() if lines.double().mean() > dropout / 2]
    near = abs(gone - dropout) < min(0.07, dropout / 2)
    close = abs(having.mean() / without.mean() - 1) < dropout / 2
    return {
        "share of a hidden layer that is dropped": dropout if near else round(max(gone, 0.0), 1),
        "what is dropped": f"whole {whole[0]}" if whole else "single units",
        "mean of a hidden layer": "as without dropout" if close else "not as without dropout",
    }


def cases(draw: Draw) -> list[Case]:
    i, h, o, n = draw.size(3, 4), draw.size(5, 6), draw.size(2, 3), draw.size(8, 10)
    return [
        case("two hidden layers", rtol=1e-3, atol=1e-3, sizes=(i, [h, h + 2], o), dropout=None, x=draw.normal(n, i)),
        case("three of one width", rtol=1e-3, atol=1e-3, sizes=(i, [h, h, h], o), dropout=None, x=draw.normal(n, i)),
        case("one hidden layer", rtol=1e-3, atol=1e-3, sizes=(i, [h], o), dropout=0.0, x=draw.normal(n, i)),
        case("no hidden layer", rtol=1e-3, atol=1e-3, sizes=(i, [], o), dropout=None, x=draw.normal(n, i)),
        case("everything dropped", rtol=1e-3, atol=1e-3, sizes=(i, [h, h + 1], o), dropout=1.0, x=draw.normal(n, i)),
        case("a tenth dropped", rtol=1e-3, atol=1e-3, sizes=(i, [32], o), dropout=0.1, x=draw.normal(n, i)),
        case("half dropped", rtol=1e-3, atol=1e-3, sizes=(i, [64, 64], o), dropout=0.5, x=draw.normal(n, i)),
    ]


def quotes_mlp(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"hidden": inputs["sizes"][1], "p": inputs["dropout"] or 0.0}
    fields |= {"outcome": seen["outcome"]} if "outcome" in seen else {}
    if "parameters" in seen and "parameters" in wanted:
        fields |= {"count": len(seen["parameters"]), "want_count": len(wanted["parameters"])}
    result = seen.get("result in eval mode, untrained")
    if isinstance(result, Tensor):
        fields["smallest"] = result.min().item()
    return fields


EXERCISE = Exercise(
    "MLP",
    probe,
    cases,
    hints=(
        "Each hidden width needs four layers, and each of them a width that goes in and one that comes out. Which "
        "variable remembers the width that the layer before has left?",
        "A plain Python list may collect the layers on the way. In what must it end up, so that the module knows "
        "about them?",
        "What comes after the last hidden block? Compare with what a loss on logits wants: any number, negative ones "
        "too.",
    ),
    quotes=quoting(quotes_mlp),
)
