"""PyTorch's own operator database, on the simulated device against the CPU.

A few samples of each operator by default; TORCHCOURSE_SAMPLES=1000000 runs all of them (about two minutes).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

HERE = Path(__file__).parent
EXCEPTIONS = tomllib.loads((HERE / "exceptions.toml").read_text())
SAMPLES = os.environ.get("TORCHCOURSE_SAMPLES", "5")


BARS = {"forward:float32": 0.995, "forward:int64": 0.995, "backward:float32": 0.98, "inplace:float32": 0.995}


@pytest.fixture(scope="module")
def verdicts() -> dict[str, dict[str, str]]:
    """For each run the verdict on each operator, from one process of its own."""
    command = [sys.executable, str(HERE / "operators.py"), SAMPLES, *BARS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(zip(BARS, map(json.loads, done.stdout.splitlines()[-len(BARS) :]), strict=True))


def named(verdicts: dict[str, str], kind: str) -> dict[str, str]:
    return {name: verdict for name, verdict in verdicts.items() if verdict.startswith(kind)}


def test_nearly_all_operators_agree_with_the_cpu(verdicts: dict[str, dict[str, str]]) -> None:
    for run, bar in BARS.items():
        agreeing, differing = named(verdicts[run], "agrees"), named(verdicts[run], "differs")
        assert len(agreeing) > 100
        assert len(agreeing) / (len(agreeing) + len(differing)) >= bar, (run, differing)


def test_the_list_of_exceptions_is_true(verdicts: dict[str, dict[str, str]]) -> None:
    for run in BARS:
        differing, skipped = named(verdicts[run], "differs"), named(verdicts[run], "skipped")
        assert differing.keys() == EXCEPTIONS["not_supported"].keys() & verdicts[run].keys(), (run, differing)
        assert all("NotImplementedError" in verdict for verdict in differing.values()), (run, differing)
        listed = set(EXCEPTIONS["not_comparable"]) | set(EXCEPTIONS["not_comparable_in_place"])
        if run != "inplace:float32":
            listed -= set(EXCEPTIONS["not_comparable_in_place"])
        assert skipped.keys() == listed & verdicts[run].keys(), (run, skipped)
