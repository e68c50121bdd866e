"""The exercise `check_batch`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograde.hidden.common import override
from autograde.hidden.debugging.shared import (
    LOST_MODE,
    ONE_MODE,
    RAN,
    Modes,
    judged,
    no_eval,
    remembers_one,
    restores_nothing,
    restores_one,
    restores_training,
    train_mode,
)
from autograde.source.mistakes import Mistake
from torchcourse.exercises.debugging.check_batch import batches, with_entry
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "Seven independent questions, so that one fault hides no other, in a dict that reads as the list of them does. "
    "`not (...).all()` counts a NaN as out of range. Only the run can raise, and it is the only thing inside the "
    "`try`; what the run could change is put back around it."
)
"""Why the reference is written as it is."""
REQUIRED = ("runs-in-train-mode", "stops-at-first-fault", "misses-label-range", "raises-instead-of-reporting")
"""The mistakes that a check must always be able to name."""

DOOR = "The batch at the door"
TRACES = "Modes, and how to leave no trace"


class CheckBatch(Modes):
    """A right program; a mistake overrides one of its methods."""

    def __call__(self, model: Any, batch: Any, num_classes: int) -> Any:
        x, y = batch
        weight = self.weight(model)
        shape = self.shape(model, x)
        faults = {
            "x-dtype": self.wrong_dtype(x, weight),
            "x-nonfinite": self.nonfinite(x),
            "y-dtype": self.wrong_labels(y),
            "y-range": self.out_of_range(y, num_classes),
            "y-shape": self.wrong_length(x, y),
            "device": self.elsewhere(x, y, weight),
            "output-shape": self.wrong_output(shape, len(x), num_classes),
        }
        return self.returned([name for name, present in faults.items() if present])

    def weight(self, model: Any) -> Any:
        return next(p for p in model.parameters() if p.is_floating_point())

    def shape(self, model: Any, x: Tensor) -> Any:
        modes, state = self.before(model), torch.get_rng_state()
        try:
            with torch.no_grad():
                return model(x).shape
        except Exception as error:
            return self.failed(error)
        finally:
            self.after(model, modes)
            self.random(state)

    def failed(self, _error: Exception) -> Any:
        return None

    def random(self, state: Tensor) -> None:
        torch.set_rng_state(state)

    def wrong_dtype(self, x: Tensor, weight: Tensor) -> bool:
        return x.dtype != weight.dtype

    def nonfinite(self, x: Tensor) -> bool:
        return not x.isfinite().all()

    def wrong_labels(self, y: Tensor) -> bool:
        return y.dtype != torch.int64

    def out_of_range(self, y: Tensor, classes: int) -> bool:
        return not ((y >= 0) & (y < classes)).all()

    def wrong_length(self, x: Tensor, y: Tensor) -> bool:
        return y.shape != (len(x),)

    def elsewhere(self, x: Tensor, y: Tensor, weight: Tensor) -> Any:
        return weight.device != x.device or weight.device != y.device

    def wrong_output(self, shape: Any, n: int, classes: int) -> Any:
        return shape != (n, classes)

    def returned(self, faults: list[str]) -> Any:
        return sorted(faults)


class NotIfItRaises(CheckBatch):
    """Puts back what it changed only after a run that went well."""

    def shape(self, model: Any, x: Tensor) -> Any:
        modes, state = self.before(model), torch.get_rng_state()
        try:
            with torch.no_grad():
                shape = model(x).shape
            self.after(model, modes)
            self.random(state)
        except Exception:
            return None
        return shape


def checking(**methods: Any) -> Callable[..., Any]:
    """Return the right program with these methods in place of its own."""
    program: Callable[..., Any] = override(CheckBatch, **methods)()
    return program


def again(_self: Any, error: Exception) -> None:
    raise error


def compares_with_the_loss(model: Any, batch: Any, num_classes: int) -> list[str]:
    x, y = batch
    with judged(model), torch.no_grad():
        torch.nn.functional.cross_entropy(model(x), y)
    return checking()(model, batch, num_classes)  # type: ignore[no-any-return]


def skips_the_run_of_a_faulty_x(model: Any, batch: Any, num_classes: int) -> list[str]:
    faults: list[str] = checking()(model, batch, num_classes)
    faulty = any(name.startswith("x-") for name in faults)
    return [name for name in faults if not (faulty and name == "output-shape")]


def again_but(*known: type[Exception]) -> Callable[..., None]:
    """Return a method that handles these exceptions alone."""

    def failed(_self: Any, error: Exception) -> None:
        if not isinstance(error, known):
            raise error

    return failed


class TakesATensorForGranted(CheckBatch):
    """Asks for the shape of the output after the `try`."""

    def shape(self, model: Any, x: Tensor) -> Any:
        modes, state = self.before(model), torch.get_rng_state()
        try:
            with torch.no_grad():
                output = model(x)
        except Exception:
            return None
        finally:
            self.after(model, modes)
            self.random(state)
        return output.shape


def by_the_smallest_and_largest(_self: Any, y: Tensor, classes: int) -> bool:
    return not (y.min() >= 0 and y.max() < classes)


def all_but_minus_100(_self: Any, y: Tensor, classes: int) -> bool:
    return not ((y == -100) | (y >= 0) & (y < classes)).all()


def range_of_int64_alone(_self: Any, y: Tensor, classes: int) -> bool:
    return y.dtype == torch.int64 and not ((y >= 0) & (y < classes)).all()


MISSED = 'In the case "{case}" `{missed}` was not reported: '
INVENTED = 'In the case "{case}" `{invented}` was reported, but it is not a fault of this batch: '
RAISED = (
    'In the case "{case}" the call raised {error}: this function is made for faulty batches, so it should report '
    "what is wrong and never raise."
)
MISTAKES = [
    Mistake("runs-in-train-mode", checking(before=no_eval), RAN, TRACES),
    Mistake("runs-in-train-mode", checking(before=train_mode), RAN, TRACES),
    Mistake("stops-at-first-fault", checking(returned=lambda self, faults: sorted(faults)[:1]), MISSED + "the batch "
            "has several faults, and each has to be reported.", DOOR),
    Mistake("stops-at-first-fault", checking(returned=lambda self, faults: faults[:1]), MISSED + "the batch has "
            "several faults, and each has to be reported.", DOOR),
    Mistake("stops-at-first-fault", skips_the_run_of_a_faulty_x, MISSED + "the output has to be judged even when x "
            "is faulty.",
            DOOR),
    Mistake("misses-label-range", checking(out_of_range=lambda self, y, c: bool((y >= c).any())), MISSED + "a label "
            "below 0 is out of range too.", DOOR),
    Mistake("misses-label-range", checking(out_of_range=lambda self, y, c: bool((y < 0).any())), MISSED + "the largest "
            "label is `num_classes - 1`.", DOOR),
    Mistake("misses-label-range", checking(out_of_range=lambda self, y, c: not ((y >= 0) & (y <= c)).all()), MISSED
            + "labels count from 0, so `num_classes` itself is not a label.", DOOR),
    Mistake("misses-label-range", checking(out_of_range=lambda self, y, c: False), MISSED + "labels have to lie in "
            "[0, num_classes).", DOOR),
    Mistake("misses-label-range", checking(out_of_range=range_of_int64_alone), MISSED + "the range has to be judged "
            "whatever the dtype of the labels.", DOOR),
    Mistake("misses-nan-labels", checking(out_of_range=lambda self, y, c: bool(((y < 0) | (y >= c)).any())), MISSED
            + "`<` and `>=` are always False for NaN, so no label seemed to be outside. Ask whether all are inside.",
            DOOR),
    Mistake("lets-minus-100-pass", checking(out_of_range=all_but_minus_100), MISSED + "`F.cross_entropy` leaves out "
            "labels of -100 where that is meant; here every label has to lie in [0, num_classes).", DOOR),
    Mistake("raises-instead-of-reporting", checking(failed=again), RAISED, DOOR),
    Mistake("catches-runtime-errors-alone", checking(failed=again_but(RuntimeError)), RAISED + " A model may raise "
            "any exception, not only a RuntimeError.", DOOR),
    Mistake("catches-some-exceptions-only", checking(failed=again_but(RuntimeError, ValueError)), RAISED + " A model "
            "may raise any exception: an embedding raises this one, where an index is too large.", DOOR),
    Mistake("output-taken-for-a-tensor", TakesATensorForGranted(), RAISED + " A model may put out a tuple or a dict, "
            "and that is not an output of shape (n, num_classes) either.", DOOR),
    Mistake("smallest-and-largest-label", checking(out_of_range=by_the_smallest_and_largest), RAISED + " Without "
            "labels there is neither a smallest nor a largest one; `all()` of no answers is True.", DOOR),
    Mistake("raises-instead-of-reporting", compares_with_the_loss, RAISED, DOOR),
    Mistake("leaves-eval-mode", checking(after=restores_nothing), LOST_MODE, TRACES),
    Mistake("leaves-train-mode", checking(after=restores_training), LOST_MODE, TRACES),
    Mistake("restores-one-mode", checking(before=remembers_one, after=restores_one), ONE_MODE, TRACES),
    Mistake("restores-one-mode", override(NotIfItRaises, before=remembers_one, after=restores_one)(), ONE_MODE, TRACES),
    Mistake("leaves-eval-mode-when-it-raises", NotIfItRaises(), 'In the case "{case}" a run raised, and afterwards '
            "some modules were no longer in their old mode ({modes}): what has to be put back in any case belongs in "
            "a `finally`.",
            TRACES),
    Mistake("uses-up-random-numbers", checking(random=lambda self, state: None), 'In the case "{case}" the {what} is '
            "{got}, and should be {want}: the model draws, so training that goes on afterwards gets other numbers "
            "than without this check. `torch.random.fork_rng()` puts the state back.", TRACES),
    Mistake("misses-infinity", checking(nonfinite=lambda self, x: bool(x.isnan().any())), MISSED + "`isnan` is False "
            "for infinity; `isfinite` asks for both.", DOOR),
    Mistake("first-parameter-whatever-its-dtype", checking(weight=lambda self, model: next(model.parameters())),
            INVENTED + "the dtype to compare with is that of the first floating parameter.", DOOR),
    Mistake("dtype-of-the-last-parameter", checking(weight=lambda self, model: list(model.parameters())[-1]),
            INVENTED + "the dtype to compare with is that of the first floating parameter, not of the last.", DOOR),
    Mistake("takes-float32-for-granted", checking(wrong_dtype=lambda self, x, w: x.dtype != torch.float32), "In the "
            'case "{case}" `{what}` is {got}, and should be {want}: a model may have a dtype other than float32.',
            DOOR),
    Mistake("accepts-any-integer", checking(wrong_labels=lambda self, y: y.is_floating_point()), MISSED + "labels "
            "have to be int64; most other integers raise an error in the loss.", DOOR),
    Mistake("compares-lengths-only", checking(wrong_length=lambda self, x, y: len(y) != len(x)), MISSED + "a column "
            "of labels has the right length, but the wrong shape.", DOOR),
    Mistake("misses-labels-left-behind", checking(elsewhere=lambda self, x, y, w: x.device != w.device), MISSED
            + "the labels have to be on the model's device as well.", DOOR),
    Mistake("misses-the-device", checking(elsewhere=lambda self, x, y, w: x.device != y.device), MISSED + "x and y "
            "have to be where the model is.", DOOR),
    Mistake("misses-output-width", checking(wrong_output=lambda self, shape, n, c: shape is None), MISSED + "the "
            "model ran, but the shape of its output is not (n, num_classes).", DOOR),
    Mistake("not-sorted", checking(returned=lambda self, faults: faults), 'In the case "{case}" the list is not '
            "sorted, or has a name twice: a list in a fixed order can be compared.", DOOR),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    n = draw.size(3, 9)

    def batch(**changes: Any) -> dict[str, Any]:
        return batches(draw, n) | changes

    good, tolerant = batch(), ["casts", "random dropout"]
    spoilt = with_entry(good["y"].double(), 1, torch.nan)
    return [
        case("labels as doubles, one NaN", **good | {"y": spoilt}),
        case("one-hot labels", **good | {"y": torch.nn.functional.one_hot(good["y"], good["classes"]).float()}),
        case("half precision x, NaN in it", **good | {"x": with_entry(good["x"], 0, torch.nan).half(),
             "options": tolerant}),
        case("labels of int16", **good | {"y": good["y"].short()}),
        case("a head of another dtype, x of the head's", **good | {"x": good["x"].double(),
             "options": [*tolerant, "a double head"]}),
        case("a batch of one", **batches(draw, 1)),
        case("strided x", **good | {"x": good["x"].repeat(1, 2)[:, ::2].contiguous().T.contiguous().T}),
        case("two classes, all labels wrong", **good | {"y": good["y"] + 100}),
        case("an output too few, unfrozen", **batch(starts="training") | {"sizes": [*good["sizes"][:2], 1],
             "x": good["x"], "classes": good["classes"]}),
    ]  # fmt: skip


# Right answers unlike the reference


def check_a_copy(model: Any, batch: Any, num_classes: int) -> list[str]:
    x, y = batch
    found = []
    home = next(p for p in model.parameters() if p.dtype.is_floating_point)
    if x.dtype is not home.dtype:
        found.append("x-dtype")
    if torch.isnan(x).any() or torch.isinf(x).any():
        found.append("x-nonfinite")
    if y.dtype is not torch.long:
        found.append("y-dtype")
    if any(not 0 <= label < num_classes for label in y.flatten().tolist()):
        found.append("y-range")
    if tuple(y.shape) != (x.shape[0],):
        found.append("y-shape")
    if {x.device, y.device} != {home.device}:
        found.append("device")
    state = torch.get_rng_state()
    try:
        with torch.no_grad():
            if tuple(copy.deepcopy(model).eval()(x).size()) != (x.size(0), num_classes):
                found.append("output-shape")
    except Exception:
        found.append("output-shape")
    torch.set_rng_state(state)
    return sorted(found)


def check_by_questions(model: Any, batch: Any, num_classes: int) -> list[str]:
    x, y = batch
    like = next(filter(torch.is_floating_point, model.parameters()))

    def output_is_wrong() -> bool:
        with judged(model), torch.random.fork_rng(), torch.no_grad():
            return list(model(x).shape) != [len(x), num_classes]

    questions: dict[str, Callable[[], Any]] = {
        "device": lambda: x.device != like.device or y.device != like.device,
        "output-shape": output_is_wrong,
        "x-dtype": lambda: x.dtype != like.dtype,
        "x-nonfinite": lambda: (~torch.isfinite(x)).any(),
        "y-dtype": lambda: y.dtype != torch.int64,
        "y-range": lambda: (~((y >= 0) & (y <= num_classes - 1))).any(),
        "y-shape": lambda: y.ndim != 1 or len(y) != len(x),
    }
    faults = []
    for name in questions:
        try:
            if questions[name]():
                faults.append(name)
        except Exception:
            faults.append(name)
    return faults


RIGHT_ANSWERS: list[Callable[..., Any]] = [check_a_copy, check_by_questions]
