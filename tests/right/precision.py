"""Lesson 07: right answers in other styles than the reference's. Each must pass every case on every device."""

from __future__ import annotations

import contextlib
import math
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

# --- float_fields ------------------------------------------------------------------------------------------------


def fields_by_struct(x: float, dtype: torch.dtype) -> tuple[int, int, int]:
    rounded = torch.tensor([x], dtype=torch.float64).to(dtype).item()
    if dtype == torch.float16:
        (bits,) = struct.unpack(">H", struct.pack(">e", rounded))
        return bits >> 15, bits >> 10 & 31, bits & 1023
    (bits,) = struct.unpack(">I", struct.pack(">f", rounded))
    sign, exponent, mantissa = bits >> 31, bits >> 23 & 255, bits & 0x7FFFFF
    return sign, exponent, mantissa >> 16 if dtype == torch.bfloat16 else mantissa


def fields_by_hand(x: float, dtype: torch.dtype) -> list[int]:
    """With fractions: no tensor, no bits; rounding half to even is Python's own."""
    width, bias = {torch.float16: (10, 15), torch.bfloat16: (7, 127), torch.float32: (23, 127)}[dtype]
    sign = int(math.copysign(1, x) < 0)
    if math.isinf(x):
        return [sign, 2 * bias + 1, 0]
    if x == 0:
        return [sign, 0, 0]
    size = Fraction(abs(x))
    power = max(math.frexp(abs(x))[1] - 1, 1 - bias)
    units = round(size / Fraction(2) ** (power - width))
    if units < 2**width:
        return [sign, 0, units]
    if units == 2 ** (width + 1):
        power, units = power + 1, 2**width
    if power > bias:
        return [sign, 2 * bias + 1, 0]
    return [sign, power + bias, units - 2**width]


def fields_in_text(x: float, dtype: torch.dtype) -> tuple[Any, ...]:
    t = torch.tensor(x, dtype=torch.float64).to(dtype)
    raw = np.frombuffer(bytes(t.reshape(1).view(torch.uint8).tolist()), "<u4" if t.itemsize == 4 else "<u2")[0]
    text = format(int(raw), f"0{8 * t.itemsize}b")
    exponent = 5 if dtype == torch.float16 else 8
    return int(text[0]), int(text[1 : 1 + exponent], 2), int(text[1 + exponent :], 2)


# --- lost_updates ------------------------------------------------------------------------------------------------


def lost_by_difference(w: Tensor, update: Tensor, dtype: torch.dtype) -> Tensor:
    before = w.to(dtype)
    after = before + update.to(dtype)
    return torch.logical_and(update.ne(0), after.eq(before))


def lost_in_place(w: Tensor, update: Tensor, dtype: torch.dtype) -> Tensor:
    weights = w.detach().to(dtype, copy=True)
    kept = weights.clone()
    weights += update.to(dtype)
    return ~(weights != kept) & update.bool()


def lost_one_by_one(w: Tensor, update: Tensor, dtype: torch.dtype) -> Tensor:
    flags = []
    for a, b in zip(w.to(dtype).flatten(), update.flatten(), strict=True):
        flags.append(bool(b != 0) and bool(a + b.to(dtype) == a))
    return torch.tensor(flags, dtype=torch.bool, device=w.device).reshape(w.shape)


# --- underflow_fraction ------------------------------------------------------------------------------------------


def underflow_of_one_vector(grads: Any, dtype: torch.dtype) -> float:
    flat = torch.cat([g.reshape(-1) for g in ([grads] if torch.is_tensor(grads) else grads)])
    flat = flat[flat != 0]
    return float((flat.to(dtype) == 0).double().mean()) if flat.numel() else 0.0


def underflow_by_counting(grads: Any, dtype: torch.dtype) -> float:
    if isinstance(grads, Tensor):
        return underflow_by_counting([grads], dtype)
    before = sum(int(torch.count_nonzero(g)) for g in grads)
    after = sum(int(torch.count_nonzero(g.to(dtype))) for g in grads)
    return (before - after) / max(before, 1)


# --- safe_mean ---------------------------------------------------------------------------------------------------


def mean_in_float32(x: Tensor) -> Tensor:
    return x.float().mean().to(x.dtype)


def mean_told_its_dtype(x: Tensor) -> Tensor:
    return x.mean(dtype=torch.float32).type_as(x)


def mean_by_sum(x: Tensor) -> Tensor:
    return (torch.sum(x, dtype=torch.float32) / x.numel()).to(x)


def mean_scaled_down(x: Tensor) -> Tensor:
    largest = x.abs().max().float()
    return ((x.float() / largest).mean() * largest).to(x.dtype)


def mean_as_it_comes(x: Tensor) -> Tensor:
    """torch's own: it adds up in float32 inside."""
    return x.mean()


# --- autocast_report ---------------------------------------------------------------------------------------------


