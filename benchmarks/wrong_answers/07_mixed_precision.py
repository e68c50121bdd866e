# %% MasterSGD: product-in-low-precision
class MasterSGD(torch.optim.Optimizer):
    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                if "master" not in self.state[p]:
                    self.state[p]["master"] = p.detach().float().clone()
                self.state[p]["master"] -= group["lr"] * p.grad
                p.copy_(self.state[p]["master"])

    def load_state_dict(self, state_dict):
        super().load_state_dict(state_dict)
        ps = [p for g in self.param_groups for p in g["params"]]
        for n, s in state_dict["state"].items():
            self.state[ps[n]]["master"] = s["master"].detach().to(ps[n].device, torch.float32, copy=True)


# %% MasterSGD: touches-what-has-no-gradient
class MasterSGD(torch.optim.Optimizer):
    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if "master" not in self.state[p]:
                    self.state[p]["master"] = p.detach().float().clone()
                if p.grad is not None:
                    self.state[p]["master"].sub_(p.grad.float(), alpha=group["lr"])
                p.copy_(self.state[p]["master"])

    def load_state_dict(self, state_dict):
        super().load_state_dict(state_dict)
        ps = [p for g in self.param_groups for p in g["params"]]
        for n, s in state_dict["state"].items():
            self.state[ps[n]]["master"] = s["master"].detach().to(ps[n].device, torch.float32, copy=True)


# %% amp_step: backward-inside-autocast
def amp_step(model, batch, loss_fn, optimizer, scaler, *, device, dtype, max_norm=None):
    x, y = batch
    optimizer.zero_grad()
    with torch.autocast(torch.device(device).type, dtype=dtype):
        loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
    if max_norm is not None:
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimizer)
    scaler.update()
    return loss.item()


# %% safe_mean: returns-float32, mean-over-one-dimension
def safe_mean(x):
    return x.float().mean(dim=-1)


# %% underflow_fraction: counts-zeros, returns-tensor
def underflow_fraction(grads, dtype):
    if not isinstance(grads, Tensor):
        grads = torch.cat([g.flatten() for g in grads])
    return (grads.to(dtype) == 0).float().mean()


# %% underflow_fraction: first-tensor-only, nan-on-all-zero
def underflow_fraction(grads, dtype):
    if isinstance(grads, list):
        grads = grads[0]
    gone = ((grads != 0) & (grads.to(dtype) == 0)).sum()
    return (gone / (grads != 0).sum()).item()


# %% lost_updates: compares-in-float32, counts-zero-updates
def lost_updates(w, update, dtype):
    return w + update.to(dtype) == w
