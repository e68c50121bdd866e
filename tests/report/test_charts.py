"""The charts of the class page, and their descriptions."""

from __future__ import annotations

import pytest

from autograde.report.charts import scores
from autograde.report.item_statistics import lesson_statistics
from autograde.results.grades_table import Row


@pytest.mark.parametrize(("count", "words"), [(1, "of 1 learner:"), (2, "of 2 learners:")])
def test_a_histogram_says_of_how_many_learners_it_is(count: int, words: str) -> None:
    rows = [Row(f"s{n}", "01_tensors", "describe", 1, 1, "passed") for n in range(count)]
    (lesson,) = lesson_statistics(rows)
    assert f"Histogram of the points {words} from 1 to 1 of 1" in scores(lesson)
