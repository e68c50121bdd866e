"""Read when submissions were handed in from Moodle's grading worksheet; its submission archives do not record it.

After Moodle's mod/assign/gradingtable.php and its zip writer: the worksheet has a row for each participant, with the
number that is in the archive, and times as Moodle shows them to the person who downloads it. Entries of the archive
have the time of the download. The names in Canvas's archive say who is late, and not by how much.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from autograde.classroom.collect import MOODLE, Collected, CollectError
from autograde.files import write_atomically
from autograde.results.exchange_files import TIME_FILE

__all__ = ["read_times", "write_times"]

IDENTIFIER, SUBMITTED = "Identifier", "Last modified (submission)"
FORMS = ("%A, %d %B %Y, %I:%M %p", "%A, %d %B %Y, %H:%M", "%A, %B %d, %Y, %I:%M %p")
"""How Moodle writes a time in English."""


def read_times(worksheet: Path) -> dict[str, datetime]:
    """Return the times in a grading worksheet, in UTC, by the participant's number.

    Args:
        worksheet: a CSV file, with times in this machine's time zone.

    Raises:
        CollectError: when the file is something else, or its times are not written in English.
    """
    try:
        text = worksheet.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise CollectError(f"{worksheet} cannot be read ({getattr(error, 'strerror', None) or error}).") from None
    table = csv.DictReader(io.StringIO(text, newline=""))
    if not {IDENTIFIER, SUBMITTED}.issubset(table.fieldnames or ()):
        raise CollectError(f"{worksheet} is no grading worksheet: it has no columns {IDENTIFIER!r} and {SUBMITTED!r}. "
                           "Download it from Moodle with your language set to English.")  # fmt: skip
    found = dict[str, datetime]()
    limit = csv.field_size_limit(len(text))  # it may hold what people wrote, of any length
    try:
        for row in table:
            number, shown = re.search(r"\d+", row[IDENTIFIER] or ""), " ".join((row[SUBMITTED] or "").split())
            if number and shown not in ("", "-"):
                found[number[0]] = _time(worksheet, table.line_num, shown)
    finally:
        csv.field_size_limit(limit)
    return found


def _time(worksheet: Path, line: int, shown: str) -> datetime:
    for form in FORMS:
        try:
            return datetime.strptime(shown, form).astimezone(UTC)
        except ValueError:
            continue
    raise CollectError(f"{worksheet}:{line}: {shown!r} is no time as Moodle writes it in English, such as Tuesday, "
                       "1 December 2026, 6:30 PM.")  # fmt: skip


def write_times(into: Path, lesson: str, found: Collected, times: Mapping[str, datetime]) -> list[str]:
    """Write when notebooks were handed in beside them, as nbgrader's exchange does.

    Args:
        found: what was collected.
        times: by the participant's number, which is part of names in the archive; a group's has the group's number.

    Returns:
        The students whose time is not known.
    """
    unknown = []
    authors = {name for student, name in found.names.items() if student not in found.by_group}
    for student, name in found.names.items():
        match = MOODLE.fullmatch(name) if name in authors else None  # else it has a group's number, and not a person's
        time = times.get(match["number"]) if match else None
        if time:
            write_atomically(into / student / lesson / TIME_FILE, f"{time:%Y-%m-%d %H:%M:%S} UTC")
        else:
            unknown.append(student)
    return unknown
