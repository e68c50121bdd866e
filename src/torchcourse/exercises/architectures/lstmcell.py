"""The exercise `LSTMCell`: its probe, visible cases and hints."""

from __future__ import annotations

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.modules import (
    build,
    ends_when_unusable,
    gradients,
    in_any_mode,
    inventory_of,
    load,
    own_parameters,
    quotes_registered,
    quoting,
    unset_memory_is_nan,
)
from torchcourse.probes.observe import float32_digits, kept, kind, where

NAMES = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


@ends_when_unusable
def probe(
    answer: Watched, sizes: tuple[int, int], weights: dict[str, Tensor], x: Tensor, state: tuple[Tensor, Tensor] | None
) -> Observations:
    """Observe parameters, a step and its gradients, and a further step from the state that the first returned."""
    with unset_memory_is_nan():
        module = build(answer, x.device, *sizes).to(x.dtype)
    seen = inventory_of(module, NAMES)
    finite = all(bool(p.isfinite().all()) for p in module.parameters())
    seen["numbers that the parameters start with"] = "finite" if finite else "not finite"
    # another cell, whose sizes are not those of the first
    build(answer, x.device, input_size=sizes[0] + 1, hidden_size=sizes[1] + 2)
    load(module, weights)
    inputs = {"x": x, **({} if state is None else {"h": state[0], "c": state[1]})}
    before = {name: t.clone() for name, t in inputs.items()}
    leaves = {name: t.requires_grad_() for name, t in inputs.items()}
    arguments = (x,) if state is None else (x, state)
    returned = answer.run(module, *arguments)
    if not (isinstance(returned, tuple) and len(returned) == 2 and all(isinstance(t, Tensor) for t in returned)):
        return {**seen, "returned": _parts(returned)}
    h, c = returned
    seen |= {"h": h, "c": c, "device of the state": [where(h, x), where(c, x)]}
    held = own_parameters(answer, module, NAMES)
    both = torch.cat([h.flatten(), c.flatten()])
    seen |= gradients(both, **leaves, **held)
    seen |= in_any_mode(module, lambda: torch.cat([t.flatten() for t in answer.run(module, *arguments)]), both)
    seen |= kept(**{name: (t.detach(), before[name]) for name, t in inputs.items()})
    with torch.no_grad():
        seen["h after a second step"], seen["c after a second step"] = answer.run(module, x, (h, c))
        if state is None:  # a last step, which begins anew
            seen["h of the first row, without a state"] = answer.run(module, x[:1] if x.ndim > 1 else x)[0]
    return seen


def _parts(returned: object) -> str:
    """Describe what was returned; of a tuple, the kinds of its parts."""
    if not isinstance(returned, tuple):
        return kind(returned)
    return f"a tuple of {len(returned)}: " + ", ".join(type(part).__name__ for part in returned)


def cell_case(
    draw: Draw, name: str, i: int, h: int, *batch: int, given: bool = False, dtype: torch.dtype = torch.float32,
    scale: float = 1.0,
) -> Case:  # fmt: skip
    """Return the case of one step, with drawn weights, x times `scale` and, if `given`, a drawn state."""
    shapes = {"weight_ih": (4 * h, i), "weight_hh": (4 * h, h), "bias_ih": (4 * h,), "bias_hh": (4 * h,)}
    weights = {name: draw.normal(*shape, dtype=dtype) for name, shape in shapes.items()}
    state = (draw.normal(*batch, h, dtype=dtype), 2 * draw.normal(*batch, h, dtype=dtype)) if given else None
    x = scale * draw.normal(*batch, i, dtype=dtype)
    rtol, atol = (1e-10, 1e-12) if dtype == torch.float64 else (1e-3, 1e-5)
    return case(name, rtol=rtol, atol=atol, sizes=(i, h), weights=weights, x=x, state=state)


def cases(draw: Draw) -> list[Case]:
    b, i, h = draw.size(4, 5), draw.size(2, 3), draw.size(6, 7)
    return [
        cell_case(draw, "a batch without a state", i, h, b),
        cell_case(draw, "a batch with a state", i, h, b, given=True),
        cell_case(draw, "as many inputs as units", h, h, b, given=True),
        cell_case(draw, "a batch of one", i, h, 1),
        cell_case(draw, "large numbers, which open and shut gates", i, h, b, given=True, scale=300.0),
        cell_case(draw, "a single row without a state", i, h),
        cell_case(draw, "a single row with a state", i, h, given=True),
        cell_case(draw, "one unit", i, 1, b, given=True),
        cell_case(draw, "float64 without a state", i, h, 2, dtype=torch.float64),
    ]


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"sizes": inputs["sizes"], "x_shape": tuple(inputs["x"].shape)}
    if isinstance(seen.get("h"), Tensor):
        fields |= {"largest": seen["h"].abs().max().item(), "h_shape": tuple(seen["h"].shape)}
    fields |= {"gave": seen["returned"]} if "returned" in seen else {}
    return {**quotes_registered(inputs, seen, wanted), **fields}


EXERCISE = Exercise(
    "LSTMCell",
    probe,
    cases,
    hints=(
        "Which four names and shapes does `nn.LSTMCell(3, 2).state_dict()` show, and what do rows 0 to 1, 2 to 3, 4 to "
        "5 and 6 to 7 of `weight_ih` belong to?",
        "Two linear maps and two biases make all four gates at once; `chunk` takes them apart along the last "
        "dimension, for a batch and for a single row alike. Which one of the four gets a tanh?",
        "The state that nobody gave: which shape has it for x of shape (b, input_size), for x of shape (input_size,), "
        "and on which device and in which dtype is it made?",
    ),
    forbids=(
        "lstm", "gru", "rnn_tanh", "rnn_relu", "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell",
        "thnn_fused_lstm_cell", "mkldnn_rnn_layer", "torch.nn.modules.rnn", "torch.ao.nn.quantizable.modules.rnn",
    ),
    derive=float32_digits,
    quotes=quoting(quotes),
)  # fmt: skip
