"""Names of students: the names of their submitted folders, made safe for files and terminals."""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from pathlib import Path

__all__ = ["MARKUP", "is_plain", "printable_name", "student_names", "students"]

MAX_NAME_BYTES = 255
"""Maximal length of a file name, in bytes."""
MARKUP = '<>&"`'
"""Characters that nbgrader's pages would read as HTML or as code: it prints names as they are."""
ADDRESSING = re.compile(r"[%?#*\\]")
"""What nbgrader takes for a part of an address or of a pattern."""
MARKED = re.compile(r"…[0-9a-f]{12}$")
"""How a name ends whose end a hash has replaced."""
DIRECTIONAL = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
"""The bidirectional classes of characters that change the direction of writing."""


def students(submitted: Path) -> list[str]:
    """Return the names of the folders in `submitted`, sorted."""
    entries = (entry for entry in submitted.iterdir() if not entry.name.startswith("."))
    return sorted(entry.name for entry in entries if entry.is_dir() or entry.is_symlink())


def student_names(folders: list[str]) -> dict[str, str]:
    """Return the student's name for each folder: the name of the folder, made safe and unique.

    Bytes that are not text and characters that control a terminal are escaped with backslashes, and underscores replace
    what nbgrader would not take for a part of a name. If a name has these, is too long for a file name, is another
    student's name or ends like a name with a hash, a hash replaces its end.
    """
    names: dict[str, str] = {}
    for folder in sorted(folders, key=lambda name: (_escaped(name) != name, name)):  # plain names stay as they are
        name, addresses = _escaped(folder), ADDRESSING.search(folder)
        if addresses or len(name.encode()) > MAX_NAME_BYTES or name in names.values() or MARKED.search(name):
            mark = hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]
            name = f"{name.encode()[: MAX_NAME_BYTES - 20].decode(errors='ignore')}…{mark}"
        names[folder] = name
    return names


def is_plain(folder: str) -> bool:
    """Return whether a folder's name can be a student's name as it is."""
    return student_names([folder]) == {folder: folder}


def printable_name(name: str, most: int = 200) -> str:
    """Return a name that is safe to print on a terminal, escaped and cut at `most` characters where it is not."""
    return name if name.isprintable() and len(name) <= most else ascii(name)[:most]


def _escaped(name: str) -> str:
    """Escape surrogates (bytes that are not text), control characters, line ends, changes of the direction of writing
    and markup, and replace parts of addresses. Joiners stay: some scripts need them."""
    markup = {ord(character): f"\\x{ord(character):02x}" for character in MARKUP}
    name = ADDRESSING.sub("_", name)
    printable = "".join(c.encode("unicode_escape").decode() if _is_unsafe(c) else c for c in name)
    return printable.translate(markup)


def _is_unsafe(character: str) -> bool:
    turns = unicodedata.bidirectional(character) in DIRECTIONAL
    return turns or unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")
