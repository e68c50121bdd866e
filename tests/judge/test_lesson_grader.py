"""What a lesson's grader promises of the process that it is in."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from autograde.judge import oracle
from autograde.judge.lesson_grader import LessonGrader
from autograde.judge.trial import trial_submission


def test_oracles_run_programs_in_one_thread_whoever_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """What torch keeps for a thread is freed when the thread ends, and two that end at once can block each other."""
    threads: list[int] = []
    original = oracle.observe

    def observe(*args: Any, **options: Any) -> Any:
        threads.append(threading.get_ident())
        return original(*args, **options)

    monkeypatch.setattr(oracle, "observe", observe)

    def prepare(lesson: str) -> int:
        for _ in LessonGrader(lesson, use_cache=False).prepare(trial_submission(lesson)):
            pass
        return threading.get_ident()

    with ThreadPoolExecutor(2) as pool:
        askers = set(pool.map(prepare, ["01_tensors", "02_autograd"]))
    assert threads
    assert len(set(threads)) == 1
    assert askers.isdisjoint(threads)
