"""The exercise `attention_mask`: its probe, visible cases and hints."""

from __future__ import annotations

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import kept, look


def probe(answer: Watched, real: Tensor, options: dict[str, bool]) -> Observations:
    """Observe the mask, and that `real` stays as it was."""
    before = real.clone()
    return {**look(answer(real, **options), real), **kept(real=(real, before))}


def masked(name: str, lengths: list[int], t: int, **options: bool) -> Case:
    """Return the case of sequences padded at the end to `t` steps."""
    return case(name, real=torch.arange(t) < torch.tensor(lengths)[:, None], options=options)


def cases(draw: Draw) -> list[Case]:
    t = draw.size(4, 5)
    gaps = torch.tensor([[False, True, True, False, True], [True, False, False, True, True]])
    return [
        masked("padding", [t - 1, 2, t], t),
        masked("padding, causal", [t - 1, 2, t], t, causal=True),
        masked("nothing is padding, causal", [3], 3, causal=True),
        masked("as many sequences as steps, causal", [1, 2, 3], 3, causal=True),
        masked("a sequence that is all padding", [0, 3], 4, causal=False),
        masked("one step", [1, 0], 1, causal=True),
        case("padding in front and between", real=gaps, options={}),
        case("padding in front and between, causal", real=gaps, options={"causal": True}),
    ]


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    mask, want, real = seen["result"], wanted["result"], inputs["real"]
    if mask.shape != want.shape or mask.dtype != torch.bool:
        return {}
    t = real.shape[1]
    ahead = torch.ones(t, t, dtype=torch.bool).triu(1)
    return {
        "at_padding": int((mask & ~real[:, None, None, :]).sum()),
        "ahead": int((mask & ahead).sum()),
        "own": int((mask & torch.eye(t, dtype=torch.bool)).sum()),
        "want_own": int((want & torch.eye(t, dtype=torch.bool)).sum()),
        "rows": int((mask.any(-1)[:, 0] & ~real).sum()),
        "want_rows": int((want.any(-1)[:, 0] & ~real).sum()),
        "allowed": int(mask.sum()),
        "want_allowed": int(want.sum()),
    }


EXERCISE = Exercise(
    "attention_mask",
    probe,
    cases,
    hints=(
        "In (b, 1, t, t), which of the last two dimensions is the query and which the key? Along which of them does "
        "`real` have to lie, and where do its new dimensions of one go?",
        "A triangle says who is ahead. Which of `tril` and `triu` keeps keys that are not ahead of their query, and "
        "does it keep the diagonal?",
        "Two conditions hold at once: which operator joins them? And on which device is the triangle made?",
    ),
    quotes=quotes,
)
