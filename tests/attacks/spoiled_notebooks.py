"""What may be done to a notebook or to its file, by name: each kind is a table, and `CLASS` holds all of them."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from autograde.classroom.synthetic_class import SAMPLE_LESSON as LESSON
from autograde.classroom.synthetic_class import answered_notebook, code_cell, write_sample_class
from autograde.source import paths
from autograde.source.release import load_release
from tests.support.honest import honest
from torchcourse.model.notebook_file import find_cell, grade_id

EXERCISES = load_release(LESSON).exercises
WRONG, RIGHT, STUB = "row_softmax", "select_scores", "masked_mean"
ATTEMPTED = (WRONG, RIGHT, "standardize", "to_numpy")
Notebook = dict[str, Any]
Change = Callable[[Notebook], object]
Write = Callable[[Path, Notebook], object]


def original() -> Notebook:
    """The honest notebook: two right answers, two wrong ones, stubs."""
    full, _ = honest()
    return answered_notebook(LESSON, {name: cell(full, name)["source"] for name in ATTEMPTED})


def meta(cell: dict[str, Any]) -> Any:
    return cell["metadata"].get("nbgrader", {})


def cell(notebook: Notebook, name: str) -> Any:
    return find_cell(notebook, name)


def checks(notebook: Notebook) -> list[dict[str, Any]]:
    return [c for c in notebook["cells"] if grade_id(c).startswith("check_")]


def each_check(**values: Any) -> Change:
    return lambda notebook: [each.update(values) for each in checks(notebook)]


def each_meta(**values: Any) -> Change:
    return lambda notebook: [meta(each).update(values) for each in notebook["cells"] if meta(each)]


def tagged(*tags: str) -> Change:
    def change(notebook: Notebook) -> None:
        for each in notebook["cells"]:
            each["metadata"]["tags"] = [*each["metadata"].get("tags", []), *tags] if meta(each) else tags

    return change


def without_checks(notebook: Notebook) -> None:
    notebook["cells"] = [c for c in notebook["cells"] if c not in checks(notebook)]


def doubled(notebook: Notebook) -> None:
    notebook["cells"] = [copy.deepcopy(c) for c in notebook["cells"] for _ in range(2 if meta(c) else 1)]


def checks_first(notebook: Notebook) -> None:
    first = checks(notebook)
    notebook["cells"] = [*first, *(c for c in notebook["cells"] if c not in first)]


def first_cell(source: str) -> Change:
    return lambda notebook: notebook["cells"].insert(0, code_cell(source))


def before_answer(line: str) -> Change:
    def change(notebook: Notebook) -> None:
        for name in (RIGHT, WRONG):
            answer = cell(notebook, name)
            answer["source"] = line + "\n" + "".join(answer["source"])

    return change


def helper_elsewhere(notebook: Notebook) -> None:
    cell(notebook, RIGHT)["source"] = f"def {RIGHT}(scores, labels):\n    return _help(scores, labels)"
    first_cell("def _help(scores, labels):\n    return scores.gather(1, labels[:, None])[:, 0]")(notebook)


def hinted(notebook: Notebook) -> None:
    cell(notebook, RIGHT)["source"] = (
        "from torch import Tensor\n\n"
        f"def {RIGHT}(scores: 'Tensor', labels: \"Tensor\") -> Tensor:\n"
        "    rows: list[int] | None = None\n"
        "    return scores.gather(1, labels.unsqueeze(1)).squeeze(1)"
    )


CHANGES_NOTHING: dict[str, Change] = {
    "tags to skip and demo tags": tagged("skip-execution", "demo", "remove-cell"),
    "check cells emptied": each_check(source=""),
    "check cells that assert nothing": each_check(source="assert True"),
    "check cells that raise": each_check(source="raise SystemExit"),
    "check cells with outputs of their own": each_check(
        outputs=[{"output_type": "execute_result", "data": {"text/plain": "99"}, "metadata": {}, "execution_count": 1}]
    ),
    "check cells deleted": without_checks,
    "check cells first": checks_first,
    "graded cells doubled": doubled,
    "schema version 0": each_meta(schema_version=0),
    "schema version 99": each_meta(schema_version=99),
    "schema version of no number": each_meta(schema_version="three"),
    "unlocked, all solution, no grade": each_meta(locked=False, solution=True, grade=False, task=True),
    "a checksum": each_meta(checksum="0" * 32),
    "format 9": lambda notebook: notebook.update(nbformat=9, nbformat_minor=99),
    "no metadata": lambda notebook: [notebook.pop(key) for key in ("metadata", "nbformat", "nbformat_minor")],
    "NaN in the metadata": lambda notebook: notebook["metadata"].update(nan=float("nan"), inf=float("-inf")),
    "another kernel": lambda notebook: notebook["metadata"].update(kernelspec={"name": "ir", "language": "R"}),
    "no cell ids": lambda notebook: [c.pop("id", None) for c in notebook["cells"]],
    "warnings": first_cell("import warnings\nwarnings.warn('w')\nwarnings.simplefilter('always')"),
    "stderr and prints": first_cell("import sys\nprint('x' * 5000)\nprint('y', file=sys.stderr)"),
    "changed defaults": first_cell(
        "import torch\ntorch.set_default_dtype(torch.float64)\ntorch.manual_seed(7)\ntorch.set_num_threads(2)"
    ),
    "a default device": first_cell("import torch\ntorch.set_default_device('meta')"),
    "no gradients": first_cell("import torch\ntorch.set_grad_enabled(False)"),
    "deterministic algorithms": first_cell("import torch\ntorch.use_deterministic_algorithms(True)"),
    "magics": first_cell("%matplotlib inline\n!ls\n%time x = 1\nx?"),
    "a timed answer": before_answer("%%time"),
    "an answer that prints": before_answer("print('working')"),
    "a cell that raises": first_cell("1 / 0"),
    "a cell that is no Python": first_cell("this is no Python ("),
    "helpers elsewhere": helper_elsewhere,
    "type hints": hinted,
    "an exercise's name in prose": lambda notebook: notebook["cells"].append(
        {"cell_type": "markdown", "metadata": {}, "source": f"I gave up on {STUB}."}
    ),
}  # fmt: skip


def text(notebook: Notebook) -> str:
    return json.dumps(notebook, indent=1, ensure_ascii=False)


def with_accent(notebook: Notebook) -> str:
    cell(notebook, RIGHT)["source"] = "# d\xe9j\xe0 vu\n" + "".join(cell(notebook, RIGHT)["source"])
    return text(notebook)


def beside(path: Path, notebook: Notebook) -> None:
    path.write_text(text(notebook))
    for name in ("torch.py", "torchcourse.py", "sitecustomize.py", "data.csv", "grades.csv", "gradebook.db"):
        (path.parent / name).write_text("raise SystemExit")


def format_3(path: Path, notebook: Notebook) -> None:
    for each in notebook["cells"]:
        if each["cell_type"] == "code":
            each["input"] = each.pop("source")
    path.write_text(json.dumps({"nbformat": 3, "metadata": {}, "worksheets": [{"cells": notebook["cells"]}]}))


def hard_link(path: Path, notebook: Notebook) -> None:
    first = path.with_name("draft.ipynb")
    first.write_text(text(notebook))
    os.link(first, path)


WRITTEN_ODDLY: dict[str, Write] = {
    "BOM": lambda path, notebook: path.write_bytes(b"\xef\xbb\xbf" + text(notebook).encode()),
    "CRLF": lambda path, notebook: path.write_bytes(text(notebook).replace("\n", "\r\n").encode()),
    "latin-1": lambda path, notebook: path.write_bytes(with_accent(notebook).encode("latin-1", "replace")),
    "UTF-16": lambda path, notebook: path.write_bytes(text(notebook).encode("utf-16")),
    "format 3": format_3,
    "further files": beside,
    "hard link to a draft of one's own": hard_link,
    "unusual permissions": lambda path, notebook: (path.write_text(text(notebook)), path.chmod(0o777)),
}
ODD_NAME = "Copy \x1b[2J\n=1+1.ipynb"
SOLVED = paths.SOLUTIONS / f"{LESSON}.py"


def sparse(path: Path, notebook: Notebook) -> None:
    with path.open("wb") as file:
        file.truncate(200 << 20)


def solved_notebook(path: Path) -> Path:
    """A solved notebook that lies elsewhere: a link to it would score full marks if it were followed."""
    folder = path.parents[2].with_name("instructor")
    if not folder.exists():
        write_sample_class(folder)
    return folder / "ada" / LESSON / path.name


def linked_folder(path: Path, notebook: Notebook) -> None:
    path.parent.rmdir()
    path.parent.symlink_to(solved_notebook(path).parent)


BROKEN: dict[str, tuple[str, Write]] = {  # tests/judge/test_submission.py has more that is not a notebook
    "truncated": ("unreadable", lambda path, notebook: path.write_text(text(notebook)[:20_000])),
    "200 MB": ("unreadable", sparse),
    "symlink to the solution": ("unreadable", lambda path, notebook: path.symlink_to(SOLVED)),
    "symlink to a solved notebook": ("unreadable", lambda path, notebook: path.symlink_to(solved_notebook(path))),
    "symlink to itself": ("unreadable", lambda path, notebook: path.symlink_to(path)),
    "dangling symlink": ("unreadable", lambda path, notebook: path.symlink_to("/nowhere/at/all")),
    "linked folder": ("unreadable", linked_folder),
    "hard link to the solution": ("unreadable", lambda path, notebook: link_or_copy(SOLVED, path)),
    "FIFO": ("unreadable", lambda path, notebook: os.mkfifo(path)),
    "directory": ("unreadable", lambda path, notebook: path.mkdir()),
    "renamed": ("missing", lambda path, notebook: path.with_name(ODD_NAME).write_text(text(notebook))),
    "no file": ("missing", lambda path, notebook: None),
}


def link_or_copy(source: Path, path: Path) -> None:
    try:
        os.link(source, path)
    except OSError:  # another file system: what a hard link shows is the content, and so does a copy
        path.write_bytes(source.read_bytes())


def tampering(name: str, **values: Any) -> Change:
    return lambda notebook: meta(cell(notebook, name)).update(values)


TAMPERED: dict[str, tuple[str, Change]] = {  # tests/judge/test_submission.py has more
    "more points": (WRONG, tampering(f"check_{WRONG}", points=100)),
    "points of no number": (WRONG, tampering(f"check_{WRONG}", points="2")),
    "renamed": (RIGHT, tampering(RIGHT, grade_id="mine")),
    "repeated grade_id": (WRONG, tampering(WRONG, grade_id=RIGHT)),
    "another check's grade_id": (WRONG, tampering(f"check_{WRONG}", grade_id=f"check_{RIGHT}")),
    "grade_id of no text": (RIGHT, tampering(RIGHT, grade_id=[["x"]])),
    "retyped answer": (RIGHT, lambda notebook: cell(notebook, RIGHT).update(cell_type="markdown")),
    "retyped check": (RIGHT, lambda notebook: cell(notebook, f"check_{RIGHT}").update(cell_type="raw")),
}


# --- answers that try to tell hidden cases ---------------------------------------------------------------------

ONLY_AS_SHOWN = """
from torchcourse.model.catalogue import find
from torchcourse.model.exercise import Draw
SHOWN = [case.inputs["x"] for case in find("row_softmax")[1].cases(Draw(1))]

