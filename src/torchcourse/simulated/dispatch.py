"""Every operator on a simulated tensor comes through here and runs on the held values.

This is the hot path: a small training step makes some hundred calls, so it takes no pytrees and few function calls.
"""

from __future__ import annotations

from typing import Any

import torch

from torchcourse.simulated.counting import RECORDERS, count_wait, record
from torchcourse.simulated.device import CPU, is_ours
from torchcourse.simulated.errors import refuse_mixture
from torchcourse.simulated.plans import PLANS, Plan, Returns, plan_for
from torchcourse.simulated.tensor import Simulated, follow, wrap

ALIASES: Any = torch._C._is_alias_of  # type: ignore[attr-defined]
ATOMS = frozenset((int, float, bool, complex, type(None), str, torch.dtype, torch.layout, torch.memory_format))


def run(func: Any, _types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
    """Run `func` on the held values and return the result on the device, as `__torch_dispatch__`."""
    if torch._C._len_torch_function_stack():
        # modes that watch calls should see the learner's, and not those on the held values
        with torch._C.DisableTorchFunction():
            return _run(func, args, kwargs or {})
    return _run(func, args, kwargs or {})


def _run(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    plan = PLANS.get(func) or plan_for(func)
    if plan.special is not None:
        return plan.special(func, args, kwargs)
    return ordinary(plan, func, args, kwargs)


def ordinary(plan: Plan, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], host: bool = False) -> Any:
    """Run an operator in the ordinary way. `host` allows CPU tensors, whatever the plan says."""
    foreign_tensors: list[torch.Tensor] = []
    plain = [x.held if type(x) is Simulated else x if type(x) in ATOMS else unwrap(x, foreign_tensors) for x in args]
    stays = True
    if kwargs:
        stays = "device" not in kwargs or is_ours(kwargs["device"])
        plain_kwargs = unwrap_keywords(kwargs, foreign_tensors, stays)
    else:
        plain_kwargs = kwargs
    if foreign_tensors and not host:
        refuse_mixture(plan, func, args, kwargs, foreign_tensors)
    if RECORDERS and plan.returns is not Returns.VIEW:  # a view launches no kernel
        record(f"kernel:{plan.name}")
    result = func(*plain, **plain_kwargs)
    if plan.synchronizes:
        count_wait()
    if not stays:
        return result
    return wrap_result(plan, result, args, kwargs)


def wrap_result(plan: Plan, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return a result of the CPU on the device."""
    if plan.returns is Returns.FRESH:
        return wrap(result) if type(result) is torch.Tensor else wrap_all(result)
    if plan.returns is Returns.VIEW:
        return wrap_views(result, args[0])
    ours = [x for x in (*args, *kwargs.values()) if type(x) is Simulated]
    if plan.reshapes:
        for each in ours:
            sync_metadata(each)
    if plan.returns is Returns.FIRST:
        return args[0]
    return wrap_all(result, {id(x.held): x for x in ours})


def wrap_all(result: Any, known: dict[int, Simulated] | None = None) -> Any:
    """Wrap the tensors in a result; reuse the wrappers in `known`, by the id of their values."""
    if isinstance(result, torch.Tensor):
        return known[id(result)] if known and id(result) in known else wrap(result)
    if isinstance(result, list | tuple):
        return type(result)(wrap_all(x, known) for x in result)
    return result


def wrap_views(result: Any, owner: Any) -> Any:
    """Wrap one view or several: they share the memory of their owner; copies have their own."""
    if isinstance(result, list | tuple):
        return type(result)(wrap_views(x, owner) for x in result)
    shares = type(owner) is Simulated and ALIASES(result, owner.held)
    wrapper = wrap(result, owner.block if shares else None)
    if result.is_conj():
        torch._C._set_conj(wrapper, True)
    if result.is_neg():
        torch._C._set_neg(wrapper, True)
    return wrapper


def sync_metadata(wrapper: Simulated) -> None:
    """Update wrapper and block after an operator that may have changed shape or memory."""
    held = wrapper.held
    if held.shape != wrapper.shape or held.stride() != wrapper.stride():
        follow(wrapper)
        wrapper.block.resize(max(wrapper.block.nbytes, held.untyped_storage().nbytes()))


def unwrap(x: Any, foreign_tensors: list[torch.Tensor]) -> Any:
    """Replace simulated tensors by their held values, also in lists; collect the tensors of other devices."""
    if isinstance(x, Simulated):
        return x.held
    if isinstance(x, torch.Tensor):
        foreign_tensors.append(x)
    elif isinstance(x, list | tuple) and not isinstance(x, torch.Size):
        return [unwrap(each, foreign_tensors) for each in x]
    return x


def unwrap_keywords(kwargs: dict[str, Any], foreign_tensors: list[torch.Tensor], stays: bool) -> dict[str, Any]:
    """Do the same for keyword arguments; a result that stays on the device is made on the CPU."""
    plain_kwargs = {name: unwrap(x, foreign_tensors) for name, x in kwargs.items()}
    if stays and "device" in plain_kwargs:
        plain_kwargs["device"] = CPU
    plain_kwargs.pop("pin_memory", None)
    return plain_kwargs


def install() -> None:
    """Give the tensor class its operators."""
    Simulated.__torch_dispatch__ = staticmethod(run)  # type: ignore[assignment]
