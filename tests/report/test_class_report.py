"""The report on a class: what it counts and leaves out, and that nothing in a table or a notebook acts on it."""

from __future__ import annotations

import math
import os
import random
import re
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest

from autograde.judge.verdict import Verdict
from autograde.report.anonymous import anonymous
from autograde.report.class_report import report
from autograde.report.item_statistics import correlation, interval, lesson_statistics
from autograde.report.similarity import MAX_SOURCE_LENGTH, similar_pairs, tokens
from autograde.results.grades_table import BadTableError, Row, read_table
from autograde.results.grades_table import write_table as write_grades
from tests.support.commands import run_instructors
from tests.support.costs import cpu_below
from tests.support.pages import HOSTILE, Page
from tests.support.reports import EXERCISES, LESSON, noise, write_answer, write_table


def row(student: str, exercise: str = "row_softmax", score: float = 0, status: str = "failed", **more: str) -> Row:
    return Row(student, LESSON, exercise, score, 2, status, **more)


# The table


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("ann,01_tensors,e,one,2,passed,,", "line 3: score is no number"),
        ("ann,01_tensors,e,1,inf,passed,,", "line 3: max_score is no finite number"),
        ("ann,01_tensors,e,nan,2,passed,,", "line 3: score is no finite number"),
        (",01_tensors,e,1,2,passed,,", "line 3: student is empty"),
        ("ann", "line 3: lesson is empty"),
        ("bob,01_tensors,e,2,2,passed,,", "line 3: a second row for this learner and exercise; it counts"),
    ],
)
def test_a_bad_line_is_reported_and_the_others_count(tmp_path: Path, line: str, says: str) -> None:
    path = write_table(tmp_path, [["bob", LESSON, "e", 1, 2, "passed", "", ""]])
    path.write_text(path.read_text() + line + "\n")
    table = read_table(path)
    assert table.complaints == (says,)
    assert [r.student for r in table.rows] == ["bob"]
    assert says in Page(report(tmp_path)).text


def test_a_table_that_a_spreadsheet_saved_is_read(tmp_path: Path) -> None:
    path = write_table(tmp_path, [["bob", LESSON, "e", 1, 2, "passed", "", "a\0b"]])
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n") + b"\xff,x,e,1,2,passed\r\n")
    assert [r.student for r in read_table(path).rows] == ["bob", "\ufffd"]


@pytest.mark.parametrize("student", ["-ada", "@bo", "=1", "+", "'bo", "ada"])
def test_a_student_whose_name_looks_like_a_formula_is_read_as_named(tmp_path: Path, student: str) -> None:
    write_grades(tmp_path / "grades.csv", [Verdict(student, LESSON, "e", 1, 2, "passed")])
    assert [row.student for row in read_table(tmp_path / "grades.csv").rows] == [student]


def test_what_is_no_table_of_grades_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(BadTableError, match="is missing: name the folder"):
        report(tmp_path)
    for text in ("name,points\nann,3\n", ""):
        (tmp_path / "grades.csv").write_text(text)
        with pytest.raises(BadTableError, match="no column 'student'"):
            report(tmp_path)


def test_a_field_that_never_ends_stops_the_reading_and_is_reported(tmp_path: Path) -> None:
    path = write_table(tmp_path, [["bob", LESSON, "e", 1, 2, "passed", "", ""]])
    path.write_text(path.read_text() + '"' + "x" * 200_000)
    table = read_table(path)
    assert len(table.rows) == 1
    assert "field larger than field limit" in table.complaints[0]


def test_what_is_too_much_to_show_at_once_unfolds(tmp_path: Path) -> None:
    rows: list[list[object]] = [["ann", LESSON, "row_softmax", "?", 2, "failed", f"m{n:02}", ""] for n in range(22)]
    rows += [[f"s{n}", LESSON, "row_softmax", 0, 2, "failed", f"m{n:02}", ""] for n in range(27)]
    write_table(tmp_path, rows)
    seen = re.sub(r"\s+", " ", Page(report(tmp_path)).text)
    assert "and 2 moreline 22: score is no number" in seen
    assert "and 2 rarer ones 1 learner: m25 in row_softmax1 learner: m26 in row_softmax" in seen


