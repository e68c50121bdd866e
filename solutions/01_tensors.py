# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 1 · Tensors
#
# A tensor is a grid of numbers of one kind, with any number of axes. Everything in PyTorch is made of them: images,
# sentences, weights, gradients, losses. Most of the errors you will meet in your first month are about a tensor's
# shape, dtype or device. And many of the bugs that raise *no* error are about which numbers a tensor shares with
# another one.
#
# So this lesson looks at tensors closely, and slowly. It begins with what you will do with them all day: images,
# broadcasting, reductions, indexing. Then it looks underneath, at how tensors lie in memory. There are twelve small
# functions for you to write along the way.

# %% [markdown]
# ## How this notebook works
#
# Run the cells from top to bottom with Shift+Enter. The demonstration cells are short; change them and run them
# again: that is what they are for.
#
# An exercise is a function whose body is missing. Write it, run its cell, then run the cell below it,
# `check("describe")` for instance. A check has three outcomes:
#
# - **right**: done, go on;
# - **wrong**: it shows the input, what came back and what was wanted, and explains the mistake if it recognises it;
# - **not attempted**: the cell is unchanged, and its function only raises `Unattempted`. Nothing is wrong with that;
#   you can run the whole notebook at any time and come back later.
#
# Stuck? Type `hint("describe")` in any cell. The first call gives a nudge, each further call a little more. And
# `case("describe")` returns the inputs of the first case that failed, so that you can call your function on them.
#
# Most answers are also checked on a second device. Without a GPU that is a simulated one: it keeps its values on the
# CPU, but refuses to mix with CPU tensors, just as a GPU would. The habit it teaches is simple: inside a function,
# create new tensors on the device of the input.
#
# Nothing here needs the internet.

# %% tags=["setup"]
import numpy as np
import torch
from torch import Tensor

from torchcourse import Unattempted, case, check, hint

# %% tags=["demo"]
# %load_ext torchcourse

# %% [markdown]
# ## What a tensor is
#
# A tensor knows three things about itself that you will ask about all day: its *shape* (how many entries along each
# axis), its *dtype* (what kind of number an entry is) and its *device* (whose memory holds the entries).

# %%
table = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
table.shape, table.dtype, table.device

# %% [markdown]
# `.to(device)` gives you a copy on another device. A GPU is called `"cuda"` if it is made by NVIDIA or AMD,
# `"mps"` if by Apple and `"xpu"` if by Intel. One odd device exists on every machine, `"meta"`: it keeps the shape
# and the dtype and drops the numbers, which is handy for trying out shapes without spending memory.

# %%
table.to("meta")

# %% [markdown]
# The length of the shape is the number of axes, `ndim`. The product of the shape is the number of entries, `numel()`.
# Python's `len` is neither: it is the size of the first axis only. PyTorch's own word for an axis is *dimension*: its
# arguments are called `dim`, and its error messages speak of dimensions, as the checks of this course do.

# %%
table.ndim, table.numel(), len(table)

# %% [markdown]
# A tensor may have no axes at all. Then it holds a single number, and `item()` gives that number to Python. A loss is
# such a tensor.

# %%
loss = torch.tensor(0.25)
loss.shape, loss.numel(), loss.item()

# %% [markdown]
# Each entry takes `element_size()` bytes: 4 for `float32`, 8 for `int64`, 1 for `uint8`. The entries themselves lie
# in one plain row of memory, the *storage*, and a small tensor may be a view of a large storage. Here is a slice of
# three entries that keeps a million alive:

# %%
million = torch.zeros(1_000_000, dtype=torch.uint8)
slice_of_it = million[:3]
slice_of_it.numel() * slice_of_it.element_size(), slice_of_it.untyped_storage().nbytes()

# %% [markdown]
# So there are two honest answers to "how big is it?": the bytes that its entries take, and the bytes that its storage
# takes. The exercise asks for the first one.
#
# A tensor that shares another one's storage is called a *view* of it, and a write to one shows in the other. We will
# take views apart later in this lesson. Until then it is enough to know that a slice is a view, and that `clone()`
# gives you a copy.

# %% [markdown]
# ### Exercise: describe
#
# Write `describe(t)`: a dict with the basic facts about `t`, without its values. Its keys: `shape` (a `tuple`),
# `dtype`, `device` (as a string, `str(t.device)`), `ndim`, `numel`, `contiguous` (a bool; ask `t.is_contiguous()`; we
# will come to its meaning below) and `nbytes` (the bytes that its own entries take, not its storage).
#
# ```
# describe(torch.zeros(2, 3))
# {'shape': (2, 3), 'dtype': torch.float32, 'device': 'cpu',
#  'ndim': 2, 'numel': 6, 'contiguous': True, 'nbytes': 24}
# ```

# %% exercise="describe" points=1
def describe(t: Tensor) -> dict[str, object]:
    """Return the basic facts about t, without its values."""
    ### BEGIN SOLUTION
    return {
        "shape": tuple(t.shape),
        "dtype": t.dtype,
        "device": str(t.device),
        "ndim": t.ndim,
        "numel": t.numel(),
        "contiguous": t.is_contiguous(),
        "nbytes": t.numel() * t.element_size(),
    }
    ### END SOLUTION

# %% check="describe"
check("describe")

# %% [markdown]
# ## Making tensors
#
# `torch.tensor` copies what you give it. Other functions take a shape, or the ends of a range.

# %%
print(torch.zeros(2, 3))
print(torch.eye(3))
print(torch.arange(0, 10, 2), torch.linspace(0, 1, 5))

# %% [markdown]
# `arange` leaves its end out, `linspace` includes it. With a step such as 0.1, which has no exact binary form,
# rounding decides how many entries `arange` makes; 1.3 should not be in here:

# %%
torch.arange(1, 1.3, 0.1)

# %% [markdown]
# For fractions use `linspace`, and say how many you want.
#
# The `_like` functions take the shape, dtype *and device* from another tensor. They are the easiest way to write a
# function that works wherever its input lives. Where no `_like` fits, pass `device=` yourself.

# %%
pixels = torch.tensor([[0, 128], [255, 64]], dtype=torch.uint8)
print(torch.zeros_like(pixels))
print(torch.ones(2, device=pixels.device))

# %% [markdown]
# Random numbers come from a global generator, or from one of your own. Use your own whenever a result should be the
# same tomorrow: nothing else draws from it.

