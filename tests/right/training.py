"""Lesson 05: right answers in other styles than the reference's. Each must pass every case on every device."""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

# --- cross_entropy -----------------------------------------------------------------------------------------------


def cross_entropy_shifted(logits: Tensor, labels: Tensor) -> Tensor:
    shifted = logits - logits.max(dim=-1, keepdim=True).values.detach()
    logs = shifted - shifted.exp().sum(-1, keepdim=True).log()
    return -logs[torch.arange(len(labels), device=labels.device), labels].mean()


def cross_entropy_from_one_hot(logits: Tensor, labels: Tensor) -> Tensor:
    rows = torch.zeros_like(logits).scatter_(1, labels[:, None], 1.0)
    return torch.logsumexp(logits, 1).mean() - (logits * rows).sum() / len(labels)


def cross_entropy_of_differences(logits: Tensor, labels: Tensor) -> Tensor:
    gaps = logits - torch.take_along_dim(logits, labels.view(-1, 1), 1)
    return gaps.logsumexp(-1).sum().div(gaps.size(0))


def cross_entropy_by_logaddexp(logits: Tensor, labels: Tensor) -> Tensor:
    total = logits[:, 0]
    for column in logits.unbind(1)[1:]:
        total = torch.logaddexp(total, column)
    return torch.stack([t - row[y] for t, row, y in zip(total, logits, labels, strict=True)]).mean()


# --- train_step --------------------------------------------------------------------------------------------------


