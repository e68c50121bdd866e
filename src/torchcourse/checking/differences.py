"""Say in words how an observation differs from the wanted one."""

from __future__ import annotations

from itertools import combinations, islice
from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.result import Result
from torchcourse.model.observations import Raised, Tolerance, Value, agree

__all__ = ["brief", "describe_difference", "difference", "difference_texts", "worst"]

MAX_TEXT_LENGTH, MAX_ITEMS = 160, 8
FEW_DIGITS = 1e-6
"""A difference of a few roundings in float32, as a share of the largest value."""
NUMBERS = (Tensor, int, float, complex, list, tuple)


def difference(result: Result, name: str) -> dict[str, str]:
    """Return the fields that every sentence may use, for the observation `name`.

    `case` and `what` are names; `got` and `want` short forms; `at`, `got_at` and `want_at` the index where a tensor is
    farthest off and the entries there; `got_shape`, `want_shape`, `got_dtype` and `want_dtype` describe tensors;
    `error` is an exception.
    """
    got, want = result.seen.get(name), result.wanted.get(name)
    texts = [_list_of_names(got, want) if _are_lists_of_texts(got, want) else brief(got), brief(want)]
    if texts[0] == texts[1] and not isinstance(got, Tensor) and name in result.seen and name in result.wanted:
        path, *texts = difference_texts(result, name)
        place = path.removeprefix(name)
        texts[0] += f" {'in item' if ' at ' in texts[0] else 'at'} {place}" if place else ""
    fields = {"case": result.case.name, "what": name, "got": texts[0], "want": texts[1]}
    if isinstance(got, Tensor) and isinstance(want, Tensor):
        fields |= {"got_shape": str(tuple(got.shape)), "want_shape": str(tuple(want.shape))}
        fields |= {"got_dtype": brief(got.dtype), "want_dtype": brief(want.dtype)}
        if got.shape == want.shape and got.numel():
            index = worst(got, want)
            at = str(list(index)) if index else "the only element"
            got_at, want_at = _distinct_texts(got[index], want[index])
            fields |= {"at": at, "got_at": got_at, "want_at": want_at}
            fields |= {"got": f"{got_at} at {at}", "want": want_at} if index else {}
    if "raised" in result.seen:
        fields |= {"what": "the call", "got": brief(result.seen["raised"])}
    elif name not in result.seen and "returned" in result.seen:
        fields["got"] = brief(result.seen["returned"])
    errors = [brief(value) for value in result.seen.values() if isinstance(value, Raised)]
    return fields | ({"error": errors[0]} if errors else {})


def worst(got: Tensor, want: Tensor) -> tuple[int, ...]:
    """Return the index at which two tensors of one shape differ most; a NaN differs most of all."""
    got, want = got.to(torch.complex128), want.to(torch.complex128)  # torch does not compare float8 with other types
    gap = (got - want).abs()
    gap = gap.where(~(got.isnan() & want.isnan()) & (got != want), torch.zeros_like(gap))
    place, index = int(gap.nan_to_num(nan=torch.inf, posinf=torch.inf).argmax()), list[int]()
    for size in reversed(got.shape):  # torch.unravel_index imports sympy, which an alarm may cut short
        place, last = divmod(place, size)
        index.insert(0, last)
    return tuple(index)


