"""Lesson 07: hidden cases and known mistakes."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from autograde.hidden.common import CHANGED, LEFT, apart, on_the_cpu, writing_into
from autograde.mistakes import Mistake, slips
from torchcourse.exercise import Case, Draw, case
from torchcourse.exercises.precision import (
    BRAIN,
    HALF,
    SINGLE,
    _drawn_pattern,
    _spread,
    cases_amp,
    cases_master,
    cases_report,
)

VALUE = "In the case \"{case}\", `{what}` came out as {got} where {want} is wanted: "
MIXED = (
    "On the CPU all is right, on the second device the call raised {got}: something was made, or left, on the CPU "
    "while the rest lives elsewhere."
)


def one(name: str, program: Callable[..., Any], sentence: str, read: str, **options: Any) -> Mistake:
    """A mistake that is not tried together with others."""
    return apart([Mistake(name, program, sentence, read, options)])[0]


# --- float_fields ------------------------------------------------------------------------------------------------

BITS = "The bits of a number"
ENTRY = "In {dtype}, {number} is {right}, and the answer was {fields}: "


def widths_of(dtype: torch.dtype) -> tuple[int, int]:
    return {HALF: (5, 10), BRAIN: (8, 7), SINGLE: (8, 23)}[dtype]


def fields(
    x: float, dtype: torch.dtype, *, cut: bool = False, swapped: bool = False, unbiased: bool = False,
    leading: bool = False, signed: bool = False, zero_sign: bool = True, tensors: bool = False,
    fraction: bool = False, ignored: bool = False, normal: bool = False, order: str = "sem",
    masked: bool = True,
) -> Any:  # fmt: skip
    dtype = SINGLE if ignored else dtype
    e, m = widths_of({HALF: BRAIN, BRAIN: HALF}.get(dtype, dtype) if swapped else dtype)
    total = torch.finfo(dtype).bits
    rounded = torch.tensor(x, dtype=torch.float64).to(dtype)
    if cut and rounded.double().abs() > abs(x):
        rounded = torch.nextafter(rounded.float(), torch.zeros(())) if dtype == SINGLE else stepped_down(rounded)
    raw = int(rounded.view(torch.int32 if total == 32 else torch.int16).item())
    bits = raw if signed else raw & (2**total - 1)
    sign, exponent, mantissa = bits >> (total - 1), (bits >> m) & (2**e - 1), bits & (2**m - 1)
    exponent = exponent if masked else bits >> m
    if not zero_sign and x == 0:
        sign = 0
    if leading and exponent:
        mantissa |= 2**m
    if unbiased:
        exponent -= 2 ** (e - 1) - 1
    if normal and exponent == 0:
        mantissa = 0
    values: dict[str, Any] = {"s": sign, "e": exponent, "m": mantissa / 2**m if fraction else mantissa}
    made = tuple(values[each] for each in order)
    return tuple(torch.tensor(v) for v in made) if tensors else made


def stepped_down(rounded: Tensor) -> Tensor:
    """The next number of a 16-bit format towards zero."""
    return (rounded.view(torch.int16) - 1).view(rounded.dtype)


def fields_of_cut_float32(x: float, dtype: torch.dtype) -> tuple[int, int, int]:
    """Right but in bfloat16, which is taken for the upper half of float32's bits."""
    if dtype != BRAIN:
        return fields(x, dtype)  # type: ignore[no-any-return]
    bits = (int(torch.tensor(x, dtype=SINGLE).view(torch.int32).item()) & 0xFFFFFFFF) >> 16
    return bits >> 15, (bits >> 7) & 255, bits & 127


CUT = ENTRY + "the bits that do not fit were cut off. A conversion rounds to the nearest number, and of two that are " \
              "equally near to the even one."
FLOAT_FIELDS = [
    one("truncates-not-rounds", fields, CUT, BITS, cut=True),
    one("truncates-not-rounds", fields_of_cut_float32, CUT, BITS),
    one("wrong-width", fields, ENTRY + "that divides the bits in the wrong places. float16 has 5 bits of exponent and "
        "10 of mantissa, bfloat16 has 8 and 7.", BITS, swapped=True),
    one("dtype-ignored", fields, ENTRY + "these are the bits of the same number in float32.", BITS, ignored=True),
    one("exponent-unbiased", fields, ENTRY + "the bias was taken off the exponent; wanted is what is stored.", BITS,
        unbiased=True),
    one("leading-one-included", fields, ENTRY + "the leading 1 of the mantissa is not stored, so it is no part of the "
        "field.", BITS, leading=True),
    one("sign-extended", fields, ENTRY + "a negative integer shifted right fills up with ones, and a sign of one bit "
        "became -1.", BITS, signed=True),
    one("sign-left-in-the-exponent", fields, ENTRY + "shifting leaves the sign bit in front of the exponent; `&` with "
        "as many ones as the field has bits takes it away.", BITS, masked=False),
    one("sign-of-zero-lost", fields, ENTRY + "minus zero has its sign bit set, though it is not smaller than zero.",
        BITS, zero_sign=False),
    one("subnormals-lost", fields, ENTRY + "where the stored exponent is 0, the mantissa still counts: these are the "
        "subnormal numbers, which fill the gap below the smallest normal one.", BITS, normal=True),
    one("mantissa-as-fraction", fields, ENTRY + "the mantissa is wanted as the integer that its bits make.", BITS,
        fraction=True),
    one("fields-in-another-order", fields, ENTRY + "the order is sign, exponent, mantissa.", BITS, order="sme"),
    one("returns-tensors", fields, "`{what}` came out as {got} where {want} is wanted: an integer of Python, which "
        "`.item()` gives.", BITS, tensors=True),
]  # fmt: skip


def more_fields(draw: Draw) -> list[Case]:
    def drawn(low: int, high: int) -> float:
        return float(draw.uniform(1, 2, 1).item() * 2.0 ** draw.size(low, high) * draw.pick([1, -1]))

    return [
        case("drawn, float16", x=drawn(-14, 15), dtype=HALF),
        case("drawn and small, float16", x=drawn(-23, -15), dtype=HALF),
        case("drawn, bfloat16", x=drawn(-100, 100), dtype=BRAIN),
        case("drawn, float32", x=drawn(-100, 100) / 3, dtype=SINGLE),
        case("infinity, float32", x=math.inf, dtype=SINGLE),
        case("minus infinity, float16", x=-math.inf, dtype=HALF),
        case("the largest float16", x=65504.0, dtype=HALF),
        case("just below half way to too large", x=65519.0, dtype=HALF),
        case("half of the smallest float16", x=2.0**-25, dtype=HALF),
        case("zero", x=0.0, dtype=SINGLE),
        case("half way, to the even neighbour above", x=1 + 3 * 2.0**-8, dtype=BRAIN),
        case("too large for bfloat16", x=3.4e38, dtype=BRAIN),
    ]


# --- lost_updates ------------------------------------------------------------------------------------------------

UPDATES = "Updates that vanish"
PLACE = "In the case \"{case}\", a weight of {weight} gets an update of {step}, and the result says {got} where {want} "


