# %% [markdown]
# # 5 · Training

# %% tags=["setup"]
import copy
import math
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torchcourse import Unattempted, check, hint

# %% exercise="cross_entropy" points=2
def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross-entropy of logits (n, c) and labels (n,), finite whatever the logits."""
    ### BEGIN SOLUTION
    chosen = logits.gather(1, labels.unsqueeze(1)).squeeze(1)
    return (logits.logsumexp(dim=1) - chosen).mean()
    ### END SOLUTION

# %% check="cross_entropy"
check("cross_entropy")

# %% exercise="train_step" points=2
def train_step(model, batch, loss_fn, optimizer) -> float:
    """One optimizer step on a batch (x, y), in training mode; the loss as a Python float."""
    ### BEGIN SOLUTION
    x, y = batch
    model.train()
    optimizer.zero_grad()
    loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()
    ### END SOLUTION

# %% check="train_step"
check("train_step")

# %% exercise="evaluate" points=2
def evaluate(model, loader, loss_fn, device) -> dict[str, float]:
    """Mean loss and accuracy over all samples of a loader; the model keeps its mode."""
    ### BEGIN SOLUTION
    was_training = model.training
    model.eval()
    loss, right, count = 0.0, 0, 0
    with torch.no_grad():
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            logits = model(x)
            loss += loss_fn(logits, y).item() * len(y)
            right += (logits.argmax(dim=1) == y).sum().item()
            count += len(y)
    model.train(was_training)
    return {"loss": loss / count, "accuracy": right / count}
    ### END SOLUTION

# %% check="evaluate"
check("evaluate")

# %% exercise="overfit_one_batch" points=2
def overfit_one_batch(model, batch, loss_fn, optimizer, steps: int) -> list[float]:
    """Train on one batch again and again; the loss before each step."""
    ### BEGIN SOLUTION
    x, y = batch
    history = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        history.append(loss.item())
    return history
    ### END SOLUTION

# %% check="overfit_one_batch"
check("overfit_one_batch")

# %% exercise="accumulated_step" points=2
def accumulated_step(model, micro_batches, loss_fn, optimizer) -> float:
    """One step on several micro-batches, as if they had been one batch; the loss of that batch."""
    ### BEGIN SOLUTION
    total = sum(len(y) for _, y in micro_batches)
    optimizer.zero_grad()
    mean = 0.0
    for x, y in micro_batches:
        loss = loss_fn(model(x), y) * (len(y) / total)
        loss.backward()
        mean += loss.item()
    optimizer.step()
    return mean
    ### END SOLUTION

# %% check="accumulated_step"
check("accumulated_step")

# %% exercise="clip_gradients" points=2
def clip_gradients(parameters, max_norm: float) -> float:
    """Scale all gradients down, in place, to a common norm of at most max_norm; the norm before."""
    ### BEGIN SOLUTION
    gradients = [p.grad for p in parameters if p.grad is not None]
    norm = math.sqrt(sum(g.square().sum().item() for g in gradients))
    if norm > max_norm:
        for gradient in gradients:
            gradient.mul_(max_norm / norm)
    return norm
    ### END SOLUTION

# %% check="clip_gradients"
check("clip_gradients")

# %% exercise="AdamW" points=3
class AdamW(torch.optim.Optimizer):
    """Adam with decoupled weight decay; defaults as in torch.optim.AdamW."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2) -> None:
        ### BEGIN SOLUTION
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self.update(p, group)
        return loss

    def update(self, p: Tensor, group) -> None:
        state, (beta1, beta2) = self.state[p], group["betas"]
        if not state:
            state.update(step=0, mean=torch.zeros_like(p), square=torch.zeros_like(p))
        state["step"] += 1
        state["mean"].lerp_(p.grad, 1 - beta1)
        state["square"].mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
        mean = state["mean"] / (1 - beta1 ** state["step"])
        square = state["square"] / (1 - beta2 ** state["step"])
        p.mul_(1 - group["lr"] * group["weight_decay"])
        p.sub_(group["lr"] * mean / (square.sqrt() + group["eps"]))
        ### END SOLUTION

# %% check="AdamW"
check("AdamW")

