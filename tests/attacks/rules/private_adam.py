# 05_training AdamW: forbidden
# the private function that torch's AdamW is made of
import torch
from torch.optim import adam


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
            for p in (p for p in group["params"] if p.grad is not None):
                if not self.state[p]:
                    self.state[p] = {"m": torch.zeros_like(p), "v": torch.zeros_like(p), "t": torch.tensor(0.0)}
                kept = self.state[p]
                adam._single_tensor_adam(
                    [p], [p.grad], [kept["m"]], [kept["v"]], [], [kept["t"]], None, None, amsgrad=False,
                    has_complex=False, beta1=group["betas"][0], beta2=group["betas"][1], lr=group["lr"],
                    weight_decay=group["weight_decay"], eps=group["eps"], maximize=False, capturable=False,
                    differentiable=False, decoupled_weight_decay=True)
        return loss
