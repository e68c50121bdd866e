# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 3 · Modules
#
# A network is a function with a memory: it takes a tensor, and it holds numbers that training will change. In lesson
# 2 you kept such numbers yourself and changed them one by one. With millions of them, something has to keep the list:
# for the optimizer, for moving to a GPU, for saving. In PyTorch that is the job of `nn.Module`.
#
# Most of the bugs in this lesson raise no error. A layer that is not on the list is simply never trained. Dropout
# that ignores `eval()` makes predictions change from call to call. A frozen batch norm goes on changing its
# statistics. So we look at what a module knows about itself, and then build the common layers by hand. There are
# twelve exercises.

# %% tags=["setup"]
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from torchcourse import Unattempted, case, check, hint

# %% tags=["demo"]
# %load_ext torchcourse

# %% [markdown]
# ## What a module remembers
#
# A module is a class with an `__init__` that makes its parts and a `forward` that uses them. Here is a small one that
# holds four things, each in a different way.

# %%
class Parts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(2))
        self.count = nn.Buffer(torch.zeros(2))
        self.layer = nn.Linear(2, 1)
        self.note = torch.zeros(2)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x * self.scale)


parts = Parts()
print("parameters:", [name for name, _ in parts.named_parameters()])
print("buffers:   ", [name for name, _ in parts.named_buffers()])
print("state_dict:", list(parts.state_dict()))

# %% [markdown]
# The module has noticed three of the four. It looks at everything that you assign to `self`, and registers three kinds
# of things: an `nn.Parameter`, an `nn.Buffer`, another module. (What gets saved is a module's `state_dict()`: a dict
# from names to tensors.) A plain tensor, `note`, is an attribute like any other.
#
# | assigned to self | `parameters()` | `state_dict()` | follows `.to()` | what it is for |
# |---|---|---|---|---|
# | `nn.Parameter` | yes | yes | yes | what is trained |
# | `nn.Buffer` | no | yes | yes | state that is not trained |
# | a module | its own | its own | its own | a part of the model |
# | a plain tensor | no | no | **no** | nothing that matters later |
#
# The last row is easy to check. We move the module to `"meta"`, the device without numbers that exists everywhere,
# and convert it to another dtype:

# %%
there = Parts().to("meta")
print({name: str(getattr(there, name).device) for name in ("scale", "count", "note")})
wide = Parts().to(torch.float64)
print({name: getattr(wide, name).dtype for name in ("scale", "count", "note")})

# %% [markdown]
# On a GPU, the first use of `note` would raise an error about two devices. Note also that `module.to(...)` changes
# the module itself; a tensor's `.to(...)` returns another tensor and leaves the first alone.
#
# The places in which a module registers things are created by `nn.Module.__init__`. So `super().__init__()` comes
# first:

# %%
class NeverBegun(nn.Module):
    def __init__(self) -> None:
        self.scale = nn.Parameter(torch.ones(2))


try:
    NeverBegun()
except AttributeError as error:
    print(error)

# %% [markdown]
# Sometimes a name should exist and hold nothing, such as the bias of a layer without one. `register_parameter(name,
# None)` does that: `self.bias` is then None, and the module knows the name.
#
# A layer's weight has its outputs first: `nn.Linear(3, 2)` has a weight of shape `(2, 3)`, a row for each output, and
# computes `x @ weight.T + bias`.

# %%
linear = nn.Linear(3, 2)
x = torch.randn(5, 3)
by_hand = x @ linear.weight.T + linear.bias
print(linear.weight.shape, torch.allclose(linear(x), by_hand, atol=1e-6))

# %% [markdown]
# **In short:** a module knows what is assigned as a Parameter, Buffer or module; everything else is an ordinary
# attribute, which the module does not track.

# %% [markdown]
# ### Exercise: Affine
#
# Write `Affine(in_features, out_features, bias=True)`, a linear layer of your own: `x W^T + b` over the last
# dimension of `x`, whatever comes before it. It has a parameter `weight` of shape `(out, in)`, and `bias` of shape
# `(out,)`, or registered as None with `bias=False`. Both are drawn uniformly between -1/sqrt(in) and 1/sqrt(in).
# Rule: no `nn.Linear`, no `F.linear`. You write `forward` as well.
#
# ```
# layer = Affine(3, 2)
# layer(torch.ones(5, 3)).shape                          # (5, 2)
# [name for name, _ in layer.named_parameters()]         # ['weight', 'bias']
# Affine(3, 2, bias=False).bias                          # None
# ```

