"""The exercise `MasterSGD`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from autograde.source.mistakes import Mistake
from torchcourse.exercises.precision.master_sgd import cases as cases_master
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "An update much smaller than the weight is lost in 16 bits, each time; the float32 copy adds it up until it"
    " shows. `load_state_dict` of the base class casts float states to the parameter's dtype, so the masters "
    "are put back from the saved state."
)
"""Why the reference is written as it is."""
REQUIRED = ("updates-low-precision", "master-not-in-state")
"""The mistakes that a check must always be able to name."""


class SGD(torch.optim.Optimizer):
    """A right optimizer. Each mistake below is this one with one method written otherwise."""

    def __init__(self, params: Any, lr: float) -> None:
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self.update(p, p.grad, group)

    def update(self, p: Tensor, grad: Tensor, group: dict[str, Any]) -> None:
        master = self.master(p)
        master -= group["lr"] * grad.to(master.dtype)
        self.hand_back(p, master)

    def master(self, p: Tensor) -> Tensor:
        if "master" not in self.state[p]:
            self.state[p]["master"] = p.detach().clone().float()
        made: Tensor = self.state[p]["master"]
        return made

    def hand_back(self, p: Tensor, master: Tensor) -> None:
        p.copy_(master)


class UpdatesLowPrecision(SGD):
    def update(self, p: Tensor, grad: Tensor, group: dict[str, Any]) -> None:
        p.sub_(grad, alpha=group["lr"])


class MasterNotInState(SGD):
    def __init__(self, params: Any, lr: float) -> None:
        super().__init__(params, lr)
        self.masters: dict[Tensor, Tensor] = {}

    def master(self, p: Tensor) -> Tensor:
        return self.masters.setdefault(p, p.detach().clone().float())


class MasterInFloat64(SGD):
    def master(self, p: Tensor) -> Tensor:
        made: Tensor = self.state[p].setdefault("master", p.detach().double())
        return made


class MasterInBfloat16(SGD):
    def master(self, p: Tensor) -> Tensor:
        made: Tensor = self.state[p].setdefault("master", p.detach().clone().bfloat16())
        return made


class SharesFloat32(SGD):
    def master(self, p: Tensor) -> Tensor:
        made: Tensor = self.state[p].setdefault("master", p.detach().float())
        return made


class RemadeEveryStep(SGD):
    def master(self, p: Tensor) -> Tensor:
        self.state[p]["master"] = master = p.detach().clone().float()
        return master


class NeverCopiesBack(SGD):
    def hand_back(self, p: Tensor, master: Tensor) -> None:
        pass


class ParameterBecomesFloat32(SGD):
    def hand_back(self, p: Tensor, master: Tensor) -> None:
        p.data = master.clone()


class ParameterIsTheCopy(SGD):
    def hand_back(self, p: Tensor, master: Tensor) -> None:
        p.data = master


class ParameterIsTheCopyInFloat32(SGD):
    def hand_back(self, p: Tensor, master: Tensor) -> None:
        p.data = master.to(p.dtype)


class GoesUphill(SGD):
    def update(self, p: Tensor, grad: Tensor, group: dict[str, Any]) -> None:
        super().update(p, -grad, group)


class OneLrForAll(SGD):
    def __init__(self, params: Any, lr: float) -> None:
        super().__init__(params, lr)
        self.lr = lr

    def update(self, p: Tensor, grad: Tensor, group: dict[str, Any]) -> None:
        super().update(p, grad, {"lr": self.lr})


class ProductInLowPrecision(SGD):
    def update(self, p: Tensor, grad: Tensor, group: dict[str, Any]) -> None:
        super().update(p, group["lr"] * grad, {"lr": 1.0})


class WritesAllBack(SGD):
    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        masters = {p: self.master(p) for group in self.param_groups for p in group["params"]}
        super().step()
        for p, master in masters.items():
            self.hand_back(p, master)


class FailsOnNone(SGD):
    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                self.update(p, p.grad, group)


MASTERS = "Master weights"
STALLS = (
    'In the case "{case}" the first parameter began at {start}, and after {steps} steps it is {ended} where {should} '
    "is wanted: "
)
COPIES = (
    'In the case "{case}" the optimizer\'s state holds {copies} where float32 is wanted: with fewer digits the '
    "updates are lost, and more digits only take up memory."
)
MISTAKES = [
    Mistake("updates-low-precision", UpdatesLowPrecision, STALLS + "each update was added to the low-precision number "
            "itself, and rounded away. It has to be added to a float32 copy.", MASTERS),
    Mistake("master-not-in-state", MasterNotInState, "Float32 copies in the state: {got}; wanted: {want}. They are "
            "kept elsewhere, and a checkpoint of the optimizer would lose them: `self.state[p]` is the place.",
            MASTERS),
    Mistake("master-not-float32", MasterInFloat64, COPIES, MASTERS),
    Mistake("master-not-float32", MasterInBfloat16, COPIES, MASTERS),
    Mistake("master-not-a-copy", SharesFloat32, "In the case \"{case}\" the optimizer's state holds {copies}: of a "
            "float32 tensor, `.float()` and `.to(torch.float32)` return that tensor itself. `copy=True` makes a copy.",
            MASTERS),
    Mistake("master-not-a-copy", ParameterIsTheCopyInFloat32, "In the case \"{case}\" the optimizer's state holds "
            "{copies}: of a float32 tensor, `.to(torch.float32)` returns that tensor itself. `p.copy_` writes into the "
            "parameter.", MASTERS),
    Mistake("master-remade-every-step", RemadeEveryStep, STALLS + "either the float32 copy was made anew from the "
            "rounded parameter at every step, or its new value was not stored. What had added up in it is forgotten.",
            MASTERS),
    Mistake("never-copies-back", NeverCopiesBack, STALLS + "the float32 copy moved, but it was never written into the "
            "parameter, with which the model computes.", MASTERS),
    *(Mistake("parameter-becomes-float32", becomes, 'In the case "{case}" the dtype of the parameters is no longer '
              "what it was before: they were bound to the float32 copies, so that no memory is saved any more.",
              MASTERS)
      for becomes in (ParameterBecomesFloat32, ParameterIsTheCopy)),
    Mistake("product-in-low-precision", ProductInLowPrecision, "In the case \"{case}\" the float32 copies agree with "
            "what is wanted in the first digits only: lr times the gradient was rounded to the gradient's dtype before "
            "it was added. Take the gradient to float32 first.", MASTERS),
    Mistake("touches-what-has-no-gradient", WritesAllBack, 'In the case "{case}" new values had been written into a '
            "parameter without gradient, and the next step overwrote them. Leave such a parameter alone, and copy "
            "nothing into it.", MASTERS),
    Mistake("goes-uphill", GoesUphill, STALLS + "the step went along the gradient, but the loss falls the other way.",
            MASTERS),
    Mistake("one-lr-for-all", OneLrForAll, STALLS + "the learning rate came from the constructor. Each group has its "
            "own in `group[\"lr\"]`, and a schedule changes it there.", MASTERS),
    Mistake("fails-on-none", FailsOnNone, 'In the case "{case}" the call raised {error}: a parameter that took no part '
            "has no gradient; leave it alone.", MASTERS),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    again = {c.name: c for c in cases_master(draw)}
    grouped = again["two groups"]
    return [
        case("two groups, lowered on the way", rtol=8e-3, atol=1e-3, **{**grouped.inputs, "slower_at": 5}),
        case("more steps", rtol=8e-3, atol=1e-3, **{**again["bfloat16, many small steps"].inputs, "steps": 45}),
    ]


# Right answers unlike the reference


class MasterFromTheStart(torch.optim.Optimizer):
    """Makes its copies when it is made, and updates them with one fused call."""

    def __init__(self, params: Any, lr: float) -> None:
        super().__init__(params, {"lr": lr})
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["copy"] = p.detach().clone().float()

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            with torch.no_grad():
                for p in filter(lambda p: p.grad is not None, group["params"]):
                    self.state[p]["copy"].add_(p.grad.to(torch.float32), alpha=-group["lr"])
                    p.data.copy_(self.state[p]["copy"])


class MasterThroughSGD(torch.optim.Optimizer):
    """Lets torch's own SGD work on the float32 copies."""

    def __init__(self, params: Any, lr: float = 1e-2) -> None:
        super().__init__(params, {"lr": lr})

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            used = [p for p in group["params"] if p.grad is not None]
            for p in used:
                copy = self.state[p].setdefault("fp32", nn.Parameter(p.detach().to(torch.float32, copy=True)))
                copy.grad = p.grad.float()
            if used:
                torch.optim.SGD([self.state[p]["fp32"] for p in used], lr=group["lr"]).step()
            for p in used:
                p.data = self.state[p]["fp32"].detach().to(p.dtype, copy=True)


RIGHT_ANSWERS: list[Callable[..., Any]] = [MasterFromTheStart, MasterThroughSGD]
