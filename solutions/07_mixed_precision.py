# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 7 · Mixed precision
#
# A float32 number takes four bytes. With two bytes, twice as many fit into memory, twice as many cross the bus per
# second, and chips made for it multiply them several times faster. But two bytes can represent fewer numbers, and
# some that training needs are not among them. Mixed precision is the craft of using 16 bits where they do no harm and
# 32 where they are needed.
#
# What goes wrong here raises no error. A gradient becomes zero, an update changes nothing, a sum becomes `inf`, and
# the loss curve goes flat or turns to `nan`. So we begin with the bits, see what they cannot hold, and build the
# remedies from there: autocast, loss scaling, master weights. Everything in this lesson runs on the CPU: its
# float16 and bfloat16 round and overflow just as those of a GPU do. There are ten exercises.

# %% tags=["setup"]
import math
import time
import warnings

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torchcourse import Unattempted, case, check, hint

# %% tags=["demo"]
# %load_ext torchcourse

# %% [markdown]
# ## The bits of a number
#
# A float is a power of two times a number between 1 and 2. Its bits are three fields: the **sign**, the **exponent**
# (which power of two) and the **mantissa** (where between 1 and 2). The formats differ in how they divide the 15 or
# 31 bits after the sign:
#
# | | sign | exponent | mantissa |
# |---|---|---|---|
# | `float32` | 1 | 8 | 23 |
# | `float16` | 1 | 5 | 10 |
# | `bfloat16` | 1 | 8 | 7 |
#
# More exponent bits mean more **range**, more mantissa bits mean more **precision**. `torch.finfo` shows the
# consequences:

# %%
for dtype in (torch.float32, torch.float16, torch.bfloat16):
    info = torch.finfo(dtype)
    print(
        f"{str(dtype):15} max {info.max:9.3g}   smallest normal "
        f"{info.smallest_normal:9.3g}"
        f"   step above 1 {info.eps:.3g}"
    )

# %% [markdown]
# bfloat16 is float32 with the last 16 bits left out: the same range, and only two to three decimal digits. float16
# has about one digit more, and its range ends at 65504 at the top and at about 6e-8 at the bottom (below the smallest
# *normal* number, printed above, there are some smaller ones, which we come to in a moment).

# %%
numbers = torch.tensor([0.1, 3.14159, 2049.0, 70000.0, 1e-8])
print("float16 ", numbers.to(torch.float16).tolist())
print("bfloat16", numbers.to(torch.bfloat16).tolist())

# %% [markdown]
# `t.to(dtype)` converts a number to the nearest one that the new format has; where two are equally near, to the one
# whose last bit is 0. `t.view(integer dtype)` converts nothing: it reads the same bits as an integer. So you can
# watch a conversion bit by bit:

# %%
integers = {
    torch.float16: torch.int16,
    torch.bfloat16: torch.int16,
    torch.float32: torch.int32,
}
for dtype, whole in integers.items():
    bits = torch.tensor(0.15625, dtype=dtype).view(whole).item()
    print(f"{str(dtype):15} {bits:0{torch.finfo(dtype).bits}b}")

# %% [markdown]
# The exponent is stored with a *bias*, so that it is never negative: 15 is added in float16, 127 in the other two.
# `0.15625` is `1.25 · 2**-3`; float16 stores 12 (`01100`), bfloat16 stores 124. The 1 before the point is not stored,
# because it is always there, with two exceptions: a stored exponent of all zeros means that there is no leading 1
# (zero, and the *subnormal* numbers, which fill the gap above it), and one of all ones means `inf` or `nan`.
#
# Integers have a sign too. Viewed as `int16`, a float whose sign bit is set is negative, and shifting a negative
# integer to the right fills it with ones:

# %%
bits = torch.tensor(-1.0, dtype=torch.float16).view(torch.int16).item()
print(bits, bits >> 15, (bits & 0xFFFF) >> 15)

# %% tags=["demo"]
from torchcourse.demos import bits as bit_explorer

bit_explorer.explore()

# %% [markdown]
# Type a number above and choose a format. Worth a look: `65504`, `65519` and `65520` in float16; `6e-8` and `2e-8`;
# `257` in bfloat16; `-0.0`.
#
# **float8** goes further in the same direction, with one byte: `e4m3` has 4 bits of exponent and 3 of mantissa and
# ends at 448, `e5m2` has 5 and 2. With so few numbers every tensor needs a scale of its own, which the libraries that
# train in float8 keep track of.

# %%
for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
    info = torch.finfo(dtype)
    print(
        dtype,
        info.max,
        info.eps,
        torch.tensor([0.1, 3.14159, 17.0]).to(dtype).float().tolist(),
    )

# %% [markdown]
# **In short:** float16 has the digits, bfloat16 has the range.

# %% [markdown]
# ### Exercise: float_fields
#
# Write `float_fields(x, dtype)`: round the Python float `x` to `dtype` (float16, bfloat16 or float32) and return its
# fields `(sign, exponent, mantissa)` as integers, exactly as they are stored.
#
# ```
# float_fields(1.0, torch.float16)         # (0, 15, 0)
# float_fields(-0.15625, torch.bfloat16)   # (1, 124, 32)
# ```

# %% exercise="float_fields" points=2
def float_fields(x: float, dtype: torch.dtype) -> tuple[int, int, int]:
    """Sign, stored exponent and mantissa of x rounded to dtype, as integers."""
    ### BEGIN SOLUTION
    total = torch.finfo(dtype).bits
    width = {torch.float16: 10, torch.bfloat16: 7, torch.float32: 23}[dtype]
    whole = torch.int32 if total == 32 else torch.int16
    bits = torch.tensor(x, dtype=dtype).view(whole).item() & (2**total - 1)
    exponent = (bits >> width) & (2 ** (total - 1 - width) - 1)
    return bits >> (total - 1), exponent, bits & (2**width - 1)
    ### END SOLUTION

