"""Which torch calls an answer makes, whatever it calls them, and what they hand over to Python."""

from __future__ import annotations

import functools
import gc
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import backward, forward_ad, grad

from tests.support.alone import alone
from torchcourse.checking.call_watch import AUTOGRAD, ENGINES, CallWatch, bare, mode_overhead
from torchcourse.checking.rule_watch import RuleWatch
from torchcourse.checking.torchs_modules import TORCH
from torchcourse.probes.memory import peak_bytes


def watched(call: Callable[[Tensor], Any]) -> CallWatch:
    """What was seen while `call` ran on a small matrix."""
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    watch = CallWatch()
    with watch:
        call(x)
    return watch


SOFTMAX = ("softmax", "log_softmax", "safe_softmax", "scaled_dot_product_attention")

SPELLINGS: dict[str, Callable[[Tensor], Any]] = {
    "a method": lambda x: x.softmax(-1),
    "a function of torch": lambda x: torch.softmax(x, -1),
    "a function of nn.functional": lambda x: F.softmax(x, dim=-1),
    "a module": lambda x: nn.Softmax(dim=-1)(x),
    "a sequence of modules": lambda x: nn.Sequential(nn.Identity(), nn.Softmax(dim=-1))(x),
    "another name for it": lambda x: torch.special.softmax(x, -1),
    "a partial": lambda x: functools.partial(torch.softmax, dim=-1)(x),
    "a name looked up": lambda x: getattr(torch, "soft" + "max")(x, -1),
    "the operator": lambda x: torch.ops.aten._softmax(x, -1, False),
    "the overload": lambda x: torch.ops.aten._softmax.default(x, -1, False),
    "what is made of it": lambda x: F.softmin(-x, dim=-1),
    "under vmap": lambda x: torch.vmap(lambda row: row.softmax(0))(x),
    "under grad": lambda x: torch.func.grad(lambda y: y.softmax(-1)[0, 0])(x),
    "in script": lambda x: scripted_softmax(x),
    "with overriding off": lambda x: unseen_softmax(x),
}


