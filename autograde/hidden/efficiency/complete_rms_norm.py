"""The exercise `complete_rms_norm`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograde.source.mistakes import Mistake
from torchcourse.exercises.efficiency.complete_rms_norm import NAME, row_case
from torchcourse.model.exercise import Case, Draw

WHY = (
    "The fake says shape and dtype, which is all that the compiler asks. The result is x·r, and r depends on every "
    "entry of its row: the second term of the gradient takes off the part along x, since making a row longer does not "
    "change its result. Only `gradcheck` looks at the values; `opcheck` does not."
)
"""Why the reference is written as it is."""
REQUIRED = ("missing-fake", "missing-autograd", "gradient-misses-norm-term")
"""The mistakes that a check must always be able to name."""

READ = "Making the operator complete"


def fake(x: Tensor, eps: float) -> Tensor:
    return torch.empty_like(x)


def flat_fake(x: Tensor, eps: float) -> Tensor:
    return x.new_empty(x.shape[:-1])


def same_fake(x: Tensor, eps: float) -> Tensor:
    return x


def half_fake(x: Tensor, eps: float) -> Tensor:
    return torch.empty_like(x, dtype=torch.float16)


def float32_fake(x: Tensor, eps: float) -> Tensor:
    return torch.empty(x.shape)


def computing_fake(x: Tensor, eps: float) -> Tensor:
    return x if x.sum() > 0 else x + eps


def keep(ctx: Any, inputs: Any, output: Any) -> None:
    x, ctx.eps = inputs
    ctx.save_for_backward(x)


def parts(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return x, r and the mean of grad·x over each row."""
    (x,) = ctx.saved_tensors
    r = (x.square().mean(-1, keepdim=True) + ctx.eps).rsqrt()
    return x, r, (grad * x).mean(-1, keepdim=True)


def back(ctx: Any, grad: Tensor) -> Any:
    x, r, along = parts(ctx, grad)
    return grad * r - x * r**3 * along, None


def back_without_norm(ctx: Any, grad: Tensor) -> Any:
    return grad * parts(ctx, grad)[1], None


def back_with_plus(ctx: Any, grad: Tensor) -> Any:
    x, r, along = parts(ctx, grad)
    return grad * r + x * r**3 * along, None


def back_with_sum(ctx: Any, grad: Tensor) -> Any:
    x, r, along = parts(ctx, grad)
    return grad * r - x * r**3 * along * x.shape[-1], None


def back_over_all(ctx: Any, grad: Tensor) -> Any:
    x, r, _ = parts(ctx, grad)
    return grad * r - x * r**3 * (grad * x).mean(), None


def back_with_first_power(ctx: Any, grad: Tensor) -> Any:
    x, r, along = parts(ctx, grad)
    return grad * r - x * r * along, None


def back_with_second_power(ctx: Any, grad: Tensor) -> Any:
    x, r, along = parts(ctx, grad)
    return grad * r - x * r**2 * along, None


def back_for_x_alone(ctx: Any, grad: Tensor) -> Any:
    return back(ctx, grad)[0]


def back_without_eps(ctx: Any, grad: Tensor) -> Any:
    ctx.eps = 0.0
    return back(ctx, grad)


def back_without_grad(ctx: Any, grad: Tensor) -> Any:
    return back(ctx, torch.ones_like(grad))


def completing(fake: Any = fake, back: Any = back) -> Callable[[], None]:
    """Return an answer that registers these two, if they are not None."""

    def complete() -> None:
        if fake is not None:
            torch.library.register_fake(NAME, fake)
        if back is not None:
            torch.library.register_autograd(NAME, back, setup_context=keep)

    return complete


def nothing() -> None:
    return None