# Statistics


def test_the_correlation_is_pearsons_with_the_rest() -> None:
    generator = random.Random(3)
    mine = [float(generator.random() < 0.6) for _ in range(40)]
    rest = [m + generator.gauss(0, 1) for m in mine]
    r, why_not = correlation(mine, rest)
    numpy = pytest.importorskip("numpy")
    assert r == pytest.approx(numpy.corrcoef(mine, rest)[0, 1])
    assert why_not == ""
    low, high = interval(0.5, 103)  # atanh 0.5 = 0.5493, 1.96 / sqrt(100) = 0.196
    assert (low, high) == (pytest.approx(math.tanh(0.3533), abs=1e-4), pytest.approx(math.tanh(0.7453), abs=1e-4))


@pytest.mark.parametrize(
    ("mine", "rest", "says"),
    [
        ([0.0, 1.0] * 9, [0.0, 1.0] * 9, "fewer than 20 learners"),
        ([1.0] * 28 + [0.0] * 2, [1.0] * 30, "nearly all did equally well"),
        ([1.0, 0.0] * 15, [1.0] * 30, "the other exercises are alike for all"),
    ],
)
def test_a_correlation_that_says_nothing_is_not_given(mine: list[float], rest: list[float], says: str) -> None:
    assert correlation(mine, rest) == (None, says)


def test_an_exercise_that_good_learners_fail_is_suspect_and_the_others_are_not() -> None:
    rows = []
    for n in range(40):
        for place, exercise in enumerate("abcd"):
            good = (n >= 20) != (exercise == "d") if n % 5 else place % 2 == 0
            rows.append(row(f"s{n:02}", exercise, 2 * good, "passed" if good else "failed"))
    (lesson,) = lesson_statistics(rows)
    assert [item.exercise for item in lesson.items if item.suspect] == ["d"]


def test_submissions_that_could_not_be_read_count_nowhere_else() -> None:
    rows = [row("ann", score=2, status="passed"), row("bob", status="unreadable"), row("cleo", status="missing")]
    (lesson,) = lesson_statistics(rows)
    assert lesson.learners == 3
    assert lesson.not_read == {"missing": ("cleo",), "unreadable": ("bob",)}
    assert lesson.totals == (2,)
    assert lesson.items[0].learners == 1


def test_mistakes_made_together_count_as_each_of_them() -> None:
    rows = [row("ann", misconception="overflow+wrong-dim"), row("bob", misconception="wrong-dim"), row("cleo")]
    (lesson,) = lesson_statistics(rows)
    assert [(m.name, m.count, round(m.of_wrong, 2)) for m in lesson.mistakes] == [
        ("wrong-dim", 2, 0.67), ("overflow", 1, 0.33)
    ]  # fmt: skip
    assert [row.student for row in lesson.unexplained] == ["cleo"]


# Anonymous examples


def test_an_example_names_nobody() -> None:
    source = '''def f(x):
    """By Ann Lee."""
    # Ann wrote this
    ann_mask = x.max()
    return ann_mask, "lee"
'''
    shown = anonymous(source, ["ann.lee"])
    assert shown == "def f(x):\n    someone_mask = x.max()\n    return (someone_mask, 'someone')"
    assert anonymous("def f(x):\n    return x.max(dim=channel)", ["max.chan"]).endswith("x.max(dim=channel)")
    assert anonymous("def f(x:", ["ann"]) == ""
    assert anonymous(r'f("\d")', ["ann"]) == r"f('\\d')"  # without Python's warning of it
    assert anonymous('def f():\n    """only words"""', ["ann"]) == "def f():\n    pass"


def test_an_answer_of_two_megabytes_does_not_stop_the_report(tmp_path: Path) -> None:
    write_table(tmp_path, [[name, LESSON, "row_softmax", 0, 2, "failed", "no-sum", "said"] for name in ("ann", "bob")])
    write_answer(tmp_path, "ann", "def row_softmax(x):\n    return x\n" + "x = 1\n" * 340_000)
    write_answer(tmp_path, "bob", "def row_softmax(x):\n    return x.exp()")
    with cpu_below(5):
        assert "return x.exp()" in Page(report(tmp_path)).text


