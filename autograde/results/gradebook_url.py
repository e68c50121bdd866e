"""Where a gradebook is: a file or a server, as the URL that nbgrader takes. Imports no torch."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import make_url

__all__ = ["gradebook_file", "gradebook_url", "sqlite_url"]


def gradebook_url(out: Path, named: str = "") -> str:
    """Return the URL of the gradebook for the results in `out`: `named` if it is given, else a file in `out`.

    The path of a file is absolute in it, because nbgrader and the programs of oracles change the working folder.
    """
    if not named:
        return sqlite_url(out / "gradebook.db")
    if not named.startswith("sqlite:///"):
        return named
    place = make_url(named)
    return place.set(database=str(Path(place.database or "").absolute())).render_as_string(hide_password=False)


def gradebook_file(url: str) -> Path | None:
    """Return the file of a gradebook; None if it is on a server."""
    place = make_url(url)
    return Path(place.database or "") if place.get_backend_name() == "sqlite" else None


def sqlite_url(path: Path) -> str:
    """Return the URL of a gradebook in a file."""
    return f"sqlite:///{path.absolute()}"
