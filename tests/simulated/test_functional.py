"""Autograd, torch.func, custom operators and hooks on the device."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint

from torchcourse.simulated import counters, values

Tensor = torch.Tensor


def f(x: Tensor) -> Tensor:
    return (x.sin() * x**2).sum()


def by_double_backward(x: Tensor) -> Tensor:
    leaf = x.clone().requires_grad_()
    (g,) = torch.autograd.grad(f(leaf), leaf, create_graph=True)
    return torch.autograd.grad(g, leaf, x)[0]


TRANSFORMS: dict[str, Callable[[Tensor], Any]] = {
    "grad_and_value": torch.func.grad_and_value(f),
    "vmap": lambda x: torch.func.vmap(lambda row: row.softmax(0) @ row)(x[None] * x[:, None]),
    "random numbers under vmap": lambda x: torch.func.vmap(torch.bernoulli, randomness="different")(
        torch.ones(3, 4).to(x)
    ),
    "a gradient for each sample": lambda x: torch.func.vmap(torch.func.grad(f))(torch.stack([x, 2 * x])),
    "vjp": lambda x: torch.func.vjp(torch.sin, x)[1](x),
    "jacrev": torch.func.jacrev(torch.sin),
    "jacfwd": torch.func.jacfwd(torch.sin),
    "jvp": lambda x: torch.func.jvp(torch.sin, (x,), (x,)),
    "hessian": torch.func.hessian(f),
    "forward over reverse": lambda x: torch.func.jvp(torch.func.grad(f), (x,), (x,))[1],
    "double backward": by_double_backward,
    "functional hvp": lambda x: torch.autograd.functional.hvp(f, x, x)[1],
    "functional jacobian": lambda x: torch.autograd.functional.jacobian(torch.sin, x),
}


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:FutureWarning")
@pytest.mark.parametrize("name", TRANSFORMS)
def test_function_transforms_agree(name: str, device: torch.device) -> None:
    x = torch.randn(4, dtype=torch.float64)
    want, got = (tree_leaves(TRANSFORMS[name](each)) for each in (x, x.to(device)))
    assert {result.device for result in got} == {device}
    torch.testing.assert_close([values(result.detach()) for result in got], want)


def test_functional_call_takes_stacked_weights(device: torch.device) -> None:
    layers = [nn.Linear(3, 2).to(device) for _ in range(4)]
    stacked, buffers = torch.func.stack_module_state(layers)
    x = torch.ones(5, 3, device=device)
    out = torch.func.vmap(lambda p, b: torch.func.functional_call(layers[0], (p, b), (x,)))(stacked, buffers)
    for layer, each in zip(layers, out, strict=True):
        torch.testing.assert_close(values(each.detach()), values(layer(x).detach()))


class Cube(torch.autograd.Function):
    """A custom function that saves its input and makes a mask beside it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:  # type: ignore[override]
        (x,) = ctx.saved_tensors
        return g * 3 * x**2 * torch.ones(x.shape, dtype=x.dtype, device=x.device)


def test_custom_functions_pass_gradcheck(device: torch.device) -> None:
    x = torch.randn(3, dtype=torch.float64, device=device, requires_grad=True)
    assert torch.autograd.gradcheck(Cube.apply, (x,))
    assert torch.autograd.gradgradcheck(torch.sin, (x,))
    layer = nn.Linear(3, 2, dtype=torch.float64, device=device)
    inputs = torch.randn(4, 3, dtype=torch.float64, device=device, requires_grad=True)
    assert torch.autograd.gradcheck(layer, (inputs,))


def test_checkpoint_saves_memory_and_draws_dropout_once(device: torch.device) -> None:
    def block(x: Tensor) -> Tensor:
        return nn.functional.dropout(x.tanh().exp().tanh(), 0.5)

    gradients, saved = [], []
    for run in (block, functools.partial(checkpoint, block, use_reentrant=False)):
        torch.manual_seed(0)
        x = torch.ones(64, device=device, requires_grad=True)
        y = run(x)
        saved.append(counters().allocated_bytes)
        y.sum().backward()
        gradients.append(values(x.grad))
        del x, y
        gc.collect()
    assert gradients[0].equal(gradients[1])
    assert saved[1] < saved[0]


def test_hooks_see_tensors_of_the_device(device: torch.device) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 1)).to(device)
    seen = []
    model[1].register_forward_hook(lambda _m, _i, o: seen.append(("forward", o.device)))
    model[1].register_full_backward_hook(lambda _m, _i, o: seen.append(("backward", o[0].device)))
    model(torch.ones(2, 3, device=device)).sum().backward()
    assert seen == [("forward", device), ("backward", device)]


def test_custom_operators_run_on_the_device(device: torch.device) -> None:
    @torch.library.custom_op("simulated_tests::double", mutates_args=())
    def double(x: Tensor) -> Tensor:
        return x * 2

    double.register_fake(lambda x: torch.empty_like(x))
    double.register_autograd(lambda _ctx, g: g * 2)
    x = torch.ones(3, device=device, requires_grad=True)
    double(x).sum().backward()
    assert x.grad is not None
    assert (x.grad.device, x.grad.tolist()) == (device, [2, 2, 2])
    # PyTorch's check of the autograd registration itself knows only the CPU, CUDA and XPU
    torch.library.opcheck(double, (x,), test_utils=("test_schema", "test_faketensor"))


def test_gradient_scaling_follows_the_cpu(device: torch.device) -> None:
    traces = []
    for place in ("cpu", device):
        torch.manual_seed(0)
        model = nn.Linear(3, 1).to(place)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        scaler = torch.amp.GradScaler(torch.device(place).type, init_scale=8.0, growth_interval=2)
        trace = []
        for step in range(5):
            optimizer.zero_grad()
            x = torch.full((2, 3), float("inf") if step == 3 else 1.0, device=place)
            scaler.scale(model(x).sum()).backward()
            scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
            trace += [scaler.get_scale(), *values(model.weight.detach()).flatten().tolist()]
        traces.append(trace)
    assert traces[1] == pytest.approx(traces[0])


def test_modes_and_anomaly_detection_work(device: torch.device) -> None:
    x = torch.ones(3, device=device, requires_grad=True)
    with torch.inference_mode():
        assert (x * 2).is_inference()
        assert nn.functional.linear(x, torch.ones(2, 3, device=device)).tolist() == [3, 3]
    with torch.no_grad():
        assert not (x * 2).requires_grad
    failing = pytest.raises(RuntimeError, match=r"SqrtBackward0.*nan")
    with pytest.warns(UserWarning) as warned, failing, torch.autograd.detect_anomaly():
        (x - 1).sqrt().mul(0).sum().backward()
    assert any("Error detected in SqrtBackward0" in str(each.message) for each in warned)


def test_a_graph_can_cross_the_border_both_ways(device: torch.device) -> None:
    x, want = (torch.ones(3, requires_grad=True) for _ in range(2))
    ((x * 2).to(device).exp().cpu() * 3).sum().backward()
    ((want * 2).exp() * 3).sum().backward()
    torch.testing.assert_close(x.grad, want.grad)


def test_in_inference_mode_a_tensor_goes_to_the_device_and_dtype_of_another(device: torch.device) -> None:
    here, there = torch.ones(2, dtype=torch.float64), torch.ones(3, device=device)
    with torch.inference_mode():
        for moved, like in ((there.to(here), here), (here.to(there), there), (here.type_as(there), there)):
            assert (moved.device, moved.dtype) == (like.device, like.dtype)
        assert there.to(torch.float16).device == there.device
        assert there.to("cpu").device == here.device
