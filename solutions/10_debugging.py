# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 10 · Debugging
#
# A program that is wrong and raises an error is the lucky case. Most faults in a training run raise nothing: the loss
# goes down, only not far enough, or the result is worse than it could be, and hours pass before anybody notices.
#
# So this lesson is about looking. You repair one broken training loop and write eleven small tools. Each tool answers
# one question, such as "which layer gets no gradient?", and right after you have written it, you see it at work. At the
# end ten of them stand together in one function, `diagnose`, that you can take with you.
#
# Nothing here needs the internet or a GPU.

# %% tags=["setup"]
import contextlib
import math
import warnings

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from torchcourse import Unattempted, case, check, hint


@contextlib.contextmanager
def evaluating(*models):
    """Evaluation mode in this block;
    afterwards every submodule has its own mode again."""
    modes = [
        (module, module.training) for model in models for module in model.modules()
    ]
    for model in models:
        model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def tensors_in(output) -> list[Tensor]:
    """The tensors of an output, which may be nested in dicts, lists and tuples."""
    return [leaf for leaf in tree_leaves(output) if isinstance(leaf, Tensor)]

# %% tags=["demo"]
# %load_ext torchcourse

# %% [markdown]
# ## The order of looking
#
# When a net does not learn, most people turn first to the learning rate. That is the most expensive place to look:
# each try costs a whole run. Go from cheap to expensive instead:
#
# 1. the data: dtypes, NaN, labels (one batch, no run)
# 2. the shapes where data and model meet (one forward)
# 3. the loss before the first step (one forward)
# 4. one batch, learned by heart (seconds; lesson 5)
# 5. gradients by layer, then the size of the updates (one backward)
# 6. modes, and what is not trained at all
# 7. NaN and infinity
# 8. only then hyperparameters
#
# Errors come before all that. Read one from its last line: it says what was refused. Then go up to the first line that
# is yours.

# %%
try:
    nn.Linear(4, 2)(torch.randn(8, 3))
except RuntimeError as error:
    print(error)

# %% [markdown]
# "8x3 and 4x2": the batch has 8 rows of 3 features, and the weight, transposed, takes 4. If the message does not say
# where, put `breakpoint()` into `forward`: it stops there, and you can print every shape on the way. For code that goes
# through `torch.compile`, setting the environment variable `TORCH_LOGS="recompiles,graph_breaks"` prints what the
# compiler does.
#
# The tools to come share a small helper. It calls what you wrote; if you have not written it yet, it says so, and the
# notebook runs on.

# %% tags=["demo"]
def use(tool, *args, **options):
    """What a tool says; or that it is not written yet, or fails."""
    try:
        return tool(*args, **options)
    except Unattempted as stub:
        return f"({stub.name} is not written yet)"
    except Exception as error:
        return f"({tool.__name__} raised {type(error).__name__}: {error})"

# %% [markdown]
# ## Modes, and how to leave no trace
#
# A tool that looks at a model should leave it as it was. Otherwise the training that you examine is no longer
# the training that you have. The commonest trace is the mode:

# %%
model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
model[1].eval()                                    # a frozen batch norm, on purpose
was = model.training
model.eval()
model.train(was)                                   # looks like putting things back
print([module.training for module in model])

# %% [markdown]
# The batch norm was frozen, and no longer is. `model.train(was)` sets every submodule to the same mode. To give each
# its own mode back, you need a list of all of them; that is `evaluating`, in the first cell. It has a `try` and a
# `finally`, so that it does its work even if the model raises:

# %%
model[1].eval()
with evaluating(model):
    print([module.training for module in model])
print([module.training for module in model])

# %% [markdown]
# Other traces: batch norm in training mode moves its statistics, a backward adds to `.grad`, a hook stays, and a
# dropout uses up random numbers, so that all later ones differ. `torch.random.fork_rng()` puts the random state
# back:

# %%
torch.manual_seed(0)
with torch.random.fork_rng():
    torch.rand(1000)
inside_a_fork = torch.rand(1)
torch.manual_seed(0)
print(torch.equal(torch.rand(1), inside_a_fork))

# %% [markdown]
# ## The batch at the door
#
# Most faults come in with the data. Labels that count from 1. Labels as floats, because a CSV had a gap. Images as
# bytes. One NaN in a million rows. Some of these raise, later and elsewhere; others never do. All of them can be seen
# in one batch, before the first step:

# %%
logits = torch.zeros(4, 3)
for labels in (torch.tensor([1, 2, 3, 1]), torch.tensor([[0], [1], [2], [0]])):
    try:
        F.cross_entropy(logits, labels)
    except (RuntimeError, IndexError, ValueError) as error:
        print(f"{type(error).__name__}: {error}")
# -100 is `ignore_index`: no error at all
print(F.cross_entropy(logits, torch.tensor([0, 1, 2, -100])))

# %% [markdown]
# `<`, `>` and `==` with NaN are always False. So ask whether all labels are inside the range, and not whether some are
# outside: a NaN among labels that came as floats is then found, too.

# %%
y = torch.tensor([0.0, float("nan"), 2.0])
print(bool(((y < 0) | (y >= 3)).any()), bool(((y >= 0) & (y < 3)).all()))

# %% [markdown]
# ### Exercise: check_batch
#
# Write `check_batch(model, batch, num_classes)`: the sorted names of all faults of a batch `(x, y)` of tensors.
#
# | name | the fault |
# |---|---|
# | `x-dtype` | not the dtype of the model's first floating parameter |
# | `x-nonfinite` | NaN or infinity in x |
# | `y-dtype` | not int64 |
# | `y-range` | a label outside [0, num_classes), whatever the dtype |
# | `y-shape` | not `(len(x),)` |
# | `device` | x or y is not where the model is |
# | `output-shape` | the output in evaluation mode is not of shape `(len(x), num_classes)`, or the model raises; tried even if x is faulty |
#
# It raises on none of them, and leaves every submodule's mode, batch statistics, gradients and the random state as they
# were, even if the model draws random numbers in evaluation mode.
#
# ```
# check_batch(nn.Linear(3, 2), (torch.ones(4, 3), torch.tensor([0, 1, 2, 1])), 2)    # ['y-range']
# ```

