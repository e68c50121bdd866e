"""What learners read about every known mistake, and would read if it were unknown, is plain English."""

from __future__ import annotations

import re

import pytest

from autograde.course.messages import messages
from torchcourse.model.catalogue import LESSONS

INTERNALS = re.compile(
    r"\((str|NoneType|Raised|bool|dict)\)|raised a tensor|not asked for|is wanted where"
    r"|\bis (stays|changes|follows|fits|fails|passes)\b|object at 0x|…"
)
"""Types of observations, and words that do not follow each other in English."""


@pytest.mark.parametrize("lesson", LESSONS)
def test_every_message_is_in_plain_words(lesson: str) -> None:
    found = [m for m in messages([lesson]) if INTERNALS.search(m.says) or INTERNALS.search(m.unnamed)]
    assert not found, "\n".join(f"{m.about} {m.mistake}\n  {m.says}\n  {m.unnamed}" for m in found[:20])


def test_an_unknown_exercise_is_refused() -> None:
    with pytest.raises(LookupError, match="no exercise 'row_softmin'"):
        next(messages(["01_tensors:row_softmin"]))
