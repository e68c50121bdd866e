"""Record the operators of all threads from below Python, where switching modes off changes nothing.

torch's profiler calls a function for each operator that its dispatcher runs, on whichever thread and for whichever
caller: Python, TorchScript, or autograd's engine. Importing this module runs the profiler once, where there is no GPU.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from time import time_ns  # the function itself: exercises put other clocks in its place
from typing import Any, NoReturn

os.environ.setdefault("KINETO_LOG_LEVEL", "9")  # it would write to standard error whenever it starts and stops

import torch
from torch._C._autograd import (
    _disable_profiler,
    _enable_profiler,
    _prepare_profiler,
    _record_function_with_args_enter,
    _record_function_with_args_exit,
)
from torch._C._profiler import ProfilerActivity, ProfilerConfig, ProfilerState, RecordScope, _ExperimentalConfig
from torch._ops import OpOverload, OpOverloadPacket, _OpNamespace
from torch.jit._builtins import _builtin_ops

__all__ = ["OperatorRecord", "Operators", "keep_recording", "sharing_a_run"]

TORCHS_OPERATORS = {name.split(".")[0] for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")}
MAX_INSIDE = 64
"""How many operators one operator may run inside itself before the rest count as calls. The most in a right answer is
58, in `einsum`, with each dispatch by a mode counted."""
CPU_ACTIVITY = {ProfilerActivity.CPU}
OPERATOR = re.compile(r"(?!autograd::|torch::)\w+::|fused_|LlgaPartition")
"""How the name of an operator begins, also of a library's own and of several that TorchScript has made one."""
OPERATORS = (RecordScope.FUNCTION, RecordScope.BACKWARD_FUNCTION)
BACKWARD, FORWARD_MODE = "autograd::engine::", "make_dual"
ATTENTION = "scaled_dot_product"
"""Occurs in the names of attention operators."""
TAKE_ENABLE_GQA = ("attention", "attention_math")
"""Ends of the names of those whose last argument is `enable_gqa`."""
HANDED_TO_NUMPY = "aten::resolve_conj"
"""An operator that `Tensor.numpy` and `Tensor.tolist` run, whatever they are called by."""


def _config(with_inputs: bool) -> ProfilerConfig:
    experimental = _ExperimentalConfig(profile_all_threads=True)
    return ProfilerConfig(ProfilerState.KINETO, with_inputs, False, False, False, False, experimental, "")


@dataclass
class Operators:
    """The operators that ran in a block, on whichever thread.

    Attributes:
        names: the names of all, those that others ran to do their work included.
        calls: how many were called by anything but another operator, or where one ran more than `MAX_INSIDE`: it may
            have run a loop of Python.
        hands_over: how many of these were part of handing a tensor to NumPy or Python.
        ran_autograd: whether autograd's engine ran, a node of a graph that was called by hand, or forward mode.
        other_threads: whether some ran on another thread than that of the block.
        groups_heads: whether attention was asked to give several query heads one key head.
        intact: whether the block was recorded from its start to its end: by the profiler that was started for it, and
            that sees both ends.
    """

    names: list[str] = field(default_factory=list)
    calls: int = 0
    hands_over: int = 0
    ran_autograd: bool = False
    other_threads: bool = False
    groups_heads: bool = False
    intact: bool = False

    def read(self, roots: Sequence[Any], with_inputs: bool) -> None:
        """Read events with those inside them, each attribute once: it is slow to read. Skip user-named ranges and
        scripts, which are not operators.
        """
        left: list[tuple[Any, int | None]] = [(event, None) for event in roots]
        inside: list[int] = []  # how many ran within each operator of torch that something else called
        while left:
            event, place = left.pop()
            name, scope = event.name, event.typed[1].scope
            if scope in OPERATORS:
                self.names.append(name)
                is_backward = scope == RecordScope.BACKWARD_FUNCTION  # a node of a graph, whoever has called it
                self.ran_autograd |= is_backward or name.startswith(BACKWARD) or FORWARD_MODE in name
                if with_inputs and ATTENTION in name and "backward" not in name:
                    self.groups_heads |= _groups_heads(name, event.typed[1].inputs)
            if scope == RecordScope.FUNCTION and OPERATOR.match(name):
                if place is not None:
                    inside[place] += 1
                else:
                    self.calls += 1
                    self.hands_over += name == HANDED_TO_NUMPY and event.parent is None
                    place = len(inside) if name in TORCHS_OPERATORS else None
                    inside += [0] if place is not None else []
            left += [(child, place) for child in event.children]
        self.calls += sum(max(0, count - MAX_INSIDE) for count in inside)


