"""A mask is respected where no derivative reaches a position that it forbids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from autograde.hidden.architectures.shared import Attention
from autograde.hidden.architectures.transformer_block import Block
from torchcourse.checking.check import report_on
from torchcourse.probes.attending import mask_respected

NAME = "forbidden positions that an output depends on"
CAUSAL = torch.ones(4, 4, dtype=torch.bool).tril()


class HardlyNegative(Attention):
    """Forbidden scores that no value shows, at least within the tolerance."""

    def masked(self, scores: Tensor, mask: Tensor) -> Tensor:
        return scores.masked_fill(~mask, float(scores.detach().amin()) - 5)


class CutOutAfterwards(Attention):
    """Right: forbidden shares are cut out after the softmax, and the rest is scaled up to 1 again."""

    def shares(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        shares = scores.softmax(-1) if mask is None else scores.softmax(-1) * mask
        return shares / shares.sum(-1, keepdim=True).clamp(min=1e-30)


class LooksAhead(Block):
    """A block that adds to each position a trace of the next one."""

    def first(self, x: Tensor, mask: Tensor | None) -> Any:
        return super().first(x, mask) + 4e-5 * x.roll(-1, dims=1)


def seen_by(module: nn.Module, mask: Tensor, heads: int = 1) -> Any:
    return mask_respected(module, torch.randn(2, 4, 8), mask, heads)[NAME]


@pytest.mark.parametrize("made", [Attention, CutOutAfterwards])
def test_who_respects_the_mask_depends_on_nothing_forbidden(made: Callable[..., nn.Module]) -> None:
    torch.manual_seed(0)
    real = torch.tensor([True, True, False, True]).expand(2, 1, 4, 4)
    for mask in (CAUSAL, CAUSAL[None, None], real, real & CAUSAL, ~CAUSAL, torch.ones(2, 2, 4, 4).bool()):
        assert seen_by(made(8, 2), mask, 2) == []


def test_a_glance_ahead_is_seen_pair_by_pair() -> None:
    torch.manual_seed(0)
    assert seen_by(LooksAhead(8, 2), CAUSAL[None, None]) == [(0, 1), (1, 2), (2, 3)]
    assert seen_by(HardlyNegative(8, 2), CAUSAL, 2) == [(i, j) for i in range(4) for j in range(i + 1, 4)]


def test_what_gives_no_gradient_is_not_judged() -> None:
    assert mask_respected(lambda x, _mask: x.detach(), torch.randn(2, 4, 8), CAUSAL) == {}
    assert mask_respected(lambda x, _mask: x[:, :2], torch.randn(2, 4, 8), CAUSAL) == {}


@pytest.mark.parametrize(("name", "answer"), [("MultiHeadAttention", HardlyNegative), ("TransformerBlock", LooksAhead)])
def test_a_leak_too_small_for_the_tolerance_fails_the_check(name: str, answer: type[nn.Module]) -> None:
    report = report_on(name, {name: answer})
    assert not report.passed
    assert NAME in report.message
