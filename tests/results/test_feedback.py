"""The feedback page and the autograded notebook: what a learner wrote is text in them, whatever it holds."""

from __future__ import annotations

import html
import json
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest

from autograde.judge.run_submission import ExerciseRun, Reply, _DeviceRun
from autograde.judge.submission import Submission, SubmittedCell
from autograde.judge.verdict import Verdict, clean, decide, verdict_without_running
from autograde.results.answer_source import answer_source
from autograde.results.autograded_notebook import autograded
from autograde.results.feedback import coded, feedback
from autograde.results.grader_comments import GraderComment
from autograde.results.grades_table import write_table
from autograde.results.lesson_sections import section, title
from autograde.source.private_half import private_half
from autograde.source.release import load_release
from tests.support.pages import HOSTILE, Page
from torchcourse.checking.result import Result
from torchcourse.model.catalogue import LESSONS, exercises, find
from torchcourse.model.exercise import Draw
from torchcourse.model.observations import Raised

LESSON = "01_tensors"
EXERCISES = load_release(LESSON).exercises
TAGS = {"html", "head", "meta", "title", "style", "body", "h1", "h2", "h3", "p", "b", "section", "span", "code",
        "details", "summary", "pre", "table", "tr", "th", "td", "a", "meter", "div"}  # fmt: skip
PROSE = {"p", "code", "pre", "em", "strong", "ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td", "a", "br",
         "hr", "blockquote"}  # fmt: skip
ATTRIBUTES = {"lang", "charset", "http-equiv", "content", "name", "class", "id", "href", "min", "max", "value",
              "aria-label", "open"}  # fmt: skip


def hostile(text: str) -> tuple[Submission, list[Verdict]]:
    cells = tuple(SubmittedCell("code", text, name) for name in EXERCISES)
    verdicts = [Verdict(text, LESSON, name, 0, 1, "failed", text, text, text) for name in EXERCISES]
    return Submission(text, load_release(LESSON), cells, reason=text), verdicts


@pytest.mark.parametrize("text", HOSTILE)
def test_pages_and_cards_hold_only_their_own_tags_and_show_the_rest_as_text(text: str) -> None:
    page = feedback(*hostile(text), {name: GraderComment(text, 0.5, 0.5) for name in EXERCISES})
    seen = Page(page)
    assert seen.tags <= TAGS
    assert seen.attribute_names <= ATTRIBUTES
    assert all(link and link[1:] in seen.values("id") for link in seen.values("href"))
    assert page.count("<section") == len(EXERCISES)
    assert "49" not in seen.text
    if text.isprintable():
        assert text in seen.text
    assert "default-src 'none'" in page
    notebook = json.loads(autograded(*hostile(text)))
    shown = [output.get("data", {}) for cell in notebook["cells"] for output in cell.get("outputs", [])]
    cards = [Page("".join(data["text/html"])) for data in shown if "text/html" in data]
    assert len(cards) == len(EXERCISES)
    assert all(card.tags == {"p", "b"} and card.attribute_names == {"class"} for card in cards)
    assert all("".join(data["text/html"]).startswith("<p class='tex2jax_ignore'>") for data in shown if data)


def test_one_long_cell_that_answers_everything_makes_no_large_page() -> None:
    text = "\n".join(f"{name} = 0" for name in EXERCISES) + "\n# " + "'" * 900_000
    submission = Submission("ann", load_release(LESSON), (SubmittedCell("code", text),))
    page = feedback(submission, [Verdict("ann", LESSON, name, 0, 1, "failed", "", "Wrong.") for name in EXERCISES])
    assert len(page) < 2_000_000
    assert page.count("more characters)") == len(EXERCISES)


def test_the_reason_that_a_file_could_not_be_read_for_is_one_plain_line() -> None:
    broken = Submission("ann", load_release(LESSON), problem="missing", reason="it holds a\nb\x1b[2J\u202e.ipynb")
    verdicts = [verdict_without_running(broken, name) for name in EXERCISES]
    assert all(v is not None and v.message == "it holds a b [2J .ipynb" for v in verdicts)
    page = feedback(broken, [v for v in verdicts if v])
    assert "\x1b" not in page
    assert page.count("it holds") == 1


