"""The exercise `result_dtype`: its probe, visible cases, ground truth and hints."""

from __future__ import annotations

from typing import Any

import torch

from torchcourse.checking.probe import Watched
from torchcourse.checking.torchs_modules import TORCH
from torchcourse.model.exercise import Case, Draw, Exercise, InterviewQuestion, case
from torchcourse.model.observations import Observations

Operand = tuple[str, torch.dtype]
WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
DTYPES = (torch.bool, *WHOLE, *FLOATS)
NUMBERS: dict[torch.dtype, Any] = {torch.bool: True, torch.int64: 1, torch.float64: 1.0}
"""Python's numbers, by the dtype that holds everything they can be."""


def probe(answer: Watched, a: Operand, b: Operand) -> Observations:
    """Observe the dtype that an answer predicts."""
    return {"prediction": answer(a, b)}


def made(operand: Operand) -> Any:
    """Return the tensor or number that an operand describes."""
    kind, dtype = operand
    return NUMBERS[dtype] if kind == "number" else torch.ones(2 if kind == "tensor" else (), dtype=dtype)


def ground_truth(a: Operand, b: Operand) -> torch.dtype:
    """Add two such operands."""
    dtype: torch.dtype = (made(a) + made(b)).dtype
    return dtype


def cases(draw: Draw) -> list[Case]:
    def added(name: str, a: Operand, b: Operand) -> Case:
        return case(name, a=a, b=b) if draw.size(0, 1) else case(name, a=b, b=a)

    half = draw.pick([torch.float16, torch.bfloat16])
    small, wide = draw.pick([torch.int8, torch.int16]), draw.pick([torch.int32, torch.int64])
    return [
        added("two widths of integer", ("tensor", small), ("tensor", wide)),
        added("wide integers and a narrow float", ("tensor", torch.int64), ("tensor", half)),
        added("the two half floats", ("tensor", torch.float16), ("tensor", torch.bfloat16)),
        added("8 bits with and without a sign", ("tensor", torch.uint8), ("tensor", torch.int8)),
        added("uint8 and a wider integer", ("tensor", torch.uint8), ("tensor", wide)),
        added("a flag and an integer", ("tensor", torch.bool), ("tensor", small)),
        added("a wider float without dimensions", ("tensor", half), ("scalar", torch.float64)),
        added("a wider integer without dimensions", ("tensor", small), ("scalar", torch.int64)),
        added("an integer tensor, a float without dimensions", ("tensor", wide), ("scalar", half)),
        added("an integer tensor, a double without dimensions", ("tensor", small), ("scalar", torch.float64)),
        added("two without dimensions", ("scalar", half), ("scalar", torch.float64)),
        added("a half tensor and a Python float", ("tensor", half), ("number", torch.float64)),
        added("a double tensor and a Python float", ("tensor", torch.float64), ("number", torch.float64)),
        added("a small integer and a Python int", ("tensor", small), ("number", torch.int64)),
        added("an integer tensor and a Python float", ("tensor", wide), ("number", torch.float64)),
        added("a flag and a Python int", ("tensor", torch.bool), ("number", torch.int64)),
        added("no dimensions and a Python float", ("scalar", half), ("number", torch.float64)),
        added("an integer without dimensions and a Python float", ("scalar", small), ("number", torch.float64)),
    ]


def written(operand: Operand) -> str:
    """Return an operand as code."""
    kind, dtype = operand
    return (
        repr(NUMBERS[dtype]) if kind == "number" else f"torch.ones({'2' if kind == 'tensor' else '()'}, dtype={dtype})"
    )


def quotes(inputs: Observations, _seen: Observations, wanted: Observations) -> dict[str, object]:
    return {"run": f"({written(inputs['a'])} + {written(inputs['b'])}).dtype", "said": f"gets {wanted['prediction']}"}


EXERCISE = Exercise(
    "result_dtype",
    probe,
    cases,
    hints=(
        "There are three categories here: flags, integers, floats. Which category does the result always have? Only "
        "after that ask how wide it is.",
        "A tensor with dimensions outranks a 0-D tensor, and that outranks a Python number. What may the one of lower "
        "rank still change: the width, the category, or both?",
        "If the higher category comes from a Python float, which float is it made to? And within a rank: which two "
        "pairs of the same width give a dtype that is neither of the two?",
    ),
    quotes=quotes,
    any_device=False,
    forbids=(TORCH,),
    ground_truth=ground_truth,
    interview=InterviewQuestion(
        "What dtype comes out if you add a float16 tensor and a float64 number?",
        "float16: operands have ranks, first tensors with dimensions, then 0-D tensors, then Python numbers, and a "
        "lower rank changes the result only if its category is higher, with flags below integers below floats. A "
        "Python float beside integers becomes the default dtype, float32. Among operands of one rank the dtype that "
        "holds both wins, so float16 and bfloat16 give float32, and uint8 and int8 give int16.",
        "01_tensors",
    ),
)
