"""Collect from nbgrader's exchange without believing what learners can write there.

The inbox of an exchange is a folder in which every learner may make entries. nbgrader's own `collect` believes the name
of an entry, even where it belongs to somebody else's account or is nobody's. It follows links with the instructor's
rights, so a link to the course's source comes back with the feedback. And one entry without a time ends it.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Collection, Iterator
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from nbgrader.exchange.default import ExchangeCollect

from autograde.batch.student_names import printable_name
from autograde.classroom.class_folder import roster_of
from autograde.classroom.roster import IDENTITY
from autograde.files import regular_file, write_atomically
from autograde.results.exchange_files import SECRET_FILE, TIME_FILE, parse_time
from autograde.settings import LIMITS
from torchcourse.model.catalogue import LESSONS

__all__ = ["CollectOwned"]

REFUSED = "refused"


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
            _check_student(Path(path), parts[0], self._enrolled)
            if self._notebook not in dict(_plain_files(Path(path), (self._notebook, TIME_FILE, SECRET_FILE))):
                raise ValueError(f"it has no {self._notebook}")
            return {"username": parts[0], "filename": name, "timestamp": parse_time(parts[2])}
        except (OSError, ValueError) as error:
            return {"username": name, "filename": name, "timestamp": datetime.min, REFUSED: str(error)}

    @property
    def _notebook(self) -> str:
        return f"{self.coursedir.assignment_id}.ipynb"

    @cached_property
    def _enrolled(self) -> set[str]:
        """The ids on the roster; empty where the class has none."""
        return {member.id for member in roster_of(Path(self.coursedir.root)) or ()}

    def copy_files(self) -> None:
        """Copy the latest entry of each student, and say which entries are refused."""
        for record in self.src_records:
            if REFUSED in record:
                self.log.error("Not collected: %s: %s", printable_name(record["filename"]), record[REFUSED])
        self.src_records = [record for record in self.src_records if REFUSED not in record]
        super().copy_files()

    def do_copy(self, src: str, dest: str, log: Any = None) -> None:
        """Copy the notebook and the two files that `submit` writes beside it; what is no plain file stays there.

        Without these two, which a learner may have removed, nbgrader would release nobody's feedback.
        """
        files = {TIME_FILE: src.rsplit("+", 3)[2].encode(), SECRET_FILE: secrets.token_hex().encode()}
        try:
            files |= dict(_plain_files(Path(src), (self._notebook, TIME_FILE, SECRET_FILE)))
        except (OSError, ValueError) as error:  # it was sound when it was chosen
            self.log.error("Not collected: %s: %s", printable_name(Path(src).name), error)
            return
        Path(dest).mkdir()
        for name, content in files.items():
            write_atomically(Path(dest) / name, content)


def _check_student(entry: Path, student: str, enrolled: Collection[str]) -> None:
    """Check that an entry names a student: who has an account here has to own it, and others have to be on the roster,
    if there is one.

    Raises:
        ValueError: when it does not.
    """
    import pwd  # Windows has none, nor an exchange

    if not IDENTITY.fullmatch(student) or student in LESSONS:
        raise ValueError("it begins with no student's id")
    try:
        account = pwd.getpwnam(student).pw_uid
    except KeyError:
        if enrolled and student not in enrolled:
            raise ValueError(f"{student} is not on the roster, and has no account here") from None
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
