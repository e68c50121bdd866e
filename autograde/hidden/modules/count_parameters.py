"""The exercise `count_parameters`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from autograde.hidden.common import one
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "`parameters()` gives each tensor once, however many modules share it, so tied weights count once. Buffers "
    "are not among them. What is trained is what has `requires_grad`."
)
"""Why the reference is written as it is."""
REQUIRED = ("double-counts-tied", "counts-buffers", "counts-tensors")
"""The mistakes that a check must always be able to name."""

COUNTING = "Counting and sharing"


def total(tensors: Iterable[Tensor], trainable_only: bool) -> int:
    return sum(t.numel() for t in tensors if t.requires_grad or not trainable_only)


def over_all_modules(model: nn.Module, trainable_only: bool = False) -> int:
    return sum(total(module.parameters(recurse=False), trainable_only) for module in model.modules())


def again_at_each_level(model: nn.Module, trainable_only: bool = False) -> int:
    return sum(total(module.parameters(), trainable_only) for module in model.modules())


def of_the_model_itself(model: nn.Module, trainable_only: bool = False) -> int:
    return total(model.parameters(recurse=False), trainable_only)


def of_the_children(model: nn.Module, trainable_only: bool = False) -> int:
    return sum(total(module.parameters(recurse=False), trainable_only) for module in model.children())


def of_each_child(model: nn.Module, trainable_only: bool = False) -> int:
    return sum(total(child.parameters(), trainable_only) for child in model.children())


def of_linear_layers(model: nn.Module, trainable_only: bool = False) -> int:
    return sum(total(m.parameters(), trainable_only) for m in model.modules() if isinstance(m, nn.Linear))


def of_weights(model: nn.Module, trainable_only: bool = False) -> int:
    return total((p for name, p in model.named_parameters() if name.endswith("weight")), trainable_only)


def with_duplicates(model: nn.Module, trainable_only: bool = False) -> int:
    return total((p for _, p in model.named_parameters(remove_duplicate=False)), trainable_only)


def with_buffers(model: nn.Module, trainable_only: bool = False) -> int:
    return total([*model.parameters(), *model.buffers()], trainable_only)


def of_the_state(model: nn.Module, trainable_only: bool = False) -> int:
    return total(model.state_dict(keep_vars=True).values(), trainable_only)


def different_values(model: nn.Module, trainable_only: bool = False, dimensions: int = 2) -> int:
    kept: list[Tensor] = []
    for p in model.parameters():
        if not any(torch.equal(p, other) for other in kept if p.ndim >= dimensions):
            kept.append(p)
    return total(kept, trainable_only)


def different_addresses(model: nn.Module, trainable_only: bool = False) -> int:
    return total({p.data_ptr(): p for p in model.parameters()}.values(), trainable_only)


def frozen_only(model: nn.Module, trainable_only: bool = False) -> int:
    return total((p for p in model.parameters() if not p.requires_grad or not trainable_only), False)


def adding(size: Callable[[Tensor], int]) -> Callable[..., int]:
    """Return a program that adds up something else of each parameter than its number of elements."""

    def count(model: nn.Module, trainable_only: bool = False) -> int:
        return sum(size(p) for p in model.parameters() if p.requires_grad or not trainable_only)

    return count


COUNT = 'In the case "{case}" the count is {got} and should be {want}: '
TWICE = COUNT + "a tensor that is used in two places is still one tensor, and trained once."
BUFFERS_TOO = COUNT + "buffers are in the state_dict but are not parameters."
TOP_ONLY = COUNT + "parameters sit in submodules at every level, and in the model itself."
ONE_BY_ONE = (
    COUNT + "the children were counted one by one, so what two of them share counts twice, and what the model holds "
    "itself is missing."
)
SOME = COUNT + "parameters also sit in other layers, under other names, and in the model itself."
EQUAL = (
    COUNT + "parameters with equal values were counted once. Two are tied if they are the same tensor, and not if they "
    "happen to hold the same numbers."
)
MISTAKES = [
    Mistake("double-counts-tied", with_duplicates, TWICE, COUNTING),
    Mistake("double-counts-tied", over_all_modules, TWICE, COUNTING),
    Mistake("takes-equal-for-tied", different_values, EQUAL, COUNTING),
    Mistake("tells-apart-by-address", different_addresses, COUNT + "on the meta device there are no numbers, and every "
            "tensor has the address 0. `parameters()` gives a tied tensor once, anyway.", COUNTING),
    one("takes-equal-for-tied", different_values, EQUAL, COUNTING, dimensions=0),
    Mistake("counts-tensors", adding(lambda p: 1), COUNT + "it is the number of tensors, not of the elements in them.",
            COUNTING),
    Mistake("counts-rows", adding(lambda p: len(p) if p.ndim else 1), COUNT + "of each "
            "tensor only the first dimension was counted, which is also its `len`.", COUNTING),
    Mistake("counts-bytes", adding(lambda p: p.nbytes), COUNT + "these are bytes, four for each element.", COUNTING),
    Mistake("counts-buffers", with_buffers, BUFFERS_TOO, COUNTING),
    Mistake("counts-buffers", of_the_state, BUFFERS_TOO, COUNTING),
    Mistake("counts-buffers", lambda model, trainable_only=False: with_buffers(model), BUFFERS_TOO, COUNTING),
    Mistake("counts-buffers", lambda model, trainable_only=False: of_the_state(model), BUFFERS_TOO, COUNTING),
    Mistake("counts-again-at-each-level", again_at_each_level, COUNT + "`parameters()` of a module holds those of its "
            "submodules already.", COUNTING),
    Mistake("children-one-by-one", of_each_child, ONE_BY_ONE, COUNTING),
    Mistake("top-level-only", of_the_model_itself, TOP_ONLY, COUNTING),
    Mistake("top-level-only", of_the_children, TOP_ONLY, COUNTING),
    Mistake("counts-some-layers", of_linear_layers, SOME, COUNTING),
    Mistake("counts-some-layers", of_weights, SOME, COUNTING),
    Mistake("ignores-trainable-only", lambda model, trainable_only=False: total(model.parameters(), False), COUNT
            + "with `trainable_only` what is frozen does not count.", COUNTING),
    Mistake("frozen-never-count", lambda model, trainable_only=False: total(model.parameters(), True), COUNT + "unless "
            "`trainable_only` is set, frozen parameters count too.", COUNTING),
    Mistake("trainable-only-reversed", frozen_only, COUNT + "`trainable_only` left the wrong half out.", COUNTING),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    w = draw.size(2, 9)
    return [
        case("convolutions", which="convolutional", width=w, trainable_only=False),
        case("twelve layers", which="stack", width=w, trainable_only=None),
        case("deeply nested", which="nested", width=w, trainable_only=True),
        case("one layer used twice, trainable only", which="shared", width=w, trainable_only=True),
    ]


# Right answers unlike the reference


def count_by_id(model: nn.Module, trainable_only: bool = False) -> int:
    seen: dict[int, int] = {}
    for module in model.modules():
        for p in module._parameters.values():
            if p is not None and (p.requires_grad or not trainable_only):
                seen[id(p)] = p.nelement()
    return sum(seen.values())


def count_by_sizes(model: nn.Module, trainable_only: bool = False) -> int:
    total = 0
    for _name, p in model.named_parameters():
        if trainable_only and not p.requires_grad:
            continue
        total += math.prod(p.shape)
    return total


def count_recursively(model: nn.Module, trainable_only: bool = False) -> int:
    return len(nn.utils.parameters_to_vector([p for p in set(model.parameters()) if p.requires_grad >= trainable_only])
               ) if any(p.requires_grad >= trainable_only for p in model.parameters()) else 0  # fmt: skip


RIGHT_ANSWERS: list[Callable[..., Any]] = [count_by_id, count_by_sizes, count_recursively]
