"""The exercise `dependencies`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograde.hidden.common import override
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "The Jacobian has every derivative of every output, so nothing can cancel before it is looked at. Joined to rows, "
    "numbers, rows, numbers, `any` over the numbers leaves a table of rows. It works on a detached x, so that nothing "
    "arrives in the caller's `.grad`."
)
"""Why the reference is written as it is."""
REQUIRED = ("transposed", "sums-outputs-first", "pollutes-grad")
"""The mistakes that a check must always be able to name."""

WHO = "Who depends on whom"


class Dependencies:
    """A right program; a mistake overrides one of its methods."""

    def __call__(self, fn: Any, x: Tensor) -> Any:
        table = self.table(self.jacobian(fn, self.leaf(x)))
        return self.returned(table)

    def leaf(self, x: Tensor) -> Tensor:
        return x.detach().clone().requires_grad_()

    def jacobian(self, fn: Any, leaf: Tensor) -> Tensor:
        """Return the derivatives: (rows of the output, numbers in one, rows of x, numbers in one)."""
        out = fn(leaf)
        rows = []
        for row in out:
            numbers = [self.slopes(number, leaf).flatten(1) if leaf.dim() > 1 else self.slopes(number, leaf)[:, None]
                       for number in self.numbers(row)]  # fmt: skip
            rows.append(torch.stack(numbers))
        return torch.stack(rows)

    def numbers(self, row: Tensor) -> Any:
        return row.flatten()

    def slopes(self, number: Tensor, leaf: Tensor) -> Tensor:
        if not number.requires_grad:
            return torch.zeros_like(leaf)
        (found,) = torch.autograd.grad(number, leaf, retain_graph=True, allow_unused=True)
        return torch.zeros_like(leaf) if found is None else found

    def table(self, jacobian: Tensor) -> Tensor:
        return (jacobian != 0).any(3).any(1)

    def returned(self, table: Tensor) -> Any:
        return table


def depending(**methods: Any) -> Callable[..., Any]:
    """Return the right program with these methods in place of its own."""
    program: Callable[..., Any] = override(Dependencies, **methods)()
    return program


def gradient_of_the_sum(fn: Any, x: Tensor) -> Tensor:
    leaf = x.detach().clone().requires_grad_()
    slopes = Dependencies().slopes(fn(leaf).sum(), leaf)
    touched = (slopes != 0).reshape(len(x), -1).any(1)
    return touched.expand(len(x), len(x)).clone()


def gradient_of_the_sum_as_diagonal(fn: Any, x: Tensor) -> Tensor:
    return gradient_of_the_sum(fn, x)[0].diag()


class BackwardIntoX(Dependencies):
    def __call__(self, fn: Any, x: Tensor) -> Any:
        x.requires_grad_() if x.is_leaf else x.retain_grad()
        table = super().__call__(fn, x)
        fn(x).sum().backward() if fn(x).requires_grad else None
        return table

    def leaf(self, x: Tensor) -> Tensor:
        return x


class BackwardIntoXAsItWas(BackwardIntoX):
    def __call__(self, fn: Any, x: Tensor) -> Any:
        needed = x.requires_grad
        table = super().__call__(fn, x)
        x.requires_grad_(needed)
        return table


class ClearsGrad(Dependencies):
    def __call__(self, fn: Any, x: Tensor) -> Any:
        x.grad = None
        return super().__call__(fn, x)


class Requiring(Dependencies):
    def leaf(self, x: Tensor) -> Tensor:
        return x.requires_grad_() if x.is_leaf else x


def of_a_constant(_self: Dependencies, number: Tensor, leaf: Tensor) -> Tensor:
    (found,) = torch.autograd.grad(number, leaf, retain_graph=True)
    return found


def by_poking(fn: Any, x: Tensor) -> Tensor:
    x = x.detach()
    n, base, found = len(x), fn(x), []
    for j in range(n):
        poked = x.clone()
        poked[j] += 1
        found.append((fn(poked) != base).reshape(n, -1).any(1))
    return torch.stack(found, 1)


ENTRY = 'In the case "{case}" entry ({i}, {j}) is {said} and should be {true}: '
MISTAKES = [
    Mistake("transposed", depending(returned=lambda self, table: table.T.clone()), ENTRY + "the first index is that of "
            "the output, the second that of x.", WHO),
    Mistake("sums-outputs-first", gradient_of_the_sum, ENTRY + "one gradient of the sum of all outputs cannot say "
            "which of them it came from.", WHO),
    Mistake("sums-outputs-first", gradient_of_the_sum_as_diagonal, ENTRY + "one gradient of the sum of all outputs "
            "cannot say which of them it came from.", WHO),
    Mistake("pollutes-grad", BackwardIntoX(), 'In the case "{case}" `x.grad` is {got} after the call, and should be '
            "{want}: `backward` leaves its result in the caller's tensor.", WHO),
    Mistake("pollutes-grad", BackwardIntoXAsItWas(), 'In the case "{case}" `x.grad` is {got} after the call, and '
            "should be {want}: `backward` leaves its result in the caller's tensor.", WHO),
    Mistake("clears-the-callers-grad", ClearsGrad(), 'In the case "{case}" `x.grad` is {got} after the call, and '
            "should be {want}: that gradient was the caller's.", WHO),
    Mistake("changes-requires-grad", Requiring(), 'In the case "{case}" `x.requires_grad` is {got} after the call, '
            "and should be {want}: work on a detached copy of x.", WHO),
    Mistake("sums-each-row-first", depending(numbers=lambda self, row: row.sum().reshape(1)), ENTRY + "the numbers of "
            "a row were added up first, and their derivatives cancelled.", WHO),
    Mistake("sums-over-inputs", depending(table=lambda self, j: (j.sum(3) != 0).any(1)), ENTRY + "the derivatives "
            "with respect to several numbers of one row were added up, and cancelled.", WHO),
    Mistake("misses-negative", depending(table=lambda self, j: (j > 0).any(3).any(1)), ENTRY + "a negative derivative "
            "is a dependency as well.", WHO),
    Mistake("misses-small-ones", depending(table=lambda self, j: (j.abs() > 1e-5).any(3).any(1)), ENTRY + "the "
            "derivative is small, but it is not zero, so that is a dependency as well.", WHO),
    Mistake("mixes-up-dimensions", depending(table=lambda self, j: (j != 0).reshape(len(j), len(j), -1).any(-1)), ENTRY
            + "the derivatives have the dimensions of fn(x), then those of x; `reshape(n, n, -1)` mixes them.", WHO),
    Mistake("all-for-any", depending(table=lambda self, j: (j != 0).all(3).all(1)), ENTRY + "a single derivative that "
            "is not zero is enough.", WHO),
    Mistake("fails-on-a-constant", depending(slopes=of_a_constant), "In the case \"{case}\" the call raised {error}: "
            "an output that does not depend on x has no graph, and that is an answer: False.", WHO),
    Mistake("pokes-instead-of-differentiating", by_poking, ENTRY + "x was changed to see what moves. But a change "
            "may cancel out, as in a softmax, and along a detached path something moves without any gradient.", WHO),
    Mistake("numbers-not-bools", depending(returned=lambda self, table: table.int()), "The result is {got_dtype} where "
            "{want_dtype} is wanted.", WHO),
    Mistake("made-on-cpu", depending(returned=lambda self, table: table.cpu()), "On the second device the table came "
            "out on the {device}: what the function makes has to be made on x's device.", WHO),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    n = draw.size(3, 6)

    def drawn(form: str, *shape: int, role: str = "plain", dtype: torch.dtype = torch.float32) -> dict[str, Any]:
        return {"form": form, "x": draw.normal(*shape, dtype=dtype), "role": role}

    strided = drawn("running sums", 2, n)
    strided["x"] = strided["x"].T
    return [
        case("one row", **drawn("every row for itself", 1, 3)),
        case("strided", **strided),
        case("sums of differences", **drawn("sums of differences", n, 3, role="leaf")),
        case("batch norm of vectors", **drawn("batch norm", n, role="result")),
        case("a row that sees ahead, of matrices", **drawn("leaky", 4, 2, 2, dtype=torch.float64)),
        case("a tiny share, float64", **drawn("whisper", n, 2, dtype=torch.float64)),
        case("a constant leaf", **drawn("constant", n, 2, role="leaf")),
    ]


# Right answers unlike the reference


def depend_by_functional(fn: Any, x: Tensor) -> Tensor:
    jacobian: Tensor = torch.func.jacrev(lambda t: fn(t).reshape(len(x), -1))(x.detach())
    return jacobian.reshape(len(x), -1, len(x), x.numel() // len(x)).abs().amax((1, 3)) > 0


def depend_by_rows(fn: Any, x: Tensor) -> Tensor:
    mine = x.detach().clone().requires_grad_(True)
    out = fn(mine)
    table = torch.zeros(len(x), len(x), dtype=torch.bool, device=x.device)
    for i in range(len(x)):
        for number in out[i].flatten():
            if not number.requires_grad:
                continue
            mine.grad = None
            number.backward(retain_graph=True)
            if mine.grad is not None:
                table[i] |= mine.grad.ne(0).reshape(len(x), -1).any(-1)
    return table


RIGHT_ANSWERS: list[Callable[..., Any]] = [depend_by_functional, depend_by_rows]
