"""Lesson 08: right answers unlike the reference, written from the law alone."""

from __future__ import annotations

import copy
import gc
import random
import time
import timeit
from collections.abc import Callable
from statistics import quantiles
from time import perf_counter, perf_counter_ns
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

# --- count_graphs ------------------------------------------------------------------------------------------------


def count_by_explain(fn: Callable[..., Any], *args: Any) -> int:
    return int(torch._dynamo.explain(fn)(*args).graph_count)


def count_by_testing(fn: Callable[..., Any], *args: Any) -> int:
    from torch._dynamo.testing import CompileCounter

    torch._dynamo.reset()
    counter = CompileCounter()
    torch.compile(fn, backend=counter, dynamic=False)(*args)
    return int(counter.frame_count)


def count_by_statistics(fn: Callable[..., Any], *args: Any) -> int:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    torch.compile(fn, backend="eager")(*args)
    return int(torch._dynamo.utils.counters["stats"]["unique_graphs"])


# --- signed_scale ------------------------------------------------------------------------------------------------


def signed_by_cond(x: Tensor) -> Tensor:
    result: Tensor = torch.cond(x.sum() > 0, lambda t: t * 2, lambda t: t - 1, (x,))
    return result


def signed_by_arithmetic(x: Tensor) -> Tensor:
    positive = (torch.sum(x) > 0).to(x.dtype)
    return x * (1 + positive) - (1 - positive)


def signed_by_masking(x: Tensor) -> Tensor:
    return (x - 1).masked_fill(x.sum() > 0, 0) + (x * 2).masked_fill(~(x.sum() > 0), 0)


# --- clip_by_norm ------------------------------------------------------------------------------------------------


def clip_with_minimum(x: Tensor, max_norm: float) -> Tensor:
    norm = x.pow(2).sum().sqrt()
    return x * torch.clamp(max_norm / (norm + 1e-6), max=1.0)


def clip_with_where(x: Tensor, max_norm: float) -> Tensor:
    norm = x.norm()
    safe = torch.where(norm > 0, norm, torch.ones_like(norm))
    return torch.where(norm > max_norm, x / safe * max_norm, x)


def clip_dividing(x: Tensor, max_norm: float) -> Tensor:
    return x / torch.maximum(torch.linalg.norm(x.flatten()) / max_norm, x.new_ones(()))


# --- CountingBackend ---------------------------------------------------------------------------------------------


class KeepsGraphs:
    def __init__(self) -> None:
        self.seen: list[torch.fx.GraphModule] = []

    @property
    def graphs(self) -> int:
        return len(self.seen)

    @property
    def ops(self) -> int:
        other = {"placeholder", "output", "get_attr"}
        return sum(len([n for n in g.graph.nodes if n.op not in other]) for g in self.seen)

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: Any, **_: Any) -> Callable[..., Any]:
        self.seen.append(gm)
        return gm


class CountsAndRuns:
    graphs: int = 0
    ops: int = 0

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: Any) -> Callable[..., Any]:
        self.graphs += 1
        for node in gm.graph.nodes:
            if node.op.startswith("call_"):
                self.ops += 1
        gm.recompile()
        return lambda *args: torch.fx.Interpreter(gm).run(*args)


# --- compile_dynamic ---------------------------------------------------------------------------------------------


def dynamic_by_itself(fn: Callable[..., Any], backend: Any) -> Callable[..., Any]:
    return torch.compile(fn, backend=backend)


def dynamic_by_marking(fn: Callable[..., Any], backend: Any) -> Callable[..., Any]:
    compiled = torch.compile(backend=backend)(fn)

    def run(*args: Any) -> Any:
        for arg in args:
            torch._dynamo.mark_dynamic(arg, 0)
        return compiled(*args)

    return run


def dynamic_whole(fn: Callable[..., Any], backend: Any) -> Callable[..., Any]:
    return torch.compile(fn, backend=backend, dynamic=True, fullgraph=True)


# --- benchmark ---------------------------------------------------------------------------------------------------


def benchmark_shuffled(
    fns: dict[str, Callable[..., Any]], *args: Any, device: Any, repeats: int = 30
) -> dict[str, dict[str, float]]:
    device = torch.device(device)

    def settle() -> None:
        if device.type != "cpu":
            torch.accelerator.synchronize()

    for fn in fns.values():
        for _ in range(3):
            fn(*args)
        settle()
    times: dict[str, list[float]] = {name: [] for name in fns}
    for _ in range(repeats):
        for name in random.sample(list(fns), len(fns)):
            settle()
            begun = perf_counter_ns()
            fns[name](*args)
            settle()
            times[name].append((perf_counter_ns() - begun) / 1e9)
    return {
        name: {"median": float(np.median(t)), "iqr": float(np.subtract(*np.percentile(t, [75, 25])))}
        for name, t in times.items()
    }