# %%
generator = torch.Generator().manual_seed(0)
first = torch.randn(3, generator=generator)
again = torch.randn(3, generator=torch.Generator().manual_seed(0))
print(first, torch.equal(first, again))

# %% [markdown]
# **In short:** say what you want (shape, dtype, device), and prefer `_like` and a generator of your own.

# %% [markdown]
# ## Dtypes: what fits in an entry
#
# | dtype | what it is for |
# |---|---|
# | `float32` | the default for weights, activations, losses |
# | `bfloat16` | half the memory, the range of float32, few digits: training on recent hardware |
# | `float16` | half the memory, more digits than bfloat16, but a small range: needs care (lesson 7) |
# | `float64` | checking gradients, statistics; slow on most GPUs |
# | `int64` | class labels, token ids, anything that indexes |
# | `bool` | masks |
# | `uint8` | images as they come from a file, 0 to 255 |
#
# Range and precision are two different things. Below, `up to` is the largest value, and `gap` the distance from 1 to
# the next number after it:

# %%
for dtype in (torch.float32, torch.bfloat16, torch.float16):
    info = torch.finfo(dtype)
    print(
        f"{str(dtype):15} {info.bits} bits   up to {info.max:.1e}   gap after 1: "
        f"{info.eps:.1e}"
    )

# %% [markdown]
# When two dtypes meet, the result takes the *kind* that can hold both, in the order bool, integer, float, complex. A
# plain Python number only ever decides the kind, never the *width* (the number of bits of an entry), so a `float16`
# tensor stays `float16` when you add 1.5. Nor does a tensor without axes, such as a loss, change the width when it
# meets a tensor with axes of the same kind. Where such a tensor raises the kind, the result takes that tensor's width:

# %%
print((torch.tensor([1, 2]) * 0.5).dtype)
print((torch.ones(2, dtype=torch.float16) + 1.5).dtype)
print((torch.ones(2, dtype=torch.float32) + torch.ones(2, dtype=torch.float64)).dtype)
print(
    (torch.ones(2, dtype=torch.float32) + torch.tensor(1.5, dtype=torch.float64)).dtype
)
print((torch.tensor([1, 2]) + torch.tensor(1.5, dtype=torch.float64)).dtype)

# %% [markdown]
# The sum, difference or product of two integer tensors is an integer tensor again, and a result that does not fit
# wraps around without a word. Images are where this hurts:

# %%
bright = torch.tensor([200], dtype=torch.uint8)
brighter = torch.tensor([100], dtype=torch.uint8)
bright + brighter, bright.to(torch.float32) + brighter

# %% [markdown]
# Division is the exception: `/` always gives floats (`//` keeps integers). And `mean` refuses integers, since it
# would have to guess the dtype of its result; convert first.