# Similarity

LONG = """def f(x, mask):
    kept = torch.where(mask.unsqueeze(-1), x, torch.zeros_like(x))
    count = mask.sum(dim=1).clamp(min=1).to(x.dtype)
    total = kept.sum(dim=1)
    for step in range(3):
        total = total + step * kept.mean(dim=1) - torch.tanh(count.unsqueeze(-1))
    return total / count.unsqueeze(-1)
"""


def test_names_comments_and_layout_make_no_difference() -> None:
    other = LONG.replace("kept", "zz").replace("count", "n_of").replace("    return", "    # a comment\n    return")
    other = other.replace("def f(x, mask):", 'def g(a, mask):\n    """Words."""')
    assert tokens(other.replace("x", "a")) == tokens(LONG.replace("x", "a"))
    assert tokens("y = x.relu()") != tokens("y = x.tanh()")
    assert tokens("x.sum(dim=1)") != tokens("x.sum(axis=1)")
    assert tokens("def f(:\n 'unclosed") != []
    assert "f" not in tokens("\0 = '\n(")


@pytest.mark.parametrize(
    ("old", "new", "similarity"), [("y", "result", 1.0), ("    return y", "    # mine\n    return y + 0", 0.97)]
)
def test_a_copied_pair_stands_out_also_when_it_was_touched_up(old: str, new: str, similarity: float) -> None:
    answers = {e: {f"s{n}": noise(100 * k + n) for n in range(30)} for k, e in enumerate("abcd")}
    for exercise in "abc":
        answers[exercise]["s7"] = answers[exercise]["s3"].replace(old, new)
    (pair,) = similar_pairs(answers, {})
    assert (pair.one, pair.other, pair.exercises) == ("s3", "s7", ("a", "b", "c"))
    assert pair.similarity == pytest.approx(similarity, abs=0.02)
    assert pair.bits == pytest.approx(3 * math.log2(30 / 2))


def test_a_ring_of_many_is_found_and_what_all_write_is_not() -> None:
    ring = {f"s{n}": noise(n if n >= 10 else 0) for n in range(80)}
    pairs = similar_pairs(dict.fromkeys("abcde", ring), {})
    assert {name for pair in pairs for name in (pair.one, pair.other)} == {f"s{n}" for n in range(10)}
    everybody = {f"s{n}": LONG for n in range(50)}
    assert similar_pairs(dict.fromkeys("abcdefgh", everybody), {}) == []


def test_short_answers_and_the_released_stub_count_for_nothing() -> None:
    short = "def f(x):\n    return x.softmax(-1)\n"
    lone = {e: {f"s{n}": (short if n < 2 else noise(n)) for n in range(30)} for e in "abcd"}
    assert similar_pairs(lone, {}) == []
    stubbed = {e: {f"s{n}": LONG if n < 2 else noise(n) for n in range(30)} for e in "abcd"}
    assert similar_pairs(stubbed, {})
    assert similar_pairs(stubbed, dict.fromkeys("abcd", LONG)) == []


def test_similarity_takes_time_in_proportion_to_the_class() -> None:
    """Also for answers made to be long, and to share what many others have."""
    hostile = {f"h{n}": "x = 1 + 2 * 3\n" * 100_000 + f"# {n}" for n in range(5)}
    assert len(tokens(hostile["h0"])) <= MAX_SOURCE_LENGTH

    def seconds(count: int) -> float:
        begun = time.process_time()
        similar_pairs({"a": {f"s{n}": noise(n) for n in range(count)} | hostile}, {})
        return time.process_time() - begun

    seconds(20)
    assert seconds(240) < 12 * seconds(60) + 1


# The page


