"""nbgrader's exchange as tests use it: nbgrader's own programs in this process, without the seconds a new one takes."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

from nbgrader.apps import CollectApp, FetchAssignmentApp, FetchFeedbackApp, ReleaseAssignmentApp, SubmitApp
from nbgrader.apps.nbgraderapp import NbGraderApp

__all__ = ["Learner", "collect", "release"]


@contextlib.contextmanager
def _at(folder: Path) -> Iterator[None]:
    """In a folder, and with a home that is no real one."""
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


def release(room: Path, lesson: str) -> None:
    """What `nbgrader release_assignment` does in a class folder."""
    _run(ReleaseAssignmentApp, room, lesson)


def collect(room: Path, lesson: str) -> None:
    """What `nbgrader collect --update` does in a class folder."""
    _run(CollectApp, room, lesson, "--update")


class Learner:
    """Somebody with a home of her own, who knows the course's name and where the exchange is."""

    def __init__(self, name: str, home: Path, exchange: Path) -> None:
        self.name, self.home = name, home
        home.mkdir(exist_ok=True)
        self._known = ["--course=torchcourse", f"--Exchange.root={exchange}", f"--student={name}"]

    def fetch(self, lesson: str) -> Path:
        """Fetch an assignment; its notebook."""
        _run(FetchAssignmentApp, self.home, lesson, *self._known)
        return self.home / lesson / f"{lesson}.ipynb"

    def submit(self, lesson: str) -> None:
        _run(SubmitApp, self.home, lesson, *self._known)

    def feedback(self, lesson: str) -> list[str]:
        """Fetch feedback; the pages."""
        _run(FetchFeedbackApp, self.home, lesson, *self._known)
        return [page.read_text(encoding="utf-8") for page in self.home.rglob("feedback/**/*.html")]
