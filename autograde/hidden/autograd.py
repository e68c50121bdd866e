"""Lesson 02: hidden cases and known mistakes."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograde.hidden.common import (
    ERRORS,
    LEFT,
    MIXED,
    NUMPY_ONLY,
    apart,
    on_the_cpu,
    variants,
    with_a_cpu_tensor,
)  # fmt: skip
from autograde.mistakes import Mistake, slips
from torchcourse.exercise import Case, Draw, case
from torchcourse.exercises.autograd import FUNCTIONS, INSIDE, LEAF, PLAIN, USED, coefficients

Function = Callable[[Tensor], Tensor]

LEAVES, HAND, OFF = "Leaves, and the graph behind a result", "Gradients by hand", "Switching the recording off"
ASK, CUT = "Asking for a gradient without side effects", "Detach, clone and .data"
INPLACE, OWN, CHECKING = "Writing in place", "Functions of your own", "Checking a gradient"
TWICE, FUNC, KEEPS = "Derivatives of derivatives", "torch.func: gradients as functions", "What the graph keeps"
ADD, VECTORS = "Gradients accumulate", "Vectors in, vectors out"

DTYPE = (
    "The result is {got_dtype} where {want_dtype} is wanted: what is made inside has to follow the dtype of the "
    "input."
)

# --- derivative --------------------------------------------------------------------------------------------------


def derivative(
    f: Function, x: float, *, dtype: torch.dtype = torch.float64, returns: str = "float", how: str = "autograd"
) -> Any:
    leaf = torch.tensor(x, dtype=dtype, requires_grad=True)
    y = f(leaf)
    nothing = y.backward()  # type: ignore[no-untyped-call]
    assert leaf.grad is not None
    eps = 1e-6
    slopes = {
        "autograd": leaf.grad,
        "forward": (f(leaf + eps) - y).detach() / eps,
        "central": (f(leaf + eps) - f(leaf - eps)).detach() / (2 * eps),
        "half": leaf.grad * 2,
    }
    slope = slopes[how]
    ways: dict[str, Callable[[], Any]] = {
        "float": slope.item, "value": y.item, "value tensor": lambda: y, "tensor": lambda: slope,
        "nothing": lambda: nothing, "array": lambda: slope.numpy(), "both": lambda: (y.item(), slope.item()),
    }  # fmt: skip
    return ways[returns]()


VALUE = (
    "The result is {got} where {want} is wanted: {value} is the value f(x), and the derivative is its slope, which "
    "`backward()` leaves in the `.grad` of the input."
)
NUMBER = "What came back is {kind}, where a Python float is wanted: `item()` hands the number over."
DIFFERENCE = (
    "The result is {digits} where {want_digits} is wanted: a difference of two values has few right digits, and "
    "autograd has nearly all of them."
)
DERIVATIVE = [
    *slips(
        derivative, LEAVES,
        returns_value=({"returns": "value"}, VALUE),
        returns_tensor=({"returns": "tensor"}, NUMBER),
        float32_precision=({"dtype": torch.float32}, "The result {digits} has the digits of a float32, and "
                           "{want_digits} is wanted: a tensor made of a Python float is float32 unless its dtype "
                           "is given."),
    ),
    *apart(slips(
        derivative, LEAVES,
        differences_instead_of_autograd=({"how": "central"}, DIFFERENCE),
        returns_nothing=({"returns": "nothing"}, "The result is {got} where {want} is wanted: `backward()` itself "
                         "returns nothing, it writes into the `.grad` of the leaves."),
        returns_value_and_slope=({"returns": "both"}, "The result is {got}, where {want} alone is wanted."),
    )),
    *variants("differences-instead-of-autograd", derivative, DIFFERENCE, LEAVES, {"how": "forward"}),
    *variants("returns-value", derivative, VALUE, LEAVES, {"returns": "value tensor"}),
    *variants("returns-tensor", derivative, NUMBER, LEAVES, {"returns": "array"}),
]  # fmt: skip


def more_derivative(draw: Draw) -> list[Case]:
    wide: dict[str, Any] = {"rtol": 1e-11, "atol": 1e-13}
    return [
        case("at zero", **wide, form="wave", c=coefficients(draw), x=0.0),
        case("a product with itself", **wide, form="mean of squares", c=coefficients(draw), x=-1.25),
        case("far from zero", **wide, form="polynomial", c=coefficients(draw), x=1234.5),
    ]


# --- gradient ----------------------------------------------------------------------------------------------------


def gradient(
    f: Function, x: Tensor, *, on: str = "copy", by: str = "grad", keep: bool = False, after: str = "", gives: str = ""
) -> Any:
    if on == "copy" or (on == "x if it can" and not x.requires_grad):
        leaf = x.detach().clone().requires_grad_()
    elif on == "clone":
        leaf = x.clone().requires_grad_() if not x.requires_grad else x.clone()
        leaf.retain_grad()
    elif on == "bare clone":
        leaf = x.clone().requires_grad_()
    else:
        leaf = x.requires_grad_()
    if after == "clear first":
        leaf.grad = None
    y = f(leaf)
    if by == "grad":
        (found,) = torch.autograd.grad(y, leaf, create_graph=keep)
    else:
        y.backward(create_graph=keep)  # type: ignore[no-untyped-call]
        found = leaf.grad  # type: ignore[assignment]
    if after == "clear":
        leaf.grad = None
    if after == "off":
        leaf.requires_grad_(False)
    return y.detach() if gives == "value" else found


POLLUTES = (
    "In the case \"{case}\", `x.grad` was {grad} afterwards or what x was made from had got a gradient: `backward()` "
    "adds to `.grad` of every leaf it reaches, and the caller will find that there."
)
FLAG = (
    "In the case \"{case}\", `x.requires_grad` is {requires} afterwards: `requires_grad_()` was called on the caller's "
    "own tensor."
)
GRADIENT = [
    *slips(
        gradient, ASK,
        pollutes_grad=({"on": "x if it can", "by": "backward"}, POLLUTES),
        changes_requires_grad=({"on": "x"}, FLAG),
        attached_to_graph=({"keep": True}, "The result's `requires_grad` is {attached}: with `create_graph=True` it "
                           "has a history of its own, and keeps the whole graph alive."),
    ),
    *variants("pollutes-grad", gradient, POLLUTES, ASK, {"on": "x", "by": "backward"},
              {"on": "clone", "by": "backward"}, {"on": "bare clone", "by": "backward"}),
    *variants("changes-requires-grad", gradient, FLAG, ASK, {"on": "x", "after": "off"}),
    *variants("clears-old-gradient", gradient, "In the case \"{case}\", `x.grad` is {grad} afterwards: what the caller "
              "had gathered there is gone.", ASK, {"on": "x if it can", "by": "backward", "after": "clear"},
              {"on": "x", "by": "backward", "after": "clear"}),
    *variants("replaces-old-gradient", gradient, "In the case \"{case}\", `x.grad` is {grad} afterwards: what the "
              "caller had gathered there was cleared and overwritten.", ASK,
              {"on": "x if it can", "by": "backward", "after": "clear first"}),
    *variants("returns-value", gradient, "The result has the value {got} where {want} is wanted: that is f(x), not its "
              "gradient.", ASK, {"gives": "value"}),
    Mistake("made-on-cpu", with_a_cpu_tensor(gradient), MIXED, ERRORS),
    Mistake("made-on-cpu", lambda f, x: gradient(f, x.detach().cpu()), LEFT, ERRORS),
    Mistake("dtype-not-kept", lambda f, x: gradient(f, x.detach().float()), DTYPE, ASK),
]  # fmt: skip


def more_gradient(draw: Draw) -> list[Case]:
    n = draw.size(2, 6)
    wide = torch.float64
    return [
        case("transposed", form="product of rows", c=coefficients(draw), values=draw.normal(n, 3).t(), role=LEAF,
             weights=draw.uniform(1, 2, n, 3).t()),
        case("a matrix inside a graph", form="wave", c=coefficients(draw), values=draw.normal(2, n, dtype=wide),
             role=INSIDE, weights=draw.uniform(1, 2, 2, n, dtype=wide)),
        case("a matrix with a gradient", form="mean of squares", c=coefficients(draw), values=draw.normal(n, 2),
             role=USED, weights=draw.uniform(1, 2, n, 2)),
        case("every second entry", form="neighbours", c=coefficients(draw), values=draw.normal(2 * n)[::2],
             role=PLAIN, weights=draw.uniform(1, 2, n)),
    ]  # fmt: skip


# --- linear_mse_gradients ----------------------------------------------------------------------------------------


def linear(
    x: Tensor, w: Tensor, b: Tensor, y: Tensor, *, scale: str = "mean", layout: str = "w", bias: str = "sum",
    sign: int = 1, factor: int = 2, forward: str = "bias", order: str = "dw, db",
) -> Any:  # fmt: skip
    guess = x @ w.T + b if forward == "bias" else x @ w.T
    difference = guess - y
    n, o = difference.shape
    slope = sign * factor * difference / {"mean": n * o, "sum": 1, "batch": n, "outputs": o}[scale]
    dw = {"w": lambda: slope.T @ x, "x": lambda: x.T @ slope}[layout]()
    sums: dict[str, Callable[[], Tensor]] = {
        "sum": lambda: slope.sum(0), "mean": lambda: slope.mean(0), "all": lambda: slope.sum(),
        "rows": lambda: slope.sum(1), "none": lambda: slope, "column": lambda: slope.sum(0, keepdim=True),
        "ones": lambda: torch.ones(n, dtype=slope.dtype) @ slope,
    }  # fmt: skip
    db = sums[bias]()
    return (dw, db) if order == "dw, db" else (db, dw)


SHAPE_OF_B = (
    "The gradient db has shape {db_shape} where b has {b_shape}: b is added to each of the {n} examples, and its "
    "gradient is the sum over them."
)
LINEAR = [
    *slips(
        linear, HAND,
        sum_not_mean=({"scale": "sum"}, "The gradient db is {ratio} times what it should be: the loss is a mean over "
                      "{count} entries, and every gradient has to be divided by that number."),
        mean_over_batch_only=({"scale": "batch"}, "The gradient db is {ratio} times what it should be: the mean is "
                              "over all {count} entries, n times o, and not over the {n} examples alone."),
        missing_factor_two=({"factor": 1}, "The gradient db is {ratio} times what it should be: the derivative of a "
                            "square is twice what was squared."),
        transposed=({"layout": "x"}, "In the case \"{case}\" dw has shape {dw_shape} and came out transposed: w has "
                    "{w_shape}, and the gradient of a tensor has the tensor's own layout."),
        wrong_sign=({"sign": -1}, "In the case \"{case}\" `{what}` is {got} where {want} is wanted: the sign is turned "
                    "round, as with y minus the prediction."),
        bias_averaged=({"bias": "mean"}, "The gradient db is {ratio} times what it should be: the division by {count} "
                       "was done already, and over the examples its parts are added up."),
    ),
    *apart(slips(
        linear, HAND,
        bias_not_summed=({"bias": "none"}, SHAPE_OF_B),
        bias_summed_over_everything=({"bias": "all"}, SHAPE_OF_B),
        bias_left_out=({"forward": "none"}, "In the case \"{case}\" `{what}` is {got} where {want} is wanted: the "
                       "prediction was made without b."),
        wrong_order=({"order": "db, dw"}, "The first of the two has shape {dw_shape}, and w has {w_shape}: dw comes "
                     "first, db second."),
        mean_over_outputs_only=({"scale": "outputs"}, "The gradient db is {ratio} times what it should be: the mean "
                                "is over all {count} entries, n times o, and not over the {o} outputs alone."),
    )),
    *variants("bias-not-summed", linear, SHAPE_OF_B, HAND, {"bias": "column"}),
    *variants("bias-summed-over-outputs", linear, SHAPE_OF_B, HAND, {"bias": "rows"}),
    *variants("made-on-cpu", linear, "On the CPU all is right, on the second device the call raised {error}: a tensor "
              "was made without saying where, and so it was made on the CPU.", ERRORS, {"bias": "ones"}),
    Mistake("made-on-cpu", on_the_cpu(linear), "On the second device `{what}` is on the {got} where {want} is wanted: "
            "what is brought to the CPU stays there unless it is moved back.", ERRORS),
]  # fmt: skip


def more_linear(draw: Draw) -> list[Case]:
    n, i, o = draw.size(8, 20), draw.size(1, 6), draw.size(2, 5)

    def drawn(name: str, n: int, i: int, o: int) -> Case:
        x, w = draw.normal(i, n).t(), draw.normal(i, o).t()
        return case(name, atol=1e-4, x=x, w=w, b=draw.normal(2 * o)[::2], y=draw.normal(n, o))

    return [drawn("strided inputs", n, i, o), drawn("one input", n, 1, o), drawn("all sizes equal", 4, 4, 4)]


# --- sgd_step ----------------------------------------------------------------------------------------------------


def sgd_step(
    params: list[Tensor], lr: float, *, write: str = "in place", clear: bool = True, missing: str = "skip",
    sign: int = 1,
) -> None:
    recording = torch.enable_grad() if write in ("plain", "detach") else torch.no_grad()
    with recording:
        for i, p in enumerate(params):
            if p.grad is None and missing == "skip":
                continue
            if p.grad is None and missing == "zeros":
                p.grad = torch.zeros_like(p)
                continue
            if p.grad is None and missing == "stop":
                return
            step = sign * lr * p.grad  # type: ignore[operator]
            if write in ("in place", "plain"):
                p -= step
            elif write == "name":
                p = p - step
            elif write == "list":
                params[i] = p = (p - step).requires_grad_()
            elif write == "data":
                p.data = p.data - step
            elif write == "detach":
                p.detach_()
                p -= step
            if clear:
                p.grad = None


REBINDS = (
    "Parameter {which} started at {start} and its tensor still holds {now}, where {right} is wanted, or a new object "
    "took its place: `p = p - ...` makes a new tensor, and whoever holds the old one, the model first of all, sees "
    "nothing of the step."
)
SGD = [
    *slips(
        sgd_step, OFF,
        no_no_grad=({"write": "plain"}, "The call raised {error}: outside `torch.no_grad()` autograd wants to record "
                    "the step, and a leaf that is overwritten has lost the value that was to be differentiated by."),
        rebinds_parameter=({"write": "name"}, REBINDS),
        grads_not_cleared=({"clear": False}, "After the step a gradient still holds {left}: the next backward adds to "
                           "it, and the next step goes in the direction of both."),
        fails_on_none=({"missing": "crash"}, "The call raised {error}: a parameter that took no part in the loss has "
                       "`None` for a gradient, and is left alone."),
        climbs=({"sign": -1}, "Parameter {which} went from {start} to {now} where {right} is wanted, with a gradient "
                "of {slope}: the gradient points uphill, so it has to be subtracted."),
    ),
    *apart(slips(
        sgd_step, OFF,
        stops_at_none=({"missing": "stop"}, "In the case \"{case}\" parameter {which} is still {now} where {right} is "
                       "wanted: the loop ended at the first parameter without a gradient, and the others come after "
                       "it."),
        gives_a_gradient_of_zero=({"missing": "zeros"}, "In the case \"{case}\" the gradients afterwards are {got} "
                                                        "where "
                                  "{want} is wanted: a parameter that had none was given one."),
        replaces_data=({"write": "data"}, "A view made before the step still sees the old values, {got}: assigning "
                       "`.data` gives the parameter new memory, where the old was to be written into."),
        stops_requiring_grad=({"write": "detach"}, "After the step `requires_grad` of parameter {which} is {requires}: "
                              "`detach_()` takes a parameter out of training for good."),
    )),
    *variants("rebinds-parameter", sgd_step, REBINDS, OFF, {"write": "list"}),
]  # fmt: skip


def more_sgd(draw: Draw) -> list[Case]:
    n = draw.size(2, 6)
    shapes: list[tuple[int, ...]] = [(n,), (2, n), (1,), (n, 1)]
    values, grads = [draw.normal(*s) for s in shapes], [draw.normal(*s) for s in shapes]
    return [
        case("the last has no gradient", values=values, grads=[*grads[:-1], None], lr=0.05),
        case("no parameters at all", values=[], grads=[], lr=0.1),
        case("a step of size 0", values=values, grads=grads, lr=0.0),
        case("a transposed parameter", values=[draw.normal(n, 3).t()], grads=[draw.normal(n, 3).t()], lr=0.5),
        case("gradients of zero", values=values, grads=[torch.zeros(s) for s in shapes], lr=0.5),
    ]


# --- numerical_gradient ------------------------------------------------------------------------------------------


def numerical_gradient(
    f: Function, x: Tensor, eps: float = 1e-6, *, scheme: str = "central", dtype: str = "float64", writes: str = "copy",
    gives: str = "float64", over: str = "2 eps", shape: str = "x",
) -> Tensor:  # fmt: skip
    x = {"float64": x.double, "keep": lambda: x, "float32": x.float}[dtype]()
    x = x.clone() if writes == "copy" else x
    result = torch.zeros(x.shape, dtype=x.dtype if dtype == "keep" else torch.float64)
    here = f(x).item()
    width = {"2 eps": 2 * eps, "eps": eps}[over]
    for index in itertools.product(*map(range, x.shape)):
        old = x[index].item()
        x[index] += eps
        up = f(x).item()
        x[index] -= 2 * eps
        down = f(x).item()
        if writes == "copy":
            x[index] = old
        elif writes == "adding back":
            x[index] += eps
        slopes = {"central": (up - down) / width, "forward": (up - here) / eps, "backward": (here - down) / eps}
        result[index] = slopes[scheme]
    result = result.flatten() if shape == "flat" else result
    return result.float() if gives == "float32" else result


def all_at_once(f: Function, x: Tensor, eps: float = 1e-6) -> Tensor:
    return (f(x.double() + eps) - f(x.double() - eps)) / (2 * eps)


def moving_a_copy(f: Function, x: Tensor, eps: float = 1e-6) -> Tensor:
    x = x.double().clone()
    flat, result = x.reshape(-1), torch.zeros(x.numel(), dtype=torch.float64)
    for i, old in enumerate(flat.tolist()):
        flat[i] = old + eps
        up = f(x).item()
        flat[i] = old - eps
        result[i] = (up - f(x).item()) / (2 * eps)
        flat[i] = old
    return result.reshape(x.shape)


def by_autograd(f: Function, x: Tensor, eps: float = 1e-6) -> Tensor:
    leaf = x.double().clone().requires_grad_()
    return torch.autograd.grad(f(leaf), leaf)[0]


FORWARD = (
    "The gradient is off by up to {off}, where 1e-7 is allowed: a step to one side only is wrong by eps/2 times the "
    "curvature, and the mean of both sides is not."
)
MODIFIES = (
    "After the call the entries of x have {x_now}: they were moved in the caller's own tensor, which has to end as it "
    "was, to the last digit."
)
NARROW = (
    "The gradient is off by up to {off} or came out as {got_dtype}: a float32 near 1 moves in steps of about 1e-7, so "
    "a step of 1e-6 is mostly rounding. Differences need float64."
)
NUMERICAL = [
    *slips(
        numerical_gradient, CHECKING,
        forward_difference=({"scheme": "forward"}, FORWARD),
        modifies_input=({"writes": "x"}, MODIFIES),
        float32_precision=({"dtype": "keep"}, NARROW),
        divides_by_eps=({"over": "eps"}, "The gradient is off by up to {off}: the two points are 2·eps apart, and the "
                        "difference was divided by eps."),
        returns_float32=({"gives": "float32"}, "The result is {got_dtype} where {want_dtype} is wanted."),
        flattened=({"shape": "flat"}, "The result has shape {got_shape} where {want_shape} is wanted: the gradient has "
                   "the shape of x."),
    ),
    *variants("forward-difference", numerical_gradient, FORWARD, CHECKING, {"scheme": "backward"}),
    *variants("modifies-input", numerical_gradient, MODIFIES, CHECKING, {"writes": "adding back"}),
    *variants("float32-precision", numerical_gradient, NARROW, CHECKING, {"dtype": "float32"}),
    Mistake("moves-all-entries-at-once", all_at_once, "The result is {got} where {want} is wanted: all entries were "
                                                      "moved "
            "together, and what comes out is the sum of the slopes.", CHECKING),
    Mistake("moves-a-copy", moving_a_copy, "In the case \"{case}\" the slope at {at} is {got_at} where {want_at} is "
            "wanted: for such strides `reshape` makes a copy, and moving that does not move x.", CHECKING),
    Mistake("uses-autograd", by_autograd, "In the case \"{case}\" the call raised {error}: differences need nothing "
            "but the values of f, and autograd needs a graph.", CHECKING),
]  # fmt: skip


def more_numerical(draw: Draw) -> list[Case]:
    n = draw.size(2, 5)
    wide = torch.float64

    def drawn(name: str, form: str, x: Tensor, eps: float | None = None) -> Case:
        c = coefficients(draw)
        atol = 1e-7 * max(1.0, abs(FUNCTIONS[form](x.double(), c).item()))
        return case(name, rtol=0.0, atol=atol, form=form, c=c, x=x, eps=eps)

    return [
        drawn("three dimensions", "wave", draw.uniform(-1, 1, 2, n, 2, dtype=wide)),
        drawn("every second entry", "neighbours", draw.normal(2 * n, dtype=wide)[::2]),
        drawn("one entry", "polynomial", draw.uniform(0.5, 1, 1, dtype=wide)),
        drawn("larger values", "polynomial", draw.uniform(3, 5, n, dtype=wide)),
        drawn("a smaller step", "neighbours", draw.normal(n, dtype=wide), 3e-7),
    ]


# --- BinarizeSTE -------------------------------------------------------------------------------------------------

Rule = Callable[[Tensor], Tensor]
Backward = Callable[[Tensor, Tensor], Any]


def step(x: Tensor) -> Tensor:
    return (x > 0).to(x.dtype)


def passed(x: Tensor, g: Tensor) -> Tensor:
    return g * (x.abs() <= 1)


def function(forward: Rule, backward: Backward) -> Callable[..., Any]:
    """A torch.autograd.Function of these two."""

    class Made(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return forward(x)

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Any:
            return backward(ctx.saved_tensors[0], g)

    return Made


def binarized(name: str, sentence: str, *, forward: Rule = step, backward: Backward = passed) -> Mistake:
    return Mistake(name, function(forward, backward), sentence, OWN)


def onto_the_cpu(x: Tensor) -> Tensor:
    result = torch.zeros(x.shape, dtype=x.dtype)
    result[(x > 0).cpu()] = 1
    return result


def overwritten(x: Tensor, g: Tensor) -> Tensor:
    g[x.abs() > 1] = 0
    return g


PASSES = "At x = {x_grad} the gradient {g_grad} came back as {got_grad}, and {want_grad} is wanted: "
ZERO = PASSES + "the true slope of a step is zero, and nothing behind it would ever learn; pass it straight through."
CLAMPS = PASSES + "it is x that decides where the gradient passes, not the size of the gradient."
STE = [
    binarized("gradient-is-zero", ZERO, backward=lambda x, g: torch.zeros_like(g)),
    binarized("gradient-is-zero", "The gradient of x is {no_grad}, and nothing behind the step would ever learn: pass "
              "the gradient straight through where abs(x) is at most 1.", backward=lambda x, g: None),
    binarized("clamps-gradient-not-input", CLAMPS, backward=lambda x, g: g.clamp(-1, 1)),
    binarized("clamps-gradient-not-input", CLAMPS, backward=lambda x, g: g * (g.abs() <= 1)),
    binarized("no-clip", PASSES + "beyond 1 in size a change of x no longer matters, and the gradient has to stop.",
              backward=lambda x, g: g),
    binarized("ignores-grad-output", PASSES + "by the chain rule the incoming gradient has to be multiplied in.",
              backward=lambda x, g: (x.abs() <= 1).to(g.dtype)),
    binarized("writes-into-grad-output", "In the case \"{case}\" the incoming gradient itself was {got} by the "
                                         "backward, "
              "and should be {want}: other branches of the graph may still need it.", backward=overwritten),
    binarized("multiplies-by-clipped-input", PASSES + "what multiplies it is a mask of ones and zeros, and not x.",
              backward=lambda x, g: g * x.clamp(-1, 1)),
    binarized("clamps-gradient-not-input", CLAMPS, forward=lambda x: (x > 0).float(),
              backward=lambda x, g: g.clamp(-1, 1)),
    binarized("no-clip", PASSES + "beyond 1 in size a change of x no longer matters, and the gradient has to stop.",
              forward=lambda x: (x > 0).float(), backward=lambda x, g: g),
    binarized("excludes-the-edge", PASSES + "at abs(x) = 1 exactly it still passes.",
              backward=lambda x, g: g * (x.abs() < 1)),
    binarized("keeps-the-wrong-side", PASSES + "the mask is turned round.", backward=lambda x, g: g * (x.abs() > 1)),
    binarized("clips-at-zero-and-one", PASSES + "it passes from -1 to 1, not from 0 to 1.",
              backward=lambda x, g: g * ((x >= 0) & (x <= 1))),
    binarized("passes-by-the-output", PASSES + "the mask belongs to the input of the step, not to its output.",
              backward=lambda x, g: g * (x > 0)),
    binarized("zero-becomes-one", "At x = {x_y} the value is {got_y}, and {want_y} is wanted: only what is greater "
              "than zero becomes 1.", forward=lambda x: (x >= 0).to(x.dtype)),
    binarized("gives-plus-and-minus-one", "At x = {x_y} the value is {got_y}, and {want_y} is wanted: the two values "
              "are 0 and 1.", forward=lambda x: (x > 0).to(x.dtype) * 2 - 1),
    binarized("gives-plus-and-minus-one", "At x = {x_y} the value is {got_y}, and {want_y} is wanted: the two values "
              "are 0 and 1.", forward=torch.sign),
    binarized("dtype-not-kept", DTYPE, forward=lambda x: (x > 0).float()),
    binarized("returns-bool", DTYPE, forward=lambda x: x > 0),
    Mistake("made-on-cpu", function(lambda x: step(x) * torch.ones(x.shape, dtype=x.dtype), passed), MIXED, ERRORS),
    Mistake("made-on-cpu", function(step, lambda x, g: g * (x.abs() <= torch.ones(x.shape, dtype=x.dtype))), MIXED,
            ERRORS),
]  # fmt: skip


def more_binarize(draw: Draw) -> list[Case]:
    n = draw.size(2, 9)
    edges = torch.tensor([1.0, -1.0, 0.0, -0.0, 1.0001, -1.0001])
    return [
        case("edges in float64", x=edges.double(), g=draw.normal(6, dtype=torch.float64)),
        case("three dimensions", x=draw.uniform(-2, 2, 2, n, 3), g=3 * draw.normal(2, n, 3)),
        case("one number", x=draw.uniform(-1, 1), g=draw.normal()),
        case("every second entry", x=draw.uniform(-2, 2, 2 * n)[::2], g=draw.normal(2 * n)[1::2]),
        case("float16", x=draw.uniform(-2, 2, n, dtype=torch.float16), g=draw.normal(n, dtype=torch.float16)),
    ]


# --- LogSigmoid --------------------------------------------------------------------------------------------------


def stable(x: Tensor) -> Tensor:
    return x.clamp(max=0) - torch.log1p(torch.exp(-x.abs()))


def naive(x: Tensor) -> Tensor:
    return -torch.log(1 + torch.exp(-x))


def mirrored(x: Tensor, g: Tensor) -> Tensor:
    return g * torch.sigmoid(-x)


def quotient(x: Tensor, g: Tensor) -> Tensor:
    return g * torch.exp(-x) / (1 + torch.exp(-x))


def logged(name: str, sentence: str, *, forward: Rule = stable, backward: Backward = mirrored) -> Mistake:
    return Mistake(name, function(forward, backward), sentence, OWN)


AT_Y = "At x = {x_y} the value is {got_y}, and {want_y} is wanted: "
OVERFLOW = AT_Y + "`exp(-x)` is larger than the largest float there, or `sigmoid(x)` is 0, and the logarithm infinite."
NAN = (
    "At x = {x_grad} the gradient is {got_grad}, and {want_grad} is wanted: `exp(-x)` is inf there, and inf / inf is "
    "NaN; `sigmoid(-x)` is the same number without the overflow."
)
LOG_SIGMOID = [
    logged("overflow", OVERFLOW, forward=naive),
    logged("overflow", OVERFLOW, forward=naive, backward=quotient),
    logged("overflow", OVERFLOW, forward=naive, backward=lambda x, g: g * (1 - torch.sigmoid(x))),
    logged("overflow", OVERFLOW, forward=lambda x: torch.log(torch.sigmoid(x))),
    logged("overflow", OVERFLOW, forward=naive, backward=lambda x, g: torch.sigmoid(-x)),
    logged("overflow", OVERFLOW, forward=naive, backward=lambda x, g: 1 - torch.sigmoid(x)),
    logged("overflow", OVERFLOW, forward=lambda x: torch.log(torch.sigmoid(x)),
           backward=lambda x, g: g * (1 - torch.sigmoid(x))),
    logged("overflow", AT_Y + "`exp(x)` is larger than the largest float there.",
           forward=lambda x: x - torch.log1p(torch.exp(x))),
    logged("nan-gradient", NAN, backward=quotient),
    logged("nan-gradient", NAN, backward=lambda x, g: g * (1 - torch.exp(x) / (1 + torch.exp(x)))),
    logged("ignores-grad-output", "At x = {x_grad} the gradient is {got_grad}, and {want_grad} is wanted, for an "
                                  "incoming "
           "{g_grad}: by the chain rule the incoming gradient has to be multiplied in.",
           backward=lambda x, g: torch.sigmoid(-x)),
    logged("loses-small-gradients", "In the case \"{case}\" the gradient at x = {x0}, times exp(x), is {far_got} where "
           "about 1 is wanted: in float32 `1 - sigmoid(x)` has no digits left there, and `sigmoid(-x)`, the same "
           "number, has all of them.", backward=lambda x, g: g * (1 - torch.sigmoid(x))),
    logged("gradient-not-mirrored", "At x = {x_grad} the gradient is {got_grad}, and {want_grad} is wanted: it is "
           "sigmoid(-x), large on the left, where the curve is steep.", backward=lambda x, g: g * torch.sigmoid(x)),
    logged("gradient-of-the-sigmoid", "At x = {x_grad} the gradient is {got_grad}, and {want_grad} is wanted: that is "
           "the derivative of the sigmoid, before its logarithm was taken.",
           backward=lambda x, g: g * torch.sigmoid(x) * torch.sigmoid(-x)),
    logged("clamped", AT_Y + "x was clamped to keep `exp` finite, and the curve goes on.",
           forward=lambda x: naive(x.clamp(min=-80))),
    logged("sign-turned", AT_Y + "the logarithm of a number below 1 is negative.", forward=lambda x: -stable(x)),
    Mistake("made-on-cpu", function(lambda x: torch.minimum(x, torch.zeros(x.shape, dtype=x.dtype))
                                    - torch.log1p(torch.exp(-x.abs())), mirrored), MIXED, ERRORS),
    logged("dtype-not-kept", DTYPE, forward=lambda x: stable(x.float())),
]  # fmt: skip


def more_log_sigmoid(draw: Draw) -> list[Case]:
    n = draw.size(2, 9)
    wide, near = torch.float64, {"far": False}
    return [
        case("three dimensions", **near, x=3 * draw.normal(2, n, 3), g=draw.normal(2, n, 3)),
        case("one number", **near, x=draw.normal(dtype=wide), g=draw.normal(dtype=wide)),
        case("drawn up to 1000", **near, x=draw.uniform(-1000, 1000, n), g=draw.normal(n)),
        case("every second entry", **near, x=draw.normal(2 * n)[::2], g=draw.normal(2 * n)[1::2]),
        case("drawn from 18 to 80", rtol=1e-3, far=True, x=draw.uniform(18, 80, n), g=torch.ones(n)),
    ]


# --- td_loss -----------------------------------------------------------------------------------------------------


def td_loss(online: Tensor, target: Tensor, *, cut: str = "target", power: int = 2, reduce: str = "mean") -> Tensor:
    if cut == "in place":
        target.detach_()
    if cut == "flag":
        target.requires_grad_(False)
    target = target.detach() if cut in ("target", "both") else target
    online = online.detach() if cut in ("online", "both") else online
    with torch.set_grad_enabled(cut != "whole"):
        error = (online - target).abs() ** power
        ways: dict[str, Callable[[], Tensor]] = {
            "mean": error.mean, "sum": error.sum, "root": lambda: error.mean().sqrt(),
            "half": lambda: error.mean() / 2, "none": lambda: error,
        }  # fmt: skip
        return ways[reduce]()


DETACHED = (
    "The loss follows the graph of the prediction: {follows}. The prediction was cut off, or the whole loss was "
    "computed with the recording off, and so there is nothing to train."
)
SCALED = "The loss is {loss} where {right} is wanted: "
TD = [
    *slips(
        td_loss, CUT,
        gradient_leaks_into_target=({"cut": "none"}, "In the case \"{case}\" `{what}` is {got} where {want} is wanted: "
                                    "the target is pulled towards the prediction too, unless it is detached."),
        prediction_detached=({"cut": "both"}, DETACHED),
        sum_not_mean=({"reduce": "sum"}, SCALED + "the squares were added up, not averaged."),
        absolute_not_squared=({"power": 1}, SCALED + "the error was not squared."),
        rooted=({"reduce": "root"}, SCALED + "no root is taken of the mean."),
        halved=({"reduce": "half"}, SCALED + "the mean was halved."),
    ),
    *variants("prediction-detached", td_loss, DETACHED, CUT, {"cut": "whole"}),
    *variants("wrong-side-detached", td_loss, "In the case \"{case}\" `{what}` is {got} where {want} is wanted: the "
              "prediction was cut off, and the gradient goes to the target.", CUT, {"cut": "online"}),
    *variants("detaches-in-place", td_loss, "`target.requires_grad` is {requires} after the call: `detach_()` works in "
              "place, and has cut the caller's own tensor out of its graph.", CUT, {"cut": "in place"}),
    *variants("not-reduced", td_loss, "The loss has shape {got_shape}, where a single number is wanted: the mean is "
              "missing.", CUT, {"reduce": "none"}),
    Mistake("made-on-cpu", on_the_cpu(td_loss), LEFT, ERRORS),
    Mistake("made-on-cpu", lambda o, t: td_loss(o, t) + (o * torch.zeros(o.shape, dtype=o.dtype)).sum(), MIXED, ERRORS),
    Mistake("dtype-not-kept", lambda o, t: td_loss(o, t).float(), DTYPE, CUT),
]  # fmt: skip


def more_td(draw: Draw) -> list[Case]:
    n = draw.size(1, 8)
    return [
        case("one entry", online=draw.normal(1), target=draw.normal(1), shared=False),
        case("transposed", online=draw.normal(n, 3).t(), target=draw.normal(n, 3).t(), shared=True),
        case("three dimensions", online=draw.normal(2, n, 3), target=draw.normal(2, n, 3), shared=False),
        case("far apart", online=draw.normal(n), target=100 * draw.normal(n), shared=True),
    ]


# --- snapshot ----------------------------------------------------------------------------------------------------


def snapshot(t: Tensor, *, how: str = "detach, clone") -> Any:
    with torch.inference_mode(how == "inference"):
        if how == "inference":
            return t.clone()
    ways: dict[str, Callable[[], Any]] = {
        "detach, clone": lambda: t.detach().clone(),
        "detach": t.detach, "data": lambda: t.data, "clone": t.clone, "view": lambda: t.detach().view_as(t),
        "contiguous": lambda: t.detach().contiguous(), "to": lambda: t.detach().to(t.dtype),
        "leaf": lambda: t.detach().clone().requires_grad_(t.requires_grad),
        "deepcopy": lambda: copy.deepcopy(t), "flag off": lambda: t.clone().requires_grad_(False),
        "numpy, shared": lambda: torch.from_numpy(t.detach().numpy()),
        "in place": lambda: t.detach_().clone(), "flag": lambda: t.requires_grad_(False).clone(),
        "itself": lambda: t, "cpu": lambda: t.detach().cpu().clone(),
        "numpy": lambda: torch.from_numpy(t.detach().numpy().copy()), "list": t.tolist,
        "float": lambda: t.detach().clone().float(),
    }  # fmt: skip
    return ways[how]()


SHARES = (
    "In the case \"{case}\" an entry of the copy was {at_first}, and became {later} when t was written to: `detach()` "
    "and `.data` give another tensor over the same memory."
)
KEEPS_GRAPH = (
    "In the case \"{case}\" the copy's `requires_grad` is {requires}, and it has a history: {history}. `clone()` is "
    "recorded like any other operation; detach as well."
)
REQUIRES = "In the case \"{case}\" the copy's `requires_grad` is {requires}: a snapshot is a value, nothing to train."
SNAPSHOT = [
    *variants("shares-memory", snapshot, SHARES, CUT, {"how": "detach"}, {"how": "contiguous"},
              {"how": "numpy, shared"}),
    *variants("keeps-graph", snapshot, KEEPS_GRAPH, CUT, {"how": "clone"}),
    *variants("still-requires-grad", snapshot, REQUIRES, CUT, {"how": "leaf"}, {"how": "deepcopy"}),
    *variants("flag-on-a-non-leaf", snapshot, "In the case \"{case}\" {what} raised {got}: `clone()` of a followed "
                                              "tensor "
              "has a history, and a flag does not take that away; `detach()` does.", CUT, {"how": "flag off"}),
    *variants("returns-t-itself", snapshot, "In the case \"{case}\" an entry of the copy was {at_first} and became "
              "{later} when t was written to, and its history came along: this is t under another name.", CUT,
              {"how": "itself"}),
    *variants("detaches-in-place", snapshot, "In the case \"{case}\" t's own `requires_grad` is {t_requires} "
              "afterwards, and its history: {t_history}. `detach_()` cuts the caller's tensor, `detach()` makes "
              "another one.", CUT,
              {"how": "in place"}),
    *variants("inference-tensor", snapshot, "The copy is an inference tensor: {inference}. Autograd refuses to save "
              "such a tensor for a backward, ever after.", OFF, {"how": "inference"}),
    *variants("dtype-not-kept", snapshot, DTYPE, CUT, {"how": "float"}),
    *variants("made-on-cpu", snapshot, LEFT, ERRORS, {"how": "cpu"}),
    *variants("made-on-cpu", snapshot, NUMPY_ONLY, ERRORS, {"how": "numpy"}),
]  # fmt: skip


def more_snapshot(draw: Draw) -> list[Case]:
    n = draw.size(2, 6)
    return [
        case("bfloat16", values=draw.normal(n, dtype=torch.bfloat16), role=LEAF),
        case("three dimensions, permuted", values=draw.normal(2, n, 3).permute(2, 0, 1), role=INSIDE),
        case("no entries", values=torch.empty(0, n), role=PLAIN),
        case("uint8", values=draw.integers(0, 200, n, dtype=torch.uint8), role=PLAIN),
    ]


# --- hessian_vector_product --------------------------------------------------------------------------------------


def hvp(f: Function, x: Tensor, v: Tensor, *, how: str = "twice") -> Tensor:
    leaf = x.detach().clone().requires_grad_()
    if how == "hessian":
        whole: Any = torch.autograd.functional.hessian(f, leaf)  # type: ignore[no-untyped-call]
        flat: Tensor = whole.reshape(x.numel(), x.numel()) @ v.flatten()
        return flat.reshape(x.shape)
    if how == "hessian @ v":
        matrix: Tensor = torch.autograd.functional.hessian(f, leaf)  # type: ignore[no-untyped-call]
        return matrix @ v
    if how == "func":
        square: Any = torch.func.hessian(f)(x)
        product: Tensor = torch.tensordot(square, v, dims=x.dim())
        return product
    (slope,) = torch.autograd.grad(f(leaf), leaf, create_graph=True)
    if how == "rows":
        rows = [torch.autograd.grad(entry, leaf, retain_graph=True)[0].flatten() for entry in slope.flatten()]
        return (torch.stack(rows) @ v.flatten()).reshape(x.shape)
    if how == "diagonal":
        rows = [torch.autograd.grad(e, leaf, retain_graph=True)[0].flatten() for e in slope.flatten()]
        return torch.stack([row[i] for i, row in enumerate(rows)]).reshape(x.shape) * v
    ways: dict[str, Callable[[], Tensor]] = {
        "twice": lambda: torch.autograd.grad(slope, leaf, v)[0],
        "dot": lambda: torch.autograd.grad(slope @ v, leaf)[0],
        "slope": lambda: slope.detach(),
        "product": lambda: (slope * v).detach(),
        "directional": lambda: (slope * v).sum().detach(),
        "row sums": lambda: torch.autograd.grad(slope.sum(), leaf)[0] * v,
        "sums": lambda: torch.autograd.grad(slope.sum(), leaf)[0],
        "norm": lambda: torch.autograd.grad((slope * slope).sum() / 2, leaf)[0],
        "plus": lambda: torch.autograd.grad((slope * v).sum() + f(leaf), leaf)[0],
    }
    return ways[how]()


def difference(f: Function, x: Tensor, v: Tensor) -> Tensor:
    def slope(at: Tensor) -> Tensor:
        leaf = at.detach().requires_grad_()
        return torch.autograd.grad(f(leaf), leaf)[0]

    return (slope(x + 1e-3 * v) - slope(x - 1e-3 * v)) / 2e-3


FIRST = (
    "In the case \"{case}\" the result is {got} where {want} is wanted: that is made of first derivatives only, and H "
    "holds the second ones; differentiate the gradient once more."
)
BUILDS = (
    "The memory of the call {got}, where {want} is allowed: somewhere all of H was held. For a million weights it "
    "would have 10^12 entries."
)
HVP = [
    *variants("first-order-only", hvp, FIRST, TWICE, {"how": "product"}, {"how": "slope"}),
    *variants("first-order-only", hvp, "The result has shape {got_shape} where {want_shape} is wanted: g·v is a single "
              "number, the slope along v, and still has to be differentiated.", TWICE, {"how": "directional"}),
    *variants("builds-hessian", hvp, BUILDS, TWICE, {"how": "hessian"}, {"how": "rows"}, {"how": "func"},
              {"how": "hessian @ v"}),
    *variants("only-for-vectors", hvp, "In the case \"{case}\" {what} raised {got}: `g @ v` is g·v only where both "
                                       "have one "
              "dimension; `(g * v).sum()` is so for any shape.", TWICE, {"how": "dot"}),
    *variants("row-sums-not-product", hvp, "In the case \"{case}\" the result is {got} where {want} is wanted: the "
              "gradient of the summed gradient holds the row sums of H, and multiplying these by v entry by entry is "
              "right only where H is diagonal.", TWICE, {"how": "row sums"}),
    *variants("v-not-used", hvp, "In the case \"{case}\" the result is {got} where {want} is wanted: these are the row "
              "sums of H, as if v were all ones.", TWICE, {"how": "sums"}),
    *variants("multiplies-by-the-gradient", hvp, "In the case \"{case}\" the result is {got} where {want} is wanted: "
              "that is H times the gradient, where H times v is wanted.", TWICE, {"how": "norm"}),
    *variants("diagonal-only", hvp, "In the case \"{case}\" `{what}` is {got} where {want} is wanted: the diagonal of "
                                    "H "
              "alone was multiplied, as if no entry depended on another.", TWICE, {"how": "diagonal"}),
    Mistake("differences-of-gradients", difference, "In the case \"{case}\" the result is {got} and should be {want}; "
            "seen closely, its last digits are wrong: a difference of two gradients is only near Hv.", TWICE),
    Mistake("made-on-cpu", with_a_cpu_tensor(hvp), MIXED, ERRORS),
    Mistake("made-on-cpu", lambda f, x, v: hvp(f, x.cpu(), v.cpu()), LEFT, ERRORS),
    Mistake("dtype-not-kept", lambda f, x, v: hvp(f, x.float(), v.float()), DTYPE, TWICE),
]  # fmt: skip


def more_hvp(draw: Draw) -> list[Case]:
    n = draw.size(2, 6)
    wide = torch.float64
    return [
        case("three dimensions", measured=False, form="neighbours", c=coefficients(draw),
             x=draw.normal(2, n, 2), v=draw.normal(2, n, 2)),
        case("v is zero", measured=False, form="neighbours", c=coefficients(draw), x=draw.normal(n), v=torch.zeros(n)),
        case("transposed, float64", rtol=1e-7, atol=1e-9, measured=False, form="neighbours", c=coefficients(draw),
             x=draw.normal(n, 3, dtype=wide).t(), v=draw.normal(n, 3, dtype=wide).t()),
        case("one entry", measured=False, form="wave", c=coefficients(draw), x=draw.normal(1), v=draw.normal(1)),
    ]  # fmt: skip


# --- per_sample_gradients ----------------------------------------------------------------------------------------


def samples(loss_fn: Callable[..., Tensor], w: Tensor, xs: Tensor, ys: Tensor, *, how: str = "vmap") -> Tensor:
    leaf = w.detach().clone().requires_grad_()

    def slope(loss: Tensor) -> Tensor:
        return torch.autograd.grad(loss, leaf)[0]

    def losses() -> Tensor:
        return torch.func.vmap(loss_fn, in_dims=(None, 0, 0))(leaf, xs, ys)

    def many() -> Tensor:
        copies = w.detach().expand(len(xs), *w.shape).clone().requires_grad_()
        mean = torch.func.vmap(loss_fn)(copies, xs, ys).mean()
        return torch.autograd.grad(mean, copies)[0]

    def adding_up() -> Tensor:
        found = []
        for x, y in zip(xs, ys, strict=True):
            loss_fn(leaf, x, y).backward()  # type: ignore[no-untyped-call]
            assert leaf.grad is not None
            found.append(leaf.grad.clone())
        return torch.stack(found)

    ways: dict[str, Callable[[], Tensor]] = {
        "adding up": adding_up,
        "vmap": lambda: torch.func.vmap(torch.func.grad(loss_fn), in_dims=(None, 0, 0))(w, xs, ys),
        "loop": lambda: torch.stack([slope(loss_fn(leaf, x, y)) for x, y in zip(xs, ys, strict=True)]),
        "rows": lambda: torch.stack([torch.autograd.grad(one, leaf, retain_graph=True)[0] for one in losses()]),
        "mean": lambda: slope(losses().mean()),
        "sum": lambda: slope(losses().sum()),
        "mean for each": lambda: slope(losses().mean()).expand(len(xs), *w.shape),
        "sum for each": lambda: slope(losses().sum()).expand(len(xs), *w.shape),
        "divided": many,
        "losses": lambda: losses().detach(),
        "by x": lambda: torch.func.vmap(torch.func.grad(loss_fn, argnums=1), in_dims=(None, 0, 0))(w, xs, ys),
        "last": lambda: torch.func.vmap(torch.func.grad(loss_fn), in_dims=(None, 0, 0), out_dims=-1)(w, xs, ys),
    }
    return ways[how]()


MEAN = "The result has shape {got_shape} where {want_shape} is wanted: "
LOOP = (
    "The number of torch calls is {calls}: a loop over the samples runs at Python's pace, one backward after the "
    "other. `vmap` runs them all at once."
)
SAMPLES = [
    *variants("mean-gradient", samples, MEAN + "one backward of the mean loss gives the mean of the {n} gradients, and "
              "what each sample said is lost.", FUNC, {"how": "mean"}),
    *variants("mean-gradient", samples, "In the case \"{case}\" the result is {got} where {want} is wanted: every row "
              "holds the mean of the {n} gradients.", FUNC, {"how": "mean for each"}),
    *variants("sum-gradient", samples, MEAN + "one backward of the summed loss adds the {n} gradients up.", FUNC,
              {"how": "sum"}),
    *variants("sum-gradient", samples, "In the case \"{case}\" the result is {got} where {want} is wanted: every row "
              "holds the sum of the {n} gradients.", FUNC, {"how": "sum for each"}),
    *variants("python-loop", samples, LOOP, FUNC, {"how": "loop"}, {"how": "rows"}),
    *variants("gradients-add-up", samples, "In the case \"{case}\" the result is {got} where {want} is wanted: "
                                           "`.grad` was "
              "not cleared between the samples, so each row holds the sum of all rows up to it.", ADD,
              {"how": "adding up"}),
    *variants("divided-by-n", samples, "The gradients are {ratio} times what they should be: the mean over the {n} "
              "losses divides each of them.", FUNC, {"how": "divided"}),
    *variants("returns-losses", samples, MEAN + "these are the losses, not their gradients.", FUNC, {"how": "losses"}),
    *variants("samples-come-last", samples, "In the case \"{case}\" the result has shape {got_shape} where "
              "{want_shape} is wanted: the samples come first, as in xs.", FUNC, {"how": "last"}),
    *variants("gradient-by-x", samples, "In the case \"{case}\" the result is {got} where {want} is wanted: this is "
              "the gradient by x, the second argument of the loss.", FUNC, {"how": "by x"}),
    Mistake("made-on-cpu", with_a_cpu_tensor(samples), MIXED, ERRORS),
    Mistake("made-on-cpu", lambda f, w, xs, ys: samples(f, w.cpu(), xs.cpu(), ys.cpu()), LEFT, ERRORS),
    Mistake("dtype-not-kept", lambda f, w, xs, ys: samples(f, w.float(), xs.float(), ys.float()), DTYPE, FUNC),
]  # fmt: skip


def more_samples(draw: Draw) -> list[Case]:
    n, i = draw.size(7, 20), draw.size(2, 6)
    return [
        case("many samples", loss="one output", w=draw.normal(i), xs=draw.normal(n, i), ys=draw.normal(n)),
        case("strided samples", loss="several outputs", w=draw.normal(i, 3).t(), xs=draw.normal(i, n).t(),
             ys=draw.normal(2 * n, 3)[::2]),
        case("float64", loss="several outputs", w=draw.normal(2, i, dtype=torch.float64),
             xs=draw.normal(n, i, dtype=torch.float64), ys=draw.normal(n, 2, dtype=torch.float64)),
    ]  # fmt: skip


# --- saved_bytes -------------------------------------------------------------------------------------------------


def saved_bytes(f: Callable[..., Any], *inputs: Tensor, count: str = "storages") -> Any:
    saved: list[Tensor] = []

    def pack(t: Tensor) -> Tensor:
        saved.append(t)
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        result = f(*inputs)
    outputs = result if isinstance(result, tuple) else (result,)

    def own(tensors: Any) -> int:
        return sum(t.numel() * t.element_size() for t in tensors)

    def storages(tensors: Any) -> int:
        return sum({t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}.values())

    ways: dict[str, Callable[[], Any]] = {
        "storages": lambda: storages(saved),
        "tensor": lambda: torch.tensor(storages(saved)),
        "outputs": lambda: own(outputs),
        "inputs": lambda: storages(inputs),
        "inputs and outputs": lambda: storages([*inputs, *outputs]),
        "every save": lambda: own(saved),
        "every storage": lambda: sum(t.untyped_storage().nbytes() for t in saved),
        "addresses": lambda: sum({t.data_ptr(): t.untyped_storage().nbytes() for t in saved}.values()),
        "objects": lambda: sum({id(t): t.untyped_storage().nbytes() for t in saved}.values()),
        "views": lambda: sum({t.untyped_storage().data_ptr(): t.numel() * t.element_size() for t in saved}.values()),
        "own, by address": lambda: sum({t.data_ptr(): t.numel() * t.element_size() for t in saved}.values()),
        "elements": lambda: sum(
            {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() // t.element_size() for t in saved}.values()
        ),
        "not the inputs": lambda: storages(
            [t for t in saved if all(t.untyped_storage().data_ptr() != i.untyped_storage().data_ptr() for i in inputs)]
        ),
        "four": lambda: 4 * ways["elements"](),
    }
    return ways[count]()


BYTES = "For {expression} the answer is {got} bytes where {want} are kept: "
TWICE_COUNTED = BYTES + "a storage that is saved twice, or through two views, is in memory only once."
SAVED = [
    *variants("counts-outputs", saved_bytes, BYTES + "that is the size of what f returned; what backward needs is "
              "another matter, and `saved_tensors_hooks` shows it.", KEEPS, {"count": "outputs"}),
    *variants("double-counts-storage", saved_bytes, TWICE_COUNTED, KEEPS, {"count": "every storage"},
              {"count": "addresses"}),
    *variants("double-counts-storage", saved_bytes, TWICE_COUNTED, KEEPS, {"count": "every save"}),
    *variants("counts-view-not-storage", saved_bytes, BYTES + "a saved view keeps its whole storage alive, however "
              "little it shows of it.", KEEPS, {"count": "views"}, {"count": "own, by address"}),
    *variants("counts-inputs", saved_bytes, BYTES + "the inputs hold {inputs}; not every operation needs them again, "
              "and some need their result instead.", KEEPS, {"count": "inputs"}),
    *variants("counts-elements", saved_bytes, BYTES + "these are elements, and each takes 4 bytes or 8.", KEEPS,
              {"count": "elements"}),
    *variants("leaves-out-inputs", saved_bytes, BYTES + "an input that is saved is kept as well.", KEEPS,
              {"count": "not the inputs"}),
    *variants("four-bytes-assumed", saved_bytes, BYTES + "an element takes 4 bytes only in float32.", KEEPS,
              {"count": "four"}),
    *variants("returns-tensor", saved_bytes, "The answer is a tensor, {got}, where a Python int is wanted.", KEEPS,
              {"count": "tensor"}),
]  # fmt: skip


def more_saved(draw: Draw) -> list[Case]:
    n = draw.size(3, 9)

    def drawn(expression: str, *inputs: Tensor) -> Case:
        return case(expression, expression=expression, inputs=list(inputs), followed=True)

    return [
        drawn("x @ w", draw.normal(n, 3), draw.normal(3, 2)),
        drawn("x.softmax(-1).log()", draw.normal(n, 4)),
        drawn("x * x.t()", draw.normal(n, n)),
        drawn("x * x", draw.normal(4 * n)[::2].detach()),
    ]


MISTAKES = {
    "derivative": DERIVATIVE,
    "gradient": GRADIENT,
    "linear_mse_gradients": LINEAR,
    "sgd_step": SGD,
    "numerical_gradient": NUMERICAL,
    "BinarizeSTE": STE,
    "LogSigmoid": LOG_SIGMOID,
    "td_loss": TD,
    "snapshot": SNAPSHOT,
    "hessian_vector_product": HVP,
    "per_sample_gradients": SAMPLES,
    "saved_bytes": SAVED,
}

MORE_CASES = {
    "derivative": more_derivative,
    "gradient": more_gradient,
    "linear_mse_gradients": more_linear,
    "sgd_step": more_sgd,
    "numerical_gradient": more_numerical,
    "BinarizeSTE": more_binarize,
    "LogSigmoid": more_log_sigmoid,
    "td_loss": more_td,
    "snapshot": more_snapshot,
    "hessian_vector_product": more_hvp,
    "per_sample_gradients": more_samples,
    "saved_bytes": more_saved,
}
