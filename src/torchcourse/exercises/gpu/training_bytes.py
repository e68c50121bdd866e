"""The exercise `training_bytes`: its probe, visible cases and hints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import kind
from torchcourse.probes.trainable_models import with_detail


def probe(
    answer: Watched, num_params: int, param_dtype: torch.dtype | None, optimizer: str | None,
    master_weights: bool | None, refuses: bool,
) -> Observations:  # fmt: skip
    """Ask for the bytes, or see how an unknown optimizer is refused."""
    given = {"param_dtype": param_dtype, "optimizer": optimizer, "master_weights": master_weights}
    options = {name: value for name, value in given.items() if value is not None}
    if refuses:
        return how_refused(lambda: answer(num_params, **options), "optimizer", str(optimizer))
    return {"result": answer(num_params, **options)}


def how_refused(call: Callable[[], object], argument: str, got: str) -> Observations:
    """Observe how a call that should raise ends: any exception counts if its message names the problem."""
    try:
        result = call()
    except Exception as error:
        message = str(error)
        named = "names the argument" if argument in message else "does not name the argument"
        value = "tells what it got" if got in message else "does not tell what it got"
        kind_of_it = type(error).__name__
        return {"refused with": with_detail(f"an exception that {named} and {value}", f"{kind_of_it}: {message[:200]}")}
    return {"refused with": f"no exception but {result if isinstance(result, int) else kind(result)}"}


def cases(draw: Draw) -> list[Case]:
    def drawn(
        name: str, count: int, dtype: torch.dtype | None = None, optimizer: str | None = None,
        master: bool | None = None, refuses: bool = False,
    ) -> Case:  # fmt: skip
        inputs: dict[str, Any] = {"param_dtype": dtype, "optimizer": optimizer, "master_weights": master}
        return case(name, num_params=count, refuses=refuses, **inputs)

    n, unknown = draw.size(3, 2000), draw.pick(["lion", "rmsprop", "adagrad"])
    return [
        drawn("seven billion parameters, as by default", 7_000_000_000),
        drawn("float32 and momentum", n, torch.float32, "momentum"),
        drawn("float32 and plain SGD", n, torch.float32, "sgd"),
        drawn("bfloat16 and AdamW", n, torch.bfloat16, "adamw"),
        drawn("bfloat16, AdamW and a master copy", n, torch.bfloat16, "adamw", True),
        drawn("float32, AdamW and a master copy", n, torch.float32, "adamw", True),
        drawn("float16, momentum and a master copy", n, torch.float16, "momentum", True),
        drawn("bfloat16 and plain SGD", n, torch.bfloat16, "sgd", False),
        drawn("float64 and AdamW", n, torch.float64, "adamw"),
        drawn("an unknown optimizer", n, optimizer=unknown, refuses=True),
        drawn("a name that is nearly known", n, optimizer="adam", refuses=True),
    ]


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"outcome": seen.get("refused with")}
    if isinstance(seen.get("result"), int | float) and "result" in wanted:
        fields["each"] = seen["result"] / inputs["num_params"]
        fields["wanted_each"] = wanted["result"] / inputs["num_params"]
    return fields


EXERCISE = Exercise(
    "training_bytes",
    probe,
    cases,
    hints=(
        "Count the bytes for one parameter and multiply at the end. Which tensors have as many elements as there are "
        "parameters, after one step of the optimizer?",
        "Parameters and gradients share a dtype. What do the optimizer's states use in the mixed-precision recipe, "
        "whatever the parameters' dtype is? How many of them does each optimizer keep?",
        "`torch.bfloat16.itemsize` is 2. The master copy is float32, and there is none unless somebody asks for it. "
        "What should happen for an optimizer that is not in your table?",
    ),
    any_device=False,
    quotes=quotes,
)
