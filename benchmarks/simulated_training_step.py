"""Measure how much slower a small training step is on the simulated accelerator than on the CPU.

    python benchmarks/simulated_training_step.py [--repeats 200]

One line for each model and optimizer: the medians in microseconds of steps that alternate between the devices in one
process and one thread, and their ratio.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import nn

from torchcourse import simulated

BATCH = 64


def mlp() -> tuple[nn.Module, torch.Tensor]:
    """Return an MLP for 8 x 8 digits, and a batch."""
    layers = nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)
    return nn.Sequential(*layers), torch.randn(BATCH, 64)


def cnn() -> tuple[nn.Module, torch.Tensor]:
    """Return a small CNN with batch norm for 8 x 8 digits, and a batch."""
    first = nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)
    second = nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    return nn.Sequential(*first, *second, nn.Linear(32, 10)), torch.randn(BATCH, 1, 8, 8)


def attention() -> tuple[nn.Module, torch.Tensor]:
    """Return one transformer layer over 16 tokens, and a batch."""
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True)
    return nn.Sequential(layer, nn.Flatten(), nn.Linear(16 * 32, 10)), torch.randn(BATCH, 16, 32)


OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "SGD": lambda p: torch.optim.SGD(p, 0.01, momentum=0.9),
    "AdamW": lambda p: torch.optim.AdamW(p, 1e-3),
}


def step_on(place: str, make: Callable[[], tuple[nn.Module, torch.Tensor]], optimizer: str) -> Callable[[], None]:
    """Return a function that runs one training step on the device."""
    torch.manual_seed(0)
    model, x = make()
    model, x, y = model.to(place), x.to(place), torch.randint(0, 10, (BATCH,)).to(place)
    made = OPTIMIZERS[optimizer](model.parameters())

    def step() -> None:
        made.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()  # type: ignore[no-untyped-call]
        made.step()

    return step


def medians(steps: list[Callable[[], None]], repeats: int) -> list[float]:
    """Return the median seconds of each step, the steps taken in turn."""
    times: list[list[float]] = [[] for _ in steps]
    for turn in range(repeats + 10):
        for step, found in zip(steps, times, strict=True):
            start = time.perf_counter()
            step()
            if turn >= 10:
                found.append(time.perf_counter() - start)
    return [statistics.median(found) for found in times]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=200)
    repeats = parser.parse_args().repeats
    torch.set_num_threads(1)
    simulated.register()
    for make in (mlp, cnn, attention):
        for optimizer in OPTIMIZERS:
            cpu, ours = medians([step_on(place, make, optimizer) for place in ("cpu", simulated.NAME)], repeats)
            row = f"{make.__name__:10} {optimizer:6} cpu {cpu * 1e6:7.0f} us  simulated {ours * 1e6:7.0f} us"
            print(f"{row}  ratio {ours / cpu:.2f}")


if __name__ == "__main__":
    main()
