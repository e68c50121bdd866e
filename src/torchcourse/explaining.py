"""From observations to a verdict: right where they agree with the reference's, else explained by the mistake that
reproduces them. There is no judging code per exercise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from torchcourse.exercise import Case, Exercise
from torchcourse.observations import Observations, Raised, Tolerance, Value, agree, differing

__all__ = ["Known", "Result", "brief", "compare", "compared", "derived", "difference", "explain", "quoted", "told"]

LONGEST_TEXT = 160


@dataclass(frozen=True)
class Result:
    """One case on one lane: what was seen, what was wanted, and under which names they differ."""

    case: Case
    number: int
    lane: str
    seen: Observations
    wanted: Observations
    differs: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return not self.differs

    @property
    def by_value(self) -> bool:
        """Whether this failure is more than an exception of no known cause."""
        error = self.seen.get("raised")
        return not self.passed and not (isinstance(error, Raised) and not error.reason)


@dataclass(frozen=True)
class Known:
    """A known mistake as data. `seen(lane, number)` is what its program does in that case, None if not known.

    Mistakes made together have their names joined by "+", and are `parts` of the one that stands for both.
    """

    name: str
    sentence: str
    read: str
    seen: Callable[[str, int], Observations | None]
    parts: tuple[Known, ...] = ()


def compare(
    exercise: Exercise, case: Case, number: int, lane: str, raw: Observations, wanted: Observations
) -> Result:
    """The result of one case; `wanted` are derived observations of the reference."""
    return compared(case, number, lane, derived(exercise, case, raw), wanted)


def compared(case: Case, number: int, lane: str, seen: Observations, wanted: Observations) -> Result:
    """The result of one case where what was seen is derived already."""
    return Result(case, number, lane, seen, wanted, tuple(differing(seen, wanted, case.tolerance)))


def derived(exercise: Exercise, case: Case, raw: Observations) -> Observations:
    """The properties that raw observations have. Observations that no honest answer gives stay as they are."""
    if "raised" in raw:
        return raw
    try:
        return exercise.derive(case, raw)
    except Exception:  # raw observations come from a process that nobody trusts
        return raw


def explain(results: Sequence[Result], known: Iterable[Known]) -> Known | None:
    """The mistake whose program reproduces every failed case; the one that agrees in most cases where several do.

    Exceptions alone say little: where no case failed by value, the mistake has to agree in every case, and some must
    have passed.
    """
    failed = [r for r in results if not r.passed]
    by_value = any(r.by_value for r in failed)
    best, most = None, 0
    for mistake in known:
        if all(_same(r, mistake) for r in failed):
            agreed = sum(_same(r, mistake) for r in results)
            enough = by_value or len(failed) < len(results) == agreed
            best, most = (mistake, agreed) if enough and agreed > most else (best, most)
    return best


def _same(result: Result, mistake: Known) -> bool:
    theirs = mistake.seen(result.lane, result.number)
    return theirs is not None and agree(result.seen, theirs, result.case.tolerance)


def quoted(exercise: Exercise, mistake: Known, results: Sequence[Result]) -> str:
    """The sentence of a mistake, its fields filled from a failed case that shows it: one in which all of them are
    known, and that fails by value, where there is such a case."""
    if mistake.parts:
        return " Also: ".join(quoted(exercise, part, results) for part in mistake.parts)
    failed = [r for r in results if not r.passed]
    shows = [r for r in failed if _matters(r, mistake)] or failed
    shows.sort(key=lambda r: (not r.by_value, not _same(r, mistake)))
    filled = [_filled(exercise, mistake, r) for r in shows]
    return next((sentence for sentence, whole in filled if whole), filled[0][0])


def _matters(result: Result, mistake: Known) -> bool:
    theirs = mistake.seen(result.lane, result.number)
    return theirs is not None and not agree(theirs, result.wanted, result.case.tolerance)


class _Fields(dict[str, Any]):
    """Fields of a sentence; one that is not known becomes an ellipsis, and is remembered in `unknown`."""

    def __init__(self, fields: dict[str, Any], unknown: list[str]) -> None:
        super().__init__(fields)
        self.unknown = unknown

    def __missing__(self, key: str) -> str:
        self.unknown.append(key)
        return "…"


def _filled(exercise: Exercise, mistake: Known, result: Result) -> tuple[str, bool]:
    """A mistake's sentence with its fields filled from what was observed in `result`, and whether all of them are
    known.

    Where several things differ, the sentence quotes the first that the mistake gets wrong too.
    """
    unknown: list[str] = []
    theirs = mistake.seen(result.lane, result.number) or {}
    own = [n for n in differing(theirs, result.wanted, result.case.tolerance) if n in result.differs]
    fields = _Fields(difference(result, (own or result.differs)[0]), unknown)
    fields |= {"device": brief(result.seen.get("device"))} if "device" in own else {}
    fields |= {name: brief(value) for name, value in result.case.inputs.items()}
    try:
        special = exercise.quotes(result.case.inputs, result.seen, result.wanted)
        fields |= {name: brief(value) for name, value in special.items()}
    except Exception:  # observations of an unforeseen form: the fields keep their ellipsis
        pass
    return mistake.sentence.format_map(fields), not unknown


def difference(result: Result, name: str) -> dict[str, str]:
    """Fields for any exercise, of the difference under one name.

    `what` its name, `got` and `want` in short, `at`, `got_at`, `want_at` where a tensor is farthest off, `got_shape`,
    `want_shape`, `got_dtype`, `want_dtype`.
    """
    got, want = result.seen.get(name), result.wanted.get(name)
    fields = {"case": result.case.name, "what": name, "got": brief(got), "want": brief(want)}
    if isinstance(got, Tensor) and isinstance(want, Tensor):
        fields |= {"got_shape": str(tuple(got.shape)), "want_shape": str(tuple(want.shape))}
        fields |= {"got_dtype": brief(got.dtype), "want_dtype": brief(want.dtype)}
        if got.shape == want.shape and got.numel():
            index = worst(got, want)
            at = str(list(index)) if index else "the only element"
            got_at, want_at = brief(got[index]), brief(want[index])
            fields |= {"at": at, "got_at": got_at, "want_at": want_at}
            fields |= {"got": f"{got_at} at {at}", "want": want_at} if index else {}
    if "raised" in result.seen:
        fields |= {"what": "the call", "got": brief(result.seen["raised"])}
    return fields


def worst(got: Tensor, want: Tensor) -> tuple[int, ...]:
    """The index at which two tensors of one shape differ most; a NaN differs most of all."""
    gap = (got.to(torch.complex128) - want.to(torch.complex128)).abs()
    gap = gap.where(~(got.isnan() & want.isnan()) & (got != want), torch.zeros_like(gap))
    flat = gap.nan_to_num(nan=torch.inf, posinf=torch.inf).argmax()
    return tuple(int(i) for i in torch.unravel_index(flat, got.shape))


def brief(value: Value) -> str:
    """A plain value in a few characters, as a sentence quotes it."""
    if isinstance(value, Tensor):
        return _brief_tensor(value)
    if isinstance(value, float | complex):
        return f"{value:.4g}"
    if isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    if isinstance(value, str | Raised):
        return _shortened(str(value))
    if isinstance(value, dict):
        inner = ", ".join(f"{key!r}: {brief(item)}" for key, item in value.items())
        return _shortened(f"a dict with {inner}") if value else "an empty dict"
    if isinstance(value, list | tuple) and len(value) > 8:
        return f"{type(value).__name__} of {len(value)} items"
    if isinstance(value, list | tuple):
        inner = ", ".join(map(brief, value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' * (len(value) == 1)})"
    return _shortened(str(value))


def _shortened(text: str) -> str:
    if len(text) <= LONGEST_TEXT:
        return text
    kept = text[: LONGEST_TEXT - 3]
    return (kept[: kept.rfind(" ")] if " " in kept else kept).rstrip(" .,:;(") + "..."


def told(result: Result, name: str) -> str:
    """In words, how the observation `name` differs from what was wanted."""
    if name not in result.seen:
        return f"`{name}` is missing"
    got, want = result.seen[name], result.wanted.get(name)
    if name not in result.wanted:
        return f"`{name}` came out as {brief(got)}, which was not asked for"
    if brief(got) == brief(want):
        name, got, want = _inside(name, got, want, result.case.tolerance)
    texts = [brief(got), brief(want)]
    if isinstance(got, Tensor) and isinstance(want, Tensor):
        if got.shape == want.shape and got.dtype == want.dtype and got.numel() > 1:
            index = worst(got, want)
            texts = [brief(got[index]), brief(want[index])]
            texts = [str(side[index].item()) for side in (got, want)] if texts[0] == texts[1] else texts
            return f"`{name}` is {texts[0]} at {list(index)} where {texts[1]} is wanted"
        if got.dtype != want.dtype:
            texts = [f"{text} of {brief(tensor.dtype)}" for text, tensor in zip(texts, (got, want), strict=True)]
    elif texts[0] == texts[1] and isinstance(got, float) and isinstance(want, float):
        texts = [repr(got), repr(want)]
    elif texts[0] == texts[1] or isinstance(got, Tensor) is not isinstance(want, Tensor):
        texts = [f"{text} ({type(value).__name__})" for text, value in zip(texts, (got, want), strict=True)]
    return f"`{name}` is {texts[0]} where {texts[1]} is wanted"


def _inside(name: str, got: Any, want: Any, tolerance: Tolerance) -> tuple[str, Value, Value]:
    """The first difference inside of two containers that look alike in short, and where it is."""
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
