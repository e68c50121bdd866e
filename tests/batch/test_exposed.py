"""Every way to a sandbox refuses to grade where submissions could read what is not for them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from autograde.batch import cluster_worker, grading, nbgrader_plugin
from autograde.batch.nbgrader_plugin import GradeSubmission
from autograde.classroom.class_config import class_seed
from autograde.classroom.class_folder import make_class
from autograde.classroom.synthetic_class import answered_notebook, write_notebook
from autograde.judge import exposed
from autograde.judge.oracle_cache import cache_folder
from autograde.sandbox import requirements
from autograde.sandbox.configuration import Isolation
from autograde.sandbox.sandbox import SandboxError
from autograde.settings import LIMITS, SEED
from autograde.source import paths

LESSON = "01_tensors"
BATCH = cluster_worker.BatchSettings(SEED, LIMITS, Isolation(), (), {})


@pytest.fixture
def course_below_usr(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the course were installed below a folder that is in every sandbox, on a machine that can isolate."""
    monkeypatch.setattr(requirements, "readable", lambda: [str(paths.ROOT)])
    for module in (grading, cluster_worker, nbgrader_plugin):
        monkeypatch.setattr(module, "isolation_problem", lambda: "")


def grade_with_nbgrader(folder: Path) -> None:
    """What nbgrader's autograde and the formgrader's button call for each notebook."""
    converter = SimpleNamespace(coursedir=SimpleNamespace(root=str(folder)))
    plugin: Any = SimpleNamespace(parent=SimpleNamespace(parent=converter))
    GradeSubmission.preprocess(plugin, None, {"nbgrader": {"notebook": LESSON, "student": "ann"}})


DOORS = {
    "torchcourse grade": lambda folder: grading.grade([LESSON], folder, folder / "out"),
    "nbgrader": grade_with_nbgrader,
    "a worker that joins a cluster": lambda _: cluster_worker._new_sandbox(BATCH),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.usefixtures("course_below_usr")
def test_no_way_leads_to_a_sandbox_that_shows_the_answers(door: str, tmp_path: Path) -> None:
    write_notebook(tmp_path, "ann", LESSON, answered_notebook(LESSON, {}))
    with pytest.raises(SandboxError, match="solutions lies in"):
        DOORS[door](tmp_path)


@pytest.mark.usefixtures("course_below_usr")
def test_a_worker_of_a_cluster_is_refused_before_it_gets_a_submission() -> None:
    assert "solutions lies in" in cluster_worker.incompatibility(BATCH)


def test_a_class_folder_with_other_submissions_is_guarded_in_nbgrader_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requirements, "readable", lambda: [str(tmp_path)])
    with pytest.raises(SandboxError, match="class lies in"):
        grade_with_nbgrader(tmp_path / "class")


def test_what_references_were_observed_to_do_is_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert exposed.exposed_answers_problem() == ""
    monkeypatch.setenv("TORCHCOURSE_CACHE", "/usr/share/torchcourse")
    assert str(cache_folder()) in exposed.exposed_answers_problem()


def test_the_references_of_a_package_for_self_study_are_guarded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They lie among torchcourse's own modules, which are in every sandbox."""
    packed = tmp_path / "references.json"
    packed.write_text("{}")
    monkeypatch.setattr(exposed, "PACKED", packed)
    assert "self-study" in exposed.exposed_answers_problem()


def test_nbgrader_does_not_run_submissions_where_the_course_has_moved(tmp_path: Path) -> None:
    """Without the course's configuration it would run them with its own engine, which has no sandbox."""
    folder = tmp_path / "spring"
    make_class(folder, [LESSON])
    write_notebook(folder / "submitted", "ann", LESSON, answered_notebook(LESSON, {}))
    seed, config = class_seed(folder), folder / "nbgrader_config.py"
    config.write_text(config.read_text().replace(str(paths.AUTOGRADE), str(tmp_path / "moved")))
    command = [Path(sys.executable).parent / "nbgrader", "autograde", LESSON]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and f"{tmp_path / 'moved'} is gone: correct the path in" in done.stderr
    assert not (folder / "autograded").exists()
    assert class_seed(folder) == seed
