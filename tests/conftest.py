"""Set up all tests: no network, one thread each, and a final summary of what was not tested."""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.support import programs

NEEDS: dict[str, Callable[[], str]] = {
    "sandbox": programs.bubblewrap_fault,
    "browser": programs.chromium_fault,
    "hub": programs.hub_fault,
}
"""For each marker, the function that returns why its tests cannot run here ("" if they can)."""
UNTESTED = "not tested here: "
MOST_SAID = 1500
"""How many characters of a failure are printed at once; the summary has all."""
NOWHERE = "http://127.0.0.1:9"
LOOPBACK = ("127.", "::1", "localhost")


def keep_to_this_machine() -> None:
    """Make programs that would use the network fail at once, here and in every process that a test starts."""
    for name in ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy"):
        os.environ[name] = os.environ[name.upper()] = NOWHERE
    for name in ("no_proxy", "NO_PROXY"):
        os.environ[name] = "localhost,127.0.0.1,::1"
    os.environ.update(PIP_NO_INDEX="1", HF_HUB_OFFLINE="1")
    socket.socket.connect = _only_loopback(socket.socket.connect)  # type: ignore[method-assign]


def _only_loopback(connect: Callable[..., None]) -> Callable[..., None]:
    def guarded(self: socket.socket, address: Any, /) -> None:
        stream = self.type == socket.SOCK_STREAM and self.family in (socket.AF_INET, socket.AF_INET6)
        if stream and not str(address[0]).startswith(LOOPBACK):
            raise ConnectionRefusedError(f"tests use no network, and this one wants {address[0]}")
        connect(self, address)

    return guarded


def forget_own_lessons() -> None:
    """Let no lessons of whoever runs the tests join those of the course."""
    os.environ.pop("TORCHCOURSE_COURSE", None)


def one_thread_each() -> None:
    """Limit each process to one thread, as workers run side by side. Call it before torch is imported."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"


def share_folders() -> None:
    """Let the processes that run tests share an oracle cache and Jupyter's signatures, for this run only."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        for name in ("TORCHCOURSE_CACHE", "JUPYTER_DATA_DIR"):
            os.environ[name] = folder = tempfile.mkdtemp(prefix="tests-")
            atexit.register(shutil.rmtree, folder, ignore_errors=True)


keep_to_this_machine()
forget_own_lessons()
one_thread_each()
share_folders()


TOGETHER = (
    "tests/attacks/test_attacks.py",
    "tests/attacks/test_exhaustion.py",
    "tests/attacks/test_forging.py",
    "tests/attacks/test_leftovers.py",
    "tests/attacks/test_native_code.py",
    "tests/attacks/test_notebooks.py",
    "tests/attacks/test_weakened.py",
    "tests/browser/",
    "tests/hub/",
    "tests/batch/test_cluster.py",
    "tests/batch/test_postgres.py",
    "tests/simulated/test_operators.py",
    "tests/course/test_bundle.py",
    "tests/course/test_own_course.py",
    "tests/classroom/test_class_folder.py",
    "tests/batch/test_grading.py",
    "tests/sandbox/test_probing.py",
    "tests/sandbox/test_sandbox.py",
    "tests/sandbox/test_trust.py",
)
"""Tests that share something costly (a JupyterLab, a worker, a graded class), and so belong to one process."""


BUILT_ONCE = (
    *TOGETHER,
    "tests/attacks/test_rules.py",
    "tests/batch/test_changed_release.py",
    "tests/batch/test_questions.py",
    "tests/classroom/test_export.py",
    "tests/classroom/test_late.py",
    "tests/cli/test_commands.py",
    "tests/cli/test_writing.py",
    "tests/course/test_scaffold.py",
    "tests/demos/test_router_demos.py",
    "tests/judge/test_examples.py",
    "tests/judge/test_judging_costs.py",
    "tests/judge/test_oracle_cache.py",
    "tests/judge/test_verdict.py",
    "tests/probes/test_crash_points.py",
)
"""Tests of which each file runs in one process: `TOGETHER`, and others whose fixtures each process would build anew."""


LONG = (
    *TOGETHER,
    "tests/course/test_verify.py",
    "tests/batch/test_classes.py",
    "tests/batch/test_resume.py",
)
"""Tests that start first because they take longest, so that at the end no process works alone.

Those of `verify` come before the ones that grade whole classes, which use what it observed.
"""


