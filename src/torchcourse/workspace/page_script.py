"""Scripts in outputs, which ask the JupyterLab that shows them for its application.

JupyterLab and Notebook 7 give it to scripts only if they are told to (`expose_app_in_browser`), as our settings do.
Elsewhere these scripts do nothing.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["page_script"]


def page_script(file: Path, **values: Any) -> str:
    """Return the script in a file as HTML, with these values as a JavaScript object where it has `VALUES`."""
    as_json = json.dumps(values).replace("<", "\\u003c")  # no tag in a value ends the script
    return f"<script>{_text(file).replace('VALUES', as_json)}</script>"


@cache
def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8")