def benchmark_with_timeit(
    fns: dict[str, Callable[..., Any]], *args: Any, device: Any, repeats: int = 30
) -> dict[str, dict[str, float]]:
    wait = torch.accelerator.synchronize if torch.device(device).type != "cpu" else (lambda: None)

    def timed(fn: Callable[..., Any]) -> Callable[[], None]:
        def run() -> None:
            fn(*args)
            wait()

        return run

    stopwatches = {name: timeit.Timer(timed(fn), setup=wait) for name, fn in fns.items()}
    for watch in stopwatches.values():
        watch.timeit(2)
    rounds = [{name: watch.timeit(1) for name, watch in stopwatches.items()} for _ in range(repeats)]
    out = {}
    for name in fns:
        low, middle, high = quantiles([r[name] for r in rounds], n=4)
        out[name] = {"median": middle, "iqr": high - low, "runs": repeats}
    return out


def benchmark_in_blocks(
    fns: dict[str, Callable[..., Any]], *args: Any, device: Any, repeats: int = 30
) -> dict[str, dict[str, float]]:
    module = torch.get_device_module(torch.device(device))
    samples: dict[str, list[float]] = {}
    gc.collect()
    for round_number in range(repeats + 1):
        for name, fn in fns.items():
            module.synchronize()
            before = perf_counter()
            fn(*args)
            module.synchronize()
            after = perf_counter()
            if round_number:
                samples.setdefault(name, []).append(after - before)
    result: dict[str, dict[str, float]] = {}
    for name, taken in samples.items():
        t = torch.tensor(taken, dtype=torch.float64)
        result[name] = {"median": t.quantile(0.5).item(), "iqr": (t.quantile(0.75) - t.quantile(0.25)).item()}
    assert time.time() > 0
    return result


# --- graph_ops ---------------------------------------------------------------------------------------------------


