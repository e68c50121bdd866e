"""What the probes of lesson 08 rest on: a compiler as new, and what it is seen to do."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from torchcourse.model.devices import find_accelerator
from torchcourse.probes.compilers import Counted, captured_whole, fresh_dynamo, uncompiled, with_waits


def doubled(x: Tensor) -> Tensor:
    return x * 2


def test_a_compiler_as_new_knows_nothing_from_before_and_keeps_settings() -> None:
    config: Any = torch._dynamo.config
    backend, settings = Counted(), config.recompile_limit
    compiled = torch.compile(doubled, backend=backend)
    for _ in range(2):
        with fresh_dynamo():
            config.recompile_limit = 1
            compiled(torch.ones(2))
    assert (len(backend.graphs), backend.runs) == (2, 2)
    assert config.recompile_limit == settings


def test_a_compiler_as_new_needs_none_that_makes_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_args: object, **_options: object) -> None:
        raise OSError("no C++ compiler")

    monkeypatch.setattr(torch._TorchCompileInductorWrapper, "__call__", broken)
    with fresh_dynamo():
        assert torch.compile(doubled)(torch.ones(2)).tolist() == [2.0, 2.0]
    with pytest.raises(Exception, match=r"no C\+\+ compiler"):
        torch.compile(doubled)(torch.ones(2))


def test_a_break_is_told_from_a_whole_graph() -> None:
    assert captured_whole(torch.abs, (torch.ones(2),))["in one graph"] == 1
    branches = captured_whole(lambda x: x * 2 if x.sum() > 0 else x, (torch.ones(2),))
    assert branches["in one graph"].reason == "a value decides"


def test_a_compiled_answer_is_looked_at_as_it_was_written() -> None:
    assert uncompiled(torch.compile(doubled)) is uncompiled(doubled) is doubled


def test_waiting_for_a_value_is_seen() -> None:
    x = torch.ones(2)
    assert with_waits(lambda: x.sum().item()) == (2.0, ["aten::_local_scalar_dense"])
    assert with_waits(x.tolist)[1]
    assert with_waits(x.sum)[1] == []


def test_cond_waits_and_its_result_can_be_differentiated() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    chosen, waited = with_waits(lambda: torch.cond(x.sum() > 0, doubled, lambda t: t - 1, (x,)))
    chosen.sum().backward()
    assert (waited, x.grad) == (["cond"], pytest.approx(torch.tensor([2.0, 2.0])))


def test_cond_chooses_on_the_simulated_device() -> None:
    x = torch.tensor([1.0, 2.0]).to(find_accelerator("simulated").device)
    with torch.compiler.set_stance("force_eager"):
        chosen = torch.cond(x.sum() > 0, doubled, lambda t: t - 1, (x,))
    assert (chosen.device, chosen.tolist()) == (x.device, [2.0, 4.0])