# %% check="float_fields"
check("float_fields")

# %% [markdown]
# ## Updates that vanish
#
# Between 1 and 2 the bfloat16 numbers are 1/128 apart. If you add less than half of that to a weight of 1, the sum is
# rounded back to 1. Nothing changes, however often you do it:

# %%
for dtype in (torch.float32, torch.float16, torch.bfloat16):
    w = torch.tensor(1.0, dtype=dtype)
    for _ in range(1000):
        w = w + torch.tensor(0.001, dtype=dtype)
    print(f"{str(dtype):15} 1 + 1000 times 0.001 = {w.item():.4f}")

# %% [markdown]
# float16 has lost a few percent to rounding; bfloat16 has not moved at all. With Adam, a learning rate of 1e-3 makes
# updates of about this size in every step. The gap between neighbouring numbers grows with the weight: it doubles with
# each power of two.

# %%
for value in (0.25, 1.0, 4.0, 100.0):
    w = torch.tensor(value, dtype=torch.bfloat16)
    above = (w.view(torch.int16) + 1).view(torch.bfloat16)
    half = (above.float() - w.float()).item() / 2
    print(f"{value:6g}: next is {above.item():g}, so adding up to {half:g} is lost")

# %% [markdown]
# (Adding 1 to the bits gives the next number, because of how the fields are arranged.)
#
# There is a second way to lose an update: it may be so small that it becomes zero in the cast, before it is added.
# Then it is lost even on a weight of zero:

# %%
w, update = torch.tensor(0.0, dtype=torch.float16), torch.tensor(1e-8)
print(update != 0, update.to(torch.float16) != 0, w + update.to(torch.float16))

# %% [markdown]
# **In short:** compare an update with the weight that it is added to; what is less than half a gap is lost.

# %% [markdown]
# ### Exercise: lost_updates
#
# Write `lost_updates(w, update, dtype)`: both are cast to `dtype` and added there. Return a bool tensor of the same
# shape that is True where an update changes nothing although, before casting, it is not zero.
#
# ```
# lost_updates(torch.tensor([1.0, 1.0, 0.0]), torch.tensor([0.001, 0.1, 0.0]), torch.bfloat16)   # [True, False, False]
# ```

# %% exercise="lost_updates" points=2
def lost_updates(w: Tensor, update: Tensor, dtype: torch.dtype) -> Tensor:
    """Where adding an update that is not zero changes nothing in dtype."""
    ### BEGIN SOLUTION
    weight = w.to(dtype)
    return (update != 0) & (weight + update.to(dtype) == weight)
    ### END SOLUTION

# %% check="lost_updates"
check("lost_updates")

# %% [markdown]
# ## Gradients that vanish
#
# float16 also has a lower end. Below 6e-5 come the subnormal numbers, with fewer and fewer digits, and below about
# 3e-8 everything is rounded to zero. That is called *underflow*. Gradients are small: the loss is a mean over a
# batch, and each layer multiplies by numbers below one.

# %%
small = torch.tensor([1e-3, 1e-5, 1e-7, 4e-8, 2e-8])
print(small.to(torch.float16).tolist())
print(small.to(torch.bfloat16).tolist())

# %% [markdown]
# Watch it happen in a backward pass. The function is the same in both lines, and so is its derivative:

# %%
for dtype in (torch.float32, torch.float16):
    x = torch.full((4,), 0.5, dtype=dtype, requires_grad=True)
    (x * 1e-4 * 1e-4).sum().backward()
    print(dtype, x.grad)

# %% [markdown]
# A gradient of zero is not an error. To the optimizer it means that the parameter need not change.
#
# The picture shows the gradients of a network of eight layers, sorted by size, and what float16 can hold of them.
# Move the slider: it multiplies the loss, and so every gradient, by a power of two. Keep that in mind; we come back
# to it.

# %% tags=["demo"]
from torchcourse.demos import ranges

ranges.explore()

# %% [markdown]
# bfloat16 has no such trouble. Its smallest normal number is that of float32, about 1e-38.
#
# **In short:** what vanishes is what *rounding to the dtype* turns into zero. The smallest normal number is not that
# limit, because subnormal ones follow.

# %% [markdown]
# ### Exercise: underflow_fraction
#
# Write `underflow_fraction(grads, dtype)`: of all gradients that are not zero, the share that becomes zero in
# `dtype`, as a Python float. `grads` is a tensor or a list of tensors. If all gradients are zero, the share is 0.0.
#
# ```
# underflow_fraction(torch.tensor([1e-9, 1e-3, 0.0]), torch.float16)   # 0.5
# ```

# %% exercise="underflow_fraction" points=2
def underflow_fraction(grads: Tensor | list[Tensor], dtype: torch.dtype) -> float:
    """The share of the non-zero gradients that become zero in dtype."""
    ### BEGIN SOLUTION
    tensors = [grads] if isinstance(grads, Tensor) else grads
    some = sum((g != 0).sum().item() for g in tensors)
    gone = sum(((g != 0) & (g.to(dtype) == 0)).sum().item() for g in tensors)
    return gone / some if some else 0.0
    ### END SOLUTION

# %% check="underflow_fraction"
check("underflow_fraction")

# %% [markdown]
# ## Sums that do not fit
#
# A float16 sum overflows quickly: two hundred numbers around 400 are too much. And where nothing overflows, digits
# are lost: in bfloat16, 256 + 1 is 256.

