# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 12 · Distributed training
#
# A model that takes a week on one GPU takes a day on eight, if the eight agree: on the weights they start from, on
# who has which samples, on the mean gradient of each step. Where they do not agree, one of two things happens. Either
# everything stops and nobody says why, or everything runs and the numbers are wrong.
#
# This lesson makes both happen, on purpose and on your own machine. A **rank** is a process with a number. You will
# run two or three of them for every exercise: real processes that exchange real messages, on the CPU, within a
# second. On GPUs you make the same calls with another backend, nccl, and with tensors that are on the GPU.
#
# Nothing here needs the internet or a GPU. Ranks are forked processes, so
# on Windows use WSL.

# %% tags=["setup"]
import contextlib
import math
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
)
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.nn.parallel import DistributedDataParallel

from torchcourse import Unattempted, case, check, hint

# %% tags=["demo"]
# %load_ext torchcourse

# %% tags=["demo"]
import subprocess
import sys
import time
from pathlib import Path

from torchcourse.demos import ranks
from torchcourse.demos.ranks import span

ranks.warm_up()                                    # the first ranks take some seconds

# %% [markdown]
# ## Ranks, and how torchrun starts them
#
# `ranks.run` starts two processes, has each call the same function, and prints what came of it. Each process asks who
# it is:

# %% tags=["demo"]
def hello():
    return f"rank {dist.get_rank()} of {dist.get_world_size()}, process {os.getpid()}"

ranks.run(hello);

# %% [markdown]
# That is the whole model of computation, called SPMD: one program, run several times, and each run looks at its
# number to find its share of the work. Nothing is shared. Each process has its own model, its own optimizer and its
# own random state; what one rank knows, another learns only by a message.
#
# In real life `torchrun` starts the processes. It sets environment variables, and `init_process_group` reads them.
# Here it runs a file with two processes on this machine:

# %% tags=["demo"]
Path("hello.py").write_text("""
import os
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
x = torch.tensor([10.0 + dist.get_rank()])
dist.all_reduce(x)
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
print({name: os.environ[name] for name in names}, "sum:", x.item(), flush=True)
dist.destroy_process_group()
""")
command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2",
           "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", "hello.py"]
quiet = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
if sys.platform == "linux":
    print(
        subprocess.run(
            command, env=quiet, capture_output=True, text=True, timeout=100
        ).stdout
    )

# %% [markdown]
# `torchrun --nproc-per-node=2 hello.py` does the same. On four machines with eight GPUs each you would start it once on
# each machine, with `--nproc-per-node=8 --nnodes=4` and everywhere the same `--rdzv-backend=c10d` and
# `--rdzv-endpoint=HOST:PORT`, so that they find each other. RANK then counts from 0 to 31 over all machines, LOCAL_RANK
# from 0 to 7 on each of them. GPUs are numbered on each machine from 0, so the GPU of a process is its *local* rank.
#
# The backend does the talking: **nccl** between GPUs, **gloo** between CPUs. nccl wants a GPU for each process, and
# refuses two processes on one GPU.
#
# ### Exercise: launch_info
#
# Write `launch_info(environ, cuda_count)`: a dict with `rank`, `local_rank` and `world_size` as ints, `device` as a
# `torch.device`, and `backend`. `environ` is a dict of strings as torchrun sets them, `cuda_count` the number of GPUs
# of this machine. If this machine has at least as many GPUs as processes (LOCAL_WORLD_SIZE), each process uses the GPU
# of its local rank, with nccl; otherwise all of them use the CPU, with gloo. Without the variables, this is the only
# process: rank 0 of 1, and the same rule chooses its device.
#
# ```
# launch_info({"RANK": "9", "LOCAL_RANK": "1", "WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8"}, 8)
# # {'rank': 9, 'local_rank': 1, 'world_size': 16, 'device': device(type='cuda', index=1), 'backend': 'nccl'}
# ```

# %% exercise="launch_info" points=2
def launch_info(environ, cuda_count: int) -> dict:
    """Who this process is, and which device and backend it uses."""
    ### BEGIN SOLUTION
    rank = int(environ.get("RANK", 0))
    local_rank = int(environ.get("LOCAL_RANK", 0))
    own_gpu = int(environ.get("LOCAL_WORLD_SIZE", 1)) <= cuda_count
    return {
        "rank": rank,
        "local_rank": local_rank,
        "world_size": int(environ.get("WORLD_SIZE", 1)),
        "device": torch.device("cuda", local_rank) if own_gpu else torch.device("cpu"),
        "backend": "nccl" if own_gpu else "gloo",
    }
    ### END SOLUTION

# %% check="launch_info"
check("launch_info")

# %% [markdown]
# ## Shares of the data
#
# Each rank trains on its own share of the samples. All shares have to be equally long: a rank with one batch more
# than the others waits in it for ever, since nobody comes to exchange gradients. So either samples are repeated until
# their number is a multiple of the number of ranks, or the last few are left out.
#
# All ranks also have to deal from the same shuffled order, and without asking each other. They can, because a seed
# decides an order:

# %%
def draws():
    own = torch.Generator().manual_seed(5)
    return torch.randperm(6, generator=own).tolist(), torch.randperm(6).tolist()

