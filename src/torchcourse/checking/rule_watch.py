"""Watch an answer in an exercise with rules: what it calls, on any thread, and that it does not leave the watch."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator

from torch.overrides import _get_current_function_mode_stack
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from torchcourse.checking.audit import ADDRESSES, PROCESSES, PROFILERS, THREADS, Audit, has_prepared
from torchcourse.checking.call_watch import AUTOGRAD, CallWatch, bare, whole_word
from torchcourse.checking.operator_record import OperatorRecord
from torchcourse.checking.shared_process import is_shared
from torchcourse.checking.torchs_modules import TORCH
from torchcourse.model.own_code import file_of, is_own

__all__ = ["EVASIONS", "RuleWatch"]

NUMPY, MEMORY = "NumPy", "memory of tensors"
EVASIONS = (THREADS, PROCESSES, PROFILERS, ADDRESSES, NUMPY, MEMORY)
"""Ways to do work where the watch cannot see it; forbidden in every exercise with rules."""


class RuleWatch:
    """A context manager that records the calls of an answer where rules restrict or count them.

    In a process that is shared with other work, only this thread is watched, and only as Python sees it: the record
    below it takes longer than most of the course's own programs.

    Args:
        forbids: names that the exercise forbids; see `CallWatch`.
        on_cpu: whether the inputs are on the CPU. Elsewhere operators are not counted, and autograd has a thread of
            its own.
        with_inputs: whether to record the inputs of operators below Python, for `groups_heads`.
        is_backward: whether this is a backward pass, in which only forbidden names count: autograd has its own threads.
    """

    def __init__(
        self, forbids: Iterable[str], on_cpu: bool, with_inputs: bool = False, is_backward: bool = False
    ) -> None:
        self.forbids, self.on_cpu, self.is_backward = tuple(forbids), on_cpu, is_backward
        self._record, self._audit = OperatorRecord(with_inputs), Audit()
        self._is_recorded = not is_shared()
        self._calls = CallWatch(self.forbids, operators=on_cpu)
        self._returned = self._recursed = self._is_prepared = False

    def __enter__(self) -> RuleWatch:
        self._is_prepared = any(map(_is_learners, _entered_modes()))
        if self._is_recorded:
            self._record.__enter__()
        self._calls.__enter__()
        self._audit.__enter__()  # last, so that it does not note what the others do
        return self

    def __exit__(self, *exc: object) -> None:
        self._returned, self._recursed = exc[0] is None, exc[0] is RecursionError
        self._audit.__exit__(*exc)
        self._calls.__exit__(*exc)
        if self._is_recorded:
            self._record.__exit__(*exc)
        self._is_prepared |= has_prepared()

    def spent(self) -> tuple[int, int, int]:
        """Return the numbers of torch calls at the Python level, of operators, and of elements handed to Python.

        All are 0 where the inputs are not on the CPU.
        """
        if not self.on_cpu:
            return 0, 0, 0
        functions, operators = len(self._calls.functions), len(self._calls.operators)
        unseen = max(0, self._record.read().calls - functions - operators)
        return functions, operators + unseen, self._calls.handed_over

    @property
    def groups_heads(self) -> bool:
        """Whether attention was asked to give several query heads one key head, as seen below Python."""
        return self._record.read().groups_heads

    def forbidden(self) -> list[str]:
        """Return the forbidden names that were called, under any alias, or what took work out of sight."""
        names = self._calls.forbidden(self.forbids) or list(self._seen_below())[:1]
        return names if names or self.is_backward else sorted(self._evasions())

    def _seen_below(self) -> Iterator[str]:
        """Yield forbidden names that only the record below Python shows, in operators of any longer name too."""
        below = self._record.read()
        ran = {bare(name) for name in below.names}
        if TORCH in self.forbids and ran:
            yield TORCH
        if AUTOGRAD in self.forbids and below.ran_autograd:
            yield AUTOGRAD
        for name in self.forbids:
            if "." not in name and any(map(whole_word(name).search, ran)):
                yield name

    def _evasions(self) -> Iterator[str]:
        below = self._record.read()
        used = self._audit.used.intersection(EVASIONS) | (set() if self._calls.intact else {PROFILERS})
        # endless recursion also ends the profiler, and is reported as itself
        yield from used - ({PROFILERS} if self._recursed else set())
        if self._is_recorded and (self._is_prepared or not below.intact):
            yield PROFILERS
        if self.on_cpu and below.other_threads:
            yield THREADS
        if self._calls.reads_memory:
            yield MEMORY
        unnoticed = self.on_cpu and below.hands_over > 0 and not self._calls.hands_over
        if self._returned and (unnoticed or (self.forbids and self._calls.through_numpy())):
            yield NUMPY


def _entered_modes() -> list[object]:
    """Return the active function and dispatch modes; one that a cell has left active could compute after the watch."""
    return [*_get_current_function_mode_stack(), *_get_current_dispatch_mode_stack()]  # type: ignore[no-untyped-call]


def _is_learners(mode: object) -> bool:
    """Return whether a mode is of a class of a learner's own."""
    handlers = [getattr(type(mode), name, None) for name in ("__torch_function__", "__torch_dispatch__")]
    codes = [getattr(inspect.unwrap(handler), "__code__", None) for handler in handlers if callable(handler)]
    return any(code is None or is_own(file_of(code)) for code in codes)
