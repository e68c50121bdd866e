"""The exercise `fit`: its probe, visible cases and hints."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from torchcourse.checking.probe import Watched
from torchcourse.data import digits
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import kind
from torchcourse.probes.trainable_models import RecordingModel, drawn_weights, flat, number, with_detail
from torchcourse.probes.whole_trainings import is_of

GOOD = 0.97
CHANCE = 0.015
"""By how much a share of 297 digits may fall below what a model reaches on all digits: its standard error is 0.01."""
FREE = 3.0  # a loss may be of the last batch, smoothed, or measured after the epoch
FAR = 30
"""How many times `lr` the highest rate may be; optimizers differ in what suits them."""
SMOOTHING = 0.2
"""How much label smoothing may add to a loss."""
SMOOTHED = 0.3
"""The share that label smoothing may give to the wrong classes."""
MISFIT, LEAST_ROWS = 0.01, 3
"""How far pulls may be from those of a cross-entropy, relative to their size, and how many rows show it."""
KEYS = ("train_loss", "val_loss", "val_accuracy", "lr")
WHOLE = "one number an epoch"
MEAN = "about the mean loss over the samples"
UNCOMPARED = "not compared: validation ran in training mode"


def _judged(model: nn.Module, x: Tensor, y: Tensor) -> tuple[float, float]:
    """Return loss and accuracy of a model in evaluation mode, on everything at once."""
    was = model.training
    model.eval()
    with torch.no_grad():
        logits = model(x)
    model.train(was)
    return F.cross_entropy(logits, y).item(), (logits.argmax(1) == y).sum().item() / len(y)


def _listed(history: dict[str, Any]) -> dict[str, list[Any]]:
    """Return the lists of a history as plain numbers."""
    lists = {key: history.get(key) for key in KEYS}
    return {key: [number(v) for v in value] for key, value in lists.items() if isinstance(value, list)}


def _rates(used: list[float]) -> Callable[..., None]:
    """Return a hook that appends the learning rate of each optimizer step to `used`."""

    def note(optimizer: torch.optim.Optimizer, *_: object) -> None:
        used.append(float(optimizer.param_groups[0]["lr"]))

    return note


class _Rows(TensorDataset):
    """Rows of tensors that are fetched a batch at a time, which is quicker than one by one."""

    def __getitems__(self, rows: list[int]) -> tuple[Tensor, ...]:
        return tuple(tensor[rows] for tensor in self.tensors)


def _as_fetched(batch: Any) -> list[Tensor]:
    return list(batch)


def _pull(q: Tensor, pull: Tensor) -> tuple[float, float]:
    """Compare the pulls of a loss on the logits of the wrong classes, for rows of one label, with a cross-entropy's.

    Cross-entropy pulls them down by `w * (q - s)`, where q is the probability that they have, w the weight of the label
    and s what label smoothing gives them. Return how far the nearest such pulls are, relative to their size, and
    their s.
    """
    near, up = q - q.mean(), pull - pull.mean()
    w = (near * up).sum() / (near * near).sum()
    off = (up - w * near).norm() / pull.norm()
    return off.item(), (q.mean() - pull.mean() / w).item()


class _Losses:
    """A forward hook that notes the mean loss of each pass over the training data, and how the loss of the training
    pulls at the logits."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y = x.cpu(), y.cpu()
        self.total, self.count, self.means, self.pulls = 0.0, 0, list[float](), list[tuple[float, float]]()

    def __call__(self, _model: object, inputs: tuple[Tensor], logits: object) -> None:
        rows = inputs[0].detach().cpu()
        if not isinstance(logits, Tensor) or not logits.requires_grad or not bool((rows[:, :1] > 0).all()):
            return
        places = (rows[:, None] == self.x).all(-1).long().argmax(1)
        self.total += F.cross_entropy(logits.detach().cpu(), self.y[places], reduction="sum").item()
        self.count += len(rows)
        if self.count >= len(self.x):
            self.means.append(self.total / self.count)
            self.total, self.count = 0.0, 0
        shares, labels = logits.detach().cpu().double().softmax(1), self.y[places]

        def note(gradient: Tensor) -> None:
            for label in set(labels.tolist()):
                rows, others = labels == label, torch.arange(shares.shape[1]) != label
                if rows.sum() >= LEAST_ROWS:
                    pull = gradient.detach().cpu().double()[rows][:, others].sum(1)
                    self.pulls.append(_pull(shares[rows][:, others].sum(1), pull))

        logits.register_hook(note)  # type: ignore[no-untyped-call]


