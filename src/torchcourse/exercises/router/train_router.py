"""The exercise `train_router`: its probe, visible cases and hints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations, Raised
from torchcourse.probes.data_loading import scratch
from torchcourse.probes.observe import kind
from torchcourse.probes.trainable_models import mode, number, with_detail
from torchcourse.probes.whole_trainings import WatchedTraining

KEYS = ("epoch", "lr", "train_loss", "val_loss", "macro_f1")
EARLIER = '{"epoch": 7, "from": "an earlier run"}'
ALIKE = 0.95  # how near the gradient at the logits has to be to that of cross-entropy, as a cosine
VAL, TRAIN, CLASSES, WORDS, GOOD = 2, 3, 3, 4, 0.4
"""First ids of tickets to validate and to train on; classes; words of a class; macro F1 to reach on held-out ones."""


class Reader(nn.Module):
    """The mean of word vectors, which counts half in training mode, and a head; notes how it runs.

    With a script, validation goes by it: the model then favours class 0, after each epoch by the next number of the
    script. If it goes astray, it takes some tickets for the last class. How many rows it was trained on is a
    parameter, so that the weights of an epoch bring its number back.
    """

    def __init__(self, words: Tensor, head: Tensor, script: list[float], rows: int, astray: bool) -> None:
        super().__init__()
        self.script, self.rows, self.astray = script, rows, astray
        if script:
            self.trained_on = nn.Parameter(torch.zeros(()), requires_grad=False)
        self.words = nn.Embedding(*words.shape)
        self.head = nn.Linear(head.shape[1], head.shape[0])
        with torch.no_grad():
            self.words.weight.copy_(words)
            self.head.weight.copy_(head)
            self.head.bias.zero_()
        self.ran: list[dict[str, Any]] = []
        self.likeness: list[float] = []

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        real = attention_mask[..., None].to(self.words.weight.dtype)
        mean = (self.words(input_ids) * real).sum(1) / real.sum(1)
        logits: Tensor = self.head(0.5 * mean if self.training else mean)
        learns = bool(input_ids[0, 0] == TRAIN)
        note = {"mode": mode(self), "train": learns, "graph": logits.requires_grad, "rows": len(logits)}
        if learns:  # whose tickets are in the words of their classes
            labels = (input_ids[:, 1] - TRAIN - 1) // WORDS
            note |= {"loss": F.cross_entropy(logits.detach(), labels).item(), "words": input_ids[:, 1:].tolist()}
            if logits.requires_grad:
                own = (logits.detach().softmax(1) - F.one_hot(labels, CLASSES)).flatten().cpu()
                logits.register_hook(  # type: ignore[no-untyped-call]
                    lambda slope: self.likeness.append(_likeness(slope.flatten().cpu(), own))
                )
        self.ran.append(note)
        return self._scripted(logits, learns, input_ids) if self.script else logits

    def _scripted(self, logits: Tensor, learns: bool, ids: Tensor) -> Tensor:
        if learns:
            with torch.no_grad():
                self.trained_on.add_(len(logits))
            return logits
        epoch = min(max(round(self.trained_on.item() / self.rows), 1), len(self.script))
        favour = torch.zeros_like(logits)
        favour[:, 0] = self.script[epoch - 1]
        if self.astray:
            favour[ids[:, 1] % 2 == 0] = torch.tensor([0.0] * (CLASSES - 1) + [0.5], device=ids.device)
        return favour + 0 * logits

    def modes(self, train: bool) -> str:
        """Describe the modes in which it ran on tickets to train on, or on others."""
        found = sorted({note["mode"] for note in self.ran if note["train"] == train})
        return " and ".join(found) + " mode" if found else "not at all"

    def epochs(self) -> list[dict[str, Any]]:
        """Return, for each epoch, losses and sizes of the batches trained on, and judged later, and their order."""
        found: list[dict[str, Any]] = []
        before = False
        for note in self.ran:
            learns = note["train"] and note["graph"]
            if learns and not before:
                found.append({"order": [], "learned": [], "judged": []})
            if note["train"] and found:
                found[-1]["learned" if learns else "judged"].append([note["loss"], note["rows"]])
            if learns:
                found[-1]["order"].append(note["words"])
            before = learns
        return found


def _likeness(slope: Tensor, own: Tensor) -> float:
    """Return the cosine between a gradient and that of cross-entropy; 1 where that one has nearly vanished."""
    return float(F.cosine_similarity(slope, own, dim=0)) if own.norm() > 1e-2 else 1.0


def probe(
    answer: Watched, words: Tensor, head: Tensor, train: list[Any], val: list[Any], test: list[Any], epochs: int,
    lr: float, learnable: bool, script: list[float], astray: bool,
) -> Observations:  # fmt: skip
    """Train a small reader on tickets, and observe its log and its weights."""
    rows = sum(len(one[2]) for one in train)
    device, model = words.device, Reader(words.cpu(), head.cpu(), script, rows, astray)
    used, lengths = list[float](), list[int]()
    kinds, outside = set[str](), set[str]()
    watch = WatchedTraining(torch.zeros(0))

    def before_step(optimizer: torch.optim.Optimizer, *_: object) -> None:
        used.append(float(optimizer.param_groups[0]["lr"]))
        lengths.append(len(log.read_text().splitlines()) if log.exists() else 0)
        kinds.add("AdamW" if isinstance(optimizer, torch.optim.AdamW) else type(optimizer).__name__)
        taken = set(map(id, (each for group in optimizer.param_groups for each in group["params"])))
        outside.update(name for name, p in model.named_parameters() if p.requires_grad and id(p) not in taken)
        watch.step(optimizer)

    hook = register_optimizer_step_pre_hook(before_step)
    batches = [[_batch(one) for one in part] for part in (train, val)]
    with scratch():
        log = Path("log.jsonl")
        log.write_text(EARLIER + "\n")
        try:
            best = answer(model, *batches, epochs=epochs, lr=lr, device=device, log=log)
        finally:
            for each in (hook, *watch.handles):
                each.remove()
        lines = log.read_text().splitlines()
    records = [_record(line) for line in lines]
    learned = [note for note in model.ran if note["train"] and note["graph"]]
    seen: Observations = {
        "records": [{key: number(r[key]) for key in KEYS if key in r} for r in records[1:]],
        "earlier": lines[:1] == [EARLIER],
        "best": {key: number(best[key]) for key in KEYS if key in best} if isinstance(best, dict) else kind(best),
        "rates": sorted(set(used)),
        "lines while it trained": lengths[-1] - lengths[0] if lengths else len(records) - 2,
        "optimizer": ", ".join(sorted(kinds)) or "AdamW",
        "outside": ", ".join(sorted(outside)) or "none",
        "gradients at each step": watch.seen()["gradients at each step"],
        "epochs": model.epochs(),
        "likeness": min(model.likeness, default=1.0),
        "passes": sum(note["rows"] for note in learned) / rows,
        "validation ran in": model.modes(train=False),
        "training ran in": model.modes(train=True),
        "model is on": "the device" if model.head.weight.device == device else str(model.head.weight.device),
    }
    judged = {"val": val, "test": test} if learnable else {"val": val}
    return {**seen, **{name: _judged(model, part) for name, part in judged.items()}}


def _batch(one: list[Tensor]) -> dict[str, Tensor]:
    return {name: t.cpu() for name, t in zip(("input_ids", "attention_mask", "labels"), one, strict=True)}


def _record(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _judged(model: nn.Module, part: list[Any]) -> list[Tensor]:
    """Return logits and labels of a part, from the model in evaluation mode."""
    model.eval().cpu()
    batches = [_batch(one) for one in part]
    with torch.no_grad():
        logits = torch.cat([model(b["input_ids"], b["attention_mask"]) for b in batches])
    return [logits, torch.cat([b["labels"] for b in batches])]


def _f1(predicted: Tensor, labels: Tensor, *parts: Tensor) -> float:
    """Return the mean F1 of the classes that are in `parts`."""
    c = torch.tensor(sorted(set(torch.cat(parts).tolist())))[:, None]
    both = ((predicted == c) & (labels == c)).sum(1).double()
    return float((2 * both / ((predicted == c).sum(1) + (labels == c).sum(1))).mean())


def _near(a: Any, b: float) -> bool:
    return isinstance(a, float) and abs(a - b) <= 1e-4 + 2e-3 * abs(b)


def derive(_case: Case, seen: Observations) -> Observations:
    """Describe a training by facts that every right answer shares."""
    records = seen["records"]
    lacking = sorted({key for r in records for key in KEYS if not isinstance(r.get(key), float)})
    facts: Observations = {
        "earlier lines of the log": "still there" if seen["earlier"] else "gone",
        "the log lacks": ("everything" if not records else ", ".join(lacking)) if lacking or not records else "nothing",
        **{name: seen[name] for name in ("training ran in", "validation ran in", "model is on")},
    }
    logits, labels = seen["val"]
    final = F.cross_entropy(logits, labels).item()
    if "test" in seen:
        answered, truth = seen["test"][0].argmax(-1), seen["test"][1]
        good = _f1(answered, truth, answered, truth)
        words = f"{GOOD} or more" if good >= GOOD else f"below {GOOD}"
        facts["macro F1 on held-out tickets"] = with_detail(words, f"{good:.3f}")
    losses = [r.get("val_loss") for r in records]
    if not records or not all(isinstance(loss, float) for loss in losses):
        return facts
    best = records[losses.index(min(losses))]
    if "training" in seen["validation ran in"]:  # the log has the losses of another model
        facts["weights at the end"] = facts["macro_f1 of the best epoch"] = "judged in training mode"
    else:
        sizes = [len(one[2]) for one in _case.inputs["val"]]
        facts["weights at the end"] = _whose(records, final, logits, labels, sizes)
        own = next((r for r in (best, *records) if _near(r["val_loss"], final)), best)
        facts["macro_f1 of the best epoch"] = _score(own.get("macro_f1"), logits, labels)
    facts["training stopped"] = _stop(losses, _case.inputs["epochs"])
    facts["passes over the tickets"] = "one an epoch" if _near(seen["passes"] / len(records), 1.0) else "others"
    there = seen["lines while it trained"]
    missing = with_detail("missing lines", f"{there} of the {len(records) - 1} lines of the epochs before")
    facts["the log in the last epoch"] = "up to date" if there >= len(records) - 1 else missing
    facts |= {"optimizer": seen["optimizer"], "parameters that no optimizer has": seen["outside"]}
    counted = [r.get("epoch") for r in records] == [float(n) for n in range(1, len(records) + 1)]
    facts["epochs in the log"] = "1, 2, 3 and so on" if counted else "others"
    known = {"the best epoch's record": best, "the last epoch's record": records[-1]}
    other = seen["best"] if isinstance(seen["best"], str) else "something else"
    facts["returned"] = next((words for words, record in known.items() if record == seen["best"]), other)
    rates = {r.get("lr") for r in records if isinstance(r.get("lr"), float)}
    good_rates = all(any(_near(rate, used) for used in seen["rates"]) for rate in rates) or not seen["rates"]
    facts["lr in the log"] = "as used" if good_rates else "another than was used"
    return {**facts, **_of_epochs(seen, records, _case.inputs["lr"])}


def _of_epochs(seen: Observations, records: list[Any], lr: float) -> Observations:
    """Describe the steps of all epochs: their gradients, their order, their losses and their rate."""
    epochs, rates = seen["epochs"], seen["rates"]
    logged = [r.get("train_loss") for r in records]
    facts: Observations = {"gradients at each step": seen["gradients at each step"]}
    orders, count = len({str(epoch["order"]) for epoch in epochs}), len(epochs)
    if orders >= (1 if count < 6 else 2 if count < 9 else 3):  # some epochs may come by the same order
        facts["orders of the batches"] = "drawn anew"
    else:
        detail = f"in the same order in all {count}" if orders == 1 else f"in no more than {orders} orders in {count}"
        facts["orders of the batches"] = with_detail("repeated", f"{detail} epochs")
    means = zip(logged, epochs, strict=False)
    wrong = next(((loss, epoch) for loss, epoch in means if not _is_mean(loss, epoch)), None)
    if wrong is None:
        facts["train_loss"] = "a mean over the epoch"
    else:
        losses = [loss for loss, _ in wrong[1]["learned"]]
        words = "the last batch's" if _near(wrong[0], losses[-1]) else "another number"
        detail = f"{wrong[0]:.4g} where the losses of the batches were " + ", ".join(f"{loss:.4g}" for loss in losses)
        facts["train_loss"] = with_detail(words, detail)
    facts["gradients at the logits"] = "cross-entropy's" if seen["likeness"] > ALIKE else "another loss's"
    near = not rates or 0.5 * lr <= max(rates) <= 1.01 * lr
    facts["rate"] = "lr" if near else with_detail("another", f"{max(rates):g} at most, and `lr` is {lr:g}")
    return facts


def _is_mean(logged: Any, epoch: dict[str, Any]) -> bool:
    """Return whether a number is a mean of an epoch's losses, over its tickets or its batches."""
    for part in (epoch["learned"], epoch["judged"]):
        tickets = sum(rows for _, rows in part)
        if part and (
            _near(logged, sum(loss * rows for loss, rows in part) / tickets)
            or _near(logged, sum(loss for loss, _ in part) / len(part))
        ):
            return True
    return False


