"""What the models of the lessons are built from: learners' own answers once they pass, and torch's own until then."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torchvision.models.resnet import BasicBlock, conv1x1

from torchcourse.checking.check import report_on
from torchcourse.checking.failed_case import was_right

__all__ = ["Block", "Residual", "mask_of", "sentences", "still_open", "yours"]

ANIMALS = ("cat", "dog", "fox", "hen", "owl", "pig")
PLACES = ("in the barn", "by the pond", "on the hill", "near the gate")
VERBS = ("sleeps", "waits", "sings", "runs")


def yours(name: str, namespace: dict[str, Any], stand_in: str = "torch's own") -> Any:
    """Return the answer called `name` if it passes its check, else None; print which, or what stands in for it.

    Args:
        name: the name of the exercise.
        namespace: the notebook's global names.
        stand_in: what the lesson goes on with otherwise; "" where it only compares.
    """
    passed, instead = _passes(name, namespace), f"{stand_in} stands in" if stand_in else "there is nothing to compare"
    print(f"{name}: yours" if passed else f"{name}: yours does not pass yet, so {instead}")
    return namespace[name] if passed else None


def still_open(namespace: dict[str, Any], *names: str) -> list[str]:
    """Return which of these answers do not pass their checks yet, and print what waits for them."""
    missing = [name for name in names if not _passes(name, namespace)]
    if missing:
        print(f"This waits for {' and '.join(missing)}. Run the cell again when the check says right.")
    return missing


def _passes(name: str, namespace: dict[str, Any]) -> bool:
    """Return whether an answer is right; what the notebook has just checked is not checked again."""
    return name in namespace and (was_right(name, namespace[name]) or report_on(name, namespace).passed)


class Residual(BasicBlock):  # type: ignore[misc]  # torchvision has no types
    """torchvision's residual block, made as the exercise's is: `(in_channels, out_channels, stride)`."""

    def __init__(self, in_channels: int, out_channels: int, stride: int = 1) -> None:
        around = None
        if (in_channels, 1) != (out_channels, stride):
            around = nn.Sequential(conv1x1(in_channels, out_channels, stride), nn.BatchNorm2d(out_channels))
        super().__init__(in_channels, out_channels, stride, around)


class Block(nn.TransformerEncoderLayer):
    """torch's own pre-norm block, called as the exercise's is: `(dim, heads)`, then `(x, mask)`, True = may attend."""

    def __init__(self, dim: int, heads: int, mlp_ratio: int = 4, *, norm_first: bool = True) -> None:
        super().__init__(dim, heads, mlp_ratio * dim, 0.0, "gelu", batch_first=True, norm_first=norm_first)

    def forward(self, x: Tensor, may_attend: Tensor | None = None) -> Tensor:  # type: ignore[override]
        forbidden = None if may_attend is None else ~may_attend.reshape(-1, *may_attend.shape[-2:])[0]
        return super().forward(x, forbidden)


def mask_of(real: Tensor, causal: bool = False) -> Tensor:
    """Return the causal mask `(1, 1, t, t)` of sequences without padding, from torch's own function."""
    assert causal, "the lesson's language model has no padding and looks back only"
    return (nn.Transformer.generate_square_subsequent_mask(real.shape[1], device=real.device) == 0)[None, None]


def sentences(count: int, seed: int = 0) -> str:
    """Return a text of short made-up sentences, such as "the old fox waits by the pond."."""
    generator = torch.Generator().manual_seed(seed)

    def one_of(words: tuple[str, ...]) -> str:
        return words[int(torch.randint(len(words), (), generator=generator))]

    made = (f"the {one_of(('old', 'small', 'wet'))} {one_of(ANIMALS)} {one_of(VERBS)} {one_of(PLACES)}."
            for _ in range(count))  # fmt: skip
    return "\n".join(made)
