"""The receptive field of one output position, drawn on the image it looks at."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from torchcourse.demos import style
from torchcourse.demos.style import Picture

Layers = Sequence[tuple[int, int, int]]
"""(kernel, stride, dilation) of each layer, from the input up."""


def stack(layers: Layers) -> nn.Sequential:
    """Return unpadded convolutions of one channel with these layers, all weights one."""
    made = nn.Sequential(*(nn.Conv2d(1, 1, k, stride=s, dilation=d, bias=False) for k, s, d in layers))
    for parameter in made.parameters():
        nn.init.ones_(parameter)
    return made


def reached(layers: Layers, height: int, width: int) -> Tensor:
    """Return how strongly each pixel `(height, width)` reaches the output position in the middle; the largest is 1.

    Raises:
        ValueError: when the image is too small for these layers.
    """
    pixels = torch.zeros(1, 1, height, width, requires_grad=True)
    try:
        output = stack(layers)(pixels)[0, 0]
    except RuntimeError as error:
        raise ValueError(f"layers see more than an image of {height} by {width} pixels") from error
    middle = output[output.shape[0] // 2, output.shape[1] // 2]
    (gradient,) = torch.autograd.grad(middle, pixels)
    return gradient[0, 0] / gradient.max()


def draw(image: Tensor, **stacks: Layers) -> Picture:
    """Draw an image `(H, W)` in [0, 1] once for each of `stacks`; the pixels that one output sees are orange."""
    height, width = image.shape
    side, gap, title = 1.7, 0.25, 0.5
    figure, page = style.canvas(len(stacks) * (side + gap) + gap, side * height / width + title + 0.15)
    said = []
    for number, (name, layers) in enumerate(stacks.items()):
        share = reached(layers, height, width)
        rows = int((share.amax(1) > 0).nonzero().diff(dim=0).sum()) + 1
        left = gap + number * (side + gap)
        grey = 1 - 0.55 * image[..., None].expand(-1, -1, 3)
        colour = torch.tensor([0.90, 0.62, 0.0])
        strength = (0.25 + 0.65 * share) * (share > 0)
        mixed = grey * (1 - strength[..., None]) + colour * strength[..., None]
        page.imshow(mixed.numpy(), extent=(left, left + side, 0.1, 0.1 + side * height / width), aspect="auto")
        style.say(page, left, 0.1 + side * height / width + 0.32, name.replace("_", " "), bold=True)
        style.say(page, left, 0.1 + side * height / width + 0.13, f"{rows} rows of pixels", size=8, colour=style.GREY)
        said.append(f"{name.replace('_', ' ')}: {int((share > 0).sum())} pixels in {rows} rows")
    page.set(xlim=(0, figure.get_figwidth()), ylim=(0, figure.get_figheight()))
    return style.finish(figure, "What one output position sees. " + "; ".join(said) + ".")
