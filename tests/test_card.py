"""The card: what stands on it beside the outcome, for who looks, who listens and who has no widgets."""

from __future__ import annotations

import dataclasses
import json
import linecache
import os
import tomllib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from tools.selfstudy import lay_out
from torchcourse import card, hints, references, working_copy
from torchcourse.beside import Beside, beside
from torchcourse.checking import examine
from torchcourse.exercise import LESSONS, Exercise, exercises, find
from torchcourse.references import Reference, pack, reference
from torchcourse.reporting import Report

ROOT = Path(__file__).parents[1]
ONE_HOT = exercises("01_tensors")["one_hot"]


def right(x: Tensor) -> Tensor:
    return (x - x.logsumexp(-1, keepdim=True)).exp()


@pytest.fixture(scope="module")
def failed() -> Report:
    return examine("row_softmax", {"row_softmax": lambda x: right(x.movedim(0, -1)).movedim(-1, 0)})


@pytest.fixture(scope="module")
def passed() -> Report:
    return examine("row_softmax", {"row_softmax": right})


@pytest.fixture(autouse=True)
def nothing_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hints, "_asked", {})
    monkeypatch.setattr(hints, "_buttons", {})


class Page(HTMLParser):
    """The elements of a page with their attributes, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


# --- looking and listening ---------------------------------------------------------------------------------------


def test_the_outcome_comes_first(failed: Report) -> None:
    assert card.as_text(failed).startswith("row_softmax: Not right yet.")
    page = Page(card.as_html(failed).partition("</style>")[2])
    assert page.text.startswith("Not right yet · row_softmax")


def test_every_picture_has_words_and_every_column_a_header(failed: Report) -> None:
    page = Page(card.as_html(failed))
    assert len(page.all("svg")) == 3
    labels = [str(svg["aria-label"]) for svg in page.all("svg") if svg["role"] == "img"]
    assert [label.partition(":")[0] for label in labels] == ["came out", "wanted", "where they differ"]
    assert "is wanted" in labels[2]
    assert {th.get("scope") for th in page.all("th")} == {"col", "row"}
    assert "✗failed" in page.text and "✓passed" in page.text


def test_a_card_takes_its_colours_from_the_theme() -> None:
    for name in ("--jp-border-color1", "--jp-content-font-color1", "--jp-brand-color1"):
        assert f"var({name}," in card.STYLE  # with a colour for pages that have none of JupyterLab's


def test_a_link_names_its_heading_as_jupyterlab_and_nbconvert_do() -> None:
    from nbconvert.filters import add_anchor

    for heading in ("Reductions", "Detach, clone and .data", "ONNX: a program for other runtimes", 'A "half" & more'):
        (link,) = Page(card._section(heading)).all("a")
        (made,) = Page(add_anchor(f"<h2>{heading.replace('&', '&amp;')}</h2>")).all("h2")
        assert link["href"] == f"#{made['id']}"


# --- hints -------------------------------------------------------------------------------------------------------


def test_hints_that_were_asked_for_stand_on_the_next_card_folded(failed: Report) -> None:
    assert "Stuck?" in card.as_html(failed, beside(failed, right))
    exercise = find("row_softmax")[1]
    hints.next_hint(exercise)
    made = card.as_html(failed, beside(failed, right))
    assert "Hints so far: 1 of 3" in made
    assert "<details><summary>Hints so far" in made
    assert 'role="alert"' not in made
    assert Page(made).text.count(exercise.hints[0].split("`")[0]) == 1
    assert exercise.hints[1].split("`")[0] not in Page(made).text


def test_a_card_of_a_right_answer_offers_no_hint(passed: Report) -> None:
    hints.next_hint(find("row_softmax")[1])
    text = Page(card.as_html(passed, beside(passed, right)).partition("</style>")[2]).text
    assert "Hints so far" not in text and "Stuck?" not in text


class Shown:
    """Stands in for a notebook's front end: what was displayed, and what each display was replaced by."""

    def __init__(self) -> None:
        self.bundles: list[dict[str, Any]] = []

    def display(self, bundle: dict[str, Any], raw: bool = False, display_id: bool = False) -> Any:
        self.bundles.append(bundle)
        place = len(self.bundles) - 1
        return SimpleNamespace(update=lambda new, raw: self.bundles.__setitem__(place, new))


