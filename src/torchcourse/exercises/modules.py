"""Lesson 03: probes, visible cases and hints. What is right is not written here."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook

from torchcourse.exercise import Case, Draw, Exercise, case
from torchcourse.exercises.handling import (
    attempted,
    build,
    gradients,
    inventory,
    load,
    named_shapes,
    probing_a_module,
    ramp,
)
from torchcourse.exercises.looking import kept, kind, look, refusal, where
from torchcourse.exercises.models import model
from torchcourse.observations import Observations, Raised
from torchcourse.probing import Watched

Quotes = Callable[[Observations, Observations, Observations], dict[str, object]]


def called(answer: Watched, module: Any, x: Tensor) -> Any:
    """What the module makes of x, its calls counted as the answer's."""
    with answer.watched():
        return module(x)


def spread(weight: object, bound: float) -> Observations:
    """How the numbers of a fresh tensor are spread, `bound` being 1: nothing that depends on the single draws."""
    if not isinstance(weight, Tensor) or weight.numel() < 2:
        return {"largest": "no tensor"}
    scaled = weight.double().flatten() / bound
    size = scaled.std()
    return {
        "largest": scaled.abs().max().item(),
        "standard deviation": size.item(),
        "mean": scaled.mean().item(),
        "share within one standard deviation": ((scaled - scaled.mean()).abs() <= size).double().mean().item(),
    }