def lost(
    w: Tensor, update: Tensor, dtype: torch.dtype, *, add: str = "in dtype", zeros: str = "before", flip: bool = False,
    whole: bool = False,
) -> Any:  # fmt: skip
    weight, step = w.to(dtype), update.to(dtype)
    same = {
        "in dtype": lambda: weight + step == weight,
        "in float32": lambda: w + update == w,
        "then cast": lambda: (w + update).to(dtype) == weight,
        "against float32": lambda: (weight + step).float() == w,
        "eps": lambda: update.abs() < torch.finfo(dtype).eps * w.abs(),
        "only zero": lambda: step == 0,
    }[add]()
    some = {"before": update != 0, "after": step != 0, "not asked": torch.ones_like(same)}[zeros]
    result = some & ~same if flip else some & same
    return result.any() if whole else result


def lost_with_a_cpu_mask(w: Tensor, update: Tensor, dtype: torch.dtype) -> Any:
    return lost(w, update, dtype) & torch.ones(w.shape, dtype=torch.bool)


def lost_in_place(w: Tensor, update: Tensor, dtype: torch.dtype) -> Any:
    result = lost(w, update, dtype)
    w.add_(update)
    return result


LOST = [
    *slips(
        lost, UPDATES,
        compares_in_float32=({"add": "in float32"}, PLACE + "is right: the sum was made in float32, where nearly "
                             "nothing is lost. The weights live in {dtype}."),
        counts_zero_updates=({"zeros": "not asked"}, PLACE + "is right: an update that is zero was counted as lost. "
                             "Where nothing is to be added, nothing can be lost."),
        answers_the_opposite=({"flip": True}, PLACE + "is right: True stands for an update that changes nothing."),
    ),
    one("misses-underflowed-updates", lost, PLACE + "is right: the update became zero when it was cast to {dtype}, and "
        "that is a way to be lost. Ask whether it is zero before casting.", UPDATES, zeros="after"),
    one("adds-in-float32", lost, PLACE + "is right: the sum was made in float32 and cast afterwards, so the part of "
        "the weight that {dtype} cannot hold helped the update.", UPDATES, add="then cast"),
    one("compares-with-the-uncast-weight", lost, PLACE + "is right: the sum was compared with the weight before it "
        "was cast to {dtype}, and so a mere rounding of the weight looks like a change.", UPDATES,
        add="against float32"),
    one("threshold-not-addition", lost, PLACE + "is right: `eps` times the weight is only a rough threshold; "
        "the sum itself rounds at half a step, and the step depends on the power of two below the weight.", UPDATES,
        add="eps"),
    one("underflow-only", lost, PLACE + "is right: an update need not be zero in {dtype} to be lost; beside a large "
        "weight it is rounded away.", UPDATES, add="only zero"),
    one("one-for-all", lost, "The result is of shape {got_shape} where {want_shape} is wanted: one answer for each "
        "weight.", UPDATES, whole=True),
    one("made-on-cpu", lost_with_a_cpu_mask, MIXED, UPDATES),
    one("made-on-cpu", on_the_cpu(lost), LEFT, UPDATES),
    one("changes-its-input", lost_in_place, CHANGED, UPDATES),
]  # fmt: skip


def more_lost(draw: Draw) -> list[Case]:
    n = draw.size(30, 60)
    return [
        case("many, bfloat16", w=draw.normal(n), update=_spread(draw, -14, 2, n), dtype=BRAIN),
        case("many, float16", w=draw.normal(n), update=_spread(draw, -30, 0, n), dtype=HALF),
        case("transposed", w=draw.normal(4, 3).t(), update=_spread(draw, -12, 0, 4, 3).t(), dtype=BRAIN),
        case("already in bfloat16", w=draw.normal(n, dtype=BRAIN), update=_spread(draw, -14, 2, n).bfloat16(),
             dtype=BRAIN),
        case("float64 to float32", w=draw.normal(n, dtype=torch.float64), update=_spread(draw, -34, 2, n).double(),
             dtype=SINGLE),
        case("nothing to update", w=torch.zeros(0), update=torch.zeros(0), dtype=HALF),
        case("all zero", w=draw.normal(5), update=torch.zeros(5), dtype=HALF),
    ]  # fmt: skip


# --- underflow_fraction ------------------------------------------------------------------------------------------

GONE = "Gradients that vanish"
SHARE = (
    "In the case \"{case}\" the result is {got} where {want} is wanted: {gone} of the {some} gradients that are not "
    "zero become zero in {dtype}; "
)


def underflow(
    grads: Any, dtype: torch.dtype, *, under: str = "some", counts: str = "gone", how: str = "whole",
    empty: float = 0.0, gives: str = "float",
) -> Any:  # fmt: skip
    tensors = [grads] if isinstance(grads, Tensor) else grads
    info = torch.finfo(dtype)
    gone, all_ = [], []
    for g in tensors:
        zero = {
            "gone": lambda g=g: (g != 0) & (g.to(dtype) == 0),
            "zero": lambda g=g: g.to(dtype) == 0,
            "tiny": lambda g=g: (g != 0) & (g.abs() < info.tiny),
            "eps": lambda g=g: (g != 0) & (g.abs() < info.eps),
        "smallest": lambda g=g: (g != 0) & (g.abs() < info.smallest_normal * info.eps),
            "negative too": lambda g=g: (g != 0) & (g < 2.0**-25),
        }[counts]()
        gone.append(zero.sum().item())
        all_.append(g.numel() if under == "all" else (g != 0).sum().item())
    if how == "first":
        gone, all_ = gone[:1], all_[:1]
    if how == "mean":
        shares = [a / b if b else 0.0 for a, b in zip(gone, all_, strict=True)]
        return sum(shares) / len(shares)
    total = sum(gone) / sum(all_) if sum(all_) else empty
    return {"float": total, "count": float(sum(gone)), "percent": 100 * total, "tensor": torch.tensor(total)}[gives]


UNDERFLOW = [
    *slips(
        underflow, GONE,
        counts_zeros=({"under": "all"}, SHARE + "the share was taken of all {all} of them. A gradient that was zero "
                      "before cannot vanish."),
        counts_subnormals=({"counts": "tiny"}, SHARE + "those below the smallest normal number were counted too, but "
                           "there are subnormal numbers below it, coarse as they are."),
    ),
    one("counts-zeros", underflow, SHARE + "those that were zero before were counted as well.", GONE, counts="zero"),
    one("counts-zeros", underflow, SHARE + "those that were zero before were counted as well.", GONE, counts="zero",
        under="all"),
    one("eps-is-not-the-smallest-number", underflow, SHARE + "`eps` is the step above 1, not the smallest number that "
        "there is.", GONE, counts="eps"),
    one("threshold-not-cast", underflow, SHARE + "those below the smallest number were counted, but a cast rounds to "
        "the nearest one: down to half of the smallest that is not yet zero.", GONE, counts="smallest"),
    one("sign-forgotten", underflow, SHARE + "negative gradients were taken for small ones: the size of a number is "
        "its absolute value.", GONE, counts="negative too"),
    one("mean-of-shares", underflow, SHARE + "the share of each of the {pieces} tensors counted the same, whatever its "
        "size.", GONE, how="mean"),
    one("first-tensor-only", underflow, SHARE + "only the first of the {pieces} tensors was looked at.", GONE,
        how="first"),
    one("nan-on-all-zero", underflow, "In the case \"{case}\" the result is {got} where {want} is wanted: there is no "
        "gradient to divide by.", GONE, empty=math.nan),
    one("returns-int", underflow, "In the case \"{case}\" what came back is {got} where {want} is wanted as a float.",
        GONE, empty=0),
    one("one-on-all-zero", underflow, "In the case \"{case}\" the result is {got} where {want} is wanted: nothing that "
        "was there is lost.", GONE, empty=1.0),
    one("count-not-share", underflow, SHARE + "that is a count, not a share.", GONE, gives="count"),
    one("percent-not-fraction", underflow, SHARE + "a fraction is wanted, from 0 to 1.", GONE, gives="percent"),
    one("returns-tensor", underflow, "What came back is {got} where {want} is wanted, a Python float.", GONE,
        gives="tensor"),
]  # fmt: skip


