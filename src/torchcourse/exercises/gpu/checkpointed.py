"""The exercise `checkpointed`: its probe, visible cases and hints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations, Raised
from torchcourse.probes.memory import kept_bytes, outside_bytes
from torchcourse.probes.modules import gradients, ramp
from torchcourse.probes.observe import kind, look
from torchcourse.probes.trainable_models import with_detail


class Drops(nn.Module):
    """Dropout by a function, which no module shows."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.p, self.training)


def blocks_like(x: Tensor, count: int, dropout: float) -> nn.ModuleList:
    """Return blocks that keep much more memory than their outputs take, with fixed weights."""
    width = x.shape[-1]
    blocks = nn.ModuleList(
        nn.Sequential(nn.Linear(width, 6 * width), nn.Tanh(), nn.Linear(6 * width, width), Drops(dropout))
        for _ in range(count)
    )
    with torch.no_grad():
        for place, p in enumerate(blocks.parameters()):
            p.copy_((torch.arange(p.numel()) * (0.7 + 0.2 * place)).sin().view(p.shape) / p.shape[-1] ** 0.5)
    return blocks.to(x.device, x.dtype)


ROWS, WIDTH, COUNT = 4096, 8, 3
ELSEWHERE = ROWS * 6 * WIDTH * 4
"""What one block of the large call keeps of its inside, in bytes."""


class _Runs:
    """How often the first layer of each block runs."""

    def __init__(self, blocks: nn.ModuleList) -> None:
        self.counts = [0] * len(blocks)
        for place, block in enumerate(blocks):
            block.get_submodule("0").register_forward_pre_hook(self._counting(place))

    def _counting(self, place: int) -> Callable[..., None]:
        def count(*_: object) -> None:
            self.counts[place] += 1

        return count


def in_turn(blocks: nn.ModuleList, x: Tensor) -> Tensor:
    for block in blocks:
        x = block(x)
    return x


def forward_and_back(
    call: Callable[[Any, Tensor], Any], count: int, dropout: float, x: Tensor, once: bool = False
) -> Observations:
    """Observe the result of a call on new blocks and x, the memory kept for backward, and the gradients.

    Blocks without dropout are in eval mode.

    Args:
        once: whether the blocks come from an iterator.
    """
    blocks = blocks_like(x, count, dropout).train(dropout > 0)
    runs = _Runs(blocks)
    torch.default_generator.manual_seed(11)
    if x.is_cuda:
        torch.cuda.manual_seed(11)
    needed = x.requires_grad
    x = x.detach().requires_grad_(needed)
    given: Any = iter(blocks) if once else blocks
    output, held = kept_bytes(lambda: call(given, x), exclude=[x, *blocks.parameters()])
    seen: Observations = {"kept": held, "x.requires_grad": "as before" if x.requires_grad == needed else "changed"}
    if not isinstance(output, Tensor):
        return {**seen, "returned": kind(output)}
    first = {"x": x} if x.requires_grad else {}
    seen |= {**look(output, x), **gradients(output, **first, **dict(blocks.named_parameters()))}
    return {**seen, "runs": runs.counts}


def _outside(answer: Watched) -> int:
    """Return how many bytes a large call holds outside of tensors."""
    x = ramp(ROWS, WIDTH, low=-1, high=1).requires_grad_()
    blocks = blocks_like(x, COUNT, 0.0)
    held: int = answer.run(outside_bytes, lambda: answer.answer(blocks, x), ELSEWHERE)
    return held


def probe(answer: Watched, x: Tensor, count: int, dropout: float, followed: bool, once: bool) -> Observations:
    """Run blocks forward and back through the answer, and plainly in turn, to compare with."""
    x.requires_grad_(followed)
    plain = forward_and_back(in_turn, count, dropout, x)
    seen: Observations = {"own": forward_and_back(answer, count, dropout, x, once), "plain": plain}
    return {**seen, "outside": _outside(answer)} if x.device.type == "cpu" else seen


