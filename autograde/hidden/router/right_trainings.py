"""Right answers to the exercise `train_router`: one that mistakes are made from, and others unlike the reference."""

from __future__ import annotations

import copy
import json
import math
import random
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["Training", "with_loaders", "with_scores_of_sklearn"]


class Training:
    """A right training; a mistake overrides one of its methods."""

    patience = 2

    def __call__(self, model: Any, train: Any, val: Any, *, epochs: int, lr: float, device: Any, log: Any) -> Any:
        model.to(device)
        self.begin(log)
        optimizer = self.optimizer(model.parameters(), self.rate(lr))
        best: dict[str, Any] = {"val_loss": math.inf, "epoch": 0}
        weights, since, record = self.copied(model), 0, best
        for epoch in range(1, epochs + 1):
            self.before_training(model, epoch)
            loss = self.epoch(model, train, optimizer, device)
            self.before_judging(model)
            record = {"epoch": epoch, "lr": self.rate(lr), "train_loss": loss, **self.judged(model, val, device)}
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

    def rate(self, lr: float) -> float:
        return lr

    def optimizer(self, parameters: Any, lr: float) -> Any:
        return torch.optim.AdamW(parameters, lr=lr)

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
        losses, sizes = [], []
        for batch in self.ordered(train):
            logits, labels = self.scored(model, batch, device)
            loss = F.cross_entropy(logits, labels)
            self.clear(optimizer)
            loss.backward()  # type: ignore[no-untyped-call]
            self.step(optimizer)
            losses.append(loss.item())
            sizes.append(len(labels))
        return self.mean(losses, sizes)

    def ordered(self, train: list[Any]) -> list[Any]:
        return random.sample(train, len(train))

    def clear(self, optimizer: Any) -> None:
        optimizer.zero_grad()

    def mean(self, losses: list[float], sizes: list[int]) -> float:
        return sum(loss * size for loss, size in zip(losses, sizes, strict=True)) / sum(sizes)

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
            for c in self.classes(predicted, labels)
        ])  # fmt: skip

    def classes(self, predicted: Tensor, labels: Tensor) -> list[int]:
        return sorted({*predicted.tolist(), *labels.tolist()})

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


def with_loaders(
    model: Any, train: Any, val: Any, *, epochs: int, lr: float, device: Any, log: Any
) -> dict[str, float]:
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.0)
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


def with_scores_of_sklearn(
    model: Any, train: Any, val: Any, *, epochs: int, lr: float, device: Any, log: Any
) -> dict[str, Any]:
    from sklearn.metrics import f1_score

    model = model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, amsgrad=True)
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
