"""The documentation: built without outputs, searched for secrets and for what would be fetched, seen in a browser.

Where `make docs` has built the pages with the outputs of the lessons, those are looked at as well: TORCHCOURSE_SITE
names their folder, which then has to be there; else build/docs/html is taken if it is.
"""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Literal

import nbformat
import pytest
from playwright.sync_api import Page, expect

from autograde.source import paths
from tests.support.secrets import leaked_answers, leaked_programs, squeezed
from tools.site import readable_lesson, rewritten
from torchcourse.model.catalogue import LESSONS, exercises

pytestmark = pytest.mark.slow

WITHOUT_OUTPUTS = ("-D", "nb_execution_mode=off")
EXECUTED = Path(os.environ.get("TORCHCOURSE_SITE") or paths.ROOT / "build" / "docs" / "html").resolve()
Scheme = Literal["light", "dark"]
GROUNDS: dict[Scheme, float] = {"light": 1.0, "dark": 0.0}
"""How light the ground of a page is."""
VIEWS: dict[int, Scheme] = {400: "dark", 1400: "light"}
"""How wide windows are, and what the reader prefers."""
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


@pytest.fixture(scope="module", params=["without outputs", "with outputs"])
def each_site(request: pytest.FixtureRequest) -> Path:
    """The pages without outputs, and those that were built with them."""
    if request.param == "without outputs":
        built: Path = request.getfixturevalue("site")
        return built
    if "TORCHCOURSE_SITE" not in os.environ and not (EXECUTED / "searchindex.js").is_file():
        pytest.skip("no pages with outputs were built here (make docs)")
    return EXECUTED


def test_each_lesson_is_a_page_with_its_hints_folded(site: Path) -> None:
    for lesson in LESSONS:
        page = (site / "lessons" / f"{lesson}.html").read_text(encoding="utf-8")
        hints = re.findall(r'<details class="hints">.*?</details>', page, re.DOTALL)
        assert [block.count("<li>") for block in hints] == [3] * len(exercises(lesson)), lesson


def test_the_api_lists_what_the_probes_of_several_lessons_share() -> None:
    api = (paths.ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    users: dict[str, set[str]] = {}
    for path in (paths.ROOT / "src/torchcourse/exercises").glob("*/*.py"):
        for module in re.findall(
            r"^from torchcourse\.probes\.(\w+) import", path.read_text(encoding="utf-8"), re.MULTILINE
        ):
            users.setdefault(module, set()).add(path.parent.name)
    shared = {module for module, lessons in users.items() if len(lessons) > 1}
    assert {m for m in shared if f"automodule:: torchcourse.probes.{m}\n" not in api} == set()


def test_no_page_holds_an_answer_or_anything_of_a_private_half(each_site: Path) -> None:
    pages = [path.read_text(encoding="utf-8") for path in (*each_site.rglob("*.html"), each_site / "searchindex.js")]
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


def test_nothing_is_fetched_from_elsewhere(each_site: Path) -> None:
    pages = [path.read_text(encoding="utf-8") for path in each_site.rglob("*.html")]
    fetched = [found for page in pages for found in LOADED.findall(page)]
    fetched += [found for path in each_site.rglob("*.css") for found in LOADED_BY_CSS.findall(path.read_text("utf-8"))]
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


@pytest.mark.skipif("TORCHCOURSE_SITE" not in os.environ, reason="TORCHCOURSE_SITE is not set (docs.yml sets it)")
def test_the_pages_that_are_published_have_outputs() -> None:
    without = [lesson for lesson in LESSONS if "cell_output" not in
               (EXECUTED / "lessons" / f"{lesson}.html").read_text(encoding="utf-8")]  # fmt: skip
    assert without == []


@pytest.mark.browser
def test_search_works_without_a_server(page: Page, site: Path) -> None:
    page.goto((site / "search.html").as_uri() + "?q=row_softmax")
    expect(page.locator("#search-results")).to_contain_text("1 · Tensors")


@pytest.mark.browser
def test_every_page_is_read_without_a_server(page: Page, each_site: Path) -> None:
    """No page is wider than the window or asks for anything, and its ground and text follow light and dark."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    wide, wrong = [], []
    for path in sorted(each_site.rglob("*.html")):
        page.set_viewport_size({"width": min(VIEWS), "height": 800})
        page.goto(path.as_uri())
        name = path.relative_to(each_site).as_posix()
        for width, scheme in VIEWS.items():
            page.emulate_media(color_scheme=scheme)
            page.set_viewport_size({"width": width, "height": 800})
            if page.evaluate("document.documentElement.scrollWidth") > width:
                wide.append((name, width))
            ground, text = (luminance(page.evaluate(f"getComputedStyle(document.body).{part}"))
                            for part in ("backgroundColor", "color"))  # fmt: skip
            if abs(ground - GROUNDS[scheme]) > 0.2 or abs(ground - text) < 0.5:
                wrong.append((name, scheme, ground, text))
    assert (wide, wrong) == ([], [])
    assert [address for address in asked if not address.startswith(("file:", "data:"))] == []


def luminance(colour: str) -> float:
    """Return how light a colour of CSS is, from 0 to 1."""
    red, green, blue = (int(part) for part in re.findall(r"\d+", colour)[:3])
    return (0.299 * red + 0.587 * green + 0.114 * blue) / 255
