# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% tags=["setup"]
import math

import torch
from torch import Tensor, nn

from torchcourse import Unattempted, check, hint

# %% [markdown]
# ## The bits of a number
# ## Updates that vanish
# ## Gradients that vanish
# ## Sums that do not fit
# ## What autocast casts, and what it keeps
# ## Which dtype on which device
# ## Loss scaling from first principles
# ## A scale that finds itself
# ## The protocol, in order
# ## Master weights

# %% exercise="float_fields" points=2
def float_fields(x: float, dtype: torch.dtype) -> tuple[int, int, int]:
    ### BEGIN SOLUTION
    """Sign, stored exponent and mantissa of x rounded to dtype, as integers."""
    total = torch.finfo(dtype).bits
    width = {torch.float16: 10, torch.bfloat16: 7, torch.float32: 23}[dtype]
    whole = torch.int32 if total == 32 else torch.int16
    bits = torch.tensor(x, dtype=dtype).view(whole).item() & (2**total - 1)
    mantissa = bits & (2**width - 1)
    exponent = (bits >> width) & (2 ** (total - 1 - width) - 1)
    return bits >> (total - 1), exponent, mantissa
    ### END SOLUTION

# %% check="float_fields"
check("float_fields")

# %% exercise="lost_updates" points=2
def lost_updates(w: Tensor, update: Tensor, dtype: torch.dtype) -> Tensor:
    ### BEGIN SOLUTION
    weight = w.to(dtype)
    return (update != 0) & (weight + update.to(dtype) == weight)
    ### END SOLUTION

# %% check="lost_updates"
check("lost_updates")

# %% exercise="underflow_fraction" points=2
def underflow_fraction(grads, dtype: torch.dtype) -> float:
    ### BEGIN SOLUTION
    tensors = [grads] if isinstance(grads, Tensor) else grads
    some = sum((g != 0).sum().item() for g in tensors)
    gone = sum(((g != 0) & (g.to(dtype) == 0)).sum().item() for g in tensors)
    return gone / some if some else 0.0
    ### END SOLUTION

# %% check="underflow_fraction"
check("underflow_fraction")

# %% exercise="safe_mean" points=2
def safe_mean(x: Tensor) -> Tensor:
    ### BEGIN SOLUTION
    return x.double().mean().to(x.dtype)
    ### END SOLUTION

# %% check="safe_mean"
check("safe_mean")

# %% exercise="autocast_report" points=2
def autocast_report(model: nn.Module, x: Tensor, dtype: torch.dtype) -> dict[str, torch.dtype]:
    ### BEGIN SOLUTION
    report: dict[str, torch.dtype] = {}
    leaves = {name: module for name, module in model.named_modules() if not any(module.children())}
    handles = []
    try:
        for name, module in leaves.items():
            note = lambda _module, _inputs, output, name=name: report.update({name: output.dtype})
            handles.append(module.register_forward_hook(note))
        with torch.no_grad(), torch.autocast(x.device.type, dtype=dtype):
            model(x)
    finally:
        for handle in handles:
            handle.remove()
    return report
    ### END SOLUTION

# %% check="autocast_report"
check("autocast_report")

# %% exercise="autocast_dtype" points=2
def autocast_dtype(device) -> torch.dtype:
    ### BEGIN SOLUTION
    device = torch.device(device)
    if device.type == "cuda" and torch.cuda.get_device_capability(device) < (8, 0):
        return torch.float16
    return torch.bfloat16
    ### END SOLUTION

# %% check="autocast_dtype"
check("autocast_dtype")

# %% exercise="best_loss_scale" points=2
def best_loss_scale(grads, dtype: torch.dtype = torch.float16) -> float:
    ### BEGIN SOLUTION
    tensors = [grads] if isinstance(grads, Tensor) else grads
    largest = max((g.abs().max().item() for g in tensors), default=0.0)
    if largest == 0:
        return 1.0
    def fits(power):
        return torch.tensor(largest * 2.0**power, dtype=torch.float64).to(dtype).isfinite().item()
    power = math.floor(math.log2(torch.finfo(dtype).max) - math.log2(largest))
    while fits(power + 1):
        power += 1
    while not fits(power):
        power -= 1
    return 2.0**power
    ### END SOLUTION

# %% check="best_loss_scale"
check("best_loss_scale")

# %% exercise="LossScaler" points=2
class LossScaler:
    def __init__(self, scale: float = 2.0**16, growth: float = 2.0, backoff: float = 0.5, interval: int = 2000):
        ### BEGIN SOLUTION
        self.value, self.growth, self.backoff, self.interval = scale, growth, backoff, interval
        self.good = 0
        self.overflowed = False

    def scale(self, loss: Tensor) -> Tensor:
        return loss * self.value

    def step(self, optimizer: torch.optim.Optimizer) -> bool:
        grads = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        for grad in grads:
            grad.mul_(1 / self.value)
        finite = all(bool(grad.isfinite().all()) for grad in grads)
        if finite:
            optimizer.step()
        else:
            self.overflowed = True
        return finite

    def update(self) -> None:
        self.good = 0 if self.overflowed else self.good + 1
        if self.overflowed:
            self.value *= self.backoff
        elif self.good == self.interval:
            self.good = 0
            if self.value * self.growth <= torch.finfo(torch.float32).max:
                self.value *= self.growth
        self.overflowed = False
        ### END SOLUTION

# %% check="LossScaler"
check("LossScaler")

# %% exercise="amp_step" points=2
def amp_step(model, batch, loss_fn, optimizer, scaler, *, device, dtype, max_norm=None) -> float:
    ### BEGIN SOLUTION
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
    ### END SOLUTION

# %% check="amp_step"
check("amp_step")

# %% exercise="MasterSGD" points=2
class MasterSGD(torch.optim.Optimizer):
    def __init__(self, params, lr: float):
        ### BEGIN SOLUTION
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if "master" not in state:
                    state["master"] = p.detach().to(torch.float32, copy=True)
                state["master"].sub_(p.grad.float(), alpha=group["lr"])
                p.copy_(state["master"])
        return loss

    def load_state_dict(self, state_dict):
        super().load_state_dict(state_dict)
        parameters = [p for group in self.param_groups for p in group["params"]]
        for number, saved in state_dict["state"].items():
            p = parameters[number]
            self.state[p]["master"] = saved["master"].detach().to(p.device, torch.float32, copy=True)
        ### END SOLUTION

# %% check="MasterSGD"
check("MasterSGD")
