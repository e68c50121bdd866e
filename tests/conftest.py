"""What all tests share: no network, one thread each, and at the end a plain word about what was not tested."""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Generator
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from tools import machine

NEEDS: dict[str, Callable[[], str]] = {"sandbox": machine.bubblewrap_fault, "browser": machine.chromium_fault}
"""For each marker, what says why its tests cannot run here."""
UNTESTED = "not tested here: "
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


def one_thread_each() -> None:
    """Workers run side by side, so each keeps to one core. Set before the first import of torch, which reads it."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"


def findings_of_this_run() -> None:
    """Keep what graders find out for this run alone, shared by the processes that run tests."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        os.environ["TORCHCOURSE_CACHE"] = folder = tempfile.mkdtemp(prefix="findings-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)


keep_to_this_machine()
one_thread_each()
findings_of_this_run()


TOGETHER = (
    "tests/attacks/test_attacks.py",
    "tests/attacks/test_exhaustion.py",
    "tests/attacks/test_forging.py",
    "tests/attacks/test_leftovers.py",
    "tests/attacks/test_notebooks.py",
    "tests/attacks/test_weakened.py",
    "tests/browser/",
    "tests/test_cluster.py",
    "tests/test_postgres.py",
    "tests/simulated/test_operators.py",
    "tests/test_bundle.py",
    "tests/test_class.py",
    "tests/test_grading.py",
    "tests/test_sandbox.py",
    "tests/test_trust.py",
)
"""Tests that share something costly (a JupyterLab, a worker, a graded class), and so belong to one process."""


LONG = ("tests/test_classes.py", "tests/test_resuming.py", "tests/test_totality.py", *TOGETHER, "tests/test_verify.py")
"""What takes longest begins first, so that at the end no process works alone."""


class Together(LoadScopeScheduling):  # type: ignore[misc]
    """Hands out tests one by one, but for those of `TOGETHER`, a file or folder at a time.

    xdist's own loadgroup goes by a suffix of the node id, which pytest 9 no longer keeps.
    """

    def _split_scope(self, nodeid: str) -> str:
        return next((place for place in TOGETHER if nodeid.startswith(place)), nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Together:
    """Called by xdist for the scheduler to use: it keeps the order of `pytest_collection_modifyitems`."""
    config.option.loadscopereorder = False
    return Together(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with what takes long; leave out what is for another user; skip tests whose tool is missing, with what is
    wrong as the reason."""
    others = "ordinary" if os.geteuid() == 0 else "root"
    config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker(others)])
    items[:] = [item for item in items if not item.get_closest_marker(others)]
    items.sort(key=lambda item: next((n for n, place in enumerate(LONG) if item.nodeid.startswith(place)), len(LONG)))
    for marker, fault in NEEDS.items():
        marked = [item for item in items if item.get_closest_marker(marker)]
        reason = fault() if marked else ""
        for item in marked if reason else ():
            item.add_marker(pytest.mark.skip(reason=UNTESTED + reason))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, None, None]:
    """Close with what was not tested; where CI is "true", tests that could not run count as failed."""
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    untested = untested_here(terminal.stats.get("skipped", [])) if terminal else {}
    strict = os.environ.get("CI") == "true" and not hasattr(session.config, "workerinput")
    if untested and strict:
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED
    yield  # the terminal's own summary is printed in here
    if untested and terminal:
        terminal.write_line("")
        terminal.write_line(paragraph(untested, strict))


def untested_here(skipped: list[pytest.TestReport]) -> dict[str, int]:
    """How many tests were skipped for each missing tool."""
    counts: dict[str, int] = {}
    for report in skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        _, found, fault = reason.partition(UNTESTED)
        if found:
            counts[fault] = counts.get(fault, 0) + 1
    return counts


def paragraph(untested: dict[str, int], strict: bool) -> str:
    """The plain word at the end."""
    parts = [f"{count} {'test' if count == 1 else 'tests'}, because {fault}" for fault, count in untested.items()]
    verdict = "With CI=true that is a failure." if strict else "Everything else ran; `make setup` says what to install."
    return f"Not tested here: {'; '.join(parts)}. {verdict}"
