"""Files are replaced whole or not at all, and nothing but a file is replaced."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from autograde.files import regular_file, write_atomically
from torchcourse.model.files import replacing


def test_a_link_to_a_file_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    (tmp_path / "link").symlink_to("file")
    write_atomically(tmp_path / "link", "new")
    assert (tmp_path / "file").read_text() == "new"
    assert (tmp_path / "link").is_symlink()


def test_an_error_while_writing_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), replacing(path) as part:
        part.write_text("ne")
        raise ZeroDivisionError
    assert [p.read_text() for p in tmp_path.iterdir()] == ["old"]


@pytest.mark.parametrize("kind", ["pipe", "folder", "link"])
def test_what_is_no_file_is_not_replaced(tmp_path: Path, kind: str) -> None:
    """A device is like a pipe here: renaming a file over either removes it."""
    target = tmp_path / kind
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("pipe")
    with pytest.raises(FileExistsError, match="not a file"):
        write_atomically(target, "x")
    assert (tmp_path / "pipe").is_fifo()
    assert (tmp_path / "folder").is_dir()


@pytest.mark.parametrize("kind", ["pipe", "folder", "link"])
def test_only_a_regular_file_is_opened_and_nothing_stays_open(tmp_path: Path, kind: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    before = set(Path("/proc/self/fd").iterdir())
    with pytest.raises((ValueError, OSError)), regular_file(tmp_path / kind):
        pass
    with regular_file(tmp_path / "file") as file:
        assert file.read() == b"content"
    assert set(Path("/proc/self/fd").iterdir()) == before
