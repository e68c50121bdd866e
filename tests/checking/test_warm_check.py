"""`torchcourse check` in a terminal: the first check leaves a process that answers the next ones."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from tests.support.waiting import eventually
from tests.support.working_copies import RIGHT, WRONG, answered
from torchcourse.checking import warm_check

COMMAND = """
import sys
from torchcourse.cli import main
sys.argv[0] = "torchcourse"
try:
    main()
finally:
    print("torch imported:", "torch" in sys.modules)
"""
HELPER = "def shifted(x):\n    return x - x.amax(-1, keepdim=True)"
SEEN = "shifted({'OLD': None, 'NEW': x}[next(n for n in ('OLD', 'NEW') if n in os.environ)])"
SECONDS = 60


@dataclass
class Terminal:
    """A terminal in a folder, whose runtime files are its own."""

    folder: Path
    runtime: Path
    environment: dict[str, str] = field(default_factory=dict)

    def start(self, *arguments: str, keeps: tuple[int, ...] = ()) -> tuple[subprocess.Popen[bytes], int]:
        """Start `torchcourse` in the terminal; return the process and the terminal's other end."""
        ours, theirs = pty.openpty()
        source = str(Path(warm_check.__file__).parents[2])
        own = {"JUPYTER_RUNTIME_DIR": str(self.runtime), "PYTHONPATH": source, **self.environment}
        process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, *arguments],
            cwd=self.folder,
            env=os.environ | own,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            pass_fds=keeps,
        )
        os.close(theirs)
        return process, ours

    def run(self, *arguments: str, keeps: tuple[int, ...] = ()) -> tuple[int, str]:
        """Return the exit status of `torchcourse` and what it printed, whether it has imported torch included."""
        return self.finish(*self.start(*arguments, keeps=keeps))

    def finish(self, process: subprocess.Popen[bytes], ours: int) -> tuple[int, str]:
        """Wait for a command that was started, and return the same."""
        printed = b""
        with contextlib.suppress(OSError):  # the terminal is closed
            while not re.search(rb"torch imported: \w+\s", printed):  # the last that it prints
                printed += os.read(ours, 4096)
        status = process.wait(SECONDS)
        os.close(ours)
        return status, printed.decode().replace("\r\n", "\n")

    def waiting(self) -> list[psutil.Process]:
        """Return the processes that checks have left."""
        return [p for p in psutil.process_iter() if _variable(p, "JUPYTER_RUNTIME_DIR") == str(self.runtime)]


def _variable(process: psutil.Process, name: str) -> str:
    try:
        return process.environ().get(name, "")
    except psutil.Error:
        return ""


@pytest.fixture
def terminal(mine: Path) -> Iterator[Terminal]:
    with tempfile.TemporaryDirectory() as runtime:  # a socket's path has at most 107 bytes
        terminal = Terminal(mine.parent, Path(runtime))
        yield terminal
        for process in terminal.waiting():
            process.kill()


def test_later_checks_import_no_torch_and_say_what_the_first_would(mine: Path, terminal: Terminal) -> None:
    answered(mine, WRONG)
    terminal.environment = {"OLD": "1"}
    first, second = (terminal.run("check", "01_tensors", "row_softmax") for _ in range(2))
    assert first[0] == second[0] == 1
    assert "row_softmax: Not right yet." in first[1]
    assert first[1].endswith("torch imported: True\n")
    assert second[1] == first[1].replace("imported: True", "imported: False")
    assert len(terminal.waiting()) == 1


def test_a_later_check_has_the_folder_and_the_environment_of_its_terminal(mine: Path, terminal: Terminal) -> None:
    answered(mine, f"import os\n{RIGHT.replace('shifted(x)', SEEN, 1)}", HELPER)
    terminal.environment = {"OLD": "1"}
    assert terminal.run("check", "row_softmax")[0] == 1
    terminal.environment = {"NEW": "1"}
    status, printed = terminal.run("check", "row_softmax")
    assert (status, printed.split(".")[0]) == (0, "row_softmax: Right"), printed
    above = Terminal(terminal.folder.parent, terminal.runtime)
    status, printed = above.run("check", "work/01_tensors.ipynb", "LogSigmoid")
    assert status == 2
    assert printed.startswith("work/01_tensors.ipynb has no exercise 'LogSigmoid'"), printed
    assert len(terminal.waiting()) == 1


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_check_ends_with_the_command_and_the_process_that_waits_does_not(
    mine: Path, terminal: Terminal, how: signal.Signals
) -> None:
    terminal.run("check", "01_tensors", "row_softmax")
    [waiting] = terminal.waiting()
    answered(mine, "def row_softmax(x):\n    return sum(range(10**12))")  # no Python code runs that could look up
    process, ours = terminal.start("check", "row_softmax")
    check = eventually(lambda: [p for p in waiting.children(recursive=True) if p.cpu_times().user > 0.5])
    process.send_signal(how)
    assert process.wait(SECONDS) == (130 if how == signal.SIGINT else -how)
    os.close(ours)
    eventually(lambda: not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in check))
    assert waiting.is_running()


