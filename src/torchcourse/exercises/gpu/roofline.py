"""The exercise `roofline`: its probe, visible cases and hints."""

from __future__ import annotations

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import kind

ROOFLINE_KEYS = ("achieved", "intensity", "bound", "fraction")


def probe(answer: Watched, **numbers: float) -> Observations:
    """Ask for the roofline of these numbers."""
    result = answer(**numbers)
    if not isinstance(result, dict):
        return {"returned": kind(result)}
    return {name: result.get(name, "missing") for name in ROOFLINE_KEYS}


def cases(draw: Draw) -> list[Case]:
    def drawn(name: str, intensity: float, share: float, flops: float = 2.0**40) -> Case:
        peak, bandwidth = 2.0**47, 2.0**40  # the ridge is at 128 operations a byte
        moved = flops / intensity
        seconds = flops / (share * min(peak, intensity * bandwidth))
        inputs = {"flops": flops, "bytes": moved, "seconds": seconds, "peak_flops": peak, "peak_bandwidth": bandwidth}
        return case(name, rtol=1e-6, atol=0.0, **inputs)

    below, above = 2.0 ** draw.size(0, 4), 2.0 ** draw.size(9, 11)
    return [
        drawn("few operations a byte", below, 0.5),
        drawn("an addition, one twelfth operation a byte", 1 / 12, 0.875, flops=2.0**27),
        drawn("many operations a byte", above, 0.75),
        drawn("right at the ridge", 128.0, 0.25),
        drawn("just below the ridge", 128 - 2.0**-6, 0.625),
        drawn("half of what the roof allows", below * 2, 0.5, flops=2.0**33),
    ]


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {name: seen[name] for name in ROOFLINE_KEYS if name in seen}
    fields |= {f"wanted_{name}": wanted[name] for name in ROOFLINE_KEYS if name in wanted}
    return fields | {"ridge": inputs["peak_flops"] / inputs["peak_bandwidth"]}


EXERCISE = Exercise(
    "roofline",
    probe,
    cases,
    hints=(
        "Intensity is work for each byte that is moved. With few operations a byte, does the chip wait for its memory, "
        "or the memory for the chip?",
        "At which intensity does memory deliver just fast enough for the peak? Two of the arguments give it. From "
        "there up, more bandwidth would not help.",
        "The roof at an intensity is the lower of two limits: what the chip can compute, and what the memory can feed. "
        "Of which of them is `fraction` a fraction?",
    ),
    any_device=False,
    quotes=quotes,
)
