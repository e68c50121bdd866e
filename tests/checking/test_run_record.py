"""What a card says of the run of an answer: its own lines that raised, what it printed, the inputs that failed."""

from __future__ import annotations

import pdb
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tests.support.cards import right
from tests.support.pages import Page
from torchcourse.checking import card
from torchcourse.checking.card_details import CardDetails
from torchcourse.checking.check import report_on
from torchcourse.checking.run_record import RunRecord


def debugged(answer: Callable[[Tensor], Any]) -> tuple[Page, str]:
    """The card of an answer to row_softmax without its style, and the same as text, as after a check."""
    record = RunRecord()
    details = CardDetails(record=record)
    report = report_on("row_softmax", {"row_softmax": answer}, record)
    return Page(card.as_html(report, details).partition("</style>")[2]), card.as_text(report, details)


def test_an_exception_comes_with_the_learners_own_lines_and_their_numbers_once() -> None:
    def shifted(x: Tensor) -> Any:
        return x - x.no_such_thing  # type: ignore[attr-defined]

    def row_softmax(x: Tensor) -> Any:
        return torch.nn.functional.relu(shifted(x))

    first = row_softmax.__code__.co_firstlineno
    page, text = debugged(row_softmax)
    in_view = page.text.partition("cases pass")[0]
    for line in (f"line {first + 1} in ", f"line {first - 2} in ", "return x - x.no_such_thing  #"):
        assert in_view.count(line) == text.count(line) == 1, line
    assert in_view.count("has no attribute 'no_such_thing'") == 1
    assert "probe" not in text


def test_nothing_stops_or_asks_inside_a_check() -> None:
    def row_softmax(x: Tensor) -> Any:
        pdb.set_trace()
        return input("x? ")

    page, text = debugged(row_softmax)
    for words in (page.text, text):
        assert "EOFError: " in words and "has nobody to ask inside a check" in words
        assert "is ignored inside a check" in words
    assert f"line {row_softmax.__code__.co_firstlineno + 2} in " in text


def test_prints_are_shown_for_each_case_and_cut() -> None:
    def row_softmax(x: Tensor) -> Any:
        print("shape", tuple(x.shape))
        print("long " * 10_000)
        return x

    page, text = debugged(row_softmax)
    assert "It printed shape (4, 6)" in page.text
    assert 16 * 1_400 < 5 * page.text.count("long") < 16 * 1_500
    assert "    printed:" in text


def test_a_failed_case_shows_its_inputs_what_came_out_and_what_was_wanted() -> None:
    page, text = debugged(lambda x: x)
    values = report_on("row_softmax", {"row_softmax": lambda x: x}).results[0].case.inputs["x"]
    for line in (f"{values[0, 0].item():.4f}", "came out: ", "wanted:   "):
        assert line in text
    assert repr(values).splitlines()[1] in page.text


def test_breakpoint_does_not_stop_a_check_and_the_card_says_what_to_do() -> None:
    def row_softmax(x: Tensor) -> Tensor:
        breakpoint()
        return right(x)

    page, text = debugged(row_softmax)
    for shown in (page.text, text):
        assert "Right" in shown
        assert 'case("row_softmax")' in shown
        assert "is ignored inside a check" in shown
