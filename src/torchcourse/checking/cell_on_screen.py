"""A script for a card: it compares the answer that was checked with the text that its cell has on the screen.

The kernel sees only the saved file, seconds later. Where the script cannot ask JupyterLab, `save_watch` alone follows
the cell.
"""

from __future__ import annotations

from pathlib import Path

from torchcourse.checking.answer_cell import CHANGED, id_of
from torchcourse.checking.report import TITLES
from torchcourse.workspace.page_script import page_script

__all__ = ["script_for"]


def script_for(source: str) -> str:
    """Return an HTML script that belongs behind the card about the cell with this source; "" where that is unknown."""
    cell_id = id_of(source)
    if not cell_id:
        return ""
    titles = {"right": f"{TITLES['passed']} · ", "stale": f"{TITLES['stale']} · "}
    return page_script(Path(__file__).with_suffix(".js"), cell_id=cell_id, source=source, changed=CHANGED, **titles)
