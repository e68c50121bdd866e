"""Registering changes nothing for the CPU, and is refused where it would do harm."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from torchcourse import simulated

ALONE = {**os.environ, "TORCHCOURSE_SIMULATED": "off"}  # importing the course registers nothing then


def run(program: str) -> str:
    """Return what a program prints in a process of its own, warnings being errors."""
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=ALONE)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_registering_again_only_returns_the_device() -> None:
    assert simulated.register() == simulated.register() == torch.device("simgpu", 0)
    assert simulated.is_registered()
    assert simulated.NAME == "simgpu"


def test_a_first_registration_warns_of_nothing_and_costs_little() -> None:
    program = """
import time
start = time.process_time()
import torch
middle = time.process_time()
import sys, types
sys.modules["torchcourse"] = types.ModuleType("torchcourse")  # the package without what it imports itself
sys.modules["torchcourse"].__path__ = [PATH]
from torchcourse import simulated
simulated.register()
end = time.process_time()
assert not torch.accelerator.is_available()
print((end - middle) / (middle - start))
"""
    path = str(Path(simulated.__file__).parent.parent)
    assert float(run(program.replace("PATH", repr(path)))) < 0.1  # some 30 ms, where importing torch takes 1.5 s


def test_what_is_prepared_is_seen_by_nobody_and_registering_completes_it() -> None:
    program = """
import torch
from torchcourse import simulated
def pinning():
    try:
        return torch.ones(2).pin_memory().is_pinned()
    except RuntimeError as error:
        return str(error)
before = pinning()
simulated.prepare()
simulated.prepare()
assert not simulated.is_registered()
assert torch._C._get_privateuse1_backend_name() == "privateuseone"
assert not hasattr(torch, "simgpu")
assert pinning() == before
x = torch.ones(2, requires_grad=True)
with torch.autocast("cpu"):
    assert (x[None] @ x[:, None]).dtype is torch.bfloat16
x = torch.ones(2, device=simulated.register(), requires_grad=True)
with torch.autocast("simgpu"):
    y = x[None] @ x[:, None]
y.sum().backward()
print(y.dtype, y.device, x.grad.cpu().tolist(), simulated.is_registered())
"""
    assert run(program).split() == ["torch.float16", "simgpu:0", "[2.0,", "2.0]", "True"]


@pytest.mark.parametrize(
    ("before", "words"),
    [
        ("torch.ones(2, requires_grad=True).sum().backward()", "after this process had run its first backward"),
        ("torch.cuda.is_initialized = lambda: True", "this process already uses CUDA"),
        ("torch.utils.rename_privateuse1_backend('other')", "the backend 'other' has taken the place"),
    ],
)
def test_where_registering_would_do_harm_it_is_refused(before: str, words: str) -> None:
    program = f"""
import torch
{before}
from torchcourse import simulated
try:
    device = simulated.register()
except RuntimeError as error:
    assert not simulated.is_registered()
    print(error)
else:
    try:
        torch.ones(2, device=device, requires_grad=True).sum().backward()
    except RuntimeError as error:
        print(error)
"""
    assert words in run(program)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_forked_before_any_backward_trains() -> None:
    program = """
import os, torch
from torchcourse import simulated
device = simulated.register()
torch.ones(2, device=device) + 1
for _ in range(2):
    child = os.fork()
    if not child:
        x = torch.ones(2, device=device, requires_grad=True)
        (x * 2).sum().backward()
        os._exit(0 if x.grad.tolist() == [2, 2] else 1)
    assert os.waitpid(child, 0)[1] == 0
print("trained")
"""
    assert run(program) == "trained\n"


def test_processes_end_in_order_after_errors_in_backward() -> None:
    program = """
import torch
from torchcourse import simulated
x = torch.ones(2, device=simulated.register(), requires_grad=True)
def hook(g): raise KeyError("hook")
x.register_hook(hook)
try:
    (x * 2).sum().backward()
except KeyError:
    print("caught")
"""
    assert run(program) == "caught\n"


@pytest.mark.filterwarnings("ignore")
def test_compiling_and_exporting_on_the_cpu_work_in_one_graph() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        mask = torch.ones(3, device=x.device).cumsum(0) > 1
        return torch.where(mask, x.sin(), x.to(x.device)) + torch.nn.functional.dropout(x, 0.0)

    layer = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
    x = torch.randn(4, 3)
    in_one_graph = (f, layer, lambda x: x * layer[0].weight.data.sum(), lambda x: x + torch.accelerator.is_available())
    for eager in (*in_one_graph, lambda x: layer.to(torch.float32)(x)):
        compiled = torch.compile(eager, fullgraph=eager in in_one_graph, backend="aot_eager")
        torch.testing.assert_close(compiled(x), eager(x))
    torch.compile(layer, backend="aot_eager")(x).sum().backward()
    exported = torch.export.export(layer, (x,), dynamic_shapes=({0: torch.export.Dim("batch")},))
    torch.testing.assert_close(exported.module()(x[:2]), layer(x[:2]))


def test_compiled_functions_run_eagerly_on_the_device(device: torch.device) -> None:
    compiled = torch.compile(lambda x: torch.where(x.sum() > 0, x * 2, x - 1), fullgraph=True)
    with torch.compiler.set_stance("force_eager"):  # Dynamo cannot trace the device's tensors
        assert compiled(torch.ones(2, device=device)).tolist() == [2, 2]


def test_transforming_on_the_cpu_works() -> None:
    x = torch.randn(4, 3)
    torch.testing.assert_close(torch.func.vmap(torch.func.grad(lambda r: r.sin().sum()))(x), x.cos())
