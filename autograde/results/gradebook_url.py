"""Where a gradebook is: a file or a server, as the URL that nbgrader takes. Imports no torch."""

from __future__ import annotations

import contextlib
from pathlib import Path

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

__all__ = ["CONNECT_SECONDS", "gradebook_file", "gradebook_url", "sqlite_url"]

CONNECT_SECONDS = 10
"""How long a PostgreSQL server may take to answer, unless the URL says `connect_timeout`. libpq would wait for ever."""


def gradebook_url(out: Path, named: str = "") -> str:
    """Return the URL of the gradebook for the results in `out`: `named` if it is given, else a file in `out`.

    The path of a file is absolute in it, because nbgrader and the programs of oracles change the working folder. A
    server has a limit on the time it takes to answer.
    """
    if not named:
        return sqlite_url(out / "gradebook.db")
    if named.startswith("sqlite:///"):
        place = make_url(named)
        return place.set(database=str(Path(place.database or "").absolute())).render_as_string(hide_password=False)
    with contextlib.suppress(ArgumentError, ValueError):  # what is no URL is refused where it is first used
        place = make_url(named)
        if place.get_backend_name() == "postgresql" and "connect_timeout" not in place.query:
            limited = place.update_query_dict({"connect_timeout": str(CONNECT_SECONDS)})
            return limited.render_as_string(hide_password=False)
    return named


def gradebook_file(url: str) -> Path | None:
    """Return the file of a gradebook; None if it is on a server."""
    place = make_url(url)
    return Path(place.database or "") if place.get_backend_name() == "sqlite" else None


def sqlite_url(path: Path) -> str:
    """Return the URL of a gradebook in a file."""
    return f"sqlite:///{path.absolute()}"