torch.manual_seed(time.time_ns())
# a generator of its own: the same each time
print(draws()[0], draws()[0])
print(draws()[1], draws()[1])         # the global one: a different order each time

# %% [markdown]
# The generator is one of your own for a second reason: whoever seeds the global one also decides what dropout and
# augmentation draw, and with the same seed on all ranks they draw the same.
#
# This is what `DistributedSampler` does. Its `set_epoch` is the part that people forget; without it every epoch has
# the same order.
#
# ### Exercise: shard_indices
#
# Write `shard_indices(n, rank, world_size, *, epoch, seed, drop_last=False)`: this rank's indices, a list of ints.
# All ranks deal from one shuffled order of `range(n)`, which follows from `seed` and `epoch` alone and changes with
# either of them. All shares are equally long: `n / world_size` rounded up, with samples repeated to fill the last
# places, or, with `drop_last`, rounded down, with the rest left out. It also works with fewer samples than ranks, and
# leaves the global generators of torch, NumPy and Python alone.
#
# ```
# shard_indices(5, 0, 2, epoch=0, seed=1), shard_indices(5, 1, 2, epoch=0, seed=1)
# # ([3, 0, 4], [1, 2, 3]), for example: every sample, one of them twice
# ```

# %% exercise="shard_indices" points=2
def shard_indices(
    n: int,
    rank: int,
    world_size: int,
    *,
    epoch: int,
    seed: int,
    drop_last: bool = False,
) -> list[int]:
    """This rank's share of an order of range(n) that all ranks agree on."""
    ### BEGIN SOLUTION
    generator = torch.Generator().manual_seed(1000 * seed + epoch)
    order = torch.randperm(n, generator=generator).tolist()
    share = n // world_size if drop_last else math.ceil(n / world_size)
    length = share * world_size
    order = (order * math.ceil(length / n))[:length]
    return order[rank:length:world_size]
    ### END SOLUTION

# %% check="shard_indices"
check("shard_indices")

# %% [markdown]
# ## Collectives: who holds what
#
# A **collective** is a call that all ranks make together. In these pictures three ranks really make it; on the left
# is what each holds before, on the right what it holds afterwards:

# %% tags=["demo"]
ranks.collectives()

# %% [markdown]
# Three things are worth looking at. After a `reduce` only one rank has the sum; what the others hold is not defined.
# `reduce_scatter` followed by `all_gather` gives what `all_reduce` gives, a fact that a ring and a sharded model will
# use later. And there is no separate code for the sender and the receivers: all ranks make the same call, and where one
# rank has a special part, as the source of a `broadcast`, all of them name it.
#
# The n-th collective of one rank meets the n-th of every other. If one rank makes one call fewer, the others wait:

# %% tags=["demo"]
def forgets():
    x = torch.ones(2)
    if dist.get_rank() == 0:
        dist.all_reduce(x)                         # rank 1 never gets here
    return x

ranks.run(forgets);

# %% [markdown]
# That is what a hang looks like from outside; from inside there is nothing to see. Here a watchdog noticed after half a
# second that nobody was working. In a real job there is only the time-out of `init_process_group`, ten minutes for
# nccl and thirty for gloo by default: set a shorter one while you look for a fault. When all ranks hang, look for the
# `if` that only some of them entered. `py-spy dump` shows where a process is, and `TORCH_DISTRIBUTED_DEBUG=DETAIL`
# checks before each collective that all ranks are making the same call, with tensors of the same shape.
#
# An exception on one rank leaves the others waiting for as long as its process is still there, as here; once the
# process ends, gloo breaks the connection and the others raise `Connection closed by peer`. Under torchrun, one failed
# process also makes torchrun stop all the rest.

# %% tags=["demo"]
def fails():
    if dist.get_rank() == 1:
        raise ValueError("the labels of this shard are broken")
    dist.barrier()  # wait here until all ranks have come

ranks.run(fails);

# %% [markdown]
# Worse than a hang is a wrong number. This view has gaps in memory; what comes out should be 10, 14 and 18 on both
# ranks:

# %% tags=["demo"]
def strided():
    x = torch.arange(6.0) + 10 * dist.get_rank()
    every_second = x[::2]
    dist.all_reduce(every_second)
    return every_second.tolist()

ranks.run(strided);

# %% [markdown]
# No error, and only some of it right: gloo added up the first three numbers in memory, gaps or not. So send contiguous
# tensors. `t.contiguous()` gives a copy if the tensor has gaps, and you write the result back with `copy_`. Tensors of
# unequal size are just as bad: depending on the sizes, a rank gets a wrong sum, hangs, or is killed by an error inside
# gloo.
#
# Some collectives refuse a dtype (gloo's `broadcast`: int16) or an operation (`ReduceOp.AVG` is not for integers),
# and a few exist in one backend only. Those errors are loud, and harmless.

# %% [markdown]
# ## One model on every rank
#
# Each rank builds its own model. Without a common seed they start from different weights, and a mean of gradients taken
# at different places is no gradient of anything. So before the first step one rank sends its model to the others. That
# means parameters *and* buffers. Here only the parameters are sent, and the running means stay different:

