"""Learn PyTorch by building it: what the course's notebooks import.

Without a GPU, exercises are also checked on a simulated device, which must be registered before the process runs its
first backward. Importing one of `__all__` registers it, but also imports torch, which takes seconds. So
those names are imported when they are first used, and commands such as `torchcourse lab` never do. In a kernel, and in
a program that has imported torch already, a backward may come before that: there they are imported at once. The start
page has a kernel that needs no torch.

In a notebook, importing this package also registers callbacks with IPython, which note when cells are run
(`answer_cell.watch`).
"""

import sys
from typing import TYPE_CHECKING, Any

from torchcourse.checking import answer_cell
from torchcourse.workspace import session

if TYPE_CHECKING:
    from torchcourse.checking.check import check, hint
    from torchcourse.checking.failed_case import case
    from torchcourse.data import digits  # noqa: F401 - lesson 05 imports it from here
    from torchcourse.model.exercise import Unattempted

__all__ = ["Unattempted", "case", "check", "hint"]
LAZY = (*__all__, "digits")
__version__ = "0.1.0"

if not TYPE_CHECKING:  # else a type checker would accept any name

    def __getattr__(name: str) -> Any:
        """Return one of the public names, or `digits`, and import all of them."""
        if name not in LAZY:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        _import_public_names()
        return globals()[name]


def _import_public_names() -> None:
    from torchcourse.checking.check import check, hint
    from torchcourse.checking.failed_case import case
    from torchcourse.data import digits
    from torchcourse.model.exercise import Unattempted

    globals().update(case=case, check=check, digits=digits, hint=hint, Unattempted=Unattempted)


def load_ipython_extension(shell: Any) -> None:
    """Handle `%load_ext torchcourse`: explain torch's errors by the tensors they are about and the usual causes."""
    from torchcourse.errors import extension

    extension.load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Handle `%unload_ext torchcourse`: stop explaining errors."""
    from torchcourse.errors import extension

    extension.unload(shell)


answer_cell.watch()
if sys.modules.get("torch") or (session.shell() and not session.on_start_page()):
    _import_public_names()
