"""Grading on a Dask cluster: a real scheduler, two worker processes on loopback, and what may happen to them."""

from __future__ import annotations

import ast
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from autograde.batch import cluster, cluster_worker, grading
from autograde.batch.cluster import Cluster, ClusterError
from autograde.batch.grading import Graded
from autograde.classroom.compare import read_grades
from autograde.judge.submission import read_submission
from autograde.sandbox.configuration import Isolation
from autograde.sandbox.sandbox import Sandbox, SandboxError
from autograde.settings import LIMITS, SEED
from autograde.source import paths
from tests.support.results import recorded, tree
from tests.support.stand_ins import DEADLY, LESSON, SOLVED, Quick, submit, with_gradebook

distributed = pytest.importorskip("distributed")
STUDENTS = [f"s{number:02}" for number in range(12)]
MODULES = ("distributed", "dask", "psycopg", "autograde.batch.cluster")
LONG = 600
"""Seconds that a busy machine may take for anything."""
ONCE = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"}
"""Else it takes eight workers to find out that a submission kills them."""


@dataclass
class Lot:
    """A cluster for a test: its scheduler's address, and how to start workers."""

    address: str
    folder: Path
    scheduler: subprocess.Popen[bytes]
    workers: dict[str, subprocess.Popen[bytes]]

    def start(self, name: str) -> None:
        module = "tests.support.cluster_worker"
        command = [sys.executable, "-W", "ignore", "-m", module, self.address, name, self.log(name)]
        with (self.folder / f"{name}.txt").open("wb") as said:
            self.workers[name] = subprocess.Popen(command, cwd=paths.ROOT, stdout=said, stderr=said)

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def begun(self, name: str) -> int:
        """How many submissions a worker has begun."""
        return self.log(name).read_text().count("\n") if self.log(name).exists() else 0

    def wait_for(self, count: int) -> None:
        with distributed.Client(self.address, set_as_default=False, timeout=LONG) as client:
            client.wait_for_workers(count, timeout=LONG)

    def end(self, name: str) -> None:
        self.workers[name].send_signal(signal.SIGCONT)
        self.workers[name].kill()
        self.workers[name].wait()


@pytest.fixture(scope="module")
def lot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lot]:
    """A scheduler with the workers `one` and `two`."""
    with cluster_of(tmp_path_factory.mktemp("cluster"), "one", "two") as made:
        yield made


@contextmanager
def cluster_of(folder: Path, *workers: str, **variables: str) -> Iterator[Lot]:
    """A scheduler, with these variables in its environment, and workers."""
    address = free_address()
    code = ("import asyncio, sys\nfrom distributed import Scheduler\nasync def main():\n"
            "    async with Scheduler(host=sys.argv[1], dashboard=False) as s:\n        await s.finished()\n"
            "asyncio.run(main())")  # fmt: skip
    with (folder / "scheduler.txt").open("wb") as said:
        command = [sys.executable, "-W", "ignore", "-c", code, address]
        scheduler = subprocess.Popen(command, stdout=said, stderr=said, env={**os.environ, **variables})
    made = Lot(address, folder, scheduler, {})
    try:
        for name in workers:
            made.start(name)
        made.wait_for(len(workers))
        yield made
    finally:
        for name in made.workers:
            made.end(name)
        scheduler.kill()
        scheduler.wait()


