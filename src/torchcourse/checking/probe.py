"""Run an answer in one case and return the observations, whatever happens."""

from __future__ import annotations

import contextlib
import random
import re
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from torchcourse.checking.rule_watch import RuleWatch
from torchcourse.checking.shared_process import in_shared_process
from torchcourse.model import codec
from torchcourse.model.devices import CPU, CheckedDevice, to_device
from torchcourse.model.exercise import Case, Exercise, Unattempted
from torchcourse.model.observations import (
    FORBIDDEN,
    UNUSABLE,
    Observations,
    base_containers,
    kind,
    plain,
    raised,
    refuse_foreign,
)
from torchcourse.model.own_code import is_own

__all__ = ["Watched", "is_raised_by_probe", "observe", "observe_first", "pristine"]

SEED = 20_260_920
INTERNALS = re.compile(r"INTERNAL ASSERT|StopIteration|C\+\+|\b(aten|c10|torch)::|\b0x[0-9a-f]{4}")
"""Messages about Python's or PyTorch's internals, which tell learners nothing about their answer."""
IN_PLACE = re.compile(r"(?<=modified by an inplace operation): .*")
"""What autograd adds about a tensor that was written into: its versions, and a node of the graph."""


class Watched:
    """An answer as probes get it, wrapped: where its exercise has rules, it counts calls and records forbidden ones.

    Attributes:
        answer: the learner's function or class itself.
        returned: the kind of value that the last call returned, in words; "" before that.
        with_inputs: whether to record the inputs of operators too; a probe sets it that reads `groups_heads`.
        found_by_probe: forbidden names that no call shows and a probe has found.
    """

    def __init__(self, answer: Callable[..., Any], exercise: Exercise, on_cpu: bool) -> None:
        self.answer = answer
        self._rules = (exercise.forbids, on_cpu) if exercise.has_rules else None
        self.returned = ""
        self.with_inputs = False
        self.found_by_probe: list[str] = []
        self._watches: list[RuleWatch] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        value = self.run(self.answer, *args, **kwargs)
        self.returned = kind(value)
        return value

    def run(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Make one of the answer's calls, counted as its own, and return a result that runs no code later."""
        tensors = [(item, type(item)) for item in (*args, *kwargs.values()) if isinstance(item, torch.Tensor)]
        with self.watched():
            value = call(*args, **kwargs)
            refuse_foreign(value)  # which asks a class of a learner's own, and so is watched like the call
            value = base_containers(value) if self._rules else value
        if any(type(item) is not cls for item, cls in tensors):  # a class of its own could compute when looked at
            raise TypeError("the answer changed the class of a tensor that it was given")
        return value

    @contextlib.contextmanager
    def watched(self, is_backward: bool = False) -> Iterator[None]:
        """Count the calls in this block as the answer's own: for the methods of an answer that is a class, or for the
        backward pass of a function that it may have written itself."""
        if not self._rules:
            yield
            return
        self._watches.append(RuleWatch(*self._rules, self.with_inputs, is_backward))
        with self._watches[-1]:
            yield

    def spent(self, calls: int = 1) -> list[tuple[int, int, int]]:
        """Return the cost of each of the last calls: the numbers of torch calls at the Python level, of operators, and
        of elements handed to Python or NumPy; all 0 where nothing is counted."""
        return [watch.spent() for watch in self._watches[-calls:]] or [(0, 0, 0)] * calls

    @property
    def groups_heads(self) -> bool:
        """Whether attention was asked so far to give several query heads one key head."""
        return any(watch.groups_heads for watch in self._watches)

    @property
    def forbidden(self) -> list[str]:
        """The names so far that the exercise forbids."""
        called = [name for watch in self._watches for name in watch.forbidden()]
        return list(dict.fromkeys(called + self.found_by_probe))


def _cuda_is_used() -> bool:
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


def _reseed(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.default_generator.manual_seed(seed)  # torch.manual_seed would also decide what an unused GPU draws later
    if _cuda_is_used():
        torch.cuda.manual_seed_all(seed)


def _sigchld_handler() -> Any:
    """Return the handler of SIGCHLD; None where Python cannot restore it.

    A DataLoader with workers sets a handler that raises RuntimeError, wherever the program is by then, when a worker
    fails that an answer left behind.
    """
    can_change = hasattr(signal, "SIGCHLD") and threading.current_thread() is threading.main_thread()
    return signal.getsignal(signal.SIGCHLD) if can_change else None


class _Settings:
    """Process-wide settings that an answer may change, to be restored after the check."""

    def __init__(self, generators: bool) -> None:
        """Save the settings and, if `generators`, the states of the random generators, which is most of the work."""
        self.generators = (random.getstate(), np.random.get_state(), torch.get_rng_state()) if generators else None
        self.gpu_generators = torch.cuda.get_rng_state_all() if generators and _cuda_is_used() else []
        self.dtype, self.device = torch.get_default_dtype(), torch.get_default_device()
        self.threads = torch.get_num_threads()
        self.deterministic = torch.get_deterministic_debug_mode()
        self.anomaly = torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()
        self.autocast = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
        self.matmul_precision, self.numpy_errors = torch.get_float32_matmul_precision(), np.geterr()
        self.child_handler = _sigchld_handler()

    def restore(self) -> None:
        if self.generators:
            random.setstate(self.generators[0])
            np.random.set_state(self.generators[1])
            torch.set_rng_state(self.generators[2])
        if self.gpu_generators:
            torch.cuda.set_rng_state_all(self.gpu_generators)
        torch.set_default_dtype(self.dtype)
        if torch.get_default_device() != self.device:
            torch.set_default_device(None if self.device == torch.device("cpu") else self.device)
        if torch.get_num_threads() != self.threads:
            torch.set_num_threads(self.threads)
        torch.set_anomaly_enabled(*self.anomaly)
        torch.set_autocast_enabled("cpu", self.autocast[0])
        torch.set_autocast_dtype("cpu", self.autocast[1])
        if torch.get_float32_matmul_precision() != self.matmul_precision:
            torch.set_float32_matmul_precision(self.matmul_precision)
        np.seterr(**self.numpy_errors)
        if self.child_handler is not None and _sigchld_handler() != self.child_handler:
            signal.signal(signal.SIGCHLD, self.child_handler)
        if torch.get_deterministic_debug_mode() != self.deterministic:  # setting it imports torch._inductor: a second
            torch.use_deterministic_algorithms(self.deterministic > 0, warn_only=self.deterministic == 1)


@contextlib.contextmanager
def pristine(seed: int = SEED, *, generators: bool = True) -> Iterator[None]:
    """Set torch's defaults and a fixed random state in this block; restore the learner's settings afterwards.

    Args:
        seed: seeds all generators.
        generators: whether to restore the random state as well.
    """
    before = _Settings(generators)
    torch.set_default_dtype(torch.float32)
    if before.device != torch.device("cpu"):  # not `with torch.device("cpu")`: in it torch.tensor(t) leaves t's device
        torch.set_default_device(None)
    _reseed(seed)
    try:
        with warnings.catch_warnings(), torch.inference_mode(False), torch.enable_grad():
            warnings.simplefilter("ignore")  # an answer that warns is not wrong
            yield
    finally:
        before.restore()


def _eagerly(device: CheckedDevice) -> contextlib.AbstractContextManager[Any]:
    """Run compiled functions uncompiled on the simulated accelerator.

    The switch for that imports torch._dynamo, so it is used only if something has imported that already.
    """
    if device.name == "simulated" and "torch._dynamo" in sys.modules:
        eager: contextlib.AbstractContextManager[Any] = torch.compiler.set_stance("force_eager")
        return eager
    return contextlib.nullcontext()


def is_raised_by_probe(error: BaseException) -> bool:
    """Return whether an exception did not pass through an answer: a probe could not go on with what it was given."""
    codes = [frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)]
    return Watched.run.__code__ not in codes and not any(is_own(code.co_filename) for code in codes)


def _stopped(watched: Watched, error: BaseException, name: str) -> Observations:
    """Return what an answer returned, in words, and why its probe could not go on with it, if that helps a learner.

    A class is called by the name of its exercise: a known mistake may have another one, and is to be recognised.
    """
    if watched.returned == kind(None):
        return {"returned": watched.returned}
    words = f"{watched.returned}; the check could not go on with it"
    if not watched.returned:
        words = f"{UNUSABLE} ({kind(watched.answer)})"
    why = IN_PLACE.sub("", raised(error).message)
    words = words if INTERNALS.search(why) else f"{words}: {why}"
    if isinstance(watched.answer, type):
        words = re.sub(rf"\b{re.escape(watched.answer.__name__)}\b", name, words)
    return {"returned": words}


def observe(
    exercise: Exercise,
    answer: Callable[..., Any],
    case: Case,
    device: CheckedDevice = CPU,
    *,
    trusted: bool = False,
    caught: Callable[[BaseException], object] | None = None,
) -> Observations:
    """Return what the probe observes of `answer` in `case` on `device`, as plain data.

    An exception of the answer that the probe did not expect becomes the observation `raised`; one of the probe itself,
    which could not go on with a result, becomes the observation `returned`.

    Args:
        exercise: the exercise whose probe runs.
        answer: a learner's function or class, a reference, or a mistake's program.
        case: the inputs.
        device: where the inputs are put.
        trusted: whether `answer` is one of the course's own programs, and need not be watched as closely: other work
            may share the process. See `RuleWatch`.
        caught: called with an exception of the answer, which has its traceback.

    Raises:
        Unattempted: if the answer is the exercise's own stub.
    """
    return observe_first(exercise, answer, case, device, trusted=trusted, caught=caught)()


def observe_first(
    exercise: Exercise,
    answer: Callable[..., Any],
    case: Case,
    device: CheckedDevice = CPU,
    *,
    alone: bool = False,
    trusted: bool = False,
    caught: Callable[[BaseException], object] | None = None,
) -> Callable[[], Observations]:
    """Do what `observe` does, and return a function that returns the observations: it adds what was forbidden, which
    ends the run of the profiler (`sharing_a_run`).

    Args:
        alone: whether this process exists for this run only. Then inputs are not copied, and the random state is not
            restored.
    """
    watched = Watched(answer, exercise, device == CPU)
    with pristine(generators=not alone), _eagerly(device), in_shared_process(trusted):
        inputs = case.inputs if alone else codec.unpack(codec.pack(case.inputs), trusted=True)
        try:
            seen = plain(exercise.probe(watched, **to_device(inputs, device.device)))
        except Unattempted as stub:
            if stub.name in ("", exercise.name):
                raise
            seen = {"raised": raised(stub)}
        except (Exception, SystemExit) as error:
            if caught:
                caught(error)
            seen = _stopped(watched, error, exercise.name) if is_raised_by_probe(error) else {"raised": raised(error)}

    def complete() -> Observations:
        forbidden = watched.forbidden
        return dict(seen) | ({FORBIDDEN: forbidden} if exercise.forbids or forbidden else {})

    return complete