# %% tags=["demo"]
def first_weights():
    model = nn.BatchNorm1d(2)
    model.running_mean.fill_(dist.get_rank())      # as after some batches
    for parameter in model.parameters():
        dist.broadcast(parameter.detach(), src=0)
    return model.running_mean.tolist()

ranks.run(first_weights);

# %% [markdown]
# ### Exercise: broadcast_model
#
# Write `broadcast_model(model, src=0)`: afterwards all parameters and buffers of `model` have the values of rank
# `src`, on every rank. Buffers that are not saved and integer ones go too, and so do tensors with gaps in memory. The
# tensors stay the same objects with the same memory: an optimizer may hold them already. It returns nothing.
#
# ```
# broadcast_model(model)        # on every rank; now they all have rank 0's model
# ```

# %% exercise="broadcast_model" points=2
def broadcast_model(model, src: int = 0) -> None:
    """Make all parameters and buffers those of rank src, in place."""
    ### BEGIN SOLUTION
    for tensor in [*model.parameters(), *model.buffers()]:
        whole = tensor.detach().contiguous()
        dist.broadcast(whole, src)
        tensor.detach().copy_(whole)
    ### END SOLUTION

# %% check="broadcast_model"
check("broadcast_model")

# %% [markdown]
# ## Averaging gradients by hand
#
# Data-parallel training is three lines more than training: after `backward`, each gradient becomes the mean over all
# ranks; then every rank takes the same step, and the models stay equal without another message.
#
# There is one trap. A layer that a rank did not use has `None` for a gradient. A rank that skips it makes one call
# fewer, and from there on every gradient meets that of another layer. Here rank 0 did not use layer a and rank 1 did
# not use layer b:

# %% tags=["demo"]
def mixed_up():
    names = {0: ["b", "c"], 1: ["a", "c"]}[dist.get_rank()]
    gradients = {
        name: torch.full((2,), {"a": 1.0, "b": 100.0, "c": 7.0}[name]) for name in names
    }
    for gradient in gradients.values():
        dist.all_reduce(gradient)
    return {name: (gradient / 2).tolist() for name, gradient in gradients.items()}

ranks.run(mixed_up);

# %% [markdown]
# Rank 0 takes 50.5 for the gradient of b and rank 1 takes it for that of a: no error, no hang, and two models that
# part from here on.
#
# ### Exercise: average_gradients
#
# Write `average_gradients(model)`, to be called on every rank after `backward`: each parameter's `.grad` becomes the
# mean over all ranks. A rank that has no gradient for a parameter counts as zeros there, and gets the mean as well. If
# no rank has one, `.grad` stays None. Gradients may have gaps in memory, and be laid out differently on two ranks. It
# returns nothing.
#
# ```
# average_gradients(model)      # rank 0 had [2., 4.], rank 1 had None: now both have [1., 2.]
# ```

# %% exercise="average_gradients" points=3
def average_gradients(model) -> None:
    """Make each gradient the mean over all ranks."""
    ### BEGIN SOLUTION
    parameters = list(model.parameters())
    present = torch.tensor([p.grad is not None for p in parameters], dtype=torch.int64)
    dist.all_reduce(present)
    for p, ranks in zip(parameters, present.tolist()):
        if ranks == 0:
            continue
        mean = torch.zeros_like(p) if p.grad is None else p.grad
        mean = mean.contiguous() / dist.get_world_size()
        dist.all_reduce(mean)
        p.grad = mean
    ### END SOLUTION

# %% check="average_gradients"
check("average_gradients")

# %% tags=["demo"]
def two_steps():
    torch.manual_seed(dist.get_rank())
    model = nn.Linear(3, 1)
    broadcast_model(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.randn(4, 3)).square().mean().backward()
        average_gradients(model)
        optimizer.step()
    return model.weight.tolist()

try:
    # different data on each rank, and the same weights afterwards
    ranks.run(two_steps)
except Unattempted as stub:
    print(stub)

# %% [markdown]
# ## Shards of 3 and 1
#
# One rank has three samples whose losses are all 8, the other has one sample with a loss of 0. The mean over the
# samples is 24 / 4 = 6. The mean of the ranks' means is (8 + 0) / 2 = 4. The gradient goes the same way:

# %% tags=["demo"]
def shards_of_three_and_one():
    weight = nn.Parameter(torch.ones(()))
    data = (
        torch.tensor([8.0, 8.0, 8.0]) if dist.get_rank() == 0 else torch.tensor([0.0])
    )
    # the gradient is the mean of the data
    (weight * data).mean().backward()
    dist.all_reduce(weight.grad)
    return weight.grad.item() / 2

ranks.run(shards_of_three_and_one)
print("one big batch:", torch.tensor([8.0, 8.0, 8.0, 0.0]).mean().item());

# %% [markdown]
# 4.0, not 6.0: DDP averages the ranks, and each rank averages its samples. **DDP equals one big batch only if all
# ranks have equally many samples** (or tokens, if the loss is a mean over tokens). With unequal ones, sum the losses
# on each rank, divide by the mean count of all ranks, and then let DDP average.
#
# Batch norm is the second difference. Each rank normalises with the statistics of its own samples:

# %% tags=["demo"]
data = torch.tensor([[0.0], [2.0], [10.0], [12.0]])

def half_a_batch():
    norm = DistributedDataParallel(nn.BatchNorm1d(1))
    mine = data[2 * dist.get_rank():][:2]
    return [round(number, 2) for number in norm(mine).flatten().tolist()]

ranks.run(half_a_batch)
whole = nn.BatchNorm1d(1)(data).flatten().tolist()
print("one big batch:", [round(number, 2) for number in whole]);

# %% [markdown]
# 0 and 10 have become the same number. `nn.SyncBatchNorm` uses the statistics of all ranks; it works on GPUs only and
# refuses the CPU. Layer norm and group norm do not have this problem.
#
# The third is the evaluation. Shares are padded to one length, so some samples count twice:

# %% tags=["demo"]
# 3 samples, one of them answered correctly
right = [1, 0, 0]

def accuracy_of_padded_shares():
    # sample 0 fills up the second share
    share = {0: [0, 2], 1: [1, 0]}[dist.get_rank()]
    counts = torch.tensor(
        [sum(right[i] for i in share), len(share)], dtype=torch.float64
    )
    dist.all_reduce(counts)
    return (counts[0] / counts[1]).item()

ranks.run(accuracy_of_padded_shares)
print("really:", 1 / 3);

# %% [markdown]
# So evaluate with shares of unequal length, which is allowed as long as no rank calls a collective per batch. The
# forward of a DDP model may call one, to send buffers, so evaluate `ddp.module`. Each rank adds up its own results, and
# at the end there is one exchange. What you exchange are sums and counts. A mean forgets how many samples it stands for.
#
# ### Exercise: global_mean
#
# Write `global_mean(total, count)`: the mean of a metric over all samples of all ranks, from this rank's sum and its
# number of samples (Python numbers); the same Python float on every rank. A rank may have no samples. If there are
# none at all, the mean is nan. Add in float64: float32 has no 16,777,217.
#
# ```
# global_mean(24.0, 3)    # on rank 0
# global_mean(0.0, 1)     # on rank 1; both get 6.0
# ```

# %% exercise="global_mean" points=2
def global_mean(total: float, count: int) -> float:
    """The mean over the samples of all ranks, from this rank's sum and count."""
    ### BEGIN SOLUTION
    both = torch.tensor([total, count], dtype=torch.float64)
    dist.all_reduce(both)
    total, count = both.tolist()
    return total / count if count else math.nan
    ### END SOLUTION

# %% check="global_mean"
check("global_mean")

# %% [markdown]
# ## What DDP does
#
# `DistributedDataParallel(model)` does by itself what you have written so far: it sends rank 0's model to all when it
# is made, and averages gradients in every backward. It does two more things. It sends rank 0's buffers before every
# forward (but not before one that follows a forward under `no_sync` or `no_grad`). And it does not wait until the
# backward is over: gradients are collected in **buckets** of 25 MB, and a bucket is sent as soon as it is full, while
# the backward goes on. Move the sliders: buckets hide the exchange behind the work. What no bucket hides is a slow
# rank.

# %% tags=["demo"]
ranks.explore()

# %% [markdown]
# Here is the same thing, measured. Rank 0 is slow, and both take as long as rank 0; in rank 1's profile it looks as if
# `all_reduce` were the problem:

# %% tags=["demo"]
def three_steps():
    for _ in range(3):
        with span("work"):
            time.sleep(0.12 if dist.get_rank() == 0 else 0.04)
        with span("exchange"):
            dist.all_reduce(torch.ones(1000))

ranks.timelines(three_steps)

# %% [markdown]
# DDP counts on every parameter getting a gradient in every backward. If one does not, because a branch was not taken,
# the next forward raises an error that says so. `find_unused_parameters=True` has DDP look through the graph each
# time, which costs time; leave it off until you need it.

# %% tags=["demo"]
class Branching(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.spare = nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x):
        return self.used(x)

def unused():
    ddp = DistributedDataParallel(Branching())
    for _ in range(2):
        ddp(torch.ones(1, 2)).sum().backward()

ranks.run(unused);

# %% [markdown]
# If ranks run out of data at different times, `with ddp.join():` lets those that are done answer the collectives of
# the others. Equal shares are simpler.
#
# `nn.DataParallel` is the older way: one process with several threads, which copies the model to every GPU in each
# forward and gathers the outputs on the first. Forward and backward do run on all GPUs, but Python's lock and the
# copying slow it down, and the first GPU's memory limits it. Use DDP, also on one machine.
#
# ## Gradients in several pieces
#
# Lesson 5 made one step of several micro-batches. Under DDP each of their backwards would exchange gradients, and only
# the last exchange is needed. `ddp.no_sync()` turns it off for a block. A *comm hook* is a function that DDP calls for
# each bucket in place of its own exchange; this one does the same exchange and counts it:

