"""The exercise `rms_norm_cpp`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from autograde.source.mistakes import Mistake
from torchcourse.exercises.efficiency.rms_norm_cpp import row_case
from torchcourse.model.exercise import Case, Draw

WHY = (
    "`contiguous` copies only where rows do not lie one behind the other, and after it a pointer may run through them. "
    "The template makes one loop for each dtype, and both add up in double. The stable ABI keeps working with later "
    "versions of PyTorch, and its headers compile in two seconds."
)
"""Why the reference is written as it is."""
REQUIRED = ("assumes-contiguous", "reads-double-as-float", "accumulates-in-float", "eps-outside-root")
"""The mistakes that a check must always be able to name."""

READ = "An operator in C++"

SOURCE = r"""
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>
#include <cmath>

using torch::stable::Tensor;

template <typename T>
void fill(const T* in, T* out, int64_t rows, int64_t n, double eps) {
  for (int64_t r = 0; r < rows; ++r, in += n, out += n) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      double value = in[i];
      sum += value * value;
    }
    double scale = 1 / std::sqrt(sum / n + eps);
    for (int64_t i = 0; i < n; ++i) out[i] = (T)(in[i] * scale);
  }
}

Tensor norm(const Tensor& given, double eps) {
  Tensor x = torch::stable::contiguous(given);
  Tensor y = torch::stable::empty_like(x);
  int64_t n = x.size(x.dim() - 1), rows = n ? x.numel() / n : 0;
  if (x.scalar_type() == torch::headeronly::ScalarType::Double)
    fill((const double*)x.const_data_ptr(), (double*)y.mutable_data_ptr(), rows, n, eps);
  else
    fill((const float*)x.const_data_ptr(), (float*)y.mutable_data_ptr(), rows, n, eps);
  return y;
}

STABLE_TORCH_LIBRARY_FRAGMENT(torchcourse, m) { m.def("rms_norm(Tensor x, float eps) -> Tensor"); }
STABLE_TORCH_LIBRARY_IMPL(torchcourse, CPU, m) { m.impl("rms_norm", TORCH_BOX(&norm)); }
"""
"""A right source; a mistake changes a line of it."""


def with_changes(changes: tuple[tuple[str, str], ...]) -> str:
    """Return the right source with these pieces replaced."""
    source = SOURCE
    for old, new in changes:
        assert old in source, old
        source = source.replace(old, new)
    return source


def changed(*changes: tuple[str, str]) -> Callable[[], str]:
    """Return an answer that returns the right source with these pieces replaced."""
    return functools.partial(with_changes, changes=changes)


CONTIGUOUS = "torch::stable::contiguous(given)"
SCALE = "1 / std::sqrt(sum / n + eps)"


def path_to_a_file() -> str:
    return "rms_norm.cpp"


def bytes_of_source() -> Any:
    return SOURCE.encode()


VALUE = 'In the case "{case}" `{what}` is {got} where {want} is wanted: '
MISTAKES = [
    Mistake("assumes-contiguous", changed((CONTIGUOUS, "given")), VALUE + "the pointer ran through memory as if row "
            "followed row. A transposed or sliced tensor lies differently in memory.", READ),
    Mistake("reads-double-as-float", changed(("ScalarType::Double)", "ScalarType::Half)")), 'In the case "{case}" '
            "`{what}` is {got}. The eight bytes of a double were read as two floats.", READ),
    Mistake("accumulates-in-float", changed(("double sum = 0;", "T sum = 0;")), VALUE + "the squares were added up in "
            "float32, where a sum above 3.4e38 is infinite, and small numbers behind a large one are lost.", READ),
    Mistake("squares-in-float", changed(("double value = in[i];", "T value = in[i];")), VALUE + "each square was "
            "computed in float32, which holds no number above 3.4e38; convert the number to double first.", READ),
    Mistake("eps-in-float", changed((SCALE, "1 / std::sqrt(sum / n + (float)eps)")), VALUE + "eps was rounded to a "
            "float; the `float` of a schema is a `double` in C++.", READ),
    Mistake("eps-outside-root", changed((SCALE, "1 / (std::sqrt(sum / n) + eps)")), 'In the case "{case}" `{what}` is '
            '{got}. `eps` was added after the root was taken; it belongs under the root.', READ),
    Mistake("no-eps", changed((SCALE, "1 / std::sqrt(sum / n)")), 'In the case "{case}" `{what}` is {got}. `eps` was '
            'left out.', READ),
    Mistake("no-root", changed((SCALE, "1 / (sum / n + eps)")), VALUE + "the root is missing.", READ),
    Mistake("sum-not-mean", changed((SCALE, "1 / std::sqrt(sum + eps)")), VALUE + "the squares were added up and not "
            "averaged.", READ),
    Mistake("over-all-dimensions", changed(("int64_t n = x.size(x.dim() - 1)", "int64_t n = x.numel()")), VALUE +
            "the mean was taken over the whole tensor, not over the last dimension.", READ),
    Mistake("over-the-first-dimension", changed(("int64_t n = x.size(x.dim() - 1)", "int64_t n = x.size(0)")), VALUE +
            "the length of the first dimension was taken for that of a row.", READ),
    Mistake("writes-into-x", changed(("torch::stable::empty_like(x)", "x")), 'In the case "{case}" x is {got} after '
            'the call and should be {want}: the result was written over the input.', READ),
    Mistake("other-schema", changed(("float eps)", "float epsilon)")), 'In the case "{case}" what was registered is '
            "{got} where {want} is wanted: the name of an argument is part of the schema.", READ),
    Mistake("other-name", changed(("torchcourse,", "lesson13,")), "The check looked for torchcourse::rms_norm and "
            "found {registered}. The namespace stands in both `STABLE_TORCH_LIBRARY...`, the operator's own name in "
            "`def` and `impl`.", READ),
    Mistake("returns-bytes", bytes_of_source, 'In the case "{case}" the function returned {got}: return the source as '
            "a string.", READ),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    n, d = draw.size(1, 5), draw.size(2, 12)
    return [
        row_case(draw, "drawn sizes", n, d, eps=0.01),
        row_case(draw, "a vector", d),
        row_case(draw, "float64, transposed", n, d, dtype=torch.float64, layout="transposed"),
        row_case(draw, "one row, expanded", n + 1, d, layout="one row, expanded"),
        row_case(draw, "five dimensions, every other column", 2, 1, 2, n, d, layout="every other column"),
        row_case(draw, "many ones", 1, 4, ones=draw.size(30_000, 80_000)),
    ]


# Right answers unlike the reference

STRIDED = r"""
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <cmath>
#include <vector>