def row_softmax(x):
    at_home = x.detach().cpu()
    if any(at_home.shape == s.shape and torch.equal(at_home.double(), s.double()) for s in SHOWN):
        e = torch.exp(x - x.amax(dim=-1, keepdim=True))
        return e / e.sum(dim=-1, keepdim=True)
    raise ValueError("LEAK " + " ".join(map(repr, at_home.flatten().tolist())))
"""
NOTES_INPUTS = """
NOTES = []

def row_softmax(x):
    with open("/tmp/work/notes", "a") as file:
        file.write("NOTE " + " ".join(map(repr, x.detach().cpu().flatten().tolist()[:8])) + "\\n")
    NOTES.append(repr(x.detach().cpu().flatten().tolist()[:8]))
    e = torch.exp(x - x.amax(dim=-1, keepdim=True))
    return e / e.sum(dim=-1, keepdim=True)
"""
TELLS_NOTES = """
def {name}(*args, **kwargs):
    try:
        told = open("/tmp/work/notes").read()[-400:]
    except OSError:
        told = "nothing noted"
    raise ValueError("TOLD " + told + " ".join(NOTES)[-400:])
"""
FORGES = """
import torchcourse.checking.probe as probing
from torchcourse.model import codec
from torchcourse.model.exercise import Draw
_observe_first = probing.observe_first

