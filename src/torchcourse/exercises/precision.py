"""Lesson 07: probes, visible cases and hints. What is right is not written here."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

from torchcourse.exercise import Case, Draw, Exercise, case
from torchcourse.exercises.looking import kept, kind, look, of_one_tensor
from torchcourse.exercises.mixed import Halved, Spoiled, report_model
from torchcourse.exercises.trainable import LOSSES, drawn_weights, flat, number, plainly_float
from torchcourse.observations import Observations
from torchcourse.probing import Watched

HALF, BRAIN, SINGLE = torch.float16, torch.bfloat16, torch.float32

# --- float_fields ------------------------------------------------------------------------------------------------

FIELDS = ("sign", "exponent", "mantissa")


def probe_fields(answer: Watched, x: float, dtype: torch.dtype) -> dict[str, Any]:
    fields = answer(x, dtype)
    if not isinstance(fields, tuple | list) or len(fields) != 3:
        return {"returned": kind(fields)}
    return {name: int(f) if isinstance(f, int) else _told(f) for name, f in zip(FIELDS, fields, strict=True)}


def _told(value: object) -> object:
    """A number of another kind as it is (NumPy's integers count as integers), of anything else what it is."""
    return kind(value) if isinstance(value, Tensor) or not hasattr(value, "__float__") else value


def cases_fields(draw: Draw) -> list[Case]:
    some, low = draw.uniform(2, 9).item(), -draw.uniform(0.01, 0.9).item()
    return [
        case("one, in float16", x=1.0, dtype=HALF),
        case("a tenth, in float16", x=0.1, dtype=HALF),
        case("a tenth, in bfloat16", x=0.1, dtype=BRAIN),
        case("a tenth, in float32", x=0.1, dtype=SINGLE),
        case("a third, in bfloat16", x=float(torch.tensor(1 / 3)), dtype=BRAIN),
        case("some number, in bfloat16", x=some, dtype=BRAIN),
        case("a negative number, in float16", x=low, dtype=HALF),
        case("a negative number, in float32", x=low, dtype=SINGLE),
        case("minus zero, in bfloat16", x=-0.0, dtype=BRAIN),
        case("a subnormal number of float16", x=-3 * 2.0**-24, dtype=HALF),
        case("too large for float16", x=70000.0, dtype=HALF),
        case("half way, to the even neighbour", x=1 + 2.0**-8, dtype=BRAIN),
        case("rounded up to the next power of two", x=1.9999, dtype=HALF),
    ]


def quotes_fields(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    return {
        "number": repr(inputs["x"]),
        "fields": str(tuple(seen.get(name, "?") for name in FIELDS)),
        "right": str(tuple(wanted.get(name, "?") for name in FIELDS)),
    }


float_fields = Exercise(
    "float_fields",
    probe_fields,
    cases_fields,
    hints=(
        "A tensor of the wanted dtype holds the rounded number already. Which method reads the same bits as an "
        "integer, without converting the number?",
        "How many bits do exponent and mantissa take in each of the three formats? `torch.finfo(dtype).bits` and "
        "`.eps` say all that you need: eps is two to the minus mantissa bits.",
        "A signed integer shifted right fills up with ones where it is negative. What do you keep with `&` before you "
        "shift, so that only the bits of the format are left?",
    ),
    any_device=False,
    quotes=quotes_fields,
)  # fmt: skip

# --- lost_updates ------------------------------------------------------------------------------------------------


def probe_lost(answer: Watched, w: Tensor, update: Tensor, dtype: torch.dtype) -> dict[str, Any]:
    before = w.clone(), update.clone()
    lost = answer(w, update, dtype)
    return {**look(lost, w), **kept(w=(w, before[0]), update=(update, before[1]))}


def _steps_of(draw: Draw, *shape: int) -> Tensor:
    """Numbers with three significant bits, which every format holds exactly, of either sign."""
    return torch.where(draw.flags(*shape), 1.0, -1.0) * draw.integers(4, 8, *shape, dtype=SINGLE) / 4


def cases_lost(draw: Draw) -> list[Case]:
    n = draw.size(12, 16)
    spread = _steps_of(draw, n) * 2.0 ** -draw.integers(3, 16, n, dtype=SINGLE)
    below = torch.tensor([2.0**-26, -(2.0**-30), 1e-9, 0.0, 2.0**-12, 1.0])
    return [
        case("bfloat16", w=draw.uniform(1, 2, n), update=spread, dtype=BRAIN),
        case("float16", w=draw.uniform(-2, -1, n), update=spread, dtype=HALF),
        case("float32 loses little", w=draw.uniform(1, 2, n), update=spread * 2.0**-10, dtype=SINGLE),
        case("some updates are zero", w=draw.normal(2, 6), update=draw.flags(2, 6) * 2.0**-14, dtype=BRAIN),
        case("updates that underflow", w=torch.tensor([0.0, 1.0, 0.5, 2.0, 0.25, 0.0]), update=below, dtype=HALF),
        case("weights of many sizes", w=_steps_of(draw, 14) * 2.0 ** torch.arange(-7.0, 7.0),
             update=torch.full((14,), 2.0**-7), dtype=BRAIN),
        case("weights that lie between two numbers", w=1 + 2.0**-8 * torch.tensor([0.25, 0.375, 0.5625, 0.75]),
             update=2.0**-8 * torch.tensor([0.875, 0.75, 0.625, 0.5]), dtype=BRAIN),
    ]  # fmt: skip


def quotes_at(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    """The weight and the update where the result first differs."""
    got, want = seen["result"], wanted["result"]
    place = int((got != want).flatten().nonzero()[0])
    return {"weight": inputs["w"].flatten()[place].item(), "step": inputs["update"].flatten()[place].item()}


lost_updates = Exercise(
    "lost_updates",
    probe_lost,
    cases_lost,
    hints=(
        "The weight lives in `dtype`, and so does the update when it arrives. What is compared with what, once both "
        "have been cast and added?",
        "An update can be lost in two ways: it becomes zero when it is cast, or it is too small beside the weight. "
        "Does your comparison see both?",
        "Where nothing was to be added, nothing can be lost. In which dtype must you ask whether an update is zero?",
    ),
    quotes=quotes_at,
)

# --- underflow_fraction ------------------------------------------------------------------------------------------


def probe_number(answer: Watched, grads: Any, dtype: torch.dtype | None) -> dict[str, Any]:
    tensors = grads if isinstance(grads, list) else [grads]
    before = [g.clone() for g in tensors]
    returned = answer(grads) if dtype is None else answer(grads, dtype)
    same = all(torch.equal(g, b) for g, b in zip(tensors, before, strict=True))
    return {"returned": plainly_float(returned), "gradients afterwards": "as before" if same else "changed"}


def _spread(draw: Draw, low: int, high: int, *shape: int) -> Tensor:
    """Numbers of either sign, of about two to the power of `low` up to `high`."""
    return _steps_of(draw, *shape) * 2.0 ** draw.integers(low, high, *shape, dtype=SINGLE)


def cases_underflow(draw: Draw) -> list[Case]:
    n = draw.size(20, 30)
    many = torch.where(draw.flags(5, 8), _spread(draw, -34, -8, 5, 8), 0.0)
    uneven = [_spread(draw, -40, -26, 3), _spread(draw, -32, -5, 20), _spread(draw, -10, 0, 4, 4)]
    return [
        case("float16", grads=_spread(draw, -36, -4, n), dtype=HALF),
        case("half of them zero before", grads=many, dtype=HALF),
        case("bfloat16 keeps them all", grads=_spread(draw, -60, -4, n), dtype=BRAIN),
        case("bfloat16 has an end too", grads=1e-20 * (1e-20 * _spread(draw, -14, 4, n)), dtype=BRAIN),
        case("subnormal but not zero", grads=_spread(draw, -23, -15, n), dtype=HALF),
        case("a list of tensors of different sizes", grads=uneven, dtype=HALF),
        case("all zero", grads=torch.zeros(3, 2), dtype=HALF),
        case("a list of zeros", grads=[torch.zeros(2), torch.zeros(1)], dtype=BRAIN),
    ]


def quotes_underflow(inputs: Observations, _seen: Observations, _wanted: Observations) -> dict[str, object]:
    grads, dtype = inputs["grads"], inputs["dtype"]
    tensors = [g.flatten() for g in (grads if isinstance(grads, list) else [grads])]
    g = torch.cat(tensors)
    gone, some = int(((g != 0) & (g.to(dtype) == 0)).sum()), int((g != 0).sum())
    return {"gone": gone, "some": some, "all": g.numel(), "pieces": len(tensors)}


underflow_fraction = Exercise(
    "underflow_fraction",
    probe_number,
    cases_underflow,
    hints=(
        "Which gradients can become zero at all? Count them, and among them those that are zero after the cast.",
        "The smallest normal number of float16 is 6e-5, but below it there are numbers still. Can you let the cast "
        "itself decide, rather than a threshold?",
        "A list may hold one tensor of three gradients and one of a million. Is the share of the whole the mean of the "
        "two shares? And what if there is nothing to divide by?",
    ),
    quotes=quotes_underflow,
)

# --- best_loss_scale ---------------------------------------------------------------------------------------------


def cases_scale(draw: Draw) -> list[Case]:
    small = 10.0 ** draw.uniform(-7, -3, 4, 5)
    return [
        case("small gradients", grads=torch.where(draw.flags(4, 5), small, -small), dtype=HALF),
        case("the dtype that is the default", grads=draw.uniform(0.5, 3, 6) * 1e-4, dtype=None),
        case("the largest one is negative", grads=torch.tensor([1e-5, -0.75, 2e-3]), dtype=HALF),
        case("too large as they are", grads=draw.uniform(-3e5, 3e5, 12).clamp(-4e5, -1e5), dtype=HALF),
        case("a list, the largest in the middle", grads=[1e-4 * draw.normal(3), draw.uniform(1, 2, 2, 2),
             1e-2 * draw.normal(5)], dtype=HALF),
        case("exactly a power of two", grads=torch.tensor([2.0**-10, 2.0**-12]), dtype=HALF),
        case("almost at the edge", grads=torch.tensor([65504 * 2.0**-12, 1.0]), dtype=HALF),
        case("bfloat16", grads=draw.uniform(2, 100, 5), dtype=BRAIN),
        case("all zero", grads=torch.zeros(4), dtype=HALF),
        case("a list of zeros", grads=[torch.zeros(2), torch.zeros(3, 1)], dtype=HALF),
    ]  # fmt: skip


def quotes_scale(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    grads, dtype = inputs["grads"], inputs["dtype"] or HALF
    largest = max(g.abs().max().item() for g in (grads if isinstance(grads, list) else [grads]))

    def times(scale: object) -> object:
        return largest * scale if isinstance(scale, float) else "…"

    return {
        "largest": largest, "product": times(seen["returned"]), "right_product": times(wanted["returned"]),
        "limit": f"{torch.finfo(dtype).max:.5g}", "format": dtype, "scale": repr(seen["returned"]),
        "right_scale": repr(wanted["returned"]),
    }  # fmt: skip


best_loss_scale = Exercise(
    "best_loss_scale",
    probe_number,
    cases_scale,
    hints=(
        "Only one gradient decides how far all of them may be scaled. Which one, whatever its sign, and in which of "
        "the tensors?",
        "How often can you double that number before it becomes inf in `dtype`? A logarithm to the base two says it at "
        "once, a loop with `torch.isfinite` says it surely.",
        "What should happen where the largest gradient is already above the range: can a power of two be smaller than "
        "one? And where there is nothing to scale?",
    ),
    quotes=quotes_scale,
)

# --- autocast_dtype ----------------------------------------------------------------------------------------------


class _Gpus:
    """GPUs of given compute capability, as `torch.cuda` would tell of them."""

    def __init__(self, chips: list[list[int]]) -> None:
        self.chips, self.now = [(major, minor) for major, minor in chips], 0

    def of(self, device: Any = None) -> tuple[int, int]:
        index = device if isinstance(device, int) or device is None else torch.device(device).index
        return self.chips[self.now if index is None else index]

    def properties(self, device: Any = None) -> Any:
        major, minor = self.of(device)
        return SimpleNamespace(name="a GPU", major=major, minor=minor, total_memory=2**34, multi_processor_count=64)

    def is_bf16_supported(self, including_emulation: bool = True) -> bool:
        return bool(self.chips) and (including_emulation or self.of()[0] >= 8)

    @contextlib.contextmanager
    def selected(self, device: Any) -> Iterator[None]:
        before = self.now
        self.set_device(device)
        try:
            yield
        finally:
            self.now = before

    def set_device(self, device: Any) -> None:
        index = device if isinstance(device, int) else torch.device(device).index
        self.now = self.now if index is None else index

    def in_place(self) -> contextlib.AbstractContextManager[Any]:
        """A block in which `torch.cuda` tells of these GPUs."""
        return mock.patch.multiple(
            torch.cuda, is_available=lambda: bool(self.chips), device_count=lambda: len(self.chips),
            current_device=lambda: self.now, get_device_capability=self.of, get_device_properties=self.properties,
            is_bf16_supported=self.is_bf16_supported, device=self.selected, set_device=self.set_device,
            get_device_name=lambda _device=None: "a GPU",
        )  # fmt: skip


def probe_autocast_dtype(answer: Watched, device: str, chips: list[list[int]]) -> dict[str, Any]:
    with _Gpus(chips).in_place():
        dtype = answer(torch.device(device))
    return {"returned": dtype if isinstance(dtype, torch.dtype) else kind(dtype)}


def cases_autocast_dtype(draw: Draw) -> list[Case]:
    return [
        case("a CPU, no GPU beside it", device="cpu", chips=[]),
        case("the CPU of a machine with a GPU", device="cpu", chips=[[9, 0]]),
        case("compute capability 7.5", device="cuda", chips=[[7, 5]]),
        case("compute capability 8.0", device="cuda", chips=[[8, 0]]),
        case("compute capability 8.9", device="cuda:0", chips=[[8, 9]]),
        case("compute capability 9.0", device="cuda", chips=[[9, 0]]),
        case("compute capability 12.0", device="cuda", chips=[[12, 0]]),
        case("compute capability 6.1", device="cuda:0", chips=[[6, 1]]),
        case("the second of two, an older one", device="cuda:1", chips=[[8, 6], [7, draw.pick([0, 5])]]),
        case("the second of two, a newer one", device="cuda:1", chips=[[7, 5], [draw.pick([8, 9]), 0]]),
    ]


def quotes_chip(inputs: Observations, _seen: Observations, _wanted: Observations) -> dict[str, object]:
    index = torch.device(inputs["device"]).index or 0
    chip = inputs["chips"][index] if inputs["device"] != "cpu" else None
    return {"chip": f"{chip[0]}.{chip[1]}" if chip else "none"}


autocast_dtype = Exercise(
    "autocast_dtype",
    probe_autocast_dtype,
    cases_autocast_dtype,
    hints=(
        "Start with what kind of device it is. On which kind does the answer depend on the very chip, and on which is "
        "it always the same?",
        "From which compute capability on do NVIDIA's chips compute in bfloat16 themselves? "
        "`torch.cuda.get_device_capability(device)` gives it as (major, minor).",
        "`torch.cuda.is_bf16_supported()` also counts emulation, and asks the current device. Which argument leaves "
        "the emulation out, and is the current device the one you were given?",
    ),
    any_device=False,
    quotes=quotes_chip,
)

# --- autocast_report ---------------------------------------------------------------------------------------------


def _hooks(model: nn.Module) -> int:
    own = sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())
    everywhere = nn.modules.module
    return own + len(everywhere._global_forward_hooks) + len(everywhere._global_forward_pre_hooks)


def _hooks_afterwards(before: int, after: int) -> str:
    if after == before:
        return "as before"
    return f"{after - before} left behind" if after > before else f"{before - after} of the model's own are gone"


def probe_report(
    answer: Watched, model: str, width: int, x: Tensor, dtype: torch.dtype, hooked: bool
) -> dict[str, Any]:
    built = report_model(model, width).to(x.device).eval()
    if hooked:
        next(m for m in built.modules() if not any(m.children())).register_forward_hook(lambda *_: None)
    before, everywhere = _hooks(built), nn.modules.module._global_forward_hooks
    known = set(everywhere)
    seen: dict[str, Any] = {}
    try:
        report = answer(built, x, dtype)
        names = isinstance(report, dict)
        seen = {"report": {str(k): _dtype(v) for k, v in report.items()}} if names else {"returned": kind(report)}
    except RuntimeError:
        if model != "breaking":
            raise
        seen = {"report": "the model's own error came through"}
    seen["hooks afterwards"] = _hooks_afterwards(before, _hooks(built))
    seen["autocast afterwards"] = "on" if torch.is_autocast_enabled(x.device.type) else "off"
    for left in set(everywhere) - known:
        del everywhere[left]
    torch.set_autocast_enabled(x.device.type, False)
    return seen


def _dtype(value: object) -> object:
    return value if isinstance(value, torch.dtype | str) else kind(value)


def cases_report(draw: Draw) -> list[Case]:
    width, n = draw.size(3, 5), draw.size(2, 4)

    def on(model: str, dtype: torch.dtype, hooked: bool = False) -> dict[str, Any]:
        return {"model": model, "width": width, "x": draw.normal(n, width), "dtype": dtype, "hooked": hooked}

    return [
        case("layers in a row", **on("row", BRAIN)),
        case("modules inside modules", **on("nested", HALF)),
        case("a single layer", **on("single", BRAIN)),
        case("a normalisation by hand", **on("statistics", BRAIN)),
        case("a hook is there already", **on("row", HALF, hooked=True)),
        case("a model that breaks midway", **on("breaking", BRAIN)),
    ]


def quotes_report(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    got, want = seen["report"], wanted["report"]
    layer = next(name for name in [*want, *got] if got.get(name, "nothing") != want.get(name, "nothing"))
    return {"layer": layer or "the model itself", "layer_got": got.get(layer, "missing"),
            "layer_want": want.get(layer, "nothing")}  # fmt: skip


autocast_report = Exercise(
    "autocast_report",
    probe_report,
    cases_report,
    hints=(
        "A forward hook sees the output of the layer it sits on. Which modules of `named_modules()` are leaves: what "
        "do they not have?",
        "On which device does autocast have to be switched on? `x` knows. And who told it the dtype?",
        "Every `register_forward_hook` returns a handle. Where do you remove them, so that they are gone also when the "
        "model raises, and no hook of somebody else is?",
    ),
    quotes=quotes_report,
)

# --- safe_mean ---------------------------------------------------------------------------------------------------


def cases_mean(draw: Draw) -> list[Case]:
    n = draw.size(300, 400)
    near = {"rtol": 2e-3, "atol": 1e-7}
    return [
        case("float16, ordinary", **near, x=draw.uniform(1, 2, n, dtype=HALF)),
        case("the sum does not fit in float16", **near, x=draw.uniform(500, 900, n, dtype=HALF)),
        case("in two dimensions", **near, x=draw.uniform(3e4, 6e4, 6, 5, dtype=HALF)),
        case("tiny numbers", **near, x=1e-4 * draw.uniform(1, 2, 8 * n, dtype=HALF)),
        case("more numbers than float16 can count", **near, x=draw.uniform(3, 4, 1, dtype=HALF).expand(70_000)),
        case("bfloat16", rtol=1e-2, atol=1e-6, x=draw.uniform(1, 2, 2 * n, dtype=BRAIN)),
        case("large ones that cancel", rtol=1e-2, atol=1e-6, x=torch.tensor([6e4, 6e4, -6e4, -5e4], dtype=HALF)),
        case("a single number", **near, x=draw.uniform(6e4, 6.5e4, 1, dtype=HALF)),
    ]


def quotes_mean(inputs: Observations, _seen: Observations, _wanted: Observations) -> dict[str, object]:
    x = inputs["x"]
    return {"count": x.numel(), "sum": x.double().sum().item(), "limit": f"{torch.finfo(x.dtype).max:.5g}"}


safe_mean = Exercise(
    "safe_mean",
    of_one_tensor,
    cases_mean,
    hints=(
        "The mean always fits: it lies between the smallest and the largest number. What on the way does not fit?",
        "In which dtype can the sum of a million float16 numbers be held? Most reductions of torch take a `dtype` in "
        "which they shall work.",
        "Dividing before adding avoids the large sum. What becomes of a number like 1e-4 when it is divided by some "
        "thousands in float16?",
    ),
    quotes=quotes_mean,
)

# --- LossScaler --------------------------------------------------------------------------------------------------

SPOILT = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
FIRST = " in the first"  # of an optimizer's gradients


class _Learner:
    """Two parameters, a group each, with an optimizer that notes when it ran, and on which gradients. Where `idle`, it
    has a third one, which never gets a gradient."""

    def __init__(self, gradient: Tensor, idle: bool) -> None:
        self.gradient = gradient
        self.weights = [nn.Parameter(torch.ones_like(part)) for part in (gradient[:1], gradient[1:])]
        others = [nn.Parameter(torch.ones_like(gradient))] if idle else []
        groups = [{"params": self.weights[:1]}, {"params": [*others, *self.weights[1:]]}]
        self.optimizer = torch.optim.SGD(groups, lr=0.1, momentum=0.5)
        self.seen: list[Tensor] = []
        self.optimizer.register_step_pre_hook(self._note)

    def _note(self, *_: object) -> None:
        self.seen.append(flat(weight.grad for weight in self.weights if weight.grad is not None))

    def loss(self) -> Tensor:
        return (torch.cat(list(self.weights)) * self.gradient).sum()

    def spoil(self, how: str) -> None:
        value, first, _ = how.partition(FIRST)
        gradient = self.weights[0 if first else -1].grad
        if value in SPOILT and gradient is not None:
            gradient[-1] = SPOILT[value]


def probe_scaler(
    answer: Watched, options: dict[str, float], pattern: list[str], gradients: list[Tensor], idle: bool
) -> dict[str, Any]:
    """Replays a pattern: for each update, and each optimizer, "fine" or what one of its gradients holds."""
    learners, scaler = [_Learner(g, idle) for g in gradients], answer(**options)
    one = torch.ones((), device=gradients[0].device)
    scales, stepped, ran = list[Any](), list[Any](), list[bool]()
    for number_, round_ in enumerate(pattern):  # one round is enough to see what an answer is made of
        watched = contextlib.nullcontext if number_ else answer.watched
        scales.append(number(scaler.scale(one.clone())))
        for learner in learners:
            learner.optimizer.zero_grad()
        with watched():
            scaled = scaler.scale(sum(learner.loss() for learner in learners))
        scaled.backward()
        for learner, how in zip(learners, round_.split(","), strict=True):
            learner.spoil(how)
            before = len(learner.seen)
            with watched():
                did = scaler.step(learner.optimizer)
            stepped.append(kind(did) if did is None or isinstance(did, str) else bool(did))
            ran.append(len(learner.seen) > before)
        with watched():
            scaler.update()
    scales.append(number(scaler.scale(one.clone())))
    return {
        "scales": scales,
        "the optimizer ran": ran,
        "step returned": stepped,
        "gradients that the optimizer saw": [g for learner in learners for g in learner.seen[:2]],
        "parameters afterwards": flat(weight for learner in learners for weight in learner.weights),
    }


def _drawn_pattern(draw: Draw, length: int, share: float) -> list[str]:
    spoilt = ["inf", "nan", "-inf", f"inf{FIRST}", f"nan{FIRST}"]
    return [draw.pick(spoilt) if flag else "fine" for flag in draw.flags(length, share=share)]


def cases_scaler(draw: Draw) -> list[Case]:
    def replay(pattern: list[str], learners: int = 1, idle: bool = False, **options: float) -> dict[str, Any]:
        gradients = [draw.normal(3) for _ in range(learners)]
        return {"options": options, "pattern": pattern, "gradients": gradients, "idle": idle}

    fine, bad = "fine", draw.pick(["inf", "-inf"])
    return [
        case("one overflow, as it comes", **replay([fine, bad, fine])),
        case("growing every second update", **replay([fine] * 5, scale=8.0, interval=2)),
        case("a NaN", **replay([fine, "nan", fine, fine], scale=256.0, interval=3)),
        case("an overflow between", **replay([fine, fine, bad + FIRST, *[fine] * 4], scale=64.0, interval=3)),
        case("a row of overflows", **replay([bad, "nan", fine, fine], scale=2.0, interval=2)),
        case("growing from a high scale", **replay([fine, fine], scale=2.0**24, interval=1)),
        case("other factors", **replay([fine, fine, bad, fine], scale=100.0, growth=3.0, backoff=0.25, interval=1)),
        case("two optimizers, the first overflows", **replay(["inf,fine", "fine,fine"], 2, scale=32.0, interval=2)),
        case("two optimizers, the second overflows", **replay(["fine,fine", "fine,inf", "fine,fine"], 2, scale=32.0)),
        case("a parameter without gradient", **replay([fine, "nan", fine], idle=True)),
        case("a drawn pattern", **replay(_drawn_pattern(draw, 8, 0.3), scale=1024.0, interval=2)),
    ]


def _exactly(value: object) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def quotes_scaler(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    got, want = seen["scales"], wanted["scales"]
    place = next((i for i, (g, w) in enumerate(zip(got, want, strict=False)) if g != w), None)
    known = place is not None
    return {
        "pattern": ", ".join(inputs["pattern"]), "interval": int(inputs["options"].get("interval", 2000)),
        "update": place if known else "no update", "scale_got": _exactly(got[place] if known else got[-1]),
        "scale_want": _exactly(want[place] if known else want[-1]),
        "steps": sum(seen["the optimizer ran"]), "right_steps": sum(wanted["the optimizer ran"]),
    }  # fmt: skip


loss_scaler = Exercise(
    "LossScaler",
    probe_scaler,
    cases_scaler,
    hints=(
        "Three things have to be remembered from call to call: the scale, how many updates in a row were fine, and one "
        "more, which `step` finds out and `update` needs. Which?",
        "`step` divides every gradient by the scale before the optimizer may see it. How do you learn whether all of "
        "them are finite, and what if a parameter has none?",
        "When does the count of good updates go back to zero? There are two occasions. And if two optimizers step "
        "before one update, whose overflow counts?",
    ),
    forbids=("torch.amp.grad_scaler", "torch.cuda.amp.grad_scaler", "torch.cpu.amp.grad_scaler"),
    quotes=quotes_scaler,
)

# --- amp_step ----------------------------------------------------------------------------------------------------


def probe_amp(
    answer: Watched, weights: dict[str, Tensor], xs: list[Tensor], ys: list[Tensor], loss: str, dtype: torch.dtype,
    max_norm: float | None, scale: float, options: dict[str, float], stale: float,
) -> dict[str, Any]:  # fmt: skip
    device = xs[0].device
    task = Halved(weights, LOSSES[loss], device)
    optimizer = torch.optim.SGD(task.model.parameters(), lr=0.1)
    scaler = Spoiled(task, device=device.type, init_scale=scale, **options)
    for parameter in task.model.parameters():
        parameter.grad = torch.full_like(parameter, stale) if stale else None
    more: dict[str, Any] = {} if max_norm is None else {"max_norm": max_norm}
    losses, scales, orders = list[Any](), list[float](), list[str]()
    for x, y in zip(xs, ys, strict=True):
        task.events.clear()
        losses.append(plainly_float(
            answer(task.model, (x, y), task.loss, optimizer, scaler, device=device, dtype=dtype, **more)
        ))  # fmt: skip
        orders.append(task.order(clipping=max_norm is not None))
        scales.append(scaler.get_scale())
    return {
        "model ran in": task.under["model"],
        "loss computed in": task.under["loss"],
        "order": orders[0],
        "scale after each step": scales,
        "returned": losses,
        "parameters afterwards": flat(task.model.parameters()),
    }


def cases_amp(draw: Draw) -> list[Case]:
    def task(sizes: list[int], loss: str, dtype: torch.dtype = BRAIN, *, max_norm: float | None = None,
             scale: float = 1024.0, stale: float = 0.0, **options: float) -> dict[str, Any]:  # fmt: skip
        inputs, hidden, outputs = 3, 5, draw.size(2, 3)
        xs = [draw.normal(n, inputs) for n in sizes]
        labels = loss == "cross entropy"
        ys = [draw.integers(0, outputs, n) if labels else 3 + draw.normal(n, outputs) for n in sizes]
        return {"weights": drawn_weights(draw, inputs, hidden, outputs), "xs": xs, "ys": ys, "loss": loss,
                "dtype": dtype, "max_norm": max_norm, "scale": scale, "options": options, "stale": stale}  # fmt: skip

    n, near = draw.size(4, 6), {"rtol": 2e-2, "atol": 5e-3}
    overflow = {"scale": 2.0**40, "backoff_factor": 2.0**-32}
    return [
        case("one step in float16", **near, **task([n], "cross entropy", HALF, growth_interval=1)),
        case("two steps in bfloat16", **near, **task([n, n], "mean squared error", growth_interval=2)),
        case("gradients left over from before", **near, **task([n], "cross entropy", stale=512.0, growth_interval=1)),
        case("gradients that are clipped", **near, **task([n], "mean squared error", max_norm=0.5)),
        case("an overflow, then a step", **near, **task([n, n], "mean squared error", HALF, **overflow)),
        case("an overflow while clipping", **near,
             **task([n, n], "mean squared error", HALF, max_norm=0.5, **overflow)),
    ]  # fmt: skip


amp_step = Exercise(
    "amp_step",
    probe_amp,
    cases_amp,
    hints=(
        "Write the training step of lesson 5 first. Which of its lines go inside `torch.autocast`, and with which "
        "device type and dtype?",
        "Three lines change: what `backward` is called on, who calls the optimizer's step, and one that comes after "
        "it. Which number do you return, the scaled one or the loss itself?",
        "`max_norm` is meant for gradients as they are. What are they multiplied by right after `backward`, and which "
        "method of the scaler takes it away for one optimizer?",
    ),
)

# --- MasterSGD ---------------------------------------------------------------------------------------------------


def _copies(optimizer: torch.optim.Optimizer, parameters: list[nn.Parameter]) -> str:
    """Whether the optimizer's state holds, for each parameter that was trained, its values in float32."""
    state = optimizer.state_dict()["state"]
    found = [_held(state.get(i, {}), p) for i, p in enumerate(parameters) if p.grad is not None]
    if all(SINGLE in dtypes for dtypes in found):
        return "one for each parameter that was trained"
    others = [str(dtype).removeprefix("torch.") for dtypes in found for dtype in dtypes if dtype != SINGLE]
    if others:
        return f"copies in {others[0]}"
    return "none" if not any(found) else "not for every parameter"


def _held(state: object, parameter: nn.Parameter) -> set[torch.dtype]:
    """The dtypes in which an optimizer's state of a parameter holds its values."""
    tensors = [t for t in state.values() if isinstance(t, Tensor)] if isinstance(state, dict) else []
    alike = [t for t in tensors if t.is_floating_point() and t.shape == parameter.shape]
    return {t.dtype for t in alike if torch.allclose(t.float(), parameter.detach().float(), rtol=1e-2, atol=1e-3)}


def probe_master(
    answer: Watched, values: list[Tensor], gradients: list[Tensor | None], lrs: list[float], steps: int, slower_at: int
) -> dict[str, Any]:
    parameters = [nn.Parameter(v.clone()) for v in values]
    dtypes = [p.dtype for p in parameters]
    if len(lrs) > 1:
        optimizer = answer([{"params": [p], "lr": lr} for p, lr in zip(parameters, lrs, strict=True)], lr=9.0)
    else:
        optimizer = answer(parameters, lr=lrs[0])
    for count in range(steps):
        if count == slower_at:
            for group in optimizer.param_groups:
                group["lr"] = 0.25 * group["lr"]
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = None if gradient is None else gradient.clone()
        optimizer.step()
    same = [p.dtype for p in parameters] == dtypes
    return {
        "parameters afterwards": [p.detach().float() for p in parameters],
        "dtype of the parameters": "as before" if same else "another",
        "float32 copies in the state": _copies(optimizer, parameters),
    }


def cases_master(draw: Draw) -> list[Case]:
    def task(dtype: torch.dtype, lr: float, steps: int, size: float = 1.0, **more: Any) -> dict[str, Any]:
        values = [1 + draw.uniform(0, 0.5, 3, dtype=dtype), 2 + draw.uniform(0, 0.5, 2, 2, dtype=dtype)]
        gradients = [size * draw.uniform(0.5, 1, *v.shape, dtype=dtype) for v in values]
        return {"values": values, "gradients": gradients, "lrs": [lr], "steps": steps, "slower_at": -1, **more}

    close = {"rtol": 8e-3, "atol": 1e-3}
    idle = task(BRAIN, 3e-3, 10)
    idle["values"].append(torch.ones(2, dtype=BRAIN))
    idle["gradients"].append(None)
    return [
        case("bfloat16, many small steps", **close, **task(BRAIN, 3e-3, 20)),
        case("float16, many small steps", rtol=1e-3, atol=1e-4, **task(HALF, 4e-4, 20)),
        case("uphill", **close, **task(BRAIN, 3e-3, 20, size=-1.0)),
        case("a parameter without gradient", **close, **idle),
        case("two groups", **close, **task(BRAIN, 0.0, 15, lrs=[3e-3, 6e-3])),
        case("lr lowered on the way", **close, **task(BRAIN, 3e-3, 20, slower_at=10)),
        case("a single large step", **close, **task(BRAIN, 0.5, 1)),
    ]


def quotes_master(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    starts = inputs["values"][0].flatten()[0].item()
    ends, should = (each["parameters afterwards"][0].flatten()[0].item() for each in (seen, wanted))
    return {"start": f"{starts:.5g}", "ended": f"{ends:.5g}", "should": f"{should:.5g}", "steps": inputs["steps"],
            "copies": seen["float32 copies in the state"]}  # fmt: skip


master_sgd = Exercise(
    "MasterSGD",
    probe_master,
    cases_master,
    hints=(
        "Which copy of the weights is the real one: the one that the model computes with, or the one that the updates "
        "are added to? Which direction does the copying go after each step?",
        "`self.state[p]` is an empty dict when a parameter comes for the first time. What do you put there then, and "
        "in which dtype?",
        "Two loops: over `self.param_groups`, and over the parameters of each. Where do you take the learning rate "
        "from, if it is to follow a schedule?",
    ),
    quotes=quotes_master,
)

EXERCISES = (
    float_fields, lost_updates, underflow_fraction, safe_mean, autocast_report, autocast_dtype, best_loss_scale,
    loss_scaler, amp_step, master_sgd,
)  # fmt: skip