def derive(case: Case, seen: Observations) -> Observations:
    """Compare what was seen with running the blocks in turn."""
    own, plain = seen["own"], seen["plain"]
    kept_words = "less than without" if own["kept"] < 0.9 * plain["kept"] else "as much as without"
    if seen.get("outside", 0) > ELSEWHERE:
        kept_words = "less than without in tensors, and the rest elsewhere"
    elif kept_words == "less than without" and max(own.get("runs", [2])) < 2:
        kept_words = "less than without, and no block ran again in backward"
    tidy: Observations = {
        "x.requires_grad": own["x.requires_grad"],
        "kept for backward": with_detail(kept_words, f"{own['kept']} bytes, and {plain['kept']} without checkpointing"),
    }
    if "returned" in own:
        return {"returned": own["returned"], **tidy}
    names = ["result", *(name for name in plain if name.startswith("gradient"))]
    if case.inputs["dropout"] == 0:
        return {**tidy, "device": own["device"], **{name: own[name] for name in names}}
    gradient_names = [name for name in names if name != "result"]
    result, gradients = _compared(own, plain, ["result"]), _compared(own, plain, gradient_names)
    if result == gradients == "others than without":
        gradients += ", as the result is"
    return {**tidy, "device": own["device"], "result": result, "gradients": gradients}


def _compared(own: Observations, plain: Observations, names: list[str]) -> str:
    """Describe whether tensors are the same as without checkpointing: their values depend on what dropout drew."""
    if any(not isinstance(own[name], Tensor) for name in names):
        return "missing"
    if any(own[name].shape != plain[name].shape for name in names):  # broadcast, two short tensors make a huge one
        return "others than without"
    close = all(torch.allclose(own[name], plain[name], rtol=1e-4, atol=1e-6) for name in names)
    return "the same as without" if close else "others than without"


def cases(draw: Draw) -> list[Case]:
    n, d = draw.size(16, 20), draw.size(4, 6)

    def drawn(
        name: str, count: int, dropout: float = 0.0, followed: bool = True, once: bool = False, **more: Any
    ) -> Case:
        x = draw.normal(n, d, **more)
        return case(name, x=x, count=count, dropout=dropout, followed=followed, once=once)

    return [
        drawn("four blocks", 4),
        drawn("x that needs no gradient", 5, followed=False),  # enough for two segments of two and a rest
        drawn("dropout in the blocks", 3, dropout=0.5),
        drawn("dropout, and x that needs no gradient", 4, dropout=0.3, followed=False),
        drawn("blocks from an iterator", 3, once=True),
        drawn("float64", 3, dtype=torch.float64),
    ]


def quotes(_inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {}
    if isinstance(seen.get("kept for backward"), Raised):
        fields["bytes"] = seen["kept for backward"].message
    lost = [name for name, value in seen.items() if name.startswith("gradient") and value in ("none", "missing")]
    if lost:
        more = len(lost) - 1
        others = f", and so {'is' if more == 1 else 'are'} {more} other{'s' * (more > 1)}" if more else ""
        fields["lost"] = "gradients are missing" if "gradients" in lost else f"the {lost[0]} is missing{others}"
    if "gradients" in seen:
        fields["gradients"] = seen["gradients"]
    return fields


EXERCISE = Exercise(
    "checkpointed",
    probe,
    cases,
    hints=(
        "`torch.utils.checkpoint.checkpoint(function, x, ...)` runs a function, keeps its input and runs it again in "
        "backward. What is the function here, and how many of them are there?",
        "There are two kinds of it, chosen by `use_reentrant`. The old one gives no gradients at all where its input "
        "needs none. Which one do you ask for?",
        "The second run of a dropout has to drop the same entries. Who takes care of the random state, unless it is "
        "told not to?",
    ),
    measures=True,
    derive=derive,
    quotes=quotes,
)
