"""What a check leaves besides observations: what the answer printed in each case, and the lines it raised on."""

from __future__ import annotations

import builtins
import contextlib
import io
import linecache
import pdb
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from unittest import mock

from torchcourse.checking.result import Result
from torchcourse.model.own_code import is_own

__all__ = ["OwnLine", "RunRecord", "breakpoint_notice", "own_lines"]

MAX_PRINTED = 1500
"""Characters that are kept of what an answer prints in one case."""
MAX_LINES = 4
"""Lines of a traceback that are kept: an endless recursion has hundreds."""


@dataclass(frozen=True)
class OwnLine:
    """A line of the learner's own that an exception passed through; `number` counts from the top of its cell."""

    number: int
    function: str
    source: str

    def __str__(self) -> str:
        return f"line {self.number} in {self.function}: {self.source}"


class _Capped(io.StringIO):
    """Text that keeps its first `MAX_PRINTED` characters: an answer may print in an endless loop."""

    def write(self, text: str) -> int:
        if self.tell() <= MAX_PRINTED:
            super().write(text)
        return len(text)


@dataclass
class RunRecord:
    """What an answer did in each case, by the number of the case and the name of the device.

    Attributes:
        printed: what it printed, if anything.
        lines: the learner's own lines that its exception passed through, outermost first.
        met_breakpoint: whether it called `breakpoint` or `pdb.set_trace`, which are ignored inside a check.
    """

    printed: dict[tuple[int, str], str] = field(default_factory=dict)
    lines: dict[tuple[int, str], list[OwnLine]] = field(default_factory=dict)
    met_breakpoint: bool = False

    @contextlib.contextmanager
    def case(self, number: int, device: str) -> Iterator[None]:
        """Keep what is printed in this block as the output of one case. Nothing in it stops, or asks for input.

        A question in a notebook would be open still when the check has run out of time, and block every other cell.
        """
        output = _Capped()
        try:
            with contextlib.redirect_stdout(output), contextlib.ExitStack() as stack:
                for owner, name, stand_in in (
                    (sys, "breakpointhook", self._ignore_breakpoint),
                    (pdb, "set_trace", self._ignore_breakpoint),
                    (builtins, "input", _refuse_to_ask),
                ):
                    stack.enter_context(mock.patch.object(owner, name, stand_in))
                yield
        finally:
            if text := output.getvalue():
                cut = "…" if len(text) > MAX_PRINTED else ""
                self.printed[number, device] = text[:MAX_PRINTED].rstrip("\n") + cut

    def _ignore_breakpoint(self, *args: object, **kwargs: object) -> None:
        self.met_breakpoint = True

    def keep_lines(self, number: int, device: str, error: BaseException) -> None:
        """Keep where an exception of the answer came from."""
        own = own_lines(error)
        self.lines[number, device] = own if len(own) <= MAX_LINES else [own[0], *own[1 - MAX_LINES :]]

    def lines_of(self, result: Result) -> list[OwnLine]:
        """Return the learner's own lines on which a case raised; none if it did not, or if they are unknown."""
        return self.lines.get((result.number, result.device), [])


def _refuse_to_ask(prompt: object = "") -> str:
    raise EOFError("`input` has nobody to ask inside a check")


def own_lines(error: BaseException) -> list[OwnLine]:
    """Return the learner's own lines that an exception passed through, outermost first."""
    codes = [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    sources = [linecache.getline(code.co_filename, line).strip() for code, line in codes]
    return [
        OwnLine(line, code.co_qualname, source)
        for (code, line), source in zip(codes, sources, strict=True)
        if source and is_own(code.co_filename)
    ]


def breakpoint_notice(exercise: str) -> str:
    """Return what to do in place of `breakpoint` inside a check."""
    return f'`breakpoint()` is ignored inside a check; it stops in `case("{exercise}")`, which calls your answer.'