def _whose(records: list[Any], final: float, logits: Tensor, labels: Tensor, sizes: list[int]) -> Any:
    """Say which epoch's weights the model has, by its loss."""
    losses = [r["val_loss"] for r in records]
    detail = f"{final:.3f}; lowest in the log {min(losses):.3f}, last {losses[-1]:.3f}"
    if _near(final, min(losses)):
        return with_detail("those of the best epoch", detail)
    parts = [
        F.cross_entropy(x, y).item()
        for x, y in zip(torch.split(logits, sizes), torch.split(labels, sizes), strict=True)
    ]
    others = {"those of an epoch of which the log has the last batch's loss": parts[-1],
              "those of an epoch of which the log has a mean of batch means": sum(parts) / len(parts)}  # fmt: skip
    for words, loss in others.items():
        if _near(loss, min(losses)):
            return with_detail(words, detail)
    if _near(final, losses[-1]):
        return with_detail("those of the last epoch", detail)
    scores = [r.get("macro_f1") for r in records]
    best = losses[scores.index(max(scores))] if all(isinstance(score, float) for score in scores) else min(losses)
    another = "another epoch" if any(_near(final, loss) for loss in losses) else "no epoch in the log"
    return with_detail(f"those of {'the epoch with the best macro_f1' if _near(final, best) else another}", detail)


