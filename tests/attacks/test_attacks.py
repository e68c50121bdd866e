"""Each file of cells/ is one way to cheat or to break: an answer to `row_softmax`, and the verdict it must get.

Some answers before and after it in the submission are right; two honest learners, graded between and after the attacks
in the same workers, have to keep every point.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import site
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import IPython
import pytest
import torch

from autograde.batch.grading import Graded, grade
from autograde.classroom.synthetic_class import SAMPLE_LESSON as LESSON
from autograde.classroom.synthetic_class import answered_notebook, write_notebook
from autograde.settings import LIMITS
from autograde.source import paths
from autograde.source.release import load_release
from autograde.source.script import answers_as_text
from tests.support.attacks import allowed_verdicts, attack_source

pytestmark = pytest.mark.sandbox

HERE = Path(__file__).parent / "cells"
ATTACKS = sorted(path.stem for path in HERE.glob("*.py"))
QUICK = dataclasses.replace(LIMITS, exercise_seconds=4.0, cell_seconds=4.0, wall_clock_factor=12.0)
TARGET = "row_softmax"
LEFT = "*left by another*"
"""What an attack leaves among submissions and results where it can."""
PLANTED = ("__pycache__/warnings.cpython-311.pyc", "sitecustomize.py", "usercustomize.py")
"""What another one writes into packages where it can."""
OTHERS = ("describe", "standardize", "select_scores", "one_hot")
"""What attackers answer as well."""


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("graded")


class Listeners:
    """On loopback, by stream and by packet, and at a path: what nobody in the sandbox may reach."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.stream = socket.create_server(("127.0.0.1", 0))
        self.port = self.stream.getsockname()[1]
        self.packets = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.packets.bind(("127.0.0.1", self.port))
        self.local = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(2)]
        for sock, address in zip(self.local, (self.path, "\0" + self.path), strict=True):
            sock.bind(address)
            sock.listen()

    def reached(self) -> list[str]:
        """Whom anything came to."""
        found = []
        for sock in (self.stream, *self.local, self.packets):
            sock.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                sock.recv(1) if sock is self.packets else sock.accept()[0].close()
                found.append(str(sock.getsockname()))
        return found

    def close(self) -> None:
        for sock in (self.stream, self.packets, *self.local):
            sock.close()


@pytest.fixture(scope="module")
def listeners(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listeners]:
    made = Listeners(tmp_path_factory.mktemp("l") / "l")
    yield made
    made.close()


@pytest.fixture(scope="module")
def submitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("class")


@pytest.fixture(scope="module")
def packages() -> dict[Path, int]:
    """What attackers would plant in packages, with when it was written, before they try."""
    return planted()


@pytest.fixture(scope="module")
def graded(submitted: Path, out: Path, listeners: Listeners, packages: dict[Path, int]) -> dict[str, Graded]:
    """A class of attackers with an honest learner among them and another at its end."""
    right = answers_as_text(paths.SOLUTIONS / f"{LESSON}.py")
    for name in [*ATTACKS, "honest", "zz_honest"]:
        answers = right
        if name in ATTACKS:
            answers = {other: right[other] for other in OTHERS} | {TARGET: source_of(name, submitted, out, listeners)}
        write_notebook(submitted, name, LESSON, answered_notebook(LESSON, answers))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("A_SECRET", "sesame")
        return {g.submission.student: g for g in grade([LESSON], submitted, out, workers=2, limits=QUICK)}


def planted() -> dict[Path, int]:
    """Return the files in packages that bear the names of planted ones, and when each was written."""
    modules = (torch, os, sys.modules["torchcourse"], IPython)
    files = [Path(str(module.__file__)).parent / name for module in modules for name in PLANTED]
    files += [Path(place) / "left.pth" for place in (*site.getsitepackages(), *sys.path, "/etc", "/", "/usr", "/dev")]
    return {file: file.stat().st_mtime_ns for file in files if file.exists()}


