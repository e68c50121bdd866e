"""Right answers to lesson 06 unlike the references, written from the statements alone."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import timeit
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from time import monotonic_ns
from time import perf_counter as clock
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import checkpoint as ckpt
from torch.utils._pytree import tree_map_only

# --- pick_device -------------------------------------------------------------------------------------------------


def pick_by_asking_each(prefer: Any = None) -> torch.device:
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(),
             "xpu": torch.xpu.is_available(), "cpu": True}  # fmt: skip
    if prefer is None:
        return torch.device(next(kind for kind, available in there.items() if available))
    try:
        wanted = torch.device(prefer)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"prefer={prefer!r} is not a device: {error}") from error
    if not there.get(wanted.type, False):
        raise ValueError(f"prefer={prefer!r} is not available here; choose from {[k for k, v in there.items() if v]}")
    if wanted.type == "cuda" and wanted.index is not None and wanted.index >= torch.cuda.device_count():
        raise ValueError(f"prefer={prefer!r}: there are only {torch.cuda.device_count()} GPUs")
    if wanted.type == "xpu" and (wanted.index or 0) >= torch.xpu.device_count():
        raise ValueError(f"prefer={prefer!r}: there are only {torch.xpu.device_count()}")
    return wanted


def pick_by_trying(prefer: Any = None) -> torch.device:
    if prefer is not None:
        try:
            return torch.empty(0, device=prefer).device
        except (RuntimeError, AssertionError) as error:
            raise ValueError(f"prefer: wanted a device that is here, got {prefer}") from error
    if torch.accelerator.is_available():
        kind = torch.accelerator.current_accelerator().type
        return torch.device(kind, torch.accelerator.current_device_index())
    return torch.device("cpu")


def pick_from_a_list(prefer: Any = None) -> torch.device:
    names = ["cpu"]
    if torch.accelerator.is_available():
        kind = torch.accelerator.current_accelerator().type
        names = [kind, *(f"{kind}:{i}" for i in range(torch.accelerator.device_count())), "cpu"]
    chosen = names[0] if prefer is None else str(prefer)
    if chosen not in names:
        raise ValueError(f"prefer has to be one of {names}, got {prefer!r}")
    return torch.device(chosen)


# --- move_to -----------------------------------------------------------------------------------------------------


def move_by_tree(obj: Any, device: torch.device) -> Any:
    return tree_map_only(Tensor, lambda t: t.to(device), obj)


def move_by_match(obj: Any, device: torch.device) -> Any:
    again = functools.partial(move_by_match, device=device)
    match obj:
        case Tensor():
            return obj.to(device=device)
        case dict():
            return dict(zip(obj.keys(), map(again, obj.values()), strict=True))
        case tuple() if hasattr(obj, "_make"):
            return obj._make(map(again, obj))
        case tuple() | list():
            return type(obj)(map(again, obj))
    return obj


def move_with_a_stack(obj: Any, device: torch.device) -> Any:
    if torch.is_tensor(obj):
        there = torch.empty_like(obj, device=device)
        return there.copy_(obj) if not there.is_meta else there
    if hasattr(obj, "_asdict"):
        return type(obj)(**{name: move_with_a_stack(value, device) for name, value in obj._asdict().items()})
    if isinstance(obj, dict):
        made = obj.copy()
        for key in obj:
            made[key] = move_with_a_stack(obj[key], device)
        return made
    if isinstance(obj, (list, tuple)):
        items = []
        for item in obj:
            items.append(move_with_a_stack(item, device))
        return items if isinstance(obj, list) else tuple(items)
    return obj


# --- causal_mask -------------------------------------------------------------------------------------------------


def mask_by_comparing(x: Tensor) -> Tensor:
    positions = torch.arange(x.size(1), device=x.device)
    return positions > positions.unsqueeze(1)


def mask_by_negation(x: Tensor) -> Tensor:
    _, t, _ = x.shape
    return ~torch.tril(x.new_ones((t, t), dtype=torch.bool))


def mask_by_filling(x: Tensor) -> Tensor:
    t = x.size(-2)
    mask = torch.zeros((t, t), device=x.device, dtype=torch.bool)
    for i in range(t):
        mask[i, i + 1 :] = True
    return mask


def mask_by_cumsum(x: Tensor) -> Tensor:
    return torch.eye(x.shape[1], device=x.device).cumsum(0).T.logical_not().T


# --- PositionalEncoding ------------------------------------------------------------------------------------------


class EncodingByExp(nn.Module):
    def __init__(self, dim: int, max_len: int) -> None:
        super().__init__()
        pe = torch.zeros(max_len, dim)
        position = torch.arange(0, max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, dim, 2) * (-math.log(10000.0) / dim))
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe.unsqueeze(0), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.pe[:, : x.size(1)].to(x)


class EncodingByPhase(nn.Module):
    def __init__(self, dim: int, max_len: int) -> None:
        super().__init__()
        exponent = torch.arange(0, dim, 2, dtype=torch.float64) / dim
        angles = torch.outer(torch.arange(max_len, dtype=torch.float64), 10000**-exponent)
        both = torch.stack((angles, torch.pi / 2 - angles), dim=2).sin().flatten(1)
        self.positions = nn.Buffer(both.float(), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        rows = self.positions.narrow(0, 0, x.shape[-2])
        return torch.add(x, rows.type_as(x))


# --- stray_tensors -----------------------------------------------------------------------------------------------


def strays_by_lists(model: nn.Module, device: torch.device) -> list[str]:
    def away(t: Tensor) -> bool:
        other_index = device.index is not None and t.device.index != device.index
        return t.device.type != device.type or other_index

    found = {name for name, p in model.named_parameters() if away(p)}
    found |= {name for name, b in model.named_buffers() if away(b)}
    for path, module in model.named_modules():
        for name, value in module.__dict__.items():
            if torch.is_tensor(value) and away(value):
                found.add(".".join(filter(None, [path, name])))
    return sorted(found)


def strays_by_descent(model: nn.Module, device: torch.device) -> list[str]:
    here = torch.zeros(1).to(device).device

    def walk(module: nn.Module, prefix: str) -> Iterator[str]:
        own = [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False), *vars(module).items()]
        yield from (prefix + name for name, value in own if isinstance(value, Tensor) and here != value.device)
        for name, child in module.named_children():
            yield from walk(child, f"{prefix}{name}.")

    return sorted(walk(model, ""))


# --- prefetch ----------------------------------------------------------------------------------------------------


def sent(batch: Any, device: torch.device) -> Any:
    return move_by_match(batch, device)


def prefetch_with_a_queue(loader: Iterable[Any], device: torch.device) -> Iterator[Any]:
    waiting: deque[Any] = deque()
    for batch in loader:
        waiting.append(sent(batch, device))
        if len(waiting) > 1:
            yield waiting.popleft()
    while waiting:
        yield waiting.popleft()


def prefetch_with_a_loop(loader: Iterable[Any], device: torch.device) -> Iterator[Any]:
    iterator = iter(loader)
    try:
        present = sent(next(iterator), device)
    except StopIteration:
        return
    for batch in iterator:
        following = sent(batch, device)
        yield present
        present = following
    yield present


class PrefetchOfClass:
    def __init__(self, loader: Iterable[Any], device: torch.device) -> None:
        self.batches, self.device = iter(loader), device
        self._load()

    def _load(self) -> None:
        self.following = [sent(batch, self.device) for batch in (next(self.batches, None),) if batch is not None]

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if not self.following:
            raise StopIteration
        (present,) = self.following
        self._load()
        return present


def prefetch_pairwise(loader: Iterable[Any], device: torch.device) -> Iterator[Any]:
    batches = (sent(batch, device) for batch in loader)
    for present, _following in itertools.pairwise(itertools.chain(batches, [None])):
        yield present


def prefetch_two(loader: Iterable[Any], device: torch.device) -> Iterator[Any]:
    """Two ahead: more than asked for, and still no more than three batches at once."""
    waiting: deque[Any] = deque()
    for batch in loader:
        waiting.append(sent(batch, device))
        if len(waiting) > 2:
            yield waiting.popleft()
    yield from waiting


# --- elapsed -----------------------------------------------------------------------------------------------------


def elapsed_by_module(
    fn: Callable[[], object], device: torch.device, *, warmup: int = 3, repeats: int = 10
) -> list[float]:
    synchronize = torch.get_device_module(device).synchronize
    for _ in range(warmup):
        fn()
    synchronize()
    times = []
    for _ in range(repeats):
        start = clock()
        fn()
        synchronize()
        times.append(clock() - start)
    return times


def elapsed_in_nanoseconds(
    fn: Callable[[], object], device: torch.device, *, warmup: int = 3, repeats: int = 10
) -> list[float]:
    def now() -> int:
        if device.type != "cpu":
            torch.accelerator.synchronize()
        return monotonic_ns()

    times = []
    for run in range(warmup + repeats):
        before = now()
        fn()
        after = now()
        if run >= warmup:
            times.append((after - before) / 1e9)
    return times


def elapsed_with_timeit(
    fn: Callable[[], object], device: torch.device, *, warmup: int = 3, repeats: int = 10
) -> list[float]:
    import time

    def waited() -> None:
        fn()
        if device.type in ("cuda", "mps", "xpu") or torch.accelerator.is_available():
            torch.accelerator.synchronize(device if device.type != "cpu" else None)

    [waited() for _ in range(warmup)]
    if warmup == 0 and device.type != "cpu":
        torch.accelerator.synchronize(device)
    results = []
    for number in range(repeats):
        start = timeit.default_timer() if number % 2 else time.monotonic()
        waited()
        results.append((timeit.default_timer() if number % 2 else time.monotonic()) - start)
    return results


def elapsed_by_repeating(
    fn: Callable[[], object], device: torch.device, *, warmup: int = 3, repeats: int = 10
) -> list[float]:
    wait = torch.get_device_module(device).synchronize

    def whole() -> None:
        fn()
        wait()

    for _ in range(warmup):
        fn()
    return timeit.repeat(whole, setup=wait, number=1, repeat=repeats)


# --- training_bytes ----------------------------------------------------------------------------------------------


def bytes_by_match(
    num_params: int, *, param_dtype: torch.dtype = torch.float32, optimizer: str = "adamw",
    master_weights: bool = False,
) -> int:  # fmt: skip
    match optimizer:
        case "adamw":
            states = 8
        case "momentum":
            states = 4
        case "sgd":
            states = 0
        case _:
            raise NotImplementedError(f"unknown optimizer {optimizer}: wanted adamw, momentum or sgd")
    each = torch.tensor([], dtype=param_dtype).element_size()
    total = num_params * each
    total += num_params * each
    total += num_params * states
    if master_weights:
        total += 4 * num_params
    return total


def bytes_by_bits(num_params: int, **options: Any) -> int:
    dtype = options.get("param_dtype", torch.float32)
    name = options.get("optimizer", "adamw")
    assert name in ("sgd", "momentum", "adamw"), f"optimizer={name!r} is none of sgd, momentum, adamw"
    count = ("sgd", "momentum", "adamw").index(name) + (1 if options.get("master_weights") else 0)
    return num_params * 2 * (torch.finfo(dtype).bits // 8) + num_params * count * torch.float32.itemsize


# --- largest_batch -----------------------------------------------------------------------------------------------


def largest_by_bisection(run: Callable[[int], object], start: int, limit: int) -> int:
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        try:
            run(middle)
            low = middle
        except torch.OutOfMemoryError:
            high = middle - 1
    return low


def largest_by_bits(run: Callable[[int], object], start: int, limit: int) -> int:
    best = 0
    for bit in reversed(range(limit.bit_length())):
        size = best + (1 << bit)
        if size > limit:
            continue
        try:
            run(size)
        except torch.cuda.OutOfMemoryError:
            continue
        best = size
    return best


def largest_by_doubling_past_the_limit(run: Callable[[int], object], start: int, limit: int) -> int:
    """Tries a size beyond the limit on its way, which nobody forbids, and returns none."""
    low, high = 0, 1
    with contextlib.suppress(torch.OutOfMemoryError):
        while low < limit:
            run(high)
            low, high = high, 2 * high
    high = min(high, limit + 1)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            run(middle)
            low = middle
        except torch.OutOfMemoryError:
            high = middle
    return min(low, limit)


def largest_from_start(run: Callable[[int], object], start: int, limit: int) -> int:
    def too_large(size: int) -> bool:
        try:
            run(size)
            return False
        except RuntimeError as error:
            if not isinstance(error, torch.OutOfMemoryError):
                raise
            return True

    size = min(start, limit)
    if too_large(size):
        fits, fails = 0, size
    else:
        fits, fails = size, limit + 1
        while fits < limit:
            size = min(fits * 2, limit)
            if too_large(size):
                fails = size
                break
            fits = size
    while fails - fits > 1:
        size = fits + (fails - fits) // 2
        if too_large(size):
            fails = size
        else:
            fits = size
    return fits


# --- checkpointed ------------------------------------------------------------------------------------------------


def checkpointed_by_lambda(blocks: Iterable[nn.Module], x: Tensor) -> Tensor:
    for block in blocks:
        x = ckpt.checkpoint(lambda inner, block=block: block(inner), x, use_reentrant=False, preserve_rng_state=True)
    return x


def checkpointed_in_segments(blocks: Iterable[nn.Module], x: Tensor) -> Tensor:
    blocks = list(blocks)
    return ckpt.checkpoint_sequential(blocks, len(blocks), x, use_reentrant=False)


def checkpointed_in_pairs(blocks: Iterable[nn.Module], x: Tensor) -> Tensor:
    def pair(inner: Tensor, *both: nn.Module) -> Tensor:
        for block in both:
            inner = block(inner)
        return inner

    blocks = list(blocks)
    for start in range(0, len(blocks), 2):
        x = ckpt.checkpoint(pair, x, *blocks[start : start + 2], use_reentrant=False)
    return x


def checkpointed_as_a_whole(blocks: Iterable[nn.Module], x: Tensor) -> Tensor:
    def run(inner: Tensor) -> Tensor:
        return functools.reduce(lambda value, block: block(value), blocks, inner)

    return ckpt.checkpoint(run, x, use_reentrant=False)


def checkpointed_the_old_way(blocks: Iterable[nn.Module], x: Tensor) -> Tensor:
    x = x if x.requires_grad else x.detach().requires_grad_()
    for block in blocks:
        x = ckpt.checkpoint(block, x, use_reentrant=True)
    return x


# --- roofline ----------------------------------------------------------------------------------------------------


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


RIGHT: dict[str, list[Callable[..., Any]]] = {
    "pick_device": [pick_by_asking_each, pick_by_trying, pick_from_a_list],
    "move_to": [move_by_tree, move_by_match, move_with_a_stack],
    "causal_mask": [mask_by_comparing, mask_by_negation, mask_by_filling, mask_by_cumsum],
    "PositionalEncoding": [EncodingByExp, EncodingByPhase],
    "stray_tensors": [strays_by_lists, strays_by_descent],
    "prefetch": [prefetch_with_a_queue, prefetch_with_a_loop, PrefetchOfClass, prefetch_pairwise,
                 prefetch_two],
    "elapsed": [elapsed_by_module, elapsed_in_nanoseconds, elapsed_with_timeit, elapsed_by_repeating],
    "training_bytes": [bytes_by_match, bytes_by_bits],
    "largest_batch": [largest_by_bisection, largest_by_bits, largest_by_doubling_past_the_limit,
                      largest_from_start],
    "checkpointed": [checkpointed_by_lambda, checkpointed_in_segments, checkpointed_in_pairs, checkpointed_as_a_whole,
                     checkpointed_the_old_way],
    "roofline": [roofline_by_times, roofline_by_ridge],
}  # fmt: skip
