"""What a learner may type for a notebook and its exercises."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.support.alone import alone
from torchcourse.model.lessons import lessons, released
from torchcourse.model.notebook_file import WorkspaceError
from torchcourse.workspace import named
from torchcourse.workspace.named import find_named


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work").symlink_to(next(iter(released().values())).parent)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("words", "lesson", "exercises"),
    [
        ("01_tensors", "01_tensors", []),
        ("work/01_tensors.ipynb row_softmax", "01_tensors", ["row_softmax"]),
        ("01 row_softmax", "01_tensors", ["row_softmax"]),
        ("1 row_s desc", "01_tensors", ["row_softmax", "describe"]),
        ("02_a", "02_autograd", []),
        ("row_softmax", "01_tensors", ["row_softmax"]),
        ("row_s one_hot", "01_tensors", ["row_softmax", "one_hot"]),
        ("01 LogSigmoid", "01_tensors", ["LogSigmoid"]),  # the check says where that belongs
    ],
)
def test_a_lesson_or_an_exercise_is_found_by_the_beginning_of_its_name(
    words: str, lesson: str, exercises: list[str]
) -> None:
    assert find_named(words.split()) == (Path(f"work/{lesson}.ipynb"), exercises)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("row_sofmax", "There is no lesson or exercise 'row_sofmax'. Did you mean 'row_softmax'?"),
        ("99", "There is no lesson or exercise '99'. The lessons are 01_tensors, "),
        ("05_trainig", "There is no lesson or exercise '05_trainig'. Did you mean '05_training'?"),
        ("01 row_sofmax", "There is no exercise 'row_sofmax'. Did you mean 'row_softmax'?"),
        ("01 s", "'s' may be standardize, select_scores or sliding_windows: type more of its name."),
        ("work/01.ipynb", "There is no notebook work/01.ipynb."),
    ],
)
def test_what_does_not_exist_or_is_not_clear_is_said(words: str, message: str) -> None:
    with pytest.raises(WorkspaceError) as refused:
        find_named(words.split())
    assert str(refused.value).startswith(message)


def test_a_number_that_two_lessons_have_is_not_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = dataclasses.replace(lessons()[0], name="01_mine")
    monkeypatch.setattr(named, "lessons", lambda: [*lessons(), mine])
    with pytest.raises(WorkspaceError, match=r"^1 may be 01_tensors or 01_mine: write the name"):
        find_named(["1"])


def test_a_typo_is_answered_before_torch_is_imported() -> None:
    program = (
        "import sys\nfrom torchcourse.cli import app\n"
        "try:\n    app(['check', 'row_sofmax'])\nfinally:\n    assert 'torch' not in sys.modules\n"
    )
    done = alone(program)
    assert done.returncode == 2 and "Did you mean 'row_softmax'?" in done.stdout, done.stderr
