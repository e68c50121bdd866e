"""Read the small files that nbgrader's exchange leaves beside a submission; a student may have written them."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path

from nbgrader.utils import parse_utc

from autograde.files import regular_file

__all__ = ["MAX_BYTES", "SECRET_FILE", "TIME_FILE", "parse_time", "read_short_text", "read_time"]

TIME_FILE, SECRET_FILE = "timestamp.txt", "submission_secret.txt"
"""The files with the time of submission and with the secret for fetching feedback."""
MAX_BYTES = 500
"""How much is read of each of them."""
YEAR_FIRST = re.compile(r"\s*2\d{3}-\d")
"""How a time begins in which nobody takes the day for the month, as in 05.12.2026; nor has it a year such as 9999,
whose last day another time zone cannot express."""


def read_short_text(path: Path) -> str | None:
    """Return the text of a short ASCII file; None where there is no file.

    Raises:
        ValueError: when it is anything else, or cannot be read.
    """
    try:
        with regular_file(path) as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValueError(f"{path.name} cannot be read ({error.strerror}).") from None
    if not data.isascii() or not 0 < len(data) <= MAX_BYTES:
        raise ValueError(f"{path.name} is no short text.")
    return data.decode("ascii")


def parse_time(text: str) -> datetime:
    """Return the time in a text, in UTC.

    Raises:
        ValueError: when there is none.
    """
    try:
        time: datetime | None = parse_utc(text.strip()) if YEAR_FIRST.match(text) else None
    except Exception:  # dateutil raises many types for what a learner may write
        time = None
    if time is None:
        raise ValueError(f"{TIME_FILE} holds no time such as 2026-12-01 18:30:00 UTC, and the submission counts as in "
                         "time.")  # fmt: skip
    return time


def read_time(folder: Path) -> datetime | None:
    """Return the time of the submission in a folder; None if its file is missing or has no valid time."""
    try:
        text = read_short_text(folder / TIME_FILE)
        return None if text is None else parse_time(text)
    except ValueError:
        return None