@pytest.fixture
def front_end(monkeypatch: pytest.MonkeyPatch) -> Shown:
    display, shown = pytest.importorskip("IPython.display"), Shown()
    monkeypatch.setattr(display, "display", shown.display)
    monkeypatch.setattr(card, "_in_notebook", lambda: True)
    return shown


def test_the_button_gives_one_hint_more_each_time_and_then_stays(failed: Report, front_end: Shown) -> None:
    pytest.importorskip("ipywidgets")
    card.show(failed, beside(failed, right))
    shown, button = front_end.bundles
    assert "application/vnd.jupyter.widget-view+json" in button
    assert button["text/plain"] == 'hint("row_softmax") shows the next hint.'
    made = hints._buttons["row_softmax"]
    assert made.description == "Next hint (1 of 3)"
    for level in (1, 2, 3, 3):
        made.click()
        shown = front_end.bundles[0]
        assert f"Hints so far: {level} of 3" in shown["text/html"]
        assert shown["text/html"].count('role="alert"') == 1
        assert f"hint {level}: " in shown["text/plain"]
    assert made.description == "All 3 hints are shown above"
    assert not made.disabled
    card.show(failed, beside(failed, right))
    assert len(front_end.bundles) == 3, "nothing is left to ask for, so there is no button"


def test_checking_again_leaves_one_button(failed: Report, front_end: Shown) -> None:
    pytest.importorskip("ipywidgets")
    card.show(failed, beside(failed, right))
    first = hints._buttons["row_softmax"]
    card.show(failed, beside(failed, right))
    assert hints._buttons["row_softmax"] is not first
    assert first.comm is None


