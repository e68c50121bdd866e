"""The programs that some tests need: bubblewrap and a browser."""

from __future__ import annotations

import shutil
import subprocess
import sys

__all__ = ["bubblewrap_fault", "chromium_fault", "chromium_path"]

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable",
            "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")  # fmt: skip


def bubblewrap_fault() -> str:
    """Return why bubblewrap cannot make a sandbox here; "" where it can."""
    if not sys.platform.startswith("linux"):
        return "bubblewrap exists on Linux only"
    if shutil.which("bwrap") is None:
        return "bubblewrap is not installed"
    if _runs("bwrap", "--unshare-pid", "--unshare-net", "--ro-bind", "/", "/", "true"):
        return ""
    return "bubblewrap is installed but may not make a sandbox here"


def chromium_path() -> str | None:
    """Return a chromium or Chrome that starts: Ubuntu's `chromium` may be a stub that only asks for a snap."""
    found = [path for path in map(shutil.which, BROWSERS) if path]
    return next((path for path in found if _runs(path, "--version")), None)


def chromium_fault() -> str:
    """Return why no browser can be driven here; "" where one can."""
    return "" if chromium_path() else "no chromium or Chrome starts here"


def _runs(*command: str) -> bool:
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=30).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