def source_of(name: str, submitted: Path, out: Path, listeners: Listeners) -> str:
    """An attack that knows where things lie."""
    source = attack_source(HERE / f"{name}.py")
    for what, where in {"submitted": submitted, "out": out, "listener": listeners.path}.items():
        source = source.replace(f"{{{what}!r}}", repr(str(where)))
    return source.replace("{port}", str(listeners.port))


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_gets_its_verdict_and_gains_nothing(graded: dict[str, Graded], name: str) -> None:
    verdict = next(v for v in graded[name].verdicts if v.exercise == TARGET)
    assert verdict.status in allowed_verdicts(HERE / f"{name}.py"), verdict
    assert verdict.score == 0
    for other in graded[name].verdicts:
        assert 0 <= other.score <= load_release(LESSON).points(other.exercise)


@pytest.mark.parametrize("name", ["honest", "zz_honest"])
def test_honest_learners_keep_every_point(graded: dict[str, Graded], name: str) -> None:
    assert {v.status for v in graded[name].verdicts} == {"passed"}


def test_what_they_wrote_is_shown_as_text_only(graded: dict[str, Graded], out: Path) -> None:
    assert graded
    page = (out / "feedback" / "docstring_with_script" / f"{LESSON}.html").read_text()
    assert "<script" not in page
    assert "<img" not in page
    table = (out / "grades.csv").read_text()
    assert "\x1b" not in table
    assert "\u202e" not in table
    assert not [line for line in table.splitlines() if line.startswith("=")]


def test_no_hidden_input_is_quoted(graded: dict[str, Graded]) -> None:
    """One attack raises on the second device what it saw of hidden inputs on the first."""
    seen = [verdict for verdict in graded["connections_in_time_wait"].verdicts if verdict.exercise == "row_softmax"]
    assert [verdict.status for verdict in seen] == ["failed"]
    assert [v.message for one in graded.values() for v in one.verdicts if "HIDDEN" in v.message] == []


def test_of_exceptions_only_pythons_own_names_are_quoted(graded: dict[str, Graded]) -> None:
    told = next(v.message for v in graded["named_exception"].verdicts if v.exercise == TARGET)
    assert told == f"The cell of `{TARGET}` raised an exception, so `{TARGET}` is not defined."


def test_what_is_kept_of_one_notebook_has_a_limit(graded: dict[str, Graded]) -> None:
    told = {v.status: v.message for v in graded["heavy_observations"].verdicts}
    assert "more data than the limit" in told["memory"]
    assert "passed" in told


@pytest.mark.parametrize("name", ["network", "other_learners", "environment_and_proc", "home_folder"])
def test_without_a_sandbox_the_attack_would_succeed(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same code, run here: so its verdict above is the sandbox's doing. (The others would do damage.)"""
    monkeypatch.setenv("A_SECRET", "sesame")
    listeners = Listeners(tmp_path / "l")
    names: dict[str, Any] = {"torch": torch}
    try:
        exec(source_of(name, tmp_path, tmp_path, listeners), names)
        with pytest.raises(SystemError):
            names[TARGET](torch.ones(1))
        assert bool(list(tmp_path.glob(LEFT))) == (name == "other_learners")
    finally:
        listeners.close()


def test_nobody_reached_a_listener(graded: dict[str, Graded], listeners: Listeners) -> None:
    assert graded
    assert listeners.reached() == []
    with socket.create_connection(("127.0.0.1", listeners.port)):
        assert listeners.reached()  # it would have shown


def test_nothing_of_the_course_was_touched(
    graded: dict[str, Graded], submitted: Path, out: Path, packages: dict[Path, int]
) -> None:
    assert {f"{name}.py" for name in ("caches", "other_learners")} <= {path.name for path in HERE.iterdir()}
    assert graded
    assert [path for folder in (submitted, out) for path in folder.rglob(LEFT)] == []
    assert planted() == packages
