"""What this machine offers: Python and platform, bubblewrap, chromium, apt. Looks, and installs only where asked to.

Standard library and Python 3.8 syntax only: the set-up imports this before there is a `.venv`.
"""

from __future__ import annotations

import os
import platform
import shutil
import struct
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import NamedTuple

__all__ = ["Machine", "chromium_path", "install", "missing_packages", "one_line", "this_machine", "unsupported"]

OLDEST, NEWEST = (3, 11), (3, 14)
"""The Python versions that every pin in constraints.txt has builds for."""
PLATFORMS = (("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64"))
GLIBC = (2, 28)
"""PyTorch's Linux builds need this much."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
BROWSER_ON_MACOS = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
PATIENCE_S = 600


class Machine(NamedTuple):
    """What decides whether PyTorch has builds for a machine."""

    python: tuple[int, int]
    implementation: str
    bits: int
    system: str
    processor: str
    libc: str


def this_machine() -> Machine:
    """The machine and the Python that run this."""
    libc = " ".join(platform.libc_ver())
    if "musl" in f"{sysconfig.get_config_var('HOST_GNU_TYPE')} {sysconfig.get_config_var('SOABI')}":
        libc = "musl"
    return Machine(
        python=(sys.version_info[0], sys.version_info[1]),
        implementation=platform.python_implementation(),
        bits=struct.calcsize("P") * 8,
        system=sys.platform,
        processor=platform.machine(),
        libc=libc,
    )


def unsupported(machine: Machine) -> str:
    """Why the course cannot be set up on `machine`, in one line with the remedy; empty where it can."""
    return _wrong_platform(machine) or _wrong_python(machine)


def _wrong_platform(machine: Machine) -> str:
    if machine.system == "win32":
        return "make does not set up Windows itself: use WSL, or conda with environment.yml (see README.md)."
    if machine.bits != 64:
        return f"PyTorch has no {machine.bits}-bit builds: install a 64-bit Python."
    if (machine.system, machine.processor) not in PLATFORMS:
        return (f"PyTorch has no builds for {machine.system} on {machine.processor}: use Linux on x86_64 or aarch64, "
                "or macOS on Apple silicon.")  # fmt: skip
    if machine.libc == "musl":
        return "PyTorch has no builds for musl (Alpine): use a Linux with glibc, such as Debian or Ubuntu."
    if machine.libc.startswith("glibc") and _numbers(machine.libc.split()[-1]) < GLIBC:
        return f"PyTorch needs glibc 2.28 or later and this Linux has {machine.libc}: use a newer distribution."
    return ""


def _wrong_python(machine: Machine) -> str:
    version = f"{machine.implementation} {_dotted(machine.python)}"
    if machine.implementation == "CPython" and OLDEST <= machine.python <= NEWEST:
        return ""
    fault = "is too old" if machine.python < OLDEST else "is not supported yet"
    return f"{version} {fault}: the course needs CPython {_dotted(OLDEST)} to {_dotted(NEWEST)}; {_other_python()}"


def _other_python() -> str:
    for minor in range(NEWEST[1], OLDEST[1] - 1, -1):
        name = f"python3.{minor}"
        if not _fault([name, "--version"]):
            return f"{name} is here: add PYTHON={name} to the make command."
    return "install one and add PYTHON=/path/to/python3 to the make command."


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def _fault(command: list[str], timeout_s: float = 30) -> str:
    """Why `command` does not run here; empty where it does."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=timeout_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return type(error).__name__
    reason = done.stderr.decode(errors="replace").strip().splitlines()
    return "" if done.returncode == 0 else (reason[-1] if reason else f"exit status {done.returncode}")


def bubblewrap_fault() -> str:
    """Why bubblewrap cannot isolate anything here; empty where it can."""
    if not sys.platform.startswith("linux"):
        return "bubblewrap exists on Linux only"
    if shutil.which("bwrap") is None:
        return "bubblewrap is not installed"
    fault = _fault(["bwrap", "--unshare-pid", "--unshare-net", "--ro-bind", "/", "/", "true"])
    return f"bubblewrap is installed but may not make a sandbox here ({fault})" if fault else ""


def chromium_path() -> str | None:
    """A chromium or Chrome that starts: Ubuntu's `chromium` may be a stub that only asks for a snap, so try each."""
    found = [path for path in map(shutil.which, (*BROWSERS, BROWSER_ON_MACOS)) if path]
    return next((path for path in found if not _fault([path, "--version"])), None)


def chromium_fault() -> str:
    """Why no browser can be driven here; empty where one can."""
    if chromium_path():
        return ""
    installed = any(map(shutil.which, BROWSERS))
    return "chromium is installed but does not start" if installed else "chromium is not installed"


def missing_packages() -> dict[str, str]:
    """The system packages that something here cannot be tested without, each with what is wrong."""
    faults = {"bubblewrap": bubblewrap_fault(), "chromium": chromium_fault()}
    return {package: fault for package, fault in faults.items() if fault}


def install(packages: list[str]) -> str:
    """Install system packages with apt, asking nothing. Why that was not possible; empty where it was."""
    prefix = _apt_prefix()
    if prefix is None:
        return "that needs apt, and root or sudo without a password"
    quiet = ["-qq", "-o", "DPkg::Lock::Timeout=60", "-o", "Acquire::Retries=1"]
    # A failed update (one dead source of many, say) need not keep the installation from working.
    _fault([*prefix, "apt-get", "update", *quiet], PATIENCE_S)
    fault = _fault([*prefix, "apt-get", "install", "-y", "--no-install-recommends", *quiet, *packages], PATIENCE_S)
    return f"apt-get says: {fault}" if fault else ""


def _apt_prefix() -> list[str] | None:
    """What goes before `apt-get` here; None where this user may not use it."""
    if shutil.which("apt-get") is None:
        return None
    silent = ["env", "DEBIAN_FRONTEND=noninteractive"]
    if os.geteuid() == 0:
        return silent
    return ["sudo", "-n", *silent] if not _fault(["sudo", "-n", "true"]) else None


def one_line(packages: list[str]) -> str:
    """The line that installs `packages` where the set-up may not do it."""
    names = " ".join(packages)
    if shutil.which("apt-get"):
        return f"sudo apt-get update && sudo apt-get install -y --no-install-recommends {names}"
    if shutil.which("dnf"):
        return f"sudo dnf install -y {names}"
    if shutil.which("pacman"):
        return f"sudo pacman -S --noconfirm {names}"
    if sys.platform == "darwin":
        return "brew install --cask google-chrome" if "chromium" in packages else "(nothing to install on macOS)"
    return f"install {names} with this system's package manager"


def free_bytes(folder: Path) -> int:
    """What may still be written where `folder` lies."""
    return shutil.disk_usage(folder).free
