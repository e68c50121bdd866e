"""Lesson 09: right answers in other styles than the reference's. Each must pass every case on every device."""

# ruff: noqa: PTH100, PTH104, PTH105, PTH107, PTH118, PTH120, PTH123, PTH208
from __future__ import annotations

import copy
import inspect
import io
import json
import os
import pickle
import pickletools
import random
import shutil
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

# --- save_weights ------------------------------------------------------------------------------------------------


def save_through_memory(model: nn.Module, path: Path) -> None:
    buffer = io.BytesIO()
    torch.save({k: v.detach().to("cpu") for k, v in model.state_dict().items()}, buffer)
    handle, name = tempfile.mkstemp(dir=os.path.dirname(os.path.abspath(path)))
    with os.fdopen(handle, "wb") as file:
        file.write(buffer.getvalue())
        file.flush()
        os.fsync(file.fileno())
    os.rename(name, path)


def save_with_pathlib(model: nn.Module, path: Path) -> None:
    draft = Path(str(path) + ".tmp")
    state = model.state_dict()
    for name in state:
        state[name] = state[name].cpu()
    with draft.open("wb") as file:
        torch.save(state, file)
    draft.replace(path)


def save_in_a_folder_of_its_own(model: nn.Module, path: Path) -> None:
    with tempfile.TemporaryDirectory(dir=Path(path).parent) as folder:
        inside = os.path.join(folder, "weights")
        torch.save(copy.deepcopy(model).cpu().state_dict(), inside)
        shutil.move(inside, path)


# --- load_weights ------------------------------------------------------------------------------------------------


def load_first_to_the_cpu(model: nn.Module, path: Path, device: str = "cpu") -> nn.Module:
    model.to(device)
    state = torch.load(path, map_location="cpu", weights_only=True)
    result = model.load_state_dict(state, strict=False)
    if result.missing_keys or result.unexpected_keys:
        raise KeyError(f"missing: {result.missing_keys}, unexpected: {result.unexpected_keys}")
    return model


def load_by_hand(model: nn.Module, path: Path, device: str = "cpu") -> nn.Module:
    with open(path, "rb") as file:
        state = torch.load(file, map_location=lambda storage, place: storage, weights_only=True)
    own = model.state_dict()
    odd = sorted(own.keys() ^ state.keys())
    if odd:
        raise ValueError("these do not fit: " + ", ".join(odd))
    for name, tensor in own.items():
        tensor.copy_(state[name])
    return model.to(torch.device(device))


# --- unsafe_globals ----------------------------------------------------------------------------------------------


def allowed() -> set[str]:
    from torch._weights_only_unpickler import _get_allowed_globals

    return {*_get_allowed_globals(), "torch.nn.parameter.Parameter", "torch._utils._rebuild_parameter"}


def unsafe_by_operations(path: Path) -> list[str]:
    with zipfile.ZipFile(path) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith("/data.pkl"))
        data = archive.read(name)
    found = {arg.replace(" ", ".") for code, arg, _ in pickletools.genops(data) if code.name == "GLOBAL"}
    return sorted(name for name in found if name not in allowed() and not name.startswith("__builtin__."))