# %%
print(torch.tensor([1, 2]) / 2, torch.tensor([1, 2]) // 2)
try:
    torch.tensor([1, 2]).mean()
except RuntimeError as error:
    print(error)

# %% [markdown]
# `.to(dtype)` converts. A conversion to integers cuts off the fraction; it does not round.

# %%
torch.tensor([2.7, -2.7]).to(torch.int64)

# %% [markdown]
# One surprise deserves a cell of its own. Python floats become `float32`, but a NumPy array of floats arrives as
# `float64`: NumPy's own default is `float64`, and PyTorch keeps an array's dtype. Weights are `float32`. Entry by
# entry the two mix, and the result is `float64`, twice as large and slow on most GPUs; in a matrix product, which is
# what a layer does, they do not mix at all.

# %%
from_list, from_array = torch.tensor([0.1, 0.2]), torch.tensor(np.array([0.1, 0.2]))
print(from_list.dtype, from_array.dtype, from_array.to(torch.float32).dtype)
print((from_list * from_array).dtype)
try:
    from_list @ from_array
except RuntimeError as error:
    print(error)

# %% [markdown]
# **In short:** the kind is promoted; within a kind, the tensors that have axes decide the width; integers wrap; and
# NumPy floats are `float64` until you convert them.

# %% [markdown]
# ## Images: channels first
#
# Image libraries, cameras and matplotlib keep an image as height, width, channels: `(H, W, C)`, one byte per channel.
# PyTorch's layers want channels first, `(C, H, W)`, in floats; with a batch in front, `(N, C, H, W)`, "NCHW".
#
# Both have the same number of entries, so `reshape` can turn one shape into the other. It is the wrong tool.
# `reshape` keeps the entries in reading order and cuts them up differently; `permute` moves the axes and keeps each
# number with its pixel. Here is an image turned to channels first in both ways, and drawn again.

# %% tags=["demo"]
from torchcourse.demos import images

photo = images.letter()
print(photo.shape, photo.dtype)
permuted, reshaped = photo.permute(2, 0, 1), photo.reshape(3, 24, 36)
print(permuted.shape, reshaped.shape)

# %% tags=["demo"]
images.draw(
    {
        "photo": photo,
        "permute": permuted.permute(1, 2, 0),
        "reshape": reshaped.permute(1, 2, 0),
    }
)

# %% [markdown]
# The shapes agree, and one of the two images is ruined. No error says so: a network would train on the confetti and
# just perform badly.
#
# `movedim(source, destination)` is `permute` when you want to move one axis and leave the rest in order; negative
# numbers count from the end, so it does not matter whether there is a batch axis in front. Both return views, in
# which the numbers stay where they were in memory; `contiguous()` makes a copy in which they lie in the new order.

# %%
stack = torch.zeros(5, 24, 36, 3)
print(stack.movedim(0, -1).shape, stack.movedim(-2, 0).shape)

# %% [markdown]
# **In short:** the same shape does not mean the same thing. To change the order of axes, permute.

# %% [markdown]
# ### Exercise: image_to_chw
#
# Write `image_to_chw(image)`: from a `uint8` image `(H, W, C)`, or a batch `(N, H, W, C)`, to a contiguous `float32`
# tensor `(C, H, W)` or `(N, C, H, W)` with values from 0 to 1.
#
# ```
# white = torch.full((2, 4, 3), 255, dtype=torch.uint8)
# image_to_chw(white)    # shape (3, 2, 4), float32, all ones
# ```

# %% exercise="image_to_chw" points=2
def image_to_chw(image: Tensor) -> Tensor:
    """From uint8 (H, W, C) or (N, H, W, C) to contiguous float32 (C, H, W) or
    (N, C, H, W), with values in [0, 1]."""
    ### BEGIN SOLUTION
    channels_first = image.movedim(-1, -3)
    return channels_first.contiguous().to(torch.float32) / 255
    ### END SOLUTION

# %% check="image_to_chw"
check("image_to_chw")

# %% [markdown]
# ## Axes of size one: unsqueeze, squeeze, expand
#
# An axis of size one holds nothing extra, yet it decides how a tensor lines up with others. `unsqueeze(d)` puts one in,
# and so does `None` in an index. `squeeze(d)` takes one out.

# %%
prices = torch.tensor([3.0, 5.0, 8.0])
print(prices.unsqueeze(0).shape, prices.unsqueeze(1).shape, prices[:, None].shape)

# %% [markdown]
# A bare `squeeze()` takes out *every* axis of size one. That works for months, until a batch happens to hold a single
# example: the last batch of an epoch, or the first request from a user.

# %%
batch_of_four, batch_of_one = torch.zeros(4, 1, 28, 28), torch.zeros(1, 1, 28, 28)
print("bare:    ", batch_of_four.squeeze().shape, batch_of_one.squeeze().shape)
print("with dim:", batch_of_four.squeeze(1).shape, batch_of_one.squeeze(1).shape)

# %% [markdown]
# `expand` repeats an axis of size one without copying: every step along it lands on the same number again. `repeat`
# copies. Compare the bytes of their storages:

# %%
row = torch.tensor([[1, 2, 3]])
tall = row.expand(4, 3)
print(tall.untyped_storage().nbytes(), row.repeat(4, 1).untyped_storage().nbytes())

# %% [markdown]
# One number under four names is fine for reading. In-place arithmetic on all of them is refused:

# %%
try:
    tall += 1
except RuntimeError as error:
    print(error)

# %% [markdown]
# But do not rely on that. `zero_()` and a write to a single entry go through; the latter changes all four rows and the
# tensor behind them. `clone()` an expanded tensor before you write to it.

# %%
tall[0, 0] = 9
print(tall, row)

# %% [markdown]
# **In short:** name the axis when you squeeze; `expand` repeats without copying.

# %% [markdown]
# ## Broadcasting: shapes line up from the right
#
# When two shapes differ, PyTorch does the unsqueezing and expanding for you. Write one shape under the other,
# *aligned at the right*. In each pair the sizes must be equal, or one of them must be 1 or missing; the 1 or the
# missing size is stretched. A column plus a row gives a table:

# %%
tens, ones = torch.tensor([[0], [10], [20]]), torch.tensor([1, 2, 3, 4])
tens + ones

# %% tags=["demo"]
from torchcourse.demos import broadcasting, grids

grids.add(tens, ones)

# %% [markdown]
# Nothing is actually repeated in memory; the dashed cells are the same numbers again. Try shapes of your own below:
# `3, 4` with `3` (why does it fail?), `3, 4` with `3, 1`, `8, 1, 6, 1` with `7, 1, 5`, and `5` with `5, 1`.

# %% tags=["demo"]
broadcasting.explore()

# %% [markdown]
# The last pair is the most expensive bug in this lesson. A model returns one prediction per example with shape
# `(4, 1)`, the targets have shape `(4,)`, and their difference is a table of every prediction against every target. Its
# mean is a number, it can be trained on, and it is wrong: these predictions are perfect.

# %%
predictions = torch.tensor([[1.0], [2.0], [3.0], [4.0]])
targets = torch.tensor([1.0, 2.0, 3.0, 4.0])
difference = predictions - targets
print(
    difference.shape,
    (difference**2).mean(),
    ((predictions.squeeze(1) - targets) ** 2).mean(),
)

# %% [markdown]
# The same table is exactly right when you do want to compare everything with everything. For all pairs of `n` and `m`
# things, give one tensor a new second axis and the other a new first axis, and let them stretch.

# %%
mine, yours = torch.tensor([4, 7]), torch.tensor([5, 7, 1])
mine[:, None] == yours[None, :]

# %% [markdown]
# One warning for the exercise. You may know that the squared distance is `|a|² + |b|² - 2 a·b`, which needs only a
# matrix product. It is fast and saves memory, but far from the origin it subtracts large numbers that are nearly
# equal. These two points are 0.01 apart:

# %%
here, there = torch.tensor([1000.0, 1000.0]), torch.tensor([1000.01, 1000.0])
print(
    (here @ here + there @ there - 2 * here @ there).sqrt(),
    (here - there).square().sum().sqrt(),
)

# %% [markdown]
# **In short:** align at the right, stretch the ones, and look at the shapes before you take a mean.

# %% [markdown]
# ### Exercise: pairwise_distances
#
# Write `pairwise_distances(a, b)`: the Euclidean distance from every row of `a`, shape `(n, d)`, to every row of `b`,
# shape `(m, d)`, as a tensor `(n, m)`. Points that coincide have a distance of about zero (at most 1 % of the data's
# scale) and never NaN. Rule: no `cdist`, and no Python loop: the number of torch calls must not grow with `n` or `m`.
#
# ```
# a, b = torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0], [0.0, 0.0]])
# pairwise_distances(a, b)    # [[5., 0.]]
# ```

# %% exercise="pairwise_distances" points=3
def pairwise_distances(a: Tensor, b: Tensor) -> Tensor:
    """Euclidean distance from every row of a to every row of b:
    (n, d), (m, d) to (n, m)."""
    ### BEGIN SOLUTION
    difference = a[:, None, :] - b[None, :, :]  # (n, 1, d) - (1, m, d) -> (n, m, d)
    return torch.linalg.vector_norm(difference, dim=-1)
    ### END SOLUTION

# %% check="pairwise_distances"
check("pairwise_distances")

# %% [markdown]
# ## Reductions
#
# The axis that you name disappears. `sum`, `mean`, `var`, `amax` and the like work along an axis, which is gone
# afterwards. You may name several. With `keepdim=True` the axis stays, with size one.

# %%
marks = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 9.0]])
print(marks.mean(dim=0), marks.mean(dim=1), marks.mean(dim=(0, 1)))
print(marks.mean(dim=1, keepdim=True).shape)

# %% [markdown]
# Why keep it? Because the next step is often to subtract the result from the original, and broadcasting aligns from
# the right. With `(2, 3)` minus `(2,)` you are lucky and get an error. With a square table you get wrong numbers:
# every row below should become `[-1, 0, 1]`, but in the first result the mean of a *row* was subtracted from each
# *column*.

