"""`check` and `hint` as a learner meets them: an outcome each time, never an exception of its own."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import torchcourse
from tests.support.alone import alone
from torchcourse import Unattempted, check, hint
from torchcourse.checking import card, failed_case, hints, starvation
from torchcourse.checking import check as checking_module
from torchcourse.checking.check import report_on
from torchcourse.checking.report import Report
from torchcourse.model.catalogue import exercises
from torchcourse.model.devices import CPU
from torchcourse.workspace import progress


def row_softmax(x: torch.Tensor) -> torch.Tensor:
    weights = (x - x.amax(-1, keepdim=True)).exp()
    return weights / weights.sum(-1, keepdim=True)


def report(answer: Callable[..., Any], name: str = "row_softmax") -> Report:
    return report_on(name, {name: answer})


def test_a_right_answer_is_right_on_both_devices(capsys: pytest.CaptureFixture[str]) -> None:
    check(row_softmax)
    said = capsys.readouterr().out
    assert said.startswith("row_softmax: Right.")
    assert "on the CPU and on" in said


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("row_softmax", "row_softmax: Right."),  # looked up where check is called
        ("one_hot", "Not attempted"),
        ("row_softmx", "Did you mean 'row_softmax'?"),
    ],
)
def test_check_takes_a_name(name: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    check(name)
    assert words in capsys.readouterr().out


def raising(error: BaseException) -> Callable[[object], None]:
    def answer(x: object) -> None:
        raise error

    return answer


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        (raising(Unattempted("row_softmax")), "unattempted", []),
        (raising(Unattempted("one_hot")), "error", ["`one_hot` is not written yet"]),
        (raising(NotImplementedError()), "error", []),
        (raising(SystemExit(1)), "error", []),
        (raising(RecursionError()), "error", []),
        (3, "error", ["bound to int"]),
        (lambda x: None, "failed", []),
        (lambda x: row_softmax(x) + 0.25, "failed", ["result"]),  # no known mistake: no guess
        (torch.nn.Softmax(-1), "forbidden", ["`softmax`"]),
        (lambda x: x.no_such_thing, "error", ["no_such_thing", "a matrix"]),
    ],
)
def test_an_answer_of_any_kind_gets_a_status_and_words_and_nothing_is_raised(
    answer: Callable[..., Any], status: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    found = report(answer)
    assert (found.status, found.misconception) == (status, "")
    assert [word for word in words if word not in found.message] == []
    card.show(card.Shown(found))
    assert capsys.readouterr().out.startswith("row_softmax: ")


def test_a_wrong_answer_learns_its_mistake_in_terms_of_what_was_observed() -> None:
    wrong = report(lambda x: row_softmax(x.movedim(0, -1)).movedim(-1, 0))
    assert (wrong.status, wrong.misconception, wrong.section) == ("failed", "wrong-dim", "Reductions")
    assert re.search(r"row \d+ sums to \d", wrong.message)


def endless(x: object) -> None:
    while True:
        pass


def stubborn(x: object) -> None:
    while True:
        with contextlib.suppress(Exception):
            endless(x)


def asleep(x: object) -> None:
    time.sleep(30)


def starved(x: object) -> None:
    while True:
        time.sleep(0.01)


def careless(x: object) -> None:
    """Swallows the first interrupt that it gets, as a bare `except:` does."""
    with contextlib.suppress(BaseException):
        endless(x)
    endless(x)


@pytest.mark.parametrize(
    ("answer", "least", "most"),
    [(endless, 0.0, 5.0), (stubborn, 0.0, 5.0), (starved, 0.5 * checking_module.WALL_CLOCK_FACTOR, 12.0),
     (asleep, 0.5, 0.5 * checking_module.WALL_CLOCK_FACTOR)],
)  # fmt: skip
def test_an_endless_answer_is_stopped_at_the_limit_and_one_that_gets_no_core_is_given_more_time(
    monkeypatch: pytest.MonkeyPatch, answer: Callable[..., Any], least: float, most: float
) -> None:
    quick = dataclasses.replace(exercises("01_tensors")["row_softmax"], seconds=0.5)
    monkeypatch.setattr(checking_module, "find", lambda name: ("01_tensors", quick))
    monkeypatch.setattr(starvation, "_has_children", lambda: False)
    if answer is starved:
        begun = time.monotonic()
        monkeypatch.setattr(starvation, "_delay", lambda: time.monotonic() - begun)
    begun = time.monotonic()
    checked = report(answer)
    lasted = time.monotonic() - begun
    assert checked.status == "timeout"
    assert least <= lasted < most
    told = re.match(r"The check was stopped after ([\d.]+) seconds, ", checked.message)
    assert told and max(0.5, least) - 0.05 <= float(told[1]) <= lasted + 0.05
    assert re.search(rf"It was in line \d+ in {answer.__name__}: ", checked.message) or answer is stubborn
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


@pytest.mark.parametrize("answer", [endless, careless])
def test_an_interrupt_ends_the_check_and_nothing_else(
    capsys: pytest.CaptureFixture[str], answer: Callable[..., Any]
) -> None:
    begun = threading.Event()

    def interrupted(x: object) -> None:
        begun.set()
        answer(x)

    def press() -> None:
        begun.wait()
        os.kill(os.getpid(), signal.SIGINT)

    # A kernel has Python's own handler; tests that a shell starts in the background inherit an ignored SIGINT.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        threading.Thread(target=press, daemon=True).start()
        card.show(card.Shown(report(interrupted)))
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert "Interrupted" in capsys.readouterr().out
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_what_an_answer_prints_is_not_repeated_for_every_case(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(lambda x: [row_softmax(x), print("hello")][0]).passed
    assert capsys.readouterr().out == ""


def test_validate_raises_for_what_is_not_right_and_is_silent_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NBGRADER_EXECUTION", "validate")
    check(row_softmax)
    with pytest.raises(AssertionError, match=r"one_hot: unattempted\."):
        check("one_hot")


def test_hints_come_one_after_another_and_then_the_answer(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hints, "_asked", {})
    texts = exercises("01_tensors")["one_hot"].hints
    for level in range(1, 6):
        hint("one_hot" if level < 3 else type("one_hot", (), {}))
        said = capsys.readouterr().out
        assert [text in said for text in texts] == [i < level for i in range(3)]
        assert ("def one_hot(" in said) is (level > 3)
    hint("one_hott")
    assert "Did you mean 'one_hot'?" in capsys.readouterr().out


def test_check_alone_lists_the_exercises_of_the_lesson_with_their_states(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    monkeypatch.setattr(failed_case, "_latest", {})
    exec("check()", {"check": check})
    assert capsys.readouterr().out == 'Name an exercise, such as `check("row_softmax")`.\n'
    (tmp_path / progress.STATE).mkdir()
    progress.record(tmp_path, "row_softmax", "passed")
    progress.record(tmp_path, "describe", "failed")
    exec("check()", {"check": check, "row_softmax": 1})
    first, *lines = capsys.readouterr().out.splitlines()
    assert first == "1 · Tensors:" and len(lines) == len(exercises("01_tensors"))
    assert "`row_softmax`: passed" in lines and "`describe`: attempted" in lines and "`one_hot`: open" in lines
    exec("check('row_softmax')\ncheck()", {"check": check, "row_softmax": lambda x: x})
    assert "`row_softmax`: passed, but the latest check says: not right yet" in capsys.readouterr().out.splitlines()


def test_importing_the_course_costs_little_over_torch() -> None:
    code = """
import time
start = time.process_time()
import torch
middle = time.process_time()
import torchcourse
print((time.process_time() - middle) / (middle - start))
"""
    shares = [float(alone(code).stdout) for _ in range(3)]
    assert min(shares) < 0.15  # of what importing torch costs in the same process; a slow machine slows both


def test_public_names_are_few() -> None:
    assert sorted(torchcourse.__all__) == ["Unattempted", "case", "check", "hint"]


def test_an_index_out_of_range_keeps_an_answer_from_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = dataclasses.replace(CPU, name="cuda")  # the CPU under another name: what is asked is whether it is used
    monkeypatch.setattr(checking_module, "checked_devices", lambda any_device: [CPU, gpu])
    out_of_range = report(lambda x: x[..., 99])
    assert {r.device for r in out_of_range.results} == {"cpu"}
    assert {r.device for r in report(row_softmax).results} == {"cpu", "cuda"}
