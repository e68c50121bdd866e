"""What strangers may hand in, made up by hypothesis, and what may come of it: results or the errors that are declared.

Each of `TARGETS` takes something made up; it fails where another error is raised or a promise does not hold. A few
examples run with the tests, and `python -m benchmarks.fuzz` goes on for as long as one likes.
"""

from __future__ import annotations

import contextlib
import json
import re
import struct
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import nbformat
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from autograde.batch.student_names import MARKUP
from autograde.classroom.collect import CollectError, collect
from autograde.classroom.roster import RosterError, read_roster, write_roster
from autograde.judge.submission import read_submission
from autograde.judge.verdict import Verdict, verdict_without_running
from autograde.report.anonymous import anonymous
from autograde.report.similarity import similar_pairs
from autograde.results.answer_source import answer_source
from autograde.results.autograded_notebook import autograded
from autograde.results.exchange_files import parse_time
from autograde.results.feedback import feedback
from autograde.results.grades_table import COLUMNS, BadTableError, read_table
from autograde.source.release import load_release
from tests.support import mutants
from tests.support.archives import ADA, BO, LESSON
from tests.support.honest import honest
from torchcourse.model import codec

__all__ = ["TARGETS", "fuzz"]

SECONDS = 5.0
"""Wall time that nothing here may take, on a busy machine."""
originals = cache(honest)


def spliced(texts: list[str], min_size: int = 0, max_size: int | None = None) -> st.SearchStrategy[str]:
    """Make texts of the pieces that matter to a reader, and of anything between them."""
    return st.lists(st.sampled_from(texts) | st.text(max_size=4), min_size=min_size, max_size=max_size).map("".join)


headers = spliced(
    ['{"tensor":', '{"list":', '{"dict":', '{"raised":', '{"int":"', '"}', "}", "[", "]", ",", ":", '"dtype":"float32"',
     '"shape":', '"at":[0,8]', '"layout":', "[2]", "-1", "9223372036854775807", "1e999", "null", '"x"'], max_size=20,
)  # fmt: skip
replies = st.builds(
    lambda head, payload: struct.pack("<Q", len(head)) + head + payload,
    headers.map(lambda head: head.encode("utf-8", "replace")), st.binary(max_size=64),
)  # fmt: skip


def unpack_a_reply(data: bytes) -> None:
    """A reply of the sandbox is a value or refused."""
    with contextlib.suppress(codec.MalformedError):
        codec.unpack(data)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
sources = spliced(
    ["def row_softmax(x):\n", "    return ", "row_softmax", " = ", "#", '"""', "'", "\\", "\n", "\r", "\x0c", "(", ")",
     "[", "f'{", "}", ":", "class ", "lambda ", "\ud800", "\0", "é", "1e999", "\t"], max_size=25,
)  # fmt: skip
cells = st.fixed_dictionaries(
    {"cell_type": st.sampled_from(["code", "markdown", "raw", 7]), "source": sources | st.lists(sources, max_size=3)},
    optional={
        "id": st.sampled_from(["exercise-row_softmax", "check-row_softmax", "", None]) | st.text(max_size=5),
        "metadata": json_values | st.builds(
            lambda name, points: {"nbgrader": {"grade_id": name, "points": points}},
            st.sampled_from(["row_softmax", "check_row_softmax", "one_hot", None, 3]), json_values,
        ),
    },
)  # fmt: skip
notebooks = st.builds(lambda found: json.dumps({"cells": found}).encode(), st.lists(cells, max_size=6))
any_json = json_values.map(lambda value: json.dumps(value).encode())
damaged = st.integers(0, 10**6)


def read_and_report(made: bytes | int) -> None:
    """A submission, or the damaged notebook with a number, is read or refused with a sentence, and is reported on.

    This is all that is done with a submission, but for running it.
    """
    data = mutants.mutant(originals(), 0, made) if isinstance(made, int) else made
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "ann", LESSON, f"{LESSON}.ipynb")
        path.parent.mkdir(parents=True)
        path.write_bytes(data)
        submission = read_submission(path, "ann", LESSON)
    assert submission.problem in ("", "unreadable")
    assert bool(submission.problem) == bool(submission.reason)
    assert all(isinstance(cell.source, str) for cell in submission.cells_to_run())
    release = load_release(LESSON)
    early = {name: verdict_without_running(submission, name) for name in release.exercises}
    assert all(verdict is None or (verdict.score == 0 and verdict.message) for verdict in early.values())
    verdicts = [
        verdict or Verdict("ann", LESSON, name, 1, submission.release.points(name), "passed", "", "Right.")
        for name, verdict in early.items()
    ]
    nbformat.validate(nbformat.reads(autograded(submission, verdicts), as_version=4))
    assert "<script" not in feedback(submission, verdicts)
    answers = {name: {"ann": answer_source(submission, name), "bo": "x = 1"} for name in release.exercises}
    similar_pairs(answers, {name: release.cells[name].source for name in answers})
    with warnings.catch_warnings(action="ignore"):  # Python's, on odd but valid programs
        shown = [anonymous(each["ann"], ["ann"]) for each in answers.values()]
    assert not any(re.search(r"(?<![^\W\d_])ann(?![^\W\d_])", text) for text in shown)


