"""What a grader's other threads start, read and write is not put down to the reference that is observed meanwhile."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autograde.judge.oracle import oracle
from torchcourse.model import stored_observations
from torchcourse.model.observations import differing

OBSERVES_THE_PROCESS = {
    "02_autograd": ["hessian_vector_product"], "04_data": ["MemmapDataset"], "06_gpu": ["checkpointed"],
    "09_persistence": ["load_weights", "unsafe_globals"], "13_efficiency": ["blockwise_attention",
    "chunked_cross_entropy"],
}  # fmt: skip
DATA = bytes(1 << 18)
EXERCISES = [(lesson, name) for lesson, names in OBSERVES_THE_PROCESS.items() for name in names]


def start_and_end(_file: Path) -> None:
    for end in socket.socketpair():
        end.close()
    subprocess.run(["true"], check=True)


def write_and_read(file: Path) -> None:
    file.write_bytes(DATA)
    with file.open("rb", buffering=0) as opened:
        while opened.read(1 << 12):
            pass


@pytest.fixture
def other_work(tmp_path: Path) -> Iterator[None]:
    """Threads that start processes, open sockets, and write and read files, as those that run sandboxes do.

    Fifty processes a second are many more than a grader starts. Each takes Python objects for some milliseconds, which
    a measurement of memory cannot tell from the program's own.
    """
    is_over = threading.Event()

    def repeat(work: Callable[[Path], None], seconds: float) -> None:
        while not is_over.wait(seconds):
            work(tmp_path / "page")

    works = ((start_and_end, 0.02), (write_and_read, 0.0005))
    threads = [threading.Thread(target=repeat, args=work) for work in works]
    for thread in threads:
        thread.start()
    yield
    is_over.set()
    for thread in threads:
        thread.join()


@pytest.mark.usefixtures("other_work")
@pytest.mark.parametrize(("lesson", "name"), EXERCISES)
def test_a_reference_is_observed_as_if_its_process_had_nothing_else_to_do(lesson: str, name: str) -> None:
    judge, stored = oracle(lesson, name), stored_observations.load(lesson)[name]
    for number, case in enumerate(stored.cases):
        found = differing(judge.wanted("cpu", number), stored.wanted.on_cpu[number] or {}, case.tolerance)
        assert not found, case.name
