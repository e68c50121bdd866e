"""Examples that no answer needs are not run when grading; what any cell needs, in whatever way, is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autograde.examining import _Visit
from autograde.inside.needed import Example, examples, unneeded
from autograde.sandbox import LostError, Sandbox
from autograde.settings import LIMITS
from autograde.submission import read_submission, release
from benchmarks.solved import write_solved
from torchcourse.exercise import LESSONS

SHOWN = [
    "import math",
    "def area(r):\n    return math.pi * r**2",
    "table = {'a': 1}\nother = 3",
    "table['b'] = 2",
    "print(area(2.0))",
    "for number in range(3):\n    print(number)",
    "def count():\n    global counted\n    counted = 1",
    "class Box:\n    side = 1",
    "table.update(c=3)",
    "def fill(d):\n    d['z'] = 0\nfill(table)",
    "also = table\nalso['y'] = 4",
    "count()",
]


def left(*cells: str, shown: list[str] = SHOWN) -> list[int]:
    """Which of the examples are left out, where these cells come after them."""
    known: list[tuple[str, Example | None]] = list(zip(shown, examples(shown), strict=True))
    return unneeded([*known, *((cell, None) for cell in cells)])


def kept(*cells: str, shown: list[str] = SHOWN) -> list[int]:
    """Which of them are run."""
    out = left(*cells, shown=shown)
    return [place for place in range(len(shown)) if place not in out]


@pytest.mark.parametrize(
    ("cell", "places"),
    [
        ("def answer(x):\n    return x", []),
        ("def answer(x):\n    return area(x)", [0, 1, 4]),
        ("answer = lambda x: math.sqrt(x)", [0]),
        ("def answer(x, area):\n    return area(x)", []),
        ("def answer(area):\n    def inner():\n        return area\n    return inner()", []),
        ("def answer():\n    return table", [2, 3, 8, 9, 10]),
        ("def answer():\n    return other", [2, 3, 8, 9, 10]),
        ("class answer(Box):\n    pass", [7]),
        ("def answer():\n    return counted", [6, 11]),
        ("other += 1", [2, 3, 8, 9, 10]),
        ("def answer():\n    global counted\n    counted += 1", [6, 11]),
        ("del number", [5]),
        ("def answer():\n    other = 1\n    other += 1\n    del other", []),
        ("class answer:\n    area = staticmethod(area)", [0, 1, 4]),
        ("class answer:\n    area = area\n    def call(self):\n        return 1", [0, 1, 4]),
        ("def answer():\n    for _, x in enumerate('ab'):\n        pass", []),
        ("for _ in range(3):\n    answer = _", []),
        ("torch.ops.aten.add(1, 2)\nisinstance(m, (nn.modules.batchnorm._BatchNorm, torch.nn.modules.Linear))", []),
        ("def answer(x=number):\n    return x", [5]),
        ("@area\ndef answer():\n    pass", [0, 1, 4]),
        ("def answer(x: area):\n    pass", [0, 1, 4]),
        ("def answer(m):\n    m.eval()\n    return [n for n in m.modules()], vars(m)", []),
        ("import sys\nsys.path.append('.')", []),
    ],
)
def test_an_example_is_run_where_something_uses_what_it_binds_or_changes(cell: str, places: list[int]) -> None:
    assert kept(cell) == places


@pytest.mark.parametrize(
    "cell",
    [
        "answer = globals()['area']", "answer = eval('area')", "exec('answer = area')", "answer = Out[3]",
        "import __main__\nanswer = __main__.area", "import sys\nanswer = sys.modules['__main__'].area",
        "from sys import modules", "import inspect", "import IPython.core", "answer = vars()['area']",
        "answer = get_ipython().user_ns['area']", "def answer():\n    return answer.__globals__['area']",
        "answer = _", "answer = _12 + 1", "answer = __", "import sys as s\nanswer = s.modules",
        "import timeit\ntimeit.timeit('area(1)', 'from __main__ import area')", "torch.ops.lesson8.cumulated(x)",
        "%%time\nanswer = area", "!ls", "answer = (", "answer = " + 300_000 * "-" + "1",
        "answer = " + 5000 * "[" + 5000 * "]", "\0",
    ],
)  # fmt: skip
def test_who_may_come_by_any_name_or_cannot_be_read_gets_all(cell: str) -> None:
    assert left(cell) == []


@pytest.mark.parametrize("cell", ["%matplotlib inline", "from math import *", "from __future__ import annotations"])
def test_an_example_that_does_what_no_name_tells_is_run(cell: str) -> None:
    assert kept("def answer(): pass", shown=["import math", cell, "math.pi"]) == [1]


def test_the_lessons_own_solutions_need_few_examples(tmp_path: Path) -> None:
    (student,) = write_solved(tmp_path, list(LESSONS), 1)
    for lesson in LESSONS:
        read = read_submission(tmp_path / student / lesson / f"{lesson}.ipynb", student, lesson)
        cells = list(zip(read.to_run(), read.shown(), strict=True))
        solutions = {read.solution(name) for name in release(lesson).exercises}
        places = {place for place, (_, known) in enumerate(cells) if known}
        assert places.isdisjoint(solutions)
        assert len(unneeded(cells)) > len(places) / 2, lesson
        first = min(place for place, (source, _) in enumerate(cells) if "import torch" in source)
        assert first not in unneeded(cells)


def test_an_example_that_was_changed_is_the_learners_own_cell(tmp_path: Path) -> None:
    lesson = "01_tensors"
    (student,) = write_solved(tmp_path, [lesson], 1)
    path = tmp_path / student / lesson / f"{lesson}.ipynb"
    before = read_submission(path, student, lesson).shown()
    path.write_text(path.read_text().replace("torch.eye(3)", "torch.eye(4)"))
    after = read_submission(path, student, lesson).shown()
    assert sum(known is None for known in after) == sum(known is None for known in before) + 1


@pytest.mark.sandbox
def test_the_sandbox_runs_what_is_needed_and_says_what_it_leaves_out() -> None:
    cells = [*SHOWN, "assert area(1.0) > 3", "assert 'table' in dir()"]
    known: list[Example | None] = [*examples(SHOWN), None, None]
    made = Sandbox(number=24)
    try:
        with made.job("cpu", cells, [], known) as job:
            assert job.receive(60) == {"unneeded": [2, 3, 5, 6, 7, 8, 9, 10, 11]}
            ended = [job.receive(60)["state"] for _ in cells]
    finally:
        made.close()
    assert [place for place, state in enumerate(ended) if state == "skipped"] == [2, 3, 5, 6, 7, 8, 9, 10, 11]
    assert ended[-2:] == ["done", "AssertionError"]


class Dying:
    """A sandbox whose process dies when it is asked which examples are needed."""

    limits = LIMITS

    def __init__(self) -> None:
        self.asked: list[int] = []

    @contextlib.contextmanager
    def job(self, lane: str, cells: list[str], skip: list[int], shown: list[Any]) -> Iterator[Any]:
        self.asked.append(len(shown))
        yield self

    patience = 1.0

    def receive(self, seconds: float) -> dict[str, Any]:
        if self.asked[-1]:
            raise LostError("the runner ended: -11")
        return {"state": "done"}

    def ran_out_of_memory(self) -> bool:
        return False

    def __getattr__(self, name: str) -> Any:
        raise LostError(name)


def test_where_reading_the_cells_ends_the_process_no_cell_is_blamed_and_all_run(tmp_path: Path) -> None:
    (student,) = write_solved(tmp_path, ["01_tensors"], 1)
    read = read_submission(tmp_path / student / "01_tensors" / "01_tensors.ipynb", student, "01_tensors")
    dying: Any = Dying()
    visit = _Visit(dying, read, "cpu", float("inf"))
    pending: Any = [None]
    with contextlib.suppress(AttributeError):
        visit.examine(pending)
    assert dying.asked == [len(read.to_run()), 0]
    assert visit.skip == set()
    assert set(visit.states.values()) == {"done"}