def brief(value: Value) -> str:
    """Return a plain value in a few characters, for a sentence."""
    if isinstance(value, Tensor):
        return _brief_tensor(value)
    if isinstance(value, float | complex):
        return f"{value:.4g}"
    if isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    if isinstance(value, str | Raised):
        return _shortened(str(value))
    if isinstance(value, dict):
        inner = ", ".join(f"{key!r}: {brief(item)}" for key, item in islice(value.items(), MAX_TEXT_LENGTH))
        return _shortened(f"a dict with {inner}") if value else "an empty dict"
    if isinstance(value, list | tuple) and len(value) > MAX_ITEMS:
        return f"a {type(value).__name__} of {len(value)} items"
    if isinstance(value, list | tuple):
        inner = ", ".join(map(brief, value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' * (len(value) == 1)})"
    return _shortened(str(value))


def _shortened(text: str) -> str:
    if len(text) <= MAX_TEXT_LENGTH:
        return text
    start = text[: MAX_TEXT_LENGTH - 3]
    return (start[: start.rfind(" ")] if " " in start else start).rstrip(" .,:;(") + "..."


def describe_difference(result: Result, name: str) -> str:
    """Describe how the observation `name` differs from the wanted one."""
    if name not in result.seen:
        return f"`{name}` is missing"
    if name not in result.wanted:
        got = result.seen[name]
        text = f'"{got}"' if isinstance(got, str) else brief(got)
        return f"`{name}` raised {got}" if isinstance(got, Raised) else f"`{name}` is {text} where nothing is wanted"
    got, want = result.seen[name], result.wanted[name]
    related = relation(got, want, result.case.tolerance) if isinstance(got, Tensor) and isinstance(want, Tensor) else ""
    name, *texts = difference_texts(result, name)
    return f"`{name}` is {texts[0]} where {texts[1]} is wanted" + (f" ({related})" if related else "")


def relation(got: Tensor, want: Tensor, tolerance: Tolerance) -> str:
    """Say by what simple change a tensor becomes the wanted one: a factor, a sum, another order, or more digits; "" if
    by none."""
    if (
        got.dtype != want.dtype
        or got.numel() != want.numel()
        or len(set(want.flatten().tolist())) < 3
        or want.is_complex()
    ):
        return ""
    mine, wanted = got.to(torch.float64), want.to(torch.float64)
    if not bool(mine.isfinite().all() and wanted.isfinite().all()):
        return ""
    if got.shape != want.shape:
        return _swapped(got, want, tolerance)
    largest = int(wanted.abs().argmax())
    factor = (mine.flatten()[largest] / wanted.flatten()[largest]).item()
    if factor and agree(mine, factor * wanted, tolerance):
        if f"{factor:.4g}" == "-1":
            return "the sign of every value is the other one"
        return f"every value is {factor:.{4 if abs(factor - 1) > 0.001 else 7}g} times as large"
    more = (mine - wanted).flatten()[largest].item()
    if agree(mine, wanted + more, tolerance):
        return f"every value is too {'large' if more > 0 else 'small'} by {abs(more):.4g}"
    for dim in range(want.dim()):
        if agree(got, want.flip(dim), tolerance):
            return f"the same values, in reverse order along dimension {dim}"
    if got.dtype == torch.float64 and _has_few_digits(mine, wanted):
        return "the first digits agree, as when something is computed in float32"
    return _swapped(got, want, tolerance)


def _has_few_digits(got: Tensor, want: Tensor) -> bool:
    """Return whether most values are off by a few roundings in float32 at most, and none by more."""
    near = bool((got - want).abs().max() <= FEW_DIGITS * want.abs().max())
    return near and 2 * int((got != want).sum()) > want.numel()


def _swapped(got: Tensor, want: Tensor, tolerance: Tolerance) -> str:
    for one, other in combinations(range(want.dim()), 2):
        swapped = want.transpose(one, other)
        if swapped.shape == got.shape and agree(got, swapped, tolerance):
            return f"the same values, with dimensions {one} and {other} swapped"
    return ""


def difference_texts(result: Result, name: str) -> tuple[str, str, str]:
    """Return where in the observation `name` a case differs, and what came out and what is wanted, as different texts.

    Raises:
        KeyError: if the observation was not seen, or is not wanted.
    """
    got, want = result.seen[name], result.wanted[name]
    if brief(got) == brief(want):
        name, got, want = _first_difference(name, got, want, result.case.tolerance)
    if isinstance(got, Tensor) and isinstance(want, Tensor):
        if got.shape == want.shape and got.dtype == want.dtype and got.numel() > 1:
            index = worst(got, want)
            texts = _distinct_texts(got[index], want[index])
            return name, f"{texts[0]} at {list(index)}", texts[1]
        if got.dtype != want.dtype:
            return name, f"{brief(got)} of {brief(got.dtype)}", f"{brief(want)} of {brief(want.dtype)}"
    if _are_lists_of_texts(got, want):
        return name, _list_of_names(got, want), brief(want)
    texts = _distinct_texts(got, want)
    return name, texts[0], texts[1]


def _are_lists_of_texts(got: Value, want: Value) -> bool:
    return isinstance(got, list) and isinstance(want, list) and {type(item) for item in [*got, *want]} == {str}


def _list_of_names(got: Any, want: Any) -> str:
    """Return a list of texts; of a long one only its length, and those that it has too many or too few."""
    if max(len(got), len(want)) <= MAX_ITEMS or got == want:
        return brief(got)
    more, less = ([item for item in one if item not in other][:3] for one, other in ((got, want), (want, got)))
    parts = [f"with {', '.join(more)}"] * bool(more) + [f"without {', '.join(less)}"] * bool(less)
    return f"a list of {len(got)} items" + "".join(f" {part}" for part in parts)


def _distinct_texts(got: Value, want: Value) -> list[str]:
    """Return two values as texts that differ: in quotation marks, with more digits, or with their types."""
    texts = [brief(got), brief(want)]
    if isinstance(got, str) and isinstance(want, str) and texts[0] != texts[1]:
        return [f'"{text}"' for text in texts]
    if texts[0] == texts[1] and type(got) is type(want) and _is_a_number(got) and _is_a_number(want):
        return _with_more_digits(*(side.item() if isinstance(side, Tensor) else side for side in (got, want)))
    tensor_or_not = isinstance(got, Tensor) is not isinstance(want, Tensor)
    if texts[0] == texts[1] or (tensor_or_not and isinstance(got, NUMBERS) and isinstance(want, NUMBERS)):
        kinds = [type(value).__name__ for value in (got, want)]
        return [
            f"{text} ({'an' if kind[0] in 'aeiou' else 'a'} {kind})" for text, kind in zip(texts, kinds, strict=True)
        ]
    return texts


def _is_a_number(value: Value) -> bool:
    return isinstance(value, float) or (isinstance(value, Tensor) and value.numel() == 1)


def _with_more_digits(got: Any, want: Any) -> list[str]:
    """Return two numbers with a digit more than tells them apart; with all digits if nothing does."""
    if isinstance(got, float | complex) and isinstance(want, float | complex):
        for digits in range(5, 17):
            few, more = [[f"{value:.{n}g}" for value in (got, want)] for n in (digits, digits + 1)]
            if few[0] != few[1] and more[0] != more[1]:  # rounded to one digit more, they may agree again
                return more
    return [str(got), str(want)]


def _first_difference(name: str, got: Any, want: Any, tolerance: Tolerance) -> tuple[str, Value, Value]:
    """Return the path to the first difference in two nested containers, and the two values there."""
    while type(got) is type(want) and isinstance(got, dict | list | tuple) and _places(got) == _places(want):
        place = next((p for p in _places(want) if not agree(got[p], want[p], tolerance)), None)
        if place is None:
            break
        name, got, want = f"{name}[{place!r}]", got[place], want[place]
    return name, got, want


def _places(container: Any) -> list[Any]:
    return sorted(container) if isinstance(container, dict) else list(range(len(container)))


def _brief_tensor(tensor: Tensor) -> str:
    if tensor.dim() == 0:
        number = tensor.item()
        return f"{number:.4g}" if isinstance(number, float | complex) else str(number)
    if tensor.numel() <= 6 and tensor.dim() == 1:
        return "[" + ", ".join(_brief_tensor(item) for item in tensor) + "]"
    return f"a tensor of shape {tuple(tensor.shape)}"