class _Judging:
    """A forward hook that notes whether a network ran in training mode on data to judge it by."""

    def __init__(self, x: Tensor) -> None:
        self.x, self.in_training_mode = x, False

    def __call__(self, model: nn.Module, inputs: tuple[Any, ...], _logits: object) -> None:
        if model.training and inputs:
            self.in_training_mode |= is_of(self.x, inputs[0])


def _fitted(answer: Watched, model: nn.Module, parts: dict[str, tuple[Tensor, Tensor]], **more: Any) -> dict[str, Any]:
    """Train, and return the history, the rates in use, and how good the model is on `val` and `test` at the end."""
    device, batch, used = parts["val"][0].device, more.pop("batch"), list[float]()
    loaders = [
        DataLoader(_Rows(parts[name][0].cpu(), parts[name][1].cpu()), batch, shuffle=name == "train",
                   generator=torch.Generator().manual_seed(0), collate_fn=_as_fetched)
        for name in ("train", "val")
    ]  # fmt: skip
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    before = flat(model.parameters())
    hook = register_optimizer_step_pre_hook(_rates(used))
    try:
        history = answer(model, *loaders, device=device, **more)
    finally:
        hook.remove()
    if not isinstance(history, dict):
        return {"returned": kind(history)}
    judged = {f"final {name}": _judged(model, *parts[name]) for name in ("val", "test") if name in parts}
    moved = not torch.equal(before, flat(model.parameters()))
    return {"history": _listed(history), "epochs": more["epochs"], "rates": sorted(set(used)), "moved": moved, **judged}


def probe(
    answer: Watched, train: list[Tensor], val: list[Tensor], test: list[Tensor], weights: dict[str, Tensor],
    epochs: int, lr: float, batch: int,
) -> dict[str, Any]:  # fmt: skip
    """Observe a training: of a small model, whose every run is noted, where `weights` are given, else of a network on
    digits."""
    if weights:
        small = RecordingModel(weights, marked=True)
        parts = {"train": (train[0], train[1]), "val": (val[0], val[1])}
        losses = _Losses(*parts["train"])
        small.register_forward_hook(losses)
        seen = _fitted(answer, small, parts, epochs=epochs, lr=lr, batch=batch)
        small.ran.pop()  # the last run was the probe's own
        learned = [note for note in small.ran if note["train"] and note["graph"]]
        passes = round(sum(note["rows"] for note in learned) / len(train[1]), 3)
        trained = " and ".join(sorted({note["mode"] for note in learned})) + " mode" if learned else "not at all"
        modes = {"trained in": trained, "validated in": small.modes(train=False)}
        return {**seen, **modes, "passes": passes, "losses": losses.means, "pulls": losses.pulls,
                "validated after": _validated(small.ran, len(train[1]))}  # fmt: skip
    device, real = train[0].device, train[0].device.type in ("cpu", "cuda")
    rows = len(train[1]) if real else 2 * batch  # a simulated device is slow and computes what the CPU does
    parts = {
        name: (images[:rows].float() / 16, labels[:rows].long())
        for name, (images, labels) in (("train", train), ("val", val), ("test", test))
    }
    torch.manual_seed(0)
    model = digits.SmallCNN().to(device)
    judging = _Judging(parts["val"][0])
    model.register_forward_hook(judging)
    seen = _fitted(answer, model, parts, epochs=epochs if real else 1, lr=lr, batch=batch)
    return {**seen, "real": real, "validated in": f"{'training' if judging.in_training_mode else 'evaluation'} mode"}