def _stop(losses: list[float], epochs: int) -> Any:
    """Compare the number of epochs with what the losses ask for: patience of two."""
    best, since, wanted = float("inf"), 0, epochs
    for count, loss in enumerate([*losses, *[float("inf")] * epochs][:epochs], 1):
        best, since = (loss, 0) if loss < best else (best, since + 1)
        if since == 2:
            wanted = count
            break
    detail = f"after {len(losses)} epochs, and should have after {wanted}"
    if len(losses) == wanted:
        return with_detail("when it should", detail)
    late = "an epoch too late" if len(losses) == wanted + 1 else "too late"
    return with_detail(late if len(losses) > wanted else "too early", detail)


def _score(logged: Any, logits: Tensor, labels: Tensor) -> Any:
    predicted = logits.argmax(-1)
    accuracy, f1 = (predicted == labels).double().mean().item(), _f1(predicted, labels, predicted, labels)
    detail = f"{logged:.4g}, where macro F1 is {f1:.4g} and accuracy {accuracy:.4g}" if logged is not None else "none"
    present = {*predicted.tolist(), *labels.tolist()}
    numbers = {"macro F1": f1, "the accuracy": accuracy, "macro F1 in percent": 100 * f1,
               "one with absent classes": f1 * len(present) / logits.shape[1],
               "one of labelled classes": _f1(predicted, labels, labels)}  # fmt: skip
    words = next((words for words, value in numbers.items() if _near(logged, value)), "another number")
    return with_detail(words, detail)


