"""The exercise `ddp_gradient`: its probe, visible cases, ground truth and hints."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from torchcourse.checking.probe import Watched
from torchcourse.checking.torchs_modules import TORCH
from torchcourse.model.exercise import Case, Draw, Exercise, InterviewQuestion, case
from torchcourse.model.observations import Observations

Shards = list[list[float]]


def probe(answer: Watched, shards: Shards) -> Observations:
    """Observe the two gradients that an answer predicts; whole numbers are as good as floats."""
    predicted = answer(shards)
    if isinstance(predicted, list | tuple) and len(predicted) == 2:
        ddp, whole = (float(number) if type(number) in (int, float) else number for number in predicted)
        return {"ddp": ddp, "whole": whole}
    return {"prediction": predicted}


def ground_truth(shards: Shards) -> tuple[float, float]:
    """Run backward for each rank and for the whole batch; average over ranks as DDP does.

    No processes are needed for that: DDP's one operation on gradients is the mean over ranks.
    """
    parts = [torch.tensor(shard, dtype=torch.float64) for shard in shards]
    ddp = torch.stack([gradient(part) for part in parts]).mean()
    return ddp.item(), gradient(torch.cat(parts)).item()


def gradient(samples: Tensor) -> Tensor:
    """Return the gradient of the mean loss, where the loss of a sample has the gradient that is given for it."""
    weight = nn.Parameter(torch.zeros((), dtype=torch.float64))
    (weight * samples).mean().backward()  # type: ignore[no-untyped-call]
    assert weight.grad is not None
    return weight.grad


def cases(draw: Draw) -> list[Case]:
    def shard(size: int) -> list[float]:
        return [float(draw.size(-8, 8)) for _ in range(size)]

    few, many = draw.size(1, 2), draw.size(4, 5)
    return [
        case("two ranks with as many samples", shards=[shard(few + 1), shard(few + 1)]),
        case("three samples and one", shards=[[1.0, 2.0, 3.0], [10.0]]),
        case("two ranks, unequal", shards=[shard(many), shard(few)]),
        case("three ranks, unequal", shards=[shard(few), shard(many), shard(few + 1)]),
        case("three ranks with as many samples", shards=[shard(few + 1) for _ in range(3)]),
        case("one rank", shards=[shard(many)]),
        case("all gradients the same", shards=[[4.0] * many, [4.0] * few]),
    ]


def quotes(inputs: Observations, _seen: Observations, wanted: Observations) -> dict[str, object]:
    shards = [[int(sample) for sample in shard] for shard in inputs["shards"]]
    run = f"sum(gradient(shard) for shard in {shards}) / {len(shards)}"
    return {"run": run, "said": f"gets {wanted['ddp']:.4g}, and {wanted['whole']:.4g} for the whole batch"}


EXERCISE = Exercise(
    "ddp_gradient",
    probe,
    cases,
    hints=(
        "Take three samples on one rank and one on the other. What gradient does each rank have after its own "
        "backward, with a mean loss?",
        "DDP knows nothing of samples: it adds up one gradient from each rank and divides. By what does it divide?",
        "The whole batch is what one process would do with all samples in one list. With which sizes of the shards do "
        "the two come out the same?",
    ),
    quotes=quotes,
    any_device=False,
    forbids=(TORCH,),
    ground_truth=ground_truth,
    interview=InterviewQuestion(
        "Is DDP's gradient the gradient of one big batch?",
        "Only if all ranks hold equally many samples and the loss is a mean: DDP averages one gradient from each "
        "rank, whatever stands behind it. With shards of 3 and 1 samples the single one counts three times as much as "
        "each of the others. To be exact, scale each rank's loss by its samples times the number of ranks, divided by "
        "all samples; `DistributedSampler` keeps shards equal by repeating some.",
        "12_distributed",
    ),
)
