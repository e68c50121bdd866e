"""Lesson 08: probes, visible cases and hints. What is right is not written here."""

from __future__ import annotations

import contextlib
import itertools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torchcourse.exercise import Case, Draw, Exercise, Unattempted, case
from torchcourse.exercises.clockwork import LAUNCH, World
from torchcourse.exercises.compilers import Counted, as_new, captured_whole, waits, written
from torchcourse.exercises.handling import ramp
from torchcourse.exercises.looking import kept, kind, look
from torchcourse.exercises.trainable import number, remark
from torchcourse.observations import Observations, Raised
from torchcourse.probing import Watched

BACKENDS = ("cudagraphs", "distributed", "inductor", "onnxrt", "tensorrt", "torchxla", "tvm")
COMPILER = (
    "torch._dynamo", "torch._dynamo.testing", "torch._functorch.aot_autograd",
    *(f"torch._dynamo.backends.{name}" for name in BACKENDS),
)  # fmt: skip
"""What every compilation loads at its first call; to look a backend up by its name loads all of them."""
INDUCTOR = (*COMPILER, "sympy.tensor.tensor", "torch._inductor.compile_fx", "torch.testing._internal.optests")
"""What sizes that vary, the compiler's own backend and `opcheck` load besides."""

# --- functions that probes hand to answers -----------------------------------------------------------------------


def pointwise(x: Tensor) -> Tensor:
    return (x * 2 + 1).relu()


def branch_on_values(x: Tensor) -> Tensor:
    y = x * 2
    if y.sum() > 0:
        return y + 1
    return y.sin() - 1


def two_breaks(x: Tensor) -> Tensor:
    y = x + 1
    torch._dynamo.graph_break()
    y = y * 3
    torch._dynamo.graph_break()
    return y.relu()


def break_at_the_start(x: Tensor) -> Tensor:
    torch._dynamo.graph_break()
    return x.exp() + 1


def break_at_the_end(x: Tensor) -> Tensor:
    y = x.exp() + 1
    torch._dynamo.graph_break()
    return y


def branch_on_shape(x: Tensor) -> Tensor:
    return x.sum(0) if x.shape[0] > 2 else x.mean(0)


def no_operation(x: Tensor) -> Tensor:
    return x


def two_tensors(x: Tensor, y: Tensor) -> Tensor:
    return x * y - y.exp()


def methods_and_functions(x: Tensor) -> Tensor:
    return torch.sin(x.abs()).sum(0) + 1


def twice_the_same(x: Tensor) -> Tensor:
    return x.sin().sin()


def centred(x: Tensor) -> Tensor:
    return (x - x.mean()).abs().sum(0)


def two_results(x: Tensor) -> Tensor:
    values, _places = torch.max(x, 1)
    return values * 2


def python_loop(x: Tensor) -> Tensor:
    for k in range(1, 4):
        x = (x + k) * k
    return x


def chosen(x: Tensor) -> Tensor:
    return torch.where(x > 0, x, x * 0.1)


def row_sums(x: Tensor) -> Tensor:
    return (x * x).sum(1)


def scaled_by_size(x: Tensor) -> Tensor:
    return x.sum(0) / x.shape[0]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    f.__name__.replace("_", " "): f
    for f in (
        pointwise, branch_on_values, two_breaks, break_at_the_start, break_at_the_end, branch_on_shape, no_operation,
        two_tensors, methods_and_functions, twice_the_same, centred, two_results, python_loop, chosen, row_sums,
        scaled_by_size,
    )
}  # fmt: skip


def whole(value: object) -> Any:
    """A count as a plain int; of anything else, what it is."""
    return value if isinstance(value, int) and not isinstance(value, bool) else kind(value)


# --- count_graphs ------------------------------------------------------------------------------------------------


def probe_count_graphs(answer: Watched, function: str, args: list[Tensor], calls: int) -> Observations:
    with as_new(recompile_limit=3):  # eight, as it comes: who never resets shows after four calls as after nine
        counts = [whole(answer.answer(FUNCTIONS[function], *args)) for _ in range(calls)]
    return {"first answer": counts[0], "later answers": counts[1:]}


def cases_count_graphs(draw: Draw) -> list[Case]:
    n = draw.size(3, 5)
    return [
        case("operations only", function="pointwise", args=[draw.normal(n)], calls=1),
        case("a branch on values", function="branch on values", args=[draw.uniform(0.5, 1, n)], calls=2),
        case("two breaks", function="two breaks", args=[draw.normal(2, n)], calls=1),
        case("a break before the first operation", function="break at the start", args=[draw.normal(n)], calls=1),
        case("asked five times", function="pointwise", args=[draw.normal(n)], calls=5),
    ]