# %% exercise="Affine" points=2
class Affine(nn.Module):
    """x W^T + b, with weight (out, in) and bias (out,) or a registered None."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        ### BEGIN SOLUTION
        super().__init__()
        bound = in_features**-0.5
        self.weight = nn.Parameter(
            torch.empty(out_features, in_features).uniform_(-bound, bound)
        )
        if bias:
            self.bias = nn.Parameter(torch.empty(out_features).uniform_(-bound, bound))
        else:
            self.register_parameter("bias", None)

    def forward(self, x: Tensor) -> Tensor:
        y = x @ self.weight.T
        return y if self.bias is None else y + self.bias
        ### END SOLUTION

# %% check="Affine"
check("Affine")

# %% [markdown]
# Many modern layers have more than one weight. In a *gated* layer a second product decides, output by output, how
# much of the first gets through: a sigmoid maps it to a number between 0 (closed) and 1 (open). The feed-forward
# parts of many language models are built like that, often with another gate function.

# %% [markdown]
# ### Exercise: GatedLinear
#
# Write `GatedLinear(in_features, out_features)`: `(x W^T + b) * sigmoid(x G^T)`, with parameters `weight` (W) and
# `gate_weight` (G) of shape `(out, in)`, and `bias` (b) of shape `(out,)`, registered under these names on the module
# itself. How you initialise them is up to you. `F.linear` is allowed here.
#
# ```
# layer = GatedLinear(3, 2)
# layer(torch.ones(5, 3)).shape                         # (5, 2)
# sorted(name for name, _ in layer.named_parameters())  # ['bias', 'gate_weight', 'weight']
# # with weights of 1, gate weights of 0 and no bias, three ones give 3 * sigmoid(0) = 1.5
# ```

# %% exercise="GatedLinear" points=2
class GatedLinear(nn.Module):
    """(x W^T + b) * sigmoid(x G^T)."""

    def __init__(self, in_features: int, out_features: int) -> None:
        ### BEGIN SOLUTION
        super().__init__()
        bound = in_features**-0.5
        self.weight = nn.Parameter(
            torch.empty(out_features, in_features).uniform_(-bound, bound)
        )
        self.gate_weight = nn.Parameter(
            torch.empty(out_features, in_features).uniform_(-bound, bound)
        )
        self.bias = nn.Parameter(torch.zeros(out_features))

    def forward(self, x: Tensor) -> Tensor:
        return (
            F.linear(x, self.weight, self.bias)
            * F.linear(x, self.gate_weight).sigmoid()
        )
        ### END SOLUTION

# %% check="GatedLinear"
check("GatedLinear")

# %% [markdown]
# ## Buffers: state that is not trained
#
# A model often needs numbers that no gradient should touch: the mean and spread of the training data, a table of
# positions, running statistics. They must move with the model and be saved with it. Such a tensor is a buffer.
# `nn.Buffer` is the newer spelling; most code says `self.register_buffer("mean", ...)`, which does the same.
#
# Once a name is a buffer, assigning a tensor to it keeps it one:

# %% tags=["demo"]
class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.seen = nn.Buffer(torch.tensor(0))
        self.scratch = nn.Buffer(torch.zeros(1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        self.seen = self.seen + len(x)
        return x


counter = Counter()
counter(torch.zeros(8, 2))
print(
    counter.seen,
    [name for name, _ in counter.named_buffers()],
    list(counter.state_dict()),
)

# %% [markdown]
# With `persistent=False` a buffer moves, but is not saved: right for what can be computed again.
#
# The test of a buffer is a fresh module that loads the old one's `state_dict`. A plain attribute would start from
# scratch:

# %% tags=["demo"]
fresh = Counter()
print(fresh.load_state_dict(counter.state_dict()), fresh.seen)

# %% [markdown]
# A buffer that is None is not in the `state_dict` at all, so a fresh module would have no place for the saved value,
# and loading would raise an error. Give it its shape in `__init__`.
#
# **In short:** a buffer is for state that belongs to the model and that no optimizer may change.

# %% [markdown]
# ### Exercise: Standardizer
#
# Write `Standardizer(dim)`: a module that returns `x` as it is until `fit(x)` is called with a table `(n, dim)`; from
# then on it returns `(x - mean) / std`, column by column. The result always has the dtype of `x`. `fit` sets the
# buffers `mean` and `std` and returns the module itself. The standard deviation is the population's (divide by n, not
# n - 1), and where it is zero it becomes 1. Both buffers are saved in the `state_dict`, and a fresh `Standardizer` can
# load them.
#
# ```
# s = Standardizer(2).fit(torch.tensor([[0.0, 5.0], [2.0, 5.0]]))
# s.mean, s.std                    # [1., 5.], [1., 1.]
# s(torch.tensor([[3.0, 6.0]]))    # [[2., 1.]]
# ```

# %% exercise="Standardizer" points=2
class Standardizer(nn.Module):
    """(x - mean) / std, column by column; the identity until it is fitted."""

    def __init__(self, dim: int) -> None:
        ### BEGIN SOLUTION
        super().__init__()
        self.mean = nn.Buffer(torch.zeros(dim))
        self.std = nn.Buffer(torch.ones(dim))

    @torch.no_grad()
    def fit(self, x: Tensor) -> "Standardizer":
        std = x.std(dim=0, correction=0)
        # into the buffers, which keep their device and dtype
        self.mean.copy_(x.mean(dim=0))
        self.std.copy_(torch.where(std == 0, 1, std))
        return self

    def forward(self, x: Tensor) -> Tensor:
        return ((x - self.mean) / self.std).to(x.dtype)
        ### END SOLUTION

# %% check="Standardizer"
check("Standardizer")

# %% [markdown]
# ## Modules inside modules
#
# Assign a module to `self` and its parameters become yours, under its name and a dot. A Python list is not a module.
# Look at what happens to two layers in a list:

# %%
class InAList(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = [nn.Linear(2, 2), nn.Linear(2, 2)]


class InAModuleList(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])


print(
    len(list(InAList().parameters())),
    [name for name, _ in InAModuleList().named_parameters()],
)

# %% [markdown]
# With a `forward`, the first module would run, but nothing in it would be trained. If you made an optimizer from its
# `parameters()`, you would at least get an error; with one more layer that *is* registered, you would get none.
#
# Three containers register what they hold:

# %%
chain = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
heads = nn.ModuleDict({"age": nn.Linear(3, 1), "price": nn.Linear(3, 1)})
print(chain)
print([name for name, _ in heads.named_parameters()])

# %% [markdown]
# `Sequential` also knows how to run its modules: one after the other. `ModuleList` and `ModuleDict` only hold them;
# your `forward` says what happens. You may still collect layers in a list, if it ends up in `nn.Sequential(*layers)`.
#
# Some layers have no parameters. Then there is often a function that does the same: `F.relu(x)` and `nn.ReLU()(x)` are
# the same thing. The function is handy in `forward`, the module in a `Sequential`, and only the module can be replaced
# or given a hook (a section below explains hooks). For layers that behave differently in training the choice matters
# more; we will come to that.
#
# And a layer that is made once and used twice is one layer, with one weight for both places:

# %%
one = nn.Linear(2, 2)
print(len(list(nn.Sequential(one, nn.ReLU(), one).parameters())))

# %% [markdown]
# **In short:** a container registers, a list does not; a layer that is used in two places shares its weights, so make
# two unless sharing is what you want.

# %% [markdown]
# ### Exercise: MLP
#
# Write `MLP(in_dim, hidden_dims, out_dim, dropout=0.0)`: for each width in `hidden_dims` a Linear, a BatchNorm1d, a
# ReLU and a Dropout with probability `dropout`, in this order; then one last Linear to `out_dim`, with nothing after
# it. `hidden_dims` may be empty. You may use torch's layers, with their defaults; this lesson explains `BatchNorm1d`
# and `Dropout` further down.
#
# ```
# mlp = MLP(4, [8, 6], 3)
# mlp(torch.randn(5, 4)).shape    # (5, 3)
# len(list(mlp.parameters()))     # 10: twice Linear and BatchNorm1d, and the last Linear
# ```

# %% exercise="MLP" points=2
class MLP(nn.Module):
    """Linear, BatchNorm1d, ReLU, Dropout for each hidden width, then one Linear."""

    def __init__(
        self, in_dim: int, hidden_dims: list[int], out_dim: int, dropout: float = 0.0
    ) -> None:
        ### BEGIN SOLUTION
        super().__init__()
        layers: list[nn.Module] = []
        width = in_dim
        for hidden in hidden_dims:
            layers += [
                nn.Linear(width, hidden),
                nn.BatchNorm1d(hidden),
                nn.ReLU(),
                nn.Dropout(dropout),
            ]
            width = hidden
        self.layers = nn.Sequential(*layers, nn.Linear(width, out_dim))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)
        ### END SOLUTION

# %% check="MLP"
check("MLP")

# %% [markdown]
# ## Counting and sharing
#
# "How large is it?" is a sum over `parameters()`, which walks through all levels. `p.numel()` is the number of
# elements. Batch norm's running statistics are in the `state_dict`, but they are buffers and are not trained.

# %%
normed = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8))
print({name: tuple(p.shape) for name, p in normed.named_parameters()})
print({name: tuple(b.shape) for name, b in normed.named_buffers()})

# %% [markdown]
# **Weight tying.** A language model reads tokens through an embedding, a table with a row for each token, and writes
# scores for tokens through a linear layer. Both are matrices of shape `(tokens, width)`, and one matrix can serve as
# both:

# %%
embedding, decoder = nn.Embedding(1000, 16), nn.Linear(16, 1000, bias=False)
decoder.weight = embedding.weight
tied = nn.ModuleDict({"embedding": embedding, "decoder": decoder})
print(
    [name for name, _ in tied.named_parameters()],
    [name for name, _ in tied.named_parameters(remove_duplicate=False)],
)
print(list(tied.state_dict()))

# %% [markdown]
# `parameters()` gives a tied tensor once, and its gradient is the sum from both places. The `state_dict` lists it
# under both names, so counting there counts it twice.
#
# **In short:** parameters are counted once, however many names they have.

# %% [markdown]
# ### Exercise: count_parameters
#
# Write `count_parameters(model, trainable_only=False)`: the number of elements in a model's parameters, as an int. A
# tied tensor counts once, buffers do not count. With `trainable_only=True`, parameters that do not require grad do
# not count either.
#
# ```
# count_parameters(nn.Linear(3, 2))    # 8
# ```

# %% exercise="count_parameters" points=1
def count_parameters(model: nn.Module, trainable_only: bool = False) -> int:
    """How many numbers a model's parameters hold."""
    ### BEGIN SOLUTION
    return sum(
        p.numel() for p in model.parameters() if p.requires_grad or not trainable_only
    )
    ### END SOLUTION

