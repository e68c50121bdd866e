"""Lesson 01: right answers in other styles than the reference's. Each must pass every case on every device."""

from __future__ import annotations

import functools
import itertools
import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

# --- describe ----------------------------------------------------------------------------------------------------


def describe_by_properties(t: Tensor) -> dict[str, object]:
    facts: dict[str, object] = {"shape": t.shape, "dtype": t.dtype, "device": f"{t.device}", "ndim": t.dim()}
    facts.update(numel=t.nelement(), contiguous=t.is_contiguous(), nbytes=t.nbytes)
    return facts


def describe_from_sizes(t: Tensor) -> OrderedDict[str, object]:
    sizes = tuple(int(s) for s in t.size())
    count = 1
    for size in sizes:
        count *= size
    facts: OrderedDict[str, object] = OrderedDict()
    facts["nbytes"] = count * torch.empty((), dtype=t.dtype).element_size()
    facts["numel"] = count
    facts["ndim"] = len(sizes)
    facts["device"] = str(t.device)
    facts["dtype"] = t.dtype
    facts["contiguous"] = t.is_contiguous()
    facts["shape"] = sizes
    return facts


class _Facts(NamedTuple):
    shape: tuple[int, ...]
    dtype: torch.dtype
    device: str
    ndim: int
    numel: int
    contiguous: bool
    nbytes: int


def describe_with_a_named_tuple(t: Tensor) -> dict[str, object]:
    numel = math.prod(t.shape)
    facts = _Facts((*t.shape,), t.dtype, str(t.device), t.ndim, numel, bool(t.is_contiguous()), numel * t.itemsize)
    return facts._asdict()


def _strides_in_order(t: Tensor) -> bool:
    expected = 1
    for size, stride in zip(reversed(t.shape), reversed(t.stride()), strict=True):
        if size != 1 and stride != expected:
            return t.numel() == 0
        expected *= size
    return True


def describe_contiguity_by_hand(t: Tensor) -> dict[str, Any]:
    copy = t.clone(memory_format=torch.contiguous_format)
    return {
        "shape": tuple(t.shape),
        "dtype": copy.dtype,
        "device": str(copy.device),
        "ndim": np.empty(t.shape).ndim,
        "numel": np.prod(t.shape, dtype=int),
        "contiguous": _strides_in_order(t),
        "nbytes": copy.untyped_storage().nbytes(),
    }


# --- image_to_chw ------------------------------------------------------------------------------------------------


def image_by_rank(image: Tensor) -> Tensor:
    order = (2, 0, 1) if image.ndim == 3 else (0, 3, 1, 2)
    return image.permute(order).float().div(255).contiguous()


def image_by_einsum(image: Tensor) -> Tensor:
    return torch.einsum("...hwc->...chw", image / 255.0).contiguous()


def image_channel_by_channel(image: Tensor) -> Tensor:
    return torch.stack([c.to(torch.float32) for c in image.unbind(-1)], dim=-3) * (1 / 255)


def image_filled(image: Tensor) -> Tensor:
    *batch, height, width, channels = image.shape
    result = torch.empty(*batch, channels, height, width, device=image.device)
    result.copy_(image.transpose(-1, -2).transpose(-2, -3))
    return result.div_(255)


def image_recursive(image: Tensor) -> Tensor:
    if image.dim() == 4:
        singles = [image_recursive(single) for single in image]
        shape = (0, image.shape[3], *image.shape[1:3])
        return torch.stack(singles) if singles else torch.empty(shape, device=image.device)
    columns, rows = image.swapaxes(0, 2).double(), (0, 2, 1)
    return (columns.permute(rows) / 255).to(torch.float32, memory_format=torch.contiguous_format)


# --- pairwise_distances ------------------------------------------------------------------------------------------


def distances_by_broadcasting(a: Tensor, b: Tensor) -> Tensor:
    return (a[:, None] - b).pow(2).sum(dim=2).sqrt()


def distances_by_gram(a: Tensor, b: Tensor) -> Tensor:
    center = b.mean(0)
    a, b = a - center, b - center
    squares = (a * a).sum(1, keepdim=True) + (b * b).sum(1) - 2 * a @ b.T
    return squares.clamp(min=0).sqrt()


