"""`torchcourse update`: a newer release of the lessons, with every answer and every cell of the learner's own kept."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

from tests.support.commands import run_command
from tests.support.working_copies import fill_disk
from torchcourse.model import lessons
from torchcourse.model.notebook_file import Cell, Notebook, WorkspaceError, cells, grade_id, read, source_of
from torchcourse.workspace import update, working_copy
from torchcourse.workspace.update import Merged, merge

ANSWER = "def one(x):\n    return x + 1"


def prose(place: int | str, source: str) -> Cell:
    name = place if isinstance(place, str) else f"cell-{place:03}"
    return {"cell_type": "markdown", "id": name, "metadata": {}, "source": source.splitlines(True)}


def code(place: int | str, source: str, *tags: str) -> Cell:
    metadata = {"tags": list(tags)} if tags else {}
    return {**prose(place, source), "cell_type": "code", "execution_count": None, "metadata": metadata, "outputs": []}


def stub(name: str, head: str = "") -> str:
    return f'{head or f"def {name}(x):"}\n    raise Unattempted("{name}")  # write it here, in place of this line'


def exercise(name: str, head: str = "") -> list[Cell]:
    known = {"schema_version": 3, "task": False}
    answer, check = code(f"exercise-{name}", stub(name, head)), code(f"check-{name}", f'check("{name}")')
    answer["metadata"] = {"nbgrader": {**known, "grade_id": name, "grade": False, "solution": True, "locked": False}}
    graded = {**known, "grade_id": f"check_{name}", "grade": True, "solution": False, "locked": True, "points": 2}
    check["metadata"] = {"deletable": False, "nbgrader": graded}
    return [answer, check]


def notebook(*found: Cell | list[Cell]) -> Notebook:
    flat = [cell for some in found for cell in (some if isinstance(some, list) else [some])]
    metadata = {"kernelspec": {"display_name": "Python 3", "name": "python3"}, "torchcourse": {"lesson": "01_small"}}
    return copy.deepcopy({"cells": flat, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5})


def old() -> Notebook:
    return notebook(
        prose(0, "# 1 · Small\n\nIt takes about an hour."),
        code(1, "import torch", "setup"),
        prose(2, "## First"),
        exercise("one"),
        code(5, "x = 3"),
        exercise("two"),
    )


def new() -> Notebook:
    """A prose cell more, so that all ids move; one stub changed, one demonstration changed, one exercise more."""
    first, setup, *_ = old()["cells"]
    return notebook(
        first,
        setup,
        prose(2, "New here"),
        prose(3, "## First"),
        exercise("one"),
        code(6, "x = 4"),
        exercise("two", "def two(x, y):"),
        exercise("three"),
    )


def sources(merged: Merged | Notebook) -> list[str]:
    found = merged.notebook if isinstance(merged, Merged) else merged
    nbformat.validate(nbformat.from_dict(found))
    return [source_of(cell) for cell in cells(found)]


def change(found: Notebook, name: str, source: str) -> Notebook:
    cell = next(cell for cell in found["cells"] if name in (grade_id(cell), cell["id"]))
    cell["source"] = source.splitlines(True)
    return found


def test_an_untouched_notebook_becomes_the_newer_release() -> None:
    assert merge(old(), old(), new()) == Merged(new())


def test_the_same_release_changes_nothing() -> None:
    mine = change(old(), "one", ANSWER)
    mine["cells"].insert(2, code("mine", "torch.ones(3)"))
    mine["cells"][1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": ["hi\n"]}]
    assert merge(mine, old(), old()).notebook == mine


def test_answers_stay_with_their_exercises_and_what_they_put_out() -> None:
    mine = change(old(), "one", ANSWER)
    mine["cells"][3].update(execution_count=7, outputs=[{"output_type": "stream", "name": "stdout", "text": "x"}])
    merged = merge(mine, old(), new())
    assert (merged.answers, merged.conflicts) == (["one"], [])
    cell = next(c for c in merged.notebook["cells"] if grade_id(c) == "one")
    assert source_of(cell) == ANSWER
    assert (cell["id"], cell["execution_count"], len(cell["outputs"])) == ("exercise-one", 7, 1)
    mine["cells"][3]["metadata"] = {}
    merged = merge(mine, old(), new())
    assert merged.answers == ["one"], "an answer without metadata is known by its id"
    assert sources(merged).count(ANSWER) == 1


def test_where_a_stub_changed_below_an_answer_both_are_there_until_the_learner_deletes_one() -> None:
    merged = merge(change(old(), "two", "def two(x):\n    return 2 * x"), old(), new())
    assert merged.conflicts == ["two"]
    found = sources(merged)
    place = found.index("def two(x):\n    return 2 * x")
    assert "def two(x, y):" in found[place - 1]
    assert "has changed" in found[place - 1]
    assert found[place + 1] == 'check("two")'
    once = merged.notebook
    assert merge(once, new(), new()).notebook == once
    newest = change(new(), "two", stub("two", "def two(x, y, z):"))
    (note,) = [source for source in sources(merge(once, new(), newest)) if "has changed" in source]
    assert "y, z" in note


def test_cells_of_the_learners_own_stay_where_they_were() -> None:
    mine = old()
    mine["cells"][5:5] = [code("a1", "one(3)"), code("a2", "one(4)")]
    mine["cells"].insert(0, code("top", "%load_ext autoreload"))
    mine["cells"].append(code("end", "two(1)"))
    found = sources(merge(mine, old(), new()))
    assert found[0] == "%load_ext autoreload"
    place = found.index('check("one")')
    assert found[place + 1 : place + 3] == ["one(3)", "one(4)"]
    assert found[found.index('check("two")') + 1] == "two(1)"


NOTED = "def one(x):\n    # perhaps add one?\n" + stub("one").splitlines()[1]


@pytest.mark.parametrize(
    ("cell", "source", "there", "gone"),
    [
        ("cell-005", "x = 30", ["x = 4", "x = 30"], "x = 3"),  # the release changed it too
        ("cell-002", "## First\n\nmy notes", ["## First\n\nmy notes"], "## First"),
        ("one", NOTED, [NOTED], stub("one")),
    ],
)
def test_what_the_learner_changed_stays_and_is_no_answer(cell: str, source: str, there: list[str], gone: str) -> None:
    merged = merge(change(old(), cell, source), old(), new())
    assert merged.answers == []
    assert set(there) <= set(sources(merged))
    assert gone not in sources(merged)


def test_a_cell_that_the_learner_deleted_stays_deleted_but_exercises_come_back() -> None:
    mine = old()
    mine["cells"] = [c for c in mine["cells"] if c["id"] not in ("cell-002", "exercise-one", "check-one")]
    found = sources(merge(mine, old(), new()))
    assert "## First" not in found
    assert stub("one") in found
    assert 'check("one")' in found


def test_an_answer_to_an_exercise_that_is_gone_becomes_a_cell_of_the_learners_own() -> None:
    without = notebook(*[c for c in new()["cells"] if not grade_id(c).endswith("one")])
    merged = merge(change(old(), "one", ANSWER), old(), without)
    assert merged.gone == ["one"]
    cell = next(c for c in merged.notebook["cells"] if source_of(c) == ANSWER)
    assert "nbgrader" not in cell["metadata"]
    assert 'check("one")' not in sources(merged)


def test_two_cells_that_hold_the_same_are_two() -> None:
    twice = notebook(code(0, "step()"), prose(1, "between"), code(2, "step()"))
    mine = copy.deepcopy(twice)
    mine["cells"].append(code("mine", "more"))
    assert merge(mine, twice, twice).notebook == mine
    changed = change(copy.deepcopy(mine), "cell-002", "step(2)")
    assert merge(changed, twice, twice).notebook == changed


def test_an_answer_cell_that_was_copied_or_became_prose_is_not_lost() -> None:
    mine = change(old(), "one", ANSWER)
    mine["cells"].insert(4, {**copy.deepcopy(mine["cells"][3]), "id": "copied", "source": ["def one(x): ..."]})
    assert {ANSWER, "def one(x): ..."} <= set(sources(merge(mine, old(), new())))
    mine = old()
    mine["cells"][3] = {**prose("exercise-one", "no idea yet"), "metadata": mine["cells"][3]["metadata"]}
    assert {"no idea yet", stub("one")} <= set(sources(merge(mine, old(), new())))


def test_where_the_old_release_is_not_known_answers_and_own_cells_stay_all_the_same() -> None:
    mine = change(change(old(), "one", ANSWER), "cell-005", "x = 30")
    mine["cells"].insert(5, code("a1", "one(3)"))
    merged = merge(mine, None, new())
    found = sources(merged)
    assert merged.answers == ["one", "two"]
    assert merged.conflicts == ["two"]  # whether its stub was an answer cannot be told
    assert ANSWER in found
    assert found[found.index('check("one")') + 1] == "one(3)"
    assert "x = 30" in found
    assert "New here" in found
    assert found.count("## First") == 1


def test_no_two_cells_have_one_id() -> None:
    mine = change(old(), "cell-005", "x = 30")
    mine["cells"].append(code("cell-003", "odd"))
    ids = [cell["id"] for cell in merge(mine, old(), new()).notebook["cells"]]
    released = [cell["id"] for cell in new()["cells"]]
    assert len(set(ids)) == len(ids)
    assert [each for each in ids if each in released] == released


@pytest.mark.parametrize("seed", range(20))
def test_whatever_the_learner_wrote_is_there_afterwards(seed: int) -> None:
    rng = random.Random(seed)
    base = rng.choice([old(), None])
    # Where the old release is not known, prose is taken for it
    changeable = {c["id"] for c in old()["cells"] if base or c["cell_type"] == "code"} - {"check-one", "check-two"}
    mine, written = old(), [f"# mine\nvalue_{number} = {rng.random()}" for number in range(4)]
    for number, source in enumerate(written):
        if rng.random() < 0.5:
            mine["cells"].insert(rng.randrange(len(mine["cells"]) + 1), code(f"own{number}", source))
        else:
            changed = rng.choice(sorted(changeable))
            changeable.remove(changed)
            change(mine, changed, source)
    rng.shuffle(mine["cells"])
    assert set(written) <= set(sources(merge(mine, base, new())))


# The command, on a course of one small lesson


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working copy `mine` of the lesson `01_small`, whose release then changes."""
    release = tmp_path / "release"
    release.mkdir()
    for module in (working_copy, lessons, update):
        monkeypatch.setattr(module, "released", lambda: {path.name: path for path in sorted(release.glob("*.ipynb"))})
    lessons.lessons.cache_clear()
    save(release / "01_small.ipynb", old())
    working_copy.copy_notebooks(tmp_path / "mine")
    save(tmp_path / "mine" / "01_small.ipynb", change(old(), "one", ANSWER))
    yield tmp_path
    lessons.lessons.cache_clear()