def test_a_check_whose_output_is_no_terminal_leaves_no_process(
    mine: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(terminal.runtime))
    assert sys.stdout.isatty() is False
    assert warm_check.check_warm(mine, ["row_softmax"]) == 1
    assert list(terminal.runtime.iterdir()) == []


def test_a_process_that_was_killed_is_replaced(terminal: Terminal) -> None:
    terminal.run("check", "01_tensors", "row_softmax")
    [killed] = terminal.waiting()
    killed.kill()
    status, printed = terminal.run("check", "01_tensors", "row_softmax")
    assert status == 1
    assert "Not attempted" in printed
    assert len(terminal.waiting()) == 1


def test_a_process_that_does_not_answer_is_not_waited_for(terminal: Terminal) -> None:
    terminal.run("check", "01_tensors", "row_softmax")
    [stopped] = terminal.waiting()
    stopped.suspend()
    status, printed = terminal.run("check", "01_tensors", "row_softmax")
    assert (status, printed.endswith("torch imported: True\n")) == (1, True)
    assert terminal.waiting() == [stopped]
    stopped.resume()
    status, printed = terminal.run("check", "01_tensors", "row_softmax")
    assert (status, printed.endswith("torch imported: False\n")) == (1, True)


def test_first_checks_at_once_leave_one_process(terminal: Terminal) -> None:
    both = [terminal.start("check", "01_tensors", "row_softmax") for _ in range(2)]
    assert [terminal.finish(*one)[0] for one in both] == [1, 1]
    assert len(terminal.waiting()) == 1


def test_an_answer_that_ends_its_processes_is_said(mine: Path, terminal: Terminal) -> None:
    terminal.run("check", "01_tensors", "row_softmax")
    for answer in ("os.killpg(0, 9)", "os._exit(0)"):
        answered(mine, f"import os\ndef row_softmax(x):\n    {answer}")
        status, printed = terminal.run("check", "row_softmax")
        assert status == 2
        assert "The process that ran your cells was ended" in printed


def test_a_strangers_socket_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        monkeypatch.setattr(os, "geteuid", lambda: 1 + os.getuid())
        with pytest.raises(PermissionError):
            warm_check._ask(ours, Path("01_tensors.ipynb"), [])
        theirs.setblocking(False)
        with pytest.raises(BlockingIOError):
            theirs.recv(1)


def test_what_the_first_check_had_open_is_not_kept_open(terminal: Terminal, tmp_path: Path) -> None:
    with (tmp_path / "held").open("w") as held:
        os.set_inheritable(held.fileno(), True)
        terminal.run("check", "01_tensors", "row_softmax", keeps=(held.fileno(),))
    [waiting] = terminal.waiting()
    assert not [file for file in waiting.open_files() if file.path == str(tmp_path / "held")]


def test_the_process_ends_when_nobody_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_check._Waiting, "timeout", 0.2)
    address = tmp_path / "one.sock"
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # of the threads of this process
        warm_check._leave_waiting(address, {})
        assert address.stat().st_mode & 0o077 == 0, "nobody else may ask"
        with pytest.raises(BlockingIOError):  # it has one already
            warm_check._leave_waiting(address, {})
    eventually(lambda: not any(tmp_path.iterdir()))


def test_another_process_serves_what_was_loaded_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = {warm_check._address()}
    monkeypatch.setenv("EDITOR", "ed")
    assert {warm_check._address()} == addresses
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    addresses.add(warm_check._address())
    monkeypatch.setenv("TORCHCOURSE_COURSE", str(tmp_path))
    addresses.add(warm_check._address())
    (tmp_path / "exercise.py").touch()
    addresses.add(warm_check._address())
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    addresses.add(warm_check._address())
    assert len(addresses) == 5
