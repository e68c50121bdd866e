"""Submissions out of the archive that a learning platform gives its instructor: Moodle's and Canvas's.

Nothing of the archive is unpacked: each notebook is read with a cap, and written under the id on the roster. What is
unsafe, unknown or unclear is left out and named; the rest goes on.

How the platforms name files, read in their sources (Moodle's mod/assign/classes/downloader.php, Canvas's
lib/content_zipper.rb):

    Moodle  Ada Lovelace_1234567_assignsubmission_file/01_tensors.ipynb   (`…_file_/…` and `…_file_NAME` in older ones)
    Canvas  lovelaceada_LATE_40001_987654_01_tensors-1.ipynb              (name, LATE or not, user, attachment, file)

Moodle's number is that of a participant of this assignment, so there the name says who it is; Canvas's first number is
the user's, `lms_user_id` on the roster.
"""

from __future__ import annotations

import re
import stat
import unicodedata
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from autograde.roster import Member
from autograde.settings import LIMITS

__all__ = ["CollectError", "Collected", "collect"]

MOODLE = re.compile(r"(?P<name>[^/]+)_(?P<number>\d+)_assignsubmission_file_?[/_](?P<file>[^/].*)")
CANVAS = re.compile(r"(?:[^/]+/)?(?P<name>[^/]+?)_(?P<late>LATE_)?(?P<user>\d+)_(?P<number>\d+)_(?P<file>[^/]+)")
ATTEMPT = re.compile(r"(?P<stem>.+?)(?:[-_ ]?\((?P<copy>\d+)\)|-(?P<again>\d+))?")
"""A file's name without the number that browsers and Canvas add to one that is there already."""
MOST_ENTRIES = 200_000
MOST_PACKED = 200
"""How many times larger than in the archive an entry may become: notebooks come to a tenth of this."""


class CollectError(ValueError):
    """An archive that cannot be read at all: says why."""


@dataclass(frozen=True)
class _Entry:
    """A notebook in the archive: whose, and what tells a later attempt from an earlier one."""

    info: zipfile.ZipInfo
    member: Member
    stem: str
    attempt: tuple[int, int, tuple[int, ...]]
    late: bool


@dataclass
class Collected:
    """What came of an archive: students by what happened, and a sentence for everything left out."""

    new: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    same: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


def collect(archive: Path, lesson: str, into: Path, members: Sequence[Member]) -> Collected:
    """Write the latest attempt of each student on the roster to `into`/STUDENT/LESSON/LESSON.ipynb.

    A notebook that was there before and differs is kept in `into`/.replaced.

    Raises:
        CollectError: when `archive` is no zip file that can be read.
    """
    found = Collected()
    try:
        with zipfile.ZipFile(archive) as opened:
            if len(opened.infolist()) > MOST_ENTRIES:
                raise CollectError(f"{archive} has {len(opened.infolist())} entries; the limit is {MOST_ENTRIES}.")
            entries = [entry for info in opened.infolist() if (entry := _entry(info, lesson, members, found))]
            by_student: dict[str, list[_Entry]] = defaultdict(list)
            for entry in entries:
                by_student[entry.member.id].append(entry)
            for student, theirs in by_student.items():
                _take(opened, student, theirs, lesson, into, found)
    except (OSError, zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, UnicodeDecodeError) as error:
        raise CollectError(f"{archive} cannot be read as a zip file: {error}.") from None
    handed_in = {*found.new, *found.replaced, *found.same}
    found.absent = [member.id for member in members if member.id not in handed_in]
    return found


def _entry(info: zipfile.ZipInfo, lesson: str, members: Sequence[Member], found: Collected) -> _Entry | None:
    """What an entry is, None where it is not taken; what speaks against it is noted."""
    if info.is_dir():
        return None
    name = unicodedata.normalize("NFC", info.filename)
    why = _unsafe(info)
    moodle, canvas = MOODLE.fullmatch(name), CANVAS.fullmatch(name)
    match = moodle or canvas
    if not why and not name.lower().endswith(".ipynb"):
        return None  # what else they hand in beside the notebook
    if not why and not match:
        why = "it is named neither as Moodle nor as Canvas names submissions"
    if why or match is None:
        found.refused.append(f"{_shown(name)}: {why}.")
        return None
    who = _by_name(match["name"], members) if moodle else _by_user(match["user"], match["name"], members)
    if len(who) != 1:
        several = ", ".join(member.id for member in who)
        why = f"it may be of {several}" if who else "its author is not on the roster"
        found.refused.append(f"{_shown(name)}: {why}.")
        return None
    parts = ATTEMPT.fullmatch(PurePosixPath(match["file"]).stem)
    stem, again = (parts["stem"], int(parts["copy"] or parts["again"] or 0)) if parts else ("", 0)
    number = 0 if moodle else int(match["number"])
    attempt = (number, again, info.date_time)
    return _Entry(info, who[0], stem, attempt, bool(canvas and not moodle and canvas["late"]))


