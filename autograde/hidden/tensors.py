"""Lesson 01: hidden cases and known mistakes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autograde.hidden.common import (
    CHANGED,
    COPIES,
    ERRORS,
    LEFT,
    MIXED,
    NUMPY_ONLY,
    anywhere,
    apart,
    on_the_cpu,
    variants,
    with_floats,
    with_numpy,
    writing_into,
)  # fmt: skip
from autograde.mistakes import Mistake, slips
from torchcourse.exercise import Case, Draw, case

# --- describe ----------------------------------------------------------------------------------------------------

WHAT = "What a tensor is"


def describe(
    t: Tensor, *, size: str = "numel", ndim: str = "ndim", nbytes: str = "own", shape: str = "tuple",
    device: str = "text", contiguous: str = "flag", dtype: str = "dtype",
) -> dict[str, Any]:  # fmt: skip
    counts: dict[str, Callable[[], Any]] = {
        "numel": t.numel, "len": lambda: len(t), "first": lambda: t.shape[0], "method": lambda: t.numel, "dims": t.dim,
        "ndim": t.dim, "dim": lambda: t.dim, "item": t.element_size, "storage": t.untyped_storage().nbytes,
        "own": lambda: t.numel() * t.element_size(), "four": lambda: t.numel() * 4,
    }  # fmt: skip
    shapes: dict[str, Any] = {"tuple": tuple(t.shape), "list": list(t.shape), "text": str(t.shape)}
    devices = {"text": str(t.device), "object": t.device, "type": t.device.type, "cpu": "cpu"}
    return {
        "shape": shapes[shape],
        "dtype": {"dtype": t.dtype, "text": str(t.dtype), "type": t.type()}[dtype],
        "device": devices[device],
        "ndim": counts[ndim](),
        "numel": counts[size](),
        "contiguous": {"flag": t.is_contiguous(), "method": t.is_contiguous, "always": True}[contiguous],
        "nbytes": counts[nbytes](),
    }


LEN = (
    "`numel` came out as {got} where the tensor of shape {shape} has {want} elements: the size of the first dimension "
    "is not the number of elements, and a tensor of no dimensions has no first one."
)
NOT_CALLED = "`{what}` came out as {got}: a method was named, but not called."
NO_STRING = "`dtype` came out as a string, {got}, where the torch.dtype itself is wanted."
NO_TUPLE = "`shape` came out as {got} where a plain tuple, {want}, is wanted."
DESCRIBE = [
    *slips(
        describe, WHAT,
        len_is_not_numel=({"size": "len"}, LEN),
        nbytes_counts_storage=({"nbytes": "storage"}, "`nbytes` came out as {got} where the elements of this view take "
                               "{want}: the storage behind it is larger than what the view shows."),
        shape_is_no_tuple=({"shape": "list"}, NO_TUPLE),
        device_is_no_string=({"device": "object"}, "`device` came out as {got}, a device object, where its name as a "
                             "string is wanted."),
        dtype_is_a_string=({"dtype": "text"}, NO_STRING),
    ),
    *apart(slips(
        describe, WHAT,
        dimensions_are_not_elements=({"size": "dims"}, "`numel` came out as {got}, the number of dimensions; the "
                                     "tensor of shape {shape} has {want} elements."),
        len_is_not_ndim=({"ndim": "len"}, "`ndim` came out as {got} where the shape {shape} has {want} entries: `len` "
                         "is the first of these, not their number."),
        nbytes_of_one_element=({"nbytes": "item"}, "`nbytes` came out as {got}, which is what a single element takes; "
                               "all of them together take {want}."),
        four_bytes_assumed=({"nbytes": "four"}, "`nbytes` came out as {got} and should be {want}: an element takes 4 "
                            "bytes in float32, and {item} in {dtype}."),
        device_without_index=({"device": "type"}, "On the second device `device` came out as {got}: that is the kind "
                              "of device, and `str(t.device)` also says which one of them."),
        device_assumed=({"device": "cpu"}, "`device` came out as {got} on the second device too: ask the tensor where "
                        "it is."),
        contiguous_assumed=({"contiguous": "always"}, "`contiguous` came out as {got} for the shape {shape} with "
                            "strides {stride}, whose elements do not lie in reading order without gaps."),
        method_not_called=({"contiguous": "method"}, NOT_CALLED),
    )),
    *variants("len-is-not-numel", describe, LEN, WHAT, {"size": "first"}),
    *variants("method-not-called", describe, NOT_CALLED, WHAT, {"size": "method"}, {"ndim": "dim"}),
    *variants("dtype-is-a-string", describe, NO_STRING, WHAT, {"dtype": "type"}),
    *variants("shape-is-no-tuple", describe, NO_TUPLE, WHAT, {"shape": "text"}),
]  # fmt: skip


def more_describe(draw: Draw) -> list[Case]:
    base = draw.normal(4, 6, dtype=draw.pick([torch.float16, torch.float32]))
    return [
        case("a diagonal", t=base.as_strided((4,), (7,))),
        case("every third element", t=draw.integers(0, 9, 20, dtype=torch.int16)[::3]),
        case("four dimensions", t=draw.flags(2, 1, draw.size(2, 4), 3)),
        case("complex", t=torch.complex(draw.normal(3), draw.normal(3))),
    ]


# --- image_to_chw ------------------------------------------------------------------------------------------------

IMAGES, ONES = "Images: channels first", "Axes of size one: unsqueeze, squeeze, expand"


def image_to_chw(
    image: Tensor, *, move: str = "movedim", scale: str = "255", contiguous: bool = True, squeeze: bool = False,
    dtype: torch.dtype = torch.float32, unsqueeze: bool = False,
) -> Tensor:  # fmt: skip
    *lead, height, width, channels = image.shape
    moves: dict[str, Callable[[], Tensor]] = {
        "movedim": lambda: image.movedim(-1, -3),
        "reshape": lambda: image.reshape(*lead, channels, height, width),
        "view": lambda: image.view(*lead, channels, height, width),
        "reshape as if one": lambda: image.reshape(image.shape[2], image.shape[0], image.shape[1]),
        "swap": lambda: image.transpose(-3, -1),
        "swap the last two": lambda: image.transpose(-2, -1),
        "permute as if one": lambda: image.permute(2, 0, 1),
        "movedim as if one": lambda: image.movedim(2, 0),
        "to the front": lambda: image.movedim(-1, 0),
    }
    scales: dict[str, Callable[[Tensor], Tensor]] = {
        "255": lambda moved: moved.to(dtype) / 255,
        "256": lambda moved: moved.to(dtype) / 256,
        "no": lambda moved: moved.to(dtype),
        "bytes": lambda moved: moved,
        "floor": lambda moved: (moved // 255).to(dtype),
        "largest": lambda moved: moved.to(dtype) / moved.max(),
        "range": lambda moved: (moved - moved.min()).to(dtype) / (moved.max() - moved.min()),
        "minus one": lambda moved: moved.to(dtype) / 127.5 - 1,
    }
    result = scales[scale](moves[move]())
    result = result.squeeze() if squeeze else result
    result = result.unsqueeze(0) if unsqueeze and result.ndim == 3 else result
    return result.contiguous() if contiguous else result


BATCH = (
    "For a batch the outcome was {got}: the dimensions were counted from the front, where a batch puts one "
    "more; counted from the end they stay the same."
)
REGROUPED = (
    "In the case \"{case}\" the value at {at} is {got_at} and should be {want_at}, though the shape is right: "
    "reshaping deals the pixels out anew, permuting moves the channels."
)
OWN_RANGE = (
    "The value at {at} is {got_at} and should be {want_at}: 255 has to become 1, whatever this image's own "
    "largest value is."
)
IMAGE_TO_CHW = [
    *slips(
        image_to_chw, IMAGES,
        reshaped_not_permuted=({"move": "reshape"}, REGROUPED),
        not_scaled=({"scale": "no"}, "The value at {at} is {got_at} and should be {want_at}: the bytes became floats, "
                    "but were not brought from 0..255 to 0..1."),
        scaled_by_256=({"scale": "256"}, "The value at {at} is {got_at} and should be {want_at}: the largest byte is "
                       "255, so 255 has to become 1."),
        not_contiguous=({"contiguous": False}, "`is_contiguous()` of the result is {got}: a permuted view keeps the "
                        "old order in memory until it is copied."),
        height_and_width_swapped=({"move": "swap"}, "The result has shape {got_shape} where {want_shape} is wanted: "
                                  "swapping two dimensions turned height and width round as well."),
    ),
    *apart(slips(
        image_to_chw, IMAGES,
        scaled_by_own_range=({"scale": "largest"}, OWN_RANGE),
        scaled_to_minus_one=({"scale": "minus one"}, "The value at {at} is {got_at} and should be {want_at}: the "
                             "values were brought to -1..1, where 0..1 is wanted."),
        divided_as_integers=({"scale": "floor"}, "The value at {at} is {got_at} and should be {want_at}: as long as "
                             "the numbers are integers, the fraction is cut off."),
        left_as_bytes=({"scale": "bytes"}, "The result is {got_dtype} where {want_dtype} is wanted: the channels were "
                       "moved, but the bytes stayed bytes."),
        channels_in_the_middle=({"move": "swap the last two"}, "The result has shape {got_shape} where {want_shape} is "
                                "wanted: the channels changed places with the width, and so stand between height and "
                                "width."),
        returns_float64=({"dtype": torch.float64}, "The result is {got_dtype} where {want_dtype} is wanted."),
        returns_float16=({"dtype": torch.float16}, "The result is {got_dtype} where {want_dtype} is wanted."),
        batch_axis_added=({"unsqueeze": True}, "In the case \"{case}\" the result has shape {got_shape} where "
                          "{want_shape} is wanted: a batch axis was added that the input does not have."),
    )),
    *variants("squeezes-batch-of-one", image_to_chw, "In the case \"{case}\" the result has shape {got_shape} where "
            "{want_shape} is wanted: a bare `squeeze` takes every dimension of one.", ONES, {"squeeze": True}),
    *variants("reshaped-not-permuted", image_to_chw, REGROUPED, IMAGES, {"move": "view"}, {"move": "reshape as if "
              "one"}),
    *variants("scaled-by-own-range", image_to_chw, OWN_RANGE, IMAGES, {"scale": "range"}),
    Mistake("batch-ignored", image_to_chw, BATCH, IMAGES, {"move": "permute as if one"}),
    *variants("batch-ignored", image_to_chw, BATCH, IMAGES, {"move": "movedim as if one"}, {"move": "to the front"}),
    *anywhere(image_to_chw),
]  # fmt: skip


def more_image(draw: Draw) -> list[Case]:
    height, width = draw.size(2, 9), draw.size(2, 9)
    pixels = draw.integers(0, 256, 3, width, height, 4, dtype=torch.uint8)
    return [
        case("four channels, transposed", image=pixels.transpose(1, 2)),
        case("black and white", image=255 * draw.integers(0, 2, height, width, 3, dtype=torch.uint8)),
        case("one pixel", image=draw.integers(0, 256, 1, 1, 3, dtype=torch.uint8)),
        case("an empty batch", image=torch.empty(0, height, width, 3, dtype=torch.uint8)),
    ]


# --- pairwise_distances ------------------------------------------------------------------------------------------

PAIRS = "Broadcasting: shapes line up from the right"


def distances(
    a: Tensor, b: Tensor, *, terms: str = "squares", over: int | None = -1, reduce: str = "sum", root: bool = True,
    keepdim: bool = False, swapped: bool = False,
) -> Tensor:  # fmt: skip
    difference = b[:, None] - a[None] if swapped else a[:, None] - b[None]
    parts = difference.abs() if terms == "sizes" else difference**2
    total = getattr(parts, reduce)(dim=over, keepdim=keepdim) if over is not None else parts.sum()
    return total.sqrt() if root and terms == "squares" else total


def elementwise(a: Tensor, b: Tensor) -> Tensor:
    return ((a - b) ** 2).sum(-1).sqrt()


def expanded_square(a: Tensor, b: Tensor, *, sign: float = -2.0, root: bool = True) -> Tensor:
    squares = (a * a).sum(-1)[:, None] + (b * b).sum(-1) + sign * a @ b.T
    return squares.sqrt() if root else squares


def loop(a: Tensor, b: Tensor) -> Tensor:
    return torch.stack([torch.stack([((x - y) ** 2).sum().sqrt() for y in b]) for x in a])


def loop_over_rows(a: Tensor, b: Tensor) -> Tensor:
    return torch.stack([((row - b) ** 2).sum(-1).sqrt() for row in a])


def loop_filling_zeros(a: Tensor, b: Tensor) -> Tensor:
    result = torch.zeros(len(a), len(b))
    for i, row in enumerate(a):
        result[i] = ((row - b) ** 2).sum(-1).sqrt()
    return result


def loop_over_lists(a: Tensor, b: Tensor) -> Tensor:
    rows = [[sum((p - q) ** 2 for p, q in zip(x, y, strict=True)) ** 0.5 for y in b.tolist()] for x in a.tolist()]
    return torch.tensor(rows, dtype=a.dtype, device=a.device)


def loop_over_numbers(a: Tensor, b: Tensor) -> Tensor:
    rows = [[(((x - y) ** 2).sum() ** 0.5).item() for y in b] for x in a]
    return torch.tensor(rows, dtype=a.dtype, device=a.device)


def loop_over_numbers_on_cpu(a: Tensor, b: Tensor) -> Tensor:
    return torch.tensor([[((x - y) ** 2).sum().item() ** 0.5 for y in b] for x in a])


def distances_in_numpy(a: Tensor, b: Tensor) -> Tensor:
    x, y = a.numpy(), b.numpy()
    return torch.from_numpy(np.sqrt(((x[:, None] - y[None]) ** 2).sum(-1)))


LOOP = "The number of {what} is {got}: a Python loop pays for each row what one call for all rows pays once."
HANDED = (
    "The number of {what} is {got}: what is worked out one by one in Python, or in NumPy, pays for each row what one "
    "torch call for all rows pays once."
)
SUMMED = (
    "The result has shape {got_shape} where {want_shape} is wanted: for each pair of points the sum goes over the "
    "features, the last of the dimensions (n, m, d)."
)
PAIRWISE = [
    Mistake("elementwise-not-pairwise", elementwise, "The result has shape {got_shape} where {want_shape} is wanted: "
            "row i of a was only compared with row i of b.", PAIRS),
    *slips(
        distances, PAIRS,
        squared_not_rooted=({"root": False}, "The value at {at} is {got_at} and should be {want_at}: the first is the "
                            "square of the second, so the root is missing."),
        city_block_distance=({"terms": "sizes"}, "The value at {at} is {got_at} and should be {want_at}: absolute "
                             "differences were added up, squares were not."),
        rows_and_columns_swapped=({"swapped": True}, "The result has shape {got_shape} where {want_shape} is wanted: "
                                  "rows belong to a, columns to b."),
    ),
    *apart(slips(
        distances, PAIRS,
        largest_difference_only=({"reduce": "amax"}, "The value at {at} is {got_at} and should be {want_at}: only the "
                                 "feature that differs most was counted."),
        mean_not_sum=({"reduce": "mean"}, "The value at {at} is {got_at} and should be {want_at}: the squares were "
                      "averaged over the features, where their sum is wanted."),
        sums_over_points=({"over": 0}, SUMMED),
        dimension_left_over=({"keepdim": True}, "The result has shape {got_shape} where {want_shape} is wanted: with "
                             "keepdim the dimension of the features stays, with size one."),
    )),
    *variants("sums-over-points", distances, SUMMED, PAIRS, {"over": 1}, {"over": None}),
    *variants("squared-not-rooted", expanded_square, "In the case \"{case}\" the value at {at} is {got_at} and should "
            "be {want_at}: the first is the square of the second, so the root is missing.", PAIRS, {"root": False}),
    Mistake("nan-at-equal-points", expanded_square, "The result is {got}: for equal points a·a + b·b - 2 a·b can round "
            "to a number just below zero, and its root is NaN.", PAIRS),
    *variants("cross-term-wrong", expanded_square, "The value at {at} is {got_at} and should be {want_at}: in the "
              "square of a difference the product of both is taken away twice.", PAIRS, {"sign": -1.0}, {"sign": 2.0}),
    *(Mistake("python-loop", program, LOOP, PAIRS)
      for program in (loop, loop_over_rows, loop_filling_zeros, loop_over_numbers, loop_over_numbers_on_cpu)),
    *(Mistake("python-loop", program, HANDED, PAIRS) for program in (loop_over_lists, distances_in_numpy)),
    *(m for m in with_floats(distances, 2) if m.sentence is not NUMPY_ONLY),
]  # fmt: skip


def more_pairwise(draw: Draw) -> list[Case]:
    n, m, d = draw.size(2, 12), draw.size(2, 12), draw.size(1, 9)
    base = draw.normal(n, d)
    return [
        case("one dimension", rtol=1e-3, atol=1e-3, a=draw.normal(n, 1), b=draw.normal(m, 1)),
        case("some points in common", rtol=1e-3, atol=0.03, a=base, b=torch.cat([base[:1], draw.normal(m, d)])),
        case("transposed inputs", rtol=1e-3, atol=1e-3, a=draw.normal(d, n).t(), b=draw.normal(d, m).t()),
        case("small numbers", rtol=1e-2, atol=1e-5, a=1e-3 * draw.normal(n, d), b=5e-3 + 1e-3 * draw.normal(m, d)),
        case("large numbers", rtol=1e-3, atol=10.0, a=1e6 * draw.normal(n, d), b=1e6 * draw.normal(m, d)),
    ]


# --- standardize -------------------------------------------------------------------------------------------------

REDUCE = "Reductions"


def standardize(
    x: Tensor, dim: int | tuple[int, ...], eps: float = 1e-5, *, keepdim: str = "both", correction: int = 0,
    inside: str = "yes", over: str = "dim", root: bool = True, centred: bool = True, brackets: bool = True,
    fixed: bool = False,
) -> Tensor:  # fmt: skip
    eps = 1e-5 if fixed else eps
    named = [d % x.ndim for d in ((dim,) if isinstance(dim, int) else dim)]
    rest = tuple(d for d in range(x.ndim) if d not in named)
    along: Any = {"dim": dim, "all": tuple(range(x.ndim)), "rest": rest or dim, "last": -1, "first": named[0]}[over]
    mean = x.mean(dim=along, keepdim=keepdim in ("both", "mean"))
    var = x.var(dim=along, correction=correction, keepdim=keepdim in ("both", "var"))
    below = {"yes": (var + eps).sqrt(), "outside": var.sqrt() + eps, "missing": var.sqrt()}[inside]
    below = below if root else below**2
    if not brackets:
        return x - mean / below
    return (x - mean) / below if centred else x / below


def only_one_dimension(x: Tensor, dim: Any, eps: float = 1e-5) -> Tensor:
    mean, var = x.mean(dim).unsqueeze(dim), x.var(dim, correction=0).unsqueeze(dim)
    return (x - mean) / (var + eps).sqrt()


def one_dimension_after_another(x: Tensor, dim: int | tuple[int, ...], eps: float = 1e-5) -> Tensor:
    for d in (dim,) if isinstance(dim, int) else dim:
        x = standardize(x, d, eps)
    return x


def only_centred(x: Tensor, dim: int | tuple[int, ...], _eps: float = 1e-5) -> Tensor:
    return x - x.mean(dim=dim, keepdim=True)


NO_KEEPDIM = (
    "In the case \"{case}\" the value at {at} is {got_at} and should be {want_at}: without keepdim a statistic lost "
    "its dimension and was lined up with the wrong axis."
)
WHOLE_TENSOR = (
    "In the case \"{case}\" the value at {at} is {got_at} and should be {want_at}: mean and variance were taken over "
    "the whole tensor, not over dim = {dim}."
)
OTHER_DIM = (
    "In the case \"{case}\" the value at {at} is {got_at} and should be {want_at}: the statistics were taken over "
    "other dimensions than dim = {dim}."
)
STANDARDIZE = [
    *slips(
        standardize, REDUCE,
        missing_keepdim=({"keepdim": "none"}, NO_KEEPDIM),
        sample_variance=({"correction": 1}, "The variance of the result is {var} and should be {wanted_var}: the sum "
                         "of squares was divided by {count} - 1, which is the sample's, and not by {count}."),
        eps_outside_root=({"inside": "outside"}, "With eps = {eps} the variance of the result is {var} and should be "
                          "{wanted_var}: eps was added to the root, and belongs under it."),
        eps_forgotten=({"inside": "missing"}, "With eps = {eps} the variance of the result is {var} and should be "
                       "{wanted_var}: eps was not added to the variance."),
        whole_tensor_statistics=({"over": "all"}, WHOLE_TENSOR),
        divided_by_variance=({"root": False}, "The value at {at} is {got_at} and should be {want_at}: the difference "
                             "was divided by the variance, not by its root."),
    ),
    *apart(slips(
        standardize, REDUCE,
        eps_argument_ignored=({"fixed": True}, "With eps = {eps} the variance of the result is {var} and should be "
                              "{wanted_var}: a fixed number was added to the variance, not the argument."),
        other_dimensions=({"over": "rest"}, OTHER_DIM),
        mean_not_subtracted=({"centred": False}, "The mean of the result is {mean} and should be 0: the values were "
                             "divided, but their mean was not subtracted first."),
        parentheses_missing=({"brackets": False}, "The value at {at} is {got_at} and should be {want_at}: only the "
                             "mean was divided, since a division goes before a subtraction."),
    )),
    *variants("missing-keepdim", standardize, NO_KEEPDIM, REDUCE, {"keepdim": "mean"}, {"keepdim": "var"}),
    *variants("whole-tensor-statistics", standardize, WHOLE_TENSOR, REDUCE,
              {"over": "all", "correction": 1, "inside": "missing"}),
    *variants("other-dimensions", standardize, OTHER_DIM, REDUCE, {"over": "last"}, {"over": "first"}),
    Mistake("not-divided", only_centred, "The variance of the result is {var} and should be {wanted_var}: the mean was "
            "subtracted, but nothing was divided.", REDUCE),
    Mistake("only-one-dimension", only_one_dimension, "In the case \"{case}\" with dim = {dim} the call raised {got}: "
            "`dim` may be a tuple, and keepdim=True puts back all of its dimensions at once.", REDUCE),
    Mistake("one-dimension-after-another", one_dimension_after_another, "In the case \"{case}\" the value at {at} is "
            "{got_at} and should be {want_at}: mean and variance belong to all dimensions of dim = {dim} "
            "together.", REDUCE),
    *with_floats(standardize),
]  # fmt: skip


def more_standardize(draw: Draw) -> list[Case]:
    n, d = draw.size(3, 6), draw.size(3, 6)
    return [
        case("a vector", x=draw.normal(n), dim=0, eps=None),
        case("the middle dimension", x=draw.normal(n, d, 4), dim=-2, eps=1e-3),
        case("all dimensions", x=draw.normal(n, d), dim=(0, 1), eps=None),
        case("far from zero", rtol=1e-2, atol=1e-2, x=100 + draw.normal(n, d), dim=-1, eps=None),
        case("a transposed matrix", x=draw.normal(n, d).t(), dim=1, eps=0.1),
        case("very small values", x=1e-3 * draw.normal(n, d), dim=0, eps=None),
    ]


# --- row_softmax -------------------------------------------------------------------------------------------------


def row_softmax(
    x: Tensor, *, shift: str = "row", sum_: str = "row", keepdim: bool = True, axis: int = -1, log: bool = False,
) -> Tensor:  # fmt: skip
    shifts: dict[str, Callable[[], Any]] = {
        "row": lambda: x.amax(axis, keepdim=True), "flat row": lambda: x.amax(-1), "all": x.max, "none": lambda: 0.0,
        "mean": lambda: x.mean(axis, keepdim=True), "min": lambda: x.amin(axis, keepdim=True),
    }  # fmt: skip
    weights = (x - shifts[shift]()).exp()
    sums: dict[str, Callable[[], Any]] = {
        "row": lambda: weights.sum(axis, keepdim=keepdim), "all": weights.sum, "none": lambda: 1.0,
    }  # fmt: skip
    result: Tensor = weights / sums[sum_]()
    return result.log() if log else result


def by_logarithm(x: Tensor) -> Tensor:
    return (x - x.exp().sum(-1, keepdim=True).log()).exp()


def in_double(x: Tensor) -> Tensor:
    return row_softmax(x.double(), shift="none").to(x.dtype)


def clamped(x: Tensor) -> Tensor:
    return row_softmax(x.clamp(-80, 80), shift="none")


def nan_replaced(x: Tensor) -> Tensor:
    return row_softmax(x, shift="none").nan_to_num(nan=0.0)


def no_exponential(x: Tensor) -> Tensor:
    return x / x.sum(-1, keepdim=True)


def divided_by_maximum(x: Tensor, size: bool = False) -> Tensor:
    top = x.abs() if size else x
    return row_softmax(x / top.amax(-1, keepdim=True), shift="none")


def row_after_row_of_a_matrix(x: Tensor) -> Tensor:
    return torch.stack([(row - row.max()).exp() / (row - row.max()).exp().sum() for row in x])


OVERFLOW = (
    "{nans} of {count} results are NaN: the largest entry is {largest}, exp of it is {exp_largest} in this dtype, and "
    "inf / inf is NaN."
)
OVERFLOW_LATER = (
    "Row {row} sums to {row_sum} and not to 1 where the largest entry is {largest}: exp of it is too large for any "
    "float, in whatever form it is used."
)
TOO_HIGH = (
    "{nans} of {count} results are NaN: what was subtracted leaves numbers far above zero in the row, their exp is "
    "inf, and inf / inf is NaN."
)
WRONG_DIM = (
    "In the case \"{case}\" row {row} sums to {row_sum} and not to 1: softmax ran over another dimension than "
    "the last."
)
WHOLE = "Row {row} sums to {row_sum} and not to 1: the weights were divided by the sum of the whole tensor."
KEEPDIM = (
    "In the case \"{case}\" the value at {at} is {got_at} and should be {want_at}: a statistic of the rows lost its "
    "dimension, so broadcasting lined it up with the columns."
)
LOGARITHMS = "The value at {at} is {got_at} and should be {want_at}: the first is the logarithm of the second."
BY_MAXIMUM = (
    "The value at {at} is {got_at} and should be {want_at}: dividing a row by its maximum changes its softmax, "
    "subtracting it does not."
)
ROW_SOFTMAX = [
    *slips(
        row_softmax, REDUCE,
        overflow=({"shift": "none"}, OVERFLOW),
        wrong_dim=({"axis": 0}, WRONG_DIM),
        whole_tensor=({"sum_": "all"}, WHOLE),
        not_normalised=({"sum_": "none"}, "Row {row} sums to {row_sum} and not to 1: the weights were not divided by "
                        "their sum."),
        missing_keepdim=({"keepdim": False}, KEEPDIM),
    ),
    *apart(slips(
        row_softmax, REDUCE,
        global_maximum=({"shift": "all"}, "{nans} of {count} results are NaN: the largest entry of the whole tensor "
                        "was subtracted, so that in a row far below it every exp is 0, and 0 / 0 is NaN."),
        mean_subtracted=({"shift": "mean"}, TOO_HIGH),
        minimum_subtracted=({"shift": "min"}, TOO_HIGH),
        returns_logarithms=({"log": True}, LOGARITHMS),
    )),
    *variants("wrong-dim", row_softmax, WRONG_DIM, REDUCE, {"axis": -2}, {"axis": 1}, {"axis": 1, "shift": "none"}),
    *variants("missing-keepdim", row_softmax, KEEPDIM, REDUCE,
              {"shift": "flat row"}, {"shift": "flat row", "keepdim": False}),
    *variants("whole-tensor", row_softmax, WHOLE, REDUCE, {"sum_": "all", "shift": "all"}),
    Mistake("returns-logarithms", lambda x: x - x.logsumexp(-1, keepdim=True), LOGARITHMS, REDUCE),
    Mistake("overflow", in_double, OVERFLOW, REDUCE),
    Mistake("overflow", by_logarithm, OVERFLOW_LATER, REDUCE),
    Mistake("clamps-the-scores", clamped, "In the case \"{case}\" the value at {at} is {got_at} and should be "
            "{want_at}: entries that were clamped to the same bound look equal, and are not.", REDUCE),
    Mistake("nan-replaced", nan_replaced, "In the case \"{case}\" row {row} sums to {row_sum} and not to 1: replacing "
            "a NaN does not bring back the number that it swallowed.", REDUCE),
    Mistake("no-exponential", no_exponential, "The value at {at} is {got_at} and should be {want_at}: the entries "
            "themselves were divided by their sum, not exp of them.", REDUCE),
    *variants("divided-by-maximum", divided_by_maximum, BY_MAXIMUM, REDUCE, {}, {"size": True}),
    Mistake("only-for-matrices", row_after_row_of_a_matrix, "In the case \"{case}\" row {row} sums to {row_sum} and "
            "not to 1: going through x gives its rows only where x has two dimensions.", REDUCE),
    *with_floats(row_softmax),
]  # fmt: skip


def more_softmax(draw: Draw) -> list[Case]:
    n, d = draw.size(2, 5), draw.size(2, 9)
    ordinary = {"rtol": 0.0, "atol": 1e-5}
    return [
        case("four dimensions", **ordinary, x=3 * draw.normal(2, n, 3, d)),
        case("one column", **ordinary, x=draw.normal(n, 1)),
        case("equal entries", **ordinary, x=torch.full((n, d), draw.uniform(-5, 5).item())),
        case("all far below zero", rtol=0.0, atol=1e-3, x=-9000 - draw.uniform(0, 10, n, d)),
        case("all far above zero", rtol=0.0, atol=1e-3, x=9000 + draw.uniform(0, 10, n, d)),
        case("every second column", **ordinary, x=draw.normal(n, 2 * d)[:, ::2]),
        case("no rows", **ordinary, x=torch.empty(0, d)),
    ]


# --- flatten_reporting -------------------------------------------------------------------------------------------

def refuses_to_copy(t: Tensor) -> tuple[Tensor, bool]:
    return t.view(-1), False


def shares(flat: Tensor, t: Tensor) -> bool:
    return flat.untyped_storage().data_ptr() == t.untyped_storage().data_ptr()


def flag_reversed(t: Tensor) -> tuple[Tensor, bool]:
    return t.reshape(-1), shares(t.reshape(-1), t)


ALWAYS = (
    "For shape {shape} with strides {stride}, writing into the result left t as it was: a view was possible and "
    "it was copied."
)
STRIDED = (
    "For shape {shape} with strides {stride}, writing into the result left t as it was: t is not contiguous, and yet a "
    "view fits."
)
FLAG = "For shape {shape} with strides {stride}, `copied` is {copied}, while the result {shares} memory with t."
FLATTEN = [
    Mistake("always-copies", lambda t: (t.clone().reshape(-1), True), ALWAYS, COPIES),
    Mistake("always-copies", lambda t: (t.clone().reshape(-1), False), ALWAYS, COPIES),
    Mistake("copies-strided-views", lambda t: (t.contiguous().view(-1), not t.is_contiguous()), STRIDED, COPIES),
    Mistake("copies-strided-views", lambda t: (t.contiguous().view(-1), False), STRIDED, COPIES),
    Mistake("view-on-noncontiguous", refuses_to_copy, "In the case \"{case}\" the call raised {got}: no view fits "
            "these strides, so here a copy is needed.", COPIES),
    Mistake("copied-flag-wrong", lambda t: (t.reshape(-1), not t.is_contiguous()), FLAG, COPIES),
    Mistake("copied-flag-wrong", lambda t: (t.reshape(-1), False), FLAG, COPIES),
    Mistake("copied-flag-wrong", lambda t: (t.reshape(-1), True), FLAG, COPIES),
    Mistake("copied-flag-wrong", lambda t: (t.reshape(-1), t.is_contiguous()), FLAG, COPIES),
    Mistake("copied-flag-wrong", flag_reversed, FLAG, COPIES),
    Mistake("ignores-strides", lambda t: (t.as_strided((t.numel(),), (1,), t.storage_offset()), False), "For shape "
            "{shape} with strides {stride}, the value at {at} is {got_at} and should be {want_at}: the storage was "
            "read straight on, and t jumps in it.", "Strides: one storage, many views"),
    Mistake("keeps-the-shape", lambda t: (t, False), "The result has shape {got_shape} where one dimension, "
            "{want_shape}, is wanted.", COPIES),
    Mistake("changes-its-input", lambda t: (t.add_(1).reshape(-1), not shares(t.reshape(-1), t)), CHANGED, COPIES),
    Mistake("made-on-cpu", on_the_cpu(lambda t: (t.reshape(-1), not shares(t.reshape(-1), t))), LEFT, ERRORS),
]  # fmt: skip


def more_flatten(draw: Draw) -> list[Case]:
    n, d = draw.size(2, 5), draw.size(3, 7)
    return [
        case("one number", t=draw.normal()),
        case("a block of a matrix", t=draw.normal(n + 2, d + 2)[1:-1, 1:-1]),
        case("a permuted tensor of ones", t=draw.normal(1, n, 1).permute(2, 0, 1)),
        case("dimensions of one between", t=draw.normal(n, 1, d, 1)),
        case("integers, a strided column", t=draw.integers(0, 9, n, d)[:, 0]),
        case("the last dimension in steps", t=draw.normal(n, 2 * d)[:, ::2]),
        case("channels last", t=draw.normal(2, 3, n, d).to(memory_format=torch.channels_last)),
    ]


# --- sliding_windows ---------------------------------------------------------------------------------------------

BY_HAND = "Building a view by hand"
REFUSALS: dict[str, type[Exception]] = {
    "value": ValueError, "assert": AssertionError, "type": TypeError, "index": IndexError, "runtime": RuntimeError,
    "plain": Exception,
}  # fmt: skip


def refuse(what: str, got: int, good: bool, refuses: str, message: str) -> None:
    if not good and refuses != "no":
        texts = {"full": f"{what} is {got}, out of range", "name": f"bad {what}", "value": f"bad {got}"}
        raise REFUSALS[refuses](texts.get(message, "out of range"))


def sliding_windows(
    x: Tensor, size: int, step: int = 1, *, count: str = "right", stride: str = "own", offset: str = "own",
    steps: str = "right", copies: str = "no", turned: bool = False, refuses: str = "value", message: str = "full",
    whole: bool = True,
) -> Any:  # fmt: skip
    refuse("size", size, 1 <= size <= len(x) and (whole or size < len(x)), refuses, message)
    refuse("step", step, step >= 1, refuses, message)
    step = 1 if steps == "ignored" else step
    last = len(x) - size
    number = {
        "right": last // step + 1, "drops": last // step, "past": last // step + 2, "n": len(x) // step,
        "up": -(-last // step) + 1, "every": last + 1, "range": -(-last // step),
    }[count]  # fmt: skip
    if copies != "no":
        windows = [x[i * step : i * step + size] for i in range(number)]
        return windows if copies == "list" else torch.stack(windows)
    along = x.stride(0) if stride == "own" else 1
    begin = x.storage_offset() if offset == "own" else 0
    strides = (along, step * along) if steps == "swapped" else (step * along, along)
    result = x.as_strided((number, size), strides, begin)
    return result.t() if turned else result


COPIED = (
    "In the case \"{case}\" the {what} were {got} where {want} is wanted: the windows are a copy and not a view "
    "of x."
)
SAYS_LITTLE = (
    "In the case \"{case}\" what came was {refused}: the message should say which argument it is, what it got and what "
    "it wants."
)  # fmt: skip
WRONG_KIND = "In the case \"{case}\" a ValueError is wanted; what came was {refused}."
DROPS = "There are {windows} windows and should be {wanted_windows}: the last one, {wanted_last}, still fits."
PAST = (
    "In the case \"{case}\" with n = {n} and step {step}, {wanted_windows} windows fit, the last of them being "
    "{wanted_last}; there were more, and their elements lie past the end of x."
)  # fmt: skip
SLIDING = [
    *slips(
        sliding_windows, BY_HAND,
        copies_data=({"copies": "stack"}, COPIED),
        drops_last_window=({"count": "drops"}, DROPS),
        runs_past_end=({"count": "past"}, PAST),
        ignores_stride=({"stride": "one"}, "The first window is {first} and should be {wanted_first}: neighbours in x "
                        "lie {stride} apart in storage, and a stride of 1 was assumed."),
        ignores_offset=({"offset": "zero"}, "The first window is {first} and should be {wanted_first}: x begins at "
                        "element {offset} of its storage, and the windows begin at 0."),
        bad_arguments_accepted=({"refuses": "no"}, WRONG_KIND),
        message_says_too_little=({"message": "bare"}, SAYS_LITTLE),
    ),
    Mistake("made-on-cpu", with_numpy(sliding_windows), NUMPY_ONLY, ERRORS),
    *apart(slips(
        sliding_windows, BY_HAND,
        ignores_step=({"steps": "ignored"}, "There are {windows} windows and should be {wanted_windows}: with step "
                      "{step}, a window starts {step} entries after the one before it."),
        strides_swapped=({"steps": "swapped"}, "The value at {at} is {got_at} and should be {want_at}: the first "
                         "stride leads to the next window, the second to the next entry of one."),
        rows_and_columns_swapped=({"turned": True}, "The result has shape {got_shape} where {want_shape} is wanted: a "
                                  "window is a row."),
        whole_length_refused=({"whole": False}, "In the case \"{case}\" with n = {n} the call raised {got}: a window "
                              "may be as long as x."),
        wrong_exception=({"refuses": "runtime"}, WRONG_KIND),
    )),
    *variants("returns-a-list", sliding_windows, "In the case \"{case}\" the answer returned {returned}: the windows "
            "together should be a single tensor.", BY_HAND, {"copies": "list"}),
    *variants("drops-last-window", sliding_windows, DROPS, BY_HAND,
              {"count": "range"}, {"count": "range", "copies": "stack"}),
    *variants("runs-past-end", sliding_windows, PAST, BY_HAND, {"count": "n"}, {"count": "up"}, {"count": "every"}),
    *variants("wrong-exception", sliding_windows, WRONG_KIND, BY_HAND,
              {"refuses": "assert"}, {"refuses": "type"}, {"refuses": "index"}, {"refuses": "plain"}),
    *variants("message-says-too-little", sliding_windows, SAYS_LITTLE, BY_HAND,
              {"message": "name"}, {"message": "value"}),
    Mistake("changes-its-input", writing_into(0, sliding_windows), CHANGED, COPIES),
]  # fmt: skip


def more_windows(draw: Draw) -> list[Case]:
    n, size, step = draw.size(12, 20), draw.size(2, 5), draw.size(2, 4)
    common: dict[str, Any] = {"refused": ""}
    return [
        case("drawn size and step", **common, x=draw.normal(n), size=size, step=step),
        case("a step wider than the window", **common, x=draw.normal(n), size=2, step=5),
        case("a strided middle", **common, x=draw.normal(3 * n)[2:-3:3], size=size, step=step),
        case("integers", **common, x=draw.integers(0, 99, n), size=size, step=None),
        case("a negative size", x=draw.normal(n), size=-2, step=1, refused="size"),
        case("size far too large", x=draw.normal(n), size=n + 77, step=2, refused="size"),
    ]


# --- select_scores -----------------------------------------------------------------------------------------------

INDEXING = "Indexing"


def at_labels(scores: Tensor, labels: Tensor) -> Tensor:
    return scores.gather(1, labels[:, None])[:, 0]


def select_loop(scores: Tensor, labels: Tensor) -> Tensor:
    return torch.stack([row[label] for row, label in zip(scores, labels, strict=True)])


def select_loop_filling_zeros(scores: Tensor, labels: Tensor) -> Tensor:
    result = torch.zeros(len(labels))
    for i, label in enumerate(labels):
        result[i] = scores[i, label]
    return result


def select_with_lists(scores: Tensor, labels: Tensor) -> Tensor:
    return scores[list(range(len(labels))), labels.tolist()]


def select_numbers(
    scores: Tensor, labels: Tensor, *, lists: bool = False, cpu: bool = False, float32: bool = False
) -> Tensor:
    rows, places = (scores.tolist(), labels.tolist()) if lists else (scores, labels)
    picked = [row[place] if lists else row[place].item() for row, place in zip(rows, places, strict=True)]
    return torch.tensor(
        picked, dtype=torch.float32 if float32 else scores.dtype, device="cpu" if cpu else scores.device
    )


def select_in_numpy(scores: Tensor, labels: Tensor) -> Tensor:
    array = scores.detach().cpu().numpy()
    return torch.from_numpy(array[np.arange(len(labels)), labels.cpu().numpy()]).to(scores.device)


def swapped_indices(scores: Tensor, labels: Tensor) -> Tensor:
    return scores[labels, torch.arange(len(labels), device=labels.device)]


DETACHED = (
    "In the case \"{case}\", `{what}` is {got} where {want} is wanted: the result is cut off from scores, so no "
    "gradient flows back."
)
OUT_OF_NUMBERS = (
    "In the case \"{case}\", `{what}` is {got} where {want} is wanted: a tensor made from numbers of Python or NumPy "
    "is cut off from scores, so no gradient flows back."
)
SELECT = [
    Mistake("selects-rows", lambda scores, labels: scores[labels], "The result has shape {got_shape} where "
            "{want_shape} is wanted: `scores[labels]` picks whole rows, one for each label.", INDEXING),
    Mistake("selects-columns", lambda scores, labels: scores[:, labels], "The result has shape {got_shape} where "
            "{want_shape} is wanted: every row was read at every label, not each at its own.", INDEXING),
    Mistake("python-loop", select_loop, LOOP, INDEXING),
    Mistake("python-loop", select_loop_filling_zeros, LOOP, INDEXING),
    Mistake("python-loop", select_with_lists, HANDED, INDEXING),
    Mistake("detached", lambda scores, labels: at_labels(scores.detach(), labels), DETACHED, INDEXING),
    Mistake("detached", lambda scores, labels: at_labels(scores.detach(), labels).requires_grad_(), DETACHED, INDEXING),
    Mistake("detached", lambda scores, labels: at_labels(torch.tensor(scores.tolist()), labels), OUT_OF_NUMBERS,
            INDEXING),
    *variants("detached", select_numbers, OUT_OF_NUMBERS, INDEXING,
              {}, {"float32": True}, {"cpu": True, "float32": True},
              {"lists": True}, {"lists": True, "float32": True}, {"lists": True, "cpu": True, "float32": True}),
    Mistake("detached", select_in_numpy, OUT_OF_NUMBERS, INDEXING),
    Mistake("detached", on_the_cpu(select_in_numpy), OUT_OF_NUMBERS, INDEXING),
    Mistake("detached", lambda scores, labels: scores.detach().cpu()[torch.arange(len(labels)), labels], DETACHED,
            INDEXING),
    Mistake("dimension-left-over", lambda scores, labels: scores.gather(1, labels[:, None]), "The result has shape "
            "{got_shape} where {want_shape} is wanted: `gather` keeps the dimension that it picked along.", INDEXING),
    Mistake("squeezes-batch-of-one", lambda scores, labels: scores.gather(1, labels[:, None]).squeeze(), "In the case "
            "\"{case}\" the result has shape {got_shape} where {want_shape} is wanted: a bare `squeeze` takes every "
            "dimension of one.", ONES),
    Mistake("gathers-along-rows", lambda scores, labels: scores.gather(0, labels[:, None])[:, 0], "In the case "
            "\"{case}\" the value at {at} is {got_at} and should be {want_at}: along dimension 0 the labels were taken "
            "for rows.", INDEXING),
    Mistake("indices-swapped", swapped_indices, "In the case \"{case}\" the value at {at} is {got_at} and should be "
            "{want_at}: the first index is the row, the second the column.", INDEXING),
    Mistake("indexes-the-flat-tensor", lambda scores, labels: scores.take(labels), "The value at {at} is {got_at} and "
            "should be {want_at}: `take` counts through the whole tensor, where a label counts within its row.",
            INDEXING),
    Mistake("largest-score", lambda scores, _labels: scores.amax(1), "The value at {at} is {got_at} and should be "
            "{want_at}: the largest score of the row was taken, not the one at the label.", INDEXING),
    *(m for m in with_floats(at_labels, 0) if m.sentence is not NUMPY_ONLY),
]  # fmt: skip


def more_select(draw: Draw) -> list[Case]:
    n, c = draw.size(3, 9), draw.size(2, 9)
    scores = draw.normal(c, n).t().requires_grad_()
    return [
        case("a transposed matrix", scores=scores, labels=draw.integers(0, c, n), weights=draw.normal(n)),
        case("a single class", scores=draw.normal(n, 1).requires_grad_(), labels=draw.integers(0, 1, n),
             weights=draw.normal(n)),
        case("one label only", scores=draw.normal(n, c).requires_grad_(), labels=torch.full((n,), c - 1),
             weights=draw.normal(n)),
    ]  # fmt: skip


# --- masked_mean -------------------------------------------------------------------------------------------------

MASKS = "Masks"


def masked_mean(
    x: Tensor, mask: Tensor, *, by: str = "count", clamp: bool = True, leaks: bool = False, inverted: str = "no",
    in_place: bool = False, keepdim: bool = False,
) -> Tensor:  # fmt: skip
    real = ~mask[..., None] if inverted in ("both", "sum") else mask[..., None]
    if in_place:
        x.masked_fill_(~real, 0)
    total = (x * real).sum(1, keepdim=keepdim) if leaks else x.masked_fill(~real, 0).sum(1, keepdim=keepdim)
    counted = ~mask if inverted in ("both", "count") else mask
    count = counted[..., None].sum(1, keepdim=keepdim)
    count = count.clamp(min=1) if clamp else count
    below: dict[str, Any] = {
        "count": count, "length": x.shape[1], "nothing": 1, "all": mask.sum().clamp(min=1), "one more": count + 1,
        "row": mask.sum(1).clamp(min=1),
    }  # fmt: skip
    mean: Tensor = total / below[by]
    return mean


def mask_unused(x: Tensor, _mask: Tensor) -> Tensor:
    return x.mean(1)


def over_all_examples(x: Tensor, mask: Tensor) -> Tensor:
    return x[mask].mean(0)


def nan_replaced_afterwards(x: Tensor, mask: Tensor) -> Tensor:
    return masked_mean(x, mask, leaks=True, clamp=False).nan_to_num(0.0)


def nan_replaced_before(x: Tensor, mask: Tensor) -> Tensor:
    return masked_mean(x.nan_to_num(0.0, 0.0, 0.0), mask, leaks=True, clamp=False)


def first_steps(x: Tensor, mask: Tensor) -> Tensor:
    counts = mask.sum(1, keepdim=True)
    return masked_mean(x, torch.arange(mask.shape[1], device=mask.device) < counts)


def loop_on_the_cpu(x: Tensor, mask: Tensor) -> Tensor:
    result = torch.zeros(x.shape[0], x.shape[2])
    for i in range(len(x)):
        if mask[i].any():
            result[i] = x[i][mask[i]].mean(0)
    return result


def unused_nan(x: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask.any(1, keepdim=True), nan_replaced_before(x, mask), 0.0)


ON_EMPTY = "Row {row} has {real} real steps and came out as {got_row}: 0 / 0 is NaN, and zeros are wanted."
INVERTED = (
    "Row {row} came out as {got_row} and should be {want_row}: the padding was taken for what is real; here True marks "
    "the real steps."
)
MASKED_MEAN = [
    *slips(
        masked_mean, MASKS,
        divides_by_length=({"by": "length"}, "Row {row} came out as {got_row} and should be {want_row}: its sum was "
                           "divided by all {length} steps, of which only {real} are real."),
        nan_on_empty=({"clamp": False}, ON_EMPTY),
        masked_values_leak=({"leaks": True}, "Row {row} came out as {got_row} and should be {want_row}: padding held "
                            "NaN or inf, and NaN * 0 and inf * 0 are NaN, not 0."),
        mask_inverted=({"inverted": "both"}, INVERTED),
        changes_its_input=({"in_place": True}, CHANGED),
    ),
    *apart(slips(
        masked_mean, MASKS,
        not_divided=({"by": "nothing"}, "Row {row} came out as {got_row} and should be {want_row}: that is the sum of "
                     "its {real} real steps, not their mean."),
        divides_by_total_count=({"by": "all"}, "Row {row} came out as {got_row} and should be {want_row}: it was "
                                "divided by the number of real steps in the whole batch, of which {real} are its own."),
        divides_by_one_too_many=({"by": "one more"}, "Row {row} came out as {got_row} and should be {want_row}: it has "
                                 "{real} real steps, and was divided by one more."),
        count_along_the_wrong_axis=({"by": "row"}, "In the case \"{case}\" row {row} came out as {got_row} and should "
                                    "be {want_row}: counts of shape (b,) line up with the features, those of shape (b, "
                                    "1) with the examples."),
        dimension_left_over=({"keepdim": True}, "The result has shape {got_shape} where {want_shape} is wanted: with "
                             "keepdim the dimension of the steps stays, with size one."),
    )),
    *variants("mask-inverted", masked_mean, INVERTED, MASKS, {"inverted": "sum"}, {"inverted": "count"}),
    Mistake("mask-unused", mask_unused, "Row {row} came out as {got_row} and should be {want_row}: all {length} steps "
            "were averaged, of which only {real} are real.", MASKS),
    Mistake("examples-mixed", over_all_examples, "The result has shape {got_shape} where {want_shape} is wanted: "
            "indexing with a mask forgets which step belongs to which example.", MASKS),
    Mistake("masked-values-leak", nan_replaced_afterwards, "Row {row} came out as {got_row} and should be {want_row}: "
            "replacing a NaN in the result does not bring back the sum that it swallowed.", MASKS),
    Mistake("first-steps-assumed", first_steps, "In the case \"{case}\" row {row} came out as {got_row} and should be "
            "{want_row}: the first {real} steps were averaged, where the mask picks others.", MASKS),
    Mistake("gradient-not-finite", unused_nan, "In the case \"{case}\" the values are right, but the {what} is {got}: "
            "`where` drops the 0 / 0 of a row, and its gradient is 0 times inf all the same.", MASKS),
    Mistake("made-on-cpu", loop_on_the_cpu, LEFT, ERRORS),
    Mistake("nan-on-empty", nan_replaced_before, ON_EMPTY, MASKS),
    *(m for m in with_floats(masked_mean) if m.name != "changes-its-input"),
]  # fmt: skip


def more_masked(draw: Draw) -> list[Case]:
    b, t, d = draw.size(2, 5), draw.size(2, 7), draw.size(1, 5)
    mask = draw.flags(b, t)
    return [
        case("a drawn mask", x=draw.normal(b, t, d), mask=mask),
        case("-inf in the padding", x=draw.normal(b, t, d).masked_fill(~mask[..., None], -torch.inf), mask=mask),
        case("nothing is real", x=torch.full((b, t, d), torch.nan), mask=torch.zeros(b, t, dtype=torch.bool)),
        case("one step", x=draw.normal(b, 1, d), mask=draw.flags(b, 1)),
        case("a transposed batch", x=draw.normal(t, b, d).transpose(0, 1), mask=mask),
    ]


# --- one_hot -----------------------------------------------------------------------------------------------------


def one_hot(
    labels: Tensor, num_classes: int, dtype: torch.dtype = torch.float32, *, on_cpu: bool = False,
    refuses: str = "value", ends: str = "both", message: str = "full", kind: torch.dtype | None = None,
    shape: str = "own",
) -> Tensor:  # fmt: skip
    low, high = (labels < 0) & (ends in ("both", "below")), (labels >= num_classes) & (ends in ("both", "above"))
    bad = labels[low | high]
    refuse("labels", int(bad[0]) if len(bad) else 0, not len(bad), refuses, message)
    classes = torch.arange(num_classes, device=None if on_cpu else labels.device)
    if shape == "width of the labels":
        classes = classes[: int(labels.max()) + 1] if labels.numel() else classes
    if shape == "classes first":
        hot = labels == classes.view(-1, *[1] * labels.ndim)
    else:
        hot = (labels.flatten() if shape == "flat" else labels).unsqueeze(1 if shape == "vectors" else -1) == classes
    return hot.to(kind or dtype)


def scattered_on_cpu(labels: Tensor, num_classes: int, dtype: torch.dtype = torch.float32) -> Tensor:
    if labels.numel() and (labels.min() < 0 or labels.max() >= num_classes):
        raise ValueError(f"labels holds {int(labels.min())} to {int(labels.max())}, wanted 0 to {num_classes - 1}")
    return torch.zeros(*labels.shape, num_classes, dtype=dtype).scatter_(-1, labels.unsqueeze(-1), 1)


def scattered_unchecked(labels: Tensor, num_classes: int, dtype: torch.dtype = torch.float32) -> Tensor:
    zeros = torch.zeros(*labels.shape, num_classes, dtype=dtype, device=labels.device)
    return zeros.scatter_(-1, labels.unsqueeze(-1), 1)


def indexed_unchecked(labels: Tensor, num_classes: int, dtype: torch.dtype = torch.float32) -> Tensor:
    zeros = torch.zeros(labels.numel(), num_classes, dtype=dtype, device=labels.device)
    zeros[torch.arange(labels.numel(), device=labels.device), labels.flatten()] = 1
    return zeros.view(*labels.shape, num_classes)


def only_vectors(labels: Tensor, num_classes: int, dtype: torch.dtype = torch.float32) -> Tensor:
    one_hot(labels, num_classes)
    zeros = torch.zeros(len(labels), num_classes, dtype=dtype, device=labels.device)
    zeros[torch.arange(len(labels), device=labels.device), labels] = 1
    return zeros


def fails_without_labels(labels: Tensor, num_classes: int, dtype: torch.dtype = torch.float32) -> Tensor:
    if labels.min() < 0 or labels.max() >= num_classes:
        raise ValueError(f"labels holds {int(labels.min())} to {int(labels.max())}, wanted 0 to {num_classes - 1}")
    return (labels.unsqueeze(-1) == torch.arange(num_classes, device=labels.device)).to(dtype)


def unsqueezed_in_place(labels: Tensor, num_classes: int, dtype: torch.dtype = torch.float32) -> Tensor:
    one_hot(labels, num_classes)
    return (labels.unsqueeze_(-1) == torch.arange(num_classes, device=labels.device)).to(dtype)


ACCEPTED = "With {bad} among the labels, a ValueError is wanted; what came was {refused}."
WIDTH = (
    "In the case \"{case}\" the result has shape {got_shape} where {want_shape} is wanted: the labels that occur do "
    "not say how many classes there are, num_classes does."
)
NO_DTYPE = "The result is {got_dtype} where {want_dtype} is wanted: the argument `dtype` was not used."
VECTORS = (
    "In the case \"{case}\" the outcome was {got}: labels may have any number of dimensions, and the classes come "
    "after all of them."
)
ONE_HOT = [
    Mistake("made-on-cpu", one_hot, MIXED, ERRORS, {"on_cpu": True}),
    Mistake("made-on-cpu", scattered_on_cpu, MIXED, ERRORS),
    Mistake("made-on-cpu", on_the_cpu(one_hot), LEFT, ERRORS),
    *slips(
        one_hot, INDEXING,
        out_of_range_accepted=({"refuses": "no"}, ACCEPTED),
        message_says_too_little=({"message": "bare"}, SAYS_LITTLE),
        dtype_ignored=({"kind": torch.float32}, NO_DTYPE),
        shape_flattened=({"shape": "flat"}, "The result has shape {got_shape} where {want_shape} is wanted: the "
                         "labels' own shape was flattened away."),
    ),
    *apart(slips(
        one_hot, INDEXING,
        classes_first=({"shape": "classes first"}, "In the case \"{case}\" the result has shape {got_shape} where "
                       "{want_shape} is wanted: the classes are the last dimension."),
        width_from_labels=({"shape": "width of the labels"}, WIDTH),
        only_vectors=({"shape": "vectors"}, VECTORS),
    )),
    Mistake("out-of-range-accepted", one_hot, ACCEPTED, INDEXING, {"ends": "above"}),
    Mistake("out-of-range-accepted", one_hot, ACCEPTED, INDEXING, {"ends": "below"}),
    Mistake("out-of-range-accepted", indexed_unchecked, ACCEPTED, INDEXING),
    *variants("dtype-ignored", one_hot, NO_DTYPE, INDEXING, {"kind": torch.int64}, {"kind": torch.bool}),
    Mistake("width-from-labels", lambda labels, num_classes, dtype=torch.float32: one_hot(labels, num_classes, dtype)[
            ..., labels.unique()], WIDTH, INDEXING),
    Mistake("only-vectors", only_vectors, VECTORS, INDEXING),
    *variants("message-says-too-little", one_hot, SAYS_LITTLE, INDEXING, {"message": "name"}, {"message": "value"}),
    *variants("wrong-exception", one_hot, ACCEPTED, INDEXING,
              {"refuses": "index"}, {"refuses": "assert"}, {"refuses": "type"}, {"refuses": "plain"}),
    Mistake("wrong-exception", scattered_unchecked, ACCEPTED, INDEXING),
    Mistake("fails-without-labels", fails_without_labels, "In the case \"{case}\" the call raised {got}: `min` and "
            "`max` have no answer for an empty tensor.", INDEXING),
    Mistake("changes-its-input", unsqueezed_in_place, CHANGED, COPIES),
]  # fmt: skip


def more_one_hot(draw: Draw) -> list[Case]:
    n, c = draw.size(2, 8), draw.size(2, 9)
    bad = draw.integers(0, c, 3, n)
    bad[1, 0] = c + 7
    return [
        case("three dimensions", labels=draw.integers(0, c, 2, 3, n), num_classes=c, dtype=torch.float64, refused=""),
        case("bool", labels=draw.integers(0, c, n), num_classes=c, dtype=torch.bool, refused=""),
        case("a single class", labels=torch.zeros(n, dtype=torch.int64), num_classes=1, dtype=None, refused=""),
        case("transposed labels", labels=draw.integers(0, c, 4, n).t(), num_classes=c, dtype=None, refused=""),
        case("a bad label in a matrix", labels=bad, num_classes=c, dtype=None, refused=str(c + 7)),
        case("a very negative label", labels=torch.tensor(-c), num_classes=c, dtype=None, refused=str(-c)),
    ]


# --- to_numpy ----------------------------------------------------------------------------------------------------

NUMPY = "NumPy"


def to_numpy(
    t: Tensor, *, detach: str = "yes", cpu: bool = True, resolve: str = "both", copies: bool = False,
    bfloat16: torch.dtype | None = torch.float32,
) -> np.ndarray[Any, Any]:  # fmt: skip
    if detach == "in place":
        t.requires_grad_(False)
    t = t.detach() if detach == "yes" else t
    t = t.cpu() if cpu else t
    t = t.resolve_conj() if resolve in ("both", "conj") else t
    t = t.resolve_neg() if resolve in ("both", "neg") else t
    if t.dtype == torch.bfloat16 and bfloat16:
        t = t.to(bfloat16)
    array: np.ndarray[Any, Any] = t.numpy()
    return array.copy() if copies else array


def through_float32(t: Tensor) -> np.ndarray[Any, Any]:
    array: np.ndarray[Any, Any] = t.detach().cpu().resolve_conj().resolve_neg().to(torch.float32).numpy()
    return array


def floats_through_float32(t: Tensor) -> np.ndarray[Any, Any]:
    return through_float32(t) if t.is_floating_point() else to_numpy(t)


def from_a_list(t: Tensor) -> np.ndarray[Any, Any]:
    return np.array(t.tolist())


def made_contiguous(t: Tensor) -> np.ndarray[Any, Any]:
    return np.ascontiguousarray(to_numpy(t)).reshape(t.shape)


NO_DETACH = (
    "In the case \"{case}\" the call raised {grad_error}: a tensor that requires grad has to leave the graph "
    "first."
)
NO_CPU = (
    "On the second device the call raised {device_error}: NumPy reads host memory, so the tensor has to be copied "
    "there first."
)
UNRESOLVED = (
    "In the case \"{case}\" the call raised {bit_error}: the view has not flipped its signs in memory yet, and NumPy "
    "would not know."
)
COPIED_ARRAY = (
    "In the case \"{case}\" t was changed afterwards and the array did not follow, its first entry being {kept_entry}: "
    "it is a copy where memory could have been shared."
)
AS_FLOAT32 = "An array of {seen_dtype} came out where {wanted_dtype} is wanted: only bfloat16 needs another dtype."
NOTHING: dict[str, Any] = {"resolve": "none", "bfloat16": None}
TO_NUMPY = [
    *slips(
        to_numpy, NUMPY,
        no_detach=({"detach": "no"}, NO_DETACH),
        no_cpu=({"cpu": False}, NO_CPU),
        bfloat16_unsupported=({"bfloat16": None}, "In the case \"{case}\" the call raised {scalar_error}: NumPy has no "
                              "bfloat16, so it has to become float32 first."),
        always_copies=({"copies": True}, COPIED_ARRAY),
    ),
    *apart(slips(
        to_numpy, NUMPY,
        conjugate_view_unresolved=({"resolve": "neg"}, UNRESOLVED),
        negative_view_unresolved=({"resolve": "conj"}, UNRESOLVED),
        bfloat16_as_float16=({"bfloat16": torch.float16}, "A bfloat16 tensor came out as {seen_dtype} where "
                             "{wanted_dtype} is wanted: float16 has the bits, but not the range."),
        bfloat16_as_float64=({"bfloat16": torch.float64}, "A bfloat16 tensor came out as {seen_dtype} where "
                             "{wanted_dtype} is wanted: float32 already holds each of its values."),
        changes_requires_grad=({"detach": "in place"}, "After the call `{what}` was {got} and should be {want}: the "
                               "caller's own tensor was cut off, where `detach()` gives a second one that is."),
    )),
    Mistake("conjugate-view-unresolved", to_numpy, UNRESOLVED, NUMPY, {"resolve": "none"}),
    *variants("no-detach", to_numpy, NO_DETACH, NUMPY,
              {"detach": "no", **NOTHING}, {"detach": "no", "cpu": False, **NOTHING}),
    *variants("no-cpu", to_numpy, NO_CPU, NUMPY, {"cpu": False, **NOTHING}),
    Mistake("always-copies", made_contiguous, COPIED_ARRAY, NUMPY),
    Mistake("everything-as-float32", through_float32, AS_FLOAT32, NUMPY),
    Mistake("everything-as-float32", floats_through_float32, AS_FLOAT32, NUMPY),
    Mistake("everything-as-float32", lambda t: through_float32(t).copy(), AS_FLOAT32, NUMPY),
    Mistake("built-from-a-list", from_a_list, "In the case \"{case}\" an array of {seen_dtype} came out where "
            "{wanted_dtype} is wanted: numbers of Python remember neither the dtype nor the memory.", NUMPY),
]  # fmt: skip


def more_to_numpy(draw: Draw) -> list[Case]:
    n = draw.size(2, 6)
    common: dict[str, Any] = {"negative": False}
    waves = torch.complex(draw.normal(n, 2), draw.normal(n, 2))
    return [
        case("float16", **common, t=draw.normal(n, dtype=torch.float16)),
        case("complex", **common, t=waves),
        case("a conjugate transpose", **common, t=waves.mH),
        case("the imaginary part of a conjugate", **common, t=waves.conj().imag),
        case("uint8, strided", **common, t=draw.integers(0, 256, 2 * n, dtype=torch.uint8)[::2]),
        case("float64, part of a larger tensor", **common, t=draw.normal(n, 5, dtype=torch.float64)[1:, 2:]),
        case("bfloat16 that requires grad", **common, t=draw.normal(n, dtype=torch.bfloat16).requires_grad_()),
        case("no elements", **common, t=torch.empty(0, 3)),
    ]


# --- attention_scores --------------------------------------------------------------------------------------------

EINSUM = "einsum"


def attention_scores(
    q: Tensor, k: Tensor, *, scale: str = "root", transpose: str = "right", soft: bool = False
) -> Tensor:
    b, h, t, d = q.shape
    turns: dict[str, Callable[[], Tensor]] = {
        "right": lambda: k.transpose(-2, -1), "reshape": lambda: k.reshape(b, h, d, -1), "none": lambda: k,
        "all": lambda: k.permute(3, 2, 1, 0), "heads": lambda: k.transpose(1, 2), "ends": lambda: k.transpose(1, 3),
    }  # fmt: skip
    scores = q @ turns[transpose if transpose in turns else "right"]()
    if transpose == "result":
        scores = scores.transpose(-2, -1)
    below: float = {
        "root": d**0.5, "d": float(d), "none": 1.0, "keys": k.shape[-2] ** 0.5, "times": d**-0.5, "heads": h**0.5,
        "queries": t**0.5, "width": (h * d) ** 0.5,
    }[scale]  # fmt: skip
    return (scores / below).softmax(-1) if soft else scores / below


def each_with_its_own(q: Tensor, k: Tensor) -> Tensor:
    return (q * k).sum(-1) / math.sqrt(q.shape[-1])


def summed_over_heads(q: Tensor, k: Tensor) -> Tensor:
    return attention_scores(q, k).sum(1)


WRONG_TRANSPOSE = (
    "In the case \"{case}\", the scores came out as {got} where {want} is wanted: for every query there should be a "
    "row, and in it one score for every key."
)  # fmt: skip
WRONG_SIZE = (
    "The scores are {ratio} times as large as wanted: they were divided by the root of another size than the number of "
    "features, {d}."
)
ATTENTION = [
    *slips(
        attention_scores, EINSUM,
        not_scaled=({"scale": "none"}, "The scores are {ratio} times as large as wanted, which is the root of d = {d}: "
                    "the division is missing."),
        scaled_by_d=({"scale": "d"}, "The scores are {ratio} times as large as wanted: they were divided by d = {d} "
                     "and not by its root, {root}."),
        softmax_applied=({"soft": True}, "The value at {at} is {got_at} and should be {want_at}: a softmax was "
                         "applied, and the scores before it are wanted."),
        keys_reshaped=({"transpose": "reshape"}, "The value at {at} is {got_at} and should be {want_at}, though the "
                       "shape is right: reshaping k deals its elements out anew, transposing it swaps its axes."),
    ),
    *apart(slips(
        attention_scores, EINSUM,
        multiplied_by_root=({"scale": "times"}, "The scores are {ratio} times as large as wanted: they were multiplied "
                            "by the root of d = {d} where they should be divided by it."),
        scaled_by_another_size=({"scale": "keys"}, WRONG_SIZE),
    )),
    *variants("scaled-by-another-size", attention_scores, WRONG_SIZE, EINSUM,
              {"scale": "heads"}, {"scale": "queries"}, {"scale": "width"}),
    Mistake("wrong-transpose", attention_scores, WRONG_TRANSPOSE, EINSUM, {"transpose": "result"}),
    Mistake("wrong-transpose", attention_scores, WRONG_TRANSPOSE, EINSUM, {"transpose": "none"}),
    Mistake("wrong-transpose", lambda q, k: torch.einsum("bhtd,bhds->bhts", q, k) / q.shape[-1] ** 0.5, WRONG_TRANSPOSE,
            EINSUM),
    *variants("wrong-transpose", attention_scores, WRONG_TRANSPOSE, EINSUM,
              {"transpose": "all"}, {"transpose": "heads"}, {"transpose": "ends"}),
    Mistake("wrong-transpose", lambda q, k: q.transpose(-2, -1) @ k / q.shape[-1] ** 0.5, WRONG_TRANSPOSE, EINSUM),
    Mistake("each-with-its-own", each_with_its_own, "In the case \"{case}\" the result has shape {got_shape} where "
            "{want_shape} is wanted: query i only met key i, and not every key.", EINSUM),
    Mistake("heads-summed", summed_over_heads, "The result has shape {got_shape} where {want_shape} is wanted: the "
            "scores of all heads were added up, and each head keeps its own.", EINSUM),
    *with_floats(attention_scores, 2),
]  # fmt: skip


def more_attention(draw: Draw) -> list[Case]:
    b, h, t, s, d = (draw.size(1, 5) for _ in range(5))
    return [
        case("drawn sizes", q=draw.normal(b, h, t, d), k=draw.normal(b, h, s, d)),
        case("one feature", q=draw.normal(b, h, t, 1), k=draw.normal(b, h, s, 1)),
        case("one key", q=draw.normal(b, h, t, d), k=draw.normal(b, h, 1, d)),
        case("the same tensor twice, with a stride", q=draw.normal(b, h, t, 2 * d)[..., ::2],
             k=draw.normal(b, h, s, 2 * d)[..., ::2]),
    ]  # fmt: skip


MISTAKES: dict[str, list[Mistake]] = {
    "describe": DESCRIBE,
    "image_to_chw": IMAGE_TO_CHW,
    "pairwise_distances": PAIRWISE,
    "standardize": STANDARDIZE,
    "row_softmax": ROW_SOFTMAX,
    "flatten_reporting": FLATTEN,
    "sliding_windows": SLIDING,
    "select_scores": SELECT,
    "masked_mean": MASKED_MEAN,
    "one_hot": ONE_HOT,
    "to_numpy": TO_NUMPY,
    "attention_scores": ATTENTION,
}

MORE_CASES = {
    "describe": more_describe,
    "image_to_chw": more_image,
    "pairwise_distances": more_pairwise,
    "standardize": more_standardize,
    "row_softmax": more_softmax,
    "flatten_reporting": more_flatten,
    "sliding_windows": more_windows,
    "select_scores": more_select,
    "masked_mean": more_masked,
    "one_hot": more_one_hot,
    "to_numpy": more_to_numpy,
    "attention_scores": more_attention,
}
