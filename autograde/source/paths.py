"""The paths of the parts of the course."""

from __future__ import annotations

from pathlib import Path

__all__ = ["AUTOGRADE", "BUILD", "NOTEBOOKS", "ROOT", "SOLUTIONS", "STORED"]

AUTOGRADE = Path(__file__).resolve().parents[1]
ROOT = AUTOGRADE.parent
SOLUTIONS = ROOT / "solutions"
NOTEBOOKS = ROOT / "notebooks"
STORED = ROOT / "src" / "torchcourse" / "stored"
BUILD = AUTOGRADE / "build"
