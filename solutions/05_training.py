# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 5 · Training
#
# A training loop is five lines long, and nearly every one of them can be wrong without raising an error. The program
# runs, a number goes down, and the model is worse than it could be. So this lesson goes through the loop line by
# line, breaks it in eight ways, and each time looks for what actually shows the fault. On the way you write twelve
# small pieces; together they are what it takes, at the end, to read handwritten digits.
#
# The data comes with scikit-learn, which is installed with this course. Nothing here needs the internet.

# %% tags=["setup"]
import copy
import json
import math
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torchcourse import Unattempted, case, check, digits, hint

# %% tags=["demo"]
# %load_ext torchcourse

# %% [markdown]
# ## The loop, line by line
#
# A small problem to begin with: 400 points in the plane, in three classes, and a network of two layers.

# %%
def blobs(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(3, (count,), generator=generator)
    centres = torch.tensor([[0.0, 1.5], [1.3, -0.7], [-1.3, -0.7]])
    return centres[labels] + 0.7 * torch.randn(count, 2, generator=generator), labels

def small_net(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 3))

# %%
x, y = blobs(400)
model = small_net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)

model.train()                            # 1
for step in range(20):
    optimizer.zero_grad()                # 2
    loss = F.cross_entropy(model(x), y)  # 3
    loss.backward()                      # 4
    optimizer.step()                     # 5
print(loss.item())

# %% [markdown]
# 1. `model.train()` says how dropout and batch norm should behave. It trains nothing.
# 2. `backward` *adds* to `.grad`. Unless you want the sum over several calls, clear it first.
# 3. `model(x)` runs the model's hooks; `model.forward(x)` bypasses them. The loss compares prediction and target; it
#    must be a single number.
# 4. `backward` fills `.grad` of every parameter that took part. It changes no parameter.
# 5. `step` reads `.grad` and changes the parameters. So it comes after `backward`.
#
# You may just as well clear after the step; what matters is that it happens between one step and the next backward.
# `zero_grad` sets gradients to None rather than zero, so an optimizer skips a parameter that took no part.
#
# A loss is a tensor with a graph behind it. For a log you want its number: `loss.item()`. On a GPU this call waits
# until the number is there, so in a fast loop you call it only every so many steps.

# %% [markdown]
# ### Exercise: train_step
#
# Write `train_step(model, batch, loss_fn, optimizer)`: one optimizer step on `batch`, a pair `(x, y)`, with the model
# in training mode. `loss_fn` takes the prediction and the target. Return the loss before the step as a Python float.
#
# ```
# model = nn.Linear(1, 1, bias=False)
# nn.init.zeros_(model.weight)
# optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
# batch = (torch.tensor([[1.0]]), torch.tensor([[3.0]]))
# train_step(model, batch, F.mse_loss, optimizer)    # 9.0, and the weight is now 0.6
# ```

# %% exercise="train_step" points=2
def train_step(model, batch, loss_fn, optimizer) -> float:
    """One optimizer step on a batch (x, y), in training mode;
    the loss as a Python float."""
    ### BEGIN SOLUTION
    x, y = batch
    model.train()
    optimizer.zero_grad()
    loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()
    ### END SOLUTION

# %% check="train_step"
check("train_step")

# %% [markdown]
# ## Devices in the loop
#
# The model moves once, the batches move one by one, with `x, y = x.to(device), y.to(device)`. Create the optimizer
# after the model has been moved, and create everything else on the device of the data.
#
# A batch that is left behind raises an error on a GPU, and goes unnoticed on the CPU. `meta` shows it on any machine:

# %%
try:
    small_net().to("meta")(x)
except RuntimeError as error:
    print(error)

# %% [markdown]
# ## Losses from logits
#
# A classifier's last layer gives *logits*, any real numbers. `F.cross_entropy` takes logits and class indices
# (int64), and does the softmax itself, together with the logarithm. The loss of a row `z` with label `y` is
#
# `log(exp(z[0]) + … + exp(z[c-1])) - z[y]`
#
# Computed literally, the exponential overflows. `torch.logsumexp` subtracts the largest entry first, and adds it back
# at the end:

# %%
z = torch.tensor([[1000.0, 0.0, -1000.0]])
z.exp().sum(1).log(), z.logsumexp(1), z.softmax(1).log()

# %% [markdown]
# Indices are `int64` (`uint8` passes as well). Other dtypes raise an error, except that floats of the same shape as
# the logits are taken as class probabilities, which is a different thing.

# %%
for labels in (torch.tensor([1], dtype=torch.int32), torch.tensor([1.0])):
    try:
        F.cross_entropy(z, labels)
    except (RuntimeError, ValueError) as error:
        print(f"{type(error).__name__}: {error}")

# %% [markdown]
# For yes-or-no questions, several of which may be true at once, `BCEWithLogitsLoss` takes one logit per question and,
# as its target, floats of the same shape. `pos_weight` makes the rare "yes" count more, often by about the number of
# "no" per "yes":

# %%
question = torch.tensor([-2.0, 0.5])
truth = torch.tensor([1.0, 0.0])
for weight in (1.0, 9.0):
    loss_fn = nn.BCEWithLogitsLoss(reduction="none", pos_weight=torch.tensor(weight))
    print(f"weight {weight:.0f}: {loss_fn(question, truth)}")

# %% [markdown]
# Two options of `F.cross_entropy` are worth knowing. A label of -100, or whatever `ignore_index` says, counts
# neither in the sum nor in the number that it is divided by: that is how padding is left out of a loss.
# `label_smoothing=0.1` takes a tenth of the probability from the label and spreads it over all classes, so the model
# is no longer rewarded for being ever more certain:

# %%
scores = torch.tensor([[4.0, 0.0], [0.0, 4.0], [9.0, 9.0]])
print(
    F.cross_entropy(scores, torch.tensor([0, 1, -100])),
    F.cross_entropy(scores[:2], torch.tensor([0, 1])),
)
print(F.cross_entropy(scores[:2], torch.tensor([0, 1]), label_smoothing=0.1))

