"""The exercise `host_syncs`: its probe, visible cases and hints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.compilers import as_count


def nothing_asked(x: Tensor) -> Tensor:
    return (x * 2).relu().sum()


def one_item(x: Tensor) -> Any:
    return x.sum().item()


def two_numbers(x: Tensor) -> Any:
    return float(x.sum()), int(x.argmax())


def an_if_on_a_tensor(x: Tensor) -> Tensor:
    return x + 1 if x.sum() > 0 else x - 1


def a_boolean_mask(x: Tensor) -> Tensor:
    return x[x > 0].sum()


def a_mask_of_uint8(x: Tensor) -> Tensor:
    return x[(x > 0).to(torch.uint8)].sum()


def a_mask_for_columns(x: Tensor) -> Tensor:
    return x[:, x[0] > 0].sum()


def two_masks(x: Tensor) -> Tensor:
    return x[x[:, 0] == x[:, 0].max(), x[0] == x[0].max()].sum()


def a_number_and_a_mask(x: Tensor) -> Tensor:
    return x[torch.tensor([1], device=x.device), x[0] == x[0].max()].sum()


def an_integer_index(x: Tensor) -> Tensor:
    return x[torch.tensor([0, 2], device=x.device)].sum()


def an_index_and_a_mask(x: Tensor) -> Tensor:
    return x[torch.arange(2, device=x.device)][:, x[0] > 0] + x[1:].sum()


def where_of_three(x: Tensor) -> Tensor:
    return torch.where(x > 0, x, -x).masked_fill(x > 1, 0)


def nonzero_places(x: Tensor) -> Any:
    return torch.where(x > 0), x.nonzero()


def selected_and_unique(x: Tensor) -> Any:
    return torch.masked_select(x, x > 0), (x > 0).unique()  # type: ignore[no-untyped-call]


def counted_and_merged(x: Tensor) -> Any:
    return (x > 0).flatten().int().bincount(), (x > 0).flatten().unique_consecutive()  # type: ignore[no-untyped-call]


def repeated_rows(x: Tensor) -> Any:
    return x.repeat_interleave(torch.arange(len(x), device=x.device), dim=0), (x > 0).unique(dim=1)  # type: ignore[no-untyped-call]


def two_comparisons(x: Tensor) -> bool:
    return torch.equal(x, x + 1) or torch.allclose(x, x)


def a_loop_over_rows(x: Tensor) -> float:
    return float(sum(row.sum().item() for row in x))


def a_while(x: Tensor) -> Tensor:
    x = x.abs().sum()
    while x > 1:
        x = x / 4
    return x


def a_training_step(x: Tensor) -> float:
    weight = torch.ones(x.shape[1], device=x.device, requires_grad=True)
    loss = (x @ weight).square().mean()
    loss.backward()  # type: ignore[no-untyped-call]
    norm = weight.grad.norm() if weight.grad is not None else loss
    return loss.item() if norm > 0 else 0.0


def compared_with_another(x: Tensor, y: Tensor) -> Any:
    return x[x > y], (x - y).abs().max().item()


FUNCTIONS: dict[str, Callable[..., Any]] = {
    f.__name__.replace("_", " "): f
    for f in (
        nothing_asked, one_item, two_numbers, an_if_on_a_tensor, a_boolean_mask, a_mask_of_uint8, a_mask_for_columns,
        two_masks, a_number_and_a_mask, an_integer_index, an_index_and_a_mask, where_of_three, nonzero_places,
        selected_and_unique, counted_and_merged, repeated_rows, two_comparisons, a_loop_over_rows, a_while,
        a_training_step, compared_with_another,
    )
}  # fmt: skip


def probe(answer: Watched, function: str | list[str], x: Tensor) -> Observations:
    """Observe the number of waits in one of `FUNCTIONS`, or in several, one after the other."""
    fn = FUNCTIONS[function] if isinstance(function, str) else one_after_another(function)
    args = (x, x.flip(0)) if function == "compared with another" else (x,)
    return {"result": as_count(answer.answer(fn, *args))}


def one_after_another(names: list[str]) -> Callable[[Tensor], Any]:
    return lambda x: [FUNCTIONS[name](x) for name in names]


def function_case(draw: Draw, function: str) -> Case:
    """Return the case of one function on a drawn table, whose sum is positive."""
    return case(function, function=function, x=draw.normal(draw.size(3, 4), 5) + 1)


def cases(draw: Draw) -> list[Case]:
    shown = ("nothing asked", "one item", "two numbers", "an if on a tensor", "a boolean mask", "an integer index",
             "where of three", "nonzero places", "two comparisons", "a loop over rows", "a mask of uint8",
             "a mask for columns", "two masks", "a number and a mask", "counted and merged",
             "repeated rows", "compared with another")  # fmt: skip
    return [function_case(draw, name) for name in shown]


EXERCISE = Exercise(
    "host_syncs",
    probe,
    cases,
    hints=(
        "A `TorchDispatchMode` sees every operator that runs, below Python's `if` and `float`. What does its "
        "`__torch_dispatch__` have to return, so that the function still works?",
        "Each operator carries tags: `torch.Tag.data_dependent_output` for results that are Python values, and "
        "`torch.Tag.dynamic_output_shape` for shapes that depend on data. Print `func` and `func.tags` of a few.",
        "`aten.index.Tensor` has the second tag always, though an integer index gives a shape that is known. Its "
        "indices are `args[1]`, a list that may hold None: what is different about a mask?",
    ),
)
