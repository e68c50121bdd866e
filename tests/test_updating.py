"""`torchcourse update`: a newer release of the lessons, with every answer and every cell of the learner's own kept."""

from __future__ import annotations

import copy
import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from typer.testing import CliRunner

from torchcourse import desk, lessons, progress, updating
from torchcourse.cli import app
from torchcourse.notebookfile import Cell, DeskError, Notebook, cells, grade_id, read, text
from torchcourse.updating import Merged, merge

ANSWER = "def one(x):\n    return x + 1"


def prose(place: int, source: str) -> Cell:
    return {"cell_type": "markdown", "id": f"cell-{place:03}", "metadata": {}, "source": source.splitlines(True)}


def code(place: int, source: str, *tags: str) -> Cell:
    metadata = {"tags": list(tags)} if tags else {}
    return {"cell_type": "code", "execution_count": None, "id": f"cell-{place:03}", "metadata": metadata,
            "outputs": [], "source": source.splitlines(True)}  # fmt: skip


def stub(name: str, head: str = "") -> str:
    return f'{head or f"def {name}(x):"}\n    raise Unattempted("{name}")  # write {name} here, in place of this line'


def exercise(name: str, head: str = "") -> list[Cell]:
    known = {"schema_version": 3, "task": False}
    answer = {**code(0, stub(name, head)), "id": f"exercise-{name}"}
    answer["metadata"] = {"nbgrader": {**known, "grade_id": name, "grade": False, "solution": True, "locked": False}}
    check = {**code(0, f'check("{name}")'), "id": f"check-{name}"}
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
    return notebook(
        prose(0, "# 1 · Small\n\nIt takes about an hour."),
        code(1, "import torch", "setup"),
        prose(2, "New here"),
        prose(3, "## First"),
        exercise("one"),
        code(6, "x = 4"),
        exercise("two", "def two(x, y):"),
        exercise("three"),
    )


def own(name: str, source: str) -> Cell:
    return {**code(0, source), "id": name}


def sources(merged: Merged | Notebook) -> list[str]:
    found = merged.notebook if isinstance(merged, Merged) else merged
    nbformat.validate(nbformat.from_dict(found))
    return [text(cell) for cell in cells(found)]


def change(found: Notebook, name: str, source: str) -> Notebook:
    cell = next(cell for cell in found["cells"] if name in (grade_id(cell), cell["id"]))
    cell["source"] = source.splitlines(True)
    return found


def test_an_untouched_notebook_becomes_the_newer_release() -> None:
    merged = merge(old(), old(), new())
    assert merged == Merged(new())


