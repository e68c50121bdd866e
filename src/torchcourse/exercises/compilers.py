"""What probes of compiled answers are made of: a compiler as new for each case, and a backend that counts."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from torchcourse.observations import Observations, Raised
from torchcourse.watching import Watch

__all__ = ["Counted", "as_new", "captured_whole", "waits", "written"]

SETTINGS: dict[str, Any] = {
    "suppress_errors": False, "recompile_limit": 8, "accumulated_recompile_limit": 256,
    "force_parameter_static_shapes": True, "automatic_dynamic_shapes": True, "assume_static_by_default": True,
    "disable": False,
}  # fmt: skip
"""Dynamo's settings that decide what a probe sees, as they come; an answer or a notebook may have changed them."""

WAITING = {"aten::_local_scalar_dense", "aten::is_nonzero", "aten::nonzero", "aten::equal", "aten::masked_select"}
"""Operators whose result the host has to wait for."""


def _as_it_is(_compiler: object, graph: torch.fx.GraphModule, _inputs: Any, **_options: Any) -> Callable[..., Any]:
    return graph.forward


def _unmeasured(*_guards: object) -> float:
    """In place of what measures, for the log, how long guards take: it empties the processor's caches first, which is
    nearly half of all time that a small compilation needs."""
    return 0.0


@contextlib.contextmanager
def as_new(**settings: Any) -> Iterator[None]:
    """A block in which Dynamo knows nothing from before, has its ordinary settings but for these and writes no
    warnings; it forgets again what it learned in it. Importing it takes more than a second, so it is imported here.

    What is compiled with the default backend runs its graphs as they are: no check needs a compiler that makes code,
    nor waits for one.
    """
    import torch._dynamo

    silent = logging.root.manager.disable
    known = {name: value for name, value in (SETTINGS | settings).items() if hasattr(torch._dynamo.config, name)}
    logging.disable(logging.ERROR)
    torch.compiler.reset()
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch._dynamo.config.patch(known))
            stack.enter_context(mock.patch.object(torch._TorchCompileInductorWrapper, "__call__", _as_it_is))
            if hasattr(torch._dynamo.guards, "profile_guard_manager"):
                stack.enter_context(mock.patch.object(torch._dynamo.guards, "profile_guard_manager", _unmeasured))
            yield
    finally:
        torch.compiler.reset()
        logging.disable(silent)


class Counted:
    """A backend that compiles nothing: it keeps the graphs it gets, and counts how often they run."""

    def __init__(self) -> None:
        self.graphs: list[torch.fx.GraphModule] = []
        self.runs = 0

    def __call__(self, graph: torch.fx.GraphModule, _inputs: list[Tensor]) -> Callable[..., Any]:
        self.graphs.append(graph)

        def run(*args: Any) -> Any:
            self.runs += 1
            return graph(*args)

        return run


def written(answer: Callable[..., Any]) -> Callable[..., Any]:
    """The function as it was written, where the answer comes compiled: no probe needs a compiler that makes code."""
    original: Callable[..., Any] = getattr(answer, "_torchdynamo_orig_callable", answer)
    return original


def captured_whole(function: Callable[..., Any], *calls: tuple[Any, ...]) -> Observations:
    """Whether Dynamo captures `function` in one graph that serves all of these calls, and what they then return."""
    backend = Counted()
    with as_new():
        compiled = torch.compile(function, backend=backend, fullgraph=True)
        try:
            results = [compiled(*args) for args in calls]
        except Exception as error:
            first = str(error).strip().split("\n")[0][:200]
            return {"in one graph": Raised(type(error).__name__, first, "not captured")}
    names = ("first result of the graph", "second result of the graph")
    return {"in one graph": len(backend.graphs), **dict(zip(names, results, strict=False))}


def waits(call: Callable[[], Any]) -> tuple[Any, list[str]]:
    """What a call returns, and the operators in it that make the host wait for a result of the device."""
    with Watch() as watch:
        result = call()
    found = [name for name in watch.operators if name.split(".")[0] in WAITING]
    handed = ["values handed to Python"] if watch.handed_over and not found else []
    return result, sorted({*found, *handed})