def _validated(ran: list[dict[str, Any]], rows: int) -> int:
    """Return after how many whole passes over the training data a network ran on the other data."""
    learned, after = 0, set[int]()
    for note in ran:
        if note["train"] and note["graph"]:
            learned += note["rows"]
        elif not note["train"] and learned and learned % rows == 0:
            after.add(learned // rows)
    return len(after)


def _shape_of_history(history: dict[str, list[Any]], epochs: int) -> str:
    """Return in words what is listed under the keys; the same words for all that is as it should be."""

    def words(values: list[Any] | None) -> str:
        if values is None:
            return "no list"
        if not all(isinstance(v, float) for v in values):
            return "a list of other things than numbers"
        return WHOLE if len(values) == epochs else "a list of another length"

    under: dict[str, list[str]] = {}
    for key in KEYS:
        under.setdefault(words(history.get(key)), []).append(key)
    return "; ".join(f"{what} under {', '.join(keys)}" for what, keys in under.items())


def _near(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=1e-3, abs_tol=1e-4)


def _whose(losses: list[float], final: float) -> Any:
    """Return of which epoch the weights at the end are, by their loss."""
    detail = f"final validation loss {final:.3f}, best epoch {min(losses):.3f}, last epoch {losses[-1]:.3f}"
    if _near(final, min(losses)):
        return with_detail("those of the best epoch", detail)
    if final < min(losses):
        return with_detail("better than any loss that is listed", detail)
    if _near(final, losses[-1]):
        return with_detail("those of the last epoch", detail)
    listed = any(_near(final, loss) for loss in losses)
    return with_detail("those of another epoch" if listed else "those of no loss that is listed", detail)


def _size_of(listed: list[float], means: list[float]) -> Any:
    """Return whether training losses can be means over the samples; when in an epoch they were taken is free."""
    pairs = list(zip(listed, means, strict=True))
    loss, mean = max(pairs, key=lambda pair: abs(math.log(max(pair[0] / pair[1], 1e-9))))
    if any(loss > FREE * mean + SMOOTHING for loss, mean in pairs):
        words = "far above the mean loss"
    else:
        words = "far below the mean loss" if any(loss < mean / FREE for loss, mean in pairs) else MEAN
    return with_detail(words, f"a factor of {loss / mean:.3g}")


def _kind_of_loss(pulls: list[tuple[float, float]]) -> Any:
    """Return whether the loss pulled at the logits as a cross-entropy does, with or without label smoothing."""
    is_one = all(off <= MISFIT and -MISFIT <= s <= SMOOTHED for off, s in pulls)
    return "cross-entropy of the logits" if is_one else "a loss other than cross-entropy of the logits"


def _share_right(accuracies: list[float], losses: list[float], final: tuple[float, float]) -> Any:
    """Return whether the accuracy listed for the epoch whose weights were kept is the one that these weights have."""
    nearest = min(range(len(losses)), key=lambda i: abs(losses[i] - final[0]))
    listed, detail = accuracies[nearest], f"{accuracies[nearest]:.4g} listed, {final[1]:.4g} measured"
    if _near(listed, final[1]):
        return with_detail("a fraction, and right", detail)
    return with_detail("in percent" if _near(listed, 100 * final[1]) else "another than these weights have", detail)


def derive(case: Case, seen: Observations) -> Observations:
    """Describe a training by facts that every right answer shares, however it trains."""
    if "returned" in seen:
        return {"returned": seen["returned"]}
    history, epochs = seen["history"], seen["epochs"]
    shape = _shape_of_history(history, epochs)
    facts: Observations = {"history": shape}
    if shape != f"{WHOLE} under {', '.join(KEYS)}":
        return facts
    is_comparable = "training" not in seen["validated in"]
    rates = seen["rates"] or sorted(set(history["lr"]))
    if epochs > 1:
        facts["learning rate"] = "changing" if rates[-1] > 1.001 * rates[0] else "constant"
        listed = max(history["lr"]) > 1.001 * min(history["lr"])
        facts["learning rate listed"] = "changing" if listed else "constant"
    facts["rates listed"] = f"{'' if max(history['lr']) > FAR * case.inputs['lr'] else 'not '}far above `lr`"
    if "trained in" in seen:
        facts |= {"training ran in": seen["trained in"], "validation ran in": seen["validated in"],
                  "passes over the training data": seen["passes"]}  # fmt: skip
        if seen["passes"] == epochs:
            after = seen["validated after"]
            facts["validation ran"] = "after each pass" if after == epochs else f"after {after} of {epochs} passes"
            facts["train_loss"] = _size_of(history["train_loss"], seen["losses"])
        facts["training loss"] = _kind_of_loss(seen["pulls"])
        share = _share_right(history["val_accuracy"], history["val_loss"], seen["final val"])
        facts["val_accuracy"] = share if is_comparable else UNCOMPARED
    whose = _whose(history["val_loss"], seen["final val"][0]) if is_comparable else UNCOMPARED
    facts["weights at the end"] = whose if seen["moved"] else "those of the beginning"
    if seen.get("real"):
        share = seen["final test"][1]
        good = f"{GOOD:.0%} or more" if share >= GOOD - CHANCE else f"less than {GOOD:.0%}"
        facts["accuracy on held-out digits"] = with_detail(good, f"{share:.1%}")
    return facts


def _columns(draw: Draw, n: int, sign: float) -> Tensor:
    return torch.cat([torch.full((n, 1), sign), draw.normal(n, 3)], dim=1)


def _digits_for(draw: Draw) -> Iterator[list[Tensor]]:
    images, labels = digits.load()
    order = torch.randperm(len(labels), generator=draw.generator)
    for rows in torch.split(order, [1200, 300, 297]):
        yield [(16 * images[rows]).round().to(torch.uint8), labels[rows].to(torch.uint8)]


def cases(draw: Draw) -> list[Case]:
    def small(sign: float, epochs: int) -> dict[str, Any]:
        """Return inputs for a small model; with a `sign` of -1, each epoch makes it worse on the other data."""
        x, other = _columns(draw, 32, 1.0), _columns(draw, 18, -1.0)  # the last batch of the latter is a small one
        weights = drawn_weights(draw, 3, 6, 2)
        weights["w2"] = 0.1 * weights["w2"]
        weights["b2"] = 0.0 * weights["b2"]
        train, val = [x, (x[:, 1] > 0).long()], [other, (sign * other[:, 1] > 0).long()]
        return {"train": train, "val": val, "test": [], "weights": weights, "epochs": epochs, "lr": 0.05, "batch": 8}

    train, val, test = _digits_for(draw)
    return [
        case("a small problem", **small(1.0, 4)),
        case("validation gets worse and worse", **small(-1.0, 8)),
        case("handwritten digits", train=train, val=val, test=test, weights={}, epochs=15, lr=0.01, batch=64),
        case("a very low lr", **small(1.0, 1) | {"lr": 1e-5}),
    ]


def quotes(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    whose = "weights at the end"
    ran = "validation ran in"
    fields = {"returned": seen.get("returned"), "whose": seen.get(whose), "wanted_whose": wanted.get(whose),
              "ran_in": seen.get(ran), "should_run_in": wanted.get(ran)}  # fmt: skip
    return {name: value for name, value in fields.items() if value is not None}


EXERCISE = Exercise(
    "fit",
    probe,
    cases,
    hints=(
        "You have written the parts already: a training step, an evaluation, a memory for the best weights. What is "
        "left is the loop over epochs and a schedule. In which order do they come?",
        "Compute the learning rate of every step or epoch from `lr`, for instance with a warm-up and a cosine. Where "
        "does an optimizer keep the rate it uses, so that you can set it and write it down?",
        "Copy the weights whenever the validation loss is the lowest so far, and put them back at the end. Then does "
        "`val_loss` hold what the model really has on the validation data, in evaluation mode?",
    ),
    derive=derive,
    quotes=quotes,
    seconds=20.0,
    imports=("sklearn.datasets", "sklearn.metrics"),
)
