"""The references keep the rules that the course teaches, also where no exercise asks for it."""

from __future__ import annotations

import contextlib
from collections import namedtuple
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from autograde.judge.oracle import references
from torchcourse import simulated

LESSONS = {
    "02": "02_autograd", "03": "03_modules", "05": "05_training", "06": "06_gpu", "07": "07_mixed_precision",
    "08": "08_compile", "09": "09_persistence",
}  # fmt: skip
Pair = namedtuple("Pair", ["x", "y"])


def reference(lesson: str, name: str) -> Any:
    return references(LESSONS[lesson])[name]


@pytest.fixture
def device() -> torch.device:
    return simulated.register()


def test_numerical_gradient_stays_on_the_device(device: torch.device) -> None:
    x = torch.tensor([1.0, 3.0], device=device)
    found = reference("02", "numerical_gradient")(lambda t: (t**2).sum(), x)
    assert found.device == x.device
    torch.testing.assert_close(found.cpu(), torch.tensor([2.0, 6.0], dtype=torch.float64))


def test_an_infinite_gradient_does_not_become_nan() -> None:
    x = torch.tensor([-2.0, 0.5], requires_grad=True)
    reference("02", "BinarizeSTE").apply(x).backward(torch.tensor([torch.inf, torch.inf]))
    assert x.grad is not None
    assert x.grad.tolist() == [0.0, torch.inf]


def test_standardizer_keeps_no_graph_and_no_dtype_but_its_own() -> None:
    module = reference("03", "Standardizer")(2).double()
    module.fit(torch.tensor([[0.0, 5.0], [2.0, 5.0]], requires_grad=True))
    assert [(b.dtype, b.requires_grad) for b in module.buffers()] == [(torch.float64, False)] * 2
    assert reference("03", "Standardizer")(2)(torch.ones(1, 2, dtype=torch.bfloat16)).dtype == torch.bfloat16


def test_capture_does_not_name_the_root_in_its_message() -> None:
    with pytest.raises(ValueError, match=r"name submodules: 0, 1$"):
        reference("03", "capture")(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), ["2"], torch.ones(1, 2))


def test_evaluate_leaves_a_frozen_batch_norm_alone() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    model[1].eval()
    batch = (torch.randn(4, 2), torch.tensor([0, 1, 2, 0]))
    reference("05", "evaluate")(model, [batch], F.cross_entropy, torch.device("cpu"))
    assert [m.training for m in model.modules()] == [True, True, False]


def test_overfitting_one_batch_trains() -> None:
    model, optimizer = nn.Sequential(nn.Linear(2, 3)).eval(), None
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = (torch.randn(4, 2), torch.tensor([0, 1, 2, 0]))
    reference("05", "overfit_one_batch")(model, batch, F.cross_entropy, optimizer, 1)
    assert model.training


def test_clipping_waits_for_the_device_once(device: torch.device) -> None:
    parameters = [nn.Parameter(torch.ones(3, device=device)) for _ in range(5)]
    for p in parameters:
        p.grad = torch.ones_like(p)
    with simulated.events() as log:
        norm = reference("05", "clip_gradients")(parameters, 0.5)
    assert norm == pytest.approx(15**0.5)
    assert log.count("synchronize") == 1
    assert reference("05", "clip_gradients")([nn.Parameter(torch.ones(1))], 1.0) == 0.0


def test_numbers_that_come_to_the_cpu_have_arrived(device: torch.device) -> None:
    batch = Pair(torch.ones(2, device=device), [torch.zeros(1, device=device)])
    with simulated.events() as log:
        reference("06", "move_to")(batch, torch.device("cpu"))
    assert log.count("synchronize") == log.count("copy_to_host") == 2


def test_a_batch_may_be_none() -> None:
    batches = [None, torch.ones(1), None]
    assert list(reference("06", "prefetch")(batches, torch.device("cpu"))) == batches


class Stream:
    """A stand-in for a CUDA stream that logs what waits for what."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.name, self.log = name, log

    def wait_stream(self, other: Stream) -> None:
        self.log.append(f"{self.name} waits for {other.name}")


def test_on_cuda_copies_have_a_stream_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []
    current = Stream("the step", log)

    @contextlib.contextmanager
    def stream(chosen: Stream) -> Iterator[None]:
        log.append(f"on {chosen.name}:")
        yield
        log.append("end")

    def move(batch: object, _device: torch.device) -> object:
        log.append(f"copy {batch}")
        return batch

    prefetch = reference("06", "prefetch")
    monkeypatch.setitem(prefetch.__globals__, "move_to", move)
    monkeypatch.setattr(torch.cuda, "Stream", lambda _device: Stream("copies", log))
    monkeypatch.setattr(torch.cuda, "stream", stream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _device: current)
    for batch in prefetch("ab", torch.device("cuda")):
        log.append(f"train on {batch}")
    fetched = ["copies waits for the step", "on copies:"]
    assert log == [
        *fetched, "copy a", "end",
        "the step waits for copies", *fetched, "copy b", "end", "train on a",
        "the step waits for copies", "train on b",
    ]  # fmt: skip


def test_an_empty_container_does_not_make_its_parent_a_leaf() -> None:
    model = nn.Sequential(nn.Sequential(nn.Sequential()), nn.Linear(2, 2))
    report = reference("07", "autocast_report")(model, torch.ones(1, 2), torch.bfloat16)
    assert report == {"0.0": torch.float32, "1": torch.bfloat16}


def test_safe_mean_needs_no_float64(device: torch.device) -> None:
    x = torch.full((200,), 400.0, dtype=torch.float16, device=device)
    with simulated.events() as log:
        assert reference("07", "safe_mean")(x).item() == 400
    assert "kernel:mean" in log


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_short_vector_is_not_changed_at_all(dtype: torch.dtype) -> None:
    x = (torch.randn(64, generator=torch.Generator().manual_seed(0)) * 0.01).to(dtype)
    assert torch.equal(reference("08", "clip_by_norm")(x, 0.7), x)
    zeros = torch.zeros(3, requires_grad=True)
    reference("08", "clip_by_norm")(zeros, 0.7).sum().backward()
    assert zeros.grad is not None
    assert zeros.grad.isfinite().all()


def test_a_compiled_function_that_detaches_is_not_the_same() -> None:
    model, x = nn.Linear(2, 1), torch.ones(3, 2)
    same = reference("08", "same_numerics")
    assert not same(model, lambda t: model(t.detach()), x, 1e-5)["ok"]
    assert not same(model, lambda t: model(t).detach(), x, 1e-5)["ok"]
    assert same(model, lambda t: model(t), x, 1e-5) == {"output": 0.0, "grad": 0.0, "ok": True}


def test_an_average_of_bfloat16_does_not_stand_still() -> None:
    model = nn.Linear(1, 1, bias=False).bfloat16()
    nn.init.ones_(model.weight)
    average = reference("09", "EMA")(model, 0.999)
    nn.init.constant_(model.weight, 2.0)
    for _ in range(500):
        average.update(model)
    other = nn.Linear(1, 1, bias=False).bfloat16()
    average.copy_to(other)
    assert other.weight.dtype == torch.bfloat16
    assert other.weight.item() == pytest.approx(2 - 0.999**500, abs=0.01)


def test_the_running_average_shares_no_memory() -> None:
    model = nn.Linear(2, 2)
    average, before = reference("09", "EMA")(model, 0.5), model.weight.detach().clone()
    with torch.no_grad():
        model.weight.zero_()
    other: Any = nn.Linear(2, 2)
    average.copy_to(other)
    weight: Tensor = other.weight
    assert torch.equal(weight, before)
