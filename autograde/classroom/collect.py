"""Collect submissions from the archives of Moodle and Canvas.

The archive is not unpacked: each notebook is read with a limit, and written under the id on the roster. Entries that
are unsafe, unknown or ambiguous are left out and reported; the others count.

How the platforms name files, after their sources (Moodle's mod/assign/classes/downloader.php, Canvas's
lib/content_zipper.rb):

    Moodle  Ada Lovelace_1234567_assignsubmission_file/01_tensors.ipynb   (`…_file_/…` and `…_file_NAME` in older ones)
    Canvas  lovelaceada_LATE_40001_987654_01_tensors-1.ipynb              (name, LATE or not, user, attachment, file)

Moodle's number belongs to a participant of this assignment, so the name has to identify the student (see `authors`);
Canvas's first number is the user's, `lms_user_id` on the roster.
"""

from __future__ import annotations

import json
import lzma
import re
import stat
import unicodedata
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from autograde.batch.student_names import printable_name
from autograde.classroom.authors import by_moodle_name, by_user, group_called, plain
from autograde.classroom.roster import Member
from autograde.files import write_atomically
from autograde.results.exchange_files import TIME_FILE
from autograde.settings import LIMITS
from autograde.source.release import built_lessons, load_release

__all__ = ["MOODLE", "NAMES", "CollectError", "Collected", "collect", "collected_names", "write_names"]

NAMES = "collected.json"
"""The file, beside the folder of submissions, with the names in the archives, which the platforms want back."""

MOODLE = re.compile(r"(?P<name>[^/]+?)_(?P<number>\d{1,19})_assignsubmission_file_?[/_](?P<file>[^/].*)")
CANVAS = re.compile(
    r"(?:[^/]+/)?(?P<name>[^/]+?)_(?P<late>LATE_)?(?P<user>\d{1,19})_(?P<number>\d{1,19})_(?P<file>[^/]+)"
)
ATTEMPT = re.compile(r"(?P<stem>.+?)(?:[-_ ]?\((?P<copy>\d{1,9})\)|-(?P<again>\d{1,9}))?")
"""The name of a file, and the number that browsers and Canvas add to a second file of that name."""
GRADE_ID = re.compile(rb'"grade_id":\s*("\w{1,100}")')
MAX_ENTRIES = 200_000
MAX_PATH_LENGTH = 1000
MAX_COMPRESSION = 200
"""The largest allowed ratio of unpacked to packed size; notebooks reach a tenth of it."""


class CollectError(ValueError):
    """An archive cannot be read at all; the message says why."""


@dataclass(frozen=True)
class _Entry:
    """A notebook in the archive.

    Attributes:
        member: its student.
        account: the platform's number of who handed it in.
        stem: the stem of its name.
        attempt: a sort key for attempts.
        own: whether the student handed it in, and not somebody else of their group.
    """

    info: zipfile.ZipInfo
    member: Member
    account: str
    stem: str
    attempt: tuple[int, int, tuple[int, ...]]
    late: bool
    own: bool = True


@dataclass
class Collected:
    """The outcome of an archive: ids of students by what happened, notes, and a sentence for each entry left out.

    `names` are the names in the archive of the notebooks that were taken, by student; `by_group` are the students whose
    group handed in.
    """

    new: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    same: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    by_group: set[str] = field(default_factory=set)


def collect(archive: Path, lesson: str, into: Path, members: Sequence[Member], groups: bool = False) -> Collected:
    """Write the latest attempt of each student on the roster to `into`/STUDENT/LESSON/LESSON.ipynb.

    An earlier notebook that differs is kept in `into`/.replaced.

    Args:
        groups: whether a notebook counts for everybody in its author's group who handed in none of their own. Moodle
            names the group in place of an author.

    Raises:
        CollectError: when `archive` is not a readable zip file.
        OSError: when a notebook cannot be written.
    """
    found = Collected()
    try:
        with zipfile.ZipFile(archive) as opened:
            if len(opened.infolist()) > MAX_ENTRIES:
                raise CollectError(f"{archive} has {len(opened.infolist())} entries; the limit is {MAX_ENTRIES}.")
            moodle = any(_only_moodle_names(info) for info in opened.infolist())
            by_student: dict[str, list[_Entry]] = defaultdict(list)
            for info in opened.infolist():
                for entry in _entries(info, members, moodle, groups, found):
                    by_student[entry.member.id].append(entry)
            for student, attempts in by_student.items():
                _collect_student(opened, student, attempts, lesson, into, found)
    except OSError as error:
        if error.filename and Path(error.filename) != archive:
            raise  # a notebook could not be written
        raise CollectError(f"{archive} cannot be read as a zip file: {error.strerror or error}.") from None
    except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, UnicodeDecodeError) as error:
        raise CollectError(f"{archive} cannot be read as a zip file: {error}.") from None
    present = {*found.new, *found.replaced, *found.same}
    found.absent = [member.id for member in members if member.id not in present]
    return found


