# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 13 · Efficiency
#
# Most programs that are too slow, or need too much memory, have one main cause, and it is seldom the one that people
# guess. So this lesson measures first, and changes something only after that.
#
# The first third is about finding out: which operator takes the time, where the host waits, how much arithmetic there
# is to do. The second is about memory: attention without its matrix, a loss without its logits. The last third makes
# numbers smaller (int8) and writes an operator of its own in C++. There are twelve exercises.
#
# Nothing here needs the internet or a GPU. The exercise in C++ needs a compiler, g++, and ninja: without them its card
# says what to install, and it counts as not attempted.

# %% tags=["setup"]
import os

# a profiler without a GPU driver prints noise
os.environ.setdefault("KINETO_LOG_LEVEL", "99")

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from torchcourse import Unattempted, case, check, hint


def use(tool, *args, **options):
    """What a tool says; or that it is not written yet, or fails."""
    try:
        return tool(*args, **options)
    except Unattempted as stub:
        return f"({stub.name} is not written yet)"
    except Exception as error:
        return (
            f"({getattr(tool, '__name__', 'the tool')} raised {type(error).__name__}: "
            f"{error})"
        )


# %% tags=["demo"]
# %load_ext torchcourse

# %% [markdown]
# ## Measure first
#
# Here is a step of a small model. Somebody says that it is slow, and that the matrix products must be the reason. Where
# would you look?

# %%
torch.manual_seed(0)
first, last = nn.Linear(256, 512), nn.Linear(512, 256)
batch = torch.randn(64, 256)


def step(x):
    y = first(x).relu()
    order = y.argsort(dim=1)                      # "we may need this later"
    return last(y).softmax(1), order

# %% [markdown]
# The profiler of torch records every operator that a block runs. Call the function once before, so that the first
# call's preparations (memory, threads, a compiled kernel) stay out:

# %%
from torch.profiler import ProfilerActivity, profile, record_function

step(batch)
with profile(activities=[ProfilerActivity.CPU]) as run:
    step(batch)
print(run.key_averages().table(sort_by="self_cpu_time_total", row_limit=5))

# %% [markdown]
# It is the sorting, `aten::sort`, and not the matrix products. (Does another operator lead your table? Then something
# else keeps the cores busy, and operators that share their work among threads wait for one another. Measure on a quiet
# machine.)
#
# Two columns matter, and people mix them up:
#
# - **Self CPU** is the time in the operator itself.
# - **CPU total** includes the operators that it calls. `aten::linear` calls `aten::addmm`, so both show the same
# milliseconds, once as total and once as self. Totals do not add up; self times do.
#
# Where there is a GPU, the host only puts work into a queue. Then `self_device_time_total` says what the work took, and
# the CPU's columns say what the launching took. (Older texts call the former `self_cuda_time_total`.) And a slow loop
# may show only tiny times in both: what Python does between the operators is in neither. Look at a timeline for that.
#
# A timeline is a file. `export_chrome_trace` writes it, and https://ui.perfetto.dev shows it:

# %%
import json
import tempfile
from pathlib import Path

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "step.json"
    run.export_chrome_trace(str(path))
    events = json.loads(path.read_text())["traceEvents"]
    print(f"{path.stat().st_size / 1000:.0f} kB")
sorting = next(e for e in events if e.get("name") == "aten::sort")
print({key: sorting[key] for key in ("name", "cat", "dur")}, "(microseconds)")

# %% [markdown]
# In a long training run, you want to profile a few steps and not all of them. A schedule skips some, warms up, records
# some, and then the profiler calls your `on_trace_ready`. `record_function` puts a name of your own around a part of
# the code; the name shows up in tables, although it is not an operator:

# %%
def report(run):
    names = [e.key for e in run.key_averages() if not e.key.startswith("aten::")]
    print("recorded, besides operators:", sorted(set(names)))


plan = torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=1)
with profile(
    activities=[ProfilerActivity.CPU], schedule=plan, on_trace_ready=report
) as run:
    for _ in range(4):
        with record_function("forward"):
            step(batch)
        run.step()

# %% [markdown]
# ### Exercise: hot_ops
#
# Write `hot_ops(fn, *args, top=5)`: a list of the names of the operators with the most self time in a call of `fn`,
# most first; at most `top` names, each once. Self time is what counts, total time never. Only names that begin with
# `aten::` are listed, and only they count towards `top`. If any of these operators has time on a device, sort all of
# them by self time on the device; otherwise by self time on the CPU. Call `fn` once beforehand, as a warm-up that is
# not recorded. The check replaces the measured times by times of its own, so that the result does not depend on your
# machine: `key_averages()` and `events()` of the profiler give them, an exported trace does not.
#
# ```
# hot_ops(step, batch, top=2)    # ['aten::sort', 'aten::addmm']
# ```

# %% exercise="hot_ops" points=2
def hot_ops(fn, *args, top: int = 5) -> list[str]:
    """The operators in which a call of `fn` itself spends most time, most first."""
    ### BEGIN SOLUTION
    fn(*args)
    with torch.profiler.profile() as run:
        fn(*args)
    entries = [e for e in run.key_averages() if e.key.startswith("aten::")]
    if any(e.self_device_time_total for e in entries):
        entries.sort(key=lambda e: e.self_device_time_total, reverse=True)
    else:
        entries.sort(key=lambda e: e.self_cpu_time_total, reverse=True)
    return [e.key for e in entries[:top]]
    ### END SOLUTION

