"""An evening at the desk: from the start page to a lesson, wrong, a hint, right; restarted, updated, reopened."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import TOKEN, Lab
from tests.browser.test_learner import card, code_cell, run, shoot, write
from torchcourse import desk, lessons, updating
from torchcourse.notebookfile import DeskError, find_cell, read, text
from torchcourse.notebookfile import write as write_notebook

pytestmark = pytest.mark.browser

LESSON, TITLE, NAME = "03_modules.ipynb", "3 · Modules", "count_parameters"
WRONG = """def count_parameters(model, trainable_only=False):
    return sum(p.numel() for p in model.parameters())"""
RIGHT = """def count_parameters(model, trainable_only=False):
    return sum(p.numel() for p in model.parameters() if p.requires_grad or not trainable_only)"""
ASK = f'\n\nhint("{NAME}")'
THEMES = "lab/api/settings/@jupyterlab/apputils-extension:themes"
NEWS = "This release says more."


def open_notebook(page: Page, lab: Lab, name: str) -> None:
    page.goto(lab.address(name))
    expect(page.locator(".jp-Notebook .jp-Cell").first).to_be_visible()
    expect(page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]")).to_be_attached()


def use_theme(page: Page, lab: Lab, name: str) -> None:
    address = f"http://127.0.0.1:{lab.port}/{THEMES}?token={TOKEN}"
    assert page.request.put(address, data={"raw": json.dumps({"theme": name})}).ok


def row(page: Page, lesson: str) -> Locator:
    return page.locator(".jp-OutputArea tr", has_text=lesson)


def counts(page: Page, lesson: str) -> list[str]:
    """Exercises, passed, attempted, open."""
    return row(page, lesson).locator("td").all_inner_texts()[2:]


def newer_release(folder: Path) -> Path:
    """The lesson with one sentence more and a stub that has changed."""
    folder.mkdir()
    notebook = read(lessons.released() / LESSON)
    notebook["cells"][0]["source"] += ["\n", "\n", NEWS]
    stub = find_cell(notebook, "freeze")
    assert stub is not None
    stub["source"] = [text(stub).replace("def freeze(", "def freeze(\n    ", 1)]
    write_notebook(folder / LESSON, notebook)
    return folder


def test_an_evening_at_the_desk(page: Page, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page.on("dialog", lambda dialog: dialog.accept())
    use_theme(page, lab, "JupyterLab Dark")
    open_notebook(page, lab, "START.ipynb")
    expect(row(page, "9 · Persistence")).to_be_visible()
    shoot(page, page.locator(".jp-Cell").first, "start-dark")
    use_theme(page, lab, "JupyterLab Light")
    open_notebook(page, lab, "START.ipynb")
    assert counts(page, TITLE) == ["12", "0", "0", "12"]

    row(page, TITLE).locator("a").click()
    expect(page.locator(".lm-TabBar-tabLabel", has_text=LESSON)).to_be_visible()
    open_notebook(page, lab, LESSON)
    run(page, code_cell(page, "from torchcourse import"))
    answer, check = code_cell(page, f"def {NAME}"), code_cell(page, f'check("{NAME}")')
    run(page, answer)
    run(page, check)
    expect(card(check)).to_contain_text("Not attempted")

    write(page, answer, WRONG + ASK)
    run(page, answer)
    expect(card(answer)).to_contain_text("Which method walks over all parameters")
    run(page, check)
    expect(card(check)).to_contain_text("ignores-trainable-only")

    write(page, answer, RIGHT)
    run(page, answer)
    run(page, check)
    expect(card(check)).to_contain_text("Right")
    page.keyboard.press("Control+s")
    saved = lab.folder / LESSON
    expect_saved(page, saved, RIGHT)

    page.get_by_role("menuitem", name="Kernel", exact=True).click()
    page.get_by_role("menuitem", name=re.compile("^Restart Kernel…")).first.click()
    page.locator(".jp-Dialog .jp-mod-accept").click()
    expect(page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]")).to_be_attached()

    open_notebook(page, lab, "START.ipynb")
    table = code_cell(page, "progress_here()")
    run(page, table)
    expect(row(page, TITLE).locator("td").nth(3)).to_have_text("1")
    assert counts(page, TITLE) == ["12", "1", "0", "11"]
    shoot(page, page.locator(".jp-Cell").first, "start")

    release = newer_release(tmp_path / "release")
    with monkeypatch.context() as patched:
        for module in (desk, updating):
            patched.setattr(module, "released", lambda: release)
        (updated,) = updating.update(lab.folder)
    assert updated.merged is not None
    assert updated.merged.answers == [NAME]

    open_notebook(page, lab, LESSON)
    expect(page.locator(".jp-Cell").first).to_contain_text(NEWS)
    answer, check = code_cell(page, f"def {NAME}"), code_cell(page, f'check("{NAME}")')
    expect(answer).to_contain_text("p.requires_grad or not trainable_only")
    expect(card(check)).to_contain_text("Right")
    shoot(page, check, "updated")


def expect_saved(page: Page, path: Path, source: str) -> None:
    for _ in range(150):
        with contextlib.suppress(DeskError):  # in the middle of being written
            cell = find_cell(read(path), NAME)
            if cell is not None and text(cell) == source:
                return
        page.wait_for_timeout(200)
    pytest.fail(f"{path.name} was not saved")
