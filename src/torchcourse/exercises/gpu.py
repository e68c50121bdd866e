"""Lesson 06: probes, visible cases and hints. What is right is not written here."""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from torchcourse import simulated
from torchcourse.exercise import Case, Draw, Exercise, case
from torchcourse.exercises.clockwork import SETBACK, World
from torchcourse.exercises.handling import build, gradients, probing_a_module
from torchcourse.exercises.looking import kept, kind, look, of_one_tensor, refusal, where
from torchcourse.exercises.machines import MACHINES, pretending
from torchcourse.exercises.memory import kept_bytes
from torchcourse.exercises.trainable import remark
from torchcourse.observations import Observations, Raised
from torchcourse.probing import Watched

# --- pick_device -------------------------------------------------------------------------------------------------

BARE, BUILT_FOR_CPU, ONE, TWO, APPLE, INTEL = MACHINES


def probe_pick(answer: Watched, machine: str, prefer: str | None, as_device: bool, refuses: bool) -> Observations:
    wanted = torch.device(prefer) if as_device and prefer else prefer
    with pretending(MACHINES[machine]):
        if refuses:
            spelled = (prefer or "").partition(":")[2]
            told = [str(prefer), *([f"index={spelled}"] if spelled else [])]
            return refusal(lambda: answer(wanted), "prefer", told)
        device = answer() if wanted is None else answer(wanted)
    if not isinstance(device, torch.device):
        return {"returned": kind(device)}
    index = 0 if device.index is None else device.index  # "cuda" and "cuda:0" are the same device here
    return {"device": device.type if device.type == "cpu" else f"{device.type}:{index}"}


def cases_pick(draw: Draw) -> list[Case]:
    def on(machine: str, prefer: str | None = None, *, refuses: bool = False, as_device: bool = False) -> Case:
        words = "no preference" if prefer is None else f"prefer={prefer!r}"
        words = f"prefer=torch.device({prefer!r})" if as_device else words
        inputs: dict[str, Any] = {"machine": machine, "prefer": prefer, "as_device": as_device, "refuses": refuses}
        return case(f"{words} on {machine}", **inputs)

    far, typo = draw.size(4, 7), draw.pick(["gpu", "cdua", "nvidia", "tpu"])
    return [
        on(BARE),
        on(BUILT_FOR_CPU),
        on(ONE),
        on(APPLE),
        on(TWO, "cpu"),
        on(APPLE, "cpu"),
        on(TWO, "cuda:1"),
        on(TWO, "cuda:1", as_device=True),
        on(BARE, "cuda", refuses=True),
        on(APPLE, "cuda", refuses=True),
        on(ONE, typo, refuses=True),
        on(ONE, f"cuda:{far}", refuses=True),
    ]


