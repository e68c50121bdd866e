"""Talk to a worker, whose messages may all be forged: to its supervisor, and to the runner of one submission."""

from __future__ import annotations

import json
import os
import select
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any

from autograde.sandbox.inside.framing import LENGTH, framed, receive
from autograde.settings import Limits
from torchcourse.model import codec
from torchcourse.model.observations import Value

__all__ = ["Control", "Job", "LostError", "SlowError", "parse_message", "wall_clock_factor"]

SLACK = 1 << 16
"""Bytes that a message may weigh beyond the observations of a case."""


class LostError(RuntimeError):
    """The process at the other end is gone, or sent something that is no message."""


class SlowError(RuntimeError):
    """No answer came in time."""


def wall_clock_factor(limits: Limits) -> float:
    """Return the seconds of wall time allowed for each second of CPU time, given how busy the machine is now."""
    processes_per_core = os.getloadavg()[0] / (os.cpu_count() or 1)
    factor = limits.wall_clock_factor
    return max(factor, min(processes_per_core * factor, limits.max_wall_clock_factor))


def parse_message(data: bytes) -> dict[str, Any]:
    """Return a message from a sandbox, unpacked.

    Raises:
        LostError: when the data is no message.
    """
    try:
        value = codec.unpack(data)
    except codec.MalformedError as error:
        raise LostError(str(error)) from None
    if not isinstance(value, dict):
        raise LostError("a message that is not a dict")
    return value


class Control:
    """The connection to a worker's supervisor."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def send(self, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
        """Send a message together with open descriptors.

        Raises:
            LostError: when the supervisor is gone.
        """
        try:
            socket.send_fds(self.sock, [json.dumps(message).encode()], list(descriptors))
        except OSError as error:
            raise LostError(str(error)) from None

    def receive(self, seconds: float) -> dict[str, Any]:
        """Return the next message.

        Raises:
            LostError: when the supervisor is gone.
            SlowError: when none came in time.
        """
        self.sock.settimeout(seconds)
        try:
            message: dict[str, Any] = json.loads(receive(self.sock))
        except TimeoutError:
            raise SlowError from None
        except (EOFError, OSError, ValueError) as error:
            raise LostError(str(error) or "the supervisor is gone") from None
        return message


class Job:
    """The connection to the runner of one submission on one device.

    Args:
        sock: the socket to the runner.
        control: the connection to its supervisor.
        limits: what the submission may use.
        count_kills: returns how many processes of this worker the kernel has killed for lack of memory.
        wall_clock_factor: seconds of wall time that the cells may take for each second of CPU time.
    """

    def __init__(
        self,
        sock: socket.socket,
        control: Control,
        limits: Limits,
        count_kills: Callable[[], int],
        wall_clock_factor: float,
    ) -> None:
        self.sock, self.control, self.limits, self.count_kills = sock, control, limits, count_kills
        self.wall_clock_factor = wall_clock_factor
        self.over_memory, self.kills = False, count_kills()
        self.unread = bytearray()
        self.unpacked_bytes = 0
        """How much memory the last message takes (`codec.unpacked_bytes`), in bytes."""

    def send(self, value: Value) -> None:
        """Send a value.

        Raises:
            LostError: when the runner is gone.
        """
        self._send(codec.pack(value))

    def send_cases(self, cases: Sequence[bytes]) -> None:
        """Send the packed inputs of cases; each is answered by one reply, in order.

        They are sent together, so that a process that ends or forks leaves none half read.

        Raises:
            LostError: when the runner is gone.
        """
        self._send(codec.pack({"do": "cases"}), b"".join(map(framed, cases)))

    def _send(self, *messages: bytes) -> None:
        try:
            self.sock.settimeout(self.limits.exercise_seconds)
            self.sock.sendall(b"".join(map(framed, messages)))
        except OSError as error:
            raise LostError(str(error)) from None

    def receive(self, seconds: float) -> dict[str, Any]:
        """Return the next message; nothing in it can be trusted.

        Raises:
            LostError: when the runner is gone or sent something that is no message.
            SlowError: when none came in time.
        """
        return parse_message(self.receive_packed(seconds))

    def receive_packed(self, seconds: float) -> bytes:
        """Return the next message, still packed, for `parse_message`.

        Raises:
            LostError: when the runner is gone or the message is too large.
            SlowError: when none came in time.
        """
        deadline = time.monotonic() + seconds
        max_bytes = self.limits.reply_bytes + SLACK
        (length,) = LENGTH.unpack(self._receive_exactly(LENGTH.size, deadline))
        if length > max_bytes:
            raise LostError(f"a message of {length} bytes")
        data = self._receive_exactly(length, deadline)
        self.unpacked_bytes = codec.unpacked_bytes(data)
        if self.unpacked_bytes > max_bytes:
            raise LostError(f"a message that takes {self.unpacked_bytes} bytes of memory")
        return data

    def _receive_exactly(self, count: int, deadline: float) -> bytes:
        while len(self.unread) < count:
            self._wait(deadline)
            try:
                piece = self.sock.recv(min(max(count - len(self.unread), 1 << 16), 1 << 20))
            except OSError as error:
                raise LostError(str(error)) from None
            if not piece:
                raise LostError(self._how_it_ended())
            self.unread += piece
        data = bytes(self.unread[:count])
        del self.unread[:count]
        return data

    def _wait(self, deadline: float) -> None:
        left = deadline - time.monotonic()
        ready = select.select([self.sock, self.control.sock], [], [], max(0.0, left))[0]
        if self.sock in ready:
            return
        if ready:  # unasked, the supervisor only reports that the runner has ended
            raise LostError(self._how_it_ended())
        raise SlowError

    def _how_it_ended(self) -> str:
        """Ask the supervisor how the runner ended."""
        try:
            ended = str(self.control.receive(self.limits.grace_seconds).get("ended"))
        except (LostError, SlowError):
            ended = "gone"
        self.over_memory = self.over_memory or ended == "memory"
        return f"the runner ended: {ended}"

    def take_memory_kill(self) -> bool:
        """Return whether processes of this job were killed for lack of memory since the last call, and forget it."""
        kills = self.count_kills()
        ran_out, self.over_memory = self.over_memory or kills > self.kills, False
        self.kills = kills
        return ran_out
