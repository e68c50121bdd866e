"""From observations to a verdict: a mistake explains an answer only if its program does what the answer did."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from torchcourse.checking.check import report_on
from torchcourse.checking.differences import brief, describe_difference, worst
from torchcourse.checking.explain import explain
from torchcourse.checking.probe import Watched, observe
from torchcourse.checking.report import Report, judge
from torchcourse.checking.result import Result, compare, derive
from torchcourse.model.devices import CPU, CheckedDevice, find_accelerator
from torchcourse.model.exercise import Case, Exercise, case
from torchcourse.model.known_mistake import KnownMistake
from torchcourse.model.observations import Observations, Raised

Program = Callable[..., Any]
DEVICES: tuple[CheckedDevice, ...] = (CPU, find_accelerator("simulated"))
CASES = [case("a pair", x=torch.tensor([1.0, 3.0])), case("three of them", x=torch.tensor([2.0, 4.0, 9.0]))]


def probe(answer: Watched, x: Tensor) -> dict[str, Any]:
    return {"result": answer(x)}


def quotes(inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    return {"count": len(inputs["x"]), "total": float(seen["result"].sum())}


CENTER = Exercise("center", probe, lambda _: CASES, ("one", "two", "three"), quotes=quotes, forbids=("std",))


def center(x: Tensor) -> Tensor:
    return x - x.mean()


def minus_first(x: Tensor) -> Tensor:
    return x - x[0]


def run(answer: Program, device: CheckedDevice, cases: Sequence[Case] = CASES) -> list[Observations]:
    return [derive(CENTER, c, observe(CENTER, answer, c, device)) for c in cases]


def known(name: str, program: Program, sentence: str = "{case}: {got}") -> KnownMistake:
    table = {device.name: run(program, device) for device in DEVICES}
    return KnownMistake(name, sentence, "A section", lambda device, number: table[device][number])


def results(answer: Program, reference: Program = center) -> list[Result]:
    wanted = {device.name: run(reference, device) for device in DEVICES}
    return [
        compare(CENTER, c, n, device.name, observe(CENTER, answer, c, device), wanted[device.name][n])
        for device in DEVICES
        for n, c in enumerate(CASES)
    ]


def verdict(answer: Program, *mistakes: KnownMistake) -> Report:
    return judge(CENTER, results(answer), mistakes)


MEDIAN = known("median", lambda x: x - x.median(), "The value at {at} is {got_at} and should be {want_at}.")
FIRST = known("first", minus_first, "With {count} numbers the sum is {total}.")
NONE = known("none", lambda x: x)


def test_a_right_answer_passes_in_whatever_style() -> None:
    assert explain(results(center), [FIRST]) == []
    report = verdict(lambda x: x - sum(x) / len(x), MEDIAN, FIRST)
    assert (report.status, report.misconception) == ("passed", "")
    assert report.message == "All 2 cases agree on the CPU and on a second device (simulated)."


def test_a_mistake_explains_who_does_what_its_program_does() -> None:
    report = verdict(lambda x: x - x.sort().values[(len(x) - 1) // 2], FIRST, MEDIAN)
    assert (report.status, report.misconception, report.section) == ("failed", "median", "A section")
    assert report.message == "The value at [0] is 0 and should be -1."


def test_a_mistake_that_fails_to_reproduce_one_failed_case_explains_nothing() -> None:
    report = verdict(lambda x: x - (x[0] if len(x) == 2 else x[1]), FIRST, NONE)
    assert (report.status, report.misconception) == ("failed", "")


def entangled(x: Tensor) -> Tensor:
    return minus_first(x) if len(x) < 4 else minus_first(x) * 2


MORE = [
    *CASES,
    case("four of them", x=torch.tensor([2.0, 4.0, 9.0, 1.0])),
    case("five of them", x=torch.tensor([2.0, 4.0, 9.0, 1.0, 0.0])),
]


def run_in_more(answer: Program, *mistakes: Program) -> list[str]:
    """Return the names of the mistakes, called "0", "1" and so on, that explain an answer in four cases."""

    def table(number: int, program: Program) -> KnownMistake:
        seen = run(program, CPU, MORE)
        return KnownMistake(str(number), "{case}", "A section", lambda _device, number: seen[number])

    wanted = run(center, CPU, MORE)
    observed = [compare(CENTER, c, n, "CPU", observe(CENTER, answer, c, CPU), wanted[n]) for n, c in enumerate(MORE)]
    return [mistake.name for mistake in explain(observed, [table(n, m) for n, m in enumerate(mistakes)])]


def first_up_to(count: int, otherwise: Program) -> Program:
    """Return an answer that subtracts the first of at most `count` numbers, and is wrong in other ways for more."""
    return lambda x: minus_first(x) if len(x) <= count else x[:2] if len(x) == 4 else otherwise(x)


def test_a_mistake_that_another_one_hides_in_some_cases_is_told_by_the_others() -> None:
    assert run_in_more(first_up_to(3, otherwise=lambda x: x[:2]), minus_first) == ["0"]
    assert run_in_more(first_up_to(2, otherwise=lambda x: x[:2]), minus_first) == []  # one case is too little


def test_two_mistakes_that_explain_equally_many_cases_explain_nothing() -> None:
    assert run_in_more(first_up_to(3, otherwise=lambda x: x[:2]), minus_first, entangled) == []


def test_an_answer_that_mostly_raises_is_told_its_exception() -> None:
    def raises(x: Tensor) -> Tensor:
        raise RuntimeError("no idea")

    assert run_in_more(lambda x: minus_first(x) if len(x) < 4 else raises(x), minus_first) == []


def test_a_mistake_that_shows_in_a_case_that_passed_is_not_made() -> None:
    assert run_in_more(first_up_to(3, otherwise=center), minus_first) == []


def test_a_mistake_may_differ_in_cases_that_pass_but_one_that_agrees_in_more_is_preferred() -> None:
    def first_of_three(x: Tensor) -> Tensor:
        return minus_first(x) if len(x) == 3 else center(x)

    assert verdict(first_of_three, FIRST).misconception == "first"
    exact = known("first of three", first_of_three)
    assert verdict(first_of_three, FIRST, exact).misconception == "first of three"
    assert verdict(minus_first, exact, FIRST).misconception == "first"


def test_a_mistake_that_shows_in_cases_that_passed_gives_way_to_one_that_does_not() -> None:
    def first_up_to_three(x: Tensor) -> Tensor:
        return minus_first(x) if len(x) < 4 else center(x)

    def first_of_a_pair(x: Tensor) -> Tensor:
        return minus_first(x) if len(x) == 2 else center(x)

    assert run_in_more(first_up_to_three, minus_first) == ["0"]
    assert run_in_more(first_up_to_three, minus_first, first_of_a_pair) == ["1"]


def test_an_exception_on_the_second_device_alone_comes_after_other_values_on_the_cpu() -> None:
    def row_softmax(x: Tensor) -> Tensor:
        if x.device.type != "cpu":
            raise KeyError("unknown device")
        return 0.3 * x + 1

    report = report_on("row_softmax", {"row_softmax": row_softmax})
    assert report.status == "failed"
    assert "KeyError" not in report.message
    assert "on the CPU" in report.message


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


# Several mistakes at once: facts of a tensor, each of which can be wrong by itself


FACT_CASES = [case("a row", x=torch.ones(3)), case("a table", x=torch.ones(2, 3)), case("nothing", x=torch.ones(0, 3))]
FACTS = Exercise("facts", lambda answer, x: dict(answer(x)), lambda _: FACT_CASES, ("one", "two", "three"))
Facts = dict[str, Any]
WRONG: dict[str, Callable[[Tensor], Facts]] = {
    "numel_by_len": lambda x: {"numel": len(x)},
    "ndim_one_more": lambda x: {"ndim": x.dim() + 1},
    "bytes_of_one": lambda x: {"bytes": 4},
    "first_of_last": lambda x: {"first": x.shape[-1]},
    "refuses_nothing": lambda x: {} if x.numel() else {"numel": x.view(7)},
}
"""What each mistake changes in the facts."""


def facts(x: Tensor) -> Facts:
    return {"numel": x.numel(), "ndim": x.dim(), "bytes": 4 * x.numel(), "first": len(x)}


def facts_known(name: str, change: Callable[[Tensor], Facts]) -> KnownMistake:
    table = [derive(FACTS, c, observe(FACTS, lambda x: facts(x) | change(x), c, CPU)) for c in FACT_CASES]
    return KnownMistake(name, f"{name}: {{what}} is {{got}}.", "A section", lambda _device, number: table[number])


def facts_report(*changes: Callable[[Tensor], Facts], **known: Callable[[Tensor], Facts]) -> Report:
    """The report on an answer with all these changes, where these mistakes are known (none: all of them)."""

    def answer(x: Tensor) -> Facts:
        right = facts(x)
        wrong = [(name, value) for change in changes for name, value in change(x).items()]
        return right | {name: value for name, value in wrong if name not in right or value != right[name]}

    wanted = [derive(FACTS, c, observe(FACTS, facts, c, CPU)) for c in FACT_CASES]
    found = [compare(FACTS, c, n, "cpu", observe(FACTS, answer, c, CPU), wanted[n]) for n, c in enumerate(FACT_CASES)]
    return judge(FACTS, found, [facts_known(*each) for each in (known or WRONG).items()])


def make(*names: str) -> list[Callable[[Tensor], Facts]]:
    return [WRONG[name] for name in names]


def test_two_mistakes_at_once_are_both_named_each_in_its_sentence_and_then_what_none_covers() -> None:
    two = make("numel_by_len", "ndim_one_more")
    report = facts_report(*two)
    assert report.misconception == "ndim_one_more+numel_by_len"
    assert report.message == "ndim_one_more: ndim is 2. Also: numel_by_len: numel is 2."
    assert facts_report(*make("ndim_one_more", "bytes_of_one")).message == (
        "ndim_one_more: ndim is 2. Also: bytes_of_one: bytes is 4."
    )
    more = facts_report(*two, lambda _: {"extra": 1})
    assert more.misconception == report.misconception
    assert more.message.endswith('Also: In the case "a row", on the CPU, `extra` is 1 where nothing is wanted.')


def test_at_most_three_are_named_those_that_explain_most_first() -> None:
    report = facts_report(*make("numel_by_len", "ndim_one_more", "bytes_of_one", "first_of_last"))
    assert len(report.misconception.split("+")) == 3
    assert report.misconception.startswith("ndim_one_more+bytes_of_one")


def refuses_tables(x: Tensor) -> Facts:
    return {} if x.dim() == 1 else {"numel": x.view(7)}


@pytest.mark.parametrize(
    ("answer", "known"),
    [
        (make("numel_by_len", "ndim_one_more"), {"numel_by_len": WRONG["numel_by_len"]}),
        ([lambda x: {"ndim": x.dim() + 1} if x.numel() else {"bytes": 1}], WRONG),
        (
            [lambda x: {"ndim": x.dim() + 1} if x.dim() == 1 else refuses_tables(x)],
            {"refuses_tables": refuses_tables, "first_of_last": WRONG["first_of_last"]},
        ),
    ],
    ids=["covers less than half", "not all symptoms show", "shows only as an exception"],
)
def test_a_mistake_is_not_named_that(answer: Any, known: Any) -> None:
    assert facts_report(*answer, **known).misconception == ""


def test_the_case_that_is_quoted_is_one_that_fills_the_sentence() -> None:
    def fails_for_two(x: Tensor) -> Tensor:
        return x.view(3) - x[0]

    mistake = known("first", fails_for_two, "In the case {case} the {colour} at {at} is {got_at}.")
    assert verdict(fails_for_two, mistake).message == "In the case three of them the … at [0] is 0."


@pytest.mark.parametrize("answer", [center, minus_first])
def test_a_forbidden_call_comes_before_any_explanation(answer: Program) -> None:
    report = verdict(lambda x: answer(x) + 0 * x.std(), FIRST)
    assert (report.status, report.misconception) == ("forbidden", "")
    assert "`std`" in report.message


UNEXPLAINED: dict[str, tuple[Program, str]] = {
    "a value": (lambda x: x * 3, "`result` is 9 at [1] where 1 is wanted"),
    "a shape": (lambda x: center(x)[:1], "`result` is [-1] where [-1, 1] is wanted"),
    "a dtype": (lambda x: center(x).double(), "of float64 where [-1, 1] of float32 is wanted"),
    "no tensor": (lambda _: None, "`result` is None where [-1, 1] is wanted"),
    "an exception": (lambda x: x.view(9), "the answer raised RuntimeError: shape '[9]' is invalid"),
}


@pytest.mark.parametrize("what", UNEXPLAINED)
def test_without_an_explanation_the_report_says_what_came_and_what_was_wanted(what: str) -> None:
    answer, words = UNEXPLAINED[what]
    report = verdict(answer, FIRST)
    assert report.misconception == report.section == ""
    assert report.message.startswith('In the case "a pair", on the CPU, ')
    assert words in report.message
    assert report.message.endswith(".")


SEVENS = [7] * 9
TOLD: list[tuple[Observations, Observations, str]] = [
    ({}, {"numel": 3}, "`numel` is missing"),
    ({"numel": 3.0}, {"numel": 3}, "`numel` is 3 (a float) where 3 (an int) is wanted"),
    ({"numel": torch.tensor(3)}, {"numel": 3}, "`numel` is 3 (a Tensor) where 3 (an int) is wanted"),
    ({"flag": 0}, {"flag": False}, "`flag` is 0 where False is wanted"),
    ({"r": {"a": 1, "b": SEVENS}}, {"r": {"a": 1, "b": [7, 8, *SEVENS[2:]]}}, "`r['b'][1]` is 7 where 8 is wanted"),
    ({"stride": (1,)}, {}, "`stride` is (1,) where nothing is wanted"),
    ({"call": Raised("KeyError", "'b'", "")}, {}, "`call` raised KeyError: 'b'"),
    ({"rate": "stays"}, {"rate": "changes"}, '`rate` is "stays" where "changes" is wanted'),
    ({"r": [1.0]}, {"r": torch.tensor([1.5])}, "`r` is [1] (a list) where [1.5] (a Tensor) is wanted"),
    ({"r": 1.0004}, {"r": 1.0001}, "`r` is 1.0004 where 1.0001 is wanted"),
    ({"r": [*"abcdefghi"]}, {"r": [*"abcd"]}, "`r` is a list of 9 items with e, f, g where [a, b, c, d] is wanted"),
    (
        {"r": [*"abcdefghx"]},
        {"r": [*"abcdefghiy"]},
        "`r` is a list of 9 items with x without i, y where a list of 10 items is wanted",
    ),
]


@pytest.mark.parametrize(("seen", "wanted", "words"), TOLD)
def test_a_difference_is_told_in_words(seen: Observations, wanted: Observations, words: str) -> None:
    result = compare(CENTER, CASES[0], 0, "cpu", seen, wanted)
    assert describe_difference(result, result.differs[0]) == words


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
    (torch.zeros(0), "[]"), ([0] * 9, "a list of 9 items"), (Raised("ValueError", "no"), "ValueError: no"),
    (1 + 2j, "1+2j"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "words"), BRIEF)
def test_a_value_is_quoted_in_a_few_characters(value: Any, words: str) -> None:
    assert brief(value) == words
    assert len(brief("word " * 100)) <= 160
    assert brief("word " * 100).endswith("word...")


def test_observations_that_no_honest_answer_gives_are_judged_as_they_are() -> None:
    def strict(_: Case, seen: Observations) -> Observations:
        return {"sum": seen["result"].sum()}

    hostile = Exercise("center", probe, lambda _: CASES, ("one", "two", "three"), derive=strict)
    for raw in ({}, {"result": "text"}, {"result": None, "other": [1]}):
        assert derive(hostile, CASES[0], raw) == raw
        assert not compare(hostile, CASES[0], 0, "cpu", raw, {"sum": torch.tensor(1.0)}).passed


def test_an_exercise_that_quotes_nothing_gets_no_run_beside_its_own() -> None:
    alone = judge(CENTER, results(minus_first), [])
    assert judge(replace(CENTER, ground_truth=center), results(minus_first), []).message == alone.message
