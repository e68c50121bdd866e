"""Right answers to the exercise `TinyUNet`, unlike the reference."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["PadsFirst", "WithTransposed"]


class Double(nn.Sequential):
    def __init__(self, inside: int, outside: int) -> None:
        super().__init__(
            nn.Conv2d(inside, outside, 3, padding="same", bias=False),
            nn.GroupNorm(1, outside),
            nn.GELU(),
            nn.Conv2d(outside, outside, 3, padding=1),
            nn.GELU(),
        )


class WithTransposed(nn.Module):
    def __init__(self, channels: int, classes: int, base: int = 6) -> None:
        super().__init__()
        self.down = nn.ModuleList([Double(channels, base), Double(base, 2 * base)])
        self.pool = nn.AvgPool2d(2)
        self.middle = Double(2 * base, 4 * base)
        self.lift = nn.ModuleList(
            [nn.ConvTranspose2d(4 * base, 2 * base, 2, stride=2), nn.ConvTranspose2d(2 * base, base, 2, stride=2)]
        )
        self.back = nn.ModuleList([Double(4 * base, 2 * base), Double(2 * base, base)])
        self.last = nn.Conv2d(base, classes, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        skips = []
        for stage in self.down:
            x = stage(x)
            skips.append(x)
            x = self.pool(x)
        x = self.middle(x)
        for lift, stage in zip(self.lift, self.back, strict=True):
            skip = skips.pop()
            x = lift(x)
            missing_rows, missing_columns = skip.size(2) - x.size(2), skip.size(3) - x.size(3)
            x = F.pad(x, [0, missing_columns, 0, missing_rows])
            x = stage(torch.cat((x, skip), dim=1))
        y: Tensor = self.last(x)
        return y


class PadsFirst(nn.Module):
    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.c1, self.c2, self.c3 = nn.Conv2d(channels, 8, 3, 1, 1), nn.Conv2d(8, 8, 3, 1, 1), nn.Conv2d(8, 8, 3, 1, 1)
        self.c4, self.c5 = nn.Conv2d(16, 8, 3, 1, 1), nn.Conv2d(16, classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        h, w = x.shape[-2:]
        x = F.pad(x, (0, -w % 4, 0, -h % 4))
        one = torch.tanh(self.c1(x))
        two = torch.tanh(self.c2(F.max_pool2d(one, kernel_size=2)))
        three = torch.tanh(self.c3(F.max_pool2d(two, kernel_size=2)))
        double = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
        four = torch.tanh(self.c4(torch.concat([double(three), two], dim=-3)))
        y: Tensor = self.c5(torch.hstack([double(four), one]))
        return y[..., :h, :w]
