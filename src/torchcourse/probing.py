"""Running one answer in one case, and coming back with observations whatever happens."""

from __future__ import annotations

import contextlib
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from torchcourse import codec
from torchcourse.exercise import Case, Exercise, Unattempted
from torchcourse.lanes import CPU, Lane, place
from torchcourse.observations import Observations, plain, raised
from torchcourse.watching import Watch

__all__ = ["Watched", "observe", "pristine"]

SEED = 20_260_920


class Watched:
    """An answer that notes what its calls cost: the form in which a probe gets it.

    `spent` is what the last call cost: torch calls as Python makes them, the operators they became, and elements handed
    over to Python or NumPy; nothing off the CPU, where calls are not watched. `forbidden` are the names called so far
    that the exercise forbids.
    """

    def __init__(self, answer: Callable[..., Any], forbids: tuple[str, ...], watching: bool) -> None:
        self.answer = answer
        self.forbids = forbids
        self.watching = watching
        self.spent = (0, 0, 0)
        self.forbidden: list[str] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with self.watched():
            return self.answer(*args, **kwargs)

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """A block whose calls count as the answer's own: for the methods of an answer that is a class."""
        if not self.watching:
            yield
            return
        watch = Watch(self.forbids)
        try:
            with watch:
                yield
        finally:
            self.spent = (len(watch.functions), len(watch.operators), watch.handed_over)
            self.forbidden += [n for n in watch.forbidden(self.forbids) if n not in self.forbidden]


def _cuda_is_used() -> bool:
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


def _reseed(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.default_generator.manual_seed(seed)  # torch.manual_seed would also decide what an unused GPU draws later
    if _cuda_is_used():
        torch.cuda.manual_seed_all(seed)


class _State:
    """What an answer may have changed for the whole process, and should find as it was when the check is over."""

    def __init__(self, numbers: bool) -> None:
        """`numbers` says whether random state is among it, which is most of the work."""
        self.drawn = (random.getstate(), np.random.get_state(), torch.get_rng_state()) if numbers else None
        self.drawn_on_gpus = torch.cuda.get_rng_state_all() if numbers and _cuda_is_used() else []
        self.dtype, self.device = torch.get_default_dtype(), torch.get_default_device()
        self.threads = torch.get_num_threads()
        self.deterministic = torch.get_deterministic_debug_mode()
        self.anomaly = torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()
        self.autocast = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
        self.products, self.faults = torch.get_float32_matmul_precision(), np.geterr()

    def put_back(self) -> None:
        if self.drawn:
            random.setstate(self.drawn[0])
            np.random.set_state(self.drawn[1])
            torch.set_rng_state(self.drawn[2])
        if self.drawn_on_gpus:
            torch.cuda.set_rng_state_all(self.drawn_on_gpus)
        torch.set_default_dtype(self.dtype)
        if torch.get_default_device() != self.device:
            torch.set_default_device(None if self.device == torch.device("cpu") else self.device)
        if torch.get_num_threads() != self.threads:
            torch.set_num_threads(self.threads)
        torch.set_anomaly_enabled(*self.anomaly)
        torch.set_autocast_enabled("cpu", self.autocast[0])
        torch.set_autocast_dtype("cpu", self.autocast[1])
        if torch.get_float32_matmul_precision() != self.products:
            torch.set_float32_matmul_precision(self.products)
        np.seterr(**self.faults)
        if torch.get_deterministic_debug_mode() != self.deterministic:  # setting it imports torch._inductor: a second
            torch.use_deterministic_algorithms(self.deterministic > 0, warn_only=self.deterministic == 1)


@contextlib.contextmanager
def pristine(seed: int = SEED, *, numbers: bool = True) -> Iterator[None]:
    """A block with torch's ordinary defaults and fixed random state; what the learner had set comes back after, random
    state only where somebody will draw from it (`numbers`)."""
    before = _State(numbers)
    torch.set_default_dtype(torch.float32)
    if before.device != torch.device("cpu"):  # not `with torch.device("cpu")`: in it torch.tensor(t) leaves t's device
        torch.set_default_device(None)
    _reseed(seed)
    try:
        with warnings.catch_warnings(), torch.inference_mode(False), torch.enable_grad():
            warnings.simplefilter("ignore")  # an answer that warns is not wrong
            yield
    finally:
        before.put_back()


def _eagerly(lane: Lane) -> contextlib.AbstractContextManager[Any]:
    """On the simulated accelerator, compiled functions run as they were written; asking for that imports
    torch._dynamo, so it is done only where something has imported it already."""
    if lane.name == "simulated" and "torch._dynamo" in sys.modules:
        eager: contextlib.AbstractContextManager[Any] = torch.compiler.set_stance("force_eager")
        return eager
    return contextlib.nullcontext()


def observe(
    exercise: Exercise, answer: Callable[..., Any], case: Case, lane: Lane = CPU, *, alone: bool = False
) -> Observations:
    """What `answer` does in `case` on `lane`, as plain data.

    An exception that the probe did not expect becomes the observation `raised`. `alone` is a process that exists for
    this: the case's inputs are used up, and random state is left as it is.

    Raises:
        Unattempted: when the answer is the exercise's own stub.
    """
    watched = Watched(answer, exercise.forbids, watching=exercise.watched and lane == CPU)
    with pristine(numbers=not alone), _eagerly(lane):
        inputs = case.inputs if alone else codec.unpack(codec.pack(case.inputs), trusted=True)
        try:
            seen = plain(exercise.probe(watched, **place(inputs, lane.device)))
        except Unattempted as stub:
            if stub.name in ("", exercise.name):
                raise
            seen = {"raised": raised(stub)}
        except (Exception, SystemExit) as error:
            seen = {"raised": raised(error)}
    if exercise.forbids:
        seen["forbidden calls"] = watched.forbidden
    return dict(seen)
