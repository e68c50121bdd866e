"""The memory timeline of a training step: what is held after each layer, forward and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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
    """What was held at one moment of a step."""

    phase: str
    held: int


def record(
    device: torch.device, blocks: int = 4, batch: int = 256, width: int = 64, how: str = CHOICES[0]
) -> list[Moment]:
    """Two training steps of a small network on an accelerator: bytes held after each part of the second, beyond what
    was held before the network was made."""
    before = devices.allocated(device)
    layers = [nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(blocks)]
    model = nn.Sequential(*layers).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.zeros(batch, width, device=device)
    moments: list[Moment] = []

    def note(phase: str) -> None:
        moments.append(Moment(phase, devices.allocated(device) - before))

    for _ in range(2):
        moments.clear()
        _step(model, optimizer, x, how == CHOICES[1], note)
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
    """Held memory as bars from moment to moment, coloured by phase."""
    top = max(moment.held for moment in moments)
    peak = next(moment for moment in moments if moment.held == top)
    figure, page = style.canvas(6.4, 2.7)
    page.set_axis_on()
    page.set_position((0.11, 0.2, 0.86, 0.66))
    page.set(xlim=(-0.6, len(moments) - 0.4), ylim=(0, 1.12 * top / 1e6))
    for place, moment in enumerate(moments):
        page.bar(place, moment.held / 1e6, color=PHASES[moment.phase], width=0.9)
    page.set_title(title, fontsize=9, loc="left")
    page.set_ylabel("MB held", fontsize=8)
    page.set_xticks([])
    page.tick_params(labelsize=8)
    page.spines[["top", "right"]].set_visible(False)
    for place, (phase, colour) in enumerate(PHASES.items()):
        ink = {"color": colour, "fontsize": 8.5, "weight": "bold"}
        page.text(0.02 + 0.16 * place, -0.13, phase, ink, transform=page.transAxes)
    words = f"{moments[0].held / 1e6:.1f} MB at the start, {top / 1e6:.1f} at the peak, in {peak.phase}"
    return style.finish(figure, f"Memory of a training step, {title}: {words}.")


def _from_controls(blocks: int, batch: int, memory: str) -> Picture:
    moments = record(devices.second(), blocks, batch, how=memory)
    return draw(moments, f"{blocks} blocks, batch of {batch}: {memory}")


def explorer() -> Live:
    """The timeline with its controls, not yet on show."""
    return Live(_from_controls, blocks=range(4, 13), batch=range(256, 1025, 256), memory=CHOICES)


def explore() -> None:
    """Choose depth, batch size, and whether blocks are checkpointed."""
    if devices.second().type == "cpu":
        print("There is no second device in this process whose memory could be counted.")
        return
    explorer().show()