def distances_by_gram_in_double(a: Tensor, b: Tensor) -> Tensor:
    wide_a, wide_b = a.double(), b.double()
    dots = torch.einsum("nd,md->nm", wide_a, wide_b)
    squares = torch.einsum("nd,nd->n", wide_a, wide_a)[:, None] - 2 * dots
    squares = squares + torch.einsum("md,md->m", wide_b, wide_b)[None, :]
    return torch.sqrt(torch.maximum(squares, torch.zeros_like(squares))).to(a.dtype)


def distances_feature_by_feature(a: Tensor, b: Tensor) -> Tensor:
    total = torch.zeros(len(a), len(b), dtype=a.dtype, device=a.device)
    for k in range(a.shape[1]):  # over features, not over points
        total += torch.square(a[:, k].unsqueeze(1) - b[:, k].unsqueeze(0))
    return total.sqrt_()


def distances_expanded(a: Tensor, b: Tensor) -> Tensor:
    n, m, d = a.size(0), b.size(0), a.size(1)
    left = a.unsqueeze(1).expand(n, m, d).reshape(-1, d)
    right = b.repeat(n, 1)
    return cast(Tensor, torch.norm(left - right, p=2, dim=1).view(n, m))


def distances_by_vmap(a: Tensor, b: Tensor) -> Tensor:
    one_to_one = lambda x, y: (x - y).square().sum().sqrt()  # noqa: E731
    to_all = torch.vmap(one_to_one, in_dims=(None, 0))
    return cast(Tensor, torch.vmap(to_all, in_dims=(0, None))(a, b))


def distances_by_pairwise_distance(a: Tensor, b: Tensor) -> Tensor:
    return nn.functional.pairwise_distance(a[:, None, :], b[None, :, :], eps=0.0)


# --- standardize -------------------------------------------------------------------------------------------------


def standardize_by_hand(x: Tensor, dim: int | tuple[int, ...], eps: float = 1e-5) -> Tensor:
    centered = x - torch.mean(x, dim, keepdim=True)
    return centered * torch.rsqrt((centered**2).mean(dim, keepdim=True) + eps)


def standardize_by_var_mean(x: Tensor, dim: int | tuple[int, ...], eps: float = 1e-5) -> Tensor:
    var, mean = torch.var_mean(x, dim=dim, unbiased=False, keepdim=True)
    return (x - mean).div((var + eps).sqrt())


def standardize_flattened(x: Tensor, dim: int | tuple[int, ...], eps: float = 1e-5) -> Tensor:
    dims = sorted(d % x.ndim for d in ((dim,) if isinstance(dim, int) else dim))
    rest = [d for d in range(x.ndim) if d not in dims]
    order = rest + dims
    flat = x.permute(order).reshape(*[x.shape[d] for d in rest], -1)
    mean = flat.mean(-1).unsqueeze(-1)
    var = torch.sum((flat - mean) ** 2, dim=-1).unsqueeze(-1) / flat.shape[-1]
    done = (flat - mean) / torch.sqrt(var + eps)
    back = sorted(range(x.ndim), key=order.__getitem__)
    return done.reshape([x.shape[d] for d in order]).permute(back)


@torch.no_grad()
def standardize_with_a_loop_over_dims(x: Tensor, dim: Any, eps: float = 1e-5) -> Tensor:
    def mean(values: Tensor) -> Tensor:
        for d in (dim,) if isinstance(dim, int) else dim:
            values = values.sum(d, keepdim=True) / values.size(d)
        return values

    centered = x - mean(x)
    return torch.div(centered, torch.pow(mean(centered * centered) + eps, 0.5))


def standardize_by_std(x: Tensor, dim: int | tuple[int, ...], eps: float = 1e-5) -> Tensor:
    std, mean = torch.std_mean(x, dim=dim, correction=0, keepdim=True)
    return (x - mean) / (std.pow(2) + eps).sqrt()


# --- row_softmax -------------------------------------------------------------------------------------------------


def softmax_by_logsumexp(x: Tensor) -> Tensor:
    return torch.exp(x - torch.logsumexp(x, dim=-1, keepdim=True))


def softmax_by_max_values(x: Tensor) -> Tensor:
    top, _ = x.max(dim=x.dim() - 1, keepdim=True)
    e = torch.exp(x - top)
    return e / torch.einsum("...d->...", e).unsqueeze(-1)


