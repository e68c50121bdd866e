"""The exercise `image_transforms`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import kind

FEWEST = 5
"""How many different views 40 random crops and flips have at least: with one pixel to spare there are eight."""


def probe(
    answer: Watched, train: bool, mean: list[float], std: list[float], size: int, shape: list[int], level: int,
    draws: int,
) -> dict[str, Any]:  # fmt: skip
    """Transform an image of one grey, whose middle shows the normalisation, and ramps, whose slopes show what was
    flipped and cropped."""
    transform = answer(train, list(mean), list(std), size)
    flat = torch.full((len(mean), *shape), level, dtype=torch.uint8)
    plain = transform(flat.clone())
    if not isinstance(plain, Tensor):
        return {"returned": f"{kind(plain)}"}
    seen: dict[str, Any] = {"shape": list(plain.shape), "dtype": plain.dtype}
    seen["middle of a grey image"] = plain.flatten(1).median(dim=1).values if plain.dim() == 3 else "no image"
    seen["image afterwards"] = "as before" if bool((flat == level).all()) else "changed"
    if draws and plain.dim() == 3:
        seen["views"] = torch.stack([transform(_ramps(len(mean), *shape)).float() for _ in range(draws)])
    return seen


def _ramps(channels: int, height: int, width: int) -> Tensor:
    """Each pixel's brightness says where it is: in the first channel which column, in the others which row."""
    across = torch.linspace(10, 240, width).expand(height, width)
    down = torch.linspace(10, 240, height)[:, None].expand(height, width)
    return torch.stack([across, *[down] * (channels - 1)]).to(torch.uint8)


def derive(case: Case, seen: Observations) -> Observations:
    """Say in words what many draws of the ramps show: flips, crops, and whether anything was random."""
    if "views" not in seen:
        return seen
    views = seen["views"]
    rest = {name: value for name, value in seen.items() if name != "views"}
    half = views.shape[-1] // 2
    across = (views[:, 0, :, half:].mean((1, 2)) - views[:, 0, :, :half].mean((1, 2))).sign()
    down = (views[:, 1, half:].mean((1, 2)) - views[:, 1, :half].mean((1, 2))).sign()
    mirrored = bool((across != across[0]).any() or (down != down[0]).any())
    centre = views[:, :, half - 1 : half + 1, half - 1 : half + 1].mean((2, 3))
    moved = bool((centre[:, 1].std() > 1e-3) or (centre[:, 0].abs().std() > 1e-3 and not mirrored))
    different = len(torch.unique(views, dim=0))
    few = case.inputs["train"] and different < FEWEST
    return {
        **rest,
        "flipped": "in some draws" if mirrored else "never" if across[0] > 0 else "always",
        "cropped": "at a different place in each draw" if moved else "always the same",
        "draws": "all the same" if different == 1 else "only a few different ones" if few else "different",
    }


def cases(draw: Draw) -> list[Case]:
    mean, std = [0.2, 0.5, 0.4], [0.25, 0.5, 0.2]
    common: dict[str, Any] = {"mean": mean, "std": std, "size": 16, "rtol": 1e-3, "atol": 2e-3}
    level = draw.size(90, 220)
    return [
        case("training, a square image", **common, train=True, shape=[40, 40], level=level, draws=40),
        case("evaluation, a square image", **common, train=False, shape=[40, 40], level=level, draws=6),
        case("training, a wide image", **common, train=True, shape=[24, 48], level=255, draws=40),
        case("evaluation, a tall image", **common, train=False, shape=[48, 30], level=255, draws=6),
        case("evaluation, size as it is", **common, train=False, shape=[16, 16], level=level, draws=3),
    ]


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    middle, right = seen.get("middle of a grey image"), wanted.get("middle of a grey image")
    fields: dict[str, object] = {
        "shape_got": seen.get("shape"),
        "shape_wanted": wanted.get("shape"),
        "flipped": seen.get("flipped"),
        "cropped": seen.get("cropped"),
        "draws": seen.get("draws"),
    }
    if isinstance(middle, Tensor) and isinstance(right, Tensor):
        fields |= {"middle": middle[0].item(), "wanted_middle": right[0].item()}
    fields["kind_got"], fields["kind_wanted"] = seen.get("dtype"), wanted.get("dtype")
    named = {name: value for name, value in fields.items() if value is not None}
    return {**named, "level": inputs["level"]}


EXERCISE = Exercise(
    "image_transforms",
    probe,
    cases,
    hints=(
        "Two lists of transforms, put together by `v2.Compose`. Which steps should both lists end with, so that a "
        "picture of one grey comes out alike in training and in evaluation?",
        "`v2.ToDtype(torch.float32)` alone keeps 255 as 255. Which argument brings the bytes to 0..1?",
        "`v2.Resize(size)` with one int sets the shorter side and keeps the proportions. What follows it, or what "
        "else do you pass, so that the result is square?",
    ),
    any_device=False,
    derive=derive,
    quotes=quotes,
    seconds=30.0,
    imports=("torchvision.transforms.v2",),
)
