"""What several private halves of lesson 03 share."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

UNBEGUN = (
    "Making the module ended with {construction}: without `super().__init__()` as the first line of `__init__` the "
    "module has no place yet to keep parameters, buffers or submodules."
)
UNREGISTERED = (
    "`parameters()` finds {registered}: a plain tensor, or what arithmetic makes of an `nn.Parameter`, is an attribute "
    "like any other, so an optimizer, `.to()` and `state_dict()` never hear of it."
)


def plain(*names: str) -> Callable[..., Tensor]:
    """Return a `hold` that leaves the tensors of these names as they are."""
    return lambda _self, name, t: t.requires_grad_() if name in names else nn.Parameter(t)
