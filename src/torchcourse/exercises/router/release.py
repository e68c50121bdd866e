"""The exercise `release`: its probe, visible cases and hints."""

from __future__ import annotations

import contextlib
import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from torchcourse.checking.probe import Watched
from torchcourse.exercises.persistence.export_onnx import ONNX
from torchcourse.model.exercise import Case, Draw, Exercise, Unattempted, case
from torchcourse.model.observations import Observations, raised
from torchcourse.probes.crash_points import in_a_folder
from torchcourse.probes.exporting import operators_known
from torchcourse.probes.observe import kind
from torchcourse.probes.savable_models import EXPORT, copy_of, untouched
from torchcourse.probes.trainable_models import with_detail

FOLDER = Path("releases/router")
FILES = ("config.json", "router.onnx", "vocab.json", "weights.pt")
BESIDE = "beside the folder"
OFF = 0.1
"""By how much a faulty export is off."""
OLD = {"router.onnx": "the old model", "vocab.json": "{}", "note.txt": "the old release"}


class Scoring(nn.Module):
    """The mean of real words' vectors and a head. In training mode the mean counts half.

    If `faulty` is "everywhere" its export differs from it, and if "nowhere a number" it gives NaN; if "elsewhere", its
    first logit differs at lengths other than `usual`; if "among others", all differ for numbers of tickets other than
    `rows`; if "refuses", it cannot be exported.
    """

    def __init__(self, words: Tensor, head: Tensor, faulty: str, usual: int, rows: int) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(*words.shape), nn.Linear(head.shape[1], head.shape[0])
        self.frozen = nn.Identity().eval()
        self.faulty, self.usual, self.rows = faulty, usual, rows
        with torch.no_grad():
            self.words.weight.copy_(words)
            self.head.weight.copy_(head)
            self.head.bias.zero_()

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        real = attention_mask.unsqueeze(-1).float()
        mean = (self.words(input_ids) * real).sum(1) / real.sum(1)
        logits: Tensor = self.head(self.frozen(0.5 * mean if self.training else mean))
        if self.faulty and (torch.compiler.is_exporting() or torch.jit.is_tracing()):  # type: ignore[no-untyped-call, attr-defined]
            if self.faulty == "refuses":
                raise RuntimeError("this model cannot be exported")
            length, count = (torch.ones_like(input_ids).sum(dim, keepdim=True)[:, :1] for dim in (1, 0))
            off = {"elsewhere": length != self.usual, "among others": count != self.rows}
            amount = float("nan") if self.faulty == "nowhere a number" else OFF
            wrong = logits + amount
            if self.faulty == "elsewhere":
                wrong = torch.cat([wrong[:, :1], logits[:, 1:]], dim=1)
            logits = torch.where(off.get(self.faulty, length > 0), wrong, logits)
        return logits


@in_a_folder
def probe(
    answer: Watched, words: Tensor, head: Tensor, faulty: str, old: bool, train: bool, rows: int, length: int,
    bound: float = 0.0,
) -> Observations:  # fmt: skip
    """Release a model, and observe the folder: what is in it, and what the ONNX file in it computes."""
    model = Scoring(words, head, faulty, length, rows).train(train)
    model.frozen.eval()
    before, vocab = copy_of(model), {f"word {n}": n for n in range(len(words))}
    config = {"classes": [f"class {n}" for n in range(len(head))], "max_len": 64}
    FOLDER.mkdir(parents=True) if old else FOLDER.parent.mkdir(parents=True)
    for name, text in OLD.items() if old else ():
        (FOLDER / name).write_text(text)
    with operators_known(), _watched_sessions() as (held, tried):
        error = _attempt(answer, model, vocab, config, _example(len(words), rows, length), FOLDER, bound)
    modes = [m.training for m in (model, model.words, model.head, model.frozen)]
    seen: Observations = {
        "raised by the call": error,
        "while ONNX ran, the folder was": held,
        "the file that ONNX ran was": tried,
        "modes afterwards": _modes(modes, [train, train, train, False]),
        "model afterwards": untouched(model, before),
        "beside the folder": [
            "a folder" if path.is_dir() else "a file" for path in FOLDER.parent.iterdir() if path != FOLDER
        ],
        "files": sorted(path.name for path in FOLDER.iterdir()) if FOLDER.is_dir() else "no folder",
    }
    if faulty == "refuses":  # any exception will do
        seen["raised by the call"] = "nothing" if error == "nothing" else "an exception"
    if faulty and bound < OFF:
        kept = FOLDER.is_dir() and {p.name: p.read_bytes().decode(errors="replace") for p in FOLDER.iterdir()} == OLD
        return {**seen, "the old release": "stands" if kept else "is gone" if old else "there was none"}
    seen["config.json"] = _json(FOLDER / "config.json", config)
    seen["vocab.json"] = _json(FOLDER / "vocab.json", vocab)
    seen["weights.pt"] = _weights(FOLDER / "weights.pt", before)
    return {**seen, **_results(FOLDER / "router.onnx", len(words), rows, length)}


def _example(vocab: int, rows: int, length: int) -> dict[str, Tensor]:
    ids = (torch.arange(rows * length).view(rows, length) * 7 + 3) % vocab
    return {"input_ids": ids, "attention_mask": torch.arange(length) < length - torch.arange(rows)[:, None] % length}


def _attempt(answer: Watched, *args: Any) -> Any:
    *given, bound = args
    try:
        answer(*given, **({"atol": bound} if bound else {}))
    except Unattempted:
        raise
    except ValueError as error:
        return with_detail("ValueError", str(error)[:160])
    except Exception as error:
        return raised(error)
    return "nothing"


