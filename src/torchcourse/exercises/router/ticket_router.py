"""The exercise `TicketRouter`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations, Raised
from torchcourse.probes.modules import (
    attempted,
    build,
    count_ineffective_weights,
    ends_when_unusable,
    quoting,
    without_graph,
    without_none,
)
from torchcourse.probes.observe import kind, where
from torchcourse.probes.trainable_models import with_detail

SAME, ALONE, READING = 1e-3, 0.02, 2e-4
"""By how much of their size logits may differ and be called the same; how much of an effect an interaction may be where
words should not read each other, and where they should."""


@ends_when_unusable
def probe(
    answer: Watched, sizes: dict[str, int], ids: Tensor, lengths: Tensor, under: Tensor, noise: Tensor
) -> Observations:
    """Observe a router's logits for some tickets, and for the same tickets padded, alone and in another order."""
    options = without_none(**{name: size for name, size in sizes.items() if name not in ("vocab_size", "num_classes")})
    module = build(answer, ids.device, sizes["vocab_size"], sizes["num_classes"], **options)
    head: Any = getattr(module, "head", None)
    linear = isinstance(head, nn.Linear)
    seen: Observations = {"head": f"nn.Linear with {head.out_features} outputs" if linear else kind(head)}
    layers: Any = getattr(module, "layers", "missing")
    held = f"nn.ModuleList of {len(layers)}" if isinstance(layers, nn.ModuleList) else layers
    seen["`layers`"] = held if isinstance(held, str) else kind(held)
    module.eval()
    _unsettle(module, noise)
    mask = torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]
    logits = attempted(lambda: module(ids, mask))
    if not isinstance(logits, Tensor):
        return {**seen, "outcome": logits if isinstance(logits, Raised) else kind(logits)}
    seen |= {"shape": list(logits.shape), "device": where(logits, ids), "as it is": logits}
    seen["muted"] = count_ineffective_weights(module, logits)
    seen |= without_graph(lambda: module(ids, mask), logits)
    wider, wider_mask = _wider(ids, under), _wider(mask, torch.zeros_like(under, dtype=torch.bool))
    seen["with more padding"] = module(wider, wider_mask)
    seen["with other words under the padding"] = module(_wider(ids, under.flip(1)), wider_mask)
    seen["alone"] = [module(row[None, :n], real[None, :n]) for row, real, n in zip(ids, mask, lengths, strict=True)]
    longest = int(lengths.argmax())
    seen["in another order"] = module(ids.flip(1), torch.ones_like(mask)), module(ids, torch.ones_like(mask))
    for name, real in (("under two padded places", 1), ("at two real places", 3)):
        seen[name] = [
            module(torch.stack([ids[0, 0], a, b])[None], torch.arange(3, device=ids.device)[None] < real)
            for a in under[0, :2] for b in under[1, :2]
        ]  # fmt: skip
    seen["a ticket of max_len words"] = _longest(module, ids, sizes.get("max_len", 64))
    seen["training, alone"] = _in_training(module, ids, longest)
    seen["head of zeros"] = _with_plain_head(module, ids, mask) if linear else "no head"
    return {**seen, **_of_arguments(answer, module, sizes, options), **_of_gradients(module, module(ids, mask))}


def _of_arguments(answer: Watched, module: nn.Module, sizes: dict[str, int], options: dict[str, int]) -> Observations:
    """Return what the arguments have to do with the parameters, and whether another router has some of them, too."""
    seen: Observations = {"parameters": sum(p.numel() for p in module.parameters())}
    for name, default, more in (("layers", 2, 1), ("dim", 32, options.get("heads", 4) * 2)):
        other = answer(
            sizes["vocab_size"], sizes["num_classes"], **{**options, name: options.get(name, default) + more}
        )
        seen[f"parameters with more {name}"] = sum(p.numel() for p in other.parameters())
    seen["repeats a layer"] = len(list(module.named_modules(remove_duplicate=False))) > len(list(module.modules()))
    twin = {id(p) for p in answer(sizes["vocab_size"], sizes["num_classes"], **options).parameters()}
    seen["shared with another router"] = sum(id(p) in twin for p in module.parameters())
    heads = [part.num_heads for part in module.modules() if isinstance(part, nn.MultiheadAttention)]
    seen["other numbers of heads"] = sorted({n for n in heads if n != options.get("heads", 4)})
    return seen


