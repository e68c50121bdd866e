"""A training run on the device follows the one on the CPU."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from torchcourse import simulated

Tensor = torch.Tensor
Optimizer = Callable[..., torch.optim.Optimizer]


class Recurrent(nn.Module):
    """Two layers of LSTM, GRU or plain recurrence, the first and last states used."""

    def __init__(self, kind: Callable[..., nn.Module], bias: bool = True) -> None:
        super().__init__()
        self.cells = kind(16, 12, num_layers=2, batch_first=True, bidirectional=True, bias=bias)
        self.head = nn.Linear(24, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.cells(x)[0][:, -1])


def mlp() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(80, 32),
        nn.BatchNorm1d(32),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.LayerNorm(32),
        nn.Linear(32, 3),
    )


MODELS: dict[str, Callable[[], nn.Module]] = {
    "transformer": lambda: nn.Sequential(
        nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), nn.Flatten(), nn.Linear(80, 3)
    ),
    "lstm": lambda: Recurrent(nn.LSTM),
    "lstm without bias": lambda: Recurrent(nn.LSTM, bias=False),
    "gru": lambda: Recurrent(nn.GRU),
    "rnn": lambda: Recurrent(nn.RNN),
}
"""What is more than a row of operators: each operator by itself is seen in `operators.py`."""
OPTIONS = {"lr": 0.01, "momentum": 0.5, "nesterov": True, "weight_decay": 0.01, "amsgrad": True}
WAYS = {"as it comes": {}, "one by one": {"foreach": False}, "for each": {"foreach": True}, "fused": {"fused": True}}


def optimizers() -> Iterator[Any]:
    """Yield PyTorch's optimizers that take any parameters, each in all its ways and with options."""
    for kind in vars(torch.optim).values():
        known = inspect.signature(kind).parameters if isinstance(kind, type) else {}
        options = {name: value for name, value in OPTIONS.items() if name in known}
        for way, chosen in WAYS.items():
            # Adagrad makes its state at once, so it cannot be made before the move
            if "foreach" in known and chosen.keys() <= known.keys() and kind is not torch.optim.Adagrad:
                yield pytest.param(functools.partial(kind, **options, **chosen), id=f"{kind.__name__}, {way}")


def train(make: Callable[[], nn.Module], place: str, optimizer: Optimizer, early: bool = False) -> list[float]:
    """Return three losses and what is left of the weights; the optimizer may be made before the move."""
    torch.manual_seed(0)
    model = make()
    made = optimizer(model.parameters()) if early else None
    model.to(place)
    made = made or optimizer(model.parameters())
    trace = []
    for _ in range(3):
        x, y = torch.randn(8, 5, 16).to(place), torch.randint(0, 3, (8,)).to(place)
        made.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        trace.append(nn.utils.clip_grad_norm_(model.parameters(), 1.0).item())
        made.step()
        trace.append(loss.item())
    return trace + [p.double().norm().item() for p in model.parameters()]


@pytest.mark.parametrize("name", MODELS)
def test_a_model_trains_as_on_the_cpu(name: str) -> None:
    optimizer = functools.partial(torch.optim.SGD, lr=0.1)
    ours, cpu = (train(MODELS[name], place, optimizer) for place in (simulated.NAME, "cpu"))
    assert ours == pytest.approx(cpu, rel=2e-5, abs=1e-6)


@pytest.mark.parametrize("early", [False, True], ids=["made after the move", "made before the move"])
@pytest.mark.parametrize("optimizer", [*optimizers()])
def test_an_optimizer_works_as_on_the_cpu(optimizer: Optimizer, early: bool) -> None:
    ours, cpu = (train(mlp, place, optimizer, early) for place in (simulated.NAME, "cpu"))
    assert ours == pytest.approx(cpu, rel=1e-4, abs=1e-5)


def test_evaluation_takes_the_fast_paths_of_transformers(device: torch.device) -> None:
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2).eval()
    x, padding = torch.randn(2, 5, 16), torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    with torch.inference_mode():
        model.use_nested_tensor = False  # on the CPU nested tensors warn
        want = model(x, src_key_padding_mask=padding)
        model.use_nested_tensor = True
        got = model.to(device)(x.to(device), src_key_padding_mask=padding.to(device))
    torch.testing.assert_close(got.cpu()[0], want[0])


def test_packed_sequences_go_through_recurrent_layers(device: torch.device) -> None:
    results = []
    for place in ("cpu", device):
        torch.manual_seed(0)
        model = nn.LSTM(4, 3, batch_first=True).to(place)
        packed = nn.utils.rnn.pack_padded_sequence(
            torch.ones(2, 5, 4).to(place), torch.tensor([5, 3]), batch_first=True
        )
        out, lengths = nn.utils.rnn.pad_packed_sequence(model(packed)[0], batch_first=True)
        out.sum().backward()
        assert lengths.device.type == "cpu"
        results.append((simulated.values(out.detach()), simulated.values(model.weight_ih_l0.grad)))
    torch.testing.assert_close(results[0], results[1])
