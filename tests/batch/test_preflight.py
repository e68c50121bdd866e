"""Refusals at the start: one line with the remedy, and nothing left behind."""

from __future__ import annotations

import errno
import shutil
import socket
import sqlite3
import subprocess
import sys
import warnings
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from autograde.batch import grading, preflight
from autograde.batch.preflight import check_folder, check_gradebook, explain_write_errors
from autograde.course.build import table_version
from autograde.errors import RefusedError
from autograde.results.gradebook_url import CONNECT_SECONDS, gradebook_url
from autograde.source import paths
from tests.support.stand_ins import LESSON, submit

ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has namespaces of mounts, and /proc")


@pytest.fixture
def submitted(tmp_path: Path, quick: None) -> Path:
    submit(tmp_path / "class", "ada", None)
    return tmp_path / "class"


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A gradebook of nbgrader's without any assignment."""
    from nbgrader.api import Gradebook

    from autograde.course.build import ask_alembic_library

    ask_alembic_library()
    path = tmp_path_factory.mktemp("book") / "gradebook.db"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Gradebook(f"sqlite:///{path}").close()
    return path


def assign(book: sqlite3.Connection, *names: str) -> None:
    for name in names:
        book.execute("insert into assignment (id, name, course_id) values (?, ?, 'default_course')", (name, name))


def one_line(error: BaseException) -> str:
    assert "\n" not in str(error)
    return str(error)


CHANGES: dict[str, tuple[Callable[[sqlite3.Connection], object], str]] = {
    "another course": (lambda b: assign(b, "ps1", "ps2"), "another course (it has ps1, ps2): choose another --out"),
    "a newer schema": (lambda b: b.execute("update alembic_version set version_num = 'ffff'"), "newer nbgrader"),
    "an older schema": (
        lambda b: b.execute("update alembic_version set version_num = 'b6d005d67074'"), "`nbgrader db upgrade`",
    ),
    "no stamp": (lambda b: (assign(b, LESSON), b.execute("drop table alembic_version")), "older nbgrader"),
    "other tables": (lambda b: b.execute("create table recipes (name text)"), "that do not belong to a gradebook"),
}  # fmt: skip


@pytest.mark.parametrize("what", CHANGES)
def test_a_gradebook_that_is_not_ours_is_refused_and_left_alone(
    what: str, empty: Path, submitted: Path, tmp_path: Path
) -> None:
    change, says = CHANGES[what]
    out = tmp_path / "out"
    out.mkdir()
    (out / "gradebook.db").write_bytes(empty.read_bytes())
    with sqlite3.connect(out / "gradebook.db") as book:
        change(book)
    book.close()
    before = (out / "gradebook.db").read_bytes()
    with pytest.raises(RefusedError) as caught:
        grading.grade_class([LESSON], submitted, out)
    assert says in one_line(caught.value)
    assert [path.name for path in out.iterdir()] == ["gradebook.db"]
    assert (out / "gradebook.db").read_bytes() == before


def test_a_folder_of_a_lesson_in_the_place_of_a_students_is_refused(submitted: Path, tmp_path: Path) -> None:
    shutil.copytree(submitted, tmp_path / "all")
    shutil.copytree(next((tmp_path / "all").iterdir()), tmp_path / "all" / LESSON)
    with pytest.raises(RefusedError) as caught:
        grading.grade_class([LESSON], tmp_path / "all", tmp_path / "out")
    assert f"is named for a lesson, and lies where a student's folder should: the place is {tmp_path / 'all'}" in str(
        caught.value
    )


def test_gradebooks_of_this_course_are_accepted(empty: Path, tmp_path: Path) -> None:
    check_gradebook(f"sqlite:///{tmp_path / 'none yet.db'}")
    assert not (tmp_path / "none yet.db").exists()
    check_gradebook(f"sqlite:///{empty}")
    mixed = tmp_path / "mixed.db"
    mixed.write_bytes(empty.read_bytes())
    with sqlite3.connect(mixed) as book:
        assign(book, "an assignment of my own", LESSON)
        (stamp,) = book.execute("select version_num from alembic_version").fetchone()
    book.close()
    assert stamp == table_version()
    check_gradebook(f"sqlite:///{mixed}")


