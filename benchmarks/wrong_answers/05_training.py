# %% fit: validates-before-training (not named)
def fit(model, train_loader, val_loader, *, epochs, lr, device):
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    history = {"train_loss": [], "val_loss": [], "val_accuracy": [], "lr": []}
    best, weights = math.inf, None
    for _ in range(epochs):
        model.eval()
        total, right, count = 0.0, 0, 0
        with torch.no_grad():
            for x, y in val_loader:
                x, y = x.to(device), y.to(device)
                logits = model(x)
                total += F.cross_entropy(logits, y, reduction="sum").item()
                right += (logits.argmax(1) == y).sum().item()
                count += len(y)
        history["val_loss"].append(total / count)
        history["val_accuracy"].append(right / count)
        if total / count < best:
            best, weights = total / count, copy.deepcopy(model.state_dict())
        model.train()
        total, count = 0.0, 0
        for x, y in train_loader:
            x, y = x.to(device), y.to(device)
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(y)
            count += len(y)
        history["train_loss"].append(total / count)
        history["lr"].append(optimizer.param_groups[0]["lr"])
        schedule.step()
    model.load_state_dict(weights)
    return history


# %% fit: train-loss-not-a-mean
def fit(model, train_loader, val_loader, *, epochs, lr, device):
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    history = {"train_loss": [], "val_loss": [], "val_accuracy": [], "lr": []}
    best, weights = math.inf, None
    for _ in range(epochs):
        history["lr"].append(optimizer.param_groups[0]["lr"])
        model.train()
        total = 0.0
        for x, y in train_loader:
            x, y = x.to(device), y.to(device)
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        history["train_loss"].append(total)
        model.eval()
        total, right, count = 0.0, 0, 0
        with torch.no_grad():
            for x, y in val_loader:
                x, y = x.to(device), y.to(device)
                logits = model(x)
                total += F.cross_entropy(logits, y, reduction="sum").item()
                right += (logits.argmax(1) == y).sum().item()
                count += len(y)
        history["val_loss"].append(total / count)
        history["val_accuracy"].append(right / count)
        if total / count < best:
            best, weights = total / count, copy.deepcopy(model.state_dict())
        schedule.step()
    model.load_state_dict(weights)
    return history


# %% AdamW: closure-ignored
class AdamW(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                s = self.state[p]
                if not s:
                    s["t"], s["m"], s["v"] = 0, torch.zeros_like(p), torch.zeros_like(p)
                s["t"] += 1
                s["m"].mul_(b1).add_(p.grad, alpha=1 - b1)
                s["v"].mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
                m, v = s["m"] / (1 - b1 ** s["t"]), s["v"] / (1 - b2 ** s["t"])
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.sub_(group["lr"] * m / (v.sqrt() + group["eps"]))


# %% AdamW: overwrites-gradients
class AdamW(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                s = self.state[p]
                if not s:
                    s["t"], s["m"], s["v"] = 0, torch.zeros_like(p), torch.zeros_like(p)
                s["t"] += 1
                s["m"].mul_(b1).add_(p.grad, alpha=1 - b1)
                s["v"].mul_(b2).add_(p.grad.pow_(2), alpha=1 - b2)
                m, v = s["m"] / (1 - b1 ** s["t"]), s["v"] / (1 - b2 ** s["t"])
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.sub_(group["lr"] * m / (v.sqrt() + group["eps"]))
        return loss


# %% AdamW: overwrites-gradients
class AdamW(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                s = self.state[p]
                if not s:
                    s["t"], s["m"], s["v"] = 1, p.grad.mul_(1 - b1), (p.grad / (1 - b1)) ** 2 * (1 - b2)
                else:
                    s["t"] += 1
                    s["m"].mul_(b1).add_(p.grad, alpha=1 - b1)
                    s["v"].mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
                m, v = s["m"] / (1 - b1 ** s["t"]), s["v"] / (1 - b2 ** s["t"])
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.sub_(group["lr"] * m / (v.sqrt() + group["eps"]))
        return loss


# %% evaluate: leaves-gradients-off
def evaluate(model, loader, loss_fn, device):
    modes = [(m, m.training) for m in model.modules()]
    model.eval()
    torch.set_grad_enabled(False)
    loss, right, count = 0.0, 0, 0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        logits = model(x)
        loss += loss_fn(logits, y).item() * len(y)
        right += (logits.argmax(dim=1) == y).sum().item()
        count += len(y)
    for m, training in modes:
        m.training = training
    return {"loss": loss / count, "accuracy": right / count}


# %% cross_entropy: overflow, sum-not-mean
def cross_entropy(logits, labels):
    p = logits.exp() / logits.exp().sum(1, keepdim=True)
    return -p.log()[torch.arange(len(labels)), labels].sum()


# %% train_step: missing-zero-grad, returns-tensor
def train_step(model, batch, loss_fn, optimizer):
    x, y = batch
    model.train()
    loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


# %% clip_gradients: per-tensor-clipping, fails-on-none
def clip_gradients(parameters, max_norm):
    total = 0.0
    for p in parameters:
        n = p.grad.norm().item()
        total += n**2
        if n > max_norm:
            p.grad.mul_(max_norm / n)
    return total**0.5


# %% clip_gradients: scales-up-small-gradients, returns-clipped-norm
def clip_gradients(parameters, max_norm):
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = torch.sqrt(sum((g**2).sum() for g in grads))
    for g in grads:
        g.mul_(max_norm / norm)
    return torch.sqrt(sum((g**2).sum() for g in grads)).item()


# %% macro_f1: nan-on-absent-class, returns-tensor
def macro_f1(logits, labels, num_classes):
    pred = logits.argmax(1)
    scores = []
    for c in range(num_classes):
        tp = ((pred == c) & (labels == c)).sum()
        scores.append(2 * tp / ((pred == c).sum() + (labels == c).sum()))
    return torch.stack(scores).mean()