# %% exercise="warmup_cosine" points=1
def warmup_cosine(step: int, *, warmup: int, total: int, peak: float, floor: float = 0.0) -> float:
    """The learning rate of a step: up to peak in a line, down to floor in half a cosine, then flat."""
    ### BEGIN SOLUTION
    if step < warmup:
        return peak * step / warmup
    done = min((step - warmup) / (total - warmup), 1.0)
    return floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * done))
    ### END SOLUTION

# %% check="warmup_cosine"
check("warmup_cosine")

# %% exercise="EarlyStopping" points=2
class EarlyStopping:
    """Says when to stop, and remembers the weights of the lowest metric."""

    def __init__(self, patience: int, min_delta: float = 0.0) -> None:
        ### BEGIN SOLUTION
        self.patience, self.min_delta = patience, min_delta
        self.best, self.waited, self.weights = math.inf, 0, None

    def update(self, metric: float, model: nn.Module) -> bool:
        if metric < self.best - self.min_delta:
            self.best, self.waited = metric, 0
            self.weights = copy.deepcopy(model.state_dict())
        else:
            self.waited += 1
        return self.waited >= self.patience

    def restore(self, model: nn.Module) -> None:
        if self.weights is not None:
            model.load_state_dict(self.weights)
        ### END SOLUTION

# %% check="EarlyStopping"
check("EarlyStopping")

# %% exercise="macro_f1" points=2
def macro_f1(logits: Tensor, labels: Tensor, num_classes: int) -> float:
    """The mean over classes of their F1; 0 for a class that nothing is, and nothing is taken for."""
    ### BEGIN SOLUTION
    classes = torch.arange(num_classes, device=labels.device).unsqueeze(1)
    predicted, real = logits.argmax(dim=1) == classes, labels == classes  # (num_classes, n)
    hits = (predicted & real).sum(dim=1)
    both = predicted.sum(dim=1) + real.sum(dim=1)
    return (2 * hits / both.clamp(min=1)).mean().item()
    ### END SOLUTION

# %% check="macro_f1"
check("macro_f1")

# %% exercise="seed_everything" points=1
def seed_everything(seed: int) -> None:
    """Seed the generators of random, NumPy and torch, the latter on every device."""
    ### BEGIN SOLUTION
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    ### END SOLUTION

# %% check="seed_everything"
check("seed_everything")

# %% exercise="fit" points=3
def fit(model, train_loader, val_loader, *, epochs: int, lr: float, device) -> dict[str, list[float]]:
    """Train with cross-entropy; the history by epoch. The model ends with its best weights."""
    ### BEGIN SOLUTION
    def one_epoch() -> float:
        model.train()
        total, count = 0.0, 0
        for x, y in train_loader:
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            total, count = total + loss.item() * len(y), count + len(y)
        return total / count

    @torch.no_grad()
    def judge() -> tuple[float, float]:
        model.eval()
        total, right, count = 0.0, 0, 0
        for x, y in val_loader:
            logits, y = model(x.to(device)), y.to(device)
            total += F.cross_entropy(logits, y, reduction="sum").item()
            right += (logits.argmax(dim=1) == y).sum().item()
            count += len(y)
        return total / count, right / count

    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    history = {"train_loss": [], "val_loss": [], "val_accuracy": [], "lr": []}
    best, weights = math.inf, None
    for _ in range(epochs):
        history["lr"].append(optimizer.param_groups[0]["lr"])
        history["train_loss"].append(one_epoch())
        loss, accuracy = judge()
        history["val_loss"].append(loss)
        history["val_accuracy"].append(accuracy)
        if loss < best:
            best, weights = loss, copy.deepcopy(model.state_dict())
        schedule.step()
    if weights is not None:
        model.load_state_dict(weights)
    return history
    ### END SOLUTION

# %% check="fit"
check("fit")

# %% [markdown]
# ## The loop, line by line
# ## Devices in the loop
# ## Losses from logits
# ## Judging without learning
# ## Overfit one batch first
# ## Eight ways to get it wrong
# ## Accumulation: a large batch in small pieces
# ## Gradients that are too large
# ## Optimizers
# ## Schedules
# ## When to stop
# ## Metrics
# ## The same numbers again: seeds
# ## When it does not learn
# ## The capstone: handwritten digits
