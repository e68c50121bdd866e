"""A script for a card: it compares the answer that was checked with the text that its cell has on the screen.

The kernel sees only the saved file, seconds later. The script needs JupyterLab's application, which our settings give
to scripts in notebooks; elsewhere it does nothing, and `save_watch` alone follows the cell.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from torchcourse.checking.answer_cell import CHANGED, id_of
from torchcourse.checking.report import TITLES

__all__ = ["script_for"]


def script_for(source: str) -> str:
    """Return an HTML script that belongs behind the card about the cell with this source; "" where that is unknown."""
    cell_id = id_of(source)
    if not cell_id:
        return ""
    titles = {"right": f"{TITLES['passed']} · ", "stale": f"{TITLES['stale']} · "}
    judged = {"cell_id": cell_id, "source": source, "changed": CHANGED, **titles}
    as_json = json.dumps(judged).replace("<", "\\u003c")  # no tag in the source ends the script
    return f"<script>{_script().replace('JUDGED', as_json)}</script>"


@cache
def _script() -> str:
    return Path(__file__).with_suffix(".js").read_text(encoding="utf-8")