def report_with_exit_stack(model: nn.Module, x: Tensor, dtype: torch.dtype) -> dict[str, torch.dtype]:
    out: dict[str, torch.dtype] = {}
    with contextlib.ExitStack() as stack:
        for name, module in model.named_modules():
            if len(list(module.children())) == 0:
                def note(_m: Any, _i: Any, y: Tensor, name: str = name) -> None:
                    out[name] = y.dtype
                stack.callback(module.register_forward_hook(note).remove)
        stack.enter_context(torch.amp.autocast(device_type=x.device.type, dtype=dtype))
        model(x)
    return out


def report_with_one_hook(model: nn.Module, x: Tensor, dtype: torch.dtype) -> dict[str, torch.dtype]:
    names = {module: name for name, module in model.named_modules() if not module._modules}
    out: dict[str, torch.dtype] = {}

    def note(module: nn.Module, _inputs: Any, output: Any) -> None:
        if module in names:
            out[names[module]] = output.dtype

    handle = nn.modules.module.register_module_forward_hook(note)
    try:
        with torch.inference_mode(), torch.autocast(str(x.device).split(":")[0], dtype):
            model(x)
    finally:
        handle.remove()
    return out


# --- autocast_dtype ----------------------------------------------------------------------------------------------


def dtype_from_properties(device: Any) -> torch.dtype:
    if torch.device(device).type != "cuda":
        return torch.bfloat16
    return torch.bfloat16 if torch.cuda.get_device_properties(device).major >= 8 else torch.float16


def dtype_asked_on_the_device(device: Any) -> torch.dtype:
    if str(device).startswith("cuda"):
        with torch.cuda.device(device):
            native = torch.cuda.is_bf16_supported(including_emulation=False)
        return torch.bfloat16 if native else torch.float16
    return torch.bfloat16


# --- best_loss_scale ---------------------------------------------------------------------------------------------


def scale_by_doubling(grads: Any, dtype: torch.dtype = torch.float16) -> float:
    flat = torch.cat([g.flatten() for g in ([grads] if isinstance(grads, Tensor) else grads)]).double()
    if not flat.any():
        return 1.0
    scale = 1.0
    while not bool((flat * scale).to(dtype).isfinite().all()):
        scale /= 2
    while bool((flat * (2 * scale)).to(dtype).isfinite().all()):
        scale *= 2
    return scale


def scale_by_logarithm(grads: Any, dtype: torch.dtype = torch.float16) -> float:
    top = max(float(g.abs().max()) for g in (grads if isinstance(grads, list) else [grads]))
    return 2.0 ** math.floor(math.log2(torch.finfo(dtype).max / top)) if top else 1.0


def scale_by_exponents(grads: Any, dtype: torch.dtype = torch.float16) -> float:
    tensors = grads if isinstance(grads, list | tuple) else (grads,)
    top = max(g.abs().amax().item() for g in tensors)
    if top == 0.0:
        return 1.0
    limit, power = torch.finfo(dtype).max, 0
    mantissa, exponent = math.frexp(top)
    room, ceiling = math.frexp(limit)
    power = ceiling - exponent - (mantissa > room)
    return math.ldexp(1.0, power)


# --- LossScaler --------------------------------------------------------------------------------------------------


class ScalerInATensor:
    def __init__(self, scale: float = 2.0**16, growth: float = 2.0, backoff: float = 0.5, interval: int = 2000):
        self._scale = torch.tensor(scale, dtype=torch.float32)
        self.options = growth, backoff, interval
        self.tracker = 0
        self.found: list[bool] = []

    def scale(self, loss: Tensor) -> Tensor:
        return loss * self._scale.to(loss.device)

    @torch.no_grad()
    def step(self, optimizer: torch.optim.Optimizer) -> bool:
        bad = False
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.grad = p.grad / self._scale.to(p.grad.device)
                    bad |= not torch.isfinite(p.grad.sum() * 0).item()
        self.found.append(bad)
        if not bad:
            optimizer.step()
        return not bad

    def update(self) -> None:
        growth, backoff, interval = self.options
        bad, self.found = any(self.found), []
        if bad:
            self._scale, self.tracker = self._scale * backoff, 0
        else:
            self.tracker += 1
            if self.tracker % interval == 0:
                self._scale, self.tracker = self._scale * growth, 0


