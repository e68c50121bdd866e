"""The exercise `save_weights`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import copy
import io
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "The file is written under another name and then renamed, which is one step for whoever looks: there is "
    "either the old file or the whole new one. The tensors go to the CPU first, so that a machine without that "
    "accelerator can load them."
)
"""Why the reference is written as it is."""
REQUIRED = ("pickles-module", "writes-in-place")
"""The mistakes that a check must always be able to name."""


def on_the_cpu(model: nn.Module) -> dict[str, Any]:
    return {name: tensor.cpu() for name, tensor in model.state_dict().items()}


def replace(thing: Any, path: Path) -> None:
    draft = path.with_suffix(".draft")
    torch.save(thing, draft)
    draft.replace(path)


# Mistakes in what is saved


def pickles_the_module(model: nn.Module, path: Path) -> None:
    replace(model, path)


def saves_parameters(model: nn.Module, path: Path) -> None:
    replace({name: p.detach().cpu() for name, p in model.named_parameters()}, path)


def wraps_the_state(model: nn.Module, path: Path) -> None:
    replace({"state_dict": on_the_cpu(model)}, path)


def loses_the_names(model: nn.Module, path: Path) -> None:
    replace(list(on_the_cpu(model).values()), path)


def leaves_it_on_the_device(model: nn.Module, path: Path) -> None:
    replace(model.state_dict(), path)


def moves_the_model(model: nn.Module, path: Path) -> None:
    replace(model.cpu().state_dict(), path)


# Mistakes in writing


def writes_in_place(model: nn.Module, path: Path) -> None:
    torch.save(on_the_cpu(model), path)


def writes_bytes_in_place(model: nn.Module, path: Path) -> None:
    buffer = io.BytesIO()
    torch.save(on_the_cpu(model), buffer)
    path.write_bytes(buffer.getvalue())


def copies_the_draft(model: nn.Module, path: Path) -> None:
    draft = path.with_suffix(".draft")
    torch.save(on_the_cpu(model), draft)
    shutil.copyfile(draft, path)


def writes_a_first_file_in_place(model: nn.Module, path: Path) -> None:
    if path.exists():
        replace(on_the_cpu(model), path)
    else:
        torch.save(on_the_cpu(model), path)


def draft_of_another_folder(model: nn.Module, path: Path) -> str:
    handle, draft = tempfile.mkstemp()
    os.close(handle)
    torch.save(on_the_cpu(model), draft)
    return draft


def replaces_from_another_folder(model: nn.Module, path: Path) -> None:
    draft = draft_of_another_folder(model, path)
    try:
        os.replace(draft, path)
    finally:
        Path(draft).unlink(missing_ok=True)


def drafts_in_the_current_folder(model: nn.Module, path: Path) -> None:
    draft = Path(path.name + ".draft")
    torch.save(on_the_cpu(model), draft)
    os.replace(draft, path)


def moves_from_another_folder(model: nn.Module, path: Path) -> None:
    shutil.move(draft_of_another_folder(model, path), path)


def deletes_the_old_first(model: nn.Module, path: Path) -> None:
    draft = path.with_suffix(".draft")
    torch.save(on_the_cpu(model), draft)
    path.unlink(missing_ok=True)
    draft.replace(path)


def leaves_the_draft(model: nn.Module, path: Path) -> None:
    torch.save(on_the_cpu(model), path.with_suffix(".draft"))


def changes_the_mode(model: nn.Module, path: Path) -> None:
    model.eval()
    replace(on_the_cpu(model), path)


FILES = "A file of numbers"
IN_PLACE = (
    'In the case "{case}" the file was {moments} while it was saved: a crash at that moment leaves no whole file there.'
)
OTHER_DISK = (
    "Renaming the draft ended with this: {saving}. Another folder, such as the current one or that of temporary "
    "files, may be on another disk, and from there nothing can be renamed. Put the draft beside `path`."
)
MISTAKES = [
    Mistake("pickles-module", pickles_the_module, "Weights-only loading was {loading}: the file holds the model as an "
            "object, which only opens where the same classes can be imported, and runs code when it does.", FILES),
    Mistake("writes-in-place", writes_in_place, IN_PLACE, FILES),
    Mistake("writes-in-place", writes_bytes_in_place, IN_PLACE, FILES),
    Mistake("writes-in-place", copies_the_draft, IN_PLACE, FILES),
    Mistake("writes-in-place", moves_from_another_folder, IN_PLACE + " `shutil.move` copies where it cannot rename, "
            "and another folder may be on another disk.", FILES),
    Mistake("writes-in-place", writes_a_first_file_in_place, IN_PLACE + " It makes no difference that there was none "
            "before.", FILES),
    Mistake("draft-in-another-folder", replaces_from_another_folder, OTHER_DISK, FILES),
    Mistake("draft-in-another-folder", drafts_in_the_current_folder, OTHER_DISK, FILES),
    Mistake("deletes-the-old-first", deletes_the_old_first, IN_PLACE, FILES),
    Mistake("leaves-the-draft", leaves_the_draft, 'In the case "{case}" the file at `path` {file}. What is saved '
            "beside it still has to be put in its place, with `os.replace`.", FILES),
    Mistake("forgets-buffers", saves_parameters, "The file has the names {names}, and {missing} are missing: "
            "buffers belong to the state as parameters do.", FILES),
    Mistake("wraps-the-state", wraps_the_state, "The file has the names {names} at its top, where those of the "
            "weights are wanted: the file should hold the state_dict itself.", FILES),
    Mistake("left-on-the-device", leaves_it_on_the_device, "The tensors in the file are on {on}: on a machine without "
            "such a device it does not load. Bring each of them to the CPU first.", FILES),
    Mistake("moves-the-model", moves_the_model, "The model was {afterwards} by the call, and it should stay as it is: "
            "`model.cpu()` moves the model itself. Move the tensors of its `state_dict`.", FILES),
    Mistake("changes-the-mode", changes_the_mode, 'In the case "{case}" the model is no longer in the mode in which '
            "it came. What is saved does not depend on the mode, and the caller may go on training.", FILES),
    Mistake("loses-the-names", loses_the_names, "The file holds {holds}: without names nothing says which tensor "
            "belongs where.", FILES),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    w = draw.size(4, 7)
    names = {"a nested model": "nested", "parameters of its own": "loose", "no weights at all": "none"}
    return [
        case(words, which=name, width=w, fill=0.2, old=draw.size(0, 1) > 0, like=torch.zeros(1))
        for words, name in names.items()
    ]


# Right answers unlike the reference


def save_through_memory(model: nn.Module, path: Path) -> None:
    buffer = io.BytesIO()
    torch.save({k: v.detach().to("cpu") for k, v in model.state_dict().items()}, buffer)
    handle, name = tempfile.mkstemp(dir=os.path.dirname(os.path.abspath(path)))
    with os.fdopen(handle, "wb") as file:
        file.write(buffer.getvalue())
        file.flush()
        os.fsync(file.fileno())
    os.rename(name, path)


def save_with_pathlib(model: nn.Module, path: Path) -> None:
    draft = Path(str(path) + ".tmp")
    state = model.state_dict()
    for name in state:
        state[name] = state[name].cpu()
    with draft.open("wb") as file:
        torch.save(state, file)
    draft.replace(path)


def save_in_a_folder_of_its_own(model: nn.Module, path: Path) -> None:
    with tempfile.TemporaryDirectory(dir=Path(path).parent) as folder:
        inside = os.path.join(folder, "weights")
        torch.save(copy.deepcopy(model).cpu().state_dict(), inside)
        shutil.move(inside, path)


RIGHT_ANSWERS: list[Callable[..., Any]] = [save_through_memory, save_with_pathlib, save_in_a_folder_of_its_own]
