# 04_data ResumableSampler: failed
class ResumableSampler:  # rotates only
    def __init__(self, n, seed): self.n, self.seed, self.epoch, self.pos = n, seed, 0, 0
    def set_epoch(self, e):
        if e != self.epoch: self.epoch, self.pos = e, 0
    def __len__(self): return self.n
    def __iter__(self):
        k = (7 * self.epoch + 3 * self.seed + 1) % self.n
        order = [(i + k) % self.n for i in range(self.n)]
        for i in order[self.pos:]:
            self.pos += 1
            yield i
        self.pos = 0
    def state_dict(self): return {"e": self.epoch, "p": self.pos}
    def load_state_dict(self, s): self.epoch, self.pos = s["e"], s["p"]