# %%
square = torch.tensor([[1.0, 2.0, 3.0], [11.0, 12.0, 13.0], [21.0, 22.0, 23.0]])
print(square - square.mean(dim=1))
print(square - square.mean(dim=1, keepdim=True))

# %% [markdown]
# A word on `var` and `std`: they divide by `n - 1` unless told otherwise, which is right for estimating a population's
# variance from a sample. Normalisation layers divide by `n`, which gives the *population* variance: `correction=0`.

# %%
marks.var(dim=1), marks.var(dim=1, correction=0)

# %% [markdown]
# ### Exercise: standardize
#
# Write `standardize(x, dim, eps=1e-5)`: `(x - mean) / sqrt(var + eps)`, with mean and population variance taken over
# `dim`, which is an int or a tuple of ints and may be negative. `x` may have any number of axes, and the result has its
# shape. With `dim=-1` this is the heart of layer norm, with `dim=(0, 2, 3)` that of batch norm for images.
#
# ```
# standardize(torch.tensor([[1.0, 3.0], [5.0, 9.0]]), dim=1)    # about [[-1., 1.], [-1., 1.]]
# ```

# %% exercise="standardize" points=2
def standardize(x: Tensor, dim: int | tuple[int, ...], eps: float = 1e-5) -> Tensor:
    """x shifted and scaled to mean 0 and variance 1 over `dim`."""
    ### BEGIN SOLUTION
    mean = x.mean(dim=dim, keepdim=True)
    var = x.var(dim=dim, correction=0, keepdim=True)
    return (x - mean) / torch.sqrt(var + eps)
    ### END SOLUTION

# %% check="standardize"
check("standardize")

# %% [markdown]
# The next exercise has a second trap, which is not about shapes. Softmax turns scores into positive numbers that sum
# to one: `exp` of each score, divided by the sum of all of them. But `exp` soon leaves the range of float32:

# %%
scores = torch.tensor([88.0, 89.0])
print(scores.exp(), scores.exp() / scores.exp().sum())

# %% [markdown]
# One property of softmax saves it: if you add the same number to every score of a row, the result does not change,
# because numerator and denominator are multiplied by the same factor. You are free to choose that number.

# %%
small = torch.tensor([1.0, 2.0])
print(small.exp() / small.exp().sum(), (small - 5).exp() / (small - 5).exp().sum())

# %% [markdown]
# ### Exercise: row_softmax
#
# Write `row_softmax(x)`: the softmax over the last axis, for `x` with any number of axes. For entries of either sign,
# up to 10 000 in absolute value, the result must be finite and correct. Rule: no `softmax` and no `log_softmax`.
#
# ```
# row_softmax(torch.tensor([[0.0, 0.0], [1000.0, 0.0]]))    # [[0.5, 0.5], [1., 0.]]
# ```

# %% exercise="row_softmax" points=2
def row_softmax(x: Tensor) -> Tensor:
    """Softmax over the last dimension, for any rank, finite for entries up to 1e4."""
    ### BEGIN SOLUTION
    shifted = x - x.amax(dim=-1, keepdim=True)
    weights = shifted.exp()
    return weights / weights.sum(dim=-1, keepdim=True)
    ### END SOLUTION

# %% check="row_softmax"
check("row_softmax")

# %% [markdown]
# ## Indexing
#
# *Basic* indexing uses numbers, slices, `None` and `...`, and gives views. A number removes its axis, a slice keeps
# it.

# %%
grid = torch.arange(12).reshape(3, 4)
print(grid)
print(grid[1].shape, grid[:, 1].shape, grid[:, 1:2].shape, grid[..., -1].shape)

# %% [markdown]
# *Advanced* indexing uses lists or tensors (an integer tensor without axes counts as a plain number). It gives
# copies. One list picks along one axis. Two lists do not select a block: they are paired up, entry by entry, and give
# the entries at those coordinates.

# %%
print(grid[[2, 0]])
print(grid[[2, 0], [1, 3]])

# %% [markdown]
# A bool mask is an index too. It picks the entries where it is True. Nobody knows in advance how many there are, so
# the axes that the mask covers become a single one: a mask of the tensor's own shape gives one dimension, and a mask
# `(b, t)` on a tensor `(b, t, d)` gives `(number of True, d)`. Assigning through a mask writes into the tensor
# itself.

# %%
noise = torch.tensor([[0.5, -2.0], [-0.1, 3.0]])
print(noise[noise < 0])
noise[noise < 0] = 0
print(noise)
print(torch.zeros(2, 3, 5)[torch.ones(2, 3, dtype=torch.bool)].shape)

# %% [markdown]
# A classifier's scores have shape `(n, c)`, a row for each example, and the labels shape `(n,)`. A loss needs, for
# each row, the score at its label. `scores[labels]` looks right and is not: it picks whole *rows*.

# %%
scores = torch.tensor(
    [[0.1, 0.7, 0.2], [0.5, 0.3, 0.2], [0.3, 0.3, 0.4], [0.8, 0.1, 0.1]]
)
labels = torch.tensor([1, 0, 2, 2])
print(scores[labels].shape)

# %% [markdown]
# What we want is the orange cells, one in each row:

# %% tags=["demo"]
wanted = torch.tensor([[0, 1, 0], [1, 0, 0], [0, 0, 1], [0, 0, 1]]).bool()
grids.draw({"scores": wanted}, scores=scores, labels=labels[:, None])

# %% [markdown]
# `gather(dim, index)` is made for this. The index has as many axes as the tensor, and the result has the shape of the
# index. For `dim=1`, the result at `[i, j]` is the entry at `[i, index[i, j]]`: the row stays, the column is looked
# up. Here it takes two entries from each row.

# %%
index = torch.tensor([[1, 2], [0, 0], [2, 1], [2, 0]])
scores.gather(1, index)

# %% [markdown]
# `scatter` is the reverse: it writes to the looked-up places and leaves the rest as it was. `scatter_`, with an
# underscore at the end, writes into the tensor itself, as every method with that underscore does.

# %%
torch.zeros(4, 3).scatter(1, index, 9.0)

# %% [markdown]
# **In short:** slices give views, lists and masks give copies, and `gather` and `scatter` do for each row what a loop
# would do.

# %% [markdown]
# ### Exercise: select_scores
#
# Write `select_scores(scores, labels)`: from `scores`, shape `(n, c)`, the entry of each row at that row's label.
# `labels` is `int64`, shape `(n,)`; the result has shape `(n,)` too. Gradients must flow back into `scores`. Rule: no
# Python loop: the number of torch calls must not grow with `n`.
#
# ```
# select_scores(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([1, 0]))    # [2., 3.]
# ```

