"""What probes are made of: small observations that many exercises share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from torchcourse.exercise import Case
from torchcourse.observations import Observations, Raised, raised
from torchcourse.probing import Watched

__all__ = ["cost", "growth", "kept", "kind", "look", "of_one_tensor", "refusal", "where"]

GROWING, STEADY = "growing with the number of rows", "the same for any number of rows"


def kind(value: object) -> str:
    """What sort of thing an answer returned, in words."""
    if value is None:
        return "nothing: a `return` is missing, or has no value"
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    return f"a value of type {type(value).__name__}"


def where(tensor: Tensor, like: Tensor) -> str:
    """On which device a result lives, in words that are the same in every lane when it follows its input."""
    return "the input's" if tensor.device == like.device else str(tensor.device)


def look(result: object, like: Tensor) -> dict[str, Any]:
    """A returned tensor's values, shape and dtype (as `result`) and whether it lives where `like` does."""
    if not isinstance(result, Tensor):
        return {"returned": kind(result)}
    return {"result": result, "device": where(result, like)}


def kept(**inputs: tuple[Tensor, Tensor]) -> dict[str, Any]:
    """For each input, as (now, before): whether its values are what they were."""
    return {
        f"{name} afterwards": "as before" if _same(now, before) else "changed"
        for name, (now, before) in inputs.items()
    }  # fmt: skip


def of_one_tensor(answer: Watched, x: Tensor) -> dict[str, Any]:
    """The probe of an answer that makes one tensor of another, which it leaves as it was."""
    before = x.clone()
    return {**look(answer(x), x), **kept(x=(x, before))}


def _same(now: Tensor, before: Tensor) -> bool:
    if now.shape != before.shape:
        return False
    if now.dtype == before.dtype and torch.equal(now, before):  # one operator, and nearly always the answer
        return True
    return bool(((now == before) | (now.isnan() & before.isnan())).all())


def refusal(call: Callable[[], object], argument: str, got: Iterable[str]) -> dict[str, Any]:
    """How a call that should raise ValueError ends.

    The wording is the learner's choice; whether it names the `argument` and tells one of the values `got` is observed.
    One of the `labels` may be called a label.
    """
    try:
        result = call()
    except ValueError as error:
        message = str(error)
        known = argument.removesuffix("s") in message.lower()
        named = "names the argument" if known else "does not name the argument"
        told = "tells what it got" if any(g in message for g in got) else "does not tell what it got"
        return {"refused with": Raised("ValueError", message[:200], f"{named}, {told}")}
    except Exception as error:
        return {"refused with": Raised(type(error).__name__, str(error).split("\n")[0][:200])}
    return {"refused with": f"no exception but {kind(result)}"}


def cost(answer: Watched, *args: Tensor) -> tuple[int, ...] | Raised:
    """What a call costs (see `Watched.spent`), whatever it returns."""
    try:
        answer(*args)
    except Exception as error:
        return raised(error)
    return answer.spent


def growth(_case: Case, seen: Observations) -> Observations:
    """A derivation: of what a call costs with few rows and with more, what grows."""
    small, large = seen["cost"]
    rest = {name: value for name, value in seen.items() if name != "cost"}
    for outcome in (small, large):
        if isinstance(outcome, Raised):
            return {**rest, "outcome for more rows": outcome}
    calls, operators, handed = (more > less for less, more in zip(small, large, strict=True))
    return {
        **rest,
        "torch calls": GROWING if calls or operators else STEADY,
        "elements handed to Python": GROWING if handed else STEADY,
    }

