"""The result of a case: what was observed, compared with what the reference shows."""

from __future__ import annotations

from dataclasses import dataclass

from torchcourse.model.exercise import Case, Exercise
from torchcourse.model.observations import FORBIDDEN, Observations, Raised, differing

__all__ = ["Result", "compare", "compare_derived", "derive"]


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
