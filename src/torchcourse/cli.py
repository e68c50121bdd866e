"""The `torchcourse` command. The instructor's commands join it where the `autograde` folder is beside the course."""

from __future__ import annotations

import atexit
import gc
import sys
from pathlib import Path
from typing import Annotated

import typer

from torchcourse import learner

app = typer.Typer(
    help="Learn PyTorch by building it: lessons that check every answer.", no_args_is_help=True, add_completion=False
)
CHECKOUT = Path(__file__).resolve().parents[2]


@app.callback()
def course() -> None:
    """Learn PyTorch by building it: lessons that check every answer."""


learner.join(app)


@app.command()
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="print the findings for a program to read")] = False,
) -> None:
    """Look at this machine: what the course finds here, what is missing, and what helps. Changes nothing."""
    from torchcourse import doctor as machine

    more = []
    if is_instructors():
        from autograde.layers import layers

        more.append(layers)
    findings = machine.examine_machine(more)
    print(machine.as_json(findings) if as_json else machine.table(findings))
    raise typer.Exit(any(f.state == "blocked" for f in findings))


def is_instructors() -> bool:
    """Whether the instructor's half lies beside the course."""
    return (CHECKOUT / "autograde" / "__init__.py").exists()


def main() -> None:
    """Run the command."""
    atexit.register(gc.freeze)  # runs last: else the interpreter, as it ends, looks for garbage in all of torch: 1 s
    if is_instructors():
        sys.path.insert(0, str(CHECKOUT))
        from autograde.commands import join

        join(app)
    app()
