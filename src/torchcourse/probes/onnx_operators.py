"""List the operators that torch can translate to ONNX when this module is imported, so that no fork has to."""

from __future__ import annotations

from torch.onnx._constants import ONNX_DEFAULT_OPSET
from torch.onnx._internal.exporter._registration import ONNXRegistry

from torchcourse.probes.exporting import operators_known

with operators_known():
    ONNXRegistry.from_torchlib(opset_version=ONNX_DEFAULT_OPSET)
