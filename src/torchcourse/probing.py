"""Running one answer in one case, and coming back with observations whatever happens."""

from __future__ import annotations

import contextlib
import random
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

    `spent` is what the last call cost in torch calls (0 off the CPU, where nothing is watched), `forbidden` the
    names called so far that the exercise forbids.
    """

    def __init__(self, answer: Callable[..., Any], forbids: tuple[str, ...], watching: bool) -> None:
        self.answer = answer
        self.forbids = forbids
        self.watching = watching
        self.spent = 0
        self.forbidden: list[str] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.watching:
            return self.answer(*args, **kwargs)
        watch = Watch()
        try:
            with watch:
                return self.answer(*args, **kwargs)
        finally:
            self.spent = watch.cost
            self.forbidden += [n for n in watch.forbidden(self.forbids) if n not in self.forbidden]


@contextlib.contextmanager
def pristine(seed: int = SEED) -> Iterator[None]:
    """A block with torch's ordinary defaults and fixed random state; what the learner had set comes back after."""
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    dtype, device, threads = torch.get_default_dtype(), torch.get_default_device(), torch.get_num_threads()
    deterministic = torch.are_deterministic_algorithms_enabled()
    torch.set_default_dtype(torch.float32)
    random.seed(seed), np.random.seed(seed % 2**32), torch.manual_seed(seed)
    try:
        with warnings.catch_warnings(), torch.device("cpu"), torch.inference_mode(False), torch.enable_grad():
            warnings.simplefilter("ignore")  # an answer that warns is not wrong
            yield
    finally:
        random.setstate(states[0]), np.random.set_state(states[1]), torch.set_rng_state(states[2])
        torch.set_default_dtype(dtype)
        if torch.get_default_device() != device:
            torch.set_default_device(device)
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(deterministic)


def observe(exercise: Exercise, answer: Callable[..., Any], case: Case, lane: Lane = CPU) -> Observations:
    """What `answer` does in `case` on `lane`, as plain data.

    An exception that the probe did not expect becomes the observation `raised`.

    Raises:
        Unattempted: when the answer is the exercise's own stub.
    """
    inputs = codec.unpack(codec.pack(case.inputs), trusted=True)
    watched = Watched(answer, exercise.forbids, watching=lane == CPU)
    with pristine():
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
