"""Read and write rosters: the students of a class, in a CSV file that some other program may have exported.

Bad rows are left out and reported, with line and remedy; the other rows count. A class's own roster may have none.
"""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from operator import attrgetter
from pathlib import Path

from autograde.batch.student_names import MARKUP, printable_name
from autograde.errors import ClassError
from autograde.files import writing_atomically
from autograde.results.grades_table import is_formula
from torchcourse.model.catalogue import LESSONS

__all__ = [
    "IDENTITY",
    "Fault",
    "Member",
    "Roster",
    "RosterError",
    "merged",
    "read_roster",
    "read_whole_roster",
    "write_roster",
]

IDENTITY = re.compile(r"\w[\w.@-]{0,99}")
"""The form of an id: part of names of folders and of nbgrader's submissions (`id+lesson+time`), and a table cell."""
MAX_NAME_LENGTH = 120
DELIMITERS = ",;\t"


class RosterError(ClassError):
    """A roster cannot be read, or rows of it cannot be used; the message names the place and the remedy."""


@dataclass(frozen=True)
class Member:
    """A student. `lms_user_id` is their number in Canvas, if known, `group` the group that they hand in with; only `id`
    must not be empty. `place` is the row that names them, for messages."""

    id: str
    first_name: str = ""
    last_name: str = ""
    email: str = ""
    lms_user_id: str = ""
    group: str = ""
    place: str = field(default="", compare=False)


@dataclass(frozen=True)
class Fault:
    """A row that was left out, or is in doubt: its line, the student it names if it names one, and the reason with the
    remedy."""

    line: int
    student: str
    reason: str

    def __str__(self) -> str:
        return f"line {self.line}, {self.student or 'no id'}: {self.reason}"


@dataclass(frozen=True)
class Roster:
    """The students in the order of the file, the rows that were left out, and those that count although letters of
    their names seem to be lost."""

    members: tuple[Member, ...] = ()
    faults: tuple[Fault, ...] = ()
    doubts: tuple[Fault, ...] = ()


COLUMNS = tuple(field.name for field in fields(Member) if field.name != "place")
UNIQUE = {"id": "id", "email": "e-mail address", "lms_user_id": "lms_user_id"}
"""The columns whose cells belong to one student alone, whatever their case, and what to call them."""


def read_roster(path: Path) -> Roster:
    """Read a CSV file with a header: id, and any of first_name, last_name, email, lms_user_id, group.

    Cells are separated by commas, semicolons or tabs; the encoding is UTF-8, UTF-16 or cp1252.

    Raises:
        RosterError: when the file is missing, is no CSV file or has no column `id`.
    """
    text, is_unicode = _decoded(path)
    header = text.split("\n", 1)[0]
    delimiter = max(DELIMITERS, key=header.count)
    table = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    members: list[Member] = []
    faults: list[Fault] = []
    doubts: list[Fault] = []
    taken: dict[tuple[str, str], Member] = {}
    try:
        names = [re.sub(r"\s+", "_", name.strip().lower()) for name in next(table, [])]
        if "id" not in names or len(set(names)) < len(names):
            raise RosterError(f"{path}:1: the header names {', '.join(names) or 'nothing'}; a roster has the column id "
                              f"and may have {', '.join(COLUMNS[1:])}, each once.")  # fmt: skip
        for row in table:
            if not any(cell.strip() for cell in row):
                continue
            cells = dict(zip(names, (unicodedata.normalize("NFC", cell.strip()) for cell in row), strict=False))
            place = f"line {table.line_num} of {path}"
            member = Member(**{name: cells.get(name, "") for name in COLUMNS}, place=place)
            reason = _too_long(row, names) or _fault(member) or _clash(member, taken)
            if reason:
                faults.append(Fault(table.line_num, _shown(member), reason))
                continue
            members.append(member)
            if doubt := _doubt(member, is_unicode or bool(doubts)):
                doubts.append(Fault(table.line_num, _shown(member), doubt))
    except csv.Error as error:
        raise RosterError(f"{path}:{table.line_num}: this is no CSV file ({error}).") from None
    return Roster(tuple(members), tuple(faults), tuple(doubts))


def read_whole_roster(path: Path) -> tuple[Member, ...]:
    """Read a roster in which every row has to be valid, since a student who is left out would not be missed.

    Raises:
        RosterError: as `read_roster` does, and when a row is bad.
    """
    roster = read_roster(path)
    if roster.faults:
        raise RosterError(f"{path} is damaged, so that students would be left out: correct it and run this again. "
                          + " ".join(map(str, roster.faults)))  # fmt: skip
    return roster.members


