"""Whatever strangers hand in is read or refused. `python -m benchmarks.fuzz --minutes 10` tries much more."""

from __future__ import annotations

import pytest

from tests.support.fuzz import TARGETS, fuzz


@pytest.mark.parametrize("target", TARGETS)
def test_made_up_input_is_read_or_refused(target: str) -> None:
    fuzz(target, examples=60)
