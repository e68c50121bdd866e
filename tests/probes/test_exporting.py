"""Exports to ONNX: the list of operators that torch can translate is made once, and given to each export."""

from __future__ import annotations

from typing import Any

import pytest
from torch.onnx._internal.exporter._registration import ONNXRegistry

from torchcourse.probes import exporting
from torchcourse.probes.exporting import operators_known


def test_exports_share_the_operators_and_not_what_one_of_them_adds(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    real = vars(ONNXRegistry)["from_torchlib"]

    def counted(cls: type[ONNXRegistry], opset_version: int = 18) -> ONNXRegistry:
        made.append(opset_version)
        registry = cls()
        registry._opset_version = opset_version
        registry.functions = {"aten::add": ["as torch translates it"]}  # type: ignore[dict-item]
        return registry

    monkeypatch.setattr(exporting, "_known_operators", {})
    monkeypatch.setattr(ONNXRegistry, "from_torchlib", classmethod(counted))
    replaced: Any = vars(ONNXRegistry)["from_torchlib"]
    for _ in range(2):
        with operators_known():
            first = ONNXRegistry().from_torchlib(opset_version=20)
            first.functions["aten::add"].append("as an answer does")  # type: ignore[arg-type]
            first.functions["own::add"] = []
            assert first.opset_version == 20
            assert ONNXRegistry.from_torchlib(opset_version=20).functions == {"aten::add": ["as torch translates it"]}
            assert ONNXRegistry.from_torchlib().opset_version == 18
    assert made == [20, 18]
    assert vars(ONNXRegistry)["from_torchlib"] is replaced
    monkeypatch.undo()
    assert vars(ONNXRegistry)["from_torchlib"] is real
