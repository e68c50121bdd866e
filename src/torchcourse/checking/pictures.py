"""Draw tensors as small pictures on a card: what came out, what was wanted, and where they differ."""

from __future__ import annotations

import html

import torch
from torch import Tensor

from torchcourse.checking.differences import brief, worst
from torchcourse.checking.result import Result
from torchcourse.model.observations import EXACT

__all__ = ["pictures"]

MAX_SIDE = 12


def pictures(result: Result) -> str:
    """Return captioned pictures of the first difference in a failed case; "" unless both values are real tensors."""
    name = next(iter(result.differs), "")
    got, want = result.seen.get(name), result.wanted.get(name)
    if not (isinstance(got, Tensor) and isinstance(want, Tensor)) or got.is_complex() or want.is_complex():
        return ""
    allowed = result.case.tolerance if want.is_floating_point() else EXACT
    mine, wanted = got.double(), want.double()  # torch finds no infinities in float8
    scale = _scale(wanted)
    drawn = [_figure(f"{words}, {tuple(tensor.shape)}", _description(words, tensor), tensor, scale)
             for words, tensor in (("came out", mine), ("wanted", wanted))]  # fmt: skip
    if got.shape == want.shape and got.numel():
        wrong = ~torch.isclose(mine, wanted, allowed.rtol, allowed.atol, equal_nan=True)
        note = f"where they differ: {int(wrong.sum())} of {wrong.numel()}"
        most = _largest_difference(got, want) if wrong.any() else ""
        drawn.append(_figure(note, note + most, wrong.float(), 1.0))
    title = f'In the case "{result.case.name}"'
    return f'<div class="tc-dim">{html.escape(title)}:</div><div class="tc-pictures">{"".join(drawn)}</div>'


def _description(words: str, tensor: Tensor) -> str:
    """Describe a picture, for screen readers."""
    if not tensor.numel():
        return f"{words}: no entries, shape {tuple(tensor.shape)}"
    low, high = (brief(end) for end in (tensor.min(), tensor.max()))
    return f"{words}: shape {tuple(tensor.shape)}, entries from {low} to {high}"


def _largest_difference(got: Tensor, want: Tensor) -> str:
    index = worst(got, want)
    return f"; most at {list(index)}, {brief(got[index])} where {brief(want[index])} is wanted" if index else ""


def _figure(caption: str, words: str, tensor: Tensor, scale: float) -> str:
    picture = f'<svg role="img" aria-label="{html.escape(words)}" {_squares(tensor, scale)}</svg>'
    lines = "<br>".join(map(html.escape, [caption, *_notes(tensor)]))
    return f"<figure>{picture}<figcaption>{lines}</figcaption></figure>"


def _notes(tensor: Tensor) -> list[str]:
    """Return what a picture does not show: entries that it leaves out, and which ones have no colour of their own."""
    notes = []
    if max(tensor.shape[-2:], default=0) > MAX_SIDE:
        notes.append(f"only its first {MAX_SIDE} along each side")
    if tensor.dim() > 2:
        notes.append(f"only index {', '.join('0' * (tensor.dim() - 2))} of what comes before the last two dimensions")
    if nans := int(tensor.isnan().sum()):
        notes.append(f"{nans} NaN, in dark grey")
    if infinite := int(tensor.isinf().sum()):
        notes.append(f"{infinite} infinite, in dark grey")
    return notes


def _scale(tensor: Tensor) -> float:
    finite = tensor[tensor.isfinite()]
    return max(1e-12, float(finite.abs().max())) if finite.numel() else 1.0


def _squares(tensor: Tensor, scale: float) -> str:
    """Return the size and squares of an SVG picture of the last two dimensions, at index 0 of the others."""
    flat = tensor.detach()
    while flat.dim() > 2:
        flat = flat[0] if len(flat) else flat.reshape(0, 0)
    flat = flat.reshape(1, -1) if flat.dim() < 2 else flat
    flat = flat[:MAX_SIDE, :MAX_SIDE]
    squares = [
        f'<rect x="{14 * j}" y="{14 * i}" width="13" height="13" fill="{_colour(v, scale)}">'
        f"<title>{v:.4g}</title></rect>"
        for i, row in enumerate(flat.tolist())
        for j, v in enumerate(row)
    ]
    height, width = 14 * flat.shape[0] or 1, 14 * flat.shape[1] or 1
    return f'width="{width}" height="{height}">{"".join(squares)}'


def _colour(value: float, scale: float) -> str:
    """Return orange for positive values, blue for negative ones, grey for those that are not finite."""
    if value != value or abs(value) == float("inf"):
        return "#444444"
    share = max(-1.0, min(1.0, value / scale))
    end = (213, 94, 0) if share > 0 else (0, 114, 178)
    mixed = [round(245 + (c - 245) * abs(share)) for c in end]
    return f"rgb({mixed[0]},{mixed[1]},{mixed[2]})"
