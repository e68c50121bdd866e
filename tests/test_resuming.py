"""A batch that is killed or interrupted, and the same command again: nothing lost, nothing graded twice.

What is killed here writes everything for real and examines nothing; `benchmarks/interrupted.py` does the same to whole
batches, and one of its trials is run at the end.
"""

from __future__ import annotations

import csv
import dataclasses
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from typer.testing import CliRunner

from autograde import commands, course, grading, journal
from autograde import gradebook as gradebook_module
from autograde.differences import preview
from autograde.grading import Graded, OverlapError, grade
from autograde.journal import BusyError, Journal
from autograde.settings import LIMITS, SEED
from autograde.submission import read_submission, release
from autograde.verdict import Verdict
from benchmarks.interrupted import recorded, tree
from tests.stand_ins import LESSON, Quick, submit

EXERCISES = release(LESSON).exercises
SOLVED = "def row_softmax(x):\n    return x.softmax(-1)"
EVERY = int(os.environ.get("TORCHCOURSE_KILL_EVERY", "11"))
"""A batch is killed at each so-manieth write; `make test-all` takes every one."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Quick, "log", tmp_path / "examined", raising=False)
    monkeypatch.setattr(grading, "Examiner", Quick)
    monkeypatch.setattr(grading, "blocker", lambda: "")


@pytest.fixture
def submitted(tmp_path: Path) -> Path:
    for student in ("ada", "ben", "cleo"):
        submit(tmp_path / "class", student, f"{SOLVED}  # {student}")
    submit(tmp_path / "class", "dan", None)
    return tmp_path / "class"


@pytest.fixture(scope="module")
def gradebook(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A gradebook without submissions: making it takes longer than all the rest."""
    folder = tmp_path_factory.mktemp("book")
    with grading.Writer(folder / "gradebook.db", [LESSON], folder / "scratch"):
        pass
    return folder / "gradebook.db"


@pytest.fixture
def out(tmp_path: Path, gradebook: Path) -> Path:
    return with_gradebook(tmp_path / "out", gradebook)


def with_gradebook(folder: Path, gradebook: Path) -> Path:
    folder.mkdir()
    shutil.copyfile(gradebook, folder / "gradebook.db")
    return folder


def examined() -> list[str]:
    """Who was examined since this was last asked."""
    names = Quick.log.read_text().split() if Quick.log.exists() else []
    Quick.log.unlink(missing_ok=True)
    return sorted(names)


