"""The exercise `count_parameters`: its probe, visible cases and hints."""

from __future__ import annotations

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.models import model
from torchcourse.probes.modules import without_none
from torchcourse.probes.observe import kind


def probe(answer: Watched, which: str, width: int, trainable_only: bool | None) -> Observations:
    """Observe the count of one of the models, `which`; `trainable_only` of None leaves the answer's own default."""
    net = model(which, width)
    count = answer(net, **without_none(trainable_only=trainable_only))
    whole = isinstance(count, int) and not isinstance(count, bool)
    return {"count": count} if whole else {"returned": kind(count)}


def cases(draw: Draw) -> list[Case]:
    width = draw.size(3, 6)
    names = {
        "two linear layers": "mlp", "with a batch norm": "normed", "nested": "tower", "weights tied": "tied",
        "one layer used twice": "shared", "parameters of its own": "loose", "half of it frozen": "frozen",
        "no parameters": "none", "on the device without numbers": "no numbers", "a single layer": "linear",
    }  # fmt: skip
    return [
        *(case(words, which=name, width=width, trainable_only=None) for words, name in names.items()),
        case("half of it frozen, trainable only", which="frozen", width=width, trainable_only=True),
        case("nothing frozen, trainable only", which="normed", width=width, trainable_only=True),
        case("weights tied, trainable only", which="tied", width=width, trainable_only=True),
        case("two layers that start at zero", which="zeroed", width=width, trainable_only=None),
    ]


EXERCISE = Exercise(
    "count_parameters",
    probe,
    cases,
    hints=(
        "Which method walks over all parameters of a module and its submodules, however deep they lie?",
        "`named_parameters()` has an argument about duplicates. What is its default, and what does a sum over all "
        "submodules count twice?",
        "Batch norm's running mean is in the `state_dict`. Is it a parameter? And which method gives the number of "
        "elements of a tensor?",
    ),
    any_device=False,
)
