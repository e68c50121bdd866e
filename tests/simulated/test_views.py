"""Views alias, in both directions, and layouts are told truthfully."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from torchcourse.simulated import shares_memory, values

Tensor = torch.Tensor
VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "expand": lambda x: x[:1].expand(3, -1),
    "detach": lambda x: x.detach(),
    "data": lambda x: x.data,
    "split": lambda x: x.split(1)[1],
    "slice": lambda x: x[:, 1:3],
    "real": lambda x: torch.view_as_complex(x.view(6, 2)).real,
    "dtype": lambda x: x.view(torch.int32),
}
"""Some views; that each operator makes a view or a copy as on the CPU is seen in `operators.py`."""


@pytest.fixture
def x(device: torch.device) -> Tensor:
    return torch.arange(12.0, device=device).view(2, 6)


@pytest.mark.parametrize("name", VIEWS)
def test_writing_through_a_view_shows_in_the_base(name: str, x: Tensor) -> None:
    cpu = torch.arange(12.0).view(2, 6)
    for base in (x, cpu):
        view = VIEWS[name](base)
        if name != "expand":
            view.zero_()
        base[0, 1] = -1
    view, mirror = VIEWS[name](x), VIEWS[name](cpu)
    assert (view.is_contiguous(), view._is_view()) == (mirror.is_contiguous(), mirror._is_view())
    assert view.data_ptr() - x.data_ptr() == mirror.data_ptr() - cpu.data_ptr()
    assert values(x).equal(cpu)
    assert values(view).equal(mirror)


def test_sharing_is_told_for_plain_tensors_too(x: Tensor) -> None:
    plain = torch.ones(4)
    assert shares_memory(plain, plain[1:])
    assert not shares_memory(plain, plain.clone())
    assert not shares_memory(x, plain)
    assert not shares_memory(x, values(x))
    assert values(plain) is plain


def test_storages_tell_their_size_and_place(x: Tensor) -> None:
    row = x[1]
    assert row.untyped_storage().nbytes() == x.untyped_storage().nbytes() == 48
    assert (row.nbytes, row.storage_offset(), row.element_size()) == (24, 6, 4)
    assert row.untyped_storage().data_ptr() == x.untyped_storage().data_ptr() == x.data_ptr()
    assert row.untyped_storage()._cdata == x.untyped_storage()._cdata
    assert x.untyped_storage().device == x.device


def test_in_place_operators_return_the_tensor_itself(x: Tensor) -> None:
    before = x
    x += 1
    assert x is before
    assert x.mul_(2) is x
    assert x.clamp_(max=10) is x
    assert x._version == 3
    assert x.sum().item() == 100


def test_in_place_operators_change_shapes_too(x: Tensor) -> None:
    for operator, shape in (
        (lambda t: t.t_(), (6, 2)),
        (lambda t: t.unsqueeze_(0), (1, 6, 2)),
        (lambda t: t.squeeze_(), (6, 2)),
        (lambda t: t.resize_(20, 1), (20, 1)),
        (lambda t: t.as_strided_((2, 2), (1, 1)), (2, 2)),
        (lambda t: t.set_(torch.zeros(3, device=t.device)), (3,)),
    ):
        assert operator(x) is x
        assert (x.shape, values(x).shape) == (shape, shape)


def test_out_arguments_are_written_and_resized(x: Tensor) -> None:
    out = torch.empty(0, device=x.device)
    assert torch.add(x, 1, out=out) is out
    assert (out.shape, values(out).equal(values(x) + 1)) == (x.shape, True)
    big, place = torch.zeros(2, device=x.device), torch.zeros(2, dtype=torch.int64, device=x.device)
    got = torch.max(x, 1, out=(big, place))
    assert got[0] is big
    assert (big.tolist(), place.tolist()) == ([5, 11], [5, 5])


def test_data_can_be_replaced(x: Tensor) -> None:
    x.data = torch.ones(3, device=x.device)
    assert (x.shape, x.tolist()) == ((3,), [1, 1, 1])
    x.data *= 2
    x.data.add_(1)
    assert (x + 0).tolist() == [3, 3, 3]


def test_views_of_leaves_behave_under_autograd(x: Tensor) -> None:
    x.requires_grad_()
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        x[0].add_(1)
    y = x * 2
    y[0].mul_(3)
    y.sum().backward()
    assert x.grad is not None
    assert values(x.grad).equal(torch.tensor([[6.0] * 6, [2.0] * 6]))
    w = x.exp()
    loss = (w * w).sum()
    w.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_in_inference_mode_a_view_of_an_ordinary_tensor_is_an_ordinary_one(x: Tensor) -> None:
    with torch.inference_mode():
        view, made = x[:, 1:], x + 1
        assert (view.is_inference(), made.is_inference(), made[0].is_inference()) == (False, True, True)
        view.add_(1)
    assert values(x)[:, 1:].equal(values(view))
