"""Probe compiled answers: a compiler with fresh state for each case, a backend that counts, functions to compile."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from torchcourse.checking.call_watch import CallWatch
from torchcourse.model.observations import Observations, Raised
from torchcourse.probes.observe import kind

__all__ = [
    "COMPILER", "FUNCTIONS", "INDUCTOR", "STEPS", "Counted", "as_count", "captured_whole", "eagerly", "fresh_dynamo",
    "function_of", "uncompiled", "with_waits",
]  # fmt: skip

BACKENDS = ("cudagraphs", "distributed", "inductor", "onnxrt", "tensorrt", "torchxla", "tvm")
COMPILER = (
    "torch._dynamo", "torch._dynamo.testing", "torch._functorch.aot_autograd", "torch._dynamo.repro.after_dynamo",
    "torch.distributed.tensor.experimental._attention", "torch.export._trace",
    *(f"torch._dynamo.backends.{name}" for name in BACKENDS),
)  # fmt: skip
"""Modules that the first compilation imports; looking up a backend by name imports all of them."""
INDUCTOR = (*COMPILER, "sympy.tensor.tensor", "torch._inductor.compile_fx", "torch.testing._internal.optests")
"""Modules that varying sizes, the default backend and `opcheck` import as well."""

SETTINGS: dict[str, Any] = {
    "suppress_errors": False, "recompile_limit": 8, "accumulated_recompile_limit": 256,
    "force_parameter_static_shapes": True, "automatic_dynamic_shapes": True, "assume_static_by_default": True,
    "disable": False,
}  # fmt: skip
"""The defaults of Dynamo's settings that matter to probes; an answer or a notebook may have changed them."""

WAITING = {"aten::_local_scalar_dense", "aten::is_nonzero", "aten::nonzero", "aten::equal", "aten::masked_select"}
"""Operators whose result the host has to wait for."""
COND = "cond"
"""The operator of `torch.cond`, which reads its predicate and shows none of its other operators."""


def _as_it_is(_compiler: object, graph: torch.fx.GraphModule, _inputs: Any, **_options: Any) -> Callable[..., Any]:
    return graph.forward


def _unmeasured(*_guards: object) -> float:
    """Stand in for the function that times guards for the log, which takes nearly half of a small compilation."""
    return 0.0


@contextlib.contextmanager
def fresh_dynamo(**settings: Any) -> Iterator[None]:
    """Reset Dynamo before and after this block, with its default settings except `settings`, and without warnings.

    Its statistics begin anew, and are afterwards what they were before. The default backend runs graphs uncompiled,
    since no check needs generated code. Dynamo is imported here because that takes more than a second.
    """
    import torch._dynamo

    silent = logging.root.manager.disable
    known = {name: value for name, value in (SETTINGS | settings).items() if hasattr(torch._dynamo.config, name)}
    logging.disable(logging.ERROR)
    torch.compiler.reset()
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch._dynamo.config.patch(known))
            stack.enter_context(mock.patch.dict(torch._dynamo.utils.counters, clear=True))
            stack.enter_context(mock.patch.object(torch._TorchCompileInductorWrapper, "__call__", _as_it_is))
            if hasattr(torch._dynamo.guards, "profile_guard_manager"):
                stack.enter_context(mock.patch.object(torch._dynamo.guards, "profile_guard_manager", _unmeasured))
            yield
    finally:
        torch.compiler.reset()
        logging.disable(silent)


class Counted:
    """A backend that keeps the graphs it gets, uncompiled, and counts how often they run."""

    def __init__(self) -> None:
        self.graphs: list[torch.fx.GraphModule] = []
        self.runs = 0

    def __call__(self, graph: torch.fx.GraphModule, _inputs: list[Tensor]) -> Callable[..., Any]:
        self.graphs.append(graph)

        def run(*args: Any) -> Any:
            self.runs += 1
            return graph(*args)

        return run


def uncompiled(answer: Callable[..., Any]) -> Callable[..., Any]:
    """Return the original function of an answer that may be compiled."""
    original: Callable[..., Any] = getattr(answer, "_torchdynamo_orig_callable", answer)
    return original


def captured_whole(function: Callable[..., Any], *calls: tuple[Any, ...]) -> Observations:
    """Observe whether Dynamo captures `function` in one graph that serves all of these calls, and their results."""
    backend = Counted()
    with fresh_dynamo():
        compiled = torch.compile(function, backend=backend, fullgraph=True)
        try:
            results = [compiled(*args) for args in calls]
        except Exception as error:
            first = str(error).strip().split("\n")[0].partition(" (unhinted")[0][:200].rstrip(".")
            return {"in one graph": Raised(type(error).__name__, first, _uncaptured(str(error)))}
    names = ("first result of the graph", "second result of the graph")
    return {"in one graph": len(backend.graphs), **dict(zip(names, results, strict=False))}


