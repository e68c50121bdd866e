"""The exercise `save_weights`: its probe, visible cases and hints."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations, Raised
from torchcourse.probes.crash_points import after_possible_writes, contents, in_a_folder
from torchcourse.probes.observe import kind
from torchcourse.probes.savable_models import copy_of, savable, untouched, values


def weights_in(path: Path) -> Observations:
    """Return the content of a file of weights."""
    if not path.exists():
        return {"the file": "was not written"}
    try:
        held = torch.load(path, weights_only=True)
    except Exception as error:
        with contextlib.suppress(Exception):
            names = sorted(torch.serialization.get_unsafe_globals_in_checkpoint(str(path)))
            return {"weights-only loading": f"refused, for the file needs {', '.join(names)}"}
        return {"weights-only loading": f"failed with {type(error).__name__}"}
    if not isinstance(held, dict):
        return {"the file holds": kind(held)}
    devices = sorted({str(tensor.device) for tensor in held.values() if isinstance(tensor, Tensor)})
    return {"weights-only loading": "works", "names": sorted(map(str, held)), "values": values(held), "on": devices}


@contextlib.contextmanager
def on_another_disk(folder: Path) -> Iterator[None]:
    """Let no file be renamed in this block that comes from outside of `folder`, as if that were on another disk."""

    def guarded(rename: Callable[..., None]) -> Callable[..., None]:
        def renamed(source: Any, target: Any, **options: Any) -> None:
            if not Path(os.fsdecode(source)).resolve().is_relative_to(folder.resolve()):
                raise OSError(errno.EXDEV, "Invalid cross-device link", str(source), None, str(target))
            rename(source, target, **options)

        return renamed

    with mock.patch.multiple(os, rename=guarded(os.rename), replace=guarded(os.replace)):
        yield


@in_a_folder
def probe(answer: Watched, which: str, width: int, fill: float, old: bool, like: Tensor) -> Observations:
    """Save over an older file, and look at the file at every moment in between."""
    net, path = savable(which, width, fill, like.device), Path("run", "weights.pt")
    path.parent.mkdir()
    before, flag = copy_of(net), net.training
    if old:
        torch.save(savable(which, width, fill + 0.3).state_dict(), path)
    held, inode = [contents(path)], path.stat().st_ino if old else 0

    def look() -> None:
        if (now := contents(path)) != held[-1]:
            held.append(now)

    try:
        with on_another_disk(path.parent), after_possible_writes(look):
            answer(net, path)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        return {"saving": Raised("OSError", str(error), "the draft is on another disk")}
    look()
    seen = weights_in(path)
    between = [data for data in held if data not in (held[0], held[-1])]
    torn = "neither the old nor the new one" if old else "there only in part"
    state = "missing" if None in between else torn if between else "always whole"
    if old and not between and path.stat().st_ino == inode:  # one call may write it all, and be cut off in the middle
        state = "the same file, written over"
    seen["the file, from the first moment to the last"] = state
    moved = sorted({str(tensor.device) for tensor in net.state_dict().values() if tensor.device != like.device})
    after = f"moved to {moved[0]}" if moved else untouched(net, before)
    return {**seen, "model afterwards": after, "mode kept": net.training == flag}


def cases(draw: Draw) -> list[Case]:
    w, fill, like = draw.size(3, 5), draw.size(1, 5) / 10, torch.zeros(1)
    return [
        case("a first file", which="mlp", width=w, fill=fill, old=False, like=like),
        case("over an older file", which="mlp", width=w, fill=fill, old=True, like=like),
        case("with buffers, over an older file", which="normed", width=w, fill=fill, old=True, like=like),
        case("weights tied", which="tied", width=w, fill=fill, old=True, like=like),
    ]


def quotes(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {
        "loading": seen.get("weights-only loading"),
        "moments": seen.get("the file, from the first moment to the last"),
        "holds": seen.get("the file holds", "a dict"),
        "afterwards": seen.get("model afterwards"),
        "on": ", ".join(seen.get("on", [])),
        "file": seen.get("the file", "still holds what it held before"),
    }
    if isinstance(seen.get("saving"), Raised):
        fields["saving"] = seen["saving"].message.split(":")[0]
    if "names" in seen and "names" in wanted:
        fields["names"] = seen["names"]
        fields["missing"] = [name for name in wanted["names"] if name not in seen["names"]]
    return fields


EXERCISE = Exercise(
    "save_weights",
    probe,
    cases,
    hints=(
        "Which method of a model gives its tensors by name, and nothing of its class? And what brings each of them to "
        "the CPU, so that the file says nothing about a GPU?",
        "While `torch.save` writes to `path`, the old file is gone already and the new one is not there yet. Where "
        "could the new one be written in the meantime?",
        "`os.replace(a, b)` puts one file in the place of another in a single step of the file system. Both must lie "
        "in the same folder, or at least on the same disk.",
    ),
    quotes=quotes,
)
