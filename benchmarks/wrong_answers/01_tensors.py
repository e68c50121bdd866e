# %% describe: contiguous-by-strides
def describe(t):
    strides, step = [], 1
    for n in reversed(t.shape):
        strides.insert(0, step)
        step *= n
    return {
        "shape": tuple(t.shape),
        "dtype": t.dtype,
        "device": str(t.device),
        "ndim": t.ndim,
        "numel": t.numel(),
        "contiguous": t.stride() == tuple(strides),
        "nbytes": t.numel() * t.element_size(),
    }


# %% masked_mean: detached
def masked_mean(x, mask):
    real = mask.unsqueeze(-1)
    total = x.data.masked_fill(~real, 0).sum(dim=1)
    return total / real.sum(dim=1).clamp(min=1)


# %% row_softmax: wrong-dim, overflow
def row_softmax(x):
    e = torch.exp(x)
    return e / e.sum(dim=0, keepdim=True)


# %% row_softmax: overflow, missing-keepdim
def row_softmax(x):
    e = x.exp()
    return e / e.sum(-1)


# %% standardize: sample-variance, eps-outside-root
def standardize(x, dim, eps=1e-5):
    return (x - x.mean(dim, keepdim=True)) / (x.std(dim, keepdim=True) + eps)


# %% standardize: sample-variance, missing-keepdim
def standardize(x, dim, eps=1e-5):
    return (x - x.mean(dim)) / torch.sqrt(x.var(dim) + eps)


# %% one_hot: made-on-cpu, out-of-range-accepted
def one_hot(labels, num_classes, dtype=torch.float32):
    return (labels.unsqueeze(-1) == torch.arange(num_classes)).to(dtype)


# %% one_hot: dtype-ignored, message-says-too-little
def one_hot(labels, num_classes, dtype=torch.float32):
    if ((labels < 0) | (labels >= num_classes)).any():
        raise ValueError("bad labels")
    return (labels.unsqueeze(-1) == torch.arange(num_classes, device=labels.device)).float()


# %% masked_mean: divides-by-length, masked-values-leak
def masked_mean(x, mask):
    return (x * mask.unsqueeze(-1)).mean(dim=1)


# %% masked_mean: nan-on-empty, masked-values-leak
def masked_mean(x, mask):
    m = mask.unsqueeze(-1).to(x.dtype)
    return (x * m).sum(1) / m.sum(1)


# %% image_to_chw: batch-ignored, not-contiguous
def image_to_chw(image):
    return image.permute(2, 0, 1) / 255


# %% describe: len-is-not-numel, nbytes-counts-storage
def describe(t):
    return {
        "shape": tuple(t.shape),
        "dtype": t.dtype,
        "device": str(t.device),
        "ndim": t.ndim,
        "numel": len(t),
        "contiguous": t.is_contiguous(),
        "nbytes": t.untyped_storage().nbytes(),
    }