# %% check="count_parameters"
check("count_parameters")

# %% [markdown]
# ## Calling a module, and hooks
#
# You write `forward`, but you call `model(x)`. The call does more than `forward`: it also runs the *hooks*, functions
# attached to a module that see its inputs and output, and may even replace them. `model.forward(x)` bypasses them.

# %%
listened = nn.Linear(2, 2)
handle = listened.register_forward_hook(
    lambda module, inputs, output: print("hook saw", tuple(output.shape))
)
listened(torch.zeros(3, 2))
listened.forward(torch.zeros(3, 2))
handle.remove()
listened(torch.zeros(3, 2)).shape

# %% [markdown]
# One line was printed for three calls: the second bypassed the hook, and by the third it was gone. A hook is the
# usual way to look at the output of a layer inside a model without changing the model. Four things can go wrong.
#
# A hook that is not removed runs in every later call. `register_forward_hook` returns a handle that removes it; do so
# in a `finally`, because `forward` may raise.
#
# An output kept without `detach()` keeps its graph alive, and with it all that the layers before it have saved.
#
# An output kept without `clone()` is the very tensor that the model goes on working with, and an in-place ReLU writes
# into it:

# %%
kept = {}
net = nn.Sequential(nn.Linear(2, 4), nn.ReLU(inplace=True))
handle = net[0].register_forward_hook(
    lambda module, inputs, output: kept.update(
        plain=output, copy=output.detach().clone()
    )
)
net(torch.randn(3, 2))
handle.remove()
negative = {name: int((output < 0).sum()) for name, output in kept.items()}
print(
    "negative entries:",
    negative["plain"],
    "in what was kept,",
    negative["copy"],
    "in its copy",
)

# %% [markdown]
# And a function made in a loop looks up the loop's variable when it *runs*, not when it is made. By then the loop is
# over:

# %%
shouts = [lambda: name for name in ("first", "second")]
print([shout() for shout in shouts])

# %% [markdown]
# A function that makes the hook, or a default argument (`lambda name=name: ...`), keeps the name from its own
# iteration.
#
# `model.named_modules()` gives all submodules under their dotted names, and `model.get_submodule("encoder.0")` one of
# them.
#
# **In short:** call the module, not `forward`; copy what a hook keeps; remove the hooks you attach.

# %% [markdown]
# ### Exercise: capture
#
# Write `capture(model, names, x)`: run `model(x)` once, and return a dict from each name to the output of that
# submodule: a detached copy, in which a later in-place operation does not show. An unknown name raises `ValueError`,
# with a message that says which. Afterwards your hooks are gone, even when `forward` raises; other hooks stay.
#
# ```
# net = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
# capture(net, ["0"], torch.zeros(5, 2))["0"].shape    # (5, 3)
# ```