def more_underflow(draw: Draw) -> list[Case]:
    n = draw.size(60, 99)
    return [
        case("many", grads=_spread(draw, -44, -2, n, 3), dtype=HALF),
        case("bfloat16 gradients to float16", grads=_spread(draw, -44, -2, n).bfloat16(), dtype=HALF),
        case("a list of one", grads=[_spread(draw, -30, -20, 2, 2)], dtype=HALF),
        case("a list in which one is zero", grads=[torch.zeros(9), _spread(draw, -30, -20, 7)], dtype=HALF),
        case("transposed", grads=_spread(draw, -30, -20, 4, 6).t(), dtype=HALF),
        case("all of them vanish", grads=_spread(draw, -60, -30, 8), dtype=HALF),
        case("float32 keeps what float64 holds", grads=_spread(draw, -160, -130, n).double(), dtype=SINGLE),
    ]


# --- safe_mean ---------------------------------------------------------------------------------------------------

SUMS = "Sums that do not fit"


def mean(x: Tensor, *, way: str = "wide", back: bool = True) -> Any:
    n = x.numel()
    ways: dict[str, Callable[[], Any]] = {
        "wide": lambda: x.double().sum() / n,
        "half": lambda: x.sum() / n,
        "divided first": lambda: (x / n).sum(),
        "cut": lambda: (x.sum() / n).clamp(max=torch.finfo(x.dtype).max),
        "nan_to_num": lambda: x.sum().nan_to_num() / n,
        "last dimension": lambda: x.float().mean(-1),
        "first dimension": lambda: x.float().mean(0),
        "rows": lambda: x.float().sum() / len(x),
        "rows by shape": lambda: x.float().sum() / x.shape[0],
        "counted": lambda: x.float().sum() / torch.tensor(n, dtype=x.dtype, device=x.device),
        "median": lambda: x.float().median(),
        "number": lambda: x.double().mean().item(),
        "cast too early": lambda: x.float().sum().to(x.dtype) / n,
    }
    made = ways[way]()
    return made.to(x.dtype) if back and isinstance(made, Tensor) else made


def mean_by_adding_up(x: Tensor) -> Tensor:
    """In the dtype, number by number, as one writes it first; of long tensors only until the sum stands still."""
    total = torch.zeros((), dtype=x.dtype, device=x.device)
    for value in x.flatten()[:3000]:
        total = total + value
    return total / x.numel()


HALF_SUM = (
    "In the case \"{case}\" the mean came out as {got} where {want} is wanted: the sum of the {count} numbers is about "
    "{sum}, and was made in a format that ends at {limit}, or has too few digits for it. Add up in float32, and cast "
    "the mean."
)
ROWS = (
    "In the case \"{case}\" the mean came out as {got} where {want} is wanted: there are {count} elements, and the sum "
    "was divided by the number of rows, which `len(x)` and `x.shape[0]` give. `x.numel()` counts the elements."
)
SAFE_MEAN = [
    one("accumulates-in-half", mean, HALF_SUM, SUMS, way="half"),
    one("accumulates-in-half", mean, HALF_SUM, SUMS, way="cast too early"),
    one("accumulates-in-half", mean_by_adding_up, HALF_SUM, SUMS),
    one("returns-float32", lambda x: x.float().mean(), "The result is {got_dtype} where {want_dtype} is wanted: the "
        "mean fits into the dtype of x again, so it goes back to it.", SUMS),
    one("divides-first", mean, "In the case \"{case}\" the mean came out as {got} where {want} is wanted: each number "
        "was divided by {count} before adding, and the quotients are so small that the format loses their digits.",
        SUMS, way="divided first"),
    one("hides-the-overflow", mean, "In the case \"{case}\" the mean came out as {got} where {want} is wanted: the sum "
        "was inf already, and cutting it off at {limit} only makes it look like a number.", SUMS, way="nan_to_num"),
    one("hides-the-overflow", mean, "In the case \"{case}\" the mean came out as {got} where {want} is wanted: the sum "
        "was inf already, and cutting it off at {limit} only makes it look like a number.", SUMS, way="cut"),
    one("mean-over-one-dimension", mean, "The result is of shape {got_shape} where {want_shape} is wanted: the mean of "
        "all numbers.", SUMS, way="last dimension"),
    one("mean-over-one-dimension", mean, "The result is of shape {got_shape} where {want_shape} is wanted: the mean of "
        "all numbers.", SUMS, way="first dimension"),
    one("counts-in-half", mean, "In the case \"{case}\" the mean came out as {got} where {want} is wanted: the number "
        "of elements, {count}, was put into a format that ends at {limit}.", SUMS, way="counted"),
    one("divides-by-rows", mean, ROWS, SUMS, way="rows"),
    one("divides-by-rows", mean, ROWS, SUMS, way="rows by shape"),
    one("median-not-mean", mean, "In the case \"{case}\" the result is {got} where {want} is wanted: that is the "
        "median.", SUMS, way="median"),
    one("returns-python-number", mean, "What came back is no tensor. One that holds {want}, without dimensions, is "
        "wanted.", SUMS, way="number"),
    one("made-on-cpu", lambda x: torch.tensor(mean(x).item(), dtype=x.dtype), LEFT, SUMS),
    one("made-on-cpu", on_the_cpu(mean), LEFT, SUMS),
    one("changes-its-input", writing_into(0, mean), CHANGED, SUMS),
]  # fmt: skip


def more_mean(draw: Draw) -> list[Case]:
    n = draw.size(500, 900)
    near = {"rtol": 2e-3, "atol": 1e-7}
    return [
        case("many, large", **near, x=draw.uniform(2e4, 6.5e4, n, dtype=HALF)),
        case("many, tiny", **near, x=draw.uniform(1e-5, 2e-5, 9 * n, dtype=HALF)),
        case("negative, large", **near, x=-draw.uniform(2e4, 6e4, 7, 9, dtype=HALF)),
        case("transposed", **near, x=draw.uniform(1e3, 6e4, 8, 30, dtype=HALF).t()),
        case("without dimensions", **near, x=draw.uniform(1, 2, dtype=HALF)),
        case("many, bfloat16", rtol=1e-2, atol=1e-6, x=draw.uniform(100, 200, 3 * n, dtype=BRAIN)),
    ]


# --- autocast_report ---------------------------------------------------------------------------------------------

CASTS = "What autocast casts, and what it keeps"


