"""Count the torch calls that an answer makes, to enforce rules such as "no `softmax`" without reading its source."""

from __future__ import annotations

import contextlib
import gc
import importlib
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from types import CodeType, FrameType
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from torchcourse.checking.torchs_modules import (
    FOLDER,
    LATE,
    TORCH,
    exists_in_torch,
    fingerprints,
    module_by_namespace_id,
    module_of_builtin,
    torchs_classes,
    torchs_functions,
    watched_namespaces,
)
from torchcourse.model.own_code import exact_str, file_of, is_for_torch_itself, is_own

__all__ = ["AUTOGRAD", "CallWatch", "OperatorMode"]

TRANSFERS = {
    "tolist", "numpy", "item", "__array__", "__dlpack__", "__float__", "__int__", "__bool__", "__index__",
    "__complex__", "apply_", "map_", "map2_",
}  # fmt: skip
"""Calls that hand elements to Python or NumPy. Elements are counted too: a loop over `x.tolist()` makes one call."""
TO_NUMPY = {"numpy", "__array__", "__dlpack__"}
FROM_NUMPY = "from_numpy"
ARRAY_READERS = {FROM_NUMPY, "frombuffer", "from_dlpack", "_from_dlpack"}
SHOWING = {"resolve_conj", "__repr__", "__format__"}
"""Calls that hand elements over in torch's own code, to show them."""
MEMORY_READERS = {
    "untyped_storage", "storage", "data_ptr", "const_data_ptr", "_cdata", "_data_address", "_storage_address",
    "_to_dlpack", "_to_dlpack_versioned",
}  # fmt: skip
"""Calls that give out the memory of a tensor, or its address, from which elements can be read without a call."""

READERS = ARRAY_READERS | MEMORY_READERS
AUTOGRAD = "autograd"
"""The name in `forbids` that stands for a run of autograd's engine."""


@lru_cache(1 << 12)
def bare(name: str) -> str:
    """Return the plain name of an operator: `softmax` for `aten::_softmax.out` and for `_softmax`."""
    return name.split("::")[-1].split(".")[0].strip("_")


@lru_cache(1 << 8)
def whole_word(name: str) -> re.Pattern[str]:
    """Return a pattern that finds the plain name of an operator in a longer one, such as `softmax` in `log_softmax`.

    Names of operators on quantized numbers begin with a q, as in `qconv2d_pointwise`.
    """
    return re.compile(rf"(^|_)q?{re.escape(bare(name))}(_|$)")


class _Functions(TorchFunctionMode):
    """Records functions. It calls as little as it can: while names are forbidden, each call here is an event, too."""

    def __init__(self, watch: CallWatch) -> None:
        super().__init__()
        self.watch = watch

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        try:
            name = func.__name__
        except AttributeError:
            name = type(func).__name__
        if type(name) is not str:  # but of a class of a learner's own, which would run code here
            name = ""
        read = func.__self__.__name__ if name == "__get__" else name  # type: ignore[attr-defined]
        if read in MEMORY_READERS:
            self.watch.note_reader(read, sys._getframe(1))
        if name != "__get__":  # an attribute such as x.T, which learners do not see as a call
            self.watch.functions += (name,)
            if args and (name in TRANSFERS or type(args[0]) is not Tensor):
                self._note_elements(name, args[0])
        return func(*args, **(kwargs or {}))

    def _note_elements(self, name: str, first: Any) -> None:
        """Note how many elements a call hands over, and whether it reads an array, given its first argument."""
        if name in TRANSFERS and isinstance(first, Tensor):
            self.watch.handed_over += first.numel()
            self.watch.arrays.update({name} if first.numel() > 1 else ())
        if isinstance(first, np.ndarray) and first.size > 1:
            self.watch.arrays.add(FROM_NUMPY)  # in torch.tensor(array); _record_call sees the others


class OperatorMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Base class of modes that see every operator in their block, higher-order ones included, without a slow import."""

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # otherwise the first call imports torch._dynamo, which takes more than a second


class _Operators(OperatorMode):
    def __init__(self, watch: CallWatch) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.watch = watch

    def __torch_dispatch__(self, func: Any, types: Sequence[type], args: Any = (), kwargs: Any = None) -> Any:
        try:
            name = func.name()
        except AttributeError:
            name = str(func)
        self.watch.operators += (name if type(name) is str else "",)
        return func(*args, **(kwargs or {}))


def _keep_from_compiling() -> None:
    """Tell torch._dynamo, if it is imported, not to compile the watch itself."""
    if "torch._dynamo" in sys.modules and not hasattr(_Operators.__torch_dispatch__, "_torchdynamo_disable"):
        _Operators.__torch_dispatch__ = torch.compiler.disable(_Operators.__torch_dispatch__)  # type: ignore[method-assign, no-untyped-call]


class _Engine:
    """A wrapper that counts the runs of autograd's engine, or of a function that enters forward mode.

    Every way to a gradient (`backward`, `autograd.grad`, `torch.func`, under any name) ends in one of the two.
    """

    def __init__(self, watch: CallWatch, real: Any) -> None:
        self._watch, self._real = watch, real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def run_backward(self, *args: Any, **kwargs: Any) -> Any:
        self._watch.functions.append(AUTOGRAD)
        return self._real.run_backward(*args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._watch.functions.append(AUTOGRAD)
        return self._real(*args, **kwargs)


def _engines() -> Iterator[tuple[Any, str]]:
    """Yield the (owner, name) pairs where torch looks up the engine and the function that enters forward mode."""
    yield torch.autograd.Variable, "_execution_engine"
    yield torch.autograd.forward_ad, "make_dual"
    with contextlib.suppress(ImportError):  # private, but newer versions of torch look there
        yield importlib.import_module("torch._functorch.predispatch"), "_make_dual"


ENGINES = tuple((owner, name) for owner, name in _engines() if hasattr(owner, name))


def _some_name(calls: Sequence[str]) -> list[str]:
    """Return one call of torch by a name that exists, "torch" if none does; an empty list if there was no call."""
    places = (TORCH, f"{TORCH}.Tensor", f"{TORCH}.nn.functional")
    names = [call if "." in call else f"{place}.{call}" for call in calls for place in places]
    return [next(filter(exists_in_torch, names), TORCH)] if calls else []


def _is_of_a_library(function: Any) -> bool:
    """Return whether a function is none of a learner's own, which could compute once the watch has ended."""
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return type(code) is CodeType and not is_own(file_of(code))