# %%
x = torch.full((200,), 400.0, dtype=torch.float16)
print(x.sum(), x.sum() / len(x), x.float().sum() / len(x))
print(torch.tensor(256.0, dtype=torch.bfloat16) + 1)

# %% [markdown]
# Good kernels do the work in float32 and round once at the end. The result of `sum` has to be a float16 again, though,
# and it is too large for that. `mean` never returns the sum, so it is safe where the kernel divides before it rounds,
# as torch's does:

# %%
print(x.mean(), x.sum(dtype=torch.float32))

# %% [markdown]
# You will meet the problem again wherever you write a reduction yourself: a norm (the square of 256 already overflows),
# a variance, a softmax, a loss over many elements. The remedy is three words long: *reduce in float32*. Many reductions
# (`sum`, `mean`, `softmax`, norms) take a `dtype` for it; for the others, such as `var` and the losses, call `.float()`
# on the input. Dividing before adding is not a remedy, because it pushes small numbers into the subnormal range, or to
# zero:

# %%
tiny = torch.full((4096,), 1e-4, dtype=torch.float16)
print((tiny / len(tiny)).sum(), tiny.mean())

# %% [markdown]
# **In short:** inputs and result may have 16 bits; what is accumulated on the way may not.

# %% [markdown]
# ### Exercise: safe_mean
#
# Write `safe_mean(x)`: the mean of all elements of a half-precision tensor, as a tensor without dimensions in x's
# dtype, right even where the sum overflows that dtype.
#
# ```
# x = torch.full((200,), 400.0, dtype=torch.float16)
# safe_mean(x)    # 400., float16, although x.sum() is inf
# ```

# %% exercise="safe_mean" points=1
def safe_mean(x: Tensor) -> Tensor:
    """The mean of a half-precision tensor, in its dtype."""
    ### BEGIN SOLUTION
    return x.mean(dtype=torch.float32).to(x.dtype)
    ### END SOLUTION

# %% check="safe_mean"
check("safe_mean")

# %% [markdown]
# ## What autocast casts, and what it keeps
#
# One could cast the whole model: `model.half()`. Then every weight, every sum and every update has the problems
# above, and the inputs have to be converted too:

# %%
try:
    nn.Linear(4, 2).half()(torch.randn(3, 4))
except RuntimeError as error:
    print(error)

# %% [markdown]
# `torch.autocast` takes another approach. Inside its block each *operation* decides: matrix products and convolutions
# cast their inputs down, since that is where the time is spent and their kernels accumulate in float32; some others
# cast theirs up, because they need range or digits; all the rest take what they get. The weights stay float32. What
# is cast is a copy.

# %%
layer, x = nn.Linear(4, 2), torch.randn(3, 4)
with torch.autocast("cpu", dtype=torch.bfloat16):
    y = layer(x)
    loss = F.mse_loss(y, torch.zeros(3, 2))
    print(
        "product",
        y.dtype,
        "  sum with float32",
        (y + torch.ones(2)).dtype,
        "  loss",
        loss.dtype,
    )
loss.backward()
print("weight", layer.weight.dtype, "  gradient", layer.weight.grad.dtype)

# %% [markdown]
# So parameters and their gradients are float32, and the optimizer notices nothing. Three rules follow:
#
# - Forward and loss go inside. `backward` goes outside: it runs each operation in the dtype that its forward had.
# - Do not call `.half()` or `.bfloat16()` on a model under autocast; it would only take away the float32 weights.
# - What leaves the block may be in 16 bits. Call `.float()` before you pass it to NumPy or compute statistics with
#   it.
#
# Integers and float64 are never touched. A part that needs full precision switches autocast off and casts its inputs:

# %%
with torch.autocast("cpu", dtype=torch.bfloat16):
    y = layer(x)
    with torch.autocast("cpu", enabled=False):
        print((y @ y.T).dtype, (y.float() @ y.float().T).dtype)

# %% [markdown]
# Which operation is on which list depends on the device. Here are this machine's lists for a few of them; without a
# GPU the second column is the simulated device, which follows CUDA's lists.

# %% tags=["demo"]
from torchcourse.demos import casts

print(casts.table())

# %% [markdown]
# A softmax or layer norm in the middle of a network is float32 on one device and float16 on another. With hooks (lesson
# 3) you can see what happens in your model; that is the next exercise.
#
# **In short:** autocast decides for each operation, depending on the device. The weights themselves are never
# changed.

# %% [markdown]
# ### Exercise: autocast_report
#
# Write `autocast_report(model, x, dtype)`: run `model(x)` once under autocast with `dtype`, on x's device, and return
# a dict from the dotted name of each leaf module (one without submodules, named as in `named_modules()`) to the dtype
# of its output. None of your hooks may be left afterwards, whatever happens, and other hooks stay.
#
# ```
# autocast_report(nn.Sequential(nn.Linear(4, 2), nn.ReLU()), torch.randn(3, 4), torch.bfloat16)
# # {'0': torch.bfloat16, '1': torch.bfloat16}
# ```

# %% exercise="autocast_report" points=2
def autocast_report(
    model: nn.Module, x: Tensor, dtype: torch.dtype
) -> dict[str, torch.dtype]:
    """The output dtype of each leaf module under autocast."""
    ### BEGIN SOLUTION
    report, handles = {}, []
    try:
        for name, module in model.named_modules():
            if next(module.children(), None) is None:
                note = lambda module, inputs, output, name=name: report.update(
                    {name: output.dtype}
                )
                handles.append(module.register_forward_hook(note))
        with torch.no_grad(), torch.autocast(x.device.type, dtype=dtype):
            model(x)
    finally:
        for handle in handles:
            handle.remove()
    return report
    ### END SOLUTION

