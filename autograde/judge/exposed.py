"""Refuse to grade where submissions could read answers or other confidential files."""

from __future__ import annotations

from pathlib import Path

from autograde.judge.oracle_cache import cache_folder
from autograde.sandbox.requirements import exposed_path_problem
from autograde.source import paths
from torchcourse.checking.references import PACKED
from torchcourse.model.own_course import own_course

__all__ = ["exposed_answers_problem"]


def exposed_answers_problem(*folders: Path) -> str:
    """Say that submissions could read answers, hidden cases, saved observations or `folders`, with the remedy; or "".

    Every way to a sandbox asks this: `torchcourse grade`, nbgrader's commands, the workers of a cluster.
    """
    if PACKED.is_file():
        return (
            f"{PACKED} holds references, as a package for self-study does, and submissions may read it: grade with a "
            "checkout of the course instead."
        )
    own = own_course()
    secrets = [own / "solutions", own / "hidden"] if own else []
    return exposed_path_problem([paths.SOLUTIONS, paths.AUTOGRADE / "hidden", *secrets, cache_folder(), *folders])