# %% exercise="select_scores" points=1
def select_scores(scores: Tensor, labels: Tensor) -> Tensor:
    """Each row's entry at its label: (n, c), (n,) to (n,)."""
    ### BEGIN SOLUTION
    return scores.gather(1, labels.unsqueeze(1)).squeeze(1)
    ### END SOLUTION

# %% check="select_scores"
check("select_scores")

# %% [markdown]
# ### Exercise: one_hot
#
# Write `one_hot(labels, num_classes, dtype=torch.float32)`: for int64 labels of any shape, a new last axis of size
# `num_classes` that holds a one at the label and zeros elsewhere. An empty `labels` is fine. A label that is negative,
# or at least `num_classes`, raises `ValueError`, with a message that names the argument, what was passed and what is
# allowed. Rule: no `torch.nn.functional.one_hot` and no `torch.eye`.
#
# ```
# one_hot(torch.tensor([2, 0]), 3)    # [[0., 0., 1.], [1., 0., 0.]]
# one_hot(torch.tensor([3]), 3)
# ValueError: labels holds 3, but must satisfy 0 <= label < num_classes = 3
# ```

# %% exercise="one_hot" points=2
def one_hot(
    labels: Tensor, num_classes: int, dtype: torch.dtype = torch.float32
) -> Tensor:
    """A one at each label, zeros elsewhere: any shape (...) to (..., num_classes)."""
    ### BEGIN SOLUTION
    labels = labels.to(torch.int64)
    outside = labels[(labels < 0) | (labels >= num_classes)]
    if outside.numel() > 0:
        got, wanted = outside[0].item(), f"0 <= label < num_classes = {num_classes}"
        raise ValueError(f"labels holds {got}, but must satisfy {wanted}")
    zeros = torch.zeros(*labels.shape, num_classes, dtype=dtype, device=labels.device)
    return zeros.scatter(-1, labels.unsqueeze(-1), 1)
    ### END SOLUTION

# %% check="one_hot"
check("one_hot")

# %% [markdown]
# ## Joining, splitting, sorting
#
# A few more functions that you will meet in every program. `cat` joins tensors along an existing axis; `stack` puts
# them side by side along a new one; `split` cuts into pieces of a given size, the last of which may be smaller, and
# `chunk` cuts into at most as many pieces as you ask for, all of one size except perhaps a smaller last one. `split`
# and `chunk` give views; `cat` and `stack` copy.

# %%
a, b = torch.zeros(2, 3), torch.ones(2, 3)
print(
    torch.cat([a, b]).shape, torch.cat([a, b], dim=1).shape, torch.stack([a, b]).shape
)
print([piece.shape[0] for piece in torch.arange(7).split(3)])
print([piece.shape[0] for piece in torch.arange(5).chunk(4)])

# %% [markdown]
# `sort` and `topk` return two tensors: the values, and the indices where they were found. With the indices you can put
# another tensor into the same order. `cumsum` adds up along an axis.

# %%
values, indices = torch.tensor([0.1, 0.7, 0.2]).topk(2)
print(values, indices, torch.tensor([5, 6, 7])[indices])
print(
    torch.tensor([3, 1, 2]).sort(descending=True).values,
    torch.tensor([1, 2, 3]).cumsum(0),
)

# %% [markdown]
# `scatter_add` goes to the same places as `scatter`, but adds to what is there instead of replacing it. That makes it
# a sum by groups; with a plain assignment through an index, only one of several entries with the same target survives:

# %%
group, amount = torch.tensor([0, 2, 0, 0]), torch.tensor([1.0, 10.0, 2.0, 3.0])
print(torch.zeros(3).scatter_add(0, group, amount))
assigned = torch.zeros(3)
assigned[group] = amount
print(assigned)

# %% [markdown]
# Floats that were computed in two different ways may differ in the last bits, so ask whether they are *close*, with
# `torch.allclose`.
# `torch.testing.assert_close` does the same in tests, with tolerances that fit the dtype, and says where two tensors
# differ.

# %%
third = torch.tensor(0.1, dtype=torch.float64) * 3
print(third == 0.3, torch.allclose(third, torch.tensor(0.3, dtype=torch.float64)))

# %% [markdown]
# ## Masks
#
# Sentences differ in length, and a batch must be a block. So short ones are padded, and a bool mask says which steps
# are real. In this lesson and in lesson 4, **True means real**. A function and a module of PyTorch that compute
# attention (weighted means of values; more in lesson 11) take masks, too.
# `torch.nn.functional.scaled_dot_product_attention` agrees: True means *may be attended to*. `nn.MultiheadAttention`
# says the opposite, True means *ignore this one*, and so does the causal mask of lesson 6, which marks what is
# forbidden. Whenever you meet a mask, find out which kind it is. Here both get the same mask, over the values 1 and 5.
# The first returns 1; the second puts all its weight on the 5:

# %% tags=["demo"]
first_only = torch.tensor([[True, False]])
query, values = torch.zeros(1, 1, 1), torch.tensor([[[1.0], [5.0]]])
attend = torch.nn.functional.scaled_dot_product_attention
print(attend(query, values, values, attn_mask=first_only))
attention = torch.nn.MultiheadAttention(1, 1, batch_first=True)
print(attention(query, values, values, attn_mask=first_only)[1].detach())

# %% [markdown]
# A mean over the real steps must not divide by the padded length, and must keep the padding out. It is tempting to
# multiply by the mask. That works until the padding holds a NaN or an inf, because zero times NaN is NaN:

# %%
steps = torch.tensor([2.0, 4.0, float("nan")])
real = torch.tensor([True, True, False])
print(
    (steps * real).sum(),
    steps.masked_fill(~real, 0).sum(),
    torch.where(real, steps, 0).sum(),
)

# %% [markdown]
# `masked_fill` and `where` do not compute with what they drop; they replace it. That also keeps the gradient clean,
# provided you replace the bad entries before you compute anything with them (lesson 2 shows what happens otherwise).
#
# The other corner case is a row in which nothing is real. Its mean is 0 / 0. Decide what you want instead, and
# document it. `clamp` is handy here:

# %%
counts = torch.tensor([3, 0, 2])
(
    torch.tensor([6.0, 0.0, 5.0]) / counts,
    torch.tensor([6.0, 0.0, 5.0]) / counts.clamp(min=1),
)

