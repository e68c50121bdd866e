"""The documentation: built without outputs, searched for secrets and for what would be fetched, seen in a browser."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Page, expect

from autograde.source import paths
from tests.support.secrets import leaked_answers, leaked_programs, squeezed
from tools.site import readable_lesson, rewritten
from torchcourse.model.catalogue import LESSONS, exercises

pytestmark = pytest.mark.slow

WITHOUT_OUTPUTS = ("-D", "nb_execution_mode=off")
LOADED = re.compile(r"<(?:script|link|img|iframe|source)\b[^>]*?\b(?:src|href)=[\"']?(?:https?:)?//[^>]*>")
LOADED_BY_CSS = re.compile(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//[^)\s]*")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages as `make docs` builds them, strictly, but for the outputs of lessons."""
    folder = tmp_path_factory.mktemp("docs")
    command = [sys.executable, "-m", "tools.site", folder, *WITHOUT_OUTPUTS]
    done = subprocess.run(command, cwd=paths.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return folder / "html"


def test_each_lesson_is_a_page_with_its_hints_folded(site: Path) -> None:
    for lesson in LESSONS:
        page = (site / "lessons" / f"{lesson}.html").read_text(encoding="utf-8")
        hints = re.findall(r'<details class="hints">.*?</details>', page, re.DOTALL)
        assert [block.count("<li>") for block in hints] == [3] * len(exercises(lesson)), lesson


def test_no_page_holds_an_answer_or_anything_of_a_private_half(site: Path) -> None:
    pages = [path.read_text(encoding="utf-8") for path in (*site.rglob("*.html"), site / "searchindex.js")]
    everything = squeezed("\n".join(html.unescape(re.sub(r"<[^>]*>", "", page)) for page in pages))
    assert squeezed("def row_softmax(x: Tensor) -> Tensor:") in everything
    assert leaked_answers(everything) == []
    assert leaked_programs(everything) == []


def test_links_lead_to_pages_and_those_to_programs_stay_words() -> None:
    page = paths.ROOT / "docs" / "isolation.md"
    assert "[autograde/settings.py](../autograde/settings.py)" in page.read_text(encoding="utf-8")
    shown = rewritten(page, "isolation.md")
    assert "Every limit is in autograde/settings.py." in shown
    readme = rewritten(paths.ROOT / "README.md", "README.md")
    assert "](teaching.md)" in readme
    assert "](docs/" not in readme


def test_a_lesson_does_not_link_to_the_start_page_which_only_working_copies_have(tmp_path: Path) -> None:
    lesson = nbformat.read(paths.NOTEBOOKS / "15_quizzes.ipynb", as_version=4)
    lesson.cells[0].source += "\n\n[All lessons](START.ipynb)"
    nbformat.write(lesson, tmp_path / "15_quizzes.ipynb")
    first, note = readable_lesson(tmp_path / "15_quizzes.ipynb").cells[:2]
    assert first.source.startswith("# 15")
    assert "START.ipynb" not in first.source
    assert "15_quizzes.ipynb" in note.source


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    fetched = [found for path in site.rglob("*.html") for found in LOADED.findall(path.read_text(encoding="utf-8"))]
    fetched += [found for path in site.rglob("*.css") for found in LOADED_BY_CSS.findall(path.read_text("utf-8"))]
    assert fetched == []


def test_a_link_to_what_is_not_there_fails_the_build(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("---\norphan: true\n---\n# A heading\n")
    good, bad = ["other.md", "other.md#a-heading", "#own"], ["missing.md", "other.md#no-heading", "#no-own"]
    links = " ".join(f"[x]({target})" for target in good + bad)
    (tmp_path / "index.md").write_text(f"# Own\n\n{links}\n\n![picture](missing.png)\n")
    command = [sys.executable, "-m", "sphinx", "-c", paths.ROOT / "docs", "-W", "--keep-going", "-q",
               tmp_path, tmp_path / "html"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    complaints = [line for line in done.stderr.splitlines() if "WARNING" in line]
    assert len(complaints) == len(bad) + 1, done.stderr
    targets = [target.rpartition("#")[2] for target in bad]
    assert all(any(name in line for line in complaints) for name in [*targets, "missing.png"])


@pytest.mark.browser
def test_the_site_is_searched_and_read_on_a_phone_without_a_server(page: Page, site: Path) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((site / "search.html").as_uri() + "?q=row_softmax")
    expect(page.locator("#search-results")).to_contain_text("1 · Tensors")
    page.set_viewport_size({"width": 400, "height": 800})
    for name in ("index", "learn", "teaching", "threat-model", "api", "lessons/01_tensors"):
        page.goto((site / f"{name}.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= 400, name
    assert [address for address in asked if not address.startswith(("file:", "data:"))] == []
