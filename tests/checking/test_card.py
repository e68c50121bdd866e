"""The card: its look, hints, references, and what comes next."""

from __future__ import annotations

import dataclasses
import html
import re
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.support.cards import right
from tests.support.pages import Page
from torchcourse.checking import card, hints
from torchcourse.checking.card_details import CardDetails, card_details
from torchcourse.checking.check import report_on
from torchcourse.checking.pictures import _figure
from torchcourse.checking.references import Reference
from torchcourse.checking.report import Report
from torchcourse.checking.run_record import RunRecord
from torchcourse.model.catalogue import find
from torchcourse.model.exercise import InterviewQuestion
from torchcourse.model.lessons import Lesson, lessons
from torchcourse.workspace import progress
from torchcourse.workspace.standing import Standing

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "answer",
    [right, lambda x: x, lambda x: x[..., :1], lambda x: "<script>alert(1)</script>", lambda x: 1 / 0,
     lambda x: x.softmax(-1), lambda x: x * float("nan"), lambda x: x.to(torch.complex64), lambda x: x[:0],
     lambda x: x[0, 0], lambda x: x.softmax(-1).to(torch.float8_e4m3fn)],
)  # fmt: skip
def test_a_card_is_sound_html_with_words_beside_every_picture(answer: Callable[[Tensor], Any]) -> None:
    made = card.as_html(report_on("row_softmax", {"row_softmax": answer}))
    page = Page(made)
    assert not page.unbalanced
    assert not page.all("script")
    assert 'role="region"' in made
    assert ("<svg" in made) == ('role="img"' in made)


def test_the_outcome_comes_first_and_every_picture_has_words(failed: Report) -> None:
    assert card.as_text(failed).startswith("row_softmax: Not right yet.")
    page = Page(card.as_html(failed).partition("</style>")[2])
    assert page.text.startswith("Not right yet · row_softmax")
    assert "The mistake looks like wrong-dim." in page.text
    assert len(page.all("svg")) == 3
    labels = [str(svg["aria-label"]) for svg in page.all("svg") if svg["role"] == "img"]
    assert [label.partition(":")[0] for label in labels] == ["came out", "wanted", "where they differ"]
    assert "is wanted" in labels[2]
    assert {th.get("scope") for th in page.all("th")} == {"col", "row"}
    assert "✗ failed" in page.text and "✓ passed" in page.text


def test_a_card_shows_the_first_error_of_a_compiler_and_folds_the_rest(failed: Report) -> None:
    wrote = "a.cpp: In function f:\na.cpp:2:18: error: 'u' was not declared\n    2 | return u;"
    made = card.as_html(dataclasses.replace(failed, message=f"The compiler says\n{wrote}", results=[]))
    in_view, _, folded = made.partition("<details>")
    assert "error: &#x27;u&#x27; was not declared" in in_view
    assert "In function" not in in_view
    assert "All 3 lines that it wrote" in folded
    assert all(html.escape(line) in folded for line in wrote.splitlines())


def test_a_card_does_not_say_twice_what_its_sentence_quotes() -> None:
    report = report_on("row_softmax", {"row_softmax": lambda x: x @ x})
    quoting = dataclasses.replace(report, message="The call raised RuntimeError: mat1 and mat2 shapes cannot be "
                                  "multiplied (4x6 and 4x6): the inner sizes differ.")  # fmt: skip
    assert card.as_html(quoting).partition("<details>")[0].count("cannot be multiplied") == 1


def test_an_exception_that_a_sentence_explains_shows_one_line_and_folds_the_others() -> None:
    def product(x: Tensor) -> Tensor:
        return x @ x

    record = RunRecord()
    report = report_on("row_softmax", {"row_softmax": lambda x: product(x)}, record)
    explained = dataclasses.replace(report, misconception="wrong-dim")
    for shown, count in ((report, 2), (explained, 1)):
        in_view, _, folded = card.as_html(shown, card_details(shown, None, record)).partition("<details>")
        assert in_view.count('<code class="tc-source"') == count
        assert "return x @ x" in in_view
        assert ("Called from" in folded) == (count == 1)


def test_a_card_takes_its_colours_from_the_theme() -> None:
    for name in ("--jp-border-color1", "--jp-content-font-color1", "--jp-brand-color1"):
        assert f"var({name}," in card.STYLE  # with a colour for pages that have none of JupyterLab's


