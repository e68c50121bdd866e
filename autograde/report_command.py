"""The instructor's command on a graded class."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["report"]


def report(
    out: Annotated[Path, typer.Argument(help="what `torchcourse grade --out` wrote: grades.csv and autograded/")],
    html: Annotated[Path | None, typer.Option("--html", help="the page; OUT/report.html if not given")] = None,
) -> None:
    """Make one page about a class: scores, pass rates, common mistakes, time-outs, answers that look alike."""
    from autograde.files import write_atomically
    from autograde.report import report as make
    from autograde.rows import BadTableError

    target = html or out / "report.html"
    try:
        write_atomically(target, make(out))
    except BadTableError as error:
        typer.echo(str(error))
        raise typer.Exit(2) from None
    except OSError as error:
        typer.echo(f"{target} could not be written: {error.strerror}.")
        raise typer.Exit(2) from None
    typer.echo(f"The report is in {target}; it names learners.")