# %% check="autocast_report"
check("autocast_report")

# %% [markdown]
# ## Which dtype on which device
#
# Why is half precision faster at all? Only half the bytes have to be moved, and for additions and activation functions
# that is all that counts. For matrix products, GPUs also have special units, *tensor cores*, which multiply small
# blocks of 16-bit numbers and accumulate in float32. They work at full speed where the sizes are multiples of 8 (for
# 16-bit formats); a vocabulary of 50257 is often padded for that reason:

# %%
print(math.ceil(50257 / 8) * 8, math.ceil(50257 / 64) * 64)

# %% [markdown]
# float32 products can use tensor cores too, in a format called **TF32**: the range of float32, with the 10 mantissa
# bits of float16. It is a setting, `torch.set_float32_matmul_precision("high")`, and not a dtype: tensors stay
# float32, and only the products round their inputs. What that costs in precision can be imitated by rounding the bits
# away:

# %%
print("this machine's setting:", torch.get_float32_matmul_precision())
a = torch.randn(64, 64, generator=torch.Generator().manual_seed(0))
rounded = ((a.view(torch.int32) + 2**12) & ~(2**13 - 1)).view(torch.float32)
for name, b in {
    "TF32": rounded,
    "bfloat16": a.bfloat16().float(),
    "float16": a.half().float(),
}.items():
    print(
        f"{name:9} largest error in a product: "
        f"{((b @ b) - (a @ a)).abs().max().item():.4f}"
    )

# %% [markdown]
# Which 16-bit format, then?
#
# - NVIDIA GPUs support bfloat16 in hardware from compute capability 8.0 on (Ampere, 2020). Older ones with tensor
#   cores have float16 only. They can *emulate* bfloat16: it runs, without the tensor cores.
#   `torch.cuda.is_bf16_supported()` says True there as well; `is_bf16_supported(including_emulation=False)` tells the
#   truth, for the *current* device. For a particular device ask `torch.cuda.get_device_capability(device)`.
# - On the CPU use bfloat16. Newer chips have instructions for it. float16 is allowed, and very slow on most chips.

# %% tags=["demo"]
def milliseconds(call, repeats=3):
    call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1000 * min(times)


for dtype in (torch.float32, torch.bfloat16, torch.float16):
    a = torch.randn(256, 256).to(dtype)
    print(
        f"{str(dtype):15} a product of 256 by 256: {milliseconds(lambda: a @ a):7.2f} "
        "ms here"
    )

# %% [markdown]
# Autocast has a default for each device, and for CUDA it is float16 whatever the chip. So always pass the dtype:

# %%
print(torch.get_autocast_dtype("cpu"), torch.get_autocast_dtype("cuda"))

# %% [markdown]
# **In short:** bfloat16 where the hardware has it, float16 on older GPUs, and never trust an answer that counts
# emulation.

# %% [markdown]
# ### Exercise: autocast_dtype
#
# Write `autocast_dtype(device)`: the dtype to use under autocast on a `torch.device`. On the CPU it is bfloat16; on a
# CUDA device it is bfloat16 where that particular chip supports it natively, else float16. What you return for other
# devices is up to you. (You need no GPU for this: the check pretends that there are some.)
#
# ```
# autocast_dtype(torch.device("cpu"))     # torch.bfloat16
# autocast_dtype(torch.device("cuda"))    # torch.float16 on a V100, torch.bfloat16 on an A100
# ```

# %% exercise="autocast_dtype" points=1
def autocast_dtype(device: torch.device) -> torch.dtype:
    """The 16-bit dtype that makes sense on a device."""
    ### BEGIN SOLUTION
    device = torch.device(device)
    if device.type == "cuda" and torch.cuda.get_device_capability(device) < (8, 0):
        return torch.float16
    return torch.bfloat16
    ### END SOLUTION

# %% check="autocast_dtype"
check("autocast_dtype")

# %% [markdown]
# ## Loss scaling from first principles
#
# float16 cannot hold a gradient of 1e-8. It can hold one of 1e-5. Differentiation is linear: if the loss is
# multiplied by 1024, so is every gradient behind it, and the small ones move into the range. Afterwards they are
# divided by 1024 in float32, where there is room for them.

# %%
def gradient(scale):
    x = torch.full((4,), 0.5, dtype=torch.float16, requires_grad=True)
    loss = (x * 1e-4 * 1e-4).sum().float()
    (loss * scale).backward()
    return x.grad.float() / scale


print(gradient(1.0))
print(gradient(1024.0))

# %% [markdown]
# The second line is the derivative, 1e-8, up to rounding. Why 1024 and not 1000? A power of two changes the exponent
# and leaves the mantissa alone, so multiplying and dividing again loses nothing:

# %%
x = torch.rand(10_000, generator=torch.Generator().manual_seed(0)).half()
print([(x * scale / scale == x).float().mean().item() for scale in (1000, 1024)])

# %% [markdown]
# How large may the scale be? As large as the largest gradient allows. One more doubling, and that gradient is `inf`;
# dividing does not bring it back:

# %%
largest = torch.tensor(40.0)
for scale in (2.0**10, 2.0**11):
    print(scale, (largest * scale).half(), (largest * scale).half().float() / scale)

