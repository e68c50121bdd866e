"""The exercise `Checkpointer`: its probe, visible cases and hints."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, Unattempted, case
from torchcourse.model.observations import Observations, Raised, raised
from torchcourse.probes.crash_points import copy_folder, crash_states, in_a_folder
from torchcourse.probes.observe import kind
from torchcourse.probes.resumable_training import Training, equal_nested
from torchcourse.probes.trainable_models import with_detail


@in_a_folder
def probe(
    answer: Watched, weight: Tensor, metrics: list[float], keep: int, first: int, killed_save: int, killed_step: int,
    later: int, extra: bool,
) -> Observations:  # fmt: skip
    """Train and save; see how the training goes on, also from what a death in a save and in a step would leave."""
    folder, store = Path("checkpoints"), Path("copies")
    folder.mkdir()
    store.mkdir()
    run = Training(weight, 1, extra)
    keeper = _keeper(answer, folder, keep)
    seen: Observations = {"before any save": [_place(keeper.latest()), _place(keeper.best())]}
    losses: list[float] = []
    states: list[dict[str, Any]] = []
    paths: list[Any] = []
    left: dict[str, list[Path]] = {}
    for number, metric in enumerate(metrics, 1):
        if number == killed_step:
            left["killed in a step"] = [store / "step"]
            copy_folder(folder, store / "step")
        losses.append(run.step())
        states.append(run.state())

        def save(step: int = first + number - 1, metric: float = metric) -> None:
            paths.append(keeper.save(step, metric, **run.parts()))

        if number == killed_save:
            left["killed in a save"] = crash_states(save, folder, _made(store / "save"))
        else:
            save()
        time.sleep(0.006)  # so that no two files have the same time, even by a coarse clock
    losses += [run.step() for _ in range(later)]
    returned = [kind(path) for path in paths if not isinstance(path, str | os.PathLike)]
    seen |= {"returned by save": returned[0] if returned else "paths", "losses": torch.tensor(losses).double()}
    if not returned:
        seen["still there"] = [number for number, path in enumerate(paths, 1) if Path(path).exists()]

    def resumed(place: Path, which: str, again: bool) -> Observations:
        return _resumed(_keeper(answer, place, keep), which, Training(0 * weight + 1, 2, extra), states, losses, again)

    for which in ("latest", "best"):
        seen[which] = resumed(folder, which, False)
    seen["the model alone"] = _model_alone(_keeper(answer, folder, keep), Training(0 * weight + 1, 2, extra))
    for label, places in left.items():
        seen[f"best, {label}"] = [resumed(place, "best", False) for place in places]
        seen[label] = [resumed(place, "latest", True) for place in places]  # last, because it writes there
    return seen


def _keeper(answer: Watched, folder: Path, keep: int) -> Any:
    """Return the answer's checkpointer on a folder; a `keep` of 0 leaves the default."""
    return answer(folder, keep=keep) if keep else answer(folder)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _place(path: object) -> str:
    return "None" if path is None else "a path" if isinstance(path, str | os.PathLike) else kind(path)


def _resumed(
    keeper: Any, which: str, run: Training, states: list[dict[str, Any]], losses: list[float], again: bool
) -> Observations:
    """Observe how a new process resumes from a folder: at which step, what was not restored, and every later loss."""
    try:
        path = getattr(keeper, which)()
        if path is None:
            return {"outcome": "there is nothing to go on from"}
        found = keeper.load(path, **run.parts())
    except Unattempted:
        raise
    except Exception as error:
        return {"outcome": "what was there could not be loaded", "because": raised(error)}
    step = int(run.model.steps)
    if not 1 <= step <= len(states):
        return {"outcome": "the model was not brought back"}
    now = run.state()
    lost = [name for name, state in states[step - 1].items() if not equal_nested(now[name], state)]
    went_on = torch.tensor([run.step() for _ in range(len(losses) - step)]).double()
    seen: Observations = {"outcome": "loaded", "step": step, "not restored": lost, "losses": went_on}
    return {**seen, "load returned": kind(found), **(_saves_again(keeper, run) if again else {})}


def _model_alone(keeper: Any, run: Training) -> Raised | str:
    """Describe whether the best model can be loaded without the other parts, as for using it."""
    try:
        keeper.load(keeper.best(), model=run.model)
    except Unattempted:
        raise
    except Exception as error:
        return with_detail("not loaded", f"{type(error).__name__}: {error}".splitlines()[0][:200])
    return "loaded" if int(run.model.steps) else "not loaded"


def _saves_again(keeper: Any, run: Training) -> Observations:
    """Describe whether a resumed run can save, and finds what it has saved."""
    run.step()
    steps = int(run.model.steps)
    try:
        keeper.save(1000 + steps, 0.01, **run.parts())
        run.step()
        keeper.load(keeper.latest(), **run.parts())
    except Exception as error:
        return {"saving again": raised(error).kind}
    return {"saving again": "works" if int(run.model.steps) == steps else "the old one is still the latest"}


