"""JupyterLab in a real browser: a server on loopback, and Debian's chromium driven by playwright."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import Page, expect, sync_playwright

from tests.support import programs

expect.set_options(timeout=120_000)

TOKEN = "test"
CALM = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
        "--disable-component-update", "--disable-sync"]  # fmt: skip
SCREENSHOTS = Path(os.environ.get("TORCHCOURSE_SCREENSHOTS", "autograde/build/screenshots"))


@dataclass(frozen=True)
class Lab:
    """A running JupyterLab: its address, the learner's folder, and where Jupyter keeps its signatures."""

    port: int
    folder: Path
    data: Path

    def address(self, notebook: str) -> str:
        return f"http://127.0.0.1:{self.port}/lab/tree/{notebook}?token={TOKEN}&reset"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def jupyter_environment(home: Path) -> dict[str, str]:
    """Return the environment of a Jupyter server that keeps its own files below `home`, with every cell in the page."""
    # JupyterLab attaches only the cells in view; the tests look at all of them
    _write_settings(home, "notebook-extension/tracker", {"windowingMode": "none"})
    _write_settings(home, "apputils-extension/notification", {"fetchNews": "false"})
    return {**os.environ, "HOME": str(home), "JUPYTER_TOKEN": TOKEN, "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
            "IPYTHONDIR": str(home / "ipython"), "JUPYTER_CONFIG_DIR": str(home / "config"),
            "JUPYTER_DATA_DIR": str(home / "data"), "JUPYTER_RUNTIME_DIR": str(home / "runtime")}  # fmt: skip


def _write_settings(home: Path, plugin: str, settings: dict[str, str]) -> None:
    path = home / "settings" / "@jupyterlab" / f"{plugin}.jupyterlab-settings"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(settings))


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """`torchcourse lab` as a learner starts it, but for the browser window."""
    folder, home = tmp_path_factory.mktemp("learner"), tmp_path_factory.mktemp("home")
    port = free_port()
    torchcourse = Path(sys.executable).parent / "torchcourse"
    command: list[str | Path] = [torchcourse, "lab", folder, "--no-browser", "--port", str(port)]
    with served(command, jupyter_environment(home), home / "log", port, folder):
        yield Lab(port, folder, home / "data")


@contextlib.contextmanager
def served(command: Sequence[str | Path], env: dict[str, str], log: Path, port: int, folder: Path) -> Iterator[None]:
    """A Jupyter server that works in `folder`, until it is ready and for as long as it is needed."""
    with log.open("w") as written:
        server = subprocess.Popen(
            command, env=env, stdout=written, stderr=written, stdin=subprocess.DEVNULL, cwd=folder
        )
        try:
            wait_for(port, log, server)
            yield
        finally:
            server.terminate()
            try:
                server.wait(60)
            except subprocess.TimeoutExpired:  # Jupyter Server never ends if a thread of anyio's was serving a request
                server.kill()
                server.wait()
            assert not refers_to(folder), "JupyterLab left processes behind"


@contextlib.contextmanager
def class_server(room: Path, home: Path) -> Iterator[str]:
    """A JupyterLab that runs in a class folder: its address, in which `{}` stands for the page."""
    port = free_port()
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", f"--port={port}", f"--notebook-dir={room}",
               "--allow-root"]  # fmt: skip
    with served(command, jupyter_environment(home), home / "log", port, room):
        yield f"http://127.0.0.1:{port}/{{}}?token={TOKEN}"


def refers_to(folder: Path) -> list[str]:
    """The command lines of running processes that name `folder`, other than our own."""
    lines = []
    for process in psutil.process_iter(["pid", "cmdline", "cwd"]):
        words = [*(process.info["cmdline"] or []), process.info["cwd"] or ""]
        if process.pid != os.getpid() and any(str(folder) in word for word in words):
            lines.append(" ".join(words))
    return lines


def wait_for(port: int, log: Path, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and server.poll() is None:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/api?token={TOKEN}", timeout=2)
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    pytest.fail("JupyterLab did not start:\n" + re.sub(r"token=\w+", "token=…", log.read_text())[-2000:])


@pytest.fixture(scope="package")
def browser() -> Iterator[object]:
    """Chromium, for this package: playwright's event loop runs in this thread as long as it is open."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=programs.chromium_path(), args=CALM)
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: object) -> Iterator[Page]:
    """A page that reaches this machine only."""
    opened: Page = browser.new_page(viewport={"width": 1400, "height": 1000})  # type: ignore[attr-defined]
    opened.set_default_timeout(120_000)
    opened.route(re.compile(r"^https?://(?!127\.0\.0\.1)"), lambda route: route.abort())
    # a save that was under way when a page was left may end after the page has been opened again
    opened.add_locator_handler(opened.get_by_role("button", name="Overwrite"), lambda button: button.click())
    yield opened
    for dialog in opened.locator(".jp-Dialog").all():  # shown where a test failed, maybe because of it
        print("A dialog was left open:", dialog.inner_text())
    opened.close()
