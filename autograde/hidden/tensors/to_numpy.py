"""The exercise `to_numpy`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "NumPy wants plain numbers on the CPU without a history, so each step undoes one thing, and costs nothing "
    "where it is not needed. None of them copies an ordinary CPU tensor: the memory stays shared. NumPy has no "
    "bfloat16; float32 holds every value of it."
)
"""Why the reference is written as it is."""
REQUIRED = ("no-detach", "no-cpu", "always-copies", "bfloat16-unsupported")
"""The mistakes that a check must always be able to name."""

NUMPY = "NumPy"
Array = np.ndarray[Any, Any]


def plain(t: Tensor) -> Tensor:
    return t.detach().cpu().resolve_conj().resolve_neg()


def to_numpy(t: Tensor) -> Array:
    return numpy_with(plain(t), torch.float32)


def numpy_with(t: Tensor, for_bfloat16: torch.dtype) -> Array:
    array: Array = (t.to(for_bfloat16) if t.dtype == torch.bfloat16 else t).numpy()
    return array


def no_detach(t: Tensor) -> Array:
    return numpy_with(t.cpu().resolve_conj().resolve_neg(), torch.float32)


def no_cpu(t: Tensor) -> Array:
    return numpy_with(t.detach().resolve_conj().resolve_neg(), torch.float32)


def conj_unresolved(t: Tensor) -> Array:
    return numpy_with(t.detach().cpu().resolve_neg(), torch.float32)


def neg_unresolved(t: Tensor) -> Array:
    return numpy_with(t.detach().cpu().resolve_conj(), torch.float32)


def neither_resolved(t: Tensor) -> Array:
    return numpy_with(t.detach().cpu(), torch.float32)


def made_contiguous(t: Tensor) -> Array:
    return np.ascontiguousarray(to_numpy(t)).reshape(t.shape)


def through_float32(t: Tensor) -> Array:
    return np.asarray(plain(t).float())


def floats_through_float32(t: Tensor) -> Array:
    return through_float32(t) if t.is_floating_point() else to_numpy(t)


NO_DETACH = (
    'In the case "{case}" the call raised {grad_error}: a tensor that requires grad has to leave the graph first.'
)
NO_CPU = (
    "On the second device the call raised {device_error}: NumPy reads host memory, so the tensor has to be copied "
    "there first."
)
UNRESOLVED = (
    'In the case "{case}" the call raised {bit_error}: the view has not flipped its signs in memory yet, and NumPy '
    "would not know."
)
COPIED_ARRAY = (
    'In the case "{case}" t was changed afterwards and the array did not follow, its first entry being {kept_entry}: '
    "it is a copy where memory could have been shared."
)
AS_FLOAT32 = "An array of {seen_dtype} came out where {wanted_dtype} is wanted: only bfloat16 needs another dtype."
MISTAKES = [
    Mistake("no-detach", no_detach, NO_DETACH, NUMPY),
    Mistake("no-detach", lambda t: t.cpu().numpy(), NO_DETACH, NUMPY),
    Mistake("no-detach", lambda t: t.numpy(), NO_DETACH, NUMPY),
    Mistake("no-cpu", no_cpu, NO_CPU, NUMPY),
    Mistake("no-cpu", lambda t: t.detach().numpy(), NO_CPU, NUMPY),
    Mistake("bfloat16-unsupported", lambda t: plain(t).numpy(), "In the case \"{case}\" the call raised "
            "{scalar_error}: NumPy has no bfloat16, so it has to become float32 first.", NUMPY),
    Mistake("bfloat16-as-float16", lambda t: numpy_with(plain(t), torch.float16), "A bfloat16 tensor came out as "
            "{seen_dtype} where {wanted_dtype} is wanted: float16 has as many bits, but a smaller range.", NUMPY),
    Mistake("bfloat16-as-float64", lambda t: numpy_with(plain(t), torch.float64), "A bfloat16 tensor came out as "
            "{seen_dtype} where {wanted_dtype} is wanted: float32 already holds each of its values.", NUMPY),
    Mistake("always-copies", lambda t: to_numpy(t).copy(), COPIED_ARRAY, NUMPY),
    Mistake("always-copies", made_contiguous, COPIED_ARRAY, NUMPY),
    Mistake("conjugate-view-unresolved", conj_unresolved, UNRESOLVED, NUMPY),
    Mistake("conjugate-view-unresolved", neither_resolved, UNRESOLVED, NUMPY),
    Mistake("negative-view-unresolved", neg_unresolved, UNRESOLVED, NUMPY),
    Mistake("changes-requires-grad", lambda t: to_numpy(t.requires_grad_(False)), "After the call `{what}` was {got} "
            "and should be {want}: the caller's own tensor was changed; `detach()` returns a second one instead.",
            NUMPY),
    Mistake("everything-as-float32", through_float32, AS_FLOAT32, NUMPY),
    Mistake("everything-as-float32", floats_through_float32, AS_FLOAT32, NUMPY),
    Mistake("everything-as-float32", lambda t: through_float32(t).copy(), AS_FLOAT32, NUMPY),
    Mistake("built-from-a-list", lambda t: np.array(t.tolist()), "In the case \"{case}\" an array of {seen_dtype} came "
            "out where {wanted_dtype} is wanted: Python numbers remember neither the dtype nor the memory.", NUMPY),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    n = draw.size(2, 6)
    common: dict[str, Any] = {"negative": False}
    waves = torch.complex(draw.normal(n, 2), draw.normal(n, 2))
    return [
        case("float16", **common, t=draw.normal(n, dtype=torch.float16)),
        case("complex", **common, t=waves),
        case("a conjugate transpose", **common, t=waves.mH),
        case("the imaginary part of a conjugate", **common, t=waves.conj().imag),
        case("integers", **common, t=draw.integers(-9, 9, n, dtype=draw.pick([torch.int8, torch.int32, torch.int64]))),
        case("unsigned", **common, t=draw.integers(0, 99, n).to(draw.pick([torch.uint16, torch.uint32, torch.uint64]))),
        case("uint8, strided", **common, t=draw.integers(0, 256, 2 * n, dtype=torch.uint8)[::2]),
        case("float64, part of a larger tensor", **common, t=draw.normal(n, 5, dtype=torch.float64)[1:, 2:]),
        case("bfloat16 that requires grad", **common, t=draw.normal(n, dtype=torch.bfloat16).requires_grad_()),
        case("no elements", **common, t=torch.empty(0, 3)),
    ]


# Right answers unlike the reference


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


RIGHT_ANSWERS: list[Callable[..., Any]] = [
    numpy_by_force,
    numpy_by_asarray,
    numpy_by_dlpack,
    numpy_with_a_fallback,
]