def softmax_in_place(x: Tensor) -> Tensor:
    e = x.clone()
    e.sub_(e.max(-1).values[..., None]).exp_()
    return e.div_(e.sum(-1, keepdim=True))


def softmax_by_matrix_product(x: Tensor) -> Tensor:
    flat = x.reshape(-1, x.shape[-1]).T
    weights = torch.exp(flat - torch.amax(flat, 0))
    ones = torch.ones(1, weights.shape[0], dtype=x.dtype, device=x.device)
    return (weights / (ones @ weights)).T.reshape(x.shape)


def softmax_row_by_row(x: Tensor) -> Tensor:
    if x.dim() > 1:
        return torch.stack([softmax_row_by_row(row) for row in x]) if len(x) else x.clone()
    weights = (x - max(x)).exp()
    return cast(Tensor, weights / sum(weights))


def softmax_of_differences(x: Tensor) -> Tensor:
    return 1 / (x[..., None, :] - x[..., :, None]).exp().sum(-1)


def softmax_by_normalize(x: Tensor) -> Tensor:
    return nn.functional.normalize((x - x.amax(-1, True)).exp(), p=1.0, dim=-1)


# --- flatten_reporting -------------------------------------------------------------------------------------------


def flatten_by_storage(t: Tensor) -> tuple[Tensor, bool]:
    flat = t.reshape(-1)
    return flat, flat.untyped_storage().data_ptr() != t.untyped_storage().data_ptr()


def flatten_by_pointer(t: Tensor) -> list[Any]:
    flat = t.flatten() if t.dim() else t.unsqueeze(0)
    return [flat, flat.data_ptr() != t.data_ptr()]


def flatten_by_base(t: Tensor) -> tuple[Tensor, bool]:
    flat = t.reshape((t.numel(),))
    root = t if t._base is None else t._base
    shared = flat is t or flat._base is root
    return flat, not shared


def flatten_by_strides(t: Tensor) -> tuple[Tensor, bool]:
    axes = [(n, s) for n, s in zip(t.shape, t.stride(), strict=True) if n != 1]
    fits = all(s == n2 * s2 for (_, s), (n2, s2) in itertools.pairwise(axes))
    if not fits:
        return t.contiguous().view(-1), True
    stride = axes[-1][1] if axes else 1
    return torch.as_strided(t, (t.numel(),), (stride,), t.storage_offset()), False


def flatten_asking_forgiveness(t: torch.Tensor) -> tuple[torch.Tensor, bool]:
    copied = False
    try:
        flat = t.view(t.numel())
    except Exception:
        flat, copied = t.clone(memory_format=torch.contiguous_format).view(-1), True
    return flat, copied


# --- sliding_windows ---------------------------------------------------------------------------------------------


def _check_windows(n: int, size: int, step: int) -> None:
    for name, got, good, wanted in (
        ("size", size, 0 < size <= n, f"an integer from 1 to {n}"),
        ("step", step, step > 0, "a positive integer"),
    ):
        if not good:
            raise ValueError(f"{name}: got {got}, want {wanted}")


def windows_by_strides(x: Tensor, size: int, step: int = 1) -> Tensor:
    (n,), (stride,) = x.shape, x.stride()
    _check_windows(n, size, step)
    starts = range(0, n - size + 1, step)
    return torch.as_strided(x, (len(starts), size), (stride * step, stride))


class _BadWindowError(ValueError):
    pass


def windows_then_every_step(x: Tensor, size: int, step: int = 1) -> Tensor:
    if step < 1:
        raise _BadWindowError(f"step must be positive, not {step!r}")
    if size < 1 or size > x.numel():
        raise _BadWindowError(f"Expected 1 <= size <= {x.numel()}, got size={size}")
    jump = x.stride()[0]
    return x.as_strided(size=(x.numel() - size + 1, size), stride=(jump, jump))[::step]


def windows_of_a_slice(x: Tensor, size: int, step: int = 1) -> Tensor:
    _check_windows(x.shape[0], size, step)
    number = math.floor((x.shape[0] - size) / step) + 1
    first = x[:size]
    return first.as_strided((number, size), (first.stride(0) * step, first.stride(0)), first.storage_offset())


