# %% quantize_int8: per-tensor, nan-on-zero-row
def quantize_int8(w):
    scale = w.abs().max() / 127
    return (w / scale).round().to(torch.int8), scale.expand(len(w), 1)


# %% quantize_int8: truncates-not-rounds, zero-row-not-one
def quantize_int8(w):
    scale = w.abs().amax(1, keepdim=True).clamp(min=1e-8) / 127
    return (w / scale).to(torch.int8), scale


# %% int8_matmul: accumulates-in-int8, one-scale-missing
def int8_matmul(a, b, a_scale, b_scale):
    return (a @ b.T).float() * a_scale


# %% training_flops: forward-only, pollutes-grad
def training_flops(model, x):
    with FlopCounterMode(display=False) as counter:
        y = model(x)
    y.sum().backward()
    return counter.get_total_flops()


# %% fake_quantize: gradient-is-zero, zero-point-inside-rounding
def fake_quantize(x, scale, zero_point, low, high):
    level = torch.round(x / scale + zero_point).clamp(low, high)
    return (level - zero_point) * scale
