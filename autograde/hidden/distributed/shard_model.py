"""The exercise `shard_model`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from autograde.source.mistakes import Mistake
from torchcourse.exercises.distributed.shard_model import cases as visible_cases
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "Each block becomes a group of its own, gathered when it is needed and let go again; with the model alone in one "
    "call, everything would be gathered at once. The last call takes what is in no block. The optimizer comes at the "
    "end, because sharding replaces the parameters, and it has to hold the shards."
)
"""Why the reference is written as it is."""
REQUIRED = ("root-only", "optimizer-before-sharding", "blocks-only")
"""The mistakes that a check must always be able to name."""

SHARDS = "Shards of a model"


def root_only(model: Any, mesh: Any, make_optimizer: Any) -> Any:
    fully_shard(model, mesh=mesh)
    return make_optimizer(model.parameters())


def root_first(model: Any, mesh: Any, make_optimizer: Any) -> Any:
    fully_shard(model, mesh=mesh)
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    return make_optimizer(model.parameters())


def blocks_only(model: Any, mesh: Any, make_optimizer: Any) -> Any:
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    return make_optimizer(model.parameters())


def optimizer_first(model: Any, mesh: Any, make_optimizer: Any) -> Any:
    optimizer = make_optimizer(model.parameters())
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return optimizer


def optimizer_between(model: Any, mesh: Any, make_optimizer: Any) -> Any:
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    optimizer = make_optimizer(model.parameters())
    fully_shard(model, mesh=mesh)
    return optimizer


def first_block_left_out(model: Any, mesh: Any, make_optimizer: Any) -> Any:
    for block in model.blocks[1:]:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return make_optimizer(model.parameters())


def nothing_sharded(model: Any, mesh: Any, make_optimizer: Any) -> Any:
    return make_optimizer(model.parameters())


def all_blocks_together(model: Any, mesh: Any, make_optimizer: Any) -> Any:
    fully_shard(model.blocks, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return make_optimizer(model.parameters())


def blocks_as_one_list(model: Any, mesh: Any, make_optimizer: Any) -> Any:
    fully_shard(list(model.blocks), mesh=mesh)
    fully_shard(model, mesh=mesh)
    return make_optimizer(model.parameters())


def optimizer_of_the_blocks(model: Any, mesh: Any, make_optimizer: Any) -> Any:
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return make_optimizer(model.blocks.parameters())


def two_optimizers(model: Any, mesh: Any, make_optimizer: Any) -> Any:
    make_optimizer(model.parameters())
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return make_optimizer(model.parameters())


def blocks_only_and_too_late(model: Any, mesh: Any, make_optimizer: Any) -> Any:
    optimizer = make_optimizer(model.parameters())
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    return optimizer


def over_all_ranks(model: Any, mesh: Any, make_optimizer: Any) -> Any:
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    return make_optimizer(model.parameters())


def returns_the_model(model: Any, mesh: Any, make_optimizer: Any) -> Any:
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    make_optimizer(model.parameters())
    return model


def first_block_then_the_rest(model: Any, mesh: Any, make_optimizer: Any) -> Any:
    first, *rest = model.blocks
    fully_shard(first, mesh=mesh)
    fully_shard(rest, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return make_optimizer(model.parameters())


def three_blocks(model: Any, mesh: Any, make_optimizer: Any) -> Any:
    for block in model.blocks[:3]:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return make_optimizer(model.parameters())


def sums_in_float32(model: Any, mesh: Any, make_optimizer: Any) -> Any:
    policy = MixedPrecisionPolicy(reduce_dtype=torch.float32)
    for module in (*model.blocks, model):
        fully_shard(module, mesh=mesh, mp_policy=policy)
    return make_optimizer(model.parameters())


def in_eval_mode(model: Any, mesh: Any, make_optimizer: Any) -> Any:
    return right(model.eval(), mesh, make_optimizer)


def right(model: Any, mesh: Any, make_optimizer: Any) -> Any:
    for module in (*model.blocks, model):
        fully_shard(module, mesh=mesh)
    return make_optimizer(model.parameters())


BLOCKS = 'In the case "{case}", whether each block is sharded by itself: {sharded}. '
MISTAKES = [
    Mistake("root-only", root_only, BLOCKS + "With one group for the whole model, every rank gathers all of it at once "
            "and saves no memory at the peak.", SHARDS),
    Mistake("root-before-blocks", root_first, 'In the case "{case}" the call raised {error}: '
            "shard the blocks first; the model takes what is left.", SHARDS),
    Mistake("one-group-for-all-blocks", all_blocks_together, 'In the case "{case}" the call raised {error}: '
            "`model.blocks` is a list without a forward. Shard each block in it.", SHARDS),
    Mistake("one-group-for-all-blocks", blocks_as_one_list, 'In the case "{case}" '
            "{got} blocks are gathered together with another one where {want} is wanted: `fully_shard` of a list makes "
            "one group, which is gathered as a whole.", SHARDS),
    Mistake("one-group-for-all-blocks", first_block_then_the_rest, 'In the case "{case}" {got} blocks are gathered '
            'together with another one '
            "where {want} is wanted: the blocks of a list given to `fully_shard` are gathered together.", SHARDS),
    Mistake("skips-a-block", first_block_left_out, BLOCKS + "Each of them should be.", SHARDS),
    Mistake("skips-a-block", three_blocks, BLOCKS + "Each of them should be, however many there are.", SHARDS),
    Mistake("sums-in-float32", sums_in_float32, 'In the case "{case}" '
            "`{what}` is {got} where {want} is wanted: the gradients were added up over the ranks in float32, and the "
            "model is float64.", SHARDS),
    Mistake("changes-the-mode", in_eval_mode, 'In the case "{case}" the model is no longer in training mode after the '
            "call, and sharding should not change that.", SHARDS),
    Mistake("blocks-only", blocks_only, 'In the case "{case}" the model itself is {whole_model} and this rank holds '
            "{share} of the elements: the first and the last layer are whole on every rank, and nobody averages their "
            "gradients.", SHARDS),
    Mistake("blocks-only", blocks_only_and_too_late, 'In the case "{case}" the model itself is {whole_model} and this '
            "rank holds {share} of the elements: the first and the last layer are whole on every rank. The optimizer "
            "was made before, and holds parameters that are no longer the model's.", SHARDS),
    Mistake("ignores-the-mesh", over_all_ranks, 'In the case "{case}" the mesh of the shards is {got} where {want} is '
            "wanted: without `mesh=`, `fully_shard` makes one of all ranks.", SHARDS),
    Mistake("not-sharded", nothing_sharded, BLOCKS + "The model itself is {whole_model}.", SHARDS),
    Mistake("optimizer-before-sharding", optimizer_first, 'In the case "{case}" `{what}` is {got} where {want} is '
            "wanted: the optimizer holds the parameters from before, which are no longer the model's, so its steps "
            "change nothing.", SHARDS),
    Mistake("optimizer-before-sharding", optimizer_between, 'In the case "{case}" `{what}` is {got} where {want} is '
            "wanted: the optimizer was made before `fully_shard(model)`, and holds parameters that this call "
            "replaced.", SHARDS),
    Mistake("optimizer-of-the-blocks", optimizer_of_the_blocks, 'In the case "{case}" '
            "`{what}` is {got} where {want} is wanted: the optimizer got the blocks' parameters alone.", SHARDS),
    Mistake("two-optimizers", two_optimizers, 'In the case "{case}" {got} optimizers were made where {want} is wanted: '
            'one optimizer gets all parameters.',
            SHARDS),
    Mistake("returns-the-model", returns_the_model, 'In the case "{case}" '
            "the call did not return an optimizer. The model is sharded in place, so the optimizer is what to return.",
            SHARDS),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    return [case(f"{c.name}, drawn again", rtol=1e-9, atol=1e-10, **c.inputs) for c in visible_cases(draw)[:1]]


# Right answers unlike the reference


def sharded_from_the_back(model: Any, mesh: Any, make_optimizer: Any) -> Any:
    for module in [*reversed(list(model.blocks)), model]:
        fully_shard(module, mesh=mesh, reshard_after_forward=module is not model)
    return make_optimizer(list(model.parameters()))


def sharded_by_apply(model: Any, mesh: Any, make_optimizer: Any) -> Any:
    blocks = {id(block) for block in model.blocks}

    def shard(module: nn.Module) -> None:
        if id(module) in blocks or module is model:
            fully_shard(module, mesh=mesh)

    model.apply(shard)  # children before parents
    optimizer: torch.optim.Optimizer = make_optimizer([p for _, p in model.named_parameters()])
    return optimizer


RIGHT_ANSWERS: list[Callable[..., Any]] = [sharded_from_the_back, sharded_by_apply]
