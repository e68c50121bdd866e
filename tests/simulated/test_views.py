"""Views alias, in both directions, and layouts are told truthfully."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from torchcourse.simulated import shares_memory, values

Tensor = torch.Tensor
VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "as_strided": lambda x: x.as_strided((3, 2), (2, 1), 1),
    "view": lambda x: x.view(3, 4),
    "reshape": lambda x: x.reshape(2, 6),
    "expand": lambda x: x[:1].expand(3, -1),
    "transpose": lambda x: x.T,
    "permute": lambda x: x.permute(1, 0),
    "unfold": lambda x: x.unfold(1, 2, 1),
    "detach": lambda x: x.detach(),
    "data": lambda x: x.data,
    "chunk": lambda x: x.chunk(2)[1],
    "split": lambda x: x.split(1)[1],
    "unbind": lambda x: x.unbind()[1],
    "slice": lambda x: x[:, 1:3],
    "select": lambda x: x[1],
    "narrow": lambda x: x.narrow(1, 1, 2),
    "squeeze": lambda x: x[None].squeeze(0),
    "diagonal": lambda x: x.diagonal(),
    "flatten": lambda x: x.flatten(),
    "ravel": lambda x: x.ravel(),
    "contiguous": lambda x: x.contiguous(),
    "real": lambda x: torch.view_as_complex(x.view(6, 2)).real,
    "dtype": lambda x: x.view(torch.int32),
    "movedim": lambda x: x.movedim(0, 1),
}
COPIES: dict[str, Callable[[Tensor], Tensor]] = {
    "clone": lambda x: x.clone(),
    "contiguous": lambda x: x.T.contiguous(),
    "reshape": lambda x: x.T.reshape(-1),
    "index": lambda x: x[torch.tensor([0])],
    "mask": lambda x: x[x > -1],
    "to": lambda x: x.double(),
    "arithmetic": lambda x: x + 0,
}


@pytest.fixture
def x(device: torch.device) -> Tensor:
    return torch.arange(12.0, device=device).view(2, 6)


@pytest.mark.parametrize("name", VIEWS)
def test_writing_through_a_view_shows_in_the_base(name: str, x: Tensor) -> None:
    view = VIEWS[name](x)
    cpu = torch.arange(12.0).view(2, 6)
    mirror = VIEWS[name](cpu)
    assert (view.shape, view.stride(), view.storage_offset()) == (
        mirror.shape,
        mirror.stride(),
        mirror.storage_offset(),
    )
    assert (view.is_contiguous(), view._is_view()) == (mirror.is_contiguous(), mirror._is_view())
    assert view.data_ptr() - x.data_ptr() == mirror.data_ptr() - cpu.data_ptr()
    assert shares_memory(view, x)
    assert shares_memory(mirror, cpu)
    if name != "expand":
        for t in (view, mirror):
            t.fill_(7) if t.dtype != torch.int32 else t.zero_()
    for t in (x, cpu):
        t[0, 1] = -1
    assert values(x).equal(cpu)
    assert values(view).equal(mirror)


@pytest.mark.parametrize("name", COPIES)
def test_copies_do_not_alias(name: str, x: Tensor) -> None:
    copy = COPIES[name](x)
    kept = values(copy).clone()
    assert not shares_memory(copy, x)
    assert copy.data_ptr() != x.data_ptr()
    x.zero_()
    assert values(copy).equal(kept)


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
