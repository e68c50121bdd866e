"""What the doctor says of machines that lack something; nothing is changed on any."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from autograde.sandbox import diagnosis, requirements
from autograde.sandbox.configuration import Isolation
from autograde.sandbox.namespaces import NamespacesError
from tests.support.alone import alone
from tests.support.commands import run_command
from torchcourse import doctor
from torchcourse.doctor import Finding
from torchcourse.model import lessons

Look = Callable[[], Iterator[Finding]]
Spoil = Callable[[pytest.MonkeyPatch], None]


def only(findings: Iterator[Finding]) -> Finding:
    (finding,) = findings
    return finding


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Install a program of this name that runs this line of shell."""

    def install(name: str, line: str) -> None:
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    return install


def test_findings_are_objects_for_programs_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    status, output = run_command("doctor", "--json")
    findings = json.loads(output)
    assert all(set(f) == {"about", "state", "says", "remedy"} for f in findings)
    assert status == any(f["state"] == "blocked" for f in findings)
    about = {f["about"] for f in findings}
    assert {"Python", "PyTorch", "GPU", "C++ compiler", "DataLoader workers", "jupyterlab", "nbgrader", "disk"} <= about
    assert {"widgets", "Validate button", "kernel", "lessons"} <= about
    assert {"sandbox: namespaces", "sandbox: Landlock", "sandbox: limits", "sandbox: memory group"} <= about
    assert list(tmp_path.iterdir()) == []


@pytest.mark.sandbox
def test_what_a_grader_needs_is_examined_without_torch() -> None:
    program = """
import sys
sys.argv = ["torchcourse", "doctor", "--grader"]
from torchcourse.cli import main
try:
    main()
finally:
    print("torch imported:", "torch" in sys.modules)
"""
    done = alone(program)
    assert done.returncode == 0, done.stderr
    assert "torch imported: False" in done.stdout
    for words in ("packages", "C++ compiler", "ninja", "sandbox: namespaces", "sandbox: limits"):
        assert f"ok       {words}" in done.stdout
    assert "JupyterLab" not in done.stdout


@pytest.mark.sandbox
def test_what_a_grader_lacks_is_named_with_the_command_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    version = metadata.version

    def spoiled(name: str) -> str:
        if name == "nh3":
            raise metadata.PackageNotFoundError(name)
        return "0.8.1" if name == "nbgrader" else version(name)

    monkeypatch.setattr(metadata, "version", spoiled)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    found = {finding.about: finding for finding in doctor.examine_grader([diagnosis.diagnose])}
    assert found["packages"].state == "blocked"
    assert found["packages"].remedy == "pip install 'nbgrader<0.10,>=0.9.6' 'nh3'"
    assert found["C++ compiler"].remedy.startswith("sudo apt-get install g++")
    assert found["ninja"].remedy == "pip install ninja"
    assert found["sandbox: namespaces"].remedy == "sudo apt-get install bubblewrap"


def test_a_remedy_stands_below_what_it_is_for() -> None:
    text = doctor.table([Finding("a", "ok", "fine"), Finding("thing", "warning", "gone", "get one")])
    assert text.splitlines() == ["ok       a      fine", "warning  thing  gone", "                -> get one"]


def test_whatever_is_not_ok_has_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CXX", raising=False)
    for finding in doctor.examine_machine([diagnosis.diagnose]):
        assert finding.state == "ok" or (finding.state in ("warning", "blocked") and finding.remedy), finding


SPAWNS = SimpleNamespace(get_start_method=lambda: "spawn")