@pytest.fixture(autouse=True)
def patient(quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for workers as long as a busy machine may take; what is compared with is graded by the stand-in too."""
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", float(LONG))


@pytest.fixture
def submitted(tmp_path: Path) -> Path:
    for student in STUDENTS:
        submit(tmp_path / "class", student, f"{SOLVED}  # {student}")
    submit(tmp_path / "class", "zoe", None)
    return tmp_path / "class"


def hurried(seconds: float) -> Callable[..., Cluster]:
    """A cluster that waits no longer than that for a submission."""
    return partial(Cluster, timeout=seconds)


def at_the(count: int, act: Callable[[], Any]) -> Callable[[Graded], None]:
    """A progress that acts once so many submissions are recorded."""
    left = [count]

    def note(graded: Graded) -> None:
        left[0] -= 1
        if left[0] == 0:
            act()

    return note


def test_a_worker_that_hangs_and_one_that_is_killed_cost_a_retry_and_no_result(
    lot: Lot, submitted: Path, tmp_path: Path, gradebook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = with_gradebook(tmp_path / "wanted", gradebook)
    grading.grade_class([LESSON], submitted, wanted)
    monkeypatch.setattr(cluster, "Cluster", hurried(6.0))
    monkeypatch.setattr(cluster, "TRIES", 50)  # a busy machine may take longer than that for what does not hang

    hung = with_gradebook(tmp_path / "hung", gradebook)
    stop = at_the(2, lambda: lot.workers["two"].send_signal(signal.SIGSTOP))
    grading.grade_class([LESSON], submitted, hung, scheduler=lot.address, progress=stop)
    lot.workers["two"].send_signal(signal.SIGCONT)
    assert lot.begun("one") > 0
    assert (tree(hung), recorded(hung, LESSON)) == (tree(wanted), recorded(wanted, LESSON))

    before, out = lot.begun("two"), with_gradebook(tmp_path / "killed", gradebook)
    kill = at_the(4, lambda: lot.workers["two"].kill())
    grading.grade_class([LESSON], submitted, out, scheduler=lot.address, progress=kill)
    assert lot.workers["two"].wait() == -signal.SIGKILL
    assert lot.begun("two") > before  # it had begun something when it died
    assert (tree(out), recorded(out, LESSON)) == (tree(wanted), recorded(wanted, LESSON))


def test_a_submission_that_kills_each_worker_gets_a_verdict_and_the_rest_goes_on(
    submitted: Path, tmp_path: Path, gradebook: Path
) -> None:
    submit(tmp_path / "class", "eve", f"{SOLVED}  {DEADLY}")
    out = with_gradebook(tmp_path / "out", gradebook)
    with cluster_of(tmp_path, "one", "two", "three", **ONCE) as made:
        grading.grade_class([LESSON], submitted, out, scheduler=made.address)
        assert sum(process.poll() == 1 for process in made.workers.values()) == 2
    rows = read_grades(out)
    assert {rows[student, LESSON, "row_softmax"].status for student in STUDENTS} == {"passed"}
    assert (row := rows["eve", LESSON, "row_softmax"]).status == "crashed"
    assert row.score == 0
    assert "ask your instructor" in row.message
    assert rows["eve", LESSON, "describe"].status == "unattempted"


def test_where_workers_die_of_anything_no_submission_is_blamed(
    submitted: Path, tmp_path: Path, gradebook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(tmp_path / "class", "eve", f"{SOLVED}  {DEADLY}")
    monkeypatch.setattr(cluster, "Cluster", hurried(20.0))
    with (
        cluster_of(tmp_path, "one", "two", **ONCE) as made,
        pytest.raises(ClusterError, match="A submission was lost again and again"),
    ):
        grading.grade_class([LESSON], submitted, with_gradebook(tmp_path / "out", gradebook), scheduler=made.address)


def test_another_version_of_the_lesson_is_refused_at_the_start(
    lot: Lot, submitted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = cluster_worker.versions([LESSON]) | {"torch": "1.0", f"lesson {LESSON} or the grader": "other hidden cases"}
    monkeypatch.setattr(cluster_worker, "versions", lambda lessons: mine)
    with pytest.raises(ClusterError, match=r"in place of 1\.0") as caught:
        grading.grade_class([LESSON], submitted, tmp_path / "out", scheduler=lot.address)
    assert f"lesson {LESSON}" in str(caught.value)
    assert "pip install -c constraints.txt" in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_worker_that_joins_with_another_version_is_not_believed(
    lot: Lot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if all workers of the start had been replaced since."""
    pool = Cluster(lot.address, [LESSON], SEED, LIMITS, Isolation())
    other = cluster_worker.versions([LESSON]) | {"torch": "1.0"}
    pool.batch = cluster_worker.BatchSettings(SEED, LIMITS, Isolation(), pool.batch.modules, other)
    try:
        submission = read_submission(submit(tmp_path, "ada", SOLVED), "ada", LESSON)
        with pytest.raises(ClusterError, match="A worker that joined later cannot be used"):
            pool.submit(submission).result(LONG)
    finally:
        pool.close()


def test_a_scheduler_that_goes_away_is_said_and_what_was_graded_is_kept(
    lot: Lot, submitted: Path, tmp_path: Path, gradebook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It kills the scheduler of `lot`: no test after it may use `lot`."""
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 10.0)
    out = with_gradebook(tmp_path / "out", gradebook)
    with pytest.raises(ClusterError, match="run the same command again") as caught:
        grading.grade_class([LESSON], submitted, out, scheduler=lot.address, progress=at_the(3, lot.scheduler.kill))
    assert "\n" not in str(caught.value)
    noted = {path.parent.name for path in out.glob("journal/s*/*.json")}
    assert noted
    grading.grade_class([LESSON], submitted, out)
    assert not noted.intersection(Quick.log.read_text().split())
    assert {student for student, _ in recorded(out, LESSON)} == {*STUDENTS, "zoe"}


@pytest.mark.parametrize(("address", "says"), [("tcp://127.0.0.1:9", "No scheduler answers"), ("nonsense", "tcp://")])
def test_an_unreachable_scheduler_is_refused_at_the_start(
    address: str, says: str, submitted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 2.0)
    with pytest.raises(ClusterError, match=says) as caught:
        grading.grade_class([LESSON], submitted, tmp_path / "out", scheduler=address)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_without_the_module_the_remedy_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ClusterError, match="pip install distributed"):
        cluster._connected("tcp://127.0.0.1:9")


def test_trusted_submissions_are_kept_away_from_a_cluster() -> None:
    with pytest.raises(ClusterError, match="exclude each other"):
        Cluster("tcp://127.0.0.1:9", [LESSON], SEED, LIMITS, Isolation(trusted=True))


def test_nothing_imports_distributed_unless_a_scheduler_is_named() -> None:
    at_once = [
        path.name
        for path in paths.AUTOGRADE.rglob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Import | ast.ImportFrom) and ast.unparse(node).split()[1].startswith(MODULES)
    ]
    assert at_once == []


def test_a_submission_crosses_as_bytes_without_its_name(tmp_path: Path) -> None:
    submission = read_submission(submit(tmp_path, "ada", SOLVED), "ada", LESSON)
    data = cluster_worker.pack(submission)
    assert b"ada" not in data
    back = cluster_worker.unpack(data)
    assert (back.student, back.cells, back.cells_to_run()) == ("", submission.cells, submission.cells_to_run())


def test_a_sandbox_that_another_task_takes_first_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    class Emptied(SimpleQueue[Sandbox]):
        """A queue whose last sandbox is taken right after it was looked for."""

        def empty(self) -> bool:
            return False

        def get(self, *_: object, **__: object) -> Sandbox:
            raise AssertionError("this would wait")

    def refuse(batch: object) -> Sandbox:
        raise SandboxError("a new one")

    monkeypatch.setattr(cluster_worker, "_difference", lambda wanted: "")
    monkeypatch.setattr(cluster_worker, "lesson_grader", lambda *_: None)
    monkeypatch.setattr(cluster_worker, "_idle_sandboxes", lambda *_: Emptied())
    monkeypatch.setattr(cluster_worker, "_new_sandbox", refuse)
    batch = cluster_worker.BatchSettings(SEED, LIMITS, Isolation(), (), {})
    data = json.dumps([LESSON, [], "missing", "", {}]).encode()
    with pytest.raises(SandboxError, match="a new one"):
        cluster_worker.grade(data, batch)


def documented(address: str) -> dict[str, str]:
    """The commands of the documentation, by their first two words, for a cluster at `address` and this checkout."""
    page = (paths.ROOT / "docs" / "cluster.md").read_text()
    commands = re.findall(r"^\$ (.*?) *(?:#.*)?$", page.partition("```console")[2].partition("```")[0], re.MULTILINE)
    ours = os.pathsep.join([str(paths.ROOT), str(paths.ROOT / "src")])
    port = address.rpartition(":")[2]
    known = {"/path/to/torchcourse": ours, "tcp://HOST:8786": address, "--port 8786": f"--port {port}"}
    for theirs, mine in known.items():
        commands = [command.replace(theirs, mine) for command in commands]
    return {" ".join(re.split(r"[ =]", command)[:2]): command for command in commands}


@contextmanager
def running(folder: Path, *commands: str) -> Iterator[None]:
    """Run shell commands in a folder while the block runs; their output goes to a file there."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with (folder / "said.txt").open("ab") as said:
        started = [subprocess.Popen(f"exec {command}" if "&&" not in command else command.replace("&& ", "&& exec "),
                                    shell=True, cwd=folder, env=env, stdout=said, stderr=said)
                   for command in commands]  # fmt: skip
    try:
        yield
    finally:
        for process in started:
            process.terminate()
        for process in started:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:  # Dask waits for what its threads do, which may be stuck
                process.kill()
                process.wait()


def free_address() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return "tcp://{}:{}".format(*free.getsockname())


@pytest.mark.sandbox
def test_where_a_right_answer_does_not_pass_on_a_worker_nobody_gets_a_verdict(tmp_path: Path) -> None:
    address = free_address()
    commands = documented(address)
    path = commands["export PYTHONPATH"]
    scheduler = f"{path} && {commands['dask scheduler']} --host 127.0.0.1 --no-dashboard"
    worker = f"{path} && {commands['dask worker']} --no-dashboard"
    submit(tmp_path / "class", "ada", SOLVED)
    broken = replace(LIMITS, processes=0)  # no sandbox can start a process that answers
    says = r"^On the worker \S+: The grader does not work .* known to be right is crashed\. .*so far is kept\.$"
    with running(tmp_path, scheduler, worker), pytest.raises(ClusterError, match=says):
        grading.grade_class([LESSON], tmp_path / "class", tmp_path / "out", limits=broken, scheduler=address)
    assert not list((tmp_path / "out").glob("grades.csv"))


@pytest.mark.sandbox
def test_the_documented_commands_grade_from_another_folder_and_without_the_path_the_cause_is_named(
    tmp_path: Path,
) -> None:
    address = free_address()
    commands = documented(address)
    path, scheduler = commands["export PYTHONPATH"], commands["dask scheduler"] + " --host 127.0.0.1 --no-dashboard"
    worker = commands["dask worker"] + " --no-dashboard"
    submit(tmp_path / "class", "ada", SOLVED)

    def graded() -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        command = f"{path} && {commands['torchcourse grade']}"
        return subprocess.run(command, shell=True, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)

    with running(tmp_path, scheduler):
        done = graded()
        assert done.returncode == 2, done.stdout
        assert f"The scheduler at {address} cannot import the grader (No module named " in done.stdout
        assert "docs/cluster.md" in done.stdout
    with running(tmp_path, f"{path} && {scheduler}"):
        with running(tmp_path, worker):
            done = graded()
        assert done.returncode == 2, done.stdout
        assert re.search(r"The worker \S+ cannot import the grader \(No module named ", done.stdout), done.stdout
        with running(tmp_path, f"{path} && {worker}"):
            done = graded()
        assert done.returncode == 0, done.stdout + (tmp_path / "said.txt").read_text()[-2000:]
        assert "1 submission graded" in done.stdout
