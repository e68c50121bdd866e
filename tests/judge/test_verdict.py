"""What an answer is told that only hidden cases refuse: what is wrong, and nothing of the case."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from autograde.judge import verdict
from autograde.judge.oracle import Oracle, hidden, oracle, visible
from torchcourse.checking.result import Result, compare_derived
from torchcourse.model.devices import CPU
from torchcourse.model.observations import FORBIDDEN, Observations, Raised

LESSON, NAME, SEED = "01_tensors", "masked_mean", 3


@pytest.fixture(scope="module")
def judged() -> Oracle:
    return oracle(LESSON, NAME, lambda e: [*visible(e), *hidden(LESSON, e, SEED)])


def results(
    judged: Oracle, first: int, wrong: Observations | None, mistake: int = 0, device: str = "cpu"
) -> list[Result]:
    """Right results in the cases before `first`; after them `wrong` ones, or what a mistake does."""
    found = []
    for number, case in enumerate(judged.cases):
        wanted = judged.wanted(device, number)
        seen = wanted if number < first else wrong or judged.known[mistake].seen(device, number)
        assert seen is not None
        found.append(compare_derived(case, number, device, seen, wanted))
    return found


def test_a_mistake_is_told_by_the_words_of_its_sentence_that_quote_nothing(judged: Oracle) -> None:
    shown = len(visible(judged.exercise))
    place = next(n for n, m in enumerate(judged.mistakes) if m.name == "masked-values-leak")
    report = verdict._report(judged, results(judged, shown, None, place), shown, [CPU.name])
    assert report.misconception == "masked-values-leak"
    assert report.message.startswith("More cases than the notebook shows find a mistake: ")
    assert "`masked-values-leak`" not in report.message and "{" not in report.message
    assert not any(case.name in report.message for case in judged.cases)


@pytest.mark.parametrize(
    ("seen", "status", "words"),
    [
        ({"result": torch.full((2,), 77.0)}, "failed", "In others `result` differs: think of other shapes"),
        ({"raised": Raised("KeyError", "'secret 77'", "")}, "error", "In others it raised an exception: think of"),
        ({"secret 77": 1, "result": 0}, "failed", "In others `result` differs"),
    ],
)
def test_an_unknown_mistake_is_told_by_what_differs(
    judged: Oracle, seen: Observations, status: str, words: str
) -> None:
    shown = len(visible(judged.exercise))
    report = verdict._report(judged, results(judged, shown, seen), shown, [CPU.name])
    assert (report.status, report.misconception) == (status, "")
    assert words in report.message and "77" not in report.message


@pytest.mark.parametrize(
    ("seen", "status", "words"),
    [
        ({"result": torch.full((2,), 77.0)}, "failed", "On a second device what it does differs: "),
        ({"raised": Raised("Secret77", "77", "")}, "error", "On a second device it raised an exception: think"),
    ],
)
def test_nothing_is_quoted_of_the_second_device_which_runs_when_hidden_inputs_are_known(
    judged: Oracle, seen: Observations, status: str, words: str
) -> None:
    on_cpu = results(judged, len(judged.cases), None)
    elsewhere = results(judged, 0, seen, device="simulated")
    report = verdict._report(judged, on_cpu + elsewhere, len(visible(judged.exercise)), [CPU.name])
    assert report.status == status
    assert words in report.message and "77" not in report.message


def test_a_mistake_that_only_the_second_device_shows_is_named_in_general_words(judged: Oracle) -> None:
    on_cpu = results(judged, len(judged.cases), None)
    place = next(n for n, m in enumerate(judged.mistakes) if m.name == "made-on-cpu")
    elsewhere = results(judged, 0, None, place, "simulated")
    report = verdict._report(judged, on_cpu + elsewhere, len(visible(judged.exercise)), [CPU.name])
    assert report.misconception == "made-on-cpu"
    assert report.message.startswith("A second device finds a mistake: ")
    assert not any(case.name in report.message for case in judged.cases)


def test_evading_the_watch_makes_no_hidden_case_be_quoted(judged: Oracle) -> None:
    """What else is wrong comes first in the message of such an answer, and only hidden cases may show it."""
    shown = len(visible(judged.exercise))
    place = next(n for n, m in enumerate(judged.mistakes) if m.name == "masked-values-leak")
    found = results(judged, shown, None, place)
    found[-1] = replace(found[-1], seen={**found[-1].seen, FORBIDDEN: ["threads"]})
    report = verdict._report(judged, found, shown, [CPU.name])
    assert report.misconception == "masked-values-leak"
    assert not any(case.name in report.message for case in judged.cases[shown:])
    assert report.message.startswith("More cases than the notebook shows find a mistake: ")


def test_no_row_of_forbidden_names_spells_a_hidden_input() -> None:
    """A notebook that rewrites its probe can name any calls that the exercise forbids, in any order."""
    judged = oracle(LESSON, "row_softmax", lambda e: [*visible(e), *hidden(LESSON, e, SEED)])
    shown, spelling = len(visible(judged.exercise)), ["log_softmax", "softmax", "log_softmax", "log_softmax"]
    for first, told in ((shown, "In cases that the notebook does not show"), (0, "The answer uses `log_softmax`, `so")):
        found = results(judged, len(judged.cases), None)
        differs = [replace(r, seen={**r.seen, FORBIDDEN: spelling}, differs=(FORBIDDEN,)) for r in found[first:]]
        report = verdict._report(judged, found[:first] + differs, shown, [CPU.name])
        assert report.status == "forbidden"
        assert report.message.startswith(told)
        assert report.message.count("log_softmax") == (first == 0)
