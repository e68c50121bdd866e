"""Makes `.venv`, ready for JupyterLab and the tests: `python3 -m tools.setup`, or better `make setup`.

Standard library and Python 3.8 syntax only, so that an old Python still gets to its clear message.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tools import machine

ROOT = Path(__file__).resolve().parents[1]
MADE_FROM = ("pyproject.toml", "constraints.txt", "tools/setup.py")
GB = 1_000_000_000
BEAT_S = 15.0
FAULTS = (
    (("No space left on device", "Disk quota exceeded"), "The disk is full: {need:.1f} GB are needed."),
    (("CERTIFICATE_VERIFY_FAILED", "SSLError"),
     "The package index could not be reached securely: check the clock, the proxy and its certificates."),
    (("NewConnectionError", "NameResolutionError", "ConnectTimeoutError", "ReadTimeoutError", "ProxyError",
      "Max retries exceeded", "Connection broken", "incomplete-download", "Could not fetch URL",
      "Temporary failure in name resolution"),
     "No network: the package index could not be reached; connect (or set a proxy or mirror for pip)."),
    (("No matching distribution found", "Could not find a version"),
     "The package index has no build of a pinned package for this Python and platform."),
)  # fmt: skip
"""What pip's output says, and what we say then; the first that applies. A broken network comes before 'no matching'
because pip ends with that in both cases."""


IMPORTED = (
    "torch._dynamo", "torchvision.transforms.v2", "matplotlib.pyplot", "sklearn.datasets", "ipywidgets",
    "typer", "rich", "IPython.core.interactiveshell", "ipykernel.kernelapp", "jupyterlab.labapp", "nbclient",
    "nbgrader.apps", "torchcourse.checking", "torchcourse.simulated",
)  # fmt: skip


PRELOADED = (
    "from torchcourse.exercise import LESSONS, imports, preload; "
    "preload(name for lesson in LESSONS for name in imports(lesson))"
)
"""What exercises load besides. A grader's workers find it compiled then: they cannot write what they compile."""


class StopError(Exception):
    """The set-up cannot go on; the message is one line for the person at the terminal."""


class Size(NamedTuple):
    """What an installation takes, in bytes: measured, rounded up."""

    download: float
    installed: float

    @property
    def needed(self) -> float:
        """The peak: everything is downloaded before anything is installed."""
        return self.download + self.installed + GB


def size_here(system: str) -> Size:
    """PyTorch brings the CUDA libraries on Linux, with or without a GPU."""
    return Size(3.2 * GB, 6.5 * GB) if system.startswith("linux") else Size(0.5 * GB, 2 * GB)


def say(text: str) -> None:
    """One line on the terminal, at once."""
    print(f"set-up: {text}", flush=True)


def spent(seconds: float) -> str:
    """Seconds as people say them."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


class Venv:
    """The `.venv` of a checkout, and what is known of its state."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / ".venv"
        self.python = self.folder / "bin" / "python"
        self.stamp = self.folder / ".ready"
        self.unfinished = self.folder / ".unfinished"
        self.downloads = self.folder / "tmp"
        self.log = self.folder / "setup.log"

    def made_from(self) -> dict[str, str]:
        """What a finished `.venv` must have been made from. It cannot be moved, so the place is part of it."""
        digests = {name: hashlib.sha256((self.root / name).read_bytes()).hexdigest() for name in MADE_FROM}
        return {"root": str(self.root), **digests}

    def stamped(self) -> dict[str, object]:
        """What the stamp says; nothing where there is none, or where it is not whole."""
        try:
            content = json.loads(self.stamp.read_text())
        except (OSError, ValueError):
            return {}
        return content if isinstance(content, dict) else {}

    def is_ready(self) -> bool:
        """Whether nothing is left to do."""
        return self.stamped().get("made from") == self.made_from() and self.runs() and not self.unfinished.exists()

    def runs(self) -> bool:
        """Whether its Python is still there: an upgraded system may have taken it away."""
        return self.python.exists()

    def is_worth_updating(self) -> bool:
        """Whether pip can bring it up to date; else it is made anew."""
        if not self.runs() or self.unfinished.exists():
            return False
        made_from = self.stamped().get("made from", {})
        moved = isinstance(made_from, dict) and made_from.get("root", str(self.root)) != str(self.root)
        probe = f"import pip, sys; sys.exit(not {machine.OLDEST} <= sys.version_info[:2] <= {machine.NEWEST})"
        command = [str(self.python), "-c", probe]
        return not moved and subprocess.run(command, capture_output=True, check=False).returncode == 0

    def write_stamp(self, still_missing: list[str]) -> None:
        """Say that it is ready. Written beside and renamed, so a stamp is whole or absent."""
        draft = self.stamp.with_name(".ready-draft")
        draft.write_text(json.dumps({"made from": self.made_from(), "missing": still_missing}, indent=1) + "\n")
        draft.replace(self.stamp)


