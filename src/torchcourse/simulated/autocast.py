"""Autocast for the simulated device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from torchcourse.simulated import autocast_lists as lists
from torchcourse.simulated.device import NAME
from torchcourse.simulated.plans import overload

KEY = "AutocastPrivateUse1"
CASTABLE = (torch.float32, torch.float16, torch.bfloat16)  # never float64
Change = Callable[[Any, tuple[Any, ...], dict[str, Any]], tuple[tuple[Any, ...], dict[str, Any]]]


def _castable(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.dtype in CASTABLE and x.device.type == NAME


def _cast(x: Any, dtype: torch.dtype) -> Any:
    if isinstance(x, list | tuple):
        return [_cast(each, dtype) for each in x]
    return x.to(dtype) if _castable(x) else x


def _to(dtype: torch.dtype, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return tuple(_cast(x, dtype) for x in args), {name: _cast(x, dtype) for name, x in kwargs.items()}


def to_lower(_func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Cast to the dtype that autocast was asked for."""
    return _to(torch.get_autocast_dtype(NAME), args, kwargs)


def to_float32(_func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Cast to float32."""
    return _to(torch.float32, args, kwargs)


def to_float32_result(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Ask for a float32 result, unless the caller asks for a dtype."""
    place = [each.name for each in func._schema.arguments].index("dtype")
    asked = (args[place] if len(args) > place else kwargs.get("dtype")) is not None
    if asked or not _castable(args[0]):
        return args, kwargs
    return args[:place], {**kwargs, "dtype": torch.float32}


def to_widest(_func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Cast to float32 if any tensor has it, else to the lower precision."""
    flat = [y for x in args for y in (x if isinstance(x, list | tuple) else (x,))]
    wide = any(_castable(x) and x.dtype == torch.float32 for x in flat)
    return _to(torch.float32 if wide else torch.get_autocast_dtype(NAME), args, kwargs)


def _kernel(name: str, change: Change) -> Callable[..., Any]:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        operator = overload(name)
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, KEY))):
            args, kwargs = change(operator, args, kwargs)
            return operator(*args, **kwargs)

    return kernel


def _banned(*_args: Any, **_kwargs: Any) -> Any:
    raise RuntimeError(
        "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
        "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
        "In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits\n"
        "or torch.nn.BCEWithLogitsLoss. binary_cross_entropy_with_logits and BCEWithLogits are\n"
        "safe to autocast."
    )


def install(library: Any, fallback: Any) -> None:
    """Register the autocast kernels; operators on no list keep the dtypes they are given."""
    fallback.fallback(torch.library.fallthrough_kernel, KEY)
    for names, change in (
        (lists.LOWER_PRECISION, to_lower),
        (lists.FLOAT32, to_float32),
        (lists.FLOAT32_RESULT, to_float32_result),
        (lists.WIDEST, to_widest),
    ):
        for name in names:
            library.impl(name, _kernel(name, change), KEY)
    library.impl("binary_cross_entropy", _banned, KEY)
