"""Register the simulated device with PyTorch."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import backend_registration

from torchcourse.simulated import (
    accelerator,
    autocast,
    branching,
    conversion,
    dispatch,
    engine,
    factories,
    handlers,
    recurrent,
    storage,
)
from torchcourse.simulated.device import NAME, device
from torchcourse.simulated.module import DeviceModule
from torchcourse.simulated.tensor import Simulated

LIBRARIES: list[Any] = []  # a library's kernels live as long as it does
HANDLERS = (handlers, recurrent)  # importing them registers their operators


class Hooks(torch._C._acc.PrivateUse1Hooks):
    """Hooks that report no accelerator for this device, so that pinning and queries behave as without one."""

    def is_available(self) -> bool:
        return False

    def has_primary_context(self, _index: int) -> bool:
        return False

    def is_built(self) -> bool:
        return True


def is_registered() -> bool:
    """Return whether the device is registered in this process."""
    return bool(torch._C._get_privateuse1_backend_name() == NAME)


def prepare() -> None:
    """Register kernels for the device, which have no effect before `register`.

    This writes to the entry of every operator. Forks that call `register` later then share that memory.
    """
    if not LIBRARIES:
        make: Any = torch.library.Library
        library, fallback = make("aten", "IMPL"), make("_", "IMPL")
        LIBRARIES.extend((library, fallback))
        factories.install(library)
        autocast.install(library, fallback)


def register() -> torch.device:
    """Register the device in this process and return it; a second call only returns it.

    Call it before the process runs its first backward: autograd creates its threads then, and none for a device that is
    registered later (the first backward on the device would say so). After that backward, PyTorch refuses to run
    another one in a forked child, even on the CPU. So fork first.

    It cannot be undone, and changes more than the device: `nn.Module._apply` and `nn.Parameter.data` move parameters
    between CPU and device, `torch.autograd` passes its errors through `engine`, `torch.save` and `torch.load` know the
    device, optimizers may use their foreach form for it, and pinning CPU memory says that there is no accelerator. What
    these do for CPU tensors stays the same.

    Raises:
        RuntimeError: if the process already uses CUDA, or another backend has taken PyTorch's only slot.
    """
    if not is_registered():
        _refuse_where_it_may_not()
        accelerator.stay_hidden()
        backend_registration._setup_privateuseone_for_python_backend(
            NAME, backend_module=DeviceModule(), hook=Hooks(), device_guard=engine.Guard()
        )
        _install()
    return device()


def _refuse_where_it_may_not() -> None:
    cuda: Any = torch.cuda
    if cuda.is_initialized():
        raise RuntimeError(f"{NAME} cannot be registered: this process already uses CUDA. Register it in a new process")
    taken = torch._C._get_privateuse1_backend_name()
    if taken != "privateuseone":
        raise RuntimeError(f"{NAME} cannot be registered: the backend '{taken}' has taken the place in this process")


def _install() -> None:
    prepare()
    factories.install_pinning(LIBRARIES[0])
    dispatch.install()
    storage.install()
    conversion.install()
    engine.install()
    branching.install()
    _take_foreach()


def _take_foreach() -> None:
    """Let optimizers default to their foreach form, as on CUDA: they ask for exact tensor types."""
    from torch.optim import optimizer
    from torch.utils import _foreach_utils

    for module in (optimizer, _foreach_utils):
        kinds = getattr(module, "_foreach_supported_types", None)
        if isinstance(kinds, list):
            kinds.append(Simulated)