names = spliced(
    ["Ada Lovelace", "Bo ONeil-Müller", "lovelaceada", "_40001_", "_40002_", "_1_", "_LATE_", "9" * 30, "/", "../",
     "\\", "\0", "_assignsubmission_file", "_assignsubmission_onlinetext", "_/", LESSON, ".ipynb", "-2", " (3)", "C:",
     "\u0300", "\n", "\x1b[2J"], min_size=1, max_size=12,
)  # fmt: skip
contents = st.binary(max_size=40) | st.sampled_from([b'{"grade_id": "row_softmax"}', b'{"grade_id": "gradient"}'])
modes = st.sampled_from([0, 0o100644, 0o120777, 0o010644, 0o040755])
entries = st.lists(st.tuples(names, contents, modes), max_size=6)
flips = st.lists(st.tuples(st.integers(0, 10**4), st.integers(0, 255)), max_size=3)
archives = st.tuples(entries, flips)


def collect_an_archive(made: tuple[list[tuple[str, bytes, int]], list[tuple[int, int]]]) -> None:
    """An archive is collected or refused; only notebooks of students on the roster are written."""
    data = bytearray(_archive(made[0]))
    for place, value in made[1]:
        data[place % len(data)] = value
    with tempfile.TemporaryDirectory() as folder:
        archive, into = Path(folder, "archive.zip"), Path(folder, "submitted")
        archive.write_bytes(data)
        with contextlib.suppress(CollectError):
            found = collect(archive, LESSON, into, [ADA, BO])
            assert all(line.isprintable() and len(line) < 3000 for line in [*found.refused, *found.notes])
            assert {*found.new, *found.absent} == {"ada", "bo"}
            assert not (found.replaced or found.same)
        written = {str(path.relative_to(folder)) for path in Path(folder).rglob("*") if not path.is_dir()}
    assert written <= {"archive.zip", *(f"submitted/{who}/{LESSON}/{LESSON}.ipynb" for who in ("ada", "bo"))}


def _archive(made: list[tuple[str, bytes, int]]) -> bytes:
    file = BytesIO()
    with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, content, mode in made:
            info = zipfile.ZipInfo(name.encode("utf-8", "replace").decode())
            info.external_attr = mode << 16
            opened.writestr(info, content)
    return file.getvalue()


rows = spliced(
    ["id", "first_name", "last_name", "email", "lms_user_id", ",", ";", "\t", "\n", "\r\n", '"', "ada", "a/b", "..",
     "=1", "<b>", "ann@x.org", "\ufeff", "\0", "x" * 130], max_size=30,
)  # fmt: skip
tables = st.binary(max_size=80) | st.builds(
    lambda head, text, encoding: (head + text).encode(encoding, "replace"),
    st.sampled_from(["", "id,first_name,last_name,email\n", "id;email\r\n"]), rows,
    st.sampled_from(["utf-8", "utf-16", "cp1252"]),
)  # fmt: skip


def read_a_roster(data: bytes) -> None:
    """A roster is read or refused; ids name folders, nothing is HTML or a formula, and it is read back the same."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "roster.csv")
        path.write_bytes(data)
        with contextlib.suppress(RosterError):
            members = read_roster(path).members
            for member in members:
                assert re.fullmatch(r"\w[\w.@-]*", member.id)
                assert not set(MARKUP).intersection("".join(vars(member).values()))
            write_roster(path, members)
            again = read_roster(path)
            assert (again.members, again.faults) == (members, ())


def read_grades(data: bytes) -> None:
    """A table of grades is read or refused, and its numbers are finite."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "grades.csv")
        path.write_bytes(data)
        with contextlib.suppress(BadTableError):
            assert all(abs(row.score) < float("inf") for row in read_table(path).rows)


grades = st.builds(
    lambda text: (",".join(COLUMNS) + "\n" + text).encode("utf-8", "replace"),
    spliced(["ann,", f"{LESSON},", "row_softmax,", "1,2,", "nan,", "1e999,", "passed,", "\n", '"', "=1"], max_size=25),
)  # fmt: skip
times = spliced(["2026-11-20", " 12:00:00", " UTC", "+25:00", "T", "-", ":", "9" * 20, "Jan ", "am"], max_size=8)


def read_a_time(text: str) -> None:
    """A time is read or refused."""
    with contextlib.suppress(ValueError):
        assert parse_time(text).tzinfo is None


TARGETS: dict[str, tuple[st.SearchStrategy[Any], Callable[[Any], None]]] = {
    "codec": (replies | st.binary(max_size=80), unpack_a_reply),
    "submission": (notebooks | damaged | st.binary(max_size=200) | any_json, read_and_report),
    "collect": (archives, collect_an_archive),
    "roster": (tables, read_a_roster),
    "grades": (grades | st.binary(max_size=80), read_grades),
    "time": (times, read_a_time),
}


def fuzz(target: str, examples: int, number: int = 0) -> None:
    """Try a target with made-up input; an error shows the smallest input that was found to cause it.

    Args:
        number: of the series; the same number tries the same input.
    """
    strategy, check = TARGETS[target]

    @seed(number)
    @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(strategy)
    def try_one(made: Any) -> None:
        began = time.monotonic()
        check(made)
        assert time.monotonic() - began < SECONDS, "this took too long"

    try_one()
