"""The tensor that claims the simulated device and holds its values on the CPU."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import handle_torch_function, has_torch_function_unary

from torchcourse.simulated import copying, printing
from torchcourse.simulated.counting import Block
from torchcourse.simulated.device import NAME, device
from torchcourse.simulated.storage import SimulatedStorage

if TYPE_CHECKING:
    import numpy

MAKE = torch.Tensor._make_wrapper_subclass
ROOM = 1 << 60  # bytes that the wrapper's empty storage claims, enough for held tensors of any size


class Simulated(torch.Tensor):
    """A tensor of the simulated device.

    `held` are its values on the CPU, which never require grad; `block` is its memory for the counters. What PyTorch
    computes in C++ reaches the values through `dispatch`; what it would read from memory is implemented here.
    """

    held: torch.Tensor
    block: Block

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]
    __reduce_ex__ = copying.reduced
    __repr__ = printing.shown  # type: ignore[assignment]
    __format__ = printing.formatted

    def __deepcopy__(self, memo: dict[int, Any]) -> Simulated:
        """Copy values, attributes and gradient; views of one storage stay views of one storage."""
        if id(self) in memo:
            return memo[id(self)]  # type: ignore[no-any-return]
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol"
            )
        with torch.no_grad():
            block = memo.setdefault(id(self.block), None) or Block(self.block.nbytes)
            memo[id(self.block)] = block
            copy = wrap(deepcopy(self.held, memo), block)
        copy.requires_grad_(self.requires_grad)
        vars(copy).update(deepcopy(copying.extras(self), memo))
        memo[id(self)] = copy
        if self.grad is not None:
            copy.grad = deepcopy(self.grad, memo)
        return copy

    def data_ptr(self) -> int:
        return self.held.data_ptr()

    def untyped_storage(self) -> torch.UntypedStorage:
        return SimulatedStorage.over(self.held.untyped_storage(), self.block)

    def set_(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        storages = [x for x in args if isinstance(x, SimulatedStorage)]
        if not storages:
            return super().set_(*args, **kwargs)
        self.held.set_(*(x.held if isinstance(x, SimulatedStorage) else x for x in args), **kwargs)
        self.block = storages[0].block
        return follow(self)

    def tolist(self) -> Any:
        if has_torch_function_unary(self):
            return handle_torch_function(Simulated.tolist, (self,), self)
        return self.detach().cpu().tolist()

    def numpy(self, *, force: bool = False) -> numpy.ndarray[Any, Any]:
        """Raise as CUDA does, unless forced: then return a copy on the host."""
        if has_torch_function_unary(self):
            return handle_torch_function(Simulated.numpy, (self,), self, force=force)
        if not force:
            raise TypeError(
                f"can't convert {device()} device type tensor to numpy. "
                "Use Tensor.cpu() to copy the tensor to host memory first."
            )
        return self.detach().cpu().resolve_conj().resolve_neg().numpy()

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any:
        raise BufferError(f"{NAME} memory cannot be shared with other libraries. Use Tensor.cpu() first.")

    def share_memory_(self) -> Simulated:
        return self


def wrap(held: torch.Tensor, block: Block | None = None) -> Simulated:
    """Put CPU values on the device without a copy. A new block is counted unless one is given.

    Raises:
        NotImplementedError: for a sparse layout.
    """
    if held.layout is not torch.strided:
        raise NotImplementedError(f"{NAME} holds dense tensors only, and this is {held.layout}")
    with torch.inference_mode(held.is_inference()):  # in that mode, a view of an ordinary tensor is an ordinary one
        wrapper: Simulated = MAKE(
            Simulated,
            held.shape,
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=device(),
            storage_size=ROOM,
        )
    wrapper.held = held
    wrapper.block = Block(held.nbytes) if block is None else block
    return wrapper


def follow(wrapper: Simulated) -> Simulated:
    """Update the shape, strides and offset of a wrapper to those of its held values."""
    held = wrapper.held
    with torch._C._DisableTorchDispatch():
        torch.ops.aten.as_strided_.default(wrapper, held.shape, held.stride(), held.storage_offset())
    return wrapper


def values(t: torch.Tensor) -> torch.Tensor:
    """Return the CPU values that `t` holds, sharing memory; any other tensor is returned as it is."""
    return t.held if isinstance(t, Simulated) else t


def shares_memory(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Return whether two tensors, simulated or not, share a storage. Their elements need not overlap."""
    if isinstance(a, Simulated) != isinstance(b, Simulated):
        return False
    return bool(values(a).untyped_storage()._cdata == values(b).untyped_storage()._cdata)
