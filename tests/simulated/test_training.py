"""A training run on the device follows the one on the CPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from torchcourse import simulated

Tensor = torch.Tensor
Optimizer = Callable[..., torch.optim.Optimizer]


class Attention(nn.Module):
    """Multi-head attention with a causal mask made on the input's device."""

    def __init__(self) -> None:
        super().__init__()
        self.attend, self.head = nn.MultiheadAttention(16, 4, batch_first=True), nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        return self.head(self.attend(x, x, x, attn_mask=mask)[0].mean(1))


class Scaled(nn.Module):
    """Scaled dot-product attention."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        z = F.scaled_dot_product_attention(x, x, x, is_causal=True)
        return self.head(z.mean(1))


class Recurrent(nn.Module):
    """Two layers of LSTM, GRU or plain recurrence, the first and last states used."""

    def __init__(self, kind: Callable[..., nn.Module], bias: bool = True) -> None:
        super().__init__()
        self.cells = kind(16, 12, num_layers=2, batch_first=True, bidirectional=True, bias=bias)
        self.head = nn.Linear(24, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.cells(x)[0][:, -1])


class Bag(nn.Module):
    """Embeddings, their mean, an embedding bag."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.bag, self.head = nn.Embedding(9, 6, padding_idx=0), nn.EmbeddingBag(9, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        ids = (x[..., 0].abs() * 3).long().clamp(0, 8)
        return self.head(self.embed(ids).mean(1) + self.bag(ids))


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 5)), nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 8, 1), nn.GroupNorm(2, 8), nn.GELU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(32, 3),
    )  # fmt: skip


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
    "mlp": mlp,
    "cnn": cnn,
    "attention": Attention,
    "scaled attention": Scaled,
    "transformer": lambda: nn.Sequential(
        nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), nn.Flatten(), nn.Linear(80, 3)
    ),
    "lstm": lambda: Recurrent(nn.LSTM),
    "lstm without bias": lambda: Recurrent(nn.LSTM, bias=False),
    "gru": lambda: Recurrent(nn.GRU),
    "rnn": lambda: Recurrent(nn.RNN),
    "embedding": Bag,
}
OPTIMIZERS: dict[str, Optimizer] = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1),
    "momentum": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "momentum, foreach": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, foreach=True),
    "momentum, one by one": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, foreach=False),
    "adam": lambda p: torch.optim.Adam(p, 0.01),
    "adam, one by one": lambda p: torch.optim.Adam(p, 0.01, foreach=False),
    "adamw": lambda p: torch.optim.AdamW(p, 0.01, amsgrad=True),
    "adamw, foreach": lambda p: torch.optim.AdamW(p, 0.01, foreach=True),
    "adamw, fused": lambda p: torch.optim.AdamW(p, 0.01, fused=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, 0.01, momentum=0.5),
    "adadelta": lambda p: torch.optim.Adadelta(p),
}


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
    ours, cpu = (train(MODELS[name], place, OPTIMIZERS["sgd"]) for place in (simulated.NAME, "cpu"))
    assert ours == pytest.approx(cpu, rel=2e-5, abs=1e-6)


@pytest.mark.parametrize("early", [False, True], ids=["made after the move", "made before the move"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_works_as_on_the_cpu(name: str, early: bool) -> None:
    ours, cpu = (train(mlp, place, OPTIMIZERS[name], early) for place in (simulated.NAME, "cpu"))
    assert ours == pytest.approx(cpu, rel=1e-4, abs=1e-5)


def test_dropout_draws_the_same_mask_as_the_cpu(device: torch.device) -> None:
    for drop in (F.dropout, F.dropout1d, F.alpha_dropout):
        masks = []
        for place in ("cpu", device):
            torch.manual_seed(3)
            masks.append(simulated.values(drop(torch.ones(4, 50, device=place), 0.4, True)))
        assert masks[0].equal(masks[1])
        assert masks[0].unique().numel() == 2


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


@pytest.mark.parametrize(
    "loss",
    [
        lambda x, y: F.mse_loss(x, x.detach().roll(1, 0)),
        lambda x, y: F.binary_cross_entropy_with_logits(x[:, 0], y.float().clamp(0, 1), pos_weight=x.new_tensor([2.0])),
        lambda x, y: F.nll_loss(F.log_softmax(x, 1), y, weight=x.new_tensor([1.0, 2.0, 3.0]), ignore_index=2),
        lambda x, y: F.cross_entropy(x, F.one_hot(y, 3).float(), label_smoothing=0.1),
        lambda x, y: F.huber_loss(x, torch.zeros_like(x)) + F.l1_loss(x, torch.ones_like(x)),
        lambda x, y: F.kl_div(F.log_softmax(x, 1), F.softmax(x.detach().flip(0), 1), reduction="batchmean"),
        lambda x, y: F.triplet_margin_loss(x, x.roll(1, 0), x.roll(2, 0)) + F.cosine_embedding_loss(x, -x, y * 0 + 1),
    ],
)  # fmt: skip
def test_losses_and_their_gradients_agree(loss: Callable[[Tensor, Tensor], Tensor], device: torch.device) -> None:
    x, y = torch.randn(6, 3), torch.tensor([0, 1, 2, 0, 1, 1])
    gradients = []
    for place in ("cpu", device):
        leaf = x.clone().to(place).requires_grad_()
        loss(leaf, y.to(place)).backward()
        gradients.append(simulated.values(leaf.grad))
    torch.testing.assert_close(gradients[1], gradients[0])