def check_disk(free: float, size: Size) -> None:
    """Stop before a download that cannot end well.

    Raises:
        StopError: where the disk is too full.
    """
    if free < size.needed:
        numbers = f"{size.needed / GB:.1f} GB are needed for .venv and {free / GB:.1f} GB are free"
        raise StopError(f"The disk is too full: {numbers}.")


def check_venv_module() -> None:
    """Debian and Ubuntu keep part of Python's venv module in a package of its own.

    Raises:
        StopError: where it is missing and may not be installed.
    """
    if importlib.util.find_spec("ensurepip") and importlib.util.find_spec("venv"):
        return
    package = f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"
    say(f"installing the system package {package}")
    if machine.install([package]):
        raise StopError(f"This Python has no venv module: run `{machine.one_line([package])}`, then this again.")


def explain(output: str, need: float) -> str:
    """One line for what went wrong in pip, from what pip printed."""
    for signs, meaning in FAULTS:
        if any(sign in output for sign in signs):
            return meaning.format(need=need / GB)
    last = [line for line in output.splitlines() if line.strip()]
    return f"pip failed: {last[-1].strip()[:300]}" if last else "pip failed and said nothing."


class Pip:
    """pip in a `.venv`, its output kept in a log, with a line on the terminal now and then."""

    def __init__(self, venv: Venv, size: Size) -> None:
        self.venv = venv
        self.size = size
        self.started = time.monotonic()
        self.installing = False

    def run(self, *arguments: str) -> None:
        """Run pip to its end.

        Raises:
            StopError: when it fails, with the reason in one line.
        """
        tail: deque[str] = deque(maxlen=200)
        with self.venv.log.open("a", encoding="utf-8") as log, self._start(arguments) as process:
            over = threading.Event()
            threading.Thread(target=self._beat, args=(over,), daemon=True).start()
            try:
                for line in process.stdout or ():
                    log.write(line)
                    tail.append(line)
                    self._notice(line)
            except BaseException:
                process.terminate()
                raise
            finally:
                over.set()
        if process.returncode:
            raise StopError(f"{explain(''.join(tail), self.size.needed)} Details: {self.venv.log}")

    def _start(self, arguments: tuple[str, ...]) -> subprocess.Popen[str]:
        # Downloads go beside .venv's own files: /tmp is often small and in memory.
        self.venv.downloads.mkdir(exist_ok=True)
        environment = dict(os.environ, PIP_NO_INPUT="1", PIP_USER="0", PIP_DISABLE_PIP_VERSION_CHECK="1",
                           PIP_PROGRESS_BAR="off", TMPDIR=str(self.venv.downloads))  # fmt: skip
        environment.pop("PYTHONPATH", None)
        command = [str(self.venv.python), "-m", "pip", *arguments]
        return subprocess.Popen(
            command, cwd=self.venv.root, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, encoding="utf-8", errors="replace",
        )  # fmt: skip

    def _notice(self, line: str) -> None:
        if line.startswith("Installing collected packages"):
            # From here on a cut leaves packages half written; before, pip has changed nothing.
            self.venv.unfinished.touch()
            self.installing = True
            count = line.count(",") + 1
            say(f"installing {count} {'package' if count == 1 else 'packages'}")

    def _beat(self, over: threading.Event) -> None:
        while not over.wait(BEAT_S):
            say(f"{spent(time.monotonic() - self.started)}, {self._progress()}")

    def _progress(self) -> str:
        downloaded = folder_bytes(self.venv.downloads)
        if not self.installing:
            return f"{downloaded / GB:.1f} of about {self.size.download / GB:.1f} GB downloaded"
        installed = folder_bytes(self.venv.folder) - downloaded
        return f"{installed / GB:.1f} of about {self.size.installed / GB:.1f} GB installed"


