"""What lesson 14 goes on with where an exercise is not solved yet, and the baselines that its router has to beat.

The parts that stand in do their work by a library or in a simpler way, and the lesson says when one of them is in use.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torchcourse.demos.parts import yours

__all__ = [
    "MAX_LEN", "PRETRAINING", "STAND_INS", "TRAINING", "VOCAB", "Convolving", "bag_of_words", "macro_f1", "majority",
    "part", "scores",
]  # fmt: skip

Batch = dict[str, Tensor]
MAX_LEN = 64
VOCAB: dict[str, int] = {"max_size": 1500, "min_count": 2}
PRETRAINING = 4
TRAINING: dict[str, Any] = {"epochs": 14, "lr": 3e-3}
"""The settings of the lesson and of its benchmark: words of a ticket, vocabulary, epochs before and after the swap."""


def part(name: str, namespace: dict[str, Any]) -> Any:
    """Return the answer called `name` if it passes its check, else the part that stands in; print which."""
    stand_in, words = STAND_INS[name]
    return yours(name, namespace, words) or stand_in


# --- the parts ----------------------------------------------------------------------------------------------------


def _clean(rows: list[tuple[str, str]]) -> tuple[list[tuple[str, str]], dict[str, int]]:
    kept = list({text: (text, label) for text, label in rows if text.strip()}.values())
    return kept, {"dropped": len(rows) - len(kept)}


def _split(texts: list[str], labels: list[str], fraction: float, seed: int) -> tuple[list[int], list[int]]:
    from sklearn.model_selection import train_test_split

    train, held = train_test_split(range(len(texts)), test_size=fraction, random_state=seed, stratify=labels)
    return list(train), list(held)


def _vocab(texts: list[str], max_size: int, min_count: int = 1) -> dict[str, int]:
    from sklearn.feature_extraction.text import CountVectorizer

    counted = CountVectorizer(token_pattern=r"\S+", max_features=max_size - 2).fit(texts)
    return {"<pad>": 0, "<unk>": 1} | {word: 2 + int(place) for word, place in counted.vocabulary_.items()}


def _encode(texts: list[str], vocab: dict[str, int], max_len: int) -> Batch:
    ids = torch.zeros(len(texts), max_len, dtype=torch.int64)
    for row, text in zip(ids, texts, strict=True):
        known = torch.tensor([vocab.get(word, 1) for word in f"{text} .".lower().split()][:max_len])
        row[: len(known)] = known
    return {"input_ids": ids, "attention_mask": ids > 0}


class Convolving(nn.Module):
    """A reader that sees five words at a time, and keeps the strongest answer of each of its filters."""

    def __init__(
        self, vocab_size: int, num_classes: int, dim: int = 32, heads: int = 4, layers: int = 2, max_len: int = 64
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(vocab_size, dim)
        self.layers = nn.ModuleList(nn.Conv1d(dim, dim, 5, padding=2) for _ in range(layers))
        self.head = nn.Linear(dim, num_classes)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        real = attention_mask.unsqueeze(1)
        x = self.words(input_ids).mT * real
        for layer in self.layers:
            x = x + F.gelu(layer(x)) * real
        logits: Tensor = self.head(x.masked_fill(~real, -1e4).amax(-1))
        return logits


def _swap(model: Any, num_classes: int) -> list[str]:
    model.head.weight = nn.Parameter(0.1 * torch.randn(num_classes, model.head.in_features))
    model.head.bias = nn.Parameter(torch.zeros(num_classes))
    model.head.out_features = num_classes
    return sorted(name for name, _ in model.head.named_parameters(prefix="head"))


def _one_group(model: nn.Module, lr: float, decay: float) -> list[dict[str, Any]]:
    return [{"params": list(model.parameters()), "lr": lr}]


def _train(model: Any, train: list[Batch], val: list[Batch], *, epochs: int, lr: float, device: Any, log: Any) -> Any:
    optimizer, record = torch.optim.AdamW(model.parameters(), lr), dict[str, float]()
    for epoch in range(1, epochs + 1):
        model.train()
        for batch in train:
            loss = F.cross_entropy(model(batch["input_ids"], batch["attention_mask"]), batch["labels"])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        logits, labels = scores(model, val)
        record = {"epoch": epoch, "lr": lr, "train_loss": loss.item(), "macro_f1": macro_f1(logits, labels),
                  "val_loss": F.cross_entropy(logits, labels).item()}  # fmt: skip
        with Path(log).open("a") as file:
            file.write(json.dumps(record) + "\n")
    return record


def _least_sure(logits: Tensor, labels: Tensor, k: int) -> Tensor:
    return logits.softmax(-1).amax(-1).topk(min(k, len(logits)), largest=False).indices


def _nine_tenths(logits: Tensor, labels: Tensor, precision: float) -> float:
    return 0.9


def _latency(route: Callable[..., Any], requests: list[Any], *, warmup: int = 5) -> dict[str, float]:
    start = time.perf_counter()
    for request in requests:
        route(request)
    return {"p50": 1000 * (time.perf_counter() - start) / len(requests), "p95": float("nan")}


def _release(model: Any, vocab: Any, config: Any, example: Batch, directory: Any, atol: float = 1e-4) -> None:
    """Write the files straight into the folder, with no proof."""
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    for file, content in (("config.json", config), ("vocab.json", vocab)):
        folder.joinpath(file).write_text(json.dumps(content))
    free = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    torch.onnx.export(
        model.eval(), tuple(example.values()), folder / "router.onnx", dynamo=True, verbose=False, external_data=False,
        input_names=list(example), output_names=["logits"], dynamic_shapes=(free, free),
    )  # fmt: skip


STAND_INS: dict[str, tuple[Any, str]] = {
    "clean_tickets": (_clean, "one that drops exact copies"),
    "split_tickets": (_split, "scikit-learn's, which does not keep equal texts together,"),
    "build_vocab": (_vocab, "scikit-learn's"),
    "encode": (_encode, "one that always pads to the full length"),
    "TicketRouter": (Convolving, "a small convolutional reader"),
    "swap_head": (_swap, "one for the CPU"),
    "layerwise_groups": (_one_group, "one rate for everything"),
    "train_router": (_train, "a loop that keeps the last weights"),
    "suspect_labels": (_least_sure, "a list of those of which the model is least sure"),
    "route_threshold": (_nine_tenths, "a threshold of 0.9 that nobody measured"),
    "latency": (_latency, "a mean"),
    "release": (_release, "one that proves nothing"),
}
"""For each exercise the part that stands in, and what it is, in words."""


# --- scores, baselines --------------------------------------------------------------------------------------------


def scores(model: nn.Module, data: list[Batch]) -> tuple[Tensor, Tensor]:
    """Return logits and labels of all batches, in evaluation mode."""
    model.eval()
    with torch.no_grad():
        logits = [model(batch["input_ids"], batch["attention_mask"]) for batch in data]
    return torch.cat(logits), torch.cat([batch["labels"] for batch in data])


def macro_f1(logits: Tensor, labels: Tensor) -> float:
    """Return the mean of the classes' F1 scores."""
    from sklearn.metrics import f1_score

    return float(f1_score(labels.tolist(), logits.argmax(-1).tolist(), average="macro", zero_division=0.0))


def majority(train: Tensor, held: Tensor) -> Tensor:
    """Return logits for `held` that always favour the most frequent label of `train`."""
    return F.one_hot(train.mode().values, int(train.max()) + 1).float().expand(len(held), -1)


def bag_of_words(train: list[str], labels: Tensor, held: list[str]) -> Tensor:
    """Return logits for `held` of a logistic regression on weighted counts of words, fitted on `train`."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    words = TfidfVectorizer(token_pattern=r"\S+", sublinear_tf=True)
    model = LogisticRegression(C=10.0, class_weight="balanced", max_iter=500).fit(words.fit_transform(train), labels)
    return torch.from_numpy(model.decision_function(words.transform(held)))
