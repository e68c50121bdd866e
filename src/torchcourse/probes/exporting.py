"""Run exported models with several batch sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torchcourse.model.observations import Observations, Raised
from torchcourse.probes.observe import kind

__all__ = ["in_onnx_runtime", "outcomes"]

REFUSED = "refuses this batch"


def in_onnx_runtime(path: Path) -> Callable[[Tensor], Any]:
    """Return a function from tensor to tensor that runs a model in ONNX Runtime, in one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4  # the exception says the same

    def run(x: Tensor) -> Tensor:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        (first,) = session.get_inputs()
        return torch.from_numpy(session.run(None, {first.name: x.numpy()})[0].copy())

    return run


def outcomes(run: Callable[[Tensor], Any], x: Tensor, batches: Sequence[int]) -> Observations:
    """Observe `run` on the first rows of x, for each number of rows in `batches`."""
    return {f"batch of {rows}": _outcome(run, x[:rows].clone()) for rows in batches}


def _outcome(run: Callable[[Tensor], Any], x: Tensor) -> Any:
    try:
        with torch.no_grad():
            result = run(x)
    except Exception as error:
        return Raised("refused", " ".join(str(error).split())[:160], REFUSED)
    return result if isinstance(result, Tensor) else kind(result)
