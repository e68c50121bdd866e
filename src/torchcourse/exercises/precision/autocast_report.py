"""The exercise `autocast_report`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.mixed_precision import report_model
from torchcourse.probes.observe import kind


def _hooks(model: nn.Module) -> int:
    own = sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())
    everywhere = nn.modules.module
    return own + len(everywhere._global_forward_hooks) + len(everywhere._global_forward_pre_hooks)


def _hooks_afterwards(before: int, after: int) -> str:
    if after == before:
        return "as before"
    return f"{after - before} left behind" if after > before else f"{before - after} of the model's own are gone"


def probe(answer: Watched, model: str, width: int, x: Tensor, dtype: torch.dtype, hooked: bool) -> dict[str, Any]:
    """Report on a model, and see which hooks are left and whether autocast is still on."""
    built = report_model(model, width).to(x.device).eval()
    runs = list[str]()
    built.register_forward_pre_hook(lambda *_: runs.append("a run"))
    if hooked:
        next(m for m in built.modules() if not any(m.children())).register_forward_hook(lambda *_: None)
    before, everywhere = _hooks(built), nn.modules.module._global_forward_hooks
    known = set(everywhere)
    seen: dict[str, Any] = {}
    try:
        report = answer(built, x, dtype)
        names = isinstance(report, dict)
        seen = {"report": {str(k): _dtype(v) for k, v in report.items()}} if names else {"returned": kind(report)}
    except RuntimeError:
        if model != "breaking":
            raise
        seen = {"report": "the model's own error came through"}
    seen["model(x) ran"] = "once" if len(runs) == 1 else f"{len(runs)} times"
    seen["hooks afterwards"] = _hooks_afterwards(before, _hooks(built))
    seen["autocast afterwards"] = "on" if torch.is_autocast_enabled(x.device.type) else "off"
    for left in set(everywhere) - known:
        del everywhere[left]
    torch.set_autocast_enabled(x.device.type, False)
    return seen


def _dtype(value: object) -> object:
    return value if isinstance(value, torch.dtype | str) else kind(value)


def cases(draw: Draw) -> list[Case]:
    width, n = draw.size(3, 5), draw.size(2, 4)

    def on(model: str, dtype: torch.dtype, hooked: bool = False) -> dict[str, Any]:
        return {"model": model, "width": width, "x": draw.normal(n, width), "dtype": dtype, "hooked": hooked}

    return [
        case("layers in a row", **on("row", torch.bfloat16)),
        case("modules inside modules", **on("nested", torch.float16)),
        case("a single layer", **on("single", torch.bfloat16)),
        case("a normalisation by hand", **on("statistics", torch.bfloat16)),
        case("a hook is there already", **on("row", torch.float16, hooked=True)),
        case("a model that breaks midway", **on("breaking", torch.bfloat16)),
    ]


def quotes(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    got, want = seen["report"], wanted["report"]
    layer = next(name for name in [*want, *got] if got.get(name, "nothing") != want.get(name, "nothing"))
    return {"layer": layer or "the model itself", "layer_got": got.get(layer, "missing"),
            "layer_want": want.get(layer, "nothing")}  # fmt: skip


EXERCISE = Exercise(
    "autocast_report",
    probe,
    cases,
    hints=(
        "A forward hook sees the output of the layer it sits on. Which modules of `named_modules()` are leaves: what "
        "do they not have?",
        "On which device does autocast have to be switched on? `x` knows. And who told it the dtype?",
        "Every `register_forward_hook` returns a handle. Where do you remove them, so that they are gone even when "
        "the model raises, and nobody else's hooks are?",
    ),
    quotes=quotes,
)
