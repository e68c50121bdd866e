"""A Dask worker with a stand-in for the lesson grader: `python -m tests.support.cluster_worker SCHEDULER NAME LOG`.

Everything else is real: it gets bytes, compares versions, and answers with bytes. It logs each submission at its start
and takes a moment for it, so that it can be killed in the middle.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

from distributed import Worker

from autograde.batch import cluster_worker
from autograde.judge.lesson_grader import Graded
from autograde.judge.submission import Submission
from tests.support.stand_ins import DEADLY, Quick

MOMENT = 0.3


class Slow(Quick):
    """A stand-in that takes a moment for each submission."""

    def grade(self, sandbox: object, submission: Submission, *_: object) -> Graded:
        if submission.student:
            raise ValueError("a name came along")
        graded = super().grade(sandbox, submission)
        if any(DEADLY in cell.source for cell in submission.cells):
            os._exit(1)
        time.sleep(MOMENT)
        return graded


async def work(scheduler: str, name: str) -> None:
    """Work until the scheduler is gone."""
    folder = str(Quick.log.parent)
    worker = Worker(scheduler, name=name, nthreads=1, dashboard=False, heartbeat_interval="1s", local_directory=folder)
    async with worker:
        await worker.finished()


if __name__ == "__main__":
    Quick.log = Path(sys.argv[3])
    cluster_worker.lesson_grader = Slow  # type: ignore[assignment]
    cluster_worker.isolation_problem = lambda: ""  # type: ignore[assignment]
    asyncio.run(work(sys.argv[1], sys.argv[2]))
