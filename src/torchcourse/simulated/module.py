"""The device module: `torch.simgpu`, and `torch.get_device_module("simgpu")`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from torchcourse.simulated.accelerator import CAPACITY, select, stands_in
from torchcourse.simulated.counting import COUNTS, count_wait, reset_peak


class DeviceModule:
    """The calls that device modules share. Available only while the device is the accelerator.

    Its random numbers come from the CPU's generator, so its seed and its state are that generator's.
    """

    Stream = torch.Stream
    Event = torch.Event

    def is_initialized(self) -> bool:
        return True

    def is_available(self) -> bool:
        return stands_in()

    def device_count(self) -> int:
        return int(stands_in())

    def current_device(self) -> int:
        return 0

    def set_device(self, wanted: Any) -> None:
        select(wanted if isinstance(wanted, int) else torch.device(wanted).index or 0)

    @contextmanager
    def device(self, wanted: Any) -> Iterator[None]:
        self.set_device(wanted)
        yield

    def synchronize(self, _wanted: Any = None) -> None:
        count_wait()

    def memory_allocated(self, _wanted: Any = None) -> int:
        return COUNTS.allocated_bytes

    def max_memory_allocated(self, _wanted: Any = None) -> int:
        return COUNTS.peak_bytes

    def reset_peak_memory_stats(self, _wanted: Any = None) -> None:
        reset_peak()

    def mem_get_info(self, _wanted: Any = None) -> tuple[int, int]:
        return CAPACITY - COUNTS.allocated_bytes, CAPACITY

    def empty_cache(self) -> None:
        """Do nothing: there is no cache."""

    def get_device_name(self, _wanted: Any = None) -> str:
        return "simulated accelerator (values on the CPU)"

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.float16, torch.bfloat16]

    def is_bf16_supported(self) -> bool:
        return True

    def manual_seed(self, seed: int) -> None:
        torch.default_generator.manual_seed(seed)

    manual_seed_all = manual_seed

    def get_rng_state(self, _wanted: Any = None) -> torch.Tensor:
        return torch.get_rng_state()

    def set_rng_state(self, state: torch.Tensor, _wanted: Any = None) -> None:
        torch.set_rng_state(state)

    def _is_in_bad_fork(self) -> bool:
        return False
