"""The lesson's own examples run in grading only where a name is missing that they bind; then nothing is missing."""

from __future__ import annotations

import builtins
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from autograde.course.inline_source import bound_names
from autograde.judge.lesson_grader import LessonGrader
from autograde.judge.run_submission import MISSING
from autograde.judge.submission import Submission, read_submission
from autograde.judge.trial import trial_submission
from autograde.sandbox.sandbox import Sandbox
from autograde.source import paths
from autograde.source.release import load_release
from tests.support.solved import write_solved
from torchcourse.model.catalogue import LESSONS
from torchcourse.model.notebook_file import normalized

LESSON, NAME = "01_tensors", "row_softmax"


def solved(folder: Path, lesson: str, *cells: str, changed: tuple[str, str] = ("", "")) -> Submission:
    """A solved lesson with further cells at its end, and one text in place of another."""
    write_solved(folder, [lesson], 1)
    path = folder / "student000000" / lesson / f"{lesson}.ipynb"
    notebook = json.loads(path.read_text().replace(*changed) if changed[0] else path.read_text())
    notebook["cells"] += [{"cell_type": "code", "metadata": {}, "source": source} for source in cells]
    path.write_text(json.dumps(notebook))
    return read_submission(path, "student000000", lesson)


@pytest.mark.parametrize("lesson", LESSONS)
def test_setup_cells_and_answers_run_and_examples_do_not(tmp_path: Path, lesson: str) -> None:
    submission = solved(tmp_path, lesson)
    running = submission.cells_to_run()
    assert {cell.grade_id for cell in running if cell.grade_id} == set(submission.release.exercises)
    others = [cell.source for cell in running if not cell.grade_id]
    assert len(others) == 1 and "import torch" in others[0]
    everything = submission.cells_to_run(frozenset({*submission.release.examples, *submission.release.demos}))
    assert everything == [cell for cell in submission.cells if cell.runs]


@pytest.mark.parametrize("lesson", LESSONS)
def test_no_example_binds_a_builtin_or_what_setup_binds(lesson: str) -> None:
    """Else a cell would find another value in grading than in the notebook, and no name would be missing."""
    release = load_release(lesson)
    code = [cell for cell in release.notebook["cells"] if cell["cell_type"] == "code"]
    setup = "".join("".join(cell["source"]) for cell in code if "setup" in cell["metadata"].get("tags", ()))
    bound = frozenset[str]().union(*release.examples.values(), *release.demos.values())
    assert bound & (bound_names(setup) | set(dir(builtins))) == set()
    others = ["".join(c["source"]) for c in code if "setup" not in c["metadata"].get("tags", ())]
    assert {source for source in others if source[0] in "%!"} == {"%load_ext torchcourse"}  # which binds nothing


def test_an_example_that_was_changed_is_the_learners_own_cell(tmp_path: Path) -> None:
    before = solved(tmp_path / "before", LESSON).cells_to_run()
    after = solved(tmp_path / "after", LESSON, changed=("torch.eye(3)", "torch.eye(4)")).cells_to_run()
    assert len(after) == len(before) + 1


def binding(names: dict[str, frozenset[str]]) -> tuple[str, str]:
    """A name that one of these cells alone binds, and the cell."""
    cell, name = next(
        (cell, name) for cell, bound in names.items() for name in sorted(bound)
        if sum(name in other for other in names.values()) == 1
    )  # fmt: skip
    return name, cell


def test_which_cells_run_where_a_name_is_missing() -> None:
    release = load_release("09_persistence")
    name, _ = binding(release.examples)
    examples = frozenset(release.examples)
    assert release.examples_to_run(name, frozenset()) == examples
    assert release.examples_to_run("bound_by_none", frozenset()) == frozenset()
    only_demos = {c: n - frozenset[str]().union(*release.examples.values()) for c, n in release.demos.items()}
    name, demo = binding(only_demos)
    assert release.examples_to_run(name, frozenset()) == examples | {demo}
    assert release.examples_to_run(name, examples | {demo}) == examples | {demo}, "nothing else helps"


@pytest.mark.parametrize(
    ("error", "name"),
    [
        ("area(2)", "area"), ("del area", "area"), ("torch.ops.lesson8.doubled(1)", "doubled"),
        ("import __main__; __main__.area", "area"), ("torch.area", None), ("int('area')", None),
    ],
)  # fmt: skip
def test_what_python_says_of_a_missing_name_is_understood(error: str, name: str | None) -> None:
    import torch

    with pytest.raises((NameError, AttributeError, ValueError)) as caught:
        exec(error, {"torch": torch, "__name__": "__main__"})
    match = MISSING.search(str(caught.value).encode())
    assert (match and (match[1] or match[2]).decode()) == name


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with closing(Sandbox(number=25)) as made:
        yield made


@pytest.fixture(scope="module")
def grader(sandbox: Sandbox) -> LessonGrader:
    made = LessonGrader(LESSON)
    made.grade(sandbox, trial_submission(LESSON))  # with this it has tried its own right answer
    return made


ANSWERS = {
    "an answer uses an example's name": "right = row_softmax\ndef row_softmax(x):\n    {example}\n    return right(x)",
    "an answer uses a demo's name": "right = row_softmax\ndef row_softmax(x):\n    {demo}\n    return right(x)",
    "a cell uses an example's name": "row_softmax = ({example}, row_softmax)[1]",
    "a cell misses a name of its own": "unknown_to_anybody",
}


@pytest.mark.sandbox
@pytest.mark.parametrize(("how", "runs"), [(how, 1 + (1 if "uses" in how else 0)) for how in ANSWERS])
def test_a_name_from_a_cell_above_is_there(
    tmp_path: Path, sandbox: Sandbox, grader: LessonGrader, how: str, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = load_release(LESSON)
    shown = frozenset[str]().union(*release.examples.values())
    example, _ = binding(release.examples)
    demo, _ = binding({cell: names - shown for cell, names in release.demos.items()})
    submission = solved(tmp_path, LESSON, ANSWERS[how].format(example=example, demo=demo))
    begun: list[Any] = []
    job = sandbox.job
    monkeypatch.setattr(sandbox, "job", lambda device, *rest: begun.append(device) or job(device, *rest))
    verdict = next(v for v in grader.grade(sandbox, submission).verdicts if v.exercise == NAME)
    assert verdict.status == "passed", verdict.message
    assert begun == ["cpu"] * runs + ["simulated"]


def test_normalized_examples_are_different() -> None:
    for lesson in LESSONS:
        code = [c for c in json.loads((paths.NOTEBOOKS / f"{lesson}.ipynb").read_text())["cells"]
                if c["cell_type"] == "code" and not c["metadata"].get("nbgrader")]  # fmt: skip
        assert len({normalized("".join(c["source"])) for c in code}) == len(code)