@contextlib.contextmanager
def _watched_sessions() -> Iterator[tuple[list[str], list[str]]]:
    """Yield lists that say, for each session of ONNX Runtime begun in this block, what the folder was then, and where
    the file was that it ran."""
    import onnxruntime

    found: list[str] = []
    tried: list[str] = []
    real = onnxruntime.InferenceSession

    def session(*args: Any, **kwargs: Any) -> Any:
        new = (FOLDER / "weights.pt").exists() or ((FOLDER / "router.onnx").exists() and not _is_old())
        found.append("overwritten already" if new else "as before")
        tried.append(_place(args[0] if args else kwargs.get("path_or_bytes")))
        options = kwargs.setdefault("sess_options", onnxruntime.SessionOptions()) if len(args) < 2 else args[1]
        if options is not None:
            options.log_severity_level = 4
        return real(*(str(a) if isinstance(a, Path) else a for a in args), **kwargs)

    onnxruntime.InferenceSession = session
    try:
        yield found, tried
    finally:
        onnxruntime.InferenceSession = real


def _place(model: Any) -> str:
    """Say whether a file lies beside the folder, or in one that does; a model that was never written counts as such."""
    if not isinstance(model, str | Path):
        return BESIDE
    return BESIDE if FOLDER.parent.resolve() in Path(model).resolve().parents else "in another place"


def _is_old() -> bool:
    return (FOLDER / "router.onnx").read_bytes() == OLD["router.onnx"].encode()


def _modes(now: list[bool], before: list[bool]) -> str:
    if now == before:
        return "as before"
    return "all in eval" if not any(now) else "all in training" if all(now) else "others"


def _json(path: Path, wanted: Any) -> str:
    try:
        return "as given" if json.loads(path.read_text()) == wanted else "something else"
    except (OSError, ValueError) as error:
        return "missing" if isinstance(error, OSError) else "no JSON"


def _weights(path: Path, wanted: dict[str, Tensor]) -> str:
    try:
        found = torch.load(path, weights_only=True)
    except FileNotFoundError:
        return "missing"
    except Exception:
        return "nothing that torch.load reads with weights_only"
    same = isinstance(found, dict) and found.keys() == wanted.keys()
    return "the state_dict" if same and all(torch.equal(found[n], wanted[n]) for n in wanted) else kind(found)


def _results(path: Path, vocab: int, batch: int, usual: int) -> Observations:
    """Return logits of the ONNX file for batches of several sizes."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    seen: Observations = {}
    sizes = {"another batch size": (1, usual), "another length": (batch, usual + 2), "other sizes": (5, 3)}
    for what, (rows, length) in sizes.items():
        fed = {name: tensor.numpy() for name, tensor in _example(vocab, rows, length).items()}
        try:
            session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
            result: Any = torch.from_numpy(session.run(None, fed)[0].copy())
        except Exception as error:
            result = with_detail("refused or missing", textwrap.shorten(str(error), 120, placeholder="..."))
        seen[f"logits for {what}"] = result
    return seen


def derive(_case: Case, seen: Observations) -> Observations:
    """Reduce what the folder was while ONNX Runtime ran to one word."""
    held = seen["while ONNX ran, the folder was"]
    words = "ONNX never ran" if not held else held[0] if len(set(held)) == 1 else "overwritten already"
    tried = seen["the file that ONNX ran was"]
    place = next((each for each in tried if each != BESIDE), BESIDE)
    return {**seen, "while ONNX ran, the folder was": words, "the file that ONNX ran was": place}


def release_case(draw: Draw, name: str, *, faulty: str = "", old: bool = True, train: bool = False,
                 **more: float) -> Case:  # fmt: skip
    """Return a case with a model of drawn weights."""
    dim, words = draw.size(3, 5), draw.size(8, 12)
    return case(name, rtol=1e-3, atol=1e-4, words=draw.normal(words, dim), head=draw.normal(3, dim), faulty=faulty,
                old=old, train=train, rows=draw.size(2, 3), length=draw.size(4, 6), **more)  # fmt: skip


def cases(draw: Draw) -> list[Case]:
    return [
        release_case(draw, "the first release", old=False, train=True),
        release_case(draw, "in place of an old one"),
        release_case(draw, "an export that gives NaN", faulty="nowhere a number", train=True),
        release_case(draw, "an export with a wrong logit at other lengths", faulty="elsewhere", bound=0.05),
        release_case(draw, "an export that is wrong for another number of tickets", faulty="among others"),
        release_case(draw, "an export that fails", faulty="refuses", train=True),
        release_case(draw, "an export that is within a wide atol", faulty="everywhere", bound=0.5),
    ]


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"example": (inputs["rows"], inputs["length"])}
    fields |= {"files": seen["files"], "beside": seen["beside the folder"]}
    for name in seen:
        refused = getattr(seen[name], "message", "")
        if name.startswith("logits") and refused:
            fields |= {"sizes": name.removeprefix("logits for "), "refused": refused}
    return fields


EXERCISE = Exercise(
    "release",
    probe,
    cases,
    hints=(
        "At which moment may the old release go? Everything that can fail has to be over by then. Which block of "
        "Python runs whatever happens, for the mode and for what would be left lying about?",
        "`dynamic_shapes` has one entry per input: a dict from dimension to `torch.export.Dim.DYNAMIC`. Two of the "
        "dimensions vary. And with inputs of which sizes does a file show that it learned only the example's?",
        "`tempfile.mkdtemp(dir=directory.parent)` makes a folder on the same disk, and `Path.rename` moves a whole "
        "folder at once. What has to happen first to a folder that is already there?",
    ),
    any_device=False,
    derive=derive,
    quotes=quotes,
    seconds=60.0,
    imports=(*EXPORT, *ONNX),
)