def killed_at(count: int, submitted: Path, out: Path) -> bool:
    """Grade in a process that kills itself at its so-manieth step to the disk; False if it has fewer."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of forking while there are threads: the child uses none of them
        pid = os.fork()
    if pid == 0:
        try:
            sys.addaudithook(Killer(count, str(out)))
            grade([LESSON], submitted, out)
        finally:
            os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status in (0, -signal.SIGKILL)
    return status != 0


class Killer:
    """Counts what touches a folder, and kills this process when it has counted far enough."""

    def __init__(self, count: int, folder: str) -> None:
        from sqlalchemy import event
        from sqlalchemy.orm import Session

        self.count, self.folder = count, folder
        for moment in ("before_commit", "after_commit"):
            event.listen(Session, moment, self.step)

    def __call__(self, name: str, arguments: tuple[Any, ...]) -> None:
        writes = name in ("os.rename", "os.mkdir", "os.chmod") or (name == "open" and arguments[2] & os.O_WRONLY)
        if writes and str(arguments[0]).startswith(self.folder):
            self.step()

    def step(self, *session: object) -> None:
        self.count -= 1
        if self.count == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def test_killed_at_any_step_the_same_command_ends_in_the_same_bytes(
    submitted: Path, tmp_path: Path, gradebook: Path
) -> None:
    whole = with_gradebook(tmp_path / "whole", gradebook)
    grade([LESSON], submitted, whole)
    wanted = tree(whole), recorded(whole, LESSON)
    assert set(wanted[1]) == {(s, e) for s in ("ada", "ben", "cleo", "dan") for e in EXERCISES}
    step, trials = 1, 0
    while True:
        out = with_gradebook(tmp_path / f"out{step}", gradebook)
        examined()
        if not killed_at(step, submitted, out):
            break
        noted = {path.parent.name for path in out.glob("journal/*/*.json")}
        before = examined()
        grade([LESSON], submitted, out)
        again = examined()
        assert not noted & set(again), f"graded twice, killed at step {step}"
        assert set(before) | set(again) == {"ada", "ben", "cleo", "dan"}
        assert (tree(out), recorded(out, LESSON)) == wanted, f"killed at step {step}"
        step, trials = step + EVERY, trials + 1
    assert trials * EVERY > 40  # or this kills nothing worth it


def test_killed_while_it_makes_the_gradebook_it_makes_it_anew(submitted: Path, tmp_path: Path, out: Path) -> None:
    fresh = tmp_path / "fresh"
    assert killed_at(8, submitted, fresh)
    assert not (fresh / "gradebook.db").exists()
    grade([LESSON], submitted, fresh)
    grade([LESSON], submitted, out)
    assert (tree(fresh), recorded(fresh, LESSON)) == (tree(out), recorded(out, LESSON))


def test_what_is_known_is_not_examined_again_unless_asked(submitted: Path, out: Path) -> None:
    everyone = ["ada", "ben", "cleo", "dan"]
    grade([LESSON], submitted, out)
    first = tree(out)
    assert examined() == everyone
    grade([LESSON], submitted, out)
    assert examined() == []
    grade([LESSON], submitted, out, regrade=True)
    assert examined() == everyone
    assert tree(out) == first


@pytest.mark.parametrize(
    "change",
    [{"seed": 5}, {"limits": LIMITS.__class__(cell_seconds=9)}],
)
def test_another_seed_or_limit_is_another_run(submitted: Path, out: Path, change: dict[str, Any]) -> None:
    grade([LESSON], submitted, out)
    examined()
    grade([LESSON], submitted, out, **change)
    assert examined() == ["ada", "ben", "cleo", "dan"]


def test_only_who_submits_anew_is_examined_again(submitted: Path, out: Path) -> None:
    grade([LESSON], submitted, out)
    examined()
    submit(submitted, "ben", SOLVED + "  # better")
    grade([LESSON], submitted, out)
    assert examined() == ["ben"]


def test_a_gradebook_full_of_grades_is_not_generated_anew_without_need(
    submitted: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def generate(*arguments: object) -> None:
        raise AssertionError("generated")

    grade([LESSON], submitted, out)
    monkeypatch.setattr(gradebook_module, "generate", generate)
    grade([LESSON], submitted, out)
    cells = release(LESSON).cells
    changed = {**cells, "row_softmax": next(iter(cells.values()))}
    monkeypatch.setattr(gradebook_module, "release", lambda lesson: dataclasses.replace(release(lesson), cells=changed))
    with pytest.raises(AssertionError, match="generated"):
        grade([LESSON], submitted, out)


def test_lost_files_and_changed_scores_are_put_right_without_examining(submitted: Path, out: Path) -> None:
    from nbgrader.api import Gradebook

    grade([LESSON], submitted, out)
    wanted = tree(out), recorded(out, LESSON)
    examined()
    (out / "feedback" / "ada" / f"{LESSON}.html").unlink()
    (out / "autograded" / "ben" / LESSON / f"{LESSON}.ipynb").write_text("half")
    (out / "grades.csv").unlink()
    with Gradebook(f"sqlite:///{out / 'gradebook.db'}") as book:
        book.find_grade("check_row_softmax", LESSON, LESSON, "ada").auto_score = 100
        book.db.commit()
    grade([LESSON], submitted, out)
    assert (tree(out), recorded(out, LESSON)) == wanted
    assert examined() == []


def test_the_table_keeps_what_was_graded_before_of_other_lessons(submitted: Path, tmp_path: Path) -> None:
    """In the course's order, whichever was graded last; a preview compares what it is for, and no other."""
    other, out = "02_autograd", tmp_path / "out"

    def lessons() -> dict[str, list[str]]:
        with (out / "grades.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        names = ("ada", "dan")
        return {name: list(dict.fromkeys(row["lesson"] for row in rows if row["student"] == name)) for name in names}

    grade([other], submitted, out)
    assert lessons() == {"ada": [other], "dan": [other]}
    grade([LESSON], submitted, out)
    both = (out / "grades.csv").read_bytes()
    assert lessons() == {"ada": [LESSON, other], "dan": [LESSON, other]}
    grade([other], submitted, out)
    assert (out / "grades.csv").read_bytes() == both
    (submitted / "ada" / LESSON / f"{LESSON}.ipynb").unlink()
    with preview(out, [other], lambda new: grade([other, LESSON], submitted, new)) as (_, changed):
        assert changed == []


def test_a_comment_makes_that_page_anew_and_no_other(submitted: Path, out: Path) -> None:
    grade([LESSON], submitted, out)
    examined()
    before = tree(out)
    with warnings.catch_warnings(), gradebook_module.Gradebook(f"sqlite:///{out / 'gradebook.db'}") as book:
        warnings.simplefilter("ignore")
        book.find_comment("row_softmax", LESSON, LESSON, "ben").manual_comment = "Nicely done."
        book.find_grade("check_row_softmax", LESSON, LESSON, "ben").manual_score = 1.5
        book.db.commit()
    for _ in range(2):
        grade([LESSON], submitted, out)
        after = tree(out)
        changed = {path for path in after if after[path] != before[path]}
        assert changed == {f"feedback/ben/{LESSON}.html", f"journal/ben/{LESSON}.json"}
        assert examined() == []
    assert "Your instructor:</b> Nicely done." in (out / "feedback" / "ben" / f"{LESSON}.html").read_text()


@pytest.mark.parametrize("torn", ["", "{", "[]", "null", '{"key": "x"}', '{"key": 1, "verdicts": 2, "good": 3}'])
def test_a_torn_entry_is_no_entry(submitted: Path, out: Path, torn: str) -> None:
    grade([LESSON], submitted, out)
    wanted = tree(out)
    examined()
    (out / "journal" / "ada" / f"{LESSON}.json").write_text(torn)
    grade([LESSON], submitted, out)
    assert examined() == []  # what it came to is kept apart, by key
    assert tree(out) == wanted


@pytest.mark.parametrize("place", [".", "results", "ada/01_tensors"])
def test_results_are_never_kept_among_submissions(submitted: Path, place: str) -> None:
    with pytest.raises(OverlapError, match="elsewhere"):
        grade([LESSON], submitted, submitted / place)
    assert not (submitted / place / "journal").exists()


@pytest.mark.parametrize("place", ["journal", "autograded", "feedback/class"])
def test_submissions_are_not_taken_from_where_results_are_written(submitted: Path, out: Path, place: str) -> None:
    shutil.copytree(submitted, out / place)
    before = tree(out / place)
    with pytest.raises(OverlapError, match="elsewhere"):
        grade([LESSON], out / place, out)
    assert tree(out / place) == before


def test_an_entry_that_came_with_a_submission_is_not_believed(submitted: Path, out: Path, tmp_path: Path) -> None:
    grade([LESSON], submitted, out)
    shutil.copytree(out / "journal" / "ada", submitted / "eve" / "journal" / "eve")
    submit(submitted, "eve", None)
    done = {g.submission.student: g for g in grade([LESSON], submitted, out)}
    assert {v.status for v in done["eve"].verdicts} == {"unreadable"}


def test_two_graders_do_not_write_to_one_folder(submitted: Path, out: Path) -> None:
    with Journal(out / "journal"), pytest.raises(BusyError, match="Another grader"):
        grade([LESSON], submitted, out)
    assert len(grade([LESSON], submitted, out)) == 4


def test_after_an_interrupt_the_same_command_goes_on(
    submitted: Path, out: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupt(graded: Graded) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        grade([LESSON], submitted, out, progress=interrupt)
    examined()
    monkeypatch.setattr(grading, "feedback", interrupted(grading.feedback, after=1))
    arguments = ["grade", LESSON, "--submitted", str(submitted), "--out", str(out)]
    said = CliRunner().invoke(command(), arguments)
    assert said.exit_code == 130
    assert "2 of 4 submissions are recorded" in said.output
    assert "same command goes on" in said.output
    monkeypatch.undo()
    monkeypatch.setattr(grading, "Examiner", Quick)
    monkeypatch.setattr(Quick, "log", tmp_path / "examined", raising=False)
    assert len(grade([LESSON], submitted, out)) == 4


def command() -> Any:
    import typer

    app = typer.Typer()
    app.command("grade")(commands.grade)
    app.callback()(lambda: None)
    return app


def interrupted(function: Callable[..., str], after: int) -> Callable[..., str]:
    """`function`, which an interrupt hits when it has been called so often."""
    left = [after]

    def call(*arguments: Any) -> str:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        return function(*arguments)

    return call


# --- resubmissions ------------------------------------------------------------------------------------------------


def messages(done: list[Graded], student: str) -> dict[str, str]:
    return {v.exercise: v.message for g in done if g.submission.student == student for v in g.verdicts}


@pytest.mark.parametrize("how", ["broken", "missing"])
def test_a_broken_resubmission_names_the_last_good_score(submitted: Path, out: Path, how: str) -> None:
    grade([LESSON], submitted, out)
    path = submit(submitted, "ada", None)
    if how == "missing":
        path.unlink()
    done = grade([LESSON], submitted, out)
    said = messages(done, "ada")
    assert said["row_softmax"].endswith(" An earlier submission that could be read scored 2 of 2 here.")
    assert said["describe"].endswith(" An earlier submission that could be read scored 0 of 1 here.")
    assert {score for (student, _), score in recorded(out, LESSON).items() if student == "ada"} == {0}
    page = (out / "feedback" / "ada" / f"{LESSON}.html").read_text()
    assert "scored 2 of 2 here" in page
    once = tree(out)
    for again in ({}, {"regrade": True}):
        grade([LESSON], submitted, out, **again)
        assert tree(out) == once
    path.write_text("broken in another way")
    assert "scored 2 of 2 here" in messages(grade([LESSON], submitted, out), "ada")["row_softmax"]


def test_a_worse_submission_replaces_the_score_and_what_was_good(submitted: Path, out: Path) -> None:
    grade([LESSON], submitted, out)
    stub = release(LESSON).cells["row_softmax"].source
    submit(submitted, "ada", stub)
    grade([LESSON], submitted, out)
    assert recorded(out, LESSON)["ada", "row_softmax"] == 0
    submit(submitted, "ada", None)
    assert "earlier" not in messages(grade([LESSON], submitted, out), "ada")["row_softmax"]  # it scored nothing


def test_without_a_journal_the_gradebook_tells_the_last_good_score(submitted: Path, out: Path) -> None:
    grade([LESSON], submitted, out)
    shutil.rmtree(out / "journal")
    submit(submitted, "ada", None)
    for _ in range(2):  # also when the gradebook no longer has it
        assert "scored 2 of 2 here" in messages(grade([LESSON], submitted, out), "ada")["row_softmax"]


def test_who_never_submitted_anything_sound_is_told_of_no_earlier_score(submitted: Path, out: Path) -> None:
    for _ in range(2):
        assert "earlier" not in messages(grade([LESSON], submitted, out), "dan")["row_softmax"]


# --- what a verdict depends on ------------------------------------------------------------------------------------


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the course's secrets, for changing."""
    shutil.copytree(course.AUTOGRADE, tmp_path / "autograde", ignore=shutil.ignore_patterns("build", "__pycache__"))
    shutil.copytree(course.SOLUTIONS, tmp_path / "solutions")
    monkeypatch.setattr(course, "AUTOGRADE", tmp_path / "autograde")
    monkeypatch.setattr(course, "SOLUTIONS", tmp_path / "solutions")
    return tmp_path


@pytest.mark.parametrize(
    ("file", "old", "new", "changed"),
    [
        ("autograde/hidden/common.py", "import", "import ", ["01_tensors", "02_autograd"]),
        ("autograde/verdict.py", "def decide(", "def  decide(", ["01_tensors", "02_autograd"]),
        ("solutions/01_tensors.py", "amax(", "amax( ", ["01_tensors"]),
        ("solutions/01_tensors.py", "# ## ", "# ## About ", []),
    ],
)
def test_a_change_regrades_the_lessons_it_touches(
    copied: Path, file: str, old: str, new: str, changed: list[str]
) -> None:
    def prints() -> dict[str, str]:
        return {lesson: journal.fingerprint.__wrapped__(lesson) for lesson in ("01_tensors", "02_autograd")}

    before = prints()
    assert before == prints()
    text = (copied / file).read_text()
    assert old in text
    (copied / file).write_text(text.replace(old, new, 1))
    assert [lesson for lesson, now in prints().items() if now != before[lesson]] == changed


def test_the_key_is_of_the_cells_as_read_and_of_nothing_about_the_student(tmp_path: Path) -> None:
    def key(student: str, answer: str | None) -> str:
        return journal.key(read_submission(submit(tmp_path, student, answer), student, LESSON), SEED, LIMITS)

    assert key("ada", SOLVED) == key("ben", SOLVED)
    assert len({key("ada", SOLVED), key("ada", SOLVED + " "), key("ada", None)}) == 3


def test_new_hidden_cases_regrade_only_what_they_touch(copied: Path, tmp_path: Path) -> None:
    who_softens = read_submission(submit(tmp_path, "ada", SOLVED), "ada", LESSON)
    untouched = release(LESSON).cells["row_softmax"].source
    nobody = read_submission(submit(tmp_path, "eve", untouched), "eve", LESSON)

    def keys() -> list[str]:
        journal.secrets.cache_clear()
        return [journal.key(s, SEED, LIMITS) for s in (who_softens, nobody)]

    before = keys()
    hidden = copied / "autograde" / "hidden" / "tensors.py"
    text = hidden.read_text()
    hidden.write_text(text.replace("def describe(\n    t: Tensor,", "def describe(\n    t: Tensor, more: int = 0,", 1))
    assert hidden.read_text() != text
    assert keys() == before
    hidden.write_text(text.replace('"row_softmax": ', '"row_softmax": [] and ', 1))
    assert [now != then for now, then in zip(keys(), before, strict=True)] == [True, False]
    hidden.write_text(f"# a comment\n{text}")
    assert keys() == before
    journal.secrets.cache_clear()


# --- identical work -----------------------------------------------------------------------------------------------


def test_the_same_cells_are_examined_once_and_everybody_gets_the_verdicts(submitted: Path, out: Path) -> None:
    for student in ("fay", "gus", "hal"):
        submit(submitted, student, SOLVED)
    done = {g.submission.student: g.verdicts for g in grade([LESSON], submitted, out, workers=2)}
    seen = examined()
    assert [name for name in seen if name in ("ada", "ben", "cleo", "dan")] == ["ada", "ben", "cleo", "dan"]
    assert len(seen) == 5
    for student in ("fay", "gus", "hal"):
        assert {v.student for v in done[student]} == {student}
        assert recorded(out, LESSON)[student, "row_softmax"] == 2
        assert student in (out / "feedback" / student / f"{LESSON}.html").read_text()


def test_what_was_submitted_before_by_anybody_is_not_examined_again(submitted: Path, out: Path) -> None:
    path = submit(submitted, "ada", SOLVED)
    grade([LESSON], submitted, out)
    first, examined_first = path.read_text(), examined()
    submit(submitted, "ada", SOLVED + "  # again")
    submit(submitted, "eve", SOLVED)
    grade([LESSON], submitted, out)
    assert (examined_first, examined()) == (["ada", "ben", "cleo", "dan"], ["ada"])
    path.write_text(first)
    grade([LESSON], submitted, out)
    assert examined() == []
    assert recorded(out, LESSON)["eve", "row_softmax"] == 2


@pytest.mark.parametrize("status", sorted(grading.CHANCE))
def test_what_a_busy_machine_may_have_caused_is_not_handed_on(
    submitted: Path, out: Path, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdict = Quick.verdict
    monkeypatch.setattr(
        Quick, "verdict", lambda self, *of: dataclasses.replace(verdict(self, *of), status=status, score=0.0)
    )
    grade([LESSON], submitted, out)
    examined()
    submit(submitted, "eve", f"{SOLVED}  # ada")
    grade([LESSON], submitted, out)
    assert examined() == ["eve"]


def test_regrading_examines_the_same_cells_once_more_and_once_only(submitted: Path, out: Path) -> None:
    submit(submitted, "eve", f"{SOLVED}  # ada")
    grade([LESSON], submitted, out)
    examined()
    grade([LESSON], submitted, out, regrade=True)
    assert len(examined()) == 4


def test_regrading_believes_no_older_result_where_a_new_one_is_not_kept(
    submitted: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One worker, so the second of the same cells comes when the first is done."""
    grade([LESSON], submitted, out)
    submit(submitted, "zoe", f"{SOLVED}  # ada")
    examined()
    verdict = Quick.verdict
    monkeypatch.setattr(
        Quick, "verdict", lambda self, *of: dataclasses.replace(verdict(self, *of), status="timeout", score=0.0)
    )
    grade([LESSON], submitted, out, regrade=True)
    assert examined() == ["ada", "ben", "cleo", "dan", "zoe"]


@pytest.mark.parametrize("torn", ["", "[]", "null", "[[1, 2]]", '{"a": 1}'])
def test_a_torn_result_is_no_result(submitted: Path, out: Path, torn: str) -> None:
    grade([LESSON], submitted, out)
    wanted = tree(out)
    examined()
    for path in (out / "journal" / journal.RESULTS).rglob("*.json"):
        path.write_text(torn)
    shutil.rmtree(out / "journal" / "ada")
    grade([LESSON], submitted, out)
    assert examined() == ["ada"]
    assert tree(out)["grades.csv"] == wanted["grades.csv"]


def test_nothing_of_a_submission_stays_in_memory(submitted: Path, out: Path) -> None:
    assert all(not graded.submission.cells for graded in grade([LESSON], submitted, out))


@pytest.mark.sandbox
def test_a_whole_batch_that_is_killed_loses_nothing() -> None:
    command = [sys.executable, "-m", "benchmarks.interrupted", "--kills", "1", "--repeats", "1", "--students", "2"]
    said = subprocess.run(command, cwd=course.ROOT, capture_output=True, text=True, timeout=590, check=False)
    assert said.returncode == 0, said.stdout + said.stderr
    assert "the same bytes" in said.stdout


def test_a_submission_comes_into_the_gradebook_at_once_or_not_at_all(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [Verdict("ada", LESSON, name, 1.0, 1.0, "passed") for name in release(LESSON).exercises]
    with grading.Writer(out / "gradebook.db", [LESSON], tmp_path / "scratch") as writer:
        with monkeypatch.context() as patch:
            patch.setattr(writer, "_grades", lambda *_: {})
            with pytest.raises(KeyError):
                writer.write("ada", LESSON, found)
        assert writer.book.students == []
        assert writer.book.assignment_submissions(LESSON) == []
        writer.write("ada", LESSON, found)
    with grading.Writer(out / "gradebook.db", [LESSON], tmp_path / "scratch") as writer:
        assert writer.scores("ada", LESSON) == {verdict.exercise: 1.0 for verdict in found}


def test_a_submissions_rows_are_found_without_reading_all_others(out: Path, tmp_path: Path) -> None:
    asked: list[tuple[str, Any]] = []
    points = release(LESSON).points
    with grading.Writer(out / "gradebook.db", [LESSON], tmp_path / "scratch") as writer:
        engine = writer.book.db.get_bind()
        event.listen(engine, "before_cursor_execute", lambda _c, _cursor, say, values, *_: asked.append((say, values)))
        writer.write("ada", LESSON, [Verdict("ada", LESSON, n, points(n), points(n), "passed") for n in EXERCISES])
    questions = [(say, values) for say, values in asked if say.startswith("SELECT")]
    book = sqlite3.connect(out / "gradebook.db")
    steps = [row[3] for say, values in questions for row in book.execute(f"explain query plan {say}", values)]
    book.close()
    assert len(steps) > len(EXERCISES)
    everybodys = r"SCAN (grade|submitted_\w+)\b|SEARCH grade .*\(cell_id=\?\)|SEARCH submitted_\w+ .*\(notebook_id=\?\)"
    assert not [step for step in steps if re.match(everybodys, step)]