# %% [markdown]
# (To be exact, float16 rounds what is between 65504 and 65520 down to 65504. From 65520 on it is `inf`.)
#
# And bfloat16? Its range is that of float32. Only what is below 5e-41 becomes zero there, and no gradient that matters
# is so small: bfloat16 needs **no scaler**. A disabled scaler, `GradScaler(enabled=False)`, passes everything through,
# so that one loop serves both.
#
# **In short:** scaling shifts all gradients along the axis of powers of two. It helps where they are all too small;
# it cannot make the range wider.

# %% [markdown]
# ### Exercise: best_loss_scale
#
# Write `best_loss_scale(grads, dtype=torch.float16)`: the largest power of two by which all gradients (a tensor or a
# list of tensors) can be multiplied without any of them becoming inf in `dtype`, as a Python float. If all are zero,
# it is 1.0.
#
# ```
# best_loss_scale(torch.tensor([40.0, -1e-6]))    # 1024.0
# ```

# %% exercise="best_loss_scale" points=2
def best_loss_scale(
    grads: Tensor | list[Tensor], dtype: torch.dtype = torch.float16
) -> float:
    """The largest power of two at which no gradient becomes inf in dtype."""
    ### BEGIN SOLUTION
    tensors = [grads] if isinstance(grads, Tensor) else grads
    largest = max((g.abs().max().item() for g in tensors), default=0.0)
    if largest == 0:
        return 1.0

    def fits(power: int) -> bool:
        return (
            torch.tensor(largest * 2.0**power, dtype=torch.float64)
            .to(dtype)
            .isfinite()
            .item()
        )

    power = math.floor(math.log2(torch.finfo(dtype).max) - math.log2(largest))
    while fits(power + 1):
        power += 1
    while not fits(power):
        power -= 1
    return 2.0**power
    ### END SOLUTION

# %% check="best_loss_scale"
check("best_loss_scale")

# %% [markdown]
# ## A scale that finds itself
#
# The best scale changes while the model learns, and nobody wants to search for it in every step.
# `torch.amp.GradScaler` finds it by trial and error. It starts high. When a gradient is inf or NaN, it skips the
# optimizer step and lowers the scale. After a number of steps in a row without such an overflow it raises the scale
# again, until it is too high once more. That happens every few thousand steps, and costs one step each time.
#
# Watch it with an interval of two instead of 2000. We simulate the overflow ourselves:

# %%
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=2)
p = nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([p], lr=0.1)
for overflow in (False, False, False, True, False, False):
    optimizer.zero_grad()
    scaler.scale(2 * p).backward()
    if overflow:
        p.grad.fill_(math.inf)
    before = p.item()
    scaler.step(optimizer)
    scaler.update()
    words = "overflow" if overflow else "fine    "
    print(
        words, f"p {before:.1f} -> {p.item():.1f}   next scale {scaler.get_scale():.0f}"
    )

# %% [markdown]
# Three methods share the work. `scale(loss)` multiplies. `step(optimizer)` divides the gradients by the scale, checks
# whether they are all finite, and steps only if they are: a skipped step is no step at all, as opposed to a step with
# zeros, which would still move weights that have momentum or weight decay. `update()` changes the scale, once for all
# optimizers whose `step` was called in this round. If any of them met an overflow, the scale goes down.
#
# Note in the list above that the overflow in the fourth round also restarted the count.
#
# **In short:** the scale is found by overflowing now and then. A few skipped steps at the start of training are
# normal.

# %% [markdown]
# ### Exercise: LossScaler
#
# Write `class LossScaler` with `__init__(self, scale=2.0**16, growth=2.0, backoff=0.5, interval=2000)` and three
# methods: `scale(loss)` returns the loss times the scale; `step(optimizer)` unscales the gradients, steps unless one
# of them is inf or NaN, and returns True if it stepped; `update()` multiplies the scale by `backoff` after an
# overflow, and by `growth` after `interval` updates in a row without one. It gives the same sequence of scales and
# skips as `torch.amp.GradScaler`, even with several optimizers before one update. Rule: no GradScaler.
#
# ```
# scaler = LossScaler(scale=8.0, interval=1)
# p = nn.Parameter(torch.ones(1))
# optimizer = torch.optim.SGD([p], lr=0.1)
# scaler.scale(2 * p).backward()          # p.grad is [16.]
# scaler.step(optimizer)                  # True: unscaled to [2.], and p is now [0.8]
# scaler.update()
# scaler.scale(torch.tensor(1.0))         # 16.: the scale has grown
# ```

# %% exercise="LossScaler" points=3
class LossScaler:
    """Dynamic loss scaling."""

    def __init__(
        self,
        scale: float = 2.0**16,
        growth: float = 2.0,
        backoff: float = 0.5,
        interval: int = 2000,
    ) -> None:
        ### BEGIN SOLUTION
        self.now = scale
        self.growth = growth
        self.backoff = backoff
        self.interval = interval
        self.fine_in_a_row = 0
        self.overflowed = False

    def scale(self, loss: Tensor) -> Tensor:
        return loss * self.now

    def step(self, optimizer: torch.optim.Optimizer) -> bool:
        grads = [
            p.grad
            for group in optimizer.param_groups
            for p in group["params"]
            if p.grad is not None
        ]
        for grad in grads:
            grad.mul_(1 / self.now)
        finite = all(grad.isfinite().all().item() for grad in grads)
        if finite:
            optimizer.step()
        self.overflowed = self.overflowed or not finite
        return finite

    def update(self) -> None:
        self.fine_in_a_row = 0 if self.overflowed else self.fine_in_a_row + 1
        if self.overflowed:
            self.now *= self.backoff
        elif self.fine_in_a_row == self.interval:
            self.fine_in_a_row = 0
            # like GradScaler, whose scale is a float32
            if self.now * self.growth <= torch.finfo(torch.float32).max:
                self.now *= self.growth
        self.overflowed = False
        ### END SOLUTION