def submitted(*cells: tuple[str, str]) -> Submission:
    known = tuple(SubmittedCell("code", source, grade_id) for source, grade_id in cells)
    return Submission("ann", load_release(LESSON), known)


def verdict(**fields: Any) -> Verdict:
    return Verdict("ann", LESSON, "row_softmax", **{"score": 0.0, "max_score": 2.0, "status": "failed", **fields})


def test_what_a_compiler_wrote_keeps_its_lines_on_the_page_and_is_one_line_in_the_table(tmp_path: Path) -> None:
    lines = [f"rms_norm.cpp:{n}: error: <b>'x{n}'</b>" for n in range(200)]
    _, exercise = find("rms_norm_cpp")
    case = exercise.cases(Draw(1))[0]
    said = "\n".join(["the compiler says", *lines])
    wrong = Result(case, 0, "cpu", {"raised": Raised("CompilerError", said)}, {"shape": (1,)}, ("shape",))
    oracle = SimpleNamespace(
        exercise=exercise, cases=[case], known=[], result=lambda *_: wrong, long_results=lambda *_: {}
    )
    submission = Submission("ann", load_release("13_efficiency"), ())
    runs = {"cpu": ExerciseRun([Reply({})])}
    decided = decide(submission, oracle, 1, runs)  # type: ignore[arg-type]
    page = feedback(submission, [decided])
    assert Page(page).tags <= TAGS
    assert f"<pre>{html.escape(chr(10).join(lines)).replace('&#x27;', '&#39;')}</pre>" in page
    assert "the answer raised CompilerError: the compiler says</p>" in page
    write_table(tmp_path / "grades.csv", [decided])
    _, row = (tmp_path / "grades.csv").read_text().splitlines()
    assert "says rms_norm.cpp:0: error: <b>'x0'</b> rms_norm.cpp:1: error:" in row


def test_a_section_is_the_lessons_prose_and_demonstrations_without_exercises() -> None:
    text = section(load_release(LESSON), "Reductions")
    assert "numerator and denominator" in text
    assert "<pre>scores = torch.tensor([88.0, 89.0])" in text
    assert "Exercise: row_softmax" not in text
    assert "def row_softmax" not in text
    assert "Advanced" not in text  # of the section after it
    assert section(load_release(LESSON), "No such heading") == ""
    assert title(load_release(LESSON)) == "1 · Tensors"


@pytest.mark.parametrize("lesson", LESSONS)
def test_every_section_that_a_mistake_points_to_can_be_shown(lesson: str) -> None:
    headings = {mistake.section for name in exercises(lesson) for mistake in private_half(lesson, name).mistakes}
    for heading in headings:
        shown = section(load_release(lesson), heading)
        assert len(shown) > 200, heading
        assert Page(shown).tags <= PROSE
        assert "Unattempted(" not in shown


def test_the_section_to_reread_stands_on_the_page_once() -> None:
    cells = [(f"def {name}(): return 1", name) for name in EXERCISES[:2]]
    verdicts = [Verdict("ann", LESSON, name, 0, 1, "failed", section="Reductions") for name in EXERCISES[:2]]
    page = feedback(submitted(*cells), verdicts)
    assert page.count("numerator and denominator") == 1
    assert page.count('href="#read-0"') == 2


def test_what_the_instructor_added_is_on_the_page_and_counts() -> None:
    page = feedback(submitted(), [verdict()], {"row_softmax": GraderComment("Nearly!\nLook at dim.", 1.5, 0.25)})
    text = Page(page).text
    assert "Your instructor: Nearly!\nLook at dim." in text
    assert "1.75 of 2 points" in text
    assert "The 1.5 points were given by your instructor." in text
    assert "0.25 points are extra credit." in text
    assert "instructor" not in feedback(submitted(), [verdict()])


