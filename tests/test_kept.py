"""What graders found out of references and mistakes serves later runs, and is never believed beyond its reach."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograde import kept
from autograde.kept import Kept, kept_folder
from autograde.oracle import REFERENCE, Oracle, hidden, oracle
from torchcourse.observations import agree

LESSON, NAME, SEED = "01_tensors", "row_softmax", 7


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TORCHCOURSE_CACHE", str(tmp_path))
    return tmp_path


def fresh() -> Oracle:
    return oracle(LESSON, NAME, lambda e: hidden(LESSON, e, SEED))


def asked() -> Oracle:
    """An oracle that was asked everything."""
    made = fresh()
    for n in range(len(made.cases)):
        for lane in ("cpu", "simulated"):
            made.wanted(lane, n)
            for known in made.known:
                known.seen(lane, n)
    return made


def test_an_oracle_that_recalls_runs_nothing_and_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = asked(), fresh()
    Kept(LESSON, SEED, "simulated").keep(first)
    Kept(LESSON, SEED, "simulated").recall(second)
    monkeypatch.setattr(Oracle, "run", lambda *args: pytest.fail("something was run again"))
    assert second.found.keys() == first.found.keys() and len(first.found) > 100
    for (who, lane, n), seen in first.found.items():
        theirs = second.known[who].seen(lane, n) if who >= 0 else second.found[who, lane, n]
        assert who >= 0 or second.wanted(lane, n) is second.found[REFERENCE, lane, n]
        assert theirs is not None and agree(theirs, seen, first.cases[n].tolerance)


def test_another_seed_lesson_accelerator_or_version_recalls_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    Kept(LESSON, SEED, "simulated").keep(asked())
    with monkeypatch.context() as patch:
        patch.setattr(kept, "secrets", lambda lesson: {NAME: "other hidden cases"})
        changed = Kept(LESSON, SEED, "simulated")
    empty = fresh()
    changed.recall(empty)
    assert not empty.found
    monkeypatch.setattr(kept.torch.cuda, "get_device_name", lambda: "a GPU")
    others = [Kept(LESSON, SEED + 1, "simulated"), Kept("02_autograd", SEED, "simulated"), Kept(LESSON, SEED, "cuda")]
    monkeypatch.setattr(kept, "fingerprint", lambda lesson: "a changed grader")
    for other in [*others, Kept(LESSON, SEED, "simulated")]:
        empty = fresh()
        other.recall(empty)
        assert not empty.found


@pytest.mark.parametrize("damage", [b"", b"rubbish", b"\x00" * 64])
def test_a_damaged_file_costs_time_only(damage: bytes) -> None:
    keeper = Kept(LESSON, SEED, "simulated")
    keeper.keep(asked())
    (file,) = keeper.folder.iterdir()
    file.write_bytes(file.read_bytes()[:100] if damage == b"rubbish" else damage)
    after = fresh()
    Kept(LESSON, SEED, "simulated").recall(after)
    assert not after.found
    assert after.wanted("cpu", 0)


def test_a_folder_that_cannot_be_written_costs_time_only(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "taken").write_text("a file where a folder should be")
    monkeypatch.setenv("TORCHCOURSE_CACHE", str(folder / "taken"))
    keeper = Kept(LESSON, SEED, "simulated")
    keeper.keep(asked())
    keeper.forget_old()
    keeper.recall(fresh())


def test_only_the_last_folders_stay(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MOST_FOLDERS", 2)
    for seed in range(4):
        Kept(LESSON, seed, "simulated").keep(asked())
    Kept(LESSON, 0, "simulated").forget_old()
    assert len(list(kept_folder().iterdir())) == 2