# %% check="hot_ops"
check("hot_ops")

# %% tags=["demo"]
print(use(hot_ops, step, batch, top=3))

# %% [markdown]
# And the step before and after one change, the sorting taken out. What was second is first now: after each change,
# measure again.

# %% tags=["demo"]
from torchcourse.demos import efficiency

efficiency.before_and_after(
    lambda: step(batch), lambda: last(first(batch).relu()).softmax(1)
)

# %% [markdown]
# ## Waiting for the device
#
# A GPU works through a queue, and Python runs ahead of it. That is why a loop of small operators can be fast. Python's
# lead is gone as soon as it asks for a *number*: to know it, the host has to wait until the queue is empty, and while
# the host then prepares the next work, the device has none. Such a wait is called a host sync.
#
# Some calls ask openly: `.item()`, `float(t)`. Others do not look as if they asked:

# %%
x = torch.randn(5)
# `if` calls bool(), and that asks for the number
if x.sum() > 0:
    pass
# how many are True? The shape depends on the values
print(x[x > 0].shape)
# an integer index: the shape is known beforehand
print(x[torch.tensor([0, 2])].shape)
# a mask, but the shape is known: nobody waits
print(torch.where(x > 0, x, -x).shape)

# %% [markdown]
# You can count them without a GPU. A `TorchDispatchMode` sees every operator that runs, no matter which Python code
# called it, and PyTorch's operators carry tags: `data_dependent_output` for those that return a Python value, and
# `dynamic_output_shape` for those whose output's shape depends on data.

# %%
class Show(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        tags = [t.name for t in func.tags if t.name.startswith(("data_dep", "dynamic"))]
        print(f"{func!s:32} {tags}")
        return func(*args, **(kwargs or {}))


with Show():
    bool(x.sum() > 0), x[x > 0], x[torch.tensor([0, 2])]

# %% [markdown]
# The two lines with `aten.index.Tensor` show the trap: indexing is one operator, and it has the same tag with a mask as
# with integers. What differs is the dtype of the indices, which are in the list `args[1]` (it may also hold None).
#
# ### Exercise: host_syncs
#
# Write `host_syncs(fn, *args)`: how many times `fn(*args)` runs an operator that makes the host wait. These are the
# operators that return Python values, and those whose output's shape depends on data. `aten.index.Tensor` counts only
# if a mask is among its indices, and then once; a mask is an index of dtype bool, or uint8 as in older programs. Do not
# count `.tolist()`, `.numpy()` or copies between devices.
#
# ```
# host_syncs(lambda t: t[t > 0].sum().item(), torch.randn(5))    # 2
# ```

# %% exercise="host_syncs" points=2
def host_syncs(fn, *args) -> int:
    """How many operators of a call make the host wait for their result."""
    ### BEGIN SOLUTION
    class Syncs(TorchDispatchMode):
        count = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            shape = torch.Tag.dynamic_output_shape in func.tags
            if func is torch.ops.aten.index.Tensor:
                shape = any(
                    i is not None and i.dtype in (torch.bool, torch.uint8)
                    for i in args[1]
                )
            self.count += torch.Tag.data_dependent_output in func.tags or shape
            return func(*args, **(kwargs or {}))

    with Syncs() as syncs:
        fn(*args)
    return syncs.count
    ### END SOLUTION

# %% check="host_syncs"
check("host_syncs")

# %% [markdown]
# A training loop as one often sees it, and the same loop with its numbers collected at the end. Over 100 steps, that is
# 200 waits against one:

# %% tags=["demo"]
def talkative(x):
    total = 0.0
    for row in x:
        loss = row.square().mean()
        if torch.isnan(loss):
            break
        total += loss.item()
    return total


def quiet(x):
    return torch.stack([row.square().mean() for row in x]).sum().item()


print(
    use(host_syncs, talkative, torch.randn(100, 4)),
    use(host_syncs, quiet, torch.randn(100, 4)),
)

# %% [markdown]
# ## How much arithmetic
#
# Is a program slow because there is much to compute, or because it computes slowly? Count the operations. A product of
# an (n, k) and a (k, m) matrix takes n·k·m multiplications and as many additions: 2nkm floating-point operations
# (FLOPs). Some papers and tools count a multiplication with its addition as one (MACs), so half as many.

# %%
a, b = torch.randn(10, 20), torch.randn(20, 30)
with FlopCounterMode(display=False) as counter:
    a @ b
print(counter.get_total_flops(), 2 * 10 * 20 * 30)

# %% [markdown]
# Divided by the time, that gives FLOP/s, and the share of what the machine can do. If the share is high, the program is
# *compute-bound*: only less arithmetic, or fewer bits, will help. If it is low, the program waits for memory
# (*memory-bound*: elementwise operators move much and compute little) or for Python (*launch-bound*: many tiny
# operators). Lesson 6 drew the roofline between the first two. Here are all three on this machine:

# %%
import time


def rate(call, flops, repeats=5):
    call()
    began = time.perf_counter()
    for _ in range(repeats):
        call()
    return repeats * flops / (time.perf_counter() - began) / 1e9


large, small = torch.randn(512, 512), torch.randn(8, 8)
print(
    f"a large product     {rate(lambda: large @ large, 2 * 512**3):8.2f} GFLOP/s  "
    "compute-bound"
)
print(
    f"an addition         {rate(lambda: large + 1, 512**2):8.2f} GFLOP/s  memory-bound"
)
print(
    f"a tiny product      {rate(lambda: small @ small, 2 * 8**3):8.2f} GFLOP/s  "
    "launch-bound"
)

# %% [markdown]
# Backward costs about twice as much as forward: for y = x W it needs a product for the gradient of W and one for that
# of x. It is only *about* twice, because the first layer's x usually requires no gradient, nor does a frozen weight.
#
# ### Exercise: training_flops
#
# Write `training_flops(model, x)`: the floating-point operations of forward and backward of `model(x).sum()`, as
# `FlopCounterMode` counts them. The gradient of x is counted only if x requires one. Afterwards every `.grad`, also
# that of x, is what it was before: None, or the same numbers. At least one parameter, or x, requires a gradient; where
# nothing does, `backward` raises, and the check does not ask. (`torch.autograd.grad` does not help here: inside the
# counter it raises if a leaf that requires a gradient is the input of a module.)
#
# ```
# training_flops(nn.Linear(8, 5), torch.randn(4, 8))    # 640: twice 2 * 4 * 8 * 5
# ```

# %% exercise="training_flops" points=2
def training_flops(model: nn.Module, x: Tensor) -> int:
    """Floating-point operations of forward and backward of `model(x).sum()`."""
    ### BEGIN SOLUTION
    leaves = [t for t in (*model.parameters(), x) if t.requires_grad]
    before = [leaf.grad for leaf in leaves]
    for leaf in leaves:
        leaf.grad = None
    with FlopCounterMode(display=False) as counter:
        model(x).sum().backward()
    for leaf, grad in zip(leaves, before):
        leaf.grad = grad
    return counter.get_total_flops()
    ### END SOLUTION

# %% check="training_flops"
check("training_flops")

# %% tags=["demo"]
mlp = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256))
for followed in (False, True):
    flops = use(training_flops, mlp, torch.randn(64, 256, requires_grad=followed))
    print("x requires grad" if followed else "x does not", flops)