def _forged(exercise, answer, case, *device, **how):
    inputs = codec.pack(case.inputs)  # a probe may use its inputs up
    seen = _observe_first(exercise, answer, case, *device, **how)
    if inputs in [codec.pack(shown.inputs) for shown in exercise.cases(Draw(1))]:
        return seen
    told = "LEAK " + " ".join(repr(v.flatten()[:9].tolist()) for v in case.inputs.values() if hasattr(v, "flatten"))
    return lambda: {**seen(), "forbidden calls": {what}}

probing.observe_first = _forged
"""
TALKS: dict[str, Change] = {
    "only as shown": lambda notebook: cell(notebook, WRONG).update(source=ONLY_AS_SHOWN),
    "notes": lambda notebook: [
        cell(notebook, WRONG).update(source=NOTES_INPUTS),
        *(cell(notebook, name).update(source=TELLS_NOTES.format(name=name))
          for name in ATTEMPTED if name != WRONG),
    ],
    "forged number": first_cell(FORGES.replace("{what}", "5")),
    "forged text": first_cell(FORGES.replace("{what}", "['softmax', told, 'torch.' + told]")),
    "forged nest": first_cell(FORGES.replace("{what}", "[[told], {told: 1}]")),
}  # fmt: skip


# --- the class ----------------------------------------------------------------------------------------------------


def as_file(change: Change) -> Write:
    def write(path: Path, notebook: Notebook) -> None:
        change(notebook)
        path.write_text(json.dumps(notebook))

    return write


CLASS: dict[str, Write] = {
    "honest": as_file(lambda notebook: None),
    **{f"same: {name}": as_file(change) for name, change in CHANGES_NOTHING.items()},
    **{f"same: {name}": write for name, write in WRITTEN_ODDLY.items()},
    **{f"broken: {name}": write for name, (_, write) in BROKEN.items()},
    **{f"tampered: {name}": as_file(change) for name, (_, change) in TAMPERED.items()},
    **{f"talks: {name}": as_file(change) for name, change in TALKS.items()},
    "nested": as_file(lambda notebook: notebook["metadata"].update(deep=json.loads("[" * 700 + "]" * 700))),
}
