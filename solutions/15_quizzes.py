# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 15 · Quizzes
#
# An interviewer draws two shapes on the board and asks what comes out. A reviewer looks at a line with `relu_` and asks whether
# backward survives it. Neither wants you to run anything: they want to know whether the rule is in your head.
#
# So in this lesson you write **predictors**: small functions that say what PyTorch will do. Each is examined on cases
# drawn at random, and the judge is PyTorch itself, which runs every one of them. Where you disagree, the card shows one
# such case with PyTorch's own run beside it.
#
# One rule holds for all twelve: **inside a predictor, nothing from torch is called.** No tensors, no autograd, no
# `torch.broadcast_shapes`. Dtypes are fine as values (`dtype.itemsize`, `dtype.is_floating_point`). Outside, in cells
# of your own, run whatever you like. Each section names the lesson that taught its rule, and once you pass, the card
# unfolds an answer of three sentences, to be spoken aloud. There are twelve exercises. You need not do them in one
# evening, nor in this order. The start page offers a quiz again days after it went wrong.

# %% tags=["setup"]
import itertools
import math
import operator

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from torchcourse import Unattempted, case, check, hint

# %% tags=["demo"]
# %load_ext torchcourse

# %% [markdown]
# ## How to ask PyTorch
#
# `ask.pytorch` gives the answer to a quiz for inputs of your choice, by running PyTorch on them. Use it to test a
# guess, as often as you like. Inside a predictor it counts as calling torch, which it does.

# %% tags=["demo"]
from torchcourse.demos import ask

print(ask.pytorch("broadcast_shape", (2, 3), (3,)))
print(ask.pytorch("view_possible", (2, 3), (1, 2), (6,)))
print(ask.pytorch("reduction_gradient", "max", [1.0, 5.0, 5.0]))

# %% [markdown]
# ## Broadcasting
#
# *"When can two tensors of different shapes be added, and what comes out?"* (Lesson 1, *Broadcasting: shapes line up from the
# right*.)
#
# Broadcasting is how a loss can be wrong without any error: predictions of shape `(n, 1)` minus targets of shape `(n,)`
# is an `(n, n)` matrix, and its mean is a number like any other.

# %%
print((torch.zeros(4, 1) - torch.zeros(4)).shape)
print((torch.zeros(3, 0) + torch.zeros(3, 1)).shape)
try:
    torch.zeros(2, 3) + torch.zeros(2)
except RuntimeError as error:
    print(error)

# %% [markdown]
# Shapes are aligned at the right, and missing dimensions at the front count as 1. Then a size of 1 gives way to the
# other size, even if that is 0, which is why the second result has no elements.

# %% [markdown]
# ### Exercise: broadcast_shape
#
# Write `broadcast_shape(*shapes)`: the shape, as a tuple, of an elementwise operation on tensors of these shapes, one or more of them.
# Where PyTorch raises, raise `ValueError`.
#
# ```
# broadcast_shape((2, 1), (3,))      # (2, 3)
# broadcast_shape((2, 3), (2,))      # ValueError
# ```

