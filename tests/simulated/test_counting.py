"""Synchronisations, copies and allocations are counted as CUDA would make them."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest
import torch
from torch import nn

from torchcourse import simulated
from torchcourse.checking.call_watch import CallWatch
from torchcourse.simulated import counters, events, reset_counters

MEBI = 1 << 20


@pytest.mark.parametrize(
    ("call", "waits", "to_host"),
    [
        (lambda x: x.sum().item(), 1, 1),
        (lambda x: float(x.sum()), 1, 1),
        (lambda x: bool(x.sum() > 0), 1, 1),
        (lambda x: x.tolist(), 1, 1),
        (lambda x: x.cpu(), 1, 1),
        (lambda x: x.to("cpu", non_blocking=True), 0, 1),
        (lambda x: torch.empty(4).copy_(x), 1, 1),
        (lambda x: x.numpy(force=True), 1, 1),
        (lambda x: repr(x), 1, 1),
        (lambda x: f"{x.sum():.3f}", 1, 1),
        (lambda x: x.nonzero(), 1, 0),
        (lambda x: x[x > 0], 1, 0),
        (lambda x: x.masked_select(x > 0), 1, 0),
        (lambda x: x.unique(), 1, 0),
        (lambda x: torch.equal(x, x), 1, 0),
        (lambda x: x.masked_fill_(x > 0, 1.0), 0, 0),
        (lambda x: x.__setitem__(x > 0, 1.0), 0, 0),
        (lambda x: x[torch.arange(2, device=x.device)], 0, 0),
        (lambda x: x[torch.tensor([1, 2])], 1, 0),
        (lambda x: x[[1, 2]], 1, 0),
        (lambda x: x[1:, None][0, :], 0, 0),
        (lambda x: torch.where(x > 0, x, 0.0).sum().clamp(max=3), 0, 0),
        (lambda x: (x @ x).relu().softmax(0), 0, 0),
    ],
)
def test_what_waits_for_the_device_is_counted(
    call: Callable[[torch.Tensor], object], waits: int, to_host: int, device: torch.device
) -> None:
    x = torch.arange(4.0, device=device)
    reset_counters()
    call(x)
    assert (counters().synchronizations, counters().copies_to_host) == (waits, to_host)


def test_copies_to_the_device_are_counted(device: torch.device) -> None:
    x = torch.ones(4)
    x.to(device)
    torch.tensor([1.0, 2.0], device=device)
    torch.zeros(4, device=device).copy_(x)
    assert (counters().copies_to_device, counters().synchronizations, counters().non_blocking_copies) == (3, 3, 0)
    x.to(device, non_blocking=True)
    torch.zeros(4, device=device).copy_(x, non_blocking=True)
    assert (counters().copies_to_device, counters().synchronizations, counters().non_blocking_copies) == (5, 3, 2)
    torch.zeros(4, device=device).to(device)
    torch.randn(4, device=device).clone()
    assert counters().copies_to_device == 5


def test_a_training_step_waits_only_where_it_is_told_to(device: torch.device) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 2)).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    x, y = torch.randn(16, 4).to(device), torch.randint(0, 2, (16,)).to(device)
    reset_counters()
    for _ in range(2):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    assert (counters().synchronizations, counters().copies_to_host, counters().copies_to_device) == (0, 0, 0)
    loss.item()
    assert counters().synchronizations == 1


def test_allocated_bytes_follow_tensors_and_not_views(device: torch.device) -> None:
    gc.collect()
    before = counters().allocated_bytes
    x = torch.zeros(MEBI // 4, device=device)
    assert counters().allocated_bytes - before == MEBI
    view = x.view(2, -1)[0].expand(3, -1)
    assert counters().allocated_bytes - before == MEBI
    y = x + 1
    assert counters().allocated_bytes - before == 2 * MEBI
    del x, y
    gc.collect()
    assert counters().allocated_bytes - before == MEBI
    del view
    gc.collect()
    assert counters().allocated_bytes == before


def test_a_storage_that_is_resized_counts_with_its_new_size(device: torch.device) -> None:
    gc.collect()
    before = counters().allocated_bytes
    x = torch.zeros(MEBI // 4, device=device)
    x.untyped_storage().resize_(0)
    assert counters().allocated_bytes == before
    x.untyped_storage().resize_(MEBI)
    assert counters().allocated_bytes - before == MEBI


def test_the_peak_is_kept_until_reset(device: torch.device) -> None:
    gc.collect()
    before = counters().allocated_bytes
    reset_counters()
    for _ in range(3):
        torch.zeros(MEBI // 4, device=device)
    assert counters().peak_bytes - before == MEBI
    assert counters().allocations == 3
    reset_counters()
    assert counters().peak_bytes == counters().allocated_bytes == before


def test_what_autograd_saves_stays_allocated(device: torch.device) -> None:
    x = torch.ones(MEBI // 4, device=device, requires_grad=True)
    reset_counters()
    before = counters().allocated_bytes
    y = x.exp().exp()
    assert counters().allocated_bytes - before == 2 * MEBI
    y = y.sum()
    assert counters().allocated_bytes - before == 2 * MEBI + 4
    y.backward()
    del y
    gc.collect()
    assert counters().allocated_bytes - before == MEBI  # the gradient


def test_events_come_in_order(device: torch.device) -> None:
    with events() as log:
        first = torch.ones(2).to(device, non_blocking=True)
        log.append("mark")
        (first.view(2, 1) * 2).sum().item()
        torch.ones(2).to(device)
    assert log == [
        "copy_to_device", "mark", "kernel:mul", "kernel:sum", "copy_to_host", "synchronize", "copy_to_device",
        "synchronize",
    ]  # fmt: skip
    first + 1
    assert log[-1] == "synchronize"


def test_events_nest_and_end_with_their_block(device: torch.device) -> None:
    with events() as outer:
        with pytest.raises(ValueError, match="stop"), events() as inner:
            torch.ones(2, device=device) + 1
            raise ValueError("stop")
        torch.ones(2, device=device).exp()
    assert "kernel:exp" in outer
    assert "kernel:exp" not in inner
    assert outer[: len(inner)] == inner


def test_events_are_told_to_a_list_of_the_callers_own(device: torch.device) -> None:
    own = ["before"]
    with events(own) as log:
        torch.ones(2).to(device)
    torch.ones(2).to(device)
    assert log is own
    assert own == ["before", "copy_to_device", "synchronize"]


def test_counters_are_a_snapshot(device: torch.device) -> None:
    before = counters()
    simulated.values(torch.ones(1, device=device))
    torch.ones(1, device=device).item()
    assert before.synchronizations == 0
    assert counters().synchronizations == 1


def test_own_operators_are_not_seen_by_function_modes(device: torch.device) -> None:
    x = torch.ones(3, device=device)
    with CallWatch() as watch:
        torch.softmax(x, 0)
    assert watch.functions == ["softmax"]