# %% exercise="capture" points=3
def capture(model: nn.Module, names: list[str], x: Tensor) -> dict[str, Tensor]:
    """Return copies of the outputs of the named submodules during one model(x)."""
    ### BEGIN SOLUTION
    modules = dict(model.named_modules(remove_duplicate=False))
    unknown = [name for name in names if name not in modules]
    if unknown:
        raise ValueError(
            f"names holds {unknown}, but has to name submodules: "
            f"{', '.join(filter(None, modules))}"
        )
    outputs: dict[str, Tensor] = {}

    def keep_as(name: str):
        def hook(module: nn.Module, inputs: object, output: object) -> None:
            if isinstance(output, Tensor):
                outputs[name] = output.detach().clone()
        return hook

    handles = [modules[name].register_forward_hook(keep_as(name)) for name in names]
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return outputs
    ### END SOLUTION

# %% check="capture"
check("capture")

# %% [markdown]
# ## Train and eval
#
# Some layers do one thing while a model learns and another when it is used. Every module has a flag, `training`;
# `train()` and `eval()` set it for a module and everything inside it. Nothing else happens: `eval()` does not switch
# gradients off, and `no_grad()` does not switch dropout off.

# %%
dropout = nn.Dropout(0.5)
x = torch.ones(8)
print(dropout.train()(x))
print(dropout.eval()(x))

# %% [markdown]
# Dropout zeros each entry with probability `p`, drawn anew in each call, so that no *unit* (one entry of a layer's
# output) can rely on any one other unit. In eval mode it does nothing. Why are the survivors 2? Without this, a sum
# over units would on average be half as large in training as in eval; so what is kept is divided by `1 - p`, and the
# mean stays the same. This is called *inverted* dropout.

# %%
many = torch.ones(100_000)
print(F.dropout(many, 0.2).mean(), F.dropout(many, 0.8).mean())

# %% [markdown]
# And here is the trap. The function cannot know whose `forward` calls it. Its argument `training` is True unless you
# say otherwise, so this model keeps dropping in eval mode:

# %%
class Careless(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x, 0.5)


print(Careless().eval()(torch.ones(8)))

# %% [markdown]
# Write `F.dropout(x, 0.5, self.training)`, or use `nn.Dropout`.
#
# **In short:** `training` is a flag, `train()` and `eval()` set it, and only code that looks at it behaves
# differently.

# %% [markdown]
# ### Exercise: Dropout
#
# Write `Dropout(p=0.5)`, inverted: in training each entry becomes zero with probability `p`, independently of the
# others and anew in each call, and the rest are divided by `1 - p`. What is dropped is drawn by torch, so that
# `torch.manual_seed` makes it repeatable. In eval mode the input comes back as it is. With `p = 1` everything is zero,
# and nothing is NaN. A `p` outside [0, 1] raises on construction, with a message that names it and says what it was.
# The result keeps the input's dtype and device. Rule: no dropout from torch.
#
# ```
# dropout = Dropout(0.5)
# dropout(torch.ones(6))           # for instance [0., 2., 0., 0., 0., 2.]
# dropout.eval()(torch.ones(6))    # [1., 1., 1., 1., 1., 1.]
# Dropout(1.0)(torch.ones(3))      # [0., 0., 0.]
# Dropout(1.5)                     # an error: p is 1.5, but has to lie between 0 and 1
# ```

# %% exercise="Dropout" points=2
class Dropout(nn.Module):
    """Zeros each entry with probability p in training, and scales the others up."""

    def __init__(self, p: float = 0.5) -> None:
        ### BEGIN SOLUTION
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"p is {p}, but has to lie between 0 and 1")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        if self.p == 1:
            return torch.zeros_like(x)
        dropped = torch.rand(x.shape, device=x.device) < self.p
        return x.masked_fill(dropped, 0) / (1 - self.p)
        ### END SOLUTION

# %% check="Dropout"
check("Dropout")

# %% [markdown]
# ## Batch norm by hand
#
# Batch norm brings each channel to mean 0 and variance 1 over the batch, then scales and shifts it by two learned
# numbers. In training it uses the batch's own statistics, and meanwhile gathers running ones, which it uses in eval
# mode, where a batch may be a single example.

# %%
norm = nn.BatchNorm1d(3)
print({name: tensor.tolist() for name, tensor in norm.state_dict().items()})

# %%
batch = torch.tensor([[0.0, 10.0, 5.0], [4.0, 20.0, 5.0]])
out = norm(batch)
print(out)
print(norm.running_mean, norm.running_var, norm.num_batches_tracked)

# %% [markdown]
# Three details are visible in these numbers:
#
# - *momentum* is the weight of the new batch: `running = (1 - momentum) * running + momentum * new`. The mean of the
#   first column is 2, and 0.1 of it was added. In optimizers momentum means the opposite, the weight of the old
#   value.
# - The batch is divided by its population standard deviation, the root of `var + eps`. The *running* variance uses
#   the sample variance, which divides by n - 1: here 8 and not 4 in the first column, so 0.9 * 1 + 0.1 * 8 = 1.7.
# - A column that never varies is divided by the root of eps alone. It comes out as 0, apart from rounding errors,
#   which that small root magnifies.
#
# In a batch of images `(N, C, H, W)` a channel's mean and variance are taken over N, H and W. A single value per
# channel has no variance, and in training that is an error:

# %%
try:
    norm.train()(batch[:1])
except ValueError as error:
    print(error)
print(norm.eval()(batch[:1]))

# %% [markdown]
# Autograd must not track the running statistics. If they took part in the graph, each step would hold on to the one
# before, and the memory of all batches would pile up. The batch's own mean and variance *do* depend on x, and
# gradients go through them.
#
# Because the statistics are buffers and not parameters, freezing does not stop them. This norm has no trainable
# numbers left, and changes all the same:

# %%
frozen = nn.BatchNorm1d(3).requires_grad_(False)
frozen(batch)
print("in training:", frozen.running_mean)
frozen.eval()(batch + 100)
print("in eval:    ", frozen.running_mean)

# %% [markdown]
# To fine-tune with frozen statistics, put those layers into eval mode, and do so again after every `model.train()`.
#
# *LayerNorm* has none of this. With one size, as in `nn.LayerNorm(3)`, it normalises over the last axis only, so in a
# batch of sequences `(batch, time, features)` each *position* is normalised by itself, over its own features, and
# neither other positions nor other examples matter. It does the same in training and eval. That is why models for
# sequences prefer it.