@pytest.mark.parametrize(
    ("url", "says"),
    [
        *((url, "--gradebook wants a URL") for url in ("book.db", "mysql://me@here/b", "sqlite://", "postgresql://")),
        ("", "--gradebook wants a URL"),
        ("::", "--gradebook wants a URL"),
        ("sqlite:///{folder}/text.db", "cannot be read as a gradebook"),
        ("sqlite:///{folder}", "is not a writable file"),
        ("postgresql://ada:sesame@127.0.0.1:9/book", "127.0.0.1:9"),
        ("postgresql://ada:sesame@127.0.0.1:9/book", "its server is running"),
    ],
)
def test_what_is_no_gradebook_is_refused_without_the_password(url: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("no database, but a text of some length\n" * 100)
    with pytest.raises(RefusedError) as caught:
        check_gradebook(url.format(folder=tmp_path))
    assert says in one_line(caught.value)
    assert "sesame" not in str(caught.value)


def test_a_server_that_accepts_and_never_answers_is_refused_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"postgresql://ada@127.0.0.1:{silent.getsockname()[1]}/book"
        assert gradebook_url(Path(), address) == f"{address}?connect_timeout={CONNECT_SECONDS}"
        with pytest.raises(RefusedError, match="timeout"):
            check_gradebook(gradebook_url(Path(), f"{address}?connect_timeout=2"))  # the least that libpq takes


@pytest.mark.parametrize("named", ["book.db", "::", "postgresql://host:port/book", "mysql://me@here/b", "sqlite://"])
def test_what_is_no_url_of_a_gradebook_is_left_for_the_refusal(named: str) -> None:
    assert gradebook_url(Path(), named) == named


def test_a_long_complaint_of_a_database_is_cut_with_a_sign() -> None:
    said = preflight.reason_of(OperationalError("select", {}, Exception("x" * 5000)))
    assert said.startswith("xxx")
    assert (len(said) < 1000, said[-1]) == (True, "…")


def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(RefusedError, match=r"pip install 'psycopg\[binary\]'"):
        check_gradebook("postgresql://ada@127.0.0.1:9/book")


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("file", "choose another --out"),
        ("file/out", "choose another --out"),
        ("out with a file in it", "choose another --out"),
        pytest.param("/proc/graded", "cannot be written to", marks=ON_LINUX),
    ],
)
def test_a_folder_that_cannot_be_one_is_refused(place: str, says: str, submitted: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "out with a file in it").mkdir()
    (tmp_path / "out with a file in it" / "journal").write_text("")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(RefusedError) as caught:
        grading.grade_class([LESSON], submitted, tmp_path / place)
    assert says in one_line(caught.value)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_disk_with_too_little_room_is_refused_before_anything_is_made(
    submitted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(preflight.shutil, "disk_usage", lambda path: usage(1, 1, 50_100_000))
    with pytest.raises(RefusedError, match="takes up to 50 MB, and 50 MB are free: make room") as caught:
        grading.grade_class([LESSON], submitted, tmp_path / "out")
    assert one_line(caught.value)
    assert not (tmp_path / "out").exists()
    check_folder(tmp_path / "out", submissions=0)  # what is known already takes no more room


@ON_LINUX
def test_a_disk_that_is_really_full_on_the_way_is_said_and_the_same_command_goes_on(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    script = 'mount -t tmpfs -o size=64m tmpfs "$1/disk" && exec "$2" -m tests.support.full_disk "$1"'
    apart = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", str(tmp_path), sys.executable]
    done = subprocess.run(apart, cwd=paths.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("refused in one line, and gone on with") == 5


def test_a_gradebook_that_goes_away_is_said_in_a_line(tmp_path: Path) -> None:
    gone = OperationalError("select 1", {}, Exception("server closed the connection\nat some length"))
    with pytest.raises(RefusedError, match="run the same command again") as caught, explain_write_errors(tmp_path):
        raise gone
    assert "(server closed the connection)" in one_line(caught.value)
    full = OperationalError("insert", {}, Exception("database or disk is full"))
    with pytest.raises(RefusedError, match=r"The disk that holds .* is full"), explain_write_errors(tmp_path):
        raise full
    with pytest.raises(PermissionError), explain_write_errors(tmp_path):
        raise PermissionError(errno.EPERM, "another trouble")