def derive(case: Case, seen: Observations) -> Observations:
    """Describe what was left in the folder, found again and resumed."""
    metrics, keep = case.inputs["metrics"], case.inputs["keep"] or 3
    best = 1 + min(range(len(metrics)), key=metrics.__getitem__)
    newest = list(range(max(1, len(metrics) - keep + 1), len(metrics) + 1))
    tidy: Observations = {"before any save": seen["before any save"], "returned by save": seen["returned by save"]}
    if "still there" in seen:
        there = seen["still there"]
        tidy["newest that are gone"] = [n for n in newest if n not in there]
        tidy["older ones still there"] = [n for n in there if n not in newest and n != best]
    losses = seen["losses"]
    for which in ("latest", "best"):
        tidy |= {f"{which}(): {what}": outcome for what, outcome in _resumption(seen[which], losses).items()}
    tidy["the model alone"] = seen["the model alone"]
    for label in ("killed in a step", "killed in a save"):
        if label in seen:
            tidy[label] = sorted({_in_words(each, losses) for each in seen[label]})
            tidy[f"best(), {label}"] = sorted({_in_words(each, losses) for each in seen[f"best, {label}"]})
    return tidy


def _resumption(each: Observations, losses: Tensor) -> Observations:
    """Return the outcome of one resumption in the terms in which it is compared."""
    if each["outcome"] != "loaded":
        return {"outcome": each["outcome"]}
    return {
        "goes on after save": each["step"], "not restored": each["not restored"],
        "every later loss": _compared(each["losses"], losses[each["step"] :]), "load returned": each["load returned"],
    }  # fmt: skip


def _compared(losses: Tensor, wanted: Tensor) -> str:
    """Describe whether two series of losses are equal, bit for bit."""
    if losses.shape != wanted.shape:
        return "of another number"
    differ = (losses != wanted).nonzero()
    return f"different from later step {int(differ[0]) + 1} on" if len(differ) else "the same to the last bit"


def _in_words(each: Observations, losses: Tensor) -> str:
    outcome = _resumption(each, losses)
    if "outcome" in outcome:
        return str(outcome["outcome"])
    same_losses = "the same" if outcome["every later loss"].startswith("the same") else "other"
    saving = each.get("saving again", "works")
    then = "" if saving == "works" else f", but then saving fails: {saving}"
    return f"it goes on after save {outcome['goes on after save']} with {same_losses} losses{then}"


def cases(draw: Draw) -> list[Case]:
    falling = sorted((draw.size(1, 9) / 100 + n / 10 for n in range(1, 7)), reverse=True)
    weight = draw.normal(3, 2)
    common: dict[str, Any] = {
        "weight": weight, "keep": 2, "first": 1, "killed_save": 0, "killed_step": 0, "later": 4, "extra": False,
    }  # fmt: skip
    one, two, three, four, five, six = falling
    near = [0.25 + n * 1e-8 for n in (6, 1, 5, 4, 3, 2)]
    return [
        case("six saves, the second is the best", metrics=near, **{**common, "first": 999_998}),
        case("five saves, each better than the one before", metrics=[n - 0.35 for n in falling[:5]],
             **{**common, "keep": 0, "extra": True}),
        case("killed in the third save of four", metrics=[five, one, two, three],
             **{**common, "keep": 1, "killed_save": 3, "killed_step": 4}),
        case("killed in a save that is the best so far", metrics=[two, four, six],
             **{**common, "keep": 1, "killed_save": 3}),
    ]  # fmt: skip


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"keep": inputs["keep"] or 3}
    for which in ("latest", "best"):
        for what, field in (("goes on after save", "step"), ("not restored", "lost"), ("every later loss", "loss"),
                            ("outcome", "outcome")):  # fmt: skip
            name = f"{which}(): {what}"
            fields |= {f"{which}_{field}": seen[name]} if name in seen else {}
            fields |= {f"want_{which}_{field}": wanted[name]} if name in wanted else {}
    alone, lost = seen.get("the model alone"), seen.get("latest(): not restored")
    fields |= {"alone": alone.message} if isinstance(alone, Raised) else {}
    loss = seen.get("latest(): every later loss", "")
    fields["later"] = "this run was too short to show it" if loss.startswith("the same") else f"here they are {loss}"
    fields |= {"lost": ", ".join(lost)} if lost else {}
    fields |= {"gone": seen.get("newest that are gone"), "older": seen.get("older ones still there")}
    for label, field in (("killed in a save", "killed"), ("best(), killed in a save", "killed_best")):
        bad = [outcome for outcome in seen.get(label, []) if outcome not in wanted.get(label, [])]
        fields |= {field: bad[0]} if bad else {}
    return {name: value for name, value in fields.items() if value not in (None, [])}


EXERCISE = Exercise(
    "Checkpointer",
    probe,
    cases,
    hints=(
        "Everything that decides the next loss has to be in the file: the state of each part, and three generators of "
        "random numbers. Which functions read and set the states of `random`, of NumPy and of torch?",
        "A process may die between any two lines of `save`. What does the folder hold then? Write under another name, "
        "put it in place in one step, and only then delete what is too old.",
        "After a death there is a new object over an old folder: what it remembered is gone. How can a file's name say "
        "its step and its metric, and how do numbers sort as text?",
    ),
    any_device=False,
    derive=derive,
    quotes=quotes,
    imports=("torch._dynamo",),
)
