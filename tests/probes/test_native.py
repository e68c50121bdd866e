"""Compiling C++ in a check, and calling it in a process that may crash; missing tools, and registrations taken back."""

from __future__ import annotations

import html
import os
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch

from autograde.hidden.efficiency import complete_rms_norm as operator
from autograde.hidden.efficiency.rms_norm_cpp import SOURCE
from torchcourse.checking.card import as_html, as_text
from torchcourse.checking.check import report_on
from torchcourse.checking.probe import observe
from torchcourse.checking.report import Report
from torchcourse.model.catalogue import find
from torchcourse.model.exercise import Draw
from torchcourse.model.observations import Raised
from torchcourse.probes import native
from torchcourse.probes.registrations import registrations_undone

needs_tools = pytest.mark.skipif(bool(native.missing_tools()), reason="there is no compiler here")


def answer_with(source: str) -> dict[str, object]:
    return {"rms_norm_cpp": lambda: source}


@pytest.mark.parametrize(("has", "lacks"), [(["ninja"], "g++"), (["g++"], "ninja")])
def test_without_a_tool_the_card_says_what_to_install_and_nothing_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has: list[str], lacks: str
) -> None:
    for tool in has:
        (tmp_path / tool).write_text("#!/bin/sh\n")
        (tmp_path / tool).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    report = report_on("rms_norm_cpp", answer_with(SOURCE))
    assert report.status == "unattempted"
    assert f"needs {lacks}, missing" in report.message
    assert native.REMEDIES[lacks] in report.message


@needs_tools
def test_what_the_compiler_says_is_shown_in_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    report = report_on("rms_norm_cpp", answer_with("int one = nothing;\nint two = <b>;\n"))
    assert report.status == "error"
    assert "rms_norm.cpp:1:11: error: 'nothing' was not declared in this scope" in as_text(report)
    assert "rms_norm.cpp:2:11: error:" in as_text(report)
    shown = as_html(report)
    assert "<pre" in shown
    assert "int two = &lt;b&gt;;" in shown


def test_a_message_of_one_line_has_no_output_below_it() -> None:
    assert "<pre" not in as_html(Report("rms_norm_cpp", "failed", "wrong"))


@needs_tools
def test_a_source_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    library = native.compiled(SOURCE)
    made = library.stat().st_mtime_ns
    assert native.compiled(SOURCE) == library
    assert library.stat().st_mtime_ns == made
    assert native.compiled(SOURCE + "\n") != library


@needs_tools
def test_a_long_complaint_is_shown_to_its_end_and_unfolds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    report = report_on("rms_norm_cpp", answer_with("\n".join(f"int a{n} = b{n};" for n in range(100))))
    last = "'b99' was not declared in this scope"
    assert last in as_text(report)
    shown, _, folded = as_html(report).partition("<details><summary>")
    assert folded.startswith("All ")
    assert html.escape("error: 'b0' was not declared in this scope") in shown
    assert html.escape(last) in folded.partition("</details>")[0]
    assert html.escape(last) not in shown


@needs_tools
@pytest.mark.parametrize(
    "wrote",
    [
        "cc1plus: out of memory allocating 65536 bytes after a total of 1245184 bytes",
        "\nvirtual memory exhausted: Cannot allocate memory",
        "rms_norm.cpp:1: note: it is long\ng++: fatal error: Killed signal terminated program cc1plus",
    ],
)
def test_whichever_limit_ends_the_compiler_the_words_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrote: str
) -> None:
    (tmp_path / "g++").write_text(f"#!/bin/sh\nprintf '{wrote}' >&2\nexit 1\n")
    (tmp_path / "g++").chmod(0o755)
    monkeypatch.setenv("CXX", str(tmp_path / "g++"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(native.CompilerError, match=r"^the compiler needed more than 30 seconds or 2 GB, and was"):
        native.compiled(SOURCE)


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: os._exit(3), "Crash", "exited (3)"),
        (lambda: os._exit(0), "Crash", "exited (0)"),
        (os.abort, "Crash", "SIGABRT"),
        (lambda: time.sleep(30), "Timeout", "did not end within 0.5 seconds"),
        (lambda: {}["missing"], "KeyError", "missing"),
    ],
)
def test_however_a_process_ends_it_is_an_observation(call: object, kind: str, words: str) -> None:
    seen = native.in_a_process(call, seconds=0.5)["raised"]  # type: ignore[arg-type]
    assert isinstance(seen, Raised)
    assert seen.kind == kind
    assert words in str(seen)


def fork_children(*, own_session: bool, asleep: bool) -> dict[str, object]:
    """Fork three processes, which end at once or sleep, and return without waiting for them."""
    for _ in range(3):
        if os.fork() == 0:
            if own_session:
                os.setsid()
            time.sleep(60 * asleep)
            os._exit(0)
    time.sleep(0.3)
    return {"result": 1}


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a process adopt the orphans of another")
@pytest.mark.parametrize("own_session", [False, True])
def test_processes_that_a_call_leaves_are_observed_and_ended(own_session: bool) -> None:
    others = psutil.Process().children(recursive=True)  # which earlier tests have started
    seen = native.in_a_process(lambda: fork_children(own_session=own_session, asleep=True))
    assert seen == {"raised": Raised("Crash", "the call left processes running, which were ended", "left processes")}
    assert set(psutil.Process().children(recursive=True)) <= set(others)
    assert native.in_a_process(lambda: fork_children(own_session=own_session, asleep=False)) == {"result": 1}


def test_a_process_returns_what_it_observed_and_leaves_nothing_here() -> None:
    seen = native.in_a_process(lambda: {"result": torch.arange(3), "pid": os.getpid(), "set": setattr(os, "mark", 1)})
    assert torch.equal(seen["result"], torch.arange(3))
    assert seen["pid"] != os.getpid()
    assert not hasattr(os, "mark")


def test_an_answer_finds_nothing_of_what_an_earlier_one_registered() -> None:
    _, exercise = find("complete_rms_norm")
    case = exercise.cases(Draw(1))[0]
    right = observe(exercise, operator.by_decorators, case)
    without = observe(exercise, operator.completing(fake=None), case)
    assert right["opcheck"] == dict.fromkeys(right["opcheck"], "passes")
    assert isinstance(without["in one graph"], Raised)
    assert observe(exercise, operator.by_decorators, case)["opcheck"] == right["opcheck"]


def test_libraries_that_torch_makes_for_itself_stay() -> None:
    with registrations_undone("torchcourse::nothing"):
        other = torch.library.Library("lesson13_tests", "FRAGMENT")  # type: ignore[no-untyped-call]
        other.define("stays(Tensor x) -> Tensor")  # type: ignore[no-untyped-call]
    assert "stays" in str(torch.ops.lesson13_tests.stays.default._schema)
    other._destroy()  # type: ignore[no-untyped-call]