# %% [markdown]
# ## Attention without the score matrix
#
# Attention multiplies every query by every key: n times n scores. At 32,768 tokens, these are 4 GB for one head in
# float32, written to memory, read for the softmax, written, read again. The result has only n rows. Can one do without
# the matrix?
#
# A softmax needs two things of its row: the largest score (so that exp does not overflow) and the sum of the exps. Take
# the scores in blocks. Within a block both are easy. Between blocks there is one problem: the first block's exps were
# taken relative to *its* maximum.

# %%
scores = torch.tensor([1.0, 3.0, 2.0, 7.0])
left, right = scores[:2], scores[2:]
sum_left = (left - 3).exp().sum()                 # relative to 3
sum_right = (right - 7).exp().sum()               # relative to 7
print(sum_left + sum_right, "is not", (scores - 7).exp().sum())

# %% [markdown]
# But exp(s - 7) is exp(s - 3) · exp(3 - 7). So when the maximum grows, what was summed so far shrinks by one factor,
# exp(old - new):

# %%
shrink = (torch.tensor(3.0) - 7).exp()
print(sum_left * shrink + sum_right, "is", (scores - 7).exp().sum())

# %% [markdown]
# The weighted sum of the values shrinks by the same factor. This is the *online softmax*, and with it FlashAttention
# goes through the keys in blocks that fit into the GPU's fast memory, and never writes a score to the slow one.
#
# ### Exercise: blockwise_attention
#
# Write `blockwise_attention(q, k, v, block=64)`: `softmax(q kᵀ / sqrt(d)) v` for q of shape (…, n, d), k (…, m, d) and
# v (…, m, e), in their dtype, with keys taken `block` at a time (the last block may be smaller). Large scores, positive
# or negative, must not spoil the result, and the gradients of q, k and v are checked too. Rule: no softmax and no
# attention from torch. The check measures the memory of a large call under `torch.no_grad()`: at its peak, all that the
# call holds at once must take less than the whole score matrix would.
#
# ```
# blockwise_attention(q, k, v, block=16)    # what F.scaled_dot_product_attention(q, k, v) gives
# ```

# %% exercise="blockwise_attention" points=3
def blockwise_attention(q: Tensor, k: Tensor, v: Tensor, block: int = 64) -> Tensor:
    """softmax(q k^T / sqrt(d)) v, with a block of keys at a time."""
    ### BEGIN SOLUTION
    top = q.new_full((*q.shape[:-1], 1), -torch.inf)     # the largest score so far
    total = torch.zeros_like(top)                        # the sum of the weights so far
    mixed = q.new_zeros(*q.shape[:-1], v.shape[-1])      # the weighted values so far
    for keys, values in zip(k.split(block, dim=-2), v.split(block, dim=-2)):
        scores = q @ keys.mT / q.shape[-1] ** 0.5
        new = torch.maximum(top, scores.amax(-1, keepdim=True))
        weights, shrink = (scores - new).exp(), (top - new).exp()
        total = total * shrink + weights.sum(-1, keepdim=True)
        mixed = mixed * shrink + weights @ values
        top = new
    return mixed / total
    ### END SOLUTION

# %% check="blockwise_attention"
check("blockwise_attention")

# %% [markdown]
# Memory against length, measured as the bytes of all tensors alive at the same time. With the matrix, twice the length
# takes four times the memory:

# %% tags=["demo"]
from torchcourse.probes.memory import peak_bytes


