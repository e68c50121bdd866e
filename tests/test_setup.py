"""The set-up: the three lists of pins agree, each failure is one clear line, nothing half made is ready."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tomllib
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from tools import machine, pins, setup

ROOT = Path(__file__).resolve().parents[1]
PIN = re.compile(r'[a-z0-9.-]+==[0-9a-z.+]+( ; sys_platform (==|!=) "(linux|win32)")?')
GOOD = machine.Machine((3, 11), "CPython", 64, "linux", "x86_64", "glibc 2.36")
SHELL_PIP = "#!/bin/sh\n{}\n"


def constraints() -> list[str]:
    return [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]


def conda() -> tuple[str, list[str]]:
    """The Python of environment.yml, and its pip section."""
    dependencies = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    python = next(entry for entry in dependencies if str(entry).startswith("python="))
    return python.partition("=")[2], next(entry["pip"] for entry in dependencies if isinstance(entry, dict))


def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def is_one_line(text: str) -> bool:
    return bool(text.strip()) and "\n" not in text and len(text) < 250


# The pins


def test_constraints_are_names_and_versions_only() -> None:
    assert [line for line in constraints() if not PIN.fullmatch(line)] == []
    names = [Requirement(line).name for line in constraints()]
    assert names == sorted(set(names))


def test_conda_users_get_exactly_the_tested_pins() -> None:
    assert conda()[1] == [*constraints(), "-e .[test]"]


def test_every_range_in_pyproject_admits_its_pin() -> None:
    pinned = {Requirement(line).name: str(Requirement(line).specifier).removeprefix("==") for line in constraints()}
    refused = [str(asked) for asked in pins.asked() if not asked.specifier.contains(pinned[asked.name.lower()])]
    assert refused == []


def test_python_ranges_agree() -> None:
    oldest, newest = (f"{major}.{minor}" for major, minor in (machine.OLDEST, machine.NEWEST))
    settings = pyproject()
    assert settings["project"]["requires-python"] == f">={oldest}"
    assert settings["tool"]["mypy"]["python_version"] == pins.PYTHON == conda()[0]
    assert SpecifierSet(f">={oldest},<={newest}").contains(conda()[0])


@pytest.mark.skipif(Path(sys.prefix) != ROOT / ".venv", reason="only the .venv that make setup fills holds the pins")
def test_pins_are_what_the_tests_run_with() -> None:
    lines = pins.pins()
    assert pins.constraints_text(lines) == (ROOT / "constraints.txt").read_text()
    assert pins.environment_text(lines) == (ROOT / "environment.yml").read_text()


@pytest.mark.skipif(Path(sys.prefix) != ROOT / ".venv", reason="only the .venv that make setup fills holds the pins")
def test_pins_admit_the_oldest_python() -> None:
    oldest = ".".join(map(str, machine.OLDEST)) + ".0"
    wants = {name: distribution(name).metadata.get("Requires-Python") or "" for name in pins.needed("linux")}
    assert {name: want for name, want in wants.items() if not SpecifierSet(want).contains(oldest)} == {}


@pytest.mark.parametrize("name", ["constraints.txt", "environment.yml", "Makefile", ".ci/run", "tools/setup.py"])
def test_no_file_of_the_set_up_names_a_host(name: str) -> None:
    text = (ROOT / name).read_text()
    assert [sign for sign in ("://", "index-url", "find-links", "trusted-host", "--hash") if sign in text] == []


# What can go wrong, each one line


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"python": (3, 10)}, "CPython 3.10 is too old"),
        ({"python": (3, 15)}, "CPython 3.15 is not supported yet"),
        ({"implementation": "PyPy"}, "needs CPython"),
        ({"bits": 32}, "no 32-bit builds"),
        ({"system": "win32"}, "WSL"),
        ({"processor": "riscv64"}, "no builds for linux on riscv64"),
        ({"system": "darwin"}, "Apple silicon"),
        ({"libc": "musl"}, "glibc"),
        ({"libc": "glibc 2.17"}, "glibc 2.28"),
    ],
)
def test_unsupported_machine_is_one_line(change: dict[str, Any], says: str) -> None:
    text = machine.unsupported(GOOD._replace(**change))
    assert says in text
    assert is_one_line(text)


def test_supported_machines_pass() -> None:
    mac = GOOD._replace(system="darwin", processor="arm64", libc="")
    assert [machine.unsupported(fine) for fine in (GOOD, GOOD._replace(python=machine.NEWEST), mac)] == ["", "", ""]


def test_too_little_disk_is_one_line_before_anything_is_made(tmp_path: Path) -> None:
    venv = checkout(tmp_path)
    with pytest.raises(setup.StopError, match=r"10\.7 GB are needed for \.venv and 4\.0 GB are free") as caught:
        setup.make_venv(venv, setup.size_here("linux"), free=lambda _: 4 * setup.GB)
    assert is_one_line(str(caught.value))
    assert not venv.folder.exists()


@pytest.mark.parametrize(
    ("output", "says"),
    [
        ("WARNING: Retrying after NewConnectionError(...)\nERROR: No matching distribution found for x", "No network"),
        ("WARNING: NameResolutionError\nERROR: Could not find a version that satisfies x", "No network"),
        ("SSLError(SSLCertVerificationError(1, 'CERTIFICATE_VERIFY_FAILED'))\nMax retries exceeded", "certificates"),
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "disk is full"),
        ("ERROR: No matching distribution found for torch==2.14.0", "no build of a pinned package"),
        ("something\nERROR: a new kind of trouble\n\n", "pip failed: ERROR: a new kind of trouble"),
        ("", "pip failed and said nothing"),
    ],
)
def test_pip_trouble_is_one_line(output: str, says: str) -> None:
    assert says in setup.explain(output, 10e9)
    assert is_one_line(setup.explain(output, 10e9))


def test_missing_venv_module_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(machine, "install", lambda _: "not allowed")
    with pytest.raises(setup.StopError, match=r"no venv module: run `.*python3\.\d+-venv") as caught:
        setup.check_venv_module()
    assert is_one_line(str(caught.value))


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make here")
def test_a_missing_python_is_one_line() -> None:
    done = subprocess.run(
        ["make", "-s", "setup", "PYTHON=no-such-python"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    ours = [line for line in done.stderr.splitlines() if not line.startswith("make")]
    assert done.returncode != 0
    assert len(ours) == 1
    assert "'no-such-python' is missing or too old" in ours[0]


@pytest.mark.parametrize("name", ["setup.py", "machine.py", "__init__.py"])
def test_an_old_python_reaches_its_message(name: str) -> None:
    tree = ast.parse((ROOT / "tools" / name).read_text(), feature_version=(3, 8))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    imported |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert {module.partition(".")[0] for module in imported} - sys.stdlib_module_names <= {"tools"}


# Ready or not


def checkout(folder: Path) -> setup.Venv:
    """A checkout with the files that `.venv` is made from, and no `.venv` yet."""
    for name in setup.MADE_FROM:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return setup.Venv(folder)


def finished(folder: Path, pip: str = "exit 0") -> setup.Venv:
    """The same with a finished `.venv`, whose Python is a shell script."""
    venv = checkout(folder)
    venv.python.parent.mkdir(parents=True)
    venv.python.write_text(SHELL_PIP.format(pip))
    venv.python.chmod(0o755)
    venv.write_stamp([])
    return venv


def test_a_finished_venv_is_ready(tmp_path: Path) -> None:
    assert not checkout(tmp_path).is_ready()
    assert finished(tmp_path).is_ready()


@pytest.mark.parametrize("name", setup.MADE_FROM)
def test_a_changed_file_asks_for_an_update(tmp_path: Path, name: str) -> None:
    venv = finished(tmp_path)
    (tmp_path / name).write_text("changed")
    assert not venv.is_ready()
    assert venv.is_worth_updating()


def test_a_touched_file_changes_nothing(tmp_path: Path) -> None:
    venv = finished(tmp_path)
    os.utime(tmp_path / "constraints.txt")
    assert venv.is_ready()


def test_a_moved_checkout_is_made_anew(tmp_path: Path) -> None:
    finished(tmp_path / "before")
    (tmp_path / "before").rename(tmp_path / "after")
    venv = setup.Venv(tmp_path / "after")
    assert not venv.is_ready()
    assert not venv.is_worth_updating()


@pytest.mark.parametrize("damage", ["unfinished", "no python", "broken python", "torn stamp"])
def test_nothing_half_made_is_ready(tmp_path: Path, damage: str) -> None:
    venv = finished(tmp_path, pip="exit 1" if damage == "broken python" else "exit 0")
    if damage == "unfinished":
        venv.unfinished.touch()
    if damage == "no python":
        venv.python.unlink()
    if damage in ("torn stamp", "broken python"):
        venv.stamp.write_text(venv.stamp.read_text()[:40])
    assert not venv.is_ready()
    assert venv.is_worth_updating() == (damage == "torn stamp")


def test_a_cut_installation_is_made_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    venv = finished(tmp_path, pip="echo 'Installing collected packages: a, b'; echo 'ERROR: cut'; exit 1")
    with pytest.raises(setup.StopError, match="pip failed: ERROR: cut") as caught:
        setup.Pip(venv, setup.size_here("linux")).run("install")
    assert is_one_line(str(caught.value))
    assert "installing 2 packages" in capsys.readouterr().out
    assert not venv.is_worth_updating()


def test_a_failed_download_leaves_the_old_venv_usable(tmp_path: Path) -> None:
    venv = finished(tmp_path, pip="if [ $1 = -c ]; then exit 0; fi; echo NewConnectionError; exit 1")
    with pytest.raises(setup.StopError, match="No network"):
        setup.fill_venv(venv, setup.size_here("linux"))
    assert venv.is_worth_updating()


def test_leftovers_are_cleared(tmp_path: Path) -> None:
    venv = finished(tmp_path)
    venv.unfinished.touch()
    with pytest.raises(setup.StopError, match="disk is too full"):
        setup.make_venv(venv, setup.size_here("linux"), free=lambda _: 0)
    assert list(venv.folder.iterdir()) == []


# System packages


def record(calls: list[list[str]], call: list[str], answer: str) -> str:
    calls.append(call)
    return answer


def test_apt_is_asked_once_and_never_fails_the_set_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(machine, "missing_packages", lambda: {"bubblewrap": "bubblewrap is not installed"})
    monkeypatch.setattr(machine, "install", lambda packages: record(asked, packages, "that needs apt"))
    missing = setup.system_packages([])
    assert setup.system_packages(missing) == missing == ["bubblewrap"]
    assert asked == [["bubblewrap"]]
    assert "The line to run: " in capsys.readouterr().out


@pytest.mark.parametrize(("user", "start"), [(0, ["env"]), (1000, ["sudo", "-n", "env"])])
def test_apt_asks_nothing(monkeypatch: pytest.MonkeyPatch, user: int, start: list[str]) -> None:
    ran: list[list[str]] = []
    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(machine, "_fault", lambda command, *_: record(ran, command, ""))
    assert machine.install(["bubblewrap", "chromium"]) == ""
    update, install = ran[-2:]
    assert update[: len(start)] == install[: len(start)] == start
    assert "DEBIAN_FRONTEND=noninteractive" in install
    assert {"-y", "--no-install-recommends", "bubblewrap", "chromium"} <= set(install)


def test_an_ordinary_user_gets_the_line_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: name if name == "apt-get" else None)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "sudo without a password" in machine.install(["chromium"])
    assert is_one_line(machine.one_line(["bubblewrap", "chromium"]))


def test_a_stub_that_asks_for_a_snap_is_no_browser(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "chromium").write_text("#!/bin/sh\nexit 10\n")
    (tmp_path / "chromium").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert machine.chromium_path() is None
    assert machine.chromium_fault() == "chromium is installed but does not start"


# The test run itself


@pytest.mark.parametrize(("ci", "status"), [("", 0), ("true", 1)])
def test_the_end_says_what_was_not_tested(tmp_path: Path, ci: str, status: int) -> None:
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    marks = "[pytest]\nmarkers =\n    sandbox: x\n    browser: x\n"
    (tmp_path / "pytest.ini").write_text(marks)
    (tmp_path / "test_it.py").write_text(
        "import pytest\ndef test_a(): pass\n@pytest.mark.sandbox\ndef test_b(): assert False\n"
        "@pytest.mark.sandbox\ndef test_c(): assert False\n"
    )
    environment = {"PATH": str(tmp_path), "PYTHONPATH": str(ROOT), "CI": ci}
    command = [sys.executable, "-m", "pytest", "-n", "1", "-p", "no:cacheprovider", "-p", "no:hypothesispytest"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    last = done.stdout.strip().splitlines()[-1]
    assert done.returncode == status, done.stdout + done.stderr
    assert last.startswith("Not tested here: 2 tests, because bubblewrap is not installed.")
    assert ("failure" in last) == bool(ci)


def test_tests_stay_on_this_machine() -> None:
    with socket.socket() as outward, pytest.raises(ConnectionRefusedError, match="tests use no network"):
        outward.connect(("192.0.2.1", 443))
    with socket.socket() as server, socket.socket() as client:
        server.bind(("127.0.0.1", 0))
        server.listen()
        client.connect(server.getsockname())


def test_the_stamp_is_readable(tmp_path: Path) -> None:
    venv = finished(tmp_path)
    assert json.loads(venv.stamp.read_text())["made from"]["root"] == str(tmp_path)


def test_what_was_installed_and_does_not_load_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    venv = setup.Venv(tmp_path)
    venv.python = Path(sys.executable)
    monkeypatch.setattr(setup, "IMPORTED", ("json", "torch_of_nowhere"))
    monkeypatch.setattr(setup, "PRELOADED", "pass")
    with pytest.raises(setup.StopError, match="does not load here: ModuleNotFoundError"):
        setup.try_out(venv)
    monkeypatch.setattr(setup, "IMPORTED", ("json",))
    setup.try_out(venv)


def test_what_is_tried_out_stays_compiled_also_where_python_is_told_to_keep_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    venv = setup.Venv(tmp_path)
    venv.python = Path(sys.executable)
    (tmp_path / "slow_to_compile.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.delenv("PYTHONPYCACHEPREFIX", raising=False)
    monkeypatch.setattr(setup, "IMPORTED", ("slow_to_compile",))
    monkeypatch.setattr(setup, "PRELOADED", "pass")
    setup.try_out(venv)
    assert list((tmp_path / "__pycache__").glob("slow_to_compile.*.pyc"))
