"""What lesson 09's probes rely on: deaths that are real where they can be, and the same where they cannot."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from autograde.hidden.persistence import CheckpointerWith, save_with
from autograde.oracle import visible
from torchcourse import simulated
from torchcourse.exercise import exercises
from torchcourse.exercises import filing
from torchcourse.explaining import derived
from torchcourse.observations import Observations
from torchcourse.probing import observe

EXERCISES = exercises("09_persistence")
ANSWERS: dict[str, Callable[..., Any]] = {
    "sound": CheckpointerWith,
    "in place": functools.partial(CheckpointerWith, write="straight"),
    "deletes first": functools.partial(CheckpointerWith, tidies="before"),
}


def outcomes() -> dict[str, Observations]:
    """What is seen of each answer in the case in which it is killed, in a save and in a step."""
    exercise = EXERCISES["Checkpointer"]
    case = next(case for case in visible(exercise) if case.inputs["killed_step"])
    return {name: derived(exercise, case, observe(exercise, answer, case)) for name, answer in ANSWERS.items()}


@functools.cache
def killed_for_real() -> dict[str, Any]:
    """The same from a process in which forks are killed."""
    environment = {**os.environ, "TORCHCOURSE_SIMULATED": "off", "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    told = subprocess.run([sys.executable, __file__], env=environment, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(told.stdout)
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "work").mkdir()
    (tmp_path / "store").mkdir()
    yield tmp_path / "work"


def test_a_training_that_is_really_killed_leaves_what_the_copies_show() -> None:
    found = killed_for_real()
    assert found["can kill"]
    assert simulated.is_registered()
    assert not filing.can_kill()
    assert found["outcomes"] == json.loads(json.dumps(outcomes()))


def test_a_sound_checkpointer_goes_on_with_the_same_losses_whenever_it_was_killed() -> None:
    seen = killed_for_real()["outcomes"]["sound"]
    assert seen["killed in a save"] == [f"it goes on after save {n} with the same losses" for n in (2, 3)]
    assert seen["killed in a step"] == ["it goes on after save 3 with the same losses"]


@pytest.mark.parametrize("answer", ["in place", "deletes first"])
def test_a_careless_one_does_not(answer: str) -> None:
    """It goes on from nothing that can be loaded, or falls back behind the save before."""
    told, sound = (killed_for_real()["outcomes"][name]["killed in a save"] for name in (answer, "sound"))
    assert set(told) - set(sound)


def test_copies_are_taken_at_each_change_and_the_act_is_done_once(folder: Path) -> None:
    def act() -> None:
        (folder / "draft").write_bytes(b"new")
        (folder / "draft").replace(folder / "file")

    (folder / "file").write_bytes(b"old")
    left = filing.deaths(act, folder, folder.parent / "store")
    assert [p.name for p in left[0].iterdir()] == ["file"]
    assert {(copy / "file").read_bytes() for copy in left} == {b"old", b"new"}
    assert any((copy / "draft").exists() for copy in left)
    assert (folder / "file").read_bytes() == b"new"


@pytest.mark.parametrize("how", ["straight", "bytes", "copied", "removed first"])
def test_no_way_of_writing_in_place_goes_unseen(how: str) -> None:
    exercise = EXERCISES["save_weights"]
    case = visible(exercise)[1]
    seen = observe(exercise, functools.partial(save_with, how=how), case)
    assert seen["the file, from the first moment to the last"] != "always whole"


def test_probes_leave_neither_files_nor_a_changed_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    here = Path.cwd()
    exercise = EXERCISES["Checkpointer"]
    observe(exercise, CheckpointerWith, visible(exercise)[2])
    assert Path.cwd() == here
    assert not list(tmp_path.iterdir())


def test_a_file_that_was_saved_elsewhere_says_so_and_the_next_does_not(tmp_path: Path) -> None:
    with filing.tagged("cuda:63"):
        torch.save(torch.ones(2), tmp_path / "there.pt")
    torch.save(torch.ones(2), tmp_path / "here.pt")
    assert torch.load(tmp_path / "here.pt", weights_only=True).device.type == "cpu"
    with pytest.raises(RuntimeError, match="deserialize"):
        torch.load(tmp_path / "there.pt", weights_only=True)


if __name__ == "__main__":
    print(json.dumps({"can kill": filing.can_kill(), "outcomes": outcomes()}))
