# %% initial_loss_gap: train-mode, builds-graph, log2-not-ln
def initial_loss_gap(model, batch, num_classes):
    x, y = batch
    return F.cross_entropy(model(x), y).item() - math.log2(num_classes)


# %% gradient_report: none-reported-as-zero, includes-frozen
def gradient_report(model):
    return {n: p.grad.norm().item() if p.grad is not None else 0.0 for n, p in model.named_parameters()}


# %% gradient_report: skips-missing-gradients, returns-tensors
def gradient_report(model):
    return {n: p.grad.norm() for n, p in model.named_parameters() if p.grad is not None}


# %% held_graphs: asks-grad-not-grad-fn, only-top-level
def held_graphs(obj):
    items = obj.items() if isinstance(obj, dict) else [(f"[{i}]", v) for i, v in enumerate(obj)]
    return sorted(k for k, v in items if isinstance(v, Tensor) and v.requires_grad)


# %% untrained: compares-values, several-keys-for-one-name
def untrained(model, optimizer):
    held = [p for g in optimizer.param_groups for p in g["params"]]
    named = list(model.named_parameters())
    return {
        "frozen": sorted(n for n, p in named if not p.requires_grad),
        "not_in_optimizer": sorted(n for n, p in named if not any(torch.equal(p, q) for q in held)),
        "no_gradient": sorted(n for n, p in named if p.grad is None),
    }
