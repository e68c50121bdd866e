# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 8 · Compile
#
# Python runs a model one operation at a time: look up the function, check its arguments, start a kernel, go on to the
# next line. For large matrices that overhead is small. For a chain of small operations it is most of the time, and
# each of them reads its input from memory and writes its result back, although the next one needs it right away.
#
# `torch.compile` takes a function, records what it does with tensors, and replaces it with code that does the same in
# fewer, larger steps. It is one line. What takes longer to learn is what it can see and what it cannot, when it
# starts all over again, and whether it is worth it. There are ten exercises.

# %% tags=["setup"]
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F

from torchcourse import Unattempted, case, check, hint

# %% tags=["demo"]
# %load_ext torchcourse

# %% [markdown]
# A first look. `chain` is a series of operations on every element; compiled, it becomes one loop over the elements. On
# a CPU, that needs a C++ compiler. Where there is none, this lesson goes on with a backend that only builds graphs:
# everything but the generated code and its speed can be seen with it. The second cell below finds out which of the two
# you have; the very first compilation takes some seconds.

# %% tags=["demo"]
from torchcourse.demos import calls


def chain(x: Tensor) -> Tensor:
    for _ in range(5):
        x = torch.sin(x) * 0.5 + torch.tanh(x) * 0.5
    return x

# %% tags=["demo"]
x = torch.randn(4000, generator=torch.Generator().manual_seed(0))
BACKEND, reason = calls.usable_backend(chain, x)
print(BACKEND, reason)

# %% tags=["demo"]
compiled_chain = torch.compile(chain, backend=BACKEND)
print(torch.allclose(compiled_chain(x), chain(x), atol=1e-6))

# %% [markdown]
# The older ways of obtaining a graph were `torch.jit.trace` and `torch.jit.script`. The former followed an example and
# missed the branches that it did not take; the latter understood only part of Python. Both still run, with a warning
# that they are deprecated (on Python 3.14: that they are not supported and may break); `torch.compile` has replaced
# them for speed, and `torch.export` (lesson 9) for leaving Python.

# %% [markdown]
# ## From Python to a graph
#
# Three programs work one after the other:
#
# | | gets | makes |
# |---|---|---|
# | **Dynamo** | Python bytecode, when the function is called | a graph of what happens to tensors, and *guards* |
# | **AOTAutograd** | that graph | the graph of ATen operators, and the backward graph |
# | **Inductor** | these graphs | C++ for the CPU, Triton for a GPU |
#
# What Dynamo hands its graph to is a *backend*. The default one, `"inductor"`, runs AOTAutograd and then Inductor. You
# can write one: a function that is given the graph and example inputs and returns something to call in place of the
# code. Here is one that prints what it gets and runs the graph as it is:

# %%
def printing(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Callable[..., Any]:
    for node in graph.graph.nodes:
        print(f"{node.op:14} {node.name:10} {node.target}")
    return graph.forward


def scaled(x: Tensor, times: int) -> Tensor:
    for _ in range(times):
        x = x.abs() + 1
    return x

# %% tags=["demo"]
print(torch.compile(scaled, backend=printing)(torch.tensor([-1.0, 2.0]), 2))

# %% [markdown]
# The loop is gone: Dynamo runs the Python, and only what is done to tensors remains. `times` was a plain number, so
# it decided how long the graph is. A `placeholder` is an input, `output` is the result, `get_attr` fetches what is
# stored beside the graph, and the others compute: `call_function` for functions and operators such as `+`,
# `call_method` for methods.
#
# Nothing is compiled before the first call, and the second call finds the work already done:

# %%
def step(x: Tensor) -> Tensor:
    return x.abs() + 1

# %% tags=["demo"]
quiet = torch.compile(step, backend=printing)
print("nothing yet")
quiet(torch.tensor([-1.0, 2.0]))
print("again:", quiet(torch.tensor([3.0, 4.0])))

# %% [markdown]
# The parameters of a model are inputs as well. `torch.compile(model)` returns a wrapper around the model, whose
# `state_dict` has the prefix `_orig_mod.`; `model.compile()` compiles in place and leaves the names alone.

# %% tags=["demo"]
linear = nn.Linear(2, 1)
print(list(torch.compile(linear, backend="eager").state_dict()))
linear.compile(backend="eager")
print(list(linear.state_dict()))

# %% [markdown]
# **In short:** a backend is called once for each graph, at the first call, with a graph whose nodes are easy to
# read.

# %% [markdown]
# ### Exercise: CountingBackend
#
# Write `CountingBackend()`: an object that serves as `backend` of `torch.compile`. It runs graphs as they are. Its
# attribute `graphs` counts the graphs that it has been given so far, and `ops` counts the nodes that compute, in all
# of them together. Both are ints and start at 0. You also write the method that makes the object callable.
#
# ```
# backend = CountingBackend()
# torch.compile(lambda x: x.relu() + 1, backend=backend)(torch.ones(2))
# backend.graphs, backend.ops      # 1, 2
# ```

# %% exercise="CountingBackend" points=2
class CountingBackend:
    """A backend for torch.compile that counts graphs,
    and the nodes in them that compute."""

    def __init__(self) -> None:
        ### BEGIN SOLUTION
        self.graphs = 0
        self.ops = 0

    def __call__(
        self, graph: torch.fx.GraphModule, inputs: list[Tensor]
    ) -> Callable[..., Any]:
        self.graphs += 1
        self.ops += sum(
            node.op in ("call_function", "call_method", "call_module")
            for node in graph.graph.nodes
        )
        return graph.forward
        ### END SOLUTION

# %% check="CountingBackend"
check("CountingBackend")

# %% [markdown]
# ## Operators under the hood
#
# Dynamo's graph still speaks Python: `x.abs()`, `torch.nn.functional.linear`. What runs underneath are the operators
# of ATen, and that is the level of AOTAutograd and everything after it. `make_fx` runs a function and records these
# operators:

# %% tags=["demo"]
def centred(x: Tensor) -> Tensor:
    return (x - x.mean()) * 2


graph = make_fx(centred)(torch.arange(3.0)).graph
for node in graph.nodes:
    print(f"{node.op:14} {node.name:8} {node.target}")

# %% [markdown]
# `aten.mul.Tensor` reads: namespace, operator, overload. There is `aten.sum.default` and `aten.sum.dim_IntList`;
# which of them ran is part of the name. An operator with two results is followed by nodes that pick one of them;
# their target is Python's `getitem`, which is not an operator:

# %%
graph = make_fx(lambda x: torch.max(x, 1)[0] + 1)(torch.ones(2, 3)).graph
for node in graph.nodes:
    print(f"{node.op:14} {node.target}")

# %% [markdown]
# How can a compiler know what comes out of an operator without running it? With *fake tensors*: they have a shape,
# dtype and device, but no numbers. Nearly every operator of torch has a version for them. Operators of your own need
# one (below), and where the shape of a result depends on the numbers, as with `nonzero`, it remains unknown.

# %%
from torch._subclasses.fake_tensor import FakeTensorMode

# %% tags=["demo"]
with FakeTensorMode():
    huge = torch.empty(10**6, 10**6)
    print(huge.shape, (huge @ huge).mean(0).shape, (huge > 0).dtype)

# %% [markdown]
# As real tensors, `huge` and the product would take four terabytes each. AOTAutograd traces with such tensors, and it
# traces the backward pass ahead of time, hence the name. A backend can see both graphs:

# %%
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd


def telling(which: str) -> Callable[..., Any]:
    def compiler(
        graph: torch.fx.GraphModule, inputs: list[Tensor]
    ) -> Callable[..., Any]:
        names = [str(n.target) for n in graph.graph.nodes if n.op == "call_function"]
        print(which, names)
        return make_boxed_func(graph.forward)

    return compiler

# %% tags=["demo"]
both = aot_autograd(fw_compiler=telling("forward: "), bw_compiler=telling("backward:"))
x = torch.ones(2, requires_grad=True)
torch.compile(lambda x: (x.sin() * 2).sum(), backend=both)(x).backward()

# %% [markdown]
# Inductor is the compiler that comes with torch: it turns these operators into code. Here is what it writes for
# `centred` on a CPU, shortened a little. Look for the two loops over the elements, those with `x0<4000` (with several
# threads, short loops between them combine the threads' sums): the sum has to be complete before a mean can be
# subtracted, so everything after it has a loop of its own. That loop does the subtraction and the multiplication in one
# pass, sixteen numbers at a time (or as many as fit the processor). For a GPU it would write a Triton kernel.

# %% tags=["demo"]
if BACKEND == "inductor":
    print(calls.written_by_inductor(centred, torch.arange(4000.0)))
else:
    print("Inductor writes nothing here:", reason)

# %% [markdown]
# **In short:** below Python there is a list of operators, and the compiler works on it without any numbers.

# %% [markdown]
# ### Exercise: graph_ops
#
# Write `graph_ops(fn, *args)`: the list of ATen operators that `fn(*args)` runs, in order, as strings such as
# `"aten.mul.Tensor"`. The function is pure and takes tensors that require no gradients. List only operators.
#
# ```
# graph_ops(lambda x: (x * 2).relu(), torch.ones(3))
# # ['aten.mul.Tensor', 'aten.relu.default']
# ```

# %% exercise="graph_ops" points=2
def graph_ops(fn: Callable[..., Any], *args: Tensor) -> list[str]:
    """The ATen operators that fn(*args) runs, in order."""
    ### BEGIN SOLUTION
    graph = make_fx(fn)(*args).graph
    return [
        str(node.target)
        for node in graph.nodes
        if isinstance(node.target, torch._ops.OpOverload)
    ]
    ### END SOLUTION

# %% check="graph_ops"
check("graph_ops")

# %% [markdown]
# ## Graph breaks
#
# Sometimes Dynamo meets something that no graph can hold: a `print`, a file, a branch on the value of a tensor. Then
# it ends the graph there, lets Python do this one thing, and begins another graph after it. The result is right, only
# slower.

# %%
def talkative(x: Tensor) -> Tensor:
    x = x * 2
    print("a break")
    return x + 1

# %% tags=["demo"]
print(torch.compile(talkative, backend=printing)(torch.ones(2)))

# %% [markdown]
# Two graphs: one up to the print, one after it. Between them the tensors go through Python, and nothing can be merged
# across. So one more break means one more graph, except where there is nothing to compute on one side of it.
#
# `torch._dynamo.explain` finds breaks and says where they are:

# %%
def depends(x: Tensor) -> Tensor:
    y = x * 2
    if y.sum() > 0:
        return y + 1
    return y - 1

# %% tags=["demo"]
found = torch._dynamo.explain(depends)(torch.ones(2))
print(found.graph_count, "graphs,", found.graph_break_count, "break")
print("the graph ends at:", found.break_reasons[0].user_stack[0].line)

# %% [markdown]
# The `if` asks whether a number is positive, while the graph is being recorded with fake tensors that have no
# numbers. That is the most common reason. In a long run, setting the environment variable `TORCH_LOGS="graph_breaks"`
# prints where and why each break happened.
#
# And one thing about experiments: Dynamo remembers what it has compiled for each piece of code, throughout the
# process. Before a measurement or a count that should start from scratch, call `torch.compiler.reset()`.

# %% tags=["demo"]
torch.compiler.reset()
for line in ("once", "once more", "after a reset"):
    if line == "after a reset":
        torch.compiler.reset()
    print(line)
    torch.compile(step, backend=printing)(torch.ones(2))

# %% [markdown]
# Nothing was printed after "once more", although `torch.compile` was called again: this backend had already compiled
# this code.
#
# **In short:** a break costs speed, but never changes the result; compiled code is kept until you reset Dynamo.

# %% [markdown]
# ### Exercise: count_graphs
#
# Write `count_graphs(fn, *args)`: the number of graphs that Dynamo builds for one call `fn(*args)`, as an int. Asking
# again gives the same answer, even the tenth time.
#
# ```
# count_graphs(centred, torch.ones(2))    # 1
# count_graphs(depends, torch.ones(2))    # 2
# ```

# %% exercise="count_graphs" points=2
def count_graphs(fn: Callable[..., Any], *args: Any) -> int:
    """How many graphs Dynamo makes of fn(*args)."""
    ### BEGIN SOLUTION
    graphs = []

    def backend(
        graph: torch.fx.GraphModule, inputs: list[Tensor]
    ) -> Callable[..., Any]:
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
# First make breaks an error, so that none comes back unnoticed: `fullgraph=True`.

# %% tags=["demo"]
try:
    torch.compile(depends, backend="eager", fullgraph=True)(torch.ones(2))
except torch._dynamo.exc.Unsupported as error:
    print("\n".join(str(error).splitlines()[:3]))

# %% [markdown]
# | the break | in its place |
# |---|---|
# | `if` on a tensor's value | `torch.where` over both results, or `torch.cond` with two functions |
# | `print`, logging | leave it out, or `if not torch.compiler.is_compiling():` around it |
# | `.item()`, `float(t)`, without `fullgraph=True` | keep the tensor, even if it holds a single number |
# | SciPy, or a NumPy function that Dynamo does not know | the same in torch; else an operator of your own (below) |
# | code that never fits | `@torch.compiler.disable` on that function, and a break there on purpose |
#
# Much of NumPy is no break at all: Dynamo translates its functions into those of torch.

# %%
import numpy as np


def by_numpy(x: Tensor) -> Tensor:
    return torch.from_numpy(np.cumsum((x * 2).numpy())) + 1

# %% tags=["demo"]
print(torch.compile(by_numpy, backend="eager", fullgraph=True)(torch.ones(3)))

# %% [markdown]
# `torch.where` computes both sides and chooses. If the condition is a single value, it chooses for all elements at
# once:

# %%
x = torch.tensor([1.0, -3.0])
print(torch.where(x > 0, 10.0, 20.0), torch.where(x.sum() > 0, 10.0, 20.0))

# %% [markdown]
# Where the two sides are expensive there is `torch.cond(predicate, f, g, (x,))`, which runs only one of two functions;
# both are part of the graph. Let both return the same dtype and shape (without gradients the sizes may differ), and a
# new tensor: a branch that returns its input as it is raises an error.

# %% [markdown]
# ### Exercise: signed_scale
#
# Write `signed_scale(x)`: `x * 2` if the sum over all of x is positive, else `x - 1`, for any shape. It must be
# captured in one graph, with `fullgraph=True`.
#
# ```
# signed_scale(torch.tensor([3.0, -1.0]))     # [6., -2.]
# signed_scale(torch.tensor([1.0, -3.0]))     # [0., -4.]
# ```

# %% exercise="signed_scale" points=2
def signed_scale(x: Tensor) -> Tensor:
    """x * 2 if the sum of x is positive, else x - 1; in one graph."""
    ### BEGIN SOLUTION
    return torch.where(x.sum() > 0, x * 2, x - 1)
    ### END SOLUTION

# %% check="signed_scale"
check("signed_scale")

# %% [markdown]
# A cost that nobody reports is worse than a break that is reported. By default `.item()` breaks the graph. But with
# `fullgraph=True` Dynamo captures it, and so the very switch that is meant to report breaks reports nothing:

# %%
def by_item(x: Tensor) -> Tensor:
    return x / torch.linalg.vector_norm(x).item()


def by_tensor(x: Tensor) -> Tensor:
    return x / torch.linalg.vector_norm(x)

# %% tags=["demo"]
import logging

logging.disable(logging.WARNING)  # torch would log the break, too
for fullgraph in (False, True):
    torch.compiler.reset()
    graphs: list[Any] = []
    backend = lambda graph, inputs: graphs.append(graph) or graph.forward
    torch.compile(by_item, backend=backend, fullgraph=fullgraph)(torch.ones(2))
    print(f"fullgraph={fullgraph}: graphs {len(graphs)}")
logging.disable(logging.NOTSET)

# %% [markdown]
# What is in the one graph? Here are the operators of both functions, captured in full:

# %% tags=["demo"]
for f in (by_item, by_tensor):
    torch.compiler.reset()
    backend = aot_autograd(fw_compiler=telling(f.__name__))
    torch.compile(f, backend=backend, fullgraph=True)(torch.tensor([3.0, 4.0]))

# %% [markdown]
# There was no complaint; the first merely converts a number on the way. But when run eagerly, `.item()` is the
# operator `aten._local_scalar_dense`, which hands the number to Python: on a GPU the host waits there until the queue
# is empty. And there is a second price. A Python number has no history, so the gradient treats the norm as a
# constant:

# %%
for f in (by_item, by_tensor):
    x = torch.tensor([3.0, 4.0], requires_grad=True)
    f(x)[0].backward()
    print(f.__name__, x.grad)

# %% [markdown]
# The first gradient is wrong: the norm does depend on x.

# %% [markdown]
# ### Exercise: clip_by_norm
#
# Write `clip_by_norm(x, max_norm)`: x scaled down so that its norm over all elements is `max_norm` if it was larger,
# and x unchanged if it was not. Zeros stay zeros, and the gradient there is finite, not NaN. It must be one graph, must
# not wait for the device, and the gradient must take into account that the factor depends on x.
#
# ```
# clip_by_norm(torch.tensor([3.0, 4.0]), 1.0)     # [0.6, 0.8]
# clip_by_norm(torch.tensor([0.3, 0.4]), 1.0)     # [0.3, 0.4]
# ```

# %% exercise="clip_by_norm" points=2
def clip_by_norm(x: Tensor, max_norm: float) -> Tensor:
    """Return x, scaled down to the norm max_norm if it is longer; in one graph,
    without waiting."""
    ### BEGIN SOLUTION
    norm = torch.linalg.vector_norm(x)
    factor = max_norm / norm.clamp(min=max(max_norm, 1e-12))
    return torch.where(norm > max_norm, x * factor, x)
    ### END SOLUTION

# %% check="clip_by_norm"
check("clip_by_norm")

# %% [markdown]
# ## Guards, recompiles and dynamic shapes
#
# A graph is right only as long as what Dynamo assumed still holds: shapes, dtypes, devices, the values of plain
# numbers, whether gradients are on, which functions the names refer to. It records all of that as *guards*, and
# checks them at every call. If one fails, it compiles again. Here a failure is turned into an error, so that we can
# read which guard it was:

# %%
def power(x: Tensor, n: int) -> Tensor:
    return x**n

# %% tags=["demo"]
torch.compiler.reset()
compiled = torch.compile(power, backend="eager", dynamic=False)
compiled(torch.ones(3), 2)
for args in (
    (torch.ones(4), 2),
    (torch.ones(3, dtype=torch.float64), 2),
    (torch.ones(3), 3),
):
    try:
        with torch._dynamo.config.patch(error_on_recompile=True):
            compiled(*args)
    except torch._dynamo.exc.RecompileError as error:
        print(
            [
                line.split("#")[0].strip()
                for line in str(error).splitlines()
                if "/0:" in line
            ][0]
        )

# %% [markdown]
# In a long run, `TORCH_LOGS="recompiles"` prints these lines. After eight versions of one piece of code Dynamo compiles
# no more: calls that fit one of them still use it, and all others run as plain Python, with a warning that is easy to
# overlook (with `fullgraph=True` they raise an error). The usual cause is a value that changes with every step. Not
# every number that changes has this effect: unless you say `dynamic=False`, as above, an int or float argument becomes
# a symbol when it takes a second value, and so does a float attribute of a module. But an *int* attribute of a module,
# such as a step counter, is taken for a constant, and each new value compiles again; so does each new string, bool or
# dtype. As a tensor, a number costs no guard on its value at all:

# %%
class Times(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * self.factor


def compiled_versions(kind: Callable[[int], Any]) -> int:
    graphs: list[Any] = []
    times = Times()
    torch.compiler.reset()
    compiled = torch.compile(
        times, backend=lambda graph, inputs: graphs.append(graph) or graph.forward
    )
    for number in range(2, 8):
        times.factor = kind(number)
        compiled(torch.ones(3))
    return len(graphs)

# %% tags=["demo"]
print({kind.__name__: compiled_versions(kind) for kind in (int, float, torch.tensor)})

# %% [markdown]
# Shapes change most often: the last batch is smaller, sequences differ in length. So Dynamo adapts. It treats the first
# shape as a constant; if another one comes, it compiles once more, with a symbol in place of the size that changed.
# Here is when the backend is called:

# %%
def sizes_seen(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
    print("compiles for", [tuple(i.shape) for i in inputs if isinstance(i, Tensor)])
    return graph.forward

# %% tags=["demo"]
for dynamic in (None, False, True):
    torch.compiler.reset()
    compiled = torch.compile(chain, backend=sizes_seen, dynamic=dynamic)
    print(f"dynamic={dynamic}:")
    for size in (3, 4, 5):
        compiled(torch.ones(size, 2))

# %% [markdown]
# | `dynamic` | what it does | when |
# |---|---|---|
# | None, the default | the first shape as it is, then symbols for what changed | usually |
# | True | symbols from the start | you know that sizes change, and the second compilation hurts |
# | False | every shape as it is | a few fixed shapes, and all the speed there is |
#
# Sizes 0 and 1 are constants by default: 1 broadcasts and 0 is empty, so different code runs for them. A loop over the
# rows of x is unrolled, which makes their number a constant again. A branch such as `if n > 4` does not make it one: it
# only adds a guard, and the sizes on each side of it share one graph (`if n == 4`, where it is true, does).
# `torch._dynamo.mark_dynamic(x, 0)` asks for a symbol, and raises an error where the code makes that size a constant.

# %%
def halves(x: Tensor) -> Tensor:
    return x * 2 if x.shape[0] > 4 else x + 1

# %% tags=["demo"]
torch.compiler.reset()
compiled = torch.compile(halves, backend=sizes_seen, dynamic=True)
for size in (3, 2, 4, 5, 7, 1):
    compiled(torch.ones(size))

# %% [markdown]
# There is one graph for two to four rows, one for more, and one for a single row.
#
# **Numbers that come out of tensors.** `.item()` gives a number that the compiler cannot know. With the setting
# `torch._dynamo.config.capture_scalar_outputs = True`, which `fullgraph=True` implies, it becomes a symbol too, but one
# without any guard: nothing is known about it, and code that needs to know, such as an `if`, breaks the graph, which
# with `fullgraph=True` is an error. `torch._check` tells the compiler, and checks the claim when the program runs:

# %%
def head(rows: Tensor, lengths: Tensor, told: bool) -> Tensor:
    count = lengths.max().item()
    if told:
        torch._check(count <= rows.shape[0])
    if count > rows.shape[0]:
        raise ValueError("too few rows")
    return rows[:count] * 2

# %% tags=["demo"]
rows = torch.ones(4)
for told in (False, True):
    torch.compiler.reset()
    compiled = torch.compile(head, backend=sizes_seen, fullgraph=True)
    for lengths in ([3, 1], [1, 2], [9, 1]):
        try:
            result = compiled(rows, torch.tensor(lengths), told).tolist()
        except Exception as error:
            result = f"{type(error).__name__}: {str(error).splitlines()[0][:70]}"
        print(f"told: {told}, lengths {lengths}: {result}")

# %% [markdown]
# **In short:** a guard that fails costs a compilation; a symbol in place of a size saves it.

# %% [markdown]
# ### Exercise: compile_dynamic
#
# Write `compile_dynamic(fn, backend)`: a version of `fn` compiled with this backend that compiles at most twice,
# however many batch sizes of 2 or more come. Every call runs what the backend made.
#
# ```
# backend = CountingBackend()
# compiled = compile_dynamic(lambda x: x * 2, backend)
# for size in range(2, 20):
#     compiled(torch.ones(size))
# backend.graphs    # 1 or 2
# ```

# %% exercise="compile_dynamic" points=1
def compile_dynamic(fn: Callable[..., Any], backend: Any) -> Callable[..., Any]:
    """Return a compiled fn that compiles at most twice,
    however many batch sizes come."""
    ### BEGIN SOLUTION
    return torch.compile(fn, backend=backend, dynamic=True)
    ### END SOLUTION

# %% check="compile_dynamic"
check("compile_dynamic")

# %% [markdown]
# ## What it costs, and measuring it
#
# A compilation takes as long as thousands of calls. Below are the times of forty calls, one after the other, in
# multiples of one eager call. The size changes once, after twenty calls. Where the backend only builds graphs, the
# peaks are in the same places but lower, and nothing is gained after them.

# %% tags=["demo"]
torch.compiler.reset()
inputs = [torch.randn(4000) for _ in range(20)] + [torch.randn(5000) for _ in range(20)]
measured = {
    "eager": calls.each_call(chain, inputs),
    "compiled": calls.each_call(torch.compile(chain, backend=BACKEND), inputs),
}
calls.draw(calls.relative(measured))

# %% [markdown]
# Two peaks of the compiled function: its first call, and its first call with another size. A third size would cost no
# compilation. (A lower peak elsewhere, in either curve, is something else that ran on the machine just then.) Whether
# it pays off overall is arithmetic: what a compilation costs, divided by what a call saves, is the number of calls
# after which it does. Play with it: when do you get nothing back?

# %% tags=["demo"]
calls.explore()

# %% [markdown]
# Where the gain comes from tells you when there is one:
#
# - many small operations on the same elements: merged into one loop, they read and write memory once. Norms,
#   activations, optimizers;
# - large matrix products: their kernels are fast already, and little is gained (with "max-autotune" the compiler may
#   write the product itself, and merge neighbouring operations into it);
# - a model that is dominated by Python between tiny kernels, on a GPU: `mode="reduce-overhead"` also records the
#   launches as a CUDA graph and replays them, at the price of memory that stays reserved;
# - a script that runs for a minute: usually nothing. Compiling a model takes seconds to minutes, and the script ends
#   before they are earned back.
#
# Compiling a block that repeats, by calling `block.compile()` on each copy, takes less time than compiling the whole
# model: the code that was made for one of them fits the others, as long as its guards hold. (Twelve blocks need two
# graphs here, because only the first one's input requires no gradient.)

# %% tags=["demo"]
torch.compiler.reset()
graphs = []
backend = lambda graph, inputs: graphs.append(graph) or graph.forward
tower = nn.Sequential(*[nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(12)])
for block in tower:
    block.compile(backend=backend)
tower(torch.ones(2, 4))
print(len(graphs), "graphs for twelve blocks")

# %% [markdown]
# The modes are bundles of options. With "max-autotune" the compiler tries several kernels for each matrix product and
# keeps the fastest, which takes a while; "cudagraphs" refers to the recording of launches.

# %% tags=["demo"]
for mode in (
    "default",
    "reduce-overhead",
    "max-autotune-no-cudagraphs",
    "max-autotune",
):
    print(f"{mode:27}", torch._inductor.list_mode_options()[mode])

# %% [markdown]
# **Caches.** What Inductor has compiled is kept on disk, under `TORCHINDUCTOR_CACHE_DIR` (a folder in `/tmp` unless you
# set it), with the graph, the shapes and the versions as the key: the second start of the same program compiles in a
# fraction of the time. Dynamo's own part, from Python to a graph, has to be done again. On a cluster,
# `torch.compiler.save_cache_artifacts()` packs what one machine has compiled, so that the others can load it.
#
# **CUDA graphs have pitfalls.** A recorded graph replays on fixed addresses. So the output of a call is overwritten by
# the next one, and reading it after that is an error: `clone()` what you keep.
# `torch.compiler.cudagraph_mark_step_begin()` tells torch where a new step begins, from which point old outputs may be
# overwritten. Each new shape records a graph of its own. And some work cannot be recorded: what runs on the CPU in
# between, or, in some cases, a change that the model makes to an input in place. Torch then records only the parts
# around it, or falls back to ordinary launches, with a message under `TORCH_LOGS="cudagraphs"`.
#
# *Measuring* such a thing takes some care. Look at these times of ten runs, in milliseconds, one of which was
# disturbed, and one of which includes the compilation:

# %%
runs = torch.tensor([3000.0, 1.1, 1.0, 1.2, 1.1, 9.0, 1.0, 1.1, 1.2, 1.1])
print(
    f"mean {runs.mean():.1f}, without the first {runs[1:].mean():.2f}; median "
    f"{runs.median():.1f}"
)
low, high = runs[1:].quantile(torch.tensor([0.25, 0.75])).tolist()
print(
    f"half of them lie between {low:.1f} and {high:.1f}: interquartile range "
    f"{high - low:.1f}"
)

# %% [markdown]
# A fair comparison:
#
# - calls each variant before the first stopwatch starts, so that compilation and warm-up are done;
# - takes *turns*: one run of each, then again. If the machine becomes hot or busy, that affects all of them;
# - waits for the device before each start and each stop. A GPU takes work into a queue and returns at once (lesson
#   6); on the CPU there is nothing to wait for. `torch.get_device_module(device).synchronize()` exists for every
#   device, including the CPU;
# - reports a median, along with a measure of spread that outliers do not move.
#
# Here are two variants of the same thing, timed by hand, taking turns (the first two rounds are left out as warm-up):

# %% tags=["demo"]
variants = {"eager": chain, "compiled": torch.compile(chain, backend=BACKEND)}
x = torch.randn(4000)
times: dict[str, list[float]] = {name: [] for name in variants}
for turn in range(12):
    for name, fn in variants.items():
        start = time.perf_counter()
        fn(x)
        times[name].append(time.perf_counter() - start)
ratio = statistics.median(times["eager"][2:]) / statistics.median(times["compiled"][2:])
print(f"{BACKEND}: a call is {ratio:.1f} times as fast as eager")

# %% [markdown]
# ### Exercise: benchmark
#
# Write `benchmark(fns, *args, device, repeats=30)`. `fns` maps names to functions, some of them compiled, that are
# called as `fn(*args)`. Return a dict from each name to `{"median": ..., "iqr": ...}`, in seconds, over `repeats`
# timed runs of each: `iqr` is the interquartile range, the distance from the first quartile to the third. Compilation
# and warm-up are not timed, the variants take turns, and the device has nothing left to do when the clock is started
# and when it is stopped. Use `time.perf_counter`, or another clock from `time` that keeps running while the program
# waits and never goes backwards.
#
# ```
# benchmark({"eager": chain, "compiled": torch.compile(chain)}, torch.ones(8), device="cpu")
# # {'eager': {'median': 4.1e-05, 'iqr': 8e-07}, 'compiled': {'median': 1.2e-05, 'iqr': 3e-07}}, for instance
# ```

# %% exercise="benchmark" points=3
def benchmark(
    fns: dict[str, Callable[..., Any]],
    *args: Any,
    device: torch.device | str,
    repeats: int = 30,
) -> dict[str, dict[str, float]]:
    """Median and interquartile range, in seconds, of fn(*args) for each of fns,
    in turns."""
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
        low, high = (
            torch.tensor(seconds, dtype=torch.float64)
            .quantile(torch.tensor([0.25, 0.75]).double())
            .tolist()
        )
        result[name] = {"median": statistics.median(seconds), "iqr": high - low}
    return result
    ### END SOLUTION

# %% check="benchmark"
check("benchmark")

# %% [markdown]
# ## When the compiler fails
#
# A compiler is a large program, and depends on other programs. It can fail although your model is fine: the machine
# has no C++ compiler, the model uses an operator that the compiler does not know, or the compiler has a bug.

# %%
def broken(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Callable[..., Any]:
    raise RuntimeError("no C++ compiler on this machine")

# %% tags=["demo"]
torch.compiler.reset()
compiled = torch.compile(centred, backend=broken)
print("torch.compile returned, and nothing was tried")
try:
    compiled(torch.ones(2))
except torch._dynamo.exc.BackendCompilerFailed as error:
    print(type(error).__name__, "|", str(error).splitlines()[1])

# %% [markdown]
# Then a program may go on with the eager model, as long as it says so. It should not go on if the model itself is at
# fault: a wrong shape is wrong in every mode. `torch._dynamo.config.suppress_errors = True` falls back to eager mode
# whatever it was that failed, and leaves a warning in the log: the program never learns that it is slow, or why.
#
# If compiled code misbehaves, **run it eagerly first**: most errors are there too, with a better message. Then switch
# on one part after another, and see with which one the trouble begins:
#
# | run with | what takes part |
# |---|---|
# | no compile | your model |
# | `backend="eager"` | Dynamo: capture, guards |
# | `backend="aot_eager"` | the above, and AOTAutograd: operators, backward |
# | `backend="inductor"` | all of that, and generated code |

# %% tags=["demo"]
x = torch.randn(4000, generator=torch.Generator().manual_seed(0))
for backend in ("eager", "aot_eager", BACKEND):
    torch.compiler.reset()
    difference = torch.compile(chain, backend=backend)(x) - chain(x)
    print(f"{backend:10} differs by {difference.abs().max().item():.0e}")

# %% [markdown]
# `TORCH_LOGS="output_code"` prints all the code that Inductor writes; `TORCH_LOGS="help"` lists what else can be
# printed. And `torch.compiler.set_stance("force_eager")` turns all compiled functions off for a while, without touching
# the code:

# %% tags=["demo"]
torch.compiler.reset()
compiled = torch.compile(centred, backend=broken)
with torch.compiler.set_stance("force_eager"):
    print(compiled(torch.arange(3.0)))

# %% [markdown]
# ### Exercise: compile_or_eager
#
# Write `compile_or_eager(model, example)`: a pair of something to call in place of `model`, and a reason. Compile
# with the default backend and see whether that works with `example`. If it does, return the compiled model and None.
# If the compiler fails, return the eager model and a string that says what went wrong. If the model itself raises an
# error with this example, let that error through.
#
# ```
# compile_or_eager(nn.Sequential(nn.Linear(2, 1), nn.ReLU()), torch.ones(3, 2))    # (the compiled model, None)
# # without a C++ compiler: (the model itself, 'InductorError: ...'), for instance
# ```

# %% exercise="compile_or_eager" points=2
def compile_or_eager(
    model: nn.Module, example: Tensor
) -> tuple[Callable[..., Any], str | None]:
    """Return the compiled model and None; where the compiler fails,
    the model as it is and why."""
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
# There are functions that Dynamo should not look into: a kernel written by hand, a call into another library. As a
# *custom operator*, such a function becomes one node of the graph. Here is one that goes through NumPy, which stands
# for any foreign library (Dynamo could have translated this much of NumPy by itself):

# %%
@torch.library.custom_op("lesson8::cumulated", mutates_args=())
def cumulated(x: Tensor) -> Tensor:
    return torch.from_numpy(x.detach().numpy().cumsum(0))


print(cumulated(torch.ones(3)))
print(
    [
        str(n.target)
        for n in make_fx(lambda x: cumulated(x) * 2)(torch.ones(3)).graph.nodes
    ][1:-1]
)

# %% [markdown]
# The name is `namespace::name`; the schema comes from the annotations; `mutates_args=()` promises that no input is
# written to, and the result must not share memory with an input. For real tensors that is enough. The compiler uses
# fake ones:

# %%
def uses_it(x: Tensor) -> Tensor:
    return cumulated(x) * 2

# %% tags=["demo"]
try:
    torch.compile(uses_it, backend="eager", fullgraph=True)(torch.ones(3))
except Exception as error:
    said = str(error)
    print(said[said.find("There was no fake"):].splitlines()[0])

# %% [markdown]
# So it needs a second function that produces a result of the right shape and dtype, without looking at any number:

# %%
@cumulated.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)

# %% tags=["demo"]
torch.compiler.reset()
print(torch.compile(uses_it, backend="eager", fullgraph=True)(torch.ones(3)))

# %% [markdown]
# And it needs a third one for gradients, because autograd cannot look inside either. It comes in two parts, as in the
# `Function` of lesson 2: one saves what the backward needs, the other computes. The operators called in the backward
# are recorded like all others.

# %%
def keep_nothing(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
    pass


def cumulated_backward(ctx: Any, grad: Tensor) -> Tensor:
    return grad.flip(0).cumsum(0).flip(0)


cumulated.register_autograd(cumulated_backward, setup_context=keep_nothing)
x = torch.ones(3, requires_grad=True)
cumulated(x).sum().backward()
print(x.grad)

# %% [markdown]
# `torch.library.opcheck` tests all of this: that the schema tells the truth, that the fake result looks like the real
# one, that gradients agree with and without AOTAutograd. It does not check whether the gradient is *right*; that is
# what `gradcheck` is for.

# %% tags=["demo"]
print(torch.library.opcheck(cumulated, (torch.ones(3, requires_grad=True),)))

# %% [markdown]
# ### Exercise: swiglu
#
# Many language models multiply one half of a layer's output by a gate: `x * silu(gate)`, with `silu(g) = g *
# sigmoid(g)`. Write it as the operator `torchcourse::swiglu`, for two floating-point tensors of the same shape, with
# a fake version and with gradients for both. It passes `torch.library.opcheck`. The decorator is given; below the
# function, register what is needed.
#
# ```
# swiglu(torch.tensor([2.0]), torch.tensor([0.0]))     # [0.]
# swiglu(torch.tensor([2.0]), torch.tensor([9.0]))     # [17.9978]
# ```

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
# A compiler may reorder a sum, keep a value in a register with more digits, or merge a multiplication with an
# addition. So results agree up to rounding, but seldom to the last bit:

# %%
x = torch.randn(10_000, generator=torch.Generator().manual_seed(1))
forward, backward = x.sum(), x.flip(0).sum()
print((forward - backward).abs().item(), x.double().sum().item() - forward.item())

# %% [markdown]
# Neither of these is wrong. To judge, compare with float64, or set a tolerance that fits the dtype: about 1e-5 of the
# scale for float32, 1e-2 for bfloat16. Random numbers are another matter: compiled dropout may draw different ones
# from eager dropout, so compare in eval mode.
#
# Outputs are only half of it. Training follows gradients, and these come from another graph, which may have errors of
# its own. Look at a function whose forward pass is right:

# %%
class Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad


x = torch.ones(2, requires_grad=True)
print(torch.equal(Wrong.apply(x), x * 2))
print(
    torch.autograd.grad(Wrong.apply(x).sum(), x), torch.autograd.grad((x * 2).sum(), x)
)

# %% [markdown]
# `torch.autograd.grad` returns gradients and leaves `.grad` alone, which matters in the middle of training. A
# parameter that the output does not depend on is an error there, unless you say `allow_unused=True`; then its
# gradient is None. With `materialize_grads=True` it is a tensor of zeros.
#
# And take the *largest* difference. A mean over a million elements hides a single broken one.

# %% [markdown]
# ### Exercise: same_numerics
#
# Write `same_numerics(model, compiled, x, atol)`: run both on the same float input and compare. `output` is the
# largest absolute difference of their outputs, `grad` that of the gradients of the output's sum, over x and all
# trainable parameters of `model` (which `compiled` shares), and `ok` says whether both are at most `atol`. Whatever
# is in a `.grad` is left as it was, and so is x with its `requires_grad`. What is not a number is not ok, and a
# gradient that is missing counts as zero.
#
# ```
# same_numerics(model, torch.compile(model), x, 1e-5)
# # {'output': 1.2e-07, 'grad': 4.8e-07, 'ok': True}
# ```

# %% exercise="same_numerics" points=3
def same_numerics(
    model: nn.Module, compiled: Callable[[Tensor], Tensor], x: Tensor, atol: float
) -> dict[str, float | bool]:
    """The largest differences of outputs and of gradients,
    and whether both are within atol."""
    ### BEGIN SOLUTION
    parameters = [p for p in model.parameters() if p.requires_grad]

    def run(f: Callable[[Tensor], Tensor]) -> tuple[Tensor, tuple[Tensor, ...]]:
        leaf = x.detach().clone().requires_grad_()
        y = f(leaf)
        # cut off from everything, so all its gradients are zero
        if not y.requires_grad:
            return y, tuple(torch.zeros_like(t) for t in [leaf, *parameters])
        return y.detach(), torch.autograd.grad(
            y.sum(), [leaf, *parameters], materialize_grads=True
        )

    (y, grads), (z, others) = run(model), run(compiled)
    output = (y - z).abs().max().item()
    grad = (
        torch.stack([(g - o).abs().max() for g, o in zip(grads, others, strict=True)])
        .max()
        .item()
    )
    return {"output": output, "grad": grad, "ok": output <= atol and grad <= atol}
    ### END SOLUTION

# %% check="same_numerics"
check("same_numerics")

# %% [markdown]
# ## A model with breaks, mended and measured
#
# Here is a model as a colleague might hand it to you. It divides by a Python number that `.item()` has read from a
# tensor, warns when a value is large, and leaves out the second layer for a batch whose mean is not positive. Each of
# these three lines runs in eager mode, and each breaks the graph.

# %% tags=["demo"]
class Scorer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(64, 64), nn.Linear(64, 64)

    def forward(self, x: Tensor) -> Tensor:
        x = F.gelu(self.first(x)) / x.std().item()
        if x.abs().max() > 100:
            print("large")
        if x.mean() > 0:
            x = x + F.gelu(self.second(x))
        return x

# %% [markdown]
# And the same model in one piece: the scale stays a tensor, `is_compiling` keeps the warning for eager runs, and
# `torch.where` chooses. `detach()` says aloud what `.item()` did in silence: no gradient flows through the scale. The
# layers keep their names, so weights that were trained before still fit.

# %% tags=["demo"]
class Mended(Scorer):
    def forward(self, x: Tensor) -> Tensor:
        x = F.gelu(self.first(x)) / x.detach().std()
        if not torch.compiler.is_compiling() and x.abs().max() > 100:
            print("large")
        return torch.where(x.mean() > 0, x + F.gelu(self.second(x)), x)

# %% [markdown]
# Now your tools: `count_graphs` says whether the breaks are gone, `same_numerics` whether the numbers are still the
# same, and `benchmark` whether it was worth it.

# %% tags=["demo"]
from torchcourse.demos.parts import still_open

if not still_open(globals(), "count_graphs", "same_numerics", "benchmark"):
    torch.manual_seed(0)
    scorer, mended = Scorer(), Mended()
    # the same parameters: same_numerics compares the gradients that reach them
    mended.first, mended.second = scorer.first, scorer.second
    x = torch.randn(256, 64)
    for name, fn in {"with breaks": scorer, "mended": mended}.items():
        print(f"{name:12} {count_graphs(fn, x)} graphs")
    torch.compiler.reset()
    variants = {
        "eager": scorer,
        "with breaks": torch.compile(scorer, backend=BACKEND),
        "mended": torch.compile(mended, backend=BACKEND, fullgraph=True),
    }
    # gradients of a sum over 256 rows are in the hundreds: 1e-3 is strict
    print(same_numerics(scorer, variants["mended"], x, 1e-3))
    with torch.no_grad():
        for name, found in benchmark(variants, x, device="cpu").items():
            print(f"{name:12} {1e6 * found['median']:.0f} microseconds")

# %% [markdown]
# Believe your own numbers. On a CPU with matrices of this size a good part of the time is spent in the matrix products,
# which the compiler leaves as they are, so the gain is modest; the breaks cost more on a GPU, where `.item()` and `if`
# also wait for the device.

# %% [markdown]
# ## What you have seen
#
# | idea | remember |
# |---|---|
# | Dynamo, AOTAutograd, Inductor | Python to a graph, a graph to operators and backward, operators to code |
# | a backend | a function of graph and inputs; write one to look inside |
# | graph break | right but slower; `explain`, `fullgraph=True` |
# | branch on a value | `torch.where`, `torch.cond` |
# | `.item()` | a break and a wait for the device; with `fullgraph=True` captured; the gradient is lost either way |
# | guards | what was assumed; a failed one compiles again, up to eight versions in all |
# | `dynamic` | None learns from the second shape, True begins with symbols; 0 and 1 are special |
# | the price | seconds at the first call; divide by what a call saves |
# | measuring | warm up, take turns, wait for the device, median and spread |
# | failure | eager first; then "eager", "aot_eager", "inductor" |
# | custom operators | a function, a fake, a backward, `opcheck` |
# | numerics | largest difference, outputs and gradients |
#
# Next comes **lesson 9, persistence**: how a model outlives the process that trained it.
