"""The exercise `PositionalEncoding`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.modules import build, ends_when_unusable
from torchcourse.probes.observe import kept, look, same


@ends_when_unusable
def probe(answer: Watched, dim: int, max_len: int, x: Tensor) -> Observations:
    """Make the module on the device, see how it holds its table, and run it."""
    module = build(answer, x.device, dim, max_len)
    held = [b for b in module.buffers() if b.numel() == max_len * dim]
    seen: Observations = {
        "parameters": sum(p.numel() for p in module.parameters()),
        "saved": sum(t.numel() for t in module.state_dict().values()),
        "table": "in a buffer" if held else "in no buffer",
    }
    before, first = x.clone(), module(torch.zeros_like(x, dtype=torch.float32))
    with answer.watched():
        output = module(x)
    seen |= {**look(output, x), **kept(x=(x, before))}
    leaf = before.clone().requires_grad_()
    again = module.eval()(leaf * 1)
    alike = isinstance(again, Tensor) and isinstance(output, Tensor) and same(again.detach(), output)
    seen["in eval mode"] = "the same result" if alike else "another result"
    later = module(torch.zeros(1, max_len, dim, device=x.device))  # a longer one, too
    table = [t.detach()[0, : x.shape[1]] for t in (first, later) if isinstance(t, Tensor)]
    unchanged = len(table) == 2 and same(*table)
    seen["float32 zeros, before x and after"] = "the same result" if unchanged else "another result"
    return {**seen, "gradients reach x": bool(getattr(again, "requires_grad", False))}


def cases(draw: Draw) -> list[Case]:
    b, t, dim, most = draw.size(2, 3), draw.size(5, 7), 2 * draw.size(2, 4), draw.size(9, 12)
    sizes: dict[str, Any] = {"dim": dim, "max_len": most, "atol": 1e-4}
    half: dict[str, Any] = {**sizes, "atol": 0.02, "rtol": 0.01}
    return [
        case("zeros, so that the table shows", x=torch.zeros(1, t, dim), **sizes),
        case("a batch", x=draw.normal(b, t, dim), **sizes),
        case("as long as can be", x=draw.normal(b, most, dim), **sizes),
        case("one position", x=draw.normal(b, 1, dim), **sizes),
        case("x in float64", x=draw.normal(b, t, dim, dtype=torch.float64), **sizes),
        case("x in bfloat16", x=draw.normal(b, t, dim, dtype=torch.bfloat16), **half),
    ]


def quotes(_inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    return {name: seen[name] for name in ("saved", "parameters", "table", "construction") if name in seen}


EXERCISE = Exercise(
    "PositionalEncoding",
    probe,
    cases,
    hints=(
        "The angle at position p and column c is p / 10000**(2i/dim), where columns 2i and 2i+1 share one i. Which "
        "operation on the number of a column gives its i?",
        "Which way of keeping a tensor in a module lets it follow `.to()`? And which argument of it says that it need "
        "not be saved, since it can be computed again?",
        "The table has room for `max_len` positions, x has t of them. Which rows are added? And what is the dtype of "
        "float32 plus bfloat16, and what of x?",
    ),
    quotes=quotes,
)
