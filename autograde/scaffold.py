"""A new exercise, all its parts in place and each of them still to be written."""

from __future__ import annotations

import ast
import builtins
import json
import keyword
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from autograde import course
from autograde.files import write_atomically
from torchcourse.exercise import LESSONS, exercises

__all__ = ["SYLLABUS", "Left", "ScaffoldError", "left", "scaffold", "syllabus_entry"]

SYLLABUS = course.ROOT / "tests" / "syllabus.json"
NEEDED = {"exercises": ("Any", "Case", "Draw", "Exercise", "Watched", "case"), "hidden": ("Case", "Draw", "Mistake")}
WIDTH = 116
NEXT = "\n    "


class ScaffoldError(ValueError):
    """An exercise that cannot be scaffolded: says what, and the remedy. Nothing has been written then."""


@dataclass(frozen=True)
class Left:
    """A place that is marked as still to be written."""

    path: Path
    line: int
    what: str


def files(lesson: str) -> dict[str, Path]:
    """Where the parts of a lesson's exercises stand."""
    module = f"{LESSONS[lesson]}.py"
    return {
        "lesson": course.SOLUTIONS / f"{lesson}.py",
        "why": course.SOLUTIONS / "why.toml",
        "exercises": course.ROOT / "src" / "torchcourse" / "exercises" / module,
        "hidden": course.AUTOGRADE / "hidden" / module,
        "right": course.ROOT / "tests" / "right" / module,
    }


def left(lesson: str, name: str) -> Iterator[Left]:
    """What is marked as still to be written of an exercise, `TODO(name): what`."""
    mark = f"TODO({name}): "
    for path in files(lesson).values():
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines() if path.exists() else (), 1):
            if mark in line:
                yield Left(path.relative_to(course.ROOT), number, line.partition(mark)[2].strip(" \"'),;#"))


def syllabus_entry(name: str) -> str:
    """What tests/syllabus.json needs under the lesson's name."""
    return f'"{name}": {json.dumps({"misconceptions": [], "any_device": True})}'


def scaffold(lesson: str, name: str, after: str) -> list[Path]:
    """Put the parts of an exercise called `name` behind those of the exercise `after`; the files changed.

    A name in capitals and small letters is to be a class, another one a function.

    Raises:
        UnknownExerciseError: when there is no such lesson.
        ScaffoldError: when the name cannot be had, or a file is not as other lessons' are.
    """
    known = exercises(lesson)
    if after not in known:
        raise ScaffoldError(f"{lesson} has no exercise {after!r} to come after; it has {', '.join(known)}.")
    _check_name(lesson, name)
    paths = files(lesson)
    texts = {kind: path.read_text(encoding="utf-8") for kind, path in paths.items()}
    programs = [kind for kind, path in paths.items() if path.suffix == ".py"]
    for kind in programs:
        _check_free(paths[kind], texts[kind], name)
        missing = [word for word in NEEDED.get(kind, ()) if word not in _bound(texts[kind])]
        if missing:
            raise ScaffoldError(f"{_shown(paths[kind])} does not import {missing[0]}; import it first.")
    try:
        made = {
            "lesson": _into_lesson(texts["lesson"], name, after),
            "why": _into_reasons(texts["why"], lesson, name, after),
            "exercises": _into_exercises(texts["exercises"], name, after),
            "hidden": _into_hidden(texts["hidden"], name, after),
            "right": _entry(texts["right"], "RIGHT", after, name, "[]", f"TODO({name}): two right answers or more"),
        }
    except LookupError as error:
        raise ScaffoldError(f"The parts of {after} were not found in {lesson}: {error.args[0]}.") from None
    for kind in programs:
        ast.parse(made[kind], str(paths[kind]))
    for kind, text in made.items():
        write_atomically(paths[kind], text)
    return list(paths.values())


def _check_name(lesson: str, name: str) -> None:
    if not name.isidentifier() or not name.isascii() or keyword.iskeyword(name) or name.startswith("_"):
        raise ScaffoldError(f"{name!r} is no name for a function or a class.")
    if name in dir(builtins):
        raise ScaffoldError(f"{name!r} is a name of Python's own: learners would lose it by writing the exercise.")
    for other in LESSONS:
        if name in exercises(other):
            raise ScaffoldError(f"{other} has an exercise {name!r} already; names are unique in the course.")