def with_matrix(q, k, v):
    return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v


ways = {"with the score matrix": with_matrix}
if not isinstance(use(blockwise_attention, batch[None], batch[None], batch[None]), str):
    ways["your blockwise_attention"] = blockwise_attention
efficiency.memory_by_length(ways, peak_bytes)

# %% [markdown]
# ## Which kernel does it
#
# `F.scaled_dot_product_attention` (SDPA) has several implementations behind it: MATH, which is the formula with the
# matrix, and fused ones, FLASH_ATTENTION, EFFICIENT_ATTENTION, CUDNN_ATTENTION, which are not everywhere. It chooses
# silently. Dropout or a mask can send you from the fast kernel to the slow one, and nothing says so. `sdpa_kernel`
# restricts the choice to what you name; if nothing is left, the call raises:

# %%
import warnings

q = k = v = torch.randn(1, 2, 6, 8)
with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
    print(F.scaled_dot_product_attention(q, k, v).shape)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")       # it also warns, with the reasons
            F.scaled_dot_product_attention(q, k, v, dropout_p=0.1)
    except RuntimeError as error:
        print(error)

# %% [markdown]
# The CPU does have a flash kernel. It refuses dropout, a mask that requires a gradient, and unusual strides; the other
# two fused kernels always refuse there. A fast kernel may check less, too: on the CPU, FLASH_ATTENTION accepts a v with
# one row too few, which MATH refuses.
#
# Masks that are neither "all" nor "causal" are where people lose the fast kernel. `torch.nn.attention.flex_attention`
# is made for them: you write a function of (batch, head, query, key) that says which pairs count, and hand it over by
# way of `create_block_mask`; or one of (score, batch, head, query, key) that changes the score. `torch.compile` makes a
# fused kernel of either.
#
# ### Exercise: attention_backends
#
# Write `attention_backends(q, k, v, **options)`: the sorted names of the four backends above that accept
# `F.scaled_dot_product_attention(q, k, v, **options)`. A call that is wrong in itself, such as one with shapes that do
# not fit, is no refusal: let the RuntimeError that MATH raises for it through. The answer does not depend on which
# backends happen to be switched on when the function is called, and afterwards the same ones are on as before.
#
# ```
# attention_backends(q, k, v)                   # ['FLASH_ATTENTION', 'MATH'] on the CPU
# attention_backends(q, k, v, dropout_p=0.1)    # ['MATH']
# ```

# %% exercise="attention_backends" points=2
def attention_backends(q: Tensor, k: Tensor, v: Tensor, **options) -> list[str]:
    """Names of the backends that accept this call of scaled_dot_product_attention."""
    ### BEGIN SOLUTION
    # takes every call that is right
    with sdpa_kernel(SDPBackend.MATH):
        F.scaled_dot_product_attention(q, k, v, **options)
    names = ["MATH"]
    for name in ("CUDNN_ATTENTION", "EFFICIENT_ATTENTION", "FLASH_ATTENTION"):
        try:
            with sdpa_kernel(getattr(SDPBackend, name)):
                F.scaled_dot_product_attention(q, k, v, **options)
            names.append(name)
        except RuntimeError:
            pass
    return sorted(names)
    ### END SOLUTION

# %% check="attention_backends"
check("attention_backends")

# %% tags=["demo"]
mask = torch.ones(6, 6, dtype=torch.bool).tril()
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    print("plain      ", use(attention_backends, q, k, v))
    print("a mask     ", use(attention_backends, q, k, v, attn_mask=mask))
    print("dropout    ", use(attention_backends, q, k, v, dropout_p=0.1))
    print("odd strides", use(attention_backends, torch.randn(1, 2, 8, 6).mT, k, v))

# %% [markdown]
# ## A loss without the logits
#
# A language model with a vocabulary of 128,000 words ends in logits of (tokens, 128,000). For 8,192 tokens these are 4
# GB in float32, the softmax another 4, their gradient another 4. The hidden states before the logits take 134 MB at a
# width of 4,096. The loss is one number. So take the rows in chunks.
#
# A loop alone helps only so far in training: until backward, autograd keeps the log-softmax of each chunk, and together
# they are as large as all the logits. Measured in the same way:

# %%
def loop(hidden, weight, labels, chunk):
    parts = zip(hidden.split(chunk), labels.split(chunk))
    losses = [F.cross_entropy(h @ weight.T, y, reduction="sum") for h, y in parts]
    return sum(losses) / len(labels)


hidden = torch.randn(512, 8, requires_grad=True)
weight = torch.randn(1000, 8, requires_grad=True)
labels = torch.randint(1000, (512,))
whole = peak_bytes(lambda: F.cross_entropy(hidden @ weight.T, labels).backward())
looped = peak_bytes(lambda: loop(hidden, weight, labels, 16).backward())
print(f"all at once {whole / 1e6:.1f} MB, in a loop {looped / 1e6:.1f} MB")

# %% [markdown]
# The cure is the one from lesson 6: throw the logits of a chunk away, and compute them again in backward. It costs one
# more product. Mind the mean: chunks of different sizes do not count alike.
#
# ### Exercise: chunked_cross_entropy
#
# Write `chunked_cross_entropy(hidden, weight, labels, chunk)`: the mean cross-entropy of `hidden @ weight.T`, with
# gradients for hidden and weight. Neither forward nor backward may hold the logits of more than `chunk` rows at any
# time. For those rows, a few matrices of that size at once are fine: their logits, the log-softmax, its gradient.
# hidden is (rows, d), weight (words, d), labels (rows,); every label is the index of a word (none is `ignore_index`);
# `chunk` need not divide the number of rows.
#
# ```
# chunked_cross_entropy(hidden, weight, labels, 16)    # F.cross_entropy(hidden @ weight.T, labels)
# ```

