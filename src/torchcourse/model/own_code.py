"""Tell a learner's own code from that of Python, torch and the course."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from pathlib import Path
from types import CodeType, FrameType

import torch

from torchcourse.model.own_course import own_course

__all__ = ["COURSE", "TORCH", "called_by_own_code", "exact_str", "file_of", "is_for_torch_itself", "is_own"]

COURSE = {Path(__file__).parents[1], *((_own / "exercises",) if (_own := own_course()) else ())}
"""The folders that hold the course's code, and the probes of an instructor's own lessons."""
TORCH = Path(torch.__file__).parent
LIBRARIES = {Path(os.__file__).parent, TORCH.parent, *COURSE}
"""The folders that hold Python's, torch's and the course's code."""
PASSING = {
    *(str(TORCH / name) for name in ("_tensor.py", "overrides.py", "serialization.py", "storage.py")),
    str(Path(__file__).parents[1] / "checking" / "call_watch.py"),
}
"""Files that only pass a call on: torch's, and the watch, whose mode is one of its callers."""


CTYPES = str(Path(ctypes.__file__).parent)


def exact_str(name: object) -> str:
    """Return `name` if it is exactly a str, else "": a learner's subclass of str could run code when it is compared."""
    return name if type(name) is str else ""


def file_of(code: CodeType) -> str:
    """Return the file name of a code object, "" if that is not exactly a str."""
    return exact_str(code.co_filename)


@cache
def is_own(file: str) -> bool:
    """Return whether a file of code is a learner's: not one of Python's, torch's or the course's."""
    return not file.startswith("<frozen ") and LIBRARIES.isdisjoint(Path(file).parents)


def called_by_own_code() -> bool:
    """Return whether a learner's code triggered the current audit event, directly or through ctypes."""
    frame = sys._getframe(2)  # the hook's caller, where this is called by the hook
    while frame.f_back and file_of(frame.f_code).startswith(CTYPES):
        frame = frame.f_back
    return is_own(file_of(frame.f_code))


def is_for_torch_itself(name: str, frame: FrameType | None) -> bool:
    """Return whether torch or the course calls `name` in `frame` for its own purposes.

    Such code mentions the name. A helper that calls whatever it is given, such as `tree_map`, does not: then its caller
    made the call.
    """
    while frame and file_of(frame.f_code) in PASSING:
        frame = frame.f_back
    if frame is None or name not in frame.f_code.co_names:
        return False
    return not {TORCH, *COURSE}.isdisjoint(Path(file_of(frame.f_code)).parents)