def quotes_pick(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    error = seen.get("refused with")
    fields: dict[str, object] = {"outcome": error} if error is not None else {}
    if isinstance(error, Raised):
        fields["message"] = error.message
    if "device" in seen and "device" in wanted:
        fields |= {"chosen": seen["device"], "wanted_device": wanted["device"]}
    return fields


pick_device = Exercise(
    "pick_device",
    probe_pick,
    cases_pick,
    hints=(
        "`torch.accelerator.current_accelerator()` names the kind of accelerator that torch was built for. What does "
        "its argument `check_available` add, and what comes back where there is none?",
        "A preference may be a name that torch does not know, a kind that this machine has not got, or an index that "
        "is too large. Which of the three does `torch.device(prefer)` find out by itself?",
        "`torch.get_device_module('cuda')` gives the module of a kind of device. What do its `is_available()` and "
        "`device_count()` say, and how does the index of the preferred device compare?",
    ),
    any_device=False,
    quotes=quotes_pick,
)

# --- move_to -----------------------------------------------------------------------------------------------------

Batch = namedtuple("Batch", ["x", "mask"])
Sample = namedtuple("Sample", ["ids", "length", "text"])
TUPLES: dict[str, Any] = {"Batch": Batch, "Sample": Sample}


class Other:
    """Something that is no container and no tensor."""


def assembled(spec: Any) -> Any:
    """The object that a case describes: a dict with one of our words for a key stands for what is not plain data."""
    if isinstance(spec, dict):
        word: str
        inside: Any
        word, inside = next(iter(spec.items()), ("", None))
        if word in TUPLES:
            return TUPLES[word](*(assembled(item) for item in inside))
        if word == "a module":
            return nn.Linear(inside, 1)
        return Other() if word == "an object" else {key: assembled(item) for key, item in spec.items()}
    return type(spec)(assembled(item) for item in spec) if isinstance(spec, list | tuple) else spec


def brought(value: Any, device: torch.device) -> Any:
    """Plain data with its tensors on a device."""
    if isinstance(value, dict):
        return {key: brought(item, device) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(brought(item, device) for item in value)
    return value.to(device) if isinstance(value, Tensor) else value


def probe_move(answer: Watched, obj: Any, target: str, like: Tensor) -> Observations:
    host = torch.device("cpu")
    elsewhere = torch.device("meta") if like.device == host else host  # a place that differs from where obj is
    goal, source = {"elsewhere": (elsewhere, like.device), "device": (like.device, host)}[target]
    made = assembled(brought(obj, source))
    before = list(parts(made))
    result = answer(made, goal)
    after = list(parts(made))
    same = len(before) == len(after) and all(a is b and p == q for (a, p), (b, q) in zip(before, after, strict=True))
    originals = {id(item) for item, _ in before}
    return {"result": seen_in(result, goal, originals), "input afterwards": "as before" if same else "changed"}


def parts(obj: Any) -> Iterator[tuple[Any, str]]:
    """Everything in an object, the object itself first, with a word on where it lives."""
    yield obj, where_parameters_are(obj)
    if isinstance(obj, dict | list | tuple):
        for item in obj.values() if isinstance(obj, dict) else obj:
            yield from parts(item)


def where_parameters_are(obj: Any) -> str:
    return str(obj.weight.device) if isinstance(obj, nn.Linear) else ""


def seen_in(obj: Any, goal: torch.device, originals: set[int]) -> Any:
    """What came out, as plain data; of what is no container and no tensor, whether it is what went in."""
    if isinstance(obj, Tensor):
        there = "on the target" if obj.device == goal else f"on {obj.device.type}"
        if obj.is_meta:
            return f"a {str(obj.dtype).removeprefix('torch.')} tensor of shape {tuple(obj.shape)} {there}"
        return {"tensor": obj, "where": there}
    if isinstance(obj, dict):
        return {key: seen_in(item, goal, originals) for key, item in obj.items()}
    if isinstance(obj, tuple) and hasattr(obj, "_fields"):
        inside = [seen_in(item, goal, originals) for item in obj]
        return {type(obj).__name__: dict(zip(obj._fields, inside, strict=False))}
    if isinstance(obj, list | tuple):
        made = [seen_in(item, goal, originals) for item in obj]
        return made if isinstance(obj, list) else tuple(made)
    if obj is None or isinstance(obj, str | int | float):
        return obj
    if isinstance(obj, nn.Linear) and str(obj.weight.device) == str(goal):
        return "a module, moved to the target"
    return "the same object" if id(obj) in originals else kind(obj)


def cases_move(draw: Draw) -> list[Case]:
    like: dict[str, Any] = {"like": torch.zeros(1)}
    n, d = draw.size(2, 4), draw.size(2, 3)
    x, y, mask = draw.normal(n, d), draw.integers(0, 9, n), draw.flags(n)
    training = {"x": x, "y": y, "meta": {"mask": mask, "id": "a7", "weights": [draw.normal(2), 0.5]}}
    words = {"text": "abc", "count": 3, "none": None, "x": x}
    return [
        case("a tensor", obj=x, target="elsewhere", **like),
        case("a tuple of two", obj=(x, y), target="elsewhere", **like),
        case("a dict in a dict, a list inside", obj=training, target="elsewhere", **like),
        case("a list of lists", obj=[[x, y], [draw.normal(2)], []], target="elsewhere", **like),
        case("a namedtuple", obj={"Batch": [x, mask]}, target="elsewhere", **like),
        case("a namedtuple in a list", obj=[{"Sample": [y, 3, "a word"]}, (x,)], target="elsewhere", **like),
        case("text, numbers and None", obj=words, target="elsewhere", **like),
        case("a module and an object", obj=[{"a module": d}, {"an object": 1}, x], target="elsewhere", **like),
        case("from the CPU to the device", obj=(x, {"y": y}), target="device", **like),
        case("a dict that is flat", obj={"x": x, "rest": [y, mask]}, target="elsewhere", **like),
    ]


def quotes_move(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"afterwards": seen["input afterwards"]} if "input afterwards" in seen else {}
    if "result" in seen:
        fields |= {"came": worded(seen["result"]), "should": worded(wanted["result"])}
    if isinstance(seen.get("raised"), Raised):
        fields["error"] = seen["raised"]
    return fields


def worded(value: Any) -> str:
    """A result in words, its tensors by where they are."""
    if isinstance(value, dict) and value.keys() == {"tensor", "where"}:
        return f"a tensor {value['where']}"
    if isinstance(value, dict):
        word = next(iter(value), "") if len(value) == 1 else ""
        named = word in TUPLES and isinstance(value[word], dict)
        inside = ", ".join(f"{key}={worded(item)}" for key, item in (value[word] if named else value).items())
        return f"{word if named else 'dict'}({inside})"
    if isinstance(value, list | tuple):
        inside = ", ".join(map(worded, value))
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    if isinstance(value, str) and " tensor of shape" in value:
        return "a tensor " + value.partition(") ")[2]
    return str(value)


move_to = Exercise(
    "move_to",
    probe_move,
    cases_move,
    hints=(
        "A container is moved by moving what is in it. Which function moves what is in it, whatever that is? And what "
        "comes back for something that is neither a tensor nor a container?",
        "`isinstance(obj, tuple)` is also True for a namedtuple. Which attribute has a namedtuple that a plain tuple "
        "has not?",
        "`Batch(x, mask)` takes its fields one by one, `tuple(...)` takes one iterable. How do you call `type(obj)` so "
        "that either gets what it wants? Build new containers; the caller still needs his own.",
    ),
    quotes=quotes_move,
)

# --- causal_mask -------------------------------------------------------------------------------------------------


def cases_mask(draw: Draw) -> list[Case]:
    b, t, d = draw.size(2, 3), draw.size(4, 5), draw.size(6, 7)
    return [
        case("a batch", x=draw.normal(b, t, d)),
        case("one sequence", x=draw.normal(1, t, 2)),
        case("one position", x=draw.normal(b, 1, d)),
        case("as many features as positions", x=draw.normal(2, t, t)),
        case("float64, transposed", x=draw.normal(b, d, t, dtype=torch.float64).mT),
    ]


def quotes_mask(_inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    mask = seen.get("result")
    if not isinstance(mask, Tensor) or mask.ndim != 2 or mask.dtype != torch.bool:
        return {}
    inside = mask.shape[0] == mask.shape[1] and mask.shape[0] > 1
    return {"diagonal": bool(mask.diagonal().any()), "future": bool(mask[0, 1]), "past": bool(mask[1, 0])} if inside \
        else {}


causal_mask = Exercise(
    "causal_mask",
    of_one_tensor,
    cases_mask,
    hints=(
        "Row i says what position i may look at. Which columns are its future: those with j greater, equal or less "
        "than i? What do `tril` and `triu` keep, and what does their argument `diagonal` shift?",
        "Comparing a column of positions with a row of positions also makes a square. What shape do "
        "`torch.arange(t)[:, None]` and `torch.arange(t)` broadcast to?",
        "On which device does `torch.ones(t, t)` live if nothing else is said? Whose device should the mask have?",
    ),
    quotes=quotes_mask,
)

# --- PositionalEncoding ------------------------------------------------------------------------------------------


@probing_a_module
def probe_encoding(answer: Watched, dim: int, max_len: int, x: Tensor) -> Observations:
    module = build(answer, x.device, dim, max_len)
    held = [b for b in module.buffers() if b.numel() == max_len * dim]
    seen: Observations = {
        "parameters": sum(p.numel() for p in module.parameters()),
        "saved": sum(t.numel() for t in module.state_dict().values()),
        "table": "in a buffer" if held else "in no buffer",
    }
    before = x.clone()
    with answer.watched():
        output = module(x)
    return {**seen, **look(output, x), **kept(x=(x, before))}


def cases_encoding(draw: Draw) -> list[Case]:
    b, t, dim, most = draw.size(2, 3), draw.size(5, 7), 2 * draw.size(2, 4), draw.size(9, 12)
    sizes: dict[str, Any] = {"dim": dim, "max_len": most, "atol": 1e-4}
    half: dict[str, Any] = {**sizes, "atol": 0.02, "rtol": 0.01}
    return [
        case("zeros, so that the table shows", x=torch.zeros(1, t, dim), **sizes),
        case("a batch", x=draw.normal(b, t, dim), **sizes),
        case("as long as can be", x=draw.normal(b, most, dim), **sizes),
        case("one position", x=draw.normal(b, 1, dim), **sizes),
        case("x in float64", x=draw.normal(b, t, dim, dtype=torch.float64), **sizes),
        case("x in bfloat16", x=draw.normal(b, t, dim, dtype=torch.bfloat16), **half),
    ]


def quotes_encoding(_inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    return {name: seen[name] for name in ("saved", "parameters", "table", "construction") if name in seen}


PositionalEncoding = Exercise(
    "PositionalEncoding",
    probe_encoding,
    cases_encoding,
    hints=(
        "The angle at position p and column c is p / 10000**(2i/dim), where columns 2i and 2i+1 share one i. Which "
        "operation on the number of a column gives its i?",
        "Which way of keeping a tensor in a module lets it follow `.to()`? And which argument of it says that it need "
        "not be saved, since it can be computed again?",
        "The table has room for `max_len` positions, x has t of them. Which rows are added? And what is the dtype of "
        "float32 plus bfloat16, and what of x?",
    ),
    quotes=quotes_encoding,
)

# --- stray_tensors -----------------------------------------------------------------------------------------------


def populated(entries: list[list[str]], home: torch.device, away: torch.device) -> nn.Module:
    """A model with these tensors: each entry is a dotted name, what holds the tensor, and where it is."""
    root = nn.Module()
    for name, how, place in entries:
        *path, last = name.split(".")
        owner = root
        for part in path:
            if part not in owner._modules:
                owner.add_module(part, nn.Module())
            owner = owner.get_submodule(part)
        value = torch.zeros(2, device=away if place == "away" else home)
        if how == "parameter":
            owner.register_parameter(last, nn.Parameter(value))
        elif how == "nothing":
            owner.register_parameter(last, None)
        elif how in ("buffer", "unsaved buffer"):
            owner.register_buffer(last, value, persistent=how == "buffer")
        else:
            setattr(owner, last, value if how == "plain" else 3)
    return root


def tensors_of(model: nn.Module) -> list[tuple[str, str, str]]:
    return sorted(
        (path, name, str(value.device))
        for path, module in model.named_modules()
        for name, value in {**module._parameters, **module._buffers, **vars(module)}.items()
        if isinstance(value, Tensor)
    )


def probe_strays(answer: Watched, entries: list[list[str]], away: str, indexed: bool, like: Tensor) -> Observations:
    model = populated(entries, like.device, torch.device(away))
    before = tensors_of(model)
    found = answer(model, like.device if indexed else torch.device(like.device.type))
    listed = isinstance(found, list) and all(isinstance(name, str) for name in found)
    return {
        "strays": list(found) if listed else kind(found),
        "model afterwards": "as before" if tensors_of(model) == before else "changed",
    }


def entries(*lines: str) -> list[list[str]]:
    """Entries from lines such as "body.0.weight parameter away"."""
    return [[line.split()[0], " ".join(line.split()[1:-1]), line.split()[-1]] for line in lines]


def cases_strays(draw: Draw) -> list[Case]:
    def drawn(name: str, *lines: str, away: str = "meta", indexed: bool = True) -> Case:
        return case(name, entries=entries(*lines), away=away, indexed=indexed, like=torch.zeros(1))

    word, layer = draw.pick(["scale", "table", "offset"]), draw.size(2, 9)
    home = ("body.weight parameter home", "body.bias parameter home", "norm.mean buffer home", f"{word} plain home")
    return [
        drawn("all at home", *home),
        drawn("a parameter", *home, f"layers.{layer}.weight parameter away", f"layers.{layer}.bias nothing home"),
        drawn("a buffer", *home, "norm.var buffer away"),
        drawn("a buffer that is not saved", *home, f"{word}s unsaved buffer away"),
        drawn("a plain attribute of the model itself", *home, "zoom plain away", "count number home"),
        drawn("a plain attribute deep inside", *home, f"layers.{layer}.attention.mask plain away"),
        drawn("several of each kind", "z.weight parameter away", "a.mean buffer away", "m.mask plain away",
              "a.weight parameter away", "z.kept parameter home", "b plain away", "y parameter away"),
        drawn("a model that was never moved", "body.weight parameter away", "body.mask plain away", "mean buffer away",
              away="cpu"),
        drawn("a device without an index", *home, "norm.var buffer away", "body.mask plain away", indexed=False),
    ]  # fmt: skip


def quotes_strays(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    found, should = seen.get("strays"), wanted["strays"]
    if not isinstance(found, list):
        return {}
    missed = [name for name in should if name not in found]
    extra = [name for name in found if name not in should]
    fields: dict[str, object] = {"found": found, "wanted_names": should, "afterwards": seen["model afterwards"]}
    return {**fields, **({"missed": ", ".join(missed)} if missed else {}), **({"extra": extra[0]} if extra else {})}


stray_tensors = Exercise(
    "stray_tensors",
    probe_strays,
    cases_strays,
    hints=(
        "`named_parameters()` and `named_buffers()` walk over the whole model. A tensor that is a plain attribute is "
        "in neither. In which dict does Python keep the attributes of an object?",
        "`named_modules()` gives every submodule with its dotted path, the model itself with an empty one. How do path "
        "and attribute become one name, in both cases?",
        "A device may be given without its index, and a tensor always tells one: torch.device('cuda') is not equal to "
        "torch.device('cuda:0'). What does a tensor that you make on `device` say where it is?",
    ),
    quotes=quotes_strays,
)

# --- prefetch ----------------------------------------------------------------------------------------------------

FAR = 3
"""From how many batches in advance on something is no longer called one ahead, while there are more to come."""


class Loader:
    """A loader that notes how many batches were taken from it."""

    def __init__(self, batches: list[Any]) -> None:
        self.batches, self.taken = batches, 0

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Any]:
        for batch in self.batches:
            self.taken += 1
            yield batch


class Copies(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts copies from the CPU to another device; the simulated one counts its own."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.device, self.seen = device, 0
        self.before = simulated.counters().copies_to_device

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default):
            source = args[1] if func is torch.ops.aten.copy_.default else args[0]
            self.seen += source.device.type == "cpu" and result.device.type == self.device.type != "cpu"
        return result

    def count(self) -> int:
        """How many copies there were so far."""
        if self.device.type == simulated.NAME:
            return simulated.counters().copies_to_device - self.before
        return self.seen


def tensors_in(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else []
    return [tensor for item in inside for tensor in tensors_in(item)]


def probe_prefetch(answer: Watched, batches: list[Any], like: Tensor) -> Observations:
    shelf = Loader(brought(batches, torch.device("cpu")))
    copies = Copies(like.device)
    handed: list[Any] = []
    taken: list[int] = []
    copied: list[int] = []
    with copies if like.is_cuda else answer.watched():
        for batch in answer(shelf, like.device):
            taken.append(shelf.taken)
            copied.append(copies.count())
            handed.append(batch)
            if len(handed) > len(batches) + 2:
                break
    places = sorted({where(tensor, like) for batch in handed for tensor in tensors_in(batch)})
    return {"batches": handed, "places": places, "taken": taken, "copied": copied}


def derive_prefetch(case: Case, seen: Observations) -> Observations:
    """Words on how far ahead batches were taken and copied, in place of the counts."""
    batches = case.inputs["batches"]
    counts = [len(tensors_in(batch)) for batch in batches]
    ends = [sum(counts[: i + 1]) for i in range(len(counts))]
    whole = [sum(end <= copied for end in ends) for copied in seen["copied"]]
    rest = {name: value for name, value in seen.items() if name not in ("taken", "copied")}
    if any(seen["copied"]):
        rest["copied ahead"] = ahead(whole, len(batches))
    return {**rest, "taken ahead": ahead(seen["taken"], len(batches))}


def ahead(counts: list[int], total: int) -> Raised:
    """How far ahead counts run of what was handed out, in words; the farthest and the least are for people."""
    gaps = [count - place - 1 for place, count in enumerate(counts)]
    open_ends = [gap for place, gap in enumerate(gaps) if place + 1 + FAR <= total]
    if any(gap < 1 for place, gap in enumerate(gaps) if place + 1 < total):
        words = "not ahead"
    else:
        words = "too far ahead" if any(gap >= FAR for gap in open_ends) else "ahead"
    return remark(words, f"{counts[0]} of {total} when the first is handed out" if counts else "none")


def cases_prefetch(draw: Draw) -> list[Case]:
    like: dict[str, Any] = {"like": torch.zeros(1)}

    def pairs(count: int, rows: int) -> list[Any]:
        return [(draw.normal(rows, 2), draw.integers(0, 9, rows)) for _ in range(count)]

    n = draw.size(6, 8)
    ragged = [*pairs(3, 4), *pairs(1, 1)]
    dicts = [{"ids": draw.integers(0, 9, 3), "mask": draw.flags(3)} for _ in range(4)]
    return [
        case("pairs", batches=pairs(n, 2), **like),
        case("a last batch that is smaller", batches=ragged, **like),
        case("tensors", batches=[draw.normal(3) for _ in range(5)], **like),
        case("dicts", batches=dicts, **like),
        case("a single batch", batches=pairs(1, 3), **like),
        case("two batches", batches=pairs(2, 3), **like),
        case("an empty loader", batches=[], **like),
    ]


def quotes_prefetch(inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"total": len(inputs["batches"])}
    if "batches" in seen:
        fields |= {"count": len(seen["batches"]), "places": ", ".join(seen["places"])}
    for name in ("taken ahead", "copied ahead"):
        if isinstance(seen.get(name), Raised):
            fields[name.replace(" ", "_")] = seen[name].message
    return fields


prefetch = Exercise(
    "prefetch",
    probe_prefetch,
    cases_prefetch,
    hints=(
        "A function with `yield` stops where it yields, until the next batch is asked for. So what has to happen "
        "before the `yield` of the present batch, and not after it?",
        "You hold two batches at a time: the present one and the following one. Where does the first present one come "
        "from, and what becomes the present one after the `yield`?",
        "`next(iterator, None)` gives None at the end. When that happens there is nothing more to copy, but is there "
        "still something to hand out? And what if the very first one is None?",
    ),
    derive=derive_prefetch,
    quotes=quotes_prefetch,
)

# --- elapsed -----------------------------------------------------------------------------------------------------

FIRST_RUNS = 3.0  # how many times as long the first runs take: kernels are compiled, caches are cold


def probe_elapsed(
    answer: Watched, seconds: list[float], host: float, warmup: int | None, repeats: int | None, like: Tensor
) -> Observations:
    world = World(like.device, setback=SETBACK)
    fn = world.program("fn", seconds, host)
    options = {name: n for name, n in (("warmup", warmup), ("repeats", repeats)) if n is not None}
    with world.instead(answer.answer):
        times = answer(fn, like.device, **options)
    seen = {"runs": len(world.calls), "seconds": kind(times)}
    if isinstance(times, list):
        others = sorted({type(t).__name__ for t in times if not isinstance(t, float)})
        seen["seconds"] = f"a list of {' and '.join(others)}" if others else [float(t) for t in times]
    return seen


def cases_elapsed(draw: Draw) -> list[Case]:
    def drawn(name: str, warmup: int | None, repeats: int | None, host: float = 0.0005) -> Case:
        first, rest = 3 if warmup is None else warmup, 10 if repeats is None else repeats
        slow = [FIRST_RUNS + 0.25 * i for i in range(first)]
        seconds = slow + draw.uniform(0.002, 0.02, rest + 2, dtype=torch.float64).tolist()
        inputs: dict[str, Any] = {"seconds": seconds, "host": host, "warmup": warmup, "repeats": repeats}
        return case(name, rtol=0.0, atol=1e-6, **inputs, like=torch.zeros(1))

    return [
        drawn("three runs of warm-up, five that count", 3, 5),
        drawn("as many as by default", None, None),
        drawn("one run of warm-up", 1, 4),
        drawn("no warm-up", 0, 3),
        drawn("one run that counts", 2, 1),
        drawn("a host that is slower than the device", 2, 4, host=0.05),
    ]


def quotes_elapsed(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"runs": seen.get("runs")}
    times, should = seen.get("seconds"), wanted["seconds"]
    if isinstance(times, list) and times:
        fields |= {"count": len(times), "wanted_count": len(should), "first": times[0], "wanted_first": should[0]}
        if len(times) == len(should):
            place = max(range(len(times)), key=lambda i: abs(times[i] - should[i]))
            fields |= {"one": times[place], "wanted_one": should[place]}
    return fields


elapsed = Exercise(
    "elapsed",
    probe_elapsed,
    cases_elapsed,
    hints=(
        "Calling fn only hands work to the device. When is that work done, and which call waits for it? What does that "
        "call do on a machine that has no accelerator, if `device` is the CPU?",
        "After the warm-up the device may still be busy. Whose time would you measure, if the clock started now?",
        "Which clock can be put back while you measure, by the user or by the network, and which two of `time` cannot? "
        "One number for each run is wanted, in seconds.",
    ),
    quotes=quotes_elapsed,
)

# --- training_bytes ----------------------------------------------------------------------------------------------


def probe_bytes(
    answer: Watched, num_params: int, param_dtype: torch.dtype | None, optimizer: str | None,
    master_weights: bool | None, refuses: bool,
) -> Observations:  # fmt: skip
    given = {"param_dtype": param_dtype, "optimizer": optimizer, "master_weights": master_weights}
    options = {name: value for name, value in given.items() if value is not None}
    if refuses:
        return how_refused(lambda: answer(num_params, **options), "optimizer", str(optimizer))
    return {"result": answer(num_params, **options)}


def how_refused(call: Callable[[], object], argument: str, got: str) -> Observations:
    """How a call that should raise ends: whichever exception it is, whether it says what the matter is."""
    try:
        result = call()
    except Exception as error:
        message = str(error)
        named = "names the argument" if argument in message else "does not name the argument"
        told = "tells what it got" if got in message else "does not tell what it got"
        kind_of_it = type(error).__name__
        return {"refused with": remark(f"an exception that {named}, {told}", f"{kind_of_it}: {message[:200]}")}
    return {"refused with": f"no exception but {result if isinstance(result, int) else kind(result)}"}


def cases_bytes(draw: Draw) -> list[Case]:
    def drawn(
        name: str, count: int, dtype: torch.dtype | None = None, optimizer: str | None = None,
        master: bool | None = None, refuses: bool = False,
    ) -> Case:  # fmt: skip
        inputs: dict[str, Any] = {"param_dtype": dtype, "optimizer": optimizer, "master_weights": master}
        return case(name, num_params=count, refuses=refuses, **inputs)

    n, unknown = draw.size(3, 2000), draw.pick(["lion", "rmsprop", "adagrad"])
    return [
        drawn("seven billion parameters, as by default", 7_000_000_000),
        drawn("float32 and momentum", n, torch.float32, "momentum"),
        drawn("float32 and plain SGD", n, torch.float32, "sgd"),
        drawn("bfloat16 and AdamW", n, torch.bfloat16, "adamw"),
        drawn("bfloat16, AdamW and a master copy", n, torch.bfloat16, "adamw", True),
        drawn("float32, AdamW and a master copy", n, torch.float32, "adamw", True),
        drawn("float16, momentum and a master copy", n, torch.float16, "momentum", True),
        drawn("bfloat16 and plain SGD", n, torch.bfloat16, "sgd", False),
        drawn("float64 and AdamW", n, torch.float64, "adamw"),
        drawn("an unknown optimizer", n, optimizer=unknown, refuses=True),
    ]


def quotes_bytes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"outcome": seen.get("refused with")}
    if isinstance(seen.get("result"), int | float) and "result" in wanted:
        fields["each"] = seen["result"] / inputs["num_params"]
        fields["wanted_each"] = wanted["result"] / inputs["num_params"]
    return fields


training_bytes = Exercise(
    "training_bytes",
    probe_bytes,
    cases_bytes,
    hints=(
        "Count the bytes for one parameter and multiply at the end. Which tensors have as many elements as there are "
        "parameters, after one step of the optimizer?",
        "Parameters and gradients share a dtype. What do the optimizer's states use in the mixed-precision recipe, "
        "whatever the parameters' dtype is? How many of them does each optimizer keep?",
        "`torch.bfloat16.itemsize` is 2. The master copy is float32, and there is none unless somebody asks for it. "
        "What should happen for an optimizer that is not in your table?",
    ),
    any_device=False,
    quotes=quotes_bytes,
)

# --- largest_batch -----------------------------------------------------------------------------------------------

ERRORS: dict[str, Callable[[str], Exception]] = {
    "RuntimeError": RuntimeError, "ValueError": ValueError, "KeyError": KeyError,
}  # fmt: skip
MANY = 5000


class Allocator:
    """A device on which batches up to `capacity` fit. From `breaks_at` on, another error than memory comes."""

    def __init__(self, capacity: int, error: str, breaks_at: int) -> None:
        self.capacity, self.error, self.breaks_at = capacity, error, breaks_at
        self.tried: list[int] = []

    def run(self, size: int) -> None:
        self.tried.append(size)
        if type(size) is not int:
            raise TypeError(f"a batch size is an int, and this is {size!r}")
        if len(self.tried) > MANY:
            raise RuntimeError(f"{MANY} sizes were tried, and it goes on")
        if self.error and size >= self.breaks_at:
            raise ERRORS[self.error]("the model does not take this batch")
        if size > self.capacity:
            raise torch.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {size} MiB.")


def probe_largest(
    answer: Watched, start: int, limit: int, capacity: int, error: str, breaks_at: int
) -> Observations:
    device = Allocator(capacity, error, breaks_at)
    try:
        seen: Observations = {"result": answer(device.run, start, limit)}
    except tuple(ERRORS.values()) as raised:  # type: ignore[misc]
        if "does not take this batch" not in str(raised):
            raise
        seen = {"error": type(raised).__name__}
    return {**seen, "tried": device.tried}


def derive_largest(case: Case, seen: Observations) -> Observations:
    """Whether there were more calls than allowed, in place of the calls, and what became of the size returned.

    Sizes beyond the limit are one fact, whichever they are.
    """
    limit, result = case.inputs["limit"], seen.get("result")
    allowed = int(2 * math.log2(limit) + 2)
    calls = len(seen["tried"])
    words = "as many as allowed" if calls <= allowed else "too many"
    tidy: Observations = {name: value for name, value in seen.items() if name != "tried"}
    if type(result) is int:
        tidy["result"] = remark("beyond the limit", str(result)) if result > limit else result
        tidy["a batch of that size"] = "fits" if result <= case.inputs["capacity"] else "does not fit"
    return {**tidy, "calls": remark(words, f"{calls} calls, and {allowed} are allowed")}


def cases_largest(draw: Draw) -> list[Case]:
    def drawn(name: str, start: int, limit: int, capacity: int, error: str = "", breaks_at: int = 0) -> Case:
        return case(name, start=start, limit=limit, capacity=capacity, error=error, breaks_at=breaks_at)

    odd = 2 * draw.size(20, 60) + 1
    return [
        drawn("something in between", 1, 256, odd),
        drawn("starting at 8", 8, 1024, draw.size(520, 900)),
        drawn("everything fits", 4, 64, 10_000),
        drawn("a limit that is no power of two", 1, 100, 10_000),
        drawn("all but the limit fits", 1, 128, 127),
        drawn("exactly a power of two", 2, 512, 128),
        drawn("the start does not fit", 64, 256, draw.size(17, 30)),
        drawn("one fits and no more", 16, 64, 1),
        drawn("not even one", 8, 64, 0),
        drawn("a limit of 4096", 1, 4096, draw.size(3000, 4000)),
        drawn("a model that is broken", 4, 64, 32, "RuntimeError", 0),
        drawn("a model that cannot take large batches", 1, 64, 64, "ValueError", 3),
    ]


def quotes_largest(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {name: seen[name] for name in ("result", "error") if name in seen}
    for name in ("calls", "result"):
        if isinstance(seen.get(name), Raised):
            fields[name] = seen[name].message
    fields |= {"fits": seen["a batch of that size"]} if "a batch of that size" in seen else {}
    return fields | {f"wanted_{name}": wanted[name] for name in ("result", "error") if name in wanted}


largest_batch = Exercise(
    "largest_batch",
    probe_largest,
    cases_largest,
    hints=(
        "If 64 fits, so does 63. So two numbers are enough to know where you are: the largest size that did fit and "
        "the smallest that did not. What may both be before anything was tried?",
        "Double while it fits, halve the gap when something did not. When is the search over? What if doubling jumps "
        "over the limit, or the start itself does not fit?",
        "`torch.OutOfMemoryError` is a kind of RuntimeError. Which errors would `except RuntimeError` swallow as well, "
        "and what would your function then say about a broken model?",
    ),
    any_device=False,
    derive=derive_largest,
    quotes=quotes_largest,
)

# --- checkpointed ------------------------------------------------------------------------------------------------


def blocks_like(x: Tensor, count: int, dropout: float) -> nn.ModuleList:
    """Blocks that hold much more inside than they hand on, with weights that need no drawing."""
    width = x.shape[-1]
    blocks = nn.ModuleList(
        nn.Sequential(nn.Linear(width, 6 * width), nn.Tanh(), nn.Linear(6 * width, width), nn.Dropout(dropout))
        for _ in range(count)
    )
    with torch.no_grad():
        for place, p in enumerate(blocks.parameters()):
            p.copy_((torch.arange(p.numel()) * (0.7 + 0.2 * place)).sin().view(p.shape) / p.shape[-1] ** 0.5)
    return blocks.to(x.device, x.dtype)


def in_turn(blocks: nn.ModuleList, x: Tensor) -> Tensor:
    for block in blocks:
        x = block(x)
    return x


def forward_and_back(call: Callable[[Any, Tensor], Any], count: int, dropout: float, x: Tensor) -> Observations:
    """What a call makes of fresh blocks and x, what of it is kept for backward, and the gradients."""
    blocks = blocks_like(x, count, dropout)
    torch.default_generator.manual_seed(11)
    if x.is_cuda:
        torch.cuda.manual_seed(11)
    x = x.detach().requires_grad_(x.requires_grad)
    output, held = kept_bytes(lambda: call(blocks, x), but=[x, *blocks.parameters()])
    seen: Observations = {"kept": held}
    if not isinstance(output, Tensor):
        return {**seen, "returned": kind(output)}
    first = {"x": x} if x.requires_grad else {}
    seen |= {**look(output, x), **gradients(output, **first, **dict(blocks.named_parameters()))}
    return seen


def probe_checkpointed(answer: Watched, x: Tensor, count: int, dropout: float, followed: bool) -> Observations:
    x.requires_grad_(followed)
    plain = forward_and_back(in_turn, count, dropout, x)
    return {"own": forward_and_back(answer, count, dropout, x), "plain": plain}


def derive_checkpointed(case: Case, seen: Observations) -> Observations:
    """What was seen, as it compares with running the blocks in turn."""
    own, plain = seen["own"], seen["plain"]
    kept_words = "less than without" if own["kept"] < 0.9 * plain["kept"] else "as much as without"
    tidy: Observations = {
        "kept for backward": remark(kept_words, f"{own['kept']} bytes, and {plain['kept']} without checkpointing")
    }
    if "returned" in own:
        return {"returned": own["returned"], **tidy}
    names = ["result", *(name for name in plain if name.startswith("gradient"))]
    if case.inputs["dropout"] == 0:
        return {**tidy, "device": own["device"], **{name: own[name] for name in names}}
    gradient_names = [name for name in names if name != "result"]
    return {
        **tidy, "device": own["device"], "result": _compared(own, plain, ["result"]),
        "gradients": _compared(own, plain, gradient_names),
    }  # fmt: skip


def _compared(own: Observations, plain: Observations, names: list[str]) -> str:
    """Whether tensors are the same as without checkpointing, in words: what dropout drew is nobody's choice."""
    if any(not isinstance(own[name], Tensor) for name in names):
        return "missing"
    close = all(torch.allclose(own[name], plain[name], rtol=1e-4, atol=1e-6) for name in names)
    return "the same as without" if close else "others than without"


def cases_checkpointed(draw: Draw) -> list[Case]:
    n, d = draw.size(16, 20), draw.size(4, 6)

    def drawn(name: str, count: int, dropout: float = 0.0, followed: bool = True, **more: Any) -> Case:
        return case(name, x=draw.normal(n, d, **more), count=count, dropout=dropout, followed=followed)

    return [
        drawn("four blocks", 4),
        drawn("x that needs no gradient", 5, followed=False),  # enough for two segments of two and a rest
        drawn("dropout in the blocks", 3, dropout=0.5),
        drawn("dropout, and x that needs no gradient", 4, dropout=0.3, followed=False),
        drawn("float64", 3, dtype=torch.float64),
    ]


def quotes_checkpointed(_inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {}
    if isinstance(seen.get("kept for backward"), Raised):
        fields["bytes"] = seen["kept for backward"].message
    lost = [name for name, value in seen.items() if name.startswith("gradient") and value in ("none", "missing")]
    if lost:
        fields |= {"lost": lost[0], "lost_count": len(lost)}
    if "gradients" in seen:
        fields["gradients"] = seen["gradients"]
    return fields


checkpointed = Exercise(
    "checkpointed",
    probe_checkpointed,
    cases_checkpointed,
    hints=(
        "`torch.utils.checkpoint.checkpoint(function, x, ...)` runs a function, keeps its input and runs it again in "
        "backward. What is the function here, and how many of them are there?",
        "There are two kinds of it, chosen by `use_reentrant`. The old one gives no gradients at all where its input "
        "needs none. Which one do you ask for?",
        "The second run of a dropout has to drop the same entries. Who takes care of the random state, unless it is "
        "told not to?",
    ),
    derive=derive_checkpointed,
    quotes=quotes_checkpointed,
)

# --- roofline ----------------------------------------------------------------------------------------------------


ROOFLINE_KEYS = ("achieved", "intensity", "bound", "fraction")


def probe_roofline(answer: Watched, **numbers: float) -> Observations:
    result = answer(**numbers)
    if not isinstance(result, dict):
        return {"returned": kind(result)}
    return {name: result.get(name, "missing") for name in ROOFLINE_KEYS}


def cases_roofline(draw: Draw) -> list[Case]:
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
        drawn("just below the ridge", 127.5, 0.625),
        drawn("half of what the roof allows", below * 2, 0.5, flops=2.0**33),
    ]


def quotes_roofline(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {name: seen[name] for name in ROOFLINE_KEYS if name in seen}
    fields |= {f"wanted_{name}": wanted[name] for name in ROOFLINE_KEYS if name in wanted}
    return fields | {"ridge": inputs["peak_flops"] / inputs["peak_bandwidth"]}


roofline = Exercise(
    "roofline",
    probe_roofline,
    cases_roofline,
    hints=(
        "Intensity is work for each byte that is moved. With few operations a byte, does the chip wait for its memory, "
        "or the memory for the chip?",
        "At which intensity does memory deliver just fast enough for the peak? Two of the arguments give it. From "
        "there up, more bandwidth would not help.",
        "The roof at an intensity is the lower of two limits: what the chip can compute, and what the memory can feed. "
        "Of which of them is `fraction` a fraction?",
    ),
    any_device=False,
    quotes=quotes_roofline,
)

EXERCISES = (
    pick_device, move_to, causal_mask, PositionalEncoding, stray_tensors, prefetch, elapsed, training_bytes,
    largest_batch, checkpointed, roofline,
)  # fmt: skip