# %% exercise="chunked_cross_entropy" points=3
def chunked_cross_entropy(
    hidden: Tensor, weight: Tensor, labels: Tensor, chunk: int
) -> Tensor:
    """Mean cross-entropy of `hidden @ weight.T`,
    never with more than `chunk` rows of logits."""
    ### BEGIN SOLUTION
    def summed(rows, y):
        return F.cross_entropy(rows @ weight.T, y, reduction="sum")

    total = hidden.new_zeros(())
    for rows, y in zip(hidden.split(chunk), labels.split(chunk)):
        total = total + checkpoint(summed, rows, y, use_reentrant=False)
    return total / len(labels)
    ### END SOLUTION

# %% check="chunked_cross_entropy"
check("chunked_cross_entropy")

# %% tags=["demo"]
def backward():
    chunked_cross_entropy(hidden, weight, labels, 16).backward()


peak = use(peak_bytes, backward)
print(peak if isinstance(peak, str) else f"yours {peak / 1e6:.1f} MB")

# %% [markdown]
# ## Numbers in eight bits
#
# A weight in float32 takes four bytes. Trained weights do not need them: an int8 with a scale is close enough for most
# layers, and takes a quarter of the memory, and of the time that reading it takes.
#
# The general form is *affine*: `x ≈ (q - zero_point) * scale`. Weights lie around zero, so for them one takes the
# *symmetric* form without a zero point: `x ≈ q * scale`, and the largest absolute value becomes 127.

# %%
w = torch.tensor([0.5, -1.0, 0.2])
scale = w.abs().max() / 127
q8 = (w / scale).round().to(torch.int8)
print(q8, q8 * scale)

# %% [markdown]
# Three things can go wrong. The cast to int8 cuts off the fraction, so round first. int8 goes from -128 to 127: an
# integer beyond that wraps around, and what a float beyond it becomes is undefined, so clamp before the cast:

# %%
print(torch.tensor([1.9, -1.9]).to(torch.int8), torch.tensor([127, 128]).to(torch.int8))

# %% [markdown]
# And one scale for the whole matrix is set by its largest row; a row of small numbers is left with a few levels. So
# take one scale for each row, the row of weights of one output (*per channel*):

# %% tags=["demo"]
uneven = torch.randn(64, 64) * torch.logspace(-2, 0, 64)[:, None]
efficiency.quantization_error(uneven)

# %% [markdown]
# ### Exercise: quantize_int8
#
# Write `quantize_int8(w)` for a matrix of float32 or float64: `(q, scale)`, with q int8 in ±127 and scale (rows, 1) in
# the dtype of w, both on its device. The largest absolute value of a row becomes ±127, and `q * scale` is nowhere more
# than half a scale off. A row of zeros gets scale 1.
#
# ```
# quantize_int8(torch.tensor([[0.5, -1.0]]))    # (tensor([[64, -127]]), tensor([[0.0079]]))
# ```

# %% exercise="quantize_int8" points=2
def quantize_int8(w: Tensor) -> tuple[Tensor, Tensor]:
    """Int8 levels of a matrix, and one scale a row."""
    ### BEGIN SOLUTION
    largest = w.abs().amax(dim=1, keepdim=True)
    scale = torch.where(largest == 0, torch.ones_like(largest), largest / 127)
    q = (w / scale).round().clamp(-127, 127)
    return q.to(torch.int8), scale
    ### END SOLUTION

# %% check="quantize_int8"
check("quantize_int8")

# %% [markdown]
# ## Integer arithmetic
#
# With both sides in int8, the product of two rows can be computed in integers. Chips have units for it. But in PyTorch,
# `@` of two int8 matrices gives int8 on the CPU, where the sums wrap around (and on CUDA it raises):

# %%
a8 = torch.full((1, 3), 100, dtype=torch.int8)
b8 = torch.full((1, 3), 100, dtype=torch.int8)
print((a8 @ b8.T).item(), "instead of", 3 * 100 * 100)
print(torch._int_mm(a8, b8.T).item(), "by torch._int_mm, which adds up in int32")

# %% [markdown]
# `torch._int_mm` is what libraries call on a GPU; the underscore says that it is private, and it wants sizes that fit
# the hardware. float32 holds all integers exactly only up to 2**24, which 1,041 products of 127 by 127 exceed; float64
# holds them up to 2**53, on the CPU and on CUDA alike (Apple's MPS has no float64).
#
# The scales do not depend on what is summed over. If row i of a stands for `a[i] * a_scale[i]`, both scales can wait
# until the sum is done.
#
# ### Exercise: int8_matmul
#
# Write `int8_matmul(a, b, a_scale, b_scale)`: a is int8 (n, k) with scales (n, 1), b is int8 (m, k) with scales (m, 1).
# The result is float32 (n, m): the exact integer product of a and the transpose of b, then scaled. The sum is exact
# also beyond 2**24 (and always fits into int32); only the scaling, and the last step to float32, may round.
#
# ```
# int8_matmul(a8, b8, torch.tensor([[0.5]]), torch.tensor([[0.1]]))    # tensor([[1500.]])
# ```

