"""The exercise `autocast_result`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from autograde.source.mistakes import Mistake
from torchcourse.exercises.quizzes.autocast_result import FULL, HALF, OPERATIONS, PAIRS, Dtypes, under
from torchcourse.model.exercise import Case, Draw

WHY = (
    "Two lists are looked up, and the second belongs to the device. What is on neither is left to promotion, which "
    "with two dtypes only means: float32 as soon as one operand is float32."
)
"""Why the reference is written as it is."""
REQUIRED = ("everything-is-half", "same-list-on-every-device", "sum-of-mixed-is-half")
"""The mistakes that a check must always be able to name."""

SECTION = "What autocast returns"
PRODUCTS = frozenset({"matmul", "linear", "conv2d"})
BOTH = frozenset({"mse_loss", "prod"})
CUDA = BOTH | {"exp", "softmax", "sum", "layer_norm"}


def result(
    op: str,
    dtypes: Dtypes,
    device_type: str,
    *,
    narrow: frozenset[str] = PRODUCTS,
    on_cpu: frozenset[str] = BOTH,
    on_cuda: frozenset[str] = CUDA,
    mixed: torch.dtype = FULL,
) -> torch.dtype:
    """Return the right answer, of which mistakes change one part."""
    if op in narrow:
        return HALF
    if op in (on_cuda if device_type == "cuda" else on_cpu):
        return FULL
    return dtypes[0] if len(set(dtypes)) == 1 else mixed


def everything_is_half(op: str, dtypes: Dtypes, device_type: str) -> torch.dtype:
    return HALF


def only_products_change(op: str, dtypes: Dtypes, device_type: str) -> torch.dtype:
    return result(op, dtypes, device_type, on_cpu=frozenset(), on_cuda=frozenset())


def half_unless_listed(op: str, dtypes: Dtypes, device_type: str) -> torch.dtype:
    return FULL if op in (CUDA if device_type == "cuda" else BOTH) else HALF


def nothing_changes(op: str, dtypes: Dtypes, device_type: str) -> torch.dtype:
    return FULL if FULL in dtypes else HALF


def products_promote(op: str, dtypes: Dtypes, device_type: str) -> torch.dtype:
    return FULL if op in PRODUCTS and len(set(dtypes)) == 2 else result(op, dtypes, device_type)


def first_operand_decides(op: str, dtypes: Dtypes, device_type: str) -> torch.dtype:
    return result(op, (dtypes[0],), device_type)


RUN = "PyTorch runs `{run}` and {said}; you predict {got}: "
MISTAKES = [
    Mistake("everything-is-half", everything_is_half, RUN + "autocast narrows matrix products and convolutions, and "
            "leaves most operations as they are.", SECTION),
    Mistake("everything-is-half", half_unless_listed, RUN + "an operation on no list is not narrowed.", SECTION),
    Mistake("same-list-on-every-device", partial(result, on_cpu=CUDA), RUN + "the CPU's list of wide operations is "
            "shorter than CUDA's.", SECTION),
    Mistake("same-list-on-every-device", partial(result, on_cuda=BOTH), RUN + "CUDA's list of wide operations is "
            "longer than the CPU's.", SECTION),
    Mistake("sum-of-mixed-is-half", partial(result, mixed=HALF), RUN + "neither `+` nor `*` is on a list, so "
            "promotion takes the wider dtype.", SECTION),
    Mistake("first-operand-decides", first_operand_decides, RUN + "the order of the operands does not matter.",
            SECTION),
    Mistake("nothing-is-widened", only_products_change, RUN + "some operations run in float32, whatever comes in.",
            SECTION),
    Mistake("nothing-changes", nothing_changes, RUN + "autocast overrules the dtypes of its listed operations.",
            SECTION),
    Mistake("products-promote", products_promote, RUN + "autocast casts both operands of a matrix product or "
            "convolution to bfloat16 first.", SECTION),
    Mistake("means-are-sums", partial(result, on_cuda=CUDA | {"mean"}), RUN + "`sum` is on CUDA's list, but `mean` is "
            "not.", SECTION),
    Mistake("relu-is-a-layer", partial(result, narrow=PRODUCTS | {"relu", "mean"}), RUN + "only matrix "
            "products and convolutions are narrowed.", SECTION),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    def dtypes(op: str) -> list[Dtypes]:
        return [(HALF, HALF), draw.pick([(FULL, HALF), (HALF, FULL)])] if op in PAIRS else [(HALF,), (FULL,)]

    return [under(op, device, *some) for op in OPERATIONS for device in ("cpu", "cuda") for some in dtypes(op)]


# Right answers unlike the reference


def by_table(op: str, dtypes: Dtypes, device_type: str) -> torch.dtype:
    table = dict.fromkeys(("matmul", "linear", "conv2d"), ("half", "half"))
    table |= dict.fromkeys(("mse_loss", "prod"), ("full", "full"))
    table |= dict.fromkeys(("exp", "softmax", "sum", "layer_norm"), ("as it is", "full"))
    rule = table.get(op, ("as it is", "as it is"))[device_type == "cuda"]
    return {"half": torch.bfloat16, "full": torch.float32}.get(rule, max(dtypes, key=lambda dtype: dtype.itemsize))


def by_matching(op: str, dtypes: Dtypes, device_type: str) -> torch.dtype:
    match op, device_type:
        case (("matmul" | "linear" | "conv2d"), _):
            return torch.bfloat16
        case (("mse_loss" | "prod"), _) | (("exp" | "softmax" | "sum" | "layer_norm"), "cuda"):
            return torch.float32
    return torch.float32 if torch.float32 in dtypes else torch.bfloat16


RIGHT_ANSWERS: list[Callable[..., Any]] = [by_table, by_matching]
