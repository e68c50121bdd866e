"""The exercise `ring_all_reduce`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from autograde.hidden.common import override
from autograde.source.mistakes import Mistake
from torchcourse.exercises.distributed.ring_all_reduce import RANKS
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "Each chunk goes round the ring once to be added up and once more to be handed out, so a rank sends 2 (w - 1) of w "
    "chunks, however many ranks there are. `isend` before `recv` keeps all links busy, where blocking sends would "
    "wait in a circle. `tensor_split` copes with sizes that do not divide, also with none."
)
"""Why the reference is written as it is."""
REQUIRED = ("sends-everything", "deadlocks", "forgets-gather-phase", "uneven-chunks-fail")
"""The mistakes that a check must always be able to name."""

RING = "Round a ring"


def neighbours() -> tuple[int, int, int, int]:
    """Return this rank, the number of ranks, the next rank and the one before."""
    rank, size = dist.get_rank(), dist.get_world_size()
    return rank, size, (rank + 1) % size, (rank - 1) % size


class Ring:
    """A right program; a mistake overrides one of its methods."""

    def __call__(self, x: Tensor) -> Any:
        rank, size, _, _ = neighbours()
        chunks = self.chunks(self.flat(x), size)
        for step in range(size - 1):
            place = (rank - step - 1) % size
            chunks[place] += self.shift(chunks[(rank - step) % size], chunks[place])
        self.hand_round(chunks)
        return torch.cat(chunks).view(x.shape)

    def flat(self, x: Tensor) -> Tensor:
        return x.flatten().clone()

    def chunks(self, flat: Tensor, size: int) -> list[Tensor]:
        return list(flat.tensor_split(size))

    def hand_round(self, chunks: list[Tensor]) -> None:
        rank, size, _, _ = neighbours()
        for step in range(size - 1):
            place = (rank - step) % size
            chunks[place] = self.shift(chunks[(place + 1) % size], chunks[place])

    def shift(self, outgoing: Tensor, like: Tensor) -> Tensor:
        _, _, after, before = neighbours()
        received = torch.empty_like(like)
        sending = dist.isend(outgoing, after)
        dist.recv(received, before)
        assert sending is not None
        sending.wait()
        return received


def ring(**methods: Any) -> Callable[..., Any]:
    """Return the right program with these methods in place of its own."""
    program: Callable[..., Any] = override(Ring, **methods)()
    return program


def whole_tensor_round(x: Tensor) -> Tensor:
    _, size, _, _ = neighbours()
    total = passing = x.contiguous().clone()
    for _ in range(size - 1):
        passing = Ring().shift(passing, passing)
        total = total + passing
    return total


def to_everyone(x: Tensor) -> Tensor:
    rank, size, _, _ = neighbours()
    mine = x.contiguous().clone()
    sending = [dist.isend(mine, other) for other in range(size) if other != rank]
    total = mine.clone()
    for other in range(size):
        if other != rank:
            received = torch.empty_like(mine)
            dist.recv(received, other)
            total += received
    for work in sending:
        assert work is not None
        work.wait()
    return total


def by_rank_zero(x: Tensor) -> Tensor:
    """Collect at rank 0, which sends the sum to all."""
    rank, size, _, _ = neighbours()
    total = x.contiguous().clone()
    if rank:
        dist.send(total, 0)
        dist.recv(total, 0)
        return total
    for other in range(1, size):
        received = torch.empty_like(total)
        dist.recv(received, other)
        total += received
    for other in range(1, size):
        dist.send(total, other)
    return total


def blocking(_self: Ring, outgoing: Tensor, like: Tensor) -> Tensor:
    _, _, after, before = neighbours()
    received = torch.empty_like(like)
    dist.send(outgoing, after)
    dist.recv(received, before)
    return received


def receives_first(_self: Ring, outgoing: Tensor, like: Tensor) -> Tensor:
    _, _, after, before = neighbours()
    received = torch.empty_like(like)
    dist.recv(received, before)
    dist.send(outgoing, after)
    return received


def no_hand_round(_self: Ring, chunks: list[Tensor]) -> None:
    return None


def hand_round_too_short(self: Ring, chunks: list[Tensor]) -> None:
    rank, size, _, _ = neighbours()
    for step in range(size - 2):
        place = (rank - step) % size
        chunks[place] = self.shift(chunks[(place + 1) % size], chunks[place])


def equal_chunks(_self: Ring, flat: Tensor, size: int) -> list[Tensor]:
    return list(flat.view(size, -1).unbind())


def cut_to_equal_chunks(x: Tensor) -> Tensor:
    size = dist.get_world_size()
    flat = x.flatten().clone()
    whole = flat.numel() - flat.numel() % size
    flat[:whole] = ring()(flat[:whole])
    return flat.view(x.shape)


def chunks_of_chunk(_self: Ring, flat: Tensor, size: int) -> list[Tensor]:
    return list(flat.chunk(size))


def in_the_input(x: Tensor) -> Tensor:
    x.copy_(ring()(x))
    return x


def in_memory_that_may_be_the_inputs(x: Tensor) -> Tensor:
    """Work in float32, in memory that is x's own where x is contiguous and float32."""
    flat = x.contiguous().reshape(-1).float()
    flat.copy_(ring()(flat))
    return flat.reshape(x.shape).to(x.dtype)