def _of_gradients(module: nn.Module, logits: Tensor) -> Observations:
    """Return how many of the parameters that are to be trained a backward does not reach."""
    trained = [p for p in module.parameters() if p.requires_grad]
    if not logits.requires_grad:
        return {"parameters without a gradient": "all"}
    found = torch.autograd.grad(logits.square().sum(), trained, allow_unused=True)
    return {"parameters without a gradient": sum(gradient is None for gradient in found) or "none"}


def _longest(module: nn.Module, ids: Tensor, max_len: int) -> Any:
    """Return what comes of a ticket that is as long as a ticket may be."""
    words = ids[:1].repeat(1, max_len)[:, :max_len]
    try:
        return kind(module(words, torch.ones_like(words, dtype=torch.bool)))
    except Exception as error:  # whatever a table that is too short raises, on any device
        return with_detail("an exception", f"{type(error).__name__}: {str(error).strip().splitlines()[0][:120]}")


def _unsettle(module: nn.Module, noise: Tensor) -> None:
    """Add a little of known noise to each parameter: some start at zero."""
    with torch.no_grad():
        for p in module.parameters():
            p.add_(0.2 * noise.repeat(p.numel() // len(noise) + 1)[: p.numel()].view(p.shape).to(p))


def _wider(rows: Tensor, more: Tensor) -> Tensor:
    return torch.cat([rows, more.to(rows.dtype)], dim=1)


def _in_training(module: nn.Module, ids: Tensor, place: int) -> Any:
    """Return logits of a ticket in training mode, twice in the batch and twice without the others; dropout is off."""
    module.train()
    for part in module.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
        elif isinstance(part, nn.MultiheadAttention):
            part.dropout = 0.0
    whole, two = torch.ones_like(ids, dtype=torch.bool), ids[place : place + 1].repeat(2, 1)
    both = [module(ids, whole)[place], module(ids, whole)[place], module(two, torch.ones_like(two).bool())[0]]
    module.eval()
    return both


def _with_plain_head(module: Any, ids: Tensor, mask: Tensor) -> Tensor:
    """Return the output with a head of weight zero, whose bias counts up: what stands after the head shows."""
    with torch.no_grad():
        module.head.weight.zero_()
        if module.head.bias is not None:
            module.head.bias.copy_(torch.arange(len(module.head.bias)) - 1.5)
    result: Tensor = module(ids, mask)
    return result


def derive(_case: Case, seen: Observations) -> Observations:
    """Say which of the results agree."""
    names = ("head", "`layers`", "shape", "device", "outcome", "construction", "returned")
    facts: Observations = {name: seen[name] for name in names if name in seen}
    if "as it is" not in seen:
        return facts
    logits = seen["as it is"]
    for name in ("with more padding", "with other words under the padding"):
        facts[f"the same ticket {name}"] = _compared(seen[name], logits)
    facts["a ticket alone, and among others"] = _compared(torch.cat(seen["alone"]), logits)
    facts["its words in another order"] = _compared(*seen["in another order"])
    facts["a ticket of max_len words"] = seen["a ticket of max_len words"]
    facts["what stands under two padded places"] = _acts(seen["under two padded places"], ALONE)
    facts["what stands at two real places"] = _acts(seen["at two real places"], READING)
    facts["weights that change nothing"] = seen["muted"]
    once, again, two = seen["training, alone"]
    steady = _compared(once, again) == "gives the same"
    facts["in training, among others"] = _compared(once, two) if steady else "gives the same"
    facts["output with a head of zeros"] = seen["head of zeros"]
    repeated = seen["repeats a layer"]
    for words, name in (("one layer more has", "layers"), ("with a larger dim there are", "dim")):
        grew = seen[f"parameters with more {name}"] > seen["parameters"]
        facts[words] = "more parameters" if grew else "as many parameters" + ", as a layer is repeated" * repeated
    for name in ("shared with another router", "other numbers of heads", "parameters without a gradient"):
        facts[name] = seen[name]
    facts["under torch.no_grad()"] = seen["under torch.no_grad()"]
    return facts


def _compared(one: Tensor, other: Tensor) -> str:
    if one.shape != other.shape:
        return "gives another shape"
    gap = (one - other).abs().max()
    return "gives the same" if bool(gap <= SAME * (1 + other.abs().max())) else "gives something else"


def _acts(four: list[Tensor], alone: float) -> str:
    """Describe how two places act on the logits, from results for two words at each."""
    first, second, third, last = four
    effect = max(float((x - first).abs().max()) for x in (second, third, last))
    if effect <= SAME * (1 + float(first.abs().max())):
        return "has no effect"
    together = float((first - second - third + last).abs().max())
    return "acts place by place" if together <= alone * effect else "acts together"


def sized(draw: Draw, name: str, lengths: list[int], width: int, **sizes: int) -> Case:
    """Return a case with a router of these sizes, and tickets of these lengths in a batch `width` wide."""
    vocab = sizes["vocab_size"]
    ids = draw.integers(2, vocab, len(lengths), width)
    ids[:, 0] = torch.arange(len(lengths)) % (vocab - 2) + 2
    ids[:, -1] = (ids[:, 0] - 2 + 3) % (vocab - 2) + 2
    under = torch.stack([torch.arange(3), torch.arange(3) + 3]).repeat(len(lengths), 1)[: max(len(lengths), 2)]
    room = min(3, sizes.get("max_len", 64) - width)
    under = 2 + (under[:, : max(room, 2)] + 1) % (vocab - 2)
    return case(name, rtol=1e-3, atol=1e-4, sizes=sizes, ids=ids, lengths=torch.tensor(lengths), under=under,
                noise=draw.normal(97))  # fmt: skip


def cases(draw: Draw) -> list[Case]:
    classes = draw.size(3, 4)
    return [
        sized(draw, "three tickets", [5, 3, 2], 5, vocab_size=20, num_classes=classes),
        sized(draw, "another size", [2, 4], 4, vocab_size=15, num_classes=5, dim=16, heads=2, layers=1, max_len=8),
        sized(draw, "long tickets", [3, 2], 3, vocab_size=12, num_classes=3, layers=1, max_len=draw.size(70, 90)),
    ]


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"sizes": inputs["sizes"], "lengths": inputs["lengths"]}
    fields |= {"head": seen["head"], "want_head": wanted["head"]} if "head" in seen else {}
    fields |= {"held": seen["`layers`"], "want_held": wanted["`layers`"]} if "`layers`" in seen else {}
    longest = seen.get("a ticket of max_len words")
    fields |= {"longest": longest.message} if isinstance(longest, Raised) else {}
    names = {"shared": "shared with another router", "heads": "other numbers of heads",
             "idle": "parameters without a gradient"}  # fmt: skip
    fields |= {field: seen[name] for field, name in names.items() if name in seen}
    if "returned" in seen:
        fields["returned"] = seen["returned"]
    return fields


EXERCISE = Exercise(
    "TicketRouter",
    probe,
    cases,
    hints=(
        "Padding gets in at two places: in attention, where a real word may look at it, and where the words are put "
        "together into one vector. What keeps it out of each of them?",
        "`src_key_padding_mask` is True where a key is to be ignored. Your mask is True where a word is real. And what "
        "do you divide by for a mean over the real words only?",
        "Attention and the mean treat words as a set. What must be added to the word vectors so that order matters, "
        "and on which device are the positions that you look up?",
    ),
    derive=derive,
    quotes=quoting(quotes),
)
