"""Workers of graders that run at once on one machine are told apart, whatever other users do."""

from __future__ import annotations

import contextlib
import socket
import stat
import subprocess
import sys

import pytest

from autograde.batch.worker_ids import LOCKS, MAX_WORKERS, allocate_id, free_id
from autograde.batch.worker_pool import LocalPool
from autograde.sandbox.configuration import Isolation
from autograde.settings import LIMITS

CODE = "from autograde.batch.worker_ids import allocate_id; print(allocate_id())"


def taken_elsewhere() -> int:
    """The number that another process gets, which ends at once."""
    said = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    return int(said.stdout)


@pytest.mark.root
def test_no_two_workers_of_a_machine_have_one_number() -> None:
    first, second = allocate_id(), allocate_id()
    assert len({first, second, taken_elsewhere()}) == 3
    free_id(second)
    third = allocate_id()
    free_id(third)
    free_id(first)
    assert third <= second


@pytest.mark.root
def test_a_user_who_takes_names_of_sockets_does_not_stop_grading() -> None:
    """Any user of the machine can take these."""
    with contextlib.ExitStack() as taken:
        for number in range(MAX_WORKERS):
            taken.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)).bind(
                f"\0torchcourse-worker-0-{number}"
            )
        free_id(allocate_id())
    assert stat.S_IMODE(LOCKS.stat().st_mode) == 0o700, "nobody else may lock these files"


def test_two_graders_at_once_give_their_workers_numbers_of_their_own() -> None:
    crews = [LocalPool({}, 2, LIMITS, Isolation()) for _ in range(2)]
    numbers = {sandbox.number for pool in crews for sandbox in pool.sandboxes}
    for pool in crews:
        pool.close()
    assert len(numbers) == 4
