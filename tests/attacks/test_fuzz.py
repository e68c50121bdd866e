"""Whatever strangers hand in is read or refused. `python -m benchmarks.fuzz --minutes 10` tries much more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import mutants
from tests.support.fuzz import TARGETS, fuzz


@pytest.mark.parametrize("target", TARGETS)
def test_made_up_input_is_read_or_refused(target: str) -> None:
    fuzz(target, examples=60)


@pytest.mark.sandbox
def test_mutants_get_a_verdict_each_and_none_scores_above_the_honest_one(tmp_path: Path) -> None:
    """A few of those that `make test-all` grades ten thousand of."""
    found = mutants.run(tmp_path, range(16), seed=1)
    assert (found.graded, found.aborts, found.unsound) == (16, 0, [])
    assert {"passed", "failed", "unattempted", "unreadable"} <= set(found.statuses)
