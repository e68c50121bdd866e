"""The exercise `training_bytes`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "Parameter and gradient have the same dtype; the optimizer's states and the master copy are float32 here, 4"
    " bytes each. With Adam in float32 the states take as much as parameters and gradients together, which is "
    "why sharding starts with them."
)
"""Why the reference is written as it is."""
REQUIRED = ("forgets-gradients", "forgets-optimizer-states", "states-in-param-dtype")
"""The mistakes that a check must always be able to name."""


class Held:
    """A right answer, as an object that is called. Each mistake below is this one with one method written otherwise.

    The methods give bytes for each parameter, of which the parameter itself takes `size`.
    """

    def __call__(
        self, num_params: int, *, param_dtype: torch.dtype = torch.float32, optimizer: str = "adamw",
        master_weights: bool = False,
    ) -> Any:  # fmt: skip
        size = param_dtype.itemsize
        numbers = self.numbers(optimizer)
        held = size + self.gradient(size) + self.states(numbers, size) + self.master(master_weights, size, numbers)
        return self.total(num_params, held)

    def numbers(self, optimizer: str) -> int:
        """How many numbers the optimizer keeps for each parameter."""
        known = {"adamw": 2, "momentum": 1, "sgd": 0}
        if optimizer not in known:
            raise ValueError(f"optimizer is {optimizer!r}, and has to be one of {', '.join(known)}")
        return known[optimizer]

    def gradient(self, size: int) -> int:
        return size

    def states(self, numbers: int, size: int) -> int:
        return 4 * numbers

    def master(self, wanted: bool, size: int, numbers: int) -> int:
        return 4 if wanted else 0

    def total(self, num_params: int, held: int) -> Any:
        return num_params * held


class ForgetsGradients(Held):
    def gradient(self, size: int) -> int:
        return 0


class GradientsInFloat32(Held):
    def gradient(self, size: int) -> int:
        return 4


class ForgetsStates(Held):
    def states(self, numbers: int, size: int) -> int:
        return 0


class StatesInParamDtype(Held):
    def states(self, numbers: int, size: int) -> int:
        return size * numbers


class OneStateForAdamW(Held):
    def numbers(self, optimizer: str) -> int:
        return min(super().numbers(optimizer), 1)


class AcceptsAnyOptimizer(Held):
    def numbers(self, optimizer: str) -> int:
        return {"adamw": 2, "momentum": 1}.get(optimizer, 0)


class TakesAPartOfAName(Held):
    def numbers(self, optimizer: str) -> int:
        return 2 if optimizer.startswith("adam") else super().numbers(optimizer)


class RaisesKeyError(Held):
    def numbers(self, optimizer: str) -> int:
        return {"adamw": 2, "momentum": 1, "sgd": 0}[optimizer]


class ForgetsMaster(Held):
    def master(self, wanted: bool, size: int, numbers: int) -> int:
        return 0


class MasterWhereSmall(Held):
    def master(self, wanted: bool, size: int, numbers: int) -> int:
        return 4 if wanted or size < 4 else 0


class MasterOfSmallOnes(Held):
    def master(self, wanted: bool, size: int, numbers: int) -> int:
        return 4 if wanted and size < 4 else 0


class MasterUnlessFloat32(Held):
    def master(self, wanted: bool, size: int, numbers: int) -> int:
        return 4 if wanted or size != 4 else 0


class MasterAlways(Held):
    def master(self, wanted: bool, size: int, numbers: int) -> int:
        return 4


class MasterTurnedRound(Held):
    def master(self, wanted: bool, size: int, numbers: int) -> int:
        return 0 if wanted else 4


class MasterOfEightBytes(Held):
    def master(self, wanted: bool, size: int, numbers: int) -> int:
        return 8 if wanted else 0


class MasterOfTheStates(Held):
    def master(self, wanted: bool, size: int, numbers: int) -> int:
        return 4 * numbers if wanted else 0


class MasterInParamDtype(Held):
    def master(self, wanted: bool, size: int, numbers: int) -> int:
        return size if wanted else 0


class MasterReplacesParameters(Held):
    def master(self, wanted: bool, size: int, numbers: int) -> int:
        return 4 - size if wanted else 0


class Gibibytes(Held):
    def total(self, num_params: int, held: int) -> Any:
        return num_params * held / (1 << 30)


class DividesToAFloat(Held):
    def total(self, num_params: int, held: int) -> Any:
        return num_params * held / 1


HOLDS = "What a training step holds in memory"
EACH = 'In the case "{case}" there are {each} bytes for each parameter where {wanted_each} are right: '
UNASKED = EACH + "there is a master copy only where `master_weights` asks for one."
TOO_LARGE = EACH + "one float32 copy of the parameters takes four, and nothing else is copied."
OUTCOME = 'In the case "{case}" the outcome was {outcome}: '
MISTAKES = [
    Mistake("forgets-gradients", ForgetsGradients(), EACH + "every parameter has a gradient beside it.", HOLDS),
    Mistake("forgets-optimizer-states", ForgetsStates(), EACH + "AdamW keeps two numbers for each parameter, and "
            "momentum one.", HOLDS),
    Mistake("states-in-param-dtype", StatesInParamDtype(), EACH + "the optimizer's states are float32, whatever the "
            "parameters are.", HOLDS),
    Mistake("forgets-master-weights", ForgetsMaster(), EACH + "the master copy takes four bytes more.", HOLDS),
    Mistake("forgets-master-weights", MasterOfSmallOnes(), EACH + "a master copy that is asked for takes four bytes, "
            "even beside parameters in float32.", HOLDS),
    Mistake("master-unasked", MasterWhereSmall(), UNASKED, HOLDS),
    Mistake("master-unasked", MasterAlways(), UNASKED, HOLDS),
    Mistake("master-unasked", MasterUnlessFloat32(), UNASKED, HOLDS),
    Mistake("master-turned-round", MasterTurnedRound(), EACH + "there is a master copy where `master_weights` is True, "
            "and none where it is False.", HOLDS),
    Mistake("master-too-large", MasterOfEightBytes(), TOO_LARGE, HOLDS),
    Mistake("master-too-large", MasterOfTheStates(), TOO_LARGE, HOLDS),
    Mistake("gradients-in-float32", GradientsInFloat32(), EACH + "the gradients have the parameters' dtype.", HOLDS),
    Mistake("master-in-param-dtype", MasterInParamDtype(), EACH + "a master copy is float32, or it would be of no use.",
            HOLDS),
    Mistake("master-replaces-parameters", MasterReplacesParameters(), EACH + "the master copy is kept beside the "
            "parameters, not in their place.", HOLDS),
    Mistake("one-state-for-adamw", OneStateForAdamW(), EACH + "AdamW keeps a mean and a mean square for each "
            "parameter.", HOLDS),
    Mistake("accepts-unknown-optimizer", AcceptsAnyOptimizer(), OUTCOME + "an unknown optimizer should raise an error, "
            "since nobody knows its states.", HOLDS),
    Mistake("takes-a-part-of-a-name", TakesAPartOfAName(), OUTCOME + "a name counts as a whole. `startswith` and `in` "
            "look at parts of it, and let others through.", HOLDS),
    Mistake("message-says-too-little", RaisesKeyError(), OUTCOME + "the message should name `optimizer`, and say what "
            "it was.", HOLDS),
    Mistake("returns-a-float", Gibibytes(), 'In the case "{case}" the answer is {got} where {want} is wanted: the '
            "number of bytes is wanted, as an int.", HOLDS),
    Mistake("returns-a-float", DividesToAFloat(), 'In the case "{case}" the answer is {got}, and {want} is wanted: the '
            "number of bytes is an int. `/` gives a float whatever it divides.", HOLDS),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    n = draw.size(5, 10**6)
    dtypes = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
    drawn = [
        case(f"drawn {i}", num_params=n + i, param_dtype=draw.pick(dtypes[1:]), refuses=False,
             optimizer=draw.pick(["adamw", "momentum", "sgd"]), master_weights=draw.size(0, 1) == 1)
        for i in range(6)
    ]  # fmt: skip
    rest: dict[str, Any] = {"optimizer": None, "master_weights": None, "param_dtype": None}
    return [
        *drawn,
        case("one parameter", num_params=1, refuses=False, **rest),
        case("none", num_params=0, refuses=False, **rest),
        case("another unknown optimizer", num_params=n, refuses=True, **{**rest, "optimizer": "adagrad-w"}),
    ]


# Right answers unlike the reference


def bytes_by_match(
    num_params: int, *, param_dtype: torch.dtype = torch.float32, optimizer: str = "adamw",
    master_weights: bool = False,
) -> int:  # fmt: skip
    match optimizer:
        case "adamw":
            states = 8
        case "momentum":
            states = 4
        case "sgd":
            states = 0
        case _:
            raise NotImplementedError(f"unknown optimizer {optimizer}: wanted adamw, momentum or sgd")
    each = torch.tensor([], dtype=param_dtype).element_size()
    total = num_params * each
    total += num_params * each
    total += num_params * states
    if master_weights:
        total += 4 * num_params
    return total


def bytes_by_bits(num_params: int, **options: Any) -> int:
    dtype = options.get("param_dtype", torch.float32)
    name = options.get("optimizer", "adamw")
    assert name in ("sgd", "momentum", "adamw"), f"optimizer={name!r} is none of sgd, momentum, adamw"
    count = ("sgd", "momentum", "adamw").index(name) + (1 if options.get("master_weights") else 0)
    return num_params * 2 * (torch.finfo(dtype).bits // 8) + num_params * count * torch.float32.itemsize


RIGHT_ANSWERS: list[Callable[..., Any]] = [bytes_by_match, bytes_by_bits]
