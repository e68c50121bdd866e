# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 8 · Compile

# %% tags=["setup"]
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F

from torchcourse import Unattempted, check, hint

# %% [markdown]
# ## From Python to a graph
#
# ### Exercise: CountingBackend

# %% exercise="CountingBackend" points=2
class CountingBackend:
    """A backend for torch.compile that counts graphs, and the nodes in them that compute."""

    ### BEGIN SOLUTION
    def __init__(self) -> None:
        self.graphs = 0
        self.ops = 0

    def __call__(self, graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Callable[..., Any]:
        self.graphs += 1
        self.ops += sum(node.op in ("call_function", "call_method", "call_module") for node in graph.graph.nodes)
        return graph.forward
    ### END SOLUTION

# %% check="CountingBackend"
check("CountingBackend")

# %% [markdown]
# ## Operators under the hood
#
# ### Exercise: graph_ops

# %% exercise="graph_ops" points=2
def graph_ops(fn: Callable[..., Any], *args: Tensor) -> list[str]:
    """The ATen operators that fn(*args) runs, in order."""
    ### BEGIN SOLUTION
    graph = make_fx(fn)(*args).graph
    return [str(node.target) for node in graph.nodes if isinstance(node.target, torch._ops.OpOverload)]
    ### END SOLUTION

# %% check="graph_ops"
check("graph_ops")

# %% [markdown]
# ## Graph breaks
#
# ### Exercise: count_graphs

# %% exercise="count_graphs" points=2
def count_graphs(fn: Callable[..., Any], *args: Any) -> int:
    """How many graphs Dynamo makes of fn(*args)."""
    ### BEGIN SOLUTION
    graphs = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Callable[..., Any]:
        graphs.append(graph)
        return graph.forward

    torch.compiler.reset()
    torch.compile(fn, backend=backend)(*args)
    return len(graphs)
    ### END SOLUTION

# %% check="count_graphs"
check("count_graphs")

# %% [markdown]
# ## Mending a break
#
# ### Exercise: signed_scale

# %% exercise="signed_scale" points=2
def signed_scale(x: Tensor) -> Tensor:
    """x * 2 if the sum of x is positive, else x - 1; in one graph."""
    ### BEGIN SOLUTION
    return torch.where(x.sum() > 0, x * 2, x - 1)
    ### END SOLUTION

# %% check="signed_scale"
check("signed_scale")

# %% [markdown]
# ### Exercise: clip_by_norm

# %% exercise="clip_by_norm" points=2
def clip_by_norm(x: Tensor, max_norm: float) -> Tensor:
    """x, scaled down to the norm max_norm where it is longer; in one graph, and nobody waits."""
    ### BEGIN SOLUTION
    norm = torch.linalg.vector_norm(x)
    return x * (max_norm / norm.clamp(min=max(max_norm, 1e-12)))
    ### END SOLUTION

# %% check="clip_by_norm"
check("clip_by_norm")

# %% [markdown]
# ## Guards, recompiles and dynamic shapes
#
# ### Exercise: compile_dynamic

# %% exercise="compile_dynamic" points=1
def compile_dynamic(fn: Callable[..., Any], backend: Any) -> Callable[..., Any]:
    """A compiled fn that compiles at most twice, however many batch sizes come."""
    ### BEGIN SOLUTION
    return torch.compile(fn, backend=backend, dynamic=True)
    ### END SOLUTION

# %% check="compile_dynamic"
check("compile_dynamic")

# %% [markdown]
# ## What it costs, and measuring it
#
# ### Exercise: benchmark

# %% exercise="benchmark" points=3
def benchmark(
    fns: dict[str, Callable[..., Any]], *args: Any, device: torch.device | str, repeats: int = 30
) -> dict[str, dict[str, float]]:
    """Median and interquartile range, in seconds, of fn(*args) for each of fns, which take turns."""
    ### BEGIN SOLUTION
    wait = torch.get_device_module(device).synchronize
    for fn in fns.values():
        fn(*args)
        fn(*args)
    times: dict[str, list[float]] = {name: [] for name in fns}
    for _ in range(repeats):
        for name, fn in fns.items():
            wait()
            start = time.perf_counter()
            fn(*args)
            wait()
            times[name].append(time.perf_counter() - start)
    result = {}
    for name, seconds in times.items():
        low, high = torch.tensor(seconds, dtype=torch.float64).quantile(torch.tensor([0.25, 0.75]).double()).tolist()
        result[name] = {"median": statistics.median(seconds), "iqr": high - low}
    return result
    ### END SOLUTION

# %% check="benchmark"
check("benchmark")

# %% [markdown]
# ## When the compiler fails
#
# ### Exercise: compile_or_eager

# %% exercise="compile_or_eager" points=2
def compile_or_eager(model: nn.Module, example: Tensor) -> tuple[Callable[..., Any], str | None]:
    """The compiled model and None; where the compiler fails, the model as it is and why."""
    ### BEGIN SOLUTION
    model(example)
    compiled = torch.compile(model)
    try:
        compiled(example)
    except Exception as error:
        return model, f"{type(error).__name__}: {error}"
    return compiled, None
    ### END SOLUTION

# %% check="compile_or_eager"
check("compile_or_eager")

# %% [markdown]
# ## Operators of your own
#
# ### Exercise: swiglu

# %% exercise="swiglu" points=3
@torch.library.custom_op("torchcourse::swiglu", mutates_args=())
def swiglu(x: Tensor, gate: Tensor) -> Tensor:
    """x * silu(gate), as an operator of its own."""
    ### BEGIN SOLUTION
    return x * F.silu(gate)


@swiglu.register_fake
def _(x: Tensor, gate: Tensor) -> Tensor:
    return torch.empty_like(x)


def _keep(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
    x, gate = ctx.saved_tensors
    s = gate.sigmoid()
    return grad * gate * s, grad * x * s * (1 + gate * (1 - s))


swiglu.register_autograd(_backward, setup_context=_keep)
### END SOLUTION

# %% check="swiglu"
check("swiglu")

# %% [markdown]
# ## The same numbers
#
# ### Exercise: same_numerics

# %% exercise="same_numerics" points=3
def same_numerics(
    model: nn.Module, compiled: Callable[[Tensor], Tensor], x: Tensor, atol: float
) -> dict[str, float | bool]:
    """The largest differences of outputs and of gradients, and whether both are within atol."""
    ### BEGIN SOLUTION
    parameters = [p for p in model.parameters() if p.requires_grad]

    def run(f: Callable[[Tensor], Tensor]) -> tuple[Tensor, tuple[Tensor | None, ...]]:
        leaf = x.detach().clone().requires_grad_()
        y = f(leaf)
        return y.detach(), torch.autograd.grad(y.sum(), [leaf, *parameters], allow_unused=True)

    (y, grads), (z, others) = run(model), run(compiled)
    pairs = [(g, o) for g, o in zip(grads, others, strict=True) if g is not None and o is not None]
    output = (y - z).abs().max().item()
    grad = torch.stack([(g - o).abs().max() for g, o in pairs]).max().item()
    return {"output": output, "grad": grad, "ok": output <= atol and grad <= atol}
    ### END SOLUTION

# %% check="same_numerics"
check("same_numerics")
