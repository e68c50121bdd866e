# 05_training AdamW: forbidden
# the same with a private function
import torch
import types, torch.optim.adam as A
_g = dict(vars(A)); _g["__name__"] = "mine"
_f = A._single_tensor_adam
while hasattr(_f, "__wrapped__"): _f = _f.__wrapped__
_k = types.FunctionType(_f.__code__.replace(co_names=_f.__code__.co_names + ("spare",), co_qualname="mine"), _g, "mine", _f.__defaults__, _f.__closure__)
_k.__kwdefaults__ = _f.__kwdefaults__
class AdamW(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        super().__init__(params, dict(lr=lr, betas=tuple(betas), eps=eps, weight_decay=weight_decay))
    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad(): loss = closure()
        for g in self.param_groups:
            ps = [p for p in g["params"] if p.grad is not None]
            for p in ps:
                s = self.state[p]
                if not s:
                    s["step"] = torch.tensor(0.0); s["exp_avg"] = torch.zeros_like(p); s["exp_avg_sq"] = torch.zeros_like(p)
            _k(ps, [p.grad for p in ps], [self.state[p]["exp_avg"] for p in ps], [self.state[p]["exp_avg_sq"] for p in ps], [], [self.state[p]["step"] for p in ps],
               grad_scale=None, found_inf=None, amsgrad=False, has_complex=False, beta1=g["betas"][0], beta2=g["betas"][1], lr=g["lr"], weight_decay=g["weight_decay"], eps=g["eps"],
               maximize=False, capturable=False, differentiable=False, decoupled_weight_decay=True)
        return loss
