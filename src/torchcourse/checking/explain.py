"""Compare observations with the reference's, and explain differences by known mistakes, for every exercise alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from torchcourse.model.exercise import Case, Exercise
from torchcourse.model.known_mistake import KnownMistake
from torchcourse.model.observations import FORBIDDEN, Observations, Raised, Tolerance, Value, agree, differing

__all__ = [
    "Result", "brief", "compare", "compare_derived", "derive", "describe_difference", "difference", "difference_texts",
    "explain", "fill_sentence", "unexplained", "worst",
]  # fmt: skip

MAX_TEXT_LENGTH = 160
MAX_NAMED = 3
MIN_REPRODUCED, MIN_SHARE = 2, 0.25
"""A mistake whose symptoms are only partly shown is named if it reproduces at least this many cases, and this share of
the failed ones."""
NUMBERS = (Tensor, int, float, complex, list, tuple)
Triple = tuple[str, int, str]
"""Device, number of the case, name of the observation."""


@dataclass(frozen=True)
class Result:
    """A case, by its index `number`, on a device: the derived observations `seen` and `wanted`, and which differ."""

    case: Case
    number: int
    device: str
    seen: Observations
    wanted: Observations
    differs: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return not self.differs

    @property
    def is_strong_evidence(self) -> bool:
        """Whether it failed by a value, or by an exception with a recognised reason."""
        error = self.seen.get("raised")
        return not self.passed and not (isinstance(error, Raised) and not error.reason)


def compare(
    exercise: Exercise, case: Case, number: int, device: str, raw: Observations, wanted: Observations
) -> Result:
    """Return the result of one case from raw observations; `wanted` are derived already."""
    return compare_derived(case, number, device, derive(exercise, case, raw), wanted)


def compare_derived(case: Case, number: int, device: str, seen: Observations, wanted: Observations) -> Result:
    """Return the result of one case from derived observations."""
    return Result(case, number, device, seen, wanted, tuple(differing(seen, wanted, case.tolerance)))


def derive(exercise: Exercise, case: Case, raw: Observations) -> Observations:
    """Return the properties that are compared, from raw observations; malformed ones are returned unchanged.

    Forbidden calls stay among them.
    """
    if "raised" in raw:
        return raw
    try:
        derived = exercise.derive(case, raw)
    except Exception:  # raw observations come from an untrusted process
        return raw
    return {**derived, FORBIDDEN: raw[FORBIDDEN]} if raw.get(FORBIDDEN) else derived


def explain(results: Sequence[Result], known: Iterable[KnownMistake]) -> list[KnownMistake]:
    """Return the mistakes that explain an answer, the one that explains most first; at most `MAX_NAMED`.

    A mistake's symptoms are the (device, case, observation) triples in which its program differs from what is wanted.
    The mistake is present if the answer shows all of its symptoms with the mistake's own values, or agrees with its
    program in every failed case. Of the mistakes present, the fewest that cover most of what is wrong are returned;
    mistakes that show in as many cases which the answer passed as they explain only where the others leave most of it.

    If those leave most of what is wrong unexplained, two mistakes may be entangled, so that their values show only in
    cases where one of them does not matter: see `_reproduced`. Then the mistake that reproduces most cases is returned,
    if there is one such.

    Exceptions without a recognised reason are weak evidence. If nothing else is wrong, a mistake has to agree with the
    answer in every case, and some case must have passed.
    """
    wrong = {triple for r in results for triple in _wrong(r)}
    candidates = [(mistake, _covered(results, mistake)) for mistake in known] if wrong else []
    consistent = [(mistake, covered) for mistake, covered in candidates if _is_consistent(results, mistake, covered)]
    for kept in (consistent, candidates):
        chosen, left = _fewest(results, kept, wrong)
        if 2 * len(left) <= len(wrong):
            return chosen
    return _most_reproduced(results, [mistake for mistake, _ in candidates])


def _fewest(
    results: Sequence[Result], candidates: Sequence[tuple[KnownMistake, set[Triple]]], wrong: set[Triple]
) -> tuple[list[KnownMistake], set[Triple]]:
    """Return the fewest mistakes that cover most of what is wrong, and what they leave."""
    chosen: list[KnownMistake] = []
    left = set(wrong)
    while left and len(chosen) < MAX_NAMED:
        gain = max((len(covered & left) for _, covered in candidates), default=0)
        if not gain:
            break
        rivals = [(mistake, covered) for mistake, covered in candidates if len(covered & left) == gain]
        mistake, covered = max(rivals, key=lambda rival: sum(_agrees(r, rival[0]) for r in results))
        chosen.append(mistake)
        left -= covered
    return chosen, left


def _is_consistent(results: Sequence[Result], mistake: KnownMistake, covered: set[Triple]) -> bool:
    """Return whether a mistake is wrong in fewer cases that the answer passed than it explains."""
    explained = {(device, number) for device, number, _ in covered}
    return bool(covered) and sum(_symptoms(r, mistake) != set() for r in results if r.passed) < len(explained)


def _most_reproduced(results: Sequence[Result], known: Sequence[KnownMistake]) -> list[KnownMistake]:
    """Return the mistake that reproduces the most cases of an answer; none if there are several, or none.

    Return none if most failed cases raised an unrecognised exception: the exception itself says more.
    """
    failed = [r for r in results if not r.passed]
    if 2 * sum(r.is_strong_evidence for r in failed) <= len(failed):
        return []
    counts = [len({number for _, number, _ in _reproduced(results, mistake)}) for mistake in known]
    most, enough = max(counts, default=0), max(MIN_REPRODUCED, MIN_SHARE * len({r.number for r in failed}))
    best = [mistake for mistake, count in zip(known, counts, strict=True) if count == most >= enough]
    return best if len(best) == 1 else []


def unexplained(results: Sequence[Result], mistakes: Sequence[KnownMistake]) -> list[tuple[Result, list[str]]]:
    """Return the results that `mistakes` leave unexplained, each with the names of the observations that differ."""
    covered = {t for mistake in mistakes for t in _covered(results, mistake) or _reproduced(results, mistake)}
    left = [(r, sorted(name for _, _, name in _wrong(r) - covered)) for r in results]
    return [(result, names) for result, names in left if names]


def _wrong(result: Result) -> set[Triple]:
    """Return the triples in which an answer differs from what is wanted in a case."""
    return _triples(result, result.seen, result.differs)


def _triples(result: Result, seen: Observations, differs: Sequence[str]) -> set[Triple]:
    """Return the triples of a case in which observations differ from the wanted ones; an exception counts once."""
    names = ("raised",) if differs and "raised" in seen else differs
    return {(result.device, result.number, name) for name in names}


def _covered(results: Sequence[Result], mistake: KnownMistake) -> set[Triple]:
    """Return the triples of an answer that a mistake explains: none if the mistake is not present."""
    failed = [r for r in results if not r.passed]
    is_strong = any(r.is_strong_evidence for r in failed)
    if all(_agrees(r, mistake) for r in failed):
        enough = is_strong or len(failed) < len(results) == sum(_agrees(r, mistake) for r in results)
        return {triple for r in failed for triple in _wrong(r)} if enough else set()
    covered: set[Triple] = set()
    evidence = False
    for result in sorted(results, key=lambda r: r.passed):
        if result.passed and not evidence:  # it cannot be present, so its program need not run in what passed
            return set()
        symptoms = _symptoms(result, mistake)
        if symptoms is None:
            return set()
        covered |= symptoms
        evidence = evidence or (bool(symptoms) and result.is_strong_evidence)
    return covered if evidence else set()


def _reproduced(results: Sequence[Result], mistake: KnownMistake) -> set[Triple]:
    """Return what is wrong in the cases in which a mistake's program does by value what the answer did.

    None of it counts if the mistake shows in a case that passed, or in an observation that is right in the answer.
    """
    covered: set[Triple] = set()
    for result in results:
        mistaken = mistake.seen(result.device, result.number)
        if mistaken is None:
            return set()
        differs = differing(mistaken, result.wanted, result.case.tolerance)
        raises = "raised" in mistaken or "raised" in result.seen
        if differs and (result.passed or not (raises or set(differs) <= set(result.differs))):
            return set()
        if result.is_strong_evidence and agree(result.seen, mistaken, result.case.tolerance):
            covered |= _wrong(result)
    return covered


def _symptoms(result: Result, mistake: KnownMistake) -> set[Triple] | None:
    """Return the symptoms of a mistake in a case; None if they are unknown, or the answer does not show them all."""
    mistaken = mistake.seen(result.device, result.number)
    if mistaken is None:
        return None
    differs = differing(mistaken, result.wanted, result.case.tolerance)
    symptoms = _triples(result, mistaken, differs)
    shown = all(_agrees_on(result, mistaken, name) for _, _, name in symptoms)
    return symptoms if shown else None


def _agrees_on(result: Result, mistaken: Observations, name: str) -> bool:
    if name not in mistaken or name not in result.seen:
        return name not in mistaken and name not in result.seen
    return agree(result.seen[name], mistaken[name], result.case.tolerance)


def _agrees(result: Result, mistake: KnownMistake) -> bool:
    mistaken = mistake.seen(result.device, result.number)
    return mistaken is not None and agree(result.seen, mistaken, result.case.tolerance)


def fill_sentence(exercise: Exercise, mistake: KnownMistake, results: Sequence[Result]) -> str:
    """Return the sentence of a mistake, with its fields filled in from a failed case that shows it.

    A case in which all fields are known is preferred, and then one that fails by value.
    """
    failed = [r for r in results if not r.passed]
    shows = [r for r in failed if _symptoms(r, mistake)] or [r for r in failed if _matters(r, mistake)] or failed
    shows.sort(key=lambda r: (not r.is_strong_evidence, not _agrees(r, mistake)))
    sentences = [_fill_in(exercise, mistake, r) for r in shows]
    return next((sentence for sentence, complete in sentences if complete), sentences[0][0])


def _matters(result: Result, mistake: KnownMistake) -> bool:
    mistaken = mistake.seen(result.device, result.number)
    return mistaken is not None and not agree(mistaken, result.wanted, result.case.tolerance)


class _Fields(dict[str, Any]):
    """Fields of a sentence; an unknown one becomes an ellipsis and is added to `unknown`."""

    def __init__(self, fields: dict[str, Any], unknown: list[str]) -> None:
        super().__init__(fields)
        self.unknown = unknown

    def __missing__(self, key: str) -> str:
        self.unknown.append(key)
        return "…"


def _fill_in(exercise: Exercise, mistake: KnownMistake, result: Result) -> tuple[str, bool]:
    """Return a mistake's sentence with its fields filled in from `result`, and whether all of them are known.

    If several observations differ, the sentence quotes the first that the mistake gets wrong too.
    """
    unknown: list[str] = []
    mistaken = mistake.seen(result.device, result.number) or {}
    own = [n for n in differing(mistaken, result.wanted, result.case.tolerance) if n in result.differs]
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
    """Return the fields that every sentence may use, for the observation `name`.

    `case` and `what` are names; `got` and `want` short forms; `at`, `got_at` and `want_at` the index where a tensor is
    farthest off and the entries there; `got_shape`, `want_shape`, `got_dtype` and `want_dtype` describe tensors;
    `error` is an exception.
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
    errors = [brief(value) for value in result.seen.values() if isinstance(value, Raised)]
    return fields | ({"error": errors[0]} if errors else {})


