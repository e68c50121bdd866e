"""Making the simulated device known to PyTorch."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import backend_registration

from torchcourse.simulated import autocast, dispatch, factories
from torchcourse.simulated.counting import COUNTS, synchronized
from torchcourse.simulated.tensor import NAME

LIBRARIES: list[torch.library.Library] = []  # a library's kernels live as long as it does


class Hooks(torch._C._acc.PrivateUse1Hooks):
    """Honest: not the machine's accelerator, so `torch.accelerator` and pinning behave as without a GPU."""

    def is_available(self) -> bool:
        return False

    def has_primary_context(self, index: int) -> bool:
        return False

    def is_built(self) -> bool:
        return True


class Module(backend_registration._DummyBackendModule):
    """What `torch.simgpu` and `torch.get_device_module("simgpu")` give."""

    def is_available(self) -> bool:
        return False

    def device_count(self) -> int:
        return 0

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.float16, torch.bfloat16]

    def get_rng_state(self, device: Any = None) -> torch.Tensor:
        return torch.get_rng_state()

    def set_rng_state(self, state: torch.Tensor, device: Any = None) -> None:
        torch.set_rng_state(state)

    def synchronize(self, device: Any = None) -> None:
        synchronized()

    def memory_allocated(self, device: Any = None) -> int:
        return COUNTS.allocated_bytes


def is_registered() -> bool:
    """Say whether this process knows the device."""
    return bool(LIBRARIES)


def register() -> torch.device:
    """Make the device known to this process and return it; a second call only returns it."""
    if not is_registered():
        if torch.cuda.is_initialized():
            raise RuntimeError(f"{NAME} cannot be registered: this process already uses CUDA")
        backend_registration._setup_privateuseone_for_python_backend(NAME, backend_module=Module(), hook=Hooks())
        torch.__future__.set_swap_module_params_on_conversion(True)
        library, fallback = torch.library.Library("aten", "IMPL"), torch.library.Library("_", "IMPL")
        LIBRARIES.extend((library, fallback))
        factories.install(library)
        autocast.install(library, fallback)
    return torch.device(NAME, 0)


assert dispatch  # importing it gives the tensor its operators
