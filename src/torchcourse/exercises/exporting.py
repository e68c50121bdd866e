"""Running what was exported, over several batch sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torchcourse.exercises.looking import kind
from torchcourse.observations import Observations, Raised

__all__ = ["in_onnx_runtime", "outcomes"]

REFUSED = "refuses this batch"


def in_onnx_runtime(path: Path) -> Callable[[Tensor], Any]:
    """A model in ONNX Runtime, in one thread, as a function from a tensor to a tensor."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4  # what it would print, the exception says too

    def run(x: Tensor) -> Tensor:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        (first,) = session.get_inputs()
        return torch.from_numpy(session.run(None, {first.name: x.numpy()})[0].copy())

    return run


def outcomes(run: Callable[[Tensor], Any], x: Tensor, batches: Sequence[int]) -> Observations:
    """What `run` makes of the first rows of x, for each number of them."""
    return {f"batch of {rows}": _outcome(run, x[:rows].clone()) for rows in batches}


def _outcome(run: Callable[[Tensor], Any], x: Tensor) -> Any:
    try:
        with torch.no_grad():
            result = run(x)
    except Exception as error:
        return Raised("refused", " ".join(str(error).split())[:160], REFUSED)
    return result if isinstance(result, Tensor) else kind(result)