# %%
features = torch.tensor([[1.0, 2.0, 3.0], [10.0, 20.0, 30.0]])
print(nn.LayerNorm(3)(features).detach())
sequences = torch.randn(2, 5, 3)
print(
    torch.allclose(
        nn.LayerNorm(3)(sequences)[1, 4], nn.LayerNorm(3)(sequences[1, 4]), atol=1e-6
    )
)
print(list(nn.LayerNorm(3).state_dict()))

# %% [markdown]
# *GroupNorm* and *InstanceNorm*, meant for images, lie in between. Both normalise each example by itself: GroupNorm
# over all positions of a group of channels, InstanceNorm over all positions of a single channel. In the picture, two
# examples with four channels (down) and four positions (to the right) are normalised. The orange entries share their
# mean and variance with the first entry:

# %% tags=["demo"]
from torchcourse.demos import norms

norms.draw()

# %% [markdown]
# ### Exercise: BatchNorm
#
# Write `BatchNorm(num_features, eps=1e-5, momentum=0.1)` for `(N, C)` and `(N, C, H, W)`: the names in its
# `state_dict` and all its numbers are those of `nn.BatchNorm1d` and `nn.BatchNorm2d`, in training and in eval. A
# single value per channel in training raises `ValueError` with a message that says why. The running statistics never
# carry a graph. `x` has the dtype of the parameters. Rule: no batch_norm from torch.
#
# ```
# norm = BatchNorm(1)
# norm(torch.tensor([[0.0], [4.0]]))     # about [[-1.], [1.]]
# norm.running_mean, norm.running_var    # [0.2], [1.7]
# ```

# %% exercise="BatchNorm" points=3
class BatchNorm(nn.Module):
    """Batch norm over (N, C) or (N, C, H, W),
    with the names and numbers of nn.BatchNorm1d and 2d."""

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1
    ) -> None:
        ### BEGIN SOLUTION
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(num_features))
        self.bias = nn.Parameter(torch.zeros(num_features))
        self.running_mean = nn.Buffer(torch.zeros(num_features))
        self.running_var = nn.Buffer(torch.ones(num_features))
        self.num_batches_tracked = nn.Buffer(torch.tensor(0))

    def forward(self, x: Tensor) -> Tensor:
        mean, var = (
            self._of_the_batch(x)
            if self.training
            else (self.running_mean, self.running_var)
        )
        shape = (1, -1) + (1,) * (x.ndim - 2)
        scale = self.weight * (var + self.eps).rsqrt()
        return (x - mean.view(shape)) * scale.view(shape) + self.bias.view(shape)

    def _of_the_batch(self, x: Tensor) -> tuple[Tensor, Tensor]:
        count = x.numel() // x.shape[1]
        if count < 2:
            raise ValueError(
                f"x has shape {tuple(x.shape)}: training needs more than one value "
                "per channel"
            )
        dims = [d for d in range(x.ndim) if d != 1]
        mean, var = x.mean(dims), x.var(dims, correction=0)
        with torch.no_grad():
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(var * count / (count - 1), self.momentum)
            self.num_batches_tracked += 1
        return mean, var
        ### END SOLUTION

# %% check="BatchNorm"
check("BatchNorm")

# %% [markdown]
# ## Freezing, and what decays
#
# When you adapt a trained model, you often want to leave part of it alone. `requires_grad_(False)` on a parameter, or
# on a whole module, does it: from then on no gradient is computed for it, and an optimizer skips a parameter whose
# `.grad` is None.

# %%
model = nn.ModuleDict({"encoder": nn.Linear(2, 2), "encoder2": nn.Linear(2, 2)})
model["encoder"].requires_grad_(False)
print({name: p.requires_grad for name, p in model.named_parameters()})

# %% [markdown]
# The `None` matters here. A parameter that is frozen in the middle of training may still hold its last gradient, and
# the optimizer applies that again at every step. So clear the gradients when you freeze, or call `zero_grad()` before
# the next step:

# %%
stale = nn.Parameter(torch.ones(1))
stale_sgd = torch.optim.SGD([stale], lr=0.1)
(2 * stale).sum().backward()
stale.requires_grad_(False)
for _ in range(2):
    stale_sgd.step()
    print(stale.item())
stale_sgd.zero_grad()
stale_sgd.step()
print(stale.item(), stale.grad)

# %% [markdown]
# What to freeze is often given by a name in a configuration file. Names consist of parts, separated by dots, so
# comparing the first letters is not enough:

# %%
names = [
    "encoder.weight",
    "encoder.bias",
    "encoder2.weight",
    "layers.1.weight",
    "layers.10.weight",
]
print([name for name in names if name.startswith("encoder")])
print([name for name in names if name.startswith("layers.1")])

# %% [markdown]
# Each line shows one name too many. And a name with a typo silently matches nothing at all; a good function
# complains.

# %% [markdown]
# ### Exercise: freeze
#
# Write `freeze(model, prefix)`: freeze the parameters of the submodule called `prefix`, or the one parameter of that
# name, and return their names, sorted, as they appear in `model.named_parameters()`. An empty prefix, or one that
# matches no parameter, raises `ValueError` with a message that names `prefix` and says what it was; in that case
# nothing is frozen. No parameter has a second name.
#
# ```
# freeze(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)), "0")    # ['0.bias', '0.weight']
# ```

# %% exercise="freeze" points=2
def freeze(model: nn.Module, prefix: str) -> list[str]:
    """Freeze the parameters of the submodule or parameter called prefix;
    their sorted names."""
    ### BEGIN SOLUTION
    chosen = {
        name: parameter for name, parameter in model.named_parameters()
        if prefix and (name == prefix or name.startswith(prefix + "."))
    }
    if not chosen:
        raise ValueError(
            f"prefix is {prefix!r}, but has to name a submodule or parameter that "
            "holds parameters"
        )
    for parameter in chosen.values():
        parameter.requires_grad_(False)
    return sorted(chosen)
    ### END SOLUTION

# %% check="freeze"
check("freeze")

# %% [markdown]
# **Weight decay** pulls numbers towards zero with every step, so that a model keeps its weights small unless the data
# demand otherwise. For matrices that makes sense. But a bias only shifts, and the scale of a norm starts at one on
# purpose; pulling these to zero makes nothing simpler. So optimizers take *parameter groups*, dicts with settings of
# their own:

