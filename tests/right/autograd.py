"""Lesson 02: right answers in other styles than the reference's. Each must pass every case on every device."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.forward_ad import dual_level, make_dual, unpack_dual

Function = Callable[[Tensor], Tensor]

# --- derivative --------------------------------------------------------------------------------------------------


def derivative_by_grad(f: Function, x: float) -> float:
    t = torch.tensor([x], dtype=torch.float64).squeeze().requires_grad_(True)
    return float(torch.autograd.grad(f(t), t)[0])


def derivative_by_func(f: Function, x: float) -> float:
    return torch.func.grad(f)(torch.tensor(x, dtype=torch.double)).tolist()  # type: ignore[no-any-return]


def derivative_forward(f: Function, x: float) -> float:
    with dual_level():
        y = f(make_dual(torch.tensor(x).double() * 0 + x, torch.ones((), dtype=torch.float64)))
        return unpack_dual(y).tangent.item()


def derivative_by_jacobian(f: Function, x: float) -> Any:
    return np.float64(torch.autograd.functional.jacobian(f, torch.tensor(x, dtype=torch.float64)).numpy())  # type: ignore[no-untyped-call]


def derivative_with_a_default(f: Function, x: float) -> float:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        p = nn.Parameter(torch.tensor(x))
        f(p).backward()  # type: ignore[no-untyped-call]
        assert p.grad is not None
        return p.grad.item()
    finally:
        torch.set_default_dtype(before)


# --- gradient ----------------------------------------------------------------------------------------------------


def gradient_by_func(f: Function, x: Tensor) -> Any:
    return torch.func.grad(f)(x.detach())


def gradient_by_backward(f: Function, x: Tensor) -> Any:
    own = x.detach().clone().requires_grad_()
    f(own).backward()  # type: ignore[no-untyped-call]
    return own.grad


def gradient_through_a_clone(f: Function, x: Tensor) -> Tensor:
    with torch.enable_grad():
        inner = x.clone() if x.requires_grad else x.clone().requires_grad_(True)
        return torch.autograd.grad(f(inner), inner)[0].detach()


def gradient_by_jacobian(f: Function, x: Tensor) -> Any:
    return torch.autograd.functional.jacobian(f, x.detach())  # type: ignore[no-untyped-call]


def gradient_of_a_parameter(f: Function, x: Tensor) -> Tensor:
    p = nn.Parameter(x.data.clone())
    f(p).sum().backward()  # type: ignore[no-untyped-call]
    assert p.grad is not None
    return p.grad.data


# --- linear_mse_gradients ----------------------------------------------------------------------------------------


def linear_by_einsum(x: Tensor, w: Tensor, b: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    r = torch.einsum("ni,oi->no", x, w) + b - y
    return torch.einsum("no,ni->oi", r, x) * 2 / r.numel(), 2 * r.sum(0) / r.numel()


def linear_by_loops(x: Tensor, w: Tensor, b: Tensor, y: Tensor) -> list[Tensor]:
    n, o = y.shape
    dw, db = torch.zeros_like(w), torch.zeros_like(b)
    for row in range(n):
        r = w @ x[row] + b - y[row]
        dw += 2 * torch.outer(r, x[row])
        db += 2 * r
    return [dw / (n * o), db / (n * o)]


def linear_with_ones(x: Tensor, w: Tensor, b: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    more = torch.cat([x, x.new_ones(len(x), 1)], dim=1)
    both = torch.cat([w, b[:, None]], dim=1)
    d = more.T.mm(more @ both.T - y).div(y.numel() / 2).T
    return d[:, :-1], d[:, -1]


def linear_by_means(x: Tensor, w: Tensor, b: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    r = nn.functional.linear(x, w, b) - y
    per_sample = r[:, :, None] * x[:, None, :]
    o = y.shape[1]
    return per_sample.mean(0) * 2 / o, r.mean(0) * 2 / o


# --- sgd_step ----------------------------------------------------------------------------------------------------


def sgd_with_sub(params: list[Tensor], lr: float) -> None:
    with torch.no_grad():
        for p in params:
            if p.grad is None:
                continue
            p.sub_(p.grad, alpha=lr)
            p.grad.zero_()


def sgd_through_data(params: list[Tensor], lr: float) -> None:
    for p in params:
        g = p.grad
        if g is not None:
            p.data.add_(g, alpha=-lr)
            p.grad = torch.zeros_like(g)


def sgd_by_copy(params: list[Tensor], lr: float) -> None:
    moved = [(p, p.detach() - lr * p.grad) for p in params if p.grad is not None]
    for p, new in moved:
        p.detach().copy_(new)
        p.grad = None


@torch.no_grad()
def sgd_decorated(params: list[Tensor], lr: float) -> list[Tensor]:
    for i in range(len(params)):
        if params[i].grad is not None:
            params[i] -= lr * params[i].grad  # type: ignore[operator]
            params[i].grad = None
    return params


def sgd_by_optimizer(params: list[Tensor], lr: float) -> None:
    if params:
        optimizer = torch.optim.SGD(params, lr=lr)
        optimizer.step()
        optimizer.zero_grad()


# --- numerical_gradient ------------------------------------------------------------------------------------------


def numerical_flat(f: Function, x: Tensor, eps: float = 1e-6) -> Tensor:
    flat = x.detach().double().reshape(-1).clone()
    slopes = []
    for i in range(flat.numel()):
        old = flat[i].item()
        flat[i] = old + eps
        up = float(f(flat.view(x.shape)))
        flat[i] = old - eps
        down = float(f(flat.view(x.shape)))
        flat[i] = old
        slopes.append((up - down) / (2 * eps))
    return torch.tensor(slopes, dtype=torch.float64).reshape(x.shape)


def numerical_with_an_identity(f: Function, x: Tensor, eps: float = 1e-6) -> Tensor:
    start = x.to(torch.float64)
    steps = (eps * torch.eye(x.numel(), dtype=torch.float64)).view(-1, *x.shape)
    found = [(f(start + s) - f(start - s)) / (2 * eps) for s in steps]
    return torch.stack(found).view(x.shape)


def numerical_by_numpy(f: Function, x: Tensor, eps: float = 1e-6) -> Tensor:
    values = np.array(x.detach().tolist(), dtype=np.float64)
    result = np.zeros_like(values)
    for index in np.ndindex(values.shape):
        ends = []
        for sign in (1, -1):
            moved = values.copy()
            moved[index] += sign * eps
            ends.append(f(torch.from_numpy(moved)).item())
        result[index] = (ends[0] - ends[1]) / (2 * eps)
    return torch.tensor(result, dtype=torch.float64)


# --- BinarizeSTE -------------------------------------------------------------------------------------------------


class BinarizeWithAMask(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.mask = (x >= -1) & (x <= 1)
        return torch.where(x > 0, torch.ones_like(x), torch.zeros_like(x))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g.masked_fill(~ctx.mask, 0)


class BinarizeWithSetup(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.gt(0).type_as(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return torch.where(x.abs() > 1, 0.0, g)


class BinarizeInPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x.clamp(-1, 1) == x)
        y = torch.zeros_like(x)
        y[x > 0] = 1
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        g = g.clone()
        g[~ctx.saved_tensors[0]] = 0
        return g


# --- LogSigmoid --------------------------------------------------------------------------------------------------


class LogSigmoidByLogaddexp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return -torch.logaddexp(torch.zeros_like(x), -x)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g / (1 + ctx.saved_tensors[0].exp())


class LogSigmoidByWhere(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        small = torch.exp(-torch.abs(x))
        ctx.save_for_backward(x, small)
        return torch.where(x < 0, x, torch.zeros_like(x)) - small.log1p()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        x, small = ctx.saved_tensors
        return g * torch.where(x < 0, torch.ones_like(x), small) / (1 + small)


class LogSigmoidByItsOutput(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return -torch.logsumexp(torch.stack([torch.zeros_like(x), -x]), dim=0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0], output)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        x, y = ctx.saved_tensors
        return g * torch.exp(y - x)  # 1 - sigmoid(x) = sigmoid(x) * exp(-x)


# --- td_loss -----------------------------------------------------------------------------------------------------


def td_by_mse(online: Tensor, target: Tensor) -> Tensor:
    return nn.functional.mse_loss(online, target.detach())


def td_by_data(online: Tensor, target: Tensor) -> Tensor:
    gap = online - target.data
    return (gap * gap).sum() / gap.numel()


def td_by_no_grad(online: Tensor, target: Tensor) -> Tensor:
    with torch.no_grad():
        fixed = target.clone()
    return nn.MSELoss()(online, fixed)


def td_by_norm(online: Tensor, target: Tensor) -> Tensor:
    return torch.mean(torch.square(target.detach() - online))


# --- snapshot ----------------------------------------------------------------------------------------------------


def snapshot_clone_first(t: Tensor) -> Tensor:
    return t.clone().detach()


@torch.no_grad()
def snapshot_without_grad(t: Tensor) -> Tensor:
    return t.clone()


def snapshot_by_tensor(t: Tensor) -> Tensor:
    return torch.tensor(t)


def snapshot_by_copy(t: Tensor) -> Tensor:
    return torch.empty_like(t, requires_grad=False).copy_(t.detach())


def snapshot_by_deepcopy(t: Tensor) -> Tensor:
    return copy.deepcopy(t.detach())


# --- hessian_vector_product --------------------------------------------------------------------------------------


def hvp_of_a_product(f: Function, x: Tensor, v: Tensor) -> Tensor:
    leaf = x.clone().detach().requires_grad_(True)
    g = torch.autograd.grad(f(leaf), leaf, create_graph=True)[0]
    (g * v).sum().backward()  # type: ignore[no-untyped-call]
    assert leaf.grad is not None
    return leaf.grad


def hvp_forward_over_reverse(f: Function, x: Tensor, v: Tensor) -> Any:
    return torch.func.jvp(torch.func.grad(f), (x,), (v,))[1]


def hvp_reverse_over_reverse(f: Function, x: Tensor, v: Tensor) -> Any:
    return torch.func.grad(lambda at: (torch.func.grad(f)(at) * v).sum())(x)


def hvp_by_vjp(f: Function, x: Tensor, v: Tensor) -> Any:
    _, pull = torch.func.vjp(torch.func.grad(f), x)
    return pull(v)[0]


def hvp_functional(f: Function, x: Tensor, v: Tensor) -> Any:
    return torch.autograd.functional.vhp(f, x, v)[1]  # type: ignore[no-untyped-call]


# --- per_sample_gradients ----------------------------------------------------------------------------------------


def samples_by_copies(loss_fn: Callable[..., Tensor], w: Tensor, xs: Tensor, ys: Tensor) -> Tensor:
    many = w.detach().expand(len(xs), *w.shape).clone().requires_grad_()
    losses = torch.func.vmap(loss_fn)(many, xs, ys)
    return torch.autograd.grad(losses.sum(), many)[0]


def samples_by_jacrev(loss_fn: Callable[..., Tensor], w: Tensor, xs: Tensor, ys: Tensor) -> Any:
    return torch.func.jacrev(lambda v: torch.vmap(loss_fn, (None, 0, 0))(v, xs, ys))(w)


def samples_by_closure(loss_fn: Callable[..., Tensor], w: Tensor, xs: Tensor, ys: Tensor) -> Any:
    def one(x: Tensor, y: Tensor) -> Any:
        return torch.func.grad(lambda v: loss_fn(v, x, y))(w)

    return torch.vmap(one)(xs, ys)


def samples_by_batched_grad(loss_fn: Callable[..., Tensor], w: Tensor, xs: Tensor, ys: Tensor) -> Tensor:
    leaf = w.detach().requires_grad_()
    losses = torch.vmap(loss_fn, in_dims=(None, 0, 0))(leaf, xs, ys)
    basis = torch.eye(len(xs), dtype=losses.dtype, device=losses.device)
    return torch.autograd.grad(losses, leaf, basis, is_grads_batched=True)[0]


# --- saved_bytes -------------------------------------------------------------------------------------------------


def saved_by_list(f: Callable[..., Any], *inputs: Tensor) -> int:
    saved: list[Tensor] = []

    def pack(t: Tensor) -> int:
        saved.append(t)
        return len(saved) - 1

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda i: saved[i]):
        result = f(*inputs)
    sizes = {t.untyped_storage()._cdata: len(t.untyped_storage()) for t in saved}
    del result
    return sum(sizes.values())


class _Saves:
    def __init__(self) -> None:
        self.kept: dict[int, tuple[Any, int]] = {}

    def __call__(self, t: Tensor) -> Tensor:
        storage = t.storage()
        self.kept.setdefault(storage.data_ptr(), (storage, storage.nbytes()))
        return t.detach()


def saved_by_an_object(f: Callable[..., Any], *inputs: Tensor) -> int:
    saves = _Saves()
    with torch.autograd.graph.saved_tensors_hooks(saves, lambda t: t):
        f(*inputs)
    return math.fsum(size for _, size in saves.kept.values()).__int__()


def saved_by_walking(f: Callable[..., Any], *inputs: Tensor) -> int:
    """Asks every node of the graph for the tensors it saved, as `_saved_...` attributes."""
    result = f(*inputs)
    nodes = [t.grad_fn for t in (result if isinstance(result, tuple) else (result,)) if t.grad_fn is not None]
    storages: dict[int, int] = {}
    while nodes:
        node = nodes.pop()
        for name in dir(node):
            value = getattr(node, name) if name.startswith("_saved_") else None
            if isinstance(value, Tensor):
                storages[value.untyped_storage().data_ptr()] = value.untyped_storage().nbytes()
        nodes += [following for following, _ in node.next_functions if following is not None]
    return sum(storages.values())


RIGHT: dict[str, list[Callable[..., Any]]] = {
    "derivative": [
        derivative_by_grad, derivative_by_func, derivative_forward, derivative_by_jacobian, derivative_with_a_default,
    ],
    "gradient": [
        gradient_by_func, gradient_by_backward, gradient_through_a_clone, gradient_by_jacobian, gradient_of_a_parameter,
    ],
    "linear_mse_gradients": [linear_by_einsum, linear_by_loops, linear_with_ones, linear_by_means],
    "sgd_step": [sgd_with_sub, sgd_through_data, sgd_by_copy, sgd_decorated, sgd_by_optimizer],
    "numerical_gradient": [numerical_flat, numerical_with_an_identity, numerical_by_numpy],
    "BinarizeSTE": [BinarizeWithAMask, BinarizeWithSetup, BinarizeInPlace],
    "LogSigmoid": [LogSigmoidByLogaddexp, LogSigmoidByWhere, LogSigmoidByItsOutput],
    "td_loss": [td_by_mse, td_by_data, td_by_no_grad, td_by_norm],
    "snapshot": [
        snapshot_clone_first, snapshot_without_grad, snapshot_by_tensor, snapshot_by_copy, snapshot_by_deepcopy,
    ],
    "hessian_vector_product": [
        hvp_of_a_product, hvp_forward_over_reverse, hvp_reverse_over_reverse, hvp_by_vjp, hvp_functional,
    ],
    "per_sample_gradients": [samples_by_copies, samples_by_jacrev, samples_by_closure, samples_by_batched_grad],
    "saved_bytes": [saved_by_list, saved_by_an_object, saved_by_walking],
}  # fmt: skip
