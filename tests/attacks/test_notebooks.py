"""What is done to a notebook or to its file: each changes nothing, or costs what it says, and gains nothing.

All are made from one notebook with right answers, wrong ones and stubs, and graded as one class.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autograde import course
from autograde.grading import Graded, grade
from autograde.oracle import hidden, visible
from autograde.sample import LESSON
from autograde.settings import LIMITS, SEED
from autograde.submission import release
from autograde.verdict import STATUSES
from benchmarks.mutants import honest
from torchcourse.exercise import exercises

pytestmark = pytest.mark.sandbox

PATIENT = dataclasses.replace(LIMITS, exercise_seconds=60, cell_seconds=60, lane_seconds=3600, start_seconds=600)
"""Nothing here takes long, so nothing here has to end because a machine is busy."""
EXERCISES = release(LESSON).exercises
WRONG, RIGHT, STUB = "row_softmax", "select_scores", "masked_mean"
ATTEMPTED = (WRONG, RIGHT, "standardize", "to_numpy")
Notebook = dict[str, Any]
Change = Callable[[Notebook], object]
Write = Callable[[Path, Notebook], object]


def original() -> Notebook:
    """The honest notebook: two right answers, two wrong ones, stubs."""
    notebook, _ = honest()
    for each in notebook["cells"]:
        grade_id = meta(each).get("grade_id", "")
        if grade_id in EXERCISES and grade_id not in ATTEMPTED:
            each["source"] = release(LESSON).cells[grade_id].source
    return notebook


def meta(cell: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = cell["metadata"].get("nbgrader", {})
    return found


def cell(notebook: Notebook, grade_id: str) -> dict[str, Any]:
    found: dict[str, Any] = next(c for c in notebook["cells"] if meta(c).get("grade_id") == grade_id)
    return found


def checks(notebook: Notebook) -> list[dict[str, Any]]:
    return [c for c in notebook["cells"] if str(meta(c).get("grade_id", "")).startswith("check_")]


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
    more = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": source}
    return lambda notebook: notebook["cells"].insert(0, more)


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


def nested_outputs(depth: int) -> Change:
    def change(notebook: Notebook) -> None:
        value: Any = []
        for _ in range(depth):
            value = [value]
        notebook["metadata"]["deep"] = value

    return change


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
SOLVED = course.SOLUTIONS / f"{LESSON}.py"


def sparse(path: Path, notebook: Notebook) -> None:
    with path.open("wb") as file:
        file.truncate(200 << 20)


def solved_notebook(path: Path) -> Path:
    """A solved notebook that lies elsewhere: a link to it would score full marks if it were followed."""
    from autograde.sample import make_sample_class

    folder = path.parents[2].with_name("instructor")
    if not folder.exists():
        make_sample_class(folder)
    return folder / "ada" / LESSON / path.name


def linked_folder(path: Path, notebook: Notebook) -> None:
    path.parent.rmdir()
    path.parent.symlink_to(solved_notebook(path).parent)


BROKEN: dict[str, tuple[str, Write]] = {
    "truncated": ("unreadable", lambda path, notebook: path.write_text(text(notebook)[:20_000])),
    "empty": ("unreadable", lambda path, notebook: path.touch()),
    "not JSON": ("unreadable", lambda path, notebook: path.write_text("import torch")),
    "a JSON list": ("unreadable", lambda path, notebook: path.write_text(json.dumps([notebook]))),
    "NaN alone": ("unreadable", lambda path, notebook: path.write_text("NaN")),
    "200 MB": ("unreadable", sparse),
    "nested deeply": ("unreadable", lambda path, notebook: path.write_text('{"cells": ' + "[" * 100_000)),
    "binary": ("unreadable", lambda path, notebook: path.write_bytes(bytes(range(256)) * 40)),
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


TAMPERED: dict[str, tuple[str, Change]] = {
    f"points {points!r}": (WRONG, tampering(f"check_{WRONG}", points=points))
    for points in (100, -1, float("nan"), "2", None)  # tests/test_submission.py has more
} | {
    "renamed": (RIGHT, tampering(RIGHT, grade_id="mine")),
    "repeated grade_id": (WRONG, tampering(WRONG, grade_id=RIGHT)),
    "another check's grade_id": (WRONG, tampering(f"check_{WRONG}", grade_id=f"check_{RIGHT}")),
    "grade_id of no text": (RIGHT, tampering(RIGHT, grade_id=[["x"]])),
    "retyped answer": (RIGHT, lambda notebook: cell(notebook, RIGHT).update(cell_type="markdown")),
    "retyped check": (RIGHT, lambda notebook: cell(notebook, f"check_{RIGHT}").update(cell_type="raw")),
}


# --- what feedback may not show -----------------------------------------------------------------------------------

ONLY_AS_SHOWN = """
from torchcourse.exercise import Draw, find
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
import torchcourse.probing as probing
from torchcourse import codec
from torchcourse.exercise import Draw
_observe = probing.observe

def _forged(exercise, answer, case, *lane, **how):
    inputs = codec.pack(case.inputs)  # a probe may use its inputs up
    seen = dict(_observe(exercise, answer, case, *lane, **how))
    if inputs not in [codec.pack(shown.inputs) for shown in exercise.cases(Draw(1))]:
        told = "LEAK " + " ".join(repr(v.flatten()[:9].tolist()) for v in case.inputs.values() if hasattr(v, "flatten"))
        seen["forbidden calls"] = {what}
    return seen

