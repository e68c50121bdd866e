"""The exercise `export_onnx`: its probe, visible cases and hints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations, Raised
from torchcourse.probes.crash_points import in_a_folder
from torchcourse.probes.exporting import in_onnx_runtime, operators_known, outcomes
from torchcourse.probes.savable_models import BATCHES, EXPORT, Exported, copy_of, export_weights, untouched
from torchcourse.probes.trainable_models import mode

ONNX = (
    "onnx", "onnxruntime", "onnxscript.function_libs.torch_lib.ops", "torch.onnx._internal.exporter._compat",
    "torchcourse.probes.onnx_operators",
)  # fmt: skip
"""What an export to ONNX loads besides."""


@in_a_folder
def probe(
    answer: Watched, weights: dict[str, Tensor], x: Tensor, example: int, normed: bool, turns: bool, train: bool,
    frozen: bool = False,
) -> Observations:  # fmt: skip
    """Export a model, whose norm may be frozen in eval mode, and run the file with several batch sizes."""
    net = Exported(weights, normed, turns).train(train)
    if frozen:
        net.norm.eval()
    before, path, modes = copy_of(net), Path("model.onnx"), [m.training for m in net.modules()]
    with operators_known():
        answer(net, x[:example].clone(), path)
    seen: Observations = {"mode afterwards": mode(net), "model afterwards": untouched(net, before)}
    seen["its parts afterwards"] = "as before" if [m.training for m in net.modules()] == modes else "in another mode"
    if not path.exists():
        return {**seen, "the file": "was not written"}
    return {**seen, **outcomes(in_onnx_runtime(path), x, BATCHES)}


def cases(draw: Draw) -> list[Case]:
    i, h, o = draw.size(3, 4), draw.size(5, 6), draw.size(2, 3)
    common: dict[str, Any] = {"x": draw.normal(7, i), "example": 2, "turns": False, "rtol": 1e-5, "atol": 1e-5}
    return [
        case("a model in training mode", weights=export_weights(draw, i, h, o), normed=False, train=True, **common),
        case("a model in eval mode", weights=export_weights(draw, i, h, o), normed=True, train=False, **common),
        case("in training mode, the norm frozen", weights=export_weights(draw, i, h, o), normed=True, train=True,
             frozen=True, **common),
    ]  # fmt: skip


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"example": inputs["example"], "its_mode": seen.get("mode afterwards")}
    fields |= {"want_mode": wanted.get("mode afterwards"), "file": seen.get("the file")}
    for batch in BATCHES:
        got, want = (side.get(f"batch of {batch}") for side in (seen, wanted))
        if isinstance(got, Raised):
            fields |= {"batch": batch, "refused": got.message}
        elif isinstance(got, Tensor) and isinstance(want, Tensor) and got.shape == want.shape:
            fields["gap"] = (got - want).abs().max().item()
    return {name: value for name, value in fields.items() if value is not None}


EXERCISE = Exercise(
    "export_onnx",
    probe,
    cases,
    hints=(
        "In which mode should a model be that only answers questions from now on? Note the old mode, and think of the "
        "block of Python that runs in any case.",
        "`torch.onnx.export` takes `dynamic_shapes`: for each input, which of its dimensions may vary. The batch is "
        "dimension 0 of the only input.",
        'The input goes in as a tuple. `{0: torch.export.Dim("batch")}` says that dimension 0 varies; one such dict '
        "stands for each input.",
    ),
    any_device=False,
    quotes=quotes,
    seconds=20.0,
    imports=(*EXPORT, *ONNX),
)
