"""The pages: decisions are numbered, and nobody has to keep a number of lessons or exercises true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from torchcourse.model.catalogue import LESSONS, exercises

ROOT = Path(__file__).resolve().parents[2]
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("0*.md"))
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.stem[:4])
def test_the_title_of_a_decision_has_its_number(page: Path) -> None:
    assert page.read_text(encoding="utf-8").startswith(f"# {int(page.stem[:4])}. ")


def test_no_page_counts_the_lessons_or_the_exercises() -> None:
    total = sum(len(exercises(lesson)) for lesson in LESSONS)
    counts = re.compile(rf"\b({len(LESSONS)} lessons|{total} exercises)\b")
    assert [(page.name, *found) for page in PAGES if (found := counts.findall(page.read_text(encoding="utf-8")))] == []