def report(
    model: nn.Module, x: Tensor, dtype: torch.dtype, *, cast: str = "as asked", remove: str = "finally",
    which: str = "leaves", what: str = "output", says: str = "dtype", swallows: bool = False, casts_x: bool = False,
    late: bool = False,
) -> Any:  # fmt: skip
    found: dict[str, Any] = {}
    handles, last = [], ""

    def hook(name: str) -> Callable[..., None]:
        def note(module: nn.Module, inputs: Any, output: Any) -> None:
            weights = [p.dtype for p in module.parameters()]
            dtypes = {"output": output.dtype, "input": inputs[0].dtype, "weight": (weights or [output.dtype])[0]}
            found[last if late else name] = str(dtypes[what]) if says == "text" else dtypes[what]

        return note

    named: Iterable[tuple[str, nn.Module]] = model.named_children() if which == "children" else model.named_modules()
    for name, module in named:
        leaf, weights = not list(module.children()), list(module.parameters(recurse=False))
        if {"leaves": leaf, "leaves inside": leaf and name, "with weights": weights}.get(which, True):
            last = name
            key = type(module).__name__ if which == "classes" else name
            handles.append(module.register_forward_hook(hook(key)))
    casts: dict[str, Any] = {
        "as asked": lambda: torch.autocast(x.device.type, dtype=dtype),
        "none": contextlib.nullcontext,
        "default": lambda: torch.autocast(x.device.type, dtype=HALF if dtype == BRAIN else BRAIN),
        "cpu": lambda: torch.autocast("cpu", dtype=dtype),
        "as it comes": lambda: torch.autocast(x.device.type),
    }
    try:
        with torch.no_grad(), casts[cast]():
            model(x.to(dtype) if casts_x else x)
    except RuntimeError:
        if swallows:
            for handle in handles:
                handle.remove()
            return found
        if remove == "at the end":
            raise
        for handle in handles if remove == "finally" else []:
            handle.remove()
        raise
    if remove in ("finally", "at the end"):
        for handle in handles:
            handle.remove()
    if remove == "everything":
        for module in model.modules():
            module._forward_hooks.clear()
    return found


def report_of_a_model_cast(model: nn.Module, x: Tensor, dtype: torch.dtype) -> Any:
    return report(model.to(dtype), x.to(dtype), dtype, cast="none")


LAYER = "In the case \"{case}\", `{layer}` is reported as {layer_got} where {layer_want} is right: "
REPORT = [
    *slips(
        report, CASTS,
        leaves_hooks=({"remove": "never"}, "Of the hooks on the model, {got}; wanted: {want}. They would run in every "
                      "later call. `register_forward_hook` returns a handle, and `handle.remove()` takes it off."),
        not_under_autocast=({"cast": "none"}, LAYER + "the model ran without autocast, or with one for another kind "
                            "of device."),
    ),
    one("leaves-hooks", report, "Of the hooks on the model, {got}; wanted: {want}. The model raised, and the lines "
        "that remove the hooks were never reached: put them under `finally`.", CASTS, remove="at the end"),
    one("removes-foreign-hooks", report, "Of the hooks on the model, {got}; wanted: {want}. A hook was there before "
        "the call, and it is not yours to remove: use the handles of your own.", CASTS, remove="everything"),
    one("includes-containers", report, LAYER + "it is no leaf: it only holds other modules.", CASTS, which="all"),
    one("top-level-only", report, LAYER + "only the outermost modules were looked at; `named_modules()` goes all the "
        "way down.", CASTS, which="children"),
    one("leaves-out-the-model-itself", report, LAYER + "a model without submodules is a leaf as well, and its name is "
        "empty.", CASTS, which="leaves inside"),
    one("only-layers-with-weights", report, LAYER + "a leaf is a module without submodules, also one without weights.",
        CASTS, which="with weights"),
    one("all-under-the-last-name", report, LAYER + "a hook that looks up a variable of the loop does so when it runs, "
        "and finds the last name. Bind it when the hook is made.", CASTS, late=True),
    one("named-by-class", report, LAYER + "two layers of one class cannot share a name; `named_modules()` has one for "
        "each.", CASTS, which="classes"),
    one("input-not-output", report, LAYER + "that is the dtype of what goes in.", CASTS, what="input"),
    one("weight-not-output", report, LAYER + "that is the dtype of its weights. Under autocast they stay float32; what "
        "is cast is a copy, for the operation.", CASTS, what="weight"),
    one("casts-the-model", report_of_a_model_cast, LAYER + "the model itself was cast, weights and all, which is not "
        "what autocast does: it decides for each operation.", CASTS),
    one("casts-the-input", report, LAYER + "x was cast before it went in. Under autocast each operation casts for "
        "itself, and a layer that does not compute hands on what it got.", CASTS, casts_x=True),
    one("dtype-ignored", report, LAYER + "autocast was asked for another dtype than {dtype}.", CASTS, cast="default"),
    one("dtype-ignored", report, LAYER + "autocast was left to choose a dtype of its own, and {dtype} was asked for.",
        CASTS, cast="as it comes"),
    one("swallows-the-error", report, "In the case \"{case}\", `{what}` came out as {got} where {want} is wanted: what "
        "the model raises is for the caller to see.", CASTS, swallows=True),
    one("text-not-dtype", report, LAYER + "a text, where a torch.dtype is wanted.", CASTS, says="text"),
    one("autocast-of-another-device", report, "On the second device, `{layer}` is reported as {layer_got} where "
        "{layer_want} is right: autocast was switched on for the CPU, and every device has its own.", CASTS,
        cast="cpu"),
]  # fmt: skip


def more_report(draw: Draw) -> list[Case]:
    x, width = draw.normal(3, 6), 6
    same = [c for c in cases_report(draw) if c.inputs["model"] in ("nested", "statistics")]
    return [
        case("a convolution and batch norm", model="convolutional", width=width, x=x, dtype=BRAIN, hooked=False),
        case("hooked, modules inside modules", model="nested", width=width, x=x, dtype=BRAIN, hooked=True),
        *(case(f"again: {c.name}", **{**c.inputs, "dtype": HALF}) for c in same[-1:]),
    ]


# --- autocast_dtype ----------------------------------------------------------------------------------------------

WHICH = "Which dtype on which device"
CHIP = "For {device}, with compute capability {chip}, the answer was {got} where {want} is wanted: "


def choose(
    device: torch.device, *, cpu: torch.dtype = BRAIN, gpu: str = "capability", text: bool = False
) -> Any:
    if device.type == "cpu":
        return "bfloat16" if text else cpu
    chip = torch.cuda.get_device_capability(device)
    native = {
        "capability": chip >= (8, 0),
        "emulation": torch.cuda.is_bf16_supported(),
        "current": torch.cuda.is_bf16_supported(including_emulation=False),
        "current capability": torch.cuda.get_device_capability() >= (8, 0),
        "first": torch.cuda.get_device_capability(0) >= (8, 0),
        "never": False,
        "above ampere": chip > (8, 0),
        "from hopper": chip[0] >= 9,
        "only ampere": chip[0] == 8,
        "minor": chip[1] >= 5,
        "from turing": chip >= (7, 5),
    }[gpu]
    return str(BRAIN if native else HALF) if text else (BRAIN if native else HALF)


def by_equality(device: torch.device) -> torch.dtype:
    return choose(device) if device == torch.device("cuda") else BRAIN


def as_torch_has_it(device: torch.device) -> torch.dtype:
    return torch.get_autocast_dtype(device.type)


