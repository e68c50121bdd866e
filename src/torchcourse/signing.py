"""Jupyter's trust in a notebook, kept where one of our commands rewrites it.

Jupyter signs what it saves after running it; outputs of a notebook that it has not signed lose their style and their
buttons until they are run again. So a notebook that was signed before a command rewrote it is signed again after that.
What was not, stays unsigned: its outputs may come from anybody.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torchcourse.labsettings import as_in_lab
from torchcourse.notebookfile import Notebook, write

__all__ = ["rewrite"]


def rewrite(path: Path, notebook: Notebook) -> None:
    """Put a notebook in the place of the one at `path`, and let Jupyter trust it as much as that one.

    Raises:
        DeskError: when it cannot be written; the file is then as it was.
    """
    trusted = _is_signed(path)
    write(path, notebook)
    if trusted:
        _sign(notebook)


def _is_signed(path: Path) -> bool:
    with contextlib.suppress(Exception), _notary() as notary:  # no Jupyter here, its store is locked, an odd notebook
        return bool(notary and notary.check_signature(_as_jupyter_reads(path.read_text(encoding="utf-8"))))
    return False


def _sign(notebook: Notebook) -> None:
    with contextlib.suppress(Exception), _notary() as notary:  # outputs without style are no reason to stop
        notary.sign(_as_jupyter_reads(json.dumps(notebook)))


def _as_jupyter_reads(content: str) -> Any:
    from nbformat import reader

    return reader.reads(content)


@contextmanager
def _notary() -> Iterator[Any]:
    """Jupyter's notary; None where it has signed nothing yet, so that a look makes no files."""
    from jupyter_core.paths import jupyter_data_dir
    from nbformat.sign import NotebookNotary

    with as_in_lab():
        folder = Path(jupyter_data_dir())
    if not (folder / "notebook_secret").is_file():
        yield None
        return
    notary = NotebookNotary(data_dir=str(folder))
    try:
        yield notary
    finally:
        notary.store.close()