# %% tags=["demo"]
def exchanges(placed):
    ddp = DistributedDataParallel(nn.Linear(4, 1))
    sent = []

    def counting(state, bucket):
        sent.append(bucket.buffer().numel())
        total = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
        return total.then(lambda done: done.value()[0] / dist.get_world_size())

    ddp.register_comm_hook(None, counting)
    for number in range(3):
        quiet = ddp.no_sync() if number < 2 else contextlib.nullcontext()
        if placed == "around both":
            with quiet:
                ddp(torch.ones(2, 4)).sum().backward()
        else:
            loss = ddp(torch.ones(2, 4)).sum()
            with quiet:
                loss.backward()
    return f"no_sync {placed}: exchanges: {len(sent)}"

ranks.run(lambda: exchanges("around both"))
ranks.run(lambda: exchanges("around the backward"));

# %% [markdown]
# DDP looks at the switch in the *forward*, where it prepares for the backward. Entered later, `no_sync` has no
# effect, and nothing tells you but the time.
#
# ### Exercise: accumulated_ddp_step
#
# Write `accumulated_ddp_step(ddp, micro_batches, loss_fn, optimizer)`: take one step on all micro-batches `(x, y)` of
# all ranks, as if they were one batch, with exactly one exchange of gradients by DDP. Return the mean loss over all
# samples of all ranks, a Python float, the same on every rank. `loss_fn(ddp(x), y)` is the mean over one micro-batch. All
# ranks have the same number of samples in total, but the sizes and the number of their micro-batches may differ. Never
# hold the graph of more than one micro-batch. Clear old gradients first, and leave training or evaluation mode as the
# caller set it.
#
# ```
# loss = accumulated_ddp_step(ddp, [(x1, y1), (x2, y2)], F.mse_loss, optimizer)
# ```

# %% exercise="accumulated_ddp_step" points=3
def accumulated_ddp_step(ddp, micro_batches, loss_fn, optimizer) -> float:
    """One step on all micro-batches of all ranks, with one gradient exchange;
    the loss."""
    ### BEGIN SOLUTION
    optimizer.zero_grad()
    samples = sum(len(y) for _, y in micro_batches)
    total = torch.zeros((), dtype=torch.float64)
    for number, (x, y) in enumerate(micro_batches, 1):
        last = number == len(micro_batches)
        with contextlib.nullcontext() if last else ddp.no_sync():
            loss = loss_fn(ddp(x), y) * (len(y) / samples)
            loss.backward()
        total += loss.detach()
    optimizer.step()
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()
    ### END SOLUTION

# %% check="accumulated_ddp_step"
check("accumulated_ddp_step")

# %% [markdown]
# ## Round a ring
#
# How much does an all-reduce of n numbers cost? If all ranks send to rank 0, that rank receives (w - 1) n numbers and
# sends as many, and waits for its own link. A ring does better. Cut the tensor into w chunks. In w - 1 steps each
# chunk goes round once and is added up on its way; in w - 1 more steps the finished chunks are handed on. A rank
# sends one chunk a step:

# %%
for world in (2, 4, 8, 64, 1024):
    print(
        f"{world:5} ranks: {2 * (world - 1) / world:.3f} n leave each rank; by way of "
        f"rank 0, {world - 1} n"
    )

# %% [markdown]
# Less than 2 n, however many ranks there are. With 7 billion gradients of 2 bytes, that is 28 GB for each step and
# each rank, which is why links matter, and why gradients are exchanged while the backward runs.
#
# In one ring step everybody sends to the next and receives from the one before. `send` and `recv` block: here, with
# gloo, `send` returns only when the other side has taken the data. If all send first, nobody receives and all of them
# hang, even with a single number:

# %% tags=["demo"]
def everybody_sends():
    other = 1 - dist.get_rank()
    dist.send(torch.ones(1), other)
    dist.recv(torch.empty(1), other)

ranks.run(everybody_sends)

def everybody_sends_and_goes_on():
    other, received = 1 - dist.get_rank(), torch.empty(1)
    sending = dist.isend(torch.tensor([dist.get_rank() + 5.0]), other)
    dist.recv(received, other)
    sending.wait()
    return received.item()

ranks.run(everybody_sends_and_goes_on);

# %% [markdown]
# ### Exercise: ring_all_reduce
#
# Write `ring_all_reduce(x)`: return the sum of x over all ranks, in x's shape and dtype, on every rank. Use only
# point-to-point calls of `torch.distributed`. If x has n elements, each rank may send at most as many bytes as about
# 2 n (w - 1) / w of them take. Do not change x. It may be strided, 0-D, empty, of an integer dtype, or of a size that w
# does not divide (even smaller than w); all ranks have the same shape. It is checked with three ranks.
#
# ```
# ring_all_reduce(torch.tensor([1., 2., 3., 4.]))    # on three ranks: tensor([3., 6., 9., 12.])
# ```