class CallWatch:
    """A context manager that records torch calls, both at the Python level and as the operators that they become.

    A forbidden call under another name (`nn.Softmax`, `torch.special.softmax`) shows at one of the two levels, and so
    do the calls of a loop in TorchScript. Neither shows the classes and plain Python functions of torch (an optimizer,
    `clip_grad_norm_`): to forbid those, name their module.

    Args:
        forbids: names that the exercise forbids. A name with a dot is a module of torch ("torch.optim.adamw"), whose
            functions are then recorded in `entered`; "autograd" makes each run of the engine count as a call, and
            "torch" forbids every call of torch.
        operators: whether to record operators too.

    Attributes:
        functions: names of the calls at the Python level (`softmax`, `__getitem__`), in order.
        operators: names of the calls at the ATen level (`aten::_softmax`), in order.
        entered: functions and classes of forbidden modules that ran, under whatever alias or subclass; if every call of
            torch is forbidden, built-in ones as well.
        rewritten: names of functions that ran from torch's Python reimplementations of operators (`IN_PYTHON`).
        handed_over: the number of elements handed to Python or NumPy.
        arrays: names of the calls that handed over more than one element, and `FROM_NUMPY` if an array came back.
        reads_memory: whether the memory of a tensor was asked for, or its address.
        intact: whether calls were still recorded at the end. Python ends it where recursion reaches its limit.
    """

    def __init__(self, forbids: Iterable[str] = (), *, operators: bool = True) -> None:
        self._forbids = forbids = frozenset(forbids)
        self._sees_operators = operators
        self._modules = frozenset(name for name in forbids if "." in name)
        self._copied = fingerprints(self._modules)
        self._watched = watched_namespaces(self._modules) if self._forbids else []
        self._mode_overhead = mode_overhead() if forbids else ()  # here, where nothing is recorded yet
        self._engines: list[tuple[Any, str, Any]] = []
        self._forbids_autograd = AUTOGRAD in forbids
        self._forbids_torch = TORCH in forbids
        self.functions: list[str] = []
        self.operators: list[str] = []
        self.entered: list[str] = []
        self.rewritten: list[str] = []
        self.handed_over = 0
        self.arrays: set[str] = set()
        self.reads_memory = False
        self.intact = True
        self._profile: Any = None
        self._trace: Any = None
        self._recorder: Any = None
        self._collects = False
        self._modes: list[Any] = []

    def __enter__(self) -> CallWatch:
        self._collects = bool(self._forbids) and gc.isenabled()
        if self._collects:  # a collection could run finalizers of torch, not the answer's; or the answer's, unwatched
            gc.disable()
        self._trace = sys.gettrace()
        if self._trace:  # what a trace function calls is not watched
            sys.settrace(None)
        _keep_from_compiling()
        self._modes = [_Operators(self), _Functions(self)] if self._sees_operators else [_Functions(self)]
        for mode in self._modes:
            mode.__enter__()
        if self._forbids_autograd:
            self._engines = [(owner, name, getattr(owner, name)) for owner, name in ENGINES]
        for owner, name, real in self._engines:
            setattr(owner, name, _Engine(self, real))
        if self._forbids:
            self._profile = sys.getprofile()
            self._recorder = self._record_call_of_torch if self._forbids_torch else self._record_call
            sys.setprofile(self._recorder)
        return self

    def __exit__(self, *exc: Any) -> None:
        if self._forbids:
            self.intact = sys.getprofile() == self._recorder and not (self._collects and gc.isenabled())
            self._recorder = None
            sys.setprofile(self._profile if _is_of_a_library(self._profile) else None)
        for owner, name, real in self._engines:
            setattr(owner, name, real)
        for mode in reversed(self._modes):
            mode.__exit__(*exc)
        if self._collects:
            gc.enable()
        if self._trace and _is_of_a_library(self._trace):
            sys.settrace(self._trace)

    def note_reader(self, name: str, frame: FrameType) -> None:
        """Note a call by its name and its caller's frame if it gives out the memory of a tensor."""
        if name in MEMORY_READERS and not is_for_torch_itself(name, frame):
            self.reads_memory = True

    def _record_call(self, frame: FrameType, event: str, argument: Any) -> None:
        """Record the start of a function of a forbidden module; a method counts as its class. Also record whether an
        array becomes a tensor."""
        if event == "c_call":
            name = argument.__name__
            if name in READERS:
                self.arrays.update({FROM_NUMPY} if name in ARRAY_READERS else ())
                self.note_reader(name, frame)
            return
        if event != "call":
            return
        # Global names are not looked up: a dict of a learner's own would run code here, which nobody watches.
        code, names = frame.f_code, frame.f_globals
        for each in self._mode_overhead:
            if code is each:
                return
        if self._copied and (copied := self._copied.get(code.co_code)):
            self.entered.append(copied)
            return
        for known, module, is_rewrite in self._watched:
            if names is known:
                self._record_torchs(frame, module, is_rewrite)
                return
        if file_of(code).startswith(LATE):
            self.rewritten.append(exact_str(code.co_name))

    def _record_torchs(self, frame: FrameType, module: str, is_rewrite: bool) -> None:
        """Record the start of a function of a watched module of torch."""
        if is_rewrite:
            self.rewritten.append(exact_str(frame.f_code.co_name))
        if module in self._modules:
            name, _, inside = exact_str(frame.f_code.co_qualname).partition(".")
            if not (name.startswith("_") and inside.startswith("<locals>")):  # a decorator's: what it wraps follows
                self.entered.append(f"{module}.{name}")

    def _record_call_of_torch(self, frame: FrameType, event: str, argument: Any) -> None:
        """Record any call into torch, in Python or built in; methods of a dtype are values like the dtype."""
        if event == "call":
            default = TORCH if file_of(frame.f_code).startswith(FOLDER) else ""
            module = module_by_namespace_id().get(id(frame.f_globals), default)
            if module:
                self.entered.append(f"{module}.{exact_str(frame.f_code.co_qualname).split('.')[0]}")
        elif (
            event == "c_call" and type(argument.__self__) is not torch.dtype and (module := module_of_builtin(argument))
        ):
            self.entered.append(f"{module}.{argument.__name__}")

    @property
    def hands_over(self) -> bool:
        """Whether calls were seen that hand elements to Python or NumPy."""
        return not (TRANSFERS | SHOWING).isdisjoint(self.functions)

    def through_numpy(self) -> bool:
        """Return whether tensors became arrays, or lists while arrays became tensors."""
        return not TO_NUMPY.isdisjoint(self.arrays) or self.arrays >= {"tolist", FROM_NUMPY}

    def forbidden(self, names: Sequence[str]) -> list[str]:
        """Return those of `names` that were called, under any alias: as seen by Python or, if by none, as operators.

        Of forbidden modules, return only the first function that ran.
        """
        if TORCH in names:
            return _some_name([*map(bare, self.functions), *self.entered, *map(bare, self.operators)])
        if inside := [name for name in self.entered if {name, name.rpartition(".")[0]} & set(names)]:
            return inside[:1]
        names = [name for name in names if "." not in name]
        if found := [name for name in names if any(map(whole_word(name).search, map(bare, self.rewritten)))]:
            return found
        for calls in (self.functions, self.operators):
            called = {bare(name) for name in calls}
            if forbidden := [name for name in names if bare(name) in called]:
                return forbidden
        return []


@cache
def mode_overhead() -> tuple[CodeType, ...]:
    """Return the code objects that torch's modes themselves run for each operator; the record skips them."""
    codes: dict[CodeType, None] = {}

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call":
            codes[frame.f_code] = None

    with warnings.catch_warnings(), CallWatch():
        torch.ones(1).add(1)  # the first time more is done
        profile = sys.getprofile()
        sys.setprofile(note)
        torch.ones(1).add(1)
        sys.setprofile(profile)
    return tuple(codes)


def warm(forbids: Iterable[Iterable[str]]) -> None:
    """Use the modes once, so that later uses are fast, and note what is torch's own before a learner's code runs.

    Args:
        forbids: the names that exercises forbid, for each of them.
    """
    module_by_namespace_id(), torchs_classes(), torchs_functions(), mode_overhead()
    for names in forbids:
        CallWatch(names)  # reads the modules of torch that are named
