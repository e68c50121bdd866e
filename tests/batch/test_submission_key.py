"""What a verdict depends on, and so what is graded again when it changes."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from autograde.judge import fingerprint
from autograde.judge.submission import read_submission
from autograde.settings import LIMITS, SEED
from autograde.source import paths
from autograde.source.private_half import private_path
from autograde.source.release import load_release
from tests.support.stand_ins import LESSON, SOLVED, submit


def forget() -> None:
    """Have every hash made anew."""
    hashes = (fingerprint._machinery, fingerprint._solved, fingerprint.observation_key, fingerprint.private_hashes)
    for remembered in hashes:
        remembered.cache_clear()


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the course's secrets, for changing."""
    shutil.copytree(paths.AUTOGRADE, tmp_path / "autograde", ignore=shutil.ignore_patterns("build", "__pycache__"))
    shutil.copytree(paths.SOLUTIONS, tmp_path / "solutions")
    monkeypatch.setattr(paths, "AUTOGRADE", tmp_path / "autograde")
    monkeypatch.setattr(paths, "SOLUTIONS", tmp_path / "solutions")
    forget()
    yield tmp_path
    forget()


@pytest.mark.parametrize(
    ("file", "old", "new", "changed"),
    [
        ("autograde/hidden/common.py", "import", "import ", ["01_tensors", "02_autograd"]),
        ("autograde/judge/verdict.py", "def decide(", "def  decide(", ["01_tensors", "02_autograd"]),
        ("solutions/01_tensors.py", "amax(", "amax( ", ["01_tensors"]),
        ("solutions/01_tensors.py", "# ## ", "# ## About ", []),
    ],
)
def test_a_change_regrades_the_lessons_it_touches(
    copied: Path, file: str, old: str, new: str, changed: list[str]
) -> None:
    def prints() -> dict[str, str]:
        forget()
        return {lesson: fingerprint.fingerprint.__wrapped__(lesson) for lesson in ("01_tensors", "02_autograd")}

    before = prints()
    assert before == prints()
    text = (copied / file).read_text()
    assert old in text
    (copied / file).write_text(text.replace(old, new, 1))
    assert [lesson for lesson, now in prints().items() if now != before[lesson]] == changed


def test_the_key_is_of_the_cells_as_read_and_of_nothing_about_the_student(tmp_path: Path) -> None:
    def key(student: str, answer: str | None) -> str:
        submission = read_submission(submit(tmp_path, student, answer), student, LESSON)
        return fingerprint.submission_key(submission, SEED, LIMITS)

    assert key("ada", SOLVED) == key("ben", SOLVED)
    assert len({key("ada", SOLVED), key("ada", SOLVED + " "), key("ada", None)}) == 3


def test_another_seed_or_limit_is_another_key(tmp_path: Path) -> None:
    submission = read_submission(submit(tmp_path, "ada", SOLVED), "ada", LESSON)
    pairs = (SEED, LIMITS), (1, LIMITS), (SEED, dataclasses.replace(LIMITS, cell_seconds=1.0))
    assert len({fingerprint.submission_key(submission, seed, limits) for seed, limits in pairs}) == len(pairs)


def test_new_hidden_cases_regrade_only_what_they_touch(copied: Path, tmp_path: Path) -> None:
    who_softens = read_submission(submit(tmp_path, "ada", SOLVED), "ada", LESSON)
    untouched = load_release(LESSON).cells["row_softmax"].source
    nobody = read_submission(submit(tmp_path, "eve", untouched), "eve", LESSON)

    def keys() -> list[str]:
        forget()
        return [fingerprint.submission_key(s, SEED, LIMITS) for s in (who_softens, nobody)]

    before = keys()
    hidden = copied / "autograde" / "hidden" / "tensors"
    other, own = hidden / "describe.py", hidden / "row_softmax.py"
    other.write_text(other.read_text() + "CHANGED = True\n")
    assert keys() == before
    own.write_text(own.read_text() + "CHANGED = True\n")
    assert [now != then for now, then in zip(keys(), before, strict=True)] == [True, False]


def test_what_was_observed_of_an_exercise_holds_until_it_or_what_it_imports_changes(copied: Path) -> None:
    lesson, names = "02_autograd", ("sgd_step", "saved_bytes", "gradient")

    def changed(file: str) -> list[str]:
        """The exercises whose observations are made anew after a change in this file of the grader."""
        forget()
        before = [fingerprint.observation_key(lesson, name) for name in names]
        path = copied / file
        path.write_text(path.read_text() + "\nCHANGED = True\n")
        forget()
        after = [fingerprint.observation_key(lesson, name) for name in names]
        return [name for name, then, now in zip(names, before, after, strict=True) if then != now]

    assert changed(f"autograde/hidden/autograd/{names[0]}.py") == [names[0]]
    assert changed("autograde/hidden/tensors/describe.py") == []
    assert changed("autograde/judge/oracle.py") == list(names)
    assert changed("solutions/01_tensors.py") == []


def test_a_private_half_counts_with_what_it_imports(copied: Path) -> None:
    before = fingerprint.private_hashes.__wrapped__("02_autograd")
    shared = copied / "autograde" / "hidden" / "autograd" / "shared.py"
    shared.write_text(shared.read_text() + "CHANGED = True\n")
    after = fingerprint.private_hashes.__wrapped__("02_autograd")
    users = {name for name in before if "autograd.shared" in private_path("02_autograd", name).read_text()}
    assert {name for name in before if before[name] != after[name]} == users != set()
