"""Run in the box: grades the class in one folder into another, with small limits."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from autograde.batch.grading import grade
from autograde.settings import LIMITS, MIB

SMALL = dataclasses.replace(
    LIMITS, cell_seconds=3.0, exercise_seconds=3.0, wall_clock_factor=12.0, data_bytes=640 * MIB,
    memory_bytes=1024 * MIB, scratch_bytes=64 * MIB, file_bytes=32 * MIB, processes=40,
)  # fmt: skip

if __name__ == "__main__":
    grade(["01_tensors"], Path(sys.argv[1]), Path(sys.argv[2]), workers=2, limits=SMALL)
