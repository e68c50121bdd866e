"""What the probes of lesson 09 do not let in: what a notebook has changed for the whole process."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from torchcourse.checking import examine


def listed(path: Path) -> list[str]:
    return sorted(torch.serialization.get_unsafe_globals_in_checkpoint(str(path)))


def test_what_somebody_admitted_before_neither_changes_the_verdict_nor_is_forgotten() -> None:
    own = torch.serialization.get_safe_globals()
    torch.serialization.add_safe_globals([argparse.Namespace])
    try:
        assert examine("unsafe_globals", {"unsafe_globals": listed}).passed
        assert set(torch.serialization.get_safe_globals()) == {*own, argparse.Namespace}
    finally:
        torch.serialization.clear_safe_globals()
        torch.serialization.add_safe_globals(own)
