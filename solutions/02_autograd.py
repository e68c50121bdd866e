# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 2 · Autograd
#
# Training needs one thing above all: to know how much the loss would change if each weight changed a little. For a
# network with a million weights that is a million derivatives, at every step. PyTorch finds all of them in about the
# time of two or three forward passes, and it does so for ordinary Python code, loops and ifs included.
#
# This lesson takes the machine apart: what is recorded, what is kept in memory, what adds up, what breaks, and how to
# add a piece of your own. There are twelve things to write, two of them classes.

# %% tags=["setup"]
import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from torchcourse import Unattempted, case, check, hint

# %% tags=["demo"]
# %load_ext torchcourse

# %% [markdown]
# ## Recorded while it runs
#
# A tensor with `requires_grad=True` asks to be tracked. Every operation on it runs as usual, and is also recorded.
# `backward()` goes through the record from the last entry to the first and applies the chain rule at each.

# %%
x = torch.tensor(3.0, requires_grad=True)
y = x**2 + 2 * x
y.backward()
print(y.item(), x.grad)

# %% [markdown]
# At `x = 3` the slope of `x² + 2x` is `2·3 + 2 = 8`.
#
# The record is made anew in every run; this is called *define by run*. So the record, usually called the *graph*, may
# differ from call to call: here an ordinary `while` decides how many squarings there are to differentiate.

# %%
def squared_until_large(x: Tensor) -> Tensor:
    while x < 100:
        x = x * x
    return x

for start in (3.0, 8.0):
    x = torch.tensor(start, requires_grad=True)
    y = squared_until_large(x)
    y.backward()
    print(start, "->", y.item(), "slope", x.grad.item())

# %% [markdown]
# Starting from 3 there were three squarings (`x⁸`, slope `8·3⁷ = 17496`), from 8 there were two. Older systems,
# TensorFlow 1 among them, made you build a *static* graph out of placeholders and special loop nodes first, and then
# ran it with numbers; errors came up far from the line that caused them, and `print` showed a node instead of a
# number. The speed that a fixed graph buys is what `torch.compile` (lesson 8) brings back.
#
# Because the forward pass is ordinary Python, you can stop in the middle of it. Put `breakpoint()` into a `forward`
# and look at real tensors. Here a print takes the place of the debugger, so that this notebook runs to the end without
# stopping; to get the real one, delete the first statement that sets `sys.breakpointhook`.

# %%
import sys

sys.breakpointhook = lambda: print(
    "stopped; hidden is", sys._getframe(1).f_locals["hidden"]
)


def forward(x: Tensor) -> Tensor:
    hidden = torch.relu(x - 1)
    breakpoint()
    return hidden.sum()

forward(torch.tensor([0.5, 3.0]))
sys.breakpointhook = sys.__breakpointhook__

# %% [markdown]
# ## Leaves, and the graph behind a result
#
# A tensor that you made yourself is a *leaf*. The result of a recorded operation has a `grad_fn`: the node that knows
# how to go back through that operation.

# %%
w = torch.tensor([1.0, -2.0], requires_grad=True)
x = torch.tensor([3.0, 4.0])
product = w * x
loss = product.sum()
for name, t in {"w": w, "x": x, "product": product, "loss": loss}.items():
    print(
        f"{name:8} leaf {t.is_leaf!s:6} requires grad {t.requires_grad!s:6} {t.grad_fn}"
    )

# %% [markdown]
# Each node points to the nodes it leads back to. Follow the first of them by hand, from node to node:

# %%
node, indent = loss.grad_fn, ""
while node is not None:
    print(indent + node.name())
    node = node.next_functions[0][0] if node.next_functions else None
    indent = indent + "  "

# %% [markdown]
# The chain ends in `AccumulateGrad`. That node belongs to the leaf `w`, and its job is to *add* what arrives to
# `w.grad`. `x` has no node at all: it did not ask to be tracked, so nothing is computed for it.
#
# Here is the same with more branches. Values go from left to right; then the gradient of the result with respect to
# each box, in the lower line, is computed from right to left. Where a box is used twice, what comes back along the
# two paths is added. Try expressions of your own, with `a`, `b`, `c`, numbers, `+ - * / **` and `sin exp log tanh
# relu sqrt`.

# %% tags=["demo"]
from torchcourse.demos import graph

graph.explore()

# %% [markdown]
# Gradients of boxes in the middle are not kept: they are passed on and dropped. Reading `.grad` there gives `None`
# and a warning. If you want one, ask for it before the backward pass, with `retain_grad()`:

# %%
import warnings

w = torch.tensor([1.0, -2.0], requires_grad=True)
product = w * x
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    print(product.grad)
print(str(caught[0].message)[:74], "...")

# %%
product.retain_grad()
(product**2).sum().backward()
print(product.grad, w.grad)

# %% [markdown]
# One trap: if you move or convert a tensor that requires grad, the result is not a leaf. Move it first, then let it
# require grad.

# %%
no_leaf = torch.ones(2, requires_grad=True).to(torch.float64)
leaf = torch.ones(2, dtype=torch.float64, requires_grad=True)
no_leaf.is_leaf, leaf.is_leaf

# %% [markdown]
# **In short:** leaves collect gradients, `grad_fn` remembers where a result came from, and only what requires grad is
# tracked.

