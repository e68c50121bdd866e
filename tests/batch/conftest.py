"""A small class, graded for real except that nothing runs: a stand-in passes what is attempted."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograde.batch import grading
from tests.support.stand_ins import LESSON, SOLVED, submit, use_stand_in, with_gradebook


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Have the stand-in grade, also where nothing can be isolated."""
    use_stand_in(monkeypatch, tmp_path)


@pytest.fixture
def submitted(tmp_path: Path) -> Path:
    """Three submissions, and one that cannot be read."""
    for student in ("ada", "ben", "cleo"):
        submit(tmp_path / "class", student, f"{SOLVED}  # {student}")
    submit(tmp_path / "class", "dan", None)
    return tmp_path / "class"


@pytest.fixture(scope="session")
def gradebook(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A gradebook without submissions: making it takes longer than all the rest."""
    folder = tmp_path_factory.mktemp("book")
    with grading.Writer(folder / "gradebook.db", [LESSON], folder / "scratch"):
        pass
    return folder / "gradebook.db"


@pytest.fixture
def out(tmp_path: Path, gradebook: Path) -> Path:
    """A folder for results that has a gradebook."""
    return with_gradebook(tmp_path / "out", gradebook)