AUTOCAST_DTYPE = [
    *slips(
        choose, WHICH,
        float16_on_cpu=({"cpu": HALF}, CHIP + "a CPU computes in float16 as it must, but slowly, and it would need "
                        "loss scaling."),
        trusts_emulation=({"gpu": "emulation"}, CHIP + "this chip has no bfloat16 of its own, it only emulates it, "
                          "and that gains no speed. `torch.cuda.is_bf16_supported()` says True all the same, unless "
                          "you ask with `including_emulation=False`."),
    ),
    one("asks-the-current-device", choose, CHIP + "that is right for the current device, and another one was asked "
        "about.", WHICH, gpu="current"),
    one("asks-the-current-device", choose, CHIP + "that is right for the first device, and another one was asked "
        "about.", WHICH, gpu="first"),
    one("misses-devices-with-an-index", by_equality, CHIP + "torch.device('cuda:0') is not equal to "
        "torch.device('cuda'). Compare `device.type`.", WHICH),
    one("never-bfloat16", as_torch_has_it, CHIP + "that is autocast's default for every GPU. From compute capability "
        "8.0 on bfloat16 is native, and needs no scaler.", WHICH),
    one("wrong-boundary", choose, CHIP + "bfloat16 is native from compute capability 8.0 on.", WHICH,
        gpu="above ampere"),
    one("wrong-boundary", choose, CHIP + "bfloat16 is native from compute capability 8.0 on.", WHICH,
        gpu="from hopper"),
    one("wrong-boundary", choose, CHIP + "bfloat16 is native from compute capability 8.0 on, and later chips have it "
        "too.", WHICH, gpu="only ampere"),
    one("wrong-boundary", choose, CHIP + "bfloat16 is native from compute capability 8.0 on.", WHICH,
        gpu="from turing"),
    one("returns-text", choose, CHIP + "a torch.dtype, not its name.", WHICH, text=True),
]  # fmt: skip


def more_autocast_dtype(draw: Draw) -> list[Case]:
    chips = [[7, 0], [7, 2], [8, 7], [9, 0], [10, 0], [12, 1], [5, 2], [8, 0]]
    return [
        case("drawn", device="cuda", chips=[draw.pick(chips)]),
        case("one of three", device=f"cuda:{draw.size(0, 2)}", chips=[draw.pick(chips) for _ in range(3)]),
        case("compute capability 7.0", device="cuda", chips=[[7, 0]]),
        case("compute capability 10.3", device="cuda:0", chips=[[10, 3]]),
    ]


# --- best_loss_scale ---------------------------------------------------------------------------------------------

SCALING = "Loss scaling from first principles"
PRODUCT = "In the case \"{case}\" the result is {scale} where {right_scale} is wanted: "


def best_scale(
    grads: Any, dtype: torch.dtype = HALF, *, power: str = "floor", largest: str = "max", zero: float | None = 1.0,
    limit: str = "max", gives: str = "float", less: bool = True, cap: float = math.inf,
) -> Any:  # fmt: skip
    tensors = [grads] if isinstance(grads, Tensor) else grads
    tops = [{"max": g.abs().max(), "signed": g.max().clamp(min=1e-30), "as it is": g.max(), "nan": g.max(),
             "mean": g.abs().mean(), "norm": g.norm(),
             "min": g[g != 0].abs().min() if g.any() else g.abs().max()}[largest].item() for g in tensors]  # fmt: skip
    top = min(tops) if largest == "min" else tops[0] if gives == "first" else max(tops)
    if top == 0 or (largest == "signed" and top <= 1e-29):
        return zero if top == 0 or zero != 1.0 else 1.0
    bound = {"max": torch.finfo(dtype).max, "half": 65504.0, "one": 1.0, "root": math.sqrt(torch.finfo(dtype).max)}
    if largest == "nan" and top < 0:
        return math.nan
    exact = math.log2(bound[limit]) - math.log2(top)
    whole = {"floor": math.floor(exact), "ceil": math.ceil(exact), "round": round(exact), "exact": exact,
             "less": math.floor(exact) - 1, "more": math.floor(exact) + 1}[power]  # fmt: skip
    scale = min(2.0**whole, cap)
    scale = scale if less else max(scale, 1.0)
    return {"float": scale, "first": scale, "tensor": torch.tensor(scale), "exponent": float(whole),
            "int": int(scale) if scale >= 1 else scale}[gives]


def doubled_from_one(grads: Any, dtype: torch.dtype = HALF) -> float:
    tensors = [grads] if isinstance(grads, Tensor) else grads
    top = max(g.abs().max().item() for g in tensors)
    scale = 1.0
    while top and math.isfinite(torch.tensor(top * scale, dtype=torch.float64).to(dtype).item()):
        scale *= 2
    return scale / 2 if top else 1.0


TOO_LARGE = PRODUCT + (
    "the largest gradient, {largest}, becomes {product}, and {format} ends at {limit}. One overflow is enough to lose "
    "the step."
)
TOO_SMALL = PRODUCT + (
    "the largest gradient, {largest}, becomes {product}, and could be {right_product} without overflow: {format} goes "
    "up to {limit}."
)
SCALE = [
    *slips(
        best_scale, SCALING,
        not_power_of_two=({"power": "exact"}, PRODUCT + "a scale that is a power of two changes only the exponents, "
                          "and so the gradients come back exactly; this one rounds them."),
        negative_ignored=({"largest": "signed"}, PRODUCT + "the size of a gradient is its absolute value, and the "
                          "largest one is {largest}."),
        capped=({"cap": 2.0**16}, PRODUCT + "it was cut off at the value that GradScaler starts with. The scale "
                "follows from the gradients, here with a largest of {largest}."),
        never_below_one=({"less": False}, PRODUCT + "the largest gradient, {largest}, is above {limit} as it is, and "
                         "a power of two below one brings it into the range."),
    ),
    *(one("negative-ignored", best_scale, PRODUCT + "the size of a gradient is its absolute value, and the largest one "
          "is {largest}. Where all are negative there is no logarithm.", SCALING, largest=way)
      for way in ("as it is", "nan")),
    one("too-large-below-one", doubled_from_one, PRODUCT + "the largest gradient, {largest}, is above {limit} as it "
        "is, and becomes {product}. Below 1, a search that begins at 1 and doubles ends too early, and `int` rounds "
        "the exponent up, where `math.floor` rounds it down.", SCALING),
    one("capped", best_scale, PRODUCT + "the search began there and went down, and the largest gradient, {largest}, "
        "allows more.", SCALING, cap=2.0**24),
    one("overflows", best_scale, TOO_LARGE, SCALING, power="ceil"),
    one("overflows", best_scale, TOO_LARGE, SCALING, power="round"),
    one("overflows", best_scale, TOO_LARGE, SCALING, power="more"),
    one("overflows", best_scale, PRODUCT + "the mean of the gradients was brought up to the end of the range, but the "
        "largest one, {largest}, becomes {product} then.", SCALING, largest="mean"),
    one("overflows", best_scale, PRODUCT + "the smallest gradient was brought up to the end of the range, but the "
        "largest one, {largest}, becomes {product} then.", SCALING, largest="min"),
    one("too-small", best_scale, TOO_SMALL, SCALING, power="less"),
    one("too-small", best_scale, TOO_SMALL, SCALING, limit="one"),
    one("norm-not-maximum", best_scale, PRODUCT + "the norm of all gradients was held in the range, where only each "
        "single one has to fit; the largest is {largest}.", SCALING, largest="norm"),
    one("first-tensor-only", best_scale, PRODUCT + "the largest gradient, {largest}, is not in the first tensor.",
        SCALING, gives="first"),
    one("float16-always", best_scale, PRODUCT + "65504 is the end of float16; {format} ends at {limit}.", SCALING,
        limit="half"),
    one("infinite-on-zeros", best_scale, "In the case \"{case}\" the result is {got} where {want} is wanted: nothing "
        "has to be scaled.", SCALING, zero=math.inf),
    one("zero-on-zeros", best_scale, "In the case \"{case}\" the result is {got} where {want} is wanted: a scale of 0 "
        "would wipe out everything that comes later.", SCALING, zero=0.0),
    one("exponent-not-scale", best_scale, PRODUCT + "that is the exponent; the scale is two to the power of it.",
        SCALING, gives="exponent"),
    one("returns-tensor", best_scale, "What came back is {got} where {want} is wanted, a Python float.", SCALING,
        gives="tensor"),
    one("returns-int", best_scale, "What came back is {got} where {want} is wanted as a float: `2**power` is an int "
        "where the power is not negative, `2.0**power` never is.", SCALING, gives="int"),
]  # fmt: skip


