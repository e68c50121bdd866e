# %% broadcast_shape: aligns-left, takes-maximum
def broadcast_shape(*shapes):
    n = max(len(s) for s in shapes)
    padded = [tuple(s) + (1,) * (n - len(s)) for s in shapes]
    return tuple(max(column) for column in zip(*padded))


# %% broadcast_shape: none-for-an-error, zero-treated-as-one
def broadcast_shape(*shapes):
    n = max(len(s) for s in shapes)
    padded = [(1,) * (n - len(s)) + tuple(s) for s in shapes]
    out = []
    for column in zip(*padded):
        sizes = {c for c in column if c > 1}
        if len(sizes) > 1:
            return None
        out.append(sizes.pop() if sizes else 1)
    return tuple(out)


# %% reduction_gradient: mean-forgets-n, tie-takes-first
def reduction_gradient(kind, values):
    if kind in ("sum", "mean"):
        return [1.0] * len(values)
    if kind == "square_sum":
        return [2 * v for v in values]
    if kind == "max":
        out = [0.0] * len(values)
        out[values.index(max(values))] = 1.0
        return out
    n = sum(v * v for v in values) ** 0.5
    return [v / n if n else 0.0 for v in values]


# %% samples_seen: workers-do-not-multiply, drops-nothing
def samples_seen(n, batch_size, *, workers, iterable, sharded, drop_last):
    return n


# %% ddp_gradient: weights-by-samples, whole-is-a-sum
def ddp_gradient(shards):
    flat = [g for s in shards for g in s]
    return sum(flat) / len(flat), sum(flat)