# %% exercise="int8_matmul" points=2
def int8_matmul(a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor) -> Tensor:
    """The exact product of two quantized matrices, scaled."""
    ### BEGIN SOLUTION
    exact = a.double() @ b.double().T
    return (exact * a_scale * b_scale.T).float()
    ### END SOLUTION

# %% check="int8_matmul"
check("int8_matmul")

# %% [markdown]
# ## A layer in eight bits
#
# To be of use, the levels have to live in a module: saved in its `state_dict`, moved by `.to(device)`, and not trained.
# A tensor that is a plain attribute is neither saved nor moved; a Parameter is trained; a *buffer* is right. The scale
# belongs to an output, so it can be applied to the output, which is much smaller than the weight.
#
# ### Exercise: Int8Linear
#
# Write `Int8Linear`, made by `Int8Linear.from_linear(linear)`: int8 weight and one scale for each output as buffers,
# the bias (if there is one) as a Parameter. It takes x with any leading dimensions, gives nearly what `linear` gives,
# and a file of its `state_dict` takes about a quarter of what that of `linear` takes. Gradients reach x and the bias.
# `linear` itself stays as it is, also when the new layer is trained or moved: they share no memory. In place of the line
# that raises, write the body of `from_linear`; below it, add `__init__` and `forward` to the class, with the arguments
# that you need.
#
# ```
# Int8Linear.from_linear(nn.Linear(512, 512))(torch.randn(2, 512)).shape    # (2, 512)
# ```

