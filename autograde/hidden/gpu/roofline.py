"""The exercise `roofline`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "An operation is bound by memory as long as it does fewer operations per byte than the machine's peak does;"
    " below that ridge bandwidth decides what can be attained. Measuring against the peak alone would call a "
    "well-made addition slow."
)
"""Why the reference is written as it is."""
REQUIRED = ("ridge-reversed", "fraction-of-peak-not-roof")
"""The mistakes that a check must always be able to name."""


class Roof:
    """A right answer, as an object that is called. Each mistake below is this one with one method written otherwise."""

    def __call__(
        self, flops: float, bytes: float, seconds: float, peak_flops: float, peak_bandwidth: float
    ) -> dict[str, object]:
        self.flops, self.bytes, self.seconds = flops, bytes, seconds
        self.peak_flops, self.peak_bandwidth = peak_flops, peak_bandwidth
        bound = "compute" if self.compute_bound() else "memory"
        return {
            "achieved": self.achieved(), "intensity": self.intensity(), "bound": bound, "fraction": self.fraction()
        }  # fmt: skip

    def achieved(self) -> float:
        return self.flops / self.seconds

    def intensity(self) -> float:
        return self.flops / self.bytes

    def compute_bound(self) -> bool:
        return self.intensity() >= self.peak_flops / self.peak_bandwidth

    def fraction(self) -> float:
        return self.flops / self.seconds / self.roof()

    def roof(self) -> float:
        return min(self.peak_flops, self.intensity() * self.peak_bandwidth)


class RidgeReversed(Roof):
    def compute_bound(self) -> bool:
        return self.intensity() < self.peak_flops / self.peak_bandwidth


class RidgeTurnedOver(Roof):
    def compute_bound(self) -> bool:
        return self.intensity() >= self.peak_bandwidth / self.peak_flops


class RidgeAtOne(Roof):
    def compute_bound(self) -> bool:
        return self.intensity() >= 1


class RidgeCountsAsMemory(Roof):
    def compute_bound(self) -> bool:
        return self.intensity() > self.peak_flops / self.peak_bandwidth


class IntensityTurnedOver(Roof):
    def intensity(self) -> float:
        return self.bytes / self.flops


class FractionOfPeak(Roof):
    def roof(self) -> float:
        return self.peak_flops


class FractionOfBandwidth(Roof):
    def roof(self) -> float:
        return self.intensity() * self.peak_bandwidth


class FractionOfTheHigherLimit(Roof):
    def roof(self) -> float:
        return max(self.peak_flops, self.intensity() * self.peak_bandwidth)


class BandwidthIsTheRoof(Roof):
    def roof(self) -> float:
        return self.peak_flops if self.compute_bound() else self.peak_bandwidth


class FractionTurnedOver(Roof):
    def fraction(self) -> float:
        return 1 / super().fraction()


class FractionInPercent(Roof):
    def fraction(self) -> float:
        return 100 * super().fraction()


class AchievedIsAProduct(Roof):
    def achieved(self) -> float:
        return self.flops * self.seconds


class AchievedInTera(Roof):
    def achieved(self) -> float:
        return super().achieved() / 1e12


class AchievedIsBandwidth(Roof):
    def achieved(self) -> float:
        return self.bytes / self.seconds


ROOF = "The roofline"
FRACTION = 'In the case "{case}" the fraction is {fraction} where {wanted_fraction} is right: '
ABOVE = FRACTION + "the roof is the lower of the two limits."
RIDGE = (
    'In the case "{case}" the operation came out as bound by {bound}, with an intensity of {intensity}: the ridge is '
    "peak_flops / peak_bandwidth, which is {ridge}."
)
ACHIEVED = 'In the case "{case}" `achieved` is {achieved} where {wanted_achieved} is right: '
MISTAKES = [
    Mistake("ridge-reversed", RidgeReversed(), 'In the case "{case}" the operation came out as bound by {bound}, with '
            "an intensity of {intensity} and the ridge at {ridge}: few operations a byte leave the chip waiting for "
            "memory.",
            ROOF),
    Mistake("fraction-of-peak-not-roof", FractionOfPeak(), FRACTION + "where memory is the bound, the peak is out of "
            "reach, and the roof is the intensity times the bandwidth.", ROOF),
    Mistake("ridge-counts-as-memory", RidgeCountsAsMemory(), 'In the case "{case}" the operation came out as bound by '
            "{bound}, with an intensity of {intensity} and the ridge at {ridge}: from the ridge up, compute is the "
            "bound.", ROOF),
    Mistake("intensity-turned-over", IntensityTurnedOver(), 'In the case "{case}" the intensity is {intensity} where '
            "{wanted_intensity} is right: operations for each byte, not bytes for each operation.", ROOF),
    Mistake("ridge-reversed", RidgeTurnedOver(), RIDGE, ROOF),
    Mistake("ridge-reversed", RidgeAtOne(), RIDGE, ROOF),
    Mistake("fraction-above-the-roof", FractionOfBandwidth(), ABOVE, ROOF),
    Mistake("fraction-above-the-roof", FractionOfTheHigherLimit(), ABOVE, ROOF),
    Mistake("bandwidth-is-no-roof", BandwidthIsTheRoof(), FRACTION + "the bandwidth counts bytes; multiplied by the "
            "intensity it becomes a limit on operations.", ROOF),
    Mistake("achieved-in-tera", AchievedInTera(), ACHIEVED + "operations per second are wanted, not trillions of them.",
            ROOF),
    Mistake("fraction-turned-over", FractionTurnedOver(), FRACTION + "the fraction is the rate divided by the roof, "
            "not the roof divided by the rate.", ROOF),
    Mistake("fraction-in-percent", FractionInPercent(), FRACTION + "a fraction is wanted, not percent.", ROOF),
    Mistake("achieved-is-no-rate", AchievedIsAProduct(), ACHIEVED + "it is the operations divided by the seconds.",
            ROOF),
    Mistake("achieved-is-bandwidth", AchievedIsBandwidth(), ACHIEVED + "operations for each second are meant, not "
            "bytes.", ROOF),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    def drawn(name: str, peak: float, bandwidth: float, intensity: float) -> Case:
        moved = 2.0 ** draw.size(10, 40)
        share = draw.size(1, 15) / 16
        flops = moved * intensity
        seconds = flops / (share * min(peak, intensity * bandwidth))
        inputs = {"flops": flops, "bytes": moved, "seconds": seconds, "peak_flops": peak, "peak_bandwidth": bandwidth}
        return case(name, rtol=1e-6, atol=0.0, **inputs)

    return [
        drawn("a chip with its ridge at 16", 2.0**40, 2.0**36, 15.0),
        drawn("at the ridge of another chip", 2.0**40, 2.0**36, 16.0),
        drawn("a chip whose memory is faster than itself", 2.0**30, 2.0**31, 0.75),
        drawn("far above", 2.0**40, 2.0**36, 4096.0),
        drawn("far below", 2.0**40, 2.0**36, 1 / 64),
    ]


# Right answers unlike the reference


def roofline_by_times(
    flops: float, bytes: float, seconds: float, peak_flops: float, peak_bandwidth: float
) -> dict[str, Any]:
    computing, moving = flops / peak_flops, bytes / peak_bandwidth
    return {
        "fraction": max(computing, moving) / seconds,
        "bound": "memory" if computing < moving else "compute",
        "intensity": flops / bytes,
        "achieved": flops / seconds,
    }


def roofline_by_ridge(
    flops: float, bytes: float, seconds: float, peak_flops: float, peak_bandwidth: float
) -> dict[str, Any]:
    result: dict[str, Any] = {"achieved": flops / seconds, "intensity": flops / bytes}
    ridge = peak_flops / peak_bandwidth
    if result["intensity"] < ridge:
        result["bound"], roof = "memory", peak_bandwidth * result["intensity"]
    else:
        result["bound"], roof = "compute", peak_flops
    result["fraction"] = result["achieved"] / roof
    return result


RIGHT_ANSWERS: list[Callable[..., Any]] = [roofline_by_times, roofline_by_ridge]