# %%
toy = nn.Linear(2, 2)
groups = [{"params": [toy.weight], "weight_decay": 0.1}, {"params": [toy.bias]}]
print([group["weight_decay"] for group in torch.optim.AdamW(groups).param_groups])

# %% [markdown]
# The second group names no decay and gets the optimizer's default, which for AdamW is not zero. So set it in each
# group. A simple rule says which parameter belongs where: those with two or more dimensions decay. Names do not help,
# since the scale of a norm is called `weight` too.

# %% [markdown]
# ### Exercise: weight_decay_groups
#
# Write `weight_decay_groups(model, weight_decay)`: a list of two groups for an optimizer, each with the keys `params`
# and `weight_decay`. The first holds the tensors with two or more dimensions, with this decay; the second the rest,
# with decay 0. Each trainable parameter is in exactly one of them, once; frozen ones are in none. Both groups are
# there even if one is empty.
#
# ```
# groups = weight_decay_groups(nn.Linear(3, 2), 0.1)
# [(len(group["params"]), group["weight_decay"]) for group in groups]    # [(1, 0.1), (1, 0.0)]
# ```

# %% exercise="weight_decay_groups" points=2
def weight_decay_groups(model: nn.Module, weight_decay: float) -> list[dict]:
    """Two groups for an optimizer: tensors of 2 or more dimensions, which decay,
    and the rest."""
    ### BEGIN SOLUTION
    trained = [p for p in model.parameters() if p.requires_grad]
    return [
        {"params": [p for p in trained if p.ndim >= 2], "weight_decay": weight_decay},
        {"params": [p for p in trained if p.ndim < 2], "weight_decay": 0.0},
    ]
    ### END SOLUTION

# %% check="weight_decay_groups"
check("weight_decay_groups")

# %% [markdown]
# ## Initialisation and depth
#
# Where should the numbers start? They must not all be equal: units that start alike get the same gradient and stay
# alike. So they are random, and the question is how large they should be. One layer multiplies the spread of what
# goes through it by some factor; twelve layers do it twelve times.

# %% tags=["demo"]
generator = torch.Generator().manual_seed(0)
for size in (0.05, (2 / 128) ** 0.5, 0.3):
    x = torch.randn(256, 128, generator=generator)
    for _ in range(12):
        x = torch.relu(x @ (size * torch.randn(128, 128, generator=generator)).T)
    print(
        f"weights of size {size:.3f}: after twelve layers a spread of "
        f"{x.std().item():.1e}"
    )

# %% [markdown]
# A unit adds up `fan_in` products, so the variance of the output is proportional to `fan_in` times the variance of
# the weights; a ReLU removes half of what comes in. The two cancel if the standard deviation is `sqrt(2 / fan_in)`:
# Kaiming He's initialisation. For `nn.Linear` fan_in is the number of inputs; for a convolution it is input channels
# times height times width of the kernel, and with `groups` only the channels of one group count, since that is all
# that an output sees. Without a ReLU the 2 becomes a 1; Xavier Glorot's version uses the mean of inputs and outputs.
#
# Below, each line is a layer. On the left you see the sizes of its activations, on the right those of the gradients
# that arrive there. Read the gradients from the bottom up, which is the way they travel.

# %% tags=["demo"]
from torchcourse.demos import depth

depth.draw("nn.Linear's default: sqrt(1 / (3 fan_in))", "relu", 8)

# %% [markdown]
# This is the default of `nn.Linear`, and both sides drift to the left: after eight layers little is left of the signal,
# and in the first layer little of the gradient. For a few layers that does not matter, and norms hide it. Try the
# others, with more depth: which ones stay in place? What does tanh do if the weights are too large?

# %% tags=["demo"]
depth.explore()

# %% [markdown]
# `nn.init` has the usual choices; the underscore means that they write in place:

# %%
layer = nn.Linear(128, 64)
nn.init.kaiming_normal_(layer.weight, mode="fan_in", nonlinearity="relu")
print(layer.weight.std().item(), (2 / 128) ** 0.5)
grouped = nn.Conv2d(8, 16, 3, groups=4)
print(grouped.weight.shape, "fan_in", grouped.weight[0].numel())

# %% [markdown]
# Writing in place matters. An optimizer holds the parameter objects it was given. If you put a new object into the
# module, the optimizer still holds the old one, which is no longer used, and never updates the new one:

# %%
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
layer.weight = nn.Parameter(torch.zeros(64, 128))
print(any(p is layer.weight for p in optimizer.param_groups[0]["params"]))

# %% [markdown]
# **In short:** the size of the weights determines the size of everything after them; write into parameters, do not
# replace them.

# %% [markdown]
# ### Exercise: init_weights
#
# Write `init_weights(model)`, which works in place and at any depth: the weights of all `nn.Linear` and `nn.Conv2d`,
# subclasses included, become Kaiming normal (fan_in, relu), drawn anew by torch, and their biases zero; norm layers
# (batch, layer, group, instance) get weight one and bias zero. Some layers have no bias, and some norms have no weight
# either. Other layers stay as they are. The parameters stay the same objects on the same device. The model itself may
# be a single layer.
#
# ```
# net = nn.Sequential(nn.Linear(400, 300), nn.LayerNorm(300))
# init_weights(net)
# net[0].weight.std(), net[0].bias.abs().max()    # about 0.0707, which is sqrt(2 / 400), and 0.
# net[1].weight.unique()                          # [1.]
# ```

# %% exercise="init_weights" points=2
def init_weights(model: nn.Module) -> None:
    """Kaiming normal weights, zero biases, norm layers one and zero; in place."""
    ### BEGIN SOLUTION
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_in", nonlinearity="relu")
        elif isinstance(
            module, nn.LayerNorm | nn.GroupNorm | nn.modules.batchnorm._NormBase
        ):
            if module.weight is not None:
                nn.init.ones_(module.weight)
        else:
            continue
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    ### END SOLUTION

# %% check="init_weights"
check("init_weights")

# %% [markdown]
# ## Convolutions and shapes
#
# A convolution slides a small window over an image and takes a weighted sum at each place. Its weight has shape
# `(out channels, in channels, kernel height, kernel width)`. With kernel size k, padding p and stride s, a side of n
# pixels becomes `(n + 2p - k) // s + 1`:

