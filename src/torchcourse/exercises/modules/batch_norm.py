"""The exercise `BatchNorm`: its probe, visible cases and hints."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations, Raised
from torchcourse.probes.modules import (
    attempted,
    build,
    called,
    ends_when_unusable,
    gradients,
    inventory,
    load,
    own_parameters,
    quoting,
    without_graph,
)
from torchcourse.probes.observe import kept, kind, look

STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


@ends_when_unusable
def probe(
    answer: Watched, options: dict[str, float], weights: dict[str, Tensor], batches: list[Tensor], refused: bool
) -> Observations:
    """Observe training on several batches, the running statistics, and evaluation; or how one value a channel is
    refused."""
    first = batches[0]
    module = build(answer, first.device, first.shape[1], **options).to(first.dtype)
    if refused:
        seen = {"refused with": complaint(lambda: module(first))}
        return {**seen, "result in eval mode": answer.run(_in_eval, module, first)}
    seen = {**inventory(module), **{f"fresh {name}": t.clone() for name, t in sorted(module.state_dict().items())}}
    load(module, weights)
    before = first.clone()
    output = None
    for batch in batches:
        batch.requires_grad_()
    for number, batch in enumerate(batches, 1):
        output = attempted(functools.partial(answer.run, module, batch))
        if isinstance(output, Raised):
            return {**seen, "outcome": output}
        seen |= {f"output of batch {number}": output} if number < len(batches) else look(output, batch)
    # the module's own methods could fill in what it has returned, so they are watched
    held = answer.run(lambda: [getattr(module, name, None) for name in STATISTICS])
    seen |= dict(zip(("running_mean", "running_var", "num_batches_tracked"), held, strict=True))
    seen["statistics carry a graph"] = any(isinstance(t, Tensor) and t.requires_grad for t in held[:2])
    parameters = own_parameters(answer, module, weights)
    if not seen["statistics carry a graph"]:
        seen |= gradients(output, x=batches[-1], **parameters)
    seen["result in eval mode"] = answer.run(_in_eval, module, first)
    arrived = gradients(seen["result in eval mode"], x=first, **parameters)
    seen |= {f"{name} in eval": gradient for name, gradient in arrived.items()}
    seen |= without_graph(lambda: called(answer, module, first), seen["result in eval mode"])
    seen |= kept(batch=(first.detach(), before))
    return {**seen, "running_mean after eval": answer.run(lambda: getattr(module, "running_mean", None))}


def _in_eval(module: nn.Module, x: Tensor) -> Tensor:
    output: Tensor = module.eval()(x)
    return output


def complaint(call: Callable[[], object]) -> Any:
    """Return how a call that should raise ValueError ends; the wording is free."""
    try:
        result = call()
    except ValueError as error:
        return "ValueError that says why" if len(str(error)) > 8 else "ValueError that does not say why"
    except Exception as error:
        return Raised(type(error).__name__, str(error).split("\n")[0][:200])
    return f"no exception but {kind(result)}"


def cases(draw: Draw) -> list[Case]:
    c, n = draw.size(2, 3), draw.size(4, 6)
    weights = {"weight": 1 + 0.3 * draw.normal(c), "bias": draw.normal(c)}
    common: dict[str, Any] = {"weights": weights, "refused": False, "rtol": 1e-3, "atol": 1e-4}

    def tables(count: int) -> list[Tensor]:
        return [2 + 3 * draw.normal(n, c) for _ in range(count)]

    def images(count: int) -> list[Tensor]:
        return [2 + 3 * draw.normal(2, c, 3, 4) for _ in range(count)]

    one: dict[str, Any] = {"options": {}, "weights": weights, "refused": True}
    return [
        case("a table", options={}, batches=tables(1), **common),
        case("three tables", options={}, batches=tables(3), **common),
        case("images", options={}, batches=images(2), **common),
        case("as many rows as channels", options={}, batches=[draw.normal(c, c)], **common),
        case("another momentum", options={"momentum": 0.3}, batches=tables(2), **common),
        case("a large eps", options={"eps": 2.0}, batches=images(1), **common),
        case("one example", batches=[draw.normal(1, c)], **one),
        case("one pixel of one image", batches=[draw.normal(1, c, 1, 1)], **one),
        case("two examples", options={}, batches=[2 + 3 * draw.normal(2, c)], **common),
        case("one image of many pixels", options={}, batches=[draw.normal(1, c, 2, 3)], **common),
        case(
            "moved to float64",
            options={},
            batches=[t.double() for t in tables(2)],
            **common | {"rtol": 1e-9, "atol": 1e-10},
        ),
    ]


def quotes_batchnorm(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"shape": tuple(inputs["batches"][0].shape)}
    for name in ("running_mean", "running_var"):
        if isinstance(seen.get(name), Tensor) and isinstance(wanted.get(name), Tensor):
            fields |= {f"its_{name}": seen[name], f"want_{name}": wanted[name]}
    names = {"refused": "refused with", "carry": "statistics carry a graph", "tracked": "num_batches_tracked"}
    return {**fields, **{field: seen[name] for field, name in names.items() if name in seen}}


EXERCISE = Exercise(
    "BatchNorm",
    probe,
    cases,
    hints=(
        "Two parameters and three buffers: which names and which first values does `nn.BatchNorm1d(3).state_dict()` "
        "show?",
        "Over which dimensions of (N, C) and of (N, C, H, W) is a channel's mean taken, and with which shape do the C "
        "numbers broadcast back?",
        "The batch is divided by its population variance, the running variance uses the sample variance. And autograd "
        "should not see the running statistics: what keeps them out of the graph?",
    ),
    forbids=("batch_norm", "native_batch_norm", "native_batch_norm_legit", "batch_norm_stats", "instance_norm"),
    quotes=quoting(quotes_batchnorm),
)
