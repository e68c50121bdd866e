"""Scripts that run in JupyterLab: one compares a checked answer with its cell on the screen, one reloads the notebook.

The kernel sees only the saved file, seconds later. The scripts need JupyterLab's application, which our settings give
to scripts in notebooks; elsewhere they do nothing: `save_watch` alone follows the cell, and learners reload.
"""

from __future__ import annotations

import json
from pathlib import Path
from uuid import uuid4

from torchcourse.checking.answer_cell import cell_of, id_of

__all__ = ["reloading_script", "script_for"]


def script_for(answer: object) -> str:
    """Return an HTML script that belongs behind the card about `answer`; "" where its cell is unknown."""
    source = cell_of(answer)
    cell_id = id_of(source)
    if not cell_id:
        return ""
    judged = json.dumps({"cell_id": cell_id, "source": source}).replace("<", "\\u003c")  # no tag ends the script
    return _script("cell_on_screen").replace("JUDGED", judged)


def reloading_script() -> str:
    """Return an HTML script that shows the notebook, once, as it is in its file, unless it has unsaved changes."""
    return _script("reload_notebook").replace("TOKEN", f'"{uuid4().hex}"')


def _script(name: str) -> str:
    return f"<script>{Path(__file__).with_name(f'{name}.js').read_text(encoding='utf-8')}</script>"