def windows_by_set(x: Tensor, size: int, step: int = 1) -> Tensor:
    _check_windows(x.shape[0], size, step)
    number = 1
    while number * step + size <= x.shape[0]:
        number += 1
    stride = x.stride(-1)
    with torch.no_grad():
        return x.detach().as_strided([number, size], [step * stride, stride])


# --- select_scores -----------------------------------------------------------------------------------------------


def select_by_pairs(scores: Tensor, labels: Tensor) -> Tensor:
    return scores[torch.arange(len(labels), device=scores.device), labels]


def select_by_mask(scores: Tensor, labels: Tensor) -> Tensor:
    at_label = torch.arange(scores.shape[1], device=labels.device) == labels[:, None]
    return torch.where(at_label, scores, 0).sum(1)


def select_by_boolean_index(scores: Tensor, labels: Tensor) -> Tensor:
    chosen = torch.zeros_like(scores, dtype=torch.bool).scatter(1, labels.view(-1, 1), True)
    return scores[chosen]


def select_from_the_flat(scores: Tensor, labels: Tensor) -> Tensor:
    n, c = scores.shape
    places = labels + c * torch.arange(n, device=labels.device)
    return torch.take(scores, places)


def select_along_dim(scores: Tensor, labels: Tensor) -> Tensor:
    return torch.take_along_dim(scores, labels[:, None], dim=1).flatten()


def select_the_diagonal(scores: Tensor, labels: Tensor) -> Tensor:
    return scores[:, labels].diagonal()


def select_by_product(scores: Tensor, labels: Tensor) -> Tensor:
    weights = nn.functional.one_hot(labels, scores.size(1)).to(scores)
    return torch.einsum("nc,nc->n", scores, weights)


def select_by_loss(scores: Tensor, labels: Tensor) -> Tensor:
    return -nn.functional.nll_loss(scores, labels, reduction="none")


def select_by_index_select(scores: Tensor, labels: Tensor) -> Tensor:
    flat = scores.reshape(-1)
    return flat.index_select(0, torch.arange(0, flat.numel(), scores.size(1)).to(labels.device) + labels)


# --- masked_mean -------------------------------------------------------------------------------------------------


def mean_by_where(x: Tensor, mask: Tensor) -> Tensor:
    kept = torch.where(mask[:, :, None], x, torch.zeros_like(x))
    return kept.sum(1) / mask.sum(1, keepdim=True).clamp_min(1)


def mean_by_einsum(x: Tensor, mask: Tensor) -> Tensor:
    clean = x.clone()
    clean[~mask] = 0
    weights = mask.to(x.dtype)
    total = torch.einsum("btd,bt->bd", clean, weights)
    count = weights.sum(dim=1, keepdim=True)
    return torch.where(count > 0, total / count, torch.zeros((), dtype=x.dtype, device=x.device))


def mean_example_by_example(x: Tensor, mask: Tensor) -> Tensor:
    rows = []
    for steps, real in zip(x, mask, strict=True):
        picked = steps[real]
        rows.append(picked.mean(dim=0) if len(picked) else x.new_zeros(x.shape[-1]))
    return torch.stack(rows)


def mean_by_nanmean(x: Tensor, mask: Tensor) -> Tensor:
    hidden = x.masked_fill(mask.logical_not().unsqueeze(-1), float("nan"))
    return hidden.nanmean(dim=1).nan_to_num(nan=0.0)


def mean_by_index_add(x: Tensor, mask: Tensor) -> Tensor:
    owner, _ = mask.nonzero(as_tuple=True)
    total = torch.zeros(x.size(0), x.size(2), dtype=x.dtype, device=x.device).index_add(0, owner, x[mask])
    count = torch.bincount(owner, minlength=x.size(0))
    return total / torch.maximum(count, torch.ones_like(count))[:, None]


def mean_by_matrix_product(x: Tensor, mask: Tensor) -> Tensor:
    real = mask.type_as(x).unsqueeze(1)
    count = real.sum(-1)
    total = torch.bmm(real, torch.masked_fill(x, ~mask[..., None], 0.0)).squeeze(1)
    return total / (count + (count == 0))


def mean_without_empty_rows(x: Tensor, mask: Tensor) -> Tensor:
    mean = x.masked_fill(~mask[..., None], 0).sum(1) / mask.sum(1)[:, None]
    mean[~mask.any(dim=1)] = 0
    return mean


# --- one_hot -----------------------------------------------------------------------------------------------------