# %% [markdown]
# ### Exercise: derivative
#
# Write `derivative(f, x)`: the derivative of `f`, a scalar function of a scalar tensor, at the Python float `x`.
# Compute in `float64`, by autograd, and return a Python float.
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
#
# Say what you expect before you run the next cell. `x` is `[1, 5, 3]`. What is the gradient of `x.sum()`? Of
# `x.mean()`? Of `x.max()`?

# %%
for name in ("sum", "mean", "max"):
    x = torch.tensor([1.0, 5.0, 3.0], requires_grad=True)
    getattr(x, name)().backward()
    print(f"{name:5} {x.grad}")

# %% [markdown]
# A sum passes the whole gradient to every entry. A mean passes an equal share to each. A maximum passes everything to
# the winner; the others could change a little without any effect on the maximum. In a tie, `amax` shares evenly:

# %%
x = torch.tensor([5.0, 5.0, 3.0], requires_grad=True)
x.amax().backward()
x.grad

# %% [markdown]
# ## Gradients by hand
#
# Everybody should work out the gradients of a linear layer by hand once. The recipe never changes: start with the
# gradient of the loss with respect to the last result, go back one operation at a time, and let the shapes guide you:
# *the gradient of a tensor has that tensor's shape*.
#
# - A mean over `N` entries: each entry gets `1/N`.
# - A square `d²`: times `2d`.
# - An addition with broadcasting: the gradient is *summed* over the axes that were stretched.
# - A matrix product `z = x @ w.T`: `dw = dz.T @ x`, `dx = dz @ w`. Any other order or transpose has the wrong shape
#   (if you are lucky, and nothing is square).
#
# Here is broadcasting in its smallest form. `b` was used three times, so three ones come back to it:

# %%
b = torch.tensor([10.0], requires_grad=True)
(torch.zeros(3) + b).sum().backward()
b.grad

# %% [markdown]
# And the matrix product:

# %%
x, w = torch.randn(4, 3), torch.randn(2, 3, requires_grad=True)
z = x @ w.T
dz = torch.randn(4, 2)
z.backward(dz)
torch.allclose(w.grad, dz.T @ x, atol=1e-6)

# %% [markdown]
# ### Exercise: linear_mse_gradients
#
# Write `linear_mse_gradients(x, w, b, y)`: the gradients `(dw, db)` of `((x @ w.T + b - y) ** 2).mean()`, worked out
# by hand. The shapes are `(n, i)`, `(o, i)`, `(o,)` and `(n, o)`. The mean is over all `n * o` entries. Rule: no
# autograd call of any kind.
#
# ```
# x, w, b, y = torch.tensor([[1.0, 2.0]]), torch.zeros(1, 2), torch.zeros(1), torch.tensor([[3.0]])
# linear_mse_gradients(x, w, b, y)    # ([[-6., -12.]], [-6.])
# ```

