"""The trial of a sandbox, with which grading and `torchcourse doctor --grader` begin."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from autograde.sandbox.configuration import Isolation
from autograde.sandbox.namespaces import release, start_pause_process
from autograde.sandbox.requirements import try_worker

pytestmark = pytest.mark.sandbox


def seconds(act: Callable[[], object]) -> float:
    """The least seconds of three calls."""
    taken = []
    for _ in range(3):
        begun = time.perf_counter()
        act()
        taken.append(time.perf_counter() - begun)
    return min(taken)


def test_a_trial_takes_little_longer_than_a_sandbox_and_a_python() -> None:
    def parts() -> None:
        process, _ = start_pause_process(60)
        release(process)
        subprocess.run([sys.executable, "-I", "-c", "import json"], check=True)

    assert seconds(lambda: try_worker(Isolation())) < 8 * seconds(parts)
