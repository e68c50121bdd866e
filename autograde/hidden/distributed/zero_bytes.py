"""The exercise `zero_bytes`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from autograde.hidden.common import override
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "The stage decides for each of the three kinds whether a rank holds all parameters or a share, so there are three "
    "counts, and only then bytes. States and master copy are float32 whatever the parameters are, 12 bytes together. "
    "The share rounds up in whole parameters: `-(-a // b)` does it without floats, which lose digits."
)
"""Why the reference is written as it is."""
REQUIRED = ("splits-wrong-part", "forgets-master-weights", "rounds-down")
"""The mistakes that a check must always be able to name."""

MEMORY = "What a rank has to hold"


class Zero:
    """A right program; a mistake overrides one of its methods or numbers."""

    states = 12
    first_stage = {"states": 1, "gradients": 2, "parameters": 3}  # noqa: RUF012 - never changed

    def __call__(
        self, num_params: int, world_size: int, *, stage: int, param_dtype: torch.dtype = torch.bfloat16
    ) -> Any:
        def held(what: str) -> int:
            return self.share(num_params, world_size) if stage >= self.first_stage[what] else num_params

        each = {"states": self.states_of(param_dtype), "parameters": param_dtype.itemsize,
                "gradients": self.gradient_of(param_dtype)}  # fmt: skip
        return self.returned(sum(held(what) * size for what, size in each.items()))

    def share(self, num_params: int, world_size: int) -> int:
        return -(-num_params // world_size)

    def states_of(self, dtype: torch.dtype) -> int:
        return self.states

    def gradient_of(self, dtype: torch.dtype) -> int:
        return dtype.itemsize

    def returned(self, count: int) -> Any:
        return count


def counting(**changes: Any) -> Callable[..., Any]:
    """Return the right program with these attributes in place of its own."""
    program: Callable[..., Any] = override(Zero, **changes)()
    return program


def splits_the_total(num_params: int, world_size: int, *, stage: int, param_dtype: torch.dtype = torch.bfloat16) -> int:
    whole = counting()(num_params, 1, stage=0, param_dtype=param_dtype)
    return int(whole if stage == 0 else math.ceil(whole / world_size))


def gradients_too_early(
    num_params: int, world_size: int, *, stage: int, param_dtype: torch.dtype = torch.bfloat16
) -> int:
    share = -(-num_params // world_size)
    parameters = share if stage >= 3 else num_params
    others = share if stage >= 1 else num_params
    return parameters * param_dtype.itemsize + others * (12 + param_dtype.itemsize)


def master_with_the_parameters(
    num_params: int, world_size: int, *, stage: int, param_dtype: torch.dtype = torch.bfloat16
) -> int:
    share = -(-num_params // world_size)
    sizes = {1: 8, 2: param_dtype.itemsize, 3: param_dtype.itemsize + 4}
    return sum(size * (share if stage >= first else num_params) for first, size in sizes.items())


def rounds_the_bytes(num_params: int, world_size: int, *, stage: int, param_dtype: torch.dtype = torch.bfloat16) -> int:
    size = param_dtype.itemsize
    split = 12 * (stage >= 1) + size * (stage >= 2) + size * (stage >= 3)
    return num_params * (12 + 2 * size - split) - (-num_params * split // world_size)


def averages_in_param_dtype_rounding_the_bytes(
    num_params: int, world_size: int, *, stage: int, param_dtype: torch.dtype = torch.bfloat16
) -> int:
    size = param_dtype.itemsize
    pieces = [2 * size + 4, size, size]
    return num_params * sum(pieces[stage:]) - (-num_params * sum(pieces[:stage]) // world_size)


def four_or_two_bytes(
    num_params: int, world_size: int, *, stage: int, param_dtype: torch.dtype = torch.bfloat16
) -> Any:
    known = param_dtype if param_dtype == torch.float32 else torch.bfloat16
    return counting()(num_params, world_size, stage=stage, param_dtype=known)


def always_two_bytes(num_params: int, world_size: int, *, stage: int, param_dtype: torch.dtype = torch.bfloat16) -> Any:
    return counting()(num_params, world_size, stage=stage)


COUNT = 'In the case "{case}" a rank holds {want_each} bytes for each parameter of the model, but {got_each} came out: '
ORDER = "stage 1 splits states and master copy, stage 2 also the gradients, stage 3 also the parameters."
MISTAKES = [
    Mistake("splits-wrong-part", counting(first_stage={"gradients": 1, "states": 2, "parameters": 3}), COUNT + ORDER,
            MEMORY),
    Mistake("splits-wrong-part", counting(first_stage={"parameters": 1, "gradients": 2, "states": 3}), COUNT + ORDER,
            MEMORY),
    Mistake("splits-wrong-part", gradients_too_early, COUNT + ORDER, MEMORY),
    Mistake("splits-wrong-part", splits_the_total, COUNT + "everything was split, but " + ORDER, MEMORY),
    Mistake("splits-wrong-part", master_with_the_parameters, COUNT + "the master copy is split at stage 1, with "
            "AdamW's averages, and not at stage 3 with the parameters.", MEMORY),
    Mistake("always-two-bytes", always_two_bytes, COUNT + "`param_dtype` decides how large parameters and gradients "
            "are; 2 bytes are right for bfloat16, not for every dtype.", MEMORY),
    Mistake("knows-two-sizes", four_or_two_bytes, COUNT + "dtypes other than float32 need not have 2 bytes. Ask the "
            "dtype: `param_dtype.itemsize`.", MEMORY),
    Mistake("counts-from-zero", counting(first_stage={"states": 0, "gradients": 1, "parameters": 2}), COUNT + "at "
            "stage 0 nothing is split; " + ORDER, MEMORY),
    Mistake("forgets-master-weights", counting(states=8), COUNT + "beside AdamW's two averages there is a float32 copy "
            "of the weights, 4 bytes more.", MEMORY),
    Mistake("master-only-for-half-precision", counting(states_of=lambda self, dtype: 8 if dtype.itemsize == 4 else 12),
            COUNT + "the master copy counts here for any dtype of the parameters.", MEMORY),
    Mistake("states-in-param-dtype", counting(states_of=lambda self, dtype: 4 + 2 * dtype.itemsize), COUNT + "AdamW's "
            "averages are float32, whatever the parameters are.", MEMORY),
    Mistake("states-in-param-dtype", counting(states_of=lambda self, dtype: 3 * dtype.itemsize), COUNT + "AdamW's "
            "averages and the master copy are float32, whatever the parameters are.", MEMORY),
    Mistake("states-in-param-dtype", averages_in_param_dtype_rounding_the_bytes, COUNT + "AdamW's averages are "
            "float32, whatever the parameters are. And a rank's share is a whole number of parameters, not of bytes.",
            MEMORY),
    Mistake("float32-gradients", counting(gradient_of=lambda self, dtype: 4), COUNT + "the gradients have the dtype of "
            "the parameters here.", MEMORY),
    Mistake("forgets-gradients", counting(gradient_of=lambda self, dtype: 0), COUNT + "a rank holds gradients, too.",
            MEMORY),
    Mistake("rounds-down", counting(share=lambda self, n, w: n // w), 'In the case "{case}" {returned} bytes came out '
            "where {exact} is wanted: a share rounds up, or some parameters would belong to no rank.", MEMORY),
    Mistake("rounds-the-bytes", rounds_the_bytes, 'In the case "{case}" {returned} bytes came out where {exact} is '
            "wanted: the share of a rank is a whole number of parameters, not of bytes.", MEMORY),
    Mistake("returns-float", counting(share=lambda self, n, w: n / w), 'In the case "{case}" the {what} came out as '
            "{got}: `/` gives a float, and a share is a whole number of parameters, rounded up.", MEMORY),
    Mistake("returns-float", counting(returned=float), 'In the case "{case}" the {what} came out as {got}: a number of '
            "bytes is an int.", MEMORY),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    def any_model(stage: int, dtype: torch.dtype) -> dict[str, Any]:
        return {"num_params": draw.size(10**6, 10**8), "world_size": draw.size(3, 31), "stage": stage,
                "param_dtype": dtype}  # fmt: skip

    return [
        *(case(f"float16, stage {stage}", **any_model(stage, torch.float16)) for stage in range(4)),
        *(case(f"float32, stage {stage}", **any_model(stage, torch.float32)) for stage in (0, 2)),
        *(case(f"float64, stage {stage}", **any_model(stage, torch.float64)) for stage in (1, 3)),
        case("more ranks than parameters", num_params=3, world_size=8, stage=2),
    ]


# Right answers unlike the reference


def bytes_by_a_table(num_params: int, world_size: int, *, stage: int, param_dtype: torch.dtype = torch.bfloat16) -> int:
    size = torch.empty((), dtype=param_dtype).element_size()
    share, left = divmod(num_params, world_size)
    share += left > 0
    whole = {0: 2 * size + 12, 1: 2 * size, 2: size, 3: 0}[stage]
    return num_params * whole + share * (2 * size + 12 - whole)


def bytes_step_by_step(
    num_params: int, world_size: int, *, stage: int, param_dtype: torch.dtype = torch.bfloat16
) -> int:
    each = [num_params] * 3  # parameters, gradients, float32 numbers
    for split in range(stage):
        each[2 - split] = (num_params + world_size - 1) // world_size
    bits = torch.finfo(param_dtype).bits
    return each[0] * bits // 8 + each[1] * bits // 8 + each[2] * (4 + 4 + 4)


RIGHT_ANSWERS: list[Callable[..., Any]] = [bytes_by_a_table, bytes_step_by_step]
