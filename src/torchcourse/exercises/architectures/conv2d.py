"""The exercise `conv2d`: its probe, visible cases and hints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.modules import gradients, without_none
from torchcourse.probes.observe import costs, float32_digits, growth, kept, look


def probe(answer: Watched, x: Tensor, weight: Tensor, bias: Tensor | None, options: dict[str, Any]) -> Observations:
    """Observe the output, the gradients, and what a call costs for smaller and for larger images."""
    inputs = without_none(x=x, weight=weight, bias=bias)
    before = {name: t.clone() for name, t in inputs.items()}
    seen = {**look(answer(x, weight, bias, **options), x), **kept(**{n: (t, before[n]) for n, t in inputs.items()})}
    if all(torch.equal(t, before[name]) for name, t in inputs.items()):
        leaves = {name: t.requires_grad_() for name, t in inputs.items()}
        output = answer(x, weight, bias, **options)
        with answer.watched(is_backward=True):
            seen |= gradients(output, **leaves)
    images = [_other_images(before["x"], sides) for sides in _sides(x.shape[2:], weight.shape[2:], options)]
    more = [(each, before["weight"], before.get("bias")) for each in images]
    return {**seen, "cost": costs(answer, more, **options)}


def _sides(scored: Sequence[int], kernel: Sequence[int], options: dict[str, Any]) -> list[list[int]]:
    """Return height and width of smaller and of larger images, small enough for their results to be stored.

    The larger ones are as large as the scored ones, so that the scored call costs no less, if these have enough places.
    """
    steps, zeros = (pair if isinstance(pair, tuple) else (pair, pair) for pair in
                    (options.get("stride", 1), options.get("padding", 0)))  # fmt: skip
    dims = list(zip(scored, kernel, steps, zeros, strict=True))
    places = [(side + 2 * p - k) // s + 1 for side, k, s, p in dims]
    if min(places) < 3:
        return [[k + 2 * s for _, k, s, _ in dims], [k + 6 * s for _, k, s, _ in dims]]
    fewer = [max(2, each // 2) for each in places]
    return [[max(1, k + s * (n - 1) - 2 * p) for (_, k, s, p), n in zip(dims, fewer, strict=True)], list(scored)]


def _other_images(x: Tensor, side: list[int]) -> Tensor:
    """Return as many images as in `x`, of these sides and with other pixels."""
    repeats = [-(-wanted // given) for wanted, given in zip(side, x.shape[2:], strict=True)]
    return x.repeat(1, 1, *repeats)[..., : side[0], : side[1]].flip(2, 3).contiguous()


def derive(case: Case, seen: Observations) -> Observations:
    """Say how the cost grows, and whether float64 was rounded to float32 on the way."""
    return float32_digits(case, growth(case, seen))


def cases(draw: Draw) -> list[Case]:
    n, c, o = 2, draw.size(2, 3), draw.size(4, 5)
    h, w = draw.size(6, 7), draw.size(8, 9)

    def one(name: str, kh: int, kw: int, *, bias: bool = True, **options: Any) -> Case:
        weight, shift = draw.normal(o, c, kh, kw), draw.normal(o) if bias else None
        return case(name, rtol=1e-3, atol=1e-3, x=draw.normal(n, c, h, w), weight=weight, bias=shift, options=options)

    wide = draw.normal(1, 1, 4, 4, dtype=torch.float64), draw.normal(1, 1, 3, 3, dtype=torch.float64)
    return [
        one("no bias", 3, 3, bias=False),
        one("a bias", 3, 3),
        one("a kernel that is not square", 2, 3),
        one("stride 2", 3, 3, stride=2),
        one("padding 1", 3, 3, padding=1),
        one("pairs", 3, 2, stride=(1, 2), padding=(2, 1)),
        case(
            "one channel, float64", rtol=1e-10, atol=1e-12, x=wide[0], weight=wide[1], bias=None, options={"padding": 1}
        ),
        case("no images", x=torch.empty(0, c, h, w), weight=draw.normal(o, c, 3, 3), bias=draw.normal(o), options={}),
    ]


def quotes(inputs: Observations, _seen: Observations, _wanted: Observations) -> dict[str, object]:
    return {
        "kernel": tuple(inputs["weight"].shape[2:]),
        "options": ", ".join(f"{name} {value}" for name, value in inputs["options"].items()),
    }


EXERCISE = Exercise(
    "conv2d",
    probe,
    cases,
    hints=(
        "How can you get all windows at once? `F.unfold` lays them out as columns; `Tensor.unfold(dim, size, step)`, "
        "once for rows and once for columns, makes views.",
        "Each output channel is a sum over input channels, kernel rows and kernel columns. Which matrix product is "
        "that after unfolding, or which letters of an einsum vanish?",
        "In which order does `F.pad` want its four numbers, and is the first pair for rows or for columns? How does a "
        "bias of shape (o,) line up with the channels of (n, o, h, w)?",
    ),
    forbids=(
        "conv", "conv1d", "conv2d", "conv3d", "convolution", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
        "conv_tbc", "mkldnn_convolution", "thnn_conv2d", "slow_conv2d_forward", "slow_conv_dilated2d",
        "slow_conv3d_forward", "slow_conv_dilated3d", "slow_conv_transpose2d", "slow_conv_transpose3d",
        "convolution_backward", "convolution_overrideable", "conv_depthwise3d",
    ),
    derive=derive,
    quotes=quotes,
)  # fmt: skip
