"""Write notebooks that together hold every right answer and every known mistake of some lessons.

    python -P _answers_as_notebooks.py FOLDER LESSON …

`benchmarks.same_grades` runs this file with the code of the checkout that is on PYTHONPATH; nothing is imported from
beside it. Prints, as JSON, how many right answers and mistakes there are, and how many of both cannot be written as the
text of a cell: those are taken from the modules that they stand in, which the notebook then holds as text.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from autograde.classroom.synthetic_class import answered_notebook, write_notebook
from autograde.course.inline_source import bound_names, inline_source
from autograde.source import paths
from autograde.source.private_half import private_half, private_path
from autograde.source.script import answers_as_text, read_script
from tests.support.classes import insert_programs, private_module

IN_MODULES = "in their modules"


def main() -> None:
    """Write the notebooks of each lesson, and print the counts."""
    folder, counts = Path(sys.argv[1]), Counter[str]()
    for lesson in sys.argv[2:]:
        references, as_text = answers_as_text(paths.SOLUTIONS / f"{lesson}.py"), _writer(lesson)
        right, wrong = {name: [text] for name, text in references.items()}, dict[str, list[str]]()
        for name in references:
            half = private_half(lesson, name)
            right[name] += [as_text(name, "RIGHT_ANSWERS[{}]", n, p) for n, p in enumerate(half.right_answers)]
            wrong[name] = [as_text(name, "MISTAKES[{}].program", n, m.program) for n, m in enumerate(half.mistakes)]
        for kind, texts in (("right", right), ("mistake", wrong)):
            for number in range(max(map(len, texts.values()))):
                chosen = {name: own[number] for name, own in texts.items() if number < len(own)}
                in_modules = sum(private_module(lesson, name) in text for name, text in chosen.items())
                counts.update({kind: len(chosen), IN_MODULES: in_modules})
                notebook = answered_notebook(lesson, references | chosen)
                if in_modules:
                    insert_programs(notebook, lesson)
                write_notebook(folder, f"{kind}-{number:02}", lesson, notebook)
    print(json.dumps(counts))


def _writer(lesson: str) -> Callable[[str, str, int, Callable[..., Any]], str]:
    """Return a function that writes an answer cell for a program of the lesson's authors.

    It takes the exercise's name, where in the private half the program stands, its number there, and the program.
    """
    cells = read_script(paths.SOLUTIONS / f"{lesson}.py")
    setup: dict[str, Any] = {"__name__": f"answers_{lesson}"}
    for cell in cells:
        if "setup" in cell.tags:
            exec(compile(cell.source, lesson, "exec"), setup)
    taken = {name for cell in cells if cell.kind == "code" for name in bound_names(cell.source)}

    def as_text(name: str, place: str, number: int, program: Callable[..., Any]) -> str:
        text = inline_source(program, private_path(lesson, name), name, setup, taken)
        return text or f"{name} = {private_module(lesson, name)}.{place.format(number)}"

    return as_text


if __name__ == "__main__":
    main()
