"""The exercise `train_router`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from autograde.hidden.router.right_trainings import Training, with_loaders, with_scores_of_sklearn
from autograde.source.mistakes import Mistake
from torchcourse.exercises.router.train_router import training
from torchcourse.model.exercise import Case, Draw

WHY = (
    "Logits and labels of all validation batches are put together first, since neither a mean of batch losses nor "
    "of batch scores is that of the whole. The weights are copied when they are the best, because a `state_dict` "
    "holds the tensors that training goes on changing. Each line is written at once, so a killed run leaves its log."
)
"""Why the reference is written as it is."""
REQUIRED = ("keeps-last-not-best", "accuracy-not-macro-f1", "validates-in-train-mode", "log-lacks-lr")
"""The mistakes that a check must always be able to name."""


class KeepsLast(Training):
    def restore(self, model: Any, weights: Any) -> None:
        pass


class KeepsReferences(Training):
    def copied(self, model: Any) -> Any:
        return model.state_dict()


class ComparesWithTheEpochBefore(Training):
    def begin(self, log: Any) -> None:
        self.before = math.inf

    def better(self, record: Any, best: Any) -> bool:
        lower, self.before = record["val_loss"] < self.before, record["val_loss"]
        return bool(lower)


class ChoosesByScore(Training):
    """Keeps the epoch with the best macro F1; patience goes by the loss, as it should."""

    def better(self, record: Any, best: Any) -> bool:
        return bool(record["macro_f1"] > best.get("macro_f1", -1.0))

    def bad_epochs(self, since: int, good: bool, record: Any) -> int:
        lowest = min(self.losses, default=math.inf)
        self.losses.append(record["val_loss"])
        return 0 if record["val_loss"] < lowest else since + 1

    def begin(self, log: Any) -> None:
        self.losses: list[float] = []


class GoesByScore(Training):
    def better(self, record: Any, best: Any) -> bool:
        return bool(record["macro_f1"] > best.get("macro_f1", -1.0))


class EqualIsBetter(Training):
    def better(self, record: Any, best: Any) -> bool:
        return bool(record["val_loss"] <= best["val_loss"])


class WantsMuchLower(Training):
    def better(self, record: Any, best: Any) -> bool:
        return bool(record["val_loss"] < best["val_loss"] - 1e-3)


class Accuracy(Training):
    def score(self, logits: Tensor, labels: Tensor) -> float:
        return (logits.argmax(-1) == labels).double().mean().item()


class Percent(Training):
    def of_classes(self, scores: list[float]) -> float:
        return 100 * super().of_classes(scores)


class ValidatesInTrainMode(Training):
    def before_judging(self, model: Any) -> None:
        pass


class TrainsInEvalMode(Training):
    def before_training(self, model: Any, epoch: int) -> None:
        if epoch == 1:
            model.train()


class Lacks(Training):
    def __init__(self, key: str) -> None:
        self.key = key

    def line(self, record: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in record.items() if key != self.key}


class Text(Training):
    def line(self, record: dict[str, Any]) -> Any:
        return ", ".join(f"{key} {value}" for key, value in record.items())


class FromZero(Training):
    def line(self, record: dict[str, Any]) -> dict[str, Any]:
        return {**record, "epoch": record["epoch"] - 1}


class LogsAtTheEnd(Training):
    def begin(self, log: Any) -> None:
        self.lines: list[str] = []
        self.log = Path(log)

    def write(self, record: dict[str, Any], log: Any) -> None:
        self.lines.append(json.dumps(record) + "\n")

    def restore(self, model: Any, weights: Any) -> None:
        super().restore(model, weights)
        with self.log.open("a") as file:
            file.writelines(self.lines)


class KeepsTheFileOpen(Training):
    def begin(self, log: Any) -> None:
        self.file = Path(log).open("a")  # noqa: SIM115

    def write(self, record: dict[str, Any], log: Any) -> None:
        self.file.write(json.dumps(record) + "\n")

    def restore(self, model: Any, weights: Any) -> None:
        super().restore(model, weights)
        self.file.close()


class Overwrites(Training):
    def begin(self, log: Any) -> None:
        Path(log).write_text("")


class StopsAfter(Training):
    def __init__(self, patience: int) -> None:
        self.patience = patience


class CountsAllBadEpochs(Training):
    def bad_epochs(self, since: int, good: bool, record: Any) -> int:
        return since if good else since + 1


class WaitsWhileItFalls(ComparesWithTheEpochBefore):
    def better(self, record: Any, best: Any) -> bool:
        return Training.better(self, record, best)

    def bad_epochs(self, since: int, good: bool, record: Any) -> int:
        return 0 if super().better(record, None) else since + 1


class CountsAbsentClasses(Training):
    def score(self, logits: Tensor, labels: Tensor) -> float:
        return super().score(logits, labels) * len({*logits.argmax(-1).tolist(), *labels.tolist()}) / logits.shape[1]


class LastBatchOnly(Training):
    def judged(self, model: Any, val: Any, device: Any) -> dict[str, Any]:
        return super().judged(model, val[-1:], device)


class MeanOfBatches(Training):
    def judged(self, model: Any, val: Any, device: Any) -> dict[str, Any]:
        parts = [super(MeanOfBatches, self).judged(model, [batch], device) for batch in val]
        return {key: sum(part[key] for part in parts) / len(parts) for key in parts[0]}


class MeanOfBatchLosses(Training):
    def judged(self, model: Any, val: Any, device: Any) -> dict[str, Any]:
        losses = [super(MeanOfBatchLosses, self).judged(model, [batch], device)["val_loss"] for batch in val]
        return super().judged(model, val, device) | {"val_loss": sum(losses) / len(losses)}


class NeverSteps(Training):
    def step(self, optimizer: Any) -> None:
        pass


class NeverClears(Training):
    def clear(self, optimizer: Any) -> None:
        pass


class InOrder(Training):
    def ordered(self, train: list[Any]) -> list[Any]:
        return train


class TheSameOrder(Training):
    def ordered(self, train: list[Any]) -> list[Any]:
        return random.Random(0).sample(train, len(train))


class LossOfTheLastBatch(Training):
    def mean(self, losses: list[float], sizes: list[int]) -> float:
        return losses[-1]


class SumOfLosses(Training):
    def mean(self, losses: list[float], sizes: list[int]) -> float:
        return sum(losses)


class AnotherRate(Training):
    def rate(self, lr: float) -> float:
        return 0.05


class PlainAdam(Training):
    def optimizer(self, parameters: Any, lr: float) -> Any:
        return torch.optim.Adam(parameters, lr=lr)


class PlainSGD(Training):
    def optimizer(self, parameters: Any, lr: float) -> Any:
        return torch.optim.SGD(parameters, lr=lr)


class TrainsTheHead(Training):
    def optimizer(self, parameters: Any, lr: float) -> Any:
        return super().optimizer(list(parameters)[-2:], lr)


class LabelledClassesOnly(Training):
    def classes(self, predicted: Tensor, labels: Tensor) -> list[int]:
        return sorted({*labels.tolist()})


class ReturnsLast(Training):
    def returned(self, best: Any, last: Any) -> Any:
        return last


class KeepsLastAndReturnsIt(KeepsLast, ReturnsLast):
    pass


class ReturnsNothing(Training):
    def returned(self, best: Any, last: Any) -> Any:
        return None


class BatchStays(Training):
    def scored(self, model: Any, batch: Any, device: Any) -> tuple[Tensor, Tensor]:
        return model(batch["input_ids"], batch["attention_mask"]), batch["labels"]


LOG = "Training with a log"
END = (
    'In the case "{case}" the weights at the end are {whose}, and should be those of the best epoch (validation loss '
    "{weights}): "
)
STOP = 'In the case "{case}" training stopped {stop}: '
SCORE = 'In the case "{case}" the log says {f1}: '
ORDER = (
    'In the case "{case}" the batches came {order}: each epoch draws an order of its own, so that no batch always has '
    "the last word."
)
LOSS = 'In the case "{case}" the log gives a `train_loss` of {loss}: '
LACKS = "The log lacks {lacks}: "
MISTAKES = [
    Mistake("keeps-last-not-best", KeepsLast(), END + "the best ones have to be copied when they are seen, and put "
            "back.", LOG),
    Mistake("keeps-last-not-best", KeepsReferences(), END + "a `state_dict` holds the tensors that training goes on "
            "changing; a copy is needed.", LOG),
    Mistake("keeps-last-not-best", KeepsLastAndReturnsIt(), END + "nothing was put back, and the last record came "
            "back, too.", LOG),
    Mistake("compares-with-epoch-before", ComparesWithTheEpochBefore(), END + "each epoch was compared with the one "
            "before it. After a bad epoch, one that is a little better is not the best.", LOG),
    *(Mistake("chooses-by-macro-f1", program, END + "the epoch with the best macro F1 was kept. The one with the "
            "lowest `val_loss` is asked for.", LOG) for program in (ChoosesByScore(), GoesByScore())),
    Mistake("accuracy-not-macro-f1", Accuracy(), SCORE + "with classes of different sizes, accuracy is mostly about "
            "the largest one.", LOG),
    Mistake("counts-absent-classes", CountsAbsentClasses(), SCORE + "a class that is neither labelled nor predicted "
            "has no F1, but here it counted as 0.", LOG),
    Mistake("labelled-classes-only", LabelledClassesOnly(), SCORE + "a class that is only predicted has an F1 of 0, "
            "and was left out of the mean.", LOG),
    Mistake("percent-not-fraction", Percent(), SCORE + "a fraction is asked for.", LOG),
    Mistake("validates-in-train-mode", ValidatesInTrainMode(), "Validation ran in {got} where {want} is wanted: with "
            "dropout on, the numbers in the log belong to another model.", LOG),
    Mistake("trains-in-eval-mode", TrainsInEvalMode(), "Training ran in {got} where {want} is wanted: the validation "
            "after the first epoch left the model in eval mode.", LOG),
    Mistake("log-lacks-lr", Lacks("lr"), LACKS + "without the rate, nobody can say why a run went as it did.", LOG),
    Mistake("log-lacks-score", Lacks("macro_f1"), LACKS + "all five numbers are asked for.", LOG),
    Mistake("log-is-no-json", Text(), LACKS + "a line has to be a JSON object with five keys.", LOG),
    Mistake("epochs-from-zero", FromZero(), "The epochs in the log are {got}; they should be {want}.", LOG),
    Mistake("overwrites-log", Overwrites(), "The lines of an earlier run are {got}: open the file to append.", LOG),
    *(Mistake("logs-at-the-end", program, "While the last epoch trained, the log had {logged}: a line is in the file "
              "only once it was written and the file closed, or flushed. A run that is killed leaves no log.", LOG)
      for program in (LogsAtTheEnd(), KeepsTheFileOpen())),
    Mistake("never-stops", StopsAfter(10**6), STOP + "early stopping is missing.", LOG),
    Mistake("stops-too-early", StopsAfter(1), STOP + "one epoch that is no better is not enough.", LOG),
    Mistake("counts-all-bad-epochs", CountsAllBadEpochs(), STOP + "the count of bad epochs begins again after a good "
            "one.", LOG),
    Mistake("patience-with-epoch-before", WaitsWhileItFalls(), STOP + "an epoch counted as bad only if it was no "
            "better than the one before it. Bad is each one that brings no new lowest `val_loss`.", LOG),
    Mistake("equal-is-better", EqualIsBetter(), 'In the case "{case}" {got} was {what} where {want} is wanted: an '
            "epoch whose `val_loss` only equals the lowest is no new lowest.", LOG),
    Mistake("wants-much-lower", WantsMuchLower(), STOP + "a `val_loss` that was only a little lower than the lowest "
            "before did not count. Nothing says by how much it has to be lower.", LOG),
    Mistake("stops-too-late", StopsAfter(3), STOP + "the second epoch in a row that is no better is the last.", LOG),
    Mistake("validates-on-last-batch", LastBatchOnly(), END + "only the last batch of `val` was judged.", LOG),
    Mistake("mean-of-batch-means", MeanOfBatches(), END + "batches of different sizes were averaged alike.", LOG),
    Mistake("mean-of-batch-means", MeanOfBatchLosses(), END + "the losses of batches of different sizes were averaged "
            "alike.", LOG),
    Mistake("did-not-learn", NeverSteps(), 'In the case "{case}" macro F1 on held-out tickets is {good}: the router '
            "hardly learned. Either steps are missing or far too small, or the gradients are cleared before the step.",
            LOG),
    Mistake("missing-zero-grad", NeverClears(), "The gradients at each step were {gradients}: nobody clears them "
            "between one step and the next backward.", LOG),
    Mistake("not-shuffled", InOrder(), ORDER, LOG),
    Mistake("not-shuffled", TheSameOrder(), ORDER, LOG),
    Mistake("train-loss-of-last-batch", LossOfTheLastBatch(), LOSS + "that is the last batch's, but a mean over the "
            "epoch is wanted.", LOG),
    Mistake("train-loss-not-mean", SumOfLosses(), LOSS + "a mean over the tickets or over the batches is wanted.", LOG),
    Mistake("ignores-lr", AnotherRate(), "In the case \"{case}\" the optimizer used {rate}: the argument `lr` has no "
            "effect, or the rate never comes near it.", LOG),
    *(Mistake("another-optimizer", program, "The steps were taken by {optimizer}, and AdamW is asked for.", LOG)
      for program in (PlainAdam(), PlainSGD())),
    Mistake("trains-some-parameters", TrainsTheHead(), "The optimizer was not given {outside}: all parameters of the "
            "model are trained.", LOG),
    Mistake("returns-last-record", ReturnsLast(), 'In the case "{case}" the call returned {got} where {want} is '
            "wanted: this is the last one.", LOG),
    Mistake("returns-nothing", ReturnsNothing(), 'In the case "{case}" the call returned {got}; {want} is '
            "wanted.", LOG),
    Mistake("batch-not-moved", BatchStays(), "On the second device the call raised {error}: the model is there, and "
            "the batches come from the CPU, so each has to be moved.", LOG),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    return [
        training(draw, "another run", 0, draw.size(18, 22), 0.05, [30, 24, 7]),
        training(draw, "worse from the second epoch on", 2, 7, 0.04, [9, 9, 3]),
    ]


RIGHT_ANSWERS: list[Callable[..., Any]] = [with_loaders, with_scores_of_sklearn]
