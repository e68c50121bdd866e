"""Lesson 05's rules: what lies in a module of torch that an answer may not use is seen under any name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from autograde.oracle import VISIBLE_SEED, references
from torchcourse.exercise import Draw, exercises
from torchcourse.probing import observe
from torchcourse.watching import Watch

LESSON = "05_training"


class Inherited(torch.optim.AdamW):
    pass


class Wrapped(torch.optim.Optimizer):
    def __init__(self, params: Any, **options: Any) -> None:
        self.inner = torch.optim.Adam(params, **options)
        super().__init__(self.inner.param_groups, {})

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        self.inner.step()


def forbidden(name: str, answer: Callable[..., Any]) -> Any:
    exercise = exercises(LESSON)[name]
    return observe(exercise, answer, exercise.cases(Draw(VISIBLE_SEED))[0])["forbidden calls"]


@pytest.mark.parametrize("answer", [Inherited, Wrapped, torch.optim.AdamW])
def test_an_optimizer_of_torch_is_seen_and_named(answer: type) -> None:
    name, *_ = forbidden("AdamW", answer)
    assert name in ("torch.optim.adamw.AdamW", "torch.optim.adam.Adam")


def test_torchs_clipping_is_seen_and_named() -> None:
    clip = torch.nn.utils.clip_grad_norm_
    assert forbidden("clip_gradients", lambda p, m: float(clip(p, m)))[0].startswith("torch.nn.utils.clip_grad.")


@pytest.mark.parametrize("loss", [torch.nn.functional.cross_entropy, torch.nn.CrossEntropyLoss()])
def test_torchs_cross_entropy_is_seen(loss: Callable[..., Any]) -> None:
    assert forbidden("cross_entropy", loss) == ["cross_entropy"]


@pytest.mark.parametrize("name", ["cross_entropy", "clip_gradients", "AdamW"])
def test_the_references_call_nothing_forbidden(name: str) -> None:
    assert forbidden(name, references(LESSON)[name]) == []


def test_our_adamw_follows_torchs_over_fifty_steps() -> None:
    generator, ways = torch.Generator().manual_seed(0), list[torch.Tensor]()
    gradients = torch.randn(50, 7, generator=generator)
    for make in (references(LESSON)["AdamW"], torch.optim.AdamW):
        p = torch.nn.Parameter(torch.linspace(-3, 3, 7))
        optimizer = make([p], lr=0.05, weight_decay=0.3, betas=(0.8, 0.95), eps=1e-3)
        for gradient in gradients:
            p.grad = gradient.clone()
            optimizer.step()
        ways.append(p.detach())
    torch.testing.assert_close(*ways)


def test_only_the_modules_named_are_noted() -> None:
    with Watch(["torch.optim.sgd"]) as watch:
        torch.optim.Adam([torch.zeros(1, requires_grad=True)])
        torch.optim.SGD([torch.zeros(1, requires_grad=True)])
    assert watch.forbidden(["torch.optim.sgd", "torch.optim.adam"]) == ["torch.optim.sgd.SGD"]
