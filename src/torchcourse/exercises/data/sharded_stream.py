"""The exercise `ShardedStream`: its probe, visible cases and hints."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, Unattempted, case
from torchcourse.model.observations import Observations, Raised
from torchcourse.probes.data_loading import drain
from torchcourse.probes.observe import kind
from torchcourse.probes.trainable_models import with_detail


class Signed(IterableDataset[Any]):
    """A stream whose items come with the number of the worker that read them."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        worker = get_worker_info()
        for item in self.stream:
            yield (0 if worker is None else worker.id), item


def probe(
    answer: Watched, items: list[Any], world_size: int | None, workers: int, epochs: int
) -> dict[str, Any]:  # fmt: skip
    """Read the stream of each rank through a DataLoader with this many workers."""
    readers: list[Any] = []
    shares: list[Any] = []
    for rank in range(world_size or 1):
        stream = answer(list(items)) if world_size is None else answer(list(items), rank=rank, world_size=world_size)
        try:
            if not isinstance(stream, IterableDataset):
                return {"returned": f"{kind(stream)}, where an IterableDataset is wanted"}
            signed = drain(DataLoader(Signed(stream), batch_size=None, num_workers=workers), epochs)
            shares.append([[item for _, item in epoch] for epoch in signed])
            readers.append([[reader for reader, _ in epoch] for epoch in signed])
        except Unattempted:
            raise
        except Exception as error:
            name, last_line = type(error).__name__, str(error).strip().split("\n")[-1]  # of a worker's traceback
            return {"reading it": Raised(name, last_line.removeprefix(f"{name}: ")[:200], "while iterating")}
    return {"shares": shares, "readers": readers}


def derive(case: Case, seen: Observations) -> Observations:
    """Count what came, too often or not at all; the order is free."""
    if "shares" not in seen:
        return seen
    items, made = case.inputs["items"], dict[str, Any]()
    count = (case.inputs["world_size"] or 1) * max(1, case.inputs["workers"])
    fair = math.ceil(len(items) / count)
    for epoch in range(case.inputs["epochs"]):
        came = [item for share in seen["shares"] for item in share[epoch]]
        wanted, got = Counter[Any](items), Counter[Any](came)
        name = "" if epoch == 0 else f" in epoch {epoch + 1}"
        made[f"items that came{name}"] = len(came)
        made[f"items that are missing{name}"] = (wanted - got).total()
        made[f"items too many{name}"] = (got - wanted).total()
        most = max(
            Counter((rank, r) for rank, own in enumerate(seen["readers"]) for r in own[epoch]).values(), default=0
        )
        detail = f"{most} of {len(items)} items went to one of {count} readers"
        made[f"the largest share{name}"] = with_detail("fair" if most <= fair else "more than fair", detail)
    return made


def cases(draw: Draw) -> list[Case]:
    def stream(name: str, count: int, world_size: int | None, workers: int, epochs: int = 1) -> Case:
        items = [100 + 7 * i for i in range(count)]
        return case(name, items=items, world_size=world_size, workers=workers, epochs=epochs)

    return [
        stream("no workers, one rank", 7, None, 0, epochs=2),
        stream("no workers, three ranks", draw.size(10, 11), 3, 0),
        stream("two workers, one rank", draw.size(4, 5) * 2 + 1, None, 2),
        stream("two workers on each of two ranks", 11, 2, 2),
    ]


def quotes(inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {
        "count": len(inputs["items"]),
        "ranks": inputs["world_size"] or 1,
        "came": seen.get("items that came"),
        "missing": seen.get("items that are missing"),
        "extra": seen.get("items too many"),
        "error": seen.get("reading it"),
    }
    return {name: value for name, value in fields.items() if value is not None}


EXERCISE = Exercise(
    "ShardedStream",
    probe,
    cases,
    hints=(
        "Every worker gets a copy of the whole dataset and runs your `__iter__`. Which function of `torch.utils.data` "
        "tells the code in `__iter__` which worker it is, and what does it return where there are no workers?",
        "With r ranks of w workers each there are r * w readers in all. Number them from 0, each with a number of its "
        "own.",
        "Reader k of m takes items k, k + m, k + 2m and so on: `itertools.islice` does that. Which of rank and "
        "worker number has to be multiplied, and by what?",
    ),
    any_device=False,
    derive=derive,
    quotes=quotes,
)
