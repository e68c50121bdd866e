# %% same_numerics: nan-counts-as-equal
def same_numerics(model, compiled, x, atol):
    params = [p for p in model.parameters() if p.requires_grad]

    def run(f):
        leaf = x.detach().clone().requires_grad_()
        y = f(leaf)
        if not y.requires_grad:
            return y, [torch.zeros_like(t) for t in [leaf, *params]]
        return y.detach(), torch.autograd.grad(y.sum(), [leaf, *params], materialize_grads=True)

    (y, a), (z, b) = run(model), run(compiled)
    output = (y - z).abs().max().item()
    grad = max([0.0] + [(p - q).abs().max().item() for p, q in zip(a, b)])
    return {"output": output, "grad": grad, "ok": output <= atol and grad <= atol}


# %% same_numerics: less-than-atol
def same_numerics(model, compiled, x, atol):
    params = [p for p in model.parameters() if p.requires_grad]

    def run(f):
        leaf = x.detach().clone().requires_grad_()
        y = f(leaf)
        if not y.requires_grad:
            return y, [torch.zeros_like(t) for t in [leaf, *params]]
        return y.detach(), torch.autograd.grad(y.sum(), [leaf, *params], materialize_grads=True)

    (y, a), (z, b) = run(model), run(compiled)
    output = (y - z).abs().max().item()
    grad = torch.stack([(p - q).abs().max() for p, q in zip(a, b)]).max().item()
    return {"output": output, "grad": grad, "ok": output < atol and grad < atol}


# %% same_numerics: allclose-for-ok
def same_numerics(model, compiled, x, atol):
    params = [p for p in model.parameters() if p.requires_grad]

    def run(f):
        leaf = x.detach().clone().requires_grad_()
        y = f(leaf)
        if not y.requires_grad:
            return y, [torch.zeros_like(t) for t in [leaf, *params]]
        return y.detach(), torch.autograd.grad(y.sum(), [leaf, *params], materialize_grads=True)

    (y, a), (z, b) = run(model), run(compiled)
    output = (y - z).abs().max().item()
    grad = torch.stack([(p - q).abs().max() for p, q in zip(a, b)]).max().item()
    ok = torch.allclose(y, z, atol=atol) and all(torch.allclose(p, q, atol=atol) for p, q in zip(a, b))
    return {"output": output, "grad": grad, "ok": ok}


# %% same_numerics: mean-not-largest
def same_numerics(model, compiled, x, atol):
    params = [p for p in model.parameters() if p.requires_grad]

    def run(f):
        leaf = x.detach().clone().requires_grad_()
        y = f(leaf)
        if not y.requires_grad:
            return y, [torch.zeros_like(t) for t in [leaf, *params]]
        return y.detach(), torch.autograd.grad(y.sum(), [leaf, *params], materialize_grads=True)

    (y, a), (z, b) = run(model), run(compiled)
    output = (y - z).abs().max().item()
    grad = torch.stack([(p - q).abs().mean() for p, q in zip(a, b)]).max().item()
    return {"output": output, "grad": grad, "ok": output <= atol and grad <= atol}


# %% clip_by_norm: nan-gradient-at-zero
def clip_by_norm(x, max_norm):
    norm = x.square().sum().sqrt()
    return x * (max_norm / norm.clamp(min=max_norm))


# %% swiglu: fake-on-the-cpu
@torch.library.custom_op("torchcourse::swiglu", mutates_args=())
def swiglu(x: Tensor, gate: Tensor) -> Tensor:
    return x * F.silu(gate)


@swiglu.register_fake
def _(x, gate):
    return torch.empty(x.shape, dtype=x.dtype)


def _keep(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def _backward(ctx, grad):
    x, gate = ctx.saved_tensors
    s = gate.sigmoid()
    return grad * gate * s, grad * x * s * (1 + gate * (1 - s))


swiglu.register_autograd(_backward, setup_context=_keep)


# %% benchmark: uses-wall-clock
def benchmark(fns, *args, device, repeats=30):
    wait = torch.get_device_module(device).synchronize
    for fn in fns.values():
        fn(*args)
        fn(*args)
    times = {name: [] for name in fns}
    for _ in range(repeats):
        for name, fn in fns.items():
            wait()
            start = time.time()
            fn(*args)
            wait()
            times[name].append(time.time() - start)
    out = {}
    for name, seconds in times.items():
        q1, q2, q3 = (
            torch.tensor(seconds, dtype=torch.float64).quantile(torch.tensor([0.25, 0.5, 0.75]).double()).tolist()
        )
        out[name] = {"median": q2, "iqr": q3 - q1}
    return out


# %% compile_or_eager: reason-is-the-exception
def compile_or_eager(model, example):
    model(example)
    compiled = torch.compile(model)
    try:
        compiled(example)
    except Exception as error:
        return model, error
    return compiled, None


# %% signed_scale: elementwise-sign, branches-swapped
def signed_scale(x):
    return torch.where(x > 0, x - 1, x * 2)


# %% clip_by_norm: scales-up, nan-on-zero
def clip_by_norm(x, max_norm):
    return x * max_norm / x.norm()


# %% clip_by_norm: item-call, nan-on-zero
def clip_by_norm(x, max_norm):
    n = x.norm().item()
    return x * min(1.0, max_norm / n) if n else x / n


# %% same_numerics: pollutes-grad, forgets-x
def same_numerics(model, compiled, x, atol):
    y = model(x)
    y.sum().backward()
    a = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    z = compiled(x)
    z.sum().backward()
    b = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    output = (y - z).abs().max().item()
    grad = max((p - q).abs().max().item() for p, q in zip(a, b))
    return {"output": output, "grad": grad, "ok": output <= atol and grad <= atol}