class ScalerWithCountdown:
    def __init__(self, scale: float = 65536.0, growth: float = 2.0, backoff: float = 0.5, interval: int = 2000):
        self.s, self.up, self.down, self.wait = scale, growth, backoff, interval
        self.left, self.skipped = interval, 0

    def scale(self, loss: Tensor) -> Tensor:
        return self.s * loss

    def step(self, optimizer: torch.optim.Optimizer) -> bool:
        parameters = [p for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        norm = torch.nn.utils.get_total_norm([p.grad for p in parameters], norm_type=float("inf"))
        if not math.isfinite(norm.item()):
            self.skipped += 1
            return False
        for p in parameters:
            p.grad.mul_(1.0 / self.s)  # type: ignore[union-attr]
        optimizer.step()
        return True

    def update(self) -> None:
        if self.skipped:
            self.s, self.left, self.skipped = self.s * self.down, self.wait, 0
            return
        self.left -= 1
        if not self.left:
            self.s, self.left = self.s * self.up, self.wait


# --- amp_step ----------------------------------------------------------------------------------------------------


def amp_always_unscaling(
    model: Any, batch: Any, loss_fn: Any, optimizer: Any, scaler: Any, *, device: Any, dtype: Any, max_norm: Any = None
) -> float:
    inputs, targets = (t.to(device) for t in batch)
    with torch.amp.autocast(device_type=torch.device(device).type, dtype=dtype):
        prediction = model(inputs)
        loss = loss_fn(prediction, targets)
    for p in model.parameters():
        p.grad = None
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), math.inf if max_norm is None else max_norm)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    return float(loss)


def amp_clipping_by_hand(
    model: Any, batch: Any, loss_fn: Any, optimizer: Any, scaler: Any, *, device: Any, dtype: Any, max_norm: Any = None
) -> float:
    @torch.autocast(device.type, dtype=dtype)
    def forward() -> Tensor:
        loss: Tensor = loss_fn(model(batch[0]), batch[1])
        return loss

    optimizer.zero_grad(set_to_none=False)
    loss = forward()
    scaler.scale(loss).backward()
    if max_norm:
        scaler.unscale_(optimizer)
        grads = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        norm = torch.cat([g.flatten() for g in grads]).norm().item()
        if math.isfinite(norm) and norm > max_norm:
            for g in grads:
                g.mul_(max_norm / (norm + 1e-6))
    scaler.step(optimizer)
    scaler.update()
    return loss.detach().cpu().tolist()  # type: ignore[no-any-return]


def amp_by_autograd_grad(
    model: Any, batch: Any, loss_fn: Any, optimizer: Any, scaler: Any, *, device: Any, dtype: Any, max_norm: Any = None
) -> float:
    with torch.autocast(device.type, dtype):
        loss = loss_fn(model(batch[0]), batch[1])
    parameters = list(model.parameters())
    for p, g in zip(parameters, torch.autograd.grad(scaler.scale(loss), parameters), strict=True):
        p.grad = g
    if max_norm is not None:
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grads_with_norm_(parameters, max_norm, torch.nn.utils.get_total_norm(
            [p.grad for p in parameters]))  # fmt: skip
    scaler.step(optimizer)
    scaler.update()
    return float(loss.item())


# --- MasterSGD ---------------------------------------------------------------------------------------------------


class MasterFromTheStart(torch.optim.Optimizer):
    """Makes its copies when it is made, and updates them with one fused call."""

    def __init__(self, params: Any, lr: float) -> None:
        super().__init__(params, {"lr": lr})
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["copy"] = p.detach().clone().float()

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            with torch.no_grad():
                for p in filter(lambda p: p.grad is not None, group["params"]):
                    self.state[p]["copy"].add_(p.grad.to(torch.float32), alpha=-group["lr"])
                    p.data.copy_(self.state[p]["copy"])


class MasterThroughSGD(torch.optim.Optimizer):
    """Lets torch's own SGD work on the float32 copies."""

    def __init__(self, params: Any, lr: float = 1e-2) -> None:
        super().__init__(params, {"lr": lr})

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            used = [p for p in group["params"] if p.grad is not None]
            for p in used:
                copy = self.state[p].setdefault("fp32", nn.Parameter(p.detach().to(torch.float32, copy=True)))
                copy.grad = p.grad.float()
            if used:
                torch.optim.SGD([self.state[p]["fp32"] for p in used], lr=group["lr"]).step()
            for p in used:
                p.data = self.state[p]["fp32"].detach().to(p.dtype, copy=True)


RIGHT: dict[str, list[Callable[..., Any]]] = {
    "float_fields": [fields_by_struct, fields_by_hand, fields_in_text],
    "lost_updates": [lost_by_difference, lost_in_place, lost_one_by_one],
    "underflow_fraction": [underflow_of_one_vector, underflow_by_counting],
    "safe_mean": [mean_in_float32, mean_told_its_dtype, mean_by_sum, mean_scaled_down, mean_as_it_comes],
    "autocast_report": [report_with_exit_stack, report_with_one_hook],
    "autocast_dtype": [dtype_from_properties, dtype_asked_on_the_device],
    "best_loss_scale": [scale_by_doubling, scale_by_logarithm, scale_by_exponents],
    "LossScaler": [ScalerInATensor, ScalerWithCountdown],
    "amp_step": [amp_always_unscaling, amp_clipping_by_hand, amp_by_autograd_grad],
    "MasterSGD": [MasterFromTheStart, MasterThroughSGD],
}
