"""The exercise `swap_head`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "The old head knows everything that the new one needs: width, device, dtype. The layer is replaced as a whole, so "
    "that its shapes and `out_features` agree, and its parameters are new objects. An optimizer that was "
    "made before still holds the old ones: that is what the returned names are for."
)
"""Why the reference is written as it is."""
REQUIRED = ("made-on-cpu", "resets-backbone", "wrong-dtype")
"""The mistakes that a check must always be able to name."""

NAMES = ["head.bias", "head.weight"]


def right(model: Any, num_classes: int) -> Any:
    old = model.head.weight
    model.head = nn.Linear(old.shape[1], num_classes, device=old.device, dtype=old.dtype)
    return ["head.bias", "head.weight"]


def made_on_cpu(model: Any, num_classes: int) -> Any:
    model.head = nn.Linear(model.head.in_features, num_classes, dtype=model.head.weight.dtype)
    return ["head.bias", "head.weight"]


def made_on_cpu_in_float32(model: Any, num_classes: int) -> Any:
    model.head = nn.Linear(model.head.in_features, num_classes)
    return ["head.bias", "head.weight"]


def in_float32(model: Any, num_classes: int) -> Any:
    model.head = nn.Linear(model.head.in_features, num_classes).to(model.head.weight.device)
    return ["head.bias", "head.weight"]


def resets_backbone(model: Any, num_classes: int) -> Any:
    named = right(model, num_classes)
    for module in model.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
    return named


def unfreezes(model: Any, num_classes: int) -> Any:
    named = right(model, num_classes)
    model.requires_grad_(True)
    return named


def freezes(model: Any, num_classes: int) -> Any:
    model.requires_grad_(False)
    return right(model, num_classes)


def freezes_the_head_too(model: Any, num_classes: int) -> Any:
    named = right(model, num_classes)
    model.requires_grad_(False)
    return named


def copies_the_flags(model: Any, num_classes: int) -> Any:
    old = model.head
    named = right(model, num_classes)
    for new, before in zip(model.head.parameters(), old.parameters(), strict=True):
        new.requires_grad_(before.requires_grad)
    return named


def casts_the_model(model: Any, num_classes: int) -> Any:
    model.head = nn.Linear(model.head.in_features, num_classes).to(model.head.weight.device)
    model.float()
    return ["head.bias", "head.weight"]


def changes_out_features(model: Any, num_classes: int) -> Any:
    model.head.out_features = num_classes
    return ["head.bias", "head.weight"]


def refills_the_old_head(model: Any, num_classes: int) -> Any:
    old, head = model.head, model.head.weight
    for name, shape in (("weight", (num_classes, head.shape[1])), ("bias", (num_classes,))):
        setattr(old, name, nn.Parameter(0.02 * torch.randn(shape).to(head)))
    old.out_features = num_classes
    return ["head.bias", "head.weight"]


def keeps_an_equal_head(model: Any, num_classes: int) -> Any:
    return ["head.bias", "head.weight"] if model.head.out_features == num_classes else right(model, num_classes)


def keeps_old_rows(model: Any, num_classes: int) -> Any:
    old = model.head
    named = right(model, num_classes)
    with torch.no_grad():
        rows = min(num_classes, len(old.weight))
        model.head.weight[:rows] = old.weight[:rows]
    return named


def without_numbers(model: Any, num_classes: int) -> Any:
    old = model.head.weight
    place = {"device": old.device, "dtype": old.dtype}
    model.head = nn.utils.skip_init(nn.Linear, old.shape[1], num_classes, **place)  # type: ignore[no-untyped-call]
    return ["head.bias", "head.weight"]


def filled_with_nan(model: Any, num_classes: int) -> Any:
    named = right(model, num_classes)
    nn.init.constant_(model.head.weight, torch.nan)
    return named


def without_bias(model: Any, num_classes: int) -> Any:
    old = model.head.weight
    model.head = nn.Linear(old.shape[1], num_classes, bias=False, device=old.device, dtype=old.dtype)
    return ["head.weight"]


def on_top(model: Any, num_classes: int) -> Any:
    old = model.head
    new = nn.Linear(old.out_features, num_classes, device=old.weight.device, dtype=old.weight.dtype)
    model.head = nn.Sequential(old, new)
    return ["head.1.bias", "head.1.weight"]


def unsorted(model: Any, num_classes: int) -> Any:
    return right(model, num_classes)[::-1]


def short_names(model: Any, num_classes: int) -> Any:
    right(model, num_classes)
    return ["bias", "weight"]


def all_names_with_head(model: Any, num_classes: int) -> Any:
    right(model, num_classes)
    return sorted(name for name, _ in model.named_parameters() if "head" in name)


def all_names_that_begin_so(model: Any, num_classes: int) -> Any:
    right(model, num_classes)
    return sorted(name for name, _ in model.named_parameters() if name.startswith("head"))


def all_names(model: Any, num_classes: int) -> Any:
    right(model, num_classes)
    return sorted(name for name, _ in model.named_parameters())


def returns_the_model(model: Any, num_classes: int) -> Any:
    right(model, num_classes)
    return model


def swaps_a_copy(model: Any, num_classes: int) -> Any:
    return right(copy.deepcopy(model), num_classes)


HEAD = "A new head"
IS = 'In the case "{case}" the {what} is {got} where {want} is wanted: '
LEARNS = 'In the case "{case}" `requires_grad` of the new head is {got} where {want} is wanted: '
REST = 'In the case "{case}" the rest of the model {rest}: '
NAMED = "The call gave {named} where {want_named} is wanted: "
MISTAKES = [
    Mistake("made-on-cpu", made_on_cpu, "On the second device the new head is on {where}: a new layer is made on the "
            "CPU unless it is told where the old one was.", HEAD),
    Mistake("wrong-dtype", in_float32, 'In the case "{case}" the head is in {dtype_of} and the model in '
            "{want_dtype_of}: a new layer is made in float32 unless it is told otherwise.", HEAD),
    Mistake("wrong-dtype", made_on_cpu_in_float32, 'In the case "{case}" the head is in {dtype_of} and the model in '
            "{want_dtype_of}: say device and dtype of the old head when you make the new one.", HEAD),
    Mistake("casts-the-model", casts_the_model, REST + "to fit the head, the whole model was cast.", HEAD),
    Mistake("resets-backbone", resets_backbone, REST + "what it had learned is gone. Only the head is new.", HEAD),
    Mistake("unfreezes-backbone", unfreezes, REST + "what was frozen has to stay so.", HEAD),
    Mistake("freezes-backbone", freezes, REST + "which parts learn is not for this function to decide.", HEAD),
    Mistake("freezes-the-head", freezes_the_head_too, LEARNS + "it was frozen with the rest, and nothing can learn.",
            HEAD),
    Mistake("copies-the-flags", copies_the_flags, LEARNS + "the old head was frozen, and the new one took that over. "
            "It has learned nothing yet, so it has to learn.", HEAD),
    Mistake("changes-a-number-only", changes_out_features, IS + "`out_features` only notes the size. The weight keeps "
            "its shape when the note is changed.", HEAD),
    Mistake("refills-the-old-head", refills_the_old_head, IS + "the old layer was given new parameters; replace it "
            "as a whole.", HEAD),
    Mistake("keeps-equal-head", keeps_an_equal_head, IS + "as many classes are not the same classes, so the head has "
            "to be replaced all the same.", HEAD),
    Mistake("keeps-old-rows", keeps_old_rows, 'In the case "{case}" the new head has {got} in its first rows: class 0 '
            "of one task has nothing to do with class 0 of another.", HEAD),
    *(Mistake("head-without-numbers", program, 'In the case "{case}" the {what} are {got}: memory that nobody filled '
              "may hold anything.", HEAD) for program in (without_numbers, filled_with_nan)),
    Mistake("without-bias", without_bias, NAMED + "the new head has no bias.", HEAD),
    Mistake("head-on-head", on_top, 'In the case "{case}" the returned names are {got} where {want} are wanted: the '
            'new layer was put behind the old one instead of in its place.', HEAD),
    Mistake("names-unsorted", unsorted, "The names are not in sorted order; {want_named} is wanted.", HEAD),
    Mistake("names-without-path", short_names, NAMED + "the names are those in `named_parameters()` of the model, with "
            "the name of the attribute in front.", HEAD),
    Mistake("names-by-a-word", all_names_with_head, NAMED + "other layers may have `head` in their names.", HEAD),
    Mistake("names-by-a-word", all_names_that_begin_so, NAMED + "the name of another layer may begin with "
            "`head`.", HEAD),
    Mistake("names-everything", all_names, NAMED + "only the new parameters are asked for.", HEAD),
    Mistake("returns-the-model", returns_the_model, NAMED + "the model is changed in place, and the names come "
            "back.", HEAD),
    Mistake("swaps-a-copy", swaps_a_copy, 'In the case "{case}" the head of the model is {got}: a copy of the model '
            "got the new one.", HEAD),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    x = torch.ones(1)
    return [
        case("one class", kind_of="tower", width=draw.size(7, 9), classes=1, dtype="bfloat16", x=x),
        case("a hundred classes", kind_of="frozen", width=draw.size(2, 9), classes=100, dtype="float64", x=x),
    ]


# Right answers unlike the reference


def by_names_before_and_after(model: nn.Module, num_classes: int) -> list[str]:
    before = dict(model.named_parameters())
    old: Any = model.get_submodule("head")
    model.add_module("head", nn.Linear(old.in_features, num_classes).to(old.weight))
    now = dict(model.named_parameters())
    return sorted(name for name in now if name not in before or now[name] is not before[name])


def by_a_copy_of_the_head(model: Any, num_classes: int) -> list[str]:
    head = copy.deepcopy(model.head)
    head.out_features = num_classes
    head.weight = nn.Parameter(head.weight.new_empty(num_classes, head.in_features))
    head.bias = nn.Parameter(head.bias.new_empty(num_classes))
    head.reset_parameters()
    model.head = head
    return [f"head.{name}" for name in sorted(dict(head.named_parameters()))]


RIGHT_ANSWERS: list[Callable[..., Any]] = [by_names_before_and_after, by_a_copy_of_the_head]