def save(path: Path, found: Notebook) -> None:
    path.write_text(json.dumps(found, indent=1), encoding="utf-8")


def test_update_brings_in_the_release_keeps_the_answer_and_the_old_notebook(course: Path) -> None:
    mine = course / "mine" / "01_small.ipynb"
    before = mine.read_text()
    status, output = run_command("update", course / "mine")
    assert (status, "has the newest" in output) == (0, True)
    assert mine.read_text() == before
    save(course / "release" / "01_small.ipynb", new())
    save(course / "release" / "02_more.ipynb", new())
    assert "newer release" in run_command("status", course / "mine")[1]
    status, output = run_command("update", course / "mine")
    assert status == 0
    assert "02_more.ipynb is new." in output
    assert "01_small.ipynb is updated: 1 answer kept." in output
    assert ANSWER in sources(json.loads(mine.read_text()))
    (kept,) = (course / "mine" / "aside").iterdir()
    assert kept.read_text() == before
    assert kept.name.startswith("01_small_2")
    assert "newer release" not in run_command("status", course / "mine")[1]
    assert "has the newest" in run_command("update", course / "mine")[1]


def test_a_notebook_that_is_not_whole_is_left_and_the_others_are_updated(course: Path) -> None:
    save(course / "release" / "02_more.ipynb", old())
    working_copy.copy_notebooks(course / "mine")
    half = json.dumps(old())[:300]
    (course / "mine" / "01_small.ipynb").write_text(half)
    for name in ("01_small", "02_more"):
        save(course / "release" / f"{name}.ipynb", new())
    status, output = run_command("update", course / "mine")
    assert status == 2
    assert "01_small.ipynb is not updated" in output
    assert "not a complete notebook" in output
    assert (course / "mine" / "01_small.ipynb").read_text() == half
    assert "New here" in (course / "mine" / "02_more.ipynb").read_text()