COMPILER = "The compiler says: {compiler}. "
CHECK = 'In the case "{case}" gradcheck {gradcheck}, and `{what}` is {got} where {want} is wanted: '
OPCHECK = "In opcheck, {test} fails: {said}. "
NONE = "A gradient cannot be taken: {gradient}. "
MISTAKES = [
    Mistake("missing-fake", completing(fake=None), COMPILER + "Without a fake it cannot know the shape of the result "
            "before there are numbers.", READ),
    Mistake("missing-autograd", completing(back=None), NONE + "Autograd cannot look into an operator of your own; "
            "opcheck alone does not notice that.", READ),
    Mistake("nothing-registered", nothing, NONE + "Neither a fake nor a backward is registered.", READ),
    Mistake("gradient-misses-norm-term", completing(back=back_without_norm), CHECK + "the factor r was taken for a "
            "constant. It depends on every entry of its row, which gives a second term.", READ),
    Mistake("norm-term-with-plus", completing(back=back_with_plus), CHECK + "the second term has to be subtracted, not "
            "added.", READ),
    Mistake("norm-term-summed", completing(back=back_with_sum), CHECK + "the second term needs the mean over the row, "
            "not the sum.", READ),
    Mistake("norm-term-over-all", completing(back=back_over_all), CHECK + "the mean was taken over the whole tensor; "
            "rows are independent of each other.", READ),
    *(Mistake("norm-term-other-power", completing(back=wrong), CHECK + "the derivative of r has r³ in it, as that of "
              "1 / sqrt(s) has s to the power of -3/2.", READ)
      for wrong in (back_with_first_power, back_with_second_power)),
    Mistake("one-gradient-returned", completing(back=back_for_x_alone), "{gradient}: backward has to return a value "
            "for each argument of the operator, None for eps.", READ),
    Mistake("gradient-without-eps", completing(back=back_without_eps), CHECK + "eps is missing in backward.", READ),
    Mistake("ignores-grad-output", completing(back=back_without_grad), CHECK + "the gradient that arrives has to be "
            "passed on.", READ),
    Mistake("fake-of-wrong-shape", completing(fake=flat_fake), OPCHECK + "The fake result has a different shape from "
            "the real one.", READ),
    *(Mistake("fake-of-wrong-dtype", completing(fake=wrong), OPCHECK + "The fake result has a different dtype from the "
            "real one.", READ) for wrong in (half_fake, float32_fake)),
    Mistake("fake-returns-its-input", completing(fake=same_fake), OPCHECK + "The fake returns x itself, but the real "
            "operator returns a new tensor.", READ),
    Mistake("fake-asks-for-values", completing(fake=computing_fake), COMPILER + "A fake has no numbers to ask for.",
            READ),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    return [
        row_case(draw, "drawn sizes", draw.size(1, 4), draw.size(3, 7), eps=0.05),
        row_case(draw, "a vector", draw.size(3, 7)),
    ]


# Right answers unlike the reference


def by_decorators() -> None:
    @torch.library.register_fake("torchcourse::rms_norm")  # type: ignore[untyped-decorator]
    def _fake(x: Tensor, eps: float) -> Tensor:
        return x.new_empty(x.shape)

    def remember(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0], output)
        ctx.eps = inputs[1]

    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        x, y = ctx.saved_tensors
        r = 1 / torch.sqrt(torch.mean(x * x, dim=-1, keepdim=True) + ctx.eps)
        return r * (grad - y * torch.mean(grad * y, dim=-1, keepdim=True)), None

    torch.library.register_autograd("torchcourse::rms_norm", backward, setup_context=remember)


def by_a_library() -> None:
    def plain(x: Tensor, eps: float) -> Tensor:
        return x * (x.pow(2).mean(dim=-1, keepdim=True) + eps).rsqrt()

    def backward(ctx: Any, grad: Tensor) -> Any:
        with torch.enable_grad():
            leaf = ctx.saved_tensors[0].detach().requires_grad_()
            y = plain(leaf, ctx.eps)
        return torch.autograd.grad(y, leaf, grad)[0], None

    torch.library.register_fake(NAME, lambda x, eps: torch.empty(x.shape, dtype=x.dtype, device=x.device))
    torch.library.register_autograd(NAME, backward, setup_context=keep)


RIGHT_ANSWERS: list[Callable[..., Any]] = [by_decorators, by_a_library]
