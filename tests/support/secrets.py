"""Search what learners get for answers and for the private halves of exercises."""

from __future__ import annotations

import ast
import re

from autograde.source import paths
from autograde.source.private_half import private_path
from autograde.source.script import Cell, read_script
from torchcourse.model.catalogue import LESSONS, exercises

__all__ = ["leaked_answers", "leaked_programs", "squeezed"]

TOO_SHORT_TO_TELL = 40
"""Characters of a program that anybody might write, such as `return torch.empty_like(x)`."""
BLOCK = 12
"""Characters of the blocks by which a long text is searched."""


def squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text)


class Searched:
    """A long text that is searched for thousands of others, each of which most often is not in it.

    Whatever is in it and has twice the length of a block contains one of the blocks into which it is cut here.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.blocks = {text[i : i + BLOCK] for i in range(0, len(text), BLOCK)}

    def __contains__(self, part: str) -> bool:
        may_be = len(part) < 2 * BLOCK or any(part[i : i + BLOCK] in self.blocks for i in range(BLOCK))
        return may_be and part in self.text


def leaked_answers(text: str) -> list[str]:
    """Return the exercises whose answer, or a long line of it, is in a squeezed text."""
    everything = Searched(text)
    cells = [cell for lesson in LESSONS for cell in read_script(paths.SOLUTIONS / f"{lesson}.py")]
    public = squeezed("\n".join(map(_shown, cells)))
    answers = [cell for cell in cells if cell.exercise]
    assert len(answers) > 100
    return [cell.exercise for cell in answers if _leaks(cell, everything, public)]


def _shown(cell: Cell) -> str:
    """Return what a lesson shows on purpose: a cell that is no answer, and what stands around the answer in one."""
    return re.sub(r"(?s)### BEGIN SOLUTION.*### END SOLUTION", "", cell.source)


def _leaks(cell: Cell, everything: Searched, public: str) -> bool:
    body = cell.source.split("### BEGIN SOLUTION")[1].split("### END SOLUTION")[0]
    lines = [line.strip() for line in body.splitlines()]
    own = [squeezed(line) for line in lines if len(line) > 45 and not line.startswith("#")]
    return squeezed(body) in everything or any(line in everything and line not in public for line in own)


def leaked_programs(text: str) -> list[str]:
    """Return the functions and classes of private halves (cases, mistakes, answers) that are in a squeezed text."""
    programs, leaked = Searched(text), []
    for path in (private_path(lesson, name) for lesson in LESSONS for name in exercises(lesson)):
        source = path.read_bytes()
        lines = source.splitlines()
        for node in ast.parse(source).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                body = "".join(squeezed(_segment(lines, part)) for part in node.body)
                if len(body) >= TOO_SHORT_TO_TELL and body in programs:
                    leaked.append(f"{path.name}: {node.name}")
    return leaked


def _segment(lines: list[bytes], part: ast.stmt) -> str:
    """Return what `ast.get_source_segment` does, which splits the whole source into lines at each call."""
    own = lines[part.lineno - 1 : part.end_lineno]
    own[-1] = own[-1][: part.end_col_offset]
    own[0] = own[0][part.col_offset :]
    return b"\n".join(own).decode()
