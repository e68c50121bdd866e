"""Every way to a gradient is seen by a watch that looks out for autograd, and nothing else is; memory at its peak."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.autograd import backward, grad
from torch.autograd.forward_ad import dual_level, make_dual

from torchcourse.exercises.memory import peak_bytes
from torchcourse.watching import AUTOGRAD, ENGINES, Watch


def f(x: Tensor) -> Tensor:
    return (x * x * x).sum()


def leaf() -> Tensor:
    return torch.ones(3, requires_grad=True)


def in_forward_mode() -> None:
    with dual_level():
        f(make_dual(torch.ones(3), torch.ones(3)))


WAYS: dict[str, Callable[[], object]] = {
    "backward": lambda: f(leaf()).backward(),  # type: ignore[no-untyped-call]
    "backward under another name": lambda: backward([f(leaf())]),
    "grad under another name": lambda: (lambda x: grad(f(x), x))(leaf()),
    "func.grad": lambda: torch.func.grad(f)(torch.ones(3)),
    "func.vjp": lambda: torch.func.vjp(f, torch.ones(3))[1](torch.ones(())),
    "func.jvp": lambda: torch.func.jvp(f, (torch.ones(3),), (torch.ones(3),)),
    "func.jacrev": lambda: torch.func.jacrev(f)(torch.ones(3)),
    "func.jacfwd": lambda: torch.func.jacfwd(f)(torch.ones(3)),
    "functional.jacobian": lambda: torch.autograd.functional.jacobian(f, torch.ones(3)),  # type: ignore[no-untyped-call]
    "forward mode": in_forward_mode,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_every_way_to_a_gradient_is_seen(way: str) -> None:
    with Watch(["autograd"]) as watch:
        WAYS[way]()
    assert watch.forbidden([AUTOGRAD]) == [AUTOGRAD]


def test_recording_a_graph_and_not_using_it_is_no_run_of_autograd() -> None:
    with Watch(["autograd"]) as watch:
        f(leaf())
    assert watch.forbidden([AUTOGRAD]) == []


def test_the_engine_is_put_back_also_after_an_exception() -> None:
    before = [getattr(owner, name) for owner, name in ENGINES]
    with pytest.raises(ValueError, match="enough"), Watch(["autograd"]):
        raise ValueError("enough")
    assert [getattr(owner, name) for owner, name in ENGINES] == before


def test_without_being_asked_a_watch_leaves_the_engine_alone() -> None:
    before = [getattr(owner, name) for owner, name in ENGINES]
    with Watch() as watch:
        assert [getattr(owner, name) for owner, name in ENGINES] == before
        WAYS["backward"]()
    assert AUTOGRAD not in watch.functions


def test_the_peak_counts_what_lives_at_one_time() -> None:
    size = 4 * 1000

    def one_after_the_other() -> None:
        for _ in range(10):
            torch.ones(1000).mul_(2)

    def all_at_once() -> Tensor:
        return torch.stack([torch.ones(1000) for _ in range(10)])

    assert size * 0.9 <= peak_bytes(one_after_the_other) <= 3 * size
    assert peak_bytes(all_at_once) >= 19 * size


def test_the_peak_counts_a_storage_once_however_many_views_it_has() -> None:
    assert peak_bytes(lambda: [torch.zeros(1000)[i:] for i in range(3)]) == 3 * 4000
    assert peak_bytes(lambda: torch.zeros(1000).view(10, 100).t()) == 4000