def _uncaptured(message: str) -> str:
    """Return why Dynamo did not capture a function, as far as its message tells."""
    known = ("data-dependent", "dynamic control flow")
    return "a value decides" if any(words in message.lower() for words in known) else "not captured"


def with_waits(call: Callable[[], Any]) -> tuple[Any, list[str]]:
    """Return the result of a call, and the operators in it that make the host wait for the device.

    A call of `torch.cond` is made once more, unwatched: under a dispatch mode torch does not compile the branches, and
    then it cannot differentiate the result.
    """
    with CallWatch() as watch:
        result = call()
    operators = [name for name in watch.operators if name.split(".")[0] in WAITING or name == COND]
    if COND in operators:
        result = call()
    handed = ["values handed to Python"] if watch.handed_over and not operators else []
    return result, sorted({*operators, *handed})


def as_count(value: object) -> Any:
    """Return a count as it is, and a description of anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else kind(value)


def eagerly(device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """Run compiled functions uncompiled in this block, except on the CPU: elsewhere only values are compared."""
    return contextlib.nullcontext() if device.type == "cpu" else torch.compiler.set_stance("force_eager")


# Functions to compile; their names, with spaces, are the keys of FUNCTIONS

STEPS = {
    "double": "x = x * 2",
    "sine": "x = x.sin()",
    "shift": "x = x + 1",
    "break": "torch._dynamo.graph_break()",
    "branch": "if x.sum() > 0: x = x - 1",
}
"""Lines of which functions are drawn."""


def function_of(case: str | Sequence[str]) -> Callable[..., Any]:
    """Return one of `FUNCTIONS`, or a function of x with these lines of `STEPS`, which no answer knows by its name."""
    if isinstance(case, str):
        return FUNCTIONS[case]
    names: dict[str, Any] = {"torch": torch}
    exec("\n    ".join(["def function(x):", *(STEPS[step] for step in case), "return x"]), names)
    function: Callable[[Tensor], Tensor] = names["function"]
    return function


def pointwise(x: Tensor) -> Tensor:
    return (x * 2 + 1).relu()


def branch_on_values(x: Tensor) -> Tensor:
    y = x * 2
    if y.sum() > 0:
        return y + 1
    return y.sin() - 1


def two_breaks(x: Tensor) -> Tensor:
    y = x + 1
    torch._dynamo.graph_break()
    y = y * 3
    torch._dynamo.graph_break()
    return y.relu()


def break_at_the_start(x: Tensor) -> Tensor:
    torch._dynamo.graph_break()
    return x.exp() + 1


def break_at_the_end(x: Tensor) -> Tensor:
    y = x.exp() + 1
    torch._dynamo.graph_break()
    return y


def branch_on_shape(x: Tensor) -> Tensor:
    return x.sum(0) if x.shape[0] > 2 else x.mean(0)


def no_operation(x: Tensor) -> Tensor:
    return x


def two_tensors(x: Tensor, y: Tensor) -> Tensor:
    return x * y - y.exp()


def methods_and_functions(x: Tensor) -> Tensor:
    return torch.sin(x.abs()).sum(0) + 1


def twice_the_same(x: Tensor) -> Tensor:
    return x.sin().sin()


def centred(x: Tensor) -> Tensor:
    return (x - x.mean()).abs().sum(0)


def two_results(x: Tensor) -> Tensor:
    values, _places = torch.max(x, 1)
    return values * 2


STORED = torch.tensor(0.5)


def a_stored_tensor(x: Tensor) -> Tensor:
    return x * STORED + 1


def python_loop(x: Tensor) -> Tensor:
    for k in range(1, 4):
        x = (x + k) * k
    return x


def chosen(x: Tensor) -> Tensor:
    return torch.where(x > 0, x, x * 0.1)


def row_sums(x: Tensor) -> Tensor:
    return (x * x).sum(1)


def scaled_by_size(x: Tensor) -> Tensor:
    return x.sum(0) / x.shape[0]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    f.__name__.replace("_", " "): f
    for f in (
        pointwise, branch_on_values, two_breaks, break_at_the_start, break_at_the_end, branch_on_shape, no_operation,
        two_tensors, methods_and_functions, twice_the_same, centred, two_results, python_loop, chosen, row_sums,
        scaled_by_size, a_stored_tensor,
    )
}  # fmt: skip