def quotes_count_graphs(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"first": seen["first answer"], "right": wanted["first answer"]}
    later = [n for n in seen["later answers"] if n != wanted["first answer"]]
    return {**fields, "later": later[0]} if later else fields


count_graphs = Exercise(
    "count_graphs",
    probe_count_graphs,
    cases_count_graphs,
    hints=(
        "A backend is a function that Dynamo calls once for each graph. What is the least it has to return, and what "
        "can it do besides?",
        "`torch.compile(fn, backend=...)` alone compiles nothing. When is the backend called?",
        "Dynamo remembers what it compiled, for each piece of code. What makes it forget, so that the tenth call sees "
        "what the first one saw?",
    ),
    any_device=False,
    quotes=quotes_count_graphs,
    seconds=20.0,
    imports=COMPILER,
)

# --- signed_scale ------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def eagerly(device: torch.device) -> Iterator[None]:
    """On other devices than the CPU values are compared and no graphs: what is compiled runs as it was written."""
    if device.type == "cpu":
        yield
        return
    with torch.compiler.set_stance("force_eager"):
        yield


def probe_signed_scale(answer: Watched, x: Tensor, captured: bool) -> Observations:
    function, raw = written(answer.answer), x.clone()
    with eagerly(x.device):
        seen = {**look(function(x), x), **kept(x=(x, raw))}
    captured = captured and x.device.type == "cpu"
    return {**seen, **captured_whole(function, (raw,), (-raw,))} if captured else seen


def cases_signed_scale(draw: Draw) -> list[Case]:
    n = draw.size(4, 6)
    up, down = draw.normal(n), draw.normal(3, n)
    up[0] += 1 - up.sum()
    down[0, 0] -= 1 + down.sum()
    return [
        case("a positive sum", x=up, captured=True),
        case("a negative sum", x=down, captured=False),
        case("a sum of zero", x=torch.tensor([2.0, -2.0, 0.5, -0.5]), captured=False),
        case("two rows, one sum", x=torch.tensor([[3.0, -1.0], [-0.5, -0.75]]), captured=True),
        case("float64", x=draw.normal(n, dtype=torch.float64), captured=False),
    ]


def quotes_signed_scale(inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"total": inputs["x"].sum().item()}
    captured = seen.get("in one graph")
    return {**fields, "why": captured} if isinstance(captured, Raised) else fields


signed_scale = Exercise(
    "signed_scale",
    probe_signed_scale,
    cases_signed_scale,
    hints=(
        "An `if` on a tensor asks for its value, and at that moment the graph ends. Which function chooses between two "
        "tensors without asking?",
        "How many numbers decide here, one for each element or one for all of them? And which shape has the condition "
        "then?",
        "Both branches may be computed; they are cheap. What broadcasts against a condition without dimensions?",
    ),
    quotes=quotes_signed_scale,
    seconds=20.0,
    imports=COMPILER,
)

# --- clip_by_norm ------------------------------------------------------------------------------------------------


def probe_clip_by_norm(answer: Watched, x: Tensor, max_norm: float, captured: bool) -> Observations:
    function, raw = written(answer.answer), x.clone()
    leaf = x.requires_grad_()
    with eagerly(x.device):
        result, waited = waits(lambda: function(leaf, max_norm))
    seen = {**look(result, x), **kept(x=(x.detach(), raw)), "waits for": waited or "nothing"}
    if isinstance(result, Tensor) and bool(raw.any()):
        seen["gradient"] = _gradient(result, leaf)
    if captured and x.device.type == "cpu":
        seen |= captured_whole(function, (raw, max_norm), (raw / 8, max_norm))
    return seen


def _gradient(result: Tensor, leaf: Tensor) -> Tensor | str:
    if not result.requires_grad:
        return "none: the result has no history"
    return torch.autograd.grad((result * ramp(*result.shape, low=-1, high=2, like=result)).sum(), leaf)[0]


def cases_clip_by_norm(draw: Draw) -> list[Case]:
    n = draw.size(4, 6)
    unit = F.normalize(draw.normal(3, n).flatten(), dim=0).view(3, n)
    return [
        case("too long", x=3 * unit, max_norm=1.0, captured=True),
        case("short enough", x=0.4 * unit, max_norm=2.0, captured=False),
        case("nothing but zeros", x=torch.zeros(n), max_norm=1.0, captured=False),
        case("much too long", x=4000 * unit, max_norm=0.5, captured=True),
        case("float64", x=5 * unit.double(), max_norm=1.5, captured=False),
    ]


