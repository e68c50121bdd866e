"""Probe answers that run on several ranks: processes of one group, forked for each case."""

from __future__ import annotations

import functools
import re
import weakref
from collections.abc import Callable, Iterable, MutableMapping
from typing import Any, Self

import torch.distributed as dist
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from torchcourse.checking.probe import Watched
from torchcourse.model.observations import Observations, Raised
from torchcourse.ranks.processes import DIED, HANGS, RAISED, RETURNED, Outcome
from torchcourse.ranks.start import MODULES, run_ranks

__all__ = ["MODULES", "Exchanges", "ended", "on_ranks", "rank"]

Program = Callable[..., Observations]
Reasons = dict[str, str]
HANGING: MutableMapping[Any, Observations] = weakref.WeakKeyDictionary()
"""Observations of answers whose ranks never finish, reused in later cases: waiting each time would exceed the time
limit."""
BROKEN = re.compile(r"\[\S*/gloo/transport/.*", re.DOTALL)
"""What gloo raises where another rank's process has ended: another address each time, and one of several sentences."""
ABORTED = Raised("process ended", "by signal 6")
NO_REASONS: Reasons = {}
OUT_OF_SIGHT = "calls out of sight"
SPACES = ("c10d", "_c10d_functional", "_c10d_functional_autograd")
"""Where torch's operators live that exchange something."""


def on_ranks(
    answer: Watched, program: Program, inputs: dict[str, Any], world_size: int = 2, reasons: Reasons = NO_REASONS
) -> Observations:
    """Run `program(answer, **inputs)` on every rank; return what each observed, as "name, rank n".

    The observation "rank n" says how the rank ended. If every rank raises the same kind of exception, that is the only
    observation, as it would be in one process. `reasons` maps words in its message to the reason to record. If a rank
    is aborted, that is the only observation as well: gloo does so to whichever rank is first to receive a tensor of
    another size than its own, and what becomes of the others is another thing each time.
    """
    if known := HANGING.get(answer.answer):
        return known
    outcomes = run_ranks(functools.partial(program, answer.answer, **inputs), world_size)
    errors = [o.error for o in outcomes if o.ended == RAISED and o.error is not None]
    if len(errors) == world_size and len({error.kind for error in errors}) == 1:
        reason = next((why for words, why in reasons.items() if words in errors[0].message), errors[0].reason)
        return {"raised": Raised(errors[0].kind, _message(errors[0]), reason)}
    if any(outcome.ended == DIED and outcome.error == ABORTED for outcome in outcomes):
        why = "a rank was aborted, as happens where they exchange tensors of different sizes"
        return {"ranks": Raised(ABORTED.kind, why, DIED)}
    seen: Observations = {}
    for number, outcome in enumerate(outcomes):
        seen[f"rank {number}"] = ended(outcome)
        if isinstance(outcome.value, dict):
            seen |= {f"{name}, rank {number}": value for name, value in outcome.value.items()}
    if any(outcome.slow for outcome in outcomes):
        HANGING[answer.answer] = seen
    return seen


def ended(outcome: Outcome) -> str | Raised:
    """Return how a rank ended, as an observation."""
    if outcome.ended == HANGS:
        return Raised(HANGS, f"in {outcome.call}" if outcome.call else "", HANGS)
    if outcome.error is not None:
        return Raised(outcome.error.kind, _message(outcome.error), outcome.ended)
    return RETURNED if outcome.ended == RETURNED else DIED


def _message(error: Raised) -> str:
    return BROKEN.sub("The connection to another rank is lost: its process has ended.", error.message)


def rank() -> int:
    """Return the number of this rank."""
    return int(dist.get_rank())


def _calls_of_groups() -> int:
    """Return how many calls the groups of this rank have counted so far; the backend gloo counts each."""
    groups: list[Any] = list(dist.distributed_c10d._world.pg_map)
    return sum(group._get_sequence_number_for_group() for group in groups)


class Exchanges(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records the calls of a rank that reach a process group, in this block.

    Attributes:
        calls: their names, such as "allreduce" and "send". What the groups counted and this block did not see, made on
            another thread or with modes switched off, is `OUT_OF_SIGHT`, and comes last.
        summed: how many elements each all-reduce was given.
        sent: the bytes that point-to-point calls sent.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[str] = []
        self.summed: list[int] = []
        self.sent = 0
        self._before = 0

    def __enter__(self) -> Self:
        self._before = _calls_of_groups()
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *exc: object) -> None:
        super().__exit__(*exc)  # type: ignore[no-untyped-call]
        self.calls += [OUT_OF_SIGHT] * (_calls_of_groups() - self._before - len(self.calls))

    def __torch_dispatch__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        space, _, name = func._schema.name.partition("::")
        if space in SPACES and not name.startswith(("wait", "_wrap")):
            tensors = [leaf for leaf in tree_leaves(args) if isinstance(leaf, Tensor)]
            self.calls.append(name.strip("_"))
            self.summed += [sum(t.numel() for t in tensors)] if name.replace("_", "") == "allreduce" else []
            self.sent += sum(t.nbytes for t in tensors) if name == "send" else 0
        return func(*args, **kwargs or {})