# %% [markdown]
# Check the shapes once before a long run. A prediction of shape `(n, 1)` against a target of shape `(n,)` broadcasts
# to a table of n times n, and a mean of that is a number like any other. `F.mse_loss` warns about it; an assert stops
# you.

# %%
prediction, target = torch.randn(8, 1), torch.randn(8)
print((prediction - target).shape)
assert prediction.squeeze(1).shape == target.shape

# %% [markdown]
# ### Exercise: cross_entropy
#
# Write `cross_entropy(logits, labels)`: the mean loss of logits `(n, c)` and int64 labels `(n,)`, finite for logits
# in the thousands, and differentiable. `F.cross_entropy`, `log_softmax` and `nll_loss` are not allowed.
#
# ```
# logits = torch.tensor([[0.0, 0.0], [1000.0, 0.0]])
# cross_entropy(logits, torch.tensor([0, 0]))    # 0.3466: the mean of log(2) and 0
# ```

# %% exercise="cross_entropy" points=2
def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross-entropy of logits (n, c) and labels (n,),
    finite whatever the logits."""
    ### BEGIN SOLUTION
    chosen = logits.gather(1, labels.unsqueeze(1)).squeeze(1)
    return (logits.logsumexp(dim=1) - chosen).mean()
    ### END SOLUTION

# %% check="cross_entropy"
check("cross_entropy")

# %% [markdown]
# ## Judging without learning
#
# To evaluate a model, switch off what is only for learning: dropout and batch statistics (`model.eval()`), and the
# graph (`torch.no_grad()`). The two are independent. `eval()` still builds the graph, and `no_grad()` does not
# switch dropout off. An accuracy computed with `argmax` keeps no graph anyway, because `argmax` has no derivative; the
# logits that it was computed from do keep theirs.

# %%
net = nn.Sequential(nn.Linear(2, 4), nn.Dropout(0.5))
net.eval()
print("in eval mode, graph:", net(x[:2]).requires_grad)
net.train()
with torch.no_grad():
    print(f"without graph, zeros: {(net(x) == 0).float().mean():.2f}")

# %% [markdown]
# The mean of the batch means is not the mean over all samples if the last batch is smaller. Below, four batches of 100
# and one of 1:

# %%
sizes = torch.tensor([100.0, 100, 100, 100, 1])
means = torch.tensor([0.2, 0.2, 0.2, 0.2, 5.0])
print(
    f"mean of means {means.mean():.2f}, mean over samples "
    f"{(sizes * means).sum() / sizes.sum():.2f}"
)

# %% [markdown]
# ### Exercise: evaluate
#
# Write `evaluate(model, loader, loss_fn, device)`: a dict with `loss` and `accuracy`, both averaged over the
# samples that the loader gives. It gives CPU batches `(x, y)`; the model is on `device`; `loss_fn` gives a batch's
# mean. Build no graph, evaluate in evaluation mode, and leave the model in the mode in which you found it.
#
# ```
# # two batches, one of 2 examples and one of 1; two of the three are right
# evaluate(model, loader, F.cross_entropy, torch.device("cpu"))
# # {'loss': 0.79, 'accuracy': 0.6666666666666666}
# ```

# %% exercise="evaluate" points=2
def evaluate(model, loader, loss_fn, device) -> dict[str, float]:
    """Mean loss and accuracy over all samples of a loader; the model keeps its mode."""
    ### BEGIN SOLUTION
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    loss, right, count = 0.0, 0, 0
    with torch.no_grad():
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            logits = model(x)
            loss += loss_fn(logits, y).item() * len(y)
            right += (logits.argmax(dim=1) == y).sum().item()
            count += len(y)
    # one by one: a frozen batch norm may be in another mode than the rest
    for module, training in modes:
        module.training = training
    return {"loss": loss / count, "accuracy": right / count}
    ### END SOLUTION

# %% check="evaluate"
check("evaluate")

# %% [markdown]
# ## Overfit one batch first
#
# Before a long run, train on one batch until its loss is nearly zero. A model that cannot learn sixteen examples by
# heart will not learn sixteen thousand, and here you find out in a second. If it fails, the fault is in the model,
# the loss or the loop, not in the amount of data.

# %%
def run(
    steps=60,
    lr=0.5,
    seed=0,
    loss_fn=F.cross_entropy,
    data=None,
    zero=True,
    learn_first=True,
):
    """Plain training on everything at once; the options break it."""
    x, y = data or blobs(400)
    model, losses = small_net(seed), []
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    for _ in range(steps):
        if zero:
            optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        losses.append(loss.item())
        if not math.isfinite(losses[-1]):
            break
        for act in (
            (loss.backward, optimizer.step)
            if learn_first
            else (optimizer.step, loss.backward)
        ):
            act()
    return losses

# %% tags=["demo"]
from torchcourse.demos import curves

sixteen = blobs(16)
curves.draw(
    {"right labels": run(200, 2.0, data=sixteen)}, "loss on one batch of sixteen"
)

# %% [markdown]
# `run` stops at a loss that is not finite. Such a *guard* belongs in every loop: after one NaN every weight is soon
# NaN, and the remaining hours are wasted.

# %% [markdown]
# ### Exercise: overfit_one_batch
#
# Write `overfit_one_batch(model, batch, loss_fn, optimizer, steps)`: `steps` optimizer steps on the same batch `(x,
# y)`. Return the list of losses as Python floats, the first being the loss of the untouched model. Keep no graph
# alive.
#
# ```
# # model, batch and optimizer as in the example of train_step
# overfit_one_batch(model, batch, F.mse_loss, optimizer, 3)    # [9.0, 5.76, 3.6864]
# ```

# %% exercise="overfit_one_batch" points=2
def overfit_one_batch(model, batch, loss_fn, optimizer, steps: int) -> list[float]:
    """Train on one batch again and again; the loss before each step."""
    ### BEGIN SOLUTION
    x, y = batch
    model.train()
    history = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        history.append(loss.item())
    return history
    ### END SOLUTION

# %% check="overfit_one_batch"
check("overfit_one_batch")

# %% [markdown]
# ## Eight ways to get it wrong
#
# Each of these is run alongside the correct loop. Look at where the fault shows up, and where it does not.

# %% tags=["demo"]
right = run()
curves.draw({"right": right, "no zero_grad": run(zero=False)}, "1: missing zero_grad")

# %% [markdown]
# **1. Missing zero_grad.** Each step uses the sum of all gradients so far. The curve falls faster at first, then
# overshoots and swings.
#
# **2. Double softmax.** A softmax in the model, and another in the loss. The loss cannot fall below a floor: for ten
# classes the best possible probabilities, 1 and nine zeros, taken as logits, give 1.461. Our three classes have their
# floor at 0.551, and the curve stays above it.

# %% tags=["demo"]
perfect = torch.eye(10)
print(F.cross_entropy(perfect, torch.arange(10)).item())
print("three classes:", F.cross_entropy(torch.eye(3), torch.arange(3)).item())
curves.draw(
    {
        "right": right,
        "two softmaxes": run(loss_fn=lambda z, y: F.cross_entropy(z.softmax(1), y)),
    },
    "2: double softmax",
)

# %% [markdown]
# **3. Squared error on class indices.** It treats classes as quantities: class 1 lies halfway between 0 and 2, and
# where the model cannot decide between 0 and 2 it answers with their average, 1. The curve goes down nicely. What
# gives it away is the accuracy, and the kind of mistakes: every misclassified point of the outer classes, 0 and 2, is
# called a 1.

# %% tags=["demo"]
def trained(outputs, loss_fn, lr):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, outputs))
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=lr), []
    for _ in range(100):
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return model(x).detach(), losses

values, falling = trained(1, lambda z, y: F.mse_loss(z.squeeze(1), y.float()), 0.1)
scores, _ = trained(3, F.cross_entropy, 0.5)
answers = {
    "squared error": values.squeeze(1).round(),
    "cross-entropy": scores.argmax(1),
}
for name, answer in answers.items():
    wrong = (answer != y) & (y != 1)
    print(
        f"{name}: accuracy {(answer == y).float().mean():.2f};",
        f"of the outer classes {wrong.sum()} are wrong, "
        f"{(answer[wrong] == 1).sum()} called 1",
    )
curves.draw({"squared error": falling}, "3: squared error on class indices")

# %% [markdown]
# **4. Shuffled labels.** Inputs and labels no longer belong together. The loss stays near `log(3)` = 1.10, which is
# what guessing costs.

# %% tags=["demo"]
shuffled = (x, y[torch.randperm(400, generator=torch.Generator().manual_seed(1))])
curves.draw(
    {"right": right, "shuffled labels": run(data=shuffled)}, "4: shuffled labels"
)

# %% [markdown]
# **5. Step before backward.** The first step finds no gradients. With clearing at the top of the loop every later step
# finds none either, and nothing moves. (Without clearing, autograd raises: the step has overwritten weights that the
# graph had saved. Put the step before the forward pass, and even that error goes away: each step then uses the sum of
# the gradients of all batches before.)

# %% tags=["demo"]
curves.draw(
    {"right": right, "step first": run(learn_first=False)}, "5: step before backward"
)

# %% [markdown]
# **6. A stored graph.** `losses.append(loss)` keeps the graph of every step alive. After a backward pass, at least the
# tensors saved in the graph are freed; where there is none, as in a validation loop without `no_grad`, all activations
# of all batches stay. No loss curve shows it. Memory does; here it is counted by hooks that see each tensor as it is
# saved:

# %%
from torch.multiprocessing.reductions import StorageWeakRef

def kilobytes_held(keep, batches=30):
    model, kept, saved, held = small_net(), [], {}, []

    def note(tensor):
        saved[StorageWeakRef(tensor.untyped_storage())] = (
            tensor.untyped_storage().nbytes()
        )
        return tensor.detach()  # the tensor itself would hold the node that holds it

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        for _ in range(batches):
            kept.append(keep(F.cross_entropy(model(x), y)))
            held.append(
                sum(size for weak, size in saved.items() if not weak.expired()) / 1024
            )
    return held

# %% tags=["demo"]
curves.draw(
    {
        "loss.item()": kilobytes_held(Tensor.item),
        "loss": kilobytes_held(lambda loss: loss),
    },
    "6: kilobytes held after each batch",
    xlabel="batch",
    ylabel="kilobytes",
)

# %% [markdown]
# **7. A learning rate that is too high.** The loss leaps to values far above `log(3)` and does not come back to where
# it began; in deeper nets it often ends as NaN. (The axis is logarithmic.)

# %% tags=["demo"]
curves.draw(
    {"right": right, "lr = 300": run(lr=300.0)}, "7: learning rate too high", log=True
)

# %% [markdown]
# **8. Batches averaged unweighted.** The training is fine, but the loss reported for it is wrong: the more the last
# batch differs from the others, the further off that number is. The loss over everything at once tells the truth:

# %%
# 400 as before, and one odd point
outlier = (
    torch.cat([x, torch.tensor([[0.0, 9.0]])]),
    torch.cat([y, torch.tensor([1])]),
)
with torch.no_grad():
    pieces = list(zip(outlier[0].split(100), outlier[1].split(100), strict=True))
    each = torch.stack([F.cross_entropy(model(xs), ys) for xs, ys in pieces])
    everything = F.cross_entropy(model(outlier[0]), outlier[1])
    weighted = (
        sum(loss * len(ys) for loss, (_, ys) in zip(each, pieces, strict=True)) / 401
    )
print(
    f"mean of batch means {each.mean():.2f}, weighted {weighted:.2f}, everything at "
    f"once {everything:.2f}"
)

# %% [markdown]
# And a ninth, **training in eval mode**, shows in no loss curve at all: dropout is off and batch norm keeps its initial
# statistics. Print `model.training`, or look at a buffer:

# %%
norm = nn.BatchNorm1d(2)
norm.eval()(x)
print("after eval:", norm.running_mean)
norm.train()(x)
print("after train:", norm.running_mean)

# %% [markdown]
# | symptom | likely cause |
# |---|---|
# | loss falls fast, then rises again and swings | gradients not cleared |
# | loss leaps far above log(classes) | learning rate too high |
# | loss stops at a floor well above zero | double softmax |
# | loss falls, accuracy does not | wrong loss for the task (squared error on indices) |
# | loss stays at log(classes) | labels do not belong to the inputs; learning rate far too low |
# | loss does not move at all | step before backward; parameters not given to the optimizer |
# | memory grows with every step | a stored graph |
# | loss becomes NaN | learning rate; logarithm of zero; bad data |
# | the validation loss differs from that of all samples at once | batches averaged unweighted; wrong mode |

# %% [markdown]
# ## Accumulation: a large batch in small pieces
#
# If a batch does not fit into memory, send it through in pieces. Gradients add up, so several backward passes before
# one step will do, if each piece's loss is scaled by its share of the examples. A mean over 3 and a mean over 1 do
# not count the same:

# %%
w = torch.zeros(1, requires_grad=True)
values = torch.tensor([1.0, 2.0, 3.0, 10.0])
((w - values) ** 2).mean().backward()
whole, w.grad = w.grad, None
for piece in (values[:3], values[3:]):
    (((w - piece) ** 2).mean() * len(piece) / 4).backward()
print("whole", whole, " in pieces", w.grad)

# %% [markdown]
# The pieces are called *micro-batches*. The last group of an epoch, its last *window*, is often incomplete: ten
# micro-batches with a step after every fourth leave two over. A
# loop that steps only when it has counted to four forgets them, or worse, carries their gradients into the next
# epoch:

# %%
def steps_of_an_epoch(micro_batches, every, last_too):
    used = []
    for number in range(1, micro_batches + 1):
        if number % every == 0 or (last_too and number == micro_batches):
            used.append(number - sum(used))
    return used

print(
    "counted to four only:",
    steps_of_an_epoch(10, 4, False),
    " the last one too:",
    steps_of_an_epoch(10, 4, True),
)

# %% [markdown]
# So step on what is left over as well, scaled by the number that is really there. Batch norm still sees one
# micro-batch at a time, so with batch norm, accumulation only approximates the large batch.

# %% [markdown]
# ### Exercise: accumulated_step
#
# Write `accumulated_step(model, micro_batches, loss_fn, optimizer)`: one optimizer step, equal to the one on the
# concatenated batch, from a list of pairs `(x, y)` that may differ in size. `loss_fn` gives means. Never hold the graph
# of more than one micro-batch. Return the loss of the whole batch as a Python float, and leave the model's mode alone:
# that is up to the caller.
#
# ```
# # a weight of 0, targets 1, 2, 3 and 10, and a learning rate of 0.1
# three = (torch.ones(3, 1), torch.tensor([[1.0], [2.0], [3.0]]))
# one = (torch.ones(1, 1), torch.tensor([[10.0]]))
# accumulated_step(model, [three, one], F.mse_loss, optimizer)
# # 28.5, and the weight is now 0.8: the targets' mean is 4, so the gradient is -8
# ```

# %% exercise="accumulated_step" points=2
def accumulated_step(model, micro_batches, loss_fn, optimizer) -> float:
    """One step on several micro-batches, as if they had been one batch;
    the loss of that batch."""
    ### BEGIN SOLUTION
    total = sum(len(y) for _, y in micro_batches)
    optimizer.zero_grad()
    mean = 0.0
    for x, y in micro_batches:
        loss = loss_fn(model(x), y) * (len(y) / total)
        loss.backward()
        mean += loss.item()
    optimizer.step()
    return mean
    ### END SOLUTION

# %% check="accumulated_step"
check("accumulated_step")

# %% [markdown]
# ## Gradients that are too large
#
# One odd batch can give a gradient a thousand times as large as usual, and undo an hour of training. *Clipping by
# norm* takes all gradients as one long vector and shortens it to `max_norm` if it is longer. The direction stays the
# same; clipping each tensor, or each entry, by itself would change it.

# %%
a, b = torch.tensor([3.0, 0.0]), torch.tensor([0.0, 40.0])
norm = torch.cat([a, b]).norm()
print(f"norm {norm:.1f}")
print("as one vector:", a / norm, b / norm)
print("each by itself:", a / a.norm(), b / b.norm())

# %% [markdown]
# PyTorch's own function for this is `torch.nn.utils.clip_grad_norm_`. It returns the norm before clipping, which is
# worth logging.

# %% [markdown]
# ### Exercise: clip_gradients
#
# Write `clip_gradients(parameters, max_norm)`: scale all gradients in place so that their common norm is at most
# `max_norm`, and return the norm before scaling, as a Python float. `parameters` may be a generator, and some may have
# no gradient. Nothing from `torch.nn.utils.clip_grad` is allowed.
#
# ```
# a, b = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))
# a.grad, b.grad = torch.tensor([3.0]), torch.tensor([4.0])
# clip_gradients([a, b], 1.0)    # 5.0, and the gradients are now [0.6] and [0.8]
# ```

# %% exercise="clip_gradients" points=2
def clip_gradients(parameters, max_norm: float) -> float:
    """Scale all gradients down, in place, to a common norm of at most max_norm;
    the norm before."""
    ### BEGIN SOLUTION
    gradients = [p.grad for p in parameters if p.grad is not None]
    if not gradients:
        return 0.0
    norms = torch.stack([torch.linalg.vector_norm(g) for g in gradients])
    # the device is waited for once, not for each parameter
    norm = torch.linalg.vector_norm(norms).item()
    if norm > max_norm:
        for gradient in gradients:
            gradient.mul_(max_norm / norm)
    return norm
    ### END SOLUTION

# %% check="clip_gradients"
check("clip_gradients")

# %% [markdown]
# ## Optimizers
#
# SGD steps against the gradient. Momentum steps against a running sum of past gradients, which cancels zigzags across
# a narrow valley and builds up speed along it. Adam also divides each entry by the running size of its gradient, so
# it moves at a similar speed along steep and flat coordinates. Here are all three in the valley of lesson 2, with
# forty steps each:

# %% tags=["demo"]
from torchcourse.demos import descent

descent.race({"SGD": lambda p: torch.optim.SGD(p, 0.13),
              "momentum": lambda p: torch.optim.SGD(p, 0.03, momentum=0.8),
              "Adam": lambda p: torch.optim.Adam(p, 0.2)}, steps=40)

# %% [markdown]
# SGD takes the steep direction in a few zigzags and then crawls along the flat one. Momentum swings across the
# valley, but gets along it faster. Adam sets off at the same speed along both axes, however steep each of them is (in
# a valley that lies diagonally to the axes it would lose that advantage); its averages make it overshoot and turn
# back.
#
# **Adam against AdamW.** Both take a `weight_decay`. Adam adds it to the gradient, so it is divided by the running
# size of the gradient like everything else: a weight with large gradients hardly decays, one with small gradients
# decays far too much. AdamW shrinks the parameter directly, by `1 - lr * weight_decay` at each step, whatever the
# gradients are. Here are two weights that begin at 1. Their gradients only change sign and so take them nowhere;
# those of the second are a thousand times larger. AdamW leaves both just under `0.999 ** 300`, which is 0.74 (in the
# first steps, while its averages are short, the gradients do move them a little):

# %%
for kind in (torch.optim.Adam, torch.optim.AdamW):
    weights = nn.Parameter(torch.ones(2))
    optimizer = kind([weights], lr=0.01, weight_decay=0.1)
    for step in range(300):
        weights.grad = torch.tensor([0.01, 10.0]) * (-1) ** step
        optimizer.step()
    print(f"{kind.__name__:5} {weights.tolist()}")

# %% [markdown]
# Adam's averages, for step t = 1, 2, …, with gradient g:
#
# `m = β1 m + (1 - β1) g` and `v = β2 v + (1 - β2) g²`, both from zero. Because they start at zero, they are too small
# at first: divide them by `1 - β1**t` and `1 - β2**t`, which gives `m̂` and `v̂`. AdamW first shrinks, `p = p - lr ·
# weight_decay · p`, and then steps, `p = p - lr · m̂ / (√v̂ + eps)`.
#
# An optimizer keeps settings in `self.param_groups` (a list of dicts, each with its `params`) and history in
# `self.state[p]`. Only what is kept there ends up in `state_dict()`.

# %% [markdown]
# ### Exercise: AdamW
#
# Write `class AdamW(torch.optim.Optimizer)` with `__init__(params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8,
# weight_decay=1e-2)` and `step(closure=None)`. It follows `torch.optim.AdamW`, respects parameter groups, skips
# parameters without a gradient, and resumes exactly from its own `state_dict`. Of torch's optimizers only the base
# class is allowed. Call `super().__init__(params, defaults)` first, and put `@torch.no_grad()` above `step`. A closure
# is a function that clears the gradients, computes the loss, calls `backward` and returns the loss. If one is given,
# `step` calls it once, at its beginning, with gradients on (`torch.enable_grad()`), and returns its loss.
#
# ```
# p = nn.Parameter(torch.tensor([1.0]))
# optimizer = AdamW([p], lr=0.1, weight_decay=0.0)
# p.grad = torch.tensor([5.0])
# optimizer.step()    # p is now 0.9: the first step has length lr, however large the gradient is
# ```

# %% exercise="AdamW" points=3
class AdamW(torch.optim.Optimizer):
    """Adam with decoupled weight decay; defaults as in torch.optim.AdamW."""

    def __init__(
        self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2
    ) -> None:
        ### BEGIN SOLUTION
        super().__init__(
            params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        )

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self.update(p, group)
        return loss

    def update(self, p: Tensor, group) -> None:
        state, (beta1, beta2) = self.state[p], group["betas"]
        if not state:
            state.update(step=0, mean=torch.zeros_like(p), square=torch.zeros_like(p))
        state["step"] += 1
        state["mean"].lerp_(p.grad, 1 - beta1)
        state["square"].mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
        mean = state["mean"] / (1 - beta1 ** state["step"])
        square = state["square"] / (1 - beta2 ** state["step"])
        p.mul_(1 - group["lr"] * group["weight_decay"])
        p.sub_(group["lr"] * mean / (square.sqrt() + group["eps"]))
        ### END SOLUTION

# %% check="AdamW"
check("AdamW")

# %% [markdown]
# ## Schedules
#
# A rate that suits the middle of training is too high at the start, when gradients are wild, and too high at
# the end, when only fine adjustments are left. Hence a warm-up, and a decay. Play with the shapes:

# %% tags=["demo"]
curves.explore()

# %% [markdown]
# PyTorch's schedulers write to `optimizer.param_groups`. Each counts the calls to its own `step()`. Whether a call
# means an epoch or a batch is up to you, and nothing tells you when you call it in the wrong place. `OneCycleLR` for
# 100 steps, called once an epoch, is still in its warm-up after five epochs:

# %%
def last_rate(calls):
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
    cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=100)
    for _ in range(calls):
        optimizer.step()
        cycle.step()
    return cycle.get_last_lr()[0]

print(f"called per step: {last_rate(99):.1e}, called per epoch: {last_rate(5):.1e}")

# %% [markdown]
# `ReduceLROnPlateau` is the odd one out: it reacts to a metric, so its `step` takes one. With `patience=2` it lowers
# the rate at the third epoch in a row without improvement:

# %%
plateau_sgd = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(
    plateau_sgd, factor=0.1, patience=2
)
for val_loss in (0.9, 0.7, 0.8, 0.75, 0.72, 0.71):
    plateau.step(val_loss)
    print(val_loss, plateau_sgd.param_groups[0]["lr"])

# %% [markdown]
# Log the rate in use along with the losses, one line of JSON for each epoch. Any tool can read a file of such lines,
# and what was flushed before a crash is still there. TensorBoard, MLflow and Weights & Biases do the same, with a web
# page on top.

# %%
print(
    json.dumps(
        {
            "epoch": 3,
            "lr": round(last_rate(30), 4),
            "train_loss": 0.41,
            "val_loss": 0.52,
            "val_accuracy": 0.87,
        }
    )
)

# %% [markdown]
# ### Exercise: warmup_cosine
#
# Write `warmup_cosine(step, *, warmup, total, peak, floor=0.0)`: a straight line from 0 at step 0 to `peak` at step
# `warmup`, half a cosine from there to `floor` at step `total`, and `floor` after that. `0 <= warmup < total`.
#
# ```
# [warmup_cosine(step, warmup=10, total=110, peak=0.5) for step in (0, 5, 10, 60, 110, 200)]
# # [0.0, 0.25, 0.5, 0.25, 0.0, 0.0]
# ```

# %% exercise="warmup_cosine" points=1
def warmup_cosine(
    step: int, *, warmup: int, total: int, peak: float, floor: float = 0.0
) -> float:
    """Return the learning rate of a step: a line up to peak,
    half a cosine down to floor, then flat."""
    ### BEGIN SOLUTION
    if step < warmup:
        return peak * step / warmup
    done = min((step - warmup) / (total - warmup), 1.0)
    return floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * done))
    ### END SOLUTION

# %% check="warmup_cosine"
check("warmup_cosine")

# %% [markdown]
# ## When to stop
#
# Two curves tell most of the story: the loss on the training data, and the loss on held-out data, which is called the
# *validation loss*. If a model is too small, both stay high: it *underfits*, and more steps do not help. If it is large
# enough to learn the data by heart, both fall at first; then the training loss goes on falling while the validation
# loss turns up: it *overfits*. Here are two networks, with one hidden unit and with sixteen, trained on forty points:

# %% tags=["demo"]
def both_losses(width, steps=200):
    (x, y), (held_x, held_y) = blobs(40), blobs(400, seed=1)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, 3))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    found = {"training": [], "validation": []}
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        found["training"].append(loss.item())
        with torch.no_grad():
            found["validation"].append(F.cross_entropy(net(held_x), held_y).item())
    return {f"width {width}, {name}": losses for name, losses in found.items()}

curves.draw(
    both_losses(1) | both_losses(16), "underfitting and overfitting", log=True
)

# %% [markdown]
# Keep the weights from the lowest point of the validation loss, and stop when it has not improved for a while. There
# are two traps. The tensors in a `state_dict()` share memory with the parameters; they are not copies:

# %%
model = nn.Linear(1, 1)
kept, copied = model.state_dict(), copy.deepcopy(model.state_dict())
with torch.no_grad():
    model.weight.fill_(7.0)
print(kept["weight"], copied["weight"])

# %% [markdown]
# And `<`, `<=`, `>`, `>=` and `==` are False whenever a NaN takes part (only `!=` is True), so a NaN that is accepted
# as the best is never beaten.

# %%
nan = float("nan")
0.5 < nan, nan < 0.5, nan == nan, nan != 1

# %% [markdown]
# ### Exercise: EarlyStopping
#
# Write `class EarlyStopping` with `__init__(patience, min_delta=0.0)`, `update(metric, model)`, an attribute `best`,
# and `restore(model)`. Lower is better; an improvement is a metric below `best - min_delta`; NaN is not an
# improvement. `update` returns True (stop) once `patience` updates in a row have brought no improvement, and goes on
# returning True until one does. `restore` gives a model the weights, buffers included, that it had at the best
# update.
#
# ```
# stopping = EarlyStopping(patience=2)
# [stopping.update(loss, model) for loss in (0.9, 0.7, 0.8, float("nan"))]
# # [False, False, False, True], and stopping.best is 0.7
# ```

# %% exercise="EarlyStopping" points=2
class EarlyStopping:
    """Says when to stop, and remembers the weights of the lowest metric."""

    def __init__(self, patience: int, min_delta: float = 0.0) -> None:
        ### BEGIN SOLUTION
        self.patience, self.min_delta = patience, min_delta
        self.best, self.waited, self.weights = math.inf, 0, None

    def update(self, metric: float, model: nn.Module) -> bool:
        if metric < self.best - self.min_delta:
            self.best, self.waited = metric, 0
            self.weights = copy.deepcopy(model.state_dict())
        else:
            self.waited += 1
        return self.waited >= self.patience

    def restore(self, model: nn.Module) -> None:
        if self.weights is not None:
            model.load_state_dict(self.weights)
        ### END SOLUTION

# %% check="EarlyStopping"
check("EarlyStopping")

# %% [markdown]
# ## Metrics
#
# Accuracy hides rare classes: where one person in a hundred is ill, a test that always says "healthy" is right 99 times
# out of 100. Each class has a
# *precision* (of the examples that were given this class, how many belong to it?) and a *recall* (of the examples
# that belong to it, how many were found?). F1 is their harmonic mean; in counts of true positives, false positives
# and false negatives it is `2·TP / (2·TP + FP + FN)`. **Macro** F1 averages over the classes, each counting the same;
# **micro** F1 counts everything together, which with one label per example is the accuracy.

# %% tags=["demo"]
from sklearn.metrics import f1_score

truth, always = [0] * 99 + [1], [0] * 100
print(
    "micro",
    f1_score(truth, always, average="micro"),
    " macro",
    f1_score(truth, always, average="macro", zero_division=0),
)

# %% [markdown]
# ### Exercise: macro_f1
#
# Write `macro_f1(logits, labels, num_classes)`: the macro F1 of the `argmax` predictions as a Python float, as
# scikit-learn's `f1_score` gives it with `average="macro"`, `labels=range(num_classes)` and `zero_division=0`: a
# class that is neither predicted nor present counts as 0.
#
# ```
# logits = torch.tensor([[2.0, 1.0], [0.0, 1.0], [3.0, 1.0]])    # predicts 0, 1, 0
# macro_f1(logits, torch.tensor([0, 1, 1]), 2)                   # 0.6667
# ```

# %% exercise="macro_f1" points=2
def macro_f1(logits: Tensor, labels: Tensor, num_classes: int) -> float:
    """Return the mean F1 of the classes;
    a class that is neither present nor predicted counts as 0."""
    ### BEGIN SOLUTION
    classes = torch.arange(num_classes, device=labels.device).unsqueeze(1)
    # (num_classes, n)
    predicted, real = logits.argmax(dim=1) == classes, labels == classes
    hits = (predicted & real).sum(dim=1)
    both = predicted.sum(dim=1) + real.sum(dim=1)
    return (2 * hits / both.clamp(min=1)).mean().item()
    ### END SOLUTION

# %% check="macro_f1"
check("macro_f1")

# %% [markdown]
# ## The same numbers again: seeds
#
# Training draws random weights, dropout masks, shuffles and augmentations. Three libraries draw, each from a
# generator of its own. To see whether a change helped, you need runs that differ only in that change, with several
# seeds each. Setting `PYTHONHASHSEED` inside a running program does nothing; it is read when Python starts.
#
# Seeds are not everything. Some GPU *kernels* (the small programs that a GPU runs, about one for each operation) add
# numbers in whatever order they arrive. `torch.use_deterministic_algorithms(True)` picks deterministic ones, or raises
# where there are none, and fills new memory, so that a program that reads it too early at least reads the same numbers
# every time. That costs time, so it is for debugging and tests. Here is what filling memory costs on this machine:

# %% tags=["demo"]
import time

def seconds(repeats=20):
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        torch.empty(2_000_000)
        times.append(time.perf_counter() - begun)
    return sorted(times)[repeats // 2]

plain_time = seconds()
torch.use_deterministic_algorithms(True)
print(f"an empty tensor takes {seconds() / plain_time:.0f} times as long")
torch.use_deterministic_algorithms(False)

# %% [markdown]
# Now the seeds themselves. Seeding torch repeats torch's numbers, and not NumPy's:

# %%
torch.manual_seed(3)
first = torch.rand(2)
torch.manual_seed(3)
print(torch.equal(first, torch.rand(2)), np.random.rand() == np.random.rand())

# %% [markdown]
# ### Exercise: seed_everything
#
# Write `seed_everything(seed)`: seed the global generators of `random`, of NumPy, and of torch on every device.
#
# ```
# seed_everything(0)
# random.random(), np.random.rand(), torch.rand(1)    # the same three numbers after every such call
# ```

# %% exercise="seed_everything" points=1
def seed_everything(seed: int) -> None:
    """Seed the generators of random, NumPy and torch, the latter on every device."""
    ### BEGIN SOLUTION
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    ### END SOLUTION

# %% check="seed_everything"
check("seed_everything")

# %% [markdown]
# ## When it does not learn
#
# Go from cheap to expensive, one change at a time.
#
# 1. Look at a batch: shapes, dtypes, the range of the inputs, a few labels next to their inputs.
# 2. Check the first loss. With c balanced classes it should be near log(c).
# 3. Overfit one batch. If that fails, the amount of data is not to blame.
# 4. Print the mode, the rate in use, and the norm of each layer's gradients. None, zero or huge is a clue.
# 5. Try three learning rates, a factor of ten apart.
# 6. Only then change the model.

# %%
model = small_net()
loss = F.cross_entropy(model(x), y)
loss.backward()
print(f"first loss {loss.item():.2f}, log(3) = {math.log(3):.2f}")
print({name: round(p.grad.norm().item(), 3) for name, p in model.named_parameters()})

# %% [markdown]
# Step 5 as a program is a *sweep*: three rates, three seeds each, the same number of steps, and the medians side by
# side. With one seed each you would compare luck. Rates are spread by factors, not by differences:

# %% tags=["demo"]
def final_loss(lr, seed, steps=60):
    model = small_net(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    return loss.item()

for lr in (0.01, 0.1, 1.0):
    results = sorted(final_loss(lr, seed) for seed in range(3))
    print(
        f"lr {lr:4}: median {results[1]:.3f}, from {results[0]:.3f} to {results[2]:.3f}"
    )

# %% [markdown]
# If the best rate is at the edge of the list, the list is too short.
#
# In a long run a progress bar is reassuring. `track` comes with the package rich; `tqdm` is the other one that you
# will meet. A bar measures nothing that the log does not.

# %% tags=["demo"]
from rich.progress import track

for _ in track(range(200), "two hundred steps"):
    F.cross_entropy(model(x), y).backward()

# %% [markdown]
# ## The capstone: handwritten digits
#
# 1797 digits, 8 by 8 pixels, divided into 1200 to train on, 300 for choosing the best weights, and 297 for a single
# test at the very end. The network is small: two convolutions with batch norm, and a linear layer.

# %% tags=["demo"]
parts = digits.split()
network = digits.SmallCNN()
print({name: tuple(images.shape) for name, (images, _) in parts.items()})
network

# %% [markdown]
# A plot that grows while training runs: two quick epochs, with a new point after each of their twelve steps. The
# `train` line is noisy, since each of its points is the loss of a different batch, before the step; the `val` line is
# the loss of all 300 validation images after the step. (Validating after every step is only affordable because
# everything here is so small.)

# %% tags=["demo"]
plot = curves.LossPlot("loss on the digits")
images, labels = parts["train"]
optimizer = torch.optim.AdamW(network.parameters(), lr=0.01)
for epoch in range(2):
    for rows in torch.randperm(1200).split(200):
        network.train()
        optimizer.zero_grad()
        loss = F.cross_entropy(network(images[rows]), labels[rows])
        loss.backward()
        optimizer.step()
        network.eval()
        with torch.no_grad():
            plot.add(
                train=loss.item(),
                val=F.cross_entropy(network(parts["val"][0]), parts["val"][1]).item(),
            )

# %% [markdown]
# ### Exercise: fit
#
# Write `fit(model, train_loader, val_loader, *, epochs, lr, device)`: train with cross-entropy, with one pass over
# `train_loader` per epoch, and validate after each, in evaluation mode. Return a dict of lists with one number per
# epoch: `train_loss` (a mean over the epoch's samples or batches), `val_loss` (mean cross-entropy over the samples),
# `val_accuracy` (0 to 1), `lr`. The model ends with the weights of the best validation loss. Optimizer and schedule
# are your choice, but the rate has to change over the epochs. With `digits.SmallCNN()`, batches of 64 and `lr=0.01`
# it should reach 97% on held-out digits within 15 epochs; AdamW reaches 99%. The loaders give CPU batches, the model
# is on `device`. You may call what you have written before: `train_step`, `evaluate`, `EarlyStopping` and
# `warmup_cosine` are nearly all of it.
#
# ```
# history = fit(model, train_loader, val_loader, epochs=3, lr=0.01, device=torch.device("cpu"))
# history["lr"]              # three numbers, for instance [0.01, 0.0075, 0.0025]
# history["val_accuracy"]    # three numbers from 0 to 1
# ```

# %% exercise="fit" points=3
def fit(
    model, train_loader, val_loader, *, epochs: int, lr: float, device
) -> dict[str, list[float]]:
    """Train with cross-entropy; return the history by epoch.
    The model ends with its best weights."""
    ### BEGIN SOLUTION
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    stopping = EarlyStopping(patience=epochs)
    history = {"train_loss": [], "val_loss": [], "val_accuracy": [], "lr": []}
    for epoch in range(epochs):
        rate = warmup_cosine(epoch, warmup=0, total=epochs, peak=lr)
        for group in optimizer.param_groups:
            group["lr"] = rate
        total, count = 0.0, 0
        for x, y in train_loader:
            batch = x.to(device), y.to(device)
            loss = train_step(model, batch, F.cross_entropy, optimizer)
            total, count = total + loss * len(y), count + len(y)
        judged = evaluate(model, val_loader, F.cross_entropy, device)
        stopping.update(judged["loss"], model)
        history["lr"].append(rate)
        history["train_loss"].append(total / count)
        history["val_loss"].append(judged["loss"])
        history["val_accuracy"].append(judged["accuracy"])
    stopping.restore(model)
    return history
    ### END SOLUTION

# %% check="fit"
check("fit")

# %% [markdown]
# ## The digits, with what you wrote
#
# Now your pieces work together: `seed_everything` makes the run repeatable, `fit` trains and keeps the best weights,
# and the history shows how it went. Training and validation loss fall together at first. Then the validation loss
# levels off (with other data it may turn up) while the training loss goes on falling: from there on the network only
# learns the training digits by heart. `fit` keeps the weights of the lowest validation loss.

# %% tags=["demo"]
from torch.utils.data import DataLoader, TensorDataset
from torchcourse.demos.parts import still_open

device = torch.device("cpu")
loaders = {
    name: DataLoader(TensorDataset(*tensors), batch_size=64, shuffle=name == "train")
    for name, tensors in parts.items()
}
solved = not still_open(globals(), "seed_everything", "fit", "evaluate", "macro_f1")
if solved:
    seed_everything(0)
    network = digits.SmallCNN().to(device)
    loaded = loaders["train"], loaders["val"]
    history = fit(network, *loaded, epochs=15, lr=0.01, device=device)
    print(f"best validation accuracy {max(history['val_accuracy']):.1%}")
    losses = {name: history[name] for name in ("train_loss", "val_loss")}
    display(curves.draw(losses, "your training run", log=True, xlabel="epoch"))

# %% [markdown]
# The 297 test digits have not been looked at so far. They are opened once, after the last decision has been made. If
# you look, change something and look again, they have become a second validation set, and you have no honest number
# left. The *confusion matrix* counts which digit was taken for which: a row for each true digit, a column for each
# answer; what is off the diagonal, here in orange, is a mistake.

# %% tags=["demo"]
from torchcourse.demos import grids

if solved and not still_open(globals(), "evaluate", "macro_f1"):
    judged = evaluate(network, loaders["test"], F.cross_entropy, device)
    network.eval()
    with torch.no_grad():
        logits = network(parts["test"][0])
    truth, answers = parts["test"][1], logits.argmax(1)
    confusion = torch.bincount(10 * truth + answers, minlength=100).view(10, 10)
    f1 = macro_f1(logits, truth, 10)
    print(f"test: accuracy {judged['accuracy']:.1%}, macro F1 {f1:.3f}")
    off_diagonal = (confusion > 0) & ~torch.eye(10, dtype=torch.bool)
    display(grids.draw({"true_by_answer": off_diagonal}, true_by_answer=confusion))

# %% [markdown]
# ## What you have seen
#
# | idea | remember |
# |---|---|
# | the loop | train mode, clear, predict, compare, differentiate, step |
# | losses | take logits; labels are int64; check the shapes once |
# | evaluation | `eval()` and `no_grad()` are two things; weight by samples; restore the mode |
# | accumulation | scale by the share of examples; one step |
# | clipping | one norm over everything |
# | AdamW | the decay is kept out of the gradient; history in `state` |
# | schedules | know whether yours counts steps or epochs |
# | early stopping | copy the weights; mind NaN |
# | metrics | macro F1 where classes differ in size |
# | seeds | `random`, NumPy, torch |
#
# Next comes **lesson 6, the GPU**: where the tensors of a training step live, and what they cost.
