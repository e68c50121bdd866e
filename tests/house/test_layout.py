"""The layout of the code: which room may import which, what lies at the top, and how long anything may be."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from autograde.source import paths
from torchcourse.model.catalogue import LESSONS, exercises

ROOT = paths.ROOT
MAX_MODULE_LINES, MAX_FUNCTION_LINES = 400, 50
FOLDERS = ("autograde", "benchmarks", "src", "tests", "tools")
FAULTS = {
    "autograde/source/paths.py": "from autograde.judge import verdict\n",
    "src/torchcourse/model/codec.py": "from torchcourse.checking import probe\n",
    "src/torchcourse/doctor.py": "import autograde.settings\n",
    "autograde/files.py": "import tests.conftest\n",
    "src/torchcourse/simulated/printing.py": "from torchcourse.simulated import tensor\n",
}
"""An import that breaks a contract, each another one, by the module that it is added to."""
LEFT_OUT = ("tests/attacks/cells", "tests/attacks/exhaustion", "autograde/build")


def modules() -> Iterator[Path]:
    """Yield the course's Python files, lessons and attacks aside."""
    for path in sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")):
        if not path.relative_to(ROOT).as_posix().startswith(LEFT_OUT):
            yield path


def contracts_hold(checkout: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": f"{checkout}{os.pathsep}{checkout / 'src'}"}
    command = [Path(sys.executable).parent / "lint-imports", "--no-cache"]
    return subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)


def test_imports_go_down_and_a_module_that_breaks_this_is_named(tmp_path: Path) -> None:
    for folder in ("autograde", "src"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("build", "__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for room, line in FAULTS.items():
        with (tmp_path / room).open("a") as module:
            module.write(line)
    done = contracts_hold(tmp_path)
    assert done.returncode == 1
    assert f"0 kept, {len(FAULTS)} broken" in done.stdout
    for room in FAULTS:
        assert f".{Path(room).stem}" in done.stdout


def test_the_top_floors_hold_what_the_house_says() -> None:
    def flat(folder: Path) -> set[str]:
        return {path.name for path in folder.glob("*.py")}

    assert flat(ROOT / "src" / "torchcourse") == {"__init__.py", "cli.py", "doctor.py"}
    assert flat(ROOT / "autograde") == {"__init__.py", "errors.py", "files.py", "nbgrader_config.py", "settings.py"}


def test_tests_import_nothing_of_the_benchmarks() -> None:
    for path in (ROOT / "tests").rglob("*.py"):
        assert not re.search(r"^\s*(from|import) benchmarks\b", path.read_text(), re.MULTILINE), path


def test_no_module_and_no_function_is_too_long() -> None:
    long = []
    for path in modules():
        text = path.read_text()
        if len(text.splitlines()) > MAX_MODULE_LINES:
            long.append(f"{path.relative_to(ROOT)}: {len(text.splitlines())} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > MAX_FUNCTION_LINES:
                    long.append(f"{path.relative_to(ROOT)}:{node.lineno}: {node.name} has {lines} lines")
    assert not long, "\n".join(long)


@pytest.mark.parametrize("lesson", LESSONS)
def test_every_lesson_has_a_row_in_the_readme_that_names_exercises_of_its_own(lesson: str) -> None:
    rows = re.findall(rf"^\| {lesson[:2]} .*\| (.*) \|$", (ROOT / "README.md").read_text(), re.MULTILINE)
    (row,) = rows
    named = [name for name in re.findall(r"`([\w.]+)`", row) if "." not in name]
    assert named
    assert set(named) <= set(exercises(lesson))
