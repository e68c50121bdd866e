"""The exercise `scaler_scales`: its probe, visible cases, ground truth and hints."""

from __future__ import annotations

from itertools import groupby, zip_longest

import torch
from torch import nn

from torchcourse.checking.probe import Watched
from torchcourse.checking.torchs_modules import TORCH
from torchcourse.model.exercise import Case, Draw, Exercise, InterviewQuestion, case
from torchcourse.model.observations import Observations


def probe(answer: Watched, finite: list[bool], scale: float, interval: int) -> Observations:
    """Observe the scales that an answer predicts; whole numbers are as good as floats."""
    predicted = answer(finite, scale=scale, interval=interval)
    if isinstance(predicted, list | tuple) and all(type(number) in (int, float) for number in predicted):
        predicted = [float(number) for number in predicted]
    return {"prediction": predicted}


def ground_truth(finite: list[bool], *, scale: float, interval: int) -> list[float]:
    """Step with a GradScaler on the CPU, and read its scale after each update."""
    scaler = torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=interval)
    weight = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    scales = []
    for good in finite:
        scaler.scale(torch.ones(1))  # the first use makes the scale
        weight.grad = torch.full((1,), 1.0 if good else torch.inf)
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    return scales


def stepped(name: str, steps: str, interval: int, scale: float = 1024.0) -> Case:
    """Return the case of such steps: `+` for a finite gradient, `-` for an overflow."""
    return case(name, finite=[step == "+" for step in steps], scale=scale, interval=interval)


def cases(draw: Draw) -> list[Case]:
    interval, scale = draw.size(3, 4), 2.0 ** draw.size(8, 12)
    return [
        stepped("too few good steps", "+" * (interval - 1), interval, scale),
        stepped("enough good steps", "+" * interval, interval, scale),
        stepped("growing twice", "+" * (2 * interval + 1), interval, scale),
        stepped("one overflow", "-", interval, scale),
        stepped("three overflows", "---", interval, scale),
        stepped("an overflow just before growing", "+" * (interval - 1) + "-" + "+" * (interval + 1), interval, scale),
        stepped("an overflow after growing", "+" * interval + "-" + "+" * interval, interval, scale),
        stepped("growing at each step", "++-++", 1, scale),
        stepped("below one", "----", interval, 2.0),
        stepped("no step at all", "", interval, scale),
    ]


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    """Quote the first step at which the scales differ, and the steps up to it."""
    scales, predicted = wanted["prediction"], seen.get("prediction")
    predicted = predicted if isinstance(predicted, list) else []
    pairs = enumerate(zip_longest(predicted, scales))
    place = next((n for n, (got, want) in pairs if got != want), len(scales) - 1)
    runs = [(good, len(list(run))) for good, run in groupby(inputs["finite"][: place + 1])]
    steps = ", ".join(f"{count} {'finite' if good else 'overflowing'}" for good, count in runs)
    run = f"GradScaler('cpu', init_scale={inputs['scale']:g}, growth_interval={inputs['interval']})"
    many = f"takes {len(scales)} step{'s' * (len(scales) != 1)}, each with one scale"
    guess = f"{predicted[place]:g}" if place < len(predicted) and isinstance(predicted[place], float) else "nothing"
    said = f"has the scale {scales[place]:g} after these steps: {steps}" if place < len(scales) else many
    return {"run": run, "said": said, "guess": guess}


EXERCISE = Exercise(
    "scaler_scales",
    probe,
    cases,
    hints=(
        "Two things are remembered from step to step. One is the scale. What has to be counted, and what sets the "
        "count back to zero?",
        "Take an interval of 3 and write down by hand: good, good, bad, good, good, good. After which step does the "
        "scale grow, and why not earlier?",
        "The scale is halved at each overflow, at once, and doubled after so many good steps in a row. Is the count "
        "zero again after growing, too?",
    ),
    quotes=quotes,
    any_device=False,
    forbids=(TORCH,),
    ground_truth=ground_truth,
    interview=InterviewQuestion(
        "How does GradScaler find its scale?",
        "By overflowing now and then: a step whose gradients hold inf or NaN is skipped and halves the scale. After "
        "`growth_interval` good steps in a row, 2000 by default, the scale is doubled and the count begins again, as "
        "it does after each overflow. With bfloat16 none of that is needed, because its range is that of float32.",
        "07_mixed_precision",
    ),
)
