"""Learn PyTorch by building it: what the course's notebooks import.

Importing this prepares the second device that exercises are checked on: where there is no GPU, a simulated one, which
has to be registered before the process runs its first backward. `TORCHCOURSE_SIMULATED=off` leaves that out.

Commands that show or copy notebooks and run none (`torchcourse lab` and its like) do without torch, which takes seconds
to import.
"""

import os
import sys
from pathlib import Path
from typing import Any

__all__ = ["Unattempted", "check", "hint"]
__version__ = "0.1.0"

WITHOUT_TORCH = ("lab", "reset", "status", "update")

if Path(sys.argv[0] if sys.argv else "").stem != "torchcourse" or sys.argv[1:2] not in [[c] for c in WITHOUT_TORCH]:
    from torchcourse.checking import check, hint
    from torchcourse.exercise import Unattempted
    from torchcourse.lanes import accelerator_lane
    from torchcourse.working_copy import watch

    if os.environ.get("TORCHCOURSE_SIMULATED") != "off":
        accelerator_lane()
    watch()


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext torchcourse`: errors of torch come with a paragraph on the tensors involved and the usual causes."""
    from torchcourse import extension

    extension.load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """`%unload_ext torchcourse`."""
    from torchcourse import extension

    extension.unload(shell)
