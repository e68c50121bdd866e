"""Run one submission in the sandbox: its cells, then each exercise, case by case, on each device."""

from __future__ import annotations

import builtins
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from autograde.judge.derive_in_fork import may_grow
from autograde.judge.oracle import MAX_REMEMBERED_LENGTH, Oracle
from autograde.judge.submission import Submission
from autograde.judge.syntax_error import syntax_error
from autograde.sandbox.job import Job, LostError, SlowError, parse_message, wall_clock_factor
from autograde.sandbox.sandbox import Sandbox
from torchcourse.checking.result import Result
from torchcourse.model.devices import CPU
from torchcourse.model.exercise import Exercise
from torchcourse.model.observations import Observations
from torchcourse.probes.native import missing_tools

__all__ = ["LACKS_TOOLS", "ExerciseRun", "Reply", "run_submission"]

BATCH, BATCH_BYTES = 16, 1 << 15
"""The most cases, and bytes of them, that are sent at once: they fit into the buffer of a socket."""
ENDINGS = re.compile(r"(exit|the runner ended:) -?\d{1,3}( \((?P<error>\w{1,100})\))?")
LACKS_TOOLS = "g++ or ninja is missing on the grading machine, so C++ cannot be built: see `torchcourse doctor`."
BUILTIN_EXCEPTIONS = frozenset(name for name, value in vars(builtins).items() if isinstance(value, type)
                           and issubclass(value, BaseException))  # fmt: skip
SYNTAX_ERRORS = {"SyntaxError", "IndentationError", "TabError"}
KINDS = ("int", "float", "bool", "str", "list", "tuple", "dict", "set", "Tensor", "ndarray", "module")
"""Only text that matches `ENDINGS`, `BUILTIN_EXCEPTIONS` or `KINDS` is quoted to learners, because a submission's
process can send any text."""
MISSING = re.compile(
    rb"name '(\w+)' is not defined|(?:'_OpNamespace' '\w+' object|module '__main__') has no attribute '(\w+)'"
)
"""How Python and torch.ops say that a global name, or an operator that a cell registers, is missing."""


@dataclass(frozen=True)
class Reply:
    """What an answer did in one case.

    Attributes:
        raw: the observations.
        data: the packed reply, or b"" if it is too long to be remembered.
        remembered: the result of an earlier reply of the same bytes; `raw` is empty then.
        is_long: whether it is too long, or may grow too much, to be judged without limits.
    """

    raw: Observations
    data: bytes = b""
    remembered: Result | None = None
    is_long: bool = False


@dataclass
class ExerciseRun:
    """How one exercise ran on one device.

    Attributes:
        replies: what the answer did, by case.
        quotable: whether its visible cases ran before any hidden input entered the sandbox, so that they may be quoted.
        incident: how the run ended early: "", "unattempted", "crashed", "timeout", "memory" or "error".
        reason: a sentence on the incident, for the learner.
        unpacked_bytes: how much memory the replies take (`codec.unpacked_bytes`).
    """

    replies: list[Reply] = field(default_factory=list)
    quotable: bool = True
    incident: str = ""
    reason: str = ""
    unpacked_bytes: int = 0

    def end(self, incident: str, reason: str) -> None:
        """Record how the run ended early."""
        self.incident, self.reason = incident, reason


class _MissingNameError(Exception):
    """A name is missing that examples or demos left out of the run bind.

    Attributes:
        included: those to run next time.
        quotes: whether no hidden input has entered the sandbox yet.
    """

    def __init__(self, included: frozenset[str], quotes: bool) -> None:
        super().__init__()
        self.included, self.quotes = included, quotes


def run_submission(
    sandbox: Sandbox, submission: Submission, oracles: list[Oracle], accelerator: str, visible: Mapping[str, int],
    quotes: bool = True, part_done: Callable[[float], None] = lambda share: None,
) -> dict[str, dict[str, ExerciseRun]]:  # fmt: skip
    """Run a submission's cells, and then the exercises of `oracles`, on the CPU and on the device `accelerator`.

    Unchanged examples of the lesson are left out. If an answer or another cell misses a name that they bind, the
    submission is run once more, with them.

    Args:
        visible: the number of cases that learners may see, by exercise; these come first.
        quotes: whether no earlier run of this submission got hidden inputs. It could have passed them on to this one,
            through the machine's counters, for its visible cases to tell.
        part_done: called with the share of the whole run that has been run since the last call.

    Returns:
        How each exercise ran, by device and exercise; on the accelerator only those for any device.
    """
    deadline = time.monotonic() + sandbox.limits.submission_seconds
    included = frozenset[str]()
    while True:
        try:
            return _run_on_devices(
                sandbox, submission, included, oracles, accelerator, visible, deadline, quotes, part_done
            )
        except _MissingNameError as error:
            included, quotes = error.included, error.quotes


