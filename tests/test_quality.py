"""The code base itself: ruff, mypy, spelling, links; and that the hooks before a commit run the same."""

from __future__ import annotations

import importlib
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.links import ROOT, Link, anchors, broken, links, pages

BESIDE = Path(sys.executable).parent
HOOKS: list[dict[str, Any]] = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook["id"])
def test_what_the_hooks_before_a_commit_check_holds(hook: dict[str, Any]) -> None:
    program, *arguments = shlex.split(hook["entry"])
    assert program.startswith(".venv/bin/")
    arguments += ["."] if hook.get("pass_filenames", True) else []
    command = [str(BESIDE / Path(program).name), *arguments]
    env = {**os.environ, "RUFF_NO_CACHE": "true"}
    said = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stdout[-3000:] + said.stderr[-3000:]


def test_the_hooks_use_nothing_from_elsewhere() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    assert [repo["repo"] for repo in config["repos"]] == ["local"]
    assert {hook["language"] for hook in HOOKS} == {"system"}
    assert [hook["id"] for hook in HOOKS] == ["ruff", "mypy", "codespell", "links"]


# Links


def test_links_are_found_in_every_kind_of_page() -> None:
    assert {page.suffix for page in pages()} == {".md", ".py"}
    found = [link.target for link in links(ROOT / "README.md")]
    assert "docs/threat-model.md" in found
    assert "docs/images/wrong.png" in found
    assert "Reductions" in anchors(ROOT / "solutions" / "01_tensors.py")


@pytest.mark.parametrize(
    ("target", "fault"),
    [
        ("other.md", ""),
        ("other.md#a-heading-of-two", ""),
        ("other.md#a-heading-of-two-1", ""),
        ("#own", ""),
        ("https://example.org/nowhere", ""),
        ("missing.md", "there is no missing.md"),
        ("other.md#b", "other.md has no heading #b"),
        ("#b", "page.md has no heading #b"),
    ],
)
def test_a_link_is_broken_where_its_file_or_heading_is_missing(tmp_path: Path, target: str, fault: str) -> None:
    (tmp_path / "other.md").write_text("# A `heading` of two\n\n```\n# no heading\n```\n\n## A heading, of two\n")
    page = tmp_path / "page.md"
    page.write_text(f"# Own\n\n`[code](code.md)` [text]({target})\n")
    (link,) = links(page)
    assert link == Link(page, target, tmp_path)
    assert broken(link) == fault


def test_links_of_a_lesson_are_counted_from_its_notebook(tmp_path: Path) -> None:
    for folder in ("solutions", "notebooks"):
        (tmp_path / folder).mkdir()
    (tmp_path / "notebooks" / "data.csv").touch()
    script = tmp_path / "solutions" / "01.py"
    script.write_text("# %% [markdown]\n# # Top\n# See [data](data.csv), [below](#Far-below), [no](no.csv).\n"
                      "# ## Far below\n\n# %%\nx = '[no](prose)'\n")  # fmt: skip
    assert [broken(link) for link in links(script)] == ["", "", "there is no no.csv"]


# The workflow


def test_the_workflow_is_sound_and_runs_what_is_here() -> None:
    text = (ROOT / ".github" / "workflows" / "test.yml").read_text()
    jobs = yaml.safe_load(text)["jobs"]
    assert {"3.11", "3.12", "3.13"} == {str(v) for v in jobs["linux"]["strategy"]["matrix"]["python"]}
    machines = jobs["learner"]["strategy"]["matrix"]["os"]
    assert {"macos", "windows"} == {machine.partition("-")[0] for machine in machines}
    lines = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    words = {word for line in lines for word in line.split() if word.startswith(("tests/", "notebooks/"))}
    assert words
    assert all(any(ROOT.glob(word)) for word in words)


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks").glob("[!_]*.py")), ids=lambda path: path.stem)
def test_a_benchmark_finds_what_it_imports(path: Path) -> None:
    importlib.import_module(f"benchmarks.{path.stem}")
