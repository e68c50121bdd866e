# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 2 · Autograd

# %% tags=["setup"]
import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from torchcourse import Unattempted, check, hint

# %% [markdown]
# ## Recorded while it runs
# ## Leaves, and the graph behind a result

# %% [markdown]
# ### Exercise: derivative
#
# Write `derivative(f, x)`: the derivative of `f`, a scalar function of a scalar tensor, at the Python float `x`. Compute in
# `float64`, by autograd, and return a Python float.
#
# ```
# derivative(lambda t: t**3, 2.0)    # 12.0
# ```

# %% exercise="derivative" points=1
def derivative(f: Callable[[Tensor], Tensor], x: float) -> float:
    """df/dx at x, in float64."""
    ### BEGIN SOLUTION
    leaf = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    f(leaf).backward()
    return leaf.grad.item()
    ### END SOLUTION

# %% check="derivative"
check("derivative")

# %% [markdown]
# ## Predict, then run
# ## Gradients by hand

# %% [markdown]
# ### Exercise: linear_mse_gradients
#
# Write `linear_mse_gradients(x, w, b, y)`: the gradients `(dw, db)` of `((x @ w.T + b - y) ** 2).mean()`, worked out by
# hand. The shapes are `(n, i)`, `(o, i)`, `(o,)` and `(n, o)`. The mean is over all `n * o` entries. Rule: no autograd call
# of any kind.
#
# ```
# x, w, b, y = torch.tensor([[1.0, 2.0]]), torch.zeros(1, 2), torch.zeros(1), torch.tensor([[3.0]])
# linear_mse_gradients(x, w, b, y)    # ([[-6., -12.]], [-6.])
# ```

