"""Which torch calls an answer makes: how a rule such as "no `softmax`" is enforced without reading source text."""

from __future__ import annotations

import contextlib
import importlib
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["AUTOGRAD", "OperatorMode", "Watch"]

TRANSFERS = {
    "tolist", "numpy", "item", "__array__", "__dlpack__", "__float__", "__int__", "__bool__", "__index__",
    "__complex__",
}  # fmt: skip
"""Calls that hand elements to Python or NumPy. What they hand over is counted, or a Python loop over `x.tolist()` would
look like one call."""


AUTOGRAD = "autograd"
"""The name under which a run of autograd's engine counts, for exercises that forbid it."""


@lru_cache(1 << 12)
def bare(name: str) -> str:
    """`aten::_softmax.out` and `_softmax` are both `softmax`."""
    return name.split("::")[-1].split(".")[0].strip("_")


class _Functions(TorchFunctionMode):
    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self.watch = watch

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        name = getattr(func, "__name__", type(func).__name__)
        if name == "__get__":  # an attribute such as x.T; no call in a learner's sense
            return func(*args, **(kwargs or {}))
        self.watch.functions.append(name)
        if name in TRANSFERS and args and isinstance(args[0], Tensor):
            self.watch.handed_over += args[0].numel()
        return func(*args, **(kwargs or {}))


class OperatorMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees every operator that runs in its block, those that take functions too, and costs no slow import."""

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else the first call imports torch._dynamo, which takes more than a second


class _Operators(OperatorMode):
    def __init__(self, watch: Watch) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.watch = watch

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        self.watch.operators.append(str(func.name() if hasattr(func, "name") else func))
        return func(*args, **(kwargs or {}))


def _keep_from_compiling() -> None:
    """Tell torch._dynamo, where something has imported it, to leave the watching itself alone."""
    if "torch._dynamo" in sys.modules and not hasattr(_Operators.__torch_dispatch__, "_torchdynamo_disable"):
        _Operators.__torch_dispatch__ = torch.compiler.disable(_Operators.__torch_dispatch__)  # type: ignore[method-assign, no-untyped-call]


class _Engine:
    """Autograd's engine, or a function that enters forward mode, for as long as a watch stands in front of it: every
    way to a gradient (`backward`, `autograd.grad`, `torch.func`, under whatever name) ends in one of the two."""

    def __init__(self, watch: Watch, real: Any) -> None:
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
    """Where the engine and the way into forward mode are looked up whenever somebody uses them."""
    yield torch.autograd.Variable, "_execution_engine"
    yield torch.autograd.forward_ad, "make_dual"
    with contextlib.suppress(ImportError):  # where newer versions of torch look it up, private as it is
        yield importlib.import_module("torch._functorch.predispatch"), "_make_dual"


ENGINES = tuple((owner, name) for owner, name in _engines() if hasattr(owner, name))


class Watch:
    """A context in which torch calls are counted, both as Python sees them and as the operators they become.

    `functions` are names at the Python level (`softmax`, `__getitem__`), `operators` at the ATen level
    (`aten::_softmax`); a forbidden call under another name (`nn.Softmax`, `torch.special.softmax`) shows in either,
    and so do the calls of a loop in TorchScript. `handed_over` is how many elements went to Python or NumPy.
    Classes and plain Python functions of torch are seen by neither (an optimizer, `clip_grad_norm_`): where `forbids`
    names a module of torch ("torch.optim.adamw"), `entered` are those of its that ran, under whatever name or subclass.
    Where it names "autograd", each run of the engine, backward or forward mode, is a call of that name.
    """

    def __init__(self, forbids: Iterable[str] = ()) -> None:
        forbids = frozenset(forbids)
        self._modules = frozenset(name for name in forbids if "." in name)
        self._engines: list[tuple[Any, str, Any]] = []
        self._forbids_autograd = AUTOGRAD in forbids
        self.functions: list[str] = []
        self.operators: list[str] = []
        self.entered: list[str] = []
        self.handed_over = 0
        self._profile: Any = None
        self._modes: list[Any] = []

    def __enter__(self) -> Watch:
        _keep_from_compiling()
        self._modes = [_Operators(self), _Functions(self)]
        for mode in self._modes:
            mode.__enter__()
        if self._forbids_autograd:
            self._engines = [(owner, name, getattr(owner, name)) for owner, name in ENGINES]
        for owner, name, real in self._engines:
            setattr(owner, name, _Engine(self, real))
        if self._modules:
            self._profile = sys.getprofile()
            sys.setprofile(self._note_call)
        return self

    def __exit__(self, *exc: Any) -> None:
        if self._modules:
            sys.setprofile(self._profile)
        for owner, name, real in self._engines:
            setattr(owner, name, real)
        for mode in reversed(self._modes):
            mode.__exit__(*exc)

    def _note_call(self, frame: FrameType, event: str, _argument: object) -> None:
        """Note a Python function of a watched module that starts to run, by its public name: a class's method counts
        as the class."""
        if event != "call" or frame.f_globals.get("__name__") not in self._modules:
            return
        name = frame.f_code.co_qualname.split(".")[0]
        if not name.startswith("_"):  # decorators, and helpers of a public function that is noted itself
            self.entered.append(f"{frame.f_globals['__name__']}.{name}")

    def forbidden(self, names: Sequence[str]) -> list[str]:
        """Those of `names` that were called, under whatever spelling: as Python has it where Python saw the call.

        A name with a dot is a module, of which nothing may be called; what was called first stands for it.
        """
        if inside := [name for name in self.entered if name.rpartition(".")[0] in set(names)]:
            return inside[:1]
        names = [name for name in names if "." not in name]
        for seen in (self.functions, self.operators):
            called = {bare(name) for name in seen}
            if found := [name for name in names if bare(name) in called]:
                return found
        return []


def warm() -> None:
    """Pay the first use of the modes now."""
    with warnings.catch_warnings(), Watch():
        torch.ones(1).add(1)
