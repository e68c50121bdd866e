"""A sensible path through the lessons: in which stages they come, and what each needs before it. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["AmbiguousNumberError", "as_markdown", "by_number", "needs", "number", "numbers", "stages"]

STAGES = {
    "Foundations": ("01_tensors", "02_autograd", "03_modules", "04_data", "05_training"),
    "Speed, precision, saving": ("06_gpu", "07_mixed_precision", "08_compile", "09_persistence"),
    "Debugging": ("10_debugging",),
    "Architectures": ("11_architectures",),
    "Several processes, and efficiency": ("12_distributed", "13_efficiency"),
    "A whole project": ("14_ticket_router",),
    "Quizzes": ("15_quizzes",),
}
"""The stages in order, each with its lessons. Those that a release lacks are left out wherever the path is shown."""
NEEDS = {
    "02_autograd": ("01_tensors",),
    "03_modules": ("02_autograd",),
    "04_data": ("01_tensors",),
    "05_training": ("03_modules", "04_data"),
    "06_gpu": ("05_training",),
    "07_mixed_precision": ("06_gpu",),
    "08_compile": ("05_training",),
    "09_persistence": ("05_training",),
    "10_debugging": ("05_training",),
    "11_architectures": ("05_training",),
    "12_distributed": ("06_gpu", "09_persistence"),
    "13_efficiency": ("07_mixed_precision", "08_compile", "11_architectures"),
    "14_ticket_router": ("09_persistence", "10_debugging", "11_architectures"),
    "15_quizzes": (*STAGES["Foundations"], *STAGES["Speed, precision, saving"], "12_distributed"),
}
"""The lessons that have to come directly before each."""
OTHERS = "Further lessons"


class AmbiguousNumberError(ValueError):
    """Several lessons have this number; the message names them."""


def stages(existing: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the stages with those of their lessons that exist; lessons of no stage come last."""
    present = sorted(existing)
    kept = {stage: tuple(lesson for lesson in lessons if lesson in present) for stage, lessons in STAGES.items()}
    placed = {lesson for lessons in kept.values() for lesson in lessons}
    kept[OTHERS] = tuple(lesson for lesson in present if lesson not in placed)
    return {stage: lessons for stage, lessons in kept.items() if lessons}


def needs(lesson: str, existing: Iterable[str]) -> tuple[str, ...]:
    """Return the lessons to work through directly before this one, of those that exist."""
    present = set(existing)
    return tuple(needed for needed in NEEDS.get(lesson, ()) if needed in present)


def number(lesson: str) -> str:
    """Return a lesson's number, as people say it: "1" for 01_tensors; the whole name if it has none."""
    return lesson.split("_")[0].lstrip("0") if lesson[:1].isdigit() else lesson


def by_number(word: str, lessons: Iterable[str]) -> str:
    """Return the lesson whose number is `word` ("1", "01"); `word` itself if it is something else.

    Raises:
        AmbiguousNumberError: when several lessons have the number.
    """
    found = [lesson for lesson in lessons if word.isdecimal() and number(lesson) == word.lstrip("0")]
    if len(found) > 1:
        raise AmbiguousNumberError(f"{word} may be {' or '.join(found)}: write the name of the one that you mean.")
    return found[0] if found else word


def numbers(lessons: Iterable[str]) -> str:
    """Return lessons by their numbers, with runs of three or more as a range: "1 to 5, 9"."""
    parts: list[list[str]] = []
    for name in map(number, lessons):
        follows = parts and name.isdigit() and parts[-1][-1].isdigit() and int(name) == int(parts[-1][-1]) + 1
        if follows:
            parts[-1].append(name)
        else:
            parts.append([name])
    texts = [f"{part[0]} to {part[-1]}" if len(part) > 2 else ", ".join(part) for part in parts]
    return ", ".join(texts)


def as_markdown(existing: Iterable[str]) -> str:
    """Return the path as a Markdown list with a line for each stage, as the README has it."""
    present = list(existing)
    lines = []
    for stage, lessons in stages(present).items():
        after = {lesson: numbers(needs(lesson, present)) for lesson in lessons}
        wanted = "; ".join(f"{number(lesson)} after {before}" for lesson, before in after.items() if before)
        lines.append(f"- **{stage}**: {numbers(lessons)}{f' ({wanted})' if wanted else ''}")
    return "\n".join(lines)
