"""Save what references, mistakes and right answers were observed to do, for the next run of the grader or the author.

The formgrader's button and `nbgrader autograde` start a process each time, and running a lesson's references and
mistakes in all hidden cases takes longer than running a submission. And an author who has changed one exercise need not
wait for the others. A saved observation is used while the exercise, the lesson's answers, the grader, the libraries,
the seed and the machine are the same. The folder is the instructor's and is not mounted in the
sandbox; deleting it only costs time.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
from pathlib import Path

import platformdirs
import torch

from autograde.files import digest
from autograde.judge.fingerprint import observation_key
from autograde.judge.oracle import Oracle
from torchcourse.model import codec
from torchcourse.model.files import replacing

__all__ = ["OracleCache", "cache_folder"]

MAX_FOLDERS = 80
"""How many folders are kept, each for one lesson, seed and machine: those that were written to last."""
MAX_FILES = 3
"""How many files of an exercise are kept in a folder, each for one version of it: those that were written last."""


def cache_folder() -> Path:
    """Return the folder of saved observations, in TORCHCOURSE_CACHE or else in the user's cache."""
    return Path(os.environ.get("TORCHCOURSE_CACHE") or platformdirs.user_cache_path("torchcourse")) / "findings"


class OracleCache:
    """The observations of earlier runs for one lesson with one accelerator, in cases drawn with one seed.

    Without a seed they are those in the visible cases.
    """

    def __init__(self, lesson: str, seed: int | None, accelerator: str) -> None:
        gpu = torch.cuda.get_device_name() if accelerator == "cuda" else ""
        machine = f"{platform.node()} {platform.machine()} {torch.backends.cpu.get_cpu_capability()} {gpu}"
        self.lesson, self.folder = lesson, cache_folder() / f"{lesson}-{digest(f'{seed} {accelerator} {machine}')[:24]}"
        self._saved_counts: dict[str, int] = {}

    def load(self, oracle: Oracle) -> None:
        """Add the observations of earlier runs to an oracle; nothing if they cannot be read."""
        with contextlib.suppress(OSError, ValueError, TypeError, LookupError):
            saved = codec.unpack(self._path(oracle.exercise.name).read_bytes(), trusted=True)
            oracle.observed.update({(who, device, number): seen for who, device, number, seen in saved})
        self._saved_counts[oracle.exercise.name] = len(oracle.observed)

    def save(self, oracle: Oracle) -> None:
        """Save the observations of an oracle; if they cannot be written, the next run observes again."""
        if len(oracle.observed) == self._saved_counts.get(oracle.exercise.name, 0):
            return
        observed = [[*key, seen] for key, seen in oracle.observed.copy().items()]
        with contextlib.suppress(OSError, TypeError):  # TypeError: a type that the codec cannot pack
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with replacing(self._path(oracle.exercise.name), several_writers=True) as part:
                part.write_bytes(codec.pack(observed))
            versions = self.folder.glob(f"{oracle.exercise.name}-*.bin")
            for old in sorted(versions, key=lambda path: path.stat().st_mtime, reverse=True)[MAX_FILES:]:
                old.unlink(missing_ok=True)
            self._saved_counts[oracle.exercise.name] = len(observed)

    def _path(self, exercise: str) -> Path:
        return self.folder / f"{exercise}-{digest(observation_key(self.lesson, exercise))[:24]}.bin"

    def remove_old(self) -> None:
        """Remove all folders but the `MAX_FOLDERS` that were written to last."""
        with contextlib.suppress(OSError):
            folders = sorted(cache_folder().iterdir(), key=lambda folder: folder.stat().st_mtime, reverse=True)
            for folder in folders[MAX_FOLDERS:]:
                shutil.rmtree(folder, ignore_errors=True)