# %%
images = torch.randn(2, 3, 32, 32)
for k, p, s in ((3, 1, 1), (3, 0, 1), (3, 1, 2), (1, 0, 2), (7, 3, 2)):
    conv = nn.Conv2d(3, 8, k, stride=s, padding=p)
    print(
        f"kernel {k}, padding {p}, stride {s}: {conv(images).shape[-1]} and "
        f"{(32 + 2 * p - k) // s + 1}"
    )

# %% [markdown]
# Kernel 3 with padding 1 keeps the size; stride 2 halves it; a kernel of 1 mixes channels only. By hand, on a picture
# with a bright rectangle: cut out each 3×3 window, multiply it by the kernel entry by entry, and add up. This kernel
# responds to edges where dark turns to bright from left to right:

# %% tags=["demo"]
from torchcourse.demos import grids

picture = torch.zeros(6, 6)
picture[1:5, 2:5] = 1
kernel = torch.tensor([[-1.0, 0.0, 1.0]] * 3)
# (4, 4, 3, 3): a window for each place
windows = picture.unfold(0, 3, 1).unfold(1, 3, 1)
by_hand = (windows * kernel).sum(dim=(2, 3))
print(torch.equal(by_hand, F.conv2d(picture[None, None], kernel[None, None])[0, 0]))
first = torch.zeros(6, 6, dtype=torch.bool)
first[:3, :3] = True
corner = torch.zeros(4, 4, dtype=torch.bool)
corner[0, 0] = True
grids.draw(
    {"picture": first, "result": corner}, picture=picture, kernel=kernel, result=by_hand
)

# %% [markdown]
# The orange window gives the orange number. (What is called a convolution here does not flip the kernel;
# a mathematician would call it *cross-correlation*.)
#
# **Pooling** shrinks an image without weights: it keeps the largest value of each window, or the mean. **Flatten**
# turns channels, height and width into one row of features for a linear layer, and keeps the batch. After that, only
# images of one size fit:

# %%
pooled = nn.MaxPool2d(2)(images)
print(pooled.shape, nn.AvgPool2d(2)(images).shape, nn.Flatten()(pooled).shape)
print(nn.AdaptiveAvgPool2d(1)(images).flatten(1).shape, "whatever the size was")

# %% [markdown]
# **Residual blocks.** Very deep nets became trainable once layers *added* to what they get instead of replacing
# it: `x + f(x)`. The sum passes gradients on untouched. Both sides need the same shape. Where `f` changes it, by more
# channels or by a stride, x goes through a 1×1 convolution with that stride:

# %% tags=["demo"]
from torchcourse.demos import residual

residual.draw(8, 16, stride=2)

# %% [markdown]
# A bias right before a batch norm is useless: the norm subtracts the mean, and with it any constant:

# %%
plain = nn.Conv2d(3, 4, 3, bias=False)
shifted = torch.randn(4).view(1, 4, 1, 1)
print(
    torch.allclose(
        nn.BatchNorm2d(4)(plain(images)),
        nn.BatchNorm2d(4)(plain(images) + shifted),
        atol=1e-4,
    )
)

# %% [markdown]
# ### Exercise: ResidualBlock
#
# Write `ResidualBlock(in_channels, out_channels, stride=1)`: `conv1`, `bn1`, `relu`, `conv2`, `bn2`; then add
# `skip(x)`, and apply `relu` again. The attributes have these names. Both convolutions are 3×3 and keep the
# size, except that `conv1` carries the stride. `skip` is the identity where the shape stays; otherwise a 1×1
# convolution with the same stride, followed by a batch norm. No convolution has a bias.
#
# ```
# ResidualBlock(8, 16, stride=2)(torch.randn(4, 8, 32, 32)).shape    # (4, 16, 16, 16)
# ```

# %% exercise="ResidualBlock" points=3
class ResidualBlock(nn.Module):
    """Two 3x3 convolutions with norms, and a way around them."""

    def __init__(self, in_channels: int, out_channels: int, stride: int = 1) -> None:
        ### BEGIN SOLUTION
        super().__init__()
        self.conv1 = nn.Conv2d(
            in_channels, out_channels, 3, stride=stride, padding=1, bias=False
        )
        self.bn1 = nn.BatchNorm2d(out_channels)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(out_channels)
        self.skip: nn.Module = nn.Identity()
        if stride != 1 or in_channels != out_channels:
            self.skip = nn.Sequential(
                nn.Conv2d(in_channels, out_channels, 1, stride=stride, bias=False),
                nn.BatchNorm2d(out_channels),
            )

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return self.relu(y + self.skip(x))
        ### END SOLUTION

# %% check="ResidualBlock"
check("ResidualBlock")

# %% [markdown]
# ## A small ResNet
#
# Blocks like this one, stacked, make a ResNet. It has three parts: a *stem* that turns the image's own channels into as
# many as the blocks expect; blocks, some of which halve the image and double the channels; and a *head*. The head
# begins with *global average pooling*, the mean over height and width, so that an image of any size ends up as one
# vector. The block used below is yours as soon as it passes.

# %% tags=["demo"]
from torchcourse.demos import parts as stand_ins

own = stand_ins.yours("ResidualBlock", globals(), "torchvision's")
Residual = own or stand_ins.Residual

