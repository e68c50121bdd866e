"""The pictures of lesson 08: the numbers behind them, and that they can be drawn without a screen."""

from __future__ import annotations

import math

import pytest
import torch

from torchcourse.demos import calls


def test_compiling_pays_after_as_many_calls_as_it_costs() -> None:
    assert calls.break_even(100.0, 2.0, 1.0) == 100.0
    assert math.isinf(calls.break_even(100.0, 1.0, 1.0))


def test_each_new_size_compiles_in_the_model() -> None:
    series = calls.modelled(calls=5, compiling=20, gain=2, sizes=2)
    assert series == {"eager": [1.0] * 5, "compiled": [20.5, 20.5, 0.5, 0.5, 0.5]}


def test_times_are_shown_relative_to_eager() -> None:
    assert calls.relative({"eager": [1.0, 2.0, 3.0], "compiled": [4.0]})["compiled"] == [2.0]


def test_each_call_is_timed() -> None:
    seen: list[int] = []
    assert len(calls.each_call(seen.append, [1, 2, 3])) == 3
    assert seen == [1, 2, 3]


def test_a_picture_says_what_it_shows() -> None:
    picture = calls.draw({"eager": [1.0, 1.0], "compiled": [50.0, 0.5, 0.5]})
    assert picture.png.startswith(b"\x89PNG")
    assert "compiled: first 50, then 0.5" in picture.alt


def test_the_explorer_says_when_compiling_has_paid() -> None:
    one = calls.explorer()
    assert "has paid from call 40 on" in one.picture.alt
    one.set("sizes", 8)
    assert "has not paid after 50 calls" in one.picture.alt


def test_without_a_compiler_graphs_are_still_built(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("no C++ compiler\nand more")

    monkeypatch.setattr(torch._TorchCompileInductorWrapper, "__call__", fails)
    backend, reason = calls.usable_backend(lambda x: x.sin(), torch.zeros(2))
    assert backend == "aot_eager"
    assert "BackendCompilerFailed" in reason
    assert torch.compile(lambda x: x.sin(), backend=backend)(torch.zeros(2)).tolist() == [0.0, 0.0]
