"""Move modules between the CPU and the device, keeping every parameter object.

CUDA moves a parameter by replacing its data in place, so ties, optimizers made before, and all other references keep
working. PyTorch cannot do that for a device of this kind. Its own switch,
`torch.__future__.set_swap_module_params_on_conversion`, is global: with it, plain CPU modules would refuse `.half()` or
`load_state_dict` while a view of a parameter or a weak reference to it is alive. So this module swaps only parameters
that change between CPU and device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from torchcourse.simulated.copying import extras
from torchcourse.simulated.device import NAME
from torchcourse.simulated.tensor import Simulated

DATA: Any = torch.Tensor.data
Convert = Callable[[torch.Tensor], torch.Tensor]


def _poisoned(_gradients: Any) -> None:
    raise RuntimeError(
        "the parameter was moved to another device between forward and backward; move the model before the forward pass"
    )


def exchange(parameter: torch.Tensor, moved: torch.Tensor) -> None:
    """Give the object `parameter` the data and device of `moved`; its hooks and attributes stay."""
    uses: int = parameter._use_count()  # type: ignore[attr-defined]
    if parameter.requires_grad and uses > 1:
        torch.autograd.graph.get_gradient_edge(parameter).node.register_prehook(_poisoned)
    fresh = nn.Parameter(moved, requires_grad=parameter.requires_grad)
    hooks = parameter._backward_hooks, parameter._post_accumulate_grad_hooks
    kept = extras(parameter) if isinstance(parameter, Simulated) else vars(parameter)
    kept = {**kept, **vars(fresh)}
    parameter.__class__, fresh.__class__ = fresh.__class__, parameter.__class__
    torch._C._swap_tensor_impl(parameter, fresh)
    parameter.__dict__ = kept
    for name, value in zip(("_backward_hooks", "_post_accumulate_grad_hooks"), hooks, strict=True):
        if value:
            setattr(parameter, name, value)


def crosses(t: torch.Tensor, moved: torch.Tensor) -> bool:
    """Return whether one of the two is on the CPU and the other on the device; refuse parameters without a shape."""
    if isinstance(t, Simulated) == isinstance(moved, Simulated):
        return False
    if is_lazy(t):
        raise NotImplementedError(
            f"{NAME} cannot take the parameters of a lazy module: run it once on the CPU before it is moved"
        )
    return True


def set_data(t: torch.Tensor, value: torch.Tensor) -> None:
    """Set `.data`, with the held values; a parameter may get data of the other device."""
    if isinstance(t, nn.Parameter) and crosses(t, value):
        return exchange(t, value)
    DATA.__set__(t, value)
    if isinstance(t, Simulated) and isinstance(value, Simulated):
        t.held, t.block = value.held, value.block
    return None


def keep_parameters(convert: Convert) -> Convert:
    """Wrap a conversion so that parameters stay the same objects when they change the device."""

    def carry(t: torch.Tensor) -> torch.Tensor:
        moved = convert(t)
        if isinstance(t, nn.Parameter) and crosses(t, moved):
            gradient, t.grad = t.grad, None
            exchange(t, moved)
            if gradient is not None:
                t.grad = convert(gradient)
            return t
        return moved

    carry.carries = True  # type: ignore[attr-defined]
    return carry


def install() -> None:
    """Patch `.data`, and `nn.Module._apply`, which `.to`, `.cpu` and the like use."""
    original: Any = nn.Module._apply

    def _apply(self: nn.Module, fn: Convert, recurse: bool = True) -> nn.Module:
        moved: nn.Module = original(self, fn if getattr(fn, "carries", False) else keep_parameters(fn), recurse)
        return moved

    nn.Module._apply = _apply  # type: ignore[method-assign]
    for kind in (nn.Parameter, Simulated):
        kind.data = property(DATA.__get__, set_data)  # type: ignore[assignment]
