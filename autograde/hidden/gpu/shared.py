"""What several private halves of lesson 06 share."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor


def move_by_match(obj: Any, device: torch.device) -> Any:
    """Move the tensors in a container, a right way."""
    again = functools.partial(move_by_match, device=device)
    match obj:
        case Tensor():
            return obj.to(device=device)
        case dict():
            return dict(zip(obj.keys(), map(again, obj.values()), strict=True))
        case tuple() if hasattr(obj, "_make"):
            return obj._make(map(again, obj))
        case tuple() | list():
            return type(obj)(map(again, obj))
    return obj