# %% exercise="linear_mse_gradients" points=3
def linear_mse_gradients(
    x: Tensor, w: Tensor, b: Tensor, y: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the gradients of ((x @ w.T + b - y) ** 2).mean() for w and b,
    worked out by hand."""
    ### BEGIN SOLUTION
    difference = x @ w.T + b - y  # (n, o)
    slope = 2 * difference / difference.numel()  # of the mean square, for each entry
    return slope.T @ x, slope.sum(dim=0)
    ### END SOLUTION

# %% check="linear_mse_gradients"
check("linear_mse_gradients")

# %% [markdown]
# ## Gradients accumulate
#
# `backward()` *adds* to `.grad`. Run it twice, on two graphs, and the sum is there:

# %%
w = torch.tensor([1.0, 2.0], requires_grad=True)
(w * 3).sum().backward()
print(w.grad)
(w * 3).sum().backward()
print(w.grad)

# %% [markdown]
# Why? Because a sum is usually what you want. The gradient of a sum of losses is the sum of their gradients; so a
# weight that is used in several places, two losses of one model, or a batch that is cut into pieces because it is too
# large for memory all come out right without any extra code, as long as the losses are sums (for means see lesson 5):

# %%
data = torch.randn(8, 2, generator=torch.Generator().manual_seed(0))
w.grad = None
((data @ w) ** 2).sum().backward()
at_once, w.grad = w.grad, None
for piece in data.split(2):
    ((piece @ w) ** 2).sum().backward()
torch.allclose(w.grad, at_once)

# %% [markdown]
# The price: you must clear the gradients before the next step, or the old ones are added to the new. Optimizers do it
# with `zero_grad()`, which nowadays sets `.grad` to `None` instead of filling it with zeros: that saves memory, and a
# parameter that took no part can be told apart from one with a gradient of zero.
#
# Two losses often share a large part of the graph. The first `backward` frees what the graph had saved, and the
# second one finds it gone:

# %%
w = torch.tensor([1.0, 2.0], requires_grad=True)
shared = w.exp()
first, second = shared.sum(), (shared**2).sum()
first.backward()
try:
    second.backward()
except RuntimeError as error:
    print(str(error)[:93], "...")

# %% [markdown]
# There are two ways out. Add the losses and go back once; that is the cheap one, since the shared part is traversed
# only once. Or keep the graph for the second run, with `retain_graph=True`; the price is memory, held until a later
# `backward` without it, or until the last reference to the graph is gone.

# %%
w.grad = None
shared = w.exp()
(shared.sum() + (shared**2).sum()).backward()
together, w.grad = w.grad, None
shared = w.exp()
shared.sum().backward(retain_graph=True)
(shared**2).sum().backward()
print(together, w.grad)

# %% [markdown]
# `retain_graph=True` inside a training loop nearly always hides a bug: a tensor with history, such as a running loss
# or a hidden state, was kept from one step to the next.

# %% [markdown]
# ## Switching the recording off
#
# Updating weights, measuring accuracy, keeping a moving average: none of this should be recorded. There are three
# tools.

# %%
w = torch.tensor([1.0, 2.0], requires_grad=True)
with torch.no_grad():
    a = w * 2
with torch.inference_mode():
    b = w * 2
c = (w * 2).detach()
print(a.requires_grad, b.requires_grad, c.requires_grad)

# %% [markdown]
# All three say False. They differ in what they record and in what you may do with the result afterwards.
#
# - `no_grad()`: nothing inside is recorded. Results are ordinary tensors.
# - `inference_mode()`: nothing is recorded, and results do not even carry the bookkeeping that notices in-place writes.
#   It is the leanest of the three, but its results, unless you `clone()` them outside the block, cannot enter a
#   recorded computation that needs to save them.
# - `detach()`: what came before stays recorded; this one result is cut off, in the *same memory*.

# %%
(w * a).sum().backward()
try:
    w * b
except RuntimeError as error:
    print(error)

# %% [markdown]
# So use `inference_mode` for serving and evaluation, `no_grad` for what goes back into training, and `detach` to cut
# the graph in one place. One thing does *not* belong on this list: `model.eval()` changes how dropout and batch norm
# behave, and recording goes on as before (lesson 3).
#
# An update is a write into a leaf. While recording is on, that is refused: the write would be recorded, `w` would
# become the result of an operation and no longer be a leaf, and the gradient of the value it started from would have
# no place to go.

# %%
try:
    w -= 0.1 * w.grad
except RuntimeError as error:
    print(error)

# %% [markdown]
# `w = w - 0.1 * w.grad` runs, and is worse: it makes a new tensor, with a history, and calls it `w`, while the model
# still holds the old one. Under `no_grad`, the in-place form is right:

# %%
same = w
with torch.no_grad():
    w -= 0.1 * w.grad
print(w, w is same, w.is_leaf)

# %% [markdown]
# ### Exercise: sgd_step
#
# Write `sgd_step(params, lr)` for a list of parameters: subtract `lr * p.grad` from each parameter `p` in place, then
# clear its gradient (to `None` or to zeros). A parameter whose gradient is `None` is left alone. The parameters
# remain the same tensor objects, in the same memory, and still require grad.
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
# With such a step, gradient descent is a loop of three lines. Below, a point walks down a valley that is steep in one
# direction and flat in the other. Move the learning rate (the slider counts hundredths). Where does it crawl, where
# does it zigzag, and above which rate does it run away? The steep direction sets the limit, and the flat one pays for
# it.

# %% tags=["demo"]
from torchcourse.demos import descent

descent.explore()

# %% [markdown]
# ## Asking for a gradient without side effects
#
# `backward()` leaves something behind in every leaf it reaches. A function that is asked for a gradient should not
# touch the caller's tensors. `torch.autograd.grad(y, x)` returns gradients and stores none:

# %%
w = torch.tensor([1.0, 2.0], requires_grad=True)
(found,) = torch.autograd.grad((w**3).sum(), w)
print(found, w.grad)

# %% [markdown]
# That leaves one side effect: to be tracked, a tensor has to require grad, and switching that on in the caller's own
# tensor is a change as well. A detached tensor is another object, with a flag of its own:

# %%
plain = torch.tensor([1.0, 2.0])
mine = plain.detach().requires_grad_()
print(mine.requires_grad, plain.requires_grad)

# %% [markdown]
# ### Exercise: gradient
#
# Write `gradient(f, x)`: the gradient of the scalar `f(x)`, as a tensor without history. The caller must not notice:
# `x.grad`, `x.requires_grad` and the values of `x` stay as they were. `x` may be a plain tensor, a leaf that already
# has a gradient, or the result of a computation whose own graph must survive.
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
#
# `detach` gives the same values, in the *same memory*, without history. `clone` gives new memory, *with* history: it
# is an operation like any other, and gradients flow through it.

# %%
w = torch.tensor([1.0, 2.0], requires_grad=True)
detached, cloned = w.detach(), w.clone()
with torch.no_grad():
    w += 10
print(detached, cloned, sep="\n")

# %% [markdown]
# Detaching is how you say "treat this as a constant". In reinforcement learning the target of a prediction is made
# from the same network: `reward + discount * value(next state)`. The prediction should move towards the target, not
# the target towards the prediction. In the next cell both come from the weight `v`. Look at how the gradient changes:

# %%
v = torch.tensor(2.0, requires_grad=True)
for name, cut in {"both move": lambda t: t, "target fixed": Tensor.detach}.items():
    prediction, target = v * 1.0, 1.0 + 0.9 * v
    (slope,) = torch.autograd.grad((prediction - cut(target)) ** 2, v)
    print(f"{name:13} {slope.item():.2f}")

# %% [markdown]
# ### Exercise: td_loss
#
# Write `td_loss(online, target)`, a loss of *temporal difference* learning: the mean squared error between the two,
# with no gradient reaching `target`.
# The caller's `target` itself stays as it was.
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
# You will meet `.data` in older code. It shares memory without history, as `detach()` does, with one difference:
# `.data` has a version counter of its own. If you write through `detach()`, autograd notices that a value it had
# saved has changed. If you write through `.data`, it does not, and the gradient is silently wrong. `sigmoid` saves
# its result:

# %%
for way in ("detach", "data"):
    x = torch.tensor([0.0], requires_grad=True)
    y = x.sigmoid()
    (y.detach() if way == "detach" else y.data).zero_()
    try:
        y.sum().backward()
        print(way, "no error; gradient", x.grad, "where 0.25 is right")
    except RuntimeError as error:
        print(way, "noticed:", str(error)[:97], "...")

# %% [markdown]
# **In short:** `detach` to cut, `clone` to copy, both to take a snapshot; `.data` is something to recognise in old
# code, not to write.

# %% [markdown]
# ### Exercise: snapshot
#
# Write `snapshot(t)`: a copy of `t` in memory of its own, without history, that does not require grad. `t`, of any
# dtype, may be a leaf or part of a graph, and stays as it was.
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
#
# On the way back, some operations need their input again, some need their result, and some need neither. Each tensor
# counts the writes to it in `_version`; a node remembers the count of what it saved, and compares.

# %%
x = torch.tensor([1.0, 2.0], requires_grad=True)
y = x * 1
saved = y.exp()
print(saved._version)
saved.add_(1)
print(saved._version)

# %%
try:
    saved.sum().backward()
except RuntimeError as error:
    print(str(error)[:190], "...")

# %% [markdown]
# `exp` had saved its own result, since that is its derivative. The message names the operation, the version that it
# found and the version that it expected. There are two in-place errors. The first, for a write into a leaf (above), is
# raised by the line that writes; this second one is raised only later, by `backward()`. `relu_()` on a leaf raises the
# same error:

# %%
try:
    x.relu_()
except RuntimeError as error:
    print(error)

# %% [markdown]
# And often a write is harmless, because nothing needs the old value. An addition needs neither its inputs nor its
# result:

# %%
x = torch.tensor([1.0, 2.0], requires_grad=True)
y = x + 1
y.mul_(3)
y.sum().backward()
x.grad

# %% [markdown]
# **In short:** autograd notices writes that would make it wrong, as long as you do not bypass it with `.data`. Write
# in place where memory matters, and nowhere else.

# %% [markdown]
# ## Vectors in, vectors out
#
# `backward()` without an argument wants a single number. With `m` results and `n` inputs there is a whole table of
# derivatives, the Jacobian, and autograd never builds it. What it computes is a row vector times that table: you say
# how much each result matters to you, and get what that means for each input.

# %%
x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = torch.stack([x[0] * x[1], x[1] * x[2]])
try:
    y.backward()
except RuntimeError as error:
    print(error)
y.backward(torch.tensor([1.0, 10.0]))
x.grad

# %% [markdown]
# The Jacobian here is `[[2, 1, 0], [0, 3, 2]]`; `[1, 10]` times it is `[2, 31, 20]`. For a loss the vector is the
# number 1. All of training is vector-Jacobian products. A backward pass costs a small multiple of the forward pass,
# usually about twice as much, however many inputs there are: there is no extra pass for each of them.
#
# This is *reverse mode*: one pass gives the slope of one result with respect to *all* inputs. *Forward mode* goes the
# other way: one pass, together with the values, gives the slope of *all* results along one direction of the input. It
# keeps no graph.

# %% tags=["demo"]
f = lambda x: torch.stack([x[0] * x[1], x[1] * x[2]])
point = torch.tensor([1.0, 2.0, 3.0])
with warnings.catch_warnings():
    # the first jvp loads a deprecated part of PyTorch itself
    warnings.simplefilter("ignore")
    value, along = torch.func.jvp(f, (point,), (torch.tensor([1.0, 0.0, 0.0]),))
print("forward: ", along, "a column")
value, pull = torch.func.vjp(f, point)
print("reverse: ", pull(torch.tensor([1.0, 0.0]))[0], "a row")

# %% [markdown]
# A loss has one result and millions of inputs: reverse mode. A simulation with three settings and a million results:
# forward. `torch.func.jacrev` and `jacfwd` build the whole table, row by row or column by column.

# %% [markdown]
# ## Functions of your own
#
# Sometimes the derivative that autograd finds is not the one you want. A `torch.autograd.Function` has a `forward`,
# which computes, and a `backward`, which gets the gradient of the result and returns the gradient of each input. What
# the backward needs is handed over through `ctx`. You call it through `apply`.

# %%
class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad_output * 3 * x**2

# %%
x = torch.tensor([1.0, 2.0], requires_grad=True)
Cube.apply(x).backward(torch.tensor([1.0, 10.0]))
x.grad

# %% [markdown]
# Note the factor `grad_output`: a backward is one link of the chain, and leaving out the rest of the chain goes
# unnoticed as long as you test with `sum()`, where `grad_output` is all ones. Save tensors with `save_for_backward`
# and not as attributes of `ctx`: then their versions are checked and no cycle keeps them alive. (`forward` can also
# be written without `ctx`, with a `setup_context` beside it; `torch.func` needs that form.)
#
# The first reason for writing a Function: the true derivative is useless. A step function has slope zero wherever it
# has one, so no weight in front of it can learn. The *straight-through estimator* lets the gradient pass as if the step
# had not been there. The clipped form stops it where `abs(x) > 1`: there, `x` is too far from 0 for a moderate change
# to flip the step. Mind what is clipped: the mask is made from `x`. The gradient itself is never clipped, however large
# it is.

# %%
x = torch.tensor([-0.5, 0.5], requires_grad=True)
y = (x > 0).float()
print(y.requires_grad, "- the comparison has cut the graph")

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
        return torch.where(x.abs() <= 1, grad_output, 0)
        ### END SOLUTION

# %% check="BinarizeSTE"
check("BinarizeSTE")

# %% [markdown]
# The second reason is numerical. `log(sigmoid(x))` is the heart of every yes-or-no loss. Written just like that, it
# fails at both ends:

# %%
x = torch.tensor([-1000.0, -10.0, 20.0], requires_grad=True)
y = torch.log(torch.sigmoid(x))
y.sum().backward()
print(y.detach(), x.grad, sep="\n")

# %% [markdown]
# At -1000, `sigmoid` is 0 and its logarithm is infinite; the right value is -1000. The cure is to give `exp` only
# numbers that are not positive: `min(x, 0) - log(1 + exp(-abs(x)))`, where `log1p` keeps the digits of the last part.
#
# The derivative is `1 - sigmoid(x)`, and that has a trap of its own. In float32 the difference between 1 and a number
# close to 1 has hardly any digits left. `sigmoid(-x)` is the same thing, without the subtraction:

# %% tags=["demo"]
far = torch.tensor([10.0, 16.0, 20.0, 40.0])
print(1 - torch.sigmoid(far), torch.sigmoid(-far), sep="\n")

# %% [markdown]
# ### Exercise: LogSigmoid
#
# Write `LogSigmoid`, a `torch.autograd.Function`: forward `log(1 / (1 + exp(-x)))`, and its gradient. Both are finite
# and correct for entries of either sign, up to 1000 in absolute value, and keep their leading digits where they are
# small (at `x = 20` they are -2.06e-09 and 2.06e-09, not 0). It passes `gradcheck` in `float64`. Rule: no `logsigmoid`
# and no `softplus`.
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
#
# Is a backward correct? Compare it with what a small step really does. One step forward, `(f(x + eps) - f(x)) / eps`,
# is off by about `eps/2` times the curvature. Stepping to both sides cancels that, and what is left shrinks with
# `eps²`:

# %%
here, eps = torch.tensor(1.0, dtype=torch.float64), 1e-4
one_sided = (torch.exp(here + eps) - torch.exp(here)) / eps
both_sides = (torch.exp(here + eps) - torch.exp(here - eps)) / (2 * eps)
print(
    f"errors: {(one_sided - here.exp()).item():.1e} and "
    f"{(both_sides - here.exp()).item():.1e}"
)

# %% [markdown]
# Making `eps` smaller only helps up to a point: then the two values agree in nearly all their digits, and their
# difference is mostly rounding. In float32 that point comes so early that no `eps` is good:

# %%
for dtype in (torch.float32, torch.float64):
    here = torch.tensor(1.0, dtype=dtype)
    errors = [
        (torch.exp(here + e) - torch.exp(here - e)) / (2 * e) - here.exp()
        for e in (1e-2, 1e-4, 1e-6, 1e-8)
    ]
    print(dtype, *(f"{error.item():8.0e}" for error in errors))

# %% [markdown]
# So gradients are checked in float64. `torch.autograd.gradcheck` does this for any function: it returns True, or
# raises an error that shows both tables. Here it checks `Cube`, and a version that forgets the factor 3:

# %%
class Wrong(Cube):
    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        return grad_output * ctx.saved_tensors[0] ** 2

wide = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
print(torch.autograd.gradcheck(Cube.apply, (wide,)))

# %%
try:
    torch.autograd.gradcheck(Wrong.apply, (wide,))
except RuntimeError as error:
    print(str(error)[:260])

# %% [markdown]
# A straight-through estimator fails `gradcheck`, as it should: its gradient is deliberately not the true one.
#
# Now write the core of `gradcheck` yourself. There are two traps in copying: `x.double()` *is* `x` if it was float64
# already, and `x.flatten()` is sometimes a view and sometimes not.

# %% [markdown]
# ### Exercise: numerical_gradient
#
# Write `numerical_gradient(f, x, eps=1e-6)`: the gradient of the scalar `f(x)` by central differences, one entry at a
# time, in `float64` whatever the dtype of `x`, with the shape of `x`. `f` need not support autograd, `x` may have any
# strides, and `x` is not changed. For a smooth `f`, no entry is off by more than `1e-7 * max(1, abs(f(x)))`.
#
# ```
# numerical_gradient(lambda t: (t**2).sum(), torch.tensor([1.0, 3.0]))    # about [2., 6.], float64
# ```

# %% exercise="numerical_gradient" points=2
def numerical_gradient(
    f: Callable[[Tensor], Tensor], x: Tensor, eps: float = 1e-6
) -> Tensor:
    """Central differences in float64, one entry of x at a time."""
    ### BEGIN SOLUTION
    start = x.detach().to(torch.float64)
    result = torch.zeros_like(start)  # float64, on the device of x
    for index in itertools.product(*map(range, x.shape)):
        step = torch.zeros_like(start)
        step[index] = eps
        result[index] = (f(start + step).item() - f(start - step).item()) / (2 * eps)
    return result
    ### END SOLUTION

# %% check="numerical_gradient"
check("numerical_gradient")

# %% [markdown]
# ## Derivatives of derivatives
#
# A gradient is computed by operations, and these can be recorded too: `create_graph=True`. Then the gradient itself
# has a history and can be differentiated.

# %%
x = torch.tensor(2.0, requires_grad=True)
(slope,) = torch.autograd.grad(x**4, x, create_graph=True)
(bend,) = torch.autograd.grad(slope, x)
print(slope.item(), bend.item())

# %% [markdown]
# For a vector of `n` inputs, second derivatives form a table of `n × n`, the Hessian `H`. Here it is for a small
# function:

# %% tags=["demo"]
f = lambda t: t[0] ** 2 * t[1]
torch.func.hessian(f)(torch.tensor([1.0, 2.0]))

# %% [markdown]
# For a million weights it would have 10¹² entries. Most methods only need `H` times a vector `v`: how the gradient
# changes as you move along `v`. That is one more vector-Jacobian product: with `g` the gradient and `v` held fixed,
# the gradient of the single number `g · v` is `Hv`. Two passes, and no table.
#
# A common slip: differentiate `g.sum()` and multiply by `v` afterwards. That gives the *row sums* of `H`, times `v`
# entry by entry, which agrees with `Hv` for every `v` only if `H` is diagonal.

# %% [markdown]
# ### Exercise: hessian_vector_product
#
# Write `hessian_vector_product(f, x, v)`: return the product of the Hessian of the scalar function `f` at `x` with `v`,
# which has the shape of `x`. Never build the Hessian: memory must grow in proportion to the size of `x`, not to its
# square.
#
# ```
# x, v = torch.tensor([1.0, 2.0]), torch.tensor([1.0, 0.0])
# hessian_vector_product(lambda t: t[0] ** 2 * t[1], x, v)    # [4., 2.]
# ```

# %% exercise="hessian_vector_product" points=2
def hessian_vector_product(
    f: Callable[[Tensor], Tensor], x: Tensor, v: Tensor
) -> Tensor:
    """The Hessian of f at x times v, without building the Hessian."""
    ### BEGIN SOLUTION
    leaf = x.detach().requires_grad_()
    (slope,) = torch.autograd.grad(f(leaf), leaf, create_graph=True)
    if not slope.requires_grad:  # f is linear: its slope does not depend on x
        return torch.zeros_like(leaf)
    (product,) = torch.autograd.grad(
        slope, leaf, grad_outputs=v, materialize_grads=True
    )
    return product
    ### END SOLUTION

# %% check="hessian_vector_product"
check("hessian_vector_product")

# %% [markdown]
# ## torch.func: gradients as functions
#
# `torch.func.grad` takes a function and returns another, the one that computes its gradient (with respect to the
# first argument, unless `argnums` says otherwise). No leaf, no `.grad`, nothing to clear. It nests:

# %%
cube = lambda x: x**3
two = torch.tensor(2.0)
print(torch.func.grad(cube)(two), torch.func.grad(torch.func.grad(cube))(two))

# %% [markdown]
# `torch.func.vmap` turns a function of a single example into a function of a whole batch. It does not loop: each
# operation inside runs once, on the whole batch. `in_dims` says for each argument which of its axes is the batch;
# `None` means that all share the argument.

# %%
dot = lambda a, b: (a * b).sum()
rows = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
print(torch.func.vmap(dot, in_dims=(0, None))(rows, torch.tensor([1.0, 10.0])))
print(torch.func.vmap(torch.func.grad(cube))(torch.tensor([1.0, 2.0, 3.0])))

# %% [markdown]
# The second line is worth a thought: three gradients, one for each entry, in one go.
#
# An ordinary backward pass over a batch gives only the *sum* or the *mean* of the samples' gradients, and the
# individual ones are lost. Sometimes those are what matters: to clip each sample's influence for privacy, or to find
# a mislabelled one. (The functions of `torch.func` were once a package of their own, `functorch`.)

# %% [markdown]
# ### Exercise: per_sample_gradients
#
# Write `per_sample_gradients(loss_fn, w, xs, ys)`: `loss_fn(w, x, y)` gives the loss of one sample as a scalar.
# Return its gradient with respect to `w` for each of the `n` samples in `xs` and `ys`, in one tensor of shape `(n,
# *w.shape)`. Rule: no Python loop; the number of torch calls must not grow with `n`.
#
# ```
# loss_fn = lambda w, x, y: (w * x).sum() * y
# xs, ys = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([1.0, 10.0])
# per_sample_gradients(loss_fn, torch.zeros(2), xs, ys)    # [[1., 2.], [30., 40.]]
# ```

# %% exercise="per_sample_gradients" points=2
def per_sample_gradients(
    loss_fn: Callable[..., Tensor], w: Tensor, xs: Tensor, ys: Tensor
) -> Tensor:
    """Return the gradient of loss_fn(w, x, y) with respect to w for every sample: (n,
    *w.shape)."""
    ### BEGIN SOLUTION
    of_one = torch.func.grad(loss_fn)
    return torch.func.vmap(of_one, in_dims=(None, 0, 0))(w, xs, ys)
    ### END SOLUTION

# %% check="per_sample_gradients"
check("per_sample_gradients")

# %% [markdown]
# ## What the graph keeps
#
# Training takes far more memory than inference, and this is why: what the backward pass will need has to stay.
# `saved_tensors_hooks` takes two functions of yours, called *hooks*. The first gets each tensor as it is saved, and
# what it returns is kept in its place; the second gets that back when the backward pass needs it. Here the first notes
# the shape and returns the tensor itself (`append` returns None, so `or t` gives `t`):

# %%
def names_of_saved(f: Callable[..., Tensor], *inputs: Tensor) -> list[str]:
    shapes: list[str] = []
    keep = lambda t: shapes.append(f"{tuple(t.shape)}") or t
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        f(*inputs)
    return shapes

x, w = torch.ones(4, 3, requires_grad=True), torch.ones(3, 2, requires_grad=True)
print("x + 1     ", names_of_saved(lambda x: x + 1, x))
print("x.exp()   ", names_of_saved(lambda x: x.exp(), x))
print("x * x     ", names_of_saved(lambda x: x * x, x))
print("x @ w     ", names_of_saved(lambda x, w: x @ w, x, w))

# %% [markdown]
# An addition saves nothing. `x * x` saves `x` twice, as its left and its right factor, but that is the same storage
# and costs nothing extra. Views behave as in lesson 1: a saved slice keeps its whole storage alive.
#
# All this stays until the backward has run or the result is gone. A list of losses, appended to at every step for a
# plot, keeps every graph that no backward has freed, and in a validation loop there is no backward;
# `losses.append(loss.item())` keeps numbers. Here, a *weak reference*, which knows a piece of memory without keeping it
# alive, tells when the memory of a saved tensor is freed:

# %%
from torch.multiprocessing.reductions import StorageWeakRef

x = torch.ones(1000, requires_grad=True)
hidden = x.exp()
memory = StorageWeakRef(hidden.untyped_storage())
loss = hidden.sum()
del hidden
print("freed when the name is deleted?  ", memory.expired())
loss.backward(retain_graph=True)
print("freed by a backward that retains?", memory.expired())
loss.backward()
print("freed by an ordinary backward?   ", memory.expired())

# %% [markdown]
# With recording off, nothing is kept: that is how `no_grad` saves memory in evaluation. (In lesson 6 you trade time
# for memory, with checkpointing.)

# %% [markdown]
# ### Exercise: saved_bytes
#
# Write `saved_bytes(f, *inputs)`: how many bytes autograd keeps for the backward pass when `f(*inputs)` runs. Each
# storage counts once, however often it is saved, and at its full size even where only a view of it is saved.
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
    # keeping the storages alive means that no address is reused
    storages = {}

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
# ## Autograd in forty lines
#
# Nothing in this lesson is magic. Here is reverse-mode differentiation for single numbers, step by step. A `Number`
# holds a value and remembers what it was made from: pairs of an input and the derivative with respect to that input,
# known at the moment the operation runs.

# %% tags=["demo"]
import math

class Number:
    def __init__(self, value, made_from=()):
        self.value, self.made_from, self.grad = value, made_from, 0.0

    def __add__(self, other):
        return Number(self.value + other.value, [(self, 1.0), (other, 1.0)])

    def __mul__(self, other):
        made_from = [(self, other.value), (other, self.value)]
        return Number(self.value * other.value, made_from)

    def tanh(self):
        y = math.tanh(self.value)
        return Number(y, [(self, 1 - y * y)])

# %% [markdown]
# That is the recording. `backward` needs an order: a number may pass its gradient on only after everything that used
# it has added its share. So sort the graph, inputs first, and walk it from the end:

# %% tags=["demo"]
def in_order(number, seen):
    if number not in seen:
        for source, _ in number.made_from:
            in_order(source, seen)
        seen[number] = None
    return list(seen)

def backward(result):
    result.grad = 1.0
    for number in reversed(in_order(result, {})):
        for source, slope in number.made_from:
            source.grad += slope * number.grad

# %% [markdown]
# The `+=` is the chain rule's sum over paths, and it is also why gradients accumulate. Here `a` is used twice, and
# PyTorch agrees:

# %% tags=["demo"]
a, b = Number(0.5), Number(-2.0)
backward((a * b + a).tanh())
t, u = torch.tensor(0.5, requires_grad=True), torch.tensor(-2.0, requires_grad=True)
(t * u + t).tanh().backward()
print(a.grad, t.grad.item())
print(b.grad, u.grad.item())

# %% [markdown]
# PyTorch's engine does the same with tensors, in C++, on several devices, and frees what was saved as it goes.
# (Python's `dict` keeps the order of insertion, so `seen` is both the set of what was visited and the sorted list.)

# %% [markdown]
# ## Looking inside
#
# A function that you pass to a tensor's `register_hook` is called with that tensor's gradient. If it returns nothing,
# the gradient passes unchanged; a tensor that it returns replaces the gradient. This works on tensors in the middle
# too.

# %%
w = torch.tensor([1.0, -2.0], requires_grad=True)
hidden = w * 3
handle = hidden.register_hook(lambda grad: print("passing hidden:", grad))
w.register_hook(lambda grad: grad.clamp(-1, 1))
hidden.sum().backward()
handle.remove()
w.grad

# %% [markdown]
# When a gradient is NaN, the question is which operation produced the first one. `detect_anomaly` checks the result of
# each backward step, raises at the first NaN, and shows the line of the *forward* operation it belongs to. It is slow,
# so switch it on only while you search.

# %%
def risky(x: Tensor) -> Tensor:
    return torch.sqrt(x * 0).sum() * 0

x = torch.ones(2, requires_grad=True)
risky(x).backward()
print(x.grad)

# %%
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    with torch.autograd.detect_anomaly():
        try:
            risky(x).backward()
        except RuntimeError as error:
            print(error)
told = "".join(str(warning.message) for warning in caught)
print(
    "the operation is on line",
    next(line for line in told.splitlines() if "in risky" in line).split("line ")[-1],
)

# %% [markdown]
# The slope of a square root at 0 is infinite, and zero times infinity is NaN. A related trap: `torch.where(x > 0,
# x.sqrt(), 0)` does not help, because the gradient also goes through the branch that was not taken, as `0 * inf`.
# Make the *input* safe first.

# %%
for name, f in {
    "where after": lambda x: torch.where(x > 0, x.sqrt(), 0.0),
    "where before and after": lambda x: torch.where(
        x > 0, torch.where(x > 0, x, 1.0).sqrt(), 0.0
    ),
}.items():
    x = torch.tensor([0.0, 4.0], requires_grad=True)
    f(x).sum().backward()
    print(f"{name:23} {x.grad}")

# %% [markdown]
# ## Errors read aloud
#
# **"element 0 of tensors does not require grad and does not have a grad_fn"**: the graph was cut between the weights
# and the loss. Look for `.item()`, `.data`, `detach()`, NumPy, a comparison or an `argmax`, or a `no_grad` around too
# much.

# %%
w = torch.ones(2, requires_grad=True)
try:
    torch.tensor((w * 2).sum().item()).backward()
except RuntimeError as error:
    print(error)

# %% [markdown]
# **"Trying to backward through the graph a second time"**: two backward passes through one graph, or a tensor with
# history that was carried over from the last step. Add the losses, or detach what you carry over.
#
# **"a leaf Variable that requires grad is being used in an in-place operation"**: an update outside of `no_grad`.
#
# **"one of the variables needed for gradient computation has been modified by an inplace operation"**: something that
# the graph had saved was overwritten. Use the form without the underscore.
#
# **"grad can be implicitly created only for scalar outputs"**: the loss is not a single number. A `mean()` is
# missing, or you meant to give `backward` a vector.
#
# **"The differentiated Tensor ... appears to not have been used in the graph"**: you asked `autograd.grad` about a
# tensor on which the result does not depend. Perhaps a copy of it was used. With `allow_unused=True` you get `None`.

# %%
a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
try:
    torch.autograd.grad(a.sum(), b)
except RuntimeError as error:
    print(error)
torch.autograd.grad(a.sum(), b, allow_unused=True)

# %% [markdown]
# **Expected all tensors to be on the same device** comes up here too, mostly inside a `backward` of your own that
# creates a mask or zeros on the CPU. As in lesson 1: create on the device, and in the dtype, of what came in.
#
# And then there are the errors that print nothing: gradients that were not cleared, a detached prediction, a target
# that was not detached, a backward that ignores `grad_output`, a write through `.data`. To catch those, compare with
# central differences in float64, and look at the `.grad` of every parameter once after the first backward: `None` or
# all zeros tells you where the graph ends.

# %% [markdown]
# ## What you have seen
#
# | idea | remember |
# |---|---|
# | graph | made anew in every forward pass; `grad_fn` leads back, leaves collect in `.grad` |
# | accumulation | `backward` adds; clear before the next step |
# | `autograd.grad` | returns gradients, stores none |
# | `no_grad`, `inference_mode`, `detach` | records nothing; records nothing, and the result cannot be saved for a backward pass; cuts one result off, in the same memory |
# | `clone` | new memory, with history |
# | in place | refused, while recording, on leaves that require grad; noticed on saved tensors; harmless elsewhere; never through `.data` |
# | non-scalars | `backward(v)` is v times the Jacobian |
# | `Function` | multiply by `grad_output`; check in float64 with `gradcheck` |
# | Hessian | never build it: the gradient of `g · v` |
# | `torch.func` | `grad`, `vmap`, `jvp`, `vjp`: functions in, functions out |
# | memory | what is saved lives until a backward pass frees it, or as long as the loss; keep `loss.item()` |
#
# Next comes **lesson 3, modules**: where parameters live, and how a model knows them all.
