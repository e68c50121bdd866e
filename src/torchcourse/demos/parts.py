"""What the models of lesson 11 are built from: learners' own classes once they pass, and torch's own until then."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from torchcourse.checking.check import examine

__all__ = ["Block", "mask_of", "sentences", "yours"]

ANIMALS = ("cat", "dog", "fox", "hen", "owl", "pig")
PLACES = ("in the barn", "by the pond", "on the hill", "near the gate")
VERBS = ("sleeps", "waits", "sings", "runs")


def yours(name: str, namespace: dict[str, Any]) -> Any:
    """Return the answer called `name` if it passes its check, else None; print which."""
    passed = name in namespace and examine(name, namespace).passed
    print(f"{name}: yours" if passed else f"{name}: yours does not pass yet, so torch's own stands in")
    return namespace[name] if passed else None


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