class OperatorRecord:
    """A context manager that records which operators ran in its block.

    Args:
        with_inputs: whether to record the inputs of operators too, for `Operators.groups_heads`, which takes longer.
    """

    def __init__(self, with_inputs: bool = False) -> None:
        self.with_inputs = with_inputs
        self.mark = ""
        self.operators = Operators()
        self._first_direct = 0

    def __enter__(self) -> OperatorRecord:
        self.mark = secrets.token_hex(8)  # so that marks of a record that an answer made are told apart
        self._first_direct = len(_direct_calls)
        _run_for(self).add_mark(self)
        return self

    def __exit__(self, *exc: object) -> None:
        direct = _direct_calls[self._first_direct :]
        kernels = [name for name in direct if name not in EXPORTS]
        self.operators = Operators(kernels, len(kernels), len(direct) - len(kernels))
        for run in _runs:
            run.add_mark(self)
        if not _shares.get():
            _end_runs()

    def read(self) -> Operators:
        """Return what ran in the block, which has ended."""
        if any(self.mark in run.records for run in _runs):
            _end_runs()
        return self.operators


class _Run:
    """A run of the profiler, in which there are the blocks of one or more records."""

    def __init__(self, with_inputs: bool) -> None:
        self.with_inputs = with_inputs
        self.records: dict[str, OperatorRecord] = {}
        config = _config(with_inputs)
        _prepare_profiler(config, CPU_ACTIVITY)
        _enable_profiler(config, CPU_ACTIVITY)
        self._started = time_ns()

    def add_mark(self, record: OperatorRecord) -> None:
        """Mark where the block of a record starts, or where it ends."""
        self.records[record.mark] = record
        _record_function_with_args_exit(_record_function_with_args_enter(record.mark))

    def end(self) -> None:
        """Stop the profiler, and give each record what ran between its marks."""
        try:
            profile = _disable_profiler()
            roots = profile.experimental_event_tree()  # in the order in which they started
        except RuntimeError:  # a block has ended it
            return
        if profile.trace_start_ns() > self._started:  # and one has started another
            return
        places: dict[str, list[int]] = {mark: [] for mark in self.records}
        for number, event in enumerate(roots):
            if (name := event.name) in places:
                places[name].append(number)
        for mark, record in self.records.items():
            if len(places[mark]) == 2:
                start, end = places[mark]
                between, operators = roots[start + 1 : end], record.operators
                operators.intact = True
                operators.other_threads = any(event.start_tid != roots[start].start_tid for event in between)
                operators.read(between, self.with_inputs)


_runs: list[_Run] = []
"""The run that goes on, if there is one."""
_shares = ContextVar("_shares", default=False)


def _run_for(record: OperatorRecord) -> _Run:
    if any(run.with_inputs != record.with_inputs for run in _runs):
        _end_runs()
    if not _runs:
        _runs.append(_Run(record.with_inputs))
    return _runs[0]


def _end_runs() -> None:
    while _runs:
        _runs.pop().end()


@contextlib.contextmanager
def sharing_a_run() -> Iterator[None]:
    """Record several blocks in one run of the profiler, which takes longer to start and stop than most answers.

    The run ends with this block, or where a record is read.
    """
    token = _shares.set(True)
    try:
        yield
    finally:
        _shares.reset(token)
        _end_runs()


def _groups_heads(name: str, inputs: Sequence[Any]) -> bool:
    """Return whether attention was asked for grouped queries: by `enable_gqa=True` or, in a kernel, by different
    numbers of query and key heads."""
    if name.endswith(TAKE_ENABLE_GQA):
        return inputs[-1] is True
    heads = [one.sizes[-3] for one in inputs[:2] if len(getattr(one, "sizes", ())) >= 3]
    return len(set(heads)) > 1


