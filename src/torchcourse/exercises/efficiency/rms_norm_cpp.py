"""The exercise `rms_norm_cpp`: its probe, visible cases and hints."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import COMPILER_ERROR, Observations, Raised
from torchcourse.probes.native import COMPILER_SAYS, CompilerError, compiled, in_a_process
from torchcourse.probes.observe import kept, kind
from torchcourse.probes.trainable_models import with_detail

SHOWN = 6
"""How many columns of a long result are reported."""
LOADED = (
    "this process has loaded torchcourse::rms_norm already, and a process has only one: restart the kernel, and load "
    "the library in a process of its own"
)

ENDLESS: dict[Path, Observations] = {}
"""What was observed of a library that was called in vain: waiting in each case would use up the exercise's time."""


def probe(answer: Watched, x: Tensor, eps: float, ones: int = 0, layout: str = "") -> Observations:
    """Compile the source, and observe what the operator returns for x, followed by many ones where `ones` says so.

    `layout` makes x strided: "transposed", "every other column" or "one row, expanded".
    """
    source = answer.answer()
    if not isinstance(source, str):
        return {"returned": kind(source)}
    try:
        library = compiled(source)
    except CompilerError as error:
        return {"raised": Raised(COMPILER_ERROR, f"{COMPILER_SAYS}\n{error}", "does not compile")}
    if is_registered():
        return {"raised": Raised("RuntimeError", LOADED)}
    if library in ENDLESS:
        return ENDLESS[library]
    given = laid_out(torch.cat([x, x.new_ones(*x.shape[:-1], ones)], dim=-1), layout)
    seen = in_a_process(lambda: _called(str(library), given, eps))
    if isinstance(ended := seen.get("raised"), Raised) and ended.kind == "Timeout":
        ENDLESS[library] = seen
    return seen


def is_registered() -> bool:
    """Return whether this process has an operator torchcourse::rms_norm."""
    return any(str(name) == "torchcourse::rms_norm" for name in torch._C._dispatch_get_all_op_names())


def laid_out(x: Tensor, layout: str) -> Tensor:
    """Return x with other strides, or with each row a view of the first."""
    if layout == "transposed":
        return x.mT.contiguous().mT
    if layout == "every other column":
        return torch.stack([x, -7 * torch.ones_like(x)], dim=-1).flatten(-2)[..., ::2]
    return x[:1].expand(x.shape) if layout else x


def _called(library: str, x: Tensor, eps: float) -> Observations:
    before = x.clone()
    torch.ops.load_library(library)  # type: ignore[no-untyped-call]
    name = "torchcourse::rms_norm"
    if not hasattr(torch.ops.torchcourse, "rms_norm"):
        return {"registered": "nothing of that name"}
    seen: Observations = {"registered": f"{name}: {torch.ops.torchcourse.rms_norm.default._schema}"}
    result = torch.ops.torchcourse.rms_norm(x, eps)
    if not isinstance(result, Tensor):
        return {**seen, "returned": kind(result)}
    seen |= {"shape": tuple(result.shape), "result": result[..., :SHOWN].clone()}
    return {**seen, **kept(x=(x, before))}


def derive(case: Case, seen: Observations) -> Observations:
    """Reduce a float64 result that is far off to just that: memory read in the wrong dtype holds anything."""
    x, result = case.inputs["x"], seen.get("result")
    if x.dtype != torch.float64 or not isinstance(result, Tensor) or result.dtype != x.dtype:
        return seen
    given = laid_out(x, case.inputs["layout"])
    wanted = torch.nn.functional.rms_norm(given, given.shape[-1:], eps=case.inputs["eps"])[..., :SHOWN]
    if result.shape != wanted.shape or bool(((result - wanted).abs() <= 0.02).all()):
        return seen
    return {**seen, "result": with_detail("quite other numbers", f"such as {result.flatten()[0]:.3g}")}


def row_case(
    draw: Draw, name: str, *shape: int, eps: float = 1e-5, ones: int = 0, layout: str = "",
    dtype: torch.dtype = torch.float32, scale: float = 1.0,
) -> Case:  # fmt: skip
    """Return the case of drawn rows; with `ones`, each begins with a large number, so that float32 loses the ones."""
    x = scale * draw.normal(*shape, dtype=dtype)
    if ones:
        x[..., 0] = 4096.0
    rtol = 1e-4 if dtype == torch.float32 else 1e-10
    return case(name, rtol=rtol, atol=rtol / 10, x=x, eps=eps, ones=ones, layout=layout)


def cases(draw: Draw) -> list[Case]:
    n, d = draw.size(3, 4), draw.size(6, 9)
    return [
        row_case(draw, "a matrix", n, d),
        row_case(draw, "float64", n, d, eps=0.3, dtype=torch.float64),
        row_case(draw, "a large eps", n, d, eps=0.5),
        row_case(draw, "three dimensions", 2, n, d),
        row_case(draw, "numbers whose squares no float32 holds", n, d, scale=1e25),
        row_case(draw, "a transposed matrix", n, d, layout="transposed"),
        row_case(draw, "every other column of a matrix", n, d, layout="every other column"),
        row_case(draw, "a large number before many ones", 1, 5, ones=60_000),
    ]


def quotes(_inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    return {"registered": seen["registered"]} if "registered" in seen else {}


EXERCISE = Exercise(
    "rms_norm_cpp",
    probe,
    cases,
    hints=(
        "Start from the example above the exercise, which compiles, and change one thing at a time: the schema, the "
        "function's arguments, then the loop over rows. The card shows what the compiler says.",
        "A tensor's memory need not lie row by row. Either ask for a copy that does before you take the pointer, or "
        "use the strides. And which type does the pointer have to have for float32, and which for float64?",
        "In which type do you add up the squares, so that a large number does not swallow the small ones behind it? Is "
        "eps added before the root is taken, or after it?",
    ),
    any_device=False,
    derive=derive,
    quotes=quotes,
    seconds=60.0,
)
