"""What graders found out of references and mistakes serves later runs, and is never believed beyond its reach."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from autograde.judge import oracle_cache
from autograde.judge.oracle import REFERENCE, Oracle, hidden, oracle
from autograde.judge.oracle_cache import OracleCache, cache_folder
from torchcourse.model.observations import agree

LESSON, NAME, SEED = "01_tensors", "row_softmax", 7


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TORCHCOURSE_CACHE", str(tmp_path))
    return tmp_path


def fresh() -> Oracle:
    return oracle(LESSON, NAME, lambda e: hidden(LESSON, e, SEED))


@cache
def asked() -> Oracle:
    """An oracle that was asked everything; tests save it and read it."""
    made = fresh()
    for n in range(len(made.cases)):
        for device in ("cpu", "simulated"):
            made.wanted(device, n)
            for known in made.known:
                known.seen(device, n)
    return made


def test_an_oracle_that_recalls_runs_nothing_and_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = asked(), fresh()
    OracleCache(LESSON, SEED, "simulated").save(first)
    OracleCache(LESSON, SEED, "simulated").load(second)
    monkeypatch.setattr(Oracle, "run", lambda *args, **how: pytest.fail("something was run again"))
    assert second.observed.keys() == first.observed.keys() and len(first.observed) > 100
    for (who, device, n), seen in first.observed.items():
        theirs = second.known[who].seen(device, n) if who >= 0 else second.observed[who, device, n]
        assert who >= 0 or second.wanted(device, n) is second.observed[REFERENCE, device, n]
        assert theirs is not None and agree(theirs, seen, first.cases[n].tolerance)


def test_another_seed_lesson_accelerator_or_version_recalls_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    OracleCache(LESSON, SEED, "simulated").save(asked())
    with monkeypatch.context() as patch:
        patch.setattr(oracle_cache, "observation_key", lambda lesson, name: "other hidden cases")
        empty = fresh()
        OracleCache(LESSON, SEED, "simulated").load(empty)
        assert not empty.observed
    monkeypatch.setattr(oracle_cache.torch.cuda, "get_device_name", lambda: "a GPU")
    others = [
        OracleCache(LESSON, SEED + 1, "simulated"),
        OracleCache("02_autograd", SEED, "simulated"),
        OracleCache(LESSON, SEED, "cuda"),
    ]
    for other in others:
        empty = fresh()
        other.load(empty)
        assert not empty.observed


@pytest.mark.parametrize("damage", [b"", b"rubbish", b"\x00" * 64])
def test_a_damaged_file_costs_time_only(damage: bytes) -> None:
    keeper = OracleCache(LESSON, SEED, "simulated")
    keeper.save(asked())
    (file,) = keeper.folder.iterdir()
    file.write_bytes(file.read_bytes()[:100] if damage == b"rubbish" else damage)
    after = fresh()
    OracleCache(LESSON, SEED, "simulated").load(after)
    assert not after.observed
    assert after.wanted("cpu", 0)


def test_a_folder_that_cannot_be_written_costs_time_only(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "taken").write_text("a file where a folder should be")
    monkeypatch.setenv("TORCHCOURSE_CACHE", str(folder / "taken"))
    keeper = OracleCache(LESSON, SEED, "simulated")
    keeper.save(asked())
    keeper.remove_old()
    keeper.load(fresh())


def test_only_the_last_folders_stay(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oracle_cache, "MAX_FOLDERS", 2)
    for seed in range(4):
        OracleCache(LESSON, seed, "simulated").save(asked())
    OracleCache(LESSON, 0, "simulated").remove_old()
    assert len(list(cache_folder().iterdir())) == 2
