"""The exercise `conv2d`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from autograde.hidden.architectures.shared import reading
from autograde.hidden.common import rounding, with_floats
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "Unfolding rows and then columns gives all windows as one view, without copying; the einsum sums over channels and "
    "kernel places, in which the kernel is not flipped. The number of calls is the same for every image, and "
    "autograd finds its way back by itself."
)
"""Why the reference is written as it is."""
REQUIRED = ("flips-kernel", "ignores-stride", "python-loop", "pads-one-side")
"""The mistakes that a check must always be able to name."""

HAND = "Convolution by hand"
Pair = int | tuple[int, int]


def pair(value: Pair) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else value


def windows_of(x: Tensor, weight: Tensor, stride: Pair = 1) -> Tensor:
    (sy, sx), (kh, kw) = pair(stride), weight.shape[2:]
    return x.unfold(2, kh, sy).unfold(3, kw, sx)


def padded(x: Tensor, padding: Pair) -> Tensor:
    py, px = pair(padding)
    return F.pad(x, (px, px, py, py))


def shifted(y: Tensor, bias: Tensor | None) -> Tensor:
    return y if bias is None else y + bias[:, None, None]


def right(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Pair = 1, padding: Pair = 0) -> Tensor:
    windows = windows_of(padded(x, padding), weight, stride)
    return shifted(torch.einsum("nchwij,ocij->nohw", windows, weight), bias)


def flips(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Pair = 1, padding: Pair = 0) -> Tensor:
    return right(x, weight.flip(2, 3), bias, stride, padding)


def fails_without_images(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Pair = 1, padding: Pair = 0
) -> Tensor:
    y = right(x, weight, bias, stride, padding)
    return y.reshape(len(x), len(weight), y.shape[2], -1)


def ignores_stride(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Pair = 1, padding: Pair = 0
) -> Tensor:
    return right(x, weight, bias, 1, padding)


def ignores_padding(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Pair = 1, padding: Pair = 0
) -> Tensor:
    return right(x, weight, bias, stride)


def loops(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Pair = 1, padding: Pair = 0) -> Tensor:
    x, (sy, sx), (kh, kw) = padded(x, padding), pair(stride), weight.shape[2:]
    rows, columns = range(0, x.shape[2] - kh + 1, sy), range(0, x.shape[3] - kw + 1, sx)
    y = [[(x[:, None, :, i : i + kh, j : j + kw] * weight).sum((2, 3, 4)) for j in columns] for i in rows]
    return shifted(torch.stack([torch.stack(row, -1) for row in y], -2), bias)


def loops_over_rows(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Pair = 1, padding: Pair = 0
) -> Tensor:
    windows = windows_of(padded(x, padding), weight, stride)
    rows = [torch.einsum("ncwij,ocij->now", row, weight) for row in windows.unbind(2)]
    return shifted(torch.stack(rows, 2), bias)


def pads_the_end(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Pair = 1, padding: Pair = 0) -> Tensor:
    py, px = pair(padding)
    return right(F.pad(x, (0, px, 0, py)), weight, bias, stride)


def pads_the_end_twice(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Pair = 1, padding: Pair = 0
) -> Tensor:
    py, px = pair(padding)
    return right(F.pad(x, (0, 2 * px, 0, 2 * py)), weight, bias, stride)


def pads_columns_only(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Pair = 1, padding: Pair = 0
) -> Tensor:
    _, px = pair(padding)
    return right(F.pad(x, (px, px)), weight, bias, stride)


def swaps_padding(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Pair = 1, padding: Pair = 0) -> Tensor:
    return right(x, weight, bias, stride, pair(padding)[::-1])


def pads_unevenly(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Pair = 1, padding: Pair = 0) -> Tensor:
    py, px = pair(padding)
    return right(F.pad(x, (py, px, py, px)), weight, bias, stride)


def flips_without_bias(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Pair = 1, padding: Pair = 0
) -> Tensor:
    return right(x, weight.flip(2, 3), None, stride, padding)


def swaps_stride(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Pair = 1, padding: Pair = 0) -> Tensor:
    return right(x, weight, bias, pair(stride)[::-1], padding)


def swaps_both(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Pair = 1, padding: Pair = 0) -> Tensor:
    return right(x, weight, bias, pair(stride)[::-1], pair(padding)[::-1])


def first_of_each_pair(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Pair = 1, padding: Pair = 0
) -> Tensor:
    return right(x, weight, bias, pair(stride)[0], pair(padding)[0])


def first_of_the_stride(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Pair = 1, padding: Pair = 0
) -> Tensor:
    return right(x, weight, bias, pair(stride)[0], padding)


def square_kernel(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Pair = 1, padding: Pair = 0) -> Tensor:
    side = weight.shape[2]
    columns = F.unfold(x, side, padding=padding, stride=stride)
    y = weight.flatten(1) @ columns
    (_, _, h, w), (sy, sx), (py, px) = x.shape, pair(stride), pair(padding)
    y = y.view(len(x), -1, (h + 2 * py - side) // sy + 1, (w + 2 * px - side) // sx + 1)
    return shifted(y, bias)


def square_sized(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Pair = 1, padding: Pair = 0) -> Tensor:
    columns = F.unfold(x, weight.shape[2:], padding=padding, stride=stride)
    (_, _, h, w), side, (sy, sx), (py, px) = x.shape, weight.shape[2], pair(stride), pair(padding)
    y = (weight.flatten(1) @ columns).view(
        len(x), len(weight), (h + 2 * py - side) // sy + 1, (w + 2 * px - side) // sx + 1
    )
    return shifted(y, bias)


def square_output(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Pair = 1, padding: Pair = 0) -> Tensor:
    columns = F.unfold(x, weight.shape[2:], padding=padding, stride=stride)
    side = int(columns.shape[-1] ** 0.5)
    return shifted((weight.flatten(1) @ columns).view(len(x), len(weight), side, side), bias)


def ints_only(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int = 1, padding: int = 0) -> Tensor:
    x = F.pad(x, (padding, padding, padding, padding))
    windows = x.unfold(2, weight.shape[2], stride).unfold(3, weight.shape[3], stride)
    return shifted(torch.einsum("nchwij,ocij->nohw", windows, weight), bias)


def subsamples_first(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Pair = 1, padding: Pair = 0
) -> Tensor:
    sy, sx = pair(stride)
    return right(padded(x, padding)[:, :, ::sy, ::sx], weight, bias)


def transposes_kernel(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Pair = 1, padding: Pair = 0
) -> Tensor:
    return right(x, weight.mT, bias, stride, padding)


def averages(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Pair = 1, padding: Pair = 0) -> Tensor:
    return shifted(right(x, weight, None, stride, padding) / weight[0].numel(), bias)


def without_bias(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Pair = 1, padding: Pair = 0) -> Tensor:
    return right(x, weight, None, stride, padding)


def bias_on_columns(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Pair = 1, padding: Pair = 0
) -> Tensor:
    y = right(x, weight, None, stride, padding)
    return y if bias is None else y + bias


def flips_bias_on_columns(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Pair = 1, padding: Pair = 0
) -> Tensor:
    return bias_on_columns(x, weight.flip(2, 3), bias, stride, padding)


def bias_for_each_channel(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Pair = 1, padding: Pair = 0
) -> Tensor:
    y = right(x, weight, None, stride, padding)
    return y if bias is None else y + x.shape[1] * bias[:, None, None]


def first_channel(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Pair = 1, padding: Pair = 0) -> Tensor:
    return right(x[:, :1], weight[:, :1], bias, stride, padding)


def detached(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Pair = 1, padding: Pair = 0) -> Tensor:
    return right(x.detach(), weight, bias, stride, padding)


def reads_numbers(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Pair = 1, padding: Pair = 0) -> Tensor:
    return right(x, torch.tensor(weight.tolist(), dtype=x.dtype, device=x.device), bias, stride, padding)


def without_graph(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Pair = 1, padding: Pair = 0) -> Tensor:
    with torch.no_grad():
        return right(x, weight, bias, stride, padding)


def last_place_missing(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Pair = 1, padding: Pair = 0
) -> Tensor:
    (sy, sx), (py, px) = pair(stride), pair(padding)
    h, w = (
        (s + 2 * p - k) // step for s, p, k, step in zip(x.shape[2:], (py, px), weight.shape[2:], (sy, sx), strict=True)
    )
    return right(x, weight, bias, stride, padding)[:, :, :h, :w]


def scrambled(y: Tensor) -> Tensor:
    """Return `(n, o, h, w)` as it would be if the channels came last and were reshaped to the front."""
    return y.movedim(1, -1).reshape(y.shape)


def reshapes_without_transposing(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Pair = 1, padding: Pair = 0
) -> Tensor:
    return shifted(scrambled(right(x, weight, None, stride, padding)), bias)


def biased_before_reshaping(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Pair = 1, padding: Pair = 0
) -> Tensor:
    return scrambled(right(x, weight, bias, stride, padding))


def channels_in_the_middle(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Pair = 1, padding: Pair = 0
) -> Tensor:
    windows = windows_of(padded(x, padding), weight, stride)
    n, _, h, w = windows.shape[:4]
    y = windows.reshape(n, h * w, weight[0].numel()) @ weight.flatten(1).T
    return shifted(y.transpose(1, 2).reshape(n, len(weight), h, w), bias)


AT = 'In the case "{case}" the value at {at} is {got_at} and should be {want_at}: '
SHAPE = 'In the case "{case}" the result has shape {got_shape} where {want_shape} is wanted: '
LOOP = (
    "The number of {what} is {got}: a loop makes its calls again for each place of the image, where one product can "
    "serve all windows."
)
PAIRS = 'In the case "{case}", with {options}, {what} is {got} where {want} is wanted: '
SCRAMBLED = (
    "`reshape` does not exchange dimensions. If the channels come last, move them behind the batch with `movedim` or "
    "`permute`."
)
CUT = 'In the case "{case}", `{what}` is {got} where {want} is wanted: the result is cut off from the input.'
MISTAKES = [
    Mistake("flips-kernel", flips, AT + "the kernel was turned around, as in signal processing; here it lies on the "
            "window as it is.", HAND),
    Mistake("ignores-stride", ignores_stride, SHAPE + "the stride has no effect.", HAND),
    Mistake("ignores-padding", ignores_padding, SHAPE + "the padding has no effect.", HAND),
    Mistake("python-loop", loops, LOOP, HAND),
    Mistake("python-loop", loops_over_rows, LOOP, HAND),
    Mistake("pads-one-side", pads_the_end, SHAPE + "zeros belong before the first row and column too, not only after "
            "the last.", HAND),
    Mistake("pads-one-side", pads_the_end_twice, AT + "all zeros were put after the last row and column, so the image "
            "lies too far to the upper left.", HAND),
    Mistake("pads-columns-only", pads_columns_only, SHAPE + "`F.pad` takes its numbers from the last dimension on: two "
            "for the columns, then two for the rows.", HAND),
    Mistake("pairs-swapped", swaps_padding, PAIRS + "a pair is (rows, columns), and `F.pad` starts with the columns.",
            HAND),
    Mistake("pairs-swapped", pads_unevenly, PAIRS + "`F.pad` takes (left, right, top, bottom): the columns' padding "
            "twice, then the rows'.", HAND),
    Mistake("flips-kernel", flips_without_bias, AT + "the kernel was turned around; here it lies on the window as it "
            "is. And when a bias is given, it is not added.", HAND),
    Mistake("flips-kernel", flips_bias_on_columns, AT + "the kernel was turned around; here it lies on the window as "
            "it is. And the bias has shape (o,), one number for each output channel.", HAND),
    Mistake("pairs-swapped", swaps_stride, PAIRS + "a pair is (rows, columns).", HAND),
    Mistake("pairs-swapped", swaps_both, PAIRS + "a pair is (rows, columns).", HAND),
    Mistake("first-of-each-pair", first_of_each_pair, PAIRS + "only the first of each pair was used.", HAND),
    Mistake("first-of-each-pair", first_of_the_stride, PAIRS + "only the first number of the stride was used.", HAND),
    Mistake("square-kernels-only", square_kernel, 'In the case "{case}", with a kernel of {kernel}, the call raised '
            "{error}: height and width of the kernel may differ.", HAND),
    Mistake("square-kernels-only", square_sized, 'In the case "{case}", with a kernel of {kernel}, the call raised '
            "{error}: the width of the output was computed from the height of the kernel.", HAND),
    Mistake("square-output", square_output, 'In the case "{case}" the call raised {error}: height and width of the '
            "output may differ; each has a size of its own, from the image, kernel, stride and padding.", HAND),
    Mistake("fails-without-images", fails_without_images, 'In the case "{case}" the call raised {error}: where there '
            "are no elements, nothing says what a -1 stands for; give the size.", HAND),
    Mistake("ints-only", ints_only, "With {options} the call raised {error}: `stride` and `padding` may be pairs.",
            HAND),
    Mistake("subsamples-first", subsamples_first, 'In the case "{case}" {what} is {got} where {want} is wanted: the '
            "stride moves the window; inside a window all pixels count.", HAND),
    Mistake("transposes-kernel", transposes_kernel, 'In the case "{case}" {what} is {got} where {want} is wanted: rows '
            "and columns of the kernel were exchanged.", HAND),
    Mistake("channels-not-moved", reshapes_without_transposing, AT + SCRAMBLED, HAND),
    Mistake("channels-not-moved", biased_before_reshaping, AT + SCRAMBLED, HAND),
    Mistake("channels-not-moved", channels_in_the_middle, AT + "`unfold` leaves the windows as (n, c, rows, columns, "
            "kh, kw); before the last three become one, the channels have to be moved behind the rows and columns.",
            HAND),
    Mistake("averages", averages, AT + "a convolution adds the products up, it does not average.", HAND),
    Mistake("bias-ignored", without_bias, AT + "the bias is missing.", HAND),
    Mistake("bias-on-columns", bias_on_columns, 'In the case "{case}" {what} is {got} where {want} is wanted: the bias '
            "of shape (o,) was added along the last dimension; it belongs to the channels.", HAND),
    Mistake("bias-for-each-channel", bias_for_each_channel, AT + "the bias was added once for each input channel; it "
            "should be added only once.", HAND),
    Mistake("first-channel-only", first_channel, AT + "each output is a sum over all input channels.", HAND),
    Mistake("last-place-missing", last_place_missing, SHAPE + "there is one more output than there are strides that "
            "fit.", HAND),
    Mistake("detached", detached, CUT, HAND),
    Mistake("weight-detached", reads_numbers, 'In the case "{case}", `{what}` is {got} where {want} is wanted: numbers '
            "that were taken out of `weight` (`tolist`, `item`, `detach`) are cut off from it.", HAND),
    Mistake("detached", without_graph, CUT, HAND),
    *reading(HAND, [*with_floats(right, 2), rounding(right)]),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    n, c, o = draw.size(1, 3), draw.size(1, 4), draw.size(1, 4)
    kh, kw, h, w = draw.size(1, 3), draw.size(1, 4), draw.size(5, 9), draw.size(5, 9)
    loose: dict[str, Any] = {"rtol": 1e-3, "atol": 1e-3}
    last = draw.normal(1, c, draw.size(22, 30), draw.size(22, 30)).to(memory_format=torch.channels_last)
    half = torch.bfloat16
    return [
        case("drawn sizes", **loose, x=draw.normal(n, c, h, w), weight=draw.normal(o, c, kh, kw), bias=draw.normal(o),
             options={"stride": (draw.size(1, 3), draw.size(1, 3)), "padding": (draw.size(0, 2), draw.size(0, 2))}),
        case("a larger image, channels last", **loose, x=last, weight=draw.normal(o, c, 3, 3), bias=None,
             options={"padding": (0, 1)}),
        case("a transposed image", **loose, x=draw.normal(n, c, w, h).mT, weight=draw.normal(o, c, 2, 2), bias=None,
             options={"stride": 3}),
        case("a kernel as large as the image", **loose, x=draw.normal(n, c, 4, 5), weight=draw.normal(o, c, 4, 5),
             bias=draw.normal(o), options={}),
        case("bfloat16", rtol=0.05, atol=0.3, x=draw.normal(1, 2, 5, 5, dtype=half),
             weight=draw.normal(3, 2, 2, 2, dtype=half), bias=draw.normal(3, dtype=half), options={}),
    ]  # fmt: skip


# Right answers unlike the reference


def by_columns(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Pair = 1, padding: Pair = 0) -> Tensor:
    (kh, kw), (sy, sx), (py, px) = weight.shape[2:], pair(stride), pair(padding)
    columns = F.unfold(x, (kh, kw), padding=(py, px), stride=(sy, sx))
    y = weight.reshape(len(weight), -1) @ columns
    if bias is not None:
        y = y + bias[:, None]
    h, w = (x.shape[2] + 2 * py - kh) // sy + 1, (x.shape[3] + 2 * px - kw) // sx + 1
    return y.reshape(len(x), len(weight), h, w)


def by_shifting(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Pair = 1, padding: Pair = 0) -> Tensor:
    x, (sy, sx), (kh, kw) = padded(x, padding), pair(stride), weight.shape[2:]
    rows, columns = x.shape[2] - kh + 1, x.shape[3] - kw + 1
    y = torch.zeros((), dtype=x.dtype, device=x.device)
    for i in range(kh):
        for j in range(kw):
            part = x[:, :, i : i + rows : sy, j : j + columns : sx]
            y = y + torch.tensordot(part, weight[:, :, i, j], dims=([1], [1])).movedim(-1, 1)
    return y if bias is None else y + bias.reshape(1, -1, 1, 1)


def by_strided_view(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Pair = 1, padding: Pair = 0
) -> Tensor:
    x, (sy, sx), (kh, kw) = padded(x, padding).contiguous(), pair(stride), weight.shape[2:]
    n, c, h, w = x.shape
    a, b, e, f = x.stride()
    shape = (n, (h - kh) // sy + 1, (w - kw) // sx + 1, c, kh, kw)
    windows = x.as_strided(shape, (a, e * sy, f * sx, b, e, f))
    y = F.linear(windows.flatten(3), weight.flatten(1), bias)
    return y.permute(0, 3, 1, 2)


RIGHT_ANSWERS: list[Callable[..., Any]] = [by_columns, by_shifting, by_strided_view]
