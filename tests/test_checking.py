"""`check` and `hint` as a learner meets them: an outcome each time, never an exception of its own."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import pytest
import torch

import torchcourse
from torchcourse import Unattempted, card, check, hint, hints
from torchcourse import checking as checking_module
from torchcourse.checking import examine
from torchcourse.exercise import Exercise, exercises
from torchcourse.reporting import Report


def row_softmax(x: torch.Tensor) -> torch.Tensor:
    weights = (x - x.amax(-1, keepdim=True)).exp()
    return weights / weights.sum(-1, keepdim=True)


def report(answer: Callable[..., Any], name: str = "row_softmax") -> Report:
    return examine(name, {name: answer})


def test_a_right_answer_is_right_on_both_devices(capsys: pytest.CaptureFixture[str]) -> None:
    check(row_softmax)
    said = capsys.readouterr().out
    assert said.startswith("row_softmax: Right.")
    assert "on the CPU and on" in said


def test_a_name_is_looked_up_where_check_is_called(capsys: pytest.CaptureFixture[str]) -> None:
    check("row_softmax")
    assert capsys.readouterr().out.startswith("row_softmax: Right.")


def test_an_unbound_name_is_not_attempted(capsys: pytest.CaptureFixture[str]) -> None:
    check("one_hot")
    assert "Not attempted" in capsys.readouterr().out


def test_an_unknown_name_gets_the_nearest_and_no_exception(capsys: pytest.CaptureFixture[str]) -> None:
    check("row_softmx")
    assert "Did you mean 'row_softmax'?" in capsys.readouterr().out


def test_the_stub_is_not_attempted_and_another_stub_is_an_exception() -> None:
    def stub(x: object) -> None:
        raise Unattempted("row_softmax")

    def other(x: object) -> None:
        raise Unattempted("one_hot")

    def bare(x: object) -> None:
        raise NotImplementedError

    assert report(stub).status == "unattempted"
    assert report(other).status == "error"
    assert "`one_hot` is not written yet" in report(other).message
    assert report(bare).status == "error"


def test_something_that_is_no_function_is_named() -> None:
    assert "bound to int" in examine("row_softmax", {"row_softmax": 3}).message


def test_a_wrong_answer_learns_its_mistake_in_terms_of_what_was_observed() -> None:
    wrong = report(lambda x: row_softmax(x.movedim(0, -1)).movedim(-1, 0))
    assert (wrong.status, wrong.misconception, wrong.read) == ("failed", "wrong-dim", "Reductions")
    assert re.search(r"row \d+ sums to \d", wrong.message)


def test_an_unforeseen_answer_gets_no_guess() -> None:
    odd = report(lambda x: row_softmax(x) + 0.25)
    assert (odd.status, odd.misconception) == ("failed", "")
    assert "result" in odd.message


def test_a_forbidden_call_is_named() -> None:
    refused = report(lambda x: torch.nn.Softmax(-1)(x))
    assert refused.status == "forbidden"
    assert "`softmax`" in refused.message


def test_an_exception_is_told_with_its_case() -> None:
    broken = report(lambda x: x.no_such_thing)
    assert broken.status == "error"
    assert "no_such_thing" in broken.message
    assert "a matrix" in broken.message


@pytest.mark.parametrize("answer", [lambda x: sys.exit(1), lambda x: exec("raise RecursionError"), lambda x: None])
def test_no_answer_makes_check_raise(answer: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
    card.show(report(answer))
    assert capsys.readouterr().out.startswith("row_softmax: ")


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> Exercise:
    """row_softmax with half a second for its check."""
    import dataclasses

    quick = dataclasses.replace(exercises("01_tensors")["row_softmax"], seconds=0.5)
    monkeypatch.setattr(checking_module, "find", lambda name: ("01_tensors", quick))
    return quick


def endless(x: object) -> None:
    while True:
        pass


def stubborn(x: object) -> None:
    while True:
        try:
            endless(x)
        except Exception:
            continue


@pytest.mark.parametrize("answer", [endless, stubborn])
def test_an_endless_answer_is_stopped(hurried: Exercise, answer: Callable[..., Any]) -> None:
    begun = time.monotonic()
    assert report(answer).status == "timeout"
    assert time.monotonic() - begun < 5
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def asleep(x: object) -> None:
    while True:
        time.sleep(0.01)


def test_an_answer_that_only_waits_is_given_more_time_and_then_stopped(hurried: Exercise) -> None:
    begun = time.monotonic()
    assert report(asleep).status == "timeout"
    assert checking_module.PATIENCE * hurried.seconds <= time.monotonic() - begun < 12


def careless(x: object) -> None:
    """Swallows the first interrupt that it gets, as a bare `except:` does."""
    with contextlib.suppress(BaseException):
        endless(x)
    endless(x)


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
        card.show(report(interrupted))
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert "Interrupted" in capsys.readouterr().out
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_what_an_answer_prints_is_not_repeated_for_every_case(capsys: pytest.CaptureFixture[str]) -> None:
    def talkative(x: torch.Tensor) -> torch.Tensor:
        print("hello")
        return row_softmax(x)

    check_of_talkative = report(talkative)
    assert check_of_talkative.passed
    assert capsys.readouterr().out == ""


def test_validate_raises_for_what_is_not_right_and_is_silent_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NBGRADER_EXECUTION", "validate")
    check(row_softmax)
    with pytest.raises(AssertionError, match=r"one_hot: unattempted\."):
        check("one_hot")


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.add(tag)
        if tag not in ("br", "rect"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag != "rect":
            assert self.open.pop() == tag


@pytest.mark.parametrize(
    "answer",
    [row_softmax, lambda x: x, lambda x: x[..., :1], lambda x: "<script>alert(1)</script>", lambda x: 1 / 0,
     lambda x: x.softmax(-1), lambda x: x * float("nan"), lambda x: x.to(torch.complex64), lambda x: x[:0],
     lambda x: x[0, 0]],
)  # fmt: skip
def test_a_card_is_sound_html_with_words_beside_every_picture(answer: Callable[..., Any]) -> None:
    made = card.as_html(report(answer))
    tags = Tags()
    tags.feed(made)
    assert not tags.open
    assert "script" not in tags.seen
    assert 'role="region"' in made
    assert ("<svg" in made) == ('role="img"' in made)


def test_hints_come_one_after_another(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hints, "_asked", {})
    texts = exercises("01_tensors")["one_hot"].hints
    for level in range(1, 5):
        hint("one_hot")
        said = capsys.readouterr().out
        assert [text in said for text in texts] == [i < level for i in range(3)]
    hint("one_hott")
    assert "Did you mean 'one_hot'?" in capsys.readouterr().out


def test_importing_the_course_costs_little_over_torch() -> None:
    code = "import time, torch; t = time.process_time(); import torchcourse; print(time.process_time() - t)"
    costs = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(3)
    ]
    assert min(costs) < 0.15  # CPU seconds; some 0.06 on an idle machine


def test_public_names_are_few() -> None:
    assert sorted(torchcourse.__all__) == ["Unattempted", "check", "hint"]


def test_an_index_out_of_range_keeps_an_answer_from_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    import dataclasses

    from torchcourse.lanes import CPU

    gpu = dataclasses.replace(CPU, name="cuda")  # the CPU under another name: what is asked is whether it is used
    monkeypatch.setattr(checking_module, "lanes", lambda any_device: [CPU, gpu])
    out_of_range = report(lambda x: x[..., 99])
    assert {r.lane for r in out_of_range.results} == {"cpu"}
    assert {r.lane for r in report(row_softmax).results} == {"cpu", "cuda"}
