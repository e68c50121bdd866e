"""The class over all lessons: who is falling behind, what persists, and a page that can be sorted and shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from autograde.report.class_overview import overview
from autograde.report.class_report import report
from autograde.results.grades_table import COLUMNS, Row
from tests.support.pages import Page

LESSONS = ("01_tensors", "02_autograd", "03_modules")


def rows(shares: dict[str, tuple[float | None, ...]]) -> list[Row]:
    """Return grades in which each student has these shares of ten points; None for nothing handed in."""
    return [
        Row(student, lesson, "e", 10 * (share or 0), 10, "missing" if share is None else "passed")
        for student, own in shares.items() for lesson, share in zip(LESSONS, own, strict=False)
    ]  # fmt: skip


CLASS: dict[str, tuple[float | None, ...]] = {f"s{n}": (0.8, 0.7, 0.75) for n in range(5)}


@pytest.mark.parametrize(
    ("shares", "why"),
    [
        ((0.8, 0.7, None), "nothing handed in for 03_modules"),
        ((0.8, None, None), "nothing handed in from 02_autograd on"),
        ((0.9, 0.9, 0.4), "40 % in 03_modules after 90 % before, where the class's median is 75 %"),
        ((0.2, 0.2, 0.2), "less than half of the class's median in 02_autograd and 03_modules"),
        ((0.2, 0.9, 0.75), ""),
        ((0.6, 0.6, 0.6), ""),
        ((1.0, 1.0, 0.75), ""),
    ],
)
def test_who_falls_behind_is_named_with_the_reason(shares: tuple[float | None, ...], why: str) -> None:
    found = {learner.student: learner.behind for learner in overview(rows(CLASS | {"zoe": shares})).learners}
    assert found.pop("zoe") == why
    assert set(found.values()) == {""}


def test_a_lesson_that_few_have_handed_in_yet_counts_for_nobody() -> None:
    found = overview(rows({"ann": (0.9, 0.9)} | {f"s{n}": (0.9, None) for n in range(5)}))
    assert [learner.behind for learner in found.learners] == [""] * 6


def test_a_mistake_persists_that_one_learner_makes_in_two_lessons() -> None:
    made = [("ann", 0, "detached"), ("ann", 1, "other+detached"), ("bob", 1, "detached"), ("bob", 2, "alone")]
    found = overview([Row(who, LESSONS[n], "e", 0, 1, "failed", name) for who, n, name in made])
    assert [(m.name, m.counts, m.students) for m in found.persisting] == [("detached", (1, 2, 0), ("ann",))]


def test_the_page_links_to_feedback_sorts_and_hides_names_without_a_script(tmp_path: Path) -> None:
    given = rows({"ann.lee": (0.1, 0.9), "bob": (0.9, 0.2)})
    lines = [",".join(COLUMNS), *(f"{r.student},{r.lesson},e,{r.score},10,{r.status},," for r in given)]
    (tmp_path / "grades.csv").write_text("\n".join(lines))
    (tmp_path / "feedback" / "ann.lee").mkdir(parents=True)
    (tmp_path / "feedback" / "ann.lee" / f"{LESSONS[0]}.html").write_text("x")
    page = report(tmp_path, tmp_path / "pages" / "x.html")
    seen = Page(page)
    assert re.findall(r'<a class="name"[^>]*>10 %</a><span class="alias">10 %</span>', page), "hidden with the name"
    assert page.count("<a ") == 1
    assert seen.values("href") == [f"../feedback/ann.lee/{LESSONS[0]}.html"]
    assert "script" not in seen.tags
    names = re.findall(r'<span class="name">(.*?)</span><span class="alias">(learner \d)</span>', page)
    assert {name for name, _ in names} == {"ann.lee", "bob"}
    assert len(set(names)) == 2, "one alias each, everywhere"
    shown = re.sub(r'<span class="name">.*?</span>|href="[^"]*"', "", page)
    assert "ann.lee" not in shown
    first = page.index('<table class="heat"')
    orders = re.findall(r"--o0:(\d);--o1:(\d);--o2:(\d);--o3:(\d);", page[first : page.index("</table>", first)])
    assert orders == [("0", "0", "0", "1"), ("1", "1", "1", "0")], "by name, points, and each lesson"
