"""What references and mistakes were found to do, kept from one run of the grader to the next.

The formgrader's button and `nbgrader autograde` start a process for each press, and running a lesson's reference and
mistakes over all hidden cases takes longer than examining a submission. What is kept is believed while the lesson, the
grader, the libraries, the seed and the machine are the same; it lies in a folder of the instructor's own, which is not
mounted in the sandbox. Losing it costs time only.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import shutil
from pathlib import Path

import platformdirs
import torch

from autograde.journal import fingerprint, secrets
from autograde.oracle import Oracle
from torchcourse import codec

__all__ = ["Kept", "kept_folder"]

MOST_FOLDERS = 40
"""Of so many lessons, seeds and versions the findings are kept; then those go that were not used for longest."""


def kept_folder() -> Path:
    """Where findings are kept: TORCHCOURSE_CACHE, or else a folder of the user's cache."""
    return Path(os.environ.get("TORCHCOURSE_CACHE") or platformdirs.user_cache_path("torchcourse")) / "findings"


class Kept:
    """The findings of earlier runs about one lesson with one seed and one accelerator."""

    def __init__(self, lesson: str, seed: int, accelerator: str) -> None:
        device = torch.cuda.get_device_name() if accelerator == "cuda" else ""
        machine = f"{platform.node()} {platform.machine()} {torch.backends.cpu.get_cpu_capability()} {device}"
        wanted = f"{fingerprint(lesson)} {sorted(secrets(lesson).items())} {seed} {accelerator} {machine}"
        self.folder = kept_folder() / f"{lesson}-{hashlib.sha256(wanted.encode()).hexdigest()[:24]}"
        self._known: dict[str, int] = {}

    def recall(self, oracle: Oracle) -> None:
        """Let an oracle know what it found out in earlier runs; nothing where that cannot be read."""
        with contextlib.suppress(OSError, ValueError, TypeError, LookupError):
            found = codec.unpack(self._path(oracle).read_bytes(), trusted=True)
            oracle.found.update({(who, lane, number): seen for who, lane, number, seen in found})
        self._known[oracle.exercise.name] = len(oracle.found)

    def keep(self, oracle: Oracle) -> None:
        """Keep what an oracle has found out; where that cannot be written, the next run finds it out again."""
        if len(oracle.found) == self._known.get(oracle.exercise.name, 0):
            return
        found = [[*key, seen] for key, seen in oracle.found.copy().items()]
        path = self._path(oracle)
        part = path.with_name(f".{path.name}.{os.getpid()}")  # several graders may keep the same
        with contextlib.suppress(OSError, TypeError):  # TypeError: what cannot be written down
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            part.write_bytes(codec.pack(found))
            part.replace(path)
            self._known[oracle.exercise.name] = len(found)

    def _path(self, oracle: Oracle) -> Path:
        return self.folder / f"{oracle.exercise.name}.bin"

    def forget_old(self) -> None:
        """Remove the folders that were not written to for longest, but for the last `MOST_FOLDERS`."""
        with contextlib.suppress(OSError):
            folders = sorted(kept_folder().iterdir(), key=lambda folder: folder.stat().st_mtime, reverse=True)
            for folder in folders[MOST_FOLDERS:]:
                shutil.rmtree(folder, ignore_errors=True)
