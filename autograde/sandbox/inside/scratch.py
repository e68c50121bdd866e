"""Empty the folders that a learner's processes could write to, whatever these did to them."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import Any

__all__ = ["empty_all"]


def empty_all(configuration: dict[str, Any]) -> bool:
    """Empty the scratch folders and restore the folders themselves; return whether that worked.

    What is mounted in them stays: a checkout may lie in /tmp.
    """
    mode = 0o1777 if configuration["namespaces"] else 0o700
    mounted = frozenset(configuration["mounted"])
    emptied = [_restore(folder, mode) and _empty(Path(folder), mounted) for folder in configuration["scratch"]]
    return all(emptied)  # after trying each, even if one fails


def _restore(folder: str, mode: int) -> bool:
    """Give a scratch folder the mode, attributes and times of a new one, in case a learner locked it or left a message
    in them. Return whether that worked."""
    if os.stat(folder).st_uid != os.getuid():
        return True
    try:
        os.chmod(folder, mode)
        for attribute in os.listxattr(folder):
            if attribute.startswith(("user.", "system.posix_acl_")):
                os.removexattr(folder, attribute)
        os.utime(folder, (0, 0))
    except OSError:
        return False
    return True


def _empty(folder: Path, mounted: frozenset[str]) -> bool:
    failed = False
    for entry in list(os.scandir(folder)):
        holds_mount = any(path.startswith(f"{entry.path}/") for path in mounted)
        if entry.path in mounted:
            continue
        if holds_mount and not entry.is_symlink():
            failed |= not _empty(Path(entry.path), mounted)
        else:
            _remove(entry)
            failed |= os.path.lexists(entry.path)
    return not failed


def _remove(entry: os.DirEntry[str]) -> None:
    with contextlib.suppress(OSError, RecursionError):  # if something is left, the worker is not used again
        if entry.is_dir(follow_symlinks=False):
            _make_accessible(entry.path)
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)


def _make_accessible(folder: str) -> None:
    """Make `folder` and every folder below it accessible to this user."""
    pending = [folder]
    while pending:
        here = pending.pop()
        os.chmod(here, 0o700)
        with os.scandir(here) as entries:
            pending += [e.path for e in entries if e.is_dir(follow_symlinks=False)]
