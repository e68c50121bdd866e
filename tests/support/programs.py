"""The programs that some tests need: bubblewrap, a browser, JupyterHub and its proxy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

__all__ = ["NOT_ASKED", "PROXY", "bubblewrap_fault", "chromium_fault", "chromium_path", "hub_fault", "public_python"]

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable",
            "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")  # fmt: skip

PROXY = Path(__file__).resolve().parents[2] / "deploy/jupyterhub/node_modules/.bin/configurable-http-proxy"
NOT_ASKED = "TORCHCOURSE_HUB=1 is not set"
"""Why a test is left out that makes system accounts, where nobody asked for it: no failure on any machine."""


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


def hub_fault() -> str:
    """Return why a JupyterHub with system users cannot be tried here; "" where it can and was asked for."""
    if os.environ.get("TORCHCOURSE_HUB") != "1":
        return f"{NOT_ASKED} (docs/jupyterhub.md; it makes system accounts and removes them)"
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "only root can make accounts for JupyterHub"
    if find_spec("jupyterhub") is None:
        return "JupyterHub is not installed (pip install 'torchcourse[hub]')"
    if not PROXY.exists():
        return "JupyterHub's proxy is not installed (npm install --prefix deploy/jupyterhub)"
    return "" if public_python() else "no Python of this version may be run by other users"


def public_python() -> str | None:
    """Return a Python of this version that every user may run."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    found = [os.path.realpath(sys.executable), f"/usr/bin/{name}", f"/usr/local/bin/{name}"]
    return next((path for path in found if _runs(path, "-c", "import venv", user=65534)), None)


def _runs(*command: str, user: int | None = None) -> bool:
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=30, user=user, group=user)
        return done.returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
