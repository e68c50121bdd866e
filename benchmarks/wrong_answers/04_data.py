# %% split_indices: reseeds-global-rng
def split_indices(n, fractions, seed):
    if abs(sum(fractions) - 1) > 1e-6:
        raise ValueError(f"fractions are {fractions} and sum to {sum(fractions):g}, but must sum to 1")
    state = torch.get_rng_state()
    torch.manual_seed(seed)
    order = torch.randperm(n).tolist()
    torch.set_rng_state(state)
    ends = [round(n * sum(fractions[: i + 1])) for i in range(len(fractions))]
    return [order[start:end] for start, end in zip([0, *ends], ends)]


# %% LengthBatchSampler: needs-set-epoch
class LengthBatchSampler(Sampler):
    def __init__(self, lengths, batch_size, seed):
        self.lengths, self.batch_size, self.seed = lengths, batch_size, seed

    def set_epoch(self, e):
        self.epoch = e

    def __iter__(self):
        g = torch.Generator().manual_seed(self.seed + self.epoch)
        order = sorted(range(len(self.lengths)), key=lambda i: self.lengths[i])
        batches = [order[i : i + self.batch_size] for i in range(0, len(order), self.batch_size)]
        for b in torch.randperm(len(batches), generator=g).tolist():
            yield batches[b]


# %% LengthBatchSampler: can-be-read-once-only
class LengthBatchSampler(Sampler):
    def __init__(self, lengths, batch_size, seed):
        self.lengths, self.batch_size, self.seed = lengths, batch_size, seed
        self.set_epoch(0)

    def set_epoch(self, e):
        g = torch.Generator().manual_seed(self.seed + 1000 * e)
        order = sorted(range(len(self.lengths)), key=lambda i: self.lengths[i])
        batches = [order[i : i + self.batch_size] for i in range(0, len(order), self.batch_size)]
        self.batches = iter([batches[b] for b in torch.randperm(len(batches), generator=g).tolist()])

    def __iter__(self):
        return self.batches


# %% LengthBatchSampler: counts-epochs-itself
class LengthBatchSampler(Sampler):
    def __init__(self, lengths, batch_size, seed):
        self.lengths, self.batch_size, self.seed, self.epoch = lengths, batch_size, seed, 0

    def set_epoch(self, e):
        self.epoch = e

    def __iter__(self):
        g = torch.Generator().manual_seed(self.seed * 1000 + self.epoch)
        self.epoch += 1
        order = sorted(range(len(self.lengths)), key=lambda i: self.lengths[i])
        batches = [order[i : i + self.batch_size] for i in range(0, len(order), self.batch_size)]
        for b in torch.randperm(len(batches), generator=g).tolist():
            yield batches[b]


# %% LengthBatchSampler: seeded-by-a-salted-hash
class LengthBatchSampler(Sampler):
    def __init__(self, lengths, batch_size, seed):
        self.lengths, self.batch_size, self.seed, self.epoch = lengths, batch_size, seed, 0

    def set_epoch(self, e):
        self.epoch = e

    def __iter__(self):
        rng = random.Random(hash(f"{self.seed}-{self.epoch}"))
        order = sorted(range(len(self.lengths)), key=lambda i: self.lengths[i])
        batches = [order[i : i + self.batch_size] for i in range(0, len(order), self.batch_size)]
        rng.shuffle(batches)
        yield from batches


# %% ResumableSampler: seeded-by-a-salted-hash
class ResumableSampler(Sampler):
    def __init__(self, n, seed):
        self.n, self.seed, self.epoch, self.position = n, seed, 0, 0

    def set_epoch(self, e):
        if e != self.epoch:
            self.epoch, self.position = e, 0

    def state_dict(self):
        return {"epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state):
        self.epoch, self.position = state["epoch"], state["position"]

    def __iter__(self):
        order = list(range(self.n))
        random.Random(hash(f"{self.seed}/{self.epoch}")).shuffle(order)
        for i in order[self.position :]:
            self.position += 1
            yield i
        self.position = 0


# %% ResumableSampler: keeps-the-callers-state
class ResumableSampler(Sampler):
    def __init__(self, n, seed):
        self.n, self.seed, self.state = n, seed, {"epoch": 0, "position": 0}

    def set_epoch(self, e):
        if e != self.state["epoch"]:
            self.state = {"epoch": e, "position": 0}

    def state_dict(self):
        return dict(self.state)

    def load_state_dict(self, state):
        self.state = state

    def __iter__(self):
        order = list(range(self.n))
        random.Random(f"{self.seed} {self.state['epoch']}").shuffle(order)
        for i in order[self.state["position"] :]:
            self.state["position"] += 1
            yield i
        self.state["position"] = 0


# %% make_loader: order-not-seeded
def make_loader(dataset, batch_size, *, train, seed, device, num_workers=0):
    torch.manual_seed(seed)
    return DataLoader(
        dataset,
        batch_size=batch_size,
        shuffle=train,
        drop_last=train,
        pin_memory=device.type == "cuda",
        num_workers=num_workers,
        persistent_workers=num_workers > 0,
    )


# %% split_indices: reseeds-global-rng, loses-samples
def split_indices(n, fractions, seed):
    if abs(sum(fractions) - 1) > 1e-6:
        raise ValueError(f"fractions sum to {sum(fractions)}")
    random.seed(seed)
    order = list(range(n))
    random.shuffle(order)
    parts, start = [], 0
    for f in fractions:
        parts.append(order[start : start + int(f * n)])
        start += int(f * n)
    return parts


# %% pad_collate: mask-from-values, labels-are-a-list
def pad_collate(batch, pad_id=0):
    t = max(len(ids) for ids, _ in batch)
    ids = torch.full((len(batch), t), pad_id)
    for i, (x, _) in enumerate(batch):
        ids[i, : len(x)] = x
    return {"ids": ids, "mask": ids != pad_id, "labels": [y for _, y in batch]}


# %% pad_collate: pads-left, mask-inverted
def pad_collate(batch, pad_id=0):
    t = max(len(ids) for ids, _ in batch)
    ids = torch.full((len(batch), t), pad_id)
    mask = torch.ones(len(batch), t, dtype=torch.bool)
    for i, (x, _) in enumerate(batch):
        ids[i, t - len(x) :] = x
        mask[i, t - len(x) :] = False
    return {"ids": ids, "mask": mask, "labels": torch.tensor([y for _, y in batch])}


# %% channel_stats: averages-batch-statistics, sample-variance
def channel_stats(loader):
    means, stds = [], []
    for x, _ in loader:
        means.append(x.mean((0, 2, 3)))
        stds.append(x.std((0, 2, 3)))
    return torch.stack(means).mean(0), torch.stack(stds).mean(0)
