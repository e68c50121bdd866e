"""Write files atomically: whenever the grader dies, a file is either complete or unchanged. Open learners' files."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, TextIO

from torchcourse.model.files import replacing

__all__ = ["digest", "holds", "regular_file", "write_atomically", "writing_atomically"]


def digest(text: str) -> str:
    """Return the SHA-256 digest of a text, as hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def holds(path: Path, text_digest: str) -> bool:
    """Return whether the file at `path` exists and has this digest."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() == text_digest
    except OSError:
        return False


@contextlib.contextmanager
def regular_file(path: str | Path, folder: int | None = None) -> Iterator[BinaryIO]:
    """Open a file that a learner may have made, to read it; a link is not followed, and a pipe not waited for.

    Args:
        folder: the descriptor of the folder that a relative path is in; by default the working folder.

    Raises:
        ValueError: when it is not a regular file.
        OSError: when it cannot be opened.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ValueError(f"{Path(path).name} is not a regular file.")
        with os.fdopen(handle, "rb", closefd=False) as file:
            yield file
    finally:
        os.close(handle)


def write_atomically(path: Path, content: str | bytes) -> None:
    """Replace a file by `content`; it is never half written."""
    with replacing(path) as part:
        part.write_bytes(content if isinstance(content, bytes) else content.encode())
        part.chmod(0o644)


@contextlib.contextmanager
def writing_atomically(path: Path) -> Iterator[TextIO]:
    """Yield a text file to write to, which replaces `path` when the block ends."""
    with replacing(path) as part:
        with part.open("w", encoding="utf-8") as file:
            yield file
        part.chmod(0o644)
