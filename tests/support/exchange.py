"""Use nbgrader's exchange by running nbgrader's own programs in this process, which saves seconds each time."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

from nbgrader.apps import FetchAssignmentApp, FetchFeedbackApp, SubmitApp
from nbgrader.apps.nbgraderapp import NbGraderApp

__all__ = ["Learner"]


@contextlib.contextmanager
def _at(folder: Path) -> Iterator[None]:
    """Run this block in `folder`, which also is the home."""
    before = dict(os.environ)
    places = {name: str(folder / f".{name}") for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR")}
    os.environ.update(places, HOME=str(folder))
    try:
        with contextlib.chdir(folder), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _run(kind: type[NbGraderApp], folder: Path, *arguments: str) -> None:
    with _at(folder):
        app = kind()
        try:
            app.initialize(list(arguments))
            app.start()
        finally:
            for handler in list(app.log.handlers):
                app.log.removeHandler(handler)
                handler.close()


class Learner:
    """A learner with their own home, who knows the course's name and the folder of the exchange."""

    def __init__(self, name: str, home: Path, exchange: Path) -> None:
        self.name, self.home = name, home
        home.mkdir(exist_ok=True)
        self._options = ["--course=torchcourse", f"--Exchange.root={exchange}", f"--student={name}"]

    def fetch(self, lesson: str) -> Path:
        """Fetch an assignment and return its notebook."""
        _run(FetchAssignmentApp, self.home, lesson, *self._options)
        return self.home / lesson / f"{lesson}.ipynb"

    def submit(self, lesson: str) -> None:
        _run(SubmitApp, self.home, lesson, *self._options)

    def feedback(self, lesson: str) -> list[str]:
        """Fetch feedback and return the pages."""
        _run(FetchFeedbackApp, self.home, lesson, *self._options)
        return [page.read_text(encoding="utf-8") for page in self.home.rglob("feedback/**/*.html")]
