"""The exercise `accumulated_ddp_step`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from autograde.hidden.common import override
from autograde.source.mistakes import Mistake
from torchcourse.exercises.distributed.accumulated_ddp_step import cases as visible_cases
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "Each loss counts by its share of this rank's samples, so the gradients add up to the rank's mean, and DDP's one "
    "exchange averages the ranks. Forward and backward of all micro-batches but the last run inside `no_sync`, since "
    "DDP decides in the forward. The loss is averaged by a small exchange of its own."
)
"""Why the reference is written as it is."""
REQUIRED = ("syncs-every-micro-batch", "never-syncs", "forward-outside-no-sync", "no-scaling")
"""The mistakes that a check must always be able to name."""

PIECES = "Gradients in several pieces"


class Accumulated:
    """A right program; a mistake overrides one of its methods."""

    def __call__(self, ddp: Any, micro_batches: Any, loss_fn: Any, optimizer: Any) -> Any:
        self.clear(optimizer)
        count = sum(len(y) for _, y in micro_batches)
        total = 0.0
        for number, (x, y) in enumerate(micro_batches, 1):
            share = self.share(len(y), count, len(micro_batches))
            with self.sync(ddp, number, len(micro_batches)):
                loss = loss_fn(ddp(x), y)
                (loss * share).backward()
            self.after_each(optimizer, number == len(micro_batches))
            total += loss.item() * len(y) / count
        self.step(optimizer)
        return self.returned(total)

    def clear(self, optimizer: Any) -> None:
        optimizer.zero_grad()

    def share(self, rows: int, count: int, pieces: int) -> float:
        return rows / count

    @contextlib.contextmanager
    def sync(self, ddp: Any, number: int, pieces: int) -> Iterator[None]:
        with contextlib.nullcontext() if number == pieces else ddp.no_sync():
            yield

    def after_each(self, optimizer: Any, last: bool) -> None:
        pass

    def step(self, optimizer: Any) -> None:
        optimizer.step()

    def returned(self, total: float) -> Any:
        both = torch.tensor(total, dtype=torch.float64)
        dist.all_reduce(both)
        return both.item() / dist.get_world_size()


def accumulated(**methods: Any) -> Callable[..., Any]:
    """Return the right program with these methods in place of its own."""
    program: Callable[..., Any] = override(Accumulated, **methods)()
    return program


@contextlib.contextmanager
def always(_self: Accumulated, ddp: Any, number: int, pieces: int) -> Iterator[None]:
    yield


@contextlib.contextmanager
def never(_self: Accumulated, ddp: Any, number: int, pieces: int) -> Iterator[None]:
    with ddp.no_sync():
        yield


@contextlib.contextmanager
def the_other_way_round(_self: Accumulated, ddp: Any, number: int, pieces: int) -> Iterator[None]:
    with ddp.no_sync() if number == pieces else contextlib.nullcontext():
        yield


@contextlib.contextmanager
def first_only(_self: Accumulated, ddp: Any, number: int, pieces: int) -> Iterator[None]:
    with contextlib.nullcontext() if number == 1 else ddp.no_sync():
        yield


def through_the_module(ddp: Any, micro_batches: Any, loss_fn: Any, optimizer: Any) -> Any:
    """Go past DDP, which then never exchanges."""

    class Bare:
        def __call__(self, x: Tensor) -> Any:
            return ddp.module(x)

        def no_sync(self) -> Any:
            return contextlib.nullcontext()

    return accumulated()(Bare(), micro_batches, loss_fn, optimizer)


def forward_outside(ddp: Any, micro_batches: Any, loss_fn: Any, optimizer: Any) -> Any:
    optimizer.zero_grad()
    count, total = sum(len(y) for _, y in micro_batches), 0.0
    for number, (x, y) in enumerate(micro_batches, 1):
        loss = loss_fn(ddp(x), y) * (len(y) / count)
        with contextlib.nullcontext() if number == len(micro_batches) else ddp.no_sync():
            loss.backward()
        total += loss.item()
    optimizer.step()
    return Accumulated().returned(total)


def steps_each_time(_self: Accumulated, optimizer: Any, last: bool) -> None:
    if not last:
        optimizer.step()
        optimizer.zero_grad()


def steps_and_clears(_self: Accumulated, optimizer: Any) -> None:
    optimizer.step()
    optimizer.zero_grad()


def summed(_self: Accumulated, total: float) -> Any:
    both = torch.tensor(total, dtype=torch.float64)
    dist.all_reduce(both)
    return both.item()


def divided_by_ranks(_self: Accumulated, rows: int, count: int, pieces: int) -> float:
    return rows / count / dist.get_world_size()


def multiplied_by_ranks(_self: Accumulated, rows: int, count: int, pieces: int) -> float:
    return rows / count * dist.get_world_size()


def trains(ddp: Any, micro_batches: Any, loss_fn: Any, optimizer: Any) -> Any:
    ddp.train()
    return accumulated()(ddp, micro_batches, loss_fn, optimizer)


def two_ranks(_self: Accumulated, total: float) -> Any:
    return summed(_self, total) / 2


def rank_zero_only(_self: Accumulated, total: float) -> Any:
    both = torch.tensor(total, dtype=torch.float64)
    dist.reduce(both, 0)
    return both.item() / (dist.get_world_size() if dist.get_rank() == 0 else 1)


def exchanges_each_time_and_keeps_its_loss(ddp: Any, micro_batches: Any, loss_fn: Any, optimizer: Any) -> Any:
    optimizer.zero_grad()
    count, total = sum(len(y) for _, y in micro_batches), 0.0
    for x, y in micro_batches:
        loss = loss_fn(ddp(x), y) * (len(y) / count)
        loss.backward()
        total += loss.item()
    optimizer.step()
    return total


def equal_weights(ddp: Any, micro_batches: Any, loss_fn: Any, optimizer: Any) -> Any:
    """Divide by the number of micro-batches, in the gradients and in the loss."""
    optimizer.zero_grad()
    total = 0.0
    for number, (x, y) in enumerate(micro_batches, 1):
        with contextlib.nullcontext() if number == len(micro_batches) else ddp.no_sync():
            loss = loss_fn(ddp(x), y) / len(micro_batches)
            loss.backward()
        total += loss.item()
    optimizer.step()
    return Accumulated().returned(total)


def mean_of_losses(pooled: bool) -> Callable[..., Any]:
    """Return a program with the right gradients, whose loss is a mean over micro-batches, of all ranks or of each."""

    def step(ddp: Any, micro_batches: Any, loss_fn: Any, optimizer: Any) -> Any:
        losses: list[float] = []

        def noted(output: Tensor, y: Tensor) -> Any:
            loss = loss_fn(output, y)
            losses.append(loss.item())
            return loss

        accumulated(returned=lambda self, total: total)(ddp, micro_batches, noted, optimizer)
        both = torch.tensor([sum(losses), len(losses)], dtype=torch.float64)
        both = both if pooled else both / len(losses)
        dist.all_reduce(both)
        return (both[0] / both[1]).item()

    return step


def concatenated(ddp: Any, micro_batches: Any, loss_fn: Any, optimizer: Any) -> Any:
    xs, ys = zip(*micro_batches, strict=True)
    return accumulated()(ddp, [(torch.cat(xs), torch.cat(ys))], loss_fn, optimizer)


def one_backward_for_all(ddp: Any, micro_batches: Any, loss_fn: Any, optimizer: Any) -> Any:
    optimizer.zero_grad()
    count = sum(len(y) for _, y in micro_batches)
    with ddp.no_sync():
        loss = sum(loss_fn(ddp(x), y) * (len(y) / count) for x, y in micro_batches[:-1])
    x, y = micro_batches[-1]
    loss = loss + loss_fn(ddp(x), y) * (len(y) / count)
    loss.backward()
    optimizer.step()
    return Accumulated().returned(loss.item())


@contextlib.contextmanager
def switched_off_for_good(_self: Accumulated, ddp: Any, number: int, pieces: int) -> Iterator[None]:
    ddp.require_backward_grad_sync = number == pieces
    yield
    ddp.require_backward_grad_sync = False


EXCHANGED = 'In the case "{case}" the gradients were exchanged {several} times, and once is enough: '
APART = 'In the case "{case}" the gradients were exchanged {exchanges} times, and once is wanted: '
VALUE = 'In the case "{case}" `{what}` is {got} where {want} is wanted: '
ALONE = (
    "each rank trains by itself. Either the last micro-batch was inside `no_sync` too, or `ddp.module(x)` was called, "
    "which goes past DDP."
)
LOSS = 'In the case "{case}" the losses are {loss0} on rank 0 and {loss1} on rank 1 where {right} is wanted: '
MISTAKES = [
    Mistake("syncs-every-micro-batch", accumulated(sync=always), EXCHANGED + "DDP exchanges after each backward unless "
            "it is told not to.", PIECES),
    Mistake("forward-outside-no-sync", forward_outside, EXCHANGED + "DDP looks for `no_sync` in the forward, and here "
            "only the backward is inside it.", PIECES),
    Mistake("never-syncs", accumulated(sync=never), APART + ALONE, PIECES),
    Mistake("never-syncs", through_the_module, APART + ALONE, PIECES),
    Mistake("syncs-the-wrong-ones", accumulated(sync=the_other_way_round), APART + "all but the last micro-batch were "
            "exchanged, and what the last one adds stays on its rank.", PIECES),
    Mistake("syncs-the-first", accumulated(sync=first_only), VALUE + "the only exchange came after the first "
            "micro-batch, and what the others add stays on its rank.", PIECES),
    Mistake("no-scaling", accumulated(share=lambda self, rows, count, pieces: 1), VALUE + "the losses went in "
            "unscaled, so the gradient is a sum over micro-batches.", PIECES),
    Mistake("equal-weights", equal_weights, VALUE + "each micro-batch counted the same, whatever its size.", PIECES),
    Mistake("syncs-every-micro-batch", exchanges_each_time_and_keeps_its_loss, EXCHANGED + "DDP exchanges after each "
            "backward unless it is told not to. And each rank returned the loss of its own samples.", PIECES),
    Mistake("equal-weights", accumulated(share=lambda self, rows, count, pieces: 1 / pieces), VALUE + "each "
            "micro-batch counted the same, whatever its size.", PIECES),
    *(Mistake("returns-mean-of-micro-batches", mean_of_losses(pooled), LOSS + "the gradients are right, but the loss "
            "is a mean over micro-batches, in which a small one counts as much as a large one.", PIECES)
      for pooled in (True, False)),
    *(Mistake("holds-all-graphs", program, 'In the case "{case}" the {what} are {got} where those {want} are wanted: '
              "the result is right, but needs the memory of the whole batch, which the pieces are to save.", PIECES)
      for program in (concatenated, one_backward_for_all)),
    Mistake("leaves-sync-off", accumulated(sync=switched_off_for_good), 'In the case "{case}" the {what} are '
            "{got}, and should be {want}: the next backward of this model would exchange nothing.", PIECES),
    Mistake("multiplies-by-ranks", accumulated(share=multiplied_by_ranks), VALUE + "the loss was multiplied by the "
            "number of ranks, which undoes DDP's mean: the gradient is a sum over ranks.", PIECES),
    Mistake("switches-to-training", trains, 'In the case "{case}" the model was in evaluation mode, and the step '
            "switched it to training: `{what}` is {got} where {want} is wanted.", PIECES),
    Mistake("divides-by-ranks-again", accumulated(share=divided_by_ranks), VALUE + "DDP divides by the number of ranks "
            "already.", PIECES),
    Mistake("returns-local-loss", accumulated(returned=lambda self, total: total), LOSS + "each rank returned the loss "
            "of its own samples.", PIECES),
    Mistake("returns-summed-loss", accumulated(returned=summed), LOSS + "the ranks' losses were added up and not "
            "divided.", PIECES),
    Mistake("knows-two-ranks", accumulated(returned=two_ranks), LOSS + "the sum was divided by 2, but there are "
            "`dist.get_world_size()` ranks, and not always two.", PIECES),
    Mistake("loss-on-rank-zero-only", accumulated(returned=rank_zero_only), LOSS + "only rank 0 has the mean, as after "
            "`reduce`.", PIECES),
    Mistake("returns-tensor", accumulated(returned=lambda self, total: torch.tensor(Accumulated().returned(total))),
            LOSS + "a Python float is wanted.", PIECES),
    Mistake("missing-zero-grad", accumulated(clear=lambda self, optimizer: None), VALUE + "gradients of an earlier "
            "batch were still there.", PIECES),
    Mistake("clears-after-the-step", accumulated(clear=lambda self, optimizer: None, step=steps_and_clears), VALUE +
            "the gradients were cleared after the step, so what an earlier batch had left went into the step.", PIECES),
    Mistake("steps-every-micro-batch", accumulated(after_each=steps_each_time), 'In the case "{case}" the optimizer '
            "took {steps} steps: one is wanted, at the end.", PIECES),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    again = visible_cases(draw)
    return [case(f"{c.name}, drawn again", rtol=1e-9, atol=1e-10, **c.inputs) for c in again[1:4]]


# Right answers unlike the reference


def accumulated_with_an_exit_stack(ddp: Any, micro_batches: Any, loss_fn: Any, optimizer: Any) -> float:
    *first, last = micro_batches
    rows = torch.tensor([float(len(y)) for _, y in micro_batches], dtype=torch.float64)
    weights = (rows / rows.sum()).tolist()
    ddp.zero_grad()
    losses = []
    with ddp.no_sync():
        for (x, y), w in zip(first, weights, strict=False):
            losses.append(w * loss_fn(ddp(x), y))
            losses[-1].backward()
    losses.append(weights[-1] * loss_fn(ddp(last[0]), last[1]))
    losses[-1].backward()
    optimizer.step()
    everyone: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, sum(loss.item() for loss in losses))
    return float(sum(everyone) / len(everyone))


def accumulated_by_the_flag(ddp: Any, micro_batches: Any, loss_fn: Any, optimizer: Any) -> float:
    optimizer.zero_grad()
    n = sum(x.shape[0] for x, _ in micro_batches)
    value = torch.zeros(1)
    before = ddp.require_backward_grad_sync
    for i, (x, y) in enumerate(micro_batches):
        ddp.require_backward_grad_sync = i == len(micro_batches) - 1
        loss = loss_fn(ddp(x), y)
        torch.autograd.backward(loss, torch.as_tensor(x.shape[0] / n, dtype=loss.dtype))
        value += loss.detach() * x.shape[0]
    ddp.require_backward_grad_sync = before
    optimizer.step()
    everything = torch.cat([value, torch.tensor([n], dtype=torch.float64)])
    dist.all_reduce(everything)
    return (everything[0] / everything[1]).item()


RIGHT_ANSWERS: list[Callable[..., Any]] = [accumulated_with_an_exit_stack, accumulated_by_the_flag]