def _unsafe(info: zipfile.ZipInfo) -> str:
    """Why an entry must not be read; empty where it may."""
    raw = getattr(info, "orig_filename", info.filename)
    parts = re.split(r"[/\\]", raw)
    if raw.startswith(("/", "\\")) or re.match(r"[A-Za-z]:", raw) or ".." in parts or "\0" in raw or "\\" in raw:
        return "its path leaves the archive"
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind == stat.S_IFLNK:
        return "it is a link, which is not followed"
    if kind not in (0, stat.S_IFREG):
        return "it is no regular file"
    if info.flag_bits & 1:
        return "it is encrypted"
    if info.file_size > LIMITS.notebook_bytes:
        return f"it unpacks to {info.file_size} bytes; the limit is {LIMITS.notebook_bytes}"
    if info.file_size > MOST_PACKED * max(info.compress_size, 1024):
        return f"it unpacks to {info.file_size} bytes from {info.compress_size}, as no notebook does"
    return ""


def _plain(name: str) -> str:
    """A name as both platforms may have changed it: letters and digits alone, without accents and case."""
    decomposed = unicodedata.normalize("NFKD", name.casefold())
    return "".join(character for character in decomposed if character.isalnum())


def _by_name(name: str, members: Iterable[Member]) -> list[Member]:
    """Who has this full name, in either order."""
    wanted = _plain(name)
    orders = ((m, _plain(m.first_name), _plain(m.last_name)) for m in members)
    return [m for m, first, last in orders if wanted and wanted in (first + last, last + first)]


def _by_user(user: str, name: str, members: Sequence[Member]) -> list[Member]:
    """Who has this number in Canvas; where the roster does not know the numbers, who has this name."""
    known = [member for member in members if member.lms_user_id == user]
    return known or [member for member in _by_name(name, members) if not member.lms_user_id]


def _take(
    opened: zipfile.ZipFile, student: str, theirs: list[_Entry], lesson: str, into: Path, found: Collected
) -> None:
    """Write the latest of a student's notebooks that is the lesson's."""
    named = [entry for entry in theirs if _plain(entry.stem) == _plain(lesson)]
    if not named and len(theirs) > 1:
        names = ", ".join(_shown(PurePosixPath(entry.info.filename).name) for entry in theirs)
        found.refused.append(f"{student}: none of {names} is called {lesson}.ipynb.")
        return
    latest = max(named or theirs, key=lambda entry: entry.attempt)
    shown = _shown(latest.info.filename)
    try:
        data = _read(opened, latest.info)
    except (ValueError, OSError, RuntimeError, EOFError, zlib.error, zipfile.BadZipFile) as error:
        found.refused.append(f"{shown}: it cannot be unpacked: {error}.")
        return
    path = into / student / lesson / f"{lesson}.ipynb"
    if any(part.is_symlink() for part in (path, path.parent, path.parent.parent)):
        found.refused.append(f"{shown}: {path} is or lies behind a link, which is not followed.")
        return
    if not named:
        found.notes.append(f"{student}: {shown} was taken for {lesson}, being the only notebook.")
    if len(named) > 1:
        found.notes.append(f"{student}: of {len(named)} attempts the latest was taken, {shown}.")
    if latest.late:
        found.late.append(student)
    _write(path, data, student, found, into)


def _read(opened: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """The bytes of an entry, of which its header may lie.

    Raises:
        ValueError: when it is larger than a notebook may be.
    """
    with opened.open(info) as file:
        data = file.read(LIMITS.notebook_bytes + 1)
    if len(data) > LIMITS.notebook_bytes:
        raise ValueError(f"it is larger than {LIMITS.notebook_bytes} bytes")
    return data


def _write(path: Path, data: bytes, student: str, found: Collected, into: Path) -> None:
    before = path.read_bytes() if path.is_file() else None
    if before == data:
        found.same.append(student)
        return
    if before is not None:
        _put_away(path, into / ".replaced" / path.relative_to(into).parent)
    (found.new if before is None else found.replaced).append(student)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(data)
    part.replace(path)


def _put_away(path: Path, folder: Path) -> None:
    """Keep a notebook that is about to be replaced, and the time of its submission."""
    number = 1 + sum(1 for _ in folder.glob("*.ipynb"))
    folder.mkdir(parents=True, exist_ok=True)
    path.replace(folder / f"{number}.ipynb")
    time = path.with_name("timestamp.txt")
    if time.is_file():
        time.replace(folder / f"{number}.txt")


def _shown(name: str) -> str:
    """A name fit for a terminal."""
    return name if name.isprintable() and len(name) <= 200 else ascii(name)[:200]