def tickets(draw: Draw, sizes: list[int], first: int, shares: list[float], wrong: float, turned: int = 0) -> list[Any]:
    """Draw batches of these sizes; classes come in these shares, a share `wrong` of tickets in another's words.

    The labels are `turned` by that many classes.
    """
    made = []
    for size in sizes:
        labels = (draw.uniform(0, 1, size)[:, None] > torch.tensor(shares).cumsum(0)[:-1]).sum(1)
        each = torch.arange(len(shares))[:size]
        labels[: len(each)] = each
        spoken = torch.where(draw.flags(size, share=wrong), 0, labels)
        ids = TRAIN + 1 + spoken[:, None] * WORDS + draw.integers(0, WORDS, size, 4)
        ids = torch.cat([torch.full((size, 1), first), ids], dim=1)
        mask = torch.arange(5) < draw.integers(3, 6, size, 1)
        made.append([ids, mask, (labels + turned) % CLASSES])
    return made


def training(
    draw: Draw, name: str, turned: int, epochs: int, lr: float, val: list[int], script: list[float] | None = None,
    val_shares: tuple[float, ...] = (0.6, 0.3, 0.1), astray: bool = False,
) -> Case:  # fmt: skip
    """Return a case; with labels `turned` in validation, each epoch makes it worse there; a script says how it goes.

    If it goes `astray`, some tickets are taken for the last class.
    """
    shares = [0.6, 0.3, 0.1]
    return case(
        name, words=draw.normal(TRAIN + 1 + CLASSES * WORDS, 6) / 2, head=draw.normal(CLASSES, 6) / 4,
        train=tickets(draw, [24, 24, 24, 16], TRAIN, shares, 0.0), epochs=epochs, lr=lr, script=script or [],
        learnable=not turned and not script, astray=astray,
        val=tickets(draw, val, VAL, [*val_shares], 0.15 if not turned else 0.0, turned),
        test=tickets(draw, [60], VAL, [0.5, 0.3, 0.2], 0.0),
    )  # fmt: skip


