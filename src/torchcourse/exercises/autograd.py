"""Lesson 02: probes, visible cases and hints. What is right is not written here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from torchcourse.exercise import Case, Draw, Exercise, case
from torchcourse.exercises.looking import cost, growth, kept, kind, look
from torchcourse.exercises.memory import peak_bytes
from torchcourse.observations import Observations, Raised
from torchcourse.probing import Watched

Function = Callable[[Tensor], Tensor]


def neighbours(x: Tensor) -> Tensor:
    """The sum of products of neighbouring entries: every entry's slope depends on others."""
    flat = x.flatten()
    return (flat[:-1] * flat[1:]).sum()


FUNCTIONS: dict[str, Callable[[Tensor, list[float]], Tensor]] = {
    "polynomial": lambda x, c: (c[0] * x * x * x + c[1] * x * x + c[2] * x).sum(),
    "wave": lambda x, c: (torch.sin(c[0] * x) * torch.exp(c[1] * x)).sum(),
    "neighbours": lambda x, c: c[0] * neighbours(x) + c[1] * torch.cos(x).sum(),
    "mean of squares": lambda x, c: c[0] * (x * x).mean(),
    "product of rows": lambda x, c: c[0] * x.prod(0).sum(),
    "opaque": lambda x, c: (c[0] * x * x * x + c[1] * x * x + c[2] * x).sum().detach(),
}
"""Scalar functions of one tensor, from coefficients."""


def function(form: str, c: list[float]) -> Function:
    """The function of this form with these coefficients."""
    return lambda x: FUNCTIONS[form](x, c)


def coefficients(draw: Draw, low: float = 0.5, high: float = 2.0) -> list[float]:
    """Three numbers, rounded so that they read well."""
    return [round(float(number), 2) for number in draw.uniform(low, high, 3)]


def stumbled(error: Exception, reasons: dict[str, str]) -> Raised:
    """An exception that says enough to be told from others: its reason, by words in its message.

    Raises:
        the exception itself, when none of the words is in it.
    """
    for words, reason in reasons.items():
        if words in str(error):
            return Raised(type(error).__name__, str(error).split("\n")[0][:160].rstrip("."), reason)
    raise error


# --- derivative --------------------------------------------------------------------------------------------------


def probe_derivative(answer: Watched, form: str, c: list[float], x: float) -> dict[str, Any]:
    return {"result": answer(function(form, c), x)}


def derive_derivative(_case: Case, seen: Observations) -> Observations:
    """Whether a number has no more digits than a float32; if so, the last of them depend on the machine."""
    result = seen.get("result")
    if not isinstance(result, float) or result != torch.tensor(result, dtype=torch.float32).item():
        return {**seen, "digits": "those of a float64"}
    return {"result": float(f"{result:.5g}"), "digits": "those of a float32"}


