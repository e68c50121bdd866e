"""A lesson in Jupyter Notebook 7, without JupyterLab and without `torchcourse lab`."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from autograde.source import paths
from tests.browser.conftest import TOKEN, free_port, jupyter_environment, served
from tests.browser.notebooks import IDLE, card, code_cell, run, write

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_a_check_and_its_hints_work_in_notebook_7(page: Page, tmp_path: Path) -> None:
    folder, home, port = tmp_path / "learner", tmp_path / "home", free_port()
    folder.mkdir()
    shutil.copy(paths.NOTEBOOKS / "01_tensors.ipynb", folder)
    command = [Path(sys.executable).parent / "jupyter", "notebook", "--no-browser", "--port", str(port), "--allow-root"]
    env = {**jupyter_environment(home), "PATH": "/usr/bin:/bin"}  # as without activating the environment
    with served(command, env, tmp_path / "log", port, folder):
        page.goto(f"http://127.0.0.1:{port}/notebooks/01_tensors.ipynb?token={TOKEN}")
        expect(page.locator(IDLE)).to_be_attached()
        for text in ("from torchcourse import", "def describe(", 'check("describe")'):
            run(page, code_cell(page, text))
        check = code_cell(page, 'check("describe")')
        expect(card(check)).to_contain_text("Not attempted")
        check.get_by_role("button", name="Next hint (1 of 3)").click()
        expect(card(check)).to_contain_text("Hints so far: 1 of 3")
        write(page, code_cell(page, "def describe("), "!torchcourse start mine")
        last = code_cell(page, "!torchcourse")
        run(page, last)
        expect(last.locator(".jp-OutputArea")).to_contain_text("Your notebooks are in")
        page.goto("about:blank")  # leaves no connection behind that the server would wait for
