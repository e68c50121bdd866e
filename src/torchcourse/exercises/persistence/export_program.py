"""The exercise `export_program`: its probe, visible cases and hints."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import TreeSpec, tree_unflatten

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations, Raised
from torchcourse.probes.crash_points import in_a_folder
from torchcourse.probes.exporting import outcomes
from torchcourse.probes.functions import expected_error
from torchcourse.probes.observe import kind
from torchcourse.probes.savable_models import BATCHES, EXPORT, Exported, export_weights, filled

LARGE = 7000
"""A batch of a program that may have any size, beyond the bounds that are often given to a dimension."""


@in_a_folder
def probe(
    answer: Watched, weights: dict[str, Tensor], x: Tensor, example: int, normed: bool, turns: bool
) -> Observations:
    """Export a model, and run what the file holds and what came back, after the model's weights have changed."""
    net, path = Exported(weights, normed, turns).eval(), Path("model.pt2")
    try:
        returned = answer(net, x[:example].clone(), path)
    except Exception as error:
        return {"the call": expected_error(error, {"size()[1]": "the width was to vary"})}
    seen: Observations = {"the file": "was not written"}
    if path.exists():
        seen = {f"from the file, {name}": value for name, value in program_outcomes(_program(path), x).items()}
    if not isinstance(returned, nn.Module):
        return {**seen, "returned": kind(returned)}
    filled(net, 0.3)  # the loaded program has its own weights
    fresh = {f"returned, {name}": value for name, value in program_outcomes(_as_exported(returned), x).items()}
    copied = "a copy of the model, as Python holds it" if isinstance(returned, Exported) else "another module"
    return {**seen, "returned": "the model itself" if returned is net else copied, **fresh}


def program_outcomes(run: Callable[[Tensor], Any], x: Tensor) -> Observations:
    """Return a program's results for several batches and, for a very large one, the last row only."""

    def last_row(many: Tensor) -> Any:
        result = run(many)
        return result[-1:] if isinstance(result, Tensor) else result

    return {**outcomes(run, x, BATCHES), **outcomes(last_row, x.repeat(LARGE // len(x) + 1, 1), (LARGE,))}


def _as_exported(module: nn.Module) -> Callable[[Tensor], Any]:
    """Return a call of the module: a program that was exported with a keyword takes its input by keyword."""
    taken = getattr(module, "_in_spec", None)
    if not isinstance(taken, TreeSpec) or taken.num_leaves != 1:
        return module
    by_position, by_name = tree_unflatten([0], taken)
    return module if by_position else lambda x: module(**dict.fromkeys(by_name, x))


def _program(path: Path) -> Callable[[Tensor], Any]:
    logging.disable()  # for a file that is not a program it would print a page
    try:
        loaded = _as_exported(torch.export.load(path).module())
    except Exception as error:
        problem = error

        def broken(x: Tensor) -> Any:
            raise problem

        return broken
    finally:
        logging.disable(logging.NOTSET)
    return loaded


def cases(draw: Draw) -> list[Case]:
    i, h, o = draw.size(3, 4), draw.size(5, 6), draw.size(2, 3)
    common: dict[str, Any] = {"x": draw.normal(7, i), "turns": False, "rtol": 1e-5, "atol": 1e-5}
    return [
        case("a network", weights=export_weights(draw, i, h, o), example=2, normed=False, **common),
        case("with a batch norm, from an example of three", weights=export_weights(draw, i, h, o), example=3,
             normed=True, **common),
    ]  # fmt: skip


def quotes(inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"example": inputs["example"], "returned": seen.get("returned")}
    fields["file"] = seen.get("the file")
    for source in ("returned", "from the file"):
        for batch in (LARGE, *BATCHES[::-1]):
            got = seen.get(f"{source}, batch of {batch}")
            if isinstance(got, Raised):
                fields |= {"batch": batch, "refused": got.message}
    return {name: value for name, value in fields.items() if value is not None}


EXERCISE = Exercise(
    "export_program",
    probe,
    cases,
    hints=(
        "`torch.export` has three functions for the three things to do: make a program of the model, save it, load it.",
        "Without `dynamic_shapes` the batch of the example is built in for good. For each input there is one entry, "
        "which says for each dimension whether it may vary.",
        "What `torch.export.load` returns is a program, not a module. Which of its methods makes a module of it?",
    ),
    any_device=False,
    quotes=quotes,
    seconds=20.0,
    imports=EXPORT,
)