def quotes_derivative(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    f = function(inputs["form"], inputs["c"])
    value = f(torch.tensor(inputs["x"], dtype=torch.float64)).item()
    result = seen["result"]
    result = result.item() if isinstance(result, Tensor) and result.numel() == 1 else result
    exact = {"digits": f"{result:.10g}"} if isinstance(result, float) else {}
    return {"value": value, "kind": kind(seen["result"]), "want_digits": f"{wanted['result']:.10g}", **exact}


def cases_derivative(draw: Draw) -> list[Case]:
    def at(name: str, form: str, low: float, high: float) -> Case:
        x = float(draw.uniform(low, high, 1, dtype=torch.float64))
        return case(name, rtol=1e-11, atol=1e-13, form=form, c=coefficients(draw), x=x)

    return [
        at("a polynomial", "polynomial", 0.5, 2.0),
        at("a polynomial left of zero", "polynomial", -2.0, -0.5),
        at("a growing wave", "wave", 0.5, 2.0),
        at("a growing wave, far out", "wave", 6.0, 8.0),
    ]


derivative = Exercise(
    "derivative",
    probe_derivative,
    cases_derivative,
    hints=(
        "f wants a tensor, and autograd only follows tensors that were told to be followed. How do you make a float64 "
        "tensor of a Python float that is?",
        "After `backward()` on the value, where does the derivative lie? Which tensor has it: the value or the input?",
        "A 0-dimensional tensor is no Python float yet, and a float32 one has lost digits before f even ran. Which "
        "method hands over the number?",
    ),
    any_device=False,
    derive=derive_derivative,
    quotes=quotes_derivative,
)

# --- gradient ----------------------------------------------------------------------------------------------------

PLAIN, LEAF, USED, INSIDE = "plain", "leaf", "leaf with a gradient", "inside a graph"


def probe_gradient(
    answer: Watched, form: str, c: list[float], values: Tensor, role: str, weights: Tensor
) -> dict[str, Any]:
    base = values.clone().requires_grad_(role != PLAIN)
    x = base * weights if role == INSIDE else base
    x.grad = weights.clone() if role == USED else None
    before = x.detach().clone()
    result = answer(function(form, c), x)
    seen = look(result, x)
    seen["result requires grad"] = bool(getattr(result, "requires_grad", False))
    seen |= {"x requires grad afterwards": x.requires_grad, "x.grad afterwards": x.grad}
    seen |= kept(x=(x.detach(), before))
    if role == INSIDE:
        seen["gradient of what x was made from"] = base.grad
        try:
            x.sum().backward()  # type: ignore[no-untyped-call]
            seen["backward through x later"] = base.grad
        except RuntimeError as error:
            reasons = {"second time": "graph freed", "does not require grad": "graph lost"}
            seen["backward through x later"] = stumbled(error, reasons)
    return seen


def cases_gradient(draw: Draw) -> list[Case]:
    n = draw.size(3, 5)

    def drawn(name: str, form: str, role: str, *shape: int, dtype: torch.dtype = torch.float32) -> Case:
        values, weights = draw.normal(*shape, dtype=dtype), draw.uniform(1.0, 2.0, *shape, dtype=dtype)
        return case(name, form=form, c=coefficients(draw), values=values, role=role, weights=weights)

    return [
        drawn("a plain tensor", "polynomial", PLAIN, n),
        drawn("a leaf that requires grad", "neighbours", LEAF, n),
        drawn("a leaf that has a gradient already", "polynomial", USED, n),
        drawn("x is part of a graph", "neighbours", INSIDE, n),
        drawn("a matrix, float64", "wave", PLAIN, 2, n, dtype=torch.float64),
        drawn("a single number", "polynomial", PLAIN),
    ]


def quotes_gradient(inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    later = seen.get("backward through x later")
    fields: dict[str, object] = {"grad": seen.get("x.grad afterwards")}
    fields |= {"requires": seen.get("x requires grad afterwards"), "attached": seen.get("result requires grad")}
    return fields | ({"later": later} if isinstance(later, Raised) else {})


gradient = Exercise(
    "gradient",
    probe_gradient,
    cases_gradient,
    hints=(
        "Whatever you do to x itself, the caller will find it done. Which tensor with the same values could you work "
        "on instead?",
        "`backward()` leaves its result in `.grad` of every leaf that it reaches. Which function returns gradients and "
        "writes them nowhere?",
        "A leaf of your own needs two things: no history, and to require grad. `detach()` gives the one, "
        "`requires_grad_()` the other. Does the latter also change the x you detached from?",
    ),
    quotes=quotes_gradient,
)

# --- linear_mse_gradients ----------------------------------------------------------------------------------------


def probe_linear(answer: Watched, x: Tensor, w: Tensor, b: Tensor, y: Tensor) -> dict[str, Any]:
    before = [t.clone() for t in (x, w, b, y)]
    result = answer(x, w, b, y)
    if not isinstance(result, list | tuple) or len(result) != 2:
        return {"returned": kind(result)}
    seen: dict[str, Any] = {}
    for name, part in zip(("dw", "db"), result, strict=True):
        looked = look(part, x)
        seen[name] = looked.get("result", looked.get("returned"))
        seen[f"device of {name}"] = looked.get("device", "none")
    inputs = {name: (now, old) for name, now, old in zip("xwby", (x, w, b, y), before, strict=True)}
    return seen | kept(**inputs)


def cases_linear(draw: Draw) -> list[Case]:
    n, i, o = draw.size(5, 7), draw.size(3, 4), 2

    def drawn(name: str, n: int, i: int, o: int, dtype: torch.dtype = torch.float32) -> Case:
        x, w = draw.normal(n, i, dtype=dtype), draw.normal(o, i, dtype=dtype)
        return case(name, atol=1e-4, x=x, w=w, b=draw.normal(o, dtype=dtype), y=draw.normal(n, o, dtype=dtype))

    return [
        drawn("all sizes differ", n, i, o),
        drawn("as many outputs as inputs", n, i, i),
        drawn("one example", 1, i, o),
        drawn("one output", n, i, 1),
        drawn("float64", n, i, o, torch.float64),
    ]


def quotes_linear(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    n, o = inputs["y"].shape
    fields: dict[str, object] = {"n": n, "o": o, "count": n * o, "error": seen.get("raised")}
    if isinstance(seen.get("dw"), Tensor):
        fields |= {"dw_shape": tuple(seen["dw"].shape), "w_shape": tuple(inputs["w"].shape)}
    if isinstance(seen.get("db"), Tensor):
        fields |= {"db_shape": tuple(seen["db"].shape), "b_shape": tuple(inputs["b"].shape)}
        if seen["db"].shape == wanted["db"].shape:
            fields["ratio"] = (seen["db"].norm() / wanted["db"].norm()).item()
    return fields


linear_mse_gradients = Exercise(
    "linear_mse_gradients",
    probe_linear,
    cases_linear,
    hints=(
        "Start from the outside: the mean of n·o squares. What is the derivative of that mean by one entry of the "
        "difference? It has shape (n, o).",
        "Each entry of w meets one input and one output of every example. Which matrix product of the (n, o) gradient "
        "with x sums over the n examples and leaves the shape of w?",
        "b is added to every example by broadcasting. What undoes a broadcast on the way back: over which dimension "
        "are its copies summed?",
    ),
    forbids=("autograd",),
    quotes=quotes_linear,
)

# --- sgd_step ----------------------------------------------------------------------------------------------------


def probe_sgd(answer: Watched, values: list[Tensor], grads: list[Tensor | None], lr: float) -> dict[str, Any]:
    params = [v.clone().requires_grad_() for v in values]
    for p, g in zip(params, grads, strict=True):
        p.grad = None if g is None else g.clone()
    given, views = list(params), [p.detach() for p in params]
    try:
        answer(params, lr)
    except (RuntimeError, TypeError, AttributeError) as error:
        reasons = {"leaf Variable": "in place on a leaf", "NoneType": "a gradient is None"}
        return {"the call": stumbled(error, reasons)}
    same = len(params) == len(given) and all(p is q for p, q in zip(params, given, strict=False))
    return {
        "parameters afterwards": [p.detach() for p in params],
        "parameters, seen through views of before": views,
        "parameter objects": "the same" if same else "new ones",
        "parameters require grad": [p.requires_grad for p in given],
        "gradients afterwards": [p.grad for p in given],
    }


def derive_sgd(case: Case, seen: Observations) -> Observations:
    """A gradient is cleared when it is None or zero; one that was None has to stay None."""
    if "gradients afterwards" not in seen:
        return seen
    pairs = list(zip(seen["gradients afterwards"], case.inputs["grads"], strict=True))
    after = ["cleared" if old is not None and (new is None or not new.any()) else new for new, old in pairs]
    return {**seen, "gradients afterwards": after}


def cases_sgd(draw: Draw) -> list[Case]:
    n = draw.size(2, 4)
    shapes: list[tuple[int, ...]] = [(n, 3), (n,), ()]

    def drawn(name: str, without: Sequence[int], dtype: torch.dtype = torch.float32) -> Case:
        values = [draw.normal(*shape, dtype=dtype) for shape in shapes]
        grads = [None if i in without else draw.normal(*s, dtype=dtype) for i, s in enumerate(shapes)]
        return case(name, values=values, grads=grads, lr=round(float(draw.uniform(0.1, 0.5, 1)), 2))

    return [
        drawn("every parameter has a gradient", ()),
        drawn("the second parameter has no gradient", (1,)),
        drawn("the first parameter has no gradient", (0,)),
        drawn("no parameter has a gradient", (0, 1, 2)),
        drawn("float64", (), torch.float64),
    ]


def quotes_sgd(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"error": seen["the call"]} if "the call" in seen else {}
    name, grads, values = "parameters afterwards", inputs["grads"], inputs["values"]
    if name in seen:
        moved = [i for i, g in enumerate(grads) if g is not None]
        wrong = [i for i in moved if not torch.allclose(seen[name][i], wanted[name][i])]
        i = (wrong or moved or [0])[0]
        at = (0,) * values[i].ndim
        fields |= {"which": i, "start": values[i][at], "now": seen[name][i][at], "right": wanted[name][i][at]}
        fields |= {"slope": grads[i][at]} if grads[i] is not None else {}
        left = [g for g in seen["gradients afterwards"] if isinstance(g, Tensor)]
        fields |= {"left": left[0].flatten()[0]} if left else {}
        fields |= {"objects": seen["parameter objects"], "requires": seen["parameters require grad"][i]}
    return fields


sgd_step = Exercise(
    "sgd_step",
    probe_sgd,
    cases_sgd,
    hints=(
        "Autograd refuses an in-place write to a leaf that requires grad, since it could not record it. In which "
        "context does it record nothing?",
        "`p = p - lr * p.grad` gives the name p to a new tensor and leaves the parameter as it was. Which operation "
        "writes into the parameter itself?",
        "Some parameters took no part in the loss. What is their `.grad`, and what should the loop do when it meets "
        "one? Last of all: what would the next backward add to?",
    ),
    derive=derive_sgd,
    quotes=quotes_sgd,
)

# --- numerical_gradient ------------------------------------------------------------------------------------------


def probe_numerical(
    answer: Watched, form: str, c: list[float], x: Tensor, eps: float | None
) -> dict[str, Any]:
    before, f = x.clone(), function(form, c)
    try:
        result = answer(f, x) if eps is None else answer(f, x, eps)
    except RuntimeError as error:
        return {"the call": stumbled(error, {"does not require grad": "f knows nothing of autograd"})}
    return {**look(result, x), **kept(x=(x, before))}


def cases_numerical(draw: Draw) -> list[Case]:
    n = draw.size(3, 4)

    def drawn(name: str, form: str, x: Tensor, eps: float | None = None) -> Case:
        c = coefficients(draw)
        atol = 1e-7 * max(1.0, abs(FUNCTIONS[form](x.double(), c).item()))
        return case(name, rtol=0.0, atol=atol, form=form, c=c, x=x, eps=eps)

    return [
        drawn("a vector", "polynomial", draw.uniform(0.5, 1.0, n, dtype=torch.float64)),
        drawn("a matrix", "product of rows", draw.uniform(0.5, 1.5, 2, n, dtype=torch.float64)),
        drawn("a float32 input", "polynomial", draw.uniform(0.5, 1.0, n)),
        drawn("a transposed matrix", "product of rows", draw.uniform(0.5, 1.5, n, 2, dtype=torch.float64).t()),
        drawn("a single number", "polynomial", draw.uniform(0.5, 1.0, dtype=torch.float64)),
        drawn("a larger step", "polynomial", draw.uniform(0.5, 1.0, n, dtype=torch.float64), 1e-5),
        drawn("a function without autograd", "opaque", draw.uniform(0.5, 1.0, n, dtype=torch.float64)),
    ]


def quotes_numerical(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    result = seen.get("result")
    fields: dict[str, object] = {"error": seen["the call"]} if "the call" in seen else {}
    if isinstance(result, Tensor) and result.shape == wanted["result"].shape:
        fields["off"] = (result.double() - wanted["result"]).abs().max().item()
    return fields | {"x_now": seen.get("x afterwards")}


numerical_gradient = Exercise(
    "numerical_gradient",
    probe_numerical,
    cases_numerical,
    hints=(
        "A step to one side only is wrong by about eps times the curvature. What happens to that error when you step "
        "to both sides and divide by the distance between the two points?",
        "A float32 near 1 cannot tell 1 from 1 + 1e-6 well. Which dtype should the points have before eps is added?",
        "One entry moves at a time. On which tensor do you move it, so that the caller's x stays as it was? Beware: "
        "`.double()` on a float64 tensor is the tensor itself.",
    ),
    any_device=False,
    quotes=quotes_numerical,
)

# --- BinarizeSTE -------------------------------------------------------------------------------------------------


def probe_function(answer: Watched, x: Tensor, g: Tensor) -> dict[str, Any]:
    leaf, before = x.clone().requires_grad_(), g.clone()
    with answer.watched():
        y = answer.answer.apply(leaf)  # type: ignore[attr-defined]
    seen = look(y, x)
    seen["follows the graph"] = bool(getattr(y, "requires_grad", False))
    if seen["follows the graph"] and y.shape == g.shape:
        with answer.watched():
            (found,) = torch.autograd.grad(y, leaf, g, allow_unused=True)
        seen["gradient of x"] = found
    return seen | kept(x=(leaf.detach(), x), grad_output=(g, before))


def quotes_function(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {}
    for name, source in (("y", "result"), ("grad", "gradient of x")):
        got, want = seen.get(source), wanted[source]
        if isinstance(got, Tensor) and got.shape == want.shape:
            wrong = ~torch.isclose(got.to(want.dtype), want, rtol=1e-3, atol=1e-6, equal_nan=True)
            if wrong.any():
                at = tuple(wrong.nonzero()[0].tolist())
                fields |= {f"got_{name}": got[at], f"want_{name}": want[at]}
                fields |= {f"x_{name}": inputs["x"][at], f"g_{name}": inputs["g"][at]}
    if "gradient of x" in seen and seen["gradient of x"] is None:
        fields["no_grad"] = None
    return fields


def cases_binarize(draw: Draw) -> list[Case]:
    n = draw.size(5, 7)
    edges = torch.tensor([-3.0, -1.0, -0.5, 0.0, 0.25, 1.0, 2.5])
    signs = torch.tensor([2.0, -3.0, 0.5, -1.5, 4.0, 2.5, -0.5])
    return [
        case("from -3 to 2.5, the edges included", x=edges, g=signs),
        case("a matrix", x=draw.uniform(-2, 2, 2, n), g=3 * draw.normal(2, n)),
        case("float64", x=draw.uniform(-2, 2, n, dtype=torch.float64), g=3 * draw.normal(n, dtype=torch.float64)),
        case("bfloat16", x=draw.uniform(-2, 2, n, dtype=torch.bfloat16), g=draw.normal(n, dtype=torch.bfloat16)),
        case("transposed", x=draw.uniform(-2, 2, n, 3).t(), g=3 * draw.normal(3, n)),
    ]


BinarizeSTE = Exercise(
    "BinarizeSTE",
    probe_function,
    cases_binarize,
    hints=(
        "The true derivative of a step is zero wherever it exists. Which gradient does the straight-through trick pass "
        "on instead, and for which x?",
        "The mask in the backward is made from x and not from the gradient. How does x get from `forward` to "
        "`backward`?",
        "`ctx.save_for_backward(x)` on the way there, `ctx.saved_tensors` on the way back. At x = 1 exactly: does the "
        "gradient pass?",
    ),
    quotes=quotes_function,
)

# --- LogSigmoid --------------------------------------------------------------------------------------------------


def probe_log_sigmoid(answer: Watched, x: Tensor, g: Tensor, far: bool) -> dict[str, Any]:
    return probe_function(answer, x, g)


FAR = "gradient of x, times exp(x)"


def derive_log_sigmoid(case: Case, seen: Observations) -> Observations:
    """Far to the right both value and gradient are tiny; there the gradient's leading digits are looked at alone."""
    if not case.inputs["far"] or not isinstance(seen.get("gradient of x"), Tensor):
        return seen
    large = seen["gradient of x"].double() * case.inputs["x"].double().exp()
    return {FAR: large} | {n: v for n, v in seen.items() if n in ("device", "follows the graph", "forbidden calls")}


def quotes_log_sigmoid(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields = {"x0": inputs["x"].flatten()[0], "far_got": seen[FAR][0]} if FAR in seen else {}
    return fields if FAR in wanted else quotes_function(inputs, seen, wanted)


def cases_log_sigmoid(draw: Draw) -> list[Case]:
    n = draw.size(4, 6)
    far = torch.tensor([-1000.0, -200.0, -90.0, 0.0, 90.0, 200.0, 1000.0])
    near: dict[str, Any] = {"far": False}
    return [
        case("ordinary entries", **near, x=2 * draw.normal(n), g=draw.normal(n)),
        case("entries up to 1000", **near, x=far, g=draw.uniform(1, 2, 7)),
        case("a matrix, float64", **near, x=2 * draw.normal(2, n, dtype=torch.float64),
             g=draw.normal(2, n, dtype=torch.float64)),
        case("entries up to 1000, float64", **near, x=far.double(), g=-draw.uniform(1, 2, 7, dtype=torch.float64)),
        case("small gradients, from 20 to 60", rtol=1e-3, far=True, x=torch.linspace(20, 60, n), g=torch.ones(n)),
        case("transposed", **near, x=draw.normal(n, 3).t(), g=torch.ones(1).expand(3, n)),
    ]  # fmt: skip


LogSigmoid = Exercise(
    "LogSigmoid",
    probe_log_sigmoid,
    cases_log_sigmoid,
    hints=(
        "log(1 / (1 + exp(-x))) overflows for large negative x. Could you write it so that `exp` only ever sees "
        "numbers that are not positive?",
        "min(x, 0) minus a term that depends on abs(x) alone: which one? `torch.log1p` keeps its digits.",
        "The derivative of log(sigmoid(x)) is 1 - sigmoid(x), but in float32 that is 0 from about 17 on. Which "
        "expression is equal to it and keeps its digits? And what multiplies it by the chain rule?",
    ),
    forbids=("logsigmoid", "log_sigmoid", "log_sigmoid_forward", "softplus"),
    derive=derive_log_sigmoid,
    quotes=quotes_log_sigmoid,
)

# --- td_loss -----------------------------------------------------------------------------------------------------


def probe_td(answer: Watched, online: Tensor, target: Tensor, shared: bool) -> dict[str, Any]:
    """With `shared`, both come out of one weight, as the two halves of a temporal difference do."""
    leaves = [online.clone().requires_grad_(), target.clone().requires_grad_()]
    weight = torch.ones(online.shape[-1:], dtype=online.dtype, device=online.device).requires_grad_()
    guess, goal = (leaves[0] * weight, leaves[1] * weight) if shared else leaves
    loss = answer(guess, goal)
    seen = look(loss, online)
    seen["follows the graph"] = bool(getattr(loss, "requires_grad", False))
    if seen["follows the graph"]:
        names = ["gradient of online", "gradient of target", "gradient of the shared weight"]
        wanted = [*leaves, weight] if shared else leaves
        found = torch.autograd.grad(loss.sum(), wanted, allow_unused=True)
        seen |= dict(zip(names, found, strict=False))
    seen["target requires grad afterwards"] = goal.requires_grad
    return seen


def derive_td(_case: Case, seen: Observations) -> Observations:
    """No gradient is the same as a gradient of zeros."""
    name = "gradient of target"
    if isinstance(seen.get(name), Tensor) and not seen[name].any():
        return {**seen, name: None}
    return seen


def cases_td(draw: Draw) -> list[Case]:
    n = draw.size(3, 5)

    def drawn(name: str, shared: bool, *shape: int, dtype: torch.dtype = torch.float32) -> Case:
        online, target = draw.normal(*shape, dtype=dtype), draw.normal(*shape, dtype=dtype)
        return case(name, online=online, target=target, shared=shared)

    return [
        drawn("two tensors", False, n),
        drawn("both from one weight", True, n),
        drawn("a matrix", False, 2, n),
        drawn("float64", True, n, dtype=torch.float64),
    ]


def quotes_td(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"loss": seen["result"], "right": wanted["result"]}
    for name in ("online", "target"):
        found = seen.get(f"gradient of {name}")
        fields |= {f"{name}_grad": found.flatten()[0]} if isinstance(found, Tensor) else {}
    return fields | {"follows": seen["follows the graph"], "requires": seen["target requires grad afterwards"]}


td_loss = Exercise(
    "td_loss",
    probe_td,
    cases_td,
    hints=(
        "The target is to be treated as a number that somebody handed you. Which method gives the same values without "
        "their history?",
        "If the whole loss is computed under `no_grad`, what is left to train the prediction with? Cut at one place "
        "only.",
        "Squares, then a mean over all entries. Afterwards ask for the gradient of both inputs: one should get one, "
        "the other none, and the caller's target should still require grad.",
    ),
    derive=derive_td,
    quotes=quotes_td,
)

# --- snapshot ----------------------------------------------------------------------------------------------------


def nudge(t: Tensor) -> None:
    """Write into a tensor's memory, whatever its dtype, history or mode."""
    with torch.no_grad():
        inner = t.detach()
        inner.logical_not_() if t.dtype == torch.bool else inner.add_(1)


def probe_snapshot(answer: Watched, values: Tensor, role: str) -> dict[str, Any]:
    base = values.requires_grad_() if role != PLAIN else values
    t = base * 1 if role == INSIDE else base
    copy = answer(t)
    if not isinstance(copy, Tensor):
        return {"returned": kind(copy)}
    seen = look(copy.detach().clone(), t)
    seen |= {"copy requires grad": copy.requires_grad, "copy has a history": copy.grad_fn is not None}
    seen |= {"t requires grad afterwards": t.requires_grad, "t has a history": t.grad_fn is not None}
    seen["copy is an inference tensor"] = copy.is_inference()
    nudge(t)
    seen["copy after t was changed"] = copy.detach().clone()
    if not copy.is_inference():
        nudge(copy)
        nudge(copy)
    seen["t after the copy was changed"] = t.detach()
    return seen


def cases_snapshot(draw: Draw) -> list[Case]:
    n = draw.size(3, 5)
    return [
        case("a plain tensor", values=draw.normal(n), role=PLAIN),
        case("a leaf that requires grad", values=draw.normal(n), role=LEAF),
        case("a result inside a graph", values=draw.normal(2, n), role=INSIDE),
        case("integers", values=draw.integers(0, 9, n), role=PLAIN),
        case("a transposed matrix", values=draw.normal(n, 2).t(), role=LEAF),
        case("a slice of a longer tensor", values=draw.normal(3 * n)[::3], role=PLAIN),
        case("one bool", values=torch.tensor(True), role=PLAIN),
        case("float64, a single number", values=draw.normal(dtype=torch.float64), role=INSIDE),
    ]


def quotes_snapshot(_inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    def first(name: str) -> object:
        found = seen.get(name)
        return found.flatten()[0] if isinstance(found, Tensor) else None

    fields: dict[str, object] = {"at_first": first("result"), "later": first("copy after t was changed")}
    fields |= {"requires": seen.get("copy requires grad"), "history": seen.get("copy has a history")}
    fields |= {"t_requires": seen.get("t requires grad afterwards"), "t_history": seen.get("t has a history")}
    fields |= {"inference": seen.get("copy is an inference tensor")}
    return fields


snapshot = Exercise(
    "snapshot",
    probe_snapshot,
    cases_snapshot,
    hints=(
        "Two properties are wanted: memory of its own and no history. Which method gives the one, which the other?",
        "`detach()` returns a view of the same memory. What do you see through it after somebody writes into t?",
        "`clone()` is an operation like any other: autograd records it. In which order should the two be called so "
        "that nothing is recorded?",
    ),
    quotes=quotes_snapshot,
)

# --- hessian_vector_product --------------------------------------------------------------------------------------

FEW, MANY = 24, 96


def probe_hvp(
    answer: Watched, form: str, c: list[float], x: Tensor, v: Tensor, measured: bool
) -> dict[str, Any]:
    f, before = function(form, c), (x.clone(), v.clone())
    seen = {**look(answer(f, x, v), x), **kept(x=(x.detach(), before[0]), v=(v, before[1]))}
    if measured and x.device.type == "cpu":
        seen["peak"] = [_peak(answer, f, *before, count) for count in (FEW, MANY)]
    return seen


def _peak(answer: Watched, f: Function, x: Tensor, v: Tensor, count: int) -> int:
    """The most bytes that the answer holds at once for an x of `count` entries."""
    long = [t.flatten().repeat(count)[:count] for t in (x, v)]
    return peak_bytes(lambda: answer(f, *long))


def derive_hvp(_case: Case, seen: Observations) -> Observations:
    """For four times the entries: about four times the memory, or about sixteen times."""
    if "peak" not in seen:
        return seen
    few, many = seen["peak"]
    rest = {name: value for name, value in seen.items() if name != "peak"}
    rest["memory"] = "grows like x" if many <= 8 * few else "grows like x squared"
    return rest


def cases_hvp(draw: Draw) -> list[Case]:
    n = draw.size(3, 5)
    wide = torch.float64

    def drawn(name: str, form: str, *shape: int, dtype: torch.dtype = torch.float32) -> Case:
        tight = {"rtol": 1e-7, "atol": 1e-9} if dtype == wide else {}
        x, v = draw.normal(*shape, dtype=dtype), draw.normal(*shape, dtype=dtype)
        measured = dtype != wide
        return case(name, **tight, form=form, c=coefficients(draw), x=x, v=v, measured=measured)

    return [
        drawn("each entry by itself", "polynomial", n),
        drawn("neighbours depend on each other", "neighbours", n),
        drawn("a matrix, float64", "neighbours", 2, n, dtype=wide),
        drawn("a wave, float64", "wave", n, dtype=wide),
    ]


hessian_vector_product = Exercise(
    "hessian_vector_product",
    probe_hvp,
    cases_hvp,
    hints=(
        "The gradient is itself a function of x. What must `autograd.grad` be told so that you may differentiate its "
        "result once more?",
        "H is symmetric, so Hv is the gradient of a single number made of the gradient and v. Which number?",
        "The gradient of g·v, v held fixed, is Hv. `grad_outputs=v` in a second call says the same. In `torch.func`: "
        "what is the directional derivative of `grad(f)` at x along v?",
    ),
    derive=derive_hvp,
)

# --- per_sample_gradients ----------------------------------------------------------------------------------------

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]
LOSSES: dict[str, Loss] = {
    "one output": lambda w, x, y: ((w * x).sum() - y) ** 2,
    "several outputs": lambda w, x, y: ((w @ x - y) ** 2).sum(),
    "a bent output": lambda w, x, y: (torch.sin(w @ x) * y).sum().exp(),
}


def probe_samples(answer: Watched, loss: str, w: Tensor, xs: Tensor, ys: Tensor) -> dict[str, Any]:
    loss_fn, before = LOSSES[loss], [t.clone() for t in (w, xs, ys)]
    seen = look(answer(loss_fn, w, xs, ys), w)
    seen |= kept(w=(w, before[0]), xs=(xs, before[1]), ys=(ys, before[2]))
    more: list[Any] = [(torch.cat([before[1][:1]] * n), torch.cat([before[2][:1]] * n)) for n in (3, 9)]
    call: Any = loss_fn
    return {**seen, "cost": [cost(answer, call, before[0], *each) for each in more]}


def cases_samples(draw: Draw) -> list[Case]:
    n, i, o = draw.size(5, 6), draw.size(3, 4), 2
    wide = torch.float64
    return [
        case("one output", loss="one output", w=draw.normal(i), xs=draw.normal(n, i), ys=draw.normal(n)),
        case("a matrix of weights", loss="several outputs", w=draw.normal(o, i), xs=draw.normal(n, i),
             ys=draw.normal(n, o)),
        case("as many samples as weights", loss="one output", w=draw.normal(i), xs=draw.normal(i, i),
             ys=draw.normal(i)),
        case("a single sample", loss="one output", w=draw.normal(i), xs=draw.normal(1, i), ys=draw.normal(1)),
        case("a bent output, float64", loss="a bent output", w=draw.normal(o, i, dtype=wide),
             xs=draw.normal(n, i, dtype=wide), ys=draw.normal(n, o, dtype=wide)),
    ]  # fmt: skip


def quotes_samples(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"n": len(inputs["xs"]), "calls": seen.get("torch calls")}
    result = seen.get("result")
    if isinstance(result, Tensor) and result.shape == wanted["result"].shape:
        fields["ratio"] = (result.norm() / wanted["result"].norm()).item()
    return fields


per_sample_gradients = Exercise(
    "per_sample_gradients",
    probe_samples,
    cases_samples,
    hints=(
        "`torch.func.grad(loss_fn)` is a function of (w, x, y) that returns the gradient by its first argument. For "
        "one sample you would be done.",
        "`torch.func.vmap` runs a function for all entries along a dimension at once. Which arguments have such a "
        "dimension here, and which is the same for every sample?",
        "`in_dims` has an entry for each argument: 0 for one that is mapped over its first dimension, None for one "
        "that is handed on as it is.",
    ),
    derive=growth,
    quotes=quotes_samples,
)

# --- saved_bytes -------------------------------------------------------------------------------------------------


def without_grad(x: Tensor) -> Tensor:
    with torch.no_grad():
        return x * x


SAVERS: dict[str, Callable[..., Any]] = {
    "x * x": lambda x: x * x,
    "x * y": lambda x, y: x * y,
    "x + y": lambda x, y: x + y,
    "x.exp()": lambda x: x.exp(),
    "x @ w": lambda x, w: x @ w,
    "x[:3].sin()": lambda x: x[:3].sin(),
    "x[:2] * x[2:4]": lambda x: x[:2] * x[2:4],
    "row.expand_as(y) * y": lambda row, y: row.expand_as(y) * y,
    "x * x under no_grad": without_grad,
    "(x.exp(), y.sin())": lambda x, y: (x.exp(), y.sin()),
    "F.linear(x, w, b).relu().sum()": lambda x, w, b: F.linear(x, w, b).relu().sum(),
    "x.softmax(-1).log()": lambda x: x.softmax(-1).log(),
    "x * x.t()": lambda x: x * x.t(),
}
"""Functions by the expression that they compute."""


def probe_saved(answer: Watched, expression: str, inputs: list[Tensor], followed: bool) -> dict[str, Any]:
    inputs = [t.requires_grad_(followed) for t in inputs]
    return {"result": answer(SAVERS[expression], *inputs)}


def cases_saved(draw: Draw) -> list[Case]:
    n, m = draw.size(5, 7), draw.size(3, 4)

    def drawn(expression: str, *inputs: Tensor, followed: bool = True, name: str = "") -> Case:
        return case(name or expression, expression=expression, inputs=list(inputs), followed=followed)

    return [
        drawn("x * y", draw.normal(n), draw.normal(n)),
        drawn("x * x", draw.normal(n, m)),
        drawn("x + y", draw.normal(n), draw.normal(n)),
        drawn("x.exp()", draw.normal(n, dtype=torch.float64)),
        drawn("x[:3].sin()", draw.normal(100)),
        drawn("x[:2] * x[2:4]", draw.normal(10 * n)),
        drawn("row.expand_as(y) * y", draw.normal(1, m), draw.normal(n, m)),
        drawn("F.linear(x, w, b).relu().sum()", draw.normal(n, m), draw.normal(2, m), draw.normal(2)),
        drawn("x * x under no_grad", draw.normal(n)),
        drawn("x * y", draw.normal(n), draw.normal(n), followed=False, name="x * y, none of them followed"),
        drawn("(x.exp(), y.sin())", draw.normal(n), draw.normal(m)),
    ]


def quotes_saved(inputs: Observations, _seen: Observations, _wanted: Observations) -> dict[str, object]:
    return {"inputs": sum(t.untyped_storage().nbytes() for t in inputs["inputs"])}


saved_bytes = Exercise(
    "saved_bytes",
    probe_saved,
    cases_saved,
    hints=(
        "`torch.autograd.graph.saved_tensors_hooks(pack, unpack)` calls `pack` with every tensor that is saved while "
        "the block runs. What could pack note, and what must it return?",
        "One tensor may be saved twice, and two views may lie in one storage. What is the same for all of them: the "
        "tensor, its `data_ptr()`, or something of its `untyped_storage()`?",
        "A view keeps its whole storage alive. Which method tells the bytes of a storage? A dict from a storage's "
        "address to its bytes counts each one once.",
    ),
    any_device=False,
    quotes=quotes_saved,
)

EXERCISES = (
    derivative, gradient, linear_mse_gradients, sgd_step, numerical_gradient, BinarizeSTE, LogSigmoid, td_loss,
    snapshot, hessian_vector_product, per_sample_gradients, saved_bytes,
)  # fmt: skip
