"""The exercise `capture`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from autograde.hidden.common import one
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "A hook sees a module's output without any change to the model. The copy matters: a later in-place ReLU "
    "would write into what was kept. The handles are removed in `finally`, so that nothing stays behind even if"
    " the model raises."
)
"""Why the reference is written as it is."""
REQUIRED = ("leaves-hooks", "keeps-graph", "unknown-name-ignored")
"""The mistakes that a check must always be able to name."""

CALLS = "Calling a module, and hooks"
Modules = dict[str, nn.Module]
Keep = Callable[[Tensor], Tensor]


def copied(output: Tensor) -> Tensor:
    return output.detach().clone()


def through_a_list(output: Tensor) -> Tensor:
    return torch.tensor(output.tolist())


def checked(model: nn.Module, names: list[str]) -> Modules:
    modules = dict(model.named_modules())
    for name in names:
        if name not in modules:
            raise ValueError(f"names holds {name!r}, which is not a submodule")
    return modules


def attach(modules: Modules, names: list[str], found: dict[str, Tensor], keep: Keep = copied) -> list[Any]:
    """Attach a hook to each module named, which leaves what it puts out in `found`."""

    def saving(name: str) -> Callable[..., None]:
        def hook(_module: nn.Module, _inputs: Any, output: Tensor) -> None:
            found[name] = keep(output)

        return hook

    return [modules[name].register_forward_hook(saving(name)) for name in names]


@contextmanager
def hooked(modules: Modules, names: list[str], found: dict[str, Tensor], keep: Keep = copied) -> Iterator[None]:
    handles = attach(modules, names, found, keep)
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def capture(model: nn.Module, names: list[str], x: Tensor, keep: Keep = copied) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    with hooked(checked(model, names), names, found, keep):
        model(x)
    return found


def run_for_each_name(model: nn.Module, names: list[str], x: Tensor) -> dict[str, Tensor]:
    checked(model, names)
    return {name: capture(model, [name], x)[name] for name in names}


def never_removed(model: nn.Module, names: list[str], x: Tensor) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    attach(checked(model, names), names, found)
    model(x)
    return found


def removed_unless_it_raises(model: nn.Module, names: list[str], x: Tensor) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    handles = attach(checked(model, names), names, found)
    model(x)
    for handle in handles:
        handle.remove()
    return found


def unknown_left_out(model: nn.Module, names: list[str], x: Tensor) -> dict[str, Tensor]:
    return capture(model, [name for name in names if name in dict(model.named_modules())], x)


def looked_up_in_the_loop(
    lookup: Callable[[nn.Module, str], nn.Module],
) -> Callable[[nn.Module, list[str], Tensor], dict[str, Tensor]]:
    """Return a program that asks for each module as it comes to it, when other hooks are attached already."""

    def capture(model: nn.Module, names: list[str], x: Tensor) -> dict[str, Tensor]:
        found: dict[str, Tensor] = {}
        handles = [h for name in names for h in attach({name: lookup(model, name)}, [name], found)]
        try:
            model(x)
        finally:
            for handle in handles:
                handle.remove()
        return found

    return capture


def all_under_one_name(model: nn.Module, names: list[str], x: Tensor) -> dict[str, Tensor]:
    modules, found, handles = checked(model, names), dict[str, Tensor](), []
    for name in names:

        def hook(_module: nn.Module, _inputs: Any, output: Tensor) -> None:
            found[name] = output.detach().clone()  # noqa: B023 -- the mistake

        handles.append(modules[name].register_forward_hook(hook))
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return found


def captures_inputs(model: nn.Module, names: list[str], x: Tensor) -> dict[str, Tensor]:
    modules, found, handles = checked(model, names), dict[str, Tensor](), []
    for name in names:

        def hook(_module: nn.Module, inputs: Any, _output: Tensor, name: str = name) -> None:
            found[name] = inputs[0].detach().clone()

        handles.append(modules[name].register_forward_hook(hook))
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return found


def called_with(call: Callable[[nn.Module, Tensor], Any]) -> Callable[..., dict[str, Tensor]]:
    """Return a program that runs the model in another way than `model(x)`, once."""

    def capture(model: nn.Module, names: list[str], x: Tensor) -> dict[str, Tensor]:
        found: dict[str, Tensor] = {}
        with hooked(checked(model, names), names, found):
            call(model, x)
        return found

    return capture


def never_run(model: nn.Module, names: list[str], _x: Tensor) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    attach(checked(model, names), names, found)
    return found


def clears_all_hooks(model: nn.Module, names: list[str], x: Tensor) -> dict[str, Tensor]:
    found = capture(model, names, x)
    for module in model.modules():
        module._forward_hooks.clear()
    return found


def clears_the_hooks_of_what_it_asks_for(model: nn.Module, names: list[str], x: Tensor) -> dict[str, Tensor]:
    found, modules = dict[str, Tensor](), checked(model, names)
    attach(modules, names, found)
    try:
        model(x)
    finally:
        for name in names:
            modules[name]._forward_hooks.clear()
    return found


def in_eval_mode(model: nn.Module, names: list[str], x: Tensor) -> dict[str, Tensor]:
    model.eval()
    return capture(model, names, x)


def by_the_beginning(model: nn.Module, names: list[str], x: Tensor) -> dict[str, Tensor]:
    modules = {m: module for m, module in model.named_modules() if any(map(m.startswith, names))}
    for name in names:
        if not any(m.startswith(name) for m in modules):
            raise ValueError(f"names holds {name!r}, which is not a submodule")
    found: dict[str, Tensor] = {}
    with hooked(modules, list(modules), found):
        model(x)
    return found


def the_last_that_begins_so(model: nn.Module, names: list[str], x: Tensor) -> dict[str, Tensor]:
    modules: Modules = {}
    for name in names:
        for m, module in model.named_modules():
            if m.startswith(name):
                modules[name] = module
        if name not in modules:
            raise ValueError(f"names holds {name!r}, which is not a submodule")
    found: dict[str, Tensor] = {}
    with hooked(modules, names, found):
        model(x)
    return found


def by_attribute(model: nn.Module, name: str) -> Any:
    return getattr(model, name)


def by_key(model: nn.Module, name: str) -> Any:
    return dict(model.named_modules())[name]


def looked_up_at_once(
    lookup: Callable[[nn.Module, str], nn.Module],
) -> Callable[[nn.Module, list[str], Tensor], dict[str, Tensor]]:
    """Return a program that asks for all modules before it attaches the first hook, and lets exceptions through."""

    def capture(model: nn.Module, names: list[str], x: Tensor) -> dict[str, Tensor]:
        found: dict[str, Tensor] = {}
        with hooked({name: lookup(model, name) for name in names}, names, found):
            model(x)
        return found

    return capture


LEFT_BEHIND = (
    'In the case "{case}" the number of hooks left behind is {left}: each would run in every later call. Call '
    "`remove()` on every handle, in a `finally`."
)
IGNORED = (
    "For an unknown name the outcome was {refused}, where a ValueError is wanted: a typo would only show much later, "
    "as a missing result."
)
OTHER = (
    "For an unknown name the outcome was {refused}, where a ValueError is wanted that says which name it is. Compare "
    "the names with those in `named_modules()` before the first hook is attached."
)
MISTAKES = [
    Mistake("leaves-hooks", never_removed, LEFT_BEHIND, CALLS),
    Mistake("leaves-hooks", removed_unless_it_raises, LEFT_BEHIND, CALLS),
    one("keeps-graph", capture, "What was captured still belongs to the graph: {graph}. Kept that way, it keeps the "
        "whole graph in memory.", CALLS, keep=torch.clone),
    one("changes-later", capture, "In the case \"{case}\" the {what} is {got} and should be {want}: a later in-place "
        "operation wrote into what was captured, so it has to be a copy.", CALLS, keep=torch.detach),
    one("dtype-not-kept", capture, "In the case \"{case}\" the {what} is {got_dtype} and should be {want_dtype}: a "
        "list of numbers knows no dtype, whereas `clone()` keeps it.", CALLS, keep=through_a_list),
    Mistake("unknown-name-ignored", unknown_left_out, IGNORED, CALLS),
    *(Mistake("other-exception", program, OTHER, CALLS) for program in (
        looked_up_in_the_loop(by_key), looked_up_in_the_loop(by_attribute), looked_up_at_once(by_key),
        looked_up_at_once(nn.Module.get_submodule),
    )),
    Mistake("checks-names-too-late", looked_up_in_the_loop(lambda model, name: checked(model, [name])[name]), "In the "
            "case \"{case}\" the number of hooks left behind is {left}: check the names before the first hook is "
            "attached, or the exception leaves hooks behind.", CALLS),
    Mistake("runs-twice", called_with(lambda model, x: (model(x), model(x))), "In the case \"{case}\" model(x) ran "
            "{runs} times, where once is wanted.", CALLS),
    Mistake("runs-for-each-name", run_for_each_name, "In the case \"{case}\" model(x) ran {runs} times, where once is "
            "wanted: attach all hooks, then run it.", CALLS),
    Mistake("calls-forward", called_with(lambda model, x: model.forward(x)), "In the case \"{case}\" model(x) ran "
            "{runs} times: `model.forward(x)` bypasses the model's own hooks.", CALLS),
    Mistake("never-runs-the-model", never_run, "In the case \"{case}\" model(x) ran {runs} times: hooks see nothing "
            "unless the model is called.", CALLS),
    Mistake("all-under-one-name", all_under_one_name, "In the case \"{case}\" the {what} came out as {got} where "
            "{want} is wanted: every hook looked up the loop variable only when it ran, and by then it held the last "
            "name.", CALLS),
    Mistake("captures-inputs", captures_inputs, "In the case \"{case}\" the {what} is {got} and should be {want}: "
            "this is the input. A forward hook gets module, inputs and output in this order, and a pre-hook no output.",
            CALLS),
    *(Mistake("removes-others-hooks", program, "In the case \"{case}\" the number of hooks changed by {left}: hooks "
              "that were there before are not this function's to remove.", CALLS)
      for program in (clears_all_hooks, clears_the_hooks_of_what_it_asks_for)),
    Mistake("leaves-eval-mode", in_eval_mode, "In the case \"{case}\" the {what} of the modules were {got} by the "
            "call: `model(x)` should run in the mode that the caller chose.", CALLS),
    *(Mistake("matches-partial-name", program, "In the case \"{case}\" `{what}` came out as {got} where {want} is "
              "wanted: a submodule has to have this very name, not one that only begins with it.", CALLS)
      for program in (by_the_beginning, the_last_that_begins_so)),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    w, n = draw.size(3, 6), draw.size(2, 5)
    rest: dict[str, Any] = {"width": w, "modes": "", "others": []}
    common = {"which": "tower", **rest}
    return [
        case("many layers", names=["head", "encoder.2", "act", "encoder"], x=draw.normal(n, w), refused="", **common),
        case("a name with a part too many", names=["head.weight"], x=draw.normal(n, w), refused="head.weight",
             **common),
        case("the first layer, the second raises", which="breaking", names=["first"], x=draw.normal(n, w),
             refused="", **rest),
    ]  # fmt: skip


# Right answers unlike the reference


def capture_with_a_stack(model: nn.Module, names: list[str], x: Tensor) -> dict[str, Tensor]:
    outputs: dict[str, Tensor] = {}

    @contextmanager
    def listening(name: str) -> Iterator[None]:
        def keep(_m: nn.Module, _i: Any, output: Any) -> None:
            if torch.is_tensor(output):
                outputs[name] = output.clone().detach()

        try:
            module = model.get_submodule(name)
        except AttributeError as error:
            raise ValueError(f"names has {name!r}, and the model has no such submodule") from error
        with module.register_forward_hook(keep):
            yield

    with ExitStack() as stack:
        for name in names:
            stack.enter_context(listening(name))
        model(x)
    return outputs


def capture_with_no_grad(model: nn.Module, names: list[str], x: Tensor) -> dict[str, Tensor]:
    modules = dict(model.named_modules())
    if not set(names) <= modules.keys():
        raise ValueError(f"unknown names: {sorted(set(names) - modules.keys())}")
    by_module = {modules[name]: name for name in names}
    outputs: dict[str, Tensor] = {}
    handles = []
    for module, name in by_module.items():
        handles.append(
            module.register_forward_hook(
                lambda _m, _i, out, name=name: outputs.__setitem__(name, torch.empty_like(out).copy_(out))
            )
        )
    try:
        with torch.no_grad():
            model(x)
    finally:
        [handle.remove() for handle in handles]
    return {name: outputs[name] for name in names}


RIGHT_ANSWERS: list[Callable[..., Any]] = [capture_with_a_stack, capture_with_no_grad]