# %% exercise="Int8Linear" points=3
class Int8Linear(nn.Module):
    """A linear layer whose weight is kept in int8, with one scale for each output."""

    @classmethod
    def from_linear(cls, linear: nn.Linear) -> "Int8Linear":
        """The layer that stands for `linear`."""
        ### BEGIN SOLUTION
        weight, bias = linear.weight.detach(), linear.bias
        largest = weight.abs().amax(dim=1)
        scale = torch.where(largest == 0, torch.ones_like(largest), largest / 127)
        q = (weight / scale[:, None]).round().to(torch.int8)
        return cls(q, scale, None if bias is None else bias.detach().clone())

    def __init__(self, q: Tensor, scale: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.register_buffer("q", q)
        self.register_buffer("scale", scale)
        self.bias = None if bias is None else nn.Parameter(bias)

    def forward(self, x: Tensor) -> Tensor:
        y = F.linear(x, self.q.to(x.dtype)) * self.scale
        return y if self.bias is None else y + self.bias
        ### END SOLUTION

# %% check="Int8Linear"
check("Int8Linear")

# %% tags=["demo"]
import io


def file_bytes(module):
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    return len(file.getvalue())


original = nn.Linear(512, 512)
smaller = use(Int8Linear.from_linear, original)
if isinstance(smaller, str):
    print(smaller)
else:
    x = torch.randn(8, 512)
    off = (smaller(x) - original(x)).abs().max() / original(x).abs().max()
    print(
        f"{file_bytes(original):,} bytes, then {file_bytes(smaller):,}; off by "
        f"{off:.2%}"
    )

# %% [markdown]
# In real work you would not write this yourself: `torchao` is PyTorch's library for quantization. Its `quantize_`
# replaces a model's weights by quantized ones, and its kernels (often with the help of `torch.compile`) need no float
# copy of the weight in memory. It is the successor of `torch.ao.quantization`, which older texts use.

# %% [markdown]
# ## Training with rounding
#
# At four bits the error hurts. Then one lets the model train *with* it: in forward the weights are quantized and
# dequantized at once (fake quantization), so the loss sees the error, and the weights learn to live with it.
#
# The trouble is backward. The derivative of `round` is zero wherever it exists:

# %%
x = torch.tensor([0.3, 1.7], requires_grad=True)
x.round().sum().backward()
print(x.grad)

# %% [markdown]
# The *straight-through estimator* pretends that rounding was not there, and passes the gradient on. But not where the
# value was cut at the end of the range: there a small change of x changes nothing, and the gradient is honestly zero.
# (Only x decides that; large gradients are not cut.)
#
# One detail of forward: `torch.round` takes a half to the even neighbour. Add an odd zero point before rounding, and
# what was even is odd:

# %%
half = torch.tensor([0.5, 1.5, 2.5])
print(half.round() + 3, (half + 3).round())

# %% [markdown]
# ### Exercise: fake_quantize
#
# Write `fake_quantize(x, scale, zero_point, low, high)`: the level is x / scale, rounded (half to even), plus the zero
# point, cut to [low, high]; the result is the number that it stands for, in the dtype of x. Backward passes the
# gradient where the level was in range before it was cut, both ends included, and is zero elsewhere.
#
# ```
# fake_quantize(torch.tensor([0.3, 9.0]), 0.25, 0, -8, 7)    # tensor([0.2500, 1.7500])
# ```

# %% exercise="fake_quantize" points=2
def fake_quantize(
    x: Tensor, scale: float, zero_point: int, low: int, high: int
) -> Tensor:
    """Quantize and dequantize; the gradient passes where the value was in range."""
    ### BEGIN SOLUTION
    class Fake(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            level = torch.round(x / scale) + zero_point
            ctx.save_for_backward((level >= low) & (level <= high))
            return (level.clamp(low, high) - zero_point) * scale

        @staticmethod
        def backward(ctx, grad):
            in_range, = ctx.saved_tensors
            return grad * in_range

    return Fake.apply(x)
    ### END SOLUTION

# %% check="fake_quantize"
check("fake_quantize")

# %% [markdown]
# A net of two layers with weights of three bits. Trained with the rounding, it loses less than when it is rounded
# afterwards:

# %% tags=["demo"]
torch.manual_seed(0)
inputs = torch.randn(256, 16)
wanted = inputs[:, :1] * inputs[:, 1:2]
start = [torch.randn(16, 32) * 0.25, torch.randn(32, 1) * 0.2]


def loss_with(weights):
    return ((inputs @ weights[0]).relu() @ weights[1] - wanted).square().mean()


def train(rounding):
    weights = [weight.clone().requires_grad_() for weight in start]
    optimizer = torch.optim.Adam(weights, lr=0.01)
    for _ in range(400):
        optimizer.zero_grad()
        loss_with(rounding(weights)).backward()
        optimizer.step()
    return [weight.detach() for weight in weights]


def rounded(weights):
    return [fake_quantize(weight, 0.15, 0, -4, 3) for weight in weights]


plain = train(lambda weights: weights)
after, during = use(rounded, plain), use(train, rounded)
if isinstance(after, str):
    print(after)
else:
    print(f"float {loss_with(plain):.4f}, rounded afterwards {loss_with(after):.4f},",
          f"trained with rounding {loss_with(rounded(during)):.4f}")

# %% [markdown]
# ## An operator in C++
#
# When no combination of operators is fast enough, you write one. First try `torch.compile`: it fuses elementwise
# operators for you. What remains are algorithms that do not fit, or code that exists already.
#
# An operator has a *schema* (name, arguments, result) and *kernels* (what to run on which device). This one adds one to
# every number, on the CPU:

# %%
SOURCE = r"""
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

using torch::stable::Tensor;

Tensor plus_one(const Tensor& given) {
  Tensor x = torch::stable::contiguous(given);  // a copy, unless row follows row
  Tensor y = torch::stable::empty_like(x);
  const float* from = static_cast<const float*>(x.const_data_ptr());
  float* into = static_cast<float*>(y.mutable_data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) into[i] = from[i] + 1;
  return y;
}

STABLE_TORCH_LIBRARY(lesson13, m) { m.def("plus_one(Tensor x) -> Tensor"); }
STABLE_TORCH_LIBRARY_IMPL(lesson13, CPU, m) {
  m.impl("plus_one", TORCH_BOX(&plus_one));
}
"""

# %% [markdown]
# `load_inline` compiles it with ninja and g++, and loads it. It takes a few seconds, once:

# %% tags=["demo"]
import shutil

missing = [tool for tool in ("g++", "ninja") if shutil.which(tool) is None]
if missing:
    print(f"Missing here: {' and '.join(missing)}. So there is nothing to run.")
else:
    from torch.utils.cpp_extension import load_inline

    load_inline("lesson13", SOURCE, extra_cflags=["-std=c++20"], is_python_module=False,
                no_implicit_headers=True)
    print(torch.ops.lesson13.plus_one(torch.zeros(2, 3)))

# %% [markdown]
# The headers under `torch/csrc/stable` are the *stable ABI*: a small set of functions that later versions of PyTorch
# keep, so that a library compiled today loads tomorrow. They compile in about 1.5 seconds; `torch/extension.h`, which
# most examples include, takes 10 to 20.
#
# Three traps. The pointer gives you memory, and memory need not lie row by row: a transposed tensor has the same memory
# as before. The pointer has a type that nobody checks: read a double's eight bytes as floats, and you get numbers. And
# a sum in float32 loses what is small beside it:

# %%
t = torch.tensor([[1.0, 2, 3], [4, 5, 6]])
print(
    "memory of t.T:",
    torch.as_strided(t.T, (6,), (1,)).tolist(),
    " its rows:",
    t.T.flatten().tolist(),
)
print(
    "one double as two floats:",
    torch.tensor([1.1], dtype=torch.float64).view(torch.float32).tolist(),
)
print("2**24 + 1 - 2**24 in float32:", (torch.tensor(2.0**24) + 1).item() - 2**24)

# %% [markdown]
# The exercise is RMSNorm, which most language models use in place of layer norm: each row is divided by the root of the
# mean of its squares, `x / sqrt(mean(x²) + eps)`.
#
# ### Exercise: rms_norm_cpp
#
# Write `rms_norm_cpp()`: it returns C++ source, as a string, that registers the operator `torchcourse::rms_norm(Tensor
# x, float eps) -> Tensor` for float32 and float64 on the CPU, over the last dimension, for x of any strides. The
# result has x's shape and dtype; square in double, and add up in double. A schema's `float` is a `double` in C++;
# `x.size(i)`, `x.stride(i)`, `x.dim()`, `x.numel()` and `x.scalar_type()` say what x is, and its dtype may be compared
# with `torch::headeronly::ScalarType::Double`. The check compiles it with `-std=c++20` (once, as long as it stays the
# same), shows what the compiler says, and calls it in a process of its own, which may crash.
#
# ```
# rms_norm_cpp()    # '#include <torch/csrc/stable/library.h> ...', which the check compiles
# torch.ops.torchcourse.rms_norm(torch.tensor([[3.0, 4.0]]), 0.0)    # [[0.8485, 1.1314]]
# ```

# %% exercise="rms_norm_cpp" points=3
def rms_norm_cpp() -> str:
    """C++ source of torchcourse::rms_norm(Tensor x,
    float eps) -> Tensor for the CPU."""
    ### BEGIN SOLUTION
    return r"""
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <cmath>

using torch::stable::Tensor;

template <typename T>
Tensor normalized(const Tensor& x, double eps) {
  Tensor rows = torch::stable::contiguous(x), out = torch::stable::empty_like(rows);
  const T* in = rows.const_data_ptr<T>();
  T* to = out.mutable_data_ptr<T>();
  const int64_t n = x.size(-1), count = n == 0 ? 0 : x.numel() / n;
  for (int64_t row = 0; row < count; row++, in += n, to += n) {
    double squares = 0;
    for (int64_t i = 0; i < n; i++) squares += double(in[i]) * double(in[i]);
    const double factor = 1 / std::sqrt(squares / n + eps);
    for (int64_t i = 0; i < n; i++) to[i] = T(in[i] * factor);
  }
  return out;
}

Tensor rms_norm(const Tensor& x, double eps) {
  const auto dtype = x.scalar_type();
  if (dtype == torch::headeronly::ScalarType::Double) return normalized<double>(x, eps);
  STD_TORCH_CHECK(dtype == torch::headeronly::ScalarType::Float, "float32 or float64");
  return normalized<float>(x, eps);
}

STABLE_TORCH_LIBRARY(torchcourse, m) {
  m.def("rms_norm(Tensor x, float eps) -> Tensor");
}
STABLE_TORCH_LIBRARY_IMPL(torchcourse, CPU, m) {
  m.impl("rms_norm", TORCH_BOX(&rms_norm));
}
"""
    ### END SOLUTION

# %% check="rms_norm_cpp"
check("rms_norm_cpp")

# %% [markdown]
# ## Making the operator complete
#
# A kernel is not all that PyTorch wants of an operator. The compiler runs it on tensors without numbers, to learn
# shapes, and needs a *fake* for that. Autograd cannot look into C++, and needs a *backward*. Both are written in
# Python, as for `swiglu` in lesson 8. For the operator above:

# %% tags=["demo"]
if not missing:
    try:
        torch.compile(torch.ops.lesson13.plus_one, fullgraph=True, backend="eager")(
            torch.zeros(2)
        )
    except Exception as error:
        print(str(error).splitlines()[0])

    @torch.library.register_fake("lesson13::plus_one")
    def _(x):
        return x.new_empty(x.shape)     # row after row, like the kernel's result

    print(
        torch.compile(torch.ops.lesson13.plus_one, fullgraph=True, backend="eager")(
            torch.zeros(2)
        )
    )
    torch.compiler.reset()

# %% [markdown]
# `torch.library.opcheck` tests whether what you registered fits together. It compares gradients with and without the
# compiler, but does not check whether they are *right*, and a C++ operator such as this one passes without any
# backward: it is consistent, but of no use in training. `torch.autograd.gradcheck` compares a backward with finite
# differences; use both.
#
# For the backward of RMSNorm, let r = 1 / sqrt(mean(x²) + eps), so the result is x·r. If r were a constant, x's
# gradient would be r·g, with g the gradient that arrives. But r depends on every entry of its row, which gives a second
# term.
#
# ### Exercise: complete_rms_norm
#
# Write `complete_rms_norm()`: it registers a fake and a backward for `torchcourse::rms_norm`, which the check defines
# before it calls your function. After that the operator passes `opcheck` and `gradcheck`, and runs inside of
# `torch.compile(fullgraph=True)`. The operator's result is contiguous, and so is every x of the check. What you
# register is taken back after the check.
#
# ```
# complete_rms_norm()
# x = torch.tensor([[3.0, 4.0]], requires_grad=True)
# torch.ops.torchcourse.rms_norm(x, 0.0)[0, 0].backward()
# x.grad    # [[0.1810, -0.1358]]
# ```

# %% exercise="complete_rms_norm" points=3
def complete_rms_norm() -> None:
    """Registers a fake and a backward for torchcourse::rms_norm."""
    ### BEGIN SOLUTION
    def fake(x, eps):
        return x.new_empty(x.shape)

    def setup(ctx, inputs, output):
        x, ctx.eps = inputs
        ctx.save_for_backward(x)

    def backward(ctx, grad):
        x, = ctx.saved_tensors
        r = (x.square().mean(-1, keepdim=True) + ctx.eps).rsqrt()
        along = (grad * x).mean(-1, keepdim=True)
        return r * grad - x * r**3 * along, None

    torch.library.register_fake("torchcourse::rms_norm", fake)
    torch.library.register_autograd(
        "torchcourse::rms_norm", backward, setup_context=setup
    )
    ### END SOLUTION

# %% check="complete_rms_norm"
check("complete_rms_norm")

# %% [markdown]
# ## What to take along
#
# | question | tool |
# |---|---|
# | which operator takes the time? | `hot_ops`: self time, after a warm-up |
# | does the host wait for the device? | `host_syncs` |
# | is there much to compute? | `training_flops`, divided by the time |
# | does attention run on a fused kernel? | `attention_backends` |
# | what needs the memory? | the tensors alive at the same time; then blocks, chunks, checkpoints |
# | is the model too large? | int8 weights, one scale for each output |
# | is an operator missing? | C++, a fake, a backward, `opcheck` and `gradcheck` |
#
# And in this order: measure, change one thing, measure again.
