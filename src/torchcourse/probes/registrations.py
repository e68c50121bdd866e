"""Undo what a block registers with torch.library, so that the next answer finds a process without it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
from torch._library.simple_registry import singleton
from torch.library import Library

__all__ = ["registrations_undone"]


@contextlib.contextmanager
def registrations_undone(name: str) -> Iterator[None]:
    """Take back at the end of this block all that was registered in it in the namespace of the operator `name`.

    A name can be registered only once in a process, and a fork of a notebook's kernel, where it could be tried instead,
    cannot run a backward.
    """
    made: list[Library] = []
    space, _, operator = name.partition("::")
    begin = Library.__init__

    def noted(self: Library, *args: Any, **options: Any) -> None:
        begin(self, *args, **options)  # type: ignore[no-untyped-call]
        if self.ns == space:  # torch makes libraries of its own at the first use of some parts
            made.append(self)

    try:
        with mock.patch.object(Library, "__init__", noted):
            yield
    finally:
        for library in reversed(made):
            library._destroy()  # type: ignore[no-untyped-call]
        singleton._data.pop(name, None)
        with contextlib.suppress(AttributeError):
            delattr(getattr(torch.ops, space), operator)