def _only_moodle_names(info: zipfile.ZipInfo) -> bool:
    """Return whether only Moodle can have named this entry: Canvas puts numbers in front of what is uploaded."""
    name = info.filename
    return len(name) <= MAX_PATH_LENGTH and bool(MOODLE.fullmatch(name)) and not CANVAS.fullmatch(name)


def write_names(into: Path, lesson: str, names: Mapping[str, str]) -> None:
    """Add the names that notebooks of a lesson had in an archive that was collected into a folder, by student."""
    known = _all_names(into)
    known[lesson] = {**known.get(lesson, {}), **names}
    write_atomically(into.absolute().parent / NAMES, json.dumps(known, ensure_ascii=False, indent=1) + "\n")


def collected_names(into: Path, lesson: str) -> dict[str, str]:
    """Return the names that notebooks of a lesson had in the archives that were collected into a folder, by student."""
    return _all_names(into).get(lesson, {})


def _all_names(into: Path) -> dict[str, dict[str, str]]:
    try:
        found: dict[str, dict[str, str]] = json.loads((into.absolute().parent / NAMES).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def _entries(
    info: zipfile.ZipInfo, members: Sequence[Member], moodle: bool, groups: bool, found: Collected
) -> list[_Entry]:
    """Return an entry as a notebook of each student for whom it counts; if it is left out, `found.refused` says why.

    Args:
        moodle: whether Moodle made the archive; then names that look like Canvas's identify nobody.
    """
    if info.filename.endswith("/"):  # not `is_dir`, which wants a name of at least one character
        return []
    reason = _unsafe(info)
    name = info.filename if reason else unicodedata.normalize("NFC", info.filename)  # slow for a long name
    moodle = moodle or "_assignsubmission_" in name  # what follows it is the student's choice
    match = None if reason else (MOODLE if moodle else CANVAS).fullmatch(name)
    if not reason and not name.lower().endswith(".ipynb"):
        return []  # other files that students hand in
    if not reason and not match:
        reason = "it is named neither as Moodle nor as Canvas names submissions"
    if reason or match is None:
        found.refused.append(f"{printable_name(name)}: {reason}.")
        return []
    name_shown = match["name"]
    if moodle:
        authors, team = by_moodle_name(name_shown, match["number"], members), group_called(name_shown, members)
    else:
        authors, team = by_user(match["user"], name_shown, members), []
    if len(authors) != 1 and not (groups and team and not authors):
        found.refused.append(f"{printable_name(name)}: {_not_one(authors, team)}.")
        return []
    parts = ATTEMPT.fullmatch(PurePosixPath(match["file"]).stem)
    stem, again = (parts["stem"], int(parts["copy"] or parts["again"] or 0)) if parts else ("", 0)
    number = 0 if moodle else int(match["number"])
    attempt, late = (number, again, info.date_time), not moodle and bool(match["late"])
    if groups and authors and authors[0].group:
        team = [m for m in members if m.group == authors[0].group]
    counts_for = team if groups and team else authors
    account = match["number"] if moodle else match["user"]
    return [_Entry(info, member, account, stem, attempt, late, own=member in authors) for member in counts_for]


def _not_one(authors: Sequence[Member], team: Sequence[Member]) -> str:
    """Return why a notebook has not exactly one author."""
    if authors:
        return f"it may be by {', '.join(member.id for member in authors)}"
    return "its author is a group on the roster: add --groups" if team else "its author is not on the roster"


def _unsafe(info: zipfile.ZipInfo) -> str:
    """Return why an entry must not be read; "" if it may."""
    raw = getattr(info, "orig_filename", info.filename)
    if len(raw) > MAX_PATH_LENGTH:
        return f"its path has {len(raw)} characters; the limit is {MAX_PATH_LENGTH}"
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
    if info.file_size > MAX_COMPRESSION * max(info.compress_size, 1024):
        return f"it unpacks to {info.file_size} bytes from {info.compress_size}, as no notebook does"
    return ""


def _collect_student(
    opened: zipfile.ZipFile, student: str, entries: list[_Entry], lesson: str, into: Path, found: Collected
) -> None:
    """Write the latest of a student's notebooks for the lesson, or else of their group's."""
    entries = [entry for entry in entries if entry.own] or entries
    if entries[0].own and len({entry.account for entry in entries}) > 1:  # people can change what a platform calls them
        names = ", ".join(printable_name(entry.info.filename) for entry in entries)
        found.refused.append(f"{student}: several accounts have this name: {names}.")
        return
    named = [entry for entry in entries if plain(entry.stem) == plain(lesson)]
    if not named and len(entries) > 1:
        names = ", ".join(printable_name(PurePosixPath(entry.info.filename).name) for entry in entries)
        found.refused.append(f"{student}: none of {names} is called {lesson}.ipynb.")
        return
    latest = max(named or entries, key=lambda entry: entry.attempt)
    shown = printable_name(latest.info.filename)
    if not named and any(plain(latest.stem) == plain(name) for name in built_lessons()):
        found.refused.append(f"{shown}: it is named for {latest.stem}, and not for {lesson}.")
        return
    try:
        data = _read(opened, latest.info)
    except (ValueError, OSError, RuntimeError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile) as error:
        found.refused.append(f"{shown}: it cannot be unpacked: {error}.")
        return
    if other := _other_lesson(data, lesson):
        found.refused.append(f"{shown}: it is a notebook of {other}, and not of {lesson}.")
        return
    path = into / student / lesson / f"{lesson}.ipynb"
    if any(part.is_symlink() for part in (path, path.parent, path.parent.parent)):
        found.refused.append(f"{shown}: {path} is or lies behind a link, which is not followed.")
        return
    if not named:
        found.notes.append(f"{student}: {shown} was taken for {lesson}, being the only notebook.")
    if not latest.own:
        found.by_group.add(student)
        found.notes.append(f"{student}: {shown} counts, from the group {latest.member.group}.")
    if len(named) > 1:
        found.notes.append(f"{student}: of {len(named)} attempts the latest was taken, {shown}.")
    if latest.late:
        found.late.append(student)
    found.names[student] = latest.info.filename
    _write(path, data, student, found, into)


def _read(opened: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """Return the bytes of an entry, whose header may give a wrong size.

    Raises:
        ValueError: when it is larger than a notebook may be.
    """
    with opened.open(info) as file:
        data = file.read(LIMITS.notebook_bytes + 1)
    if len(data) > LIMITS.notebook_bytes:
        raise ValueError(f"it is larger than {LIMITS.notebook_bytes} bytes")
    return data


def _other_lesson(data: bytes, lesson: str) -> str:
    """Return the lesson whose exercises a notebook holds, if it holds none of `lesson`; else ""."""
    ids = {json.loads(text) for text in GRADE_ID.findall(data)}
    if not ids:
        return ""
    holds = (name for name in (lesson, *built_lessons()) if not ids.isdisjoint(load_release(name).exercises))
    first = next(holds, lesson)  # no other lesson is looked at where its own is found
    return "" if first == lesson else first


def _write(path: Path, data: bytes, student: str, found: Collected, into: Path) -> None:
    before = path.read_bytes() if path.is_file() else None
    if before == data:
        found.same.append(student)
        return
    if before is not None:
        _move_to_replaced(path, into / ".replaced" / path.relative_to(into).parent)
    (found.new if before is None else found.replaced).append(student)
    write_atomically(path, data)


def _move_to_replaced(path: Path, folder: Path) -> None:
    """Move a notebook that is about to be replaced, and the time of its submission, to `folder`."""
    number = 1 + sum(1 for _ in folder.glob("*.ipynb"))
    folder.mkdir(parents=True, exist_ok=True)
    path.replace(folder / f"{number}.ipynb")
    time = path.with_name(TIME_FILE)
    if time.is_file():
        time.replace(folder / f"{number}.txt")
