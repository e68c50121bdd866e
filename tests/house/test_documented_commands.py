"""The commands that the pages of the documentation name: each is there, with these arguments and options."""

from __future__ import annotations

import importlib.util
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from markdown_it import MarkdownIt
from typer.testing import CliRunner

from autograde.cli.app import join
from torchcourse.cli import app
from torchcourse.model.own_course import VARIABLE

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    page for pattern in ("*.md", "docs/**/*.md") for page in sorted(ROOT.glob(pattern)) if "decisions" not in str(page)
]
START = re.compile(r"(?:\$ )?(?:(?:\.venv/bin/)?(torchcourse|make|python(?:3? -m)?) )(.*)")


@pytest.fixture(scope="module")
def torchcourse() -> Iterator[typer.Typer]:
    """The command `torchcourse` with both halves' commands."""
    both = typer.Typer()
    both.registered_callback = app.registered_callback
    both.registered_commands += app.registered_commands
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCHCOURSE_ACCELERATOR", "simulated")
        join(both)
    yield both


def written(page: Path) -> Iterator[tuple[str, str]]:
    """Yield the commands on a page, in consoles and as `code`: the program, and what follows it."""
    for token in MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8")):
        consoles = token.content.splitlines() if token.type == "fence" and token.info == "console" else []
        spans = [part.content for part in token.children or () if part.type == "code_inline"]
        for line in [line.strip() for line in consoles if line.strip().startswith("$ ")] + spans:
            if found := START.fullmatch(line):
                yield found[1], found[2]


@pytest.fixture(autouse=True)
def courses_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folders that pages name with `--course`; the option sets the variable, which is taken back."""
    monkeypatch.setenv(VARIABLE, "")
    monkeypatch.chdir(tmp_path)
    for name in ("graphs", "NEW"):
        (tmp_path / name / "solutions").mkdir(parents=True)


def is_there(program: str, rest: str, torchcourse: typer.Typer) -> str:
    """Return what is missing for a command of the pages; "" where everything is there."""
    words = shlex.split(rest, comments=True)
    if program == "torchcourse":
        done = CliRunner().invoke(torchcourse, [*words, "--help"])  # refuses what it does not know, and runs nothing
        return done.output if done.exit_code else ""
    if program == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        unknown = [word for word in words if "=" not in word and word not in targets]
        return f"no such target: {unknown}" if unknown else ""
    if program == "python":
        return "" if (ROOT / words[0]).exists() or words[0].startswith("-") else f"no such file: {words[0]}"
    return "" if importlib.util.find_spec(words[0]) else f"no such module: {words[0]}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_on_a_page_is_there(page: Path, torchcourse: typer.Typer) -> None:
    wrong = {f"{program} {rest}": said for program, rest in written(page)
             if (said := is_there(program, rest, torchcourse))}  # fmt: skip
    assert wrong == {}


def test_a_command_that_is_not_there_is_found(tmp_path: Path, torchcourse: typer.Typer) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "`torchcourse status` `make nothing`\n\n```console\n$ torchcourse grade 01_tensors --speed 2\n"
        "$ .venv/bin/torchcourse grades\n```\n"
    )
    found = [is_there(program, rest, torchcourse) for program, rest in written(page)]
    assert found[:2] == ["", "no such target: ['nothing']"]
    assert "No such option" in found[2]
    assert "No such command" in found[3]
