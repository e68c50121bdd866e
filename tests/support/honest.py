"""Honest notebooks to be spoiled: with right answers, wrong ones and stubs, so that cheating has something to gain."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from autograde.classroom.synthetic_class import SAMPLE_LESSON as LESSON
from autograde.classroom.synthetic_class import answered_notebook, write_sample_class
from torchcourse.model.catalogue import exercises
from torchcourse.model.notebook_file import find_cell, read, source_of

__all__ = ["honest"]

STUBS = ("flatten_reporting", "sliding_windows", "masked_mean")
BRIEF = ("describe", "select_scores", "one_hot", "row_softmax", "standardize")


def honest() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a full notebook and a brief one."""
    with tempfile.TemporaryDirectory() as folder:
        write_sample_class(Path(folder))
        cleos = read(Path(folder) / "cleo" / LESSON / f"{LESSON}.ipynb")
    answers = {name: source_of(find_cell(cleos, name) or {}) for name in exercises(LESSON) if name not in STUBS}
    return answered_notebook(LESSON, answers), answered_notebook(LESSON, {name: answers[name] for name in BRIEF})
