"""What lesson 09's probes rely on: copies that show what a process leaves behind when it is killed."""

from __future__ import annotations

import functools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from autograde.hidden.persistence import save_weights
from autograde.hidden.persistence.checkpointer import DeletesBeforeWriting, Sound, WritesInPlace
from autograde.judge.oracle import visible
from torchcourse.checking.probe import observe
from torchcourse.checking.result import derive
from torchcourse.exercises.persistence import checkpointer
from torchcourse.model.catalogue import exercises
from torchcourse.model.observations import Observations
from torchcourse.probes import crash_points

EXERCISES = exercises("09_persistence")


def outcomes() -> dict[str, Observations]:
    """What is seen of each answer in the case in which it is killed, in a save and in a step."""
    exercise = EXERCISES["Checkpointer"]
    case = next(case for case in visible(exercise) if case.inputs["killed_step"])
    answers: tuple[Callable[..., Any], ...] = (Sound, WritesInPlace, DeletesBeforeWriting)
    return {answer.__name__: derive(exercise, case, observe(exercise, answer, case)) for answer in answers}


deaths: list[bool] = []
"""Whether each fork was killed; the last one of a save is not."""


def killed_at_each_moment(act: Callable[[], Any], folder: Path, store: Path) -> list[Path]:
    """Do what `crash_states` does by killing a fork of this process at each change of the folder's layout."""
    made = [store / "before"]
    crash_points.copy_folder(folder, made[0])
    died = True
    while died:
        died = is_killed(act, folder, len(made))
        deaths.append(died)
        made.append(store / f"moment {len(made)}")
        crash_points.copy_folder(folder, made[-1])
        shutil.rmtree(folder)
        crash_points.copy_folder(made[0], folder)
    act()
    return made


def is_killed(act: Callable[[], Any], folder: Path, moment: int) -> bool:
    """Run `act` in a fork that is killed at the change with this number; return whether there was such a change."""
    generator = random.getstate()
    child = os.fork()
    if child == 0:
        try:
            random.setstate(generator)  # Python reseeds its generator in every fork
            die = functools.partial(os.kill, os.getpid(), signal.SIGKILL)
            with crash_points.after_possible_writes(crash_points.Changes(folder, lambda n: n == moment and die())):
                act()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


@pytest.fixture(scope="module")
def killed_for_real() -> dict[str, Any]:
    """The same from a process in which forks are killed."""
    environment = {**os.environ, "TORCHCOURSE_SIMULATED": "off", "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])
    told = subprocess.run([sys.executable, __file__], env=environment, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(told.stdout)
    return found


def test_a_training_that_is_really_killed_leaves_what_the_copies_show(killed_for_real: dict[str, Any]) -> None:
    assert killed_for_real["deaths"] > 0
    assert killed_for_real["outcomes"] == json.loads(json.dumps(outcomes()))


def test_only_a_sound_checkpointer_goes_on_with_the_same_losses_whenever_it_was_killed(
    killed_for_real: dict[str, Any],
) -> None:
    """A careless one goes on from nothing that can be loaded, or falls back behind the save before."""
    sound, *careless = killed_for_real["outcomes"].values()
    assert sound["killed in a save"] == [f"it goes on after save {n} with the same losses" for n in (2, 3)]
    assert sound["killed in a step"] == ["it goes on after save 3 with the same losses"]
    assert all(set(seen["killed in a save"]) - set(sound["killed in a save"]) for seen in careless)


def test_copies_are_taken_at_each_change_and_the_act_is_done_once(tmp_path: Path) -> None:
    def act() -> None:
        (folder / "draft").write_bytes(b"new")
        (folder / "draft").replace(folder / "file")

    folder, store = tmp_path / "work", tmp_path / "store"
    folder.mkdir()
    store.mkdir()
    (folder / "file").write_bytes(b"old")
    left = crash_points.crash_states(act, folder, store)
    assert [p.name for p in left[0].iterdir()] == ["file"]
    assert {(copy / "file").read_bytes() for copy in left} == {b"old", b"new"}
    assert any((copy / "draft").exists() for copy in left)
    assert (folder / "file").read_bytes() == b"new"


@pytest.mark.parametrize(
    "careless", ["writes_in_place", "writes_bytes_in_place", "copies_the_draft", "deletes_the_old_first"]
)
def test_no_way_of_writing_in_place_goes_unseen(careless: str) -> None:
    exercise = EXERCISES["save_weights"]
    case = visible(exercise)[1]
    seen = observe(exercise, getattr(save_weights, careless), case)
    assert seen["the file, from the first moment to the last"] != "always whole"


def test_probes_leave_neither_files_nor_a_changed_folder(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv(
        "TORCHINDUCTOR_CACHE_DIR", str(tmp_path_factory.mktemp("inductor"))
    )  # torch's own, when it likes
    here = Path.cwd()
    exercise = EXERCISES["Checkpointer"]
    observe(exercise, Sound, visible(exercise)[2])
    assert Path.cwd() == here
    assert not list(tmp_path.iterdir())


def test_a_file_that_was_saved_elsewhere_says_so_and_the_next_does_not(tmp_path: Path) -> None:
    with crash_points.tagged("cuda:63"):
        torch.save(torch.ones(2), tmp_path / "there.pt")
    torch.save(torch.ones(2), tmp_path / "here.pt")
    assert torch.load(tmp_path / "here.pt", weights_only=True).device.type == "cpu"
    with pytest.raises(RuntimeError, match="deserialize"):
        torch.load(tmp_path / "there.pt", weights_only=True)


if __name__ == "__main__":
    torch.set_num_threads(1)  # threads do not survive a fork
    checkpointer.crash_states = killed_at_each_moment
    seen = outcomes()
    print(json.dumps({"deaths": sum(deaths), "outcomes": seen}))