class Named:
    """Stands for whatever a pickle names, and does nothing."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Named:
        return object.__new__(cls)

    def __setstate__(self, state: Any) -> None: ...

    def __setitem__(self, key: Any, value: Any) -> None: ...

    def append(self, item: Any) -> None: ...

    def extend(self, items: Any) -> None: ...


class Listing(pickle.Unpickler):
    def __init__(self, file: Any) -> None:
        super().__init__(file)
        self.names: set[str] = set()

    def find_class(self, module: str, name: str) -> Any:
        self.names.add(f"{module}.{name}")
        return Named

    def persistent_load(self, pid: Any) -> Any:
        return Named()


def unsafe_by_stand_ins(path: Path) -> list[str]:
    with zipfile.ZipFile(path) as archive:
        inside = next(n for n in archive.namelist() if n.endswith("data.pkl"))
        listing = Listing(io.BytesIO(archive.read(inside)))
    listing.load()
    return sorted(n for n in listing.names if n not in {*allowed(), "builtins.set", "__builtin__.set"})


# --- strip_prefixes ----------------------------------------------------------------------------------------------


def strip_recursively(state: dict[str, Tensor]) -> dict[str, Tensor]:
    def bare(name: str) -> str:
        for prefix in ("module.", "_orig_mod."):
            if name.startswith(prefix):
                return bare(name[len(prefix) :])
        return name

    return dict(zip(map(bare, state), state.values(), strict=True))


def strip_by_expression(state: dict[str, Tensor]) -> dict[str, Tensor]:
    import re

    return {re.sub(r"^(?:module\.|_orig_mod\.)+", "", name): value for name, value in state.items()}


def strip_by_parts(state: dict[str, Tensor]) -> dict[str, Tensor]:
    from collections import OrderedDict

    stripped = OrderedDict()
    for name, value in state.items():
        parts = name.split(".")
        while len(parts) > 1 and parts[0] in ("module", "_orig_mod"):
            parts.pop(0)
        stripped[".".join(parts)] = value
    return stripped


# --- load_matching -----------------------------------------------------------------------------------------------


def match_by_loading(model: nn.Module, state: dict[str, Tensor]) -> tuple[list[str], list[str]]:
    own = model.state_dict()
    fitting, rest = {}, []
    for name, value in state.items():
        if name in own and tuple(own[name].size()) == tuple(value.size()):
            fitting[name] = value
        else:
            rest.append(name)
    model.load_state_dict(fitting, strict=False)
    return sorted(fitting), sorted(rest)


def match_by_walking(model: nn.Module, state: dict[str, Tensor]) -> Any:
    places = dict(model.named_parameters(remove_duplicate=False)) | dict(model.named_buffers(remove_duplicate=False))
    loaded, skipped = [], []
    for name in sorted(state):
        if name in places and places[name].shape == state[name].shape:
            places[name].data.copy_(state[name])
            loaded.append(name)
        else:
            skipped.append(name)
    return [loaded, skipped]


# --- Checkpointer ------------------------------------------------------------------------------------------------


class CheckpointerWithMetadata:
    """Keeps the metric in each file, and reads them to find the best."""

    def __init__(self, directory: Path, keep: int = 3) -> None:
        self.folder = str(directory)
        self.keep = keep

    def save(self, step: int, metric: float, **parts: Any) -> str:
        name = os.path.join(self.folder, f"checkpoint-{step}.pth")
        content: dict[str, Any] = {key: part.state_dict() for key, part in parts.items()}
        content["__extra__"] = [step, metric, random.getstate(), np.random.get_state(), torch.get_rng_state()]
        torch.save(content, name + ".part")
        with open(name + ".part", "rb+") as file:
            os.fsync(file.fileno())
        os.rename(name + ".part", name)
        best = self.best()
        for old in self._all()[: -self.keep]:
            if old != best:
                os.remove(old)
        return name

    def _all(self) -> list[str]:
        names = [n for n in os.listdir(self.folder) if n.startswith("checkpoint-") and n.endswith(".pth")]
        names.sort(key=lambda n: int(n[len("checkpoint-") : -len(".pth")]))
        return [os.path.join(self.folder, n) for n in names]

    def latest(self) -> str | None:
        return (self._all() or [None])[-1]

    def best(self) -> str | None:
        every = self._all()
        if not every:
            return None
        return min(every, key=lambda name: torch.load(name, weights_only=False)["__extra__"][1])

    def load(self, path: str, **parts: Any) -> dict[str, Any]:
        content = torch.load(path, weights_only=False)
        for key in parts:
            parts[key].load_state_dict(content[key])
        step, metric, python, numpy, torchs = content["__extra__"]
        random.setstate(python)
        np.random.set_state(numpy)
        torch.set_rng_state(torchs)
        return {"step": step, "metric": metric}


class CheckpointerOfFolders:
    """A folder for each checkpoint, put in place whole; the index of metrics is made anew when it is missing."""

    def __init__(self, directory: Path, keep: int = 3) -> None:
        self.directory, self.keep = Path(directory), keep

    def save(self, step: int, metric: float, **parts: Any) -> Path:
        draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=self.directory))
        for name, part in parts.items():
            torch.save(part.state_dict(), draft / f"{name}.pt")
        kind, keys, *rest = np.random.get_state()
        numbers = torch.tensor(keys.astype("int64"))
        torch.save([random.getstate(), numbers, torch.random.get_rng_state()], draft / "@rng")
        (draft / "@info.json").write_text(json.dumps({"step": step, "metric": metric, "numpy": [kind, *rest]}))
        place = self.directory / f"step={step}"
        if place.exists():
            shutil.rmtree(place)
        draft.rename(place)
        keeping = {*self._steps()[-self.keep :], self.best()}
        for old in self._steps():
            if old not in keeping:
                doomed = old.with_name(f".old-{old.name}")
                old.rename(doomed)
                shutil.rmtree(doomed)
        return place

    def _steps(self) -> list[Path]:
        return sorted(self.directory.glob("step=*"), key=lambda p: int(p.name.split("=")[1]))

    def _info(self, path: Path) -> dict[str, Any]:
        info: dict[str, Any] = json.loads((path / "@info.json").read_text())
        return info

    def latest(self) -> Path | None:
        steps = self._steps()
        return steps[-1] if steps else None

    def best(self) -> Path | None:
        return min(self._steps(), key=lambda p: self._info(p)["metric"], default=None)

    def load(self, path: Path, **parts: Any) -> dict[str, Any]:
        info = self._info(path)
        for name, part in parts.items():
            part.load_state_dict(torch.load(path / f"{name}.pt", weights_only=True))
        python, keys, torchs = torch.load(path / "@rng", weights_only=True)
        random.setstate(python)
        kind, *rest = info["numpy"]
        np.random.set_state((kind, keys.numpy().astype("uint32"), *rest))
        torch.random.set_rng_state(torchs)
        return info


class CheckpointerWithBestBeside:
    """The best is a hard link of its own, renamed into place; the newest go by the time they were written."""

    def __init__(self, directory: Path, keep: int = 3) -> None:
        self.dir = Path(directory)
        self.keep = keep

    def save(self, step: int, metric: float, **parts: Any) -> Path:
        target = self.dir / f"{step}.ckpt"
        everything = {
            "parts": {k: v.state_dict() for k, v in parts.items()}, "metric": float(metric), "step": int(step),
            "rng": pickle.dumps((random.getstate(), np.random.get_state())), "torch": torch.get_rng_state(),
        }  # fmt: skip
        draft = self.dir / "draft"
        torch.save(everything, draft)
        best = self.best()
        if best is None or metric < torch.load(best, weights_only=True)["metric"]:
            link = self.dir / "link"
            link.unlink(missing_ok=True)
            os.link(draft, link)
            os.replace(draft, target)
            os.replace(link, self.dir / "best")
        else:
            os.replace(draft, target)
        for old in self._newest()[self.keep :]:
            old.unlink()
        return target

    def _newest(self) -> list[Path]:
        return sorted(self.dir.glob("*.ckpt"), key=lambda p: p.stat().st_mtime_ns, reverse=True)

    def latest(self) -> Path | None:
        return next(iter(self._newest()), None)

    def best(self) -> Path | None:
        best = self.dir / "best"
        return best if best.exists() else None

    def load(self, path: Path, **parts: Any) -> dict[str, Any]:
        everything: dict[str, Any] = torch.load(path, weights_only=True)
        for name, part in parts.items():
            part.load_state_dict(everything["parts"][name])
        python, numpy = pickle.loads(everything["rng"])
        random.setstate(python)
        np.random.set_state(numpy)
        torch.set_rng_state(everything["torch"])
        return everything


# --- to_safetensors ----------------------------------------------------------------------------------------------


def safely_by_hand(model: nn.Module, path: Path) -> None:
    kept: dict[int, str] = {}
    tensors, metadata = {}, {}
    for name, tensor in sorted(model.state_dict(keep_vars=True).items()):
        if id(tensor) in kept:
            metadata[name] = kept[id(tensor)]
            continue
        kept[id(tensor)] = name
        tensors[name] = tensor.detach().contiguous()
    save_file(tensors, path, metadata=metadata)


def safely_by_unique_names(model: nn.Module, path: Path) -> None:
    unique = dict(model.named_parameters()) | dict(model.named_buffers())
    save_file({n: t.detach().clone(memory_format=torch.contiguous_format) for n, t in unique.items()}, str(path))


# --- EMA ---------------------------------------------------------------------------------------------------------


class EMAOfACopy:
    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.copy = copy.deepcopy(model).requires_grad_(False)

    def update(self, model: nn.Module) -> None:
        with torch.no_grad():
            for mine, theirs in zip(
                [*self.copy.parameters(), *self.copy.buffers()], [*model.parameters(), *model.buffers()], strict=True
            ):
                if torch.is_floating_point(mine):
                    mine.copy_(self.decay * mine + (1 - self.decay) * theirs)
                else:
                    mine.copy_(theirs)

    def copy_to(self, model: nn.Module) -> None:
        model.load_state_dict(self.copy.state_dict())


class EMAByLists:
    def __init__(self, model: nn.Module, decay: float) -> None:
        self.d = decay
        self.names = list(model.state_dict())
        self.values = [v.clone() for v in model.state_dict().values()]

    def update(self, model: nn.Module) -> None:
        state = model.state_dict()
        new = []
        for name, old in zip(self.names, self.values, strict=True):
            now = state[name]
            new.append(old + (1 - self.d) * (now - old) if now.is_floating_point() else now.clone())
        self.values = new

    @torch.no_grad()
    def copy_to(self, model: nn.Module) -> None:
        places = dict(model.named_parameters(remove_duplicate=False)) | dict(model.named_buffers())
        for name, value in zip(self.names, self.values, strict=True):
            places[name].copy_(value)


class EMAByTorch:
    def __init__(self, model: nn.Module, decay: float) -> None:
        from torch.optim.swa_utils import AveragedModel

        def average(old: Tensor, new: Tensor, count: Any) -> Tensor:
            return new.clone() if not old.is_floating_point() else old * decay + new * (1 - decay)

        self.inner = AveragedModel(model, avg_fn=average, use_buffers=True)
        self.inner.n_averaged += 1

    def update(self, model: nn.Module) -> None:
        self.inner.update_parameters(model)

    def copy_to(self, model: nn.Module) -> None:
        model.load_state_dict(self.inner.module.state_dict())


# --- average_checkpoints -----------------------------------------------------------------------------------------


def average_step_by_step(paths: list[Path]) -> dict[str, Tensor]:
    total: dict[str, Tensor] = {}
    last: dict[str, Tensor] = {}
    for path in paths:
        last = torch.load(path, weights_only=True)
        for name, tensor in last.items():
            if tensor.dtype.is_floating_point:
                wide = tensor.to(torch.float32)
                total[name] = total[name] + wide if name in total else wide
    return {n: (total[n] / len(paths)).type(t.dtype) if n in total else t for n, t in last.items()}


def average_by_stacking(paths: list[Path]) -> dict[str, Tensor]:
    states = [torch.load(str(p), map_location="cpu") for p in paths]
    result = {}
    for name in states[0]:
        stacked = torch.stack([s[name] for s in states])
        result[name] = stacked.float().mean(0).to(stacked.dtype) if stacked.is_floating_point() else stacked[-1]
    return result


# --- max_difference ----------------------------------------------------------------------------------------------


def difference_by_numpy(reference: Any, candidate: Any, inputs: list[Tensor]) -> float:
    worst = 0.0
    for x in inputs:
        a, b = (f(x).detach().numpy().astype(np.float64) for f in (reference, candidate))
        assert a.shape == b.shape, f"shapes {a.shape} and {b.shape}"
        gap = np.abs(a - b)
        gap[np.isnan(a) & np.isnan(b)] = 0
        gap[np.isnan(gap)] = np.inf
        worst = max(worst, float(gap.max()))
    return worst


def difference_by_masks(reference: Any, candidate: Any, inputs: list[Tensor]) -> float:
    def one(x: Tensor) -> float:
        a, b = reference(x), candidate(x)
        if list(a.shape) != list(b.shape):
            raise RuntimeError("two shapes")
        if bool((a.isnan() != b.isnan()).any()):
            return float("inf")
        return torch.sub(a, b).abs()[~a.isnan()].max().item()

    return max(one(x) for x in inputs)


# --- export_program ----------------------------------------------------------------------------------------------


def program_with_a_named_dim(model: nn.Module, example: Tensor, path: Path) -> nn.Module:
    rows = torch.export.Dim("rows", min=1)
    with torch.no_grad():
        made = torch.export.export(model, args=(example,), dynamic_shapes=[{0: rows}], strict=True)
    torch.export.save(made, str(path))
    return torch.export.load(str(path)).module()


def program_by_file(model: nn.Module, example: Tensor, path: Path) -> nn.Module:
    everywhere = torch.export.Dim.DYNAMIC
    fixed = torch.export.Dim.STATIC
    made = torch.export.export(model, (example,), dynamic_shapes=((everywhere, fixed),))
    with open(path, "wb") as file:
        torch.export.save(made, file)
    with open(path, "rb") as file:
        return torch.export.load(file).module()


def program_by_keyword(model: nn.Module, example: Tensor, path: Path) -> nn.Module:
    (name,) = inspect.signature(model.forward).parameters
    shapes = {name: {0: torch.export.Dim.DYNAMIC}}
    torch.export.save(torch.export.export(model, (), kwargs={name: example}, dynamic_shapes=shapes), path)
    return torch.export.load(path).module()


def program_left_to_torch(model: nn.Module, example: Tensor, path: Path) -> nn.Module:
    shapes = {"x": (torch.export.Dim.AUTO, None)}
    torch.export.save(torch.export.export(model, (example,), dynamic_shapes=shapes), path)
    return torch.export.load(path).module()


# --- export_onnx -------------------------------------------------------------------------------------------------


def onnx_the_old_way(model: nn.Module, example: Tensor, path: Path) -> None:
    torch.onnx.export(
        model, (example,), str(path), dynamo=False, input_names=["x"], output_names=["y"],
        dynamic_axes={"x": {0: "n"}, "y": {0: "n"}},
    )  # fmt: skip


def onnx_of_a_copy(model: nn.Module, example: Tensor, path: Path) -> None:
    dynamic = torch.export.Dim.DYNAMIC
    program = torch.export.export(copy.deepcopy(model).eval(), (example,), dynamic_shapes=({0: dynamic},))
    exported = torch.onnx.export(program, dynamo=True, verbose=False, external_data=False)
    assert exported is not None
    exported.save(path)


# --- trace_differs -----------------------------------------------------------------------------------------------


def differs_by_the_largest_gap(fn: Callable[[Tensor], Tensor], example: Tensor, other: Tensor) -> bool:
    recorded = torch.jit.trace(fn, (example,), check_trace=False)
    gap = (recorded(other) - fn(other)).abs().max()
    return bool(gap > 1e-6)


def differs_by_assertion(fn: Callable[[Tensor], Tensor], example: Tensor, other: Tensor) -> bool:
    recorded = torch.jit.trace(fn, example_inputs=example)
    try:
        torch.testing.assert_close(recorded(other), fn(other))
    except AssertionError:
        return True
    return False


def differs_from_a_trace_of_other(fn: Callable[[Tensor], Tensor], example: Tensor, other: Tensor) -> bool:
    one, two = (torch.jit.trace(fn, x.clone(), strict=False)(other.clone()) for x in (example, other))
    return not np.allclose(one.numpy(), two.numpy())


RIGHT: dict[str, list[Callable[..., Any]]] = {
    "save_weights": [save_through_memory, save_with_pathlib, save_in_a_folder_of_its_own],
    "load_weights": [load_first_to_the_cpu, load_by_hand],
    "unsafe_globals": [unsafe_by_operations, unsafe_by_stand_ins],
    "strip_prefixes": [strip_recursively, strip_by_expression, strip_by_parts],
    "load_matching": [match_by_loading, match_by_walking],
    "Checkpointer": [CheckpointerWithMetadata, CheckpointerOfFolders, CheckpointerWithBestBeside],
    "to_safetensors": [safely_by_hand, safely_by_unique_names],
    "EMA": [EMAOfACopy, EMAByLists, EMAByTorch],
    "average_checkpoints": [average_step_by_step, average_by_stacking],
    "max_difference": [difference_by_numpy, difference_by_masks],
    "export_program": [program_with_a_named_dim, program_by_file, program_by_keyword, program_left_to_torch],
    "export_onnx": [onnx_the_old_way, onnx_of_a_copy],
    "trace_differs": [differs_by_the_largest_gap, differs_by_assertion, differs_from_a_trace_of_other],
}