# %% exercise="check_batch" points=3
def check_batch(model, batch, num_classes: int) -> list[str]:
    """The names of a batch's faults, sorted; the model stays as it is."""
    ### BEGIN SOLUTION
    x, y = batch
    weight = next(p for p in model.parameters() if p.is_floating_point())
    try:
        with evaluating(model), torch.no_grad(), torch.random.fork_rng():
            fits = model(x).shape == (len(x), num_classes)
    except Exception:
        fits = False
    faults = {
        "x-dtype": x.dtype != weight.dtype,
        "x-nonfinite": not x.isfinite().all(),
        "y-dtype": y.dtype != torch.int64,
        "y-range": not ((y >= 0) & (y < num_classes)).all(),
        "y-shape": y.shape != (len(x),),
        "device": x.device != weight.device or y.device != weight.device,
        "output-shape": not fits,
    }
    return sorted(name for name, present in faults.items() if present)
    ### END SOLUTION

# %% check="check_batch"
check("check_batch")

# %% [markdown]
# A case like those you meet in practice, with made-up digits: the labels count from 1, as in some files, and the pixels
# were divided by a number that was zero once.

# %% tags=["demo"]
images = torch.rand(6, 64) / torch.tensor([16.0, 16, 0, 16, 16, 16]).unsqueeze(1)
reader = nn.Sequential(
    nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10)
)
print(use(check_batch, reader, (images, torch.tensor([1, 10, 3, 4, 10, 2])), 10))
print(
    use(check_batch, reader, (torch.rand(6, 64), torch.tensor([1, 0, 3, 4, 9, 2])), 10)
)

# %% [markdown]
# ## The loss before the first step
#
# A new model knows nothing. If it gives each of C classes the same probability, its cross-entropy is `-ln(1/C)`, which
# is ln C: 0.69 for two classes, 2.30 for ten. A first loss far above it says that the model is sure of something before
# it has seen anything. One far below it cannot be a guess: the model is not new, or C is not what you think.

# %%
labels = torch.randint(10, (1000,))
print(
    f"ln 10 = {math.log(10):.2f}, even: "
    f"{F.cross_entropy(torch.zeros(1000, 10), labels):.2f}"
)
for scale in (1, 10, 100):
    print(
        f"outputs of size {scale}: "
        f"{F.cross_entropy(scale * torch.randn(1000, 10), labels):.2f}"
    )

# %% [markdown]
# Measure it in evaluation mode and without a graph. Give the loss logits, not probabilities: a softmax before the loss
# hides every gap, for then nothing is ever far from a guess.

# %%
sure = 100 * torch.randn(1000, 10)
print(
    f"{F.cross_entropy(sure, labels):.2f}, after a softmax "
    f"{F.cross_entropy(sure.softmax(1), labels):.2f}"
)

# %% [markdown]
# ### Exercise: initial_loss_gap
#
# Write `initial_loss_gap(model, batch, num_classes)`: the cross-entropy of the model on a batch `(x, y)`, in evaluation
# mode and without a graph, minus ln(num_classes), as a Python float. A model may have more outputs than there are
# classes. Afterwards every submodule is back in the mode that it had, even if the model raises.
#
# ```
# initial_loss_gap(a model whose outputs are all 0, batch, 5)    # 0.0
# ```

# %% exercise="initial_loss_gap" points=1
def initial_loss_gap(model, batch, num_classes: int) -> float:
    """Cross-entropy of a model on a batch, minus that of a guess;
    the model stays as it is."""
    ### BEGIN SOLUTION
    x, y = batch
    with evaluating(model), torch.no_grad():
        loss = F.cross_entropy(model(x), y)
    return loss.item() - math.log(num_classes)
    ### END SOLUTION

# %% check="initial_loss_gap"
check("initial_loss_gap")

# %% tags=["demo"]
torch.manual_seed(0)
batch = (torch.rand(64, 64), torch.randint(10, (64,)))
print("as it came:", use(initial_loss_gap, reader, batch, 10))
with torch.no_grad():
    reader[3].weight.mul_(100)                     # an initialisation that went wrong
print("last layer 100 times too large:", use(initial_loss_gap, reader, batch, 10))

# %% [markdown]
# ## The clinic
#
# Ten training runs of one small net on one small problem, four classes on a spiral. Each has one fault: the orange
# curve is the run with the fault, the blue one the healthy run. Before you go on: which of them has a learning rate
# that is too high? Which one begins wrong? Which ones hardly move, and could you say why?

# %% tags=["demo"]
from torchcourse.demos import clinic

clinic.page()

# %% [markdown]
# Now pick a fault from the list and see it run: its curve beside the healthy one, the loss at the start, and the
# gradient norms of the four layers at the first step. Look for faults whose curves are alike and whose gradients are
# not.

# %% tags=["demo"]
clinic.explore()

# %% [markdown]
# B has the learning rate that is too high: it leaps away at once. E begins wrong, far above ln 4. The curves of C and I
# are both flat: in C all layers get a healthy gradient and the steps are too small to see; in I the weights of three of
# the four layers get a gradient of zero. J and H are much the same curve, and the gradients are healthy in both: J
# trains a single layer, H has the wrong labels. A curve tells *that* something is wrong. For *what*, you need the tools
# below.

# %% [markdown]
# ## A broken loop, repaired
#
# The exercise at the end of this section holds a net and a loop with all the usual faults. First, here is what each
# fault does alone. Two of them raise:

# %%
class WithoutInit(nn.Module):
    def __init__(self):
        self.layer = nn.Linear(2, 2)

class WithAList(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(2, 2)]