def test_a_link_names_its_heading_as_jupyterlab_and_nbconvert_do() -> None:
    from nbconvert.filters import add_anchor

    for heading in ("Reductions", "Detach, clone and .data", "ONNX: a program for other runtimes", 'A "half" & more'):
        (link,) = Page(card._section(heading)).all("a")
        (made,) = Page(add_anchor(f"<h2>{heading.replace('&', '&amp;')}</h2>")).all("h2")
        assert link["href"] == f"#{made['id']}"


def test_hints_that_were_asked_for_stand_on_the_next_card_folded(failed: Report) -> None:
    assert "Stuck?" in card.as_html(failed, card_details(failed, right))
    exercise = find("row_softmax")[1]
    hints.next_hint(exercise)
    made = card.as_html(failed, card_details(failed, right))
    assert "Hints so far: 1 of 3" in made
    assert "<details><summary>Hints so far" in made
    assert 'role="alert"' not in made
    assert Page(made).text.count(exercise.hints[0].split("`")[0]) == 1
    assert exercise.hints[1].split("`")[0] not in Page(made).text


def test_only_after_passing_a_card_has_the_reference_and_no_hints(passed: Report, failed: Report) -> None:
    hints.next_hint(find("row_softmax")[1])
    made = Page(card.as_html(passed, card_details(passed, right)).partition("</style>")[2])
    assert "Hints so far" not in made.text and "Stuck?" not in made.text
    assert "Your answer beside the reference, and why" in made.text
    assert "x.logsumexp(-1, keepdim=True)" in made.text
    assert "x.amax(dim=-1, keepdim=True)" in made.text
    assert "Subtracting the row's own maximum" in made.text
    assert [pre.get("tabindex") for pre in made.all("pre")] == ["0", "0"]
    for status in ("failed", "error", "forbidden", "unattempted", "timeout", "interrupted", "unknown"):
        report = dataclasses.replace(failed, status=status)
        assert "logsumexp" not in card.as_html(report, card_details(report, right))
        assert "logsumexp" not in card.as_text(report, card_details(report, right))


def test_the_first_screen_is_the_outcome_a_sentence_and_one_failed_case(failed: Report) -> None:
    details = dataclasses.replace(card_details(failed, right), warning="This is about the cell as it was last run.")
    made = Page(card.as_html(failed, details).partition("</style>")[2])
    assert made.text.startswith("This is about the cell as it was last run.Not right yet · row_softmax")
    first = next(r for r in failed.results if not r.passed)
    assert f"✗ failed case {first.case.name}, CPU · " in made.text
    assert [d.get("open", "folded") for d in made.all("details")] == ["folded"], "all else unfolds"
    assert card.as_text(failed, details).startswith("row_softmax: This is about the cell as it was last run.")


def first_line(answer: Callable[[Tensor], Any]) -> str:
    """Return what a card says of the first failed case of an answer."""
    made = card.as_html(report_on("row_softmax", {"row_softmax": answer}))
    return Page(made.partition('<div class="tc-first')[2].partition(">")[2].partition("</div>")[0]).text


@pytest.mark.parametrize(
    ("answer", "words"),
    [(lambda x: (right(x),), "a value of type tuple"), (lambda x: right(x).tolist(), "a value of type list"),
     (lambda x: right(x).cpu().numpy(), "a value of type ndarray"), (lambda x: float(right(x).sum()), "type float"),
     (lambda x: None, "· nothing ·")],
)  # fmt: skip
def test_the_failed_case_names_the_kind_of_value_that_the_check_could_not_use(
    answer: Callable[[Tensor], Any], words: str
) -> None:
    line = first_line(answer)
    assert words in line
    assert "wanted: a tensor of shape (4, 6)" in line
    assert ("nothing" in line) == ("nothing" in words)


def test_numbers_that_are_equal_but_for_their_dtype_are_shown_with_it() -> None:
    line = first_line(lambda x: right(x).double())
    assert "a tensor of shape (4, 6) of float64 · wanted: a tensor of shape (4, 6) of float32" in line


def test_where_they_differ_is_judged_as_the_case_judges() -> None:
    def differences(answer: Callable[[Tensor], Any]) -> str:
        page = Page(card.as_html(report_on("row_softmax", {"row_softmax": answer})))
        return next(label for svg in page.all("svg") if "differ" in (label := str(svg["aria-label"])))

    assert differences(lambda x: right(x) * (1 + 9e-4)).startswith("where they differ: 24 of 24; most at ")
    assert differences(lambda x: right(x).double()) == "where they differ: 0 of 24"


