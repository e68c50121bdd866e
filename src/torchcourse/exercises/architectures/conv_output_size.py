"""The exercise `conv_output_size`: its probe, visible cases and hints."""

from __future__ import annotations

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import refusal


def probe(answer: Watched, size: int, kernel: int, options: dict[str, int], fits: bool) -> Observations:
    """Observe the length that an answer gives, or how it refuses a kernel that does not fit."""
    if fits:
        return {"result": answer(size, kernel, **options)}
    return refusal(lambda: answer(size, kernel, **options), "kernel", [str(kernel)])


def sized(name: str, size: int, kernel: int, fits: bool = True, **options: int) -> Case:
    """Return the case of one size, kernel and further arguments."""
    return case(name, size=size, kernel=kernel, options=options, fits=fits)


def cases(draw: Draw) -> list[Case]:
    kernel, size = draw.size(3, 5), draw.size(20, 30)
    stride, dilation, padding = draw.size(3, 4), draw.size(2, 3), draw.size(1, 2)
    left_over = kernel + 4 * stride + draw.size(1, stride - 1)
    return [
        sized("a size and a kernel", size, kernel),
        sized("the kernel fills the row", kernel, kernel),
        sized("a stride that leaves something over", left_over, kernel, stride=stride),
        sized("a stride that leaves nothing over", kernel + 4 * stride, kernel, stride=stride),
        sized("padding", size, kernel, padding=padding),
        sized("dilation", size, kernel, dilation=dilation),
        sized("all at once", size, kernel, stride=stride, padding=padding, dilation=dilation),
        sized("padding makes room", 3, 5, padding=1),
        sized("a kernel of one with a stride", size, 1, stride=2),
        sized("a kernel one too long", size, size + 1, fits=False),
        sized("a kernel one too long, and a stride", size, size + 1, fits=False, stride=stride),
        sized("a dilated kernel that is too long", 2 * kernel - 2, kernel, fits=False, dilation=2),
    ]


def quotes(inputs: Observations, _seen: Observations, _wanted: Observations) -> dict[str, object]:
    return {
        "options": ", ".join(f"{name} {value}" for name, value in inputs["options"].items()) or "no other arguments"
    }


EXERCISE = Exercise(
    "conv_output_size",
    probe,
    cases,
    hints=(
        "How long is the row once it is padded on both sides? How many positions does a kernel of 3 span if there is a "
        "hole between each two of its entries?",
        "The kernel starts at the very left. How far can it move from there until its last entry lies on the last "
        "position, and how many whole strides are that?",
        "The first place costs no stride: if the kernel fills the row exactly, how many outputs are there, and what "
        "does your division say?",
    ),
    quotes=quotes,
    any_device=False,
)
