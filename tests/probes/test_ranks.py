"""Ranks: what becomes of them is observed, and none outlives its run."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import psutil
import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from tests.support.alone import environment
from tests.support.waiting import eventually
from torchcourse.checking.check import report_on
from torchcourse.checking.probe import Watched
from torchcourse.demos import ranks as demo
from torchcourse.exercises.distributed import shard_model
from torchcourse.model.catalogue import find
from torchcourse.model.exercise import Unattempted
from torchcourse.model.observations import Observations
from torchcourse.probes.on_ranks import on_ranks
from torchcourse.ranks import processes, start
from torchcourse.ranks.processes import DIED, HANGS, RAISED, RETURNED, Outcome
from torchcourse.ranks.start import run_ranks

PATIENCE = 60.0
"""Seconds within which a hang has to be noticed, on a machine that has much else to do."""


@pytest.fixture(scope="module", autouse=True)
def ready() -> Iterator[None]:
    """Start the launcher, run a backward here, which forks of this process would not survive, and end the launcher."""
    assert run_ranks(dist.get_rank)[1].value == 1
    torch.ones(1, requires_grad=True).sum().backward()  # type: ignore[no-untyped-call]
    yield
    start._launchers.pop().end()


def living() -> set[int]:
    """Return the processes that this one has started, directly or not."""
    return {p.pid for p in psutil.Process().children(recursive=True) if p.status() != psutil.STATUS_ZOMBIE}


def ends(outcomes: list[Outcome]) -> list[str]:
    return [outcome.ended for outcome in outcomes]


def detail(outcome: Outcome) -> str:
    """Where a rank hangs, or why it ended."""
    return f"{outcome.call} in {outcome.line.partition(' of ')[2]}" if outcome.call else str(outcome.error or "")


def summed() -> Tensor:
    x = torch.ones(2) * dist.get_rank()
    dist.all_reduce(x)
    return x


def one_waits() -> int:
    if dist.get_rank() == 0:
        dist.barrier()
    return dist.get_rank()


def one_raises() -> None:
    if dist.get_rank() == 1:
        raise KeyError("lost")
    dist.barrier()


def one_dies() -> None:
    if dist.get_rank() == 0:
        os._exit(7)


def both_sleep_for_a_moment_often() -> None:
    for _ in range(8):
        time.sleep(0.25)


def one_spins() -> None:
    while dist.get_rank() == 0:
        pass


def trained() -> Tensor:
    ddp = DistributedDataParallel(nn.Linear(2, 1))
    ddp(torch.ones(1, 2) * dist.get_rank()).sum().backward()
    gradient = ddp.module.weight.grad
    assert gradient is not None
    return gradient


def leaves_a_child() -> int:
    pid = os.fork()
    if pid == 0:
        time.sleep(600)
    return pid


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_ranks_return_what_they_compute(world_size: int) -> None:
    total = sum(range(world_size))
    assert [o.value.tolist() for o in run_ranks(summed, world_size)] == [[total, total]] * world_size


@pytest.mark.parametrize(
    ("gpus", "world_size", "on_gpus"), [(0, 2, False), (1, 1, False), (1, 2, False), (2, 2, True), (2, 3, False)]
)
def test_tensors_on_gpus_get_a_backend_of_their_own_only_where_each_rank_has_a_gpu(
    gpus: int, world_size: int, on_gpus: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: gpus)
    monkeypatch.setattr(processes, "GPU_BACKEND", "cpu:gloo,cuda:gloo")  # gloo stands in for nccl
    asked: list[str] = []
    init = dist.init_process_group
    monkeypatch.setattr(dist, "init_process_group", lambda name, **kw: (asked.append(name), init(name, **kw)))
    total = sum(range(world_size))
    outcomes = processes.fork_ranks(lambda: [asked, summed().tolist()], world_size)
    wanted = ["cpu:gloo,cuda:gloo" if on_gpus else "gloo"]
    assert [outcome.value for outcome in outcomes] == [[wanted, [total, total]]] * world_size
    assert not torch.cuda.is_initialized()


def sum_on_gpus() -> list[float]:
    x = torch.full((2,), float(dist.get_rank()), device=f"cuda:{dist.get_rank()}")
    dist.all_reduce(x)
    return x.tolist()


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there are no two GPUs here")
def test_tensors_on_two_gpus_are_exchanged_by_nccl() -> None:
    assert [outcome.value for outcome in run_ranks(sum_on_gpus)] == [[1.0, 1.0]] * 2


def test_a_backward_in_a_rank_works_though_this_process_has_run_one() -> None:
    assert [o.value.tolist() for o in run_ranks(trained)] == [[[0.5, 0.5]], [[0.5, 0.5]]]


@pytest.mark.parametrize(
    ("function", "wanted", "details"),
    [
        (one_waits, [HANGS, RETURNED], ["barrier in one_waits", ""]),
        (one_raises, [HANGS, RAISED], ["barrier in one_raises", "KeyError: 'lost'"]),
        (one_dies, [DIED, RETURNED], ["process ended: with exit status 7", ""]),
        (one_spins, [HANGS, RETURNED], [ANY, ""]),
        (both_sleep_for_a_moment_often, [RETURNED, RETURNED], ["", ""]),
    ],
)
def test_what_becomes_of_each_rank_is_observed_in_time_and_nothing_is_left(
    function: object, wanted: list[str], details: list[str]
) -> None:
    before, begun = living(), time.monotonic()
    outcomes = run_ranks(function)  # type: ignore[arg-type]
    assert ends(outcomes) == wanted
    assert [detail(outcome) for outcome in outcomes] == details
    assert time.monotonic() - begun < PATIENCE
    assert living() == before


def both_poll() -> None:
    while True:
        time.sleep(0.01)


def leaves_a_child_of_its_own_session() -> int:
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if (pid := os.fork()) == 0:
            time.sleep(600)
        os.write(writing, str(pid).encode())
        os._exit(0)
    return int(os.read(reading, 20))


def test_ranks_that_look_again_and_again_hang_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "MAX_SLEEP_SECONDS", 1.5)
    begun = time.monotonic()
    outcomes = run_ranks(both_poll)
    assert ends(outcomes) == [HANGS, HANGS]
    assert all(outcome.slow for outcome in outcomes)
    assert time.monotonic() - begun < PATIENCE


def test_a_stub_in_a_rank_counts_as_not_attempted() -> None:
    def stub() -> None:
        raise Unattempted("global_mean")

    with pytest.raises(Unattempted, match="global_mean"):
        run_ranks(stub)


def test_ranks_that_take_long_to_find_each_other_do_not_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    join = processes._join_process_group

    def slowly(*arguments: Any) -> Any:
        time.sleep(2 * processes.QUIET)
        return join(*arguments)

    monkeypatch.setattr(processes, "_join_process_group", slowly)
    assert [outcome.value for outcome in processes.fork_ranks(dist.get_rank, 2)] == [0, 1]


SILENT = """
import socket
import torch.distributed as dist
from torchcourse.ranks.processes import fork_ranks
with socket.socket(type=socket.SOCK_DGRAM) as server:
    server.bind(("127.0.0.1", 53))
    server.setblocking(False)
    print([outcome.value for outcome in fork_ranks(dist.get_rank, 2)])
    try:
        print("asked:", server.recv(512))
    except BlockingIOError:
        print("not asked")