def test_a_picture_says_what_it_leaves_out_and_what_is_not_a_number() -> None:
    wide = torch.ones(3, 2, 40)
    wide[0, 0, :5], wide[0, 0, 5] = torch.nan, torch.inf
    words = Page(_figure("came out", "came out", wide, 1.0)).text
    for note in ("only its first 12 along each side", "only index 0 of", "5 NaN, in dark grey", "1 infinite, in"):
        assert note in words
    assert Page(_figure("wanted", "wanted", torch.ones(2, 2), 1.0)).text.endswith("wanted")


def test_a_card_whose_style_was_dropped_is_readable_text(failed: Report) -> None:
    """A page of GitHub, or a notebook that is not trusted, keeps neither style sheets nor classes nor pictures."""
    made = card.as_html(failed, card_details(failed, right))
    for dropped in (r"<style>.*?</style>", r"<svg.*?</svg>", r' (class|style|aria-[a-z]+|tabindex)="[^"]*"'):
        made = re.sub(dropped, "", made, flags=re.DOTALL)
    blocks = re.split(r"</?(?:div|p|pre|details|summary|figure|table|tr)\b[^>]*>", made)
    lines = [text for block in blocks if (text := unescape(re.sub(r"<[^>]+>", "", block))).strip()]
    assert lines[0].startswith("Not right yet · row_softmax · The mistake looks like wrong-dim. Read again: ")
    assert lines[1] == failed.message.replace("`", "")
    assert lines[2].startswith("✗ failed case a matrix, CPU · ")
    assert lines[3] == "1 of 8 cases pass; more, and help"
    assert any(line.startswith("where they differ: ") for line in lines)
    assert not any("{" in line or "tc-" in line for line in lines)


def test_a_right_card_says_how_far_the_lesson_is_and_links_to_what_is_next(
    passed: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    monkeypatch.chdir(tmp_path)
    text = Page(card.as_html(passed, card_details(passed, right))).text
    names = lessons()[0].exercises
    after = names[names.index("row_softmax") + 1]
    assert "Done" not in text and text.endswith(f"Next: {after}"), "nothing is recorded here"
    (tmp_path / progress.STATE).mkdir()
    progress.record(tmp_path, "describe", "passed")
    made = Page(card.as_html(passed, card_details(passed, right)))
    assert made.text.endswith(f"Done in this lesson: 2 of {len(names)}. Next: {after}")
    assert made.all("a")[-1]["href"] == f"#Exercise:-{after}"
    for name in names[:-1]:
        progress.record(tmp_path, name, "passed")
    last = dataclasses.replace(passed, exercise=names[-1])
    made = Page(card.as_html(last, card_details(last, right)))
    assert made.text.endswith(f"Done in this lesson: {len(names)} of {len(names)}. Next lesson: 2 · Autograd")
    assert made.all("a")[-1]["href"] == "02_autograd.ipynb"
    assert "Next lesson: 2 · Autograd." in card.as_text(last, card_details(last, right))
    progress.record(tmp_path, "one_hot", "open")
    standing = card_details(last, right).standing
    assert standing is not None and standing.exercise == "one_hot", "an exercise that was left out"


def test_what_stands_on_a_card_is_text_and_never_runs(failed: Report) -> None:
    evil = "</code></pre><script>alert(1)</script><img src=x onerror=alert(1)>`"
    exercise = dataclasses.replace(find("one_hot")[1], name=evil, hints=(evil, evil, evil))
    interview = InterviewQuestion(evil, evil, evil)
    where = Standing(Lesson(evil, evil, evil, (evil,)), 1, evil, None)
    more = CardDetails(exercise, True, exercise.hints, True, Reference(evil, evil), True, evil, evil, interview, where)
    report = dataclasses.replace(failed, exercise=evil, message=evil, misconception=evil, section=evil)
    after = dataclasses.replace(where, exercise="", next_lesson=where.lesson)
    for details in (more, dataclasses.replace(more, standing=after)):
        page = Page(card.as_html(report, details))
        tags = {tag for tag, _ in page.elements}
        assert not tags & {"script", "img", "iframe", "object", "link"}
        assert not {name for _, attributes in page.elements for name in attributes if name.startswith("on")}


def test_the_details_of_a_card_carry_the_warning_and_never_raise(
    failed: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = CardDetails(warning="The notebook was saved after that.")
    assert more.warning in card.as_text(failed, more)
    assert more.warning in Page(card.as_html(failed, more)).text

    def broken(answer: object) -> str:
        raise ZeroDivisionError

    monkeypatch.setattr("torchcourse.checking.card_details.changed_since", broken)
    assert card_details(failed, right) == CardDetails()
    assert card_details(Report("no_such", "unknown", ""), None) == CardDetails()
