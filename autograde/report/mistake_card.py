"""Show the card that a known mistake gets, from what the build stored: no answer runs."""

from __future__ import annotations

from autograde.course.selection import visible_results
from torchcourse.checking.card import Shown, bundle
from torchcourse.checking.card_details import CardDetails
from torchcourse.checking.report import judge
from torchcourse.model import stored_observations
from torchcourse.model.catalogue import UnknownExerciseError, find

__all__ = ["mistake_card", "show_mistake"]


def mistake_card(exercise: str, mistake: str) -> dict[str, str]:
    """Return the card of a known mistake, by MIME type; empty if the exercise has no such mistake, or if visible cases
    do not show it.

    Where programs of several kinds make the mistake, the card is that of the first.
    """
    try:
        lesson, known = find(exercise)
    except UnknownExerciseError:
        return {}
    stored = stored_observations.load(lesson)[exercise]
    programs = stored.known_mistakes()
    for program in programs:
        if program.name == mistake:
            report = judge(known, visible_results(known, stored, program), programs)
            if not report.passed:
                return bundle(Shown(report, CardDetails(lesson=lesson)))
    return {}


def show_mistake(exercise: str, mistake: str) -> None:
    """Display the card of a known mistake in a notebook."""
    from IPython.display import display

    display(mistake_card(exercise, mistake), raw=True)