@pytest.mark.parametrize("written", [0, 1])
def test_a_full_disk_loses_nothing(course: Path, monkeypatch: pytest.MonkeyPatch, written: int) -> None:
    """Whether it is full from the start, or once the old notebook is kept aside."""
    save(course / "release" / "01_small.ipynb", new())
    mine = course / "mine" / "01_small.ipynb"
    before = mine.read_bytes()
    with monkeypatch.context() as patched:
        fill_disk(patched, after=written)
        status, output = run_command("update", course / "mine")
    assert (status, "No space left on device" in output) == (2, True)
    assert mine.read_bytes() == before
    assert [p.name for p in (course / "mine").rglob(".01*")] == []


def test_the_origin_stays_that_of_the_notebook_where_an_update_fails(
    course: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(course / "release" / "01_small.ipynb", new())

    def refused(*_: object) -> None:
        raise WorkspaceError("not today")

    with monkeypatch.context() as patched:
        patched.setattr(update, "rewrite", refused)
        assert run_command("update", course / "mine")[0] == 2
    assert working_copy.is_of_another_release(course / "mine", "01_small.ipynb")
    assert run_command("update", course / "mine")[0] == 0
    status, output = run_command("status", course / "mine" / "01_small.ipynb")
    assert (status, "is a file: name the folder" in output) == (2, True)


def test_a_deleted_exercise_comes_back_without_a_newer_release(course: Path) -> None:
    mine = course / "mine" / "01_small.ipynb"
    less = read(mine)
    less["cells"] = [cell for cell in less["cells"] if grade_id(cell) != "two"]
    save(mine, less)
    status, output = run_command("update", course / "mine")
    assert (status, "1 answer kept" in output) == (0, True)
    assert stub("two") in sources(read(mine))
    assert ANSWER in sources(read(mine))
    assert "has the newest" in run_command("update", course / "mine")[1]


def test_a_kept_release_that_is_not_whole_is_as_one_that_is_not_known(course: Path) -> None:
    save(course / "release" / "01_small.ipynb", new())
    origin = working_copy.origin(course / "mine", "01_small.ipynb")
    origin.write_text("{")
    status, output = run_command("update", course / "mine")
    assert (status, "is updated" in output) == (0, True)
    assert ANSWER in sources(read(course / "mine" / "01_small.ipynb"))
    assert origin.read_text() == (course / "release" / "01_small.ipynb").read_text()
