"""The exercise `attention_backends`: its probe, visible cases and hints."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations, Raised
from torchcourse.probes.observe import kind
from torchcourse.probes.trainable_models import with_detail

NAMES = ("MATH", "FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION")


def enabled() -> list[str]:
    """Return the names of the backends that are switched on."""
    cuda: Any = torch.backends.cuda
    ask = (cuda.math_sdp_enabled, cuda.flash_sdp_enabled, cuda.mem_efficient_sdp_enabled, cuda.cudnn_sdp_enabled)
    return sorted(name for name, is_on in zip(NAMES, ask, strict=True) if is_on())


@contextlib.contextmanager
def switched_on(names: Sequence[str]) -> Iterator[None]:
    """Switch on only these backends in this block, whatever the block does to the setting."""
    with sdpa_kernel([getattr(SDPBackend, name) for name in names]):
        yield


class Accelerator(TorchFunctionMode):
    """A device that has only some of the backends, as each GPU has others: calls that none may take raise."""

    def __init__(self, has: Sequence[str]) -> None:
        super().__init__()
        self.has = has

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        if getattr(func, "__name__", "") != "scaled_dot_product_attention":
            return func(*args, **(kwargs or {}))
        if not set(self.has) & set(enabled()):
            raise RuntimeError("No available kernel. Aborting execution.")
        with switched_on(["MATH"]):
            return func(*args, **(kwargs or {}))


def probe(
    answer: Watched, q: Tensor, k: Tensor, v: Tensor, options: dict[str, Any], has: list[str], setting: list[str]
) -> Observations:
    """Observe the names, and which backends are on before and afterwards; `has` is what an accelerator offers."""
    options = dict(options)
    if options.pop("mask_requires_grad", False):
        options["attn_mask"].requires_grad_()
    odd = options.pop("odd_strides", "")
    q, k, v = (t.mT.contiguous().mT if name in odd else t for name, t in zip("qkv", (q, k, v), strict=True))
    device = contextlib.nullcontext() if q.device.type == "cpu" else Accelerator(has)
    with switched_on(setting or NAMES):
        before = enabled()
        with device:
            seen = _asked(answer, q, k, v, options)
        after = enabled()
    words = "as before" if after == before else "changed"
    return {**seen, "setting afterwards": with_detail(words, ", ".join(after) or "nothing is switched on")}


def _asked(answer: Watched, q: Tensor, k: Tensor, v: Tensor, options: dict[str, Any]) -> Observations:
    try:
        names = answer.answer(q, k, v, **options)
    except RuntimeError as error:
        return {"result": Raised("RuntimeError", " ".join(str(error).split())[:150].rstrip("."), "raised")}
    return {"result": names if isinstance(names, list) else kind(names)}


def call_case(
    draw: Draw, name: str, *, t: int = 5, d: int = 8, of: dict[str, Any] | None = None, setting: Sequence[str] = (),
    has: Sequence[str] = ("MATH", "EFFICIENT_ATTENTION"), dtype: torch.dtype = torch.float32, k_width: int = 0,
    values: int = 0, k_dtype: torch.dtype | None = None, batch: int = 2, heads: int = 3,
) -> Case:  # fmt: skip
    """Return the case of a call on drawn tensors, with the options `of` it, keys of `k_width` numbers and of `k_dtype`,
    `values` rows of values; keys and values have this `batch` size and as many `heads`."""
    q = draw.normal(2, 3, t, d, dtype=dtype)
    k, v = (draw.normal(batch, heads, t, width, dtype=dtype) for width in (k_width or d, d))
    k = k if k_dtype is None else k.to(k_dtype)
    return case(name, q=q, k=k, v=v[:, :, : values or t], options=dict(of or {}), has=list(has), setting=list(setting))


def cases(draw: Draw) -> list[Case]:
    t = draw.size(4, 6)
    allowed = torch.ones(t, t, dtype=torch.bool).tril()
    return [
        call_case(draw, "a plain call", t=t, has=NAMES),
        call_case(draw, "causal", t=t, of={"is_causal": True}, has=["FLASH_ATTENTION", "MATH"]),
        call_case(draw, "dropout", t=t, of={"dropout_p": 0.5}, has=["MATH", "CUDNN_ATTENTION"]),
        call_case(draw, "a mask", t=t, of={"attn_mask": allowed}),
        call_case(draw, "a mask that requires grad", t=t, has=["MATH"],
                  of={"attn_mask": draw.normal(t, t), "mask_requires_grad": True}),
        call_case(draw, "odd strides", t=t, of={"odd_strides": "q"}, has=NAMES[:3]),
        call_case(draw, "odd strides of the values", t=t, of={"odd_strides": "v"}, has=NAMES[:2]),
        call_case(draw, "while only MATH is switched on", t=t, setting=["MATH"], has=NAMES),
        call_case(draw, "while only CUDNN_ATTENTION is switched on", t=t, setting=["CUDNN_ATTENTION"], has=NAMES[:2]),
        call_case(draw, "keys of another width", t=t, k_width=6),
        call_case(draw, "keys of another dtype", t=t, k_dtype=torch.float64),
        call_case(draw, "keys and values of another batch size", t=t, batch=3),
        call_case(draw, "keys and values of fewer heads", t=t, heads=2, has=NAMES),
        call_case(draw, "a mask of the wrong size", t=t, of={"attn_mask": allowed[:-1, :-1]}),
        call_case(draw, "values with a row too few", t=t, values=t - 1, has=NAMES),
    ]  # fmt: skip


def quotes(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"names": seen.get("result"), "want_names": wanted.get("result")}
    if isinstance(seen.get("setting afterwards"), Raised):
        fields["setting"] = seen["setting afterwards"].message
    return fields


EXERCISE = Exercise(
    "attention_backends",
    probe,
    cases,
    hints=(
        "`with sdpa_kernel(backend):` allows one backend, and gives the old setting back at the end of its block. What "
        "does a call do that the only backend allowed refuses?",
        "A refusal is a RuntimeError, and so is a wrong shape. Which backend takes every call that is right at all? "
        "What does an error of that one tell you?",
        "`getattr(SDPBackend, name)` gives a backend by name. Call the function itself for each of the four; a rule of "
        "thumb about devices and dtypes will be wrong for some mask.",
    ),
    quotes=quotes,
)