def test_the_page_of_a_small_class(tmp_path: Path) -> None:
    rows: list[list[object]] = []
    for n, student in enumerate(["ann", "bob", "cleo"]):
        for exercise in EXERCISES:
            wrong = exercise == "row_softmax" and n < 2
            found = ["failed", "wrong-dim", "Row 0 sums to 3."] if wrong else ["passed", "", "All agree."]
            rows.append([student, LESSON, exercise, 0 if wrong else 1, 1, *found])
    rows += [["dan", LESSON, exercise, 0, 1, "timeout", "", "Out of time."] for exercise in EXERCISES]
    write_table(tmp_path, rows)
    for student in ("ann", "bob"):
        answer = f"def row_softmax(x):  # {student}\n    return x.softmax(0)"
        write_answer(tmp_path, student, answer)
    page = report(tmp_path)
    seen = Page(page)
    assert "2 learners: wrong-dim in row_softmax" in re.sub(r"\s+", " ", seen.text)
    assert page.count("return x.softmax(0)") == 1  # two learners wrote it; it is one example
    assert "# ann" not in page
    assert "Row 0 sums to 3." in seen.text
    assert "timeout" in seen.text
    assert "fewer than 20 learners" in seen.text
    assert "A hint to look, and not a verdict" in seen.text
    assert page == report(tmp_path)
    figures = re.findall(r"<figure.*?</figure>", page, re.DOTALL)
    assert len(figures) == 2
    for figure in figures:
        ElementTree.fromstring(figure)
        assert len(re.search(r'aria-label="([^"]*)"', figure)[1]) > 40  # type: ignore[index]
        assert "#010203" not in figure
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("text", [*HOSTILE, "$\\frac{1", "../../../etc", "=1+1", "\ud800", "\U0001d518" * 300, "a\nb"])
def test_nothing_in_a_table_or_a_notebook_acts_on_the_page(tmp_path: Path, text: str) -> None:
    write_table(tmp_path, [[text, *rest] for rest in (
        [text, text, 1, 2, "failed", text, text],
        [LESSON, "row_softmax", 1, 2, "failed", text, text],
        [LESSON, text, -3, 2, text, text, text],
    )] + [["ann", LESSON, "row_softmax", 0, 2, "failed", "wrong-dim", text]])  # fmt: skip
    write_answer(tmp_path, "ann", f"def row_softmax(x):\n    return {text!r}")
    page = report(tmp_path)
    seen = Page(page)
    assert not {"script", "img", "iframe", "a", "svg/onload", "link", "object"} & seen.tags
    assert not [name for name in seen.attribute_names if name.startswith("on")]
    assert "default-src 'none'" in page
    assert page.count("<html") == page.count("</html>") == 1
    assert "49" not in "".join(re.findall(r"<h[12]>[^<]*", page))
    assert "\x1b" not in page
    assert "\0" not in page
    page.encode()


def test_a_name_in_the_table_leads_to_no_other_folder(tmp_path: Path) -> None:
    out = tmp_path / "out"
    names = ("../../secret", "link")
    write_table(out, [[name, LESSON, "row_softmax", 0, 2, "failed", "wrong-dim", "x"] for name in names])
    write_answer(tmp_path / "secret", "x", "def row_softmax(x):\n    return 'TOP SECRET'")
    (out / "autograded").mkdir()
    (tmp_path / "secret" / "autograded" / "x").rename(tmp_path / "secret" / LESSON)
    (out / "autograded" / "link").symlink_to(tmp_path / "secret")
    assert "TOP SECRET" not in report(out)


def test_an_empty_table_makes_a_page_that_says_so(tmp_path: Path) -> None:
    write_table(tmp_path, [])
    assert "The table holds no grades." in report(tmp_path)


def test_the_command_writes_the_page_or_says_why_not(tmp_path: Path) -> None:
    write_table(tmp_path, [["ann", LESSON, "row_softmax", 2, 2, "passed", "", ""]])
    status, _ = run_instructors("report", tmp_path, "--html", tmp_path / "page.html")
    assert status == 0
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")
    os.mkfifo(tmp_path / "pipe")
    for target, why in ((tmp_path, "could not be written"), (tmp_path / "pipe", "not a file")):
        status, output = run_instructors("report", tmp_path, "--html", target)
        assert (status, why in output) == (2, True)