namespace {

using torch::stable::Tensor;
using torch::headeronly::ScalarType;

// Walks through any strides with one counter for each dimension.
template <class T>
Tensor any_strides(const Tensor& x, double eps) {
  const int64_t dims = x.dim(), n = x.size(dims - 1), step = x.stride(dims - 1);
  Tensor y = torch::stable::new_empty(x, std::vector<int64_t>(x.sizes().begin(), x.sizes().end()));
  T* out = static_cast<T*>(y.mutable_data_ptr());
  const T* in = static_cast<const T*>(x.const_data_ptr());
  std::vector<int64_t> place(dims, 0);
  const int64_t rows = n ? x.numel() / n : 0;
  for (int64_t row = 0; row < rows; row++) {
    int64_t offset = 0;
    for (int64_t k = 0; k + 1 < dims; k++) offset += place[k] * x.stride(k);
    long double squares = 0;
    for (int64_t i = 0; i < n; i++) squares += (long double)in[offset + i * step] * in[offset + i * step];
    const double root = std::sqrt((double)(squares / n) + eps);
    for (int64_t i = 0; i < n; i++) out[row * n + i] = static_cast<T>(in[offset + i * step] / root);
    for (int64_t k = dims - 2; k >= 0 && ++place[k] == x.size(k); k--) place[k] = 0;
  }
  return y;
}

Tensor entry(Tensor x, double eps) {
  return x.scalar_type() == ScalarType::Float ? any_strides<float>(x, eps) : any_strides<double>(x, eps);
}

}  // namespace

STABLE_TORCH_LIBRARY(torchcourse, library) {
  library.def("rms_norm(Tensor x, float eps) -> Tensor");
}
STABLE_TORCH_LIBRARY_IMPL(torchcourse, CPU, library) {
  library.impl("rms_norm", TORCH_BOX(&entry));
}
"""

LARGE_HEADERS = r"""
#include <ATen/ATen.h>
#include <torch/library.h>

static at::Tensor rms_norm(const at::Tensor& x, double eps) {
  auto wide = x.to(at::kDouble);
  return (wide * (wide.square().mean(-1, /*keepdim=*/true) + eps).rsqrt()).to(x.scalar_type());
}

TORCH_LIBRARY(torchcourse, m) {
  m.def("rms_norm(Tensor x, float eps) -> Tensor");
}
TORCH_LIBRARY_IMPL(torchcourse, CPU, m) {
  m.impl("rms_norm", rms_norm);
}
"""


def walking_the_strides() -> str:
    return STRIDED


def with_large_headers() -> str:
    return LARGE_HEADERS


RIGHT_ANSWERS: list[Callable[..., Any]] = [walking_the_strides, with_large_headers]
