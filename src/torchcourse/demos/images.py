"""An image to permute and reshape, and images drawn side by side."""

from __future__ import annotations

import torch
from torch import Tensor

from torchcourse.demos import style
from torchcourse.demos.style import Picture


def letter(height: int = 24, width: int = 36) -> Tensor:
    """Return a light F on a colour gradient: uint8, shape (height, width, 3)."""
    down = torch.linspace(0, 1, height)[:, None].expand(height, width)
    across = torch.linspace(0, 1, width)[None, :].expand(height, width)
    image = torch.stack([0.15 + 0.75 * across, 0.25 + 0.3 * down, 0.75 - 0.6 * across], dim=-1)
    top, bottom, left = height // 6, height - height // 6, width // 4
    bar = max(height // 8, 1)
    image[top:bottom, left : left + bar] = 0.97
    image[top : top + bar, left : width - left] = 0.97
    image[height // 2 - bar // 2 : height // 2 - bar // 2 + bar, left : width - width // 3] = 0.97
    return (image * 255).round().to(torch.uint8)


def check_image(name: str, image: Tensor) -> Tensor:
    """Return a uint8 image of shape (H, W, 3) on the CPU; refuse anything else by name."""
    if image.ndim != 3 or image.shape[-1] != 3 or image.dtype != torch.uint8:
        kind = f"{image.dtype} of shape {tuple(image.shape)}"
        raise ValueError(f"image {name!r} is {kind}, but must be torch.uint8 of shape (H, W, 3)")
    return image.detach().cpu()


def draw(images: dict[str, Tensor], alt: str = "") -> Picture:
    """Draw images (H, W, 3) side by side under their names, with sharp pixels."""
    side = 6.2 / max(len(images), 3)
    ratio = max(image.shape[0] / image.shape[1] for image in images.values())
    height = (side - 0.2) * ratio + 0.42
    figure, page = style.canvas(side * len(images), height)
    for i, (name, image) in enumerate(images.items()):
        pixels = check_image(name, image)
        tall = (side - 0.2) * pixels.shape[0] / pixels.shape[1]
        x, y = i * side + 0.1, height - 0.34 - tall
        style.say(page, x, height - 0.18, name, size=8.5, mono=True)
        extent = (x, x + side - 0.2, y, y + tall)
        page.imshow(pixels.numpy(), extent=extent, interpolation="nearest", aspect="auto")
    page.set(xlim=(0, side * len(images)), ylim=(0, height))
    return style.finish(figure, alt or "Images side by side: " + ", ".join(images))