def step_clearing_by_hand(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> float:
    model.train(True)
    for p in model.parameters():
        p.grad = None
    loss = loss_fn(model(batch[0]), batch[1])
    torch.autograd.backward(loss)
    optimizer.step()
    return float(loss)


def step_clearing_afterwards(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> float:
    x, y = batch
    prediction = model.train()(x)
    loss = loss_fn(prediction, y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
    number: float = loss.detach().cpu().tolist()
    return number


def step_with_closure(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> float:
    model.train()

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss: Tensor = loss_fn(model(batch[0]), batch[1])
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    return float(optimizer.step(closure).item())


def step_from_gradients(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> float:
    model.train()
    loss = loss_fn(model(batch[0]), batch[1])
    parameters = list(model.parameters())
    for p, g in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
        p.grad = g
    optimizer.step()
    return float(loss.item())


# --- evaluate ----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def in_eval(model: nn.Module) -> Iterator[None]:
    was = model.training
    try:
        yield model.eval() and None
    finally:
        model.train(was)


@torch.inference_mode()
def evaluate_in_inference_mode(model: Any, loader: Any, loss_fn: Any, device: Any) -> dict[str, float]:
    with in_eval(model):
        seen = [(model(x.to(device)), y.to(device)) for x, y in loader]
    n = sum(len(y) for _, y in seen)
    return {
        "loss": sum(float(loss_fn(out, y)) * len(y) / n for out, y in seen),
        "accuracy": sum(int(out.argmax(-1).eq(y).sum()) for out, y in seen) / n,
    }


def evaluate_on_the_cpu_at_once(model: Any, loader: Any, loss_fn: Any, device: Any) -> dict[str, Any]:
    mode, outputs, labels = model.training, [], []
    model.train(False)
    for x, y in loader:
        with torch.no_grad():
            outputs.append(model(x.to(device)).cpu())
        labels.append(y)
    model.train(mode)
    out, y = torch.cat(outputs), torch.cat(labels)
    return {"accuracy": (out.max(1).indices == y).float().mean(), "loss": loss_fn(out, y), "count": len(y)}


def evaluate_with_sums_on_the_device(model: Any, loader: Any, loss_fn: Any, device: Any) -> dict[str, float]:
    was = model.training
    model.eval()
    sums = torch.zeros(3, device=device)
    with torch.set_grad_enabled(False):
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            out = model(x)
            right = (out.argmax(1) == y).float().sum()
            sums += torch.stack([loss_fn(out, y) * x.size(0), right, sums.new_ones(()) * len(x)])
    if was:
        model.train()
    loss, hits, n = sums.tolist()
    return {"loss": loss / n, "accuracy": hits / n}


# --- overfit_one_batch -------------------------------------------------------------------------------------------


def overfit_by_steps(model: Any, batch: Any, loss_fn: Any, optimizer: Any, steps: int) -> list[float]:
    return [step_clearing_afterwards(model, batch, loss_fn, optimizer) for _ in range(steps)]


def overfit_with_while(model: Any, batch: Any, loss_fn: Any, optimizer: Any, steps: int) -> list[float]:
    history: list[float] = []
    while len(history) < steps:
        model.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        history += [float(loss.detach())]
        loss.backward()
        optimizer.step()
        del loss
    return history


def overfit_numbers_at_the_end(model: Any, batch: Any, loss_fn: Any, optimizer: Any, steps: int) -> list[float]:
    x, y = batch
    losses = torch.zeros(steps, dtype=x.dtype, device=x.device)
    for i in range(steps):
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        losses[i] = loss.detach()
        optimizer.step()
    return [float(loss) for loss in losses.cpu()]


# --- accumulated_step --------------------------------------------------------------------------------------------


def accumulated_rescaling_gradients(model: Any, micro_batches: Any, loss_fn: Any, optimizer: Any) -> float:
    optimizer.zero_grad()
    total, count = 0.0, 0
    for x, y in micro_batches:
        loss = loss_fn(model(x), y) * x.shape[0]
        loss.backward()
        total, count = total + float(loss.detach()), count + x.shape[0]
    for p in model.parameters():
        if p.grad is not None:
            p.grad /= count
    optimizer.step()
    return total / count


def accumulated_clearing_afterwards(model: Any, micro_batches: Any, loss_fn: Any, optimizer: Any) -> float:
    sizes = [len(x) for x, _ in micro_batches]
    losses = []
    for size, (x, y) in zip(sizes, micro_batches, strict=True):
        loss = size / sum(sizes) * loss_fn(model(x), y)
        loss.backward()
        losses.append(loss.item())
    optimizer.step()
    optimizer.zero_grad()
    return math.fsum(losses)


def accumulated_in_own_sums(model: Any, micro_batches: Any, loss_fn: Any, optimizer: Any) -> float:
    parameters = list(model.parameters())
    sums, n, value = [torch.zeros_like(p) for p in parameters], sum(len(y) for _, y in micro_batches), 0.0
    for x, y in micro_batches:
        loss = loss_fn(model(x), y)
        for total, g in zip(sums, torch.autograd.grad(loss, parameters), strict=True):
            total.add_(g, alpha=len(y) / n)
        value += loss.item() * len(y) / n
    for p, total in zip(parameters, sums, strict=True):
        p.grad = total
    optimizer.step()
    return float(value)


# --- clip_gradients ----------------------------------------------------------------------------------------------


def clip_by_factor(parameters: Any, max_norm: float) -> float:
    grads = [p.grad for p in list(parameters) if p.grad is not None]
    norm = torch.stack([g.norm() for g in grads]).norm()
    factor = torch.clamp(max_norm / (norm + 1e-6), max=1.0)
    for g in grads:
        g *= factor.to(g.dtype)
    return norm.item()


def clip_one_vector(parameters: Any, max_norm: float) -> float:
    kept = [p for p in parameters if p.grad is not None]
    norm = float(torch.cat([p.grad.reshape(-1) for p in kept]).pow(2).sum().sqrt())
    scale = 1.0 if norm <= max_norm else max_norm / norm
    for p in kept:
        p.grad.copy_(p.grad * scale)
    return norm


def clip_with_foreach(parameters: Any, max_norm: float) -> float:
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = math.hypot(*(g.norm(2).item() for g in grads))
    if norm > max_norm:
        for g in grads:
            g.div_(norm / max_norm)
    return float(norm)


# --- warmup_cosine -----------------------------------------------------------------------------------------------


def schedule_early_returns(step: int, *, warmup: int, total: int, peak: float, floor: float = 0.0) -> float:
    if step >= total:
        return floor
    if step < warmup:
        return peak / warmup * step
    angle = math.pi * (step - warmup) / (total - warmup)
    return (peak + floor) / 2 + (peak - floor) / 2 * math.cos(angle)


def schedule_by_squares(step: int, *, warmup: int, total: int, peak: float, floor: float = 0.0) -> float:
    climbing = np.interp(step, [0, warmup], [0, peak]) if warmup else peak
    half = np.clip((step - warmup) / (total - warmup), 0, 1) * np.pi / 2
    return float(climbing if step < warmup else floor * np.sin(half) ** 2 + peak * np.cos(half) ** 2)


def schedule_in_torch(step: int, *, warmup: int, total: int, peak: float, floor: float = 0.0) -> float:
    done = torch.tensor((step - warmup) / (total - warmup), dtype=torch.float64).clamp(0, 1)
    down = torch.lerp(torch.tensor(floor, dtype=torch.float64), torch.tensor(peak, dtype=torch.float64),
                      (1 + torch.cos(done * math.pi)) / 2)  # fmt: skip
    return down.item() if step >= warmup else step * peak / warmup


# --- EarlyStopping -----------------------------------------------------------------------------------------------


class StoppingFromHistory:
    def __init__(self, patience: int, min_delta: float = 0.0) -> None:
        self.patience, self.min_delta, self.improved = patience, min_delta, list[bool]()
        self.best: float = math.inf
        self.saved: dict[str, Tensor] = {}

    def update(self, metric: float, model: nn.Module) -> bool:
        better = self.best - metric > self.min_delta
        self.improved.append(better)
        if better:
            self.best = float(metric)
            self.saved = {k: v.detach().cpu().clone() for k, v in model.state_dict().items()}
        return len(self.improved) >= self.patience and not any(self.improved[-self.patience :])

    def restore(self, model: nn.Module) -> None:
        model.load_state_dict(self.saved)


class StoppingWithCountdown:
    best: float | None = None

    def __init__(self, patience: int, min_delta: float = 0.0) -> None:
        self.full = self.left = patience
        self.margin = min_delta

    def update(self, metric: float, model: nn.Module) -> bool:
        valid = not math.isnan(metric)
        if valid and (self.best is None or metric + self.margin < self.best):
            self.best, self.left = metric, self.full
            self.tensors = [t.clone() for t in (*model.parameters(), *model.buffers())]
            return False
        self.left -= 1
        return self.left <= 0

    @torch.no_grad()
    def restore(self, model: nn.Module) -> None:
        for t, saved in zip((*model.parameters(), *model.buffers()), self.tensors, strict=True):
            t.copy_(saved)


class StoppingThroughBytes:
    def __init__(self, patience: int, min_delta: float = 0.0) -> None:
        import io

        self.patience, self.min_delta, self.bad, self.best = patience, min_delta, 0, float("inf")
        self.file = io.BytesIO()

    def update(self, metric: float, model: nn.Module) -> bool:
        if metric < self.best - self.min_delta:
            self.bad, self.best = 0, metric
            self.file.seek(0)
            torch.save(model.state_dict(), self.file)
        else:
            self.bad += 1
        return bool(self.bad >= self.patience)

    def restore(self, model: nn.Module) -> None:
        self.file.seek(0)
        model.load_state_dict(torch.load(self.file))


# --- AdamW -------------------------------------------------------------------------------------------------------


class AdamWWithTensors(torch.optim.Optimizer):
    def __init__(
        self, params: Any, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:  # fmt: skip
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, defaults)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        loss = closure() if closure else None
        with torch.no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    s = self.state[p]
                    if len(s) == 0:
                        s["step"] = torch.tensor(0.0)
                        s["exp_avg"], s["exp_avg_sq"] = torch.zeros_like(p), torch.zeros_like(p)
                    s["step"] += 1
                    (b1, b2), t = group["betas"], s["step"].item()
                    s["exp_avg"].mul_(b1).add_(p.grad, alpha=1 - b1)
                    s["exp_avg_sq"].mul_(b2).add_(p.grad * p.grad, alpha=1 - b2)
                    p.data.mul_(1 - group["lr"] * group["weight_decay"])
                    denominator = s["exp_avg_sq"].sqrt() / math.sqrt(1 - b2**t) + group["eps"]
                    p.data.addcdiv_(s["exp_avg"], denominator, value=-group["lr"] / (1 - b1**t))
        return loss


class AdamWUncorrectedState(torch.optim.Optimizer):
    """Keeps the products of the betas in place of a count of steps."""

    def __init__(self, params: Any, lr: float = 1e-3, betas: Any = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 1e-2) -> None:  # fmt: skip
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for g in self.param_groups:
            for p in (p for p in g["params"] if p.grad is not None):
                s = self.state[p]
                m, v, left1, left2 = s.get("all", (torch.zeros_like(p), torch.zeros_like(p), 1.0, 1.0))
                b1, b2 = g["betas"]
                m, v = torch.lerp(p.grad, m, b1), b2 * v + (1 - b2) * p.grad.square()
                left1, left2 = left1 * b1, left2 * b2
                s["all"] = (m, v, left1, left2)
                size = m / (1 - left1) / ((v / (1 - left2)).sqrt() + g["eps"])
                p.copy_(p - g["lr"] * (g["weight_decay"] * p + size))


# --- macro_f1 ----------------------------------------------------------------------------------------------------


def macro_f1_by_confusion(logits: Tensor, labels: Tensor, num_classes: int) -> float:
    predicted = logits.argmax(-1)
    table = torch.zeros(num_classes * num_classes, device=labels.device)
    table.index_add_(0, labels * num_classes + predicted, torch.ones(len(labels), device=labels.device))
    table = table.view(num_classes, num_classes)
    hits, sums = table.diagonal(), table.sum(0) + table.sum(1)
    return float(torch.where(sums > 0, 2 * hits / sums, 0.0).mean())


def macro_f1_in_python(logits: Tensor, labels: Tensor, num_classes: int) -> float:
    pairs = list(zip(logits.argmax(1).tolist(), labels.tolist(), strict=True))
    scores = []
    for c in range(num_classes):
        tp = sum(p == c == y for p, y in pairs)
        wrong = sum((p == c) != (y == c) for p, y in pairs)
        scores.append(2 * tp / (2 * tp + wrong) if tp else 0.0)
    return sum(scores) / num_classes


def macro_f1_by_scikit_learn(logits: Tensor, labels: Tensor, num_classes: int) -> float:
    from sklearn.metrics import f1_score

    predicted = logits.argmax(1).cpu().numpy()
    classes = range(num_classes)
    return float(f1_score(labels.cpu().numpy(), predicted, labels=classes, average="macro", zero_division=0))


# --- seed_everything ---------------------------------------------------------------------------------------------


def seed_with_offsets(seed: int) -> None:
    torch.manual_seed(seed + 2)
    np.random.seed((seed + 1) % 2**32)
    random.seed(f"run {seed}")


def seed_devices_by_name(seed: int) -> None:
    for seeding in (random.seed, np.random.seed, torch.random.manual_seed, torch.cuda.manual_seed_all):
        seeding(seed)


def seed_states(seed: int) -> None:
    random.setstate(random.Random(seed).getstate())
    np.random.set_state(np.random.RandomState(seed).get_state())
    torch.manual_seed(seed)


# --- fit ---------------------------------------------------------------------------------------------------------


def fit_with_one_cycle(
    model: Any, train_loader: Any, val_loader: Any, *, epochs: int, lr: float, device: Any
) -> dict[str, list[float]]:
    model.to(device)
    optimizer = torch.optim.Adam(model.parameters())
    cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=lr, total_steps=epochs * len(train_loader))
    history: dict[str, list[float]] = {k: [] for k in ("train_loss", "val_loss", "val_accuracy", "lr")}
    stopper = StoppingWithCountdown(patience=10**9)
    for _ in range(epochs):
        losses = []
        for x, y in train_loader:
            losses.append(step_clearing_afterwards(model, (x.to(device), y.to(device)), F.cross_entropy, optimizer))
            cycle.step()
        judged = evaluate_with_sums_on_the_device(model, val_loader, F.cross_entropy, device)
        history["train_loss"].append(sum(losses) / len(losses))
        history["val_loss"].append(judged["loss"])
        history["val_accuracy"].append(judged["accuracy"])
        history["lr"].append(cycle.get_last_lr()[0])
        stopper.update(judged["loss"], model)
    stopper.restore(model)
    return history


def fit_with_momentum(
    model: Any, train_loader: Any, val_loader: Any, *, epochs: int, lr: float, device: Any
) -> dict[str, list[float]]:
    optimizer = torch.optim.SGD(model.parameters(), lr=3 * lr, momentum=0.9, nesterov=True)
    stopper = StoppingFromHistory(patience=epochs + 1)
    rows: list[tuple[float, ...]] = []
    for epoch in range(epochs):
        for group in optimizer.param_groups:
            group["lr"] = 3 * lr * schedule_early_returns(epoch + 1, warmup=1, total=epochs + 1, peak=1.0)
        before = optimizer.param_groups[0]["lr"]
        total = sum(
            step_with_closure(model, (x.to(device), y.to(device)), nn.CrossEntropyLoss(), optimizer) * len(x)
            for x, y in train_loader
        )
        judged = evaluate_in_inference_mode(model, val_loader, nn.CrossEntropyLoss(), device)
        stopper.update(judged["loss"], model)
        rows.append((total / len(train_loader.dataset), judged["loss"], judged["accuracy"], before))
    stopper.restore(model)
    columns = [list(column) for column in zip(*rows, strict=True)]
    return dict(zip(["train_loss", "val_loss", "val_accuracy", "lr"], columns, strict=True))


def fit_without_an_optimizer(
    model: Any, train_loader: Any, val_loader: Any, *, epochs: int, lr: float, device: Any
) -> dict[str, Sequence[float]]:
    velocity = {p: torch.zeros_like(p) for p in model.parameters()}
    size = {p: torch.zeros_like(p) for p in model.parameters()}
    out: dict[str, list[float]] = {"lr": [], "val_loss": [], "val_accuracy": [], "train_loss": []}
    best: Any = None
    for epoch in range(epochs):
        rate, last = lr * (1 - epoch / (epochs + 1)), 0.0
        model.train()
        for x, y in train_loader:
            loss = F.cross_entropy(model(x.to(device)), y.to(device), label_smoothing=0.05)
            model.zero_grad()
            loss.backward()
            last = loss.item()
            with torch.no_grad():
                for p in velocity:
                    velocity[p] = 0.9 * velocity[p] + 0.1 * p.grad
                    size[p] = 0.99 * size[p] + 0.01 * p.grad**2
                    p -= rate * velocity[p] / (size[p].sqrt() + 1e-6)
        judged = evaluate_in_inference_mode(model, val_loader, F.cross_entropy, device)
        for key, value in {"lr": rate, "val_loss": judged["loss"], "val_accuracy": judged["accuracy"]}.items():
            out[key].append(value)
        out["train_loss"].append(last)
        if best is None or judged["loss"] <= best[0]:
            best = (judged["loss"], {k: v.clone() for k, v in model.state_dict().items()})
    model.load_state_dict(best[1])
    return dict(out)


RIGHT: dict[str, list[Callable[..., Any]]] = {
    "cross_entropy": [
        cross_entropy_shifted, cross_entropy_from_one_hot, cross_entropy_of_differences, cross_entropy_by_logaddexp,
    ],
    "train_step": [step_clearing_by_hand, step_clearing_afterwards, step_with_closure, step_from_gradients],
    "evaluate": [evaluate_in_inference_mode, evaluate_on_the_cpu_at_once, evaluate_with_sums_on_the_device],
    "overfit_one_batch": [overfit_by_steps, overfit_with_while, overfit_numbers_at_the_end],
    "accumulated_step": [
        accumulated_rescaling_gradients, accumulated_clearing_afterwards, accumulated_in_own_sums,
    ],
    "clip_gradients": [clip_by_factor, clip_one_vector, clip_with_foreach],
    "warmup_cosine": [schedule_early_returns, schedule_by_squares, schedule_in_torch],
    "EarlyStopping": [StoppingFromHistory, StoppingWithCountdown, StoppingThroughBytes],
    "AdamW": [AdamWWithTensors, AdamWUncorrectedState],
    "macro_f1": [macro_f1_by_confusion, macro_f1_in_python, macro_f1_by_scikit_learn],
    "seed_everything": [seed_with_offsets, seed_devices_by_name, seed_states],
    "fit": [fit_with_one_cycle, fit_with_momentum, fit_without_an_optimizer],
}  # fmt: skip
