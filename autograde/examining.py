"""Driving one submission through the sandbox: its cells, then each exercise, case by case, on each lane."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from autograde.inside.needed import Example
from autograde.oracle import LONGEST_FAMILIAR, Oracle
from autograde.sandbox import Job, LostError, Sandbox, SlowError, patience, read
from autograde.submission import Submission
from torchcourse.exercise import Exercise
from torchcourse.explaining import Result
from torchcourse.lanes import CPU
from torchcourse.observations import Observations

__all__ = ["Examined", "Reply", "examine"]

BATCH, BATCH_BYTES = 16, 1 << 15
"""How many cases are sent at once, and how many bytes of them: less than fits into a socket that nobody reads."""
ENDINGS = re.compile(r"(exit|the runner ended:) -?\d{1,3}|the runner is gone")
KINDS = ("int", "float", "bool", "str", "list", "tuple", "dict", "set", "Tensor", "ndarray", "module")
"""What of a process's end and of an answer's type is told: the process itself could put any text there."""


@dataclass(frozen=True)
class Reply:
    """What an answer did in one case: raw observations, and the bytes that they were read from, if those are few.

    Where these were judged before, `known` is what they came to, and they are not read again.
    """

    raw: Observations
    data: bytes = b""
    known: Result | None = None


@dataclass
class Examined:
    """What is known of one exercise on one lane: replies by case, and how it ended early, if it did.

    `incident` is "", "unattempted", "crashed", "timeout", "memory" or "error"; `reason` is a sentence for the learner.
    `weight` is what the replies weigh, in bytes.
    """

    replies: list[Reply] = field(default_factory=list)
    incident: str = ""
    reason: str = ""
    weight: int = 0


def examine(
    sandbox: Sandbox, submission: Submission, oracles: list[Oracle], accelerator: str, visible: Mapping[str, int]
) -> dict[str, dict[str, Examined]]:
    """Examine the exercises of `oracles` on the CPU and, those that are for any device, on the lane `accelerator`.

    On each lane the first cases of every exercise, so many as `visible` says, come before all others: what is quoted
    of them was said before any hidden input came into the sandbox, and so can hold nothing of one.

    What died or hung on the CPU is not tried again. Returns what was found by lane and exercise.
    """
    deadline = time.monotonic() + sandbox.limits.submission_seconds
    cpu = _Visit(sandbox, submission, CPU.name, deadline)
    cpu.examine(_parts(oracles, visible))
    there = _Visit(sandbox, submission, accelerator, deadline)
    there.shown = cpu.shown
    there.skip = {n for n, state in cpu.states.items() if state in ("timeout", "died", "memory", "unneeded")}
    there.states = {n: cpu.states[n] for n in there.skip}
    again = [o for o in oracles if o.exercise.any_device and not cpu.found[o.exercise.name].incident]
    there.examine(_parts(again, visible))
    return {CPU.name: cpu.found, accelerator: there.found}


@dataclass(frozen=True)
class _Part:
    """Some of an exercise's cases, by their numbers."""

    oracle: Oracle
    cases: range

    @property
    def exercise(self) -> Exercise:
        return self.oracle.exercise

    def batch(self, begin: int) -> list[bytes]:
        """The cases from `begin` on that are sent together, as they are sent: some small ones, or one that is not."""
        found = [self.oracle.packed[begin]]
        for number in range(begin + 1, min(begin + BATCH, self.cases.stop)):
            data = self.oracle.packed[number]
            if sum(map(len, found)) + len(data) > BATCH_BYTES:
                break
            found.append(data)
        return found


def _parts(oracles: list[Oracle], visible: Mapping[str, int]) -> list[_Part]:
    """The exercises with their visible cases, and then with the others."""
    shown = [_Part(o, range(visible[o.exercise.name])) for o in oracles]
    hidden = [_Part(o, range(visible[o.exercise.name], len(o.cases))) for o in oracles]
    return [*shown, *(part for part in hidden if part.cases)]


