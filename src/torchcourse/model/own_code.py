"""Tell a learner's own code from that of Python, torch and the course."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from pathlib import Path
from types import FrameType

import torch

from torchcourse.model.own_course import own_course

__all__ = ["COURSE", "called_by_own_code", "is_for_torch_itself", "is_own"]

COURSE = {Path(__file__).parents[1], *((_own / "exercises",) if (_own := own_course()) else ())}
"""The folders that hold the course's code, and the probes of an instructor's own lessons."""
LIBRARIES = {Path(os.__file__).parent, Path(torch.__file__).parents[1], *COURSE}
"""The folders that hold Python's, torch's and the course's code."""
TORCH = Path(torch.__file__).parent
PASSING = {str(TORCH / name) for name in ("_tensor.py", "overrides.py", "serialization.py", "storage.py")}
"""Files of torch that only pass a call on."""


CTYPES = str(Path(ctypes.__file__).parent)


@cache
def is_own(file: str) -> bool:
    """Return whether a file of code is a learner's: not one of Python's, torch's or the course's."""
    return not file.startswith("<frozen ") and LIBRARIES.isdisjoint(Path(file).parents)


def called_by_own_code() -> bool:
    """Return whether a learner's code triggered the current audit event, directly or through ctypes."""
    frame = sys._getframe(2)  # the hook's caller, where this is called by the hook
    while frame.f_back and frame.f_code.co_filename.startswith(CTYPES):
        frame = frame.f_back
    return is_own(frame.f_code.co_filename)


def is_for_torch_itself(name: str, frame: FrameType | None) -> bool:
    """Return whether torch or the course calls `name` in `frame` for its own purposes.

    Such code mentions the name. A helper that calls whatever it is given, such as `tree_map`, does not: then its caller
    made the call.
    """
    while frame and frame.f_code.co_filename in PASSING:
        frame = frame.f_back
    if frame is None or name not in frame.f_code.co_names:
        return False
    return not {TORCH, *COURSE}.isdisjoint(Path(frame.f_code.co_filename).parents)
