"""A second device without a GPU, called "simgpu".

Its tensors hold CPU values and refuse to mix with CPU tensors, as CUDA's do; what the device does is counted. Values
agree with the CPU's; times mean nothing. `register` says when it may be registered.
"""

from torchcourse.simulated.accelerator import as_accelerator
from torchcourse.simulated.counting import Counters, counters, events, reset_counters
from torchcourse.simulated.device import NAME
from torchcourse.simulated.registration import is_registered, prepare, register
from torchcourse.simulated.tensor import shares_memory, values

__all__ = [
    "NAME",
    "Counters",
    "as_accelerator",
    "counters",
    "events",
    "is_registered",
    "prepare",
    "register",
    "reset_counters",
    "shares_memory",
    "values",
]
