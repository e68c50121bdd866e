"""The memory of a training step: bytes used after each layer, forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from torchcourse.demos import devices, style
from torchcourse.demos.live import Live
from torchcourse.demos.style import Picture

PHASES = {"start": style.GREY, "forward": style.SKY, "backward": style.ORANGE, "step": style.GREEN}
CHOICES = ["keep activations", "checkpoint blocks"]


@dataclass(frozen=True)
class Moment:
    """The memory used at one moment of a step."""

    phase: str
    held: int


def record(
    device: torch.device, blocks: int = 4, batch: int = 256, width: int = 32, how: str = CHOICES[0]
) -> list[Moment]:
    """Run two training steps of a small network on an accelerator and record the memory in the second.

    Bytes in use before the network was made do not count.
    """
    before = devices.allocated(device)
    layers = [nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(blocks)]
    model = nn.Sequential(*layers).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.zeros(batch, width, device=device)
    moments: list[Moment] = []

    def note(phase: str) -> None:
        moments.append(Moment(phase, devices.allocated(device) - before))

    for batch_of_it in (x[:1], x):  # the first step makes the optimizer's states, for which one example is enough
        moments.clear()
        _step(model, optimizer, batch_of_it, how == CHOICES[1], note)
    return moments


def _step(
    model: nn.Sequential, optimizer: torch.optim.Optimizer, x: Tensor, twice: bool, note: Callable[[str], None]
) -> None:
    note("start")
    for block in model:
        x = checkpoint(block, x, use_reentrant=False) if twice else block(x)
        note("forward")
        x.register_hook(lambda _: note("backward"))  # type: ignore[no-untyped-call]  # when its gradient is there
    loss = x.square().mean()
    del x
    loss.backward()  # type: ignore[no-untyped-call]
    del loss
    note("backward")
    optimizer.step()
    note("step")
    optimizer.zero_grad()
    note("step")


def draw(moments: list[Moment], title: str = "") -> Picture:
    """Draw the memory at each moment as a bar, coloured by phase."""
    top = max(moment.held for moment in moments)
    peak = next(moment for moment in moments if moment.held == top)
    figure, axes = style.chart(6.4, 2.7, place=(0.11, 0.2, 0.86, 0.66), title=title, ylabel="MB held")
    axes.set(xlim=(-0.6, len(moments) - 0.4), ylim=(0, 1.12 * top / 1e6))
    axes.bar(range(len(moments)), [m.held / 1e6 for m in moments], color=[PHASES[m.phase] for m in moments], width=0.9)
    axes.set_xticks([])
    for phase in PHASES:
        places = [place for place, moment in enumerate(moments) if moment.phase == phase]
        look: dict[str, Any] = {"fontsize": 8.5, "color": style.INK, "family": style.SANS}
        if places:
            middle, below = sum(places) / len(places), -0.13 * axes.get_ylim()[1]
            axes.text(middle, below, phase, horizontalalignment="center", **look)
    words = f"{moments[0].held / 1e6:.1f} MB at the start, {top / 1e6:.1f} at the peak, in {peak.phase}"
    return style.finish(figure, f"Memory of a training step, {title}: {words}.")


def _from_controls(blocks: int, batch: int, memory: str) -> Picture:
    moments = record(devices.second(), blocks, batch, how=memory)
    return draw(moments, f"{blocks} blocks, batch of {batch}: {memory}")


def explorer() -> Live:
    """Return the timeline with its controls, without showing it."""
    return Live(_from_controls, blocks=range(4, 9), batch=range(256, 1025, 256), memory=CHOICES)


def explore() -> None:
    """Choose depth, batch size, and whether blocks are checkpointed."""
    if devices.second().type == "cpu":
        print("There is no second device in this process whose memory could be counted.")
        return
    explorer().show()
