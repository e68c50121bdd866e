"""The code base itself: what `make lint` checks holds, and the hook and the workflow run what is here."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
BESIDE = f"{Path(sys.executable).parent}/"


def checks() -> list[str]:
    """Return the commands of `make lint`, with the programs beside this Python."""
    command = ["make", "--dry-run", "lint", f"BIN={BESIDE.rstrip('/')}"]
    lines = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [line for line in lines if line.startswith(BESIDE)]


@pytest.mark.parametrize("command", checks(), ids=lambda command: command.removeprefix(BESIDE))
def test_what_lint_checks_holds(command: str) -> None:
    env = {**os.environ, "RUFF_NO_CACHE": "true"}
    done = subprocess.run(command, shell=True, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def test_seeded_faults_fit_the_code_and_name_tests_that_are_there() -> None:
    command = [sys.executable, "-m", "benchmarks.faults", ".", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_hook_before_a_commit_runs_the_same_and_nothing_from_elsewhere() -> None:
    (repo,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    (hook,) = repo["hooks"]
    assert (repo["repo"], hook["language"], hook["entry"]) == ("local", "system", "make lint")


@pytest.mark.parametrize("path", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda path: path.name)
def test_forms_and_workflows_are_yaml(path: Path) -> None:
    content = yaml.safe_load(path.read_text())
    assert isinstance(content, dict)
    if path.parent.name == "ISSUE_TEMPLATE" and path.stem != "config":
        assert {"name", "description", "body"} <= set(content)


def test_actions_are_pinned_by_commit() -> None:
    flows = [yaml.safe_load(path.read_text()) for path in (ROOT / ".github" / "workflows").glob("*.yml")]
    jobs = [job for flow in flows for job in flow["jobs"].values()]
    used = [step["uses"] for job in jobs for step in job["steps"] if "uses" in step]
    assert len(flows) > 1
    assert used
    assert [action for action in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action)] == []


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
