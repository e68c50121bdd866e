"""The commands of README.md: each is run as it stands there, or a reason says what runs it instead."""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from autograde.source import paths

README = paths.ROOT / "README.md"
MAX_LINES, SCREEN = 199, 40
RUN = ("Learn", "Teach", "Write")
"""The sections whose commands are run, in the order in which they stand there."""
COPIED = ("src", "autograde", "solutions", "notebooks")
PROGRAM = re.compile(r"(?:torchcourse|make|python3? -m) [^`]+")
ELSEWHERE = {
    "make lab": ("downloads gigabytes", "tests/house/test_setup.py", '"lab"'),
    "make setup": ("downloads gigabytes", ".github/workflows/test.yml", "run: make setup"),
    ". .venv/bin/activate": ("made by make setup", "tests/house/test_setup.py", ".venv/bin/activate"),
    "make docs": ("executes all lessons", "tests/browser/test_docs.py", '"-m", "tools.site"'),
    "make lint": ("test_quality.py runs what it runs", ".github/workflows/test.yml", "run: make lint"),
    "make test": ("runs this test", ".github/workflows/test.yml", "-m pytest -n 4"),
    "make test-fast": ("runs a part of make test", "Makefile", '$(PYTEST) -m "not slow"'),
    "make screenshots": ("changes the pictures", "tests/browser/conftest.py", "TORCHCOURSE_SCREENSHOTS"),
    "torchcourse verify": ("takes hours", "Makefile", "$(BIN)/torchcourse verify --anew\n"),
}
"""Commands that are not run here: why, and the file with the words that show where they are run or tried."""


@dataclass(frozen=True)
class Step:
    """A command of a console, without its comment, and the lines that it is said to print; "…" stands for any text."""

    command: str
    prints: tuple[str, ...] = ()


def consoles(text: str) -> dict[str, list[Step]]:
    """Return the steps of all consoles under each heading of the second level."""
    steps: dict[str, list[Step]] = {}
    heading = ""
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    for before, token in zip([None, *tokens], tokens, strict=False):
        if before is not None and before.type == "heading_open":
            heading = token.content
        if token.type == "fence" and token.info == "console":
            steps.setdefault(heading, []).extend(_steps(token.content))
    return steps


def _steps(console: str) -> Iterator[Step]:
    for block in re.split(r"^\$ ", console, flags=re.MULTILINE)[1:]:
        command, *printed = block.splitlines()
        yield Step(command.partition(" #")[0].strip(), tuple(printed))


def mentioned(text: str) -> set[str]:
    """Return the commands that stand as `code` in sentences."""
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    spans = [part.content for token in tokens for part in token.children or () if part.type == "code_inline"]
    return {span for span in spans if PROGRAM.fullmatch(span)}


def unplaced(text: str) -> set[str]:
    """Return the commands that this test neither runs nor gives a reason for."""
    run = {step.command for section in RUN for step in consoles(text).get(section, ())}
    run = {command for command in run if command.startswith("torchcourse ")}
    there = {step.command for steps in consoles(text).values() for step in steps} | mentioned(text)
    return there - run - set(ELSEWHERE)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the course, to be changed, with a working copy in it as `make lab` makes it."""
    folder = tmp_path / "course"
    leave_out = shutil.ignore_patterns("build", "__pycache__", "*.egg-info")
    for name in COPIED:
        shutil.copytree(paths.ROOT / name, folder / name, ignore=leave_out)
    shutil.copy(paths.ROOT / "pyproject.toml", folder)
    (folder / "bin").mkdir()
    program = folder / "bin" / "torchcourse"
    program.write_text(f"#!{sys.executable}\nfrom torchcourse.cli import main\nmain()\n")
    program.chmod(0o755)
    status, printed = shell("torchcourse start", folder)
    assert status == 0, printed
    return folder


def shell(command: str, checkout: Path) -> tuple[int, str]:
    """Run a line as people type it, in the copy of the course: its exit status, and what it prints."""
    places = {"PATH": [checkout / "bin", os.environ["PATH"]], "PYTHONPATH": [checkout / "src", checkout]}
    env = os.environ | {name: os.pathsep.join(map(str, value)) for name, value in places.items()}
    env["TORCHCOURSE_ACCELERATOR"] = "simulated"
    done = subprocess.run(["bash", "-c", command], cwd=checkout, env=env, stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)  # fmt: skip
    return done.returncode, done.stdout


def test_every_command_is_run_or_has_a_reason() -> None:
    text = README.read_text(encoding="utf-8")
    assert unplaced(text) == set()
    known = {step.command for steps in consoles(text).values() for step in steps} | mentioned(text)
    assert set(ELSEWHERE) <= known
    for command, (_, file, words) in ELSEWHERE.items():
        assert words in (paths.ROOT / file).read_text(encoding="utf-8"), command


def test_a_new_command_has_no_place_until_it_gets_one() -> None:
    text = README.read_text(encoding="utf-8")
    added = "\n## Test\n\nOr `make pins`.\n\n```console\n$ torchcourse status --all   # and more\n$ ls work\n```\n"
    assert unplaced(text + added) == {"make pins", "torchcourse status --all", "ls work"}


@pytest.mark.slow
@pytest.mark.sandbox
@pytest.mark.parametrize("section", RUN)
def test_the_commands_of_a_section_do_what_it_says(section: str, checkout: Path, tmp_path: Path) -> None:
    """Run them as they stand, but for /tmp; a check of a stub says so and ends with 1."""
    steps = [step for step in consoles(README.read_text(encoding="utf-8"))[section] if step.command not in ELSEWHERE]
    assert steps
    for step in steps:
        status, printed = shell(step.command.replace("/tmp/", f"{tmp_path}/"), checkout)
        assert status == (1 if step.command == "torchcourse check row_softmax" else 0), printed
        lines = printed.replace(f"{tmp_path}/", "/tmp/").splitlines()
        assert [line for line in step.prints if not fnmatch.filter(lines, line.replace("…", "*"))] == [], printed


def test_it_is_short_and_each_part_fits_a_screen() -> None:
    text = README.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MAX_LINES
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    lengths = {section.split("\n", 1)[0]: len(section.splitlines()) for section in sections}
    assert {"Learn", "Teach", "Write"} <= set(lengths)
    assert {name for name, lines in lengths.items() if lines > SCREEN} == set()
