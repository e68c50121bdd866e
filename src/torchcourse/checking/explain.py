"""Explain how observations differ from the wanted ones by known mistakes, for every exercise alike."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from torchcourse.checking.differences import brief, difference
from torchcourse.checking.result import Result
from torchcourse.model.exercise import Exercise
from torchcourse.model.known_mistake import KnownMistake
from torchcourse.model.observations import Observations, agree

__all__ = ["explain", "fill_sentence", "unexplained"]

MAX_NAMED = 3
MIN_REPRODUCED, MIN_SHARE = 2, 0.25
"""A mistake whose symptoms are only partly shown is named if it reproduces at least this many cases, and this share of
the failed ones."""
Triple = tuple[str, int, str]
"""Device, number of the case, name of the observation."""


def explain(results: Sequence[Result], known: Iterable[KnownMistake]) -> list[KnownMistake]:
    """Return the mistakes that explain an answer, the one that explains most first; at most `MAX_NAMED`.

    A mistake's symptoms are the (device, case, observation) triples in which its program differs from what is wanted.
    The mistake is present if the answer shows all of its symptoms with the mistake's own values, or agrees with its
    program in every failed case. Of the mistakes present, the fewest that cover most of what is wrong are returned. A
    mistake whose symptoms appear in at least as many passed cases as failed cases it explains is considered only if the
    others leave most of it uncovered.

    If those leave most of what is wrong unexplained, two mistakes may be entangled, so that their values show only in
    cases where one of them does not matter: see `_reproduced`. Then the mistake that reproduces most cases is returned,
    if there is one such.

    Exceptions without a recognised reason are weak evidence. If nothing else is wrong, a mistake has to agree with the
    answer in every case, with exceptions in similar words, and some case must have passed.
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
    """Return whether the mistake fails fewer of the cases that the answer passed than it explains failed ones."""
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
        everywhere = len(failed) < len(results) == sum(_agrees(r, mistake) for r in results)
        enough = is_strong or (everywhere and all(_raises_alike(r, mistake) for r in failed))
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
        mistaken, differs = mistake.seen(result.device, result.number), _differs(result, mistake)
        if mistaken is None or differs is None:
            return set()
        raises = "raised" in mistaken or "raised" in result.seen
        if differs and (result.passed or not (raises or set(differs) <= set(result.differs))):
            return set()
        if result.is_strong_evidence and agree(result.seen, mistaken, result.case.tolerance):
            covered |= _wrong(result)
    return covered


def _symptoms(result: Result, mistake: KnownMistake) -> set[Triple] | None:
    """Return the symptoms of a mistake in a case; None if they are unknown, or the answer does not show them all."""
    mistaken, differs = mistake.seen(result.device, result.number), _differs(result, mistake)
    if mistaken is None or differs is None:
        return None
    symptoms = _triples(result, mistaken, differs)
    shown = all(_agrees_on(result, mistaken, name) for _, _, name in symptoms)
    return symptoms if shown else None


def _differs(result: Result, mistake: KnownMistake) -> list[str] | None:
    return mistake.differs(result.device, result.number, result.wanted, result.case.tolerance)


def _agrees_on(result: Result, mistaken: Observations, name: str) -> bool:
    if name not in mistaken or name not in result.seen:
        return name not in mistaken and name not in result.seen
    return agree(result.seen[name], mistaken[name], result.case.tolerance)


def _raises_alike(result: Result, mistake: KnownMistake) -> bool:
    """Return whether the exceptions of an answer and a mistake have most words in common, sizes and names aside."""
    raised = (result.seen.get("raised"), (mistake.seen(result.device, result.number) or {}).get("raised"))
    mine, its = (set(re.findall(r"[a-z]{3,}", str(error).lower())) for error in raised)
    return 2 * len(mine & its) >= min(len(mine), len(its))


def _agrees(result: Result, mistake: KnownMistake) -> bool:
    mistaken = mistake.seen(result.device, result.number)
    return mistaken is not None and agree(result.seen, mistaken, result.case.tolerance)


def fill_sentence(exercise: Exercise, mistake: KnownMistake, results: Sequence[Result]) -> tuple[str, Result]:
    """Return the sentence of a mistake, with its fields filled in from a failed case that shows it, and that case.

    A case in which all fields are known is preferred, and then one that fails by value.
    """
    failed = [r for r in results if not r.passed]
    shows = [r for r in failed if _symptoms(r, mistake)] or [r for r in failed if _differs(r, mistake)] or failed
    shows.sort(key=lambda r: (not r.is_strong_evidence, not _agrees(r, mistake)))
    filled = ((*_fill_in(exercise, mistake, r), r) for r in shows)
    sentence, complete, result = next(filled)
    if complete:
        return sentence, result
    return next(((other, r) for other, complete, r in filled if complete), (sentence, result))


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
    mistaken = _differs(result, mistake)
    own = [name for name in result.differs if mistaken is None or name in mistaken]
    fields = _Fields(difference(result, (own or result.differs)[0]), unknown)
    fields |= {"device": brief(result.seen.get("device"))} if "device" in own else {}
    fields |= {name: brief(value) for name, value in result.case.inputs.items()}
    try:
        special = exercise.quotes(result.case.inputs, result.seen, result.wanted)
        fields |= {name: brief(value) for name, value in special.items()}
    except Exception:  # observations of an unforeseen form: the fields keep their ellipsis
        pass
    return mistake.sentence.format_map(fields).replace("!.", "!"), not unknown
