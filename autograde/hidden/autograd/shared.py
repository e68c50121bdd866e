"""What several private halves of lesson 02 share: types, and functions of one's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Function = Callable[[Tensor], Tensor]
DTYPE = (
    "The result is {got_dtype} where {want_dtype} is wanted: what is made inside has to follow the dtype of the input."
)
Rule = Callable[[Tensor], Tensor]
Backward = Callable[[Tensor, Tensor], Any]


def function(forward: Rule, backward: Backward) -> Callable[..., Any]:
    """Return a torch.autograd.Function with these rules; `backward` gets the input and the incoming gradient."""

    class Made(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return forward(x)

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Any:
            return backward(ctx.saved_tensors[0], g)

    return Made


def remembering(forward: Rule, backward: Backward) -> Callable[..., Any]:
    """Return a torch.autograd.Function with these rules that keeps its input on the class, for all calls together."""

    class Made(torch.autograd.Function):
        x: Tensor

        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            Made.x = x.detach()
            return forward(x)

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Any:
            return backward(Made.x, g)

    return Made


REMEMBERS = (
    'In the case "{case}" `{what}` came out as {got} where {want} is wanted: `x` was kept on the class, where the next '
    "call writes over it; every call has a `ctx` of its own."
)
