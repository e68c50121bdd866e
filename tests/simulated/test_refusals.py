"""What CUDA refuses is refused, in CUDA's words; what CUDA lets pass, passes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional as F

from torchcourse import simulated

MIXED = "Expected all tensors to be on the same device, but found at least two devices, simgpu:0 and cpu!"
Call = Callable[[torch.Tensor, torch.Tensor], object]


@pytest.mark.parametrize(
    "call",
    [
        lambda x, cpu: x + cpu,
        lambda x, cpu: cpu + x,
        lambda x, cpu: x.add_(cpu),
        lambda x, cpu: x @ cpu,
        lambda x, cpu: torch.where(cpu > 0, x, x),
        lambda x, cpu: x.masked_fill(cpu > 0, 0.0),
        lambda x, cpu: torch.cat([x, cpu]),
        lambda x, cpu: torch.stack([x.sum(), cpu.sum()]),
        lambda x, cpu: F.linear(x, cpu),
        lambda x, cpu: F.embedding(torch.zeros(2, dtype=torch.int64), x),
        lambda x, cpu: x.gather(1, torch.zeros(2, 2, dtype=torch.int64)),
        lambda x, cpu: F.cross_entropy(x, torch.tensor([0, 1])),
        lambda x, cpu: F.conv1d(x[None], cpu[:, :, None]),
        lambda x, cpu: F.batch_norm(x, cpu[0], cpu[1]),
        lambda x, cpu: torch.lerp(x, cpu, 0.5),
        lambda x, cpu: torch._foreach_add([x], [cpu]),
    ],
)
def test_mixing_with_the_cpu_is_refused(call: Call, device: torch.device) -> None:
    with pytest.raises(RuntimeError, match=MIXED):
        call(torch.ones(2, 2, device=device), torch.ones(2, 2))


def test_the_refusal_names_argument_and_operator(device: torch.device) -> None:
    words = r"\(when checking argument for argument target in method wrapper_.*nll_loss"
    with pytest.raises(RuntimeError, match=words):
        F.nll_loss(torch.ones(2, 2, device=device), torch.tensor([0, 1]))


@pytest.mark.parametrize(
    "call",
    [
        lambda x, cpu: x * cpu.sum(),
        lambda x, cpu: cpu.sum() - x,
        lambda x, cpu: x.add_(cpu.sum()),
        lambda x, cpu: x.masked_fill(x > 0, cpu.sum()),
        lambda x, cpu: torch.where(x > 0, x, cpu.sum()),
        lambda x, cpu: x.clamp(min=cpu.sum()),
        lambda x, cpu: x[torch.tensor([0, 1])],
        lambda x, cpu: x[torch.tensor([True, False])],
        lambda x, cpu: x.index_put_((torch.tensor([0]),), cpu.sum()),
        lambda x, cpu: x.copy_(cpu),
        lambda x, cpu: torch.tensor_split(x, torch.tensor([1])),
        lambda x, cpu: x[0].fill_(cpu.sum()),
    ],
)
def test_cpu_scalars_and_cpu_indices_take_part(call: Call, device: torch.device) -> None:
    x, cpu = torch.ones(2, 2), torch.ones(2, 2)
    got, want = call(x.to(device), cpu), call(x, cpu)
    if isinstance(got, torch.Tensor):
        assert got.device == device
        assert simulated.values(got).equal(want)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x, cpu: cpu[torch.tensor([0], device=x.device)], "indices should be either on cpu"),
        (lambda x, cpu: torch.add(x, x, out=cpu), "Expected out tensor to have device simgpu:0, but got cpu instead"),
        (lambda x, cpu: cpu.sum().add_(x.sum()), "Expected out tensor to have device simgpu:0, but got cpu"),
        (lambda x, cpu: x.pin_memory(), "only dense CPU tensors can be pinned"),
        (lambda x, cpu: torch.ones(2, device="simgpu:1"), "invalid device ordinal"),
        (lambda x, cpu: x.to("simgpu:1"), "invalid device ordinal"),
        (lambda x, cpu: x.to_sparse(), "holds dense tensors only"),
        (lambda x, cpu: torch.nn.utils.rnn.pack_padded_sequence(x[..., None], torch.tensor([2, 1]).to(x.device)),
         "should be a 1D CPU int64 tensor"),
    ],
)  # fmt: skip
def test_other_refusals_say_what_and_where(call: Call, words: str, device: torch.device) -> None:
    with pytest.raises(RuntimeError, match=words):
        call(torch.ones(2, 2, device=device), torch.ones(2, 2))


def test_numpy_is_refused_as_on_cuda(device: torch.device) -> None:
    words = r"simgpu:0 device type tensor to numpy. Use Tensor.cpu\(\) to copy the tensor to host memory first."
    x = torch.ones(2, device=device, requires_grad=True)
    for call in (x.numpy, x.detach().__array__):
        with pytest.raises(TypeError, match=words):
            call()
    with pytest.raises(BufferError, match="simgpu"):
        x.detach().__dlpack__()
    assert x.numpy(force=True).tolist() == [1.0, 1.0]


def test_numpy_by_force_resolves_conjugate_and_negative_bits(device: torch.device) -> None:
    z = torch.tensor([1 + 2j, 3 - 1j])
    for view in (torch.conj, lambda t: t.conj().imag, lambda t: t.conj().T if t.dim() == 2 else t.conj()):
        moved = view(z.to(device))
        assert (moved.is_conj(), moved.is_neg()) == (view(z).is_conj(), view(z).is_neg())
        assert moved.numpy(force=True).tolist() == view(z).resolve_conj().resolve_neg().tolist()
        assert moved.tolist() == view(z).tolist()
        assert simulated.values(moved + 1).equal(view(z) + 1)


class Failing(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: object, g: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        raise KeyError("from backward")


def hooked(x: torch.Tensor, hook: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    x.register_hook(hook)
    return x


@pytest.mark.parametrize(
    ("spoil", "error", "words"),
    [
        (lambda y: hooked(y, {}.__getitem__), KeyError, "tensor"),
        (lambda y: hooked(y, lambda g: g + torch.ones(3)), RuntimeError, MIXED),
        (Failing.apply, KeyError, "from backward"),
    ],
    ids=["hook", "operator", "Function"],
)
def test_an_error_in_backward_arrives_whole(
    spoil: Callable[[torch.Tensor], torch.Tensor], error: type[Exception], words: str, device: torch.device
) -> None:
    x = torch.ones(3, device=device, requires_grad=True)
    for _ in range(20):
        with pytest.raises(error, match=words):
            spoil(x * 2).sum().backward()
    x.grad = None
    (x * 2).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2, 2, 2]