@pytest.mark.parametrize(
    ("look", "spoil", "state"),
    [
        (doctor.torch_build, lambda patch: patch.setitem(sys.modules, "torch", None), "blocked"),
        (doctor.python, lambda patch: patch.setattr(doctor, "OLDEST_PYTHON", (99, 0)), "blocked"),
        (doctor.loader_workers, lambda patch: patch.setattr("multiprocessing.get_context", lambda: SPAWNS), "warning"),
    ],
)
def test_what_stands_in_the_way_is_found(look: Look, spoil: Spoil, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spoil(monkeypatch)
    assert only(look()).state == state


@pytest.mark.parametrize(("major", "state", "words"), [(7, "warning", "emulated"), (9, "ok", "native")])
def test_emulated_bfloat16_is_not_called_native(
    major: int, state: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = SimpleNamespace(major=major, minor=0, total_memory=16 << 30, name="A card")
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda number: card)
    found = only(doctor.gpu())
    assert (found.state, words in found.says) == (state, True)


def test_a_gpu_that_torch_cannot_use_is_a_warning_with_its_driver(
    program: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    program("nvidia-smi", "echo 'A card, 470.57.02'")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.version.cuda", "13.0")
    found = only(doctor.gpu())
    assert found.state == "warning"
    assert "470.57.02" in found.says
    assert "CUDA 13.0" in found.remedy


def test_a_look_that_fails_is_a_finding_and_stops_no_other() -> None:
    def a_look() -> Iterator[Finding]:
        raise OSError("odd machine")
        yield

    findings = doctor.examine_machine([a_look])
    assert findings[-1] == Finding("a look", "warning", "could not be examined: OSError: odd machine")
    assert len(findings) > 6


def test_a_compiler_that_is_missing_or_broken_is_a_warning(
    program: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    assert only(doctor.compiler()).says.startswith("none")
    program("g++", "echo 'no cc1plus' >&2; exit 1")
    assert "no cc1plus" in only(doctor.compiler()).says


def test_without_ninja_the_doctor_says_which_exercise_cannot_be_graded(
    program: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with monkeypatch.context() as elsewhere:  # the environment's own ninja counts, too
        elsewhere.setattr(sys, "executable", "/nowhere/python")
        found = only(doctor.builder())
    assert (found.state, found.remedy) == ("warning", "pip install ninja")
    assert "rms_norm_cpp of lesson 13 counts as not attempted" in found.says
    program("ninja", "exit 0")
    assert only(doctor.builder()).state == "ok"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /dev/shm")
def test_a_containers_small_shared_memory_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(total=64 << 20, free=64 << 20))
    found = only(doctor.shared_memory(tmp_path))
    assert (found.state, "--shm-size" in found.remedy) == ("warning", True)
    assert only(doctor.shared_memory(tmp_path / "none")).state == "warning"


@pytest.mark.parametrize(("free", "state"), [(9 << 30, "ok"), (1 << 30, "warning"), (1 << 20, "blocked")])
def test_a_full_disk_is_seen(free: int, state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(total=free, free=free))
    assert only(doctor.disk(tmp_path)).state == state


def test_versions_that_do_not_fit_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = {"jupyterlab": "3.6.0"}
    monkeypatch.setattr(metadata, "PackageNotFoundError", KeyError)
    monkeypatch.setattr(metadata, "version", installed.__getitem__)
    lab, nbgrader = doctor.jupyter()
    assert (lab.state, "3.6.0" in lab.says, lab.remedy.startswith("pip install")) == ("warning", True, True)
    assert (nbgrader.state, nbgrader.says) == ("warning", "not installed")


def test_what_jupyterlab_lacks_in_the_browser_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "jupyter_folders", lambda: [tmp_path / "none", tmp_path])
    assert [(f.state, f.remedy.split()[:2]) for f in doctor.extensions()] == [("warning", ["pip", "install"])] * 2
    for name in doctor.EXTENSIONS:
        (tmp_path / "labextensions" / name).mkdir(parents=True)
        (tmp_path / "labextensions" / name / "package.json").write_text('{"version": "5.0.1"}')
    assert [(f.state, f.says.endswith("5.0.1")) for f in doctor.extensions()] == [("ok", True)] * 2


@pytest.mark.parametrize(("runs", "state"), [(sys.executable, "ok"), ("python", "ok"), ("/bin/sh", "warning")])
def test_a_kernel_of_another_python_is_named(
    runs: str, state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "jupyter_folders", lambda: [tmp_path])
    assert only(doctor.kernel()).state == "ok"  # none is registered, and Jupyter knows this one without
    (tmp_path / "kernels" / "python3").mkdir(parents=True)
    spec = {"argv": [runs, "-m", "ipykernel_launcher"]}
    (tmp_path / "kernels" / "python3" / "kernel.json").write_text(json.dumps(spec))
    found = only(doctor.kernel())
    assert (found.state, "/bin/sh" in found.says or state == "ok") == (state, True)


def test_an_installation_without_lessons_is_blocked(monkeypatch: pytest.MonkeyPatch) -> None:
    def released() -> Path:
        raise FileNotFoundError("holds no notebooks")

    assert only(doctor.notebooks()).state == "ok"
    monkeypatch.setattr("torchcourse.model.lessons.released", released)
    lessons.lessons.cache_clear()
    assert only(doctor.notebooks()).state == "blocked"
    lessons.lessons.cache_clear()


@pytest.mark.parametrize(
    ("file", "holds", "words"),
    [
        ("proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "AppArmor"),
        ("proc/sys/kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"),
        ("proc/sys/user/max_user_namespaces", "0", "user.max_user_namespaces"),
        (".dockerenv", "", "container"),
    ],
)
def test_what_keeps_namespaces_away_is_recognised(file: str, holds: str, words: str, tmp_path: Path) -> None:
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(holds + "\n")
    assert words in requirements.namespaces_remedy(tmp_path)


def test_layers_that_are_missing_are_named_with_what_stands_in(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: dict[str, Any] = {"failed": "", "landlock": 0, "seccomp": 0, "memory": 1}
    monkeypatch.setattr(diagnosis, "isolation_fault", lambda: ("bubblewrap is missing", "install it."))
    monkeypatch.setattr(diagnosis, "try_worker", lambda isolation: tried)
    monkeypatch.setattr(diagnosis, "trusted_run_problem", lambda: "")
    monkeypatch.setattr(diagnosis, "make_group", lambda most, processes: None)
    found = {f.about.removeprefix("sandbox: "): f for f in diagnosis.diagnose()}
    assert (found["namespaces"].state, found["namespaces"].remedy) == ("blocked", "install it.")
    assert found["Landlock"].state == found["system calls"].state == "warning"
    assert found["memory group"].says.startswith("not available")
    assert found["memory group"].state == "warning"


def test_bubblewraps_reason_is_told_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    reason = "bwrap: No permissions to create a new namespace. See <https://deb.li/bubblewrap> or perhaps ask."

    def refuse(isolation: Isolation) -> dict[str, Any]:
        raise NamespacesError(reason)

    monkeypatch.setattr(requirements, "try_worker", refuse)
    monkeypatch.setattr(diagnosis, "try_worker", lambda isolation: {})
    first = next(diagnosis.diagnose())
    assert first.says == f"missing: bubblewrap cannot make a sandbox here ({reason})"
    assert first.remedy == requirements.namespaces_remedy()
    whole = f"bubblewrap cannot make a sandbox here ({reason}). {first.remedy}"
    assert requirements.isolation_problem() == whole


@pytest.mark.sandbox
def test_each_layer_is_tried_as_grading_would_use_it() -> None:
    found = {f.about.removeprefix("sandbox: "): f for f in diagnosis.diagnose()}
    assert found["namespaces"].state == found["limits"].state == "ok"
