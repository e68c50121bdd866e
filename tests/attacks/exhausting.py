"""Run in the box: grades the class in one folder into another, with small limits.

Filling memory takes CPU time, several seconds a gigabyte where others fill theirs: the limit on memory is reached long
before that on time."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from autograde.batch.grading import grade
from autograde.settings import LIMITS, MIB

SMALL = dataclasses.replace(
    LIMITS, cell_seconds=6.0, exercise_seconds=6.0, wall_clock_factor=6.0, data_bytes=384 * MIB,
    memory_bytes=640 * MIB, scratch_bytes=64 * MIB, file_bytes=32 * MIB, processes=40,
)  # fmt: skip

if __name__ == "__main__":
    grade(["01_tensors"], Path(sys.argv[1]), Path(sys.argv[2]), workers=2, limits=SMALL)
