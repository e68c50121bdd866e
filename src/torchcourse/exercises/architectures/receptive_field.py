"""The exercise `receptive_field`: its probe, visible cases and hints."""

from __future__ import annotations

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations

Layers = list[tuple[int, int, int]]


def probe(answer: Watched, layers: Layers) -> Observations:
    """Observe the span, and whether the list is still as it was."""
    given = list(layers)
    return {"result": answer(given), "layers afterwards": "as before" if given == layers else "changed"}


def drawn_layers(draw: Draw, count: int, stride: int = 1, dilation: int = 1) -> Layers:
    """Draw layers with kernels of 2 to 5, and strides and dilations up to the given ones."""
    return [(draw.size(2, 5), draw.size(1, stride), draw.size(1, dilation)) for _ in range(count)]


def cases(draw: Draw) -> list[Case]:
    k = draw.size(3, 5)
    return [
        case("one layer", layers=[(k, 1, 1)]),
        case("one layer with a stride", layers=[(k, 2, 1)]),
        case("one layer with dilation", layers=[(k, 1, 3)]),
        case("three layers without strides", layers=drawn_layers(draw, 3)),
        case("a stride below", layers=[(3, 3, 1), (k, 1, 1)]),
        case("a stride above", layers=[(3, 1, 1), (k, 3, 1)]),
        case("two strides below", layers=[(3, 3, 1), (k, 2, 1), (3, 1, 1), (2, 1, 1)]),
        case("strides and dilations", layers=[(3, 2, 2), (k, 3, 1), (3, 1, 4)]),
        case("pooling layers between", layers=[(3, 1, 1), (2, 2, 1), (3, 1, 1), (2, 2, 1), (3, 1, 1)]),
        case("no layer", layers=[]),
    ]


EXERCISE = Exercise(
    "receptive_field",
    probe,
    cases,
    hints=(
        "One layer without a stride: how many positions lie between the first and the last entry of a kernel of 3, and "
        "how many if its entries are 2 apart?",
        "Go from the input up. Besides what is seen so far, which second number do you need to know to say how far "
        "apart the entries of the next kernel lie, measured in the input?",
        "Each layer adds the steps between its first and last entry, as long as a step is *below* it. When does its "
        "own stride make that step longer: before it adds, or after?",
    ),
    any_device=False,
)