class Listening(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def ops_by_listening(fn: Callable[..., Any], *args: Tensor) -> list[str]:
    with Listening() as mode:
        fn(*args)
    return mode.names


def ops_by_export(fn: Callable[..., Any], *args: Tensor) -> list[str]:
    class Module(nn.Module):
        def forward(self, *args: Tensor) -> Any:
            return fn(*args)

    program = torch.export.export(Module(), args).run_decompositions({})
    return [str(n.target) for n in program.graph.nodes if n.op == "call_function" and "getitem" not in n.name]


def ops_by_aot(fn: Callable[..., Any], *args: Tensor) -> list[str]:
    from torch._dynamo.backends.common import aot_autograd

    names: list[str] = []

    def compiler(gm: torch.fx.GraphModule, inputs: Any) -> Any:
        names.extend(str(n.target) for n in gm.graph.nodes if str(n.target).startswith("aten."))
        return gm.forward

    torch.compiler.reset()
    torch.compile(fn, backend=aot_autograd(fw_compiler=compiler))(*args)
    return names


# --- compile_or_eager --------------------------------------------------------------------------------------------


def or_eager_by_type(model: nn.Module, example: Tensor) -> tuple[Any, Any]:
    compiled = torch.compile(model)
    try:
        with torch.no_grad():
            compiled(example)
    except torch._dynamo.exc.BackendCompilerFailed as error:
        with torch.no_grad():
            model(example)
        return model, str(error)
    return compiled, None


def or_eager_asking_twice(model: nn.Module, example: Tensor) -> tuple[Any, Any]:
    try:
        compiled = torch.compile(model, dynamic=False)
        compiled(example)
        return compiled, None
    except Exception as error:
        model(example)  # where it is the model's fault, this raises too
        return model, repr(error)


def or_eager_in_place(model: nn.Module, example: Tensor) -> tuple[Any, Any]:
    model(example)
    trial = copy.deepcopy(model)
    trial.compile()
    try:
        trial(example)
    except RuntimeError as error:
        return model.forward, error
    model.compile()
    return model, None


# --- swiglu ------------------------------------------------------------------------------------------------------


def _gated(x: Tensor, gate: Tensor) -> Tensor:
    return gate * torch.sigmoid(gate) * x


gated = torch.library.custom_op("torchcourse_right::swiglu", _gated, mutates_args=())
gated.register_fake(lambda x, gate: x.new_empty(x.shape))


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    x, gate = inputs
    ctx.save_for_backward(x, gate, output)


def _back(ctx: Any, grad: Tensor) -> Any:
    x, gate, _output = ctx.saved_tensors
    with torch.enable_grad():
        g = gate.detach().requires_grad_()
        y = F.silu(g)
    (slope,) = torch.autograd.grad(y, g, grad * x)
    return grad * F.silu(gate), slope


gated.register_autograd(_back, setup_context=_setup)


def gated_wrapped(x: Tensor, gate: Tensor) -> Tensor:
    result: Tensor = torch.ops.torchcourse_wrapped.swiglu(x, gate)
    return result


@torch.library.custom_op("torchcourse_wrapped::swiglu", mutates_args=())
def _inner(x: Tensor, gate: Tensor) -> Tensor:
    return torch.mul(x, F.silu(gate))


@torch.library.register_fake("torchcourse_wrapped::swiglu")
def _inner_fake(x: Tensor, gate: Tensor) -> Tensor:
    return x * gate


def _inner_back(ctx: Any, grad: Tensor) -> Any:
    s = torch.sigmoid(ctx.gate)
    return grad * ctx.gate * s, grad * ctx.x * (s + ctx.gate * s * (1 - s))


def _inner_setup(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.x, ctx.gate = inputs


torch.library.register_autograd("torchcourse_wrapped::swiglu", _inner_back, setup_context=_inner_setup)


# --- same_numerics -----------------------------------------------------------------------------------------------


def numerics_by_backward(model: nn.Module, compiled: Any, x: Tensor, atol: float) -> dict[str, Any]:
    kept = [(p, p.grad) for p in model.parameters()]

    def run(f: Any) -> tuple[Tensor, list[Tensor]]:
        for p, _ in kept:
            p.grad = None
        mine = x.detach().clone().requires_grad_(True)
        out = f(mine)
        out.sum().backward()
        grads = [t.grad for t in (mine, *(p for p, _ in kept))]
        return out.detach(), [torch.zeros(()) if g is None else g.detach().cpu() for g in grads]

    try:
        first, second = run(model), run(compiled)
    finally:
        for p, grad in kept:
            p.grad = grad
    output = (first[0] - second[0]).abs().max()
    grad = max(float((a - b).abs().max()) for a, b in zip(first[1], second[1], strict=True))
    return {"output": output, "grad": grad, "ok": bool(output <= atol) and grad <= atol}


def numerics_by_copies(model: nn.Module, compiled: Any, x: Tensor, atol: float) -> dict[str, Any]:
    def grads(f: Any) -> tuple[Tensor, list[Tensor]]:
        leaf = x.detach().clone().requires_grad_()
        inputs = [p for p in model.parameters() if p.requires_grad] + [leaf]
        out = f(leaf)
        found = torch.autograd.grad(out.mean(), inputs, allow_unused=True, materialize_grads=True)
        return out, list(found)

    (a, ga), (b, gb) = grads(model), grads(compiled)
    difference = float(torch.max(torch.abs(a.detach() - b.detach())))
    flat = [torch.cat([g.reshape(-1) for g in some]) for some in (ga, gb)]
    worst = float(torch.linalg.vector_norm(flat[0] - flat[1], ord=float("inf")))
    fine = all(torch.allclose(p, q, rtol=0.0, atol=atol) for p, q in [(a, b), *zip(ga, gb, strict=True)])
    return {"ok": fine, "output": difference, "grad": worst}


RIGHT: dict[str, list[Callable[..., Any]]] = {
    "count_graphs": [count_by_explain, count_by_testing, count_by_statistics],
    "signed_scale": [signed_by_cond, signed_by_arithmetic, signed_by_masking],
    "clip_by_norm": [clip_with_minimum, clip_with_where, clip_dividing],
    "CountingBackend": [KeepsGraphs, CountsAndRuns],
    "compile_dynamic": [dynamic_by_itself, dynamic_by_marking, dynamic_whole],
    "benchmark": [benchmark_shuffled, benchmark_with_timeit, benchmark_in_blocks],
    "graph_ops": [ops_by_listening, ops_by_export, ops_by_aot],
    "compile_or_eager": [or_eager_by_type, or_eager_asking_twice, or_eager_in_place],
    "swiglu": [gated, gated_wrapped],
    "same_numerics": [numerics_by_backward, numerics_by_copies],
}
