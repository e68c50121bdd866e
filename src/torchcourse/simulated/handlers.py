"""Operators that need special treatment: copies, reading values, indexing, memory."""

from __future__ import annotations

from typing import Any

import torch

from torchcourse.simulated.counting import RECORDERS, count_copy, count_wait, record
from torchcourse.simulated.device import NAME, is_ours
from torchcourse.simulated.dispatch import ordinary, sync_metadata
from torchcourse.simulated.errors import refuse_index
from torchcourse.simulated.plans import PLANS, special
from torchcourse.simulated.tensor import Simulated, follow, values, wrap

MASKS = (torch.bool, torch.uint8)


@special("_to_copy")
def to_copy(func: Any, args: Any, kwargs: Any) -> torch.Tensor:
    """Copy with another dtype, device or layout."""
    options = {name: x for name, x in kwargs.items() if name not in ("non_blocking", "pin_memory")}
    stays = is_ours(kwargs.get("device"))
    if stays:
        options.pop("device", None)
        if RECORDERS:
            record("kernel:_to_copy")
        return wrap(func(args[0].held, **options))
    result: torch.Tensor = func(args[0].held, **options)
    if result.device.type == "cpu":
        count_copy(to_device=False, non_blocking=bool(kwargs.get("non_blocking")))
    return result


@special("to", "type_as")
def converted(func: Any, args: Any, kwargs: Any) -> Any:
    """Run what `to` is made of: in inference mode it arrives whole, and its result may be on another device."""
    return func.decompose(*args, **kwargs)


@special("copy_")
def copy_(func: Any, args: Any, kwargs: Any) -> torch.Tensor:
    """Copy into an existing tensor, on the device or across the border."""
    target, source = args[:2]
    func(values(target), values(source))
    if isinstance(target, Simulated) != isinstance(source, Simulated):
        waits_not = args[2] if len(args) > 2 else kwargs.get("non_blocking", False)
        count_copy(to_device=isinstance(target, Simulated), non_blocking=bool(waits_not))
    elif RECORDERS:
        record("kernel:copy_")
    return target  # type: ignore[no-any-return]


@special("_foreach_copy_")
def foreach_copy_(_func: Any, args: Any, kwargs: Any) -> None:
    """Copy list into list, one by one."""
    for target, source in zip(args[0], args[1], strict=True):
        copy_(torch.ops.aten.copy_.default, (target, source, *args[2:]), kwargs)


@special("_local_scalar_dense")
def item(func: Any, args: Any, _kwargs: Any) -> Any:
    """Read one value: a copy to the host that waits."""
    count_copy(to_device=False)
    return func(args[0].held)


@special("index", "_unsafe_index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index_put")
def index(func: Any, args: Any, kwargs: Any) -> Any:
    """Index by tensors. As in CUDA, copy those of the CPU, and wait to count the elements of a mask."""
    refuse_index(args[0])
    filled = len(args) > 2 and args[2].numel() == 1  # CUDA turns `x[mask] = number` into masked_fill
    for each in args[1]:
        if each is not None and not isinstance(each, Simulated):
            count_copy(to_device=True)
        elif each is not None and each.dtype in MASKS and not filled:
            count_wait()
    elsewhere = len(args) > 2 and not isinstance(args[2], Simulated) and args[2].dim() > 0
    return ordinary(PLANS[func], func, args, kwargs, host=not elsewhere)


@special("repeat_interleave")
def repeat_interleave(func: Any, args: Any, kwargs: Any) -> Any:
    """Repeat elements. As in CUDA, sum the repeats and wait unless the size of the output is given."""
    if kwargs.get("output_size") is None:
        count_wait()
    return ordinary(PLANS[func], func, args, kwargs)


@special("_pack_padded_sequence")
def pack_padded_sequence(func: Any, args: Any, _kwargs: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Pack sequences. As in CUDA, lengths and batch sizes are on the CPU."""
    sequence, lengths, *rest = args
    if isinstance(lengths, Simulated):
        raise RuntimeError(
            f"'lengths' argument should be a 1D CPU int64 tensor, but got 1D {lengths.device} Long tensor"
        )
    packed, batch_sizes = func(sequence.held, lengths, *rest)
    return wrap(packed), batch_sizes


@special("set_", "set")
def set_(func: Any, args: Any, _kwargs: Any) -> torch.Tensor:
    """Make a tensor use another one's memory."""
    target, *rest = args
    func(target.held, *(x.held if isinstance(x, Simulated) else x for x in rest))
    if rest and isinstance(rest[0], Simulated):
        target.block = rest[0].block
    return follow(target)


@special("resize_", "resize_as_")
def resize_(func: Any, args: Any, kwargs: Any) -> torch.Tensor:
    """Change the shape and, if needed, the memory."""
    func(*(x.held if isinstance(x, Simulated) else x for x in args), **kwargs)
    sync_metadata(args[0])
    return args[0]  # type: ignore[no-any-return]


@special("_pin_memory")
def pin_memory(_func: Any, args: Any, _kwargs: Any) -> torch.Tensor:
    """Refuse: only CPU memory can be pinned."""
    raise RuntimeError(f"cannot pin 'torch.{NAME}.{args[0].dtype}' only dense CPU tensors can be pinned")


@special("is_pinned")
def is_pinned(_func: Any, _args: Any, _kwargs: Any) -> bool:
    """Return False."""
    return False


@special("_nested_tensor_from_mask_left_aligned")
def left_aligned(_func: Any, _args: Any, _kwargs: Any) -> bool:
    """Return False, so that transformer layers do not use nested tensors, which the device lacks."""
    return False


@special("record_stream")
def record_stream(_func: Any, _args: Any, _kwargs: Any) -> None:
    """Do nothing: every operator is finished when it returns."""
