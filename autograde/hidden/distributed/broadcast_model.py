"""The exercise `broadcast_model`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from autograde.hidden.common import override
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "Every rank makes the same calls in the same order, and `broadcast` itself knows who sends. Buffers go too: DDP's "
    "constructor does the same with all that a model holds. The copy in between is for tensors with gaps, which gloo "
    "fills as if they had none; `copy_` on the detached tensor changes numbers and nothing else."
)
"""Why the reference is written as it is."""
REQUIRED = ("forgets-buffers", "averages-instead", "rebinds-parameter")
"""The mistakes that a check must always be able to name."""

START = "One model on every rank"


class Broadcast:
    """A right program; a mistake overrides one of its methods."""

    def __call__(self, model: nn.Module, src: int = 0) -> None:
        for tensor in self.tensors(model):
            self.send(tensor, self.source(src))

    def tensors(self, model: nn.Module) -> Iterable[Tensor]:
        return [*model.parameters(), *model.buffers()]

    def source(self, src: int) -> int:
        return src

    def send(self, tensor: Tensor, src: int) -> None:
        whole = tensor.detach().clone(memory_format=torch.contiguous_format)
        dist.broadcast(whole, src)
        tensor.detach().copy_(whole)


def broadcasting(**methods: Any) -> Callable[..., Any]:
    """Return the right program with these methods in place of its own."""
    program: Callable[..., Any] = override(Broadcast, **methods)()
    return program


def averaged(_self: Broadcast, tensor: Tensor, src: int) -> None:
    whole = tensor.detach().contiguous()
    dist.all_reduce(whole)
    tensor.detach().copy_(whole / dist.get_world_size())


def floats_averaged(_self: Broadcast, tensor: Tensor, src: int) -> None:
    """Average as far as an answer shows it that leaves integers out."""
    (averaged if tensor.is_floating_point() else Broadcast.send)(_self, tensor, src)


def through_float32(_self: Broadcast, tensor: Tensor, src: int) -> None:
    whole = tensor.detach().contiguous().float()
    dist.broadcast(whole, src)
    tensor.detach().copy_(whole)


def with_gaps(_self: Broadcast, tensor: Tensor, src: int) -> None:
    dist.broadcast(tensor.detach(), src)


def into_a_copy(_self: Broadcast, tensor: Tensor, src: int) -> None:
    dist.broadcast(tensor.detach().contiguous(), src)


def floats(_self: Broadcast, model: nn.Module) -> list[Tensor]:
    return [t for t in (*model.parameters(), *model.buffers()) if t.is_floating_point()]


def floats_from_rank_zero(_self: Broadcast, tensor: Tensor, src: int) -> None:
    """Ignore the source as far as an answer shows it that sends no integers."""
    Broadcast().send(tensor, 0 if tensor.is_floating_point() else src)


def trainable(_self: Broadcast, model: nn.Module) -> list[Tensor]:
    return [*(p for p in model.parameters() if p.requires_grad), *model.buffers()]


def new_parameters(model: nn.Module, src: int = 0) -> None:
    for module in model.modules():
        for name, old in list(module._parameters.items()):
            if old is not None:
                whole = old.detach().clone(memory_format=torch.contiguous_format)
                dist.broadcast(whole, src)
                setattr(module, name, nn.Parameter(whole, old.requires_grad))
    for buffer in model.buffers():
        Broadcast().send(buffer, src)


def new_data(_self: Broadcast, tensor: Tensor, src: int) -> None:
    whole = tensor.detach().clone(memory_format=torch.contiguous_format)
    dist.broadcast(whole, src)
    tensor.data = whole


def only_the_source_calls(model: nn.Module, src: int = 0) -> None:
    if dist.get_rank() == src:
        broadcasting()(model, src)


def unfrozen(_self: Broadcast, tensor: Tensor, src: int) -> None:
    Broadcast().send(tensor, src)
    if isinstance(tensor, nn.Parameter):
        tensor.requires_grad_(True)


STAYED = 'In the case "{case}" `{what}` is {got}, and rank {src} has {want}: '
MISTAKES = [
    Mistake("forgets-buffers", broadcasting(tensors=lambda self, model: model.parameters()), STAYED + "`parameters()` "
            "leaves the buffers out, such as a batch norm's running statistics.", START),
    Mistake("forgets-non-persistent-buffers", broadcasting(tensors=lambda self, model: model.state_dict().values()),
            STAYED + "`state_dict` leaves out buffers that are not saved, and they have to agree as well.", START),
    Mistake("floats-only", broadcasting(tensors=floats), STAYED + "integer buffers count batches, and belong to the "
            "model like the rest.", START),
    Mistake("forgets-frozen-parameters", broadcasting(tensors=trainable), STAYED + "a frozen parameter is not trained, "
            "and still has to be the same on all ranks.", START),
    *(Mistake("averages-instead", broadcasting(send=send), 'In the case "{case}" `{what}` is {got} where {want}, the '
              "value on rank {src}, is wanted: the numbers were averaged over the ranks.", START)
      for send in (averaged, floats_averaged)),
    Mistake("ignores-src", broadcasting(source=lambda self, src: 0), 'In the case "{case}" `{what}` is {got} where '
            "{want} is wanted: rank {src} has the numbers to send, not rank 0.", START),
    Mistake("ignores-src", broadcasting(send=floats_from_rank_zero), 'In the case "{case}" `{what}` is {got} where '
            "{want} is wanted: rank {src} has the numbers to send, not rank 0.", START),
    Mistake("rebinds-parameter", new_parameters, "In the case \"{case}\" the model's tensors are {got}: an optimizer "
            "that was made before still holds the old ones. Write into the tensors that are there.", START),
    Mistake("rebinds-parameter", broadcasting(send=new_data), "In the case \"{case}\" the model's tensors are {got}: "
            "`.data =` gives a tensor new memory, and views of the old memory no longer follow it.", START),
    Mistake("receives-into-gaps", broadcasting(send=with_gaps), STAYED + "it is a view with gaps, and gloo writes as "
            "if it had none, without an error. Broadcast a contiguous copy.", START),
    Mistake("copy-not-written-back", broadcasting(send=into_a_copy), STAYED + "it is a view with gaps. Either it was "
            "left out, or `contiguous` made a copy, which received the numbers, and nobody wrote them back.", START),
    Mistake("only-src-calls", only_the_source_calls, 'In the case "{case}" rank {src} is {ended}. A collective '
            "is for all ranks: those that receive have to call `broadcast`, too.", START),
    Mistake("through-float32", broadcasting(send=through_float32), 'In the case "{case}" `{what}` is {got} where '
            '{want} '
            "is wanted: it was sent as float32, which has neither all digits of float64 nor all large integers.",
            START),
    Mistake("unfreezes", broadcasting(send=unfrozen), 'In the case "{case}" `requires_grad` is {got} afterwards, and '
            'should '
            "be {want}.", START),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    def models(src: int, dtype: torch.dtype, strided: bool) -> dict[str, Any]:
        seeds = [draw.size(1, 499), draw.size(500, 999)]
        return {"src": src, "width": draw.size(2, 9), "seeds": seeds, "dtype": dtype, "strided": strided}

    return [
        case("strided, from rank 1, float64", **models(1, torch.float64, strided=True)),
        case("bfloat16", **models(0, torch.bfloat16, strided=False)),
        case("three ranks, from the last", **models(2, torch.float32, strided=False) | {"seeds": [3, 700, 1200]}),
    ]


# Right answers unlike the reference


def broadcast_by_list(model: nn.Module, src: int = 0) -> None:
    with torch.no_grad():
        held = {id(t): t for m in model.modules() for t in (*m._parameters.values(), *m._buffers.values())
                if t is not None}  # fmt: skip
        for t in held.values():
            flat = t.reshape(-1).clone()
            dist.broadcast(flat, src=src)
            t.copy_(flat.view(t.shape))


def broadcast_objects(model: nn.Module, src: int = 0) -> None:
    tensors = [*model.parameters(), *model.buffers()]
    box = [[t.detach().clone() for t in tensors] if dist.get_rank() == src else None]
    dist.broadcast_object_list(box, src)
    with torch.no_grad():
        for mine, sent in zip(tensors, box[0] or [], strict=True):
            mine.copy_(sent)


def broadcast_by_zeroing(model: nn.Module, src: int = 0) -> None:
    for t in (*model.parameters(), *model.buffers()):
        whole = t.detach().clone().contiguous() if dist.get_rank() == src else torch.zeros(t.shape, dtype=t.dtype)
        dist.all_reduce(whole)
        t.data.copy_(whole)


RIGHT_ANSWERS: list[Callable[..., Any]] = [broadcast_by_list, broadcast_objects, broadcast_by_zeroing]