def quotes_clip_by_norm(inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"norm": torch.linalg.vector_norm(inputs["x"]).item()}
    if isinstance(seen.get("result"), Tensor):
        fields["now"] = torch.linalg.vector_norm(seen["result"]).item()
    if isinstance(seen.get("waits for"), list):
        fields["operator"] = seen["waits for"][0]
    captured = seen.get("in one graph")
    return {**fields, "why": captured} if isinstance(captured, Raised) else fields


clip_by_norm = Exercise(
    "clip_by_norm",
    probe_clip_by_norm,
    cases_clip_by_norm,
    hints=(
        "The whole of x is multiplied by one factor. What is it where the norm is too large, what where it is not, and "
        "which function takes the smaller of two?",
        "If the norm becomes a Python number, the host waits for the device, and the gradient forgets that the factor "
        "depends on x. Which form does the norm have to keep?",
        "What is max_norm divided by zero in floats, and what is zero divided by zero? In which order can neither "
        "reach the result?",
    ),
    quotes=quotes_clip_by_norm,
    seconds=20.0,
    imports=COMPILER,
)

# --- CountingBackend ---------------------------------------------------------------------------------------------


def probe_backend(answer: Watched, function: str, calls: list[list[Tensor]]) -> Observations:
    backend = answer.answer()
    if not callable(backend):
        return {"as a backend": "cannot be called"}
    with as_new():
        compiled = torch.compile(FUNCTIONS[function], backend=backend)
        results = [compiled(*args) for args in calls]
    fresh = answer.answer()
    counts, begins = ((whole(getattr(b, "graphs", None)), whole(getattr(b, "ops", None))) for b in (backend, fresh))
    if begins == counts != (0, 0):  # what it counts depends on all that came before
        return {"results": results, "a new one begins with": "what the one before has counted"}
    return {"graphs": counts[0], "ops": counts[1], "results": results, "a new one begins with": begins}


def cases_backend(draw: Draw) -> list[Case]:
    n = draw.size(3, 5)

    def calls(*shapes: tuple[int, ...]) -> list[list[Tensor]]:
        return [[draw.normal(*shape)] for shape in shapes]

    return [
        case("one call", function="pointwise", calls=calls((n,))),
        case("no call yet", function="pointwise", calls=[]),
        case("methods and functions", function="methods and functions", calls=calls((2, n))),
        case("two tensors", function="two tensors", calls=[[draw.normal(n), draw.normal(n)]]),
        case("three calls of one compiled function", function="pointwise", calls=calls((n,), (n,), (n,))),
        case("two breaks", function="two breaks", calls=calls((n,))),
        case("two dtypes", function="twice the same", calls=[[draw.normal(n)], [draw.normal(n, dtype=torch.float64)]]),
    ]


