"""The exercise `saved_bytes`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "autograd hands every tensor that it keeps to `pack`. Several may share one storage, so storages are "
    "counted, each once. The dict keeps them alive: the address of one that has gone could be given to another."
)
"""Why the reference is written as it is."""
REQUIRED = ("counts-outputs", "double-counts-storage")
"""The mistakes that a check must always be able to name."""

KEEPS = "What the graph keeps"
Tensors = Iterable[Tensor]


def adding_up(size: Callable[[Tensors], Any]) -> Callable[..., Any]:
    """Return a program that collects what backward needs, and counts it as `size` does."""

    def saved_bytes(f: Callable[..., Any], *inputs: Tensor) -> Any:
        saved: list[Tensor] = []

        def pack(t: Tensor) -> Tensor:
            saved.append(t)
            return t

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            result = f(*inputs)
        total = size(saved)
        del result
        return total

    return saved_bytes


def storage(t: Tensor) -> int:
    return t.untyped_storage().data_ptr()


def storages(saved: Tensors) -> int:
    return sum({storage(t): t.untyped_storage().nbytes() for t in saved}.values())


def elements(saved: Tensors) -> int:
    return sum({storage(t): t.untyped_storage().nbytes() // t.element_size() for t in saved}.values())


def of_the_outputs(f: Callable[..., Any], *inputs: Tensor) -> int:
    result = f(*inputs)
    return sum(t.nbytes for t in (result if isinstance(result, tuple) else (result,)))


def of_what_is_no_input(f: Callable[..., Any], *inputs: Tensor) -> Any:
    given = {storage(t) for t in inputs}
    return adding_up(lambda saved: storages(t for t in saved if storage(t) not in given))(f, *inputs)


BYTES = "For {expression} the answer is {got} bytes where {want} are kept: "
TWICE_COUNTED = BYTES + "a storage that is saved twice, or through two views, is in memory only once."
VIEW = BYTES + "a saved view keeps its whole storage alive, however little it shows of it."
MISTAKES = [
    Mistake("counts-outputs", of_the_outputs, BYTES + "that is the size of what f returned; what backward needs is "
            "another matter, and `saved_tensors_hooks` shows it.", KEEPS),
    Mistake("double-counts-storage", adding_up(lambda saved: sum(t.untyped_storage().nbytes() for t in saved)),
            TWICE_COUNTED, KEEPS),
    Mistake("double-counts-storage",
            adding_up(lambda saved: sum({t.data_ptr(): t.untyped_storage().nbytes() for t in saved}.values())),
            TWICE_COUNTED, KEEPS),
    Mistake("double-counts-storage", adding_up(lambda saved: sum(t.nbytes for t in saved)), TWICE_COUNTED, KEEPS),
    Mistake("equal-sizes-count-once", adding_up(lambda saved: sum({t.untyped_storage().nbytes() for t in saved})),
            BYTES + "two storages of one size are still two; tell them apart by their `data_ptr()`.", KEEPS),
    Mistake("counts-view-not-storage", adding_up(lambda saved: sum({storage(t): t.nbytes for t in saved}.values())),
            VIEW, KEEPS),
    Mistake("counts-view-not-storage", adding_up(lambda saved: sum({t.data_ptr(): t.nbytes for t in saved}.values())),
            VIEW, KEEPS),
    Mistake("counts-inputs", lambda _f, *inputs: storages(inputs), BYTES + "the inputs hold {inputs}; not every "
            "operation needs them again, and some need their result instead.", KEEPS),
    Mistake("counts-elements", adding_up(elements), BYTES + "these are elements, and each takes 4 bytes or 8.", KEEPS),
    Mistake("leaves-out-inputs", of_what_is_no_input, BYTES + "an input that is saved is kept as well.", KEEPS),
    Mistake("leaves-out-inputs", adding_up(lambda saved: storages([t for t in saved if not t.is_leaf])),
            BYTES + "a leaf that is saved is kept as well.", KEEPS),
    Mistake("four-bytes-assumed", adding_up(lambda saved: 4 * elements(saved)), BYTES + "an element takes 4 bytes only "
            "in float32.", KEEPS),
    Mistake("returns-tensor", adding_up(lambda saved: torch.tensor(storages(saved))), "The answer is a tensor, {got}, "
            "where a Python int is wanted.", KEEPS),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    n = draw.size(3, 9)

    def drawn(expression: str, *inputs: Tensor) -> Case:
        return case(expression, expression=expression, inputs=list(inputs), followed=True)

    return [
        drawn("x @ w", draw.normal(n, 3), draw.normal(3, 2)),
        drawn("x.softmax(-1).log()", draw.normal(n, 4)),
        drawn("x * x.t()", draw.normal(n, n)),
        drawn("x * x", draw.normal(4 * n)[::2].detach()),
    ]


# Right answers unlike the reference


def saved_by_list(f: Callable[..., Any], *inputs: Tensor) -> int:
    saved: list[Tensor] = []

    def pack(t: Tensor) -> int:
        saved.append(t)
        return len(saved) - 1

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda i: saved[i]):
        result = f(*inputs)
    sizes = {t.untyped_storage()._cdata: len(t.untyped_storage()) for t in saved}
    del result
    return sum(sizes.values())


class _Saves:
    def __init__(self) -> None:
        self.kept: dict[int, tuple[Any, int]] = {}

    def __call__(self, t: Tensor) -> Tensor:
        storage = t.untyped_storage()
        self.kept.setdefault(storage.data_ptr(), (storage, storage.nbytes()))
        return t.detach()


def saved_by_an_object(f: Callable[..., Any], *inputs: Tensor) -> int:
    saves = _Saves()
    with torch.autograd.graph.saved_tensors_hooks(saves, lambda t: t):
        f(*inputs)
    return math.fsum(size for _, size in saves.kept.values()).__int__()


def saved_by_walking(f: Callable[..., Any], *inputs: Tensor) -> int:
    """Asks every node of the graph for the tensors it saved, as `_saved_...` attributes."""
    result = f(*inputs)
    nodes = [t.grad_fn for t in (result if isinstance(result, tuple) else (result,)) if t.grad_fn is not None]
    storages: dict[int, int] = {}
    while nodes:
        node = nodes.pop()
        for name in dir(node):
            value = getattr(node, name) if name.startswith("_saved_") else None
            if isinstance(value, Tensor):
                storages[value.untyped_storage().data_ptr()] = value.untyped_storage().nbytes()
        nodes += [following for following, _ in node.next_functions if following is not None]
    return sum(storages.values())


RIGHT_ANSWERS: list[Callable[..., Any]] = [saved_by_list, saved_by_an_object, saved_by_walking]
