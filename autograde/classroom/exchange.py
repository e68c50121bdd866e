"""Collect from nbgrader's exchange without believing what learners can write there.

The inbox of an exchange is a folder in which every learner may make entries. nbgrader's own `collect` believes the name
of an entry, even where it belongs to somebody else's account. It follows links with the instructor's rights, so a link
to the course's source comes back with the feedback. And one entry without a time ends it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from nbgrader.exchange.default import ExchangeCollect

from autograde.files import regular_file, write_atomically
from autograde.results.exchange_files import SECRET_FILE, TIME_FILE, parse_time
from autograde.settings import LIMITS

__all__ = ["CollectOwned"]

REFUSED = "refused"
MAX_NAME_LENGTH = 100
"""Characters of a student's id, as on a roster; some gradebooks refuse more, and that would end a batch."""


class CollectOwned(ExchangeCollect):  # type: ignore[misc]
    """nbgrader's `collect`: an entry counts only if it belongs to the account that it names, and no link is followed.

    Where students have no accounts on this machine (they may work in containers), owners decide nothing.
    """

    src_records: list[dict[str, Any]]

    def _path_to_record(self, path: str) -> dict[str, Any]:
        """Return whose an entry is and from when; a refused entry is attributed to nobody, so that it replaces no one's
        work."""
        name = Path(path).name
        parts = name.rsplit("+", 3)
        try:
            if len(parts) < 3:
                raise ValueError("its name has no time")
            if not 0 < len(parts[0]) <= MAX_NAME_LENGTH:
                raise ValueError(f"it begins with no name of 1 to {MAX_NAME_LENGTH} characters")
            _check_owner(Path(path), parts[0])
            return {"username": parts[0], "filename": name, "timestamp": parse_time(parts[2])}
        except (OSError, ValueError) as error:
            return {"username": name, "filename": name, "timestamp": datetime.min, REFUSED: str(error)}

    def copy_files(self) -> None:
        """Copy the latest entry of each student, and say which entries are refused."""
        for record in self.src_records:
            if REFUSED in record:
                self.log.error("Not collected: %s: %s", record["filename"], record[REFUSED])
        self.src_records = [record for record in self.src_records if REFUSED not in record]
        super().copy_files()

    def do_copy(self, src: str, dest: str, log: Any = None) -> None:
        """Copy the notebook and the two files that `submit` writes beside it; what is no plain file stays there."""
        names = (f"{self.coursedir.assignment_id}.ipynb", TIME_FILE, SECRET_FILE)
        try:
            files = dict(_plain_files(Path(src), names))
        except (OSError, ValueError) as error:
            self.log.error("Not collected: %s: %s", Path(src).name, error)
            return
        Path(dest).mkdir()
        for name, content in files.items():
            write_atomically(Path(dest) / name, content)


def _check_owner(entry: Path, student: str) -> None:
    """Check that an entry belongs to the student that it names.

    Raises:
        ValueError: when the student has an account here, and it belongs to another one.
    """
    import pwd  # Windows has none, nor an exchange

    try:
        account = pwd.getpwnam(student).pw_uid
    except KeyError:
        return
    owner = entry.lstat().st_uid
    if owner != account:
        raise ValueError(f"it names {student}, and belongs to the account with the number {owner}")


def _plain_files(folder: Path, names: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of those files in a folder that are there; nothing is opened through a link.

    Raises:
        OSError: when one cannot be read, or it or the folder is a link.
        ValueError: when one is no regular file, belongs to somebody else, or is too large.
    """
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        for name in names:
            try:
                with regular_file(name, place) as file:
                    if os.fstat(file.fileno()).st_uid != os.fstat(place).st_uid:
                        raise ValueError(f"{name} is no file of its owner's")
                    content = file.read(LIMITS.notebook_bytes + 1)
            except FileNotFoundError:
                continue
            if len(content) > LIMITS.notebook_bytes:
                raise ValueError(f"{name} is larger than {LIMITS.notebook_bytes} bytes")
            yield name, content
    finally:
        os.close(place)