def test_without_widgets_the_card_says_how_to_ask(
    failed: Report, front_end: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(hints, "import_module", missing)
    card.show(failed, beside(failed, right))
    (shown,) = front_end.bundles
    assert "gives a hint" in Page(shown["text/html"]).text


# --- the reference -----------------------------------------------------------------------------------------------


def test_each_exercise_has_a_reference_and_a_reason_in_a_clone() -> None:
    reasons = tomllib.loads((ROOT / "solutions" / "why.toml").read_text())
    assert list(reasons) == list(LESSONS)
    for lesson in LESSONS:
        assert set(reasons[lesson]) == set(exercises(lesson))
        for name in exercises(lesson):
            found = reference(lesson, name)
            assert found is not None and found.why == reasons[lesson][name]
            assert f"def {name}" in found.source or f"class {name}" in found.source
            assert "SOLUTION" not in found.source and "# %%" not in found.source
            assert 20 <= len(found.why.split()) <= 70, name
            compile(found.source, name, "exec")


def test_the_reference_is_shown_beside_the_own_answer_only_after_passing(passed: Report, failed: Report) -> None:
    made = Page(card.as_html(passed, beside(passed, right)))
    assert "Your answer beside the reference, and why" in made.text
    assert "x.logsumexp(-1, keepdim=True)" in made.text
    assert "x.amax(dim=-1, keepdim=True)" in made.text
    assert "Subtracting the row's own maximum" in made.text
    assert [pre.get("tabindex") for pre in made.all("pre")] == ["0", "0"]
    assert beside(failed, right).reference is None
    for status in ("failed", "error", "forbidden", "unattempted", "timeout", "interrupted", "unknown"):
        assert beside(dataclasses.replace(failed, status=status), right).reference is None


@pytest.fixture
def class_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation without solutions, as a class has it."""
    monkeypatch.setattr(references, "SOLUTIONS", tmp_path / "solutions")
    monkeypatch.setattr(references, "PACKED", tmp_path / "references.json")
    return tmp_path


def test_where_there_are_no_references_a_card_has_no_such_part(class_bundle: Path, passed: Report) -> None:
    assert reference("01_tensors", "row_softmax") is None
    more = beside(passed, right)
    assert (more.reference, more.own) == (None, "")
    assert "reference" not in card.as_html(passed, more)
    with pytest.raises(LookupError, match="no reference of row_softmax"):
        pack({"01_tensors": ["row_softmax"]})


def test_the_self_study_package_carries_all_references_in_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = {lesson: list(exercises(lesson)) for lesson in LESSONS}
    wanted = {name: reference(lesson, name) for lesson, names in every.items() for name in names}
    (tmp_path / "references.json").write_text(pack(every))
    monkeypatch.setattr(references, "SOLUTIONS", tmp_path / "solutions")
    monkeypatch.setattr(references, "PACKED", tmp_path / "references.json")
    assert {name: reference(lesson, name) for lesson, names in every.items() for name in names} == wanted
    assert reference("01_tensors", "no_such") is None


def test_the_self_study_package_is_laid_out_away_from_the_tree_that_a_class_gets(tmp_path: Path) -> None:
    made = lay_out(tmp_path / "tree")
    assert len(json.loads(made.read_text())) == sum(len(exercises(lesson)) for lesson in LESSONS)
    assert made.relative_to(tmp_path / "tree") == references.PACKED.relative_to(ROOT)
    assert not references.PACKED.exists()
    assert not (tmp_path / "tree" / "solutions").exists()
    package_data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    assert references.PACKED.name in package_data["torchcourse"]


@pytest.mark.parametrize("text", ["", "[]", '{"row_softmax": 3}', "\x00"])
def test_a_damaged_file_of_references_costs_nothing_else(class_bundle: Path, passed: Report, text: str) -> None:
    (class_bundle / "references.json").write_text(text)
    assert "All" in card.as_html(passed, beside(passed, right))
    assert reference("01_tensors", "row_softmax") is None


def test_what_stands_on_a_card_is_text_and_never_runs(failed: Report) -> None:
    evil = "</code></pre><script>alert(1)</script><img src=x onerror=alert(1)>`"
    exercise = dataclasses.replace(ONE_HOT, name=evil, hints=(evil, evil, evil))
    more = Beside(exercise, exercise.hints, True, Reference(evil, evil), evil, evil)
    report = dataclasses.replace(failed, exercise=evil, message=evil, misconception=evil, read=evil)
    page = Page(card.as_html(report, more))
    tags = {tag for tag, _ in page.elements}
    assert not tags & {"script", "img", "iframe", "object", "link"}
    assert not {name for _, attributes in page.elements for name in attributes if name.startswith("on")}


# --- where an answer comes from ----------------------------------------------------------------------------------


def ran(cell: str, name: str = "/tmp/ipykernel_1/1.py") -> dict[str, Any]:
    """What a cell with this text binds, its text kept where IPython keeps it."""
    linecache.cache[name] = (len(cell), None, [line + "\n" for line in cell.splitlines()], name)
    names: dict[str, Any] = {"__name__": "__main__", "torch": torch}
    exec(compile(cell, name, "exec"), names)
    return names


CLASS = """import dataclasses

@dataclasses.dataclass
class own:
    size: int = 3

    def forward(self):
        return 1"""
CUSTOM = """@torch.library.custom_op("tests::own", mutates_args=())
def own(x: torch.Tensor) -> torch.Tensor:
    return x.clone()"""
CACHED = """import functools

@functools.cache
def own(x):
    return x"""


@pytest.mark.parametrize("cell", [CLASS, CUSTOM, CACHED, "def own(x):\n    pass"])
def test_the_cell_of_an_answer_is_found(cell: str) -> None:
    assert working_copy.cell_of(ran(cell)["own"]) == cell


@pytest.mark.parametrize("answer", [None, 3, len, torch.softmax, torch.nn.Softmax(-1), eval("lambda x: x")])
def test_of_what_has_no_cell_nothing_is_said_and_nothing_raised(answer: object) -> None:
    assert "def own" not in working_copy.cell_of(answer)
    assert working_copy.changed_since(answer) == ""


class Shell:
    """As much of IPython's shell as is asked: events, and the names of the notebook."""

    def __init__(self) -> None:
        self.user_ns: dict[str, Any] = {}
        self.events = SimpleNamespace(callbacks={"pre_run_cell": []}, register=self.register)

    def register(self, event: str, function: Any) -> None:
        self.events.callbacks[event].append(function)

    def run(self, cell: str) -> dict[str, Any]:
        for function in self.events.callbacks["pre_run_cell"]:
            function(SimpleNamespace(raw_cell=cell))
        return ran(cell)


OLD, NEW = "def own(x):\n    return x", "def own(x):\n    return x + 1"


@pytest.fixture
def notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    path = tmp_path / "01_tensors.ipynb"
    monkeypatch.setenv("JPY_SESSION_NAME", str(path))
    monkeypatch.setattr(working_copy, "_run_at", {})
    yield path


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Shell:
    made = Shell()
    monkeypatch.setattr(working_copy, "shell", lambda: made)
    working_copy.watch()
    working_copy.watch()
    assert len(made.events.callbacks["pre_run_cell"]) == 1
    return made


def save(path: Path, cell: str, later: float) -> None:
    """Save a notebook with this cell, so many seconds from now."""
    path.write_text(json.dumps({"cells": [{"cell_type": "code", "source": cell.splitlines(keepends=True)}]}))
    os.utime(path, (path.stat().st_mtime + later,) * 2)


def test_a_cell_that_was_edited_and_saved_but_not_run_is_said(notebook: Path, session: Shell) -> None:
    answer = session.run(OLD)["own"]
    save(notebook, NEW, later=60)
    assert "run the cell again" in working_copy.changed_since(answer)
    answer = session.run(NEW)["own"]
    assert working_copy.changed_since(answer) == ""


def test_a_cell_that_was_run_and_is_not_saved_yet_is_no_news(notebook: Path, session: Shell) -> None:
    save(notebook, OLD, later=-60)
    assert working_copy.changed_since(session.run(NEW)["own"]) == ""
    save(notebook, NEW, later=60)
    assert working_copy.changed_since(session.run(NEW)["own"]) == ""


@pytest.mark.parametrize("text", ["", "{", "[]", '{"cells": 3}', '{"cells": [{}]}', "\udcff"])
def test_a_notebook_that_cannot_be_read_is_left_alone(notebook: Path, session: Shell, text: str) -> None:
    answer = session.run(OLD)["own"]
    notebook.write_bytes(text.encode("utf-8", "surrogateescape"))
    os.utime(notebook, (notebook.stat().st_mtime + 60,) * 2)
    assert working_copy.changed_since(answer) == ""
    notebook.unlink()
    assert working_copy.changed_since(answer) == ""


def test_the_card_and_the_text_carry_the_word_about_the_notebook(failed: Report) -> None:
    more = Beside(note="The notebook, saved after that, has another text.")
    assert more.note in card.as_text(failed, more)
    assert more.note in Page(card.as_html(failed, more)).text


def test_a_look_beside_never_raises(failed: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(answer: object) -> str:
        raise ZeroDivisionError

    monkeypatch.setattr("torchcourse.beside.changed_since", broken)
    assert beside(failed, right) == Beside()
    assert beside(Report("no_such", "unknown", ""), None) == Beside()


def test_exercises_have_three_hints_each() -> None:
    every: list[Exercise] = [exercise for lesson in LESSONS for exercise in exercises(lesson).values()]
    assert {len(exercise.hints) for exercise in every} == {3}