WITHOUT_OPERATORS = (
    "_jit_differentiate", "_jit_interpret_graph", "_jit_pass_propagate_shapes_on_graph",
    "_jit_pass_propagate_shapes_on_graph_and_build_compute", "_jit_to_static_module", "_fuse_to_static_module",
    "_jit_set_llga_enabled", "_te.SimpleIREvaluator", "_te.TensorExprKernel", "_te.construct_codegen",
)  # fmt: skip
"""Built-in functions that compute without an operator or the engine of autograd, or switch on what does; torch itself
uses none of them unless it is asked to."""
SWITCHES = ("_enable_record_function", "_toggle_collection_dynamic", "_clear_callbacks", "_set_empty_test_observer")
"""Functions that hide operators from profilers; torch itself uses them only in tests, or if it is asked to."""
KERNEL_CALLERS = (("_DispatchOperatorHandle", "redispatch_boxed"), ("_SafeKernelFunction", "call_boxed"))
"""Methods of torch._C that call an operator's kernel directly, of which no profiler hears."""
EXPORTS = (
    "_to_dlpack", "_to_dlpack_versioned", "_data_address", "_storage_address", "_pickle_save", "_save_parameters",
    "_save_jit_module_to_bytes", "_save_mobile_module_to_bytes",
)  # fmt: skip
"""Functions of torch._C that hand the memory of a tensor over without an operator."""
_direct_calls: list[str] = []
"""What was called without the dispatcher, once `keep_recording` was called: operators, and names in `EXPORTS`."""


def _unavailable(*args: object, **options: object) -> NoReturn:
    raise RuntimeError("not available where answers are graded")


def _noting(call: Callable[..., Any], name: str = "") -> Callable[..., Any]:
    """Return a function that notes a name, or the operator that its first argument belongs to, and then does what
    `call` does."""

    def noted(first: Any, /, *args: Any, **kwargs: Any) -> Any:
        _direct_calls.append(name or _operator_of(first))
        return call(first, *args, **kwargs)

    return noted


def _operator_of(caller: Any) -> str:
    """Return the operator's name, given a handle of it or a kernel."""
    return str(getattr(caller, "op_handle", caller).schema()).split("(")[0]


class _NoRange(contextlib.nullcontext[None]):
    """Stand in for a range that can be given an operator's name."""

    def __init__(self, *_named: object, **_options: object) -> None:
        super().__init__()


def _note_calls_by_key() -> None:
    """Have calls of operators for one dispatch key noted, of those that are loaded and of those to come."""
    find = torch._C._get_operation_overload

    def found(name: str, overload: str) -> Any:
        if (operator := find(name, overload)) is None:
            return None
        call, by_key, tags = operator
        return call, _noting(by_key, name), tags

    setattr(torch._C, "_get_operation_overload", found)  # noqa: B010
    for each in _loaded():
        each._op_dk = _noting(each._op_dk, each._name)


def _loaded() -> list[OpOverload[..., Any]]:
    """Return the operators that anything has asked `torch.ops` for: it keeps each."""
    libraries = [vars(one) for one in vars(torch.ops).values() if isinstance(one, _OpNamespace)]
    packets = [vars(one) for library in libraries for one in library.values() if isinstance(one, OpOverloadPacket)]
    return [one for packet in packets for one in packet.values() if isinstance(one, OpOverload)]


def keep_recording() -> None:
    """Remove the switches that hide operators from profilers, and have direct calls of kernels noted. Replace the
    built-in function that finds the shape of a sum and runs no operator by one in Python, whose calls are seen, and
    those that run or differentiate a graph without operators by one that raises.

    Call this once in processes that run unreviewed code.
    """
    for owner in (torch.autograd, torch.autograd.profiler, torch._C._autograd):
        for name in SWITCHES:
            if hasattr(owner, name):
                delattr(owner, name)
    for class_name, method in KERNEL_CALLERS:
        if cls := getattr(torch._C, class_name, None):
            setattr(cls, method, _noting(getattr(cls, method)))
    setattr(torch._C._profiler, "_RecordFunctionFast", _NoRange)  # noqa: B010 - torch uses it in compiled graphs
    _note_calls_by_key()
    for name in EXPORTS:
        if hasattr(torch._C, name):
            setattr(torch._C, name, _noting(getattr(torch._C, name), name))
    unseen = vars(torch._C).get("_infer_size")
    _builtin_ops[:] = [(function, name) for function, name in _builtin_ops if function is not unseen]
    for path in WITHOUT_OPERATORS:
        module, _, name = path.rpartition(".")
        setattr(getattr(torch._C, module) if module else torch._C, name, _unavailable)
    setattr(torch._C, "_infer_size", torch.broadcast_shapes)  # noqa: B010 - torch.distributions calls it


if not Path("/dev/nvidiactl").exists():  # it would count GPUs, after which no fork could use one
    with OperatorRecord():  # the profiler prefers to begin in the thread that imported torch
        pass
