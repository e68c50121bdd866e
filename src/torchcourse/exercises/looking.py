"""What probes are made of: small observations that many exercises share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor

from torchcourse.exercise import Case
from torchcourse.observations import Observations, Raised

__all__ = ["growth", "kept", "look", "refusal", "where"]


def where(tensor: object, like: Tensor) -> str:
    """On which device a result lives, in words that are the same in every lane when it follows its input."""
    if not isinstance(tensor, Tensor):
        return "no tensor"
    return "the input's" if tensor.device == like.device else str(tensor.device)


def look(result: object, like: Tensor) -> dict[str, Any]:
    """A returned tensor's values, shape and dtype (as `result`) and whether it lives where `like` does."""
    return {"result": result, "device": where(result, like)}


def kept(**inputs: tuple[Tensor, Tensor]) -> dict[str, Any]:
    """For each input, as (now, before): whether its values are what they were."""
    return {
        f"{name} afterwards": "as before" if _same(now, before) else now
        for name, (now, before) in inputs.items()
    }  # fmt: skip


def _same(now: Tensor, before: Tensor) -> bool:
    return now.shape == before.shape and bool(((now == before) | (now.isnan() & before.isnan())).all())


def refusal(call: Callable[[], object], argument: str, got: Iterable[str]) -> dict[str, Any]:
    """How a call that should raise ValueError ends.

    The wording is the learner's choice; whether it names the `argument` and tells one of the values `got` is observed.
    """
    try:
        result = call()
    except ValueError as error:
        message = str(error)
        named = "names the argument" if argument in message else "does not name the argument"
        told = "tells what it got" if any(g in message for g in got) else "does not tell what it got"
        return {"refused with": Raised("ValueError", message[:200], f"{named}, {told}")}
    except Exception as error:
        return {"refused with": Raised(type(error).__name__, str(error).split("\n")[0][:200])}
    words = f"a tensor of shape {tuple(result.shape)}" if isinstance(result, Tensor) else type(result).__name__
    return {"refused with": f"no exception but {words}"}


def growth(case: Case, seen: Observations) -> Observations:
    """A derivation: of the numbers of torch calls for a small and a larger input, whether they grow."""
    small, large = seen["torch calls"]
    words = "grows with the input" if large > small else "is the same for a larger input"
    return {**seen, "torch calls": words}

