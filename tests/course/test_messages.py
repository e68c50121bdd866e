"""What learners read about every known mistake, and would read if it were unknown, is plain English."""

from __future__ import annotations

import re
from collections import defaultdict

import pytest

from autograde.course.messages import messages
from torchcourse.model import stored_observations
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


PLACE = re.compile(r"(at \[[^\]]*\])\W+\1")
"""A place that is named twice, as in "True at [0, 0] at [0, 0]": `{got}` of a tensor names its own."""


def test_no_sentence_names_a_place_twice() -> None:
    fields = defaultdict(lambda: "…", got="True at [0, 0]", at="[0, 0]")
    said = {
        f"{lesson}:{name} {mistake.name}": mistake.sentence.format_map(fields)
        for lesson in LESSONS
        for name, stored in stored_observations.load(lesson).items()
        for mistake in stored.known_mistakes()
    }
    assert len(said) > 1000
    assert not {about: sentence for about, sentence in said.items() if PLACE.search(sentence)}
    assert PLACE.search("{got} at {at}".format_map(fields))


def test_an_unknown_exercise_is_refused() -> None:
    with pytest.raises(LookupError, match="no exercise 'row_softmin'"):
        next(messages(["01_tensors:row_softmin"]))