def _check_labels(labels: Tensor, num_classes: int) -> None:
    for label in labels.flatten().tolist():
        if not 0 <= label < num_classes:
            raise ValueError(f"`labels` must lie in 0..{num_classes - 1}, but one of them is {label}.")


def one_hot_by_comparison(labels: Tensor, num_classes: int, dtype: torch.dtype = torch.float32) -> Tensor:
    _check_labels(labels, num_classes)
    return torch.eq(labels.unsqueeze(-1), torch.arange(num_classes, device=labels.device)).to(dtype)


def one_hot_by_indexing_an_identity(labels: Tensor, num_classes: int, dtype: torch.dtype = torch.float32) -> Tensor:
    if labels.numel() and (labels.amin() < 0 or labels.amax() >= num_classes):
        low, high = int(labels.min()), int(labels.max())
        raise ValueError(f"labels go from {low} to {high}: they have to be in [0, {num_classes})")
    identity = torch.diag(torch.ones(num_classes, dtype=dtype, device=labels.device))
    return identity[labels.long()]


def one_hot_filled(labels: Tensor, num_classes: int, dtype: torch.dtype = torch.float32) -> Tensor:
    bad = torch.logical_or(labels < 0, labels >= num_classes)
    if bad.any():
        raise ValueError(f"expected labels below {num_classes} and not negative, got {labels[bad].tolist()}")
    flat = labels.reshape(-1).long()
    result = labels.new_zeros((flat.numel(), num_classes), dtype=dtype)
    result[torch.arange(flat.numel(), device=labels.device), flat] = 1
    return result.reshape([*labels.shape, num_classes])


def one_hot_one_by_one(labels: Tensor, num_classes: int, dtype: torch.dtype = torch.float32) -> Tensor:
    if labels.dim():
        if len(labels) == 0:
            return torch.empty(*labels.shape, num_classes, dtype=dtype, device=labels.device)
        return torch.stack([one_hot_one_by_one(part, num_classes, dtype) for part in labels])
    label = labels.item()
    if label < 0 or label >= num_classes:
        raise ValueError("labels has %d in it, allowed are 0 to %d" % (label, num_classes - 1))  # noqa: UP031
    return torch.tensor([float(i == label) for i in range(num_classes)], device=labels.device).to(dtype)


def one_hot_scattered(labels: Tensor, num_classes: int, dtype: torch.dtype = torch.float32) -> Tensor:
    _check_labels(labels, num_classes)
    shape = [*labels.shape, num_classes]
    empty = torch.zeros(shape, device=labels.device, dtype=dtype)
    return empty.scatter_(dim=-1, index=labels[..., None].to(torch.int64), value=1)


# --- to_numpy ----------------------------------------------------------------------------------------------------


def numpy_by_force(t: Tensor) -> np.ndarray[Any, Any]:
    if t.dtype is torch.bfloat16:
        t = t.float()
    return t.numpy(force=True)


def numpy_by_asarray(t: Tensor) -> np.ndarray[Any, Any]:
    t = t.data.to("cpu")
    if t.is_conj():
        t = t.resolve_conj()
    if t.is_neg():
        t = t.resolve_neg()
    return np.asarray(t.to(torch.float32) if t.dtype == torch.bfloat16 else t)


@torch.no_grad()
def numpy_by_dlpack(t: Tensor) -> np.ndarray[Any, Any]:
    here = torch.resolve_neg(torch.resolve_conj(t.detach().cpu()))
    if here.dtype in (torch.bool, torch.bfloat16) or not here.numel():
        return here.numpy() if here.dtype != torch.bfloat16 else here.to(torch.float).numpy()
    return np.from_dlpack(here)


def numpy_with_a_fallback(t: Tensor) -> np.ndarray[Any, Any]:
    attempts: list[Callable[[], Any]] = [
        lambda: t.detach().numpy(),
        lambda: t.detach().cpu().resolve_conj().resolve_neg().numpy(),
    ]
    for attempt in attempts:
        try:
            return np.asarray(attempt())
        except (RuntimeError, TypeError):
            continue
    return np.asarray(t.detach().cpu().float().numpy())


# --- attention_scores --------------------------------------------------------------------------------------------


def attention_by_einsum(q: Tensor, k: Tensor) -> Tensor:
    return torch.einsum("bhtd,bhsd->bhts", q, k) / math.sqrt(q.size(-1))