def more_scale(draw: Draw) -> list[Case]:
    n = draw.size(10, 30)
    tiny = 10.0 ** draw.uniform(-12, -6, n)
    return [
        case("tiny", grads=tiny, dtype=HALF),
        case("of both signs", grads=draw.normal(n) * 1e-3, dtype=HALF),
        case("one number", grads=draw.uniform(1e-5, 1e-3), dtype=HALF),
        case("transposed", grads=1e-2 * draw.normal(4, 6).t(), dtype=HALF),
        case("a list with zeros", grads=[torch.zeros(3), 1e-3 * draw.normal(2, 2)], dtype=HALF),
        case("bfloat16, large", grads=1e20 * draw.uniform(1, 9, n), dtype=BRAIN),
        case("float32", grads=draw.uniform(1, 900, n), dtype=SINGLE),
        case("one below", grads=torch.tensor([65504 * 2.0**-3, 1e-3]), dtype=HALF),
    ]


# --- LossScaler --------------------------------------------------------------------------------------------------

DYNAMIC = "A scale that finds itself"


def scaler_with(
    *, skip: str = "step", grow: str = "interval", back: str = "backoff", unscale: str = "before", reset: str = "both",
    finds: str = "all", tells: str = "bool", memory: str = "or", off: int = 0, none: bool = True,
    least: float = 0.0, most: float = math.inf, groups: str = "all",
) -> type:  # fmt: skip
    """A scaler with options of the above; as a class, since that is what answers are."""

    class LossScaler:
        def __init__(
            self, scale: float = 2.0**16, growth: float = 2.0, backoff: float = 0.5, interval: int = 2000
        ) -> None:
            self.now, self.growth, self.backoff, self.interval = scale, growth, backoff, interval
            self.good, self.bad = 0, False

        def scale(self, loss: Tensor) -> Tensor:
            return loss * self.now

        def finite(self, grads: list[Tensor]) -> bool:
            if finds == "inf only":
                return not any(bool(g.isinf().any()) for g in grads)
            if finds == "nan only":
                return not any(bool(g.isnan().any()) for g in grads)
            if finds == "plus inf":
                return not any(bool((g.isnan() | (g == math.inf)).any()) for g in grads)
            if finds == "never":
                return True
            if finds == "in the last":
                return bool(grads[-1].isfinite().all())
            return all(bool(g.isfinite().all()) for g in grads)

        def step(self, optimizer: torch.optim.Optimizer) -> Any:
            known = optimizer.param_groups[:1] if groups == "first" else optimizer.param_groups
            grads = [p.grad for g in known for p in g["params"] if not none or p.grad is not None]
            if unscale == "before":
                for g in grads:
                    g.div_(self.now)
            fine = self.finite(grads)
            if skip == "step" and not fine:
                pass
            elif skip == "zeroed" and not fine:
                for g in grads:
                    g.zero_()
                optimizer.step()
            elif skip == "filtered" and not fine:
                for g in grads:
                    g.nan_to_num_(0.0, 0.0, 0.0)
                optimizer.step()
            else:
                optimizer.step()
            if unscale == "after":
                for g in grads:
                    g.div_(self.now)
            self.bad = not fine if memory == "last" else self.bad or not fine
            return {"bool": fine, "skipped": not fine, "nothing": None}[tells]

        def update(self) -> None:
            if self.bad:
                self.now *= {"backoff": self.backoff, "never": 1.0, "growth": 1 / self.growth}[back]
                self.good = 0 if reset in ("both", "overflow") else self.good
            else:
                self.good += 1
                if grow == "always" or (grow != "never" and self.good >= self.interval + off):
                    self.now = self.now + self.growth if grow == "adds" else self.now * self.growth
                    self.good = 0 if reset in ("both", "growth") else self.good
            self.now = min(max(self.now, least), most)
            self.bad = False if memory != "stuck" else self.bad

    return LossScaler


def scaler(name: str, sentence: str, **options: Any) -> Mistake:
    return Mistake(name, scaler_with(**options), sentence, DYNAMIC)


