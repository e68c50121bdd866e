"""Record the operators of all threads from below Python, where switching modes off changes nothing.

torch's profiler calls a function for each operator that its dispatcher runs, on whichever thread and for whichever
caller: Python, TorchScript, or autograd's engine. Importing this module runs the profiler once, where there is no GPU.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Callable, Sequence
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

__all__ = ["OperatorRecord", "keep_recording"]

TORCHS_OPERATORS = {name.split(".")[0] for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")}
MAX_INSIDE = 64
"""More than what the operators run that right answers use: an `einsum` 58, each dispatch by a mode counted."""
CPU_ACTIVITY = {ProfilerActivity.CPU}
OPERATOR = re.compile(r"(?!autograd::|torch::)\w+::|fused_|LlgaPartition")
"""How the name of an operator begins, also of a library's own and of several that TorchScript has made one."""
OPERATORS = (RecordScope.FUNCTION, RecordScope.BACKWARD_FUNCTION)
BACKWARD, FORWARD_MODE = "autograd::engine::", "make_dual"
ATTENTION, CHOOSES_HOW = "scaled_dot_product", ("attention", "attention_math")
"""Part of the name of an operator that is attention, and ends of the names of those that take `enable_gqa`, last."""
HANDED_TO_NUMPY = "aten::resolve_conj"
"""An operator that `Tensor.numpy` and `Tensor.tolist` run, whatever they are called by."""


def _config(with_inputs: bool) -> ProfilerConfig:
    experimental = _ExperimentalConfig(profile_all_threads=True)
    return ProfilerConfig(ProfilerState.KINETO, with_inputs, False, False, False, False, experimental, "")


class OperatorRecord:
    """A context manager that records which operators ran in its block, on whichever thread.

    Args:
        with_inputs: whether to record the inputs of operators too, for `groups_heads`, which takes longer.

    Attributes:
        operators: the names of all operators, those that others ran to do their work included.
        calls: how many operators were called by anything but another operator, or where one ran more than
            `MAX_INSIDE`: it may have run a loop of Python.
        hands_over: how many of these were part of handing a tensor to NumPy or Python.
        ran_autograd: whether autograd's engine ran, a node of a graph that was called by hand, or forward mode.
        other_threads: whether operators ran on another thread than that of the block.
        groups_heads: whether attention was asked to give several query heads one key head.
        intact: whether the block was recorded from its start to its end: by the profiler that was started with it, and
            that sees both ends.
    """

    def __init__(self, with_inputs: bool = False) -> None:
        self._with_inputs = with_inputs
        self.operators: list[str] = []
        self.calls = self.hands_over = 0
        self.ran_autograd = self.other_threads = self.groups_heads = self.intact = False
        self._mark, self._started, self._first_by_hand = "", 0, 0

    def __enter__(self) -> OperatorRecord:
        self._mark = secrets.token_hex(8)  # so that marks of a record that an answer made are told apart
        config = _config(self._with_inputs)
        _prepare_profiler(config, CPU_ACTIVITY)
        _enable_profiler(config, CPU_ACTIVITY)
        self._started, self._first_by_hand = time_ns(), len(_by_hand)
        _leave(self._mark)
        return self

    def __exit__(self, *exc: object) -> None:
        _leave(self._mark)
        by_hand = _by_hand[self._first_by_hand :]
        kernels = [name for name in by_hand if name not in EXPORTS]
        self.operators += kernels
        self.calls += len(kernels)
        self.hands_over += len(by_hand) - len(kernels)
        try:
            profile = _disable_profiler()
            roots = profile.experimental_event_tree()
        except RuntimeError:  # the block has ended it
            return
        found = [(event, event.name, event.start_tid) for event in roots]
        marks = [thread for _, name, thread in found if name == self._mark]
        self.intact = len(marks) == 2 and profile.trace_start_ns() <= self._started
        self.other_threads = any(thread not in marks for *_, thread in found)
        self._read([event for event, name, _ in found if name != self._mark])

    def _read(self, roots: Sequence[Any]) -> None:
        """Read events with those inside them, each attribute once: it is slow to read. Skip user-named ranges and
        scripts, which are not operators.
        """
        left: list[tuple[Any, int | None]] = [(event, None) for event in roots]
        inside: list[int] = []  # how many ran within each operator of torch that something else called
        while left:
            event, place = left.pop()
            name, scope = event.name, event.typed[1].scope
            if scope in OPERATORS:
                self.operators.append(name)
                is_backward = scope == RecordScope.BACKWARD_FUNCTION  # a node of a graph, whoever has called it
                self.ran_autograd |= is_backward or name.startswith(BACKWARD) or FORWARD_MODE in name
                if self._with_inputs and ATTENTION in name and "backward" not in name:
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


def _groups_heads(name: str, inputs: Sequence[Any]) -> bool:
    """Return whether attention with these inputs gives several query heads one key head by itself: those that leave
    the choice of a kernel open are told to, and kernels get fewer key heads than query heads."""
    if name.endswith(CHOOSES_HOW):
        return inputs[-1] is True
    heads = [one.sizes[-3] for one in inputs[:2] if len(getattr(one, "sizes", ())) >= 3]
    return len(set(heads)) > 1


def _leave(mark: str) -> None:
    _record_function_with_args_exit(_record_function_with_args_enter(mark))


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
_by_hand: list[str] = []
"""What was called without the dispatcher, once `keep_recording` was called: operators, and names in `EXPORTS`."""


def _unavailable(*args: object, **options: object) -> NoReturn:
    raise RuntimeError("not available where answers are graded")


def _noting(call: Callable[..., Any], name: str = "") -> Callable[..., Any]:
    """Return a function that notes a name, or the operator that its first argument belongs to, and then does what
    `call` does."""

    def noted(first: Any, /, *args: Any, **kwargs: Any) -> Any:
        _by_hand.append(name or _operator_of(first))
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
