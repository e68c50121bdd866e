"""What lesson 04's probes rely on: workers that are gone afterwards, watched generators, pickles without imports."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from torchcourse.exercises import loading


class Failing(Dataset[Any]):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        if index == 3:
            raise LookupError("item 3")
        return index


def children() -> list[int]:
    return [child.pid for child in psutil.Process().children()]


@pytest.mark.parametrize("persistent", [True, False])
def test_no_worker_outlives_a_drained_loader(persistent: bool) -> None:
    before = children()
    loader = DataLoader(range(6), batch_size=3, num_workers=2, persistent_workers=persistent)  # type: ignore[arg-type]
    epochs = loading.drain(loader, epochs=2)
    assert [[batch.tolist() for batch in epoch] for epoch in epochs] == [[[0, 1, 2], [3, 4, 5]]] * 2
    assert children() == before


def test_no_worker_outlives_a_loader_that_fails() -> None:
    before = children()
    with pytest.raises(LookupError, match="item 3"):
        loading.drain(DataLoader(Failing(), num_workers=2))
    assert children() == before


def test_draining_stops_where_a_stream_has_no_end() -> None:
    assert len(loading.drain(DataLoader(range(100)), most=5)[0]) == 5  # type: ignore[arg-type]


def test_it_is_seen_whose_generators_were_moved() -> None:
    with loading.touched() as found:
        torch.rand(1)
    assert found == ["torch's"]
    with loading.touched() as found:
        random.random()
        np.random.rand()
    assert found == ["NumPy's", "Python's"]
    with loading.touched() as found:
        torch.rand(1, generator=torch.Generator().manual_seed(0))
    assert not found


def test_objects_of_classes_that_cannot_be_imported_are_pickled() -> None:
    class Local:
        def __init__(self) -> None:
            self.value = 7

    data, classes = loading.pickled(Local())
    assert loading.unpickled(data, classes).value == 7


def test_scratch_comes_back_to_where_it_was() -> None:
    before = Path.cwd()
    with pytest.raises(KeyError), loading.scratch():
        Path("file").touch()
        raise KeyError
    assert Path.cwd() == before and not Path("file").exists()
