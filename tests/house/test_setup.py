"""The set-up: what it installs and when, its messages, and the pins. A stub stands in for Python, pip and uv."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import socket
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from tests.support.alone import alone

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PINS = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
SETTINGS = "src/torchcourse/jupyter/jupyter_server_config.d/torchcourse.json"
PROGRAMS = ("sh", "cat", "cksum", "cp", "dirname", "env", "flock", "grep", "mkdir", "rm", "uname")
PYTHON = """#!/bin/sh
case "$*" in
    "-c import sys; sys.exit"*) [ -z "$OLD" ] ;;
    "-m venv"*) mkdir -p .venv/bin && echo "VIRTUAL_ENV=$PWD/.venv" >.venv/bin/activate && cp "$0" .venv/bin/python ;;
    "-m pip"*) echo "${0##*/} $* with $PIP_CONSTRAINT" >>calls; [ -z "$BROKEN" ] ;;
esac
"""
UV = """#!/bin/sh
echo "uv $*" >>calls
[ "$1" != venv ] || exec python3 -m venv
"""


# The pins


def test_pins_are_names_versions_and_markers_only() -> None:
    assert [
        line for line in PINS if not re.fullmatch(r"[a-z0-9.-]+==[0-9a-z.+]+( ; [a-z_<>=!.' 0-9A-Z()]+)?", line)
    ] == []
    names = [Requirement(line).name for line in PINS]
    assert names == sorted(set(names))


def test_every_declared_dependency_is_pinned_within_its_range() -> None:
    pinned = {Requirement(line).name: str(Requirement(line).specifier).removeprefix("==") for line in PINS}
    lines = [*PROJECT["dependencies"], *chain(*PROJECT["optional-dependencies"].values())]
    asked = [Requirement(line) for line in lines if not line.startswith("torchcourse")]
    assert [str(one) for one in asked if not one.specifier.contains(pinned[one.name.lower()])] == []


def test_conda_users_get_the_pins() -> None:
    dependencies = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    assert dependencies[-1] == {"pip": ["-c constraints.txt", "-e .[lab]"]}
    assert PROJECT["requires-python"] == ">=" + dependencies[0].removeprefix("python=")


@pytest.mark.parametrize("name", ["constraints.txt", "environment.yml", "Makefile", ".ci/run", "tools/setup.sh"])
def test_no_file_of_the_set_up_names_a_host(name: str) -> None:
    text = (ROOT / name).read_text()
    assert [sign for sign in ("://", "index-url", "find-links", "trusted-host", "--hash") if sign in text] == []


def test_opening_a_notebook_builds_no_parsers_of_web_addresses() -> None:
    """They take seconds, in each command and each Jupyter server: docs/decisions/0051."""
    assert alone("import sys, nbformat; sys.exit('rfc3987_syntax' in sys.modules)").returncode == 0


# The set-up


@dataclass
class Checkout:
    """A checkout with nothing in it but what the set-up reads, and the programs that the set-up finds there."""

    root: Path
    programs: Path

    def add(self, name: str, script: str = "#!/bin/sh\n") -> None:
        (self.programs / name).write_text(script)
        (self.programs / name).chmod(0o755)

    def start(self, extra: str, **variables: str) -> subprocess.Popen[str]:
        command, env = [self.root / "tools" / "setup.sh", extra], {"PATH": str(self.programs), **variables}
        return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def set_up(self, extra: str = "lab", **variables: str) -> str:
        return self.start(extra, **variables).communicate(timeout=60)[0]

    def calls(self) -> list[str]:
        """Return the calls of pip, uv and apt-get since the last time, and forget them."""
        path = self.root / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return lines


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    made = Checkout(tmp_path / "course", tmp_path / "programs")
    for name in ("tools/setup.sh", "pyproject.toml", "constraints.txt", SETTINGS):
        (made.root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, made.root / name)
    made.programs.mkdir()
    for name in PROGRAMS:
        if found := shutil.which(name):
            (made.programs / name).symlink_to(found)
    for name in ("bwrap", "chromium"):
        made.add(name)
    made.add("python3", PYTHON)
    return made


def test_a_fresh_checkout_is_set_up_once(checkout: Checkout) -> None:
    assert ".venv is ready" in checkout.set_up()
    (call,) = checkout.calls()
    assert call.startswith("python -m pip install")
    assert call.endswith(f"-e .[lab] with {checkout.root}/constraints.txt")
    assert checkout.set_up() == "set-up: .venv is up to date\n"
    assert checkout.calls() == []


def test_what_tests_need_holds_what_learners_need_also_with_uv(checkout: Checkout) -> None:
    checkout.set_up("test")
    assert ".[test]" in checkout.calls()[0]
    assert "up to date" in checkout.set_up("lab")
    checkout.add("uv", UV)
    assert "up to date" in checkout.set_up("test")
    shutil.rmtree(checkout.root / ".venv")
    assert ".venv is ready" in checkout.set_up()
    assert [call.split()[1] for call in checkout.calls()] == ["venv", "pip"]


def test_a_changed_pin_is_an_update_and_a_touched_file_is_none(checkout: Checkout) -> None:
    checkout.set_up()
    (checkout.root / ".venv" / "mine").touch()
    os.utime(checkout.root / "constraints.txt")
    assert "up to date" in checkout.set_up()
    (checkout.root / "constraints.txt").write_text("rich==15.0.0\n")
    said = checkout.set_up()
    assert "ready" in said
    assert "making" not in said


@pytest.mark.parametrize("damage", ["moved", "no python"])
def test_a_venv_that_cannot_work_is_made_anew(checkout: Checkout, damage: str) -> None:
    checkout.set_up()
    if damage == "moved":
        checkout.root = checkout.root.rename(checkout.root.with_name("elsewhere"))
    else:
        (checkout.root / ".venv" / "bin" / "python").unlink()
    assert "making .venv" in checkout.set_up()


def test_a_failed_installation_is_no_finished_one(checkout: Checkout) -> None:
    assert "set-up stopped: " in checkout.set_up(BROKEN="1")
    assert ".venv is ready" in checkout.set_up()


@pytest.mark.parametrize("variables", [{"OLD": "1"}, {"PYTHON": "no-such-python"}])
def test_a_python_that_does_not_fit_is_one_line(checkout: Checkout, variables: dict[str, str]) -> None:
    said = checkout.set_up(**variables)
    assert said.startswith("set-up stopped: Python 3.11 to 3.14 is needed")
    assert said.count("\n") == 1
    assert not (checkout.root / ".venv").exists()


@pytest.mark.skipif(shutil.which("flock") is None, reason="there is no flock here")
def test_two_at_once_take_turns(checkout: Checkout) -> None:
    with (checkout.root / "constraints.txt").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = checkout.start("lab")
        assert process.stdout is not None
        assert "waiting for another set-up" in process.stdout.readline()
        assert checkout.calls() == []
    assert ".venv is ready" in process.communicate(timeout=60)[0]


@pytest.mark.skipif(sys.platform != "linux", reason="system packages are looked for on Linux only")
@pytest.mark.parametrize(("user", "asked"), [(0, ["apt-get bubblewrap"]), (1000, [])])
def test_system_packages_are_installed_where_that_is_allowed(checkout: Checkout, user: int, asked: list[str]) -> None:
    (checkout.programs / "bwrap").unlink()
    checkout.add("apt-get", '#!/bin/sh\nfor last; do :; done\n[ "$1" = update ] || echo "apt-get $last" >>calls\n')
    checkout.add("id", f"#!/bin/sh\necho {user}\n")
    last = checkout.set_up("test").splitlines()[-1]
    assert last.endswith("some tests are skipped: sudo apt-get install bubblewrap")
    assert [call for call in checkout.calls() if call.startswith("apt-get")] == asked
    checkout.set_up("test")
    assert checkout.calls() == []


# The test run itself


@pytest.mark.parametrize(
    ("marker", "ci", "status", "reason"),
    [("sandbox", "", 0, "bubblewrap is not installed."), ("sandbox", "true", 1, "bubblewrap is not installed."),
     ("hub", "true", 0, "TORCHCOURSE_HUB=1 is not set")],
)  # fmt: skip
def test_the_end_says_what_was_not_tested(tmp_path: Path, marker: str, ci: str, status: int, reason: str) -> None:
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    sandbox: x\n    browser: x\n    hub: x\n")
    marked = f"@pytest.mark.{marker}\n@pytest.mark.parametrize('n', [1, 2])\ndef test_b(n): assert False\n"
    (tmp_path / "test_it.py").write_text(f"import pytest\ndef test_a(): pass\n{marked}")
    environment = {"PATH": str(tmp_path), "PYTHONPATH": str(ROOT), "CI": ci}
    command = [sys.executable, "-m", "pytest", "-n", "1", "-p", "no:cacheprovider", "-p", "no:hypothesispytest"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    last = done.stdout.strip().splitlines()[-1]
    assert done.returncode == status, done.stdout + done.stderr
    assert last.startswith(f"Not tested here: 2 tests, because {reason}")
    assert ("failure" in last) == bool(status)


def test_tests_stay_on_this_machine() -> None:
    with socket.socket() as outward, pytest.raises(ConnectionRefusedError, match="tests use no network"):
        outward.connect(("192.0.2.1", 443))
    with socket.socket() as server, socket.socket() as client:
        server.bind(("127.0.0.1", 0))
        server.listen()
        client.connect(server.getsockname())