def _check_free(path: Path, text: str, name: str) -> None:
    bound = _bound(text)
    ours = [name, f"probe_{_small(name)}", f"cases_{_small(name)}", f"more_{_small(name)}", _constant(name)]
    taken = [word for word in ours if word in bound]
    if taken:
        raise ScaffoldError(f"{_shown(path)} has something else called {taken[0]}: choose another name.")


def _bound(text: str) -> set[str]:
    """The names that a module binds at its top level."""
    names: set[str] = set()
    for node in ast.parse(text).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        else:
            names |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return names


def _constant(name: str) -> str:
    """What the list of an exercise's mistakes is called."""
    return _small(name).upper() if not name.isupper() else f"{name}_MISTAKES"


def _small(name: str) -> str:
    """An exercise's name in the names of functions: `FoldRows` becomes `fold_rows`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _shown(path: Path) -> Path:
    return path.relative_to(course.ROOT)


def _rule(name: str) -> str:
    return f"# --- {name} ".ljust(WIDTH, "-")


# --- each file ----------------------------------------------------------------------------------------------------


def _into_lesson(text: str, name: str, after: str) -> str:
    lines = text.splitlines(keepends=True)
    place = next((n for n, line in enumerate(lines) if line.startswith(f'# %% check="{after}"')), None)
    if place is None:
        raise LookupError(f'the lesson\'s script has no cell # %% check="{after}"')
    end = next((n for n in range(place + 1, len(lines)) if lines[n].startswith("# %%")), len(lines))
    head = f"class {name}:\n" if name[0].isupper() else f"def {name}(x):\n"
    method = "\n    def __init__(self):\n" if name[0].isupper() else ""
    pad = "        " if method else "    "
    block = (
        f"# %% [markdown]\n# ### Exercise: {name}\n#\n"
        f"# TODO({name}): two sentences that say what to write, and an example\n\n"
        f'# %% exercise="{name}" points=1\n{head}    """TODO({name}): what it is, its arguments with their types"""\n'
        f'{method}{pad}### BEGIN SOLUTION\n{pad}raise NotImplementedError("TODO({name}): the answer")\n'
        f'{pad}### END SOLUTION\n\n# %% check="{name}"\ncheck("{name}")\n\n'
    )
    before = "".join(lines[:end])
    return before + ("" if before.endswith("\n\n") else "\n") + block + "".join(lines[end:])


def _into_reasons(text: str, lesson: str, name: str, after: str) -> str:
    """The reasons with one more; an exercise's stands on a line of its own, under its lesson's heading."""
    place = next((n for n, line in enumerate(text.splitlines(), 1) if re.match(rf"{after} *=", line)), None)
    if place is None:
        raise LookupError(f"solutions/why.toml does not say why {after} is written as it is")
    grown = _after_line(text, place, f'{name} = "TODO({name}): in 20 to 70 words why the answer is written as it is"\n')
    try:
        taken = name in tomllib.loads(grown).get(lesson, {})
    except tomllib.TOMLDecodeError:
        taken = False
    if not taken:
        raise LookupError(f"solutions/why.toml takes no line behind that of {after}")
    return grown


def _into_exercises(text: str, name: str, after: str) -> str:
    tree = ast.parse(text)
    other = next((n for n in tree.body if _makes_exercise(n, after)), None)
    table = _assigned(tree, "EXERCISES")
    if not isinstance(other, ast.Assign) or not isinstance(table, ast.Tuple | ast.List):
        raise LookupError(f'there is no `… = Exercise("{after}", …)`, or no tuple EXERCISES')
    variable = other.targets[0].id if isinstance(other.targets[0], ast.Name) else after
    entry = next((e for e in table.elts if isinstance(e, ast.Name) and e.id == variable), None)
    if entry is None:
        raise LookupError(f"EXERCISES has no {variable}")
    small = _small(name)
    hints = "\n".join(
        f'        "TODO({name}): {which} hint, a question or a pointer of about 40 words",'
        for which in ("the first", "the second", "the third")
    )
    block = f'''
{_rule(name)}


def probe_{small}(answer: Watched, x: Any) -> dict[str, Any]:
    # TODO({name}): the probe; call the answer and return what is seen, under names that read well on a card
    return {{"result": answer(x)}}


def cases_{small}(draw: Draw) -> list[Case]:
    # TODO({name}): the visible cases, which have to show every known mistake
    return [case("a vector", x=draw.normal(5))]


{name} = Exercise(
    "{name}",
    probe_{small},
    cases_{small},
    hints=(
{hints}
    ),
)
'''
    grown = _inserted(text, (entry.end_lineno, entry.end_col_offset), f"    {name}")
    return _after_line(grown, other.end_lineno, block)


def _into_hidden(text: str, name: str, after: str) -> str:
    tree = ast.parse(text)
    more, mistakes = _value(tree, "MORE_CASES", after), _statement(tree, "MISTAKES")
    drawn = next((n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == getattr(more, "id", "")), None)
    block = f'''
{_rule(name)}

# TODO({name}): three known mistakes or more; each a program, a sentence with {{fields}}, and the heading to reread
{_constant(name)}: list[Mistake] = []


def more_{_small(name)}(draw: Draw) -> list[Case]:
    # TODO({name}): cases that only the grader sees: other shapes, strides, dtypes, empty and extreme inputs
    return []
'''
    grown = _entry(text, "MORE_CASES", after, name, f"more_{_small(name)}")
    grown = _entry(grown, "MISTAKES", after, name, _constant(name))
    if drawn is not None and (drawn.end_lineno or 0) < mistakes.lineno:
        return _after_line(grown, drawn.end_lineno, "\n" + block)
    return _after_line(grown, mistakes.lineno - 1, block.lstrip("\n") + "\n\n")


def _makes_exercise(node: ast.stmt, name: str) -> bool:
    call = node.value if isinstance(node, ast.Assign) else None
    return isinstance(call, ast.Call) and bool(call.args) and getattr(call.args[0], "value", None) == name


def _statement(tree: ast.Module, name: str) -> ast.Assign | ast.AnnAssign:
    for node in tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(node, ast.Assign | ast.AnnAssign) and getattr(target, "id", "") == name:
            return node
    raise LookupError(f"there is no table {name}")


def _assigned(tree: ast.Module, name: str) -> ast.expr | None:
    return _statement(tree, name).value


def _value(tree: ast.Module, table: str, key: str) -> ast.expr:
    """The value under a key of a table that is written out."""
    found = _assigned(tree, table)
    pairs = zip(found.keys, found.values, strict=True) if isinstance(found, ast.Dict) else ()
    value = next((v for k, v in pairs if isinstance(k, ast.Constant) and k.value == key), None)
    if value is None:
        raise LookupError(f"the table {table} has no {key}")
    return value


def _entry(text: str, table: str, after: str, name: str, value: str, note: str = "") -> str:
    """`text` with an entry more in a table, behind that of `after`."""
    place = _value(ast.parse(text), table, after)
    comment = f"    # {note}\n" if note else ""
    return _inserted(text, (place.end_lineno, place.end_col_offset), f'{comment}    "{name}": {value}')


def _inserted(text: str, place: tuple[int | None, int | None], more: str) -> str:
    """`text` with one element more, behind the one that ends at a place: lines count from 1, bytes of it from 0."""
    line, column = place
    assert line is not None, "parsed code has places"
    lines = text.splitlines(keepends=True)
    old = lines[line - 1].encode()
    before, rest = old[:column].decode(), old[column:].decode()
    comma, others = ("," if rest.startswith(",") else ""), rest.removeprefix(",").lstrip(" ")
    on_one_line = comma and others.strip()
    lines[line - 1] = f"{before},\n{more}{comma}{NEXT if on_one_line else ''}{others}"
    return "".join(lines)


def _after_line(text: str, line: int | None, more: str) -> str:
    lines = text.splitlines(keepends=True)
    return "".join([*lines[:line], more, *lines[line:]])
