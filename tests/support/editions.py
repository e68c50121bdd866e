"""Editions of lesson 01: with other points, or without an exercise, as if its author had changed it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from autograde.classroom import synthetic_class
from autograde.course.build import generate
from autograde.judge import fingerprint
from autograde.source import paths, release, script
from tests.support.stand_ins import LESSON
from torchcourse.model import catalogue

__all__ = ["edition"]

CACHES = (
    release.load_release, fingerprint.fingerprint, fingerprint.observation_key, fingerprint.private_hashes,
    fingerprint._solved, synthetic_class._released,
)  # fmt: skip


@contextmanager
def edition(folder: Path, points: Mapping[str, int], without: str = "") -> Iterator[None]:
    """Have the course's lesson 01 give other points to some exercises, and lack the exercise `without`."""
    text = (paths.SOLUTIONS / f"{LESSON}.py").read_text()
    for name, worth in points.items():
        text = re.sub(rf'(exercise="{name}" points=)\d+', rf"\g<1>{worth}", text)
    if without:
        text = re.sub(rf'# %% exercise="{without}".*?check\("{without}"\)\n', "", text, flags=re.DOTALL)
    folder.mkdir()
    (folder / f"{LESSON}.py").write_text(text)
    known = {name: each for name, each in catalogue.exercises(LESSON).items() if name != without}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paths, "SOLUTIONS", folder)
        patch.setattr(script, "exercises", lambda lesson: known)
        made = generate([LESSON], folder / "build", f"sqlite:///{folder / 'build' / 'gradebook.db'}")
        patch.setattr(paths, "NOTEBOOKS", folder)
        shutil.copyfile(made / LESSON / f"{LESSON}.ipynb", folder / f"{LESSON}.ipynb")
        _forget()
        yield
    _forget()


def _forget() -> None:
    for cached in CACHES:
        cached.cache_clear()
