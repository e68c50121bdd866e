"""Run PyTorch's operator database on the simulated device against the CPU: `python operators.py SAMPLES RUN...`.

A run is "forward:float32" or the like; the other kinds are "backward" and "inplace". Prints a JSON object for each run:
operator name to "agrees", "skipped: why" (the CPU itself cannot) or "differs: how". It is a program of its own because
importing the database changes global flags, and because a crash should fail one test and no more.
"""

from __future__ import annotations

import itertools
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from torchcourse import simulated

DEVICE = simulated.register()
warnings.simplefilter("ignore")

from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

# another algorithm than the CPU's (the plain formula for its fused kernel), so another rounding
TOLERANCES = {"nn_functional_scaled_dot_product_attention": {"rtol": 1e-4, "atol": 3e-5}}
UNINITIALISED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
HOST_TENSORS = {"tensor_split"}  # takes its indices on the CPU only, on CUDA too
FACTORIES = {"arange", "linspace", "logspace"}  # make CPU tensors where no device is asked for, on CUDA too
Tensor = torch.Tensor


class IncapableError(Exception):
    """The CPU itself does not run this sample."""


def copied(t: Tensor) -> Tensor:
    """Return a copy with a storage of its own and the same layout over it, gaps and all."""
    if t.is_conj() or t.is_neg() or t.layout is not torch.strided:
        return t.detach().clone()
    whole = torch.empty(0, dtype=t.dtype).set_(t.untyped_storage())
    return whole.clone().as_strided(t.shape, t.stride(), t.storage_offset())


def moved(t: Tensor) -> Tensor:
    """Do the same onto the device."""
    if t.is_conj() or t.is_neg() or t.layout is not torch.strided:
        return t.detach().to(DEVICE)
    whole = torch.empty(0, dtype=t.dtype).set_(t.untyped_storage())
    return whole.to(DEVICE).as_strided(t.shape, t.stride(), t.storage_offset())


def rebuilt(sample: Any, place: Callable[[Tensor], Tensor], device: Any) -> tuple[Any, ...]:
    """Return input, arguments and keywords of a sample with every tensor and device put in place."""

    def put(x: Any) -> Any:
        if isinstance(x, Tensor):
            return place(x).detach().requires_grad_(x.requires_grad)
        return device if x == "cpu" or (isinstance(x, torch.device) and x.type == "cpu") else x

    return tree_map(put, (sample.input, tuple(sample.args), sample.kwargs))  # type: ignore[no-any-return]


def compare(name: str, want: Any, got: Any, place: torch.device, strides: bool) -> None:
    """Raise `AssertionError` where results differ in value, shape, dtype or layout, or do not lie at `place`."""
    pairs = list(zip(tree_leaves(want), tree_leaves(got), strict=True))
    for a, b in pairs:
        if not isinstance(a, Tensor):
            assert a == b or a != a, f"{a} and {b}"
            continue
        assert b.device == place, f"a result lies on {b.device}"
        a, held = a.detach(), simulated.values(b.detach())
        layout = (b.shape, b.stride(), b.storage_offset())
        assert layout == (held.shape, held.stride(), held.storage_offset()), f"{layout} claimed"
        assert (a.is_conj(), a.is_neg()) == (b.is_conj(), b.is_neg()), "conjugate or negative bits differ"
        if name in UNINITIALISED:
            a, held = torch.zeros_like(a), torch.zeros_like(held)
        torch.testing.assert_close(held, a, equal_nan=True, check_stride=strides, **TOLERANCES.get(name, {}))


def gradients(out: Any, inputs: Any) -> Any:
    """Return the gradients of all outputs, weighted with ones."""
    roots = [x for x in tree_leaves(out) if isinstance(x, Tensor) and x.requires_grad]
    leaves = [x for x in tree_leaves(inputs) if isinstance(x, Tensor) and x.requires_grad]
    if not roots:
        return None
    return torch.autograd.grad(roots, leaves, [torch.ones_like(x) for x in roots], allow_unused=True)


def is_dense(x: Any) -> bool:
    return isinstance(x, Tensor) and x.layout is torch.strided


def aliases(out: Any, inputs: Any) -> list[bool]:
    """Return for each result and each input whether the two share memory."""
    results, sources = ([x for x in tree_leaves(tree) if is_dense(x)] for tree in (out, inputs))
    return [simulated.shares_memory(result, source) for result in results for source in sources]


def called(function: Any, sample: Any, inputs: tuple[Any, ...], backward: bool) -> tuple[Any, Any]:
    """Return the result of one seeded call, what shares memory with what, and the gradients if asked for."""
    torch.manual_seed(0)
    first, args, kwargs = inputs
    out = function(first, *args, **kwargs)
    if not backward:
        return out, aliases(out, inputs), None
    return out, aliases(out, inputs), gradients(sample.output_process_fn_grad(out), inputs)


def agree(op: Any, function: Any, sample: Any, backward: bool) -> None:
    """Raise unless both devices give the same; `IncapableError` where the CPU itself raises."""
    ours = rebuilt(sample, copied if op.name in HOST_TENSORS else moved, DEVICE)
    if op.name in HOST_TENSORS:
        ours = (moved(sample.input).detach().requires_grad_(sample.input.requires_grad), *ours[1:])
    try:
        want = called(function, sample, rebuilt(sample, copied, "cpu"), backward)
    except Exception as error:
        raise IncapableError(type(error).__name__) from error
    place = torch.device("cpu") if op.name in FACTORIES and "device" not in sample.kwargs else DEVICE
    # gradients may be laid out differently: attention takes another way through backward
    compare(op.formatted_name, want, called(function, sample, ours, backward), place, strides=not backward)


def chosen(run: str, dtype: torch.dtype) -> Iterator[tuple[Any, Any]]:
    """Yield the operators that a run covers, each with the function to call."""
    for op in op_db:
        if dtype not in op.supported_dtypes("cpu"):
            continue
        if run == "backward" and not (op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")):
            continue
        function = op.inplace_variant if run == "inplace" else op
        if function is not None:
            yield op, function


def verdict(op: Any, function: Any, run: str, dtype: torch.dtype, limit: int) -> str:
    """Return "agrees", "skipped: ..." or "differs: ..." for one operator."""
    seen, skipped = 0, "no samples"
    samples = op.sample_inputs("cpu", dtype, requires_grad=run == "backward")
    for sample in itertools.islice(samples, limit):
        if run == "inplace" and sample.broadcasts_input:
            continue
        try:
            agree(op, function, sample, run == "backward")
            seen += 1
        except IncapableError as error:
            skipped = str(error)
        except Exception as error:
            return f"differs: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
    return "agrees" if seen else f"skipped: {skipped}"


def main(limit: str, *runs: str) -> None:
    torch.set_num_threads(1)
    for run in runs:
        kind, _, name = run.partition(":")
        dtype = getattr(torch, name)
        verdicts = {op.formatted_name: verdict(op, f, kind, dtype, int(limit)) for op, f in chosen(kind, dtype)}
        print(json.dumps(verdicts))


if __name__ == "__main__":
    main(*sys.argv[1:])