SCALES = (
    "After update {update} of the pattern \"{pattern}\" the scale is {scale_got} where GradScaler has {scale_want}: "
)
STEPS_ON = (
    "In the pattern \"{pattern}\" the optimizer made {steps} steps where {right_steps} are right: one of the gradients "
    "was inf or NaN, and a step along it, or along zeros, moves the weights. Such a step is left out altogether."
)
LOSS_SCALER = [
    scaler("steps-on-overflow", STEPS_ON, skip="never"),
    scaler("steps-on-overflow", STEPS_ON, skip="zeroed"),
    scaler("steps-on-overflow", STEPS_ON, skip="filtered"),
    scaler("never-grows", SCALES + "it grows after {interval} updates in a row without overflow.", grow="never"),
    scaler("never-unscales", VALUE + "the optimizer got gradients that still carried the scale, and made steps as many "
           "times too large.", unscale="never"),
    scaler("never-unscales", VALUE + "the optimizer got gradients that still carried the scale; they were divided "
           "only after it had stepped.", unscale="after"),
    scaler("never-backs-off", SCALES + "after an overflow it has to go down, or the next gradient overflows as well.",
           back="never"),
    scaler("grows-every-update", SCALES + "it grows only after {interval} good updates in a row.", grow="always"),
    scaler("counts-through-overflows", SCALES + "an overflow begins the count of good updates anew.", reset="growth"),
    scaler("grows-on-and-on", SCALES + "after it has grown, the count begins anew as well.", reset="overflow"),
    scaler("off-by-one", SCALES + "it grows at the update that makes {interval} in a row, not at the one after.",
           off=1),
    scaler("adds-not-multiplies", SCALES + "growing means multiplying by the factor `growth`.", grow="adds"),
    scaler("misses-nan", "In the pattern \"{pattern}\" the optimizer made {steps} steps where {right_steps} are right: "
           "a NaN is no finite number either, and `isinf` does not see it.", finds="inf only"),
    scaler("misses-inf", "In the pattern \"{pattern}\" the optimizer made {steps} steps where {right_steps} are right: "
           "`isnan` does not see inf; `isfinite` sees both.", finds="nan only"),
    scaler("looks-at-the-last-gradient", "In the pattern \"{pattern}\" the optimizer made {steps} steps where "
           "{right_steps} are right: only the last gradient decided, and one that is inf or NaN is enough to spoil the "
           "step.", finds="in the last"),
    scaler("first-group-only", VALUE + "an optimizer may have several groups of parameters, and only the gradients of "
           "the first were looked at.", groups="first"),
    scaler("never-looks", "In the pattern \"{pattern}\" the optimizer made {steps} steps where {right_steps} are "
           "right: gradients were taken for finite that are not, and one entry is enough.", finds="never"),
    scaler("forgets-an-earlier-overflow", SCALES + "two optimizers stepped before the update, and only the last of "
           "them was remembered.", memory="last"),
    scaler("never-forgets-an-overflow", SCALES + "`update` has to forget the overflow, or every later update looks "
           "like one.", memory="stuck"),
    scaler("says-skipped", "`{what}` came out as {got} where {want} is wanted: True stands for a step that was made.",
           tells="skipped"),
    scaler("says-nothing", "`{what}` came out as {got} where {want} is wanted: True for a step, False for one that was "
           "left out.", tells="nothing"),
    scaler("fails-on-none", "In the case \"{case}\" the call raised {got}: a parameter that took no part has no "
           "gradient, and is passed over.", none=False),
    scaler("stops-at-one", SCALES + "it may fall below 1, where gradients are too large as they are.", least=1.0),
    scaler("capped", SCALES + "there is no upper limit but the next overflow.", most=2.0**16),
    scaler("capped", SCALES + "there is no upper limit but the next overflow.", most=2.0**24),
    scaler("backs-off-by-growth", SCALES + "after an overflow it is multiplied by `backoff`.", back="growth"),
]  # fmt: skip


def more_scaler(draw: Draw) -> list[Case]:
    def replay(length: int, share: float, learners: int = 1, **options: float) -> dict[str, Any]:
        patterns = [_drawn_pattern(draw, length, share) for _ in range(learners)]
        pattern = [",".join(each) for each in zip(*patterns, strict=True)]
        return {"options": options, "pattern": pattern, "gradients": [draw.normal(2) for _ in range(learners)],
                "idle": learners == 2}  # fmt: skip

    return [
        case("drawn, few overflows", **replay(12, 0.15, scale=2.0**10, interval=3)),
        case("drawn, many overflows", **replay(8, 0.6, interval=1)),
        case("drawn, two optimizers", **replay(4, 0.25, 2, scale=2.0**8, interval=2)),
        case("drawn, three optimizers", **replay(3, 0.2, 3, scale=2.0**8, interval=2, growth=4.0)),
        case("drawn, other factors", **replay(7, 0.3, scale=3.0, growth=1.5, backoff=0.1, interval=2)),
    ]


# --- amp_step ----------------------------------------------------------------------------------------------------

PROTOCOL = "The protocol, in order"


def amp(
    model: Any, batch: Any, loss_fn: Any, optimizer: Any, scaler: Any, *, device: Any, dtype: torch.dtype,
    max_norm: float | None = None, cast: str = "both", scaled: bool = True, clip: str = "unscaled", zero: str = "first",
    step: str = "scaler", update: str = "after", gives: str = "loss",
) -> Any:  # fmt: skip
    x, y = batch
    if zero == "first":
        optimizer.zero_grad()
    asked = torch.autocast(device.type, dtype=dtype)
    other = torch.autocast(device.type, dtype=BRAIN if dtype == HALF else HALF)
    on: Any = {"none": contextlib.nullcontext(), "other": other, "as it comes": torch.autocast(device.type),
               "bfloat16": torch.autocast(device.type, dtype=BRAIN)}.get(cast, asked)  # fmt: skip
    with on:
        out = model(x)
    with contextlib.nullcontext() if cast == "forward" else on:
        loss = loss_fn(out, y)
    big = scaler.scale(loss) if scaled else loss
    big.backward()
    if max_norm is not None and clip != "never":
        if clip in ("unscaled", "each", "values"):
            scaler.unscale_(optimizer)
        if clip == "each":
            for p in model.parameters():
                nn.utils.clip_grad_norm_(p, max_norm)
        elif clip == "values":
            nn.utils.clip_grad_value_(model.parameters(), max_norm)
        else:
            nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        if clip == "then unscaled":
            scaler.unscale_(optimizer)
    if update == "before":
        scaler.update()
    if step == "scaler":
        scaler.step(optimizer)
    elif step == "unscaled":
        if max_norm is None:
            scaler.unscale_(optimizer)
        optimizer.step()
    else:
        optimizer.step()
    if update == "after":
        scaler.update()
    if zero == "last":
        optimizer.zero_grad()
    made = {"loss": loss.item, "scaled": big.item, "tensor": loss.detach, "nothing": lambda: None}
    return made[gives]()


CAST = "`{what}` was {got} and should be {want}: "
ORDER = "The order was \"{got}\" where \"{want}\" is wanted: "
CLIP_EARLY = (
    "In the case \"{case}\" the order was \"{got}\" where \"{want}\" is wanted: before `scaler.unscale_` the "
    "gradients carry the scale. Clipped then, they are cut down to max_norm = {max_norm} and divided by the scale "
    "afterwards, also if you have divided them by hand."
)
AMP = [
    one("clips-before-unscale", amp, CLIP_EARLY, PROTOCOL, clip="scaled"),
    one("clips-before-unscale", amp, CLIP_EARLY, PROTOCOL, clip="then unscaled"),
    one("no-autocast", amp, CAST + "without `torch.autocast` around them, forward and loss run in float32 and nothing "
        "is gained.", PROTOCOL, cast="none"),
    one("loss-outside-autocast", amp, CAST + "the loss belongs inside as well. Autocast takes care that it is computed "
        "in float32; outside, half-precision logits go into it as they are.", PROTOCOL, cast="forward"),
    one("dtype-ignored", amp, CAST + "the dtype is the caller's choice.", PROTOCOL, cast="other"),
    one("dtype-ignored", amp, CAST + "the dtype is the caller's choice.", PROTOCOL, cast="as it comes"),
    one("dtype-ignored", amp, CAST + "the dtype is the caller's choice.", PROTOCOL, cast="bfloat16"),
    one("no-scaler-update", amp, ORDER + "without `update` the scale neither grows nor backs off, and the next call of "
        "`step` is refused.", PROTOCOL, update="never"),
    one("updates-before-step", amp, ORDER + "`update` closes the round, and changes the scale; it comes last.",
        PROTOCOL, update="before"),
    one("missing-zero-grad", amp, VALUE + "gradients of an earlier step were still there, and `backward` added the "
        "new ones to them.", PROTOCOL, zero="never"),
    one("missing-zero-grad", amp, VALUE + "the gradients were cleared only after the step, so those that were there "
        "before the call still counted.", PROTOCOL, zero="last"),
    one("never-scales", amp, ORDER + "`backward` was called on the loss itself, so small gradients vanish in the "
        "16-bit parts of the network, and the step divides by a scale that was never there.", PROTOCOL, scaled=False),
    one("steps-past-the-scaler", amp, ORDER + "`optimizer.step()` was called directly, on gradients that still carry "
        "the scale, and whatever they hold.", PROTOCOL, step="optimizer"),
    one("steps-past-the-scaler", amp, ORDER + "`optimizer.step()` was called directly. After an overflow it fills the "
        "weights with NaN; `scaler.step` leaves such a step out.", PROTOCOL, step="unscaled"),
    one("never-clips", amp, ORDER + "max_norm was given, and the gradients were not clipped.", PROTOCOL, clip="never"),
    one("clips-each-tensor", amp, VALUE + "the gradient of each parameter was clipped by itself, and max_norm = "
        "{max_norm} is meant for the norm of all of them together.", PROTOCOL, clip="each"),
    one("clips-values", amp, VALUE + "each entry was cut off at max_norm = {max_norm}, which is meant for the norm of "
        "all gradients together.", PROTOCOL, clip="values"),
    one("returns-scaled-loss", amp, VALUE + "that is the loss times the scale.", PROTOCOL, gives="scaled"),
    one("returns-tensor", amp, "What came back is {got} where {want} is wanted, a Python float.", PROTOCOL,
        gives="tensor"),
    one("returns-nothing", amp, "What came back is {got} where {want} is wanted, the loss as a Python float.",
        PROTOCOL, gives="nothing"),
]  # fmt: skip