def _run_on_devices(
    sandbox: Sandbox, submission: Submission, included: frozenset[str], oracles: list[Oracle], accelerator: str,
    visible: Mapping[str, int], deadline: float, quotes: bool, part_done: Callable[[float], None],
) -> dict[str, dict[str, ExerciseRun]]:  # fmt: skip
    """Run a submission with the examples in `included`. What died or hung on the CPU is not run on the accelerator.

    Raises:
        _MissingNameError: when it has to run with more examples.
    """
    parts = _parts(oracles, visible)
    share = 1 / (len(parts) + sum(part.exercise.any_device for part in parts))
    cpu = _DeviceRun(sandbox, submission, included, CPU.name, deadline, quotes)
    cpu.run(parts, lambda: part_done(share))
    other = _DeviceRun(sandbox, submission, included, accelerator, deadline, quotes=False)
    other.skip = {n for n, state in cpu.states.items() if state in ("timeout", "died", "memory")}
    other.states = {n: cpu.states[n] for n in other.skip}
    to_repeat = [o for o in oracles if o.exercise.any_device and not cpu.runs[o.exercise.name].incident]
    other.run(_parts(to_repeat, visible), lambda: part_done(share))
    return {CPU.name: cpu.runs, accelerator: other.runs}


@dataclass(frozen=True)
class _Part:
    """Some of an exercise's cases, by their numbers."""

    oracle: Oracle
    cases: range

    @property
    def exercise(self) -> Exercise:
        return self.oracle.exercise

    def batch(self, begin: int) -> list[bytes]:
        """Return the packed cases from `begin` on that are sent together: several small ones, or a single large one."""
        batch = [self.oracle.packed[begin]]
        for number in range(begin + 1, min(begin + BATCH, self.cases.stop)):
            data = self.oracle.packed[number]
            if sum(map(len, batch)) + len(data) > BATCH_BYTES:
                break
            batch.append(data)
        return batch


def _parts(oracles: list[Oracle], visible: Mapping[str, int]) -> list[_Part]:
    """Return the exercises with their visible cases, and then with the hidden ones.

    So observations of visible cases, which may be quoted, arrive before any hidden input enters the sandbox.
    """
    first = [_Part(o, range(visible[o.exercise.name])) for o in oracles]
    rest = [_Part(o, range(visible[o.exercise.name], len(o.cases))) for o in oracles]
    return [*first, *(part for part in rest if part.cases)]