# %% exercise="linear_mse_gradients" points=3
def linear_mse_gradients(x: Tensor, w: Tensor, b: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of ((x @ w.T + b - y) ** 2).mean() for w and b, by hand."""
    ### BEGIN SOLUTION
    difference = x @ w.T + b - y  # (n, o)
    slope = 2 * difference / difference.numel()  # of the mean of squares, by each entry of the difference
    return slope.T @ x, slope.sum(dim=0)
    ### END SOLUTION

# %% check="linear_mse_gradients"
check("linear_mse_gradients")

# %% [markdown]
# ## Gradients accumulate
# ## Switching the recording off

# %% [markdown]
# ### Exercise: sgd_step
#
# Write `sgd_step(params, lr)` for a list of parameters: subtract `lr * p.grad` from each parameter `p` in place, then clear
# its gradient (to `None` or to zeros). A parameter whose gradient is `None` is left alone. The parameters remain the same
# tensor objects, in the same memory, and go on requiring grad.
#
# ```
# p = torch.tensor([1.0], requires_grad=True)
# (3 * p).sum().backward()
# sgd_step([p], lr=0.1)    # p is now [0.7], and p.grad is None or [0.]
# ```

# %% exercise="sgd_step" points=2
def sgd_step(params: list[Tensor], lr: float) -> None:
    """One step of gradient descent in place; the gradients are cleared."""
    ### BEGIN SOLUTION
    with torch.no_grad():
        for p in params:
            if p.grad is not None:
                p -= lr * p.grad
                p.grad = None
    ### END SOLUTION

# %% check="sgd_step"
check("sgd_step")

# %% [markdown]
# ## Asking for a gradient without side effects

# %% [markdown]
# ### Exercise: gradient
#
# Write `gradient(f, x)`: the gradient of the scalar `f(x)`, as a tensor without history. The caller must not notice: `x.grad`,
# `x.requires_grad` and the values of `x` stay as they were. `x` may be a plain tensor, a leaf that has a gradient already, or
# the result of a computation whose own graph must survive.
#
# ```
# x = torch.tensor([1.0, 2.0])
# gradient(lambda t: (t**2).sum(), x)    # [2., 4.]
# x.requires_grad, x.grad                # False, None
# ```

# %% exercise="gradient" points=2
def gradient(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """The gradient of f at x; x stays as it was."""
    ### BEGIN SOLUTION
    leaf = x.detach().requires_grad_()
    (found,) = torch.autograd.grad(f(leaf), leaf)
    return found
    ### END SOLUTION

# %% check="gradient"
check("gradient")

# %% [markdown]
# ## Detach, clone and .data

# %% [markdown]
# ### Exercise: td_loss
#
# Write `td_loss(online, target)`: the mean squared error of the two, through which no gradient reaches `target`. The
# caller's `target` itself stays as it was.
#
# ```
# online, target = torch.tensor([1.0], requires_grad=True), torch.tensor([3.0], requires_grad=True)
# td_loss(online, target).backward()    # online.grad is [-4.], target.grad is None
# ```

# %% exercise="td_loss" points=1
def td_loss(online: Tensor, target: Tensor) -> Tensor:
    """Mean squared error; target counts as a constant."""
    ### BEGIN SOLUTION
    return ((online - target.detach()) ** 2).mean()
    ### END SOLUTION

# %% check="td_loss"
check("td_loss")

# %% [markdown]
# ### Exercise: snapshot
#
# Write `snapshot(t)`: a copy of `t` in memory of its own, without history, that does not require grad. `t`, of any dtype, may
# be a leaf or part of a graph, and stays as it was.
#
# ```
# w = torch.ones(2, requires_grad=True)
# copy = snapshot(w)    # later changes of w do not show in copy
# ```

# %% exercise="snapshot" points=1
def snapshot(t: Tensor) -> Tensor:
    """An independent copy of t without history."""
    ### BEGIN SOLUTION
    return t.detach().clone()
    ### END SOLUTION

# %% check="snapshot"
check("snapshot")

# %% [markdown]
# ## Writing in place
# ## Vectors in, vectors out
# ## Functions of your own

# %% [markdown]
# ### Exercise: BinarizeSTE
#
# Write `BinarizeSTE`, a `torch.autograd.Function`. Forward: 1 where `x > 0`, else 0, in the dtype of `x`. Backward, the
# clipped straight-through estimator: the gradient passes unchanged where `abs(x) <= 1` and is zero elsewhere.
#
# ```
# x = torch.tensor([-2.0, 0.5, 3.0], requires_grad=True)
# y = BinarizeSTE.apply(x)                       # [0., 1., 1.]
# y.backward(torch.tensor([7.0, 8.0, 9.0]))      # x.grad is [0., 8., 0.]
# ```

# %% exercise="BinarizeSTE" points=2
class BinarizeSTE(torch.autograd.Function):
    """A step function whose gradient passes straight through where abs(x) <= 1."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        ctx.save_for_backward(x)
        return (x > 0).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad_output * (x.abs() <= 1)
        ### END SOLUTION

# %% check="BinarizeSTE"
check("BinarizeSTE")

# %% [markdown]
# ### Exercise: LogSigmoid
#
# Write `LogSigmoid`, a `torch.autograd.Function`: forward `log(1 / (1 + exp(-x)))`, and its gradient. Both are finite and right
# for entries up to 1000 in size, of either sign, and the gradient keeps its leading digits where it is small (at `x = 20` it
# is 2.06e-09 and not 0). It passes `gradcheck` in `float64`. Rule: no `logsigmoid` and no `softplus`.
#
# ```
# x = torch.tensor([-1000.0, 0.0, 1000.0], requires_grad=True)
# y = LogSigmoid.apply(x)    # [-1000., -0.6931, 0.]
# y.sum().backward()         # x.grad is [1., 0.5, 0.]
# ```

# %% exercise="LogSigmoid" points=3
class LogSigmoid(torch.autograd.Function):
    """log(sigmoid(x)), stable in both directions."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        ctx.save_for_backward(x)
        return x.clamp(max=0) - torch.log1p(torch.exp(-x.abs()))

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad_output * torch.sigmoid(-x)
        ### END SOLUTION

# %% check="LogSigmoid"
check("LogSigmoid")

# %% [markdown]
# ## Checking a gradient

# %% [markdown]
# ### Exercise: numerical_gradient
#
# Write `numerical_gradient(f, x, eps=1e-6)`: the gradient of the scalar `f(x)` by central differences, one entry at a time, in
# `float64` whatever the dtype of `x`, with the shape of `x`. `f` may know nothing of autograd, `x` may have any strides, and `x`
# is not changed. For a smooth `f`, no entry is off by more than `1e-7 * max(1, abs(f(x)))`.
#
# ```
# numerical_gradient(lambda t: (t**2).sum(), torch.tensor([1.0, 3.0]))    # about [2., 6.], float64
# ```

# %% exercise="numerical_gradient" points=2
def numerical_gradient(f: Callable[[Tensor], Tensor], x: Tensor, eps: float = 1e-6) -> Tensor:
    """Central differences in float64, one entry of x at a time."""
    ### BEGIN SOLUTION
    start = x.detach().to(torch.float64)
    result = torch.zeros(x.shape, dtype=torch.float64)
    for index in itertools.product(*map(range, x.shape)):
        step = torch.zeros(x.shape, dtype=torch.float64)
        step[index] = eps
        result[index] = (f(start + step).item() - f(start - step).item()) / (2 * eps)
    return result
    ### END SOLUTION

# %% check="numerical_gradient"
check("numerical_gradient")

# %% [markdown]
# ## Derivatives of derivatives

# %% [markdown]
# ### Exercise: hessian_vector_product
#
# Write `hessian_vector_product(f, x, v)`: the product of the Hessian of the scalar `f` at `x` with `v`, which has the shape of
# `x`. Never build the Hessian: memory must grow like `x`, not like its square.
#
# ```
# x, v = torch.tensor([1.0, 2.0]), torch.tensor([1.0, 0.0])
# hessian_vector_product(lambda t: t[0] ** 2 * t[1], x, v)    # [4., 2.]
# ```

# %% exercise="hessian_vector_product" points=2
def hessian_vector_product(f: Callable[[Tensor], Tensor], x: Tensor, v: Tensor) -> Tensor:
    """The Hessian of f at x times v, without building the Hessian."""
    ### BEGIN SOLUTION
    leaf = x.detach().requires_grad_()
    (slope,) = torch.autograd.grad(f(leaf), leaf, create_graph=True)
    if not slope.requires_grad:  # f is linear: its slope does not depend on x
        return torch.zeros_like(leaf)
    (product,) = torch.autograd.grad(slope, leaf, grad_outputs=v, materialize_grads=True)
    return product
    ### END SOLUTION

# %% check="hessian_vector_product"
check("hessian_vector_product")

# %% [markdown]
# ## torch.func: gradients as functions

# %% [markdown]
# ### Exercise: per_sample_gradients
#
# Write `per_sample_gradients(loss_fn, w, xs, ys)`: `loss_fn(w, x, y)` gives the loss of one sample as a scalar. Return its
# gradient by `w` for each of the `n` samples in `xs` and `ys`, in one tensor of shape `(n, *w.shape)`. Rule: no Python loop, the
# number of torch calls must not grow with `n`.
#
# ```
# loss_fn = lambda w, x, y: (w * x).sum() * y
# xs, ys = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([1.0, 10.0])
# per_sample_gradients(loss_fn, torch.zeros(2), xs, ys)    # [[1., 2.], [30., 40.]]
# ```

# %% exercise="per_sample_gradients" points=2
def per_sample_gradients(loss_fn: Callable[..., Tensor], w: Tensor, xs: Tensor, ys: Tensor) -> Tensor:
    """The gradient of loss_fn(w, x, y) by w for every sample: (n, *w.shape)."""
    ### BEGIN SOLUTION
    of_one = torch.func.grad(loss_fn)
    return torch.func.vmap(of_one, in_dims=(None, 0, 0))(w, xs, ys)
    ### END SOLUTION

# %% check="per_sample_gradients"
check("per_sample_gradients")

# %% [markdown]
# ## What the graph keeps

# %% [markdown]
# ### Exercise: saved_bytes
#
# Write `saved_bytes(f, *inputs)`: how many bytes autograd keeps for the backward pass when `f(*inputs)` runs. Each storage
# counts once, however often it is saved, and at its full size even where only a view of it is saved.
#
# ```
# x = torch.ones(10, requires_grad=True)
# saved_bytes(lambda x: x.sin(), x)        # 40
# saved_bytes(lambda x: x[:2].sin(), x)    # 40: the view keeps the whole storage alive
# ```

# %% exercise="saved_bytes" points=3
def saved_bytes(f: Callable[..., Any], *inputs: Tensor) -> int:
    """Bytes of all storages that autograd keeps for the backward of f(*inputs)."""
    ### BEGIN SOLUTION
    storages: dict[int, torch.UntypedStorage] = {}  # keeping them means that no address is used twice

    def pack(t: Tensor) -> Tensor:
        storage = t.untyped_storage()
        storages[storage.data_ptr()] = storage
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        f(*inputs)
    return sum(storage.nbytes() for storage in storages.values())
    ### END SOLUTION

# %% check="saved_bytes"
check("saved_bytes")

# %% [markdown]
# ## Looking inside
# ## Errors read aloud
# ## What you have seen
