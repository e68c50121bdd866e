"""The exercise `train_router`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import copy
import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

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
"""The misconceptions that the syllabus wants told apart."""


class Training:
    """A right training; a mistake overrides one of its methods."""

    patience = 2

    def __call__(self, model: Any, train: Any, val: Any, *, epochs: int, lr: float, device: Any, log: Any) -> Any:
        model.to(device)
        self.begin(log)
        optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
        best: dict[str, Any] = {"val_loss": math.inf, "epoch": 0}
        weights, since, record = self.copied(model), 0, best
        for epoch in range(1, epochs + 1):
            self.before_training(model, epoch)
            loss = self.epoch(model, train, optimizer, device)
            self.before_judging(model)
            record = {"epoch": epoch, "lr": lr, "train_loss": loss, **self.judged(model, val, device)}
            self.write(record, log)
            good = self.better(record, best)
            since = self.bad_epochs(since, good, record)
            if good:
                best, weights = record, self.copied(model)
            if since == self.patience:
                break
        self.restore(model, weights)
        return self.returned(best, record)

    def begin(self, log: Any) -> None:
        pass

    def copied(self, model: Any) -> Any:
        return copy.deepcopy(model.state_dict())

    def before_training(self, model: Any, epoch: int) -> None:
        model.train()

    def before_judging(self, model: Any) -> None:
        model.eval()

    def scored(self, model: Any, batch: Any, device: Any) -> tuple[Tensor, Tensor]:
        ids, mask, labels = (batch[name].to(device) for name in ("input_ids", "attention_mask", "labels"))
        return model(ids, mask), labels

    def epoch(self, model: Any, train: Any, optimizer: Any, device: Any) -> float:
        total, count = 0.0, 0
        for batch in random.sample(train, len(train)):
            logits, labels = self.scored(model, batch, device)
            loss = F.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            self.step(optimizer)
            total, count = total + loss.item() * len(labels), count + len(labels)
        return total / count

    def step(self, optimizer: Any) -> None:
        optimizer.step()

    @torch.no_grad()
    def judged(self, model: Any, val: Any, device: Any) -> dict[str, Any]:
        parts = [self.scored(model, batch, device) for batch in val]
        logits, labels = torch.cat([p[0] for p in parts]).cpu(), torch.cat([p[1] for p in parts]).cpu()
        return {"val_loss": F.cross_entropy(logits, labels).item(), "macro_f1": self.score(logits, labels)}

    def score(self, logits: Tensor, labels: Tensor) -> float:
        predicted = logits.argmax(-1)
        return self.of_classes([
            2 * int(((predicted == c) & (labels == c)).sum()) / int((predicted == c).sum() + (labels == c).sum())
            for c in sorted({*predicted.tolist(), *labels.tolist()})
        ])  # fmt: skip

    def of_classes(self, scores: list[float]) -> float:
        return sum(scores) / len(scores)

    def better(self, record: Any, best: Any) -> bool:
        return bool(record["val_loss"] < best["val_loss"])

    def bad_epochs(self, since: int, good: bool, record: Any) -> int:
        return 0 if good else since + 1

    def write(self, record: dict[str, Any], log: Any) -> None:
        with Path(log).open("a") as file:
            file.write(json.dumps(self.line(record)) + "\n")

    def line(self, record: dict[str, Any]) -> dict[str, Any]:
        return record

    def restore(self, model: Any, weights: Any) -> None:
        model.load_state_dict(weights)

    def returned(self, best: Any, last: Any) -> Any:
        return best


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
    Mistake("accuracy-not-macro-f1", Accuracy(), SCORE + "with classes of different sizes, accuracy is about the "
            "largest.", LOG),
    Mistake("counts-absent-classes", CountsAbsentClasses(), SCORE + "a class that is neither labelled nor predicted "
            "has no F1, and counted as 0.", LOG),
    Mistake("percent-not-fraction", Percent(), SCORE + "a fraction is asked for.", LOG),
    Mistake("validates-in-train-mode", ValidatesInTrainMode(), "Validation ran in {got} where {want} is wanted: with "
            "dropout on, the numbers in the log belong to another model.", LOG),
    Mistake("trains-in-eval-mode", TrainsInEvalMode(), "Training ran in {got} where {want} is wanted: the judgement of "
            "the first epoch left the model in eval mode.", LOG),
    Mistake("log-lacks-lr", Lacks("lr"), LACKS + "without the rate, nobody can say why a run went as it did.", LOG),
    Mistake("log-lacks-score", Lacks("macro_f1"), LACKS + "all five numbers are asked for.", LOG),
    Mistake("log-is-no-json", Text(), LACKS + "a line has to be a JSON object with five keys.", LOG),
    Mistake("epochs-from-zero", FromZero(), "The epochs in the log are {got} where {want} is wanted.", LOG),
    Mistake("overwrites-log", Overwrites(), "The lines of an earlier run are {got}: open the file to append.", LOG),
    Mistake("never-stops", StopsAfter(10**6), STOP + "early stopping is missing.", LOG),
    Mistake("stops-too-early", StopsAfter(1), STOP + "one epoch that is no better is not enough.", LOG),
    Mistake("counts-all-bad-epochs", CountsAllBadEpochs(), STOP + "the count of bad epochs begins again after a good "
            "one.", LOG),
    Mistake("patience-with-epoch-before", WaitsWhileItFalls(), STOP + "an epoch counted as bad only if it was no "
            "better than the one before it. Bad is each one that brings no new lowest `val_loss`.", LOG),
    Mistake("stops-too-late", StopsAfter(3), STOP + "the second epoch in a row that is no better is the last.", LOG),
    Mistake("validates-on-last-batch", LastBatchOnly(), END + "only the last batch of `val` was judged.", LOG),
    Mistake("mean-of-batch-means", MeanOfBatches(), END + "batches of different sizes were averaged alike.", LOG),
    Mistake("mean-of-batch-means", MeanOfBatchLosses(), END + "the losses of batches of different sizes were averaged "
            "alike.", LOG),
    Mistake("did-not-learn", NeverSteps(), 'In the case "{case}" macro F1 on held-out tickets is {good}: the router '
            "hardly learned. Either steps are missing or far too small, or the gradients are gone before them.", LOG),
    Mistake("returns-last-record", ReturnsLast(), 'In the case "{case}" the call returned {got} where {want} is '
            "wanted: this is the last one.", LOG),
    Mistake("returns-nothing", ReturnsNothing(), 'In the case "{case}" the call returned {got} where {want} is '
            "wanted.", LOG),
    Mistake("batch-not-moved", BatchStays(), "On the second device the call raised {error}: the model is there, and "
            "the batches come from the CPU, so each has to be moved.", LOG),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    return [
        training(draw, "another run", 0, draw.size(18, 22), 0.05, [30, 24, 7]),
        training(draw, "worse from the second epoch on", 2, 7, 0.04, [9, 9, 3]),
    ]


# Right answers unlike the reference


def with_loaders(
    model: Any, train: Any, val: Any, *, epochs: int, lr: float, device: Any, log: Any
) -> dict[str, float]:
    model.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    lines: list[dict[str, float]] = []
    states: list[dict[str, Tensor]] = []

    def run(batch: dict[str, Tensor]) -> Tensor:
        out: Tensor = model(input_ids=batch["input_ids"].to(device), attention_mask=batch["attention_mask"].to(device))
        return out

    for epoch in range(epochs):
        losses = []
        for place in torch.randperm(len(train)).tolist():
            model.train(True)
            loss = F.cross_entropy(run(train[place]), train[place]["labels"].to(device))
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.detach())
        model.train(False)
        with torch.inference_mode():
            logits = torch.cat([run(batch).cpu() for batch in val])
        labels = torch.cat([batch["labels"] for batch in val])
        counts = torch.zeros(logits.shape[1], logits.shape[1], dtype=torch.float64)
        counts.index_put_((labels, logits.argmax(1)), torch.ones(len(labels), dtype=torch.float64), accumulate=True)
        both = counts.sum(0) + counts.sum(1)
        f1 = (2 * counts.diag()[both > 0] / both[both > 0]).mean().item()
        line = {"epoch": epoch + 1, "lr": float(optimizer.param_groups[-1]["lr"]), "macro_f1": f1,
                "train_loss": torch.stack(losses).mean().item(),
                "val_loss": F.cross_entropy(logits, labels).item()}  # fmt: skip
        print(json.dumps(line), file=Path(log).open("a"), flush=True)  # noqa: SIM115
        lines.append(line)
        states.append({name: value.clone() for name, value in model.state_dict().items()})
        worst = [one["val_loss"] for one in lines]
        if len(worst) - 1 - worst.index(min(worst)) >= 2:
            break
    chosen = min(range(len(lines)), key=lambda n: lines[n]["val_loss"])
    model.load_state_dict(states[chosen])
    return lines[chosen]


def by_nadam(model: Any, train: Any, val: Any, *, epochs: int, lr: float, device: Any, log: Any) -> dict[str, Any]:
    from sklearn.metrics import f1_score

    model = model.to(device)
    optimizer = torch.optim.NAdam(model.parameters(), lr=lr)
    best: dict[str, Any] | None = None
    bad = 0
    for epoch in range(1, epochs + 1):
        total = 0.0
        for part in random.sample(train, len(train)):
            batch = {key: value.to(device) for key, value in part.items()}
            model.train()
            optimizer.zero_grad(set_to_none=True)
            loss = F.cross_entropy(model(batch["input_ids"], batch["attention_mask"]), batch["labels"], reduction="sum")
            (loss / len(batch["labels"])).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            total += float(loss)
        model.eval()
        nll, rows = 0.0, []
        for batch in val:
            with torch.no_grad():
                scores = model(batch["input_ids"].to(device), batch["attention_mask"].to(device)).cpu()
            nll += F.cross_entropy(scores, batch["labels"], reduction="sum").item()
            rows += list(zip(batch["labels"].tolist(), scores.argmax(1).tolist(), strict=True))
        truth, guess = zip(*rows, strict=True)
        entry = {"epoch": epoch, "lr": optimizer.param_groups[0]["lr"],
                 "train_loss": total / sum(len(b["labels"]) for b in train), "val_loss": nll / len(rows),
                 "macro_f1": float(f1_score(truth, guess, average="macro"))}  # fmt: skip
        with open(log, "a", encoding="utf-8") as file:
            file.write(json.dumps(entry, indent=None) + "\n")
        bad = bad + 1 if best is not None and entry["val_loss"] >= best["entry"]["val_loss"] else 0
        if bad == 0:
            best = {"entry": entry, "weights": {k: v.detach().cpu().clone() for k, v in model.state_dict().items()}}
        if bad >= 2:
            break
    assert best is not None
    model.load_state_dict(best["weights"])
    return dict(best["entry"])


RIGHT_ANSWERS: list[Callable[..., Any]] = [with_loaders, by_nadam]
