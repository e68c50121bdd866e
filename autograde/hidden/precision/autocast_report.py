"""The exercise `autocast_report`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from autograde.source.mistakes import Mistake
from torchcourse.exercises.precision.autocast_report import cases as cases_report
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "Hooks on the leaves see what each module really put out, which no table of operators says as surely. They "
    "are removed in `finally`. `no_grad`, because nobody needs the graph of a report."
)
"""Why the reference is written as it is."""
REQUIRED = ("leaves-hooks", "not-under-autocast")
"""The mistakes that a check must always be able to name."""


class Report:
    """A right report, as an object that is called. Each mistake below is this one with one method written otherwise."""

    def __call__(self, model: nn.Module, x: Tensor, dtype: torch.dtype) -> Any:
        self.found: dict[str, Any] = {}
        handles = self.listen(model)
        try:
            with torch.no_grad(), self.autocast(x.device.type, dtype):
                model(x)
        finally:
            self.remove(handles, model)
        return self.found

    def modules(self, model: nn.Module) -> list[tuple[str, nn.Module]]:
        return [(name, module) for name, module in model.named_modules() if not any(module.children())]

    def listen(self, model: nn.Module) -> list[Any]:
        def hook(name: str) -> Callable[..., None]:
            def note(module: nn.Module, inputs: Any, output: Tensor) -> None:
                self.found[name] = self.noted(module, inputs, output)

            return note

        return [module.register_forward_hook(hook(name)) for name, module in self.modules(model)]

    def noted(self, module: nn.Module, inputs: Any, output: Tensor) -> Any:
        return output.dtype

    def autocast(self, device: str, dtype: torch.dtype) -> Any:
        return torch.autocast(device, dtype=dtype)

    def remove(self, handles: list[Any], model: nn.Module) -> None:
        for handle in handles:
            handle.remove()


class LeavesHooks(Report):
    def remove(self, handles: list[Any], model: nn.Module) -> None:
        pass


class RemovesHooksAtTheEnd(Report):
    def __call__(self, model: nn.Module, x: Tensor, dtype: torch.dtype) -> Any:
        self.found = {}
        handles = self.listen(model)
        with torch.no_grad(), self.autocast(x.device.type, dtype):
            model(x)
        self.remove(handles, model)
        return self.found


class RemovesAllHooks(Report):
    def remove(self, handles: list[Any], model: nn.Module) -> None:
        for module in model.modules():
            module._forward_hooks.clear()


class AllModules(Report):
    def modules(self, model: nn.Module) -> list[tuple[str, nn.Module]]:
        return list(model.named_modules())


class TopLevelOnly(Report):
    def modules(self, model: nn.Module) -> list[tuple[str, nn.Module]]:
        return list(model.named_children())


class RunsForEachLayer(Report):
    def __call__(self, model: nn.Module, x: Tensor, dtype: torch.dtype) -> Any:
        report: dict[str, Any] = {}
        for name, _ in super().modules(model):
            report[name] = super().__call__(model, x, dtype)[name]
        return report


class LeavesOutTheModelItself(Report):
    def modules(self, model: nn.Module) -> list[tuple[str, nn.Module]]:
        return [(name, module) for name, module in super().modules(model) if name]


class OnlyLayersWithWeights(Report):
    def modules(self, model: nn.Module) -> list[tuple[str, nn.Module]]:
        modules = model.named_modules()
        return [(name, module) for name, module in modules if list(module.parameters(recurse=False))]


class NamedByClass(Report):
    def modules(self, model: nn.Module) -> list[tuple[str, nn.Module]]:
        return [(type(module).__name__, module) for _, module in super().modules(model)]


class LooksUpTheNameLate(Report):
    def listen(self, model: nn.Module) -> list[Any]:
        handles = []
        for name, module in self.modules(model):

            def note(_module: nn.Module, _inputs: Any, output: Tensor) -> None:
                self.found[name] = output.dtype  # noqa: B023 - this is the mistake

            handles.append(module.register_forward_hook(note))
        return handles


class NotesTheInput(Report):
    def noted(self, module: nn.Module, inputs: Any, output: Tensor) -> Any:
        return inputs[0].dtype


class NotesTheWeight(Report):
    def noted(self, module: nn.Module, inputs: Any, output: Tensor) -> Any:
        return next((p.dtype for p in module.parameters()), output.dtype)


class NotesText(Report):
    def noted(self, module: nn.Module, inputs: Any, output: Tensor) -> Any:
        return str(output.dtype)


class NoAutocast(Report):
    def autocast(self, device: str, dtype: torch.dtype) -> Any:
        return contextlib.nullcontext()


class CastsTheModel(NoAutocast):
    def __call__(self, model: nn.Module, x: Tensor, dtype: torch.dtype) -> Any:
        return super().__call__(model.to(dtype), x.to(dtype), dtype)


class CastsTheInput(Report):
    def __call__(self, model: nn.Module, x: Tensor, dtype: torch.dtype) -> Any:
        return super().__call__(model, x.to(dtype), dtype)


class AlwaysFloat16(Report):
    def autocast(self, device: str, dtype: torch.dtype) -> Any:
        return torch.autocast(device, dtype=torch.float16)


class NamesNoDtype(Report):
    def autocast(self, device: str, dtype: torch.dtype) -> Any:
        return torch.autocast(device)


class AutocastOfTheCpu(Report):
    def autocast(self, device: str, dtype: torch.dtype) -> Any:
        return torch.autocast("cpu", dtype=dtype)


class SwallowsTheError(Report):
    def __call__(self, model: nn.Module, x: Tensor, dtype: torch.dtype) -> Any:
        with contextlib.suppress(RuntimeError):
            super().__call__(model, x, dtype)
        return self.found


CASTS = "What autocast casts, and what it keeps"
LAYER = 'In the case "{case}", `{layer}` is reported as {layer_got} where {layer_want} is right: '
ABSENT = 'In the case "{case}", `{layer}` is {layer_got} from the report, where {layer_want} is right: '
HOOKS = "Hooks on the model after the call: {got}; wanted: {want}. "
MISTAKES = [
    Mistake("leaves-hooks", LeavesHooks(), HOOKS + "They would run in every later call. `register_forward_hook` "
            "returns a handle, and `handle.remove()` takes it off.", CASTS),
    Mistake("not-under-autocast", NoAutocast(), LAYER + "the model ran without autocast, or with one for another kind "
            "of device.", CASTS),
    Mistake("leaves-hooks", RemovesHooksAtTheEnd(), HOOKS + "The model raised an error, so the lines that remove the "
            "hooks were never reached: put them under `finally`.", CASTS),
    Mistake("removes-foreign-hooks", RemovesAllHooks(), HOOKS + "A hook that was there before the call is not yours to "
            "remove: use the handles of your own.", CASTS),
    Mistake("includes-containers", AllModules(), 'In the case "{case}", `{layer}` is reported as {layer_got}, and '
            "should not be reported at all: it is not a leaf, since it only holds other modules.", CASTS),
    Mistake("top-level-only", TopLevelOnly(), ABSENT + "only the outermost modules were looked at; `named_modules()` "
            "goes all the way down.", CASTS),
    Mistake("runs-more-than-once", RunsForEachLayer(), "In the case \"{case}\" the model ran {got}, and should run "
            "{want}: a run may be slow, and changes what a batch norm keeps. All hooks can listen to the same one.",
            CASTS),
    Mistake("leaves-out-the-model-itself", LeavesOutTheModelItself(), ABSENT + "a model without submodules is a leaf "
            "as well, and its name is empty.", CASTS),
    Mistake("only-layers-with-weights", OnlyLayersWithWeights(), ABSENT + "every module without submodules is a leaf, "
            "even one without weights.", CASTS),
    Mistake("all-under-the-last-name", LooksUpTheNameLate(), ABSENT + "a hook that looks up the loop's variable does "
            "so when it runs, and finds the last name. Bind the name when the hook is made.", CASTS),
    Mistake("named-by-class", NamedByClass(), ABSENT + "two layers of one class cannot share a name; `named_modules()` "
            "has one for each.", CASTS),
    Mistake("input-not-output", NotesTheInput(), LAYER + "that is the dtype of what goes in.", CASTS),
    Mistake("weight-not-output", NotesTheWeight(), LAYER + "that is the dtype of its weights. Under autocast they stay "
            "float32; what is cast is a copy, for the operation.", CASTS),
    Mistake("casts-the-model", CastsTheModel(), LAYER + "the model itself was cast, weights and all, which is not what "
            "autocast does: it decides for each operation.", CASTS),
    Mistake("casts-the-input", CastsTheInput(), LAYER + "x was cast before it went in. Under autocast each operation "
            "casts for itself, and a layer that does not compute hands on what it got.", CASTS),
    Mistake("dtype-ignored", AlwaysFloat16(), LAYER + "autocast was asked for a dtype other than {dtype}.", CASTS),
    Mistake("dtype-ignored", NamesNoDtype(), LAYER + "autocast was left to choose a dtype of its own, but {dtype} was "
            "asked for.", CASTS),
    Mistake("swallows-the-error", SwallowsTheError(), 'In the case "{case}", the call returned a report, and the error '
            "that the model raised never came out: it is for the caller to see.", CASTS),
    Mistake("text-not-dtype", NotesText(), LAYER + "that is a string, and a torch.dtype is wanted.", CASTS),
    Mistake("autocast-of-another-device", AutocastOfTheCpu(), "On the second device, `{layer}` is reported as "
            "{layer_got} where {layer_want} is right: autocast was switched on for the CPU, and every kind of device "
            "has its own.", CASTS),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    x, width = draw.normal(3, 6), 6
    same = [c for c in cases_report(draw) if c.inputs["model"] in ("nested", "statistics")]
    return [
        case(
            "a convolution and batch norm", model="convolutional", width=width, x=x, dtype=torch.bfloat16, hooked=False
        ),
        case("hooked, modules inside modules", model="nested", width=width, x=x, dtype=torch.bfloat16, hooked=True),
        *(case(f"again: {c.name}", **{**c.inputs, "dtype": torch.float16}) for c in same[-1:]),
    ]


# Right answers unlike the reference


def report_with_exit_stack(model: nn.Module, x: Tensor, dtype: torch.dtype) -> dict[str, torch.dtype]:
    out: dict[str, torch.dtype] = {}
    with contextlib.ExitStack() as stack:
        for name, module in model.named_modules():
            if len(list(module.children())) == 0:

                def note(_m: Any, _i: Any, y: Tensor, name: str = name) -> None:
                    out[name] = y.dtype

                stack.callback(module.register_forward_hook(note).remove)
        stack.enter_context(torch.amp.autocast(device_type=x.device.type, dtype=dtype))
        model(x)
    return out


def report_with_one_hook(model: nn.Module, x: Tensor, dtype: torch.dtype) -> dict[str, torch.dtype]:
    names = {module: name for name, module in model.named_modules() if not module._modules}
    out: dict[str, torch.dtype] = {}

    def note(module: nn.Module, _inputs: Any, output: Any) -> None:
        if module in names:
            out[names[module]] = output.dtype

    handle = nn.modules.module.register_module_forward_hook(note)
    try:
        with torch.inference_mode(), torch.autocast(str(x.device).split(":")[0], dtype):
            model(x)
    finally:
        handle.remove()
    return out


RIGHT_ANSWERS: list[Callable[..., Any]] = [report_with_exit_stack, report_with_one_hook]