for broken in (WithoutInit, WithAList):
    try:
        torch.optim.Adam(broken().parameters(), lr=0.01)
    except (AttributeError, ValueError) as error:
        print(f"{broken.__name__}: {error}")

# %% [markdown]
# The others are silent. Two linear layers without an activation are one linear layer:

# %%
a, b = nn.Linear(2, 16), nn.Linear(16, 3)
one = nn.Linear(2, 3)
with torch.no_grad():
    one.weight.copy_(b.weight @ a.weight)
    one.bias.copy_(b.weight @ a.bias + b.bias)
points = torch.randn(5, 2)
print(torch.allclose(b(a(points)), one(points), atol=1e-5))

# %% [markdown]
# A squared error on class indices takes class 2 for twice class 1. Where 0 and 2 are both possible, the best that it
# can say is something like 1, which is certainly wrong:

# %%
mixed = torch.tensor([0.0, 0, 0, 2, 2])
print("best constant:", mixed.mean().item(), "-> class", round(mixed.mean().item()))

# %% [markdown]
# And a loop without `zero_grad` still learns if the learning rate is low. No curve shows it then. What shows it is the
# gradient at the step, against the one that the batch alone would give:

# %%
torch.manual_seed(0)
net = nn.Linear(2, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(3):
    F.cross_entropy(net(points), torch.tensor([0, 1, 2, 0, 1])).backward()
    fresh = torch.autograd.grad(
        F.cross_entropy(net(points), torch.tensor([0, 1, 2, 0, 1])), net.weight
    )[0]
    print(
        f"step {step}: gradient used is {net.weight.grad.norm() / fresh.norm():.1f} "
        "times that of the batch"
    )
    optimizer.step()

# %% [markdown]
# ### Exercise: repaired_training
#
# In the cell below, a net and a loop with at least seven faults follow the line that raises. Delete that line, and
# repair the rest, so that `repaired_training(train, test, *, epochs, lr, seed)` returns a dict with `loss`, a list of
# the training loss in each epoch as a Python float, and `accuracy`, the share of right answers on `test` as a number
# from 0 to 1. `train` and `test` are pairs `(x, y)` of tensors on one device. The labels are class indices from 0 on,
# and the largest one in `train` tells how many classes there are. The net has to learn data that no linear model can.
# You may choose the optimizer; `lr` is meant for Adam. The same seed gives the same result. Judge the net without
# dropout and without a graph.
#
# ```
# repaired_training(rings, more_rings, epochs=150, lr=0.02, seed=0)    # {'loss': [1.1, 1.05, …], 'accuracy': 0.98}
# ```

# %% exercise="repaired_training" points=3
def repaired_training(train, test, *, epochs: int, lr: float, seed: int) -> dict:
    """Train a net on (x, y); a loss for each epoch,
    and the accuracy on the test data."""
    ### BEGIN SOLUTION
    class Net(nn.Module):
        def __init__(self, inputs, hidden, classes):
            super().__init__()
            self.layers = nn.Sequential(
                nn.Linear(inputs, hidden),
                nn.ReLU(),
                nn.Linear(hidden, hidden),
                nn.ReLU(),
                nn.Dropout(0.1),
                nn.Linear(hidden, classes),
            )

        def forward(self, x):
            return self.layers(x)

    torch.manual_seed(seed)
    (x, y), (test_x, test_y) = train, test
    model = Net(x.shape[1], 32, int(y.max()) + 1).to(x.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    history = []
    for epoch in range(epochs):
        model.train()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        history.append(loss.item())
    model.eval()
    with torch.no_grad():
        right = (model(test_x).argmax(dim=1) == test_y).float().mean()
    return {"loss": history, "accuracy": right.item()}
    ### END SOLUTION
    #>
    #> class Net(nn.Module):
    #>     def __init__(self, inputs, hidden):
    #>         self.layers = [
    #>             nn.Linear(inputs, hidden), nn.Linear(hidden, hidden),
    #>             nn.Dropout(0.1), nn.Linear(hidden, 1),
    #>         ]
    #>
    #>     def forward(self, x):
    #>         for layer in self.layers:
    #>             x = layer(x)
    #>         return x.squeeze(1)
    #>
    #> torch.manual_seed(seed)
    #> (x, y), (test_x, test_y) = train, test
    #> model = Net(x.shape[1], 32).to(x.device)
    #> optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    #> history = []
    #> for epoch in range(epochs):
    #>     loss = F.mse_loss(model(x), y.float())
    #>     loss.backward()
    #>     optimizer.step()
    #>     history.append(loss)
    #> right = (model(test_x).round() == test_y).float().mean()
    #> return {"loss": history, "accuracy": right.item()}

# %% check="repaired_training"
check("repaired_training")

# %% tags=["demo"]
def rings(count, seed):
    """Points on three rings; their class is the ring."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(3, (count,), generator=generator)
    radius = 0.3 + labels + 0.7 * torch.rand(count, generator=generator)
    angle = 6.283 * torch.rand(count, generator=generator)
    return torch.stack([radius * angle.cos(), radius * angle.sin()], 1) / 1.5, labels

outcome = use(
    repaired_training, rings(240, 1), rings(150, 2), epochs=150, lr=0.02, seed=0
)
if isinstance(outcome, dict):
    outcome = (
        f"loss {outcome['loss'][0]:.2f} to {outcome['loss'][-1]:.2f}, accuracy "
        f"{outcome['accuracy']:.2f}"
    )
print(outcome)

# %% [markdown]
# ## Gradients, layer by layer
#
# On its way back through a deep net, a gradient is multiplied by many factors. If they are below 1, it vanishes on the
# way down, and the first layers learn nothing; if they are above 1, it explodes. One norm for each parameter shows it:

# %%
def deep(depth, gain):
    torch.manual_seed(0)
    layers = [nn.Linear(32, 32) for _ in range(depth)]
    for layer in layers:
        nn.init.normal_(layer.weight, std=gain / 32**0.5)
    return nn.Sequential(
        *(part for layer in layers for part in (layer, nn.Tanh())), nn.Linear(32, 3)
    )


for gain in (0.3, 1.0, 4.0):
    net = deep(10, gain)
    F.cross_entropy(net(torch.randn(64, 32)), torch.randint(3, (64,))).backward()
    print(
        f"gain {gain}: first layer {net[0].weight.grad.norm():.1e}, last "
        f"{net[-1].weight.grad.norm():.1e}"
    )

# %% [markdown]
# There is a difference between a gradient of zero and no gradient. Zero: the parameter is part of the loss, and a small
# change to it changes nothing, as with a dead unit. None: no path leads from the loss to the parameter. It was never
# used, or somebody wrote `detach`.

# %%
used, cut, unused = (nn.Parameter(torch.ones(2)) for _ in range(3))
(used * 0 + cut.detach()).sum().backward()
print(used.grad, cut.grad, unused.grad)

# %% [markdown]
# ### Exercise: gradient_report
#
# Write `gradient_report(model)`, to be called after a backward: a dict from name to the L2 norm of the gradient as a
# Python float, for each trainable parameter, in the order of `named_parameters()`. `None` where there is no gradient at
# all, `0.0` where it is zero.
#
# ```
# gradient_report(model)    # {'body.weight': 0.52, 'body.bias': 0.0, 'spare.weight': None}
# ```

# %% exercise="gradient_report" points=1
def gradient_report(model) -> dict:
    """The gradient's norm of each trainable parameter by name;
    None where there is no gradient."""
    ### BEGIN SOLUTION
    return {
        name: None if p.grad is None else p.grad.norm().item()
        for name, p in model.named_parameters()
        if p.requires_grad
    }
    ### END SOLUTION

# %% check="gradient_report"
check("gradient_report")

# %% tags=["demo"]
class TwoStreams(nn.Module):
    """Adds two streams; somebody has detached one."""
    def __init__(self):
        super().__init__()
        self.left = nn.Linear(4, 8)
        self.right = nn.Linear(4, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.left(x).relu() + self.right(x).relu().detach())

streams = TwoStreams()
F.cross_entropy(streams(torch.randn(16, 4)), torch.randint(3, (16,))).backward()
print(use(gradient_report, streams))

# %% [markdown]
# ## Units that never fire
#
# A relu that gets only negative numbers outputs zero, and passes no gradient back. If that is so for every sample, the
# unit is dead: its own weights get no gradient any more, and it can come back only if the layers before it change what
# it receives. One step with too high a learning rate can do that to a layer.
#
# Zeros alone prove nothing. A healthy relu is zero about half of the time; a dead unit is zero *always*.

# %%
torch.manual_seed(0)
before = nn.Linear(8, 100)
hidden = before(torch.randn(500, 8)).relu()
print(
    f"share of zeros {(hidden == 0).float().mean():.1%}, dead units "
    f"{(hidden == 0).all(0).float().mean():.1%}"
)
before.bias.data -= 2.0
hidden = before(torch.randn(500, 8)).relu()
print(
    f"share of zeros {(hidden == 0).float().mean():.1%}, dead units "
    f"{(hidden == 0).all(0).float().mean():.1%}"
)

# %% [markdown]
# To see the output of a layer inside a model, hang a hook on it: after `handle = module.register_forward_hook(f)`, each
# call of the module also calls `f(module, inputs, output)`, and `handle.remove()` takes the hook off again. Look at the
# output *in* the hook, since a later in-place operation may write into it. And shares of batches cannot be averaged: a
# unit that fires in only one batch is silent in all the others, and yet it is alive.
#
# ### Exercise: dead_units
#
# Write `dead_units(model, name, loader)`: the share of the units of submodule `name` whose output is zero for every
# sample of the loader. The units are the last dimension of its output, which may have two dimensions or more. If the
# submodule is called several times in a forward, each of its outputs counts. A batch is a pair `(x, y)` or x alone, and
# lies where the model is. Run the model in evaluation mode; afterwards each submodule is back in the mode that it had,
# and the hook is gone, even if the model raises.
#
# After a convolution the units are dimension 1, and this tool is no use there. `diagnose` will call it for every
# `nn.ReLU` all the same.
#
# ```
# dead_units(model, "body.act", loader)    # 0.25, if 2 of its 8 units are silent for all of the data
# ```

# %% exercise="dead_units" points=2
def dead_units(model, name: str, loader) -> float:
    """The share of a submodule's units that put out zero for every sample of the
    loader."""
    ### BEGIN SOLUTION
    fired = []

    def note(module, inputs, output):
        fired.append((output != 0).flatten(0, -2).any(dim=0))

    handle = model.get_submodule(name).register_forward_hook(note)
    try:
        with evaluating(model), torch.no_grad():
            for batch in loader:
                model(batch[0] if isinstance(batch, (tuple, list)) else batch)
    finally:
        handle.remove()
    return 1 - torch.stack(fired).any(dim=0).float().mean().item()
    ### END SOLUTION

# %% check="dead_units"
check("dead_units")

# %% tags=["demo"]
torch.manual_seed(0)
burnt = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 3))
loader = [(torch.rand(50, 8), torch.randint(3, (50,))) for _ in range(4)]
print("before:", use(dead_units, burnt, "1", loader))
optimizer = torch.optim.Adam(burnt.parameters(), lr=1.0)
F.cross_entropy(burnt(loader[0][0]), loader[0][1]).backward()
optimizer.step()
print("after one step at a rate of 1:", use(dead_units, burnt, "1", loader))

# %% [markdown]
# ## The size of an update
#
# A gradient gives the direction; how far the parameter goes is the optimizer's doing, with momentum, decay and
# averages. The number to look at is the change relative to the parameter itself: the norm of the change over the norm
# of the parameter. About a thousandth a step is common. A hundred times less means that nothing moves; a tenth or more
# means that each step undoes the last.
#
# The learning rate times the gradient is no substitute. Adam divides by the size of the gradient, so that its steps
# hardly depend on it:

# %%
for scale in (1.0, 1000.0):
    p = nn.Parameter(torch.ones(3))
    optimizer = torch.optim.Adam([p], lr=0.01)
    (scale * p).sum().backward()
    optimizer.step()
    print(
        f"lr times gradient {0.01 * p.grad.norm():.3f}, real change "
        f"{(p.detach() - 1).norm():.3f}"
    )

# %% [markdown]
# To measure the change you need the parameter from before, and an optimizer writes into the memory that is there.
# `detach()` alone gives a second name for it:

# %%
p = nn.Parameter(torch.zeros(2))
shared, copied = p.detach(), p.detach().clone()
with torch.no_grad():
    p += 1
print(shared, copied)

# %% [markdown]
# ### Exercise: update_ratios
#
# Write `update_ratios(model, batch, loss_fn, optimizer)`: one training step on a batch `(x, y)`, in training mode and
# with the optimizer's gradients cleared before. Return a dict with a Python float for the name of each parameter, frozen ones too: the norm of
# its change, divided by the norm that it had before the step; 0.0 for a parameter that was zero. Nothing needs to be
# put back afterwards, neither the mode nor the gradients; `diagnose` will look at the gradients of this step.
#
# ```
# update_ratios(model, batch, F.cross_entropy, optimizer)    # {'weight': 0.0011, 'bias': 0.0}
# ```

# %% exercise="update_ratios" points=2
def update_ratios(model, batch, loss_fn, optimizer) -> dict:
    """One training step; how far each parameter went, as a share of its norm before."""
    ### BEGIN SOLUTION
    x, y = batch
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    model.train()
    optimizer.zero_grad()
    loss_fn(model(x), y).backward()
    optimizer.step()
    ratios = {}
    for name, p in model.named_parameters():
        size = before[name].norm().item()
        ratios[name] = (p.detach() - before[name]).norm().item() / size if size else 0.0
    return ratios
    ### END SOLUTION

# %% check="update_ratios"
check("update_ratios")

# %% tags=["demo"]
torch.manual_seed(0)
for rate in (1e-6, 1e-3, 0.3):
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    ratios = use(
        update_ratios,
        net,
        loader[0],
        F.cross_entropy,
        torch.optim.AdamW(net.parameters(), lr=rate),
    )
    print(
        rate,
        ratios
        if isinstance(ratios, str)
        else {name: f"{ratio:.1e}" for name, ratio in ratios.items()},
    )

# %% [markdown]
# ## What is not trained
#
# Apart from a gradient of zero, there are four reasons why a parameter stays as it is. It is frozen
# (`requires_grad=False`). It is not registered, say because it sits in a plain Python list, and then not even
# `named_parameters()` knows it. The optimizer does not hold it. Or no gradient comes.
#
# The third is the one that happens to careful people: they make the optimizer, and then give the model a new head.

# %%
model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model[1] = nn.Linear(4, 2)
held = [p for group in optimizer.param_groups for p in group["params"]]
print(len(held), len(list(model.parameters())), [tuple(p.shape) for p in held])

# %% [markdown]
# Just as many parameters, of the same shapes; and yet the optimizer holds a head that nobody uses any more, and not the
# new one. Only the identity of the objects shows it: `is`, or `id`. (`p in held` compares by value where the object is
# not the same, and with tensors of several entries that raises.)

# %%
print([any(p is one for one in held) for p in model.parameters()])

# %% [markdown]
# ### Exercise: untrained
#
# Write `untrained(model, optimizer)`: a dict with the keys `frozen`, `not_in_optimizer` and `no_gradient`, under each
# the sorted names of the parameters to which it applies. `no_gradient` means that `.grad` is None. A name stands only
# under the first key that applies. A tied parameter is listed once, under its first name. There is no key for the
# second of the four reasons: a parameter that is not registered has no name in the model, and this tool cannot find it.
#
# ```
# untrained(model, optimizer)    # {'frozen': [], 'not_in_optimizer': ['1.bias', '1.weight'], 'no_gradient': []}
# ```

# %% exercise="untrained" points=2
def untrained(model, optimizer) -> dict:
    """The names of parameters that a step leaves alone, sorted,
    each under the first reason that applies."""
    ### BEGIN SOLUTION
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    report = {"frozen": [], "not_in_optimizer": [], "no_gradient": []}
    for name, p in sorted(model.named_parameters()):
        if not p.requires_grad:
            report["frozen"].append(name)
        elif id(p) not in held:
            report["not_in_optimizer"].append(name)
        elif p.grad is None:
            report["no_gradient"].append(name)
    return report
    ### END SOLUTION

# %% check="untrained"
check("untrained")

# %% tags=["demo"]
F.cross_entropy(model(torch.randn(8, 4)), torch.randint(2, (8,))).backward()
print("the new head:", use(untrained, model, optimizer))

# %% [markdown]
# ## The first bad value
#
# One NaN, and a few operations later everything is NaN. The place where it shows up tells you nothing; the place where
# it began tells you everything. Forward hooks run when a module is done, so their order is the order of execution,
# whatever the order of definition. Ask with `isfinite`: infinity often comes first, and turns into NaN later.

# %%
x = torch.tensor([1000.0])
# infinity; NaN made from it; and the infinity can vanish again
print(x.exp(), x.exp() - x.exp(), torch.tanh(x.exp()))

# %% [markdown]
# The backward can make a NaN that the forward does not show. At zero, `norm()` has a gradient of 0, and the root of the
# sum of squares, which is the same number, has 0 * infinity. `detect_anomaly` finds the operation, at a price:
# everything is slower, so use it for a single step.

# %%
x = torch.zeros(2, requires_grad=True)
print("loss:", x.norm().item(), x.square().sum().sqrt().item())
try:
    with (
        warnings.catch_warnings(action="ignore"),
        torch.autograd.detect_anomaly(check_nan=True),
    ):
        x.square().sum().sqrt().backward()
except RuntimeError as error:
    print(error)

# %% [markdown]
# Some NaNs are not bugs in the model. A softmax over a completely masked row is 0/0, and so is a metric for a class
# that does not occur. They want a decision, not a search:

# %%
print(torch.full((3,), -torch.inf).softmax(0), torch.tensor(0.0) / torch.tensor(0.0))

# %% [markdown]
# ### Exercise: first_nonfinite
#
# Write `first_nonfinite(model, x)`: run `model(x)`, and return the dotted name of the leaf module (one without
# children) that, in order of execution, is the first to put out NaN or infinity; None if none does. A model without
# submodules is a leaf itself, with the name `""`. Outputs may be nested: `tensors_in(output)` lists the tensors. The
# hooks are gone afterwards, even if the model raises; in that case its exception goes to the caller. Leave the mode
# alone.
#
# ```
# first_nonfinite(model, x)    # 'encoder.1.act'
# ```

# %% exercise="first_nonfinite" points=2
def first_nonfinite(model, x) -> str | None:
    """The name of the leaf module that is the first to put out NaN or inf;
    None if none does."""
    ### BEGIN SOLUTION
    found = []

    def watch(name):
        def hook(module, inputs, output):
            if not all(t.isfinite().all() for t in tensors_in(output)):
                found.append(name)

        return hook

    leaves = [
        (name, module)
        for name, module in model.named_modules()
        if not list(module.children())
    ]
    handles = [module.register_forward_hook(watch(name)) for name, module in leaves]
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return found[0] if found else None
    ### END SOLUTION

# %% check="first_nonfinite"
check("first_nonfinite")

# %% tags=["demo"]
class Log(nn.Module):
    def forward(self, x):
        return x.log()

class Reader(nn.Module):
    """The head is defined first and runs last."""
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(8, 3)
        self.body = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), Log(), nn.Linear(8, 8))

    def forward(self, x):
        return self.head(self.body(x))

print(use(first_nonfinite, Reader(), torch.randn(4, 8)))

# %% [markdown]
# ## A guard before the step
#
# One bad batch in a long run must not cost the run. Clipping is no guard: it divides all gradients by one norm, and if
# that is NaN, all become NaN. If the norm is infinite, every finite entry becomes zero and every infinite one becomes
# NaN.

# %%
for bad in (float("nan"), float("inf")):
    p = nn.Parameter(torch.zeros(4))
    p.grad = torch.tensor([1.0, 2.0, bad, 3.0])
    norm = nn.utils.clip_grad_norm_([p], 1.0)
    print(f"norm {norm}: {p.grad}")

# %% [markdown]
# So look before you step, and look at both: a finite loss can have a gradient that is not, as you saw with the root at
# zero, and an infinite loss can have a finite one. If you skip, the optimizer must not notice. With gradients of zero
# `step` still moves parameters, by momentum:

# %%
p = nn.Parameter(torch.zeros(1))
optimizer = torch.optim.SGD([p], lr=0.1, momentum=0.9)
p.grad = torch.ones(1)
optimizer.step()
p.grad = torch.zeros(1)
optimizer.step()
print(p.item())

# %% [markdown]
# ### Exercise: guarded_step
#
# Write `guarded_step(model, batch, loss_fn, optimizer, max_norm)`: clear the optimizer's gradients, run forward and
# backward on a batch `(x, y)`, even if the loss is not finite, and clip the gradients to `max_norm`. Step only if the
# loss and the gradient norm are finite. Return a dict: `loss` and `grad_norm`, the norm over `model.parameters()`
# before clipping, as numbers, and `stepped`. When the step is skipped, parameters and optimizer state are as before,
# and the gradients are cleared: `None` or zero. The running statistics of a batch norm are not undone: the forward has
# already moved them. The mode is the caller's.
#
# ```
# guarded_step(model, batch, F.mse_loss, optimizer, 1.0)    # {'loss': nan, 'grad_norm': nan, 'stepped': False}
# ```

# %% exercise="guarded_step" points=2
def guarded_step(model, batch, loss_fn, optimizer, max_norm: float) -> dict:
    """A clipped step, taken only if loss and gradient norm are finite."""
    ### BEGIN SOLUTION
    x, y = batch
    optimizer.zero_grad()
    loss = loss_fn(model(x), y)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    stepped = math.isfinite(loss.item()) and math.isfinite(norm.item())
    if stepped:
        optimizer.step()
    else:
        optimizer.zero_grad()
    return {"loss": loss.item(), "grad_norm": norm.item(), "stepped": stepped}
    ### END SOLUTION

# %% check="guarded_step"
check("guarded_step")

# %% tags=["demo"]
torch.manual_seed(0)
net = nn.Linear(8, 3)
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
stream = [loader[0], (torch.full((50, 8), torch.nan), loader[1][1]), loader[2]]
for batch in stream:
    print(use(guarded_step, net, batch, F.cross_entropy, optimizer, 1.0))
print("weights finite:", bool(net.weight.isfinite().all()))

# %% [markdown]
# ## Memory that grows
#
# If memory grows from step to step, something is usually holding on to graphs. Most often it is a log:
# `losses.append(loss)` keeps the tensor, the tensor its graph, and the graph what it needs for backward. What gives it
# away is `grad_fn`. A parameter requires a gradient but has no `grad_fn`, for it is a leaf, and holding on to it costs
# nothing extra.

# %%
w = nn.Parameter(torch.ones(3))
loss = (w * 2).sum()
for name, t in {
    "parameter": w,
    "loss": loss,
    "detached": loss.detach(),
    "view": w[:2],
}.items():
    print(f"{name:10} requires_grad {t.requires_grad!s:6} grad_fn {t.grad_fn}")

# %% [markdown]
# What is not a leak: the memory that the optimizer takes at its first step, and the cache that a GPU's allocator keeps.
# Both grow once, and then stay.
#
# ### Exercise: held_graphs
#
# Write `held_graphs(obj)`: the sorted paths of all tensors inside nested dicts, lists and tuples that keep a graph
# alive, which are those with a `grad_fn`. A path is written as in the examples. If `obj` itself is a dict, its keys are
# written as they are; all other keys are written in brackets, as `repr` shows them, and so are all indices. A tensor
# that lies under two paths is listed twice.
#
# ```
# held_graphs({"losses": [0.5, loss], "log": {"val": [loss]}, "best": weight})    # ["log['val'][0]", 'losses[1]']
# held_graphs([{"loss": loss}, loss])    # ["[0]['loss']", '[1]']
# ```

# %% exercise="held_graphs" points=2
def held_graphs(obj) -> list[str]:
    """Paths to the tensors in nested containers that keep a graph alive, sorted."""
    ### BEGIN SOLUTION
    def walk(value, path, top=False):
        if isinstance(value, Tensor):
            return [path] if value.grad_fn is not None else []
        if isinstance(value, dict):
            parts = [
                (item, str(key) if top else f"{path}[{key!r}]")
                for key, item in value.items()
            ]
        elif isinstance(value, (list, tuple)):
            parts = [(item, f"{path}[{place}]") for place, item in enumerate(value)]
        else:
            return []
        return [found for item, part in parts for found in walk(item, part)]

    return sorted(walk(obj, "", top=True))
    ### END SOLUTION

# %% check="held_graphs"
check("held_graphs")

# %% tags=["demo"]
log = {"loss": [], "val": {"logits": [], "accuracy": []}, "lr": 0.01}
for x, y in loader:
    logits = burnt(x)
    log["loss"].append(F.cross_entropy(logits, y).item())
    log["val"]["logits"].append(logits)            # meant to be looked at later
    log["val"]["accuracy"].append((logits.argmax(1) == y).float().mean())
print(use(held_graphs, log))

# %% [markdown]
# (The accuracies are tensors too, and keep nothing: `argmax` has no derivative.)
#
# ## Who depends on whom
#
# Samples of a batch should not know about each other, and step t of a language model should not see step t + 1. If they
# do, by a wrong dimension or a forgotten mask, the loss looks *better* than it should. Autograd can tell: where
# `fn(x)[i]` does not depend on `x[j]`, the derivative is zero.
#
# But do not sum the outputs first: look at the derivative of each one. A softmax always adds up to 1, so the gradient
# of its sum is zero but for rounding, though each entry depends on all:

# %%
x = torch.randn(3, requires_grad=True)
print(torch.autograd.grad(x.softmax(0).sum(), x)[0])
print(torch.autograd.functional.jacobian(lambda t: t.softmax(0), x.detach()))

# %% [markdown]
# `jacobian` gives the derivative of each output with respect to each input. Its shape is that of the output, followed
# by that of x.
#
# ### Exercise: dependencies
#
# Write `dependencies(fn, x)`: a bool tensor `(n, n)` for x with n entries along dimension 0, on x's device. Entry (i,
# j) is True where any number in `fn(x)[i]` has a non-zero derivative with respect to any number in `x[j]`. `fn(x)`
# has n entries along dimension 0 too, and any further dimensions. A constant output gives False. x, whether it requires
# grad, and its `.grad` stay as they are.
#
# ```
# dependencies(lambda x: x.cumsum(0), torch.randn(3, 2))
# # tensor([[ True, False, False],
# #         [ True,  True, False],
# #         [ True,  True,  True]])
# ```

# %% exercise="dependencies" points=2
def dependencies(fn, x: Tensor) -> Tensor:
    """Bool (n, n): whether entry i of fn(x) depends on entry j of x."""
    ### BEGIN SOLUTION
    n = len(x)
    # the output's shape, then that of x
    jacobian = torch.autograd.functional.jacobian(fn, x.detach())
    return (jacobian.reshape(n, -1, n, x[0].numel()) != 0).any(dim=3).any(dim=1)
    ### END SOLUTION

# %% check="dependencies"
check("dependencies")

# %% [markdown]
# A batch norm in training mode makes every sample depend on every other: 16 of 16 for four samples. In evaluation mode
# only the diagonal is left, 4 of 16. And here is an average "over the past" that was in truth taken over all steps, the
# later ones included:

# %% tags=["demo"]
norm = nn.BatchNorm1d(5)
for training in (True, False):
    table = use(dependencies, norm.train(training), torch.randn(4, 5))
    print(
        "training" if training else "evaluation",
        table if isinstance(table, str) else int(table.sum()),
        "of 16",
    )
print(use(dependencies, lambda steps: steps - steps.mean(0), torch.randn(4, 2)))

# %% [markdown]
# ## Two models that should agree
#
# You rewrite a layer, load weights from elsewhere, or port a paper, and the outputs differ. The final output does not
# say where they part. Run both on the same input and find the first submodule whose outputs differ: what is before it
# is right.
#
# Three traps on the way. The order is that in which modules *finish*, so a container comes after its leaves. A module
# may run twice. And NaN: `>` with it is never true.

# %%
a, b = torch.tensor([1.0, torch.nan]), torch.tensor([1.0, 2.0])
print(
    bool(((a - b).abs() > 1e-3).any()),
    torch.allclose(a, b, rtol=0, atol=1e-3, equal_nan=True),
)
infinite = torch.tensor([torch.inf])
print(
    torch.allclose(infinite, infinite), torch.allclose(torch.ones(1, 2), torch.ones(2))
)

# %% [markdown]
# (`allclose` also broadcasts, as its last answer shows: compare shapes first.)
#
# ### Exercise: first_divergence
#
# Write `first_divergence(reference, candidate, x, atol)`: run both in evaluation mode on x, and return the name of the
# first submodule whose outputs differ by more than `atol`, have other shapes, or have NaN against a number; None if
# there is none. First means in the order in which the reference's submodules finish; the model as a whole does not
# count. The k-th call is compared with the k-th. Submodules and calls that only one side has are skipped. Equal
# infinities agree, and so do two NaNs in the same place. Outputs may be nested, and a later module may write into them.
# Afterwards, modes and hooks are as they were.
#
# ```
# first_divergence(mine, theirs, x, 1e-4)    # 'blocks.2.norm'
# ```

# %% exercise="first_divergence" points=3
def first_divergence(reference, candidate, x, atol: float) -> str | None:
    """The name of the first submodule whose outputs differ,
    in the reference's order of execution."""
    ### BEGIN SOLUTION
    def record(model):
        outputs, calls, handles = {}, {}, []

        def watch(name):
            def hook(module, inputs, output):
                calls[name] = calls.get(name, 0) + 1
                outputs[name, calls[name]] = [t.clone() for t in tensors_in(output)]

            return hook

        for name, module in model.named_modules():
            if name:
                handles.append(module.register_forward_hook(watch(name)))
        try:
            with evaluating(model), torch.no_grad():
                model(x)
        finally:
            for handle in handles:
                handle.remove()
        return outputs

    def agree(a, b):
        dtype = torch.promote_types(a.dtype, b.dtype)
        return a.shape == b.shape and torch.allclose(
            a.to(dtype), b.to(dtype), rtol=0, atol=atol, equal_nan=True
        )

    ours, theirs = record(reference), record(candidate)
    for key, tensors in ours.items():
        others = theirs.get(key, tensors)
        if len(tensors) != len(others) or not all(
            agree(a, b) for a, b in zip(tensors, others)
        ):
            return key[0]
    return None
    ### END SOLUTION

# %% check="first_divergence"
check("first_divergence")

# %% tags=["demo"]
import copy

torch.manual_seed(0)
theirs = nn.Sequential(
    nn.Linear(6, 6),
    nn.LayerNorm(6),
    nn.Sequential(nn.Linear(6, 6), nn.GELU()),
    nn.Linear(6, 2),
)
mine = copy.deepcopy(theirs)
mine[2][1] = nn.GELU(approximate="tanh")           # nearly the same
mine[1].eps = 1e-3
print(use(first_divergence, theirs, mine, torch.randn(4, 6), 1e-5))
mine[1].eps = 1e-5
print(use(first_divergence, theirs, mine, torch.randn(4, 6), 1e-5))

# %% [markdown]
# ## One function of all your tools
#
# Here they are together. `diagnose` goes roughly in the order given at the beginning, from cheap to expensive. It works
# on a copy of the model and puts the random state back, so that the training you examine stays as it is. Each line is
# one of your functions; if you have not written a tool yet, its line says so. If your training keeps a log, hand it
# over too. Of the tools only `first_divergence` is left out, since it needs a second model to compare with.

# %% tags=["demo"]
@torch.random.fork_rng()                           # around every call
def diagnose(
    model, loader, num_classes, make_optimizer, loss_fn=F.cross_entropy, log=()
):
    """Print what the tools of this lesson find, from cheap to expensive."""
    model, batch = copy.deepcopy(model), next(iter(loader))
    print("batch        ", use(check_batch, model, batch, num_classes))
    gap = use(initial_loss_gap, model, batch, num_classes)
    print(
        "first loss   ",
        gap if isinstance(gap, str) else f"{gap:+.2f} from ln {num_classes}",
    )
    print("first bad    ", use(first_nonfinite, copy.deepcopy(model), batch[0]))
    patient = copy.deepcopy(model)
    optimizer = make_optimizer(patient)
    ratios = use(update_ratios, patient, batch, loss_fn, optimizer)
    gradients = use(gradient_report, patient)
    for title, found in (("updates", ratios), ("gradients", gradients)):
        if isinstance(found, dict):
            found = {
                name: size if size is None else f"{size:.0e}"
                for name, size in found.items()
            }
        print(f"{title:13}", found)
    print("not trained  ", use(untrained, patient, optimizer))
    for name, module in model.named_modules():
        if isinstance(module, nn.ReLU):
            print("dead units   ", name, use(dead_units, model, name, loader))
    with evaluating(model):
        table = use(dependencies, model, batch[0][:4])
    print(
        "pairs of samples where one sees the other",
        table if isinstance(table, str) else int(table.fill_diagonal_(False).sum()),
    )
    print("guarded step ", use(guarded_step, patient, batch, loss_fn, optimizer, 1.0))
    print("held graphs  ", use(held_graphs, log))

# %% [markdown]
# A model with three faults: one in the data, one in a layer, one in the optimizer. Which of the lines below gives each
# of them away?

# %% tags=["demo"]
torch.manual_seed(0)
patient = nn.Sequential(
    nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3)
)
patient[2].bias.data.fill_(-9.0)
shifted = [(x, y + 1) for x, y in loader]
try:
    diagnose(
        patient,
        shifted,
        3,
        lambda model: torch.optim.Adam(model[4].parameters(), lr=1e-3),
    )
except Exception as error:
    print(type(error).__name__, error)

# %% [markdown]
# A loss cannot be computed with labels out of range, so every line that needs one is spoilt; that is why the batch comes
# first. With the labels mended, and with the log that was written further up:

# %% tags=["demo"]
diagnose(
    patient,
    loader,
    3,
    lambda model: torch.optim.Adam(model[4].parameters(), lr=1e-3),
    log=log,
)

# %% [markdown]
# ## What to take along
#
# | question | tool |
# |---|---|
# | is the batch what the model wants? | `check_batch` |
# | is the model unbiased before it learns? | `initial_loss_gap` |
# | does each layer get a gradient? | `gradient_report`, `dead_units` |
# | does each layer move, and how far? | `update_ratios`, `untrained` |
# | where does the first NaN come from? | `first_nonfinite`, `guarded_step` |
# | what holds on to memory? | `held_graphs` |
# | does anybody see what they should not? | `dependencies` |
# | where do two models part? | `first_divergence` |
#
# Next comes **lesson 11, architectures**: the parts that you will be looking at.
