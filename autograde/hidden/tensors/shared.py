"""What several private halves of lesson 01 share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from autograde.hidden.common import DTYPES, tensors_through
from autograde.source.mistakes import Mistake

HANDED = (
    "The number of {what} is {got}: what is worked out one by one in Python, or in NumPy, pays for each row what one "
    "torch call for all rows pays once."
)
WIDENED = (
    'In the case "{case}" the result is {got_dtype} where {want_dtype} is wanted: a result keeps the dtype of the '
    "floats it is made from, half precision included."
)
SAYS_LITTLE = (
    "In the case \"{case}\" the answer raised {refused}: the message should name the argument, what was passed and "
    "what is allowed."
)  # fmt: skip


def widening(program: Callable[..., Any]) -> Mistake:
    """Return the mistake of `program`, a right one, turning half precision into float32 and leaving the result so."""
    halves = (torch.float16, torch.bfloat16)
    wide = tensors_through(lambda t: t.float() if t.dtype in halves else t, program)
    return Mistake("dtype-not-kept", wide, WIDENED, DTYPES)
