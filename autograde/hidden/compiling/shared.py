"""What several private halves of lesson 08 share."""

from __future__ import annotations

from typing import Any

import torch

COMPILE: Any = torch.compile
