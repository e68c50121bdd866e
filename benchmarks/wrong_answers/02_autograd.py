# %% LogSigmoid: backward-in-float32
class LogSigmoid(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(max=0) - torch.log1p(torch.exp(-x.abs()))

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return (grad_output.float() * torch.sigmoid(-x.float())).to(x.dtype)


# %% derivative: float32-precision, returns-tensor
def derivative(f, x):
    t = torch.tensor(x, requires_grad=True)
    f(t).backward()
    return t.grad


# %% gradient: changes-requires-grad, pollutes-grad
def gradient(f, x):
    x.requires_grad_(True)
    f(x).backward()
    return x.grad


# %% linear_mse_gradients: missing-factor-two, mean-over-batch-only
def linear_mse_gradients(x, w, b, y):
    r = x @ w.T + b - y
    return r.T @ x / len(x), r.sum(0) / len(x)


# %% sgd_step: fails-on-none, grads-not-cleared
def sgd_step(params, lr):
    with torch.no_grad():
        for p in params:
            p -= lr * p.grad


# %% sgd_step: rebinds-parameter, fails-on-none
def sgd_step(params, lr):
    for i, p in enumerate(params):
        params[i] = (p - lr * p.grad).detach().requires_grad_()


# %% BinarizeSTE: no-clip, returns-bool
class BinarizeSTE(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x > 0

    @staticmethod
    def backward(ctx, g):
        return g


# %% BinarizeSTE: zero-becomes-one, clamps-gradient-not-input
class BinarizeSTE(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return (x >= 0).to(x.dtype)

    @staticmethod
    def backward(ctx, g):
        return g.clamp(-1, 1)


# %% LogSigmoid: overflow, ignores-grad-output
class LogSigmoid(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.log(1 / (1 + torch.exp(-x)))

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 1 - torch.sigmoid(x)


# %% numerical_gradient: forward-difference, float32-precision
def numerical_gradient(f, x, eps=1e-6):
    g = torch.zeros_like(x)
    for i in range(x.numel()):
        up = x.clone()
        up.view(-1)[i] += eps
        g.view(-1)[i] = (f(up) - f(x)) / eps
    return g
