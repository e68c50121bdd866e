"""What lesson 04's probes rely on: workers that are gone afterwards, watched generators, pickles without imports."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch
from torch.utils.data import DataLoader

from torchcourse.probes import data_loading


@pytest.fixture(autouse=True)
def no_worker_is_left() -> Iterator[None]:
    before = psutil.Process().children()
    yield
    assert psutil.Process().children() == before


@pytest.mark.parametrize("persistent", [True, False])
def test_no_worker_outlives_a_drained_loader(persistent: bool) -> None:
    loader = DataLoader(range(6), batch_size=3, num_workers=2, persistent_workers=persistent)  # type: ignore[arg-type]
    epochs = data_loading.drain(loader, epochs=2)
    assert [[batch.tolist() for batch in epoch] for epoch in epochs] == [[[0, 1, 2], [3, 4, 5]]] * 2


def test_no_worker_outlives_a_loader_that_fails() -> None:
    with pytest.raises(KeyError, match="3"):
        data_loading.drain(DataLoader(dict.fromkeys([0, 1, 2, 4], 1), num_workers=2))  # type: ignore[arg-type]


def test_draining_stops_where_a_stream_has_no_end() -> None:
    assert len(data_loading.drain(DataLoader(range(100)), most=5)[0]) == 5  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("draw", "moved"),
    [
        (lambda: torch.rand(1), ["torch's"]),
        (lambda: (random.random(), np.random.rand()), ["NumPy's", "Python's"]),
        (lambda: torch.rand(1, generator=torch.Generator()), []),
    ],
)
def test_it_is_seen_whose_generators_were_moved(draw: Callable[[], object], moved: list[str]) -> None:
    with data_loading.touched() as found:
        draw()
    assert found == moved


def test_objects_of_classes_that_cannot_be_imported_are_pickled() -> None:
    class Local:
        value = 7

    assert data_loading.unpickled(*data_loading.pickled(Local())).value == 7


def test_scratch_comes_back_to_where_it_was() -> None:
    before = Path.cwd()
    with pytest.raises(KeyError), data_loading.scratch():
        Path("file").touch()
        raise KeyError
    assert Path.cwd() == before and not Path("file").exists()
