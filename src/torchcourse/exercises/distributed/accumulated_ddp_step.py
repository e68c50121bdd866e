"""The exercise `accumulated_ddp_step`: its probe, visible cases and hints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.on_ranks import MODULES, Exchanges, on_ranks, rank
from torchcourse.probes.trainable_models import (
    LOSSES,
    GraphsHeld,
    RecordingModel,
    counted,
    flat,
    learning,
    mode,
    number_or_kind,
)


def counted_entries(ddp: DistributedDataParallel) -> list[int]:
    """Return a list that gets an entry whenever `ddp.no_sync()` is called."""
    entries: list[int] = []
    no_sync = ddp.no_sync

    def counting() -> Any:
        entries.append(1)
        return no_sync()

    ddp.no_sync = counting  # type: ignore[method-assign]
    return entries


def _four_digits(loss: Any) -> Any:
    """Return a loss as far as it is compared: unlike the gradients, it may have been added up in float32."""
    return float(f"{loss:.4g}") if isinstance(loss, float) else loss


def program(
    answer: Callable[..., Any], weights: dict[str, Tensor], batches: list[list[list[Tensor]]], loss: str,
    times: int, stale: bool, starts: str,
) -> Observations:  # fmt: skip
    """Observe the losses, the exchanges of each step, and the parameters afterwards."""
    model = RecordingModel(weights).train(starts == "training")
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.2, momentum=0.5)
    steps = counted(optimizer)
    mine = [(x, y) for x, y in batches[rank()]]
    if stale:
        LOSSES[loss](ddp(mine[0][0]), mine[0][1]).backward()  # type: ignore[no-untyped-call]
    entered, held = counted_entries(ddp), GraphsHeld(model)
    losses, exchanges = [], []
    for _ in range(times):
        with Exchanges() as calls:
            losses.append(_four_digits(number_or_kind(answer(ddp, list(mine), LOSSES[loss], optimizer))))
        exchanges.append(sum(size >= flat(model.parameters()).numel() for size in calls.summed))
    return {
        "loss": losses,
        "gradient exchanges": exchanges,
        "no_sync": "entered, and all were exchanged" if entered and min(exchanges) > 1 else "kept, or not needed",
        "graphs held at once": "of one micro-batch" if held.most <= max(len(x) for x, _ in mine) else "of several",
        "exchanges afterwards": "switched on" if ddp.require_backward_grad_sync else "switched off",
        "optimizer steps": len(steps),
        "mode afterwards": mode(model),
        "parameters afterwards": flat(model.parameters()),
    }


def probe(answer: Watched, **inputs: Any) -> Observations:
    """Observe all ranks."""
    return on_ranks(answer, program, inputs, len(inputs["batches"]))


def cases(draw: Draw) -> list[Case]:
    def pieces(
        loss: str, *ranks: list[int], times: int = 1, stale: bool = False, starts: str = "training"
    ) -> dict[str, Any]:
        """Return inputs for as many ranks as there are lists; each holds the sizes of a rank's micro-batches."""
        drawn = learning(draw, loss, [size for sizes in ranks for size in sizes], torch.float64)
        pairs = zip(drawn["xs"], drawn["ys"], strict=True)
        batches = [[list(next(pairs)) for _ in sizes] for sizes in ranks]
        return {"weights": drawn["weights"], "batches": batches, "loss": loss, "times": times, "stale": stale,
                "starts": starts}  # fmt: skip

    exactly = {"rtol": 1e-9, "atol": 1e-10}
    return [
        case("three micro-batches of one size", **exactly, **pieces("mean squared error", [4, 4, 4], [4, 4, 4])),
        case("micro-batches of several sizes", **exactly, **pieces("cross entropy", [5, 2, 1], [1, 3, 4])),
        case("three ranks, with more micro-batches on rank 1", **exactly,
             **pieces("mean squared error", [4, 2], [1, 2, 3], [5, 1])),
        case("two steps, with gradients of an earlier batch", **exactly,
             **pieces("mean squared error", [4, 1], [2, 3], times=2, stale=True)),
        case("a single micro-batch, evaluation mode", **exactly,
             **pieces("cross entropy", [4], [4], starts="evaluation")),
    ]  # fmt: skip


def quotes(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    counted_there = seen.get("gradient exchanges, rank 0")  # nothing, if the rank did not return
    fields: dict[str, object] = {"exchanges": counted_there[0]} if counted_there else {}
    if counted_there and counted_there[0] > 1:
        fields["several"] = counted_there[0]
    losses = [(seen.get(f"loss, rank {n}") or ["nothing"])[0] for n in range(2)]
    fields |= {"loss0": losses[0], "loss1": losses[1], "right": (wanted.get("loss, rank 0") or ["nothing"])[0]}
    return fields | {"steps": seen.get("optimizer steps, rank 0")}


EXERCISE = Exercise(
    "accumulated_ddp_step",
    probe,
    cases,
    hints=(
        "Begin with lesson 5's step, each loss scaled by its share of this rank's samples. DDP then exchanges after "
        "every backward. After which one alone is it needed?",
        "`ddp.no_sync()` is read when the forward runs, not when the backward does. So what belongs into the `with` "
        "block, and for which of the micro-batches?",
        "DDP averages the gradients, not the losses: your sum of scaled losses is that of one rank. All ranks have "
        "equally many samples, so which mean over ranks is the global loss?",
    ),
    any_device=False,
    quotes=quotes,
    imports=MODULES,
)
