"""What the doctor says of machines that lack something; nothing is changed on any."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from autograde import enclosure, layers
from torchcourse import doctor, lessons
from torchcourse.cli import app
from torchcourse.doctor import Finding

STATES = {"ok", "warning", "blocked"}


def only(findings: Iterator[Finding]) -> Finding:
    (finding,) = findings
    return finding


def test_findings_are_lines_for_people_and_objects_for_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    said = CliRunner().invoke(app, ["doctor", "--json"])
    findings = json.loads(said.stdout)
    assert {f["state"] for f in findings} <= STATES
    assert all(set(f) == {"about", "state", "says", "remedy"} for f in findings)
    assert said.exit_code == any(f["state"] == "blocked" for f in findings)
    about = {f["about"] for f in findings}
    assert {"Python", "PyTorch", "GPU", "C++ compiler", "DataLoader workers", "jupyterlab", "nbgrader", "disk"} <= about
    assert {"widgets", "Validate button", "kernel", "lessons"} <= about
    assert {"sandbox: namespaces", "sandbox: Landlock", "sandbox: limits", "sandbox: memory group"} <= about
    assert list(tmp_path.iterdir()) == []


def test_a_remedy_stands_below_what_it_is_for() -> None:
    text = doctor.table([Finding("a", "ok", "fine"), Finding("thing", "warning", "gone", "get one")])
    assert text.splitlines() == ["ok       a      fine", "warning  thing  gone", "                -> get one"]


def test_whatever_is_not_ok_has_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CXX", raising=False)
    for finding in doctor.examine_machine([layers.layers]):
        assert finding.state in STATES
        assert finding.state == "ok" or finding.remedy, finding


def test_a_look_that_fails_is_a_finding_and_stops_no_other() -> None:
    def a_look() -> Iterator[Finding]:
        raise OSError("odd machine")
        yield

    findings = doctor.examine_machine([a_look])
    assert findings[-1] == Finding("a look", "warning", "could not be looked at: OSError: odd machine")
    assert len(findings) > 6


def test_a_broken_torch_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert only(doctor.torch_build()).state == "blocked"


def test_too_old_a_python_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "OLDEST", (99, 0))
    assert only(doctor.python()).state == "blocked"


@pytest.mark.parametrize(("capability", "state", "words"), [((7, 5), "warning", "emulated"), ((9, 0), "ok", "native")])
def test_emulated_bfloat16_is_not_called_native(
    capability: tuple[int, int], state: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = SimpleNamespace(major=capability[0], minor=capability[1], total_memory=16 << 30, name="A card")
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda number: card)
    found = only(doctor.gpu())
    assert (found.state, words in found.says) == (state, True)


def test_a_gpu_that_torch_cannot_use_is_a_warning_with_its_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'A card, 470.57.02'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.version.cuda", "13.0")
    found = only(doctor.gpu())
    assert found.state == "warning"
    assert "470.57.02" in found.says
    assert "CUDA 13.0" in found.remedy


def test_a_compiler_that_is_missing_or_broken_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    assert only(doctor.compiler()).says.startswith("none")
    broken = tmp_path / "g++"
    broken.write_text("#!/bin/sh\necho 'no cc1plus' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert "no cc1plus" in only(doctor.compiler()).says


def test_workers_that_do_not_know_the_notebook_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    context = SimpleNamespace(get_start_method=lambda: "spawn")
    monkeypatch.setattr(doctor.multiprocessing, "get_context", lambda: context)
    assert only(doctor.loader_workers()).state == "warning"


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
    def version(name: str) -> str:
        if name == "nbgrader":
            raise metadata.PackageNotFoundError(name)
        return "3.6.0"

    monkeypatch.setattr(metadata, "version", version)
    lab, nbgrader = doctor.jupyter()
    assert (lab.state, "3.6.0" in lab.says, lab.remedy.startswith("pip install")) == ("warning", True, True)
    assert (nbgrader.state, nbgrader.says) == ("warning", "not installed")


def test_what_jupyterlab_lacks_in_the_browser_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "jupyter_folders", lambda: [tmp_path / "none", tmp_path])
    found = list(doctor.extensions())
    assert [f.state for f in found] == ["warning", "warning"]
    assert all(f.remedy.startswith("pip install") for f in found)
    for name in doctor.EXTENSIONS:
        (tmp_path / "labextensions" / name).mkdir(parents=True)
        (tmp_path / "labextensions" / name / "package.json").write_text('{"version": "5.0.1"}')
    found = list(doctor.extensions())
    assert [f.state for f in found] == ["ok", "ok"]
    assert found[0].says.endswith("5.0.1")


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
    monkeypatch.setattr("torchcourse.lessons.released", released)
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
    assert words in enclosure.namespaces_remedy(tmp_path)


def test_layers_that_are_missing_are_named_with_what_stands_in(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: dict[str, Any] = {"landlock": 0, "seccomp": 0, "memory": 1}
    monkeypatch.setattr(layers, "blocker", lambda: "bubblewrap is missing: install it.")
    monkeypatch.setattr(layers, "_tried", lambda enclosure: tried)
    monkeypatch.setattr(layers, "make_group", lambda most, processes: None)
    found = {f.about.removeprefix("sandbox: "): f for f in layers.layers()}
    assert (found["namespaces"].state, found["namespaces"].remedy) == ("blocked", "install it.")
    assert found["Landlock"].state == found["system calls"].state == "warning"
    assert found["memory group"].says.startswith("not available")


@pytest.mark.sandbox
def test_each_layer_is_tried_as_grading_would_use_it() -> None:
    found = {f.about.removeprefix("sandbox: "): f for f in layers.layers()}
    assert found["namespaces"].state == found["limits"].state == "ok"


@pytest.mark.sandbox
def test_the_doctor_tries_whether_workers_can_share_what_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    found = layers._sharing()
    assert (found.state, found.says.partition(":")[0]) == ("ok", "active")
    monkeypatch.setattr(layers, "JOIN", "raise SystemExit('setns: Operation not permitted')")
    found = layers._sharing()
    assert found.state == "warning"
    assert "setns: Operation not permitted" in found.says
    assert "isolation.md" in found.remedy
