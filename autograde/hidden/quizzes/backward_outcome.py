"""The exercise `backward_outcome`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autograde.source.mistakes import Mistake
from torchcourse.exercises.quizzes.backward_outcome import STEPS, listed
from torchcourse.model.exercise import Case, Draw

WHY = (
    "A handful of facts about y is enough to follow autograd: whether it requires grad, is a leaf, leads to x, was "
    "saved by the node that made it, and whether its graph has saved something, been overwritten or been freed. "
    "`backward` only reads them; the other steps change one or two each."
)
"""Why the reference is written as it is."""
REQUIRED = ("every-inplace-raises", "every-second-backward-raises", "detach-raises")
"""The mistakes that a check must always be able to name."""

SECTION = "Second backward, in place, detach"
INPLACE = ("relu_", "add_", "no_grad_add_")


class Follow:
    """Follows autograd step by step; a misconception overrides a part."""

    frees_additions = False

    def __call__(self, steps: list[str]) -> str:
        self.found = False
        self.begin()
        self.leads_to_x = True
        try:
            for step in steps:
                self.take(step)
        except RuntimeError:
            return "raises"
        return "gradient" if self.found else "none"

    def begin(self) -> None:
        """Begin a new graph at a leaf that requires grad and is not x."""
        self.requires_grad = self.leaf = True
        self.leads_to_x = self.result_saved = self.saves = self.overwritten = self.freed = False

    def take(self, step: str) -> None:
        if step in ("backward", "retain"):
            self.backward(step == "retain")
        elif step == "detach":
            self.detach()
        elif step == "requires_grad_":
            if not self.requires_grad:
                self.begin()
        elif step in INPLACE:
            self.write(step)
        elif self.requires_grad:
            self.compute(step)

    def compute(self, step: str) -> None:
        self.leaf, self.result_saved = False, step == "exp"
        self.saves |= step != "add"

    def write(self, step: str) -> None:
        if not self.requires_grad:
            return
        if self.leaf and step != "no_grad_add_":
            raise RuntimeError("a leaf")
        self.overwritten |= self.result_saved
        self.result_saved = step == "relu_"
        self.saves |= step == "relu_"

    def detach(self) -> None:
        self.begin()
        self.requires_grad = False

    def backward(self, retain: bool) -> None:
        if not self.requires_grad or self.overwritten or self.freed:
            raise RuntimeError("no graph, or a broken one")
        self.found |= self.leads_to_x
        self.freed = not retain and (self.saves or self.frees_additions)


class EveryInplaceRaises(Follow):
    def write(self, step: str) -> None:
        if self.requires_grad:
            raise RuntimeError("in place")


class InplaceRaisesAtOnce(Follow):
    def write(self, step: str) -> None:
        super().write(step)
        if self.overwritten and not self.freed:
            raise RuntimeError("the saved result was overwritten")


class InplaceNeverRaises(Follow):
    def write(self, step: str) -> None:
        super().write(step)
        self.overwritten = False


class InplaceOnLeafIsFine(Follow):
    def write(self, step: str) -> None:
        super().write("no_grad_add_" if self.leaf else step)


class LeafIsLikeAnyOther(Follow):
    def write(self, step: str) -> None:
        self.leaf = False
        super().write(step)


class NoGradProtects(Follow):
    def write(self, step: str) -> None:
        if step != "no_grad_add_":
            super().write(step)


class NoGradDetaches(Follow):
    def write(self, step: str) -> None:
        if step == "no_grad_add_":
            self.detach()
        else:
            super().write(step)


class LeafIsSacred(Follow):
    def write(self, step: str) -> None:
        super().write("add_" if self.leaf else step)


class EverySecondBackwardRaises(Follow):
    frees_additions = True


class SecondBackwardIsFine(Follow):
    def backward(self, retain: bool) -> None:
        super().backward(retain=True)


class NewStepNewGraph(Follow):
    def compute(self, step: str) -> None:
        self.freed = False
        super().compute(step)


class LastOperationOnly(Follow):
    def compute(self, step: str) -> None:
        self.saves = False
        super().compute(step)


class SavedForGood(Follow):
    def compute(self, step: str) -> None:
        before = self.result_saved
        super().compute(step)
        self.result_saved |= before


class RetainRepairs(Follow):
    def backward(self, retain: bool) -> None:
        self.freed &= not retain
        super().backward(retain)


class RetainFrees(Follow):
    def backward(self, retain: bool) -> None:
        super().backward(retain=False)


class DetachRaises(Follow):
    def detach(self) -> None:
        raise RuntimeError("detached")


class DetachedBackwardIsNone(Follow):
    def backward(self, retain: bool) -> None:
        if self.requires_grad:
            super().backward(retain)


class DetachIsNothing(Follow):
    def detach(self) -> None:
        pass


class NewLeafReachesX(Follow):
    def take(self, step: str) -> None:
        new_leaf = step == "requires_grad_" and not self.requires_grad
        super().take(step)
        self.leads_to_x |= new_leaf


RUN = 'PyTorch runs `{run}` and {said}; you predict "{got}": '
AT_BACKWARD = "a write in place raises only if backward later needs the tensor as it was."
MISTAKES = [
    Mistake("every-inplace-raises", EveryInplaceRaises(), RUN + AT_BACKWARD, SECTION),
    Mistake("inplace-raises-at-once", InplaceRaisesAtOnce(), RUN + "PyTorch compares versions in backward, not at the "
            "write.", SECTION),
    Mistake("inplace-never-raises", InplaceNeverRaises(), RUN + "`exp` and `relu_` save their result for backward, "
            "and it was changed.", SECTION),
    Mistake("leaf-may-be-changed", InplaceOnLeafIsFine(), RUN + "a leaf that requires grad refuses writes that are "
            "recorded.", SECTION),
    Mistake("leaf-may-be-changed", LeafIsLikeAnyOther(), RUN + "a leaf that requires grad refuses writes that are "
            "recorded.", SECTION),
    Mistake("no-grad-protects", NoGradProtects(), RUN + "a write under `no_grad` changes the saved tensor like any "
            "other.", SECTION),
    Mistake("no-grad-detaches", NoGradDetaches(), RUN + "under `no_grad` the write is not recorded, and y keeps its "
            "graph.", SECTION),
    Mistake("leaf-never-changes", LeafIsSacred(), RUN + "under `no_grad` a leaf may be written to, as optimizers "
            "do.", SECTION),
    Mistake("every-second-backward-raises", EverySecondBackwardRaises(), RUN + "the second backward raises only where "
            "the first has freed something.", SECTION),
    Mistake("second-backward-is-fine", SecondBackwardIsFine(), RUN + "the first backward freed what the nodes had "
            "saved.", SECTION),
    Mistake("new-step-new-graph", NewStepNewGraph(), RUN + "a new step lengthens the old graph, a part of which was "
            "freed.", SECTION),
    Mistake("last-operation-only", LastOperationOnly(), RUN + "every operation on the way has saved what it needs, not "
            "just the last one.", SECTION),
    Mistake("saved-for-good", SavedForGood(), RUN + "what was saved is the result of `exp`; y is another tensor by "
            "then, and only y was written into.", SECTION),
    Mistake("retain-repairs", RetainRepairs(), RUN + "`retain_graph` keeps what is still there; it brings nothing "
            "back.", SECTION),
    Mistake("retain-frees", RetainFrees(), RUN + "`retain_graph=True` keeps what the nodes saved, for another "
            "backward.", SECTION),
    Mistake("detach-raises", DetachRaises(), RUN + "detaching is allowed anywhere; only a backward that starts from "
            "it has nowhere to go.", SECTION),
    Mistake("detached-backward-is-none", DetachedBackwardIsNone(), RUN + "backward from a tensor that does not "
            "require grad raises.", SECTION),
    Mistake("detach-does-nothing", DetachIsNothing(), RUN + "a detached tensor has no graph.", SECTION),
    Mistake("new-leaf-reaches-x", NewLeafReachesX(), RUN + "`requires_grad_` makes a new leaf, and the gradient stops "
            "there.", SECTION),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    names = [*STEPS, "exp", "add", "backward", "backward", "retain"]
    new_leaf, saves, write = ("detach", "requires_grad_"), draw.pick(["exp", "square"]), draw.pick(["add_", "relu_"])
    return [
        *(listed(f"drawn {n}", *(draw.pick(names) for _ in range(draw.size(2, 6)))) for n in range(40)),
        listed("backward before and after a new leaf", saves, "backward", *new_leaf, "backward"),
        listed("overwritten before a new leaf", "exp", write, *new_leaf, "backward"),
        listed("overwritten twice", "exp", write, "add_", "backward"),
        listed("the new leaf changed without grad", "exp", *new_leaf, "no_grad_add_", "backward"),
    ]


# Right answers unlike the reference


def by_nodes(steps: list[str]) -> str:
    """Keeps the nodes themselves: what each has saved, in which version, and whether it was freed."""
    version = {"x": 0}
    nodes: list[tuple[tuple[str, int] | None, bool]] = []
    y, tracked, root, count, gradient = "x", True, True, 0, False
    for step in steps:
        if step == "detach":
            nodes, tracked, root = [], False, False
        elif step == "requires_grad_":
            tracked = True
        elif step in ("backward", "retain"):
            stale = any(saved and (freed or version[saved[0]] != saved[1]) for saved, freed in nodes)
            if not tracked or stale:
                return "raises"
            gradient |= root
            nodes = [(saved, freed or step == "backward") for saved, freed in nodes]
        elif step.endswith("_"):
            if tracked and not nodes and step != "no_grad_add_":
                return "raises"
            version[y] += 1
            if tracked and step != "no_grad_add_":
                nodes.append(((y, version[y]) if step == "relu_" else None, False))
        else:
            before, y, count = y, f"t{count}", count + 1
            version[y] = 0
            if tracked:
                nodes.append(({"exp": (y, 0), "square": (before, version[before])}.get(step), False))
    return "gradient" if gradient else "none"


def from_the_end(steps: list[str]) -> str:
    """Asks each backward by itself whether it can run, looking back over the steps before it."""
    for place, step in enumerate(steps):
        start = max((n for n in range(place) if steps[n] == "detach"), default=-1)
        first = min((n for n in range(start + 1, place) if steps[n] == "requires_grad_"), default=None)
        begin = 0 if start < 0 else first
        tracked = begin is not None
        since = [s for s in steps[begin or 0 : place] if s != "requires_grad_"] if tracked else []
        if step in ("relu_", "add_") and tracked and not {"exp", "square", "add"} & {*since}:
            return "raises"
        if step in ("backward", "retain") and (not tracked or _broken(since)):
            return "raises"
    reached = steps[: steps.index("detach")] if "detach" in steps else steps
    return "gradient" if {"backward", "retain"} & {*reached} else "none"


def _broken(since: list[str]) -> bool:
    saved_last = False
    for step in since:
        if step in ("relu_", "add_", "no_grad_add_") and saved_last:
            return True
        if step in ("exp", "relu_"):
            saved_last = True
        elif step in ("square", "add", "add_", "no_grad_add_"):
            saved_last = False
    ran = [n for n, step in enumerate(since) if step == "backward"]
    return any({"exp", "square", "relu_"} & {*since[:n]} for n in ran)


RIGHT_ANSWERS: list[Callable[..., Any]] = [by_nodes, from_the_end]