# %% [markdown]
# **In short:** say what True means, drop entries by choosing instead of multiplying, and think of the empty row.

# %% [markdown]
# ### Exercise: masked_mean
#
# Write `masked_mean(x, mask)`: from `x`, shape `(b, t, d)`, and a bool `mask`, shape `(b, t)`, the mean over the steps
# where the mask is True: shape `(b, d)`. A row with no True gives zeros. NaN or inf at masked positions must reach
# neither the result nor the gradient.
#
# ```
# x, mask = torch.tensor([[[1.0], [3.0], [9.0]]]), torch.tensor([[True, True, False]])
# masked_mean(x, mask)    # [[2.]]
# ```

# %% exercise="masked_mean" points=3
def masked_mean(x: Tensor, mask: Tensor) -> Tensor:
    """Mean over the real steps (mask True): (b, t, d), bool (b, t) to (b, d);
    zeros where none is real."""
    ### BEGIN SOLUTION
    real = mask.unsqueeze(-1)  # (b, t, 1)
    count = real.sum(dim=1, keepdim=True).clamp(min=1)  # (b, 1, 1)
    shares = x.masked_fill(~real, 0) / count  # (b, t, d)
    return shares.sum(dim=1)
    ### END SOLUTION

# %% check="masked_mean"
check("masked_mean")

# %% [markdown]
# ## einsum
#
# `a @ b` multiplies matrices: the last axis of `a` meets the second-to-last of `b`. All axes before those two are
# batch axes and broadcast. To swap the last two, use `transpose(-2, -1)` or its short form `.mT`; the old `.T` means
# something else as soon as there are more than two axes, and is deprecated there.

# %%
left, right = torch.randn(8, 2, 5, 3), torch.randn(8, 2, 4, 3)
(left @ right.mT).shape

# %% [markdown]
# `einsum` says the same with a letter for each axis. Where a letter appears in two inputs, their entries are multiplied
# along that axis; letters that are missing after the arrow are summed over. A letter that occurs twice in one input
# walks along its diagonal. You can read off the shapes, which is why many people prefer it.

# %%
matrix, vector = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([10.0, 1.0])
print(torch.einsum("ij,j->i", matrix, vector), matrix @ vector)
print(torch.einsum("i,j->ij", vector, vector))
print(torch.einsum("ij->ji", matrix), torch.einsum("ii->", matrix))

# %% [markdown]
# The most famous product of recent years is the one inside attention: every query with every key. Its entries are sums
# of `d` products, and such a sum grows with `d`. If the entries of queries and keys are independent, with mean 0 and
# standard deviation 1, the standard deviation of the sum is the square root of `d`:

# %% tags=["demo"]
generator = torch.Generator().manual_seed(0)
for d in (4, 64, 1024):
    dots = (
        torch.randn(1000, d, generator=generator)
        * torch.randn(1000, d, generator=generator)
    ).sum(-1)
    print(f"d = {d:4}: spread {dots.std().item():5.1f}, square root of d {d**0.5:5.1f}")

# %% [markdown]
# A softmax over numbers with a spread of 32 puts nearly everything on one entry, and hardly any gradient gets through.
# That is why attention divides these products by the square root of `d` before the softmax.

# %% [markdown]
# ### Exercise: attention_scores
#
# Write `attention_scores(q, k)`: from queries `(b, h, t, d)` and keys `(b, h, s, d)` (batch, heads, positions,
# features), return the dot product of every query with every key, divided by the square root of `d`: shape `(b, h, t,
# s)`.
#
# ```
# attention_scores(torch.ones(1, 1, 2, 4), torch.ones(1, 1, 3, 4))    # shape (1, 1, 2, 3), all 2.
# ```

# %% exercise="attention_scores" points=2
def attention_scores(q: Tensor, k: Tensor) -> Tensor:
    """Scaled dot products: (b, h, t, d), (b, h, s, d) to (b, h, t, s)."""
    ### BEGIN SOLUTION
    d = q.shape[-1]
    return (q / d**0.5) @ k.transpose(-2, -1)
    ### END SOLUTION

# %% check="attention_scores"
check("attention_scores")

# %% [markdown]
# ## Strides: one storage, many views
#
# Memory has one dimension. How does a row of twelve numbers become a table of three rows and four columns? By
# arithmetic: to go one row down, move on by four entries; to go one column to the right, by one. These two numbers are
# the *stride*.

# %%
grid = torch.arange(12).view(3, 4)
print(grid)
print(grid.shape, grid.stride(), grid.storage_offset())

# %% [markdown]
# Entry `grid[i, j]` lies at place `offset + i * 4 + j * 1` of the storage. That is all there is to it, and a lot
# follows from it. To transpose, PyTorch moves no numbers: it swaps the two strides.

# %%
turned = grid.t()
print(turned.shape, turned.stride())
print(turned.untyped_storage().data_ptr() == grid.untyped_storage().data_ptr())

# %% [markdown]
# In the picture, the boxes are the storage. Below them, each row of the view has a line of its own: its dots stand
# under the cells that this row reads, and are numbered in the order of the view's entries.

# %% tags=["demo"]
from torchcourse.demos import strides

strides.draw(turned, "grid.t()")

# %% [markdown]
# So `turned` is a view of `grid`. A view costs next to nothing, however large the tensor is. The price is that the two
# are not independent: a write to the view is a write to the tensor that it was made from.

# %%
turned[0, 2] = -1
print(grid)
grid[2, 0] = 8  # and back again, through the other name

# %% [markdown]
# When you want an independent copy, call `clone()`.
#
# A slice is a view too. It starts later (the offset) or walks in larger steps (the stride):

# %%
corner = grid[1:, ::2]
print(corner)
print(corner.shape, corner.stride(), corner.storage_offset())

# %% [markdown]
# And `expand`? A step along the repeated axis stays in the same place, so that axis has a stride of 0. That is also how
# broadcasting repeats without copying:

# %%
torch.tensor([[1, 2, 3]]).expand(4, 3).stride()

# %% [markdown]
# Play with it for a minute. Which choices change the offset? Which give a stride of 0? What makes the last choice
# refuse? (`as_strided` takes a shape, the strides and an offset directly; more on it below.)

# %% tags=["demo"]
strides.explore()

# %% [markdown]
# **In short:** a tensor is a storage plus shape, stride and offset, and many tensors can share one storage.

