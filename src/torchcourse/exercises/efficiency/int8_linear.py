"""The exercise `Int8Linear`: its probe, visible cases and hints."""

from __future__ import annotations

import io
from typing import Any

import torch
from torch import Tensor, nn

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, Unattempted, case
from torchcourse.model.observations import Observations, Raised, raised
from torchcourse.probes.observe import kept, kind, look
from torchcourse.probes.trainable_models import with_detail

CLOSE = 0.02
"""The largest error of an output, relative to the largest output, that eight bits may cause."""
EXACT = 0.001
"""An error so small that the outputs are not made from eight bits: these move them by about 0.005 or more."""
WITHOUT = "a layer without a bias"


def probe(answer: Watched, weight: Tensor, bias: Tensor | None, x: Tensor, there: bool = False) -> Observations:
    """Observe a layer, converted on the CPU or, if `there`, on the device of x. If one without a bias is too much for
    the answer, note that, and observe one whose bias is zero, so that this does not hide everything else."""
    if bias is not None:
        return _observed(answer, weight, bias, x, there)
    try:
        return {**_observed(answer, weight, None, x, there), WITHOUT: "works"}
    except Unattempted:
        raise
    except Exception as error:
        why = raised(error)
        seen = _observed(answer, weight, weight.new_zeros(len(weight)), x, there)
        return {**seen, WITHOUT: Raised(why.kind, why.message, why.reason or "without a bias")}


def _observed(answer: Watched, weight: Tensor, bias: Tensor | None, x: Tensor, there: bool) -> Observations:
    """Convert a layer, move it to the device of x, and observe its outputs and what a file of it holds."""
    linear = linear_of(weight.cpu(), None if bias is None else bias.cpu()).to(x.device if there else "cpu")
    before, kinds = {name: p.detach().clone() for name, p in linear.named_parameters()}, _kinds(linear)
    module = answer.answer.from_linear(linear)  # type: ignore[attr-defined]
    if not isinstance(module, nn.Module):
        return {"returned": kind(module)}
    now = {name: (p.detach(), before[name]) for name, p in linear.named_parameters()}
    seen = {**_held(module, linear), **_on_file(module, linear), **kept(**now)}
    seen["flags of the original"] = "as before" if _kinds(linear) == kinds else "changed"
    module = module.to(x.device)
    return {**seen, **look(module(x), x), **_reloaded(answer, module, linear, x), **_graph(answer, module, x)}


def _kinds(linear: nn.Linear) -> list[Any]:
    """Return a layer's mode, and whether its parameters require gradients, with their dtypes and devices."""
    return [linear.training, *((p.requires_grad, p.dtype, p.device) for p in linear.parameters())]


def _graph(answer: Watched, module: nn.Module, x: Tensor) -> Observations:
    """Observe whether the outputs depend on x and on the bias for autograd."""
    parameters = list(nn.Module.parameters(module))
    given = x.clone().requires_grad_()
    y = answer.run(module, given)
    if not isinstance(y, Tensor) or not y.requires_grad:
        return {"graph of the outputs": "none"}
    y.sum().backward()  # type: ignore[no-untyped-call]
    if given.grad is None:
        return {"graph of the outputs": "to the parameters, and not to x"}
    arrived = [p.requires_grad and p.grad is not None for p in parameters]
    return {"graph of the outputs": "to x and the parameters" if all(arrived) else "to x, and not to all parameters"}


def linear_of(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    """Return a layer with these weights."""
    linear = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, dtype=weight.dtype)
    with torch.no_grad():
        linear.weight.copy_(weight)
        if bias is not None:
            linear.bias.copy_(bias)
    return linear


def _held(module: nn.Module, linear: nn.Linear) -> Observations:
    """Observe what kind of thing holds the weight, the scales and the bias; their names are free.

    Here and below torch's own methods are asked: those of the answer might tell something else.
    """
    buffers = dict(nn.Module.named_buffers(module))
    levels = [b for b in buffers.values() if b.dtype == torch.int8 and b.numel() == linear.weight.numel()]
    scales = sum(b.numel() for b in buffers.values() if b.is_floating_point())
    parameters = sorted(tuple(p.shape) for p in nn.Module.parameters(module))
    return {
        "int8 buffers of the weight's size": len(levels),
        "scales among the buffers": with_detail(_of_size(scales, *linear.weight.shape), f"{scales} numbers"),
        "shapes of the parameters": parameters,
        "shared with the original": _shared(module, linear),
    }


def _shared(module: nn.Module, linear: nn.Linear) -> list[str]:
    """Return the names of the original's parameters whose memory the module uses, so that training it changes them."""
    held = [*nn.Module.parameters(module), *nn.Module.buffers(module)]
    own = {t.untyped_storage().data_ptr() for t in held if t.numel()}
    return [name for name, p in linear.named_parameters() if p.untyped_storage().data_ptr() in own]


def _of_size(count: int, rows: int, columns: int) -> str:
    words = {rows: "one for each output", columns: "one for each input", 1: "a single one", 0: "none"}
    return words.get(count, "another number")


