"""A known mistake: how to explain it, and what its program does in each case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from torchcourse.model.observations import Observations, Tolerance, differing

__all__ = ["KnownMistake"]


@dataclass(frozen=True)
class KnownMistake:
    """`sentence` has fields as in `differences.difference`; `section` is the heading to reread; `seen` takes a device's
    name and the index of a case, and returns what the mistake's program does there, None if not known."""

    name: str
    sentence: str
    section: str
    seen: Callable[[str, int], Observations | None]
    _differs: dict[tuple[str, int], list[str]] = field(default_factory=dict, compare=False, repr=False)

    def differs(self, device: str, number: int, wanted: Observations, tolerance: Tolerance) -> list[str] | None:
        """Return the names of the observations in which the mistake's program differs from the wanted ones.

        Compared once per device and case; later calls must pass the same `wanted` and `tolerance`.

        Returns:
            None if it is not known what the program does in the case.
        """
        seen = self.seen(device, number)
        if seen is None:
            return None
        key = (device, number)
        if key not in self._differs:
            self._differs[key] = differing(seen, wanted, tolerance)
        return self._differs[key]
