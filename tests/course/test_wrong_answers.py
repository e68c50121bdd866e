"""The wrong answers of `python -m benchmarks.explanations`: that they name what exists, and that the command counts."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from autograde.source import paths
from autograde.source.private_half import private_half
from torchcourse.model.catalogue import LESSONS, exercises

FOLDER = paths.ROOT / "benchmarks" / "wrong_answers"
UNKNOWN = ("(still accepted)", "(not named)")
"""How a fault ends that no known mistake has yet."""
FORBIDDEN = "uses-what-is-forbidden"
"""The fault of an answer that breaks a rule, which has no known mistake: the card names the call."""


def headings(lesson: str) -> list[tuple[str, list[str]]]:
    text = (FOLDER / f"{lesson}.py").read_text(encoding="utf-8")
    found = re.findall(r"^# %% (\w+): (.+)$", text, re.MULTILINE)
    assert len(found) == text.count("# %% ") > 0, lesson
    return [(exercise, [f for f in faults.split(", ") if not f.endswith(UNKNOWN)]) for exercise, faults in found]


def test_wrong_answers_are_to_exercises_and_make_known_mistakes() -> None:
    twice = 0
    for lesson in LESSONS:
        for exercise, faults in headings(lesson):
            assert exercise in exercises(lesson), (lesson, exercise)
            known = {mistake.name for mistake in private_half(lesson, exercise).mistakes} | {FORBIDDEN}
            assert set(faults) <= known, (lesson, exercise, set(faults) - known)
            twice += len(faults) > 1
    assert twice >= 60


def test_the_command_grades_mistakes_and_mutants_and_goes_on_where_it_ended(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.explanations", "--lessons", "02_autograd:snapshot", "--folder",
               str(tmp_path), "--sample"]  # fmt: skip
    shown = subprocess.run([*command, "1"], cwd=paths.ROOT, capture_output=True, text=True, check=True).stdout
    mistakes = len(private_half("02_autograd", "snapshot").mistakes)
    assert f"| all known mistakes | {mistakes} | 0 | 0 | {mistakes} |" in shown
    assert "| all mutants | 1 |" in shown
    notes = tmp_path / "snapshot.jsonl"
    before = [json.loads(line) for line in notes.read_text().splitlines()]
    assert len(before) == mistakes + 1 and {entry["status"] for entry in before} <= {"passed", "failed", "error"}
    subprocess.run([*command, "2"], cwd=paths.ROOT, capture_output=True, check=True)
    assert len(notes.read_text().splitlines()) == mistakes + 2