# %% [markdown]
# ## What copies and what does not
#
# Here are some ways to get one tensor from another. For each: does the result still share the old storage?

# %%
turns = {
    "view(4, 3)": grid.view(4, 3),
    "permute(1, 0)": grid.permute(1, 0),
    "reshape(2, 6)": grid.reshape(2, 6),
    "t().reshape(12)": grid.t().reshape(12),
    "t().contiguous()": grid.t().contiguous(),
    "to(torch.int64)": grid.to(torch.int64),
    "to(torch.float32)": grid.to(torch.float32),
    "clone()": grid.clone(),
}

# %%
place = grid.untyped_storage().data_ptr()
for name, result in turns.items():
    print(
        f"grid.{name:20}",
        "same memory" if result.untyped_storage().data_ptr() == place else "copy",
    )

# %% [markdown]
# Two of these deserve a second look. `.to` copies only if there is something to convert. And `reshape` is a view
# in one line and a copy in the next: it returns a view where the strides allow one, and copies where they do not.
# `view` never copies; where it would have to, it raises.

# %%
try:
    grid.t().view(12)
except RuntimeError as error:
    print(error)

# %% [markdown]
# Read the message: *size is not compatible with input tensor's size and stride*. You will often hear that `view`
# needs contiguous memory, meaning entries that lie in the storage in reading order without gaps. That is not the
# rule. It needs strides that can express the new shape. Here is every second number of each row: the entries have
# gaps between them and are not contiguous, yet `view` works, because from one row to the next the gap is the same,
# and a single stride of 2 walks through them all.

# %%
every_second = torch.arange(24).view(4, 6)[:, ::2]
print(every_second.is_contiguous(), every_second.stride())
print(every_second.view(12).stride())

# %% [markdown]
# `contiguous()` returns the tensor itself if it is contiguous, and otherwise a fresh copy in reading order.
#
# **In short:** `view` is free or raises, `reshape` is free or copies, and the strides decide which.

# %% [markdown]
# ### Exercise: flatten_reporting
#
# Write `flatten_reporting(t)`: all entries of `t` in one dimension, in reading order, and a bool that says whether
# they had to be copied. Return a view wherever the layout allows one (it may do so although `t` is not contiguous),
# and a copy only where it does not. `t` may have any number of axes, including none.
#
# ```
# flatten_reporting(torch.zeros(2, 3))        # (a view with 6 zeros, False)
# flatten_reporting(torch.zeros(2, 3).t())    # (a copy with 6 zeros, True)
# ```

# %% exercise="flatten_reporting" points=2
def flatten_reporting(t: Tensor) -> tuple[Tensor, bool]:
    """Return all entries of t in one dimension, and whether they had to be copied."""
    ### BEGIN SOLUTION
    try:
        return t.view(-1), False
    except RuntimeError:  # no single stride walks through these entries in order
        return t.reshape(-1), True
    ### END SOLUTION

# %% check="flatten_reporting"
check("flatten_reporting")

# %% [markdown]
# ## Building a view by hand
#
# Slices and transposes choose strides for you. `as_strided` lets you choose: you give it a shape, a stride for each
# axis, and an offset. The diagonal of `grid`, for instance, is three entries, each five places after the one before:

# %%
grid.as_strided((3,), (5,), 0)

# %% [markdown]
# It is a sharp tool. It counts in places of the *storage*, not in entries of the tensor you call it on. It stops you
# at the end of the storage, and nowhere before. Here somebody wants pairs of neighbouring even numbers, and gets odd
# ones too:

# %%
evens = torch.arange(10)[::2]
print(evens, evens.stride())
print(evens.as_strided((4, 2), (1, 1), 0))

# %% [markdown]
# What makes it worth the trouble is that several entries of a view may share one place. Think of a moving average
# over a signal of a million samples, with windows of a thousand. As copies, the windows take a thousand times the
# memory of the signal; as a view they cost nothing. PyTorch has `unfold` for this. Here is what it makes of eight
# numbers; look at how the lines overlap, and then at the stride.

# %% tags=["demo"]
strides.draw(torch.arange(8).unfold(0, 4, 2), "torch.arange(8).unfold(0, 4, 2)")

# %% [markdown]
# ### Exercise: sliding_windows
#
# Write `sliding_windows(x, size, step=1)`: from `x` of shape `(n,)`, the windows of `size` neighbouring entries, one
# starting every `step` entries, as many as fit: shape `(num, size)`. The result shares `x`'s memory, even where `x`
# itself is a slice such as `signal[3::2]`. Raise `ValueError` for `size < 1`, `size > n` and `step < 1`, with a
# message that names the argument, what was passed and what is allowed. Rule: no `unfold`.
#
# ```
# sliding_windows(torch.arange(5), 3)            # [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
# sliding_windows(torch.arange(5), 2, step=3)    # [[0, 1], [3, 4]]
# sliding_windows(torch.arange(5), 6)
# ValueError: size is 6, but must be from 1 to len(x), which is 5
# ```

# %% exercise="sliding_windows" points=3
def sliding_windows(x: Tensor, size: int, step: int = 1) -> Tensor:
    """Windows of `size` neighbours, one every `step` entries: (n,) to (num, size),
    in x's own memory."""
    ### BEGIN SOLUTION
    n = len(x)
    if not 1 <= size <= n:
        raise ValueError(f"size is {size}, but must be from 1 to len(x), which is {n}")
    if step < 1:
        raise ValueError(f"step is {step}, but must be at least 1")
    num = (n - size) // step + 1
    stride = x.stride(0)
    return x.as_strided((num, size), (step * stride, stride), x.storage_offset())
    ### END SOLUTION

# %% check="sliding_windows"
check("sliding_windows")

# %% [markdown]
# ## NumPy
#
# `torch.from_numpy` and `t.numpy()` copy nothing: array and tensor are two names for the same memory. That is what
# you want when the data is large, and a trap when you forget it. `torch.tensor(array)` copies.

# %%
array = np.array([1.0, 2.0, 3.0])
shared, copied = torch.from_numpy(array), torch.tensor(array)
array *= 10
print(shared, copied)

# %% [markdown]
# It works in the other direction too. A tensor that you pass to a plotting or statistics routine as an array can come
# back changed, weights of a model included. When in doubt, `clone()` first.
#
# Not every tensor can be seen by NumPy directly. Here are four refusals. Most of them say what to do, but for `meta`
# the advice does not work, as there are no numbers to copy; for a tensor on a GPU, `cpu()` is right.

