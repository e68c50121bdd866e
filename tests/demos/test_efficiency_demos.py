"""Demos of lesson 13: profiles, quantization errors, memory of attention."""

from __future__ import annotations

import torch
from torch import Tensor

from torchcourse.demos import efficiency
from torchcourse.probes.memory import peak_bytes


def sorting(x: Tensor) -> Tensor:
    return (x @ x).sort(1).values


def test_a_profile_lists_operators_by_their_own_time() -> None:
    x = torch.randn(200, 200)
    times = efficiency.self_times(lambda: sorting(x))
    assert list(times.values()) == sorted(times.values(), reverse=True)
    assert {"aten::mm", "aten::sort"} <= set(times)
    assert all(name.startswith("aten::") for name in times)


def test_a_step_is_drawn_before_and_after_and_told() -> None:
    x = torch.randn(50, 50)
    picture = efficiency.before_and_after(lambda: sorting(x), lambda: x @ x)
    assert picture.alt.startswith("Where a call spends its time. before: ")
    assert "most of it in aten::mm" in picture.alt.split("after")[1]
    assert picture.png


def test_more_bits_and_a_scale_for_each_row_make_errors_smaller() -> None:
    w = torch.randn(16, 32) * torch.logspace(-2, 0, 16)[:, None]
    errors = [efficiency._error(w, w.abs().amax(1, keepdim=True), bits) for bits in (2, 4, 8)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < efficiency._error(w, w.abs().max(), 8)
    assert "one scale a row: " in efficiency.quantization_error(w).alt


def test_memory_with_the_matrix_grows_by_the_square_of_the_length() -> None:
    def with_matrix(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return (q @ k.mT).softmax(-1) @ v

    small, large = (efficiency.attention_bytes(with_matrix, length, peak_bytes) for length in (256, 512))
    assert 3.5 < large / small < 4.2
    assert (
        "with the matrix: " in efficiency.memory_by_length({"with the matrix": with_matrix}, peak_bytes, (64, 128)).alt
    )
