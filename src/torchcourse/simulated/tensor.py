"""The tensor that claims another device and holds its values on the CPU."""

from __future__ import annotations

from typing import Any

import torch

from torchcourse.simulated.counting import Block

NAME = "simgpu"
CPU = torch.device("cpu")


class Simulated(torch.Tensor):
    """A tensor of the simulated device. `held` are its values on the CPU, `block` the memory it counts for."""

    held: torch.Tensor
    block: Block

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    def data_ptr(self) -> int:
        """Return the address of the first held value, so that views compare as they do elsewhere."""
        return self.held.data_ptr()


def wrap(held: torch.Tensor, block: Block | None = None) -> Simulated:
    """Put CPU values on the device without a copy; a new block is counted unless one is given."""
    wrapper: Simulated = torch.Tensor._make_wrapper_subclass(
        Simulated,
        held.shape,
        strides=held.stride(),
        storage_offset=held.storage_offset(),
        dtype=held.dtype,
        device=torch.device(NAME, 0),
    )
    wrapper.held = held
    wrapper.block = Block(held.nbytes) if block is None else block
    return wrapper


def values(t: torch.Tensor) -> torch.Tensor:
    """Return the CPU values that `t` holds, sharing memory; a tensor of another device is returned as it is."""
    return t.held if isinstance(t, Simulated) else t


def shares_memory(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Say whether two tensors, simulated or not, lie in the same storage."""
    first, second = values(a), values(b)
    return first.device == second.device and first.untyped_storage()._cdata == second.untyped_storage()._cdata


def unwrap(x: Any) -> Any:
    """Return the values of a simulated tensor and anything else unchanged."""
    return x.held if isinstance(x, Simulated) else x