# %%
complex_pair = torch.tensor([1 + 2j, 3 - 1j])
for tensor in (torch.ones(2, requires_grad=True), torch.ones(2, dtype=torch.bfloat16),
               torch.ones(2, device="meta"), complex_pair.conj()):
    try:
        tensor.numpy()
    except (RuntimeError, TypeError) as error:
        print(f"{type(error).__name__}: {error}")

# %% [markdown]
# In words: a tensor that takes part in autograd must be detached first (lesson 2 explains why). NumPy has no bfloat16.
# NumPy sees only the CPU's memory. And `conj()` does not compute anything: it returns a view with a flag that says
# "read me conjugated", which NumPy does not know; `resolve_conj()` carries out what the flag says. The imaginary part
# of such a view carries a similar flag, "read me with the sign changed", and `resolve_neg()` applies it.
#
# All of these steps are free where there is nothing to do: `cpu()` copies nothing for a CPU tensor, nor do
# `resolve_conj()` and `resolve_neg()` for a plain one, and `detach()` never copies.
#
# **In short:** sharing is the default with NumPy; you get a copy only if you ask for one, or if NumPy cannot hold what
# is there.

# %% [markdown]
# ### Exercise: to_numpy
#
# Write `to_numpy(t)`: `t` as a NumPy array, whatever kind of tensor it is: on any device, requiring grad or not, of
# any dtype that NumPy has, or `bfloat16` (which becomes `float32`), including conjugate and negative views. The array
# shares `t`'s memory wherever that is possible.
#
# ```
# to_numpy(torch.ones(2, requires_grad=True))      # array([1., 1.], dtype=float32)
# to_numpy(torch.ones(2, dtype=torch.bfloat16))    # array([1., 1.], dtype=float32)
# ```

# %% exercise="to_numpy" points=2
def to_numpy(t: Tensor) -> np.ndarray:
    """t as a NumPy array, in the same memory where that is possible."""
    ### BEGIN SOLUTION
    t = t.detach().cpu().resolve_conj().resolve_neg()
    # NumPy has no bfloat16; float32 holds each of its values exactly
    if t.dtype == torch.bfloat16:
        t = t.to(torch.float32)
    return t.numpy()
    ### END SOLUTION

# %% check="to_numpy"
check("to_numpy")

# %% [markdown]
# ## Errors read aloud
#
# A traceback from PyTorch is long, and its last line is nearly always precise. Three questions settle most of them:
# *what shape, what dtype, what device* does each tensor have? Print them before you change anything.
#
# **Shape.** The message names the two sizes that do not fit. In a matrix product the inner two must agree:

# %%
try:
    torch.zeros(3, 4) @ torch.zeros(3, 4)
except RuntimeError as error:
    print(error)

# %% [markdown]
# Aloud: "I have 3×4 times 3×4, and 4 is not 3; one of them should be transposed." With broadcasting it reads like this,
# and *non-singleton dimension 1* is the axis where neither size is 1:

# %%
try:
    torch.zeros(3, 4) + torch.zeros(3)
except RuntimeError as error:
    print(error)

# %% [markdown]
# **Dtype.** In messages, `double` is `float64`, `float` is `float32`, `long` is `int64` and `half` is `float16`, with
# or without a capital. When `double` turns up and you never asked for it, an array came in from NumPy:

# %%
try:
    torch.from_numpy(np.ones((2, 3))) @ torch.zeros(3, 1)
except RuntimeError as error:
    print(error)

# %% [markdown]
# An index must be of an integer dtype, `int64` or `int32` (`int16` and `int8` are refused), or a bool mask. A float
# is refused even if its values are whole. Beware of `uint8`: for historical reasons it is taken for a mask, as the
# name `byte` in the message hints, with a warning that this is deprecated.

# %%
for dtype in (torch.int64, torch.int32, torch.int16, torch.float32):
    try:
        print(torch.arange(3)[torch.tensor([0, 2], dtype=dtype)])
    except IndexError as error:
        print(error)

# %% [markdown]
# **Device.** Tensors on different devices do not mix; something was not moved, or was made on the CPU inside a
# function. With a GPU you would read *Expected all tensors to be on the same device, but found at least two devices,
# cuda:0 and cpu!* In an addition, the `meta` device shows the same mistake on any machine, with different wording. (Do
# not rely on it elsewhere: `torch.zeros(3, 3) @ torch.zeros(3, 3, device="meta")` raises nothing and returns whatever
# was in memory.)

# %% tags=["demo"]
try:
    torch.zeros(3) + torch.zeros(3, device="meta")
except RuntimeError as error:
    print(error)

# %% [markdown]
# The cure is to let the input decide: `torch.zeros(3, device=x.device)`, or `torch.zeros_like(x)`.
#
# The course helps you to read such errors. The line `%load_ext torchcourse` at the top of every lesson adds a
# paragraph to such an error: the tensors involved, by the names you gave them, the numbers that do not fit, and the
# usual causes. Try it:

# %%
try_it = False  # write True, and run the cell again
if try_it:
    table @ table

# %% [markdown]
# The worst errors of this lesson print nothing: a `reshape` that should have been a `permute`, a difference that
# broadcast into a table, a missing `keepdim` on a square, a bare `squeeze`, a view that was written to. What helps
# against those is a printed shape, a small example worked out by hand, and a test such as the ones you have just
# passed.

# %% [markdown]
# ## What you have seen
#
# | idea | remember |
# |---|---|
# | tensor | a storage, seen through shape, stride and offset; plus dtype and device |
# | views | slices, `t`, `permute`, `view`, `expand`: no copy, shared memory |
# | copies | `clone`, indexing with a list or a mask, and `contiguous` and `reshape` where the strides force it |
# | `view` | needs compatible strides, not contiguous memory |
# | axis order | change it with `permute` or `movedim`, never with `reshape` |
# | broadcasting | align at the right; equal, or 1, or missing |
# | reductions | the named axis disappears; `keepdim=True` if the result meets the original again |
# | `gather`, `scatter` | look up, or write, per row, without a loop |
# | masks | say what True means; choose with `where`, do not multiply |
# | NumPy | shares memory; floats arrive as `float64` |
# | devices | create on the input's device |
#
# Next comes **lesson 2, autograd**: how PyTorch remembers what was computed with a tensor, and derives every gradient
# from that. Views and in-place writes will return there, with consequences.
