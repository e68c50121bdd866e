"""Write files atomically: whenever the grader dies, a file is either complete or unchanged."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

__all__ = ["digest", "holds", "replacing", "write_atomically", "writing_atomically"]


def digest(text: str) -> str:
    """Return the SHA-256 digest of a text, as hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def holds(path: Path, text_digest: str) -> bool:
    """Return whether the file at `path` exists and has this digest."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() == text_digest
    except OSError:
        return False


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


@contextlib.contextmanager
def replacing(path: Path, several_writers: bool = False) -> Iterator[Path]:
    """Yield a temporary path beside `path`; the file written there replaces `path`, or is deleted if the block raises.

    Args:
        several_writers: whether several processes may write `path` at the same time. Otherwise the temporary name is
            fixed, so that the next write overwrites what a killed process left.

    Raises:
        FileExistsError: when `path` is there and is neither a file nor a link to one, but a device, say.
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        kind = "a folder" if path.is_dir() else "a device or a pipe"
        raise FileExistsError(errno.EEXIST, f"it is {kind}, not a file", str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part" if several_writers else f".{path.name}.part")
    try:
        yield part
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
