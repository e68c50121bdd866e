"""A right answer to `row_softmax`, and a card that compares with it."""

from __future__ import annotations

from torch import Tensor

from torchcourse.checking import card
from torchcourse.checking.card_details import card_details
from torchcourse.checking.report import Report

__all__ = ["right", "shown_card"]


def right(x: Tensor) -> Tensor:
    return (x - x.logsumexp(-1, keepdim=True)).exp()


def shown_card(report: Report) -> card.Shown:
    return card.Shown(report, card_details(report, right))
