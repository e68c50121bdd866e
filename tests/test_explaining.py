"""From observations to a verdict: a mistake explains an answer only if its program does what the answer did."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from torchcourse.exercise import Case, Exercise, case
from torchcourse.explaining import Known, Result, brief, compare, derived, explain, quoted, told, worst
from torchcourse.lanes import CPU, Lane, accelerator_lane
from torchcourse.observations import Observations, Raised
from torchcourse.probing import Watched, observe
from torchcourse.reporting import Report, judge

Program = Callable[..., Any]
SIMULATED = accelerator_lane("simulated")
LANES: tuple[Lane, ...] = (CPU, SIMULATED)
CASES = [case("a pair", x=torch.tensor([1.0, 3.0])), case("three of them", x=torch.tensor([2.0, 4.0, 9.0]))]


def probe(answer: Watched, x: Tensor) -> dict[str, Any]:
    return {"result": answer(x)}


def quotes(inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    return {"count": len(inputs["x"]), "total": float(seen["result"].sum())}


CENTER = Exercise("center", probe, lambda _: CASES, ("one", "two", "three"), quotes=quotes, forbids=("std",))


def center(x: Tensor, *, by: str = "mean", dims: int = 1, scale: float = 1.0) -> Tensor:
    middle = {"mean": x.mean(), "median": x.median(), "first": x[0], "none": torch.zeros(())}[by]
    return (x - middle.to(x.device)).mul(scale).reshape((1,) * (dims - 1) + tuple(x.shape))


def run(answer: Program, lane: Lane, cases: Sequence[Case] = CASES) -> list[Observations]:
    return [derived(CENTER, c, observe(CENTER, answer, c, lane)) for c in cases]


def known(name: str, program: Program, sentence: str = "{case}: {got}", *parts: Known) -> Known:
    table = {lane.name: run(program, lane) for lane in LANES}
    return Known(name, sentence, "A section", lambda lane, number: table[lane][number], parts)


def results(answer: Program, reference: Program = center) -> list[Result]:
    wanted = {lane.name: run(reference, lane) for lane in LANES}
    return [
        compare(CENTER, c, n, lane.name, observe(CENTER, answer, c, lane), wanted[lane.name][n])
        for lane in LANES
        for n, c in enumerate(CASES)
    ]


def verdict(answer: Program, *mistakes: Known) -> Report:
    return judge(CENTER, results(answer), mistakes)


def with_options(**options: Any) -> Program:
    return lambda x: center(x, **options)


MEDIAN = known("median", with_options(by="median"), "The value at {at} is {got_at} and should be {want_at}.")
FIRST = known("first", with_options(by="first"), "With {count} numbers the sum is {total}.")
NONE = known("none", with_options(by="none"))


def test_a_right_answer_passes_in_whatever_style() -> None:
    report = verdict(lambda x: x - sum(x) / len(x), MEDIAN, FIRST)
    assert (report.status, report.misconception) == ("passed", "")
    assert report.message == "All 2 cases agree on the CPU and on a second device (simulated)."


def test_a_mistake_explains_who_does_what_its_program_does() -> None:
    report = verdict(lambda x: x - x.median().values if x.dim() > 1 else x - x.median(), FIRST, MEDIAN)
    assert (report.status, report.misconception, report.read) == ("failed", "median", "A section")
    assert report.message == "The value at [0] is 0 and should be -1."


def test_a_mistake_that_fails_to_reproduce_one_failed_case_explains_nothing() -> None:
    report = verdict(lambda x: x - (x[0] if len(x) == 2 else x[1]), FIRST, NONE)
    assert (report.status, report.misconception) == ("failed", "")


def test_a_mistake_shows_in_the_cases_that_fail_and_may_differ_in_those_that_pass() -> None:
    def first_of_three(x: Tensor) -> Tensor:
        return x - x[0] if len(x) == 3 else x - x.mean()

    assert verdict(first_of_three, FIRST).misconception == "first"


def test_of_two_explanations_the_one_that_agrees_in_more_cases_is_taken() -> None:
    def first_of_three(x: Tensor) -> Tensor:
        return x - x[0] if len(x) == 3 else x - x.mean()

    exact = known("first of three", first_of_three)
    assert verdict(first_of_three, FIRST, exact).misconception == "first of three"
    assert verdict(with_options(by="first"), exact, FIRST).misconception == "first"


def test_exceptions_alone_explain_only_with_agreement_everywhere() -> None:
    def fails_for_three(x: Tensor) -> Tensor:
        return center(x.view(2))

    def fails_always(x: Tensor) -> Tensor:
        return x.view(7)

    some, all_ = known("some", fails_for_three), known("all", fails_always)
    assert verdict(fails_for_three, some).misconception == "some"
    assert verdict(fails_for_three, all_).misconception == ""
    assert verdict(fails_always, all_).status == "error"


def test_a_mixture_of_devices_says_as_much_as_a_value() -> None:
    def on_the_cpu(x: Tensor) -> Tensor:
        return center(x) + torch.zeros(len(x))

    other = known("made-on-cpu", lambda x: torch.zeros(len(x)) + center(x), "The call raised {got}.")
    report = verdict(on_the_cpu, FIRST, other)
    assert report.misconception == "made-on-cpu"
    assert "same device" in report.message


def test_two_mistakes_made_together_are_told_one_after_the_other() -> None:
    doubled = known("doubled", with_options(scale=2.0), "With {count} numbers the sum is {total}.")
    both = known("first+doubled", with_options(by="first", scale=2.0), "", FIRST, doubled)
    report = verdict(with_options(by="first", scale=2.0), FIRST, doubled, both)
    assert report.misconception == "first+doubled"
    assert report.message == "With 2 numbers the sum is 4. Also: With 2 numbers the sum is 4."


def test_each_of_two_mistakes_quotes_what_it_gets_wrong_itself() -> None:
    def facts(answer: Watched, x: Tensor) -> dict[str, Any]:
        return dict(answer(x))

    pair = Exercise("facts", facts, lambda _: CASES[:1], ("one", "two", "three"))

    def program(length: int, total: float) -> Known:
        return Known("n", "{what} came out as {got}.", "", lambda *_: {"length": length, "total": total})

    seen, wanted = {"length": 1, "total": 8.0}, {"length": 2, "total": 4.0}
    result = compare(pair, CASES[0], 0, "cpu", seen, wanted)
    both = Known("n+n", "", "", lambda *_: seen, (program(1, 4.0), program(2, 8.0)))
    assert quoted(pair, both, [result]) == "length came out as 1. Also: total came out as 8."


def test_the_case_that_is_quoted_is_one_that_fills_the_sentence() -> None:
    def fails_for_two(x: Tensor) -> Tensor:
        return x.view(3) - x[0]

    mistake = known("first", fails_for_two, "In the case {case} the value at {at} is {got_at}.")
    assert verdict(fails_for_two, mistake).message == "In the case three of them the value at [0] is 0."


def test_a_field_that_nothing_fills_becomes_an_ellipsis() -> None:
    mistake = known("first", with_options(by="first"), "The {colour} is {got_at}.")
    assert verdict(with_options(by="first"), mistake).message == "The … is 0."


def test_a_forbidden_call_comes_before_any_explanation() -> None:
    report = verdict(lambda x: x - x[0] + 0 * x.std(), FIRST)
    assert (report.status, report.misconception) == ("forbidden", "")
    assert "`std`" in report.message


def test_a_right_answer_that_is_forbidden_does_not_pass() -> None:
    assert verdict(lambda x: center(x) + 0 * x.std()).status == "forbidden"


UNEXPLAINED: dict[str, tuple[Program, str]] = {
    "a value": (lambda x: x * 3, "`result` is 9 at [1] where 1 is wanted"),
    "a shape": (lambda x: center(x)[:1], "`result` is [-1] where [-1, 1] is wanted"),
    "a dtype": (lambda x: center(x).double(), "of float64 where [-1, 1] of float32 is wanted"),
    "no tensor": (lambda _: None, "`result` is None (NoneType) where [-1, 1] (Tensor) is wanted"),
    "an exception": (lambda x: x.view(9), "the answer raised RuntimeError: shape '[9]' is invalid"),
}


@pytest.mark.parametrize("what", UNEXPLAINED)
def test_without_an_explanation_the_report_says_what_came_and_what_was_wanted(what: str) -> None:
    answer, words = UNEXPLAINED[what]
    report = verdict(answer, FIRST)
    assert report.misconception == report.read == ""
    assert report.message.startswith('In the case "a pair", on the CPU, ')
    assert words in report.message
    assert report.message.endswith(".")


def result_of(seen: Observations, wanted: Observations) -> Result:
    return compare(CENTER, CASES[0], 0, "cpu", seen, wanted)


SEVENS = [7] * 9
TOLD: list[tuple[Observations, Observations, str]] = [
    ({}, {"numel": 3}, "`numel` is missing"),
    ({"numel": 3.0}, {"numel": 3}, "`numel` is 3 (float) where 3 (int) is wanted"),
    ({"numel": torch.tensor(3)}, {"numel": 3}, "`numel` is 3 (Tensor) where 3 (int) is wanted"),
    ({"flag": 0}, {"flag": False}, "`flag` is 0 where False is wanted"),
    ({"r": {"a": 1, "b": SEVENS}}, {"r": {"a": 1, "b": [7, 8, *SEVENS[2:]]}}, "`r['b'][1]` is 7 where 8 is wanted"),
    ({"stride": (1,)}, {}, "`stride` came out as (1,), which was not asked for"),
]


@pytest.mark.parametrize(("seen", "wanted", "words"), TOLD)
def test_a_difference_is_told_in_words(seen: Observations, wanted: Observations, words: str) -> None:
    result = result_of(seen, wanted)
    assert told(result, result.differs[0]) == words


def test_numbers_that_look_alike_are_told_with_more_digits() -> None:
    words = told(result_of({"r": torch.tensor([1.0, 1.00004])}, {"r": torch.tensor([1.0, 1.00001])}), "r")
    left, right = re.findall(r"1\.0000\d+", words)
    assert left != right


def test_the_worst_place_is_a_nan_then_an_inf_then_the_largest_gap() -> None:
    want = torch.zeros(2, 3)
    got = torch.tensor([[0.0, 5.0, 1.0], [0.0, 0.0, -7.0]])
    assert worst(got, want) == (1, 2)
    got[0, 0] = torch.nan
    assert worst(got, want) == (0, 0)
    want[0, 0] = torch.nan
    assert worst(got, want) == (1, 2)
    assert worst(torch.tensor(1.0), torch.tensor(2.0)) == ()
    assert worst(torch.tensor([True, False]), torch.tensor([True, True])) == (1,)


BRIEF: list[tuple[Any, str]] = [
    (0.123456, "0.1235"), (True, "True"), (torch.float32, "float32"), (None, "None"), ((3,), "(3,)"),
    ([1, 0.5], "[1, 0.5]"), (torch.tensor(2.5), "2.5"), (torch.tensor([1, 2]), "[1, 2]"),
    (torch.zeros(2, 3), "a tensor of shape (2, 3)"),
    (torch.zeros(0), "[]"), ([0] * 9, "list of 9 items"), (Raised("ValueError", "no"), "ValueError: no"),
    (1 + 2j, "1+2j"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "words"), BRIEF)
def test_a_value_is_quoted_in_a_few_characters(value: Any, words: str) -> None:
    assert brief(value) == words


def test_a_long_text_is_cut_and_says_so() -> None:
    assert len(brief("word " * 100)) <= 160
    assert brief("word " * 100).endswith("word...")


def test_observations_that_no_honest_answer_gives_are_judged_as_they_are() -> None:
    def strict(_: Case, seen: Observations) -> Observations:
        return {"sum": seen["result"].sum()}

    hostile = Exercise("center", probe, lambda _: CASES, ("one", "two", "three"), derive=strict)
    for raw in ({}, {"result": "text"}, {"result": None, "other": [1]}):
        assert derived(hostile, CASES[0], raw) == raw
        assert not compare(hostile, CASES[0], 0, "cpu", raw, {"sum": torch.tensor(1.0)}).passed


def test_explaining_needs_a_failure() -> None:
    assert explain(results(center), [FIRST]) is None
