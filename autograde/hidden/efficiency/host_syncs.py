"""The exercise `host_syncs`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from autograde.source.mistakes import Mistake
from torchcourse.exercises.efficiency.host_syncs import function_case
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "Whatever Python writes, `if`, `float` or `.item()`, it becomes an operator in the end, and PyTorch's own tags say "
    "which operators give Python values or shapes that depend on data. Indexing is tagged for the sake of masks, so "
    "the indices decide. No GPU is needed to count."
)
"""Why the reference is written as it is."""
REQUIRED = ("counts-item-only", "counts-integer-index", "misses-if-on-tensor")
"""The mistakes that a check must always be able to name."""

READ = "Waiting for the device"
VALUE, SHAPE = torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape


class Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A right answer, as a function of a function; a mistake overrides `waits`."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self.waits(func, args):
            self.found.append(str(func))
        return func(*args, **(kwargs or {}))

    def waits(self, func: Any, args: Any) -> bool:
        if func is torch.ops.aten.index.Tensor:
            return any(isinstance(i, Tensor) and i.dtype in (torch.bool, torch.uint8) for i in args[1])
        return VALUE in func.tags or SHAPE in func.tags


class ItemOnly(Counting):  # type: ignore[no-untyped-call]
    def waits(self, func: Any, args: Any) -> bool:
        return func is torch.ops.aten._local_scalar_dense.default


class ValuesOnly(Counting):  # type: ignore[no-untyped-call]
    def waits(self, func: Any, args: Any) -> bool:
        return VALUE in func.tags


class ValuesAndMasks(Counting):  # type: ignore[no-untyped-call]
    def waits(self, func: Any, args: Any) -> bool:
        return VALUE in func.tags or (func is torch.ops.aten.index.Tensor and super().waits(func, args))


class EveryIndex(Counting):  # type: ignore[no-untyped-call]
    def waits(self, func: Any, args: Any) -> bool:
        return VALUE in func.tags or SHAPE in func.tags


class NoIndex(Counting):  # type: ignore[no-untyped-call]
    def waits(self, func: Any, args: Any) -> bool:
        return func is not torch.ops.aten.index.Tensor and (VALUE in func.tags or SHAPE in func.tags)


class BoolOnly(Counting):  # type: ignore[no-untyped-call]
    def waits(self, func: Any, args: Any) -> bool:
        if func is torch.ops.aten.index.Tensor:
            return any(i is not None and i.dtype == torch.bool for i in args[1])
        return super().waits(func, args)


class FirstIndexOnly(Counting):  # type: ignore[no-untyped-call]
    def waits(self, func: Any, args: Any) -> bool:
        if func is torch.ops.aten.index.Tensor:
            return args[1][0] is not None and args[1][0].dtype in (torch.bool, torch.uint8)
        return super().waits(func, args)


class FirstGivenIndexOnly(Counting):  # type: ignore[no-untyped-call]
    def waits(self, func: Any, args: Any) -> bool:
        if func is torch.ops.aten.index.Tensor:
            return next(i for i in args[1] if i is not None).dtype in (torch.bool, torch.uint8)
        return super().waits(func, args)


class EachMask(Counting):  # type: ignore[no-untyped-call]
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.index.Tensor:
            masks = [i for i in args[1] if i is not None and i.dtype in (torch.bool, torch.uint8)]
            self.found += ["one more mask" for _ in masks[1:]]
        return super().__torch_dispatch__(func, types, args, kwargs)


class ForgetsNone(Counting):  # type: ignore[no-untyped-call]
    def waits(self, func: Any, args: Any) -> bool:
        if func is torch.ops.aten.index.Tensor:
            return any(i.dtype in (torch.bool, torch.uint8) for i in args[1])
        return super().waits(func, args)


class ShapesOnly(Counting):  # type: ignore[no-untyped-call]
    def waits(self, func: Any, args: Any) -> bool:
        return VALUE not in func.tags and super().waits(func, args)


class EveryMask(Counting):  # type: ignore[no-untyped-call]
    def waits(self, func: Any, args: Any) -> bool:
        masked = func.overloadpacket in (torch.ops.aten.where, torch.ops.aten.masked_fill)
        return masked or super().waits(func, args)


class ByName(Counting):  # type: ignore[no-untyped-call]
    def waits(self, func: Any, args: Any) -> bool:
        names = ("_local_scalar_dense", "nonzero", "masked_select", "index.")
        return any(name in str(func) for name in names) and super().waits(func, args)


class ByMoreNames(Counting):  # type: ignore[no-untyped-call]
    def waits(self, func: Any, args: Any) -> bool:
        names = ("_local_scalar_dense", "nonzero", "masked_select", "index.", "equal", "allclose", "_unique2",
                 "unique_consecutive", "bincount")  # fmt: skip
        return any(name in str(func) for name in names) and super().waits(func, args)


class DropsKeywords(Counting):  # type: ignore[no-untyped-call]
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return super().__torch_dispatch__(func, types, args)


class EveryOperator(Counting):  # type: ignore[no-untyped-call]
    def waits(self, func: Any, args: Any) -> bool:
        return True


def counting(mode: type[Counting] = Counting, *, calls: int = 1, kinds: bool = False) -> Callable[..., Any]:
    """Return an answer that counts with this mode; `kinds` counts each operator once."""

    def count(fn: Callable[..., Any], *args: Any) -> int:
        with mode() as found:
            for _ in range(calls):
                fn(*args)
        return len(set(found.found) if kinds else found.found)

    return count


def of_the_first_argument(fn: Callable[..., Any], *args: Any) -> int:
    return int(counting()(fn, args[0]))


def whether(fn: Callable[..., Any], *args: Any) -> bool:
    return bool(counting()(fn, *args))


class Calls(TorchFunctionMode):
    """Counts calls as Python names them."""

    names: tuple[str, ...] = ("item", "nonzero", "masked_select", "unique", "equal", "allclose", "__float__", "__int__")

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        mask = name == "__getitem__" and isinstance(args[1], Tensor) and args[1].dtype == torch.bool
        alone = name == "where" and len(args) == 1
        self.count += name in self.names or mask or alone
        return func(*args, **(kwargs or {}))


def by_calls(fn: Callable[..., Any], *args: Any) -> int:
    calls = Calls()
    with calls:
        fn(*args)
    return calls.count


COUNT = 'For "{case}" the count is {got} where {want} is wanted: '
MISTAKES = [
    Mistake("counts-item-only", counting(ItemOnly), COUNT + "`.item()` and its kin were counted, but not the operators "
            "whose result's shape depends on data, or comparisons that give a Python bool.", READ),
    Mistake("counts-values-only", counting(ValuesOnly), COUNT + "operators that return Python values were counted, but "
            "not those whose result's shape depends on data.", READ),
    Mistake("misses-shapes", counting(ValuesAndMasks), COUNT + "operators that return Python values were counted, and "
            "masks, but no other operator whose result's shape depends on data.", READ),
    Mistake("counts-integer-index", counting(EveryIndex), COUNT + "here an integer index was counted as a wait. Its "
            "result has the shape of the index, which is known; only the entries of a mask have to be counted first.",
            READ),
    Mistake("misses-masks", counting(NoIndex), COUNT + "indexing was left out altogether. With a boolean mask the "
            "host has to know how many entries are True.", READ),
    Mistake("misses-uint8-masks", counting(BoolOnly), COUNT + "an index of dtype uint8 is a mask too, but was not "
            "counted.", READ),
    Mistake("first-index-only", counting(FirstIndexOnly), COUNT + "only the first index was looked at, but the mask "
            "may belong to another dimension.", READ),
    Mistake("first-index-only", counting(FirstGivenIndexOnly), COUNT + "only the first index that is not None was "
            "looked at, but the mask may come after it.", READ),
    Mistake("counts-each-mask", counting(EachMask), COUNT + "indexing with two masks is one operator, and counts once.",
            READ),
    Mistake("forgets-none", counting(ForgetsNone), 'For "{case}" the call raised {error}: where an index leaves a '
            "dimension whole, as in `x[:, mask]`, None stands among the indices.", READ),
    Mistake("misses-if-on-tensor", by_calls, COUNT + "calls were counted as Python spells them. `if tensor:` calls "
            "`__bool__`, and in the end asks for a number as `.item()` does.", READ),
    Mistake("counts-shapes-only", counting(ShapesOnly), COUNT + "operators that return Python values are missing.",
            READ),
    Mistake("counts-every-mask", counting(EveryMask), COUNT + "`torch.where` with three arguments and `masked_fill` "
            "take a mask and give a result of a known shape; nobody waits.", READ),
    Mistake("lists-names", counting(ByName), COUNT + "a list of names is never complete: `torch.equal` and `allclose` "
            "return Python bools. The tags know them all.", READ),
    Mistake("lists-names", counting(ByMoreNames), COUNT + "a list of names is never complete: `repeat_interleave`, and "
            "`unique` along a dimension, have shapes that depend on data as well. The tags know them all.", READ),
    Mistake("counts-kinds", counting(kinds=True), COUNT + "each operator counts as often as it runs.", READ),
    Mistake("counts-two-calls", counting(calls=2), COUNT + "the function ran twice under the counter.", READ),
    Mistake("counts-every-operator", counting(EveryOperator), COUNT + "every operator was counted; most of them are "
            "queued, and nobody waits.", READ),
    Mistake("drops-keywords", counting(DropsKeywords), 'For "{case}" the call raised {error}: `__torch_dispatch__` ran '
            "each operator without its keyword arguments, such as `dtype`, so the function no longer does what it did.",
            READ),
    Mistake("first-argument-only", of_the_first_argument, 'For "{case}" the call raised {error}: the function may take '
            "several arguments; `fn(*args)` hands on all of them.", READ),
    Mistake("says-whether", whether, COUNT + "this says whether there is a wait, not how many.", READ),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    shown = (
        "an index and a mask",
        "selected and unique",
        "a while",
        "a training step",
        "a boolean mask",
        "a mask of uint8",
        "two numbers",
    )
    drawn = [draw.pick(shown) for _ in range(draw.size(2, 4))]
    together = case("several, one after the other", function=drawn, x=draw.normal(draw.size(3, 4), 5) + 1)
    return [*(function_case(draw, name) for name in shown), together]


# Right answers unlike the reference


def by_recording(fn: Callable[..., Any], *args: Any, **options: Any) -> int:
    ran: list[tuple[Any, Any]] = []

    class Recording(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, func: Any, types: Any, inputs: Any = (), kwargs: Any = None) -> Any:
            ran.append((func, inputs))
            return func(*inputs, **(kwargs or {}))

    with Recording():  # type: ignore[no-untyped-call]
        fn(*args, **options)
    count = 0
    for func, inputs in ran:
        tags = {tag.name for tag in func.tags}
        if "data_dependent_output" in tags:
            count += 1
        elif "dynamic_output_shape" in tags:
            integer = func.name() == "aten::index.Tensor" and all(
                index is None or index.dtype in (torch.int64, torch.int32) for index in inputs[1]
            )
            count += not integer
    return count


def on_two_lists(fn: Callable[..., Any], *args: Any) -> int:
    values, shapes = [0], [0]

    class Mode(Counting):  # type: ignore[no-untyped-call]
        def waits(self, func: Any, inputs: Any) -> bool:
            values[0] += VALUE in func.tags
            indices = inputs[1] if func.overloadpacket is torch.ops.aten.index else [torch.ones(1).bool()]
            shapes[0] += SHAPE in func.tags and any(i is not None and not i.dtype.itemsize > 1 for i in indices)
            return False

    with Mode():
        fn(*args)
    return values[0] + shapes[0]


RIGHT_ANSWERS: list[Callable[..., Any]] = [by_recording, on_two_lists]