def quoting(quotes: Quotes) -> Quotes:
    """`quotes`, and what went wrong where a module could not even be made."""

    def wider(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
        fields = {"construction": seen["construction"]} if "construction" in seen else {}
        return {**fields, **quotes(inputs, seen, wanted)}

    return wider


# --- Affine ------------------------------------------------------------------------------------------------------


def slot(module: nn.Module, name: str) -> str:
    """How a module holds `name`, in words."""
    registered: dict[str, Any] = module._parameters
    if name in registered:
        return "registered as None" if registered[name] is None else "a parameter"
    if not hasattr(module, name):
        return "no such attribute"
    held = getattr(module, name)
    return "None, not registered" if held is None else f"not a parameter but {kind(held)}"


@probing_a_module
def probe_affine(
    answer: Watched, sizes: tuple[int, int], bias: bool | None, weights: dict[str, Tensor], x: Tensor | None
) -> Observations:
    module = build(answer, torch.device("cpu") if x is None else x.device, *sizes, **with_value(bias=bias))
    if any(isinstance(m, nn.Linear) for m in module.modules()):
        answer.forbidden.append("nn.Linear")
    if x is None:
        return {name: getattr(module, name, None) for name in ("weight", "bias")}
    seen = {**inventory(module), "bias": slot(module, "bias")}
    load(module, weights)
    output = called(answer, module, x.requires_grad_())
    held = {name: p for name, p in module.named_parameters() if name in weights}
    return {**seen, **look(output, x), **gradients(output, x=x, **held)}


def with_value(**options: Any) -> dict[str, Any]:
    """Those options that are not None: the others keep the answer's own default."""
    return {name: value for name, value in options.items() if value is not None}


def derive_affine(case: Case, seen: Observations) -> Observations:
    if "weight" not in seen:
        return seen
    bound = case.inputs["sizes"][0] ** -0.5
    forbidden = {name: value for name, value in seen.items() if name == "forbidden calls"}
    spreads = {f"{what} of {name}": v for name in ("weight", "bias") for what, v in spread(seen[name], bound).items()}
    return {**spreads, **forbidden}


def affine_weights(draw: Draw, inside: int, outside: int, *names: str) -> dict[str, Tensor]:
    return {name: draw.normal(outside) if name == "bias" else draw.normal(outside, inside) for name in names}


def cases_affine(draw: Draw) -> list[Case]:
    i, o, n = draw.size(3, 4), draw.size(5, 6), draw.size(7, 8)
    both = affine_weights(draw, i, o, "weight", "bias")
    one = affine_weights(draw, i, o, "weight")
    square = affine_weights(draw, i, i, "weight", "bias")
    return [
        case("a batch", sizes=(i, o), bias=None, weights=both, x=draw.normal(n, i)),
        case("as many outputs as inputs", sizes=(i, i), bias=None, weights=square, x=draw.normal(n, i)),
        case("bias=False", sizes=(i, o), bias=False, weights=one, x=draw.normal(n, i)),
        case("bias=True", sizes=(i, o), bias=True, weights=both, x=draw.normal(n, i)),
        case("two batch dimensions", sizes=(i, o), bias=None, weights=both, x=draw.normal(2, n, i)),
        case("one example, no batch", sizes=(i, o), bias=None, weights=both, x=draw.normal(i)),
        case("fresh weights", rtol=0.05, atol=0.08, sizes=(50, 1500), bias=None, weights={}, x=None),
    ]


def quotes_registered(inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"sizes": inputs.get("sizes")}
    if "parameters" in seen:
        fields["registered"] = ", ".join(seen["parameters"]) or "none"
    return fields


Affine = Exercise(
    "Affine",
    probe_affine,
    cases_affine,
    hints=(
        "What has to be called first in the `__init__` of every module, so that it can register anything at all?",
        "A module notices a tensor only in a certain wrapping. Which class is it, and what does "
        "`list(module.parameters())` say of a bare tensor?",
        "For `bias=False` there is a way to register a name that holds nothing: look for `register_parameter`. "
        "And which of x and the weight has to be transposed so that (…, in) becomes (…, out)?",
    ),
    forbids=("linear",),
    derive=derive_affine,
    quotes=quoting(quotes_registered),
)

# --- MLP ---------------------------------------------------------------------------------------------------------


@contextmanager
def watching_owners() -> Iterator[list[nn.Module]]:
    """The modules with parameters of their own, in the order in which they are called, registered anywhere or not."""
    owners: list[nn.Module] = []

    def note(module: nn.Module, _args: Any) -> None:
        if any(True for _ in module.parameters(recurse=False)) and all(module is not owner for owner in owners):
            owners.append(module)

    handle = register_module_forward_pre_hook(note)
    try:
        yield owners
    finally:
        handle.remove()


def in_order_of_use(module: Any, x: Tensor) -> list[nn.Parameter]:
    """A module's parameters in the order in which a call uses them."""
    with watching_owners() as owners, torch.no_grad():
        module.eval()(x)
    used = [p for owner in [*owners, module] for p in owner.parameters(recurse=owner is module)]
    return list({id(p): p for p in used}.values())


def fill_in_order(parameters: Sequence[Tensor]) -> None:
    """Known values for each parameter, by its place among those of as many dimensions."""
    places: dict[int, int] = {}
    with torch.no_grad():
        for p in parameters:
            place = places[p.ndim] = places.get(p.ndim, -1) + 1
            wave = torch.sin(torch.arange(p.numel()) * (1.3 + 0.4 * place) + place)
            p.copy_((wave if p.ndim > 1 else 0.5 + 0.4 * wave).view(p.shape))


@probing_a_module
def probe_mlp(answer: Watched, sizes: tuple[int, list[int], int], dropout: float | None, x: Tensor) -> Observations:
    module = build(answer, x.device, *sizes, **with_value(dropout=dropout))
    seen: Observations = {"parameters": sorted(tuple(p.shape) for p in module.parameters())}
    outcome = attempted(lambda: in_order_of_use(module, x))
    if isinstance(outcome, Raised):
        return {**seen, "outcome": outcome}
    fill_in_order(outcome)
    seen["fresh, in eval"] = called(answer, module.eval(), x)
    output = called(answer, module.train(), x)
    if dropout is not None and 0 < dropout < 1:  # which entries are dropped is nobody's choice
        return {**seen, "two calls in training": sameness(output, called(answer, module, x))}
    seen |= look(output, x)
    arrived = gradients(output, **{f"parameter {i}": p for i, p in enumerate(outcome)})
    return {**seen, **arrived, "in eval, after training": called(answer, module.eval(), x)}


def sameness(one: object, other: object) -> str:
    if not (isinstance(one, Tensor) and isinstance(other, Tensor) and one.shape == other.shape):
        return f"{kind(one)} and {kind(other)}"
    return "give the same" if bool((one == other).all()) else "differ"


def cases_mlp(draw: Draw) -> list[Case]:
    i, h, o, n = draw.size(3, 4), draw.size(5, 6), draw.size(2, 3), draw.size(8, 10)
    return [
        case("two hidden layers", rtol=1e-3, atol=1e-3, sizes=(i, [h, h + 2], o), dropout=None, x=draw.normal(n, i)),
        case("three of one width", rtol=1e-3, atol=1e-3, sizes=(i, [h, h, h], o), dropout=None, x=draw.normal(n, i)),
        case("one hidden layer", rtol=1e-3, atol=1e-3, sizes=(i, [h], o), dropout=0.0, x=draw.normal(n, i)),
        case("no hidden layer", rtol=1e-3, atol=1e-3, sizes=(i, [], o), dropout=None, x=draw.normal(n, i)),
        case("everything dropped", rtol=1e-3, atol=1e-3, sizes=(i, [h, h + 1], o), dropout=1.0, x=draw.normal(n, i)),
        case("half dropped", rtol=1e-3, atol=1e-3, sizes=(i, [64, 64], o), dropout=0.5, x=draw.normal(n, i)),
    ]


def quotes_mlp(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"hidden": inputs["sizes"][1], "p": inputs["dropout"] or 0.0}
    if "parameters" in seen and "parameters" in wanted:
        fields |= {"count": len(seen["parameters"]), "want_count": len(wanted["parameters"])}
    result = seen.get("fresh, in eval")
    if isinstance(result, Tensor):
        fields["smallest"] = result.min().item()
    return fields


MLP = Exercise(
    "MLP",
    probe_mlp,
    cases_mlp,
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

# --- Standardizer ------------------------------------------------------------------------------------------------


STATISTICS = ("mean", "std")


@probing_a_module
def probe_standardizer(answer: Watched, data: Tensor, x: Tensor) -> Observations:
    home = data.device
    module = build(answer, home, data.shape[1])
    seen: Observations = {"before fit": called(answer, module, x.clone())}
    before = data.clone()
    with answer.watched():
        returned = module.fit(data)
    output = called(answer, module, x.requires_grad_())
    seen |= {"mean": getattr(module, "mean", None), "std": getattr(module, "std", None), **look(output, x)}
    seen |= gradients(output, x=x)
    seen |= {
        "fit returned": "the module" if returned is module else kind(returned),
        "buffers": [name for name in STATISTICS if name in dict(module.named_buffers())],
        "parameters": sorted(name for name, _ in module.named_parameters()),
        "state_dict": [name for name in STATISTICS if name in module.state_dict()],
        **kept(data=(data, before)),
    }
    other = build(answer, home, data.shape[1])
    keys = other.load_state_dict(module.state_dict(), strict=False)
    seen["a fresh one, after loading"] = called(answer, other, x.detach())
    seen["keys that found no place"] = sorted(keys.unexpected_keys)
    moved = module.to(torch.float64)
    seen["dtype of mean after .to(torch.float64)"] = getattr(getattr(moved, "mean", None), "dtype", None)
    return {**seen, "moved to the CPU": elsewhere(answer, module, x)}


def elsewhere(answer: Watched, module: nn.Module, x: Tensor) -> Any:
    """What the module makes of x when both are brought to the CPU."""
    return called(answer, module.to("cpu"), x.detach().cpu().double())


def cases_standardizer(draw: Draw) -> list[Case]:
    n, d = draw.size(4, 6), draw.size(2, 3)
    constant = 2 + 3 * draw.normal(n, d)
    constant[:, 1] = 3.0
    return [
        case("a table", data=2 + 3 * draw.normal(n, d), x=draw.normal(3, d)),
        case("as many rows as columns", data=2 + 3 * draw.normal(d, d), x=draw.normal(d, d)),
        case("a constant column", data=constant, x=draw.normal(3, d)),
        case("a single row", data=draw.integers(-4, 5, 1, d).float(), x=draw.normal(3, d)),
        case("small numbers", data=1e-3 * draw.normal(n, d), x=1e-3 * draw.normal(2, d)),
    ]


def quotes_standardizer(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    names = ("buffers", "parameters", "state_dict")
    fields: dict[str, object] = {f"its_{name}": ", ".join(seen[name]) or "none" for name in names if name in seen}
    if seen.get("keys that found no place"):
        fields["unplaced"] = seen["keys that found no place"]
    for name in ("mean", "std"):
        if isinstance(seen.get(name), Tensor):
            fields |= {f"its_{name}": seen[name], f"want_{name}": wanted[name]}
    return fields


Standardizer = Exercise(
    "Standardizer",
    probe_standardizer,
    cases_standardizer,
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

# --- GatedLinear -------------------------------------------------------------------------------------------------


@probing_a_module
def probe_gated(answer: Watched, sizes: tuple[int, int], weights: dict[str, Tensor], x: Tensor) -> Observations:
    module = build(answer, x.device, *sizes)
    seen = inventory(module)
    load(module, weights)
    output = called(answer, module, x.requires_grad_())
    held = {name: p for name, p in module.named_parameters() if name in weights}
    return {**seen, **look(output, x), **gradients(output, x=x, **held)}


def cases_gated(draw: Draw) -> list[Case]:
    i, o, n = draw.size(3, 4), draw.size(5, 6), draw.size(7, 8)
    names = ("weight", "gate_weight", "bias")
    weights = affine_weights(draw, i, o, *names)
    return [
        case("a batch", sizes=(i, o), weights=weights, x=draw.normal(n, i)),
        case("as many outputs as inputs", sizes=(i, i), weights=affine_weights(draw, i, i, *names),
             x=draw.normal(n, i)),
        case("two batch dimensions", sizes=(i, o), weights=weights, x=draw.normal(2, 3, i)),
        case("one example, no batch", sizes=(i, o), weights=weights, x=draw.normal(i)),
        case("large inputs", rtol=1e-3, atol=1e-3, sizes=(i, o), weights=weights, x=30 * draw.normal(n, i)),
    ]  # fmt: skip


GatedLinear = Exercise(
    "GatedLinear",
    probe_gated,
    cases_gated,
    hints=(
        "There are three parameters, registered on the module itself under the three names that the exercise gives. "
        "Which shape has each?",
        "The gate is a number between 0 and 1 for each output. Which function maps any number there, and does the bias "
        "belong inside or outside of the gate?",
        "`F.linear(x, weight, bias)` is allowed here. Which of its arguments can be left out?",
    ),
    quotes=quoting(quotes_registered),
)

# --- Dropout -----------------------------------------------------------------------------------------------------

ROWS, COLUMNS = 120, 80


@probing_a_module
def probe_dropout(answer: Watched, p: float | None, dtype: torch.dtype, refused: bool, like: Tensor) -> Observations:
    if refused:
        return {"refused with": turned_down(lambda: answer(p), "p", str(p))}
    module = build(answer, like.device, **with_value(p=p))
    x = ramp(ROWS, COLUMNS, low=1.0, high=3.0).to(like.device, dtype).requires_grad_()
    module.eval()
    seen: Observations = {"in eval": sameness(called(answer, module, x), x)}
    module.train()
    output, again = called(answer, module, x), called(answer, module, x)
    if not isinstance(output, Tensor) or output.shape != x.shape:
        return {**seen, "returned": kind(output)}
    seen |= {"dtype": output.dtype, "device": where(output, like), "two calls in training": sameness(output, again)}
    seen |= gradients(output, x=x)
    seen |= {"scale": output.detach().float() / x.detach().float(), "parameters": len(list(module.parameters()))}
    return {**seen, "fed back": ramp(*output.shape, low=-1.0, high=2.0, like=output).float()}


def turned_down(call: Callable[[], object], argument: str, got: str) -> Any:
    """How a call that should raise ends, whatever it raises."""
    try:
        result = call()
    except Exception as error:
        said = str(error)
        named = re.search(rf"\b{argument}\b|probab", said) is not None
        told = "names the argument" if named else "does not name the argument"
        value = "tells what it got" if got in said else "does not tell what it got"
        return f"an exception that {told}, and {value}"
    return f"no exception but {kind(result)}"


def derive_dropout(case: Case, seen: Observations) -> Observations:
    scale = seen.get("scale")
    if not isinstance(scale, Tensor):
        return seen
    p = 0.5 if case.inputs["p"] is None else case.inputs["p"]
    kept_ones = scale[scale != 0]
    share = (scale == 0).float().mean().item()
    known = next((q for q in (p, 1 - p, 0.5, 0.0, 1.0) if abs(share - q) < 0.03), round(share, 1))
    columns = (scale == 0).float().mean(0)
    rows = (scale == 0).float().mean(1)
    alike = bool((columns.std() > 0.3) | (rows.std() > 0.3))
    arrived, fed = seen.get("gradient of x"), seen["fed back"]
    rest = {n: v for n, v in seen.items() if n not in ("scale", "fed back", "gradient of x")}
    through: str = "none"
    if isinstance(arrived, str) and not kept_ones.numel():  # zeros without history have the gradient they should have
        arrived = fed * 0
    if isinstance(arrived, Tensor):
        same = torch.allclose(arrived.float(), fed * scale, rtol=0.02, atol=0.02, equal_nan=True)
        through = "scaled and dropped as the values are" if same else "unlike the values"
    return {
        **rest,
        "share of zeros": float(known),
        "kept values are multiplied by": kept_ones.median().item() if kept_ones.numel() else "none is kept",
        "dropped": "whole rows or columns" if alike else "entry by entry",
        "NaNs": bool(scale.isnan().any()),
        "gradient": through,
    }


def cases_dropout(draw: Draw) -> list[Case]:
    common: dict[str, Any] = {"dtype": torch.float32, "refused": False, "like": torch.zeros(1), "rtol": 0.01}
    odd = draw.pick([0.2, 0.25, 0.3])
    return [
        case("p = 0.5 by default", p=None, **common),
        case(f"p = {odd}", p=odd, **common),
        case(f"p = {1 - odd}", p=1 - odd, **common),
        case("p = 0", p=0.0, **common),
        case("p = 1", p=1.0, **common),
        case("float64", p=odd, **common | {"dtype": torch.float64}),
        case("p below 0", p=-0.1, **common | {"refused": True}),
        case("p above 1", p=1.5, **common | {"refused": True}),
    ]


def quotes_dropout(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"p": 0.5 if inputs["p"] is None else inputs["p"]}
    factor = "kept values are multiplied by"
    if factor in seen and factor in wanted:
        fields |= {"factor": seen[factor], "want_factor": wanted[factor]}
    for name in ("in eval", "two calls in training", "share of zeros", "refused with"):
        if name in seen:
            fields[name.replace(" ", "_")] = seen[name]
    return fields


Dropout = Exercise(
    "Dropout",
    probe_dropout,
    cases_dropout,
    hints=(
        "Every module has a flag that `train()` and `eval()` set. What is its name, and what does forward do when it "
        "is "
        "False?",
        "A mask that keeps with probability 1 - p: compare what `torch.rand_like(x)` draws with p. If a share p of the "
        "values is gone, by what must the others grow to leave the mean as it was?",
        "For p = 1 that factor is 1 / 0. What does `0 * inf` give, and which case would you rather treat by itself? "
        "And where do you look at p at all: in forward, or once, in `__init__`?",
    ),
    forbids=("dropout", "native_dropout", "fused_dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout",
             "dropout1d", "dropout2d", "dropout3d"),
    derive=derive_dropout,
    quotes=quoting(quotes_dropout),
)  # fmt: skip

# --- BatchNorm ---------------------------------------------------------------------------------------------------


@probing_a_module
def probe_batchnorm(
    answer: Watched, options: dict[str, float], weights: dict[str, Tensor], batches: list[Tensor], refused: bool
) -> Observations:
    first = batches[0]
    module = build(answer, first.device, first.shape[1], **options)
    if refused:
        seen = {"refused with": complaint(lambda: module(first))}
        return {**seen, "in eval": called(answer, module.eval(), first)}
    seen = {**inventory(module), **{f"fresh {name}": t.clone() for name, t in sorted(module.state_dict().items())}}
    load(module, weights)
    before = first.clone()
    output = None
    for batch in batches:
        batch.requires_grad_()
    for number, batch in enumerate(batches, 1):
        with answer.watched():
            output = module(batch)
        seen |= {f"output of batch {number}": output} if number < len(batches) else look(output, batch)
    held = getattr(module, "running_mean", None), getattr(module, "running_var", None)
    seen |= {"running_mean": held[0], "running_var": held[1], "batches": getattr(module, "num_batches_tracked", None)}
    seen["statistics carry a graph"] = any(isinstance(t, Tensor) and t.requires_grad for t in held)
    parameters = {name: p for name, p in module.named_parameters() if name in weights}
    if not seen["statistics carry a graph"]:
        seen |= gradients(output, x=batches[-1], **parameters)
    seen |= {"in eval": called(answer, module.eval(), batches[0]), **kept(batch=(first.detach(), before))}
    return {**seen, "running_mean after eval": getattr(module, "running_mean", None)}


def complaint(call: Callable[[], object]) -> Any:
    """How a call that should raise ValueError ends; the wording is free."""
    try:
        result = call()
    except ValueError as error:
        return "ValueError that says why" if len(str(error)) > 8 else "ValueError that does not say why"
    except Exception as error:
        return Raised(type(error).__name__, str(error).split("\n")[0][:200])
    return f"no exception but {kind(result)}"


def cases_batchnorm(draw: Draw) -> list[Case]:
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
        case("one image of many pixels", options={}, batches=[draw.normal(1, c, 2, 3)], **common),
    ]


def quotes_batchnorm(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"shape": tuple(inputs["batches"][0].shape)}
    for name in ("running_mean", "running_var"):
        if isinstance(seen.get(name), Tensor) and isinstance(wanted.get(name), Tensor):
            fields |= {f"its_{name}": seen[name], f"want_{name}": wanted[name]}
    names = {"refused": "refused with", "carry": "statistics carry a graph", "tracked": "batches"}
    return {**fields, **{field: seen[name] for field, name in names.items() if name in seen}}


BatchNorm = Exercise(
    "BatchNorm",
    probe_batchnorm,
    cases_batchnorm,
    hints=(
        "Two parameters and three buffers: which names and which first values does `nn.BatchNorm1d(3).state_dict()` "
        "show?",
        "Over which dimensions of (N, C) and of (N, C, H, W) is a channel's mean taken, and with which shape do the C "
        "numbers broadcast back?",
        "The batch is divided by its population variance, the running variance takes up the sample variance. And the "
        "running statistics are no business of autograd: what keeps them out of the graph?",
    ),
    forbids=("batch_norm", "native_batch_norm", "native_batch_norm_legit", "batch_norm_stats", "instance_norm"),
    quotes=quoting(quotes_batchnorm),
)

# --- ResidualBlock -----------------------------------------------------------------------------------------------

PARTS = ("conv1", "bn1", "relu", "conv2", "bn2", "skip")


def fill_by_shape(module: nn.Module, weights: dict[str, Tensor]) -> None:
    """Known values for the layers of a block; inside `skip`, whose names are free, by number of dimensions."""
    load(module, weights)
    skip = getattr(module, "skip", None)
    if isinstance(skip, nn.Module):
        fill_in_order(list(skip.parameters()))


@probing_a_module
def probe_block(answer: Watched, sizes: tuple[int, ...], weights: dict[str, Tensor], x: Tensor) -> Observations:
    module = build(answer, x.device, *sizes)
    seen: Observations = {
        "attributes that are missing": [name for name in PARTS if not hasattr(module, name)],
        "parameters": [text for text in named_shapes(module) if not text.startswith("skip.")],
        "parameters of skip": sorted(tuple(p.shape) for n, p in module.named_parameters() if n.startswith("skip.")),
    }
    fill_by_shape(module, weights)
    x.requires_grad_()
    before = x.detach().clone()
    output = attempted(lambda: called(answer, module, x))
    if isinstance(output, Raised):
        return {**seen, "outcome": output}
    held = {name: p for name, p in module.named_parameters() if name in weights}
    seen |= {**look(output, x), **gradients(output, x=x, **held), **kept(x=(x.detach(), before))}
    return {**seen, "in eval": called(answer, module.eval(), x.detach())}


def block_weights(draw: Draw, inside: int, outside: int) -> dict[str, Tensor]:
    made = {
        "conv1.weight": draw.normal(outside, inside, 3, 3),
        "conv2.weight": draw.normal(outside, outside, 3, 3),
    }
    for norm in ("bn1", "bn2"):
        made |= {f"{norm}.weight": 1 + 0.3 * draw.normal(outside), f"{norm}.bias": draw.normal(outside)}
    return made


def cases_block(draw: Draw) -> list[Case]:
    i, o, side = draw.size(2, 3), draw.size(4, 5), draw.size(5, 7)

    def one(name: str, inside: int, outside: int, *stride: int) -> Case:
        x, weights = draw.normal(2, inside, side, side), block_weights(draw, inside, outside)
        return case(name, rtol=1e-3, atol=2e-3, sizes=(inside, outside, *stride), weights=weights, x=x)

    return [
        one("the same shape", i, i),
        one("more channels", i, o),
        one("fewer channels", o, i, 1),
        one("stride 2, the same channels", i, i, 2),
        one("stride 2, more channels", i, o, 2),
    ]


def quotes_block(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"sizes": inputs["sizes"]}
    for field, name in (("skip", "parameters of skip"), ("want_skip", "parameters of skip")):
        held = (wanted if field.startswith("want") else seen).get(name)
        if held is not None:
            fields[field] = ", ".join(map(str, held)) or "none"
    if "outcome" in seen:
        fields["outcome"] = seen["outcome"]
    if isinstance(seen.get("result"), Tensor):
        fields |= {"smallest": seen["result"].min().item(), "x_shape": tuple(inputs["x"].shape)}
    if "parameters" in seen:
        fields["biases"] = ", ".join(n for n in seen["parameters"] if n.startswith("conv") and "bias" in n)
    return fields


ResidualBlock = Exercise(
    "ResidualBlock",
    probe_block,
    cases_block,
    hints=(
        "The sum of two tensors needs two equal shapes. For which arguments do both paths agree without help, and for "
        "which do they not?",
        "A convolution of size 3 keeps height and width at stride 1 with which padding? A convolution of size 1 needs "
        "none. Which of the two paths has to carry the stride? Both?",
        "The block ends: second norm, plus skip, then relu. Why is a bias of a convolution lost if a batch norm "
        "follows at once?",
    ),
    quotes=quoting(quotes_block),
)

# --- count_parameters --------------------------------------------------------------------------------------------


def probe_count(answer: Watched, which: str, width: int, trainable_only: bool | None) -> Observations:
    net = model(which, width)
    count = answer(net, **with_value(trainable_only=trainable_only))
    whole = isinstance(count, int) and not isinstance(count, bool)
    return {"count": count} if whole else {"returned": kind(count)}


def cases_count(draw: Draw) -> list[Case]:
    width = draw.size(3, 6)
    names = {
        "two linear layers": "mlp", "with a batch norm": "normed", "nested": "tower", "weights tied": "tied",
        "one layer used twice": "shared", "parameters of its own": "loose", "half of it frozen": "frozen",
        "no parameters": "none", "a single layer": "linear",
    }  # fmt: skip
    return [
        *(case(words, which=name, width=width, trainable_only=None) for words, name in names.items()),
        case("half of it frozen, trainable only", which="frozen", width=width, trainable_only=True),
        case("nothing frozen, trainable only", which="normed", width=width, trainable_only=True),
        case("weights tied, trainable only", which="tied", width=width, trainable_only=True),
    ]


count_parameters = Exercise(
    "count_parameters",
    probe_count,
    cases_count,
    hints=(
        "Which method walks over all parameters of a module and its submodules, however deep they lie?",
        "`named_parameters()` has an argument about duplicates. What is its default, and what does a sum over all "
        "submodules count twice?",
        "Batch norm's running mean is in the `state_dict`. Is it a parameter? And which method gives the number of "
        "elements of a tensor?",
    ),
    any_device=False,
)

# --- freeze ------------------------------------------------------------------------------------------------------


def probe_freeze(answer: Watched, which: str, width: int, prefix: str, refused: bool) -> Observations:
    net = model(which, width)
    before = {n: p.detach().clone() for n, p in net.named_parameters()}
    held = {n: id(p) for n, p in net.named_parameters()}
    seen = refusal(lambda: answer(net, prefix), "prefix", [prefix]) if refused else {"returned": answer(net, prefix)}
    frozen = sorted(n for n, p in net.named_parameters() if not p.requires_grad)
    return {
        **seen,
        "frozen": frozen,
        "same objects": {n: id(p) for n, p in net.named_parameters()} == held,
        "values": "as before" if all(torch.equal(p, before[n]) for n, p in net.named_parameters()) else "changed",
    }


def cases_freeze(draw: Draw) -> list[Case]:
    w = draw.size(3, 5)
    return [
        case("a submodule", which="tower", width=w, prefix="encoder", refused=False),
        case("one of twelve layers", which="stack", width=w, prefix="layers.1", refused=False),
        case("a submodule of a submodule", which="tower", width=w, prefix="encoder.1", refused=False),
        case("a single parameter", which="tower", width=w, prefix="head.weight", refused=False),
        case("a parameter of the model itself", which="loose", width=w, prefix="table", refused=False),
        case("the whole list of layers", which="stack", width=w, prefix="layers", refused=False),
        case("a part of a name", which="tower", width=w, prefix="enc", refused=True),
        case("a name that does not exist", which="tower", width=w, prefix="decoder", refused=True),
        case("a submodule without parameters", which="tower", width=w, prefix="act", refused=True),
        case("an empty prefix", which="tower", width=w, prefix="", refused=True),
    ]


def quotes_freeze(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"refused": seen.get("refused with")}
    if "frozen" in seen and "frozen" in wanted:
        fields["count"], fields["want_count"] = len(seen["frozen"]), len(wanted["frozen"])
        extra = [n for n in seen["frozen"] if n not in wanted["frozen"]]
        fields |= {"extra": extra[0]} if extra else {}
    return fields


freeze = Exercise(
    "freeze",
    probe_freeze,
    cases_freeze,
    hints=(
        "`named_parameters()` gives dotted names. When does a name belong to the submodule `encoder`: if it begins "
        "with "
        "these letters, or with these letters and something more?",
        "Which letter follows the prefix in a name inside of the submodule? And a parameter's own name is a prefix "
        "too.",
        "Collect the names first. What is left to do if there are none, and what if the prefix is empty? Freezing is "
        "then one attribute of each parameter.",
    ),
    any_device=False,
    quotes=quotes_freeze,
)

# --- weight_decay_groups -----------------------------------------------------------------------------------------


def probe_groups(answer: Watched, which: str, width: int, weight_decay: float) -> Observations:
    net = model(which, width)
    names = {id(p): n for n, p in net.named_parameters()}
    groups = answer(net, weight_decay)
    if not (isinstance(groups, list | tuple) and all(isinstance(g, dict) and "params" in g for g in groups)):
        return {"returned": f"{kind(groups)}, where a list of dicts with the key `params` is wanted"}
    seen: Observations = {"number of groups": len(groups)}
    for place, group in zip(("first", "second", "third"), groups, strict=False):
        held = [group["params"]] if isinstance(group["params"], Tensor) else list(group["params"])
        seen[f"{place} group"] = sorted(names.get(id(p), f"unknown: {kind(p)}") for p in held)
        decay = group.get("weight_decay", "missing")
        seen[f"decay of the {place}"] = decay if isinstance(decay, str) else float(decay)
    return seen


def cases_groups(draw: Draw) -> list[Case]:
    w, decay = draw.size(3, 5), draw.pick([0.1, 0.05, 0.01])
    names = {
        "linear layers": "mlp", "with a batch norm": "normed", "convolutions": "convolutional",
        "half of it frozen": "frozen", "weights tied": "tied", "parameters of its own": "loose",
        "nested, with a layer norm": "nested", "vectors alone": "biases", "matrices alone": "matrices",
    }  # fmt: skip
    return [case(words, which=name, width=w, weight_decay=decay) for words, name in names.items()]


def quotes_groups(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
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


weight_decay_groups = Exercise(
    "weight_decay_groups",
    probe_groups,
    cases_groups,
    hints=(
        "Which number of a tensor tells a weight matrix from a bias or the scale of a norm, without looking at its "
        "name?",
        "One walk over `parameters()` meets each parameter once, tied or not. Which attribute says that it is not "
        "trained, and what happens to those?",
        "Both groups are dicts with the keys `params` and `weight_decay`. What would an optimizer with a decay of its "
        "own use for a group that does not name one?",
    ),
    any_device=False,
    quotes=quotes_groups,
)

# --- capture -----------------------------------------------------------------------------------------------------


def hooks(net: nn.Module) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in net.modules())


def probe_capture(answer: Watched, which: str, width: int, names: list[str], x: Tensor, refused: str) -> Observations:
    net = model(which, width).eval()
    fill_in_order(list(net.parameters()))
    runs: list[int] = []
    net.register_forward_hook(lambda *_: runs.append(1), always_call=True)
    before, raw = hooks(net), x.clone()
    if refused:
        return {**refusal(lambda: answer(net, names, x), "names", [refused]), "hooks left": hooks(net) - before}
    try:
        found = answer(net, names, x)
    except RuntimeError as error:
        return {"forward raised": Raised("RuntimeError", str(error)[:200]), "hooks left": hooks(net) - before}
    seen: Observations = {"hooks left": hooks(net) - before, "model(x) ran": len(runs), **kept(x=(x, raw))}
    if not isinstance(found, dict):
        return {**seen, "returned": kind(found)}
    tensors = {n: t for n, t in found.items() if isinstance(t, Tensor)}
    x.sub_(5)  # a view of x, or x itself, would change
    seen |= {"names": sorted(map(str, found)), "no tensors": sorted(str(n) for n in found if n not in tensors)}
    seen |= {f"output of {n}": t for n, t in sorted(tensors.items())}
    return {**seen, "part of a graph": sorted(n for n, t in tensors.items() if t.requires_grad)}


def cases_capture(draw: Draw) -> list[Case]:
    w, n = draw.size(3, 4), draw.size(2, 3)
    common: dict[str, Any] = {"width": w, "refused": ""}
    return [
        case("a layer and the head", which="tower", names=["pre_encoder", "head"], x=draw.normal(n, w), **common),
        case("a layer inside of a submodule", which="tower", names=["encoder.0"], x=draw.normal(n, w), **common),
        case("an in-place relu follows", which="tower", names=["encoder2", "encoder.1"], x=draw.normal(n, w), **common),
        case("a layer that returns its input", which="tower", names=["pass_on"], x=draw.normal(n, w), **common),
        case("no names", which="tower", names=[], x=draw.normal(n, w), **common),
        case("the second layer raises", which="breaking", names=["first", "second"], x=draw.normal(n, w), **common),
        case("an unknown name", which="tower", names=["decoder"], x=draw.normal(n, w), width=w, refused="decoder"),
        case("one known, one unknown", which="tower", names=["head", "encoder.9"], x=draw.normal(n, w), width=w,
             refused="encoder.9"),
    ]  # fmt: skip


def quotes_capture(_inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    fields = {"left": "hooks left", "graph": "part of a graph", "refused": "refused with", "runs": "model(x) ran"}
    quoted: dict[str, object] = {field: seen[name] for field, name in fields.items() if name in seen}
    return {field: value for field, value in quoted.items() if value not in ([], None)}


capture = Exercise(
    "capture",
    probe_capture,
    cases_capture,
    hints=(
        "`register_forward_hook` returns a handle. What is it for, and which block of Python runs whether or not an "
        "exception came?",
        "A hook gets the module, its inputs and its output. How does it know under which name to store it, if the same "
        "function serves several modules? A loop variable in a lambda is a trap.",
        "`detach()` leaves the graph, but shares memory. What must happen as well so that a later in-place relu does "
        "not show?",
    ),
    any_device=False,
    quotes=quotes_capture,
)

# --- init_weights ------------------------------------------------------------------------------------------------

LEFT_OVER = 7.0  # what every parameter holds before


def probe_init(answer: Watched, which: str, width: int, like: Tensor) -> Observations:
    net = model(which, width).to(like.device)
    with torch.no_grad():
        for p in net.parameters():
            p.fill_(LEFT_OVER)
    before = {n: id(p) for n, p in net.named_parameters()}
    answer(net)
    after = dict(net.named_parameters())
    return {
        "same objects": sorted(n for n, p in after.items() if before.get(n) != id(p)) or "all",
        "device": sorted({where(p, like) for p in after.values()}),
        "require grad": all(p.requires_grad and p.is_leaf for p in after.values()),
        **{n: p.detach().clone() for n, p in sorted(after.items())},
    }


def derive_init(_case: Case, seen: Observations) -> Observations:
    tidy: Observations = {}
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


def cases_init(draw: Draw) -> list[Case]:
    width = draw.pick([8, 10, 12])
    names = {
        "a convolutional net": "convolutional", "layers inside of layers": "nested", "a single linear layer": "linear",
        "without bias, with a group norm": "no bias",
    }  # fmt: skip
    like: dict[str, Any] = {"width": width, "like": torch.zeros(1), "rtol": 0.12, "atol": 0.06}
    return [case(words, which=name, **like) for words, name in names.items()]


def quotes_init(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"same": seen.get("same objects"), "its_device": seen.get("device")}
    for name, value in seen.items():
        if name.endswith("sqrt(2 / fan_in)") and name in wanted:
            fields |= {"layer": name.split(":")[0], "ratio": value}
    kept_old = [n for n, v in seen.items() if isinstance(v, str) and v == f"all {LEFT_OVER:g}"]
    return {**fields, **({"untouched": kept_old[0]} if kept_old else {})}


init_weights = Exercise(
    "init_weights",
    probe_init,
    cases_init,
    hints=(
        "`children()` gives the next level only. Which method walks over all levels, the model itself included? Or "
        "which one calls a function on each of them?",
        "The functions of `nn.init` that end in an underscore write in place. Which two arguments of `kaiming_normal_` "
        "say whose fan counts, and which activation follows?",
        "Norm layers are several classes. What do they all have if they are affine, and what if they are not? Bias can "
        "be None.",
    ),
    derive=derive_init,
    quotes=quotes_init,
)

EXERCISES = (
    Affine, MLP, Standardizer, GatedLinear, Dropout, BatchNorm, ResidualBlock, count_parameters, freeze,
    weight_decay_groups, capture, init_weights,
)  # fmt: skip