def folder_bytes(folder: Path) -> int:
    """The size of the files in a folder that others may be changing."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(parent, name)).st_size  # noqa: PTH118 - 60,000 files: be quick
            except OSError:
                continue
    return total


def system_packages(tried: list[str]) -> list[str]:
    """Install what is missing where that is allowed and was not `tried` in vain before; what is missing still."""
    faults = machine.missing_packages()
    untried = [package for package in faults if package not in tried]
    if untried and sys.platform.startswith("linux"):
        say(f"trying to install {' and '.join(untried)} with apt: up to 150 MB, some minutes at most")
        fault = machine.install(untried)
        faults = machine.missing_packages()
        if fault and faults:
            say(f"not installed: {fault}")
    for package, fault in faults.items():
        tests = "sandbox" if package == "bubblewrap" else "browser"
        say(f"{fault}; all but the {tests} tests run without it. The line to run: {machine.one_line([package])}")
    return list(faults)


def make_venv(venv: Venv, size: Size, free: Callable[[Path], int] = machine.free_bytes) -> None:
    """A `.venv` with pip and nothing else, in place of whatever is there.

    Raises:
        StopError: where there is no room for it, or Python cannot make one.
    """
    check_venv_module()
    if venv.folder.exists():
        say("the .venv that is here was not finished, or moved, or is broken: it goes first")
        venv.stamp.unlink() if venv.stamp.exists() else None
        for child in venv.folder.iterdir():  # not the folder itself: it may be a link to a roomier disk
            shutil.rmtree(child) if child.is_dir() and not child.is_symlink() else child.unlink()
    check_disk(free(venv.folder if venv.folder.exists() else venv.root), size)
    venv.folder.mkdir(exist_ok=True)
    venv.unfinished.touch()
    command = [sys.executable, "-m", "venv", str(venv.folder)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stdout + done.stderr).strip().splitlines() or ["no reason given"]
        raise StopError(f"Python could not make .venv: {reason[-1]}")


def fill_venv(venv: Venv, size: Size) -> None:
    """Install the course and all it needs, at the pinned versions."""
    pip = Pip(venv, size)
    venv.log.write_text("")
    shutil.rmtree(venv.downloads, ignore_errors=True)
    # A small question first: without a network it fails in seconds, before any talk of gigabytes.
    pip.run("install", "--dry-run", "--retries", "1", "--timeout", "20", "-c", "constraints.txt", "setuptools")
    room = machine.free_bytes(venv.folder) - size.needed
    spare = [] if room > size.download else ["--no-cache-dir"]  # pip's cache would hold a second copy of the download
    # Compiling all of it would take a minute longer; `try_out` compiles what is used
    pip.run("install", "--no-compile", "-e", ".[test]", "-c", "constraints.txt", *spare)
    shutil.rmtree(venv.downloads, ignore_errors=True)
    venv.unfinished.unlink() if venv.unfinished.exists() else None


def try_out(venv: Venv) -> None:
    """Import what the course uses, which shows that it works here, and leaves it compiled for the next time, also where
    Python is told to keep nothing: this folder is the course's own, and torch takes twice as long to load without.

    Raises:
        StopError: when something does not load, with Python's last line about it.
    """
    say("trying what was installed")
    command = [str(venv.python), "-W", "ignore", "-c", f"import {', '.join(IMPORTED)}; {PRELOADED}"]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, env=env)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"it ended with status {done.returncode}"]
        raise StopError(f"What was installed does not load here: {last[0]}")


def set_up(root: Path) -> None:
    """Everything, or the reason why not.

    Raises:
        StopError: with that reason.
    """
    venv, size = Venv(root), size_here(sys.platform)
    # A finished .venv has its own Python: the one that runs this may then be any.
    fault = "" if venv.is_ready() else machine.unsupported(machine.this_machine())
    if fault:
        raise StopError(fault)
    with Turn(root / "constraints.txt"):
        ready = venv.is_ready()  # asked again: another set-up may have finished just now
        tried = venv.stamped().get("missing")
        missing = system_packages(tried if ready and isinstance(tried, list) else [])
        if ready:
            say(f"{venv.folder.name} is up to date")
        else:
            make_ready(venv, size)
        if not ready or missing != tried:
            venv.write_stamp(missing)


def make_ready(venv: Venv, size: Size) -> None:
    """Make or update `.venv`, saying what it takes."""
    started = time.monotonic()
    if venv.is_worth_updating():
        say("bringing .venv up to date with pyproject.toml and constraints.txt")
        venv.stamp.unlink() if venv.stamp.exists() else None
    else:
        say(f"making .venv: about {size.download / GB:.1f} GB to download (less where pip has it already) and "
            f"{size.installed / GB:.1f} GB on disk; some minutes")  # fmt: skip
        make_venv(venv, size)
    fill_venv(venv, size)
    try_out(venv)
    say(f".venv is ready after {spent(time.monotonic() - started)}")


class Turn:
    """One set-up of a checkout at a time: `make test` in two terminals must not install over itself."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("rb")

    def __enter__(self) -> None:
        import fcntl  # not on Windows, which has been turned away by now

        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another set-up of this folder is running: waiting for it")
            fcntl.flock(self.file, fcntl.LOCK_EX)
        except OSError:
            return  # a file system without locks

    def __exit__(self, *_: object) -> None:
        self.file.close()


def main() -> int:
    """Run the set-up; its exit status."""
    try:
        set_up(ROOT)
    except StopError as reason:
        print(f"set-up stopped: {reason}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nset-up stopped: interrupted. The same command starts it again.", file=sys.stderr)
        return 130
    except OSError as error:
        need = size_here(sys.platform).needed
        print(f"set-up stopped: {explain(str(error), need).replace('pip failed: ', '')}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