# %% exercise="broadcast_shape" points=1
def broadcast_shape(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a sum of tensors of these shapes."""
    ### BEGIN SOLUTION
    from_the_right = (reversed(shape) for shape in shapes)
    flipped = []
    for column in itertools.zip_longest(*from_the_right, fillvalue=1):
        left = set(column) - {1}
        if len(left) > 1:
            raise ValueError(f"{shapes}: {sorted(left)} meet in one dimension")
        flipped.append(left.pop() if left else 1)
    return tuple(flipped[::-1])
    ### END SOLUTION

# %% check="broadcast_shape"
check("broadcast_shape")

# %% [markdown]
# ## Views and strides
#
# *"When does `view` work, and when do you need `reshape`?"* (Lesson 1, *Strides: one storage, many views*.)
#
# "When it is contiguous" is the usual answer, and it is wrong. A view needs strides that can express the new shape. A
# tensor made of every second row of a matrix is not contiguous, and yet each of its rows can be cut in two; only
# joining the rows is impossible:

# %%
rows = torch.arange(24).view(4, 6)[::2]
print(rows.is_contiguous(), rows.stride())
print(rows.view(2, 2, 3).stride())
try:
    rows.view(12)
except RuntimeError as error:
    print(error)

# %% tags=["demo"]
from torchcourse.demos import strides

strides.draw(rows, "torch.arange(24).view(4, 6)[::2]")

# %% [markdown]
# Look at the picture: within a row, the step from cell to cell is always 1. From the end of the first row to the beginning of the
# second it is not, so no single stride could take you through all twelve.
#
# Two neighbouring dimensions can be read as one if stepping once in the outer one is the same as running through the whole inner one:
# outer stride = inner size × inner stride. And a dimension of size 1 has a stride that nobody ever uses, so its value
# does not matter.

# %%
one = torch.empty_strided((3, 1, 4), (4, 77, 1))
print(one.stride(), one.view(12).stride())

# %% [markdown]
# ### Exercise: view_possible
#
# Write `view_possible(shape, stride, new_shape)`: whether `.view(new_shape)` works on a tensor of this shape and stride. All three are
# tuples; `new_shape` has no -1. Strides may be 0 (as `expand` makes them), and a tensor without elements can be viewed as any
# shape without elements.
#
# ```
# view_possible((3, 4), (4, 1), (2, 6))        # True
# view_possible((4, 3), (1, 4), (12,))         # False: a transposed matrix
# view_possible((4, 3), (1, 4), (2, 2, 3))     # True
# ```

# %% exercise="view_possible" points=3
def view_possible(
    shape: tuple[int, ...], stride: tuple[int, ...], new_shape: tuple[int, ...]
) -> bool:
    """Whether a tensor of this shape and stride can be viewed as new_shape."""
    ### BEGIN SOLUTION
    if math.prod(shape) != math.prod(new_shape) or 0 in shape:
        return math.prod(shape) == math.prod(new_shape)
    even = []  # lengths of the stretches that one stride can run through
    outer = None
    for length, jump in zip(shape, stride, strict=True):
        if length == 1:
            continue
        if outer == length * jump:
            even[-1] *= length
        else:
            even.append(length)
        outer = jump
    ends = itertools.accumulate(even, operator.mul)
    return set(ends) <= set(itertools.accumulate(new_shape, operator.mul))
    ### END SOLUTION

# %% check="view_possible"
check("view_possible")

# %% [markdown]
# ## Promotion
#
# *"What dtype comes out if you add a float16 tensor and a float64 number?"* (Lesson 1, *Dtypes: what fits in an entry*.)
#
# It matters because a wrong guess is silent at first. Adding one float32 tensor with dimensions turns a bfloat16
# activation into float32, and doubles its memory; a Python float changes nothing. Nothing raises until a bfloat16 layer
# gets the result.

# %%
half = torch.ones(2, dtype=torch.float16)
print((half + 1.0).dtype, (half + torch.tensor(1.0)).dtype)
print((half + torch.ones(1)).dtype)
whole = torch.ones(2, dtype=torch.int64)
print((whole + 1.0).dtype, (whole + half).dtype)

# %% [markdown]
# Two questions, in this order. **Which category?** bool is below the integers, the integers are below floats, and the higher category
# wins however narrow it is: int64 and float16 make float16. **Who has a say?** Tensors with dimensions rank first, then 0-D tensors,
# then Python numbers. A lower rank changes the result only if its category is higher. Then it brings its own dtype; a Python float
# brings the default, float32.
#
# Within one rank and category, the narrowest dtype that holds both is taken. Here, that is neither of the two:

# %%
print(torch.promote_types(torch.float16, torch.bfloat16))
print(torch.promote_types(torch.uint8, torch.int8))

# %% [markdown]
# ### Exercise: result_dtype
#
# Write `result_dtype(a, b)`: the dtype of `a + b`. Each operand is a pair `(kind, dtype)`. The kind is `"tensor"` (it has dimensions),
# `"scalar"` (a 0-D tensor) or `"number"` (a Python number, at most one of the two). The dtypes are bool, uint8, the signed integers
# from int8 to int64, and the floats from float16 to float64, bfloat16 among them. A number's dtype says what it is in
# Python: `torch.bool`, `torch.int64` for an int, `torch.float64` for a float.
#
# ```
# result_dtype(("tensor", torch.int32), ("tensor", torch.float16))     # torch.float16
# result_dtype(("tensor", torch.int32), ("number", torch.float64))     # torch.float32
# ```

# %% exercise="result_dtype" points=2
def result_dtype(
    a: tuple[str, torch.dtype], b: tuple[str, torch.dtype]
) -> torch.dtype:
    """The dtype of a + b."""
    ### BEGIN SOLUTION
    def level(dtype: torch.dtype) -> int:
        return 2 if dtype.is_floating_point else 0 if dtype is torch.bool else 1

    ranking = ["number", "scalar", "tensor"]
    (weak, x), (strong, y) = sorted((a, b), key=lambda one: ranking.index(one[0]))
    if weak == "number" and x is torch.float64:
        x = torch.float32
    if weak != strong or level(x) != level(y):
        if weak == strong:
            return max(x, y, key=level)
        return x if level(x) > level(y) else y
    if {x, y} == {torch.float16, torch.bfloat16}:
        return torch.float32
    if {x, y} == {torch.uint8, torch.int8}:
        return torch.int16
    return x if x.itemsize > y.itemsize else y
    ### END SOLUTION

# %% check="result_dtype"
check("result_dtype")

# %% [markdown]
# ## Gradients of reductions
#
# *"What is the gradient of a maximum, and what if two entries are the largest?"* (Lesson 2, *Predict, then run*.)
#
# Whoever reads a model's gradients needs those of five reductions by heart: sum, sum of squares, mean, maximum and
# norm. For the first three a formula holds everywhere. The other two have a place where there is no gradient at all,
# and PyTorch has to choose one:

# %%
def gradient_of(reduce, values: list[float]) -> list[float]:
    x = torch.tensor(values, requires_grad=True)
    reduce(x).backward()
    return x.grad.tolist()


print(gradient_of(torch.max, [1.0, 5.0, 5.0]))
print(gradient_of(torch.norm, [3.0, 4.0]), gradient_of(torch.norm, [0.0, 0.0]))

# %% [markdown]
# On a tie, `max` over the whole tensor shares the gradient evenly. (`max(dim=0)` returns an index as well, and sends
# everything there.) At zero, the norm's formula would be 0/0, and a single NaN would ruin a training run; PyTorch gives
# 0.

# %% [markdown]
# ### Exercise: reduction_gradient
#
# Write `reduction_gradient(kind, values)`: the gradient, as a list of floats, of a reduction of the 1-D tensor of these values, at
# least one. The kind is `"sum"`, `"square_sum"` (the sum of squares), `"mean"`, `"max"` or `"norm"` (the Euclidean one).
#
# ```
# reduction_gradient("mean", [1.0, 5.0])        # [0.5, 0.5]
# reduction_gradient("norm", [3.0, 4.0])        # [0.6, 0.8]
# ```

# %% exercise="reduction_gradient" points=2
def reduction_gradient(kind: str, values: list[float]) -> list[float]:
    """The gradient of sum, square_sum, mean, max or norm."""
    ### BEGIN SOLUTION
    if kind == "sum":
        return [1.0 for _ in values]
    if kind == "square_sum":
        return [2.0 * v for v in values]
    if kind == "mean":
        return [1.0 / len(values) for _ in values]
    if kind == "max":
        ties = values.count(max(values))
        return [1.0 / ties if v == max(values) else 0.0 for v in values]
    norm = math.hypot(*values)
    return [v / norm if norm > 0 else 0.0 for v in values]
    ### END SOLUTION

# %% check="reduction_gradient"
check("reduction_gradient")

# %% [markdown]
# ## Second backward, in place, detach
#
# *"Why does a second `backward` raise, and does it always?"* (Lesson 2, *What the graph keeps* and *Writing in place*.)
#
# Some operations need a tensor again in backward, and save it: `exp` its result, `y * y` its input, `relu_` its result. Adding 1 needs
# nothing. A first rule follows from that: a backward frees what was saved, so a second one raises where something had been saved, and
# only there:

# %%
def outcome(*steps) -> str:
    x = torch.tensor([0.5, 2.0], requires_grad=True)
    y = x
    try:
        for step in steps:
            result = step(y)
            y = y if result is None else result
    except RuntimeError as error:
        return "raises: " + str(error).split(" (")[0][:70]
    return f"x.grad is {x.grad}"


def backward(y: Tensor) -> None:
    y.sum().backward()


print(outcome(lambda y: y + 1, backward, backward))
print(outcome(torch.exp, backward, backward))

# %% [markdown]
# And a write in place raises *in backward*, if it hit a saved tensor. The write itself passes, unless its target is a
# leaf that requires grad and the write is recorded:

# %%
print(outcome(torch.exp, lambda y: y.add_(1)))
print(outcome(torch.exp, lambda y: y.add_(1), backward))
print(outcome(lambda y: y * y, lambda y: y.add_(1), backward))
print(outcome(lambda y: y.add_(1)))

# %% [markdown]
# Three ways to leave the graph are mixed up again and again. `detach()` gives the same numbers in the same memory,
# without a history; the original keeps its own. Under `torch.no_grad()` nothing is recorded, so new results have no
# history, but a write into an *old* tensor still changes it, and its version. `torch.inference_mode()` goes further:
# what is made in it can never be saved for a backward later. It may be added to what is recorded; a product with it
# raises.

# %%
x = torch.tensor([0.5, 2.0], requires_grad=True)
with torch.no_grad():
    quiet = x * 2
with torch.inference_mode():
    frozen = x * 2
print(quiet.requires_grad, frozen.requires_grad, frozen.is_inference())
print((quiet * x).sum())
try:
    (frozen * x).sum()
except RuntimeError as error:
    print(str(error)[:70])

# %% [markdown]
# ### Exercise: backward_outcome
#
# It all begins with `x = torch.tensor([0.5, 2.0], requires_grad=True)` and `y = x`. Then come steps, in the order of a list:
#
# | step | runs | saves for backward |
# |---|---|---|
# | `exp` | `y = y.exp()` | its result |
# | `square` | `y = y * y` | its input |
# | `add` | `y = y + 1` | nothing |
# | `relu_` | `y.relu_()` | its result |
# | `add_` | `y.add_(1)` | nothing |
# | `no_grad_add_` | `with torch.no_grad(): y.add_(1)` | nothing |
# | `detach` | `y = y.detach()` | |
# | `requires_grad_` | `y.requires_grad_()` | |
# | `backward` | `y.sum().backward()` | |
# | `retain` | `y.sum().backward(retain_graph=True)` | |
#
# Write `backward_outcome(steps)`: `"raises"` if one of the steps raises, else `"gradient"` if `x.grad` is a tensor in the end, else
# `"none"`.
#
# ```
# backward_outcome(["exp", "backward"])                # "gradient"
# backward_outcome(["add", "backward", "backward"])    # "gradient"
# backward_outcome(["exp", "detach"])                  # "none"
# ```

# %% exercise="backward_outcome" points=3
def backward_outcome(steps: list[str]) -> str:
    """Whether x.grad is a tensor after these steps, or None, or one of them raises."""
    ### BEGIN SOLUTION
    recording = is_leaf = reaches_x = True
    saved_y = something_saved = spoiled = freed = found = False
    for step in steps:
        if step == "detach" or (step == "requires_grad_" and not recording):
            recording = step == "requires_grad_"
            is_leaf, reaches_x = True, False
            saved_y = something_saved = spoiled = freed = False
        elif step in ("backward", "retain"):
            if not recording or spoiled or freed:
                return "raises"
            found = found or reaches_x
            freed = something_saved and step == "backward"
        elif recording and step in ("add_", "relu_", "no_grad_add_"):
            if is_leaf and step != "no_grad_add_":
                return "raises"
            spoiled = spoiled or saved_y
            saved_y = step == "relu_"
            something_saved = something_saved or saved_y
        elif recording and step != "requires_grad_":
            is_leaf, saved_y = False, step == "exp"
            something_saved = something_saved or step != "add"
    return "gradient" if found else "none"
    ### END SOLUTION

# %% check="backward_outcome"
check("backward_outcome")

# %% [markdown]
# ## What a module knows
#
# *"What is the difference between a parameter, a buffer and a plain tensor attribute?"* (Lesson 3, *What a module remembers* and
# *Buffers: state that is not trained*.)
#
# A layer in a Python list is not trained, is not saved, and stays on the CPU. At first no line raises: the loss is just
# a little worse than it should be, until the model is moved to a GPU and the layer stays behind.

# %%
class Listed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = [nn.Linear(2, 2)]
        self.scale = torch.ones(2)
        self.mean = nn.Buffer(torch.zeros(2))


model = Listed()
print(dict(model.named_parameters()), list(model.state_dict()))
model.to(torch.float64)
print(model.layers[0].weight.dtype, model.scale.dtype, model.mean.dtype)

# %% [markdown]
# A module registers an attribute if it is a `Parameter`, a `Buffer` or a `Module` at the moment of assignment; a list
# of modules is none of these. `.to` moves whatever is registered. All of it goes into the `state_dict`, except the
# buffers with `persistent=False`. Only the parameters are trained: the module's own, and those of the modules in it.

# %% [markdown]
# ### Exercise: registered
#
# Write `registered(attributes)`, where `attributes` is a list of pairs `(name, kind)`: a module gets an attribute of each name. The
# kinds are `"parameter"`, `"tensor"`, `"buffer"`, `"non-persistent buffer"`, `"module"` (an `nn.Linear`), `"list of modules"` and
# `"ModuleList"`. Return a dict of three lists of names, in any order: `"parameters"` (those that are parameters, or contain some),
# `"state_dict"` (those that are in it, themselves or by what they contain) and `"moved"` (by `.to`).
#
# ```
# registered([("w", "parameter"), ("t", "tensor")])
# # {"parameters": ["w"], "state_dict": ["w"], "moved": ["w"]}
# ```

# %% exercise="registered" points=1
def registered(attributes: list[tuple[str, str]]) -> dict[str, list[str]]:
    """Which attributes are trained, saved and moved."""
    ### BEGIN SOLUTION
    unknown = ("tensor", "list of modules")
    moved = [pair for pair in attributes if pair[1] not in unknown]
    saved = [pair for pair in moved if pair[1] != "non-persistent buffer"]
    trained = [pair for pair in saved if pair[1] != "buffer"]
    found = {"parameters": trained, "state_dict": saved, "moved": moved}
    return {place: [name for name, _ in pairs] for place, pairs in found.items()}
    ### END SOLUTION

# %% check="registered"
check("registered")

# %% [markdown]
# ## Workers and samples
#
# *"You give an iterable dataset four workers. How much data does one epoch see?"* (Lesson 4, *Streams over workers and ranks*.)
#
# The loss curve of an epoch that sees everything four times looks splendid. For a table (a map-style dataset), one sampler in the main
# process gives each index to one worker. A stream has no indices: every worker runs a copy of its `__iter__`, from the start, and
# makes batches of its own. So it has to be *sharded*: worker k of w takes every w-th sample, beginning with k.

# %% tags=["demo"]
for sharded in (False, True):
    for drop_last in (False, True):
        options = {"iterable": True, "sharded": sharded, "drop_last": drop_last}
        seen = ask.pytorch("samples_seen", 10, 4, workers=2, **options)
        print(f"10 samples, two workers, {sharded = }, {drop_last = }: {seen}")

# %% [markdown]
# Sharded and with `drop_last`, each worker has 5 samples, makes one batch of 4 and drops the fifth. Together they lose two.
# A single process happens to lose two of ten as well: it makes batches of 4, 4 and 2 samples, and drops the last one.

# %% [markdown]
# ### Exercise: samples_seen
#
# Write `samples_seen(n, batch_size, *, workers, iterable, sharded, drop_last)`: how many samples one pass over the `DataLoader`
# yields. The dataset has n samples (n may be 0); `workers` is `num_workers`; `iterable` says whether it is a stream, and `sharded`
# whether the stream is sharded over its workers as above (without workers there is nothing to shard). A table takes no notice of
# `sharded`.
#
# ```
# samples_seen(10, 4, workers=0, iterable=True, sharded=False, drop_last=True)     # 8
# ```

# %% exercise="samples_seen" points=2
def samples_seen(
    n: int,
    batch_size: int,
    *,
    workers: int,
    iterable: bool,
    sharded: bool,
    drop_last: bool,
) -> int:
    """How many samples a pass over a DataLoader yields."""
    ### BEGIN SOLUTION
    readers = workers if iterable and workers > 0 else 1
    step = readers if sharded and iterable else 1
    total = 0
    for reader in range(readers):
        own = len(range(reader if step > 1 else 0, n, step))
        total += own - own % batch_size if drop_last else own
    return total
    ### END SOLUTION

# %% check="samples_seen"
check("samples_seen")

# %% [markdown]
# ## Strict loading
#
# *"You load a checkpoint with `strict=False` and nothing raises. What can still be wrong?"* (Lesson 9, *Loading: what, where, and in
# which mode* and *Names that do not fit*.)

# %%
target = nn.Linear(3, 2)
print(target.load_state_dict({"module.weight": torch.ones(2, 3)}, strict=False))
try:
    target.load_state_dict({"weight": torch.ones(5, 3)}, strict=False)
except RuntimeError as error:
    print(error)

# %% [markdown]
# In the first call nothing was loaded, because of a prefix, and the only sign of it is a returned value that most programs throw away.
# `strict` is about names: *missing* are those that the model wants and the file lacks, *unexpected* those that the file has and the
# model does not want. If both have a name, but with different shapes, it raises whether `strict` or not.

# %% [markdown]
# ### Exercise: load_outcome
#
# Write `load_outcome(saved, wanted, strict)`: `saved` and `wanted` are dicts from names to shapes (of one dimension or
# more), of a file and of a model. Return a dict with `"missing"` and `"unexpected"`, two lists of names in any order,
# and `"raises"`, whether `load_state_dict` raises. Report the names even when it raises.
#
# ```
# load_outcome({"w": (2,)}, {"w": (2,), "b": (1,)}, False)
# # {"missing": ["b"], "unexpected": [], "raises": False}
# ```

# %% exercise="load_outcome" points=1
def load_outcome(
    saved: dict[str, tuple[int, ...]], wanted: dict[str, tuple[int, ...]], strict: bool
) -> dict[str, object]:
    """What load_state_dict reports, and whether it raises."""
    ### BEGIN SOLUTION
    missing = [name for name in wanted if name not in saved]
    unexpected = [name for name in saved if name not in wanted]
    clash = any(saved.get(name, shape) != shape for name, shape in wanted.items())
    raises = clash or (strict and len(missing) + len(unexpected) > 0)
    return {"missing": missing, "unexpected": unexpected, "raises": raises}
    ### END SOLUTION

# %% check="load_outcome"
check("load_outcome")

# %% [markdown]
# ## What autocast returns
#
# *"Under bfloat16 autocast, which tensors are bfloat16?"* (Lesson 7, *What autocast casts, and what it keeps*.)
#
# "All of them" costs people days. Autocast casts the inputs of *matrix products* and convolutions to bfloat16, so their results are
# bfloat16. The inputs of some other operations it casts to float32. Everything else it leaves alone, and there promotion decides:

# %%
full, half = torch.ones(4, 4), torch.ones(4, 4, dtype=torch.bfloat16)
with torch.autocast("cpu", torch.bfloat16):
    print(torch.matmul(full, full).dtype, (full + half).dtype, half.relu().dtype)
    print(half.softmax(-1).dtype, F.mse_loss(half, half).dtype)

# %% [markdown]
# On a GPU the last line reads float32 twice: CUDA's list of operations that run in float32 is longer. These are the operations of the
# quiz, grouped by what they do. The groups are not autocast's lists: find out for yourself which operation is in which list, on the
# CPU and on CUDA:
#
# | group | operations |
# |---|---|
# | of two tensors | `matmul` `linear` `conv2d` `add` `mul` `cat` `mse_loss` |
# | that add up or explode | `exp` `softmax` `sum` `layer_norm` `prod` `mean` |
# | of one entry at a time | `relu` |
#
# No GPU is needed to ask about CUDA's lists: fake tensors, which have a device and no numbers, go the way that CUDA
# tensors would go.

# %% tags=["demo"]
for device in ("cpu", "cuda"):
    for op in ("exp", "relu"):
        said = ask.pytorch("autocast_result", op, (torch.bfloat16,), device)
        print(f"{op} of bfloat16 on {device}: {said}")

# %% [markdown]
# ### Exercise: autocast_result
#
# Write `autocast_result(op, dtypes, device_type)`: the dtype of the result of an operation of the table under bfloat16 autocast.
# `dtypes` is a tuple with the dtypes of its one or two tensors, each float32 or bfloat16; `device_type` is `"cpu"` or `"cuda"`.
#
# ```
# autocast_result("matmul", (torch.float32, torch.float32), "cpu")    # torch.bfloat16
# autocast_result("relu", (torch.bfloat16,), "cuda")                  # torch.bfloat16
# ```

# %% exercise="autocast_result" points=2
def autocast_result(
    op: str, dtypes: tuple[torch.dtype, ...], device_type: str
) -> torch.dtype:
    """The dtype of an operation's result under bfloat16 autocast."""
    ### BEGIN SOLUTION
    to_float32 = {"mse_loss", "prod"}
    if device_type == "cuda":
        to_float32 |= {"exp", "softmax", "sum", "layer_norm"}
    if op in {"matmul", "linear", "conv2d"}:
        return torch.bfloat16
    if op in to_float32 or torch.float32 in dtypes:
        return torch.float32
    return torch.bfloat16
    ### END SOLUTION

# %% check="autocast_result"
check("autocast_result")

# %% [markdown]
# ## A scale that finds itself
#
# *"How does GradScaler find its scale?"* (Lesson 7, *A scale that finds itself*.)
#
# A skipped step in the log looks like a fault, but is not one: the scaler overflows on purpose now and then, to find
# out how high it may go. Here it may grow after two good steps, and the gradients are inf in the fifth:

# %%
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
weight = nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([weight], lr=0.1)
for gradient in (1.0, 1.0, 1.0, 1.0, torch.inf, 1.0):
    scaler.scale(torch.ones(1))
    weight.grad = torch.full((1,), gradient)
    scaler.step(optimizer)
    scaler.update()
    print(gradient, scaler.get_scale())

# %% [markdown]
# It doubles after `growth_interval` good steps *in a row*, and the count starts again. An overflow halves it at once, and the count
# starts again, too.

# %% [markdown]
# ### Exercise: scaler_scales
#
# Write `scaler_scales(finite, *, scale, interval)`: the scale after each step, as a list of floats. `finite` says of each step
# whether its gradients were finite, `scale` is the first scale, `interval` the `growth_interval`. Growth factor and backoff factor
# are 2 and 0.5, as they are unless you change them. The scales stay far below the end of float32, where GradScaler would stop
# doubling.
#
# ```
# scaler_scales([True, True, False], scale=8.0, interval=2)    # [8.0, 16.0, 8.0]
# ```

# %% exercise="scaler_scales" points=1
def scaler_scales(finite: list[bool], *, scale: float, interval: int) -> list[float]:
    """GradScaler's scale after each step."""
    ### BEGIN SOLUTION
    scales, in_a_row = [], 0
    for is_finite in finite:
        in_a_row = in_a_row + 1 if is_finite else 0
        if not is_finite:
            scale *= 0.5
        elif in_a_row == interval:
            scale, in_a_row = scale * 2.0, 0
        scales.append(scale)
    return scales
    ### END SOLUTION

# %% check="scaler_scales"
check("scaler_scales")

# %% [markdown]
# ## How often is it compiled?
#
# *"Your compiled model gets a new sequence length in every batch. How often is it compiled?"* (Lesson 8, *Guards, recompiles and
# dynamic shapes*.)
#
# A compilation of a real model takes seconds to minutes, so if you pad to five lengths, you want to know whether you pay for five
# compilations. A backend that does nothing but count shows it:

# %% tags=["demo"]
import torch._dynamo


def count(sizes: list[int]) -> list[int]:
    """How often it has been compiled after each call."""
    torch._dynamo.reset()
    compiled, after = 0, []

    def counting(graph, inputs):
        nonlocal compiled
        compiled += 1
        return graph.forward

    def double(x: Tensor) -> Tensor:
        return 2 * x

    call = torch.compile(double, backend=counting)
    for size in sizes:
        call(torch.ones(size))
        after.append(compiled)
    return after


print(count([4, 4, 6, 8, 5]))
print(count([4, 1, 6, 1, 8]))

# %% [markdown]
# The first compilation is for exactly the size that came. When another comes, the compiler concludes that this
# dimension varies and compiles once more, with the size as a variable; that holds for all ordinary sizes. But it never
# makes a variable of 0 or 1: where a size is 1, broadcasting might set in, and where it is 0, there is nothing to do.
#
# What if the *first* size is 0 or 1? Try it with `count` before you write.

# %% [markdown]
# ### Exercise: compilations
#
# Write `compilations(sizes)`: how often a function of one 1-D tensor is compiled when it is called with these sizes, in this order,
# with default settings.
#
# ```
# compilations([4, 4, 6])      # 2
# ```

# %% exercise="compilations" points=2
def compilations(sizes: list[int]) -> int:
    """How often torch.compile compiles for these sizes."""
    ### BEGIN SOLUTION
    small = {size for size in sizes if size < 2}
    large = {size for size in sizes if size >= 2}
    begins_large = bool(sizes) and sizes[0] in large
    return len(small) + min(len(large), 1 + begins_large)
    ### END SOLUTION

# %% check="compilations"
check("compilations")

# %% [markdown]
# ## The gradient of many ranks
#
# *"Is DDP's gradient the gradient of one big batch?"* (Lesson 12, on distributed training.)
#
# With DDP, every process (a *rank*) runs backward on its own shard of the batch. Then one thing is done to the gradients: they are
# averaged over the ranks. A rank with a single sample has as much weight as one with a hundred.
#
# You can see that mean without any processes. Here each sample's loss is `g * w`, so that its gradient is the number g:

# %%
def gradient(samples: list[float]) -> float:
    w = nn.Parameter(torch.zeros(()))
    (w * torch.tensor(samples)).mean().backward()
    return w.grad.item()


shards = [[1.0, 2.0, 3.0], [10.0]]
print("each rank:", [gradient(shard) for shard in shards])
print("DDP:", sum(gradient(shard) for shard in shards) / 2)
print("one batch:", gradient([1.0, 2.0, 3.0, 10.0]))

# %% [markdown]
# 6 against 4, and no error anywhere. The check computes it the same way, by autograd for each rank and a mean over ranks, since that
# is all that DDP does to gradients; a test of this course compares it with two real processes.

# %% [markdown]
# ### Exercise: ddp_gradient
#
# Write `ddp_gradient(shards)`, where `shards` holds for each rank the list of its samples' gradients, at least one. The loss on each
# rank is a mean over its samples. Return a pair of floats: the gradient that DDP applies, and that of the whole batch in one process,
# whose loss is the mean over all samples.
#
# ```
# ddp_gradient([[1.0, 2.0, 3.0], [10.0]])     # (6.0, 4.0)
# ```

# %% exercise="ddp_gradient" points=1
def ddp_gradient(shards: list[list[float]]) -> tuple[float, float]:
    """DDP's gradient, and that of the whole batch."""
    ### BEGIN SOLUTION
    of_ranks = [sum(shard) / len(shard) for shard in shards]
    count = sum(len(shard) for shard in shards)
    return sum(of_ranks) / len(of_ranks), sum(map(sum, shards)) / count
    ### END SOLUTION

# %% check="ddp_gradient"
check("ddp_gradient")

# %% [markdown]
# ## One question to be answered in words
#
# Interviews end with a question that no function answers. Here is one; no check reads it, but in a class your
# instructor does, with a rubric beside it. If you learn alone, write it all the same, and then compare your text with
# lesson 4.
#
# *"We have 2 TB of images with labels, in one bucket, and a machine with 64 GB of memory, 16 cores and 4 GPUs. Design
# the pipeline from the bucket to the batches. What do you store, in which form? Who reads what, in which order? How do
# you know that the GPUs are not waiting, and what happens when the machine goes down in the middle of the third
# epoch?"*
#
# Half a page is enough. Say what you would measure, and what you would give up.

# %% [markdown] question="larger_than_memory" points=6
# ### Design question: larger_than_memory
#
# ### BEGIN SOLUTION
# One point for each of these, half of one where it is named without a reason:
#
# 1. **Storage.** Few large files (shards of about 100 MB to 1 GB, as tar files or a columnar or memory-mapped format) in place of
#    millions of small ones, because each opening of a small file costs a round trip; images stay compressed.
# 2. **Order.** A stream cannot be shuffled as a whole: the order of the shards is shuffled in each epoch, and samples in a buffer. Says
#    that this is less random, or that a random-access format needs an index instead.
# 3. **Sharding.** Each shard goes to one rank and one of its workers, by seed and epoch, so that nothing is read twice. Says what
#    happens when the numbers do not divide: ranks with unequal batches hang or are padded.
# 4. **Throughput.** Workers decode and augment, with prefetching, pinned memory and `non_blocking` copies; the number of workers is
#    found by measuring samples per second and the time for which a step waits, not guessed.
# 5. **Resuming.** The checkpoint has the epoch, the place in the stream (shards done, or samples seen) and the random states
#    beside model and optimizer. Says what is repeated or lost if only the epoch is stored.
# 6. **Leaks and limits.** The split is made by group before sharding, statistics come from the training part, and memory is bounded by
#    workers × prefetch × batch size, which the answer estimates for 64 GB.
# ### END SOLUTION

# %% [markdown]
# ## PyTorch, TensorFlow, JAX, Lightning
#
# *"Why PyTorch?"* is asked as well. There is nothing to check here; have an opinion, and these facts behind it.
#
# **PyTorch** records what Python runs, so a loop, an `if` or a breakpoint in the model is plain Python, and the graph
# is new in each step. `torch.compile` reads the same plain Python, and makes graphs of it before it runs. State lives
# in objects: modules hold weights, optimizers hold moments, and many operations have a version that works in place.
#
# **TensorFlow** began with a graph that was defined first and run later. Since version 2 it runs eagerly too: gradients are recorded
# by a `GradientTape`, and `tf.function` traces a function into a graph. Its high-level interface is Keras, which from version 3
# on runs on PyTorch and JAX as well.
#
# **JAX** transforms pure functions: `grad`, `vmap` and `jit` take a function and return one. Arrays are immutable,
# weights are handed in and out, and random numbers come from keys that are passed along, so nothing is hidden.
# `torch.func` (lesson 2) has `grad` and `vmap` for PyTorch; the part of `jit` is played by `torch.compile`. JAX
# compiles through XLA and is at home on TPUs.
#
# **Lightning** is not a fourth framework but a training loop around PyTorch. You write a `LightningModule` with
# `training_step` and `configure_optimizers`, and its `Trainer` brings loop, devices, precision, accumulation,
# checkpoints and logging: what lessons 5 to 12 had you write by hand. It saves typing, and whoever knows what it does
# can also debug it.
#
# ## What you have predicted
#
# | question | rule |
# |---|---|
# | broadcasting | align at the right; only 1 is stretched, even to 0 |
# | `view` | strides must be able to express the shape; neighbours join if outer stride = inner size × inner stride; the stride of a size of 1 does not count |
# | promotion | category, then rank, then width |
# | reductions | ties share; the norm's gradient at zero is 0 |
# | backward | what was saved must be there and unchanged |
# | modules | registered is moved, persistent is saved, parameters are trained |
# | workers | a copy of the stream for each, and batches of their own |
# | loading | `strict=False` excuses names, never shapes |
# | autocast | products narrow, the device's list wide, promotion for the rest |
# | GradScaler | doubles after an interval, halves at once, counts anew |
# | compiling | once fixed, once variable; 0 and 1 each compiled separately |
# | DDP | a mean over ranks |
#
# Say each of the twelve answers aloud once, to somebody or to the wall. What you cannot say in three sentences, you do not know
# yet; the start page will remind you of the ones that went wrong.