class SmallResNet(nn.Module):
    def __init__(self, classes: int, width: int = 16) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, width, 3, padding=1, bias=False)
        self.blocks = nn.Sequential(
            Residual(width, width),
            Residual(width, 2 * width, 2),
            Residual(2 * width, 2 * width),
        )
        self.head = nn.Linear(2 * width, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(self.stem(x))
        return self.head(x.mean(dim=(2, 3)))

# %% [markdown]
# Follow an image through it, with forward hooks. Nothing in it depends on height or width, so other sizes work too:

# %% tags=["demo"]
torch.manual_seed(0)
network = SmallResNet(10)
for name in ("stem", "blocks.0", "blocks.1", "blocks.2", "head"):
    network.get_submodule(name).register_forward_hook(
        lambda module, inputs, output, name=name: print(
            f"{name:9} {tuple(output.shape)}"
        )
    )
network(torch.randn(2, 1, 8, 8))
print(f"{sum(p.numel() for p in network.parameters()):,} parameters")

# %% [markdown]
# Does it learn? A hundred steps on handwritten digits of 8 by 8 pixels answer that. Lesson 5 takes this loop apart;
# here it only has to run:

# %% tags=["demo"]
from torchcourse import digits
from torchcourse.demos import curves

torch.manual_seed(0)
network, losses = SmallResNet(10), []
samples = digits.split()
(x, y), (held_x, held_y) = samples["train"], samples["val"]
optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
for step in range(100):
    rows = torch.randint(len(x), (64,))
    loss = F.cross_entropy(network(x[rows]), y[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
network.eval()
with torch.no_grad():
    right = (network(held_x).argmax(1) == held_y).float().mean()
print(f"{right:.1%} of 300 unseen digits are read correctly")
curves.draw({"training loss": losses}, "a small ResNet on digits")

# %% [markdown]
# ## Starting from trained weights
#
# You will rarely train a large network from scratch. Somebody else has trained one on more data than you have: take
# their weights, freeze them, put a head for your own classes in place of the last layer, and train that. torchvision's
# ResNets follow the plan above, are deeper, and come with weights: `resnet18(weights="DEFAULT")` downloads about 45 MB
# the first time. (Older code says `pretrained=True`, which `weights=` has replaced.) All the rest works without the
# download:

# %% tags=["demo"]
from torchvision.models import ResNet18_Weights, resnet18

model = resnet18(weights=None)
for p in model.parameters():
    p.requires_grad_(False)
model.fc = nn.Linear(model.fc.in_features, 5)  # new, so it requires gradients
print([name for name, p in model.named_parameters() if p.requires_grad])

# %% [markdown]
# Images must have the size and the normalisation that the weights expect. The weights come with a transform for
# evaluation, to which you add your own augmentation for training:

# %% tags=["demo"]
ResNet18_Weights.DEFAULT.transforms()

# %% [markdown]
# Two things go wrong without an error. Batch norms update their statistics in `train()` even when they are frozen, since
# those are buffers: put the body into `eval()` again after every `model.train()`. And when you unfreeze the body later,
# an optimizer that was made for the head alone does not train it. Make a new one for both, with a smaller learning rate
# for the body:

# %% tags=["demo"]
for p in model.parameters():
    p.requires_grad_(True)
body = [p for name, p in model.named_parameters() if not name.startswith("fc.")]
optimizer = torch.optim.AdamW(
    [
        {"params": body, "lr": 1e-5},
        {"params": model.fc.parameters(), "lr": 1e-3},
    ]
)

# %% [markdown]
# **Loading by hand.** torchvision builds the network with all 1000 classes, loads every weight, and only then do you
# replace the head. That is the safest order. A model that has its own head already does not fit. Here a small network
# plays the trained one, with ten classes; ours has three:

# %% tags=["demo"]
trained = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 10))
ours = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
try:
    ours.load_state_dict(trained.state_dict(), strict=False)
except RuntimeError as error:
    print(error)
print(torch.equal(ours[0].weight, trained[0].weight))

# %% [markdown]
# `strict=False` excuses names that are missing or left over, but never a shape. And the error comes late: what did fit
# has been copied already, as the last line shows. So begin again with a new model, and leave the old head out:

# %% tags=["demo"]
ours = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
body = {k: v for k, v in trained.state_dict().items() if not k.startswith("2.")}
missing, unexpected = ours.load_state_dict(body, strict=False)
print(missing, unexpected)

# %% [markdown]
# Read both lists. A missing name that you did not expect is a tensor that kept its initial values; an unexpected one was
# not used. If all names in the file begin with `module.`, say, nothing at all is loaded, and no error says so. In lesson
# 9 you write a function that loads whatever fits, and in lesson 14 one that gives each layer its own learning rate.
#
# **In short:** load first, then make a new head; keep frozen norms in `eval()`; check both lists of names.

# %% [markdown]
# ## Other layers at a glance
#
# **Embedding**: a table; its inputs are row numbers. **GELU**: a smooth ReLU, which transformers use.

# %%
table = nn.Embedding(10, 4)
print(table(torch.tensor([[1, 2, 3], [3, 2, 1]])).shape)
print(
    F.relu(torch.tensor([-2.0, -0.5, 0.5, 2.0])),
    F.gelu(torch.tensor([-2.0, -0.5, 0.5, 2.0])),
)

# %% [markdown]
# **MultiheadAttention**: each position looks at the others. Two conventions surprise people: the batch comes second
# unless you say `batch_first=True`, and in its masks True means *ignore*, while in the masks of lesson 1 True meant
# real.

# %%
attention = nn.MultiheadAttention(embed_dim=8, num_heads=2, batch_first=True)
tokens = torch.randn(2, 5, 8)
padding = torch.tensor([[False] * 5, [False, False, False, True, True]])
mixed, weights = attention(tokens, tokens, tokens, key_padding_mask=padding)
print(mixed.shape, weights.shape, weights[1, 0].tolist()[-2:])

# %% [markdown]
# ## What you have seen
#
# | idea | remember |
# |---|---|
# | registration | Parameter, Buffer and module are known; a plain tensor or a list is not |
# | `super().__init__()` | first, or nothing can be registered |
# | buffers | moved and saved, not trained; `nn.Buffer` or `register_buffer` |
# | containers | `Sequential` runs, `ModuleList` and `ModuleDict` hold |
# | `model(x)` | runs hooks; `forward` does not |
# | hooks | copy what you keep, remove in `finally` |
# | `train()`, `eval()` | a flag; `F.dropout` needs to be told |
# | batch norm | batch statistics in training, running ones in eval; freezing does not stop them |
# | initialisation | `sqrt(2 / fan_in)` before a ReLU; in place |
# | weight decay | matrices yes; biases and norms no |
# | shapes | `(n + 2p - k) // s + 1` |
# | residual nets | stem, blocks, head; the mean over height and width makes any size fit |
# | trained weights | load first, then make a new head; `strict=False` excuses names, never shapes |
#
# Next comes **lesson 4, data**: how batches are made, and how fast.