# %% check="LossScaler"
check("LossScaler")

# %% [markdown]
# ## The protocol, in order
#
# A training step in mixed precision is the step of lesson 5 with autocast around its forward pass, and with four
# calls to the scaler. The order of all these steps matters:

# %%
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
x, y = torch.randn(8, 4), torch.randn(8, 1)

optimizer.zero_grad()                                      # 1
with torch.autocast("cpu", dtype=torch.float16):           # 2
    loss = F.mse_loss(model(x), y)
scaler.scale(loss).backward()                              # 3
scaler.unscale_(optimizer)                                 # 4
norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
scaler.step(optimizer)                                     # 5
scaler.update()                                            # 6
print(loss.item(), norm.item())

# %% [markdown]
# 1. Clear the old gradients, as always.
# 2. Forward and loss under autocast.
# 3. `backward` on the *scaled* loss, outside of autocast. Log the loss itself.
# 4. Only if you look at gradients before the step, to clip or to log them: `unscale_` first. It may be called only
#    once per step for each optimizer.
# 5. `scaler.step` instead of `optimizer.step`. It unscales if you did not, and skips the step on overflow.
# 6. `update` once, at the end.
#
# `torch.amp.GradScaler()` without a device means CUDA, so name the device. What happens without number 4? The gradients
# still carry the scale. Their norm is nearly always above the limit, so they are scaled down to it, and then divided
# by the scale on top of that:

# %%
def length_after_clipping(unscale_first):
    optimizer.zero_grad()
    scaler.scale(F.mse_loss(model(x), y)).backward()
    if unscale_first:
        scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    if not unscale_first:
        scaler.unscale_(optimizer)
    scaler.update()
    return nn.utils.get_total_norm([p.grad for p in model.parameters()]).item()


print(length_after_clipping(True), length_after_clipping(False))

# %% [markdown]
# With SGD, a training run that clips before unscaling would hardly move, and nothing would say so. (Adam would move,
# because it divides that factor out again, but the limit would no longer be the one you asked for.)
#
# And an overflow? With a scale that is far too high the gradients are inf. The weights stay as they were, the scale
# goes down:

# %%
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40)
before = model[0].weight.detach().clone()
for _ in range(2):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = F.mse_loss(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
print(torch.equal(before, model[0].weight), math.log2(scaler.get_scale()))

# %% [markdown]
# Two steps were skipped. If that never ends, the loss or some step of its backward is inf or NaN, and no scale will
# help: look there. A scheduler that counts steps should count only those that were made; a scale that went down during
# `update` means that the step was skipped.
#
# With accumulation (lesson 5), each micro-batch's loss is scaled; `unscale_`, `step` and `update` come once, at the
# end, so that the gradients of all micro-batches carry the same scale.
#
# **In short:** scale, backward, unscale, clip, step, update. Nothing that reads a gradient comes before the
# unscaling.

# %% [markdown]
# ### Exercise: amp_step
#
# Write `amp_step(model, batch, loss_fn, optimizer, scaler, *, device, dtype, max_norm=None)`: one step on `batch`, a
# pair `(x, y)` that is on `device` already. Forward and loss run under autocast with `dtype`, and backward outside of
# it; `scaler` is a GradScaler. With `max_norm`, the gradients' norm is clipped to it. Gradients left over from before
# never count. Return the loss (not the scaled one) as a Python float.
#
# ```
# model = nn.Linear(1, 1, bias=False)
# nn.init.zeros_(model.weight)
# optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
# batch, scaler = (torch.ones(1, 1), torch.full((1, 1), 3.0)), torch.amp.GradScaler("cpu")
# cpu = torch.device("cpu")
# amp_step(model, batch, F.mse_loss, optimizer, scaler, device=cpu, dtype=torch.bfloat16)
# # 9.0, and the weight is now 0.6
# ```

# %% exercise="amp_step" points=3
def amp_step(
    model, batch, loss_fn, optimizer, scaler, *, device, dtype, max_norm=None
) -> float:
    """One training step in mixed precision; the loss as a Python float."""
    ### BEGIN SOLUTION
    x, y = batch
    optimizer.zero_grad()
    with torch.autocast(torch.device(device).type, dtype=dtype):
        loss = loss_fn(model(x), y)
    scaler.scale(loss).backward()
    if max_norm is not None:
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimizer)
    scaler.update()
    return loss.item()
    ### END SOLUTION

# %% check="amp_step"
check("amp_step")

# %% [markdown]
# ## A training run that fails in float16, and its cure
#
# The targets are tiny, around 1e-7, as the probabilities of rare events may be. In float16 without a scaler every
# gradient is 0, and the loss stays where it was. With the scaler the same network learns, and bfloat16 needs none:

# %% tags=["demo"]
def losses(dtype, scaled, steps=150):
    torch.manual_seed(1)
    model, data = nn.Linear(8, 1), torch.randn(256, 8)
    nn.init.zeros_(model.weight), nn.init.zeros_(model.bias)
    wanted = 1e-7 * data.sum(dim=1, keepdim=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-8)
    scaler = torch.amp.GradScaler("cpu", enabled=scaled, init_scale=2.0**24)
    history = []
    for _ in range(steps):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=dtype):
            out = model(data)
        loss = F.mse_loss(out.float(), wanted)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        history.append(loss.item())
    return history

from torchcourse.demos import curves

runs = {
    "float16 alone": losses(torch.float16, False),
    "float16, scaled": losses(torch.float16, True),
    "bfloat16": losses(torch.bfloat16, False),
}
curves.draw(runs, "three formats", log=True, ylabel="squared error")

