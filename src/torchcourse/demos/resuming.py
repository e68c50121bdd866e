"""A training that is killed, and runs that resume from its checkpoints with all of the state or only a part."""

from __future__ import annotations

import copy
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import nn

from torchcourse.demos import style
from torchcourse.demos.live import Live
from torchcourse.demos.style import Picture

STEPS, EVERY, DIES = 150, 30, 104
"""The number of steps, how often a checkpoint is saved, and the step in which the process is killed."""
CHOICES = {
    "everything": ("model", "optimizer", "scheduler", "random"),
    "all but the optimizer": ("model", "scheduler", "random"),
    "all but the scheduler": ("model", "optimizer", "random"),
    "all but the random state": ("model", "optimizer", "scheduler"),
    "the weights alone": ("model",),
}
SAVED = [str(step) for step in range(EVERY, DIES, EVERY)][::-1]
PANEL = (0.11, 0.17, 0.85, 0.7)


class Run:
    """A small regression with dropout and random batches, so that every kind of state matters."""

    def __init__(self, seed: int) -> None:
        drawn = torch.Generator().manual_seed(5)
        self.x = torch.randn(256, 8, generator=drawn)
        self.y = torch.sin(self.x.sum(1, keepdim=True))
        torch.manual_seed(seed)
        self.model = nn.Sequential(nn.Linear(8, 48), nn.ReLU(), nn.Dropout(0.05), nn.Linear(48, 1))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.03)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, STEPS)
        self.steps = 0

    def losses(self) -> Iterator[float]:
        """Continue training."""
        while True:
            chosen = torch.randint(len(self.x), (64,))
            loss = ((self.model(self.x[chosen]) - self.y[chosen]) ** 2).mean()
            self.optimizer.zero_grad()
            loss.backward()
            if self.steps + 1 == DIES and os.environ.get("TORCHCOURSE_DIES"):
                os.kill(os.getpid(), signal.SIGKILL)
            self.optimizer.step()
            self.scheduler.step()
            self.steps += 1
            yield loss.item()

    def state(self) -> dict[str, Any]:
        """Return all the state that the next step depends on."""
        parts: dict[str, Any] = {"model": self.model, "optimizer": self.optimizer, "scheduler": self.scheduler}
        return {n: p.state_dict() for n, p in parts.items()} | {"random": torch.get_rng_state(), "steps": self.steps}

    def restore(self, state: dict[str, Any], names: tuple[str, ...]) -> None:
        """Restore the named parts."""
        for name in names:
            if name == "random":
                torch.set_rng_state(state["random"])
            else:
                getattr(self, name).load_state_dict(copy.deepcopy(state[name]))  # an optimizer goes on in these tensors
        self.steps = state["steps"]


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one thread in this block, and restore the random state afterwards.

    For nets as small as this one, waiting for other threads takes most of the time.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        torch.set_num_threads(before)


def train_and_save(folder: Path) -> None:
    """Train and save checkpoints until killed: runs in a process of its own."""
    with one_thread():
        run = Run(seed=0)
        for _ in islice(run.losses(), STEPS):
            if run.steps % EVERY == 0:
                draft = folder / "draft"
                torch.save(run.state(), draft)
                draft.replace(folder / f"{run.steps}.pt")


@cache
def left_behind() -> dict[int, dict[str, Any]]:
    """Return the checkpoints, by step, of a training process that was killed in step 104."""
    print(f"Training in a process of its own, which is killed in step {DIES}: a few seconds.", flush=True)
    with tempfile.TemporaryDirectory() as name:
        environment = {**os.environ, "TORCHCOURSE_DIES": "yes", "TORCHCOURSE_SIMULATED": "off"}
        subprocess.run([sys.executable, "-m", "torchcourse.demos.resuming", name], env=environment, timeout=100)
        return {int(path.stem): torch.load(path, weights_only=True) for path in sorted(Path(name).glob("*.pt"))}


@cache
def never_killed() -> list[float]:
    """Return all losses of the same training without interruption."""
    with one_thread():
        return list(islice(Run(seed=0).losses(), STEPS))


@cache
def resumed(step: int, restored: str) -> list[float]:
    """Return the losses from a checkpoint on, in a new run with these parts restored."""
    state = left_behind()[step]
    with one_thread():
        run = Run(seed=1)
        run.restore(state, CHOICES[restored])
        return list(islice(run.losses(), STEPS - step))


def draw(restored: str = "everything", checkpoint: str = SAVED[0]) -> Picture:
    """Draw the losses of the uninterrupted run and of the one that resumed from a checkpoint."""
    whole, start = never_killed(), int(checkpoint)
    later = resumed(start, restored)
    equal = sum(a == b for a, b in zip(whole[start:], later, strict=True))
    outcome = f"{equal} of {len(later)} later losses equal to the last bit"
    figure, axes = style.chart(6.4, 2.9, place=PANEL, title=outcome, xlabel="step", ylabel="loss")
    axes.plot(range(1, STEPS + 1), whole, color=style.SKY, linewidth=4, label="never killed")
    axes.plot(range(start + 1, STEPS + 1), later, color=style.VERMILION, linewidth=1.3, label=f"resumed: {restored}")
    axes.axvline(start + 0.5, color=style.GREY, linewidth=1)
    axes.axvline(DIES, color=style.INK, linewidth=1, linestyle="dashed")
    axes.text(DIES + 1, max(whole), "killed", fontsize=8, color=style.INK, va="top")
    axes.text(start - 0.5, max(whole), "saved", fontsize=8, color=style.INK, va="top", ha="right")
    axes.set(xlim=(0, STEPS), yscale="log")
    style.legend(axes, beside=False)
    words = f"The loss of a run that was never killed, and of one resumed at step {start} with {restored}: {outcome}."
    return style.finish(figure, words)


def explorer() -> Live:
    """Return the picture with its menus without showing it; each choice is run when it is first made."""
    return Live(draw, restored=list(CHOICES), checkpoint=SAVED)


def explore() -> None:
    """Choose what is restored, and from which checkpoint."""
    explorer().show()


if __name__ == "__main__":
    train_and_save(Path(sys.argv[1]))
