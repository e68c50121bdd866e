"""The exercise `backward_outcome`: its probe, visible cases, ground truth and hints."""

from __future__ import annotations

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.checking.torchs_modules import TORCH
from torchcourse.model.exercise import Case, Draw, Exercise, InterviewQuestion, case
from torchcourse.model.observations import Observations

STEPS = {
    "exp": "y = y.exp()",
    "square": "y = y * y",
    "add": "y = y + 1",
    "relu_": "y.relu_()",
    "add_": "y.add_(1)",
    "no_grad_add_": "with torch.no_grad(): y.add_(1)",
    "detach": "y = y.detach()",
    "requires_grad_": "y.requires_grad_()",
    "backward": "y.sum().backward()",
    "retain": "y.sum().backward(retain_graph=True)",
}
"""The steps by name, as the code that they run."""
IN_ONE_LINE = {"no_grad_add_": "torch.no_grad()(y.add_)(1)"}
"""The steps that are a block, as one line."""


def probe(answer: Watched, steps: list[str]) -> Observations:
    """Observe the outcome that an answer predicts."""
    return {"prediction": answer(steps)}


def take(step: str, y: Tensor) -> Tensor:
    """Return y after one step."""
    match step:
        case "exp" | "detach" | "relu_" | "requires_grad_":
            result: Tensor = getattr(y, step)()
            return result
        case "square":
            return y * y
        case "add":
            return y + 1
        case "add_":
            return y.add_(1)
        case "no_grad_add_":
            with torch.no_grad():
                return y.add_(1)
        case "backward" | "retain":
            y.sum().backward(retain_graph=step == "retain")  # type: ignore[no-untyped-call]
            return y
    raise LookupError(f"There is no step {step!r}.")


def run(steps: list[str]) -> tuple[str, str]:
    """Take the steps, beginning with a leaf; return the outcome and what was raised ("" if nothing was)."""
    x = y = torch.tensor([0.5, 2.0], requires_grad=True)
    try:
        for step in steps:
            y = take(step, y)
    except RuntimeError as error:
        return "raises", str(error)
    return ("none" if x.grad is None else "gradient"), ""


def ground_truth(steps: list[str]) -> str:
    """Take the steps and return the outcome."""
    return run(steps)[0]


def listed(name: str, *steps: str) -> Case:
    """Return the case of these steps."""
    return case(name, steps=list(steps))


def cases(draw: Draw) -> list[Case]:
    saves, more = draw.pick(["exp", "square"]), draw.size(1, 2)
    return [
        listed("no backward", saves, *["add"] * more),
        listed("one backward", *["add"] * more, saves, "backward"),
        listed("backward twice, over what saves nothing", *["add"] * more, "backward", "backward"),
        listed("backward twice, over what saves", saves, "add", "backward", "backward"),
        listed("backward twice, the graph retained", saves, "retain", "backward"),
        listed("the graph retained too late", saves, "backward", "retain"),
        listed("one more step after backward", saves, "backward", "add", "backward"),
        listed("in place over a saved result", "exp", "add_", "backward"),
        listed("in place over a saved result, nothing read", "exp", "add_"),
        listed("in place over what nobody saved", "square", "add_", "backward"),
        listed("in place on what came after a saved result", "exp", "add", "add_", "backward"),
        listed("in place after backward", "exp", "backward", "add_"),
        listed("in place between two backwards", "exp", "retain", "add_", "backward"),
        listed("two in place, the first saves its result", "add", "relu_", "add_", "backward"),
        listed("backward twice, over a relu in place", "add", "relu_", "backward", "backward"),
        listed("asked for a gradient once more", "add", "requires_grad_", "backward", "backward"),
        listed("in place on the leaf", draw.pick(["relu_", "add_"]), "backward"),
        listed("in place on the leaf, without grad", "no_grad_add_", "square", "backward"),
        listed("the leaf changed without grad, nothing read", "no_grad_add_", saves),
        listed("without grad, over a saved result", "exp", "no_grad_add_", "backward"),
        listed("detached, and nothing more", saves, "detach"),
        listed("backward from a detached tensor", saves, "detach", "add", "backward"),
        listed("detached after backward", saves, "backward", "detach", "add_"),
        listed("a new leaf", saves, "detach", "requires_grad_", saves, "backward"),
        listed("in place on the new leaf", "exp", "detach", "requires_grad_", "relu_"),
    ]


def quotes(inputs: Observations, _seen: Observations, _wanted: Observations) -> dict[str, object]:
    outcome, message = run(inputs["steps"])
    spelled = "; ".join(IN_ONE_LINE.get(step, STEPS[step]) for step in inputs["steps"])
    reason = message.split(" (or")[0].split(": [")[0].split(". ")[0].rstrip(".")
    words = {"raises": f"raises: {reason}", "none": "leaves x.grad None", "gradient": "finds a gradient in x.grad"}
    return {"run": f"y = x; {spelled}", "said": words[outcome]}


EXERCISE = Exercise(
    "backward_outcome",
    probe,
    cases,
    hints=(
        "Go through the steps one by one with a few facts in hand: does y require grad, is it a leaf, does its graph "
        "lead to x? Which steps change which of them?",
        "`exp` and `relu_` save their result, `square` saves its input, `add` saves nothing. What breaks if a saved "
        "tensor is changed in place, and at which line does PyTorch notice?",
        "`backward` frees what the nodes have saved. Which graphs survive a second one because there is nothing to "
        "free, and which step makes y forget its graph altogether?",
    ),
    quotes=quotes,
    any_device=False,
    forbids=(TORCH,),
    ground_truth=ground_truth,
    interview=InterviewQuestion(
        "Why does a second `backward` raise, and does it always?",
        "The first one frees the tensors that the nodes saved for it, so the second raises at the first node that "
        "needs one. A graph of nothing but additions saves nothing and can be run through again; `retain_graph=True` "
        "keeps what the others saved. An in-place write raises for a related reason: not at the write, but at the "
        "backward that finds a saved tensor with a newer version, unless it hits a leaf that requires grad, which is "
        "refused at once.",
        "02_autograd",
    ),
)