def quotes_backend(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    return {
        "graphs": seen.get("graphs"), "ops": seen.get("ops"), "want_graphs": wanted["graphs"],
        "want_ops": wanted["ops"], "anew": seen.get("a new one begins with"), "serves": seen.get("as a backend"),
    }  # fmt: skip


CountingBackend = Exercise(
    "CountingBackend",
    probe_backend,
    cases_backend,
    hints=(
        "`torch.compile` calls the backend as `backend(graph, inputs)` and calls what it returns in place of the code. "
        "Which method lets an object be called, and what runs a graph?",
        "Print `node.op` and `node.target` for every node of a small graph. Which kinds of node only bring things "
        "in or "
        "hand them out?",
        "A backend is called once for each graph. What has to become of the number of operations when the second graph "
        "comes?",
    ),
    any_device=False,
    quotes=quotes_backend,
    seconds=20.0,
    imports=COMPILER,
)

# --- compile_dynamic ---------------------------------------------------------------------------------------------


class Noting:
    """A function of `FUNCTIONS` that notes when it runs as plain Python."""

    def __init__(self, function: str) -> None:
        self.function, self.ran = FUNCTIONS[function], list[int]()

    def made(self) -> Callable[..., Any]:
        function, ran = self.function, self.ran

        def noting(*args: Tensor) -> Any:
            if not torch.compiler.is_compiling():
                ran.append(1)
            return function(*args)

        return noting


def probe_dynamic(answer: Watched, function: str, width: int, sizes: list[int], tensors: int) -> Observations:
    noting, backend = Noting(function), Counted()
    with as_new():
        compiled = answer.answer(noting.made(), backend)
        if not callable(compiled):
            return {"returned": kind(compiled)}
        results = [compiled(*(ramp(size, width, high=k + 1.0) for k in range(tensors))) for size in sizes]
    return {
        "compilations": len(backend.graphs),
        "calls that ran as plain Python": len(noting.ran),
        "calls that ran compiled": backend.runs,
        "sums of the results": [r.sum().item() if isinstance(r, Tensor) else kind(r) for r in results],
    }


def derive_dynamic(_case: Case, seen: Observations) -> Observations:
    few = seen.get("compilations") in (1, 2)
    return {**seen, "compilations": "one or two"} if few else seen


def cases_dynamic(draw: Draw) -> list[Case]:
    w = draw.size(5, 7)
    common: dict[str, Any] = {"width": w, "tensors": 1}
    return [
        case("three sizes", function="pointwise", sizes=[3, 8, 4], **common),
        case("twelve sizes", function="row sums", sizes=list(range(2, 14)), **common),
        case("two tensors", function="two tensors", sizes=[4, 2, 9, 6], width=w, tensors=2),
        case("a size as large as a row is long", function="centred", sizes=[4, w, 9, 12], **common),
        case("one size over and over", function="pointwise", sizes=[4, 4, 4], **common),
    ]


def quotes_dynamic(inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"calls": len(inputs["sizes"]), "distinct": len(set(inputs["sizes"]))}
    names = {"count": "compilations", "plain": "calls that ran as plain Python", "ran": "calls that ran compiled"}
    return {**fields, **{field: seen[name] for field, name in names.items() if name in seen}}


compile_dynamic = Exercise(
    "compile_dynamic",
    probe_dynamic,
    cases_dynamic,
    hints=(
        "Dynamo writes down what it took for granted. If a size is among it, the next size does not fit. Which "
        "argument of `torch.compile` says that sizes change?",
        "After eight versions of one function Dynamo gives up and runs plain Python. Did your function still reach the "
        "backend at the twelfth size?",
        "What does `dynamic` mean if it is None, True and False? Two of the three keep within two compilations.",
    ),
    any_device=False,
    derive=derive_dynamic,
    quotes=quotes_dynamic,
    seconds=20.0,
    imports=INDUCTOR,
)

# --- benchmark ---------------------------------------------------------------------------------------------------

COMPILING = 3.0  # seconds that the first call takes in addition
MEASURES = ("median", "iqr")


def probe_benchmark(
    answer: Watched, bases: dict[str, float], pattern: list[float], repeats: int | None, x: Tensor
) -> Observations:
    world, host = World(x.device), 0.0 if x.device.type == "cpu" else LAUNCH
    fns = {name: world.program(name, [base * p for p in pattern], host, COMPILING) for name, base in bases.items()}
    options = {} if repeats is None else {"repeats": repeats}
    with world.instead(answer.answer):
        found = answer.answer(fns, x, device=x.device, **options)
    if not isinstance(found, dict):
        return {"returned": kind(found)}
    seen: Observations = {"names": sorted(map(str, found))}
    for name in bases:
        held: Any = found.get(name)
        good = isinstance(held, dict) and set(MEASURES) <= held.keys()
        for measure in MEASURES:
            seen[f"{measure} of {name}"] = number(held[measure]) if good else f"missing: {kind(held)}"
    return {**seen, "order of the calls": world.calls[-len(bases) * (repeats or 30):]}


def derive_benchmark(case: Case, seen: Observations) -> Observations:
    """Of the order of the calls, only whether the variants took turns is asked; one alone has no turns to take."""
    if "order of the calls" not in seen:
        return seen
    rest = {name: value for name, value in seen.items() if name != "order of the calls"}
    repeats, order = case.inputs["repeats"] or 30, seen["order of the calls"]
    if len(case.inputs["bases"]) < 2 or repeats < 4:
        return rest
    longest = max(len(list(run)) for _, run in itertools.groupby(order))
    return {**rest, "variants": "one after another" if 4 * longest >= 3 * repeats else "in turn"}


def cases_benchmark(draw: Draw) -> list[Case]:
    def some(*names: str) -> dict[str, float]:
        return {name: draw.size(1, 9) / 1000 for name in names}

    x, spread = torch.ones(2), draw.pick([SPREAD, SPREAD[::-1]])
    near = {"rtol": 0.02, "atol": 1e-5}
    return [
        case("two variants, two repeats", **near, bases=some("eager", "compiled"), pattern=[1.0], repeats=2, x=x),
        case("three variants", **near, bases=some("eager", "compiled", "other"), pattern=spread, repeats=None, x=x),
        case("one variant, ten repeats", **near, bases=some("eager"), pattern=spread, repeats=10, x=x),
        case("slow ones, twenty repeats", **near, bases={"a": 2.0, "b": 0.5}, pattern=spread, repeats=20, x=x),
    ]


SPREAD = [1.0, 0.8, 9.0, 1.5, 0.8, 1.5, 1.0, 0.2, 1.5, 0.8]
"""Median, quartiles and extremes are the same however quartiles are computed, and wherever in it one begins."""


def quotes_benchmark(inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"number": inputs["repeats"] or 30}
    return {**fields, "turns": seen["variants"]} if "variants" in seen else fields


benchmark = Exercise(
    "benchmark",
    probe_benchmark,
    cases_benchmark,
    hints=(
        "The first call of a compiled function compiles. Where does that call belong: before the first stopwatch "
        "starts, or into the numbers?",
        "A GPU takes work into a queue and lets the host go on. What has to be empty before you start a stopwatch, and "
        "again before you stop it? On the CPU there is nothing to wait for.",
        "If the machine becomes warm halfway, which of two variants suffers? Two nested loops: which of them is the "
        "outer one?",
    ),
    derive=derive_benchmark,
    quotes=quotes_benchmark,
)

# --- graph_ops ---------------------------------------------------------------------------------------------------


def probe_graph_ops(answer: Watched, function: str, args: list[Tensor]) -> Observations:
    with as_new():
        found = answer.answer(FUNCTIONS[function], *args)
    if not isinstance(found, list):
        return {"returned": kind(found)}
    return {"operators": [name if isinstance(name, str) else kind(name) for name in found]}


def cases_graph_ops(draw: Draw) -> list[Case]:
    n = draw.size(3, 5)
    return [
        case("operations on one tensor", function="pointwise", args=[draw.normal(n)]),
        case("two tensors", function="two tensors", args=[draw.normal(n), draw.normal(n)]),
        case("one operation twice", function="twice the same", args=[draw.normal(2, n)]),
        case("with reductions", function="centred", args=[draw.normal(2, n)]),
        case("an operation with two results", function="two results", args=[draw.normal(2, n)]),
        case("a loop in Python", function="python loop", args=[draw.normal(n)]),
    ]


def quotes_graph_ops(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    found, meant = seen.get("operators", []), wanted["operators"]
    extra = [name for name in found if name not in meant]
    fields: dict[str, object] = {"listed": ", ".join(found), "meant": ", ".join(meant)}
    return {**fields, "extra": extra[0]} if extra else fields


graph_ops = Exercise(
    "graph_ops",
    probe_graph_ops,
    cases_graph_ops,
    hints=(
        "`make_fx(fn)(*args)` runs a function and returns a graph of the operators that ran. What does it hold besides "
        "operators?",
        "A node has an `op`, a `name` and a `target`. Which kind of `op` computes, and which of the other two reads "
        "\"aten.mul.Tensor\" as a string?",
        "An operator with two results is followed by nodes that take one of them. These call a function of Python. How "
        "do you tell them from ATen's operators?",
    ),
    any_device=False,
    quotes=quotes_graph_ops,
    seconds=20.0,
    imports=COMPILER,
)

# --- compile_or_eager --------------------------------------------------------------------------------------------

BROKEN = "no working C++ compiler was found"


class Sturdy(nn.Module):
    """A model of one layer, made of the tensors of a case. It refuses what is told, in its own words."""

    def __init__(self, weight: Tensor, refuses: str = "") -> None:
        super().__init__()
        self.weight, self.refuses = nn.Parameter(weight), refuses

    def forward(self, x: Tensor) -> Tensor:
        if self.refuses == "breaks":
            torch._dynamo.graph_break()
        if self.refuses == "raises":
            raise ValueError(f"x has {x.shape[0]} rows, and this model wants none")
        return torch.tanh(x @ self.weight)


@contextlib.contextmanager
def compiling_with(backend: Callable[..., Any]) -> Iterator[None]:
    """A block in which torch.compile's default compiler is `backend`: no probe needs a compiler that makes code."""

    def instead(_self: object, graph: Any, inputs: Any, **_options: Any) -> Any:
        return backend(graph, inputs)

    with as_new(), mock.patch.object(torch._TorchCompileInductorWrapper, "__call__", instead):
        yield


def _breaking(_graph: Any, _inputs: Any) -> Any:
    raise RuntimeError(BROKEN)


def probe_compile_or_eager(answer: Watched, weight: Tensor, x: Tensor, refuses: str, compiler: str) -> Observations:
    model, counted = Sturdy(weight, refuses), Counted()
    with compiling_with(counted if compiler == "works" else _breaking):
        try:
            found = answer.answer(model, x)
        except Unattempted:
            raise
        except Exception as error:
            return {"the call": _came_through(error)}
        if not (isinstance(found, tuple) and len(found) == 2 and callable(found[0])):
            return {"returned": kind(found)}
        before = counted.runs
        try:
            outcome: Any = found[0](2 * x)
            ran = "compiled" if counted.runs > before else "as plain Python"
        except Exception as error:
            outcome = Raised(type(error).__name__, " ".join(str(error).strip().split("\n")[:2])[:200])
            ran = "into an error"
    return {"its first result runs": ran, "and returns": outcome, "reason": _reason(found[1])}


def _came_through(error: Exception) -> Raised:
    first = str(error).strip().split("\n")[0][:200]
    if BROKEN in str(error):
        return Raised("RuntimeError", BROKEN, "the compiler's error")
    if isinstance(error, ValueError) or type(error).__name__ == "ValueError":
        return Raised("ValueError", first, "the model's error")
    sizes = isinstance(error, RuntimeError) and any(w in str(error) for w in ("shape", "size", "dim"))
    return Raised("RuntimeError", first, "the model's error") if sizes else Raised(type(error).__name__, first)


def _reason(reason: object) -> str:
    """Whether a reason is given, and whether it says anything of what went wrong."""
    if reason is None:
        return "is None"
    said = f"{type(reason).__name__} {reason}"
    tells = any(words in said for words in (BROKEN, "RuntimeError", "BackendCompilerFailed"))
    return "says what went wrong" if tells else "does not say what went wrong"


def cases_compile_or_eager(draw: Draw) -> list[Case]:
    n = draw.size(3, 5)
    fits: dict[str, Any] = {"weight": draw.normal(n, 2), "x": draw.normal(4, n)}
    misfit: dict[str, Any] = {"weight": draw.normal(n, 2), "x": draw.normal(4, n + 1)}
    return [
        case("the compiler works", **fits, refuses="", compiler="works"),
        case("the compiler fails", **fits, refuses="", compiler="fails"),
        case("the model raises an error", **fits, refuses="raises", compiler="works"),
        case("the example does not fit the model", **misfit, refuses="", compiler="works"),
        case("the example does not fit, and the compiler fails", **misfit, refuses="", compiler="fails"),
        case("a model with a graph break", **fits, refuses="breaks", compiler="works"),
    ]


def quotes_compile_or_eager(_inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    names = {"runs": "its first result runs", "gives": "and returns", "reason": "reason", "raised": "the call"}
    return {field: seen[name] for field, name in names.items() if name in seen}


compile_or_eager = Exercise(
    "compile_or_eager",
    probe_compile_or_eager,
    cases_compile_or_eager,
    hints=(
        "When does a compiled model meet the compiler: when `torch.compile` returns, or when it is called? What is the "
        "example for?",
        "Two things can go wrong in one call: the model and the compiler. Which call can you make first so that only "
        "the compiler is left to fail?",
        "What you catch has a type and a message. Which of it would help somebody who reads the reason in a log a week "
        "later?",
    ),
    any_device=False,
    quotes=quotes_compile_or_eager,
    seconds=20.0,
    imports=INDUCTOR,
)

# --- swiglu ------------------------------------------------------------------------------------------------------


def probe_swiglu(answer: Watched, x: Tensor, gate: Tensor) -> Observations:
    raw = x.clone(), gate.clone()
    leaves = x.requires_grad_(), gate.requires_grad_()
    result = answer.answer(*leaves)
    seen = {**look(result, x), **kept(x=(x.detach(), raw[0]), gate=(gate.detach(), raw[1]))}
    if isinstance(result, Tensor):
        seen |= _both_gradients(result, *leaves)
    return {**seen, **_as_an_operator(answer.answer, *raw)} if x.device.type == "cpu" else seen


def _both_gradients(result: Tensor, x: Tensor, gate: Tensor) -> Observations:
    if not result.requires_grad:
        return {"gradients": "none: the result has no history"}
    try:
        sent = (result * ramp(*result.shape, low=-1, high=2, like=result)).sum()
        found = torch.autograd.grad(sent, (x, gate), allow_unused=True)
    except RuntimeError as error:
        if "no autograd formula" not in str(error):
            raise
        return {"gradients": Raised("RuntimeError", _plain_name(error), "no formula for backward")}
    names = ("gradient of x", "gradient of gate")
    return {name: "none" if g is None else g for name, g in zip(names, found, strict=True)}


def _as_an_operator(function: Callable[..., Any], x: Tensor, gate: Tensor) -> Observations:
    """Under which name the answer runs as an operator, and what `torch.library.opcheck` says of it."""
    from torchcourse.watching import Watch

    with Watch() as watch:
        function(x, gate)
    own = [name for name in watch.operators if not name.startswith(("aten::", "prim::", "prims::"))]
    if len(own) != 1:
        return {"runs as": sorted(set(own or watch.operators))}
    space, _, name = own[0].partition("::")
    operator = getattr(getattr(getattr(torch.ops, space), name.split(".")[0]), [*name.split("."), "default"][1])
    with as_new():
        inputs = tuple(t.clone().requires_grad_() for t in (x, gate))
        report = torch.library.opcheck(operator, inputs, raise_exception=False)
    return {
        "runs as": re.sub(r"^torchcourse\w*::", "torchcourse::", own[0]),
        "opcheck": {test: "passes" if said == "SUCCESS" else _fault(said) for test, said in report.items()},
    }


def _plain_name(said: object) -> str:
    """What was said, in one line, the operator called by the one name whatever its namespace is."""
    line = re.sub(r"torchcourse\w*(::|\.)", r"torchcourse\1", " ".join(str(said).split()))
    return line[:200].rstrip(".")


def _fault(said: object) -> Raised:
    return remark("has no fake" if "no fake impl" in str(said) else "fails", _plain_name(said))


def cases_swiglu(draw: Draw) -> list[Case]:
    n = draw.size(3, 5)
    return [
        case("a vector", x=draw.normal(n), gate=2 * draw.normal(n)),
        case("a table", x=draw.normal(3, n), gate=2 * draw.normal(3, n)),
        case("float64", rtol=1e-8, atol=1e-10, x=draw.normal(2, n, dtype=torch.float64),
             gate=draw.normal(2, n, dtype=torch.float64)),
        case("large gates", x=draw.normal(n), gate=draw.uniform(-60, 60, n)),
    ]  # fmt: skip


def quotes_swiglu(_inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"name": seen["runs as"]} if "runs as" in seen else {}
    failed = {test: said for test, said in seen.get("opcheck", {}).items() if isinstance(said, Raised)}
    for test, said in failed.items():
        fields |= {"test": test, "said": said.message}
        break
    if isinstance(seen.get("gradients"), Raised):
        fields["gradients"] = seen["gradients"]
    return fields


swiglu = Exercise(
    "swiglu",
    probe_swiglu,
    cases_swiglu,
    hints=(
        "The function below `custom_op` computes. What does the compiler need in its place when it has shapes and "
        "dtypes, but no numbers yet? It is a registration of its own.",
        "What is the derivative of g·sigmoid(g)? Two factors, so two terms; and x needs a gradient as well.",
        "`register_autograd` takes a backward and, as `setup_context`, a function that saves what backward needs. "
        "Which tensors does it need, and in which order does it return gradients?",
    ),
    quotes=quotes_swiglu,
    seconds=20.0,
    imports=INDUCTOR,
)

# --- same_numerics -----------------------------------------------------------------------------------------------


class Small(nn.Module):
    """Two layers made of the tensors of a case. A name in `frozen` requires no grad; `spare` takes no part."""

    def __init__(self, weights: dict[str, Tensor], frozen: Sequence[str], spare: bool) -> None:
        super().__init__()
        for name, value in weights.items():
            setattr(self, name, nn.Parameter(value.clone(), requires_grad=name not in frozen))
        if spare:
            self.spare = nn.Parameter(torch.ones(3, device=weights["w1"].device))

    def compute(self, x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor) -> Tensor:
        return torch.tanh(x @ w1 + b1) @ w2

    def forward(self, x: Tensor) -> Tensor:
        return self.compute(x, self.w1, self.b1, self.w2)  # type: ignore[arg-type]


class _Skewed(torch.autograd.Function):
    """The identity, with a gradient that comes out too large."""

    @staticmethod
    def forward(ctx: Any, t: Tensor) -> Tensor:
        return t.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0] * 3


class Miscompiled(nn.Module):
    """Stands for the compiled model, whose parameters it shares: it is off by `shift` at one place of its output, and
    by a factor in the gradient of what `off` names."""

    def __init__(self, model: Small, shift: float, off: str) -> None:
        super().__init__()
        self._orig_mod, self.shift, self.off = model, shift, off

    def forward(self, x: Tensor) -> Tensor:
        model = self._orig_mod
        parts = {"x": x, "w1": model.w1, "b1": model.b1, "w2": model.w2}
        if self.off:
            parts[self.off] = _Skewed.apply(parts[self.off])
        out = model.compute(*parts.values())  # type: ignore[arg-type]
        if not self.shift:
            return out
        change = torch.zeros_like(out)
        change[-1, 0] = self.shift
        return out + change


def probe_same_numerics(
    answer: Watched, weights: dict[str, Tensor], x: Tensor, atol: float, shift: float, off: str, frozen: list[str],
    spare: bool, grads: dict[str, float],
) -> Observations:  # fmt: skip
    model = Small(weights, frozen, spare)
    compiled, raw = Miscompiled(model, shift, off), x.clone()
    held: dict[str, Tensor] = {"x": x, **dict(model.named_parameters())}
    if "x" in grads:
        x.requires_grad_()
    for name, value in grads.items():
        held[name].grad = torch.full_like(held[name], value)
    before = {name: None if t.grad is None else t.grad.clone() for name, t in held.items()}
    found = answer.answer(model, compiled, x, atol)
    if not (isinstance(found, dict) and {"output", "grad", "ok"} <= found.keys()):
        return {"returned": f"{kind(found)} without the keys output, grad and ok"}
    changed = [name for name, t in held.items() if not _same_grad(t.grad, before[name])]
    return {
        "output": number(found["output"]),
        "grad": number(found["grad"]),
        "ok": bool(found["ok"]) if isinstance(found["ok"], bool | Tensor) else kind(found["ok"]),
        "changed .grad of": changed or "nothing",
        "x.requires_grad": "as before" if x.requires_grad == ("x" in grads) else f"now {x.requires_grad}",
        **kept(x=(x.detach(), raw)),
    }


def _same_grad(now: Tensor | None, before: Tensor | None) -> bool:
    return now is before if now is None or before is None else torch.equal(now, before)


def derive_same_numerics(case: Case, seen: Observations) -> Observations:
    """The gradient's difference depends on what was made of the output to get one: only its size is asked."""
    grad, output, atol = seen.get("grad"), seen.get("output"), case.inputs["atol"]
    if isinstance(grad, float):
        size = "no number" if math.isnan(grad) else "0" if abs(grad) <= 1e-6 else "more than atol"
        seen = {**seen, "grad": size if abs(grad) <= 1e-6 or not abs(grad) <= atol else "less than atol"}
    if isinstance(output, float) and not math.isfinite(output):
        seen = {**seen, "output": "no finite number"}
    return seen


def cases_same_numerics(draw: Draw) -> list[Case]:
    i, h, o, n = draw.size(2, 3), draw.size(3, 4), 2, draw.size(3, 4)
    weights = {"w1": 0.5 * draw.normal(i, h), "b1": 0.5 * draw.normal(h), "w2": 1 + 0.1 * draw.normal(h, o)}
    common: dict[str, Any] = {"rtol": 0.02, "atol": 1e-5}

    def one(name: str, **more: Any) -> Case:
        usual = {"shift": 0.0, "off": "", "frozen": [], "spare": False, "grads": {}}
        chosen = {**usual, **more}
        margin = chosen.pop("margin", 1e-3)
        made = case(name, **common, weights=weights, x=draw.normal(n, i), **chosen)
        return Case(made.name, {**made.inputs, "atol": margin}, made.tolerance)

    return [
        one("the same in all"),
        one("one output is too high", shift=0.5),
        one("one output is too low", shift=-0.5),
        one("a difference below atol", shift=0.01, margin=0.1),
        one("the gradient of x is off", off="x"),
        one("the gradient of a weight is off", off="w2"),
        one("with gradients from before", grads={"w1": 5.0, "x": -2.0}),
        one("a frozen bias, and a parameter that takes no part", frozen=["b1"], spare=True, grads={"w2": 1.0}),
        one("one output is not a number", shift=math.nan),
    ]


def quotes_same_numerics(inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    names = {"output": "output", "grad": "grad", "ok": "ok", "changed": "changed .grad of"}
    return {"margin": inputs["atol"], **{field: seen[name] for field, name in names.items() if name in seen}}


same_numerics = Exercise(
    "same_numerics",
    probe_same_numerics,
    cases_same_numerics,
    hints=(
        "Two runs of the same kind, one with each model: what has to come out of each so that you can compare outputs "
        "and gradients?",
        "`backward()` leaves its results in `.grad`, on top of what is there. Which function of `torch.autograd` "
        "returns them instead, and what does it need to be told about parameters that take no part?",
        "The largest absolute difference over several tensors: what do you do about one that is None, and what does a "
        "comparison with NaN say?",
    ),
    derive=derive_same_numerics,
    quotes=quotes_same_numerics,
)

EXERCISES = (
    count_graphs, signed_scale, clip_by_norm, CountingBackend, compile_dynamic, benchmark, graph_ops, compile_or_eager,
    swiglu, same_numerics,
)  # fmt: skip
