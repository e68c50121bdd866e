"""A learner's evening: from the start page to a lesson, wrong, a hint, right; restarted, updated, reopened."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Lab
from tests.browser.notebooks import (
    IDLE,
    card,
    choose_theme,
    code_cell,
    open_notebook,
    run,
    shoot_page,
    shut_kernel_down,
    wait_until_saved,
    write,
)
from torchcourse.model import lessons
from torchcourse.model.catalogue import exercises
from torchcourse.model.notebook_file import find_cell, read, source_of
from torchcourse.model.notebook_file import write as write_notebook
from torchcourse.workspace import progress, update, working_copy

pytestmark = pytest.mark.browser

LESSON, TITLE, NAME = "03_modules.ipynb", "3 · Modules", "count_parameters"
COUNT = len(exercises("03_modules"))
NEWS = "This release says more."


def row(page: Page, lesson: str) -> Locator:
    return page.locator(".jp-OutputArea tr", has_text=lesson)


def newer_release(folder: Path) -> Path:
    """The lesson with one sentence more and a stub that has changed."""
    folder.mkdir()
    notebook = read(lessons.released()[LESSON])
    notebook["cells"][0]["source"] += ["\n", "\n", NEWS]
    stub = find_cell(notebook, "freeze")
    assert stub is not None
    stub["source"] = [source_of(stub).replace("def freeze(", "def freeze(\n    ", 1)]
    write_notebook(folder / LESSON, notebook)
    return folder


WRONG = """def count_parameters(model, trainable_only=False):
    return sum(p.numel() for p in model.parameters())"""
RIGHT = WRONG.replace("parameters())", "parameters() if p.requires_grad or not trainable_only)")


def answer_with_a_hint(page: Page) -> None:
    """Answer the exercise wrongly, ask for a hint, and answer it right."""
    run(page, code_cell(page, "from torchcourse import"))
    answer, check = code_cell(page, f"def {NAME}"), code_cell(page, f'check("{NAME}")')
    write(page, answer, f'{WRONG}\n\nhint("{NAME}")')
    run(page, answer)
    expect(card(answer)).to_contain_text("Which method walks over all parameters")
    run(page, check)
    expect(card(check)).to_contain_text("ignores-trainable-only")

    write(page, answer, RIGHT)
    run(page, answer)
    run(page, check)
    expect(card(check)).to_contain_text("Right")


def test_a_learners_evening(page: Page, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page.on("dialog", lambda dialog: dialog.accept())
    bar, mark = row(page, TITLE).locator("td >> nth=3"), row(page, TITLE).locator(f"[title^='{NAME}:']")
    choose_theme(page, lab, "Dark")
    open_notebook(page, lab, "START.ipynb")
    expect(row(page, "9 · Persistence")).to_be_visible()
    choose_theme(page, lab, "Light")
    open_notebook(page, lab, "START.ipynb")
    expect(bar).to_contain_text(f"0 of {COUNT}")
    expect(mark).to_have_text("○")

    row(page, TITLE).get_by_role("link", name=TITLE).click()
    expect(page.locator(".lm-TabBar-tabLabel", has_text=LESSON)).to_be_visible()
    open_notebook(page, lab, LESSON)
    answer_with_a_hint(page)
    wait_until_saved(page, lab, LESSON, f"Check of {NAME}: Right")
    page.get_by_role("menuitem", name="Kernel", exact=True).click()
    page.get_by_role("menuitem", name=re.compile("^Restart Kernel…")).first.click()
    page.locator(".jp-Dialog .jp-mod-accept").click()
    expect(page.locator(IDLE)).to_be_attached()

    open_notebook(page, lab, "START.ipynb")
    expect(bar).to_contain_text(f"1 of {COUNT}")
    expect(mark).to_have_text("✓")
    shoot_page(page, page.locator(".jp-Cell").first, "start")

    release = newer_release(tmp_path / "release")
    with monkeypatch.context() as patched:
        for module in (working_copy, update):
            patched.setattr(module, "released", lambda: {LESSON: release / LESSON})
        (updated,) = update.update(lab.folder)
    assert updated.merged is not None
    assert updated.merged.answers == [NAME]

    open_notebook(page, lab, LESSON)
    expect(page.locator(".jp-Cell").first).to_contain_text(NEWS)
    expect(code_cell(page, f"def {NAME}")).to_contain_text("p.requires_grad or not trainable_only")
    expect(card(code_cell(page, f'check("{NAME}")'))).to_contain_text("Right")


def test_the_table_of_progress_follows_checks_outlives_its_kernel_and_never_asks_to_be_saved(
    page: Page, lab: Lab
) -> None:
    mark = row(page, "8 · Compile").locator("[title^='count_graphs:']")
    open_notebook(page, lab, "START.ipynb")
    expect(mark).to_have_text("○")
    progress.record(lab.folder, "count_graphs", "passed")
    expect(mark).to_have_text("✓")
    tab = page.locator(".lm-TabBar-tab", has_text="START.ipynb")
    tab.locator(".lm-TabBar-tabCloseIcon").click()  # long before JupyterLab would save it
    expect(tab).to_be_hidden()
    expect(page.locator(".jp-Dialog")).to_be_hidden()
    shut_kernel_down(page, lab, "START.ipynb")
    open_notebook(page, lab, "START.ipynb")
    expect(mark).to_have_text("✓")
    expect(page.locator(IDLE)).to_be_attached()
    expect(page.locator(".jp-OutputArea")).not_to_contain_text("Error")