def more_amp(draw: Draw) -> list[Case]:
    near = {"rtol": 2e-2, "atol": 5e-3}
    again = {c.name: c.inputs for c in cases_amp(draw)}
    two = again["two steps in bfloat16"]
    return [
        case("clipped, with gradients left over", **near, **{**again["gradients that are clipped"], "stale": 64.0}),
        case("float16, two steps", **near, **{**two, "dtype": HALF}),
        case("gradients small enough, a scale of one", **near, **{**two, "scale": 1.0, "max_norm": 900.0}),
    ]


# --- MasterSGD ---------------------------------------------------------------------------------------------------

MASTERS = "Master weights"


class SGD(torch.optim.Optimizer):
    """Options as class attributes, which the mistakes below set."""

    kept = "state"
    master_dtype = torch.float32
    remade = back = True
    groups, sign, rebinds, skips_none = True, 1, False, True

    def __init__(self, params: Any, lr: float) -> None:
        super().__init__(params, {"lr": lr})
        self.lr = lr
        self.own: dict[Any, Tensor] = {}

    def master(self, p: Tensor) -> Tensor:
        place = self.state[p] if self.kept == "state" else self.own
        key: Any = "master" if self.kept == "state" else p
        if key not in place or self.kept == "remade":
            place[key] = p.detach().clone().to(self.master_dtype)
        made: Tensor = place[key]
        return made

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None and self.skips_none:
                    continue
                master = self.master(p)
                master -= self.sign * (group["lr"] if self.groups else self.lr) * p.grad.to(master.dtype)
                if self.rebinds:
                    p.data = master.clone()
                elif self.back:
                    p.copy_(master)


class PlainSGD(torch.optim.Optimizer):
    """Updates the low-precision parameters themselves."""

    def __init__(self, params: Any, lr: float) -> None:
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.sub_(p.grad, alpha=group["lr"])


class RemadeSGD(torch.optim.Optimizer):
    """Makes the float32 copy anew from the rounded parameter at every step."""

    def __init__(self, params: Any, lr: float) -> None:
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self.state[p]["master"] = p.detach().float() - group["lr"] * p.grad.float()
                    p.copy_(self.state[p]["master"])


def sgd(**options: Any) -> type:
    return type("MasterSGD", (SGD,), options)


STALLS = (
    "In the case \"{case}\" the first parameter began at {start}, and after {steps} steps it is {ended} where {should} "
    "is wanted: "
)
COPIES = (
    "In the case \"{case}\" the optimizer's state holds {copies} where float32 is wanted: fewer digits lose the "
    "updates, and more only take up memory."
)
MASTER = [
    one("updates-low-precision", PlainSGD, STALLS + "each update was added to the low-precision number itself, and "
        "rounded away. It has to be added to a float32 copy.", MASTERS),
    one("master-not-in-state", sgd(kept="own"), "Float32 copies in the state: {got}; wanted: {want}. They are kept "
        "elsewhere, and a checkpoint of the optimizer would lose them: `self.state[p]` is the place.", MASTERS),
    one("master-not-float32", sgd(master_dtype=torch.float64), COPIES, MASTERS),
    one("master-not-float32", sgd(master_dtype=BRAIN), COPIES, MASTERS),
    one("master-remade-every-step", RemadeSGD, STALLS + "the float32 copy was made anew from the rounded parameter at "
        "every step, which forgets what had gathered in it.", MASTERS),
    one("never-copies-back", sgd(back=False), STALLS + "the float32 copy moved, and the parameter, with which the "
        "model computes, did not.", MASTERS),
    one("parameter-becomes-float32", sgd(rebinds=True), "The `dtype of the parameters` is {got} where {want} is "
        "wanted: they were bound to the float32 copy, and the saving is gone.", MASTERS),
    one("goes-uphill", sgd(sign=-1), STALLS + "the step went along the gradient, and the loss falls the other way.",
        MASTERS),
    one("one-lr-for-all", sgd(groups=False), STALLS + "the learning rate came from the constructor. Each group has its "
        "own in `group[\"lr\"]`, and a schedule changes it there.", MASTERS),
    one("fails-on-none", sgd(skips_none=False), "In the case \"{case}\" the call raised {got}: a parameter that took "
        "no part has no gradient, and is left alone.", MASTERS),
]  # fmt: skip


def more_master(draw: Draw) -> list[Case]:
    again = {c.name: c for c in cases_master(draw)}
    grouped, slow = again["two groups"], again["float16, many small steps"]
    mixed = {**slow.inputs, "values": [v.float() for v in slow.inputs["values"]],
             "gradients": [g.float() for g in slow.inputs["gradients"]]}  # fmt: skip
    return [
        case("two groups, lowered on the way", rtol=8e-3, atol=1e-3, **{**grouped.inputs, "slower_at": 5}),
        case("float32 as it is", rtol=1e-4, atol=1e-5, **mixed),
        case("more steps", rtol=8e-3, atol=1e-3, **{**again["bfloat16, many small steps"].inputs, "steps": 45}),
    ]


MISTAKES: dict[str, list[Mistake]] = {
    "float_fields": FLOAT_FIELDS,
    "lost_updates": LOST,
    "underflow_fraction": UNDERFLOW,
    "safe_mean": SAFE_MEAN,
    "autocast_report": REPORT,
    "autocast_dtype": AUTOCAST_DTYPE,
    "best_loss_scale": SCALE,
    "LossScaler": LOSS_SCALER,
    "amp_step": AMP,
    "MasterSGD": MASTER,
}

MORE_CASES = {
    "float_fields": more_fields,
    "lost_updates": more_lost,
    "underflow_fraction": more_underflow,
    "safe_mean": more_mean,
    "autocast_report": more_report,
    "autocast_dtype": more_autocast_dtype,
    "best_loss_scale": more_scale,
    "LossScaler": more_scaler,
    "amp_step": more_amp,
    "MasterSGD": more_master,
}
