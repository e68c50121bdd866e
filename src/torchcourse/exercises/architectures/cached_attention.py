"""The exercise `cached_attention`: its probe, visible cases and hints."""

from __future__ import annotations

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import float32_digits, kept, kind, look


def probe(answer: Watched, q: Tensor, k: Tensor, v: Tensor, split: list[int]) -> Observations:
    """Observe the outputs of calls on the pieces of a sequence, and of further calls with the first cache."""
    before = {"q": q.clone(), "k": k.clone(), "v": v.clone()}
    pieces = list(zip(*(torch.split(t, split, dim=2) for t in (q, k, v)), strict=True))
    cache, outputs = None, []
    first_cache: object = None
    for number, piece in enumerate(pieces):
        returned = answer(*piece) if number == 0 else answer(*piece, cache=cache)
        if not (isinstance(returned, tuple) and len(returned) == 2 and isinstance(returned[0], Tensor)):
            return {"returned": kind(returned)}
        outputs.append(returned[0])
        cache = returned[1]
        first_cache = cache if number == 0 else first_cache
        if outputs[-1].shape != piece[0].shape:
            return {"shape of an output": tuple(outputs[-1].shape)}
    seen = look(torch.cat(outputs, dim=2), q)
    if len(pieces) > 1:
        seen["the second piece, tried again"], again = answer(*pieces[1], first_cache)
    if len(pieces) > 2:  # the first piece is continued in two ways, and then the first of them
        answer(*pieces[2], first_cache)
        seen["the third piece, after another try"] = answer(*pieces[2], again)[0]
    return {**seen, **kept(q=(q, before["q"]), k=(k, before["k"]), v=(v, before["v"]))}


def split_case(draw: Draw, name: str, split: list[int], dtype: torch.dtype = torch.float32, score: float = 0.0) -> Case:
    """Return the case of a drawn sequence, in pieces of these lengths; `score` is added to all scores."""
    to_ten_digits = dtype == torch.float64
    d = 4 if to_ten_digits else draw.size(4, 5)  # a root of 4 that somebody takes in float32 is right as well
    b, h, s = 2, draw.size(2, 3), sum(split)
    rtol, atol = (1e-10, 1e-12) if to_ten_digits else (1e-3, 1e-2 if score else 1e-5)
    q, k, v = (draw.normal(b, h, s, d, dtype=dtype) for _ in range(3))
    if score:
        q[..., 0], k[..., 0] = score * d**0.5, 1.0
    return case(name, rtol=rtol, atol=atol, q=q, k=k, v=v, split=split)


def cases(draw: Draw) -> list[Case]:
    return [
        split_case(draw, "one call", [5]),
        split_case(draw, "a prompt, then one token at a time", [3, 1, 1, 1]),
        split_case(draw, "one token at a time from the start", [1, 1, 1, 1]),
        split_case(draw, "two pieces of several tokens", [2, 4]),
        split_case(draw, "three pieces of several tokens", [3, 2, 4]),
        split_case(draw, "float64", [2, 2], torch.float64),
        split_case(draw, "large scores", [2, 3], score=120.0),
    ]


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    if not isinstance(seen.get("result"), Tensor) or seen["result"].shape != wanted["result"].shape:
        return {}
    wrong = ((seen["result"] - wanted["result"]).abs() > 1e-4).amax((0, 1, 3)).nonzero().flatten().tolist()
    return {"wrong": wrong}


EXERCISE = Exercise(
    "cached_attention",
    probe,
    cases,
    hints=(
        "Along which dimension of (b, h, t, d) do the new keys come behind the old ones, and in which order? What has "
        "the next call to know, the new ones or all?",
        "Of `new` queries and `known` keys in all: at which position of the sequence stands query 0, and up to which "
        "key may it look? Which `diagonal` of `tril` says that?",
        "`torch.cat` makes a new tensor. A list or dict that you write into is still the caller's. What happens to "
        "somebody who calls twice with the same cache?",
    ),
    derive=float32_digits,
    quotes=quotes,
)