def _on_file(module: nn.Module, linear: nn.Linear) -> Observations:
    """Observe how large a file of the state_dict is, compared with that of the original."""
    return {"bytes on file": [len(_file(m).getvalue()) for m in (module, linear)]}


def _file(module: nn.Module) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(nn.Module.state_dict(module), file)
    file.seek(0)
    return file


def _reloaded(answer: Watched, module: Any, linear: nn.Linear, x: Tensor) -> Observations:
    """Observe the outputs after the state_dict was loaded into a module that was made from another layer."""
    other = linear_of(torch.ones_like(linear.weight), None if linear.bias is None else torch.ones_like(linear.bias))
    fresh = answer.answer.from_linear(other.cpu()).to(x.device)  # type: ignore[attr-defined]
    try:
        nn.Module.load_state_dict(fresh, torch.load(_file(module), map_location=x.device, weights_only=True))
    except RuntimeError as error:
        return {"after loading its state_dict": with_detail("refused", " ".join(str(error).split())[:150])}
    same = torch.allclose(fresh(x), module(x), rtol=1e-4, atol=1e-5)
    return {"after loading its state_dict": "the same outputs" if same else "other outputs"}


def derive(case: Case, seen: Observations) -> Observations:
    """Reduce outputs that are close to the original's to just that, and the sizes of files to their ratio."""
    if "bytes on file" not in seen:
        return seen
    small, large = seen["bytes on file"]
    ratio = small / large
    rest = {name: v for name, v in seen.items() if name not in ("bytes on file", "result")}
    rest["file"] = with_detail("about a quarter" if ratio < 0.3 else "more than a quarter",
                          f"{small} bytes, and {large} for the original")  # fmt: skip
    result, wanted = seen.get("result"), nn.functional.linear(*(case.inputs[name] for name in ("x", "weight", "bias")))
    if not isinstance(result, Tensor):
        return rest
    rest["shape and dtype"] = [str(tuple(result.shape)), str(result.dtype)]
    if result.shape == wanted.shape and result.numel():
        off = ((result - wanted).abs().max() / wanted.abs().max()).item()
        words = "exactly the original's" if off <= EXACT else "close to the original's"
        rest["outputs"] = words if off <= CLOSE else result
    return rest


def layer_case(
    draw: Draw, name: str, outputs: int, inputs: int, *batch: int, bias: bool = True, size: float = 1.0,
    dtype: torch.dtype = torch.float32, there: bool = False,
) -> Case:  # fmt: skip
    """Return the case of a drawn layer whose rows and columns differ in size, and of a drawn input."""
    sizes = torch.linspace(0.02, 2, outputs)[:, None] * torch.linspace(0.3, 1, inputs)
    shift = 3 * size * draw.normal(outputs) if bias else None
    weight, x = size * sizes * draw.normal(outputs, inputs), draw.normal(*batch, inputs)
    numbers = {"weight": weight.to(dtype), "bias": None if shift is None else shift.to(dtype), "x": x.to(dtype)}
    return case(name, rtol=1e-4, atol=1e-3, **numbers, there=there)  # threads add up in another order


def cases(draw: Draw) -> list[Case]:
    n = draw.size(3, 6)
    return [
        layer_case(draw, "a batch", 150, 200, n),
        layer_case(draw, "more outputs than inputs", 210, 120, n, there=True),
        layer_case(draw, "without a bias", 130, 180, n, bias=False),
        layer_case(draw, "two leading dimensions", 120, 170, 2, n),
        layer_case(draw, "a single row", 140, 160),
        layer_case(draw, "tiny weights", 110, 130, n, size=1e-9),
        layer_case(draw, "a layer in float64", 100, 150, n, dtype=torch.float64),
    ]


def quotes(inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {}
    named = {"file": "file", "scales": "scales among the buffers", "loading": "after loading its state_dict"}
    for field, name in named.items():
        if name in seen:
            fields[field] = getattr(seen[name], "message", seen[name])
    if isinstance(seen.get(WITHOUT), Raised):
        fields["refusal"] = str(seen[WITHOUT])
    if isinstance(seen.get("outputs"), Tensor):
        wanted = nn.functional.linear(inputs["x"], inputs["weight"], inputs["bias"])
        fields["off"] = f"off by {(seen['outputs'] - wanted).abs().max() / wanted.abs().max():.0%} of the largest"
    if isinstance(seen.get("outputs"), str):
        fields["outputs"] = seen["outputs"]
    if "shapes of the parameters" in seen:
        fields["parameters"] = ", ".join(map(str, seen["shapes of the parameters"])) or "none"
    return fields


EXERCISE = Exercise(
    "Int8Linear",
    probe,
    cases,
    hints=(
        "What does a `state_dict` hold, and what does `.to(device)` move? A tensor that is a plain attribute is in "
        "neither. Which method of a module registers a tensor that is not trained?",
        "`from_linear` may be a `classmethod`: it makes the module from numbers that it computes of `linear.weight`. "
        "One scale for each output: along which dimension of the weight is the largest value taken?",
        "In `forward` the levels have to be floats for a moment. Instead of scaling the whole weight you can scale the "
        "outputs: where do scales of shape (outputs, 1) have to stand for that? The bias is added last.",
    ),
    derive=derive,
    quotes=quotes,
)
