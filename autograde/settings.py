"""The limits on one submission and its sandbox."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FIRST_UID", "LIMITS", "MIB", "SEED", "Limits"]

SEED = 20_261_120
"""The seed of hidden cases where no other is given: for the sample, for benchmarks, and for folders that are no class.

It is public, so anybody who has the course can draw these cases. `torchcourse class init` draws a secret one for each
class; see `class_config.class_seed`."""

MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """What one submission may use. Sizes are in bytes.

    `cell_seconds` and `exercise_seconds` are CPU time; the limit on wall time is `wall_clock_factor` times as long, so
    that a busy machine costs nobody a point.
    """

    cell_seconds: float = 10.0
    """one cell; after that it is interrupted, and the next one runs"""
    exercise_seconds: float = 10.0
    """all cases of one exercise on one device"""
    wall_clock_factor: float = 3.0
    """seconds of wall time allowed for each second of CPU time; on a busy machine multiplied by the number of processes
    per core, since the load is not the learner's fault"""
    max_wall_clock_factor: float = 12.0
    """the upper bound of that product"""
    grace_seconds: float = 3.0
    """wall time between an interrupt that had no effect and killing everything"""
    device_seconds: float = 240.0
    """wall time of one submission on one device"""
    submission_seconds: float = 420.0
    """wall time of one submission on all devices; after that the remaining exercises count as `timeout`"""
    cpu_seconds: int = 120
    """CPU seconds of one process (RLIMIT_CPU)"""
    data_bytes: int = 1280 * MIB
    """private memory of one process, beyond some 0.9 GB that is loaded (RLIMIT_DATA; torch alone needs 4 GB of address
    space, so that is not limited)"""
    memory_bytes: int = 4096 * MIB
    """all processes of a worker together, with the files in its scratch folders, in a control group"""
    file_bytes: int = 256 * MIB
    """one file (RLIMIT_FSIZE; DataLoader batches in shared memory are files too)"""
    scratch_bytes: int = 512 * MIB
    """all files in one of the two scratch folders, /tmp and /dev/shm"""
    processes: int = 64
    """processes and threads of one worker (RLIMIT_NPROC)"""
    open_files: int = 1024
    """open files of one process (RLIMIT_NOFILE)"""
    reply_bytes: int = 8 * MIB
    """the observations of one case, unpacked; what a cell prints or displays is discarded"""
    observations_bytes: int = 128 * MIB
    """all observations of one submission on one device: they stay in memory until the verdicts are made"""
    max_restarts: int = 4
    """how often a submission is restarted on a device after its process died or hung"""
    notebook_bytes: int = 20 * MIB
    """the file of one notebook"""
    notebook_cells: int = 2000
    """cells of one notebook: each is copied to the autograded one"""
    notebook_code: int = 1 * MIB
    """characters of all code cells of one notebook: they are searched line by line"""
    notebook_brackets: int = 2_000_000
    """opening brackets in the file of one notebook: a list that takes two bytes there takes 64 in memory"""
    start_seconds: float = 300.0
    """wall time until a worker is ready"""

    @property
    def watched_bytes(self) -> int:
        """`memory_bytes` where no control group can be made. The supervisor then adds up private memory, shared maps,
        sockets and inodes, ten times a second; the limit is lower because it does not see a burst in between."""
        return self.memory_bytes * 3 // 4


LIMITS = Limits()
FIRST_UID = 64_200
"""The user id of worker 0 when the grader runs as root; worker n (`batch/worker_ids.py`) gets this id plus n."""
