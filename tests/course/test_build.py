"""Building: malformed scripts are refused with line and remedy; what is built is always the same, and tells nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
import pytest
import torch

from autograde.course import store
from autograde.course.build import IMPORT_GUARD, source_notebook, table_version
from autograde.judge import oracle_cache
from autograde.judge.oracle import Oracle, oracle
from autograde.source import paths
from autograde.source.script import MalformedScriptError, read_script, rubrics
from torchcourse.model.catalogue import LESSONS, exercises
from torchcourse.model.exercise import case
from torchcourse.model.stored_observations import Stored, StoredMistake, Table

LESSON = "01_tensors"


@pytest.fixture
def script() -> str:
    return (paths.SOLUTIONS / f"{LESSON}.py").read_text()


def complaint(tmp_path: Path, text: str, name: str = LESSON) -> str:
    path = tmp_path / f"{name}.py"
    path.write_text(text)
    with pytest.raises(MalformedScriptError) as caught:
        read_script(path)
    assert str(caught.value).startswith(f"{path}:")
    return str(caught.value).removeprefix(f"{path}:")


def line_of(text: str, part: str) -> int:
    return next(n for n, line in enumerate(text.splitlines(), 1) if part in line)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('exercise="row_softmax"', 'exercise="row_softmx"', "unknown exercise row_softmx"),
        ('exercise="row_softmax"', 'exercise="one_hot"', "one_hot"),
        ('# %% check="row_softmax"\ncheck("row_softmax")\n', "", "has no check"),
        ('# %% check="row_softmax"', '# %% check="one_hot"', "does not follow its exercise"),
        ('check("row_softmax")\n', 'check("row_softmax"); print(1)\n', "nothing else"),
        ('exercise="row_softmax" points=2', 'exercise="row_softmax"', "needs points"),
        ('exercise="row_softmax" points=2', 'exercise="row_softmax" points=0', "needs points"),
        ('exercise="row_softmax" points=2', 'exercise="row_softmax" points=2 colour="red"', "unknown key 'colour'"),
        ('exercise="row_softmax" points=2', 'exercise="row_softmax" points=two', "cannot be read"),
        ('exercise="row_softmax" points=2', 'exercise="row_softmax", points=2', "cannot be read"),
        ("def row_softmax(", "def row_softmaxi(", "does not define it"),
        ('# %% check="row_softmax"', '# %%\n### BEGIN SOLUTION\n\n# %% check="row_softmax"', "name its exercise"),
    ],
)
def test_a_malformed_cell_is_refused_with_line_and_remedy(
    tmp_path: Path, script: str, old: str, new: str, says: str
) -> None:
    assert old in script
    text = complaint(tmp_path, script.replace(old, new))
    assert says in text
    assert re.match(r"\d+: .+; .+", text)


@pytest.mark.parametrize("marks", ["BEGIN", "END"])
def test_unbalanced_answer_markers_are_refused_at_their_cell(tmp_path: Path, script: str, marks: str) -> None:
    head, tail = script.split('exercise="one_hot"')
    spoilt = head + 'exercise="one_hot"' + tail.replace(f"    ### {marks} SOLUTION\n", "", 1)
    text = complaint(tmp_path, spoilt)
    assert text.startswith(f"{line_of(spoilt, 'one_hot' + chr(34) + ' points')}:")
    assert "one_hot needs one line" in text


def test_a_script_of_no_lesson_is_refused(tmp_path: Path, script: str) -> None:
    assert "no lesson is called 00_nothing" in complaint(tmp_path, script, "00_nothing")


@cache
def notebook(lesson: str) -> Any:
    return nbformat.read(paths.NOTEBOOKS / f"{lesson}.ipynb", as_version=4)


@pytest.mark.parametrize("lesson", LESSONS)
def test_grade_ids_and_check_cells_are_as_the_contract_says(lesson: str) -> None:
    marked = {c.metadata.nbgrader.grade_id: c for c in notebook(lesson).cells if "nbgrader" in c.metadata}
    cells = {name: cell for name, cell in marked.items() if cell.cell_type == "code"}
    assert marked.keys() - cells.keys() == set(rubrics(paths.SOLUTIONS / f"{lesson}.py"))
    for name in exercises(lesson):
        assert cells[name].metadata.nbgrader.solution
        assert not cells[name].metadata.nbgrader.grade
        assert cells[f"check_{name}"].metadata.nbgrader.grade
        assert cells[f"check_{name}"].metadata.nbgrader.points > 0
        assert cells[f"check_{name}"].source == f'check("{name}")'
    assert len(cells) == 2 * len(exercises(lesson))


@pytest.mark.parametrize("lesson", LESSONS)
def test_stubs_name_their_task_and_nothing_is_shown_yet(lesson: str) -> None:
    text = (paths.NOTEBOOKS / f"{lesson}.ipynb").read_text()
    assert "SOLUTION" not in text
    assert not [c for c in notebook(lesson).cells if c.get("outputs")]
    for name in exercises(lesson):
        assert f'raise Unattempted(\\"{name}\\")' in text


@pytest.mark.parametrize("lesson", LESSONS)
def test_code_fits_a_laptops_screen(lesson: str) -> None:
    lines = (paths.SOLUTIONS / f"{lesson}.py").read_text().splitlines()
    assert not [line for line in lines if len(line) > 88 and not line.startswith("#")]
    released = [
        line for cell in notebook(lesson).cells if cell.cell_type == "code" for line in cell.source.splitlines()
    ]
    assert not [line for line in released if len(line) > 88]


def sentences(cells: list[Any]) -> list[str]:
    """Return the sentences of 40 characters and more in the prose of a notebook, without its fenced examples."""
    prose = [re.sub(r"```.*?```", "", c.source, flags=re.DOTALL) for c in cells if c.cell_type == "markdown"]
    paragraphs = [" ".join(part.split()) for text in prose for part in re.split(r"\n\s*\n", text)]
    found = [sentence for part in paragraphs for sentence in re.split(r"(?<=[.:?!]) ", part)]
    return [sentence for sentence in found if len(sentence) >= 40]


@pytest.mark.parametrize("lesson", LESSONS)
def test_no_sentence_stands_twice_in_a_lesson(lesson: str) -> None:
    assert not [s for s, times in Counter(sentences(notebook(lesson).cells)).items() if times > 1]


@pytest.mark.parametrize("lesson", LESSONS)
def test_each_exercise_shows_an_example(lesson: str) -> None:
    prose = "\n\n".join(c.source for c in notebook(lesson).cells if c.cell_type == "markdown")
    statements = re.split(r"^### Exercise: ", prose, flags=re.MULTILINE)[1:]
    without = {text.split()[0] for text in statements if "```" not in re.split(r"^##", text, flags=re.MULTILINE)[0]}
    assert len(statements) == len(exercises(lesson))
    assert not without


def test_the_build_links_each_lesson_back_to_the_start_page() -> None:
    title = source_notebook("15_quizzes").cells[0].source
    assert title.startswith("# 15")
    assert title.endswith("(START.ipynb)")


def test_cell_ids_are_derived_and_unique() -> None:
    for lesson in LESSONS:
        ids = [cell.id for cell in notebook(lesson).cells]
        assert len(set(ids)) == len(ids)
        assert all(
            re.fullmatch(r"cell-[0-9a-f]{8}(-\d)?|about-\w+|exercise-\w+|check-\w+|question-\w+", i) for i in ids
        )


def test_an_added_cell_leaves_the_ids_of_all_others_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = [cell.id for cell in source_notebook("01_tensors").cells]
    script = (paths.SOLUTIONS / "01_tensors.py").read_text(encoding="utf-8")
    first, mark, rest = script.partition("\n# %%\n")
    (tmp_path / "01_tensors.py").write_text(f"{first}{mark}added = 1\n{mark}{rest}", encoding="utf-8")
    monkeypatch.setattr(paths, "SOLUTIONS", tmp_path)
    after = [cell.id for cell in source_notebook("01_tensors").cells]
    assert [i for i in after if i in before] == before
    assert len(after) == len(before) + 1


def test_a_build_runs_only_the_exercises_that_have_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "oracles", lambda lesson: (oracle(lesson, name) for name in ("row_softmax", "one_hot")))
    monkeypatch.setattr(paths, "STORED", tmp_path)
    monkeypatch.setenv("TORCHCOURSE_CACHE", str(tmp_path / "cache"))
    assert store.write("01_tensors")
    ran: list[str] = []
    run = Oracle.run

    def counted(oracle: Oracle, *args: Any, **how: Any) -> Any:
        ran.append(oracle.exercise.name)
        return run(oracle, *args, **how)

    monkeypatch.setattr(Oracle, "run", counted)
    assert not store.write("01_tensors")
    assert ran == []
    key = oracle_cache.observation_key
    monkeypatch.setattr(oracle_cache, "observation_key", lambda *which: key(*which) + "changed" * ("one_hot" in which))
    assert not store.write("01_tensors"), "what it does is the same"
    assert set(ran) == {"one_hot"}


def test_the_first_cell_says_what_to_install_where_the_course_is_missing() -> None:
    for lesson in LESSONS:
        first = next(cell.source for cell in source_notebook(lesson).cells if cell.cell_type == "code")
        assert first.startswith(IMPORT_GUARD), lesson
    bare = [sys.executable, "-I", "-S", "-c", first]  # neither the course nor torch
    done = subprocess.run(bare, capture_output=True, text=True, encoding="utf-8", check=False)
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ModuleNotFoundError: This lesson needs torchcourse: ")
    assert "pip install" in last


def test_the_wheel_holds_the_lessons_and_nothing_of_solutions_or_autograde(tmp_path: Path) -> None:
    source = tmp_path / "source"  # setuptools leaves a build folder where it builds
    subprocess.run(["git", "clone", "-q", str(paths.ROOT), str(source)], check=True)
    command = [sys.executable, "-m", "pip", "wheel", source, "--no-deps", "--no-build-isolation", "-w", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        texts = {n: archive.read(n).decode("utf-8", "replace") for n in names}
    assert any(n.endswith("stored/01_tensors.bin") for n in names)
    assert all(n.startswith(("torchcourse/", "torchcourse-")) for n in names)
    released = {f"torchcourse/notebooks/{p.name}": p.read_text("utf-8") for p in paths.NOTEBOOKS.glob("*.ipynb")}
    assert len(released) == len(LESSONS)
    assert {n: texts.pop(n) for n in released} == released  # they name exercises, and `generate` left no answer in them
    markers = ["BEGIN SOLUTION", "more_softmax", "def row_softmax("]
    assert not [(n, m) for n, text in texts.items() for m in markers if m in text]


def test_a_new_gradebook_gets_the_version_that_nbgraders_own_program_gives() -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    asked = subprocess.run(
        [sys.executable, "-c", "import nbgrader.api; print(nbgrader.api.get_alembic_version())"],
        capture_output=True, text=True, check=True, env={**os.environ, "PATH": path},
    )  # fmt: skip
    assert table_version() == asked.stdout.strip()


@pytest.mark.parametrize(
    ("reference", "mistake", "is_same"), [(0, 1e-5, True), (0, 1e-2, False), (1e-5, 0, False), (1e-13, 0, True)]
)
def test_what_is_stored_is_fresh_if_only_mistakes_differ_by_roundings(
    reference: float, mistake: float, is_same: bool
) -> None:
    def stored(reference: float, mistake: float) -> Stored:
        cases = [case("float64", rtol=1e-10, atol=1e-12)]
        wanted = Table([{"result": torch.tensor([2.0]).double() + reference}], [None])
        shows = Table([{"result": torch.tensor([3.0]).double() + mistake}], [None])
        return Stored(cases, wanted, [StoredMistake("off", "It is off.", "Offsets", shows)])

    assert store._same(stored(0, 0), stored(reference, mistake)) == is_same
