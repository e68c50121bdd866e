"""How many submissions are graded at once where nobody says it."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from autograde.batch import worker_pool


@pytest.mark.parametrize(("cores", "memory", "workers"), [(8, 100, 8), (8, 3, 3), (8, 0, 1), (200, 900, 64)])
def test_workers_are_as_many_as_cores_and_memory_allow(
    cores: int, memory: int, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(cores)))
    monkeypatch.setattr(worker_pool.psutil, "virtual_memory", lambda: SimpleNamespace(available=memory << 30))
    assert worker_pool.default_workers() == workers