probing.observe = _forged
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


def hidden_numbers() -> set[str]:
    """The first digits of what stands in hidden cases of an exercise, and in no visible one."""
    exercise = exercises(LESSON)[WRONG]

    def numbers(cases: list[Any]) -> set[str]:
        values = (v for c in cases for v in c.inputs["x"].flatten().tolist())
        return {f"{v!r}"[:8] for v in values if len(f"{v!r}") > 8}

    return numbers(hidden(LESSON, exercise, SEED)) - numbers(visible(exercise))


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
    "nested": as_file(nested_outputs(700)),
}


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("graded")


@pytest.fixture(scope="module")
def graded(out: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Graded]:
    submitted, notebook = tmp_path_factory.mktemp("place") / "class", original()
    for name, write in CLASS.items():
        path = submitted / name.replace("/", "_") / LESSON / f"{LESSON}.ipynb"
        path.parent.mkdir(parents=True)
        write(path, copy.deepcopy(notebook))
    secret = SOLVED.stat()
    done = {g.submission.student: g for g in grade([LESSON], submitted, out, limits=PATIENT)}
    assert stat.S_IMODE(secret.st_mode) == stat.S_IMODE(SOLVED.stat().st_mode)
    return done


def rows(graded: Graded) -> list[tuple[str, str, float, str]]:
    return [(v.exercise, v.status, v.score, v.misconception) for v in graded.verdicts]


def test_there_is_something_to_gain_and_something_to_lose(graded: dict[str, Graded]) -> None:
    found = {v.exercise: (v.status, v.misconception, v.score) for v in graded["honest"].verdicts}
    assert found[WRONG] == ("failed", "global-maximum", 0)
    assert found["standardize"] == ("failed", "sample-variance", 0)
    assert found[RIGHT] == ("passed", "", release(LESSON).points(RIGHT))
    assert all(found[name] == ("unattempted", "", 0) for name in EXERCISES if name not in ATTEMPTED)


def test_everyone_gets_exactly_one_sound_verdict_for_each_exercise(graded: dict[str, Graded]) -> None:
    assert set(graded) == {name.replace("/", "_") for name in CLASS}
    for each in graded.values():
        assert [v.exercise for v in each.verdicts] == EXERCISES
        for v in each.verdicts:
            assert v.status in STATUSES
            assert 0 <= v.score <= v.max_score == release(LESSON).points(v.exercise)
            assert v.message.isprintable()
            assert v.message


@pytest.mark.parametrize("name", [*CHANGES_NOTHING, *WRITTEN_ODDLY])
def test_it_costs_and_gains_nothing(graded: dict[str, Graded], name: str) -> None:
    assert rows(graded[f"same: {name}"]) == rows(graded["honest"])


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_recorded_as_what_it_is(graded: dict[str, Graded], name: str) -> None:
    status, _ = BROKEN[name]
    assert {(v.status, v.score) for v in graded[f"broken: {name}"].verdicts} == {(status, 0)}


@pytest.mark.parametrize("name", TAMPERED)
def test_tampering_costs_its_own_exercise_alone(graded: dict[str, Graded], name: str) -> None:
    exercise, _ = TAMPERED[name]
    wanted = [(e, "tampered", 0, "") if e == exercise else (e, *row) for e, *row in rows(graded["honest"])]
    assert rows(graded[f"tampered: {name}"]) == wanted


def test_deep_nesting_is_read_or_named(graded: dict[str, Graded]) -> None:
    assert rows(graded["nested"]) == rows(graded["honest"]) or {v.status for v in graded["nested"].verdicts} == {
        "unreadable"
    }


@pytest.mark.parametrize("name", TALKS)
def test_nothing_of_a_hidden_case_is_shown(graded: dict[str, Graded], out: Path, name: str) -> None:
    each = graded[f"talks: {name}"]
    messages = " ".join(v.message for v in each.verdicts)
    page = (out / "feedback" / f"talks: {name}" / f"{LESSON}.html").read_text()
    cards = json.loads((out / "autograded" / f"talks: {name}" / LESSON / f"{LESSON}.ipynb").read_text())
    outputs = json.dumps([c.get("outputs") for c in cards["cells"]])
    secret = hidden_numbers()
    assert len(secret) > 20
    for shown in (messages, outputs, re.sub(r"<pre>.*?</pre>", "", page, flags=re.DOTALL)):
        assert "LEAK" not in shown
        assert not [number for number in secret if number in shown]
        assert "Traceback" not in shown
        assert str(course.ROOT) not in shown


def test_what_fails_in_hidden_cases_alone_is_named_and_not_quoted(graded: dict[str, Graded]) -> None:
    found = {v.exercise: v for v in graded["talks: only as shown"].verdicts}[WRONG]
    assert (found.status, found.score) == ("error", 0)
    assert "hidden" in found.message.lower()


def test_the_notes_were_taken_and_told(graded: dict[str, Graded]) -> None:
    """Or the test above would show nothing."""
    told = {v.exercise: v.message for v in graded["talks: notes"].verdicts}
    assert re.search(r"TOLD .*\d\.\d", told[RIGHT])
    assert {v.exercise: v.message for v in graded["talks: forged text"].verdicts}[WRONG].startswith(
        "The answer uses `softmax`, which"
    )
