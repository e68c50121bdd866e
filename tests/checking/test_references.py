"""References: in a clone, in the self-study package, and where there are none."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from autograde.source import paths
from autograde.source.private_half import private_half
from autograde.source.script import answers_as_text
from tests.support.cards import right
from tools.selfstudy import write_wheel
from torchcourse.checking import card, references
from torchcourse.checking.card_details import card_details
from torchcourse.checking.references import pack, reference
from torchcourse.checking.report import Report
from torchcourse.model.catalogue import LESSONS, exercises


def test_each_exercise_has_three_hints_and_in_a_clone_a_reference_and_a_reason() -> None:
    for lesson in LESSONS:
        for name, exercise in exercises(lesson).items():
            assert len(set(exercise.hints)) == 3, name
            found = reference(lesson, name)
            assert found is not None and found.why == private_half(lesson, name).why
            assert f"def {name}" in found.source or f"class {name}" in found.source
            assert "SOLUTION" not in found.source and "# %%" not in found.source
            assert 20 <= len(found.why.split()) <= 70, name
            compile(found.source, name, "exec")


def test_a_card_shows_what_grading_takes_for_the_reference_without_the_code_given_to_learners() -> None:
    for lesson in LESSONS:
        graded = answers_as_text(paths.SOLUTIONS / f"{lesson}.py")
        shown = {name: found.source for name in exercises(lesson) if (found := reference(lesson, name))}
        assert shown == graded
        assert not [name for name, source in shown.items() if "#>" in source]


def test_where_there_are_no_references_a_card_has_no_such_part(class_bundle: Path, passed: Report) -> None:
    assert reference("01_tensors", "row_softmax") is None
    more = card_details(passed, right)
    assert (more.reference, more.answer) == (None, "")
    assert "reference" not in card.as_html(passed, more)
    with pytest.raises(LookupError, match="no reference of row_softmax"):
        pack({"01_tensors": ["row_softmax"]})


def test_the_self_study_package_carries_all_references_in_one_file_and_the_tree_does_not(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    every = {lesson: list(exercises(lesson)) for lesson in LESSONS}
    wanted = {name: reference(lesson, name) for lesson, names in every.items() for name in names}
    with zipfile.ZipFile(write_wheel(tmp_path)) as wheel:
        packed = wheel.read(f"torchcourse/{references.PACKED.name}").decode()
    assert not references.PACKED.exists()
    (request.getfixturevalue("class_bundle") / "references.json").write_text(packed)
    assert {name: reference(lesson, name) for lesson, names in every.items() for name in names} == wanted
    assert reference("01_tensors", "no_such") is None


@pytest.mark.parametrize("text", ["", "[]", '{"row_softmax": 3}', "\x00"])
def test_a_damaged_file_of_references_costs_nothing_else(class_bundle: Path, passed: Report, text: str) -> None:
    (class_bundle / "references.json").write_text(text)
    assert "All" in card.as_html(passed, card_details(passed, right))
    assert reference("01_tensors", "row_softmax") is None
