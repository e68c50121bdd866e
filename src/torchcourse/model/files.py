"""Replace files atomically: a file is either complete or unchanged, and nothing but a file is ever replaced."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

__all__ = ["check_target", "replacing"]

KINDS = (
    (stat.S_ISDIR, "a folder"), (stat.S_ISCHR, "a device"), (stat.S_ISBLK, "a device"), (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
)  # fmt: skip


def check_target(path: Path) -> None:
    """Check that a file may be written at `path`: nothing is there yet, or a file, or a link to one.

    Raises:
        FileExistsError: when there is a folder, a device, a pipe or a socket, which renaming a file over one removes,
            or a link into a folder that is not there.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        if path.is_symlink() and not path.resolve().parent.is_dir():
            raise FileExistsError(
                errno.EEXIST, f"it is a link to {path.readlink()}, which has no folder; remove it", str(path)
            ) from None
        return
    if not stat.S_ISREG(mode):
        kind = next((name for is_one, name in KINDS if is_one(mode)), "something else")
        raise FileExistsError(errno.EEXIST, f"it is {kind}, not a file; move it away or name another place", str(path))


@contextlib.contextmanager
def replacing(path: Path, several_writers: bool = False, durable: bool = False) -> Iterator[Path]:
    """Yield a temporary path beside `path`; the file written there replaces `path`, or is deleted if the block raises.

    All that commands write goes through here. Links stay links, and the folder is made if it is missing.

    Args:
        several_writers: whether several processes may write `path` at the same time. Otherwise the temporary name is
            fixed, so that the next write overwrites what a killed process left.
        durable: whether the content has to be on the disk before it replaces the old one: a crash of the machine then
            leaves one of them. That takes time.

    Raises:
        FileExistsError: as `check_target` does.
    """
    check_target(path)
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part" if several_writers else f".{path.name}.part")
    try:
        yield part
        if durable:
            with part.open("rb+") as file:
                os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