class _DeviceRun:
    """One submission on one device, over restarts."""

    def __init__(
        self, sandbox: Sandbox, submission: Submission, included: frozenset[str], device: str, deadline: float,
        quotes: bool,
    ) -> None:  # fmt: skip
        self.sandbox, self.limits, self.device = sandbox, sandbox.limits, device
        self.release, self.included = submission.release, included
        self.cells = submission.cells_to_run(included)
        self.skip: set[int] = set()
        self.states: dict[int, str] = {}
        self.runs: dict[str, ExerciseRun] = {}
        self.restarts = 0
        self.quotes = quotes
        """Whether what the process says is from before any hidden input, so that it may be quoted."""
        self.deadline = min(deadline, time.monotonic() + self.limits.device_seconds)

    def run(self, parts: list[_Part], part_done: Callable[[], None]) -> None:
        """Run exercises. If a process dies or hangs, the exercise or cell that it ran is given up; a new process
        runs the others.

        Raises:
            _MissingNameError: when the submission has to run with more examples.
        """
        pending = list(parts)
        while pending and self.restarts <= self.limits.max_restarts and time.monotonic() < self.deadline:
            try:
                with self.sandbox.job(self.device, [cell.source for cell in self.cells], sorted(self.skip)) as job:
                    self._run_cells(job)
                    while pending and time.monotonic() < self.deadline:
                        self._probe(job, pending.pop(0))
                        part_done()
            except (LostError, SlowError):
                self.restarts += 1
        for part in pending:
            run = self.runs.setdefault(part.exercise.name, ExerciseRun(quotable=self.quotes))
            if not run.incident:
                self._give_up(run)

    def _give_up(self, run: ExerciseRun) -> None:
        if self.restarts > self.limits.max_restarts:
            run.end("crashed", "The process died or hung too often before this exercise.")
        else:
            run.end("timeout", "The notebook's time limit was used up before this exercise ran.")

    def _run_cells(self, job: Job) -> None:
        """Wait until the cells have run; one that kills or hangs the process will be skipped.

        Raises:
            LostError, SlowError: when the process has to be restarted.
            _MissingNameError: when a cell misses a name of an example.
        """
        max_seconds = job.wall_clock_factor * self.limits.cell_seconds + self.limits.grace_seconds
        for number in range(len(self.cells)):
            if time.monotonic() > self.deadline:
                raise SlowError
            try:
                message = job.receive(max_seconds)
            except (LostError, SlowError) as error:
                ended = "memory" if job.take_memory_kill() else "died"
                self.states[number] = "timeout" if isinstance(error, SlowError) else ended
                self.skip.add(number)
                raise
            self._look_for_missing_names(str(message.get("missing")).encode("utf-8", "replace"))
            state = message.get("state")
            if number not in self.skip:
                self.states[number] = state[:100] if isinstance(state, str) else "something else"
            if state == "timeout":
                self.skip.add(number)
        job.take_memory_kill()  # a kill while cells ran is not the fault of an exercise

    def _look_for_missing_names(self, text: bytes) -> None:
        """Search the messages of exceptions for names that examples bind.

        Raises:
            _MissingNameError: when an example that was left out binds one.
        """
        for match in MISSING.finditer(text):
            included = self.release.examples_to_run((match[1] or match[2]).decode("utf-8", "replace"), self.included)
            if included != self.included:
                raise _MissingNameError(included, self.quotes)

    def _probe(self, job: Job, part: _Part) -> None:
        """Run one part of an exercise.

        Raises:
            LostError, SlowError: when the process has to be restarted; the exercise's run records why.
            _MissingNameError: when the answer misses a name of an example.
        """
        name = part.exercise.name
        self.quotes = self.quotes and part.cases.start == 0
        run = self.runs.setdefault(name, ExerciseRun(quotable=self.quotes))
        if run.incident:
            return
        try:
            self._run_part(job, part, run)
        except LostError as error:
            run.end("crashed", self._how_it_ended(name, error))
            raise
        except SlowError:
            run.end("timeout", self._too_long(part.exercise))
            raise
        finally:
            if job.take_memory_kill():
                run.end("memory", f"`{name}` ran out of memory.")

    def _seconds(self, exercise: Exercise) -> float:
        """Return the limit on CPU seconds of an exercise, in proportion to the time that its check may take."""
        return self.limits.exercise_seconds * max(1.0, exercise.seconds / Exercise.seconds)

    def _too_long(self, exercise: Exercise) -> str:
        seconds = self._seconds(exercise)
        limits = f"{seconds:g} seconds of computing, or {self.limits.wall_clock_factor * seconds:g} or more of waiting"
        return f"`{exercise.name}` was stopped after {limits}: look for an endless loop, or for something that waits."

    def _run_part(self, job: Job, part: _Part, run: ExerciseRun) -> None:
        """Have a prober begin an exercise, answer its cases, and end it.

        Raises:
            LostError, SlowError: when it does anything else.
            _MissingNameError: when the answer misses a name of an example.
        """
        name, seconds, factor = part.exercise.name, self._seconds(part.exercise), wall_clock_factor(self.limits)
        job.send({
            "do": "probe", "exercise": name, "seconds": seconds, "wall_clock_factor": factor,
            "max_bytes": self.limits.reply_bytes,
        })  # fmt: skip
        max_seconds = factor * seconds + self.limits.grace_seconds
        answer = job.receive(max_seconds).get("answer")
        if answer != "callable":
            self._no_answer(name, answer, run)
        elif not self._answer_cases(job, part, run, max_seconds):
            return
        job.send({"do": "done"})
        ended = job.receive(max_seconds).get("ended")
        if not isinstance(ended, str):
            raise LostError("messages out of step")  # such as from two processes: the other exercises get a new one
        if ended != "done":
            run.end("crashed", self._how_it_ended(name, ended))

    def _answer_cases(self, job: Job, part: _Part, run: ExerciseRun, seconds: float) -> bool:
        """Send the cases in batches and receive a reply to each, within `seconds` for all cases together.

        Returns:
            Whether the prober is still running.
        """
        deadline = time.monotonic() + seconds
        sent = part.cases.start
        for number in part.cases:
            if number == sent:
                batch = part.batch(number)
                job.send_cases(batch)
                sent += len(batch)
            data = job.receive_packed(deadline - time.monotonic())
            remembered = part.oracle.remembered(self.device, number, data)
            reply = {"seen": {}} if remembered else parse_message(data)
            if isinstance(reply.get("seen"), dict):
                if not remembered:
                    self._look_for_missing_names(data)
                is_long = len(data) > MAX_REMEMBERED_LENGTH
                if part.exercise.derives and not remembered:
                    is_long = is_long or may_grow(part.oracle.cases[number], reply["seen"])
                made = Reply(reply["seen"], b"" if is_long else data, remembered, is_long)
                self._add_reply(part.exercise.name, made, job.unpacked_bytes, run)
                continue
            self._end_without_reply(part.exercise, reply, run)
            if self.device == CPU.name and reply.get("unattempted") is not True:
                return False
            for _ in range(number + 1, sent):
                job.receive_packed(deadline - time.monotonic())
            return True
        return True

    def _add_reply(self, name: str, reply: Reply, unpacked_bytes: int, run: ExerciseRun) -> None:
        """Add the reply to a case; if all replies of the submission take too much memory, give up this exercise."""
        bytes_so_far = sum(other.unpacked_bytes for other in self.runs.values())
        if run.incident:
            return
        if bytes_so_far + unpacked_bytes > self.limits.observations_bytes:
            run.replies, run.unpacked_bytes = [], 0
            run.end("memory", f"What `{name}` returns, in all cases, is more data than the limit for one notebook.")
            return
        run.replies.append(reply)
        run.unpacked_bytes += unpacked_bytes

    def _end_without_reply(self, exercise: Exercise, message: dict[str, Any], run: ExerciseRun) -> None:
        """End a run after a message without observations."""
        if message.get("unattempted") is True:
            # an answer may raise that exception itself, so this machine checks whether it is true
            lacks = message.get("lacks_tools") is True and missing_tools(self.sandbox.isolation.environment("/tmp"))
            run.end("unattempted", LACKS_TOOLS if lacks else f"`{exercise.name}` is not written yet.")
        elif message.get("ended") == "timeout":
            run.end("timeout", self._too_long(exercise))
        else:
            run.end("crashed", self._how_it_ended(exercise.name, message.get("ended")))

    def _no_answer(self, name: str, answer: Any, run: ExerciseRun) -> None:
        """End a run without a function or class to call; the state of the exercise's cell says why there is none."""
        places = [place for place, cell in enumerate(self.cells) if cell.grade_id == name]
        state = self.states.get(places[-1], "done") if places else "done"
        if answer != "unbound":
            kind = answer if self.quotes and answer in KINDS else "something else"
            run.end("error", f"`{name}` is bound to {kind}: it should be a function or a class.")
        elif state == "timeout":
            run.end("timeout", f"The cell of `{name}` took too long and was stopped.")
        elif state == "died":
            run.end("crashed", f"The process ended while the cell of `{name}` ran.")
        elif state in ("memory", "MemoryError"):
            run.end("memory", f"The cell of `{name}` ran out of memory.")
        elif state in ("done", "skipped"):
            run.end("unattempted", f"`{name}` is not defined.")
        else:
            error = state if self.quotes and state in BUILTIN_EXCEPTIONS else "an exception"
            if error in SYNTAX_ERRORS and (where := syntax_error(self.cells[places[-1]].source)):
                error = f"{error} {where}"
            run.end("error", f"The cell of `{name}` raised {error}, so `{name}` is not defined.")

    def _how_it_ended(self, name: str, ending: object) -> str:
        """Return how the process ended. Hidden cases may end it with any status that their inputs ask for."""
        known = ENDINGS.fullmatch(str(ending)) if self.quotes else None  # a learner could send any other text
        how = f" ({ending})" if known and (known["error"] or "OSError") in BUILTIN_EXCEPTIONS else ""
        return f"The process ended while `{name}` ran{how}."