# %% exercise="ring_all_reduce" points=4
def ring_all_reduce(x: Tensor) -> Tensor:
    """The sum of x over all ranks; every rank sends to the next one only."""
    ### BEGIN SOLUTION
    rank, size = dist.get_rank(), dist.get_world_size()
    chunks = list(x.flatten().clone().tensor_split(size))

    def shift(outgoing: int, incoming: int) -> Tensor:
        received = torch.empty_like(chunks[incoming % size])
        sending = dist.isend(chunks[outgoing % size], (rank + 1) % size)
        dist.recv(received, (rank - 1) % size)
        sending.wait()
        return received

    for step in range(size - 1):                   # add up
        chunks[(rank - step - 1) % size] += shift(rank - step, rank - step - 1)
    for step in range(size - 1):                   # hand round
        chunks[(rank - step) % size].copy_(shift(rank - step + 1, rank - step))
    return torch.cat(chunks).view(x.shape)
    ### END SOLUTION

# %% check="ring_all_reduce"
check("ring_all_reduce")

# %% [markdown]
# ## One rank first
#
# Some things should happen once: download the data, build the vocabulary, write the checkpoint. So rank 0 does it,
# and the others wait at a `barrier`. That is what most scripts do, and it has a hole:

# %% tags=["demo"]
def first_or_never():
    if dist.get_rank() == 0:
        raise OSError("no space left on device")   # it should have written a file
    dist.barrier()

ranks.run(first_or_never);

# %% [markdown]
# Rank 0 had a clear error, and the others wait for a call that never comes, or report only a closed connection. Rank 0
# should tell them.
#
# ### Exercise: rank_zero_first
#
# Write `rank_zero_first(fn)`, to be called on every rank: rank 0 calls `fn()`; when it is through, the others call
# theirs. Each rank returns its own result. If rank 0's call raises, rank 0 raises that exception, and every other
# rank raises one too, without calling `fn`.
#
# ```
# data = rank_zero_first(lambda: load("digits"))     # rank 0 downloads, the others find the file
# ```

# %% exercise="rank_zero_first" points=3
def rank_zero_first(fn):
    """Call fn on rank 0, then on the others; each gets its own result."""
    ### BEGIN SOLUTION
    failed = torch.zeros(1)
    if dist.get_rank() == 0:
        try:
            return fn()
        except BaseException:
            failed.fill_(1)
            raise
        finally:
            dist.broadcast(failed, 0)
    dist.broadcast(failed, 0)
    if failed.item():
        raise RuntimeError("rank 0 failed, so this rank does not begin")
    return fn()
    ### END SOLUTION

# %% check="rank_zero_first"
check("rank_zero_first")

# %% [markdown]
# ## What a rank has to hold
#
# DDP makes training faster, not smaller: each rank holds the whole model. And the model is the smallest part of it.
# For each parameter in bfloat16, training with AdamW holds 2 bytes of parameter, 2 of gradient, 8 of AdamW's two
# averages and 4 of a float32 master copy: 16 bytes, so 112 GB for 7 billion parameters.
#
# ZeRO, and FSDP after it, splits them over the ranks in stages: first what only the optimizer step needs, then the
# gradients, then the parameters themselves.
#
# | stage | split over the ranks | whole on every rank |
# |---|---|---|
# | 0 (DDP) | nothing | parameters, gradients, states and master copy |
# | 1 | states and master copy | parameters, gradients |
# | 2 | gradients too | parameters |
# | 3 (FSDP) | parameters too | nothing |
#
# Stages 1 and 2 send no more than DDP does: a `reduce_scatter` of the gradients, then an `all_gather` of the new
# parameters. Stage 3 gathers the parameters once in the forward and once in the backward, so it sends half as much
# again.
#
# ### Exercise: zero_bytes
#
# Write `zero_bytes(num_params, world_size, *, stage, param_dtype=torch.bfloat16)`: how many bytes one rank holds, an
# int. Parameters and gradients are in `param_dtype`; AdamW's two averages and the master copy are always float32, and
# all three count even if the parameters are float32 too. A share is `num_params / world_size` parameters, rounded up.
#
# ```
# zero_bytes(7 * 10**9, 8, stage=0)    # 112000000000
# zero_bytes(7 * 10**9, 8, stage=3)    # 14000000000
# ```

# %% exercise="zero_bytes" points=2
def zero_bytes(
    num_params: int,
    world_size: int,
    *,
    stage: int,
    param_dtype: torch.dtype = torch.bfloat16,
) -> int:
    """The bytes that one rank holds for a model trained with AdamW."""
    ### BEGIN SOLUTION
    share = -(-num_params // world_size)
    parameters = num_params if stage < 3 else share
    gradients = num_params if stage < 2 else share
    states = num_params if stage < 1 else share
    return (parameters + gradients) * param_dtype.itemsize + states * (4 + 4 + 4)
    ### END SOLUTION

# %% check="zero_bytes"
check("zero_bytes")

# %% tags=["demo"]
try:
    for world in (8, 64):
        sizes = [
            f"stage {s}: {zero_bytes(7 * 10**9, world, stage=s) / 1e9:.1f} GB"
            for s in range(4)
        ]
        print(f"7 billion parameters, {world} ranks   " + "   ".join(sizes))
except Unattempted as stub:
    print(stub)

# %% [markdown]
# Activations come on top; they depend on the batch, not on the stage. Lesson 6's checkpointing is for them.
#
# ## Shards of a model
#
# `fully_shard` (FSDP2) turns a module's parameters into `DTensor`s: tensors that know the whole shape and hold one
# rank's rows. Before a module's forward its shards are gathered, and afterwards the whole parameters are freed; the
# same happens in the backward. (By default the outermost module keeps its own parameters gathered from the forward to
# the backward.) Gradients are reduced and scattered, so each rank has those of its own rows.

# %% tags=["demo"]
def shards():
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))
    fully_shard(model)
    weight = model[0].weight
    return type(weight).__name__, tuple(weight.shape), tuple(weight.to_local().shape)

