"""Autocast follows CUDA's lists."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from torchcourse.simulated import NAME, values
from torchcourse.simulated.autocast_lists import FLOAT32, FLOAT32_RESULT, LOWER_PRECISION, WIDEST

Call = Callable[[torch.Tensor], torch.Tensor]
LOWER: dict[str, Call] = {
    "linear": lambda x: F.linear(x, x),
    "matmul": lambda x: x @ x,
    "einsum": lambda x: torch.einsum("ij,jk->ik", x, x),
    "bmm": lambda x: torch.bmm(x[None], x[None]),
    "conv": lambda x: F.conv2d(x[None, None], x[None, None]),
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]),
    "lstm": lambda x: nn.LSTM(4, 2, device=NAME)(x)[0],
    "gru": lambda x: nn.GRU(4, 2, device=NAME)(x)[0],
    "baddbmm": lambda x: torch.baddbmm(x[None], x[None], x[None]),
}
FULL: dict[str, Call] = {
    "exp": lambda x: x.half().exp(),
    "softmax": lambda x: x.half().softmax(0),
    "log_softmax": lambda x: F.log_softmax(x.half(), 0),
    "sum": lambda x: x.half().sum(),
    "sum over a dimension": lambda x: x.half().sum(1),
    "norm": lambda x: x.half().norm(),
    "vector norm": lambda x: torch.linalg.vector_norm(x.half()),
    "pow": lambda x: x.half() ** 2,
    "layer_norm": lambda x: F.layer_norm(x.half(), (4,)),
    "cross_entropy": lambda x: F.cross_entropy(x.half(), torch.zeros(4, dtype=torch.int64, device=NAME)),
    "mse_loss": lambda x: F.mse_loss(x.half(), x.half()),
    "logits": lambda x: F.binary_cross_entropy_with_logits(x.half(), x.half()),
    "cumsum": lambda x: x.half().cumsum(0),
    "mixed cat": lambda x: torch.cat([x, x.half()]),
    "mixed addcmul": lambda x: torch.addcmul(x, x.half(), x.half()),
}
AS_IS: dict[str, Call] = {
    "relu": lambda x: x.half().relu(),
    "add": lambda x: x.half() + x.half(),
    "mean": lambda x: x.half().mean(),
    "cat": lambda x: torch.cat([x.half(), x.half()]),
    "sum with a dtype": lambda x: x.half().sum(dtype=torch.float16),
    "max_pool": lambda x: F.max_pool2d(x.half()[None], 2),
}


ALL = {**LOWER, **FULL, **AS_IS}


@pytest.mark.parametrize(
    ("name", "lower"), [*((name, torch.float16) for name in ALL), *((name, torch.bfloat16) for name in LOWER)]
)
def test_an_operator_runs_in_the_precision_of_its_list(name: str, lower: torch.dtype, device: torch.device) -> None:
    with torch.autocast(NAME, dtype=lower):
        result = ALL[name](torch.ones(4, 4, device=device))
    assert result.dtype == (torch.float32 if name in FULL else lower)


def test_double_precision_and_integers_are_never_cast(device: torch.device) -> None:
    with torch.autocast(NAME, dtype=torch.float16):
        x = torch.ones(4, 4, device=device, dtype=torch.float64)
        assert (x @ x).dtype == torch.float64
        assert x.exp().dtype == torch.float64
        assert x.long().sum().dtype == torch.int64


def test_binary_cross_entropy_is_refused(device: torch.device) -> None:
    x = torch.ones(4, device=device)
    with torch.autocast(NAME), pytest.raises(RuntimeError, match="unsafe to autocast"):
        F.binary_cross_entropy(x, x)
    with torch.autocast(NAME, enabled=False):
        assert F.binary_cross_entropy(x, x).item() == 0


def test_the_default_dtype_is_float16_as_on_cuda(device: torch.device) -> None:
    x = torch.ones(2, 2, device=device)
    with torch.autocast(device.type):
        assert torch.is_autocast_enabled(NAME)
        assert (x @ x).dtype == torch.float16
        with torch.autocast(NAME, enabled=False):
            assert (x @ x).dtype == torch.float32
    assert (x @ x).dtype == torch.float32


def test_autocast_of_other_devices_leaves_it_alone(device: torch.device) -> None:
    x = torch.ones(2, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (x.to(device) @ x.to(device)).dtype == torch.float32
        assert (x @ x).dtype == torch.bfloat16
    with torch.autocast(NAME):
        assert (x @ x).dtype == torch.float32


def test_a_model_under_autocast_gets_float32_gradients(device: torch.device) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    x, y = torch.randn(5, 4), torch.tensor([0, 1, 2, 0, 1])
    want = torch.autograd.grad(F.cross_entropy(model(x), y), [*model.parameters()])
    model.to(device)
    with torch.autocast(NAME, dtype=torch.bfloat16):
        loss = F.cross_entropy(model(x.to(device)), y.to(device))
    got = torch.autograd.grad(loss, [*model.parameters()])
    torch.testing.assert_close([values(g) for g in got], [*want], rtol=0.1, atol=0.02)


def test_every_listed_operator_exists() -> None:
    for name in (*LOWER_PRECISION, *FLOAT32, *FLOAT32_RESULT, *WIDEST):
        packet, _, overload = name.partition(".")
        assert hasattr(getattr(torch.ops.aten, packet), overload or "default"), name