def attention_by_broadcasting(q: Tensor, k: Tensor) -> Tensor:
    return (q[:, :, :, None] * k[:, :, None]).sum(-1) * math.pow(q.shape[3], -0.5)


def attention_by_bmm(q: Tensor, k: Tensor) -> Tensor:
    b, h, t, d = q.shape
    scores = torch.bmm(q.reshape(b * h, t, d), k.reshape(b * h, -1, d).mT)
    return scores.view(b, h, t, -1) / float(np.sqrt(d))


def attention_head_by_head(q: Tensor, k: Tensor) -> Tensor:
    heads = [
        torch.stack([torch.mm(qh, kh.t()) for qh, kh in zip(qb, kb, strict=True)])
        for qb, kb in zip(q, k, strict=True)
    ]  # fmt: skip
    return torch.stack(heads).div(float(q.shape[-1]) ** 0.5)


def attention_scaled_on_both_sides(q: Tensor, k: Tensor) -> Tensor:
    scale = torch.tensor(q.shape[-1], dtype=q.dtype, device=q.device) ** 0.25
    return torch.matmul(q / scale, (k / scale).permute(0, 1, 3, 2))


class _Scores(nn.Module):
    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return torch.matmul(q, k.transpose(2, 3)) / torch.sqrt(torch.tensor(float(q.shape[-1])))


class _Shape(NamedTuple):
    batch: int
    heads: int
    queries: int
    features: int


def attention_with_named_shape(q: Tensor, k: Tensor) -> Tensor:
    shape = _Shape(*q.shape)
    return (q @ k.swapdims(-1, -2)).mul(1 / math.sqrt(shape.features))


def _scaled(scale: Callable[[int], float], q: Tensor, k: Tensor) -> Tensor:
    return torch.inner(q, k).diagonal(0, 0, 3).diagonal(0, 0, 2).permute(2, 3, 0, 1) / scale(q.shape[-1])


RIGHT: dict[str, list[Callable[..., Any]]] = {
    "describe": [
        describe_by_properties, describe_from_sizes, describe_with_a_named_tuple, describe_contiguity_by_hand,
    ],
    "image_to_chw": [
        image_by_rank, image_by_einsum, image_channel_by_channel, image_filled, image_recursive,
    ],
    "pairwise_distances": [
        distances_by_broadcasting, distances_by_gram, distances_by_gram_in_double, distances_feature_by_feature,
        distances_expanded, distances_by_vmap, distances_by_pairwise_distance,
    ],
    "standardize": [
        standardize_by_hand, standardize_by_var_mean, standardize_flattened, standardize_with_a_loop_over_dims,
        standardize_by_std,
    ],
    "row_softmax": [
        softmax_by_logsumexp, softmax_by_max_values, softmax_in_place, softmax_by_matrix_product, softmax_row_by_row,
        softmax_of_differences, softmax_by_normalize,
    ],
    "flatten_reporting": [
        flatten_by_storage, flatten_by_pointer, flatten_by_base, flatten_by_strides, flatten_asking_forgiveness,
    ],
    "sliding_windows": [
        windows_by_strides, windows_then_every_step, windows_of_a_slice, windows_by_set,
    ],
    "select_scores": [
        select_by_pairs, select_by_mask, select_by_boolean_index, select_from_the_flat, select_along_dim,
        select_the_diagonal, select_by_product, select_by_loss, select_by_index_select,
    ],
    "masked_mean": [
        mean_by_where, mean_by_einsum, mean_example_by_example, mean_by_nanmean, mean_by_index_add,
        mean_by_matrix_product, mean_without_empty_rows,
    ],
    "one_hot": [
        one_hot_by_comparison, one_hot_by_indexing_an_identity, one_hot_filled, one_hot_one_by_one, one_hot_scattered,
    ],
    "to_numpy": [
        numpy_by_force, numpy_by_asarray, numpy_by_dlpack, numpy_with_a_fallback,
    ],
    "attention_scores": [
        attention_by_einsum, attention_by_broadcasting, attention_by_bmm, attention_head_by_head,
        attention_scaled_on_both_sides, _Scores(), attention_with_named_shape, functools.partial(_scaled, math.sqrt),
    ],
}  # fmt: skip