"""


@pytest.mark.sandbox
def test_ranks_ask_no_name_server(tmp_path: Path) -> None:
    """One that does not answer takes five seconds, and a laptop without a network has such."""
    (tmp_path / "resolv.conf").write_text("nameserver 127.0.0.1\n")
    (tmp_path / "hosts").write_text("127.0.0.1 localhost\n")
    binds = ["--ro-bind", tmp_path / "resolv.conf", os.path.realpath("/etc/resolv.conf")]
    binds += ["--ro-bind", tmp_path / "hosts", "/etc/hosts"]
    command = ["bwrap", "--unshare-net", "--dev-bind", "/", "/", *binds, sys.executable, "-c", SILENT]
    env = environment(TORCHCOURSE_SIMULATED="off")
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.stdout.splitlines() == ["[0, 1]", "not asked"], done.stdout + done.stderr


class Imported:
    """Becomes, in the rank that unpickles it, whether the module of an exercise has been imported there."""

    def __reduce__(self) -> tuple[Callable[[str], bool], tuple[str]]:
        return eval, (f"{shard_model.__name__!r} in __import__('sys').modules",)


def test_ranks_do_not_each_import_the_exercise() -> None:
    function = functools.partial(lambda imported, _: imported, Imported(), shard_model.program)
    assert [outcome.value for outcome in run_ranks(function)] == [True, True]


@pytest.mark.parametrize("leaves", [leaves_a_child, leaves_a_child_of_its_own_session])
def test_processes_that_a_rank_started_end_with_it(leaves: Callable[[], int]) -> None:
    children = [outcome.value for outcome in run_ranks(leaves)]

    def runs(pid: int) -> bool:
        return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE

    eventually(lambda: not any(map(runs, children)), PATIENCE)


def test_an_interrupt_ends_the_ranks() -> None:
    def interrupted(number: int, frame: object) -> None:
        raise InterruptedError

    known = start._launchers[-1].process.pid
    before, handler = living(), signal.signal(signal.SIGALRM, interrupted)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        with pytest.raises((InterruptedError, RuntimeError)):
            run_ranks(one_spins)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
    eventually(lambda: not living() - (before - {known}), PATIENCE)
    assert ends(run_ranks(summed)) == [RETURNED, RETURNED]  # a new launcher


def test_the_launcher_ends_when_it_is_killed_and_another_one_starts() -> None:
    os.kill(start._launchers[-1].process.pid, signal.SIGKILL)
    start._launchers[-1].process.wait()
    assert ends(run_ranks(summed)) == [RETURNED, RETURNED]


def test_a_check_leaves_no_process_whether_the_answer_passes_hangs_or_kills_the_launcher() -> None:
    def global_mean(total: float, count: int) -> float:
        both = torch.tensor([total, count], dtype=torch.float64)
        dist.all_reduce(both)
        return (both[0] / both[1]).item()

    def hangs(total: float, count: int) -> float:
        if dist.get_rank() == 0:
            dist.barrier()
        return 0.0

    def kills(total: float, count: int) -> float:
        os.kill(os.getppid(), signal.SIGKILL)
        return 0.0

    before = living()
    assert report_on("global_mean", {"global_mean": global_mean}).passed
    assert report_on("global_mean", {"global_mean": hangs}).status == "failed"
    assert living() == before
    assert not report_on("global_mean", {"global_mean": kills}).passed
    eventually(lambda: len(living()) <= len(before), PATIENCE)


@pytest.mark.parametrize("late", [0, 1])
def test_ranks_that_exchange_different_sizes_are_observed_alike_whichever_is_first(late: int) -> None:
    def different_sizes(late: int) -> Observations:
        time.sleep(0.3 * (dist.get_rank() == late))
        dist.all_reduce(torch.ones(12 - 3 * dist.get_rank()))
        return {}

    def program(answer: Callable[..., Observations], late: int) -> Observations:
        return answer(late)

    answer = Watched(different_sizes, find("global_mean")[1], on_cpu=True)
    seen = on_ranks(answer, program, {"late": late}, world_size=3)
    assert [(name, getattr(value, "reason", value)) for name, value in seen.items()] == [("ranks", DIED)]


def test_a_demo_prints_what_became_of_each_rank(capsys: pytest.CaptureFixture[str]) -> None:
    assert demo.run(one_waits) == [None, 1]
    assert capsys.readouterr().out.splitlines()[0].startswith("rank 0: hangs in barrier, line ")


def test_the_picture_of_collectives_shows_what_torch_does() -> None:
    alt = demo.collectives(2).alt
    assert "broadcast from 0: [10, 11], [10, 11]" in alt
    assert "all_reduce: [30, 32], [30, 32]" in alt
    assert "all_gather: [10, 20], [10, 20]" in alt
    assert "reduce_scatter: [30], [32]" in alt
    assert "all_to_all: [10, 20], [11, 21]" in alt


def test_a_measured_timeline_shows_who_waits() -> None:
    def step() -> None:
        with demo.span("work"):
            time.sleep(0.3 if dist.get_rank() == 0 else 0.0)
        with demo.span("exchange"):
            dist.barrier()

    assert demo.timelines(step).alt.startswith("Timelines of 2 ranks: rank 0 works 3")


def test_buckets_hide_the_exchange_and_nothing_hides_a_slow_rank() -> None:
    def end(*sizes: int) -> float:
        return max(spans[-1][2] for spans in demo.modelled(*sizes))

    assert end(10, 10, 8, 1) == 36
    assert end(10, 10, 8, 4) == 24
    assert end(10, 20, 8, 4) == 44
