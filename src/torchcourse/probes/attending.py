"""Prove by gradients that a module which mixes positions respects its mask."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchcourse.model.observations import Observations
from torchcourse.probes.modules import ramp

__all__ = ["mask_respected"]

NOTHING = 1e-5
"""A derivative below this share of the largest counts as none.

Where forbidden attention weights are zeroed after the softmax and the rest renormalized, only rounding is left of them,
about 1e-7 of the largest.
"""


def mask_respected(module: Any, x: Tensor, mask: Tensor, heads: int = 1) -> Observations:
    """Observe the pairs (i, j) where output i depends on position j of x, though no head of position i may attend to j.

    The first sequence of x is run as many times as it has positions, and run i sends a gradient back from output i
    alone. A position with a head that may look nowhere is left out, since any finite output is right there.

    Args:
        module: called as `module(x, mask)`.
        x: of shape (b, t, d).
        mask: bool, broadcasts to (b, heads, t, t), True = may attend.
        heads: how many heads the module has.
    """
    t = x.shape[1]
    allowed = mask.expand(len(x), heads, t, t)[0]
    forbidden = ~allowed.any(0) & allowed.any(-1).all(0)[:, None]
    forbidden.fill_diagonal_(False)  # an output depends on its own position by its query
    copies = x.detach()[:1].repeat(t, 1, 1).requires_grad_()
    output = module(copies, mask if mask.ndim < 3 else mask.reshape(-1, *mask.shape[-3:])[:1])
    if not isinstance(output, Tensor) or output.shape != copies.shape or not output.requires_grad:
        return {}
    output.backward(torch.eye(t).to(x)[..., None] * ramp(x.shape[-1], low=1.0, high=2.0, like=x))  # type: ignore[no-untyped-call]
    if copies.grad is None:
        return {}
    size = copies.grad.abs().sum(-1)
    reached = (size > NOTHING * size.max()) & forbidden
    return {"forbidden positions that an output depends on": [tuple(pair) for pair in reached.nonzero().tolist()]}
