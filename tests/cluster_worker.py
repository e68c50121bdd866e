"""A worker of a Dask cluster whose examiner is a stand-in: `python -m tests.cluster_worker SCHEDULER NAME LOG`.

It is a real worker in all but that: it gets bytes, compares editions, and answers with bytes. It notes what it begins,
and takes a moment over it, so that it can be killed in the middle.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

from distributed import Worker

from autograde import remote
from autograde.examiner import Graded
from autograde.submission import Submission
from tests.stand_ins import DEADLY, Quick

MOMENT = 0.3


class Slow(Quick):
    """Takes a moment, and says what it has begun."""

    def grade(self, sandbox: object, submission: Submission) -> Graded:
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
    remote.examiner = Slow  # type: ignore[assignment]
    remote.blocker = lambda: ""  # type: ignore[assignment]
    asyncio.run(work(sys.argv[1], sys.argv[2]))