ranks.run(shards);

# %% [markdown]
# A call makes one **group** of all the parameters in a module that are in no group yet, and a group is gathered as a
# whole. So the order matters. First each block of a transformer, then the model, which takes what is left (embedding
# and head): at most one or two blocks are whole at a time. If you shard only the model, there is one group, gathered at
# once, and at the peak every rank holds all the parameters. If you shard only the blocks, the rest is whole on every
# rank, and nobody averages its gradients.
#
# The parameters are new objects afterwards. An optimizer that was made before holds the old ones and trains nothing:

# %% tags=["demo"]
def optimizer_too_early(early):
    torch.manual_seed(0)
    model = nn.Linear(2, 1)
    if early:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    fully_shard(model)
    if not early:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = model.weight.full_tensor().clone()
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    return (
        "trained"
        if (model.weight.full_tensor() != before).any()
        else "no change, no error"
    )


ranks.run(lambda: optimizer_too_early(True))
ranks.run(lambda: optimizer_too_early(False));

# %% [markdown]
# ### Exercise: shard_model
#
# Write `shard_model(model, mesh, make_optimizer)`: shard each block of `model.blocks` by itself, then the model, over
# `mesh` (a `DeviceMesh`, which names the ranks to shard over; `torch.distributed.device_mesh.init_device_mesh` makes
# one, and you pass it to `fully_shard` as `mesh=mesh`); then make the optimizer by calling `make_optimizer(parameters)`
# once, and return it. The model is sharded in place.
#
# ```
# optimizer = shard_model(model, init_device_mesh("cpu", (2,)), lambda ps: torch.optim.AdamW(ps, lr=1e-3))
# ```

# %% exercise="shard_model" points=3
def shard_model(model, mesh, make_optimizer):
    """Shard each block, then the model; the optimizer of what came out."""
    ### BEGIN SOLUTION
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return make_optimizer(model.parameters())
    ### END SOLUTION

# %% check="shard_model"
check("shard_model")

# %% [markdown]
# In real training a `MixedPrecisionPolicy` says which dtype is gathered and which is reduced, and the model is made on
# the `meta` device and sharded before it has any memory, since the whole would not fit. Accelerate, DeepSpeed and
# Lightning offer the same under other names.
#
# ## Checkpoints
#
# What does `state_dict` say of a model that was wrapped or sharded?

# %% tags=["demo"]
def names_and_shapes():
    ddp = DistributedDataParallel(nn.Linear(3, 2))
    sharded = fully_shard(nn.Linear(3, 2))
    values = sharded.state_dict()["weight"]
    return list(ddp.state_dict()), type(values).__name__, tuple(values.to_local().shape)

ranks.run(names_and_shapes);

# %% [markdown]
# DDP puts `module.` before every name, because it holds the model in an attribute of that name. A sharded model has
# `DTensor`s: with `torch.save` each rank would write only its own rows, and only the same number of ranks could use
# them again. There are two ways out. To go on with the training later, save *sharded*: with
# `torch.distributed.checkpoint` every rank writes its own part, in parallel, and the checkpoint can be loaded on a
# different number of ranks:

# %% tags=["demo"]
import tempfile

import torch.distributed.checkpoint as dcp

def saved_in_parts(folder):
    model = fully_shard(nn.Linear(3, 2))
    dcp.save({"model": model.state_dict()}, checkpoint_id=folder)
    return sorted(os.listdir(folder))

def loaded_on_one(folder):
    state = {"model": nn.Linear(3, 2).state_dict()}
    dcp.load(state, checkpoint_id=folder)
    return list(state["model"]["weight"].shape)

with tempfile.TemporaryDirectory() as folder:
    ranks.run(lambda: saved_in_parts(folder))
    ranks.run(lambda: loaded_on_one(folder), ranks=1)

# %% [markdown]
# For everybody else, who wants one file with plain names, save the *full* state: gather each tensor, keep it on rank
# 0. Gathering is a collective. A call under `if rank == 0` waits for ever.
#
# ### Exercise: full_state
#
# Write `full_state(model)`, called by all ranks: on rank 0 a dict of the whole weights, with the names of the plain
# model, as plain tensors on the CPU, without a graph; on the other ranks an empty dict. The model may be plain, in DDP,
# or sharded, and is not changed. The dict holds all parameters and all persistent buffers, and nothing else.
#
# ```
# state = full_state(ddp)
# if dist.get_rank() == 0:
#     torch.save(state, "model.pt")
# ```