def scripted(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """`function` in TorchScript, which warns that it is going away."""
    with warnings.catch_warnings(action="ignore"):
        compiled: Callable[..., Tensor] = torch.jit.script(function)
    return compiled


@scripted
def scripted_softmax(x: Tensor) -> Tensor:
    return x.softmax(-1)


def unseen_softmax(x: Tensor) -> Tensor:
    with torch._C.DisableTorchFunction():
        return x.softmax(-1)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_forbidden_call_is_seen_under_any_spelling(spelling: str) -> None:
    assert watched(SPELLINGS[spelling]).forbidden(SOFTMAX) == ["softmax"]


def softmax(x: Tensor) -> Tensor:
    """Only sounds like the forbidden one."""
    return x.exp() / x.exp().sum(-1, keepdim=True)


@pytest.mark.parametrize(
    ("call", "forbidden", "found"),
    [
        (softmax, SOFTMAX, []),
        (lambda x: x.log_softmax(-1).exp(), SOFTMAX, ["log_softmax"]),
        (lambda x: F.scaled_dot_product_attention(*[x[None, None]] * 3), SOFTMAX, ["scaled_dot_product_attention"]),
        (lambda x: torch.cdist(x, x), ("cdist", "cdist_forward", "euclidean_dist"), ["cdist"]),
        (lambda x: torch.diag(torch.ones(3))[x.argmax(0)], ("one_hot", "eye"), []),
        (lambda x: F.one_hot(x.argmax(0), 4), ("one_hot", "eye"), ["one_hot"]),
        (lambda _: torch.eye(3), ("one_hot", "eye"), ["eye"]),
    ],
)
def test_a_call_is_named_as_python_saw_it(
    call: Callable[[Tensor], Any], forbidden: tuple[str], found: list[str]
) -> None:
    assert watched(call).forbidden(forbidden) == found


def test_the_bare_name_is_without_namespace_overload_and_underscores() -> None:
    assert [bare(name) for name in ("aten::_softmax.out", "_softmax", "softmax", "sub_")] == ["softmax"] * 3 + ["sub"]


@scripted
def scripted_loop(x: Tensor, times: int) -> Tensor:
    for _ in range(times):
        x = x + 1
    return x


def test_a_loop_shows_in_the_calls_and_in_torchscript_in_the_operators() -> None:
    loops = [watched(lambda x, times=times: [x + i for i in range(times)]) for times in (2, 6)]
    assert [len(watch.functions) for watch in loops] == [2, 6]
    short, long = [watched(functools.partial(scripted_loop, times=times)) for times in (2, 6)]
    assert len(long.operators) - len(short.operators) == 4
    assert watched(lambda x: (x.shape, x.T, x.data, x.device, x.grad)).functions == [], "attributes are no calls"


TRANSFERS: dict[str, Callable[[Tensor], Any]] = {
    "tolist": lambda x: x.tolist(),
    "numpy": lambda x: x.numpy(),
    "asarray": lambda x: np.asarray(x),
    "item": lambda x: [v.item() for row in x for v in row],
    "float": lambda x: [float(v) for v in x.flatten()],
    "int": lambda x: [int(v) for v in x.flatten()],
    "truth": lambda x: [bool(v) for v in x.flatten()],
    "index": lambda x: [[0, 1, 2][v] for v in x.argmax(1).repeat(4) % 3],
}


@pytest.mark.parametrize("transfer", TRANSFERS)
def test_elements_handed_to_python_are_counted(transfer: str) -> None:
    assert watched(TRANSFERS[transfer]).handed_over >= 12
    assert watched(lambda x: x @ x.T).handed_over == 0


def test_no_mode_stays_behind_when_the_call_raises() -> None:
    before = torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack()
    with pytest.raises(RuntimeError):
        watched(lambda x: x.view(5))
    assert (torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack()) == before


COMPILED = """
import sys, warnings
import torch
from torchcourse.checking.call_watch import CallWatch

watch = CallWatch()
with watch:
    torch.ones(2).softmax(0)
assert "torch._dynamo" not in sys.modules, "watching alone imported the compiler"

@torch.compile(backend="eager")
def compiled(x):
    return (x - x.amax(-1, keepdim=True)).softmax(-1)

for size in range(2, 14):
    watch = CallWatch()
    with watch:
        result = compiled(torch.ones(size, 3))
    assert watch.forbidden(["softmax"]) == ["softmax"], size
    torch.testing.assert_close(result, torch.full((size, 3), 1 / 3))
"""


def test_watching_does_not_import_the_compiler_and_sees_into_compiled_functions() -> None:
    done = alone(COMPILED)
    assert (done.returncode, done.stderr) == (0, "")


def f(x: Tensor) -> Tensor:
    return (x * x * x).sum()


def in_forward_mode(x: Tensor) -> None:
    with forward_ad.dual_level():
        f(forward_ad.make_dual(x, x))


WAYS: dict[str, Callable[[Tensor], object]] = {
    "backward": lambda x: f(x).backward(),  # type: ignore[no-untyped-call]
    "backward under another name": lambda x: backward([f(x)]),
    "grad under another name": lambda x: grad(f(x), x),
    "func.grad": torch.func.grad(f),
    "func.vjp": lambda x: torch.func.vjp(f, x)[1](torch.ones(())),
    "func.jvp": lambda x: torch.func.jvp(f, (x,), (x,)),
    "func.jacrev": torch.func.jacrev(f),
    "func.jacfwd": torch.func.jacfwd(f),
    "functional.jacobian": functools.partial(torch.autograd.functional.jacobian, f),
    "forward mode": lambda x: in_forward_mode(x),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_every_way_to_a_gradient_is_seen(way: str) -> None:
    x = torch.ones(3, requires_grad=True)
    with CallWatch(["autograd"]) as watch:
        f(x)
        assert watch.forbidden([AUTOGRAD]) == [], "recording a graph and not using it is no run of autograd"
        WAYS[way](x)
    assert watch.forbidden([AUTOGRAD]) == [AUTOGRAD]


def test_the_engine_is_put_back_after_an_exception_and_left_alone_without_being_asked() -> None:
    before = [getattr(owner, name) for owner, name in ENGINES]
    with pytest.raises(ValueError, match="enough"), CallWatch(["autograd"]):
        raise ValueError("enough")
    assert [getattr(owner, name) for owner, name in ENGINES] == before
    with CallWatch() as watch:
        assert [getattr(owner, name) for owner, name in ENGINES] == before
        f(torch.ones(3, requires_grad=True)).backward()  # type: ignore[no-untyped-call]
    assert AUTOGRAD not in watch.functions


def test_the_peak_counts_what_lives_at_one_time() -> None:
    size = 4 * 1000
    assert size * 0.9 <= peak_bytes(lambda: [torch.ones(1000).mul_(2).sum() for _ in range(10)]) <= 3 * size
    assert peak_bytes(lambda: torch.stack([torch.ones(1000) for _ in range(10)])) >= 19 * size


def test_the_peak_counts_a_storage_once_however_many_views_it_has() -> None:
    assert peak_bytes(lambda: [torch.zeros(1000)[i:] for i in range(3)]) == 3 * 4000
    assert peak_bytes(lambda: torch.zeros(1000).view(10, 100).t()) == 4000


ANY_CALL: dict[str, tuple[Callable[[], Any], str]] = {
    "a function of dtypes": (lambda: torch.promote_types(torch.int8, torch.uint8), "torch.promote_types"),
    "a function of shapes": (lambda: torch.broadcast_shapes((2,), (1,)), "torch.functional.broadcast_shapes"),
    "a private one": (lambda: torch._refs._broadcast_shapes((2,), (1,)), "torch._refs._broadcast_shapes"),
    "a new tensor": (lambda: torch.empty_strided((2,), (1,)), "torch.empty_strided"),
    "an operator": (lambda: ONE + 1, "torch.add"),
    "a number taken out": (lambda: ONE.item(), "torch.Tensor.item"),
    "a module": (lambda: nn.Linear(1, 1), "torch"),
    "a dtype's attributes": (lambda: (torch.half.itemsize, str(torch.half), torch.half.to_complex()), ""),
    "no call of torch": (lambda: [*sorted([3, 1], key=abs), np.int64(2)], ""),
}
ONE = torch.ones(1)


@pytest.mark.parametrize("name", ANY_CALL)
def test_any_call_of_torch_is_seen_where_all_are_forbidden(name: str) -> None:
    call, found = ANY_CALL[name]
    watch = CallWatch((TORCH,))
    with watch:
        call()
    (said,) = watch.forbidden((TORCH,)) or [""]
    assert said.startswith(found) if found else said == ""
    assert sys.getprofile() is None


def test_finalizers_that_are_not_the_answers_own_are_no_calls() -> None:
    class Loop:
        finalized, again = 0, True

        def __init__(self) -> None:
            self.self = self

        def __del__(self) -> None:
            torch.ones(1)
            Loop.finalized += 1
            if Loop.again:
                Loop()

    watch = CallWatch((TORCH,))
    thresholds = gc.get_threshold()
    gc.set_threshold(1, 1, 1)  # where collections are on, one happens
    try:
        Loop()
        with watch:
            before = Loop.finalized
            [[[]] for _ in range(3000)]
            assert before == Loop.finalized
        gc.collect()
        assert before < Loop.finalized
    finally:
        Loop.again = False
        gc.set_threshold(*thresholds)
    assert gc.isenabled()
    assert watch.forbidden((TORCH,)) == []


def test_nothing_of_the_watch_itself_is_seen_the_first_time_either() -> None:
    mode_overhead.cache_clear()  # as in a kernel that has checked nothing yet
    with RuleWatch([TORCH], on_cpu=True) as watch:
        pass
    assert (watch.forbidden(), watch.spent()) == ([], (0, 0, 0))


def test_a_method_that_gets_the_place_of_a_removed_function_in_memory_is_not_taken_for_it() -> None:
    """Some answers in plain Python were refused as calls of torch, by chance, one start of a process in a few."""
    code = """
from torchcourse.checking.call_watch import warm
from torchcourse.checking.operator_record import keep_recording
from torchcourse.checking.torchs_modules import module_of_builtin
warm([])
keep_recording()
methods = [[].append for _ in range(100_000)]
print({module_of_builtin(method) for method in methods})
"""
    done = alone(code, PYTHONWARNINGS="ignore")
    assert done.stdout == "{''}\n"
