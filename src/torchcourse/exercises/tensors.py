"""Lesson 01: probes, visible cases and hints. What is right is not written here."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from torchcourse.exercise import Case, Draw, Exercise, case
from torchcourse.exercises.looking import cost, growth, kept, kind, look, of_one_tensor, refusal
from torchcourse.observations import Observations, Raised
from torchcourse.probing import Watched
from torchcourse.simulated import shares_memory

# --- describe ----------------------------------------------------------------------------------------------------


def probe_describe(answer: Watched, t: Tensor) -> dict[str, Any]:
    facts = answer(t)
    if not isinstance(facts, dict):
        return {"returned": kind(facts)}
    if facts.get("device") == str(t.device):
        facts = {**facts, "device": "str(t.device)"}
    return facts


def cases_describe(draw: Draw) -> list[Case]:
    rows, columns = draw.size(2, 4), draw.size(5, 7)
    table = draw.normal(rows, columns)
    return [
        case("a matrix", t=table),
        case("its transpose", t=table.t()),
        case("two columns of a matrix", t=table[:, 1:3]),
        case("float64, three dimensions", t=draw.normal(2, 3, rows, dtype=torch.float64)),
        case("one number", t=draw.integers(0, 9)),
        case("bfloat16, no elements", t=torch.empty(0, columns, dtype=torch.bfloat16)),
        case("one row, expanded", t=draw.flags(1, columns).expand(rows, columns)),
    ]


def quotes_describe(inputs: Observations, _seen: Observations, _wanted: Observations) -> dict[str, object]:
    t = inputs["t"]
    return {"shape": tuple(t.shape), "item": t.element_size(), "dtype": t.dtype, "stride": t.stride()}


describe = Exercise(
    "describe",
    probe_describe,
    cases_describe,
    hints=(
        "Each of the seven has an attribute or a method of its own on the tensor. "
        "Which of them are methods that need parentheses?",
        "What does `len(t)` count when t has two dimensions, and what when it has none?",
        "A view of two columns keeps a whole matrix alive in its storage. How many bytes do its own elements take? "
        "Look for a method that gives the size of one element.",
    ),
    quotes=quotes_describe,
)

# --- image_to_chw ------------------------------------------------------------------------------------------------


def probe_image(answer: Watched, image: Tensor) -> dict[str, Any]:
    before = image.clone()
    result = answer(image)
    contiguous = result.is_contiguous() if isinstance(result, Tensor) else "no tensor"
    return {**look(result, image), "contiguous": contiguous, **kept(image=(image, before))}


def cases_image(draw: Draw) -> list[Case]:
    height, width = draw.size(3, 5), draw.size(6, 8)

    def pixels(*shape: int) -> Tensor:
        return draw.integers(0, 256, *shape, dtype=torch.uint8)

    return [
        case("one image", image=pixels(height, width, 3)),
        case("a batch", image=pixels(2, height, width, 3)),
        case("a batch of one", image=pixels(1, height, width, 3)),
        case("one channel", image=pixels(height, width, 1)),
        case("a square image", image=pixels(height, height, 3)),
        case("every second pixel", image=pixels(2 * height, 2 * width, 3)[::2, ::2]),
    ]


image_to_chw = Exercise(
    "image_to_chw",
    probe_image,
    cases_image,
    hints=(
        "Reordering dimensions and regrouping elements are two operations. Which of the two moves the channels "
        "without mixing pixels?",
        "Counted from the end, the channels sit at the same place with and without a batch. Which function moves one "
        "dimension to a place, counted from the end?",
        "After the channels moved, in which order do the elements lie in memory? The result should lie in the order of "
        "its own shape, as float32, with 255 as 1.",
    ),
)

# --- pairwise_distances ------------------------------------------------------------------------------------------


def probe_pairwise(answer: Watched, a: Tensor, b: Tensor) -> dict[str, Any]:
    before = a.clone(), b.clone()
    seen = {**look(answer(a, b), a), **kept(a=(a, before[0]), b=(b, before[1]))}
    return {**seen, "cost": [cost(answer, torch.cat([a[:2]] * n), torch.cat([b[:2]] * n)) for n in (2, 6)]}


def derive_pairwise(case: Case, seen: Observations) -> Observations:
    seen = growth(case, seen)
    result = seen.get("result")
    if isinstance(result, Tensor) and result.isnan().any():  # which entries round below zero depends on the machine
        seen["result"] = f"NaN in a tensor of shape {tuple(result.shape)}"
    return seen


def cases_pairwise(draw: Draw) -> list[Case]:
    n, m, d = draw.size(3, 4), draw.size(5, 6), draw.size(2, 4)
    points = draw.normal(24, 8)
    return [
        case("n and m differ", rtol=1e-3, atol=1e-3, a=draw.normal(n, d), b=draw.normal(m, d)),
        case("as many in a as in b", rtol=1e-3, atol=1e-3, a=draw.normal(n, d), b=draw.normal(n, d)),
        case("a against itself", rtol=1e-3, atol=0.01, a=points, b=points.clone()),
        case("one point each", rtol=1e-3, atol=1e-3, a=draw.normal(1, d), b=draw.normal(1, d)),
        case("float64", rtol=1e-3, atol=1e-3, a=draw.normal(n, d, dtype=torch.float64),
             b=3 * draw.normal(m, d, dtype=torch.float64)),
        case("far from the origin", rtol=1e-2, atol=1.0, a=100 + 10 * draw.normal(n, d),
             b=100 + 10 * draw.normal(m, d)),
    ]  # fmt: skip


pairwise_distances = Exercise(
    "pairwise_distances",
    probe_pairwise,
    cases_pairwise,
    hints=(
        "Which shapes must a and b have so that broadcasting pairs every row of a with every row of b?",
        "Put a dimension of size one into each: (n, 1, d) and (1, m, d). What shape has their difference, and over "
        "which of its dimensions is a distance taken?",
        "If you expand the square instead (a·a + b·b - 2 a·b), what can rounding do to the sum for two equal points, "
        "and what does a root make of it?",
    ),
    forbids=("cdist", "cdist_forward", "euclidean_dist"),
    derive=derive_pairwise,
)

# --- standardize -------------------------------------------------------------------------------------------------


def probe_standardize(answer: Watched, x: Tensor, dim: int | tuple[int, ...], eps: float | None) -> dict[str, Any]:
    before = x.clone()
    result = answer(x, dim) if eps is None else answer(x, dim, eps)
    return {**look(result, x), **kept(x=(x, before))}


def cases_standardize(draw: Draw) -> list[Case]:
    n, d = draw.size(3, 4), draw.size(5, 7)
    constant = draw.normal(n, d)
    constant[:, 1] = constant[0, 1]
    return [
        case("down the columns", x=3 + 2 * draw.normal(n, d), dim=0, eps=None),
        case("along the rows", x=3 + 2 * draw.normal(n, d), dim=1, eps=None),
        case("along the rows of a square", x=3 + 2 * draw.normal(d, d), dim=-1, eps=None),
        case("over batch, height and width", x=draw.normal(2, 3, n, d), dim=(0, 2, 3), eps=None),
        case("over the last two dimensions", x=draw.normal(2, n, d), dim=(-2, -1), eps=None),
        case("a large eps", x=draw.normal(n, d), dim=0, eps=draw.pick([0.5, 1.0, 2.0])),
        case("a constant column", atol=1e-3, x=constant, dim=0, eps=None),
        case("small values", x=1e-3 * draw.normal(n, d), dim=0, eps=None),
        case("float64", x=draw.normal(d, d, dtype=torch.float64), dim=1, eps=None),
    ]


def quotes_standardize(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    x, dim, result = inputs["x"], inputs["dim"], seen["result"]
    return {
        "mean": result.mean().item(),
        "var": result.var(dim=dim, correction=0).flatten()[0].item(),
        "wanted_var": wanted["result"].var(dim=dim, correction=0).flatten()[0].item(),
        "eps": 1e-5 if inputs["eps"] is None else inputs["eps"],
        "count": x.numel() // x.mean(dim=dim).numel(),
    }


standardize = Exercise(
    "standardize",
    probe_standardize,
    cases_standardize,
    hints=(
        "After `x.mean(dim)` the reduced dimension is gone. With which shape does the mean broadcast back against x, "
        "whatever `dim` is?",
        "`var` divides by n - 1 unless told otherwise. Which argument makes it divide by n?",
        "Where does eps stand in the formula: beside the variance under the root, or beside the root?",
    ),
    quotes=quotes_standardize,
)

# --- row_softmax -------------------------------------------------------------------------------------------------


def cases_softmax(draw: Draw) -> list[Case]:
    n, d = draw.size(3, 4), draw.size(5, 6)
    ordinary = {"rtol": 0.0, "atol": 1e-5}
    return [
        case("a matrix", **ordinary, x=draw.normal(n, d)),
        case("a square matrix", **ordinary, x=2 * draw.normal(n, n)),
        case("three dimensions", **ordinary, x=draw.normal(2, n, d)),
        case("one row", **ordinary, x=draw.normal(d)),
        case("a transposed matrix", **ordinary, x=draw.normal(d, n).t()),
        case("entries up to 10000", rtol=0.0, atol=1e-3, x=draw.uniform(-1e4, 1e4, d, d)),
        case("rows far apart", rtol=0.0, atol=1e-3, x=draw.normal(2, d) + torch.tensor([[-1e4], [1e4]])),
        case("float64", **ordinary, x=draw.normal(n, d, dtype=torch.float64)),
    ]


def quotes_softmax(inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    result = seen["result"]
    sums = result.reshape(-1, result.shape[-1]).double().sum(-1)
    row = int((sums - 1).abs().nan_to_num(nan=torch.inf).argmax())
    largest = float(inputs["x"].max())
    return {
        "row": row,
        "row_sum": sums[row].item(),
        "nans": int(result.isnan().sum()),
        "count": result.numel(),
        "largest": largest,
        "exp_largest": float(torch.tensor(largest, dtype=inputs["x"].dtype).exp()),
    }


row_softmax = Exercise(
    "row_softmax",
    of_one_tensor,
    cases_softmax,
    hints=(
        "For a tensor of any rank, how is the last dimension called, and what must stay so that the division "
        "broadcasts?",
        "What is `torch.tensor(100.).exp()` in float32, and what is inf / inf?",
        "Softmax does not change when the same number is taken from a whole row. Which number makes the largest "
        "exponent 0?",
    ),
    forbids=("softmax", "log_softmax", "safe_softmax", "scaled_dot_product_attention"),
    quotes=quotes_softmax,
)  # fmt: skip

# --- flatten_reporting -------------------------------------------------------------------------------------------


def probe_flatten(answer: Watched, t: Tensor) -> dict[str, Any]:
    before = t.clone()
    returned = answer(t)
    if not (isinstance(returned, tuple | list) and len(returned) == 2 and isinstance(returned[0], Tensor)):
        return {"returned": f"{kind(returned)}, where a pair of a tensor and a flag is wanted"}
    flat, copied = returned
    seen = {**look(flat.detach().clone(), t), "copied": copied, **kept(t=(t, before))}
    if flat.numel():
        flat.reshape(-1)[0] += 1  # a view writes into t, a copy does not
    return {**seen, "t after flat[0] += 1": t, "shares memory": shares_memory(flat, t)}


def cases_flatten(draw: Draw) -> list[Case]:
    n, d = draw.size(3, 4), draw.size(5, 6)
    return [
        case("a matrix", t=draw.normal(n, d)),
        case("a transposed matrix", t=draw.normal(n, d).t()),
        case("every second row", t=draw.normal(2 * n, d)[::2]),
        case("one column, kept as a matrix", t=draw.normal(n, d)[:, 1:2]),
        case("every second element", t=draw.normal(2 * d)[::2]),
        case("some whole rows", t=draw.normal(n, d)[1:]),
        case("three dimensions, the last two swapped", t=draw.normal(2, n, d).transpose(1, 2)),
    ]


def quotes_flatten(inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    return {
        "shape": tuple(inputs["t"].shape),
        "stride": inputs["t"].stride(),
        "copied": seen.get("copied"),
        "shares": "shares" if seen.get("shares memory") else "does not share",
    }


flatten_reporting = Exercise(
    "flatten_reporting",
    probe_flatten,
    cases_flatten,
    hints=(
        "Which of `view`, `reshape` and `flatten` refuses to copy, and how does it tell you?",
        "`is_contiguous()` is a sufficient condition for a flat view, not a necessary one. What of a single column, "
        "whose elements lie a whole row apart?",
        "Either try the view and catch the refusal, or flatten first and find out whether both tensors use the same "
        "storage.",
    ),
    quotes=quotes_flatten,
)  # fmt: skip

# --- sliding_windows ---------------------------------------------------------------------------------------------


def probe_windows(answer: Watched, x: Tensor, size: int, step: int | None, refused: str) -> dict[str, Any]:
    def call() -> object:
        return answer(x, size) if step is None else answer(x, size, step)

    if refused:
        got = size if refused == "size" else step
        return refusal(call, refused, [str(got)])
    before, result = x.clone(), call()
    seen = {**look(result.clone() if isinstance(result, Tensor) else result, x), **kept(x=(x, before))}
    x.mul_(-2)
    return {**seen, "windows after x *= -2": result}


def cases_windows(draw: Draw) -> list[Case]:
    n = draw.size(9, 12)
    matrix = draw.normal(n, 4)
    common: dict[str, Any] = {"refused": ""}
    return [
        case("step 1", **common, x=draw.normal(n), size=3, step=None),
        case("step 2, nothing left over", **common, x=draw.normal(11), size=3, step=2),
        case("step 3, some left over", **common, x=draw.normal(12), size=4, step=3),
        case("one window of all", **common, x=draw.normal(n), size=n, step=2),
        case("every second element of a longer tensor", **common, x=draw.normal(2 * n)[::2], size=3, step=2),
        case("a column of a matrix", **common, x=matrix[:, 2], size=2, step=1),
        case("the middle of a longer tensor", **common, x=draw.normal(20)[4:-5], size=4, step=2),
        case("windows of one", **common, x=draw.normal(n), size=1, step=4),
        case("size 0", x=draw.normal(n), size=0, step=1, refused="size"),
        case("size larger than n", x=draw.normal(n), size=n + 1, step=1, refused="size"),
        case("step 0", x=draw.normal(n), size=3, step=0, refused="step"),
        case("a negative step", x=draw.normal(n), size=3, step=-1, refused="step"),
    ]


def quotes_windows(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"n": len(inputs["x"]), "step": inputs["step"] or 1, "stride": inputs["x"].stride(0)}
    fields |= {"refused": seen.get("refused with"), "offset": inputs["x"].storage_offset()}
    fields |= {"returned": seen["returned"]} if "returned" in seen else {}
    if isinstance(seen.get("result"), Tensor):
        fields |= {"windows": len(seen["result"])}
        fields |= {"first": seen["result"][0]} if len(seen["result"]) else {}
    if isinstance(wanted.get("result"), Tensor):
        fields |= {"wanted_windows": len(wanted["result"]), "wanted_first": wanted["result"][0]}
        fields["wanted_last"] = wanted["result"][-1]
    return fields


sliding_windows = Exercise(
    "sliding_windows",
    probe_windows,
    cases_windows,
    hints=(
        "A window starts `step` elements after the one before it, and its own elements are neighbours in x. How far is "
        "each of these two moves in storage?",
        "`as_strided` takes a shape, strides and an offset, all counted in elements of the storage. If x takes every "
        "second element of something longer, what is `x.stride(0)`?",
        "The last window must still fit: its first element may be at most at n - size. How many starts 0, step, "
        "2·step, … are there up to that?",
    ),
    forbids=("unfold",),
    quotes=quotes_windows,
)

# --- select_scores -----------------------------------------------------------------------------------------------


def probe_select(answer: Watched, scores: Tensor, labels: Tensor, weights: Tensor) -> dict[str, Any]:
    before = scores.detach().clone(), labels.clone()
    result = answer(scores, labels)
    seen = {**look(result, scores), "follows the graph": bool(getattr(result, "requires_grad", False))}
    if seen["follows the graph"] and result.shape == weights.shape:
        (result * weights).sum().backward()
    seen["gradient of scores"] = scores.grad
    inputs = kept(scores=(scores.detach(), before[0]), labels=(labels, before[1]))
    costs = [cost(answer, torch.cat([scores.detach()] * n), torch.cat([labels] * n)) for n in (2, 6)]
    return {**seen, **inputs, "cost": costs}


def cases_select(draw: Draw) -> list[Case]:
    n, c = draw.size(5, 6), draw.size(3, 4)

    def drawn(name: str, n: int, c: int, dtype: torch.dtype = torch.float32) -> Case:
        scores = draw.normal(n, c, dtype=dtype).requires_grad_()
        return case(name, scores=scores, labels=draw.integers(0, c, n), weights=draw.normal(n, dtype=dtype))

    return [
        drawn("more rows than classes", n, c),
        drawn("as many rows as classes", n, n),
        drawn("one row", 1, c),
        drawn("float64", n, c, torch.float64),
    ]


select_scores = Exercise(
    "select_scores",
    probe_select,
    cases_select,
    hints=(
        "`scores[labels]` picks whole rows. Which second index belongs to each row, and which first index goes with "
        "it?",
        "Two index tensors of one shape are paired up element by element. Or: which function picks along a dimension "
        "by an index tensor with as many dimensions as the source?",
        "Does the result still have a `grad_fn`? Anything that goes through Python numbers, `.data` or NumPy loses it.",
    ),
    derive=growth,
)

# --- masked_mean -------------------------------------------------------------------------------------------------


def probe_masked(answer: Watched, x: Tensor, mask: Tensor) -> dict[str, Any]:
    before = x.clone(), mask.clone()
    result = answer(x, mask)
    seen = {**look(result, x), **kept(x=(x, before[0]), mask=(mask, before[1]))}
    leaf = before[0].requires_grad_()
    result = answer(leaf.clone(), before[1])
    if isinstance(result, Tensor) and result.requires_grad:
        result.sum().backward()  # type: ignore[no-untyped-call]
    clean = leaf.grad is None or bool(leaf.grad.isfinite().all())
    return {**seen, "gradient of x": "finite" if clean else "not finite everywhere"}


def cases_masked(draw: Draw) -> list[Case]:
    b, t, d = draw.size(2, 3), draw.size(4, 5), draw.size(3, 4)

    def steps(*lengths: int) -> Tensor:
        return torch.arange(t) < torch.tensor(lengths)[:, None]

    mask = draw.flags(b, t)
    mask[:, 0], mask[:, -1] = True, False
    x = draw.normal(2, t, d)
    return [
        case("some steps are padding", x=draw.normal(b, t, d), mask=mask),
        case("as many examples as features", x=draw.normal(d, t, d), mask=steps(*[t, 1, t - 1, 2][:d])),
        case("all steps are real", x=draw.normal(b, t, d), mask=torch.ones(b, t, dtype=torch.bool)),
        case("a row without any real step", x=draw.normal(2, t, d), mask=steps(0, 2)),
        case("NaN in the padding", x=x.masked_fill(~steps(2, 3)[..., None], torch.nan), mask=steps(2, 3)),
        case("inf in the padding", x=x.masked_fill(~steps(3, 1)[..., None], torch.inf), mask=steps(3, 1)),
        case("NaN, and no real step", x=x.masked_fill(~steps(0, t)[..., None], torch.nan), mask=steps(0, t)),
        case("float64", x=draw.normal(b, t, d, dtype=torch.float64), mask=mask),
    ]


def quotes_masked(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    real = inputs["mask"].sum(1)
    result = seen["result"]
    wrong = ~torch.isclose(result, wanted["result"], equal_nan=True)
    if not wrong.any():
        return {}
    row, feature = (int(i) for i in wrong.nonzero()[0])
    return {
        "row": row, "real": int(real[row]), "length": inputs["mask"].shape[1],
        "got_row": result[row, feature].item(), "want_row": wanted["result"][row, feature].item(),
    }  # fmt: skip


masked_mean = Exercise(
    "masked_mean",
    probe_masked,
    cases_masked,
    hints=(
        "A mean is a sum over a count. Which steps go into the sum, and how many are they in each row?",
        "What is `float('nan') * 0`? Multiplying by the mask does not take a NaN away; which operation writes over it?",
        "A row without a real step has the sum 0 and the count 0. Which smallest change to the count makes 0 / count a "
        "0?",
    ),
    quotes=quotes_masked,
)

# --- one_hot -----------------------------------------------------------------------------------------------------


def probe_one_hot(
    answer: Watched, labels: Tensor, num_classes: int, dtype: torch.dtype | None, refused: str
) -> dict[str, Any]:
    if refused:  # on the CPU: an index out of range takes a real GPU's whole process down
        return refusal(lambda: answer(labels.cpu(), num_classes), "labels", [refused])
    before = labels.clone()
    result = answer(labels, num_classes) if dtype is None else answer(labels, num_classes, dtype)
    return {**look(result, labels), **kept(labels=(labels, before))}


def cases_one_hot(draw: Draw) -> list[Case]:
    c = draw.size(3, 5)
    n = c + draw.size(1, 2)
    common: dict[str, Any] = {"dtype": None, "refused": ""}
    bad = draw.integers(0, c, n)
    above, below = bad.clone(), bad.clone()
    above[1], below[2] = c, -1
    return [
        case("a vector of labels", **common, labels=draw.integers(0, c, n), num_classes=c),
        case("a matrix of labels", **common, labels=draw.integers(0, c, 2, n), num_classes=c),
        case("one label, no dimensions", **common, labels=draw.integers(0, c), num_classes=c),
        case("no labels at all", **common, labels=torch.empty(0, dtype=torch.int64), num_classes=c),
        case("a class that does not occur", **common, labels=torch.zeros(n, dtype=torch.int64), num_classes=c),
        case("another dtype", labels=draw.integers(0, c, n), num_classes=c, dtype=torch.int64, refused=""),
        case("a label too large", labels=above, num_classes=c, dtype=None, refused=str(c)),
        case("a negative label", labels=below, num_classes=c, dtype=None, refused="-1"),
    ]


def quotes_refusal(inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    return {"refused": seen.get("refused with"), "bad": inputs.get("refused")}


one_hot = Exercise(
    "one_hot",
    probe_one_hot,
    cases_one_hot,
    hints=(
        "Every label is compared with every class number. Which two shapes broadcast to (..., num_classes)?",
        "Where does `torch.arange(num_classes)` or `torch.zeros(...)` live if you do not say? Labels may live "
        "elsewhere.",
        "Out of range has two ends. Which of them would a comparison let through without a word, and what should the "
        "message of the ValueError tell: which argument, what it got, what it wants?",
    ),
    forbids=("one_hot", "eye"),
    quotes=quotes_refusal,
)

# --- to_numpy ----------------------------------------------------------------------------------------------------


def probe_to_numpy(answer: Watched, t: Tensor, negative: bool) -> dict[str, Any]:
    t = torch._neg_view(t) if negative else t
    array = answer(t)
    if not isinstance(array, np.ndarray):
        return {"returned": kind(array)}
    seen = {"dtype": str(array.dtype), "values": array.copy(), "t requires grad": t.requires_grad}
    with torch.no_grad():
        t.add_(1) if t.dtype != torch.bool else t.logical_not_()
    return {**seen, "array after t was changed": array}


def cases_to_numpy(draw: Draw) -> list[Case]:
    n = draw.size(3, 5)
    common: dict[str, Any] = {"negative": False}
    waves = torch.complex(draw.normal(n), draw.normal(n))
    return [
        case("float32", **common, t=draw.normal(n, 2)),
        case("a tensor that requires grad", **common, t=draw.normal(n, 2).requires_grad_()),
        case("bfloat16", **common, t=draw.normal(n, dtype=torch.bfloat16)),
        case("bool", **common, t=draw.flags(n)),
        case("int16, transposed", **common, t=draw.integers(-9, 9, n, 2, dtype=torch.int16).t()),
        case("a conjugate view", **common, t=waves.conj()),
        case("a negative view", t=draw.normal(n), negative=True),
        case("one number", **common, t=draw.normal(dtype=torch.float64)),
    ]


def quotes_to_numpy(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {}
    if "dtype" in seen and seen["dtype"] != wanted["dtype"]:
        fields |= {"seen_dtype": seen["dtype"], "wanted_dtype": wanted["dtype"]}
    kept_array = seen.get("array after t was changed")
    if isinstance(kept_array, Tensor) and kept_array.numel():
        fields["kept_entry"] = kept_array.flatten()[0].item()
    error = seen.get("raised")
    if isinstance(error, Raised):
        fields["error"] = error
        causes = {"device": "device type", "grad": "requires grad", "bit": "bit set", "scalar": "ScalarType"}
        fields |= {f"{cause}_error": error for cause, said in causes.items() if said in error.message}
    return fields


to_numpy = Exercise(
    "to_numpy",
    probe_to_numpy,
    cases_to_numpy,
    hints=(
        "Call `t.numpy()` on a tensor that requires grad, on one of another device and on a bfloat16 one, and read "
        "what each message asks for.",
        "`detach()` and `cpu()` return a view or the tensor itself where they can. Which calls do copy, and when?",
        "A conjugate or negative view is a promise to flip signs on reading. Which two methods keep the promise in "
        "memory?",
    ),
    quotes=quotes_to_numpy,
)  # fmt: skip

# --- attention_scores --------------------------------------------------------------------------------------------


def probe_attention(answer: Watched, q: Tensor, k: Tensor) -> dict[str, Any]:
    before = q.clone(), k.clone()
    return {**look(answer(q, k), q), **kept(q=(q, before[0]), k=(k, before[1]))}


def cases_attention(draw: Draw) -> list[Case]:
    b, h, t, s, d = 2, draw.size(2, 3), draw.size(3, 4), draw.size(5, 6), draw.size(7, 9)
    split = draw.normal(b, t, h * d).view(b, t, h, d).transpose(1, 2)
    return [
        case("t and s differ", q=draw.normal(b, h, t, d), k=draw.normal(b, h, s, d)),
        case("t equals s", q=draw.normal(b, h, t, d), k=draw.normal(b, h, t, d)),
        case("as many steps as features", q=draw.normal(b, h, d, d), k=draw.normal(b, h, d, d)),
        case("all sizes equal", q=draw.normal(3, 3, 3, 3), k=draw.normal(3, 3, 3, 3)),
        case("one head, one query", q=draw.normal(1, 1, 1, d), k=draw.normal(1, 1, s, d)),
        case("heads split from one tensor", q=split, k=draw.normal(b, h, s, d)),
        case("float64", q=draw.normal(b, h, t, d, dtype=torch.float64), k=draw.normal(b, h, s, d, dtype=torch.float64)),
    ]  # fmt: skip


def quotes_attention(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    d = inputs["q"].shape[-1]
    fields: dict[str, object] = {"d": d, "root": d**0.5, "t": inputs["q"].shape[-2], "s": inputs["k"].shape[-2]}
    fields |= {"h": inputs["q"].shape[1]}
    if seen["result"].shape == wanted["result"].shape:
        fields["ratio"] = (seen["result"].norm() / wanted["result"].norm()).item()
    return fields


attention_scores = Exercise(
    "attention_scores",
    probe_attention,
    cases_attention,
    hints=(
        "Which dimension is summed over in q·k, and which two remain for each head of each example?",
        "For a matrix product, k's last two dimensions have to change places. What would `.T` do to a tensor of four "
        "dimensions?",
        "The dot product of two random vectors of d numbers has a standard deviation that grows with d. By what do you "
        "divide to bring it back to 1?",
    ),
    quotes=quotes_attention,
)

EXERCISES = (
    describe, image_to_chw, pairwise_distances, standardize, row_softmax, flatten_reporting, sliding_windows,
    select_scores, masked_mean, one_hot, to_numpy, attention_scores,
)  # fmt: skip
