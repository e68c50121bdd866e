"""Observations that say what is wanted, and not what was seen: what is derived outside cannot be said by a probe.

A notebook can rewrite its own probe. What is then sent is judged here without a sandbox: the properties that the grader
derives, in place of what it derives them from.
"""

from __future__ import annotations

import re
from functools import cache

import pytest

from autograde.judge.oracle import oracle
from autograde.judge.run_submission import ExerciseRun, Reply
from autograde.judge.submission import Submission
from autograde.judge.verdict import Verdict, decide
from autograde.results.autograded_notebook import autograded
from autograde.results.feedback import feedback
from autograde.source import paths
from autograde.source.release import load_release
from torchcourse.checking.probe import observe
from torchcourse.checking.result import compare
from torchcourse.model import codec
from torchcourse.model.catalogue import LESSONS, exercises
from torchcourse.model.devices import CPU
from torchcourse.model.observations import Observations, Raised
from torchcourse.probes.native import COMPILER_SAYS

DERIVED = [
    ("01_tensors", "select_scores"), ("03_modules", "Affine"), ("03_modules", "Dropout"), ("04_data", "split_indices"),
    ("04_data", "ShardedStream"), ("04_data", "LengthBatchSampler"), ("04_data", "ResumableSampler"),
]  # fmt: skip
"""Exercises in which properties are compared, and not what was observed."""


judge_of = cache(oracle)


def verdict(lesson: str, name: str, seen: list[Observations]) -> Verdict:
    """The verdict on observations as they arrive."""
    arrived = [Reply(codec.unpack(codec.pack(each))) for each in seen]
    judge = judge_of(lesson, name)
    return decide(Submission("ann", load_release(lesson)), judge, len(judge.cases), {CPU.name: ExerciseRun(arrived)})


@pytest.mark.parametrize(("lesson", "name"), DERIVED)
def test_an_honest_probe_gets_all_points_and_who_sends_the_wanted_properties_gets_nothing(
    lesson: str, name: str
) -> None:
    judge = judge_of(lesson, name)
    raw = [observe(judge.exercise, judge.reference, case) for case in judge.cases]
    found = verdict(lesson, name, raw)
    assert (found.status, found.score) == ("passed", found.max_score)
    wanted = [judge.wanted(CPU.name, number) for number in range(len(judge.cases))]
    assert any(one.keys() != other.keys() for one, other in zip(wanted, raw, strict=True))
    believed = [compare(judge.exercise, c, n, CPU.name, wanted[n], wanted[n]) for n, c in enumerate(judge.cases)]
    assert all(result.passed for result in believed)  # so they would get all points, if they were taken as they came
    found = verdict(lesson, name, wanted)
    assert found.score == 0
    assert found.status in ("failed", "error")


@pytest.mark.parametrize(("lesson", "name"), [("03_modules", "Affine"), ("04_data", "split_indices")])
def test_properties_beside_what_they_are_derived_from_change_nothing(lesson: str, name: str) -> None:
    judge = judge_of(lesson, name)
    mixed = [
        {**judge.wanted(CPU.name, number), **observe(judge.exercise, lambda *args, **kwargs: None, case)}
        for number, case in enumerate(judge.cases)
    ]
    assert verdict(lesson, name, mixed).score == 0


def test_no_text_that_comes_back_keeps_the_pages_from_being_written() -> None:
    """Behind these words lines are taken as they are: half a surrogate pair in them would end the whole batch."""
    text = f"{COMPILER_SAYS}\n\ud800 \x1b[2J"
    for seen in ({"raised": Raised("ValueError", text)}, {"returned": text}, {"\ud800": text}, {"result": [text]}):
        found = verdict("01_tensors", "row_softmax", [seen] * 8)
        submission = Submission("ann", load_release("01_tensors"))
        for page in (autograded(submission, [found]), feedback(submission, [found])):
            assert b"\x1b" not in page.encode()


def test_the_page_on_what_can_be_forged_names_exercises() -> None:
    page = (paths.ROOT / "docs" / "threat-model.md").read_text()
    known = {name for lesson in LESSONS for name in exercises(lesson)}
    named = {name for row in page.splitlines() if row.startswith("  |") for name in re.findall(r"`(\w+)`", row)}
    assert named
    assert named <= known