def as_float(x: Tensor) -> Any:
    return ring()(x.float())


def in_float32(x: Tensor) -> Any:
    return ring()(x.float()).to(x.dtype)


def integers_in_float64(x: Tensor) -> Any:
    return ring()(x if x.is_floating_point() else x.double()).to(x.dtype)


def integers_in_int64(x: Tensor) -> Any:
    return ring()(x if x.is_floating_point() else x.long()).to(x.dtype)


def flat_result(x: Tensor) -> Any:
    return ring()(x).flatten()


def collective(x: Tensor) -> Tensor:
    total = x.contiguous().clone()
    dist.all_reduce(total)
    return total


def collective_chunks(x: Tensor) -> Tensor:
    gathered = [torch.empty_like(x.contiguous()) for _ in range(dist.get_world_size())]
    dist.all_gather(gathered, x.contiguous())
    return torch.stack(gathered).sum(0).to(x.dtype)


def mean_instead(x: Tensor) -> Any:
    total = ring()(x)
    return total / dist.get_world_size() if total.is_floating_point() else total // dist.get_world_size()


FULL = 'In the case "{case}", with {n} elements, a rank sent more than {limit} times as many elements. '
WHOLE = (
    "Whole tensors were sent: round the ring at each step, to every other rank, or by way of one rank. Send one chunk "
    "a step."
)
MISTAKES = [
    Mistake("sends-everything", whole_tensor_round, FULL + WHOLE, RING),
    Mistake("sends-everything", to_everyone, FULL + WHOLE, RING),
    Mistake("sends-everything", by_rank_zero, FULL + WHOLE, RING),
    Mistake("deadlocks", ring(shift=blocking), 'In the case "{case}" {hanging} do not come back; the first is {how}. '
            "A `send` waits for its `recv`, and all ranks are sending: use `isend`, receive, then wait.", RING),
    Mistake("deadlocks", ring(shift=receives_first), 'In the case "{case}" {hanging} do not come back; the first is '
            "{how}. All ranks wait for somebody to send: use `isend` before.", RING),
    Mistake("forgets-gather-phase", ring(hand_round=no_hand_round), 'In the case "{case}" `{what}` is {got} where '
            '{want} '
            "is wanted: after the first round each rank has one chunk complete, and these chunks were never handed "
            "on.", RING),
    Mistake("a-step-too-few", ring(hand_round=hand_round_too_short), 'In the case "{case}" `{what}` is {got} where '
            "{want} is wanted: a complete chunk has to be handed on `world_size` - 1 times; here it was one time "
            "fewer.", RING),
    Mistake("uneven-chunks-fail", ring(chunks=equal_chunks), 'In the case "{case}" the call raised {error}: {n} '
            "elements cannot be cut into chunks of one size. `tensor_split` makes them as equal as it can.", RING),
    Mistake("uneven-chunks-fail", cut_to_equal_chunks, 'In the case "{case}", with {n} elements, `{what}` is {got} '
            'where '
            "{want} is wanted: what did not fit into equal chunks was left out.", RING),
    Mistake("too-few-chunks", ring(chunks=chunks_of_chunk), 'In the case "{case}" the call raised {error}: `chunk` may '
            "give fewer chunks than there are ranks, `tensor_split` never does.", RING),
    Mistake("uses-a-collective", collective, 'In the case "{case}" `{others}` was called: only point-to-point calls '
            "are allowed here.", RING),
    Mistake("uses-a-collective", collective_chunks, 'In the case "{case}" `{others}` was called: only point-to-point '
            "calls are allowed here.", RING),
    Mistake("averages-instead", mean_instead, 'In the case "{case}" `{what}` is {got} where {want} is wanted: that is '
            "the sum divided by the number of ranks.", RING),
    Mistake("changes-its-input", in_the_input, 'In the case "{case}" '
            "x is {got} after the call, and should be {want}: it belongs to the caller.", RING),
    Mistake("changes-its-input", in_memory_that_may_be_the_inputs, 'In the case "{case}" x is {got} after the call, '
            'and should '
            "be {want}: `contiguous`, `reshape` and `float` copy only where they have to; `clone` always does.",
            RING),
    Mistake("dtype-not-kept", as_float, 'In the case "{case}" the result is of dtype {got_dtype} where {want_dtype} is '
            "wanted.", RING),
    Mistake("adds-in-float32", in_float32, 'In the case "{case}" `{what}` is {got} where {want} is wanted: the sum was '
            "taken in float32, which has no room for all digits of int64 or float64. Add in the dtype of x.", RING),
    Mistake("integers-in-float64", integers_in_float64, 'In the case "{case}" {what} is {got} where {want} is wanted: '
            "the integers were added up as float64, which has no room for all digits of int64. Add in the dtype of x.",
            RING),
    Mistake("sends-wider-numbers", integers_in_int64, FULL + "The integers were sent as int64, each in 8 bytes where "
            "x has 4. Send the dtype of x.", RING),
    Mistake("shape-not-kept", flat_result, 'In the case "{case}" the result has shape {got_shape} where {want_shape} '
            "is wanted.", RING),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    def each(*shape: int, dtype: torch.dtype = torch.float32) -> list[Tensor]:
        return [draw.normal(*shape, dtype=dtype) for _ in range(RANKS)]

    return [
        case("empty", xs=each(0, 3)),
        case("two elements", xs=each(2, dtype=torch.float64)),
        case("transposed", xs=[x.T for x in each(draw.size(3, 6), draw.size(7, 9))]),
        case("drawn", xs=each(draw.size(50, 200), dtype=torch.float64)),
    ]


# Right answers unlike the reference


def ring_by_padding(x: Tensor) -> Tensor:
    rank, world = dist.get_rank(), dist.get_world_size()
    if x.numel() == 0:
        return x.clone()
    length = -(-x.numel() // world)
    table = torch.zeros(world, length, dtype=x.dtype)
    table.view(-1)[: x.numel()] = x.reshape(-1)
    buffer = torch.zeros(length, dtype=x.dtype)
    for step in range(2 * (world - 1)):
        works = [dist.isend(table[(rank - step) % world], (rank + 1) % world),
                 dist.irecv(buffer, (rank - 1) % world)]  # fmt: skip
        for work in works:
            assert work is not None
            work.wait()
        if step < world - 1:
            table[(rank - step - 1) % world] += buffer
        else:
            table[(rank - step - 1) % world] = buffer
    return table.view(-1)[: x.numel()].view(x.shape).clone()


def ring_by_batches(x: Tensor) -> Tensor:
    rank, world = dist.get_rank(), dist.get_world_size()
    parts = [part.clone() for part in torch.tensor_split(x.reshape(-1), world)]

    def exchange(out: int, into: int) -> Tensor:
        got = torch.zeros_like(parts[into % world])
        ops = [dist.P2POp(dist.isend, parts[out % world], (rank + 1) % world),
               dist.P2POp(dist.irecv, got, (rank - 1) % world)]  # fmt: skip
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        return got

    for s in range(world - 1):
        parts[(rank - s - 1) % world] = parts[(rank - s - 1) % world] + exchange(rank - s, rank - s - 1)
    for s in range(world - 1):
        parts[(rank - s) % world] = exchange(rank - s + 1, rank - s)
    return torch.cat(parts).reshape(x.shape)


def ring_by_parity(x: Tensor) -> Tensor:
    """Let rank 0 receive first and all others send first: no circle of waiting, with blocking calls only."""
    rank, world = dist.get_rank(), dist.get_world_size()
    chunks = [c.clone() for c in x.flatten().tensor_split(world)]
    for step in range(2 * world - 2):
        out, into = (rank - step) % world, (rank - step - 1) % world
        got = torch.empty_like(chunks[into])
        if rank == 0:
            dist.recv(got, world - 1)
            dist.send(chunks[out], 1)
        else:
            dist.send(chunks[out], (rank + 1) % world)
            dist.recv(got, rank - 1)
        chunks[into] = chunks[into] + got if step < world - 1 else got
    return torch.cat(chunks).view(x.shape)


def to_everyone_in_chunks(x: Tensor) -> Tensor:
    """Send each rank its chunk to add up, and then each sum to all: no ring, and as few bytes."""
    rank, size, _, _ = neighbours()
    chunks = [chunk.clone() for chunk in x.flatten().tensor_split(size)]
    others = [other for other in range(size) if other != rank]

    def exchange(outgoing: list[Tensor], like: list[Tensor]) -> None:
        sending = [dist.isend(outgoing[other], other) for other in others]
        for other in others:
            dist.recv(like[other], other)
        for work in sending:
            assert work is not None
            work.wait()

    parts = [torch.empty_like(chunks[rank]) for _ in range(size)]
    exchange(chunks, parts)
    for other in others:
        chunks[rank] += parts[other]
    exchange([chunks[rank]] * size, chunks)
    return torch.cat(chunks).view(x.shape)


RIGHT_ANSWERS: list[Callable[..., Any]] = [ring_by_padding, ring_by_batches, ring_by_parity, to_everyone_in_chunks]
