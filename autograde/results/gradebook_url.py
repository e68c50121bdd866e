"""Where a gradebook is: a file or a server, as the URL that nbgrader takes. Imports no torch."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import make_url

__all__ = ["gradebook_file", "gradebook_url", "sqlite_url"]


def gradebook_url(out: Path, named: str = "") -> str:
    """Return the URL of the gradebook for the results in `out`: `named` if it is given, else a file in `out`."""
    return named or sqlite_url(out / "gradebook.db")


def gradebook_file(url: str) -> Path | None:
    """Return the file of a gradebook; None if it is on a server."""
    place = make_url(url)
    return Path(place.database or "") if place.get_backend_name() == "sqlite" else None


def sqlite_url(path: Path) -> str:
    """Return the URL of a gradebook in a file."""
    return f"sqlite:///{path.absolute()}"  # nbgrader changes the working folder
