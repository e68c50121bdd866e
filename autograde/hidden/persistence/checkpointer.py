"""The exercise `Checkpointer`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import json
import os
import pickle
import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from autograde.hidden.common import override
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "A training goes on bit by bit only if the states of all random generators come back with the weights. The "
    "metric is in the file name, so the best is found without opening files, and old files go only after the "
    "new one stands under its name."
)
"""Why the reference is written as it is."""
REQUIRED = ("forgets-optimizer", "forgets-scheduler", "forgets-rng", "deletes-best")
"""The mistakes that a check must always be able to name."""


def restore_numpy(state: Any) -> None:
    kind, keys, *rest = state
    np.random.set_state((kind, keys.numpy(), *rest))


RESTORE: dict[str, Any] = {"python": random.setstate, "torch": torch.set_rng_state, "numpy": restore_numpy}


class Sound:
    """A right checkpointer. Each mistake below is this one with one method written otherwise."""

    def __init__(self, directory: Path, keep: int = 3) -> None:
        self.directory, self.keep = Path(directory), keep

    def save(self, step: int, metric: float, **parts: Any) -> Path:
        checkpoint = {"step": step, "metric": metric, "random": self.drawn(), "parts": self.states(parts)}
        path = self.directory / f"{self.number(step)}_{self.written(metric)}.pt"
        self.write(checkpoint, path)
        self.tidy(self.keep)
        return path

    def states(self, parts: dict[str, Any]) -> dict[str, Any]:
        return {name: part.state_dict() for name, part in parts.items()}

    def drawn(self) -> dict[str, Any]:
        kind, keys, *rest = np.random.get_state()
        numpy = (kind, torch.from_numpy(np.array(keys).copy()), *rest)
        return {"python": random.getstate(), "torch": torch.get_rng_state(), "numpy": numpy}

    def number(self, step: int) -> str:
        return f"{step:09d}"

    def written(self, metric: float) -> str:
        return repr(float(metric))

    def write(self, checkpoint: dict[str, Any], path: Path) -> None:
        draft = path.with_suffix(".draft")
        torch.save(checkpoint, draft)
        draft.replace(path)

    def tidy(self, count: int) -> None:
        saved = self.saved()
        best = min(saved, key=self.metric, default=None)
        for old in saved[: max(0, len(saved) - count)]:
            if old != best:
                old.unlink()

    def load(self, path: Path, **parts: Any) -> Any:
        checkpoint = torch.load(path, weights_only=True)
        for name, part in parts.items():
            if name in checkpoint["parts"]:
                part.load_state_dict(checkpoint["parts"][name])
        for name, state in checkpoint["random"].items():
            RESTORE[name](state)
        return checkpoint

    def saved(self) -> list[Path]:
        return sorted(self.directory.glob("*.pt"))

    def metric(self, path: Path) -> float:
        return float(path.stem.split("_")[1])

    def latest(self) -> Path | None:
        return max(self.saved(), default=None)

    def best(self) -> Path | None:
        return min(self.saved(), key=self.metric, default=None)


def forgets(*parts: str, draws: tuple[str, ...] = ("python", "numpy", "torch")) -> type[Sound]:
    """A checkpointer that leaves out these parts, and all random generators but those of `draws`."""

    class Forgets(Sound):
        def states(self, all_parts: dict[str, Any]) -> dict[str, Any]:
            return super().states({name: part for name, part in all_parts.items() if name not in parts})

        def drawn(self) -> dict[str, Any]:
            return {name: state for name, state in super().drawn().items() if name in draws}

    return Forgets


class LoadsAndReturnsNothing(Sound):
    def load(self, path: Path, **parts: Any) -> Any:
        super().load(path, **parts)


class LoadsAllThatWasSaved(Sound):
    def load(self, path: Path, **parts: Any) -> Any:
        saved = torch.load(path, weights_only=True)["parts"]
        return super().load(path, **{name: parts[name] for name in saved})


class SavesAndReturnsNothing(Sound):
    def save(self, step: int, metric: float, **parts: Any) -> Any:
        super().save(step, metric, **parts)


class PutsPartsBesideTheRest(Sound):
    def write(self, checkpoint: dict[str, Any], path: Path) -> None:
        super().write(checkpoint | checkpoint["parts"], path)


class WritesInPlace(Sound):
    def write(self, checkpoint: dict[str, Any], path: Path) -> None:
        torch.save(checkpoint, path)


class DraftsLookLikeCheckpoints(Sound):
    def write(self, checkpoint: dict[str, Any], path: Path) -> None:
        draft = path.with_name(f"{path.stem}_draft.pt")
        torch.save(checkpoint, draft)
        draft.replace(path)


class CopiesTheBest(Sound):
    def write(self, checkpoint: dict[str, Any], path: Path) -> None:
        super().write(checkpoint, path)
        if super().best() == path:
            shutil.copyfile(path, self.directory / "best")

    def best(self) -> Path | None:
        return next(self.directory.glob("best"), None)


class DeletesBeforeWriting(Sound):
    def write(self, checkpoint: dict[str, Any], path: Path) -> None:
        self.tidy(self.keep - 1)
        super().write(checkpoint, path)


class DeletesBest(Sound):
    def tidy(self, count: int) -> None:
        for old in self.saved()[:-count]:
            old.unlink()


def keeping(more: int) -> type[Sound]:
    class Keeping(Sound):
        def tidy(self, count: int) -> None:
            super().tidy(count + more)

    return Keeping


class RemembersTheBest(Sound):
    record: Path | None = None

    def write(self, checkpoint: dict[str, Any], path: Path) -> None:
        super().write(checkpoint, path)
        if self.record is None or checkpoint["metric"] < self.metric(self.record):
            self.record = path

    def best(self) -> Path | None:
        return self.record


class RemembersAll(Sound):
    made: tuple[Path, ...] = ()

    def write(self, checkpoint: dict[str, Any], path: Path) -> None:
        super().write(checkpoint, path)
        self.made += (path,)

    def saved(self) -> list[Path]:
        return [path for path in self.made if path.exists()]


RESUMING = "A checkpoint that resumes"
LOST = (
    "After load, this is not what it was when it was saved: {lost}. The first loss after a resume may still agree, "
    "but the later ones do not: {later}."
)
TORN = (
    "The training was killed in the middle of a save, and for one such moment the outcome was: {killed}. A file has to "
    "be whole before it gets the name under which it is looked for."
)
OLDER = "With keep={keep} these older saves are still there: {older}. A long training would fill the disk."
MISTAKES = [
    *(Mistake("forgets-rng", forgets(draws=draws), LOST, RESUMING)
      for draws in ((), ("torch",), ("torch", "python"), ("torch", "numpy"))),
    Mistake("deletes-best", DeletesBest, "The best was save {want_best_step}; best() leads to save {best_step} now, "
            "because the best one was deleted along with the old ones.", RESUMING),
    Mistake("writes-in-place", WritesInPlace, TORN, RESUMING),
    *(Mistake(f"forgets-{part}", forgets(part), LOST, RESUMING) for part in ("optimizer", "scheduler", "scaler")),
    Mistake("saves-the-model-alone", forgets("optimizer", "scheduler", "scaler", draws=()), LOST, RESUMING),
    Mistake("saves-the-model-alone", forgets("scheduler", "scaler", draws=()), LOST, RESUMING),
    Mistake("writes-in-place", CopiesTheBest, "A copy of the best was made anew while the training was killed, and at "
            "one such moment the outcome for best() was: {killed_best}.", RESUMING),
    Mistake("writes-in-place", DraftsLookLikeCheckpoints, TORN, RESUMING),
    Mistake("deletes-before-writing", DeletesBeforeWriting, "With keep={keep} the old ones were deleted before the "
            "new one was there. The training was killed in between, and the outcome was: {killed}. Delete them when "
            "the new one is complete.", RESUMING),
    *(Mistake("steps-sorted-as-text", override(Sound, number=number), "The method latest() leads to save "
              '{latest_step}, but the newest is save {want_latest_step}: as text "10" comes before "9".', RESUMING)
      for number in (lambda self, step: str(step), lambda self, step: f"{step:06d}")),
    *(Mistake("rounds-the-metric", override(Sound, written=written), "The method best() leads to save {best_step}, "
              "but the lowest metric is that of save {want_best_step}: some digits, or the sign, were lost.", RESUMING)
      for written in (lambda self, metric: f"{metric:.6f}", lambda self, metric: repr(abs(metric)))),
    Mistake("best-kept-in-memory", RemembersTheBest, "A new object over the folder was asked for the best, and "
            "{best_outcome}: what an object remembers dies with its process.", RESUMING),
    Mistake("all-kept-in-memory", RemembersAll, "A new object over the folder was asked for the latest, and "
            "{latest_outcome}: look for the files in the folder, for the best as well.", RESUMING),
    Mistake("parts-beside-the-rest", PutsPartsBesideTheRest, 'In the case "{case}" a part is called `random`, and '
            "{latest_outcome}. If parts lie beside your own entries, one may take the place of those.", RESUMING),
    Mistake("save-returns-nothing", SavesAndReturnsNothing, 'In the case "{case}" `save` returned no path: it should '
            "return the path of the new checkpoint.", RESUMING),
    Mistake("higher-is-better", override(Sound, metric=lambda self, path: -Sound.metric(self, path)), "The method "
            "best() leads to save {best_step}, but the lowest metric is that of save {want_best_step}, and lower is "
            "better.", RESUMING),
    Mistake("loads-all-that-was-saved", LoadsAllThatWasSaved, "Loading the model alone ended with this: {alone}. "
            "`load` restores only the parts that it is given, so that the best model can be used without the rest.",
            RESUMING),
    Mistake("keeps-everything", keeping(+99), OLDER, RESUMING),
    Mistake("keeps-everything", keeping(+1), OLDER, RESUMING),
    Mistake("keeps-too-few", keeping(-1), "With keep={keep} these saves are gone, and they are among the newest: "
            "{gone}.", RESUMING),
    Mistake("load-returns-nothing", LoadsAndReturnsNothing, 'In the case "{case}" `load` returned no dict: it should '
            "return whatever else the file holds, such as the step.", RESUMING),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    ups = [draw.size(10, 99) / 100 + n for n in range(12)]
    common: dict[str, Any] = {"weight": draw.normal(4, 3), "later": 5, "extra": False, "killed_step": 0}
    return [
        case("twelve saves from step 95 on", metrics=ups, keep=4, first=95, killed_save=0, **common),
        case("killed in the first save", metrics=ups[:2], keep=2, first=1, killed_save=1, **common),
        case("killed in the last of five, one more part", metrics=[0.5, 0.25, 1e-7, 3e5, 1e-5], keep=2, first=7,
             killed_save=5, **{**common, "extra": True, "killed_step": 4}),
    ]  # fmt: skip


# Right answers unlike the reference


class CheckpointerWithMetadata:
    """Keeps the metric in each file, and reads them to find the best."""

    def __init__(self, directory: Path, keep: int = 3) -> None:
        self.folder, self.keep = str(directory), keep

    def save(self, step: int, metric: float, **parts: Any) -> str:
        name = os.path.join(self.folder, f"checkpoint-{step}.pth")
        content: dict[str, Any] = {key: part.state_dict() for key, part in parts.items()}
        content["__extra__"] = [step, metric, random.getstate(), np.random.get_state(), torch.get_rng_state()]
        torch.save(content, name + ".part")
        os.rename(name + ".part", name)
        best = self.best()
        for old in self._all()[: -self.keep]:
            if old != best:
                os.remove(old)
        return name

    def _all(self) -> list[str]:
        names = [name for name in os.listdir(self.folder) if name.endswith(".pth")]
        return [os.path.join(self.folder, n) for n in sorted(names, key=lambda n: int(n.split("-")[1][:-4]))]

    def latest(self) -> str | None:
        return next(reversed(self._all()), None)

    def best(self) -> str | None:
        return min(self._all(), key=lambda name: torch.load(name, weights_only=False)["__extra__"][1], default=None)

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
        numbers = torch.tensor(np.array(keys).astype("int64"))
        torch.save([random.getstate(), numbers, torch.random.get_rng_state()], draft / "@rng")
        (draft / "@info.json").write_text(json.dumps({"step": step, "metric": metric, "numpy": [kind, *rest]}))
        place = self.directory / f"step={step}"
        draft.rename(place)
        for old in self._steps()[: -self.keep]:
            if old != self.best():
                doomed = old.with_name(f".old-{old.name}")
                old.rename(doomed)
                shutil.rmtree(doomed)
        return place

    def _steps(self) -> list[Path]:
        return sorted(self.directory.glob("step=*"), key=lambda p: int(p.name.split("=")[1]))

    def _info(self, path: Path) -> dict[str, Any]:
        return dict(json.loads((path / "@info.json").read_text()))

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
        self.dir, self.keep = Path(directory), keep

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
            os.replace(link, self.dir / "best")
        os.replace(draft, target)
        for old in self._newest()[self.keep :]:
            old.unlink()
        return target

    def _newest(self) -> list[Path]:
        return sorted(self.dir.glob("*.ckpt"), key=lambda p: p.stat().st_mtime_ns, reverse=True)

    def latest(self) -> Path | None:
        return next(iter(self._newest()), None)

    def best(self) -> Path | None:
        return next(self.dir.glob("best"), None)

    def load(self, path: Path, **parts: Any) -> dict[str, Any]:
        everything: dict[str, Any] = torch.load(path, weights_only=True)
        for name, part in parts.items():
            part.load_state_dict(everything["parts"][name])
        python, numpy = pickle.loads(everything["rng"])
        random.setstate(python)
        np.random.set_state(numpy)
        torch.set_rng_state(everything["torch"])
        return everything


RIGHT_ANSWERS: list[Callable[..., Any]] = [CheckpointerWithMetadata, CheckpointerOfFolders, CheckpointerWithBestBeside]
