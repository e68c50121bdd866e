"""Look up the operators that an export may decompose when this module is imported, so that no fork has to."""

from __future__ import annotations

import torch

torch.export.default_decompositions()
