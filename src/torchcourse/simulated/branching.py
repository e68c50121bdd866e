"""`torch.cond` on the simulated device: read the predicate and run one of the two functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from torchcourse.simulated.tensor import Simulated


def install() -> None:
    """Register a rule for simulated tensors if this version of PyTorch has the operator."""
    operator: Any = getattr(torch.ops.higher_order, "cond", None)
    if operator is not None and Simulated not in operator.python_key_table:
        operator.py_impl(Simulated)(_run)


def _run(
    predicate: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: tuple[Any, ...] = ()
) -> Any:
    return (true_fn if bool(predicate) else false_fn)(*operands)
