"""Keep Jupyter's trust in a notebook that one of our commands rewrites.

Jupyter signs what it saves after running it; the outputs of a notebook without its signature lose their style and their
buttons until they are run again. So a notebook that was signed before a command rewrites it is signed again. Others
stay unsigned: their outputs may come from anybody.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torchcourse.model.notebook_file import Notebook, write
from torchcourse.workspace.jupyter_settings import as_in_lab

__all__ = ["rewrite", "trust"]


def rewrite(path: Path, notebook: Notebook, *, ours: bool = False) -> None:
    """Replace the notebook at `path`; Jupyter trusts the new one if it trusted the old one.

    Args:
        path: the notebook's file.
        notebook: what it has from now on.
        ours: whether all of it is made by the course; Jupyter trusts it then, too.

    Raises:
        WorkspaceError: if it cannot be written; the file is then unchanged.
    """
    trusted = ours or _is_signed(path)
    write(path, notebook)
    if trusted:
        _sign(notebook)


def trust(path: Path) -> None:
    """Have Jupyter trust the notebook at `path`, all of whose outputs are made by the course."""
    _sign(json.loads(path.read_text(encoding="utf-8")))


def _is_signed(path: Path) -> bool:
    with contextlib.suppress(Exception), _notary() as notary:  # no Jupyter, its store is locked, an odd notebook
        return bool(notary and notary.check_signature(_as_jupyter_reads(path.read_text(encoding="utf-8"))))
    return False


def _sign(notebook: Notebook) -> None:
    with contextlib.suppress(Exception), _notary(create=True) as notary:  # outputs without style are no reason to fail
        notary.sign(_as_jupyter_reads(json.dumps(notebook)))


def _as_jupyter_reads(content: str) -> Any:
    from nbformat import reader

    return reader.reads(content)


@contextmanager
def _notary(create: bool = False) -> Iterator[Any]:
    """Open Jupyter's notary; yield None if it has signed nothing yet, so that no files are created unless asked for."""
    from jupyter_core.paths import jupyter_data_dir
    from nbformat.sign import NotebookNotary

    with as_in_lab():
        folder = Path(jupyter_data_dir())
    if create:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    elif not (folder / "notebook_secret").is_file():
        yield None
        return
    notary = NotebookNotary(data_dir=str(folder))
    try:
        yield notary
    finally:
        notary.store.close()