def merged(before: Iterable[Member], more: Iterable[Member]) -> list[Member]:
    """Return the students of two rosters; the later row counts for those who are on both.

    Raises:
        RosterError: when two students would have the same id but for its case, e-mail address or number.
    """
    members = list({member.id: member for member in (*before, *more)}.values())
    taken: dict[tuple[str, str], Member] = {}
    clashes = [f"{member.place}, {member.id}: {why}" for member in members if (why := _clash(member, taken))]
    if clashes:
        raise RosterError(f"Nothing was written. {' '.join(clashes)}")
    return members


def write_roster(path: Path, members: Iterable[Member]) -> None:
    """Write a roster that `read_roster` reads back."""
    with writing_atomically(path) as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(COLUMNS)
        table.writerows(map(attrgetter(*COLUMNS), members))


def _decoded(path: Path) -> tuple[str, bool]:
    """Return the text of a file, and whether it says its letters itself: bytes of cp1252 may be meant as others."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RosterError(f"{path} cannot be read: {error.strerror}.") from None
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace"), True
    try:
        return data.decode("utf-8-sig"), True
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace"), False


def _too_long(row: Sequence[str], names: Sequence[str]) -> str:
    if len(row) <= len(names):
        return ""
    return f"it has {len(row)} cells and the header {len(names)}; put a name with a comma in quotes."


def _fault(member: Member) -> str:
    """Return what is wrong with a row by itself and the remedy, in one sentence; "" if nothing is wrong."""
    if not member.id:
        return "the id is blank; every student needs one."
    for name in COLUMNS:
        cell = getattr(member, name)
        if is_formula(cell):
            return f"the {name} {cell[:40]!a} is a formula to spreadsheets; write it without its first character."
        if not cell.isprintable() or len(cell) > MAX_NAME_LENGTH:
            return f"the {name} holds characters that do not print, or more than {MAX_NAME_LENGTH}; correct it."
        if found := sorted(set(MARKUP).intersection(cell)):
            return f"the {name} holds {' '.join(found)}, which nbgrader's pages take for HTML; leave that out."
    if not IDENTITY.fullmatch(member.id):
        return "an id names folders: up to 100 letters, digits and . _ - @, beginning with a letter or digit."
    if member.id in LESSONS:
        return "an id names folders, and this one is the name of a lesson."
    if member.email and not re.fullmatch(r"[^@\s]+@[^@\s]+", member.email):
        return f"{member.email!a} is no e-mail address; correct it or leave it empty."
    return ""


def _doubt(member: Member, is_unicode: bool) -> str:
    """Return why letters of a student's name seem to be lost and the remedy, in one sentence; "" if none do."""
    name, remedy = _name(member), "save the roster as UTF-8 and run this again."
    if "?" in name or "\ufffd" in name:
        return f"a letter of {name} is lost: {remedy}"
    if not is_unicode and not name.isascii():
        return f"the file is not UTF-8 and was read as cp1252, with this name as {name}: if that is wrong, {remedy}"
    return ""


def _clash(member: Member, taken: dict[tuple[str, str], Member]) -> str:
    """Return, in one sentence with the remedy, which cell of a row another student already has; "" if none, after
    adding the row to `taken`.

    Args:
        taken: the students of earlier rows, by each cell that belongs to one student alone.
    """
    own = [(column, getattr(member, column).casefold()) for column in UNIQUE if getattr(member, column)]
    for column, cell in own:
        other = taken.get((column, cell))
        if other and column == "id":
            return f"an earlier row has this id ({other.place}), for {_name(other)}; give each an id of their own."
        if other:
            whose = f"the {UNIQUE[column]} of {other.id} in {other.place}"
            return f"{getattr(member, column)} is already {whose}; correct it or leave it empty."
    taken.update(dict.fromkeys(own, member))
    return ""


def _name(member: Member) -> str:
    return f"{member.first_name} {member.last_name}".strip() or member.id


def _shown(member: Member) -> str:
    """Return the student that a bad row names, safe to print on a terminal."""
    shown = member.id or f"{member.first_name} {member.last_name}".strip() or member.email
    return printable_name(shown, MAX_NAME_LENGTH)
