"""Find whose submission an entry of a platform's archive is, from the name and number that the platform gave it.

Moodle puts the group in front of the name where people hand in as groups, and has no names where marking is anonymous
(mod/assign/classes/downloader.php): `Group 3-Ada Lovelace`, `Participant`, `Group 3-Participant`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache

from autograde.classroom.roster import Member

__all__ = ["by_moodle_name", "by_user", "group_called", "plain"]

PARTICIPANT = "participant"
NO_GROUP = "Default group"
"""What Moodle calls the group of those who are in none."""


def by_moodle_name(name: str, number: str, members: Sequence[Member]) -> list[Member]:
    """Return the students to whom Moodle gives this name; a group in front of the name has to be theirs on the roster.

    A participant whose name is hidden is the student with the id `participant-NUMBER`.

    Args:
        number: the participant's number in this assignment.
    """
    found = _by_name_or_number(name, number, members)
    for place, character in enumerate(name if not found else ""):
        if character == "-":
            anywhere = list(members) if plain(name[:place]) == plain(NO_GROUP) else []
            team = group_called(name[:place], members) or anywhere
            found += [m for m in _by_name_or_number(name[place + 1 :], number, team) if m not in found]
    return found


def by_user(user: str, name: str, members: Sequence[Member]) -> list[Member]:
    """Return the student with this number in Canvas, or else those with this name and no number on the roster."""
    known = [member for member in members if member.lms_user_id == user]
    return known or [member for member in _by_name(name, members) if not member.lms_user_id]


def group_called(name: str, members: Iterable[Member]) -> list[Member]:
    """Return the students in the group of this name."""
    return [m for m in members if m.group and plain(m.group) == plain(name)]


def _by_name_or_number(name: str, number: str, members: Iterable[Member]) -> list[Member]:
    if plain(name) in (PARTICIPANT, PARTICIPANT + number):
        return [m for m in members if m.id.casefold() == f"{PARTICIPANT}-{number}"]
    return _by_name(name, members)


def _by_name(name: str, members: Iterable[Member]) -> list[Member]:
    """Return the students with this full name, first or last name first."""
    wanted = plain(name)
    orders = ((m, plain(m.first_name), plain(m.last_name)) for m in members)
    return [m for m, first, last in orders if wanted and wanted in (first + last, last + first)]


@lru_cache(maxsize=10_000)  # each name of the roster is compared with each entry
def plain(name: str) -> str:
    """Return a name reduced to what both platforms keep: letters and digits, without accents and case."""
    decomposed = unicodedata.normalize("NFKD", name.casefold())
    return "".join(character for character in decomposed if character.isalnum())
