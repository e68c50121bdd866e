"""An installation as a class has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchcourse.checking import references


@pytest.fixture
def class_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation without solutions, as a class has it."""
    monkeypatch.setattr(references, "SOLUTIONS", tmp_path / "solutions")
    monkeypatch.setattr(references, "PACKED", tmp_path / "references.json")
    return tmp_path
