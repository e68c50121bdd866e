"""Small observations that many exercises share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeGuard

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from torchcourse.checking.operator_record import sharing_a_run
from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case
from torchcourse.model.observations import Observations, Raised, kind, raised

__all__ = [
    "costs", "float32_digits", "growth", "kept", "kind", "look", "moved_to", "numbers_of_rows", "of_one_tensor",
    "other_rows", "refusal", "same", "where",
]  # fmt: skip

GROWING, STEADY = "growing with the number of rows", "the same for any number of rows"


def where(tensor: Tensor, like: Tensor) -> str:
    """Describe the device of a result: "the input's" if they share it, else its name."""
    return "the input's" if tensor.device == like.device else str(tensor.device)


def look(result: object, like: Tensor) -> dict[str, Any]:
    """Observe a returned tensor, as `result`, and whether it is on the device of `like`.

    It is copied: what runs later, such as a backward pass of the answer's own, could still write into it.
    """
    if not isinstance(result, Tensor):
        return {"returned": kind(result)}
    return {"result": result.detach().clone(), "device": where(result, like)}


def kept(**inputs: tuple[Tensor, Tensor]) -> dict[str, Any]:
    """Observe for each input, given as (now, before), whether its values have changed."""
    return {
        f"{name} afterwards": "as before" if same(now, before) else "changed"
        for name, (now, before) in inputs.items()
    }  # fmt: skip


def of_one_tensor(answer: Watched, x: Tensor) -> dict[str, Any]:
    """Probe an answer that computes one tensor from another, which it may not change."""
    before = x.clone()
    return {**look(answer(x), x), **kept(x=(x, before))}


def same(now: Tensor, before: Tensor) -> bool:
    """Return whether two tensors have the same shape and values, NaN where NaN was."""
    if now.shape != before.shape:
        return False
    if now.dtype == before.dtype and torch.equal(now, before):  # one operator, nearly always enough
        return True
    return bool(((now == before) | (now.isnan() & before.isnan())).all())


def refusal(
    call: Callable[[], object], argument: str, got: Sequence[str], allowed: Iterable[str] = ()
) -> dict[str, Any]:
    """Observe the outcome of a call that should raise ValueError.

    The wording is the learner's choice; what counts is whether the message names the `argument` (or its singular; ""
    asks for none) and contains one of the values `got`; and besides that value, where `allowed` has any, one of these
    words or numbers.
    """
    try:
        result = call()
    except ValueError as error:
        message = str(error)
        known = argument.removesuffix("s") in message.lower()
        named = "names the argument" if known else "does not name the argument"
        value = "tells what it got" if any(g in message for g in got) else "does not tell what it got"
        if words := set(allowed):
            besides = re.split(rf"(?<!\d)(?:{'|'.join(map(re.escape, got))})(?!\d)", message.lower(), maxsplit=1)
            says = words & set(re.findall(r"[a-z_]+|\d+", " ".join(besides)))
            value += ", says what is allowed" if says else ", does not say what is allowed"
        return {"refused with": Raised("ValueError", message[:200], f"{named}, {value}")}
    except Exception as error:
        return {"refused with": Raised(type(error).__name__, str(error).split("\n")[0][:200])}
    return {"refused with": f"no exception but {kind(result)}"}


def costs(answer: Watched, calls: Sequence[Sequence[Any]], **options: Any) -> list[tuple[Any, ...] | Raised]:
    """Return the cost of each call (see `Watched.spent`) and its result, or what it raised.

    Args:
        answer: what is called.
        calls: the arguments of each call.
        options: keyword arguments of all.
    """
    outcomes: list[Any] = []
    with sharing_a_run():
        for args in calls:
            try:
                outcomes.append(answer(*args, **options))
            except Exception as error:
                outcomes.append(raised(error))
    spent = answer.spent(len(calls))
    return [each if isinstance(each, Raised) else (*cost, each) for cost, each in zip(spent, outcomes, strict=True)]


def numbers_of_rows(scored: int) -> tuple[int, int]:
    """Return two numbers of rows at which to measure a call's cost: half of `scored`, and `scored` itself, so that the
    scored call cannot be cheaper; 2 and 6 if `scored` is at most 2.
    """
    return (max(2, scored // 2), scored) if scored > 2 else (2, 6)


def other_rows(x: Tensor, count: int) -> Tensor:
    """Return `count` rows like those of `x`; where they are floats that differ, so do these, also from those of `x`.

    If `x` has no rows, they hold zeros.
    """
    x = x.detach() if len(x) else x.new_zeros(1, *x.shape[1:])
    rows = torch.cat([x] * -(-count // len(x)))[:count]
    if not x.is_floating_point():
        return rows
    factors = 1 + torch.arange(1, count + 1, dtype=x.dtype, device=x.device) / 32  # exact, so the same on each device
    return rows * factors.view(-1, *[1] * (x.dim() - 1))


def growth(_case: Case, seen: Observations) -> Observations:
    """Derive which costs grow with the number of rows; the result for more rows stays beside them.

    Without it, an answer could recognise the measurement by its input and return anything at no cost.
    """
    small, large = seen["cost"]
    rest = {name: value for name, value in seen.items() if name != "cost"}
    for outcome in (small, large):
        if isinstance(outcome, Raised):
            return {**rest, "outcome for more rows": outcome}
    calls, operators, handed = (more > less for less, more in zip(small[:3], large[:3], strict=True))
    return {
        **rest,
        "torch calls": GROWING if calls or operators else STEADY,
        "elements handed to Python": GROWING if handed else STEADY,
        "result for fewer rows": small[3],
        "result for more rows": large[3],
    }


def float32_digits(_case: Case, seen: Observations) -> Observations:
    """Replace float64 tensors, if the result (or the state h) among them was rounded to float32, by words.

    Which digits a sum in float32 ends with depends on the machine; that it has no others does not.
    """
    result = seen.get("result", seen.get("h"))
    if not (_is_float64(result) and result.numel() and torch.equal(result, result.float().double())):
        return seen
    return {name: _in_words(value) if _is_float64(value) else value for name, value in seen.items()}


def _is_float64(value: object) -> TypeGuard[Tensor]:
    return isinstance(value, Tensor) and value.dtype == torch.float64


def _in_words(tensor: Tensor) -> str:
    return f"a float64 tensor of shape {tuple(tensor.shape)} with the digits of float32 only"


def moved_to(value: Any, device: torch.device) -> Any:
    """Return plain data with its tensors on `device`."""
    return tree_map_only(Tensor, lambda tensor: tensor.to(device), value)
