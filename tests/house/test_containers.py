"""What the container files name exists: sources, targets, extras, scripts, ports. Nothing is built here."""

from __future__ import annotations

import inspect
import json
import os
import re
import shlex
import tomllib
from pathlib import Path

import pytest

from torchcourse.workspace.working_copy import open_lab

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
CONTAINERFILE = (DEPLOY / "Containerfile").read_text().replace("\\\n", " ")
DEVCONTAINER = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
BINDER = (ROOT / ".binder" / "postBuild").read_text()
PAGE = (ROOT / "docs" / "containers.md").read_text()
PORT = inspect.signature(open_lab).parameters["port"].default
STAGES = set(re.findall(r"^FROM \S+ AS (\w+)$", CONTAINERFILE, re.MULTILINE))


def test_what_is_copied_into_an_image_is_there() -> None:
    lines = re.findall(r"^COPY (.*)$", CONTAINERFILE, re.MULTILINE)
    from_stages = [line for line in lines if line.startswith("--from=")]
    assert {line.split()[0].removeprefix("--from=") for line in from_stages} <= STAGES
    sources = [word for line in lines if line not in from_stages for word in line.split()[:-1]]
    assert sources
    assert [source for source in sources if not (ROOT / source).exists()] == []


def test_the_learners_image_gets_nothing_but_the_wheel() -> None:
    stages = re.split(r"^FROM ", CONTAINERFILE, flags=re.MULTILINE)
    wheel, learners = (next(text for text in stages if f" AS {name}\n" in text) for name in ("wheel", "learners"))
    copied = [word for line in re.findall(r"^COPY (.*)$", wheel, re.MULTILINE) for word in line.split()[:-1]]
    assert set(copied) == {"LICENSE", "README.md", "constraints.txt", "pyproject.toml", "setup.py", "src", "notebooks"}
    assert re.findall(r"^COPY (.*)$", learners, re.MULTILINE) == [
        "constraints.txt /tmp/", "--from=wheel /wheels /tmp/wheels",
    ]  # fmt: skip
    assert "src/torchcourse/references.json" in (ROOT / ".dockerignore").read_text().splitlines()


@pytest.mark.parametrize("text", [CONTAINERFILE, BINDER, DEVCONTAINER["postCreateCommand"]])
def test_extras_exist_and_versions_are_pinned(text: str) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    installs = [line for line in text.splitlines() if "pip install" in line]
    assert set(re.findall(r"(?:[*.]|whl\)?|/course)\[(\w+)\]", text)) <= set(extras)
    assert [line for line in installs if "constraints.txt" not in line] == []
    assert installs or shlex.split(text) == ["tools/setup.sh", "lab"]


def test_scripts_can_be_run() -> None:
    for script in (ROOT / ".binder" / "postBuild", ROOT / DEVCONTAINER["postCreateCommand"].split()[0]):
        assert os.access(script, os.X_OK), script


def test_the_port_is_that_of_the_lab() -> None:
    assert re.findall(r"^EXPOSE (\d+)$", CONTAINERFILE, re.MULTILINE) == [str(PORT)]
    assert DEVCONTAINER["forwardPorts"] == [PORT]
    assert f"127.0.0.1:{PORT}:{PORT}" in PAGE


def test_targets_and_profile_that_are_named_exist() -> None:
    build = DEVCONTAINER["build"]
    assert (ROOT / ".devcontainer" / build["dockerfile"]).resolve() == DEPLOY / "Containerfile"
    named = {build["target"], *re.findall(r"--target (\w+)", PAGE), *re.findall(r"--target (\w+)", CONTAINERFILE)}
    assert {"learners", "graders"} < named <= STAGES
    (profile,) = set(re.findall(r"seccomp=(\S+\.json)", PAGE))
    (rule,) = json.loads((ROOT / profile).read_text())["syscalls"]
    assert rule["action"] == "SCMP_ACT_ERRNO"
    assert not {"clone", "clone3", "mount", "pivot_root", "setns", "umount2", "unshare"} & set(rule["names"])
