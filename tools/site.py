"""Build the documentation: `python -m tools.site build/docs`, and any further options of sphinx-build.

The pages lie where people look for them in the repository: README.md, CONTRIBUTING.md, docs/, notebooks/. In the site
they lie in one folder, so their links are rewritten. A lesson gets its hints, folded, under each check.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import nbformat
from nbformat import NotebookNode
from sphinx.cmd.build import build_main

from torchcourse.model.catalogue import BUILT_IN, exercises

ROOT = Path(__file__).resolve().parents[1]
ALONE = {name: f"{name.lower()}.md" for name in ("CHANGELOG", "CODE_OF_CONDUCT", "CONTRIBUTING", "SECURITY")}
STRICT = ("--fail-on-warning", "--keep-going", "--nitpicky", "--quiet")
LINK = re.compile(r"\[([^\[\]]*)\]\(([^)\s]+)\)")
START_PAGE = re.compile(r"\s*\[[^\]]*\]\(START\.ipynb\)")  # a page of the working copy, with the learner's progress
NOTE = """```{{note}}
This page is for reading. To work on the lesson, open `{lesson}.ipynb` [in JupyterLab](../learn.md): there each
`check` runs what you write.
```"""


def build(folder: Path, *options: str) -> int:
    """Build the site below `folder`, with its pages in `html`; warnings are errors.

    Args:
        folder: also gets the pages as Sphinx reads them, and the lessons that were executed, to be read the next time.
        options: further options of sphinx-build.

    Returns:
        The exit status of sphinx-build.
    """
    lay_out(folder / "pages")
    settings = ["-c", str(ROOT / "docs"), "-d", str(folder / "doctrees")]
    return int(build_main([*settings, *STRICT, *options, str(folder / "pages"), str(folder / "html")]))


def lay_out(folder: Path) -> None:
    """Write every page and picture of the site below `folder`, and remove what is no longer part of it.

    Files that would stay the same are left alone, so that Sphinx does not read them again.
    """
    files = dict(site())
    for old in folder.rglob("*"):
        if old.is_file() and old.relative_to(folder).as_posix() not in files:
            old.unlink()
    for name, content in files.items():
        path = folder / name
        if not path.is_file() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def site() -> Iterator[tuple[str, bytes]]:
    """Yield each file of the site: its path in the site, and its content."""
    for path, place in places().items():
        if path.suffix == ".md":
            yield place, rewritten(path, place).encode()
        elif path.suffix == ".ipynb":
            yield place, nbformat.writes(readable_lesson(path)).encode()
        else:
            yield place, path.read_bytes()


def places() -> dict[Path, str]:
    """Return the files that the site is made of, with the path in the site of each."""
    docs = {path: path.relative_to(ROOT / "docs").as_posix() for path in sorted((ROOT / "docs").rglob("*.*"))}
    pages = {path: place for path, place in docs.items() if path.suffix in (".md", ".png", ".svg", ".webp", ".gif")}
    pages[ROOT / "docs/decisions/README.md"] = "decisions/index.md"
    lessons = {ROOT / f"notebooks/{lesson}.ipynb": f"lessons/{lesson}.ipynb" for lesson in BUILT_IN}
    return (
        pages
        | lessons
        | {ROOT / f"{name}.md": place for name, place in ALONE.items()}
        | {ROOT / "README.md": "README.md"}
    )


def rewritten(path: Path, place: str) -> str:
    """Return a page of the repository with links that lead to the same pages in the site.

    Of a link to a file or folder that is no page, such as a program, only the words stay. A link to what is not there
    stays as it is, and Sphinx complains of it.
    """
    known = {**places(), ROOT / "README.md": "index.md"}

    def moved(link: re.Match[str]) -> str:
        words, target = link.groups()
        parts = urlsplit(target)
        file = (path.parent / parts.path).resolve()
        if parts.scheme or not parts.path or not file.exists():
            return link[0]
        page = known.get(file / "README.md" if file.is_dir() else file)
        if page is None:
            return words
        return f"[{words}]({os.path.relpath(page, Path(place).parent)}{'#' * bool(parts.fragment)}{parts.fragment})"

    return LINK.sub(moved, path.read_text(encoding="utf-8"))


def readable_lesson(path: Path) -> NotebookNode:
    """Return a lesson as a page: a note on how to work on it, and the hints of an exercise in place of its card."""
    notebook = nbformat.read(path, as_version=4)
    hints = {name: exercise.hints for name, exercise in exercises(path.stem).items()}
    cells = []
    for cell in notebook.cells:
        cells.append(cell)
        checked = re.match(r'check\("(\w+)"\)', cell.source)
        if cell.cell_type == "code" and checked:
            cell.metadata.setdefault("tags", []).append("remove-output")  # the same words under each: not attempted
            cells.append(_markdown(f"hints-{checked[1]}", folded(hints[checked[1]])))
        elif "rich.progress" in cell.source:
            cell.metadata.setdefault("tags", []).append("remove-output")  # drawn by a widget, which a page has not
    cells[0].source = START_PAGE.sub("", cells[0].source)
    cells.insert(1, _markdown("about-this-page", NOTE.format(lesson=path.stem)))
    notebook.cells = cells
    return notebook


def folded(hints: tuple[str, ...]) -> str:
    """Return hints as a list that unfolds when it is clicked."""
    items = "\n".join(f"{number}. {text}" for number, text in enumerate(hints, 1))
    return f'<details class="hints"><summary>Hints</summary>\n\n{items}\n\n</details>'


def _markdown(name: str, source: str) -> NotebookNode:
    cell = nbformat.v4.new_markdown_cell(source)
    cell.id = name[:64]
    return cell


if __name__ == "__main__":
    sys.exit(build(Path(sys.argv[1]), *sys.argv[2:]))
