"""The exercise `evaluate`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.probes.observe import kind
from torchcourse.probes.trainable_models import (
    RecordingModel,
    SharedNotes,
    drawn_weights,
    flat,
    mode,
    number,
    quotes_modes,
)

LOSSES = {"cross entropy": F.cross_entropy, "margin": F.multi_margin_loss}


def probe(
    answer: Watched, weights: dict[str, Tensor], x: Tensor, y: Tensor, batch: int, starts: str,
    drop_last: bool = False, loss: str = "cross entropy",
) -> dict[str, Any]:  # fmt: skip
    """Observe both numbers, and in which mode, and with how many graphs, the model ran."""
    inner = RecordingModel(weights)
    inner.ran = SharedNotes()
    model = nn.Sequential(inner).train(starts == "training")  # as in most models, the layers are in other modules
    before = flat(model.parameters())
    loader = DataLoader(TensorDataset(x.cpu(), y.cpu()), batch_size=batch, drop_last=drop_last)
    returned = answer(model, loader, LOSSES[loss], x.device)
    if not isinstance(returned, dict) or not {"loss", "accuracy"} <= returned.keys():
        return {"returned": f"{kind(returned)} without the keys loss and accuracy"}
    return {
        "loss": number(returned["loss"]),
        "accuracy": number(returned["accuracy"]),
        "the model ran in": inner.modes(),
        "graphs built": sum(note["graph"] for note in inner.ran),
        "gradients are recorded afterwards": torch.is_grad_enabled(),
        "mode afterwards": f"{' and '.join(dict.fromkeys(mode(m) for m in model.modules()))} mode",
        "parameters": "as before" if torch.equal(before, flat(model.parameters())) else "changed",
    }


def cases(draw: Draw) -> list[Case]:
    def judged(n: int, batch: int, starts: str) -> dict[str, Any]:
        inputs, classes = draw.size(3, 4), draw.size(3, 4)
        weights = drawn_weights(draw, inputs, 6, classes)
        weights["w2"] *= 3
        x, some = draw.normal(n, inputs), draw.flags(n, share=0.6)
        y = torch.where(some, RecordingModel(weights).eval()(x).argmax(1), draw.integers(0, classes, n))
        return {"weights": weights, "x": x, "y": y, "batch": batch, "starts": starts}

    return [
        case("batches of one size", **judged(12, 4, "training")),
        case("a last batch of one", **judged(13, 4, "training")),
        case("a last batch of three, in evaluation mode", **judged(11, 8, "evaluation")),
        case("everything in one batch", **judged(draw.size(5, 7), 64, "evaluation"), loss="margin"),
        case("a loader that drops its last batch", **judged(14, 4, "training"), drop_last=True),
    ]


EXERCISE = Exercise(
    "evaluate",
    probe,
    cases,
    hints=(
        "Three things should be different from training: the mode, the graph, and who may change. Which two settings "
        "do you make before the loop, and which one do you take back after it?",
        "`loss_fn` gives the mean over one batch. If the last batch is smaller, what must each mean be multiplied by "
        "before you add it up, and what do you divide by at the end?",
        "The loader gives CPU tensors. On which device is the model? And in which mode was it when you got it?",
    ),
    quotes=quotes_modes,
)