UPS_AND_DOWNS = [-2.0, -3.0, -1.0, -2.0, 0.0, -1.0, 0.4, -1.0, 0.404, 0.404, -1.0]


def cases(draw: Draw) -> list[Case]:
    two = (0.6, 0.4)
    return [
        training(draw, "validation improves", 0, 20, 0.05, [20, 20, 5]),
        training(draw, "validation gets worse and worse", 1, 9, 0.02, [20, 7]),
        training(draw, "better, worse, then a little better", 0, 8, 0.05, [20, 12], [1.0, -3.0, -1.5, -0.5, 0.1], two,
                 astray=True),
        training(draw, "single bad epochs, and a class that is not there", 0, 11, 0.05, [20, 9], UPS_AND_DOWNS, two),
    ]  # fmt: skip


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    names = {"weights": "weights at the end", "stop": "training stopped", "f1": "macro_f1 of the best epoch",
             "good": "macro F1 on held-out tickets", "gradients": "gradients at each step", "rate": "rate",
             "order": "orders of the batches", "loss": "train_loss",
             "logged": "the log in the last epoch", "optimizer": "optimizer",
             "outside": "parameters that no optimizer has"}  # fmt: skip
    fields: dict[str, object] = {f: getattr(seen[n], "message", seen[n]) for f, n in names.items() if n in seen}
    whose = seen.get("weights at the end")
    fields |= {"whose": whose.kind} if isinstance(whose, Raised) else {}
    return {**fields, "lacks": seen.get("the log lacks")}


EXERCISE = Exercise(
    "train_router",
    probe,
    cases,
    hints=(
        "Three parts: an epoch of training, a judgement on all of `val`, and the book-keeping. In which mode does each "
        "run the model, and which of them needs no graph?",
        "A `state_dict` holds the model's own tensors, and training goes on changing these. What do you keep when an "
        "epoch is the best so far, and when do you put it back?",
        "Collect logits and labels of all validation batches before you compute anything: neither a mean of batch "
        'losses nor a mean of batch F1 is what is asked for. `open(log, "a")` appends.',
    ),
    derive=derive,
    quotes=quotes,
    seconds=30.0,
)
