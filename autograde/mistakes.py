"""Known mistakes: a misconception is a program."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Mistake", "combined", "slips"]


@dataclass(frozen=True)
class Mistake:
    """What somebody with a misconception writes.

    Attributes:
        name: the misconception's name; several programs may share one.
        program: the answer that he writes.
        sentence: explains the mistake in terms of what was observed; `{fields}` as `explaining.quote` fills them.
        read: the heading of the section of the lesson to reread.
        options: keyword arguments with which `program` makes this mistake; mistakes that are options of one program
            can be made together, and are then tried together.
    """

    name: str
    program: Callable[..., Any]
    sentence: str
    read: str
    options: dict[str, Any] = field(default_factory=dict)

    def answer(self) -> Callable[..., Any]:
        """The program as a learner would have it."""
        return functools.partial(self.program, **self.options) if self.options else self.program


def slips(program: Callable[..., Any], read: str, /, **named: tuple[dict[str, Any], str]) -> list[Mistake]:
    """Mistakes that are options of one program, as `name_with_underscores=(options, sentence)`."""
    return [
        Mistake(name.replace("_", "-"), program, sentence, read, options)
        for name, (options, sentence) in named.items()
    ]  # fmt: skip


def combined(mistakes: Sequence[Mistake]) -> Iterator[tuple[Mistake, Mistake, Mistake]]:
    """Mistakes made together: the two, and what stands for both. They set different options of one program."""
    for one, other in itertools.combinations([m for m in mistakes if m.options], 2):
        if one.program is other.program and one.name != other.name and not one.options.keys() & other.options.keys():
            both = Mistake(f"{one.name}+{other.name}", one.program, "", one.read, one.options | other.options)
            yield one, other, both
