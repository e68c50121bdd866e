"""Time `torchcourse lab` up to a usable page: `python benchmarks/lab.py [TIMES]`, from the repository's root.

From the start of the command, on a new working copy, to the start page's table in a browser that was open already, and
on to where its kernel is idle. Each run has its own home, so only the system's file cache is warm.
"""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from playwright.sync_api import Browser, sync_playwright

from tests.browser.conftest import CALM, TOKEN, Lab, free_port
from tests.support import programs

GIVE_UP = 300_000
"""Milliseconds to wait for a page."""


def once(browser: Browser, root: Path) -> tuple[float, float]:
    """Return the seconds until the table appears and until the kernel is idle."""
    lab = Lab(free_port(), root / "work", root / ".local" / "share" / "jupyter")
    env = {**os.environ, "HOME": str(root), "JUPYTER_TOKEN": TOKEN}
    torchcourse = str(Path(sys.executable).parent / "torchcourse")
    command = [torchcourse, "lab", str(lab.folder), "--no-browser", "--port", str(lab.port)]
    begun = time.perf_counter()
    server = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    page = browser.new_page()
    try:
        wait_until_it_answers(lab.port)  # as JupyterLab does before it opens a browser
        page.goto(f"http://127.0.0.1:{lab.port}/?token={TOKEN}", timeout=GIVE_UP)
        page.locator(".jp-OutputArea table a").first.wait_for(timeout=GIVE_UP)
        shown = time.perf_counter() - begun
        idle = page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]")
        idle.wait_for(state="attached", timeout=GIVE_UP)
        return shown, time.perf_counter() - begun
    finally:
        page.close()
        server.terminate()
        server.wait()


def wait_until_it_answers(port: int) -> None:
    """Wait until a connection succeeds, which is far cheaper than loading pages that fail."""
    end = time.monotonic() + GIVE_UP / 1000
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.02)


def main() -> None:
    times = int(sys.argv[1]) if sys.argv[1:] else 5
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=programs.chromium_path(), args=CALM)
        found = []
        for number in range(times):
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as root:
                found.append(once(browser, Path(root)))
            print(f"{number + 1}: table after {found[-1][0]:.1f} s, kernel idle after {found[-1][1]:.1f} s", flush=True)
        browser.close()
    shown, idle = (statistics.median(column) for column in zip(*found, strict=True))
    print(f"median of {times}: table after {shown:.1f} s, kernel idle after {idle:.1f} s")
    print(f"load of this machine: {' '.join(f'{load:.1f}' for load in os.getloadavg())} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
