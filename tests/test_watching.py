"""Which torch calls an answer makes, whatever it calls them, and what they hand over to Python."""

from __future__ import annotations

import functools
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torchcourse.watching import Watch, bare


def watched(call: Callable[[Tensor], Any]) -> Watch:
    """What was seen while `call` ran on a small matrix."""
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    watch = Watch()
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


def test_a_relative_is_called_by_its_own_name() -> None:
    assert watched(lambda x: x.log_softmax(-1).exp()).forbidden(SOFTMAX) == ["log_softmax"]
    attention = watched(lambda x: F.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None]))
    assert attention.forbidden(SOFTMAX) == ["scaled_dot_product_attention"]


def test_the_name_that_python_saw_is_told_and_not_the_operators_behind_it() -> None:
    watch = watched(lambda x: torch.cdist(x, x))
    assert watch.forbidden(("cdist", "cdist_forward", "euclidean_dist")) == ["cdist"]


def test_what_only_sounds_alike_is_not_forbidden() -> None:
    def softmax(x: Tensor) -> Tensor:
        return x.exp() / x.exp().sum(-1, keepdim=True)

    assert watched(softmax).forbidden(SOFTMAX) == []


def test_an_identity_made_otherwise_is_no_eye() -> None:
    assert watched(lambda x: torch.diag(torch.ones(3))[x.argmax(0)]).forbidden(("one_hot", "eye")) == []
    assert watched(lambda x: F.one_hot(x.argmax(0), 4)).forbidden(("one_hot", "eye")) == ["one_hot"]
    assert watched(lambda _: torch.eye(3)).forbidden(("one_hot", "eye")) == ["eye"]


def test_the_bare_name_is_without_namespace_overload_and_underscores() -> None:
    assert [bare(name) for name in ("aten::_softmax.out", "_softmax", "softmax", "sub_")] == ["softmax"] * 3 + ["sub"]


def test_attributes_are_no_calls() -> None:
    watch = watched(lambda x: (x.shape, x.T, x.data, x.device, x.grad))
    assert watch.functions == []


def test_a_loop_makes_more_calls_the_longer_it_is() -> None:
    def loop(times: int) -> Callable[[Tensor], Any]:
        return lambda x: [x + i for i in range(times)]

    counts = [len(watched(loop(times)).functions) for times in (2, 6)]
    assert counts == [2, 6]


@scripted
def scripted_loop(x: Tensor, times: int) -> Tensor:
    for _ in range(times):
        x = x + 1
    return x


def test_a_loop_in_torchscript_shows_in_the_operators() -> None:
    counts = [len(watched(functools.partial(scripted_loop, times=times)).operators) for times in (2, 6)]
    assert counts[1] - counts[0] == 4


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


def test_what_stays_in_torch_hands_nothing_over() -> None:
    assert watched(lambda x: x @ x.T).handed_over == 0


def test_no_mode_stays_behind_when_the_call_raises() -> None:
    def failing(x: Tensor) -> Tensor:
        return x.view(5)

    before = torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack()
    with pytest.raises(RuntimeError):
        watched(failing)
    assert (torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack()) == before


COMPILED = """
import sys, warnings
import torch
from torchcourse.watching import Watch

watch = Watch()
with watch:
    torch.ones(2).softmax(0)
assert "torch._dynamo" not in sys.modules, "watching alone imported the compiler"

@torch.compile(backend="eager")
def compiled(x):
    return (x - x.amax(-1, keepdim=True)).softmax(-1)

for size in range(2, 14):
    watch = Watch()
    with watch:
        result = compiled(torch.ones(size, 3))
    assert watch.forbidden(["softmax"]) == ["softmax"], size
    torch.testing.assert_close(result, torch.full((size, 3), 1 / 3))
"""


def test_watching_does_not_import_the_compiler_and_sees_into_compiled_functions() -> None:
    done = subprocess.run([sys.executable, "-c", COMPILED], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
