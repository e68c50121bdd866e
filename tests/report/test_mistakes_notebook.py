"""The notebook of the most frequent mistakes: what it shows, and that nothing of a learner's acts in it."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import nbformat
import pytest
from markdown_it import MarkdownIt

from autograde.report.mistake_card import mistake_card
from autograde.report.mistakes_notebook import mistakes_notebook
from autograde.results.gradebook import Writer
from tests.support.commands import run_instructors
from tests.support.pages import HOSTILE, Page
from tests.support.reports import LESSON, write_answer, write_table


def test_the_ten_most_frequent_mistakes_are_shown_with_answer_message_and_section(tmp_path: Path) -> None:
    made = ["wrong-dim"] * 3 + ["overflow"] + [f"rare-{n}" for n in range(12)]
    write_table(tmp_path, [[f"ann.lee{n}", LESSON, "row_softmax", 0, 2, "failed", name, "Row 0 sums to `3`."]
                           for n, name in enumerate(made)])  # fmt: skip
    write_answer(tmp_path, "ann.lee0", "def row_softmax(x):\n    ann_y = '```'  # by Ann\n    return x.softmax(0)")
    target = tmp_path / "week.ipynb"
    status, output = run_instructors("report", tmp_path, "--mistakes", target)
    assert status == 0, output
    notebook = nbformat.read(target, 4)
    nbformat.validate(notebook)
    told = [cell.source for cell in notebook.cells if cell.id.startswith("mistake")]
    assert len(told) == 10
    assert told[0].startswith("## 1. wrong\\-dim\n\n3 learners, in `row_softmax` of lesson 01")
    for words in ("````python\n", "return x.softmax(0)", "> Row 0 sums to `3`\\.", "<summary>Read again: "):
        assert words in told[0]
    text = target.read_text()
    assert "ann" not in text.lower().replace("channel", "")
    stubs = [cell.source for cell in notebook.cells if cell.id == "answer-1"]
    setup = next(cell.source for cell in notebook.cells if cell.id == f"setup-{LESSON}-0")
    names = dict[str, object]()
    stub = stubs[0].rsplit("\n", 1)[0]
    exec(f"{setup}\n{stub}", names)  # the annotations are names it has
    assert callable(names["row_softmax"])
    assert stubs[0].endswith('check("row_softmax")')
    assert "x.softmax(0)" not in stubs[0], "what learners wrote is not run"
    assert not (tmp_path / "report.html").exists()
    assert "```" not in told[1], "an answer that is not there is not shown as `pass`"
    words = ["report", tmp_path, "--mistakes", target, "--lessons", "02_autograd"]
    assert run_instructors(*words) == (2, f"{target} exists, and may hold what a class wrote into it: choose another "
                                          "name, or delete it.\n")  # fmt: skip
    target.unlink()
    assert run_instructors(*words)[0] == 0
    assert "No mistakes of this class" in target.read_text()


def test_a_known_mistake_comes_with_the_card_that_it_gets(tmp_path: Path) -> None:
    write_table(tmp_path, [["ann", LESSON, "row_softmax", 0, 2, "failed", "wrong-dim", "Row 0 sums to 3."]])
    cells = {cell.id: cell for cell in nbformat.reads(mistakes_notebook(tmp_path), 4).cells}
    (output,) = cells["card-1"].outputs
    assert output.data == mistake_card("row_softmax", "wrong-dim")
    assert "> Row 0 sums to 3" in cells["mistake-1"].source
    assert "dimension" in output.data["text/plain"]
    assert cells["card-1"].source.endswith("show_mistake('row_softmax', 'wrong-dim')")
    assert mistake_card("row_softmax", "no-such-mistake") == mistake_card("no_such_exercise", "wrong-dim") == {}


def test_an_answer_that_uses_what_the_exercise_forbids_is_among_the_mistakes(tmp_path: Path) -> None:
    message = "The answer uses `torch.softmax`, which this exercise does not allow."
    write_table(tmp_path, [[name, LESSON, "row_softmax", 0, 2, "forbidden", "", message] for name in ("ann", "bob")])
    write_answer(tmp_path, "ann", "def row_softmax(x):\n    return torch.softmax(x, 1)")
    cells = {cell.id: cell for cell in nbformat.reads(mistakes_notebook(tmp_path), 4).cells}
    for words in ("## 1. forbidden\n\n2 learners", "return torch.softmax(x, 1)", "> The answer uses `torch.softmax`"):
        assert words in cells["mistake-1"].source
    assert "card-1" not in cells and "answer-1" in cells


def test_mistakes_since_a_day_and_when_lessons_were_handed_in_come_from_the_gradebook(tmp_path: Path) -> None:
    days = {"ann": datetime(2025, 11, 2, 12), "bob": datetime(2025, 11, 9, 12), "cy": datetime(9999, 12, 31, 23),
            "dan": datetime(1, 1, 1)}  # fmt: skip
    write_table(tmp_path, [[name, LESSON, "row_softmax", 0, 2, "failed", f"of-{name}", ""] for name in days])
    target = tmp_path / "week.ipynb"

    def made(since: str) -> tuple[int, str]:
        return run_instructors("report", tmp_path, "--mistakes", target, "--since", since)

    with Writer(tmp_path / "gradebook.db", [LESSON], tmp_path / "scratch") as writer:
        writer.book.update_or_create_assignment(LESSON, duedate="2025-11-08 12:00:00 UTC")
        for name, time in days.items():
            writer.book.add_student(name)
            writer.book.add_submission(LESSON, name, timestamp=time)
    status, said = made("2025-11-09")
    assert (status, "2 submissions have no time and are left out." in said) == (0, True), said
    assert "One mistake of this class since 2025-11-09" in target.read_text()
    assert "of\\\\-bob" in target.read_text()
    assert "of\\\\-ann" not in target.read_text()
    target.unlink()
    for since, says in {"2025-11-10": "Nothing was handed in since 2025-11-10; the latest is of 2025-11-09.",
                        "yesterday": "--since wants a day, such as 2026-11-20."}.items():  # fmt: skip
        assert made(since) == (2, f"{says}\n")
    assert not target.exists()
    assert run_instructors("report", tmp_path)[0] == 0
    page = (tmp_path / "report.html").read_text()
    assert f"{LESSON} 2, from 2025-11-02 to 2025-11-09, due 2025-11-08." in page
    assert "The time of 2 of 4 submissions is known" in page


@pytest.mark.parametrize("content", [None, b"", b"no gradebook"])
def test_without_a_gradebook_a_page_needs_no_times_and_a_day_is_refused(tmp_path: Path, content: bytes | None) -> None:
    write_table(tmp_path, [["ann", LESSON, "row_softmax", 0, 2, "failed", "wrong-dim", ""]])
    if content is not None:
        (tmp_path / "gradebook.db").write_bytes(content)
    refused = run_instructors("report", tmp_path, "--mistakes", tmp_path / "week.ipynb", "--since", "2025-11-05")
    assert refused[0] == 2
    assert ("has a time" in refused[1]) == (content is None), refused[1]
    status, said = run_instructors("report", tmp_path)
    assert (status, "Handed in over time" in (tmp_path / "report.html").read_text()) == (0, False), said


BACKTICKS = ["`a```<img src=x onerror=y>", "``[a](javascript:b)", "`` $x$", "`a``b``` <svg onload=x>"]
"""Code spans that do not end where a quick look would have it, with what would act behind them."""


@pytest.mark.parametrize(
    "text", [*HOSTILE, *BACKTICKS, "![x](http://e.org/x.png)", "[a](javascript:b)", "# h\n---\n$x$"]
)
def test_nothing_that_a_learner_wrote_acts(tmp_path: Path, text: str) -> None:
    write_table(tmp_path, [["bob", LESSON, "row_softmax", 0, 2, "failed", text, text]])
    notebook = nbformat.reads(mistakes_notebook(tmp_path), 4)
    told = "\n".join(cell.source for cell in notebook.cells if cell.id.startswith("mistake"))
    seen = Page(MarkdownIt("commonmark").render(told))
    assert seen.tags <= {"h2", "p", "code", "blockquote"}
    assert "$x$" not in told
