"""Every limit of the grader, in one place."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LIMITS", "SEED", "Limits"]

SEED = 20_261_120
"""The seed that hidden cases are drawn from, unless `torchcourse grade --seed` says another."""

MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """What one submission may use. Sizes are in bytes.

    `cell_seconds` and `exercise_seconds` are CPU time; `patience` times as many of wall time may pass, so that no busy
    machine costs anybody a point.
    """

    cell_seconds: float = 10.0
    """one cell; then it is interrupted, and the next one runs"""
    exercise_seconds: float = 10.0
    """all cases of one exercise on one lane"""
    patience: float = 3.0
    """seconds of wall time that may pass for each of CPU time, and on a busy machine as many times that as processes
    want each core: that is not the learner's fault"""
    most_patience: float = 12.0
    """but never more than this"""
    grace_seconds: float = 3.0
    """how much later everything is killed where an interrupt did not help, of wall time"""
    lane_seconds: float = 240.0
    """one submission on one lane, of wall time"""
    submission_seconds: float = 420.0
    """one submission on all lanes, of wall time; then the exercises that are left count as `timeout`"""
    cpu_seconds: int = 120
    """CPU seconds of one process (RLIMIT_CPU)"""
    data_bytes: int = 2048 * MIB
    """private memory of one process (RLIMIT_DATA; the address space cannot be limited, torch needs 4 GB of it)"""
    memory_bytes: int = 4096 * MIB
    """all processes of a worker together, files in the scratch folders among it, and what is loaded beforehand where it
    loads by itself: by a control group where one can be made; else the supervisor looks at private memory and shared
    maps, ten times a second"""
    file_bytes: int = 256 * MIB
    """one file (RLIMIT_FSIZE; DataLoader batches in shared memory are files too)"""
    scratch_bytes: int = 512 * MIB
    """all files in one of the two scratch folders, /tmp and /dev/shm"""
    processes: int = 64
    """processes and threads of one worker (RLIMIT_NPROC)"""
    open_files: int = 1024
    """open files of one process (RLIMIT_NOFILE)"""
    reply_bytes: int = 8 * MIB
    """the observations of one case, as they weigh when they are read; what a cell prints or displays is kept nowhere"""
    observations_bytes: int = 128 * MIB
    """all observations of one submission on one lane: they lie in the grader's own memory until it is judged"""
    deaths: int = 4
    """how often a lane is started again for a submission whose process dies or hangs"""
    notebook_bytes: int = 20 * MIB
    """one notebook's file"""
    notebook_cells: int = 2000
    """cells of one notebook: each is written out again, in the autograded one"""
    start_seconds: float = 300.0
    """until a worker is ready, of wall time"""


LIMITS = Limits()
FIRST_UID = 64_200
"""Workers of graders that run as root get this uid and the ones after it, by their numbers (`numbering.py`)."""
