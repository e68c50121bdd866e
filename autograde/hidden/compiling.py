"""Lesson 08: hidden cases and known mistakes."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F

from autograde.hidden.common import anywhere, apart, writing_into
from autograde.mistakes import Mistake, slips
from torchcourse.exercise import Case, Draw, case
from torchcourse.exercises.compiling import SPREAD

GRAPH, UNDER = "From Python to a graph", "Operators under the hood"
BREAKS, MENDING = "Graph breaks", "Mending a break"
GUARDS, MEASURING = "Guards, recompiles and dynamic shapes", "What it costs, and measuring it"
FAILS, OWN, NUMBERS = "When the compiler fails", "Operators of your own", "The same numbers"

VALUE = "In the case \"{case}\", {what} came out as {got} where {want} is wanted: "
CHANGED = (
    "In the case \"{case}\" the caller's own tensor was {got} by the call, and should be {want}: something was written "
    "into it."
)


COMPILE: Any = torch.compile


def one(name: str, program: Callable[..., Any], sentence: str, read: str, **options: Any) -> Mistake:
    """A mistake that is not tried together with others."""
    return apart([Mistake(name, program, sentence, read, options)])[0]


# --- count_graphs ------------------------------------------------------------------------------------------------


class Tally:
    """A backend made once, for all calls."""

    def __init__(self) -> None:
        self.graphs = self.nodes = 0

    def __call__(self, graph: Any, inputs: Any) -> Any:
        self.graphs += 1
        self.nodes += sum(node.op.startswith("call") for node in graph.graph.nodes)
        return graph.forward


SHARED = Tally()


def count(
    fn: Any, *args: Any, less: int = 0, reset: bool = True, shared: bool = False, zero: bool = True,
    what: str = "graphs", call: bool = True, whole: bool = False,
) -> Any:  # fmt: skip
    if reset:
        torch.compiler.reset()
    tally = SHARED if shared else Tally()
    if zero:
        tally.graphs = tally.nodes = 0
    compiled = COMPILE(fn, backend=tally, fullgraph=whole)
    if call:
        compiled(*args)
    return [tally.graphs] if what == "list" else (tally.nodes if what == "nodes" else tally.graphs) - less


def count_from_zero(fn: Any, *args: Any) -> int:
    """A backend shared by all calls: its counter is set to zero with the first, and Dynamo is never reset."""
    return int(count(fn, *args, reset=False, shared=True))


FIRST = "In the case \"{case}\" the first answer is {first} where {right} is wanted: "
LATER = "In the case \"{case}\" the first answer is {first}, and a later one {later} where {right} is wanted: "
COUNTS = [
    one("counts-breaks", count, FIRST + "that is the number of breaks, and a break has a graph on either side.", BREAKS,
        less=1),
    one("stale-cache", count_from_zero, LATER + "Dynamo keeps what it compiled for the same backend, and so a later "
        "call compiles nothing.", BREAKS),
    one("stale-cache", count, LATER + "without a reset Dynamo keeps every version it compiled, and after some of them "
        "it gives up and runs plain Python.", BREAKS, reset=False),
    one("counts-operations", count, FIRST + "that is the number of operations in the graphs.", BREAKS, what="nodes"),
    one("never-called", count, FIRST + "`torch.compile` alone compiles nothing; the first call does.", BREAKS,
        call=False),
    one("demands-one-graph", count, "In the case \"{case}\" the call raised {got}: `fullgraph=True` makes an error of "
        "the very breaks that are to be counted.", BREAKS, whole=True),
    one("returns-a-list", count, FIRST + "a number is wanted.", BREAKS, what="list"),
]  # fmt: skip


def more_count(draw: Draw) -> list[Case]:
    n = draw.size(2, 6)
    return [
        case("a branch on values, the other way", function="branch on values", args=[draw.uniform(-1, 0, n)], calls=1),
        case("a loop", function="python loop", args=[draw.normal(n)], calls=1),
        case("a break after the last operation", function="break at the end", args=[draw.normal(n)], calls=1),
        case("no operation at all", function="no operation", args=[draw.normal(n)], calls=1),
    ]


# --- signed_scale ------------------------------------------------------------------------------------------------


def signed(x: Tensor, *, how: str = "where", condition: str = "sum") -> Tensor:
    chosen = {
        "sum": lambda: x.sum() > 0, "elements": lambda: x > 0, "not negative": lambda: x.sum() >= 0,
        "rows": lambda: x.sum(-1, keepdim=True) > 0, "any": lambda: (x > 0).any(), "sizes": lambda: x.abs().sum() > 0,
        "first": lambda: x.flatten()[0] > 0, "truth": lambda: x.sum().bool(),
    }[condition]()  # fmt: skip
    if how == "branch":
        return x * 2 if chosen else x - 1
    if how == "item":
        return x * 2 if x.sum().item() > 0 else x - 1
    if how == "swapped":
        return torch.where(chosen, x - 1, x * 2)
    return torch.where(chosen, x * 2, x - 1)


def signed_by_comparison(x: Tensor) -> Tensor:
    result = x.clone()
    result[x > 0] *= 2
    result[x <= 0] -= 1
    return result


BRANCH = (
    "Captured in one graph: {why}. A Python `if` asks for the value of a tensor, and there the graph has to end; the "
    "choice has to be made by an operation."
)
SUM = "In the case \"{case}\" the sum is {total}, and {what} came out as {got} where {want} is wanted: "
SIGNED = [
    one("python-branch", signed, BRANCH, MENDING, how="branch"),
    one("python-branch", signed, BRANCH, MENDING, how="item"),
    one("elementwise-sign", signed, SUM + "each element was judged by its own sign, and one sum decides for all of "
        "them.", MENDING, condition="elements"),
    one("elementwise-sign", signed_by_comparison, SUM + "each element was judged by its own sign, and one sum decides "
        "for all of them.", MENDING),
    one("sum-per-row", signed, SUM + "each row was judged by a sum of its own, and one sum decides for the whole "
        "tensor.", MENDING, condition="rows"),
    one("zero-counts-as-positive", signed, SUM + "a sum of zero is not positive.", MENDING, condition="not negative"),
    one("any-positive-element", signed, SUM + "it was asked whether some element is positive, and not whether their "
        "sum is.", MENDING, condition="any"),
    one("truth-of-the-sum", signed, SUM + "as a condition, a sum is true wherever it is not zero, also where it is "
        "negative.", MENDING, condition="truth"),
    one("branches-swapped", signed, SUM + "the two results are exchanged.", MENDING, how="swapped"),
    one("changes-its-input", writing_into(0, signed), CHANGED, MENDING),
    *[Mistake(m.name, m.program, m.sentence, MENDING) for m in anywhere(signed)[:1]],
]  # fmt: skip


def more_signed(draw: Draw) -> list[Case]:
    return [
        case("drawn", x=draw.normal(draw.size(1, 4), draw.size(1, 4), 2), captured=True),
        case("an empty tensor", x=torch.zeros(0, 3), captured=False),
        case("a transposed table", x=draw.normal(3, 5).t(), captured=False),
        case("one number", x=draw.normal(), captured=False),
        case("bfloat16", rtol=1e-2, x=torch.tensor([1.5, -3.0, 0.25], dtype=torch.bfloat16), captured=False),
    ]


# --- clip_by_norm ------------------------------------------------------------------------------------------------


def clip(
    x: Tensor, max_norm: float, *, where: str = "tensor", up: bool = False, safe: bool = True, norm: str = "whole",
) -> Any:  # fmt: skip
    lengths: dict[str, Callable[[], Any]] = {
        "whole": lambda: torch.linalg.vector_norm(x), "rows": lambda: torch.linalg.vector_norm(x, dim=-1, keepdim=True),
        "square": lambda: (x * x).sum(), "largest": lambda: x.abs().max(), "sizes": lambda: x.abs().sum(),
    }  # fmt: skip
    length = lengths[norm]()
    if where == "branch":
        return x * (max_norm / length) if length > max_norm else x * 1
    if where == "branch on item":
        size = length.item()
        return x * (max_norm / size) if size > max_norm else x * 1
    if where == "detached":
        length = length.detach()
    if not safe:
        return x / length * (max_norm if up else length.clamp(max=max_norm))
    factor = max_norm / length.clamp(min=1e-12)
    factor = factor if up else factor.clamp(max=1.0)
    if where == "item":
        return x * factor.item()
    return x * factor


def clip_values(x: Tensor, max_norm: float) -> Tensor:
    return x.clamp(-max_norm, max_norm)


LENGTH = "In the case \"{case}\" x has the norm {norm}, and {what} came out as {got} where {want} is wanted: "
WAITS = (
    "In the case \"{case}\" the call waits for {operator}: the norm, or the factor, became a Python number. Dynamo "
    "takes "
    "that into its graph by now, so neither a break nor `fullgraph=True` shows it; but the host stands still until the "
    "device is done, and the gradient takes the factor for a constant."
)
STOPS = "Captured in one graph: {why}. A Python `if` asks for the value of a tensor, and there the graph has to end."
CLIP = [
    *slips(
        clip, MENDING,
        item_call=({"where": "item"}, WAITS),
        scales_up=({"up": True}, LENGTH + "x was scaled up to the norm max_norm = {max_norm}; what is short enough "
                   "stays as it is."),
        nan_on_zero=({"safe": False}, LENGTH + "x was divided by its norm, and zero by zero is not a number."),
    ),
    one("python-branch", clip, STOPS, MENDING, where="branch"),
    one("python-branch", clip, STOPS, MENDING, where="branch on item"),
    one("detached", clip, LENGTH + "the norm was cut out of the graph, so the gradient takes the factor for a "
        "constant.",
        MENDING, where="detached"),
    one("norm-per-row", clip, LENGTH + "each row was scaled by a norm of its own; there is one for the whole tensor.",
        MENDING, norm="rows"),
    one("squared-not-rooted", clip, LENGTH + "the sum of squares is the square of the norm.", MENDING, norm="square"),
    one("clips-values", clip_values, LENGTH + "every element was cut to ±{max_norm}, which changes the direction; "
        "scaling keeps it.", MENDING),
    *[Mistake(m.name, m.program, m.sentence, MENDING) for m in anywhere(clip)[:1]],
]  # fmt: skip


def more_clip(draw: Draw) -> list[Case]:
    return [
        case("drawn", x=draw.normal(draw.size(1, 4), draw.size(2, 5)), max_norm=draw.uniform(0.1, 4).item(),
             captured=True),
        case("one number", x=torch.tensor(-3.0), max_norm=2.0, captured=False),
        case("a table of zeros in float64", x=torch.zeros(2, 3, dtype=torch.float64), max_norm=0.5, captured=False),
        case("very short", x=1e-6 * draw.normal(5), max_norm=1.0, captured=False, rtol=1e-3, atol=1e-12),
    ]


# --- CountingBackend ---------------------------------------------------------------------------------------------


class Backend:
    def __init__(
        self, kinds: str = "call", adds: bool = True, counts: str = "compilations", returns: str = "forward",
        distinct: bool = False,
    ) -> None:  # fmt: skip
        self.graphs, self.ops = 0, 0
        self.kinds, self.adds, self.counts, self.returns, self.distinct = kinds, adds, counts, returns, distinct

    def counted(self, graph: Any) -> int:
        nodes = [n for n in graph.graph.nodes if self.kinds in ("all", "inputs") or n.op.startswith(self.kinds)]
        if self.kinds == "inputs":
            nodes = [n for n in nodes if n.op != "output"]
        return len({n.target for n in nodes}) if self.distinct else len(nodes)

    def note(self, graph: Any) -> None:
        self.graphs += 1
        self.ops = self.counted(graph) + (self.ops if self.adds else 0)

    def __call__(self, graph: Any, inputs: Any) -> Any:
        if self.counts == "compilations":
            self.note(graph)
        if self.counts != "runs":
            return graph.forward if self.returns == "forward" else None

        def run(*args: Any) -> Any:
            self.note(graph)
            return graph(*args)

        return run


class WithoutCall:
    """Its method has a name of its own."""

    def __init__(self) -> None:
        self.graphs = self.ops = 0

    def compile(self, graph: Any, inputs: Any) -> Any:
        self.graphs += 1
        return graph.forward


class SharedCounters:
    """Counts in the class, for all backends at once, of which there have been some."""

    graphs = ops = 1

    def __call__(self, graph: Any, inputs: Any) -> Any:
        SharedCounters.graphs += 1
        SharedCounters.ops += 1
        return graph.forward


OPS = "In the case \"{case}\" there are {graphs} graphs and {ops} ops, where {want_graphs} and {want_ops} are wanted: "
BACKENDS = [
    one("counts-placeholders", Backend, OPS + "nodes that bring inputs in or hand the result out compute "
        "nothing.", GRAPH,
        kinds="all"),
    one("counts-placeholders", Backend, OPS + "a placeholder is an input of the graph, and computes nothing.", GRAPH,
        kinds="inputs"),
    one("never-counts", Backend, OPS + "the graphs go through, and nothing is counted.", GRAPH, counts="nothing"),
    one("counts-runs", Backend, OPS + "the counters moved whenever a graph ran, and a backend counts what it was given "
        "to compile.", GRAPH, counts="runs"),
    one("not-callable", WithoutCall, "As a backend the object {serves}: `torch.compile` calls it as "
        "`backend(graph, inputs)`, and the method that lets an object be called is `__call__`.", GRAPH),
    one("counts-in-the-class", SharedCounters, "A new backend begins with {anew}: the counters belong to the class, "
        "and all of its objects share them. Begin with `self.graphs = 0` in `__init__`.", GRAPH),
    one("functions-only", Backend, OPS + "a method such as `x.relu()` is a node of kind call_method, and computes "
        "as well as a function does.", GRAPH, kinds="call_function"),
    one("last-graph-only", Backend, OPS + "the second graph replaced the count of the first, where both add up.", GRAPH,
        adds=False),
    one("counts-each-kind-once", Backend, OPS + "an operation that comes twice counts twice.", GRAPH, distinct=True),
    one("returns-nothing", Backend, "In the case \"{case}\" the call ended in an error of Dynamo: a backend has to "
        "return something that can be called in place of the code, and the least is `graph.forward`.", GRAPH,
        returns="nothing"),
]  # fmt: skip


def more_backend(draw: Draw) -> list[Case]:
    n = draw.size(2, 5)
    return [
        case("a loop", function="python loop", calls=[[draw.normal(n)]]),
        case("a branch on values, both ways", function="branch on values",
             calls=[[draw.uniform(0.1, 1, n)], [draw.uniform(-1, -0.1, n)]]),
        case("a choice", function="chosen", calls=[[draw.normal(n)]]),
    ]  # fmt: skip


# --- compile_dynamic ---------------------------------------------------------------------------------------------


def dynamic(fn: Any, backend: Any, *, shapes: bool | None = True, how: str = "compile") -> Any:
    if how == "eager":
        return fn
    if how == "own backend":
        return COMPILE(fn, backend="eager", dynamic=shapes)

    def anew(*args: Any) -> Any:
        torch.compiler.reset()
        return COMPILE(fn, backend=backend, dynamic=shapes)(*args)

    def first_size_only(*args: Any) -> Any:
        size = args[0].shape[0]
        sizes.add(size)
        return compiled(*args) if len(sizes) == 1 else fn(*args)

    sizes: set[int] = set()
    compiled = COMPILE(fn, backend=backend, dynamic=shapes)
    return {"compile": compiled, "anew": anew, "first": first_size_only}[how]


PER_SHAPE = (
    "In the case \"{case}\", {distinct} batch sizes made {count} compilations, where one or two are wanted: every "
    "size was "
    "built into its graph as a constant."
)
PLAIN = (
    "In the case \"{case}\", {plain} of {calls} calls ran as plain Python and {ran} ran compiled; wanted are none "
    "and all."
)
DYNAMIC = [
    one("recompiles-per-shape", dynamic, PER_SHAPE + " After eight versions Dynamo gives up on a function.", GUARDS,
        shapes=False),
    one("recompiles-per-shape", dynamic, "In the case \"{case}\", {calls} calls made {count} compilations, where "
        "one or "
        "two are wanted: what was compiled is thrown away with each call.", GUARDS, how="anew"),
    one("falls-back-to-eager", dynamic, PLAIN + " Nothing was ever compiled.", GUARDS, how="eager"),
    one("falls-back-to-eager", dynamic, PLAIN + " Only the first size ran compiled.", GUARDS, how="first"),
    one("ignores-the-backend", dynamic, "In the case \"{case}\", {ran} of {calls} calls ran what the given backend "
        "compiled, and {plain} ran as plain Python: the function was compiled with another backend.", GUARDS,
        how="own backend"),
]  # fmt: skip


def more_dynamic(draw: Draw) -> list[Case]:
    sizes = [draw.size(2, 40) for _ in range(15)]
    return [
        case("many drawn sizes", function="scaled by size", sizes=sizes, width=draw.size(50, 60), tensors=1),
        case("large to small", function="chosen", sizes=[64, 32, 16, 8, 4, 2], width=3, tensors=1),
    ]


# --- benchmark ---------------------------------------------------------------------------------------------------


def measure(
    fns: Any, *args: Any, device: Any, repeats: int = 30, warm: int = 2, sync: str = "both", turns: bool = True,
    middle: str = "median", spread: str = "iqr", unit: float = 1.0, fixed: int = 0, clock: str = "each",
) -> Any:  # fmt: skip
    wait = torch.get_device_module(device).synchronize

    def once(fn: Any) -> float:
        if sync in ("both", "start"):
            wait()
        start = time.perf_counter()
        fn(*args)
        if sync in ("both", "stop"):
            wait()
        return time.perf_counter() - start

    for fn in fns.values():
        for _ in range(warm):
            fn(*args)
    if sync == "once":
        wait()
    repeats, times = fixed or repeats, dict[str, list[float]]((name, []) for name in fns)
    order = [n for _ in range(repeats) for n in fns] if turns else [n for n in fns for _ in range(repeats)]
    for name in order:
        times[name].append(once(fns[name]))
    if clock == "total":
        times = {name: [sum(seconds) / len(seconds)] * 2 for name, seconds in times.items()}
    return {name: {"median": _middle(t, middle) * unit, "iqr": _spread(t, spread) * unit} for name, t in times.items()}


def _middle(times: list[float], how: str) -> float:
    return {"median": statistics.median(times), "mean": statistics.fmean(times), "least": min(times)}[how]


def _spread(times: list[float], how: str) -> float:
    if how == "std":
        return statistics.stdev(times)
    if how == "range":
        return max(times) - min(times)
    low, high = torch.tensor(times, dtype=torch.float64).quantile(torch.tensor([0.25, 0.75]).double()).tolist()
    return float(high if how == "upper quartile" else high - low)


TIMES = "In the case \"{case}\", the {what} came out as {got} where {want} is wanted: "
UNFINISHED = TIMES + (
    "the device takes work into a queue and lets the host go on. Wait for it before a stopwatch starts and again "
    "before "
    "it stops."
)
TIMED = [
    *slips(
        measure, MEASURING,
        includes_compile_time=({"warm": 0}, TIMES + "the first call compiles, and was timed along with the others."),
        no_synchronize=({"sync": "none"}, UNFINISHED),
        not_interleaved=({"turns": False}, "In the case \"{case}\", the variants ran {turns}, and should take turns: "
                         "whatever changes on the machine meanwhile would fall to one of them alone."),
        mean_not_median=({"middle": "mean"}, TIMES + "that is the mean, which a single late run pulls up."),
        spread_is_standard_deviation=({"spread": "std"}, TIMES + "that is the standard deviation; the interquartile "
            "range "
                                      "is the distance of the quartiles, which outliers do not move."),
    ),
    one("no-synchronize", measure, UNFINISHED + " It was done once, before the first run, and that is not enough.",
        MEASURING, sync="once"),
    one("no-synchronize", measure, UNFINISHED + " It was done before the start only.", MEASURING, sync="start"),
    one("no-synchronize", measure, UNFINISHED + " It was done before the stop only, so the warm-up was still "
        "running when "
        "the first run began.", MEASURING, sync="stop"),
    one("spread-is-whole-range", measure, TIMES + "that is the distance from the fastest to the slowest "
        "run.", MEASURING,
        spread="range"),
    one("spread-is-upper-quartile", measure, TIMES + "that is the upper quartile; the lower one is to be taken from "
        "it.",
        MEASURING, spread="upper quartile"),
    one("least-not-median", measure, TIMES + "that is the fastest run of {number}.", MEASURING, middle="least"),
    one("not-in-seconds", measure, TIMES + "seconds are asked for, and these are milliseconds.", MEASURING, unit=1e3),
]  # fmt: skip


def more_benchmark(draw: Draw) -> list[Case]:
    near: dict[str, Any] = {"rtol": 0.02, "atol": 1e-5, "x": torch.ones(1)}
    bases = {name: draw.size(1, 90) / 1000 for name in "abcd"}
    return [
        case("four variants, fifty repeats", bases=bases, pattern=SPREAD, repeats=50, **near),
        case("five repeats", bases={"one": 0.25, "two": 0.125}, pattern=[0.8, 1.5, 1.0, 0.8, 1.5], repeats=5, **near),
    ]


# --- graph_ops ---------------------------------------------------------------------------------------------------


def ops(fn: Any, *args: Any, kinds: str = "operators", text: str = "target", distinct: bool = False) -> Any:
    nodes = list(make_fx(fn)(*args).graph.nodes)
    if kinds == "operators":
        nodes = [n for n in nodes if isinstance(n.target, torch._ops.OpOverload)]
    elif kinds == "calls":
        nodes = [n for n in nodes if n.op == "call_function"]
    elif kinds == "no output":
        nodes = [n for n in nodes if n.op != "output"]
    texts: dict[str, Callable[[Any], Any]] = {
        "target": lambda n: str(n.target), "name": lambda n: n.name,
        "short": lambda n: getattr(n.target, "__name__", str(n.target)),
        "packet": lambda n: str(n.target.overloadpacket),
        "schema": lambda n: n.target.name(), "first": lambda n: n.target.__name__.split(".")[0],
    }  # fmt: skip
    found = [texts[text](n) for n in nodes]
    return sorted(set(found)) if distinct else found


def ops_of_dynamo(fn: Any, *args: Any) -> list[str]:
    found: list[str] = []

    def backend(graph: Any, inputs: Any) -> Any:
        nodes = [n for n in graph.graph.nodes if n.op.startswith("call")]
        found.extend(str(getattr(n.target, "__name__", n.target)) for n in nodes)
        return graph.forward

    torch.compiler.reset()
    COMPILE(fn, backend=backend)(*args)
    return found


LISTED = "In the case \"{case}\" the list reads {listed}, where {meant} is wanted: "
PYTHON = LISTED + "these are names that Python or the graph uses, and not those of the operators, overload included."
OPERATORS = [
    one("python-names", ops, PYTHON, UNDER, text="name"),
    one("python-names", ops, PYTHON, UNDER, text="first"),
    one("python-names", ops_of_dynamo, PYTHON + " Dynamo's own graph comes before they are known.", UNDER),
    one("no-namespace", ops, LISTED + "the operator's namespace is missing.", UNDER, text="short"),
    one("no-overload", ops, LISTED + "an operator has several overloads, and which of them ran is missing.", UNDER,
        text="packet"),
    one("schema-names", ops, LISTED + "that is the name in its schema; the graph writes it with dots, overload "
        "included.", UNDER, text="schema"),
    one("counts-placeholders", ops, LISTED + "{extra} brings something in or hands it out, and computes "
        "nothing.", UNDER,
        kinds="all"),
    one("counts-placeholders", ops, LISTED + "{extra} is an input, and computes nothing.", UNDER, kinds="no output"),
    one("counts-getitem", ops, LISTED + "{extra} takes one of several results, and is no operator of ATen.", UNDER,
        kinds="calls"),
    one("each-once", ops, LISTED + "an operator that runs twice stands there twice, and the order is that of the run.",
        UNDER, distinct=True),
]  # fmt: skip


def more_ops(draw: Draw) -> list[Case]:
    n = draw.size(2, 5)
    return [
        case("a choice", function="chosen", args=[draw.normal(n)]),
        case("row sums", function="row sums", args=[draw.normal(3, n)]),
        case("no operation", function="no operation", args=[draw.normal(n)]),
        case("a branch on the shape", function="branch on shape", args=[draw.normal(draw.size(1, 4), n)]),
        case("methods", function="methods and functions", args=[draw.normal(2, n)]),
    ]


# --- compile_or_eager --------------------------------------------------------------------------------------------


def or_eager(
    model: Any, example: Any, *, tries: str = "both", on_failure: str = "eager", says: str = "why", whole: bool = False,
    gives: str = "compiled", backend: str = "inductor",
) -> Any:  # fmt: skip
    compiled = COMPILE(model, fullgraph=whole, backend=backend)
    if tries == "nothing":
        return compiled, None
    if tries == "eager first":
        model(example)
        return compiled, None
    if tries == "both":
        model(example)
    try:
        compiled(example)
    except Exception as error:
        if on_failure == "raises":
            raise
        reason = {"why": f"{type(error).__name__}: {error}", "nothing": None, "little": "failed"}[says]
        return (compiled if on_failure == "compiled" else model), reason
    return (compiled if gives == "compiled" else model), None


def or_eager_wrapped(model: Any, example: Any) -> Any:
    try:
        compiled = COMPILE(model)
    except Exception as error:
        return model, f"{type(error).__name__}: {error}"
    return compiled, None


OUTCOME = "In the case \"{case}\" what comes back runs {runs} and gives {gives}, and the reason {reason}: "
FALLBACK = [
    one("hides-real-errors", or_eager, OUTCOME + "the model itself raises an error with this example, and whoever "
        "calls "
        "should hear of it.", FAILS, tries="compiled"),
    one("never-tries", or_eager, OUTCOME + "`torch.compile` returns before anything is compiled, so nothing had a "
        "chance "
        "to fail.", FAILS, tries="nothing"),
    one("never-tries", or_eager, OUTCOME + "only the eager model was called with the example, so the compiler had no "
        "chance to fail.", FAILS, tries="eager first"),
    one("never-tries", or_eager_wrapped, OUTCOME + "`torch.compile` returns before anything is compiled, so a `try` "
        "around it catches nothing.", FAILS),
    one("returns-what-failed", or_eager, OUTCOME + "after a failure of the compiler it is the eager model that works.",
        FAILS, on_failure="compiled"),
    one("lets-compiler-errors-out", or_eager, "In the case \"{case}\" the call raised {raised}: where the compiler "
        "fails, "
        "the eager model is still there to run.", FAILS, on_failure="raises"),
    one("gives-no-reason", or_eager, OUTCOME + "somebody will want to know why it is slow.", FAILS, says="nothing"),
    one("gives-no-reason", or_eager, OUTCOME + "somebody will want to know what went wrong.", FAILS, says="little"),
    one("demands-one-graph", or_eager, OUTCOME + "a graph break is no failure; only `fullgraph=True` makes one of it.",
        FAILS, whole=True),
    one("another-backend", or_eager, OUTCOME + "it was compiled with another backend than the default one, and so with "
        "one that makes no code.", FAILS, backend="eager"),
    one("always-eager", or_eager, OUTCOME + "where the compiler works, the compiled model is wanted.", FAILS,
        gives="eager"),
]  # fmt: skip


def more_or_eager(draw: Draw) -> list[Case]:
    n = draw.size(2, 6)
    fits: dict[str, Any] = {"weight": draw.normal(n, 3), "x": draw.normal(draw.size(2, 5), n)}
    return [
        case("the model raises, and the compiler fails", **fits, refuses="raises", compiler="fails"),
        case("a graph break, and the compiler fails", **fits, refuses="breaks", compiler="fails"),
    ]


# --- swiglu ------------------------------------------------------------------------------------------------------


def gated(x: Tensor, gate: Tensor) -> Tensor:
    return x * F.silu(gate)


def gates_x(x: Tensor, gate: Tensor) -> Tensor:
    return gate * F.silu(x)


def sigmoid_gated(x: Tensor, gate: Tensor) -> Tensor:
    return x * torch.sigmoid(gate)


def overflowing(x: Tensor, gate: Tensor) -> Tensor:
    return x * gate * gate.exp() / (1 + gate.exp())


def like_x(x: Tensor, gate: Tensor) -> Tensor:
    return torch.empty_like(x)


def flat_fake(x: Tensor, gate: Tensor) -> Tensor:
    return x.new_empty(x.numel() + 1)


def half_fake(x: Tensor, gate: Tensor) -> Tensor:
    return torch.empty_like(x, dtype=torch.float16)


def keep(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs)


def back(ctx: Any, grad: Tensor) -> Any:
    x, gate = ctx.saved_tensors
    s = gate.sigmoid()
    return grad * gate * s, grad * x * s * (1 + gate * (1 - s))


def back_short(ctx: Any, grad: Tensor) -> Any:
    x, gate = ctx.saved_tensors
    s = gate.sigmoid()
    return grad * gate * s, grad * x * s


def back_swapped(ctx: Any, grad: Tensor) -> Any:
    return back(ctx, grad)[::-1]


def back_without_grad(ctx: Any, grad: Tensor) -> Any:
    return back(ctx, torch.ones_like(grad))


def back_for_x_only(ctx: Any, grad: Tensor) -> Any:
    return back(ctx, grad)[0], None


def as_operator(number: int, forward: Any = gated, fake: Any = like_x, backward: Any = back) -> Any:
    """An operator made of these parts. Each needs a name of its own; the probe takes them for one."""
    made = torch.library.custom_op(f"torchcourse_{number}::swiglu", forward, mutates_args=())
    if fake is not None:
        made.register_fake(fake)
    if backward is not None:
        made.register_autograd(backward, setup_context=keep)
    return made


def with_leak(x: Tensor, gate: Tensor) -> Any:
    return FULL(x, gate) + torch.zeros(x.shape, dtype=x.dtype)


FULL = as_operator(0)
OPCHECK = "As an operator it runs as {name}, and of opcheck's tests {test} fails: {said} "
SWIGLU = [
    one("missing-fake", as_operator(1, fake=None), OPCHECK + "For tracing, an operator needs a function that makes the "
        "result's shape and dtype without its numbers.", OWN),
    one("missing-fake", as_operator(2, fake=None, backward=None), OPCHECK + "Neither a fake nor a backward is "
        "registered.", OWN),
    one("missing-autograd", as_operator(3, backward=None), "A gradient cannot be taken: {gradients}. Autograd "
        "cannot look "
        "into an operator of your own.", OWN),
    one("never-registered", gated, "What runs is {name}: the function is a plain one, and the compiler looks into "
        "it as "
        "into any other.", OWN),
    one("fake-of-wrong-shape", as_operator(4, fake=flat_fake), OPCHECK + "The fake result has another shape than "
        "the real "
        "one.", OWN),
    one("fake-of-wrong-dtype", as_operator(5, fake=half_fake), OPCHECK + "The fake result has another dtype than "
        "the real "
        "one.", OWN),
    one("derivative-cut-short", as_operator(6, backward=back_short), VALUE + "g·sigmoid(g) is a product, so its "
        "derivative "
        "has two terms.", OWN),
    one("gradients-swapped", as_operator(7, backward=back_swapped), VALUE + "gradients are returned in the order of "
        "the "
        "inputs.", OWN),
    one("ignores-grad-output", as_operator(8, backward=back_without_grad), VALUE + "the gradient that arrives has "
        "to be "
        "passed on as a factor.", OWN),
    one("gradient-of-x-only", as_operator(9, backward=back_for_x_only), VALUE + "the gate is an input as well.", OWN),
    one("gate-is-x", as_operator(10, gates_x), VALUE + "the gate goes through silu, and x does not.", OWN),
    one("sigmoid-not-silu", as_operator(11, sigmoid_gated), VALUE + "silu(g) is g·sigmoid(g), and the factor g is "
        "missing.",
        OWN),
    one("made-on-cpu", with_leak, "On the CPU all is right, on the second device the call raised {got}: a tensor "
        "was made "
        "without saying where.", OWN),
]  # fmt: skip


def more_swiglu(draw: Draw) -> list[Case]:
    shape = draw.size(1, 3), draw.size(1, 3), draw.size(2, 5)
    return [
        case("three dimensions", x=draw.normal(*shape), gate=3 * draw.normal(*shape)),
        case("zeros", x=torch.zeros(3), gate=torch.zeros(3)),
        case("one number", x=draw.normal(), gate=draw.normal()),
    ]


# --- same_numerics -----------------------------------------------------------------------------------------------


def compare(
    model: Any, compiled: Any, x: Tensor, atol: float, *, gradients: str = "all", leaves: str = "as before",
    largest: str = "max", sign: bool = True, judged: str = "both", nan: str = "fails", unused: bool = True,
) -> Any:  # fmt: skip
    parameters = [p for p in model.parameters() if p.requires_grad]

    def run(f: Any) -> Any:
        leaf = x.detach().clone().requires_grad_()
        if leaves in ("added up", "flagged"):
            leaf = x.requires_grad_()
        y = f(leaf)
        wanted = {"all": [leaf, *parameters], "none": [], "x": [leaf], "parameters": parameters}[gradients]
        if not wanted:
            return y.detach(), []
        if leaves in ("as before", "flagged"):
            return y.detach(), torch.autograd.grad(y.sum(), wanted, allow_unused=unused)
        if leaves == "cleared":
            model.zero_grad()
        y.sum().backward()
        grads = [None if t.grad is None else t.grad.clone() for t in wanted]
        if leaves == "cleared":
            model.zero_grad()
        return y.detach(), grads

    (y, some), (z, others) = run(model), run(compiled)
    output, grad = _gap(y, z, largest, sign), 0.0
    for g, o in zip(some, others, strict=True):
        if g is not None and o is not None:
            grad = max(grad, _gap(g, o, "max", sign))
    good = {"both": output <= atol and grad <= atol, "output": output <= atol,
            "not above": not (output > atol or grad > atol)}[judged]  # fmt: skip
    return {"output": output, "grad": grad, "ok": good}


def _gap(a: Tensor, b: Tensor, largest: str, sign: bool) -> float:
    gap = (b - a).abs() if sign else b - a
    return float(gap.mean() if largest == "mean" else gap.max())


BOTH = "In the case \"{case}\" the answer is output {output}, grad {grad} and ok {ok}, with atol = {margin}: "
LEFT = (
    "In the case \"{case}\", `.grad` has changed of {changed}: `backward()` writes there, on top of what a training "
    "had "
    "left."
)
NUMERICS = [
    *slips(
        compare, NUMBERS,
        forgets_gradients=({"gradients": "none"}, BOTH + "outputs alone were compared, and training follows "
            "gradients."),
        mean_not_largest=({"largest": "mean"}, BOTH + "a mean hides the one place that is wrong."),
        signed_difference=({"sign": False}, BOTH + "without an absolute value, what is too low does not count."),
    ),
    one("forgets-parameters", compare, BOTH + "the gradient of x was compared, and not those of the "
        "parameters.", NUMBERS,
        gradients="x"),
    one("forgets-x", compare, BOTH + "the gradients of the parameters were compared, and not that of x.", NUMBERS,
        gradients="parameters"),
    one("pollutes-grad", compare, LEFT, NUMBERS, leaves="added up"),
    one("pollutes-grad", compare, LEFT, NUMBERS, leaves="left"),
    one("pollutes-grad", compare, LEFT + " And `zero_grad()` forgets it.", NUMBERS, leaves="cleared"),
    one("changes-requires-grad", compare, "In the case \"{case}\", `x.requires_grad` is {got} after the call where "
        "{want} is wanted: `requires_grad_()` marks the caller's own tensor. Take gradients for a detached copy.",
        NUMBERS, leaves="flagged"),
    one("ok-ignores-gradients", compare, BOTH + "`ok` has to look at both differences.", NUMBERS, judged="output"),
    one("nan-counts-as-equal", compare, BOTH + "every comparison with NaN is false, so ask whether the difference "
        "is within "
        "atol, not whether it is above.", NUMBERS, judged="not above"),
    one("fails-on-unused", compare, "In the case \"{case}\" the call raised {got}: `autograd.grad` has to be told "
        "that a "
        "parameter may take no part.", NUMBERS, unused=False),
]  # fmt: skip


def more_numerics(draw: Draw) -> list[Case]:
    i, h, n = draw.size(2, 4), draw.size(2, 5), draw.size(2, 5)
    weights = {"w1": 0.5 * draw.normal(i, h), "b1": 0.5 * draw.normal(h), "w2": 1 + 0.1 * draw.normal(h, 3)}
    usual: dict[str, Any] = {"weights": weights, "shift": 0.0, "off": "", "frozen": [], "spare": False, "grads": {}}

    def one_more(name: str, **more: Any) -> Case:
        made = case(name, rtol=0.02, atol=1e-5, x=draw.normal(n, i), **{**usual, **more})
        return Case(made.name, {**made.inputs, "atol": 1e-3}, made.tolerance)

    return [
        one_more("the gradient of the bias is off", off="b1"),
        one_more("all frozen but one", frozen=["b1", "w2"], off="w1"),
        one_more("both are off, with gradients from before", shift=0.25, off="w2",
                 grads={"w1": 1.0, "b1": 2.0, "w2": 3.0}),
        one_more("one output is infinite", shift=math.inf),
    ]


MISTAKES: dict[str, list[Mistake]] = {
    "count_graphs": COUNTS,
    "signed_scale": SIGNED,
    "clip_by_norm": CLIP,
    "CountingBackend": BACKENDS,
    "compile_dynamic": DYNAMIC,
    "benchmark": TIMED,
    "graph_ops": OPERATORS,
    "compile_or_eager": FALLBACK,
    "swiglu": SWIGLU,
    "same_numerics": NUMERICS,
}

MORE_CASES: dict[str, Callable[[Draw], list[Case]]] = {
    "count_graphs": more_count,
    "signed_scale": more_signed,
    "clip_by_norm": more_clip,
    "CountingBackend": more_backend,
    "compile_dynamic": more_dynamic,
    "benchmark": more_benchmark,
    "graph_ops": more_ops,
    "compile_or_eager": more_or_eager,
    "swiglu": more_swiglu,
    "same_numerics": more_numerics,
}
