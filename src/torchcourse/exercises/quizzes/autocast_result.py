"""The exercise `autocast_result`: its probe, visible cases, ground truth and hints."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from torchcourse.checking.probe import Watched
from torchcourse.checking.torchs_modules import TORCH
from torchcourse.model.exercise import Case, Draw, Exercise, InterviewQuestion, case
from torchcourse.model.observations import Observations

Dtypes = tuple[torch.dtype, ...]
FULL, HALF = torch.float32, torch.bfloat16


def _image(x: Tensor) -> Tensor:
    return x.view(1, 1, *x.shape)


OPERATIONS: dict[str, tuple[str, Callable[..., Tensor]]] = {
    "matmul": ("a @ b", torch.matmul),
    "linear": ("F.linear(a, b)", F.linear),
    "conv2d": ("F.conv2d(a, b)", lambda a, b: F.conv2d(_image(a), _image(b))),
    "add": ("a + b", torch.add),
    "mul": ("a * b", torch.mul),
    "cat": ("torch.cat([a, b])", lambda a, b: torch.cat([a, b])),
    "mse_loss": ("F.mse_loss(a, b)", F.mse_loss),
    "exp": ("a.exp()", torch.exp),
    "softmax": ("a.softmax(-1)", lambda a: a.softmax(-1)),
    "sum": ("a.sum()", torch.sum),
    "layer_norm": ("F.layer_norm(a, a.shape[-1:])", lambda a: F.layer_norm(a, a.shape[-1:])),
    "prod": ("a.prod()", torch.prod),
    "relu": ("a.relu()", torch.relu),
    "mean": ("a.mean()", torch.mean),
}
"""The operations by name, as code and as functions."""
PAIRS = ("matmul", "linear", "conv2d", "add", "mul", "cat", "mse_loss")
"""The operations that take two tensors."""


def probe(answer: Watched, op: str, dtypes: Dtypes, device_type: str) -> Observations:
    """Observe the dtype that an answer predicts."""
    return {"prediction": answer(op, dtypes, device_type)}


@contextlib.contextmanager
def _autocast(device_type: str) -> Iterator[None]:
    """Turn bfloat16 autocast on, also for a device that is not there: `torch.autocast` would turn itself off."""
    before = torch.is_autocast_enabled(device_type), torch.get_autocast_dtype(device_type)
    torch.set_autocast_dtype(device_type, HALF)
    torch.set_autocast_enabled(device_type, True)
    torch.autocast_increment_nesting()
    try:
        yield
    finally:
        if torch.autocast_decrement_nesting() == 0:
            torch.clear_autocast_cache()
        torch.set_autocast_enabled(device_type, before[0])
        torch.set_autocast_dtype(device_type, before[1])


def ground_truth(op: str, dtypes: Dtypes, device_type: str) -> torch.dtype:
    """Run the operation under autocast. For CUDA the tensors are fake: they have a device and no numbers."""
    from torch._subclasses import FakeTensorMode  # imports much

    fake = FakeTensorMode() if device_type != "cpu" else contextlib.nullcontext()
    with fake, _autocast(device_type):
        tensors = [torch.ones(4, 4, dtype=dtype, device=device_type) for dtype in dtypes]
        return OPERATIONS[op][1](*tensors).dtype


def under(op: str, device_type: str, *dtypes: torch.dtype) -> Case:
    """Return the case of one operation."""
    names = " and ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
    return case(f"{op} of {names} on {device_type}", op=op, dtypes=dtypes, device_type=device_type)


def cases(draw: Draw) -> list[Case]:
    product, other = draw.pick(["matmul", "linear"]), draw.pick(["add", "mul"])
    return [
        under(product, "cpu", FULL, FULL),
        under("conv2d", "cpu", FULL, HALF),
        under(other, "cpu", FULL, HALF),
        under(other, "cpu", HALF, HALF),
        under(other, "cpu", FULL, FULL),
        under("cat", "cpu", HALF, FULL),
        under("softmax", "cpu", HALF),
        under("softmax", "cpu", FULL),
        under("exp", "cpu", HALF),
        under("sum", "cpu", HALF),
        under("layer_norm", "cpu", HALF),
        under("mse_loss", "cpu", HALF, HALF),
        under("prod", "cpu", HALF),
        under("relu", "cpu", HALF),
        under("mean", "cpu", FULL),
        under(product, "cuda", FULL, HALF),
        under("softmax", "cuda", HALF),
        under("exp", "cuda", HALF),
        under("sum", "cuda", HALF),
        under("layer_norm", "cuda", HALF),
        under("prod", "cuda", HALF),
        under("mse_loss", "cuda", HALF, HALF),
        under("mean", "cuda", HALF),
        under(other, "cuda", FULL, HALF),
    ]


def quotes(inputs: Observations, _seen: Observations, wanted: Observations) -> dict[str, object]:
    names = [str(dtype).removeprefix("torch.") for dtype in inputs["dtypes"]]
    of = f"a of {names[0]}" + (f" and b of {names[1]}" if len(names) > 1 else "")
    run = f"with torch.autocast({inputs['device_type']!r}, torch.bfloat16): {OPERATIONS[inputs['op']][0]}"
    return {"run": run, "said": f"gets {str(wanted['prediction']).removeprefix('torch.')} (with {of})"}


EXERCISE = Exercise(
    "autocast_result",
    probe,
    cases,
    hints=(
        "Sort the operations into three: products, which autocast makes narrow; those that add up or explode, which "
        "it may make wide; and the rest. Which two of these lists does autocast touch at all?",
        "An operation on no list does what it does without autocast. What is the dtype of a float32 and a bfloat16 "
        "tensor added, or concatenated?",
        "The list of wide operations is longer on CUDA than on the CPU. Which operations of the lesson's table have "
        "different columns, and which are wide on both?",
    ),
    quotes=quotes,
    any_device=False,
    forbids=(TORCH,),
    ground_truth=ground_truth,
    interview=InterviewQuestion(
        "Under bfloat16 autocast, which tensors are bfloat16?",
        "The results of matrix products and convolutions, because those are fast in half precision and lose little. "
        "Operations that add up or explode run in float32, but the list is the device's own: softmax, sum and layer "
        "norm are on CUDA's and not on the CPU's. Everything else follows promotion as always, so bfloat16 plus "
        "float32 is float32.",
        "07_mixed_precision",
    ),
)
