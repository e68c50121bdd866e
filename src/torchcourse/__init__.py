"""Learn PyTorch by building it: what the course's notebooks import.

Where there is no GPU, exercises are also checked on a simulated device, which has to be known to PyTorch before the
process runs its first backward; importing `lanes` sees to that, and `check`, `hint` and `Unattempted` bring it along.
It imports torch, which takes seconds. So those names are fetched when they are first asked for, and commands that only
show or copy notebooks (`torchcourse lab` and its like) never do. In a kernel, and in a program that has torch already,
a backward may come before anybody asks: there nothing is put off.
"""

import sys
from typing import TYPE_CHECKING, Any

from torchcourse import working_copy

if TYPE_CHECKING:
    from torchcourse.checking import check, hint
    from torchcourse.exercise import Unattempted

__all__ = ["Unattempted", "check", "hint"]
__version__ = "0.1.0"

if not TYPE_CHECKING:  # a type checker would take any name for one of ours

    def __getattr__(name: str) -> Any:
        """One of the public names, which are all there from then on."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        _fetch()
        return globals()[name]


def _fetch() -> None:
    from torchcourse.checking import check, hint
    from torchcourse.exercise import Unattempted

    globals().update(check=check, hint=hint, Unattempted=Unattempted)


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext torchcourse`: errors of torch come with a paragraph on the tensors involved and the usual causes."""
    from torchcourse import extension

    extension.load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """`%unload_ext torchcourse`."""
    from torchcourse import extension

    extension.unload(shell)


working_copy.watch()
if sys.modules.get("torch") or working_copy.shell():
    _fetch()
