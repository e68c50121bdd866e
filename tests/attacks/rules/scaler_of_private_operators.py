# 07_mixed_precision LossScaler: forbidden
# the operators that GradScaler is made of
import torch


class LossScaler:
    def __init__(self, scale=2.0**16, growth=2.0, backoff=0.5, interval=2000):
        self.now, self.how = torch.tensor(float(scale)), (growth, backoff, int(interval))
        self.good, self.overflow = torch.zeros((), dtype=torch.int32), torch.zeros(())

    def scale(self, loss):
        return loss * self.now

    def step(self, optimizer):
        gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        found = torch.zeros(())
        torch._amp_foreach_non_finite_check_and_unscale_(gradients, found, self.now.double().reciprocal().float())
        self.overflow = self.overflow + found
        if not found:
            optimizer.step()
        return not found

    def update(self):
        torch._amp_update_scale_(self.now, self.good, self.overflow, *self.how)
        self.overflow = torch.zeros(())