def test_one_point_is_no_plural() -> None:
    page = feedback(submitted(), [verdict()], {"row_softmax": GraderComment("", 1.0, 1.0)}, 1.0)
    text = Page(page).text
    for sentence in ("Handed in late: 1 of 2 points is lost.", "The 1 point was given by your instructor.",
                     "1 point is extra credit.", "of 1 exercise right"):  # fmt: skip
        assert sentence in text


def test_half_the_points_are_explained_in_the_verdict() -> None:
    assert "right on the CPU alone" in feedback(submitted(), [verdict(score=1.0)])


def test_words_in_backquotes_are_code_and_a_lone_backquote_is_itself() -> None:
    assert coded("`a<b` is") == "<code>a&lt;b</code> is"
    assert coded("it's ` here") == "it&#x27;s ` here"


def test_the_answer_shown_is_the_learners_own_wherever_it_stands() -> None:
    stub = load_release(LESSON).cells["row_softmax"].source
    answer = "def row_softmax(x):\n    return x"
    assert answer_source(submitted((stub, "row_softmax")), "row_softmax") == ""
    assert answer_source(submitted((stub, "row_softmax"), (answer, "")), "row_softmax") == answer
    assert answer_source(submitted((answer, "row_softmax"), ("y = row_softmax(x)", "")), "row_softmax") == answer
    bound = "row_softmax = torch.compile(f)"
    assert answer_source(submitted((bound, "")), "row_softmax") == bound
    assert answer_source(submitted(("row_softmax == 3", "")), "row_softmax") == ""
    assert answer_source(submitted((answer, "check_row_softmax")), "row_softmax") == ""


def test_an_instructors_markdown_is_rendered_and_its_html_is_text() -> None:
    comment = GraderComment("Nearly:\n\n- **look** at `dim`\n\n<script>alert(1)</script> ![x](http://e.org/x.png)")
    page = feedback(submitted(), [verdict()], {"row_softmax": comment})
    assert "<li><strong>look</strong> at <code>dim</code></li>" in page
    assert "<script" not in page
    assert "<img" not in page


@pytest.mark.parametrize("score", [0.0, 1.0, 2.0])
def test_an_autograded_notebook_has_each_verdict_once(score: float) -> None:
    notebook = json.loads(autograded(submitted(), [verdict(score=score, message="Told once.")]))
    cell = next(c for c in notebook["cells"] if c["id"] == "check-row_softmax")
    shown = [text for output in cell["outputs"] for text in (
        "".join(output.get("data", {}).get("text/plain", "")), output.get("evalue", ""), *output.get("traceback", ()),
    )]  # fmt: skip
    assert sum("Told once." in text for text in shown) == 1
    assert nbgrader_score(cell) == score


def nbgrader_score(cell: dict[str, Any]) -> float:
    """The points that nbgrader takes from the outputs of a check cell."""
    from nbgrader.utils import determine_grade

    points, _ = determine_grade(nbformat.from_dict(cell), logging.getLogger())
    return float(points)


def test_a_message_that_is_cut_says_so() -> None:
    assert clean("a" * 600) == "a" * 600
    assert clean("b" * 601) == "b" * 599 + "…"


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("def one_hot(x)\n    return x", "raised SyntaxError in line 1 (expected ':'), so"),
        ("def one_hot(x):\nreturn x", "raised SyntaxError in line 2 (expected an indented block after"),
        ("%time\ndef one_hot(x", "raised SyntaxError in line"),
        ("x = 1", "raised SyntaxError, so"),
        ("(" * 30_000, "raised SyntaxError, so"),
    ],
)
def test_a_syntax_error_has_its_line_and_its_reason(source: str, says: str) -> None:
    cells = [SubmittedCell("code", source, "one_hot")]
    run, there = ExerciseRun(), SimpleNamespace(cells=cells, states={0: "SyntaxError"}, quotes=True)
    _DeviceRun._no_answer(there, "one_hot", "unbound", run)
    assert run.incident == "error"
    assert says in run.reason
