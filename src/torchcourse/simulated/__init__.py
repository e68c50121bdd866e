"""A second device without a GPU: its tensors hold CPU values, refuse to mix with the CPU, and are counted."""

from torchcourse.simulated.accelerator import as_accelerator
from torchcourse.simulated.counting import Counters, counters, events, reset_counters
from torchcourse.simulated.registration import is_registered, register
from torchcourse.simulated.tensor import NAME, shares_memory, values

__all__ = [
    "NAME",
    "Counters",
    "as_accelerator",
    "counters",
    "events",
    "is_registered",
    "register",
    "reset_counters",
    "shares_memory",
    "values",
]