# %% [markdown]
# ## A Function under autocast
#
# A `torch.autograd.Function` of your own (lesson 2) gets whatever dtype autocast has made of its inputs, and its
# backward runs without autocast. Two decorators settle both: inside an autocast block, `custom_fwd` with `cast_inputs=`
# casts the floating-point inputs and switches autocast off for the forward (without `cast_inputs=` it changes neither);
# `custom_bwd` runs the backward with autocast in the same state as in the forward.

# %%
class Cube(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * grad_output


x = torch.full((1,), 50.0, dtype=torch.float16, requires_grad=True)
with torch.autocast("cpu", dtype=torch.float16):
    print(x**3, Cube.apply(x))

# %% [markdown]
# 125 000 is more than float16 can hold; in float32 it fits.

# %% [markdown]
# ## torch.cuda.amp, which you will still meet
#
# Until 2024 these tools were usually imported from `torch.cuda.amp`, which worked for CUDA alone; the CPU had
# `torch.cpu.amp`. They are deprecated. Old code says so when it runs:

# %%
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    torch.cuda.amp.GradScaler(enabled=False)
    torch.cuda.amp.autocast(enabled=False)
for warning in caught:
    print(f"{warning.category.__name__}: {warning.message}")

# %% [markdown]
# | older | now |
# |---|---|
# | `torch.cuda.amp.autocast()` | `torch.autocast("cuda", dtype=...)`, also written `torch.amp.autocast` |
# | `torch.cuda.amp.GradScaler()` | `torch.amp.GradScaler("cuda")` |
# | `torch.cpu.amp.autocast()` | `torch.autocast("cpu", dtype=torch.bfloat16)` |
# | `apex.amp.initialize(model, optimizer, "O1")` | autocast, GradScaler |
#
# The protocol has not changed; the only difference is that the device has become an argument.

# %% [markdown]
# ## Master weights
#
# Under autocast the parameters are float32, and the 16-bit weights are copies that are made anew in each step. So the
# optimizer adds small updates to float32 numbers. That is the whole secret of a **master copy**: with autocast, the
# parameters *are* the master copy.
#
# It is another matter when the parameters themselves are bfloat16, to save memory or because the checkpoint was
# stored that way. Then plain SGD runs into the vanishing updates:

# %%
start = torch.linspace(0.5, 2.0, 4)
for dtype in (torch.float32, torch.bfloat16):
    w = nn.Parameter(start.to(dtype, copy=True))
    optimizer = torch.optim.SGD([w], lr=1e-3)
    for _ in range(200):
        w.grad = torch.ones_like(w)
        optimizer.step()
    print(f"{str(dtype):15}", w.detach().float().tolist())

# %% [markdown]
# No bfloat16 weight of 1.0 or more has moved in 200 steps, and the one at 0.5 has gone too far, because most of its
# steps were rounded to almost twice their size. The remedy: the optimizer keeps each weight in float32 too, adds the
# updates there, and copies the rounded result into the parameter. Then small updates accumulate until they amount to a
# step.
#
# Where does an optimizer keep such things? In `self.state[p]`, a dict for each parameter; `state_dict()` saves what is
# in there and the parameter groups, and nothing else of the optimizer. A small optimizer that remembers each
# parameter's largest gradient shows the parts:

# %%
class LargestSeen(torch.optim.Optimizer):
    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    seen = self.state[p].setdefault(
                        "largest", torch.zeros(p.shape, device=p.device)
                    )
                    torch.maximum(seen, p.grad.abs().float(), out=seen)


w = nn.Parameter(torch.zeros(2, dtype=torch.bfloat16))
optimizer = LargestSeen([w], lr=0.1)
w.grad = torch.tensor([0.5, -3.001], dtype=torch.bfloat16)
optimizer.step()
print(optimizer.state_dict())

# %% [markdown]
# There is a trap in resuming. `load_state_dict` of the base class casts every state tensor of a floating-point
# parameter, except one called `step`, to the parameter's dtype. A float32 state of a bfloat16 parameter comes back
# rounded:

# %%
optimizer.state[w]["largest"] += 0.0001
other = LargestSeen([w], lr=0.1)
other.load_state_dict(optimizer.state_dict())
print(optimizer.state[w]["largest"], other.state[w]["largest"].dtype)

# %% [markdown]
# An optimizer with master weights therefore has to restore them itself: it overrides `load_state_dict`, calls the
# base class, and then takes its float32 tensors from the dict that was passed in.
#
# There is a way to do without a copy: **stochastic rounding**. Round up or down at random, and more often to the
# nearer neighbour, in proportion to how near it is. Every single step is less exact, but their mean is right, and
# small updates arrive. For bfloat16 it is an addition of random bits below the ones that are kept:

# %%
def stochastic(x: Tensor) -> Tensor:
    bits = x.float().view(torch.int32)
    return (
        ((bits + torch.randint_like(bits, 2**16)) & -(2**16))
        .view(torch.float32)
        .bfloat16()
    )


torch.manual_seed(0)
nearest = torch.ones(1000, dtype=torch.bfloat16)
random_ = torch.ones(1000, dtype=torch.bfloat16)
for _ in range(200):
    nearest = (nearest.float() - 1e-3).bfloat16()
    random_ = stochastic(random_.float() - 1e-3)
print(
    f"wanted 0.8; to the nearest {nearest.float().mean():.3f}, at random "
    f"{random_.float().mean():.3f}"
)

# %% [markdown]
# And the memory? Count the bytes per parameter with Adam:

# %%
recipes = {
    "float32": dict(parameter=4, gradient=4, adam=8),
    "autocast": dict(parameter=4, gradient=4, adam=8),
    "bfloat16 with a master copy": dict(parameter=2, gradient=2, adam=8, master=4),
    "all bfloat16, Adam's states too": dict(parameter=2, gradient=2, adam=4),
}
for name, parts in recipes.items():
    print(f"{sum(parts.values()):3} bytes   {name}: {parts}")

# %% [markdown]
# The first three are equal. Mixed precision saves nothing on parameters, gradients and optimizer states; what it
# halves is the *activations* that wait for the backward pass. The last recipe does save memory, but loses the small
# updates.
#
# **In short:** small updates have to be added to a float32 copy, unless rounding is stochastic. Under autocast
# the parameters are that copy.

# %% [markdown]
# ### Exercise: MasterSGD
#
# Write `class MasterSGD(torch.optim.Optimizer)` with `__init__(self, params, lr)` and `step()`: SGD for low-precision
# parameters. For each parameter `self.state[p]` holds a float32 copy. A step subtracts lr times the gradient from the
# copy, and writes the copy, rounded, into the parameter, which keeps its dtype. It respects parameter groups and
# changes to `group["lr"]`; a parameter without a gradient is left alone.
#
# ```
# w = nn.Parameter(torch.ones(1, dtype=torch.bfloat16))
# optimizer = MasterSGD([w], lr=0.001)
# for _ in range(100):
#     w.grad = torch.ones_like(w)
#     optimizer.step()
# w    # [0.8984], the bfloat16 number nearest to 0.9; plain SGD would still be at 1.0
# ```

# %% exercise="MasterSGD" points=3
class MasterSGD(torch.optim.Optimizer):
    """SGD that adds its updates to float32 copies of low-precision parameters."""

    def __init__(self, params, lr: float) -> None:
        ### BEGIN SOLUTION
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    master = self._master(p)
                    master.sub_(p.grad.float(), alpha=group["lr"])
                    p.copy_(master)
        return loss

    def _master(self, p: Tensor) -> Tensor:
        if "master" not in self.state[p]:
            self.state[p]["master"] = p.detach().to(torch.float32, copy=True)
        return self.state[p]["master"]

    def load_state_dict(self, state_dict) -> None:
        # casts every state tensor but "step" to its parameter's dtype
        super().load_state_dict(state_dict)
        parameters = [p for group in self.param_groups for p in group["params"]]
        for number, saved in state_dict["state"].items():
            p = parameters[number]
            self.state[p]["master"] = (
                saved["master"].detach().to(p.device, torch.float32, copy=True)
            )
        ### END SOLUTION

# %% check="MasterSGD"
check("MasterSGD")

# %% [markdown]
# ## When it pays, and when it does not
#
# The memory that is saved can be counted: it is the tensors that wait for the backward pass. Here they are counted for
# a network of four layers, leaving out its parameters:

# %%
def wide(width):
    return nn.Sequential(
        *(part for _ in range(4) for part in (nn.Linear(width, width), nn.GELU()))
    )


for rows in (32, 4096):
    x = torch.randn(rows, 64)
    full, half = (
        casts.saved_bytes(wide(64), x, dtype)
        for dtype in (torch.float32, torch.bfloat16)
    )
    print(
        f"batch of {rows}: {full} bytes in float32, {half} under autocast, "
        f"{half / full:.2f} of it"
    )

# %% [markdown]
# With a large batch it is close to half. With a small one, the 16-bit copies of the weights, which are also kept for
# the backward pass, eat up most of the savings; with 16 rows they would cost more than is saved.
#
# Measure speed, never assume it. Each cast is an operation of its own, and in a small model such small operations take
# most of the time:

# %% tags=["demo"]
for width, rows in ((16, 16), (512, 256)):
    model, x = wide(width), torch.randn(rows, width)

    def run(enabled):
        with (
            torch.no_grad(),
            torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled),
        ):
            model(x)

    times = [
        milliseconds(lambda: run(enabled), repeats=10) for enabled in (False, True)
    ]
    print(f"width {width}: float32 {times[0]:.2f} ms, autocast {times[1]:.2f} ms here")

