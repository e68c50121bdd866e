# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 1 · Tensors

# %% tags=["setup"]
import numpy as np
import torch
from torch import Tensor

from torchcourse import Unattempted, check, hint

# %% [markdown]
# ## What a tensor is
#
# ### Exercise: describe

# %% exercise="describe" points=1
def describe(t: Tensor) -> dict[str, object]:
    """What there is to know about t, but for its values."""
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
# ## What copies and what does not
#
# ### Exercise: flatten_reporting

# %% exercise="flatten_reporting" points=2
def flatten_reporting(t: Tensor) -> tuple[Tensor, bool]:
    """All elements of t in one dimension, and whether they had to be copied for it."""
    ### BEGIN SOLUTION
    try:
        return t.view(-1), False
    except RuntimeError:  # no single stride walks through these elements in order
        return t.reshape(-1), True
    ### END SOLUTION

# %% check="flatten_reporting"
check("flatten_reporting")

# %% [markdown]
# ## Strides: one storage, many views
#
# ### Exercise: sliding_windows

# %% exercise="sliding_windows" points=3
def sliding_windows(x: Tensor, size: int, step: int = 1) -> Tensor:
    """Windows of `size` neighbours, one every `step` entries: (n,) to (num, size), in x's own memory."""
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
# ## Images: channels first
#
# ### Exercise: image_to_chw

# %% exercise="image_to_chw" points=2
def image_to_chw(image: Tensor) -> Tensor:
    """uint8 (H, W, C) or (N, H, W, C) to contiguous float32 (C, H, W) or (N, C, H, W) in [0, 1]."""
    ### BEGIN SOLUTION
    channels_first = image.movedim(-1, -3)
    return channels_first.contiguous().to(torch.float32) / 255
    ### END SOLUTION

# %% check="image_to_chw"
check("image_to_chw")

# %% [markdown]
# ## Broadcasting: shapes line up from the right
#
# ### Exercise: pairwise_distances

# %% exercise="pairwise_distances" points=3
def pairwise_distances(a: Tensor, b: Tensor) -> Tensor:
    """Euclidean distance of every row of a to every row of b: (n, d), (m, d) to (n, m)."""
    ### BEGIN SOLUTION
    difference = a[:, None, :] - b[None, :, :]  # (n, 1, d) - (1, m, d) -> (n, m, d)
    return torch.linalg.vector_norm(difference, dim=-1)
    ### END SOLUTION

# %% check="pairwise_distances"
check("pairwise_distances")

# %% [markdown]
# ## Reductions
#
# ### Exercise: standardize

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
# ### Exercise: row_softmax

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
# ### Exercise: select_scores

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

# %% exercise="one_hot" points=2
def one_hot(labels: Tensor, num_classes: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """A one at each label, zeros elsewhere: any shape (...) to (..., num_classes)."""
    ### BEGIN SOLUTION
    labels = labels.to(torch.int64)
    outside = (labels < 0) | (labels >= num_classes)
    if outside.any():
        worst = labels[outside][0].item()
        raise ValueError(f"labels contains {worst}, but must lie in 0 <= label < num_classes, which is {num_classes}")
    zeros = torch.zeros(*labels.shape, num_classes, dtype=dtype, device=labels.device)
    return zeros.scatter(-1, labels.unsqueeze(-1), 1)
    ### END SOLUTION

# %% check="one_hot"
check("one_hot")

# %% [markdown]
# ### Exercise: masked_mean

# %% exercise="masked_mean" points=3
def masked_mean(x: Tensor, mask: Tensor) -> Tensor:
    """Mean over the real steps (mask True): (b, t, d), bool (b, t) to (b, d); zeros where none is real."""
    ### BEGIN SOLUTION
    real = mask.unsqueeze(-1)  # (b, t, 1)
    total = x.masked_fill(~real, 0).sum(dim=1)  # (b, d)
    count = real.sum(dim=1).clamp(min=1)  # (b, 1)
    return total / count
    ### END SOLUTION

# %% check="masked_mean"
check("masked_mean")

# %% [markdown]
# ## einsum
#
# ### Exercise: attention_scores

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
# ## NumPy
#
# ### Exercise: to_numpy

# %% exercise="to_numpy" points=2
def to_numpy(t: Tensor) -> np.ndarray:
    """t as a NumPy array, in the same memory where that is possible."""
    ### BEGIN SOLUTION
    t = t.detach().cpu().resolve_conj().resolve_neg()
    if t.dtype == torch.bfloat16:  # NumPy has no bfloat16; float32 holds each of its values exactly
        t = t.to(torch.float32)
    return t.numpy()
    ### END SOLUTION

# %% check="to_numpy"
check("to_numpy")
