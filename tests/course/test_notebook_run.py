"""A notebook that runs both unsolved and solved, and what is said of what went wrong in it."""

from __future__ import annotations

from nbformat import NotebookNode, v4

from autograde.course.notebook_run import _output_faults, faults_and_outcomes, unsolved_and_solved

SHOWS = """
class Shown:
    def __init__(self, text): self.text = text
    def __repr__(self): return self.text
def check(name): return Shown(f"{name}: {'Right' if globals()[name]() else 'Not attempted'}.")
"""


def answer(text: str, name: str) -> NotebookNode:
    return v4.new_code_cell(text, metadata={"nbgrader": {"solution": True, "grade_id": name}})


def lesson(answers: dict[str, str], demo: str) -> NotebookNode:
    cells = [v4.new_code_cell(SHOWS)]
    for name, text in answers.items():
        cells += [answer(f"def {name}():\n    return {text}", name), v4.new_code_cell(f"check({name!r})")]
    return v4.new_notebook(cells=[*cells, v4.new_markdown_cell("Now `three` is used."), v4.new_code_cell(demo)])


def of_two_exercises(demo: str) -> NotebookNode:
    stubs, answers = {"two": "0", "three": "0"}, {"two": "2", "three": "1 + two()"}
    return unsolved_and_solved(lesson(stubs, demo), lesson(answers, demo))


def test_each_exercise_is_checked_with_its_stub_and_with_its_answer() -> None:
    faults, outcomes = faults_and_outcomes(of_two_exercises("assert two() in (0, 2)"))
    assert not faults
    assert outcomes == ["Not attempted", "Right"] * 2


def test_a_demonstration_that_fails_with_a_stub_or_with_an_answer_is_a_fault() -> None:
    (unsolved,), _ = faults_and_outcomes(of_two_exercises("6 / three()"))
    assert "raised ZeroDivisionError" in unsolved
    (solved,), _ = faults_and_outcomes(of_two_exercises("assert two() < 2, 'too large'"))
    assert solved.endswith("raised AssertionError: too large")


def test_a_demonstration_that_uses_no_exercise_runs_once() -> None:
    both = of_two_exercises("%time 1 + 1")
    assert [cell.source for cell in both.cells].count("%time 1 + 1") == 1
    assert len({cell.id for cell in both.cells}) == len(both.cells)


def test_long_output_is_cut_with_a_sign() -> None:
    outputs = [v4.new_output("error", ename="ValueError", evalue="x" * 5000, traceback=[]),
               v4.new_output("stream", name="stderr", text="x" * 5000)]  # fmt: skip
    faults = list(_output_faults(v4.new_code_cell(outputs=outputs)))
    assert [(len(fault) < 1000, fault[-1]) for fault in faults] == [(True, "…")] * 2