SLOW = (
    *LONG,
    "tests/attacks/",
    "tests/batch/test_changed_release.py",
    "tests/batch/test_preflight.py",
    "tests/batch/test_questions.py",
    "tests/batch/test_same_submissions.py",
    "tests/checking/test_strange_results.py",
    "tests/checking/test_terminal_check.py",
    "tests/checking/test_warm_check.py",
    "tests/classroom/test_late.py",
    "tests/classroom/test_synthetic_class.py",
    "tests/cli/",
    "tests/course/",
    "tests/demos/",
    "tests/house/test_quality.py",
    "tests/judge/test_examples.py",
    "tests/judge/test_judging_costs.py",
    "tests/judge/test_oracle_cache.py",
    "tests/judge/test_trial.py",
    "tests/model/test_codec.py",
    "tests/probes/test_crash_points.py",
    "tests/probes/test_exercise_rules.py",
    "tests/probes/test_ranks.py",
    "tests/report/test_class_report.py",
    "tests/report/test_mistakes_notebook.py",
    "tests/sandbox/",
    "tests/simulated/test_registration.py",
    "tests/workspace/test_progress.py",
)
"""Tests that `make test-fast` leaves out: they take most of the time, and few changes break them alone."""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """Lesson 01 in a working copy."""
    from torchcourse.workspace import working_copy

    working_copy.copy_notebooks(tmp_path / "work")
    return tmp_path / "work" / "01_tensors.ipynb"


class Together(LoadScopeScheduling):  # type: ignore[misc]
    """A scheduler that hands out tests one by one, except those of `BUILT_ONCE`: these by file or folder.

    xdist's own loadgroup goes by a suffix of the node id, which pytest 9 no longer keeps.
    """

    def _split_scope(self, nodeid: str) -> str:
        return next((place for place in BUILT_ONCE if nodeid.startswith(place)), nodeid)


def spread(items: list[pytest.Item]) -> list[pytest.Item]:
    """Put the tests that mostly wait for ranks to hang between others, so that no core idles while they do."""
    waiting = [item for item in items if "[12_distributed:" in item.nodeid]
    others = [item for item in items if item not in waiting]
    gap = 1 + sum("test_verify.py" in item.nodeid for item in others) // (1 + len(waiting))
    first = next((n for n, item in enumerate(others) if "test_verify.py" in item.nodeid), 0)
    for number, item in enumerate(waiting):
        others.insert(first + number * (gap + 1), item)
    return others


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Together:
    """Return the scheduler for xdist; it keeps the order of `pytest_collection_modifyitems`."""
    config.option.loadscopereorder = False
    return Together(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put long tests first, deselect those for another kind of user, and skip those whose tool is missing."""
    is_root = hasattr(os, "geteuid") and os.geteuid() == 0  # Windows has no users of that kind
    others = "ordinary" if is_root else "root"
    config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker(others)])
    items[:] = [item for item in items if not item.get_closest_marker(others)]
    for item in items:
        if item.nodeid.startswith(SLOW):
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: next((n for n, place in enumerate(LONG) if item.nodeid.startswith(place)), len(LONG)))
    items[:] = spread(items)
    for marker, fault in NEEDS.items():
        marked = [item for item in items if item.get_closest_marker(marker)]
        reason = fault() if marked else ""
        for item in marked if reason else ():
            item.add_marker(pytest.mark.skip(reason=UNTESTED + reason))


class FailuresAtOnce:
    """Prints each failure when it comes up: a run that is ended, as CI ends what takes too long, has no summary."""

    def __init__(self, terminal: Any) -> None:
        self.terminal = terminal

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.terminal.ensure_newline()
            self.terminal.write_line(f"{report.nodeid} failed:\n{report.longreprtext[-MOST_SAID:]}")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register the plugin above where tests are reported, not in the workers of xdist."""
    if terminal := config.pluginmanager.get_plugin("terminalreporter"):
        config.pluginmanager.register(FailuresAtOnce(terminal))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, None, None]:
    """Summarise what was not tested; if CI is "true", tests that could not run although they should count as failed."""
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    untested = untested_here(terminal.stats.get("skipped", [])) if terminal else {}
    strict = os.environ.get("CI") == "true" and not hasattr(session.config, "workerinput")
    strict = strict and any(not fault.startswith(programs.NOT_ASKED) for fault in untested)
    if strict:
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED
    yield  # the terminal's own summary is printed in here
    if untested and terminal:
        terminal.write_line("")
        terminal.write_line(paragraph(untested, strict))


def untested_here(skipped: list[pytest.TestReport]) -> dict[str, int]:
    """Count the tests that were skipped for each missing tool."""
    counts: dict[str, int] = {}
    for report in skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        _, found, fault = reason.partition(UNTESTED)
        if found:
            counts[fault] = counts.get(fault, 0) + 1
    return counts


def paragraph(untested: dict[str, int], strict: bool) -> str:
    """Return the summary."""
    parts = [f"{count} {'test' if count == 1 else 'tests'}, because {fault}" for fault, count in untested.items()]
    verdict = "With CI=true that is a failure." if strict else "Everything else ran; `make setup` says what to install."
    return f"Not tested here: {'; '.join(parts)}. {verdict}"
