"""The exercise `first_divergence`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.diagnosed_models import changed_modes, count_of_hooks, hooks, left_hooks, modes, modes_now
from torchcourse.probes.observe import kept, kind
from torchcourse.probes.winding_models import winding

EQUAL: dict[str, str] = {}


def probe(
    answer: Watched, x: Tensor, seed: int, both: dict[str, str], candidate: dict[str, str], extra: bool, again: bool,
    allowed: float,
) -> Observations:  # fmt: skip
    """Observe the name, the modes afterwards and the hooks left behind; `both` and `candidate` are flaws by name."""
    one = winding(x.shape[1], seed, both, x, "notes" if extra else "", again)
    other = winding(x.shape[1], seed, both | candidate, x, "adapter" if extra else "", again)
    other.eval()
    other.decoder.train()
    before, hooked, raw = modes(one, other), hooks(one) + hooks(other), x.clone()
    found = answer(one, other, x, atol=allowed)
    return {
        "first": "None" if found is None else found if isinstance(found, str) else kind(found),
        "hooks left": left_hooks(hooks(one) + hooks(other) - hooked),
        **modes_now(before, one, other),
        **kept(x=(x, raw)),
    }


def cases(draw: Draw) -> list[Case]:
    def drawn(
        candidate: dict[str, str], both: dict[str, str] = EQUAL, extra: bool = False, again: bool = False,
        allowed: float = 1e-4,
    ) -> dict[str, Any]:  # fmt: skip
        x = draw.normal(draw.size(3, 4), draw.size(4, 6))
        return {"x": x, "seed": draw.size(0, 9999), "both": both, "candidate": candidate, "extra": extra,
                "again": again, "allowed": allowed}  # fmt: skip

    return [
        case("the same numbers", **drawn({})),
        case("a layer of the encoder", **drawn({"encoder.1.0": "shifted"}, allowed=0.003)),
        case("a difference below atol", **drawn({"encoder.0": "shifted"}, allowed=0.5)),
        case("the decoder's own arithmetic", **drawn({"decoder.block": "1.1"}, again=True)),
        case("a small share of large numbers", **drawn({"decoder.block": "1000.002"}, both={"decoder.block": "1000"})),
        case("the model's own arithmetic, outside all submodules", **drawn({"": "1.1"})),
        case("a difference that an in-place relu wipes out", **drawn({"decoder.block.first": "negatives"})),
        case("the head and the spare part", **drawn({"head": "shifted", "spare": "shifted"})),
        case("in the second tensor of two outputs", **drawn({"encoder.0": "shifted extra", "encoder.1.0":
             "shifted extra"}, both={"encoder.0": "fine extra", "encoder.1.0": "fine extra"})),
        case("NaN on one side", **drawn({"encoder.1.1": "nan"})),
        case("NaN on both sides, then a difference", **drawn({"head": "shifted"}, both={"encoder.1.0": "nan"})),
        case("infinity on both sides", **drawn({}, both={"decoder.block.second": "inf"})),
        case("another shape", **drawn({"head": "wrapped"})),
        case("in the first of two calls", **drawn({"encoder.0": "shifted extra 0"}, both={"encoder.0": "fine extra"},
             again=True)),
        case("submodules that only one has", **drawn({"encoder.1.1": "shifted"}, extra=True)),
    ]  # fmt: skip


def quotes(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"found": seen.get("first") or "an empty name", "right": wanted.get("first")}
    return fields | {
        "left": count_of_hooks(seen),
        "modes": changed_modes(seen),
    }


EXERCISE = Exercise(
    "first_divergence",
    probe,
    cases,
    hints=(
        "Do it in two halves: one function that runs a model and returns what each submodule put out, in the order of "
        "completion; and one that compares two such records. Who may change a tensor after a hook has seen it?",
        "A submodule may run more than once, so a name alone is not a key. What would make one, so that the second "
        "call is compared with the second?",
        "`>` with NaN is False, and infinity minus infinity is NaN. `torch.allclose` has an option for the first and "
        "copes with the second; which of its other defaults has to be set to 0?",
    ),
    quotes=quotes,
)