def worst(got: Tensor, want: Tensor) -> tuple[int, ...]:
    """Return the index at which two tensors of one shape differ most; a NaN differs most of all."""
    gap = (got.to(torch.complex128) - want.to(torch.complex128)).abs()
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
    if isinstance(value, list | tuple) and len(value) > 8:
        return f"{type(value).__name__} of {len(value)} items"
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
    name, *texts = difference_texts(result, name)
    return f"`{name}` is {texts[0]} where {texts[1]} is wanted"


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
    texts = _distinct_texts(got, want)
    return name, texts[0], texts[1]


def _distinct_texts(got: Value, want: Value) -> list[str]:
    """Return two values as texts that differ: in quotation marks, with all digits, or with their types."""
    texts = [brief(got), brief(want)]
    if isinstance(got, str) and isinstance(want, str) and texts[0] != texts[1]:
        return [f'"{text}"' for text in texts]
    if texts[0] == texts[1] and isinstance(got, float | Tensor) and type(got) is type(want):
        return [str(side.item() if isinstance(side, Tensor) else side) for side in (got, want)]
    tensor_or_not = isinstance(got, Tensor) is not isinstance(want, Tensor)
    if texts[0] == texts[1] or (tensor_or_not and isinstance(got, NUMBERS) and isinstance(want, NUMBERS)):
        kinds = [type(value).__name__ for value in (got, want)]
        return [
            f"{text} ({'an' if kind[0] in 'aeiou' else 'a'} {kind})" for text, kind in zip(texts, kinds, strict=True)
        ]
    return texts


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