# %% exercise="full_state" points=2
def full_state(model) -> dict:
    """The whole weights under plain names, on rank 0's CPU; elsewhere an empty dict."""
    ### BEGIN SOLUTION
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    state = get_model_state_dict(model, options=options)
    return state if dist.get_rank() == 0 else {}
    ### END SOLUTION

# %% check="full_state"
check("full_state")

# %% [markdown]
# ## Splitting a layer
#
# Sharding splits what is *stored*; each rank still computes every layer in full, on its own samples. **Tensor
# parallelism** splits the computation of one layer. Two linear layers with an activation between them split well.
# Give each rank some *rows* of the first weight, so some of the hidden units, complete: the activation needs no
# exchange. Give it the same *columns* of the second weight: its product is a part of every output, and the parts add
# up.

# %%
torch.manual_seed(0)
x, w1, w2 = torch.randn(1, 3), torch.randn(4, 3), torch.randn(2, 4)
parts = [F.gelu(x @ w1[rows].T) @ w2[:, rows].T for rows in (slice(0, 2), slice(2, 4))]
print(torch.allclose(parts[0] + parts[1], F.gelu(x @ w1.T) @ w2.T, atol=1e-6))

# %% [markdown]
# One `all_reduce` in the forward. And in the backward? Autograd does not record `dist.all_reduce`, so you write its
# backward yourself. The output's gradient is the same on all ranks, and goes into each part as it is. Each rank computes
# only a part of the gradient of x, and the parts have to be added up. `torch.distributed.nn.functional.all_reduce`
# (deprecated in the newest releases) is differentiable, but its backward adds up the output's gradient over the ranks,
# which is right for a loss that is a sum over ranks; here all ranks have the same loss, and two would count it twice:

# %% tags=["demo"]
import torch.distributed.nn.functional as dist_nn

def gradient_of_a_sum():
    x = torch.ones(1, requires_grad=True)
    dist_nn.all_reduce(x).backward()               # y = x0 + x1, so dy/dx0 is 1
    return x.grad.item()

ranks.run(gradient_of_a_sum);

# %% [markdown]
# ### Exercise: tensor_parallel_mlp
#
# Write `tensor_parallel_mlp(x, w1, w2)`: the value of `gelu(x @ w1.T) @ w2.T` for the whole weights, where this rank
# is given some rows of `w1` and the matching columns of `w2` (other ranks may have more of them, or fewer). x is the same
# on all ranks, and may have any number of leading dimensions. The output and the gradient of x are the same on all
# ranks; the gradients of `w1` and `w2` are those of this rank's parts. Make exactly one collective call in the forward
# and one in the backward.
#
# ```
# y = tensor_parallel_mlp(x, w1[:2], w2[:, :2])     # on rank 0; rank 1 has the rest, and the same y
# ```

# %% exercise="tensor_parallel_mlp" points=4
def tensor_parallel_mlp(x: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
    """gelu(x @ w1.T) @ w2.T; this rank has some rows of w1
    and the matching columns of w2."""
    ### BEGIN SOLUTION
    class Enter(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view_as(x)

        @staticmethod
        def backward(ctx, grad):
            grad = grad.contiguous()
            dist.all_reduce(grad)
            return grad

    class Leave(torch.autograd.Function):
        @staticmethod
        def forward(ctx, part):
            whole = part.clone(memory_format=torch.contiguous_format)
            dist.all_reduce(whole)
            return whole

        @staticmethod
        def backward(ctx, grad):
            return grad

    return Leave.apply(F.gelu(Enter.apply(x) @ w1.T) @ w2.T)
    ### END SOLUTION

# %% check="tensor_parallel_mlp"
check("tensor_parallel_mlp")

# %% [markdown]
# An exchange for each layer wants fast links, so tensor parallelism stays inside a machine. Attention splits the same
# way, by heads. `torch.distributed.tensor.parallel` does it for you: `ColwiseParallel` for the first layer,
# `RowwiseParallel` for the second.
#
# **Pipeline parallelism** gives each rank some layers, and passes activations on. With one batch all ranks but one
# wait; with m micro-batches on p ranks, (p - 1) / (m + p - 1) of the time is still spent waiting; that is the *bubble*:

# %%
for pieces in (1, 4, 16, 64):
    print(
        f"4 ranks, {pieces:2} micro-batches: {3 / (pieces + 3):.0%} of the time in "
        "the bubble"
    )

# %% [markdown]
# ## Which one, then
#
# | the problem | use |
# |---|---|
# | it fits, but takes too long | DDP |
# | optimizer states, gradients or weights do not fit | FSDP (`fully_shard`) |
# | activations do not fit | checkpointing, smaller micro-batches, then sequence parallelism (each rank holds the activations of some of the tokens) |
# | one layer is too large or too slow | tensor parallelism, inside a machine |
# | all that, on many machines | a mesh: FSDP between machines, tensor parallelism inside, pipelines |
#
# Begin with one process, then two on one machine. When a run with two ranks and half the batch each gives the losses
# of one rank with the whole batch, to the digits that float32 has, the rest is only more of the same. If it does not,
# you know the usual suspects: unequal shards, batch norm, padded samples counted twice, a buffer that nobody sent, a
# `None` that one rank skipped, a learning rate that was tuned for another batch size.
