"""Lesson 01: hidden cases and known mistakes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from autograde.mistakes import Mistake, slips
from torchcourse.exercise import Case, Draw, case

# --- describe ----------------------------------------------------------------------------------------------------

WHAT = "What a tensor is"


def describe(
    t: Tensor, *, size: str = "numel", nbytes: str = "own", shape: str = "tuple", device: str = "text",
    contiguous: str = "flag", dtype: str = "dtype",
) -> dict[str, Any]:  # fmt: skip
    sizes = {"own": t.numel() * t.element_size(), "storage": t.untyped_storage().nbytes(), "item": t.element_size()}
    return {
        "shape": list(t.shape) if shape == "list" else tuple(t.shape),
        "dtype": t.dtype if dtype == "dtype" else str(t.dtype),
        "device": str(t.device) if device == "text" else t.device,
        "ndim": t.ndim,
        "numel": t.numel() if size == "numel" else len(t),
        "contiguous": t.is_contiguous() if contiguous == "flag" else t.is_contiguous,
        "nbytes": sizes[nbytes],
    }


DESCRIBE = slips(
    describe, WHAT,
    len_is_not_numel=({"size": "len"}, "`numel` came out as {got} where the tensor of shape {shape} has {want} elements: "
                      "`len` counts only the first dimension, and a tensor of no dimensions has none to count."),
    nbytes_counts_storage=({"nbytes": "storage"}, "`nbytes` came out as {got} where the elements of this view take {want}: "
                           "the storage behind it is larger than what the view shows."),
    nbytes_of_one_element=({"nbytes": "item"}, "`nbytes` came out as {got}, which is what a single element takes; all of "
                           "them together take {want}."),
    shape_is_a_list=({"shape": "list"}, "`shape` came out as the list {got} where a tuple, {want}, is wanted."),
    device_is_no_string=({"device": "object"}, "`device` came out as {got}, a device object, where its name as a string "
                         "is wanted."),
    method_not_called=({"contiguous": "method"}, "`contiguous` came out as {got} and not as True or False: a method was "
                       "named, but not called."),
    dtype_is_a_string=({"dtype": "text"}, "`dtype` came out as a string, {got}, where the torch.dtype itself is wanted."),
)  # fmt: skip


def more_describe(draw: Draw) -> list[Case]:
    base = draw.normal(4, 6, dtype=draw.pick([torch.float16, torch.float32]))
    return [
        case("a diagonal", t=base.as_strided((4,), (7,))),
        case("every third element", t=draw.integers(0, 9, 20, dtype=torch.int16)[::3]),
        case("four dimensions", t=draw.flags(2, 1, draw.size(2, 4), 3)),
        case("complex", t=torch.complex(draw.normal(3), draw.normal(3))),
    ]


# --- image_to_chw ------------------------------------------------------------------------------------------------

IMAGES = "Images: channels first"


def image_to_chw(
    image: Tensor, *, move: str = "movedim", divisor: float = 255.0, contiguous: bool = True, batch: bool = True,
    dtype: torch.dtype = torch.float32,
) -> Tensor:  # fmt: skip
    if move == "reshape":
        *lead, height, width, channels = image.shape
        moved = image.reshape(*lead, channels, height, width)
    elif move == "swap":
        moved = image.transpose(-3, -1)
    elif not batch:
        moved = image.permute(2, 0, 1)
    else:
        moved = image.movedim(-1, -3)
    result = moved.to(dtype) / divisor if divisor != 1.0 else moved.to(dtype)
    return result.contiguous() if contiguous else result


def first_dimension_ignored(image: Tensor) -> Tensor:
    return (image.movedim(2, 0) / 255).contiguous()


BATCH = (
    "For a batch the outcome was {got}: the dimensions were counted from the front, where a batch puts one "
    "more; counted from the end they stay the same."
)
IMAGE_TO_CHW = [
    *slips(
        image_to_chw, IMAGES,
        reshaped_not_permuted=({"move": "reshape"}, "The value at {at} is {got_at} and should be {want_at}, though the "
                               "shape is right: reshaping deals the pixels out anew, permuting moves the channels."),
        not_scaled=({"divisor": 1.0}, "The value at {at} is {got_at} and should be {want_at}: the bytes became floats, "
                    "but were not brought from 0..255 to 0..1."),
        scaled_by_256=({"divisor": 256.0}, "The value at {at} is {got_at} and should be {want_at}: the largest byte is "
                       "255, so 255 has to become 1."),
        not_contiguous=({"contiguous": False}, "`is_contiguous()` of the result is {got}: a permuted view keeps the old "
                        "order in memory until it is copied."),
        height_and_width_swapped=({"move": "swap"}, "The result has shape {got_shape} where {want_shape} is wanted: "
                                  "swapping two dimensions turned height and width round as well."),
        returns_float64=({"dtype": torch.float64}, "The result is {got_dtype} where {want_dtype} is wanted."),
    ),
    Mistake("batch-ignored", image_to_chw, BATCH, IMAGES, {"batch": False}),
    Mistake("batch-ignored", first_dimension_ignored, BATCH, IMAGES),
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


def elementwise(a: Tensor, b: Tensor) -> Tensor:
    return ((a - b) ** 2).sum(-1).sqrt()


def squared(a: Tensor, b: Tensor) -> Tensor:
    return ((a[:, None] - b[None]) ** 2).sum(-1)


def loop(a: Tensor, b: Tensor) -> Tensor:
    return torch.stack([torch.stack([((x - y) ** 2).sum().sqrt() for y in b]) for x in a])


def loop_over_rows(a: Tensor, b: Tensor) -> Tensor:
    return torch.stack([((row - b) ** 2).sum(-1).sqrt() for row in a])


def expanded_square(a: Tensor, b: Tensor) -> Tensor:
    return (((a * a).sum(-1)[:, None] + (b * b).sum(-1)) - 2 * a @ b.T).sqrt()


def city_block(a: Tensor, b: Tensor) -> Tensor:
    return (a[:, None] - b[None]).abs().sum(-1)


def other_way_round(a: Tensor, b: Tensor) -> Tensor:
    return squared(b, a).sqrt()


LOOP = (
    "The result is right, but the number of torch calls {got}: a Python loop pays for each row what broadcasting pays once."
)
PAIRWISE = [
    Mistake("elementwise-not-pairwise", elementwise, "The result has shape {got_shape} where {want_shape} is wanted: row i "
            "of a was only compared with row i of b.", PAIRS),
    Mistake("squared-not-rooted", squared, "The value at {at} is {got_at} and should be {want_at}: the first is the square "
            "of the second, so the root is missing.", PAIRS),
    Mistake("python-loop", loop, LOOP, PAIRS),
    Mistake("python-loop", loop_over_rows, LOOP, PAIRS),
    Mistake("nan-at-equal-points", expanded_square, "The result is {got}: for equal points a·a + b·b - 2 a·b can round to "
            "a number just below zero, and its root is NaN.", PAIRS),
    Mistake("city-block-distance", city_block, "The value at {at} is {got_at} and should be {want_at}: absolute differences "
            "were added up, squares were not.", PAIRS),
    Mistake("rows-and-columns-swapped", other_way_round, "The result has shape {got_shape} where {want_shape} is wanted: "
            "rows belong to a, columns to b.", PAIRS),
]  # fmt: skip


def more_pairwise(draw: Draw) -> list[Case]:
    n, m, d = draw.size(2, 12), draw.size(2, 12), draw.size(1, 9)
    base = draw.normal(n, d)
    return [
        case("one dimension", rtol=1e-3, atol=1e-3, a=draw.normal(n, 1), b=draw.normal(m, 1)),
        case("some points in common", rtol=1e-3, atol=0.03, a=base, b=torch.cat([base[:1], draw.normal(m, d)])),
        case("transposed inputs", rtol=1e-3, atol=1e-3, a=draw.normal(d, n).t(), b=draw.normal(d, m).t()),
        case("tiny numbers", rtol=1e-2, atol=1e-9, a=1e-6 * draw.normal(n, d), b=5e-6 + 1e-6 * draw.normal(m, d)),
        case("large numbers", rtol=1e-3, atol=10.0, a=1e6 * draw.normal(n, d), b=1e6 * draw.normal(m, d)),
    ]


# --- standardize -------------------------------------------------------------------------------------------------

REDUCE = "Reductions"


def standardize(
    x: Tensor, dim: int | tuple[int, ...], eps: float = 1e-5, *, keepdim: bool = True, correction: int = 0,
    inside: str = "yes", whole: bool = False, root: bool = True,
) -> Tensor:  # fmt: skip
    over: int | tuple[int, ...] = tuple(range(x.ndim)) if whole else dim
    mean = x.mean(dim=over, keepdim=keepdim)
    var = x.var(dim=over, correction=correction, keepdim=keepdim)
    below = {"yes": (var + eps).sqrt(), "outside": var.sqrt() + eps, "missing": var.sqrt()}[inside]
    return (x - mean) / (below if root else below**2)


STANDARDIZE = slips(
    standardize, REDUCE,
    missing_keepdim=({"keepdim": False}, "In the case \"{case}\" the value at {at} is {got_at} and should be {want_at}: "
                     "without keepdim the statistics lost a dimension and were lined up with the wrong axis."),
    sample_variance=({"correction": 1}, "The variance of the result is {var} and should be {wanted_var}: the sum of squares "
                     "was divided by {count} - 1, which is the sample's, and not by {count}."),
    eps_outside_root=({"inside": "outside"}, "With eps = {eps} the variance of the result is {var} and should be "
                      "{wanted_var}: eps was added to the root, and belongs under it."),
    eps_forgotten=({"inside": "missing"}, "With eps = {eps} the variance of the result is {var} and should be "
                   "{wanted_var}: eps was not added to the variance."),
    whole_tensor_statistics=({"whole": True}, "In the case \"{case}\" the value at {at} is {got_at} and should be "
                             "{want_at}: mean and variance were taken over the whole tensor, not over dim = {dim}."),
    divided_by_variance=({"root": False}, "The value at {at} is {got_at} and should be {want_at}: the difference was "
                         "divided by the variance, not by its root."),
)  # fmt: skip


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


def row_softmax(x: Tensor, *, shift: str = "row", dim: int | str = -1, keepdim: bool = True) -> Tensor:
    over: Any = tuple(range(x.ndim)) if dim == "all" else (max(-x.ndim, dim) if isinstance(dim, int) else -1)
    top: Tensor | float = {"row": x.amax(over, keepdim=keepdim), "all": x.max(), "none": 0.0}[shift]
    weights = (x - top).exp()
    return weights / weights.sum(over, keepdim=keepdim)


OVERFLOW = (
    "{nans} of {count} results are NaN: the largest entry is {largest}, exp of it is {exp_largest} in this dtype, and "
    "inf / inf is NaN."
)
WRONG_DIM = "Row {row} sums to {row_sum} and not to 1: softmax ran over another dimension than the last."
WHOLE = "Row {row} sums to {row_sum} and not to 1: the weights were divided by the sum of the whole tensor."
KEEPDIM = (
    "Row {row} sums to {row_sum} and not to 1: the row sums lost their dimension, so broadcasting lined them up with "
    "the columns."
)
ROW_SOFTMAX = [
    Mistake("overflow", row_softmax, OVERFLOW, REDUCE, {"shift": "none"}),
    Mistake("global-maximum", row_softmax, "{nans} of {count} results are NaN: the largest entry of the whole tensor was "
            "subtracted, so that in a row far below it every exp is 0, and 0 / 0 is NaN.", REDUCE, {"shift": "all"}),
    Mistake("wrong-dim", row_softmax, WRONG_DIM, REDUCE, {"dim": 0}),
    Mistake("wrong-dim", row_softmax, WRONG_DIM, REDUCE, {"dim": -2}),
    Mistake("wrong-dim", lambda x: row_softmax(x, dim=min(1, x.ndim - 1)), WRONG_DIM, REDUCE),
    Mistake("whole-tensor", row_softmax, WHOLE, REDUCE, {"dim": "all"}),
    Mistake("missing-keepdim", row_softmax, KEEPDIM, REDUCE, {"keepdim": False}),
    Mistake("missing-keepdim", lambda x: x.exp() / x.exp().sum(-1), KEEPDIM, REDUCE),
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

COPIES = "What copies and what does not"


def refuses_to_copy(t: Tensor) -> tuple[Tensor, bool]:
    return t.view(-1), False


ALWAYS = "For shape {shape} with strides {stride}, writing into the result left t as it was: a view was possible and it was copied."
FLAG = "For shape {shape} with strides {stride}, `copied` is {copied}, while the result {shares} memory with t."
FLATTEN = [
    Mistake("always-copies", lambda t: (t.clone().reshape(-1), True), ALWAYS, COPIES),
    Mistake("always-copies", lambda t: (t.clone().reshape(-1), False), ALWAYS, COPIES),
    Mistake("copies-strided-views", lambda t: (t.contiguous().view(-1), not t.is_contiguous()), "For shape {shape} with "
            "strides {stride}, writing into the result left t as it was: t is not contiguous, and yet a view fits.", COPIES),
    Mistake("view-on-noncontiguous", refuses_to_copy, "In the case \"{case}\" the call raised {got}: no view fits these "
            "strides, so here a copy is needed.", COPIES),
    Mistake("copied-flag-wrong", lambda t: (t.reshape(-1), not t.is_contiguous()), FLAG, COPIES),
    Mistake("copied-flag-wrong", lambda t: (t.reshape(-1), False), FLAG, COPIES),
    Mistake("copied-flag-wrong", lambda t: (t.reshape(-1), True), FLAG, COPIES),
    Mistake("copied-flag-wrong", lambda t: (t.reshape(-1), t.is_contiguous()), FLAG, COPIES),
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

STRIDES = "Strides: one storage, many views"


def sliding_windows(
    x: Tensor, size: int, step: int = 1, *, count: str = "right", stride: str = "own", offset: str = "own",
    copies: bool = False, refuses: str = "yes", message: str = "full",
) -> Tensor:  # fmt: skip
    if refuses != "no":
        error = ValueError if refuses == "yes" else RuntimeError
        for name, value, good in (("size", size, 1 <= size <= len(x)), ("step", step, step >= 1)):
            if not good:
                texts = {"full": f"{name} is {value}, out of range", "name": f"bad {name}", "value": f"bad {value}"}
                raise error(texts.get(message, "out of range"))
    last = len(x) - size
    fitting = last // max(step, 1) + 1 if step > 0 else 1
    number = {"right": fitting, "drops": last // max(step, 1), "past": fitting + 1, "n": len(x) // max(step, 1)}[count]
    along = x.stride(0) if stride == "own" else 1
    begin = x.storage_offset() if offset == "own" else 0
    windows = x.as_strided((max(number, 0), max(size, 0)), (abs(step) * along, along), begin)
    return windows.clone() if copies else windows


def loop_of_slices(x: Tensor, size: int, step: int = 1) -> Tensor:
    if not 1 <= size <= len(x):
        raise ValueError(f"size is {size}, which is out of range")
    if step < 1:
        raise ValueError(f"step is {step}, which is out of range")
    return torch.stack([x[i : i + size] for i in range(0, len(x) - size + 1, step)])


COPIED = "When x was multiplied by -2 afterwards, the windows stayed as they were: they are a copy and not a view of x."
SAYS_LITTLE = (
    "In the case \"{case}\" what came was {refused}: the message should say which argument it is, what it got and what it "
    "wants."
)  # fmt: skip
PAST = (
    "In the case \"{case}\" with n = {n} and step {step}, {wanted_windows} windows fit, the last of them being "
    "{wanted_last}; there was one more, and its elements lie past the end of x."
)  # fmt: skip
SLIDING = [
    Mistake("copies-data", loop_of_slices, COPIED, STRIDES),
    Mistake("copies-data", sliding_windows, COPIED, STRIDES, {"copies": True}),
    *slips(
        sliding_windows, STRIDES,
        drops_last_window=({"count": "drops"}, "There are {windows} windows and should be {wanted_windows}: the last one, "
                           "{wanted_last}, still fits."),
        runs_past_end=({"count": "past"}, PAST),
        ignores_stride=({"stride": "one"}, "The first window is {first} and should be {wanted_first}: neighbours in x lie "
                        "{stride} apart in storage, and a stride of 1 was assumed."),
        ignores_offset=({"offset": "zero"}, "The first window is {first} and should be {wanted_first}: x begins at element "
                        "{offset} of its storage, and the windows begin at 0."),
        bad_arguments_accepted=({"refuses": "no"}, "In the case \"{case}\" a ValueError is wanted; what came was "
                                "{refused}."),
        wrong_exception=({"refuses": "other"}, "In the case \"{case}\" a ValueError is wanted; what came was "
                         "{refused}."),
        message_says_too_little=({"message": "bare"}, SAYS_LITTLE),
    ),
    Mistake("runs-past-end", sliding_windows, PAST, STRIDES, {"count": "n"}),
    Mistake("message-says-too-little", sliding_windows, SAYS_LITTLE, STRIDES, {"message": "name"}),
    Mistake("message-says-too-little", sliding_windows, SAYS_LITTLE, STRIDES, {"message": "value"}),
]  # fmt: skip


def more_windows(draw: Draw) -> list[Case]:
    n, size, step = draw.size(12, 20), draw.size(2, 5), draw.size(2, 4)
    common = {"refused": ""}
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


def select_loop(scores: Tensor, labels: Tensor) -> Tensor:
    return torch.stack([row[label] for row, label in zip(scores, labels, strict=True)])


def select_lists(scores: Tensor, labels: Tensor) -> Tensor:
    rows = [row[label] for row, label in zip(scores.tolist(), labels.tolist(), strict=True)]
    return torch.tensor(rows, dtype=scores.dtype, device=scores.device)


DETACHED = "`follows the graph` is {got}: the result is cut off from scores, so no gradient can flow back."
SELECT = [
    Mistake("selects-rows", lambda scores, labels: scores[labels], "The result has shape {got_shape} where {want_shape} is "
            "wanted: `scores[labels]` picks whole rows, one for each label.", INDEXING),
    Mistake("selects-columns", lambda scores, labels: scores[:, labels], "The result has shape {got_shape} where "
            "{want_shape} is wanted: every row was read at every label, not each at its own.", INDEXING),
    Mistake("python-loop", select_loop, LOOP, INDEXING),
    Mistake("detached", lambda scores, labels: scores.detach().gather(1, labels[:, None])[:, 0], DETACHED, INDEXING),
    Mistake("detached", select_lists, DETACHED, INDEXING),
    Mistake("dimension-left-over", lambda scores, labels: scores.gather(1, labels[:, None]), "The result has shape "
            "{got_shape} where {want_shape} is wanted: `gather` keeps the dimension that it picked along.", INDEXING),
    Mistake("squeezes-batch-of-one", lambda scores, labels: scores.gather(1, labels[:, None]).squeeze(), "In the case "
            "\"{case}\" the result has shape {got_shape} where {want_shape} is wanted: a bare `squeeze` takes every "
            "dimension of one.", "Adding and removing dimensions of one"),
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
    x: Tensor, mask: Tensor, *, by: str = "count", clamp: bool = True, leaks: bool = False, inverted: bool = False,
    in_place: bool = False,
) -> Tensor:  # fmt: skip
    real = ~mask[..., None] if inverted else mask[..., None]
    if in_place:
        x.masked_fill_(~real, 0)
    total = (x * real).sum(1) if leaks else x.masked_fill(~real, 0).sum(1)
    if by == "length":
        return total / x.shape[1]
    count = real.sum(1)
    return total / (count.clamp(min=1) if clamp else count)


MASKED_MEAN = slips(
    masked_mean, MASKS,
    divides_by_length=({"by": "length"}, "Row {row} came out as {got_row} and should be {want_row}: its sum was divided by "
                       "all {length} steps, of which only {real} are real."),
    nan_on_empty=({"clamp": False}, "Row {row} has {real} real steps and came out as {got_row}: 0 / 0 is NaN, and zeros "
                  "are wanted."),
    masked_values_leak=({"leaks": True}, "Row {row} came out as {got_row} and should be {want_row}: padding held NaN or "
                        "inf, and NaN * 0 and inf * 0 are NaN, not 0."),
    mask_inverted=({"inverted": True}, "Row {row} came out as {got_row} and should be {want_row}: the mean was taken over "
                   "the padding; here True marks the real steps."),
    changes_its_input=({"in_place": True}, "After the call x no longer held its own values: an in-place operation wrote "
                       "into the caller's tensor."),
)  # fmt: skip


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
    labels: Tensor, num_classes: int, dtype: torch.dtype = torch.float32, *, on_cpu: bool = False, refuses: str = "yes",
    message: str = "full", own_dtype: bool = True, flat: bool = False,
) -> Tensor:  # fmt: skip
    bad = labels[(labels < 0) | (labels >= num_classes)]
    if refuses == "above":
        bad = bad[bad > 0]
    if refuses != "no" and len(bad):
        worst = int(bad[0])
        texts = {"full": f"labels holds {worst}", "name": "labels out of range", "value": f"{worst} is out of range"}
        text = texts.get(message, "out of range")
        raise IndexError(text) if refuses == "index" else ValueError(text)
    classes = torch.arange(num_classes, device=None if on_cpu else labels.device)
    hot = (labels.flatten() if flat else labels).unsqueeze(-1) == classes
    return hot.to(dtype if own_dtype else torch.float32)


def scattered_on_cpu(labels: Tensor, num_classes: int, dtype: torch.dtype = torch.float32) -> Tensor:
    if labels.numel() and (labels.min() < 0 or labels.max() >= num_classes):
        raise ValueError(f"labels holds {int(labels.min())} to {int(labels.max())}, wanted 0 to {num_classes - 1}")
    return torch.zeros(*labels.shape, num_classes, dtype=dtype).scatter_(-1, labels.unsqueeze(-1), 1)


def scattered_unchecked(labels: Tensor, num_classes: int, dtype: torch.dtype = torch.float32) -> Tensor:
    zeros = torch.zeros(*labels.shape, num_classes, dtype=dtype, device=labels.device)
    return zeros.scatter_(-1, labels.unsqueeze(-1), 1)


def fails_without_labels(labels: Tensor, num_classes: int, dtype: torch.dtype = torch.float32) -> Tensor:
    if labels.min() < 0 or labels.max() >= num_classes:
        raise ValueError(f"labels holds {int(labels.min())} to {int(labels.max())}, wanted 0 to {num_classes - 1}")
    return (labels.unsqueeze(-1) == torch.arange(num_classes, device=labels.device)).to(dtype)


ON_CPU = (
    "On the CPU all is right, on the second device the call raised {got}: a tensor was made without saying where, and "
    "so it was made on the CPU."
)
ACCEPTED = (
    "With {bad} among the labels, a ValueError is wanted; what came was {refused}."
)
ONE_HOT = [
    Mistake("made-on-cpu", one_hot, ON_CPU, "Three common errors, read aloud", {"on_cpu": True}),
    Mistake("made-on-cpu", scattered_on_cpu, ON_CPU, "Three common errors, read aloud"),
    *slips(
        one_hot, INDEXING,
        out_of_range_accepted=({"refuses": "no"}, ACCEPTED),
        message_says_too_little=({"message": "bare"}, SAYS_LITTLE),
        dtype_ignored=({"own_dtype": False}, "The result is {got_dtype} where {want_dtype} was asked for: the argument "
                       "`dtype` was not used."),
        shape_flattened=({"flat": True}, "The result has shape {got_shape} where {want_shape} is wanted: the labels' own "
                         "shape was flattened away."),
    ),
    Mistake("out-of-range-accepted", one_hot, ACCEPTED, INDEXING, {"refuses": "above"}),
    Mistake("message-says-too-little", one_hot, SAYS_LITTLE, INDEXING, {"message": "name"}),
    Mistake("message-says-too-little", one_hot, SAYS_LITTLE, INDEXING, {"message": "value"}),
    Mistake("wrong-exception", one_hot, ACCEPTED, INDEXING, {"refuses": "index"}),
    Mistake("wrong-exception", scattered_unchecked, ACCEPTED, INDEXING),
    Mistake("fails-without-labels", fails_without_labels, "In the case \"{case}\" the call raised {got}: `min` and `max` "
            "have no answer for an empty tensor.", INDEXING),
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
    t: Tensor, *, detach: bool = True, cpu: bool = True, resolve: bool = True, bfloat16: str = "float32",
    copies: bool = False,
) -> np.ndarray[Any, Any]:  # fmt: skip
    t = t.detach() if detach else t
    t = t.cpu() if cpu else t
    t = t.resolve_conj().resolve_neg() if resolve else t
    if t.dtype == torch.bfloat16 and bfloat16 != "no":
        t = t.to(torch.float32 if bfloat16 == "float32" else torch.float16)
    array: np.ndarray[Any, Any] = t.numpy()
    return array.copy() if copies else array


def through_float32(t: Tensor) -> np.ndarray[Any, Any]:
    array: np.ndarray[Any, Any] = t.detach().cpu().resolve_conj().resolve_neg().to(torch.float32).numpy()
    return array


RAISED = "In the case \"{case}\" the call raised {error}"
TO_NUMPY = [
    *slips(
        to_numpy, NUMPY,
        no_detach=({"detach": False}, RAISED + ": a tensor that requires grad has to leave the graph first."),
        no_cpu=({"cpu": False}, "On the second device the call raised {error}: NumPy reads host memory, so the tensor has to "
                "be copied there first."),
        conjugate_view_unresolved=({"resolve": False}, RAISED + ": a conjugate or negative view has not flipped its signs "
                                   "in memory yet, and NumPy would not know."),
        bfloat16_unsupported=({"bfloat16": "no"}, RAISED + ": NumPy has no bfloat16, so it has to become float32 first."),
        bfloat16_as_float16=({"bfloat16": "float16"}, "A bfloat16 tensor came out as {seen_dtype} where {wanted_dtype} is "
                             "wanted: float16 has the bits, but not the range."),
        always_copies=({"copies": True}, "When t was changed afterwards, the array did not follow: it is a copy where "
                       "memory could have been shared."),
    ),
    Mistake("no-detach", lambda t: t.numpy(), RAISED + ": a tensor that requires grad has to leave the graph first.", NUMPY),
    Mistake("no-cpu", lambda t: t.detach().numpy(), "On the second device the call raised {error}: NumPy reads host memory, "
            "so the tensor has to be copied there first.", NUMPY),
    Mistake("everything-as-float32", through_float32, "An array of {seen_dtype} came out where {wanted_dtype} is wanted: only "
            "bfloat16 needs another dtype.", NUMPY),
]  # fmt: skip


def more_to_numpy(draw: Draw) -> list[Case]:
    n = draw.size(2, 6)
    common = {"negative": False}
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
    turned = k.reshape(b, h, d, -1) if transpose == "reshape" else k.transpose(-2, -1)
    scores = q @ turned
    if transpose == "result":
        scores = scores.transpose(-2, -1)
    scores = scores / {"root": d**0.5, "d": float(d), "none": 1.0, "steps": k.shape[-2] ** 0.5, "times": d**-0.5}[scale]
    return scores.softmax(-1) if soft else scores


WRONG_TRANSPOSE = (
    "In the case \"{case}\", the scores came out as {got} where {want} is wanted: for every query there should be a row, and "
    "in it one score for every key."
)  # fmt: skip
ATTENTION = [
    *slips(
        attention_scores, EINSUM,
        not_scaled=({"scale": "none"}, "The scores are {ratio} times as large as wanted, which is the root of d = {d}: the "
                    "division is missing."),
        scaled_by_d=({"scale": "d"}, "The scores are {ratio} times as large as wanted: they were divided by d = {d} and not "
                     "by its root, {root}."),
        multiplied_by_root=({"scale": "times"}, "The scores are {ratio} times as large as wanted: they were multiplied by the "
                            "root of d = {d} where they should be divided by it."),
        scaled_by_steps=({"scale": "steps"}, "The scores are {ratio} times as large as wanted: they were divided by the root "
                         "of the number of keys, {s}, and not of the number of features, {d}."),
        softmax_applied=({"soft": True}, "The value at {at} is {got_at} and should be {want_at}: a softmax was applied, and "
                         "the scores before it are wanted."),
        keys_reshaped=({"transpose": "reshape"}, "The value at {at} is {got_at} and should be {want_at}, though the shape is "
                       "right: reshaping k deals its elements out anew, transposing it swaps its axes."),
    ),
    Mistake("wrong-transpose", attention_scores, WRONG_TRANSPOSE, EINSUM, {"transpose": "result"}),
    Mistake("wrong-transpose", lambda q, k: q @ k / q.shape[-1] ** 0.5, WRONG_TRANSPOSE, EINSUM),
    Mistake("wrong-transpose", lambda q, k: q.transpose(-2, -1) @ k / q.shape[-1] ** 0.5, WRONG_TRANSPOSE, EINSUM),
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
