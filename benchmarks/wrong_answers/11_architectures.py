# %% conv_output_size: ignores-dilation, accepts-what-does-not-fit
def conv_output_size(size, kernel, stride=1, padding=0, dilation=1):
    return (size + 2 * padding - kernel) // stride + 1


# %% last_real: wraps-on-empty, fails-without-steps
def last_real(outputs, lengths):
    return outputs[torch.arange(len(lengths), device=outputs.device), lengths - 1]


# %% last_real: off-by-one, python-loop
def last_real(outputs, lengths):
    rows = []
    for i in range(len(lengths)):
        rows.append(outputs[i, min(int(lengths[i]), outputs.shape[1] - 1)])
    return torch.stack(rows)


# %% attention_mask: mask-inverted, no-dimension-for-heads
def attention_mask(real, causal=False):
    b, t = real.shape
    blocked = ~real[:, None, :].expand(b, t, t)
    if causal:
        blocked = blocked | torch.ones(t, t, dtype=torch.bool, device=real.device).triu(1)
    return blocked


# %% grouped_query_attention: repeats-not-interleaves, not-scaled
def grouped_query_attention(q, k, v):
    r = q.shape[1] // k.shape[1]
    k, v = k.repeat(1, r, 1, 1), v.repeat(1, r, 1, 1)
    return (q @ k.transpose(-2, -1)).softmax(-1) @ v