def test_the_same_release_changes_nothing() -> None:
    mine = change(old(), "one", ANSWER)
    mine["cells"].insert(2, own("mine", "torch.ones(3)"))
    mine["cells"][1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": ["hi\n"]}]
    assert merge(mine, old(), old()).notebook == mine


def test_answers_stay_with_their_exercises_and_what_they_put_out() -> None:
    mine = change(old(), "one", ANSWER)
    mine["cells"][3].update(execution_count=7, outputs=[{"output_type": "stream", "name": "stdout", "text": "x"}])
    merged = merge(mine, old(), new())
    assert (merged.answers, merged.conflicts) == (["one"], [])
    cell = next(c for c in merged.notebook["cells"] if grade_id(c) == "one")
    assert text(cell) == ANSWER
    assert (cell["id"], cell["execution_count"], len(cell["outputs"])) == ("exercise-one", 7, 1)


def test_where_a_stub_changed_below_an_answer_both_are_there() -> None:
    mine = change(old(), "two", "def two(x):\n    return 2 * x")
    merged = merge(mine, old(), new())
    assert merged.conflicts == ["two"]
    found = sources(merged)
    place = found.index("def two(x):\n    return 2 * x")
    assert "def two(x, y):" in found[place - 1]
    assert "has changed" in found[place - 1]
    assert found[place + 1] == 'check("two")'


def test_a_conflict_is_shown_until_the_learner_deletes_it_and_once() -> None:
    mine = change(old(), "two", "def two(x):\n    return 2 * x")
    once = merge(mine, old(), new()).notebook
    assert merge(once, new(), new()).notebook == once
    newest = change(new(), "two", stub("two", "def two(x, y, z):"))
    notes = [source for source in sources(merge(once, new(), newest)) if "has changed" in source]
    assert len(notes) == 1
    assert "y, z" in notes[0]


def test_a_stub_that_changed_replaces_one_that_was_left_alone() -> None:
    assert stub("two", "def two(x, y):") in sources(merge(old(), old(), new()))


def test_notes_in_a_stub_are_no_answer_and_stay() -> None:
    noted = "def one(x):\n    # perhaps add one?\n" + stub("one").splitlines()[1]
    merged = merge(change(old(), "one", noted), old(), new())
    assert merged.answers == []
    assert noted in sources(merged)


def test_cells_of_the_learners_own_stay_where_they_were() -> None:
    mine = old()
    mine["cells"].insert(5, own("a1", "one(3)"))
    mine["cells"].insert(6, own("a2", "one(4)"))
    mine["cells"].insert(0, own("top", "%load_ext autoreload"))
    mine["cells"].append(own("end", "two(1)"))
    found = sources(merge(mine, old(), new()))
    assert found[0] == "%load_ext autoreload"
    place = found.index('check("one")')
    assert found[place + 1 : place + 3] == ["one(3)", "one(4)"]
    assert found[found.index('check("two")') + 1] == "two(1)"


def test_a_demonstration_that_both_changed_is_there_twice() -> None:
    found = sources(merge(change(old(), "cell-005", "x = 30"), old(), new()))
    assert "x = 4" in found
    assert "x = 30" in found
    assert "x = 3" not in found


def test_a_demonstration_that_only_the_learner_changed_stays_hers() -> None:
    found = sources(merge(change(old(), "cell-002", "## First\n\nmy notes"), old(), new()))
    assert "## First\n\nmy notes" in found
    assert "## First" not in found


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
    cell = next(c for c in merged.notebook["cells"] if text(c) == ANSWER)
    assert "nbgrader" not in cell["metadata"]
    assert 'check("one")' not in sources(merged)


def test_two_cells_that_hold_the_same_are_two() -> None:
    twice = notebook(code(0, "step()"), prose(1, "between"), code(2, "step()"))
    mine = copy.deepcopy(twice)
    mine["cells"].append(own("mine", "more"))
    assert merge(mine, twice, twice).notebook == mine
    changed = change(copy.deepcopy(mine), "cell-002", "step(2)")
    assert merge(changed, twice, twice).notebook == changed


def test_a_copied_answer_cell_is_kept_too() -> None:
    mine = change(old(), "one", ANSWER)
    mine["cells"].insert(4, {**copy.deepcopy(mine["cells"][3]), "id": "copied", "source": ["def one(x): ..."]})
    found = sources(merge(mine, old(), new()))
    assert ANSWER in found
    assert "def one(x): ..." in found


def test_an_answer_without_metadata_is_known_by_its_id() -> None:
    mine = change(old(), "one", ANSWER)
    mine["cells"][3]["metadata"] = {}
    merged = merge(mine, old(), new())
    assert merged.answers == ["one"]
    assert sources(merged).count(ANSWER) == 1


def test_an_answer_cell_that_became_prose_is_not_lost() -> None:
    mine = change(old(), "one", "no idea yet")
    mine["cells"][3]["cell_type"] = "markdown"
    for key in ("outputs", "execution_count"):
        del mine["cells"][3][key]
    found = sources(merge(mine, old(), new()))
    assert "no idea yet" in found
    assert stub("one") in found


def test_where_the_old_release_is_not_known_answers_and_own_cells_stay_all_the_same() -> None:
    mine = change(change(old(), "one", ANSWER), "cell-005", "x = 30")
    mine["cells"].insert(5, own("a1", "one(3)"))
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
    mine["cells"].append({**own("cell-003", "odd"), "metadata": {}})
    merged = merge(mine, old(), new())
    ids = [cell["id"] for cell in merged.notebook["cells"]]
    assert len(set(ids)) == len(ids)
    assert [c["id"] for c in merged.notebook["cells"] if c["id"] in {c["id"] for c in new()["cells"]}] == [
        c["id"] for c in new()["cells"]
    ]


@pytest.mark.parametrize("seed", range(20))
def test_whatever_the_learner_wrote_is_there_afterwards(seed: int) -> None:
    import random

    rng = random.Random(seed)
    base = rng.choice([old(), None])
    # Where the old release is not known, prose is taken for it
    ids = {c["id"] for c in old()["cells"] if not text(c).startswith("check") and (base or c["cell_type"] == "code")}
    mine, written = old(), []
    for number in range(4):
        source = f"# mine\nvalue_{number} = {rng.random()}"
        written.append(source)
        if rng.random() < 0.5:
            mine["cells"].insert(rng.randrange(len(mine["cells"]) + 1), own(f"own{number}", source))
        else:
            changed = rng.choice(sorted(ids))
            ids.remove(changed)
            change(mine, changed, source)
    rng.shuffle(mine["cells"])
    found = sources(merge(mine, base, new()))
    assert [source for source in written if source not in found] == []


# The command, on a course of one small lesson


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working copy `mine` of the lesson `01_small`, whose release then changes."""
    release = tmp_path / "release"
    release.mkdir()
    for module in (desk, lessons, updating):
        monkeypatch.setattr(module, "released", lambda: release)
    lessons.lessons.cache_clear()
    save(release / "01_small.ipynb", old())
    desk.copy_notebooks(tmp_path / "mine")
    save(tmp_path / "mine" / "01_small.ipynb", change(old(), "one", ANSWER))
    yield tmp_path
    lessons.lessons.cache_clear()


def save(path: Path, found: Notebook) -> None:
    path.write_text(json.dumps(found, indent=1), encoding="utf-8")


def said(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, list(map(str, arguments)))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


def test_update_brings_in_the_release_keeps_the_answer_and_the_old_notebook(course: Path) -> None:
    mine = course / "mine" / "01_small.ipynb"
    before = mine.read_text()
    status, output = said("update", course / "mine")
    assert (status, "has the newest" in output) == (0, True)
    assert mine.read_text() == before
    save(course / "release" / "01_small.ipynb", new())
    save(course / "release" / "02_more.ipynb", new())
    assert "newer release" in said("status", course / "mine")[1]
    status, output = said("update", course / "mine")
    assert status == 0
    assert "02_more.ipynb is new." in output
    assert "01_small.ipynb is updated: 1 answer kept." in output
    assert ANSWER in sources(json.loads(mine.read_text()))
    (kept,) = (course / "mine" / "aside").iterdir()
    assert kept.read_text() == before
    assert kept.name.startswith("01_small_2")
    assert "newer release" not in said("status", course / "mine")[1]
    assert "has the newest" in said("update", course / "mine")[1]


def test_a_notebook_that_is_not_whole_is_left_and_the_others_are_updated(course: Path) -> None:
    save(course / "release" / "02_more.ipynb", old())
    desk.copy_notebooks(course / "mine")
    half = json.dumps(old())[:300]
    (course / "mine" / "01_small.ipynb").write_text(half)
    for name in ("01_small", "02_more"):
        save(course / "release" / f"{name}.ipynb", new())
    status, output = said("update", course / "mine")
    assert status == 2
    assert "01_small.ipynb is not updated" in output
    assert "not a whole notebook" in output
    assert (course / "mine" / "01_small.ipynb").read_text() == half
    assert "New here" in (course / "mine" / "02_more.ipynb").read_text()


@pytest.mark.parametrize("written", [0, 1])
def test_a_full_disk_loses_nothing(course: Path, monkeypatch: pytest.MonkeyPatch, written: int) -> None:
    """Whether it is full from the start, or once the old notebook is kept aside."""
    save(course / "release" / "01_small.ipynb", new())
    mine = course / "mine" / "01_small.ipynb"
    before, left, sync = mine.read_bytes(), [written], os.fsync

    def full(handle: int) -> None:
        if not left[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        left[0] -= 1
        sync(handle)

    monkeypatch.setattr(os, "fsync", full)
    status, output = said("update", course / "mine")
    assert status == 2
    assert "No space left on device" in output
    assert mine.read_bytes() == before
    monkeypatch.undo()
    assert [p.name for p in (course / "mine").rglob(".01*")] == []


def test_the_origin_stays_that_of_the_notebook_where_an_update_fails(
    course: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(course / "release" / "01_small.ipynb", new())

    def refused(*_: Any) -> None:
        raise DeskError("not today")

    with monkeypatch.context() as patched:
        patched.setattr(updating, "rewrite", refused)
        assert said("update", course / "mine")[0] == 2
    assert desk.is_of_another_release(course / "mine", "01_small.ipynb")
    assert said("update", course / "mine")[0] == 0
    assert progress.desk_of(course / "mine") == course / "mine"


def test_a_deleted_exercise_comes_back_without_a_newer_release(course: Path) -> None:
    mine = course / "mine" / "01_small.ipynb"
    less = read(mine)
    less["cells"] = [cell for cell in less["cells"] if grade_id(cell) != "two"]
    save(mine, less)
    status, output = said("update", course / "mine")
    assert (status, "1 answer kept" in output) == (0, True)
    assert stub("two") in sources(read(mine))
    assert ANSWER in sources(read(mine))
    assert "has the newest" in said("update", course / "mine")[1]


def test_a_kept_release_that_is_not_whole_is_as_one_that_is_not_known(course: Path) -> None:
    save(course / "release" / "01_small.ipynb", new())
    origin = desk.origin(course / "mine", "01_small.ipynb")
    origin.write_text("{")
    status, output = said("update", course / "mine")
    assert (status, "is updated" in output) == (0, True)
    assert ANSWER in sources(read(course / "mine" / "01_small.ipynb"))
    assert origin.read_text() == (course / "release" / "01_small.ipynb").read_text()


def test_a_notebook_in_place_of_the_folder_is_said(course: Path) -> None:
    status, output = said("status", course / "mine" / "01_small.ipynb")
    assert status == 2
    assert "is a file: name the folder" in output
