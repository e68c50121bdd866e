"""Export models quickly, and run them with several batch sizes."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from torchcourse.model.observations import Observations, Raised
from torchcourse.probes.observe import kind

__all__ = ["in_onnx_runtime", "operators_known", "outcomes"]

REFUSED, WRONG_DTYPE = "refuses this batch", "takes another dtype"
_known_operators: dict[tuple[int, ...], Any] = {}


def operators_known() -> AbstractContextManager[object]:
    """Let exports to ONNX in a block share the list of operators that torch can translate.

    torch makes the list anew for each export, from the source text of 500 functions; that is most of an export's time.
    """
    try:
        from torch.onnx._internal.exporter._registration import ONNXRegistry
    except ImportError:  # another version of torch: its exports take as long as they take
        return nullcontext()
    make = ONNXRegistry.from_torchlib

    def copied(**opset: int) -> ONNXRegistry:
        version = tuple(opset.values())
        if version not in _known_operators:
            _known_operators[version] = make(**opset)
        registry: ONNXRegistry = copy(_known_operators[version])
        registry.functions = {target: [*found] for target, found in registry.functions.items()}  # exports add to it
        return registry

    return patch.object(ONNXRegistry, "from_torchlib", staticmethod(copied))


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
        reason = WRONG_DTYPE if "input data type" in str(error) else REFUSED
        return Raised("refused", textwrap.shorten(str(error), 160, placeholder="..."), reason)
    return result if isinstance(result, Tensor) else kind(result)