class _Visit:
    """The state of one submission on one lane, over restarts."""

    def __init__(self, sandbox: Sandbox, submission: Submission, lane: str, deadline: float) -> None:
        self.sandbox, self.limits, self.submission, self.lane = sandbox, sandbox.limits, submission, lane
        self.cells = submission.to_run()
        self.shown = submission.shown()
        self.skip: set[int] = set()
        self.states: dict[int, str] = {}
        self.found: dict[str, Examined] = {}
        self.deaths = 0
        self.deadline = min(deadline, time.monotonic() + self.limits.lane_seconds)

    def examine(self, parts: list[_Part]) -> None:
        """Examine exercises. A process that dies or hangs costs the exercise (or the cell) at which it did; the lane is
        then started again for the others."""
        pending = list(parts)
        while pending and self.deaths <= self.limits.deaths and time.monotonic() < self.deadline:
            try:
                shown, self.shown = self.shown, []  # once: it may be of that that the process dies
                with self.sandbox.job(self.lane, self.cells, sorted(self.skip), shown) as job:
                    if shown:
                        self.leave_out(job, shown)
                    self.run_cells(job)
                    while pending and time.monotonic() < self.deadline:
                        self.probe(job, pending.pop(0))
            except (LostError, SlowError):
                self.deaths += 1
        for part in pending:
            given_up, examined = self._given_up(), self.found.setdefault(part.exercise.name, Examined())
            if not examined.incident:
                examined.incident, examined.reason = given_up.incident, given_up.reason

    def _given_up(self) -> Examined:
        if self.deaths > self.limits.deaths:
            return Examined(incident="crashed", reason="The process died or hung again and again before this exercise.")
        reason = "The notebook had used up the time of a submission before this exercise."
        return Examined(incident="timeout", reason=reason)

    def leave_out(self, job: Job, shown: list[Example | None]) -> None:
        """Hear which examples are not run, since nothing needs them.

        Raises:
            LostError, SlowError: when the lane has to start again; then all of them are run.
        """
        unneeded = job.receive(job.patience * self.limits.cell_seconds + self.limits.grace_seconds).get("unneeded")
        for number in unneeded if isinstance(unneeded, list) else ():
            if isinstance(number, int) and 0 <= number < len(shown) and shown[number] is not None:
                self.skip.add(number)
                self.states[number] = "unneeded"

    def run_cells(self, job: Job) -> None:
        """Wait for the cells to run; one that kills or hangs the process is not run again.

        Raises:
            LostError, SlowError: when the lane has to start again.
        """
        most = job.patience * self.limits.cell_seconds + self.limits.grace_seconds
        for number in range(len(self.cells)):
            if time.monotonic() > self.deadline:
                raise SlowError
            try:
                state = job.receive(most).get("state")
            except (LostError, SlowError) as error:
                ended = "memory" if job.ran_out_of_memory() else "died"
                self.states[number] = "timeout" if isinstance(error, SlowError) else ended
                self.skip.add(number)
                raise
            if number not in self.skip:
                self.states[number] = state[:100] if isinstance(state, str) else "something else"
            if state == "timeout":
                self.skip.add(number)
        job.ran_out_of_memory()  # what a cell's own processes ran into is no exercise's fault

    def probe(self, job: Job, part: _Part) -> None:
        """Examine one exercise, or go on with one.

        Raises:
            LostError, SlowError: when the lane has to start again; what happened is noted.
        """
        name = part.exercise.name
        examined = self.found.setdefault(name, Examined())
        if examined.incident:
            return
        try:
            self._converse(job, part, examined)
        except LostError as error:
            examined.incident, examined.reason = "crashed", self._ended(name, error)
            raise
        except SlowError:
            examined.incident, examined.reason = "timeout", self._too_long(part.exercise)
            raise
        finally:
            if job.ran_out_of_memory():
                examined.incident, examined.reason = "memory", f"`{name}` ran out of memory."

    def _seconds(self, exercise: Exercise) -> float:
        """Exercises whose check may take longer than usual (exports) may do so here in the same proportion."""
        return self.limits.exercise_seconds * max(1.0, exercise.seconds / Exercise.seconds)

    def _too_long(self, exercise: Exercise) -> str:
        return f"`{exercise.name}` took longer than {self._seconds(exercise):g} seconds: look for an endless loop."

    def _converse(self, job: Job, part: _Part, examined: Examined) -> None:
        limits, name = self.limits, part.exercise.name
        seconds, times = self._seconds(part.exercise), patience(limits)
        job.send({
            "do": "probe", "exercise": name, "seconds": seconds, "patience": times, "most_bytes": limits.reply_bytes,
        })
        most = times * seconds + limits.grace_seconds
        answer = job.receive(most).get("answer")
        if answer != "callable":
            self._no_answer(name, answer, examined)
        elif not self._ask(job, part, examined, most):
            return
        job.send({"do": "done"})
        ended = job.receive(most).get("ended")
        if not isinstance(ended, str):
            raise LostError("messages out of step")  # two processes answered, say: the others start afresh
        if ended != "done":
            examined.incident, examined.reason = "crashed", self._ended(name, ended)

    def _ask(self, job: Job, part: _Part, examined: Examined, seconds: float) -> bool:
        """Send the cases, some at a time, and hear what each came to; whether the prober is still there. `seconds` are
        for all of them together."""
        until = time.monotonic() + seconds
        sent = part.cases.start
        for number in part.cases:
            if number == sent:
                batch = part.batch(number)
                job.ask(batch)
                sent += len(batch)
            data = job.receive_packed(until - time.monotonic())
            known = part.oracle.familiar(self.lane, number, data)
            reply = {"seen": {}} if known else read(data)
            if isinstance(reply.get("seen"), dict):
                data = data if len(data) <= LONGEST_FAMILIAR else b""
                self._keep(part.exercise.name, Reply(reply["seen"], data, known), job.weight, examined)
                continue
            self._note(part.exercise, reply, examined)
            if self.lane == "cpu" and reply.get("unattempted") is not True:
                return False
            for _ in range(number + 1, sent):
                job.receive_packed(until - time.monotonic())
            return True
        return True

    def _keep(self, name: str, reply: Reply, weight: int, examined: Examined) -> None:
        """Keep the reply to a case, unless those of all exercises together weigh too much: then this one's are given
        up."""
        held = sum(each.weight for each in self.found.values())
        if examined.incident:
            return
        if held + weight > self.limits.observations_bytes:
            examined.replies, examined.weight, examined.incident = [], 0, "memory"
            examined.reason = f"What `{name}` returns, in all cases, is more than can be kept of a notebook."
            return
        examined.replies.append(reply)
        examined.weight += weight

    def _ended(self, name: str, how: object) -> str:
        how = f" ({how})" if ENDINGS.fullmatch(str(how)) else ""  # else it says what somebody wanted it to say
        return f"The process ended while `{name}` ran{how}."

    def _note(self, exercise: Exercise, reply: dict[str, Any], examined: Examined) -> None:
        """Note a reply that is no observation."""
        name = exercise.name
        if reply.get("unattempted") is True:
            examined.incident, examined.reason = "unattempted", f"`{name}` is not written yet."
        elif reply.get("ended") == "timeout":
            examined.incident, examined.reason = "timeout", self._too_long(exercise)
        else:
            examined.incident, examined.reason = "crashed", self._ended(name, reply.get("ended"))

    def _no_answer(self, name: str, answer: Any, examined: Examined) -> None:
        place = self.submission.solution(name)
        state = self.states.get(place, "done") if place is not None else "done"
        if answer != "unbound":
            examined.incident = "error"
            kind = answer if answer in KINDS else "something else"
            examined.reason = f"`{name}` is bound to {kind}: it should be a function or a class."
        elif state == "timeout":
            examined.incident, examined.reason = "timeout", f"The cell of `{name}` took too long and was stopped."
        elif state == "died":
            examined.incident, examined.reason = "crashed", f"The process ended while the cell of `{name}` ran."
        elif state in ("memory", "MemoryError"):
            examined.incident, examined.reason = "memory", f"The cell of `{name}` ran out of memory."
        elif state in ("done", "skipped"):
            examined.incident, examined.reason = "unattempted", f"`{name}` is not defined."
        else:
            examined.incident = "error"
            examined.reason = f"The cell of `{name}` raised {state}, so `{name}` is not defined."