# %% [markdown]
# Such a small network usually gets slower (if your machine is busy with other things, run the cell again). Whether
# the large one gets faster depends on your CPU: with instructions for bfloat16 it does, without them it may well get
# slower. It is the same story on GPUs: large products on tensor cores gain, while small layers, and models that wait
# for their data (lesson 4), do not. So:
#
# - Measure a whole training step, on the machine that will do it, after a warm-up (lesson 6).
# - Compare the loss curves of both for a few hundred steps before the long run.
# - Where the loss becomes NaN only in float16, look for a sum, an exponential or a norm that left the range.

# %% [markdown]
# ## What you have seen
#
# | idea | remember |
# |---|---|
# | float16, bfloat16 | digits against range: 10 and 5 bits, 7 and 8 bits |
# | updates | less than half the gap to the weight's neighbour is lost |
# | gradients | below 3e-8 they are zero in float16; bfloat16 has float32's range |
# | reductions | in float32, the result in 16 bits |
# | autocast | per operation and device; weights stay float32; backward outside |
# | dtype | bfloat16 where it is native, float16 on older GPUs, bfloat16 on CPUs |
# | loss scale | a power of two; found by overflowing now and then; only for float16 |
# | the protocol | scale, backward, unscale, clip, step, update |
# | master weights | float32 copies in `self.state[p]`; under autocast the parameters themselves |
# | gain | activations halve; speed only where it was measured |
#
# Next comes **lesson 8, compile**: how to make the same model run faster, with the same numbers up to rounding.
