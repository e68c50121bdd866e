"""The learners' archive, unpacked and searched for secrets."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from autograde.course import bundle
from autograde.course.bundle import BundleError, write_bundle
from autograde.source import paths
from autograde.source.private_half import private_half
from autograde.source.script import rubrics
from tests.support.secrets import leaked_answers, leaked_programs, squeezed
from torchcourse.checking.references import PACKED
from torchcourse.model.catalogue import LESSONS, exercises

FEW = ["01_tensors", "03_modules"]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bundle") / "learners.zip"
    write_bundle(path, list(LESSONS))
    return path


def unpacked(path: Path) -> dict[str, bytes]:
    """Every file in the archive, and every file in the wheel in it."""
    with zipfile.ZipFile(path) as opened:
        files = {name: opened.read(name) for name in opened.namelist()}
    (wheel,) = (name for name in files if name.endswith(".whl"))
    with zipfile.ZipFile(io.BytesIO(files.pop(wheel))) as inner:
        return files | {f"{wheel}/{name}": inner.read(name) for name in inner.namelist()}


def readable(files: dict[str, bytes]) -> dict[str, str]:
    """The files as text; notebooks as what their cells say."""
    texts = {}
    for name, data in files.items():
        text = data.decode("utf-8", "replace")
        if name.endswith(".ipynb"):
            text = "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])
        texts[name] = text
    return texts


def test_it_holds_what_learners_need_and_nothing_else(archive: Path) -> None:
    files = unpacked(archive)
    outside = sorted(name for name in files if ".whl/" not in name)
    fixed = ["README.md", "constraints.txt", "environment.yml", "requirements.txt"]
    assert outside == sorted([f"torchcourse/{name}" for name in fixed]
                             + [f"torchcourse/notebooks/{lesson}.ipynb" for lesson in LESSONS])  # fmt: skip
    inside = [name.split(".whl/")[1] for name in files if ".whl/" in name]
    assert all(name.startswith(("torchcourse/", "torchcourse-")) for name in inside)
    data = {name for name in inside if name.startswith("torchcourse/") and not name.endswith(".py")}
    package = paths.ROOT / "src" / "torchcourse"
    here = {path for path in package.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")} - {PACKED}
    assert data == {f"torchcourse/notebooks/{lesson}.ipynb" for lesson in LESSONS} | {
        path.relative_to(package.parent).as_posix() for path in here
    }
    readme = files["torchcourse/README.md"].decode()
    assert all(f"{lesson}.ipynb" in readme for lesson in LESSONS)
    wheel = next(name for name in files if ".whl/" in name).split("/")[1]
    assert files["torchcourse/requirements.txt"].decode() == f"-c constraints.txt\n./{wheel}[lab]\n"


def test_reference_answers_that_lie_in_the_package_stay_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "src" / "torchcourse"
    package.mkdir(parents=True)
    shutil.copy(paths.ROOT / "pyproject.toml", tmp_path)
    for name in ("__init__.py", "py.typed", PACKED.name):
        (package / name).touch()
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    assert [path.name for path in bundle.package_files()] == ["__init__.py", "py.typed"]


def test_no_answer_is_in_it(archive: Path) -> None:
    everything = squeezed("\n".join(readable(unpacked(archive)).values()))
    assert leaked_answers(everything) == []
    assert "BEGINSOLUTION" not in everything


SECRET_WORDS = (
    "autograde.hidden", "autograde/hidden", "hidden.common", "autograde.source.mistakes", "autograde.judge.oracle",
    "more_cases", "MISTAKES", "RIGHT_ANSWERS", "20_261_120", "20261120", "solutions/",
)  # fmt: skip


def test_no_hidden_case_and_no_reason_of_a_reference_is_in_it(archive: Path) -> None:
    files = unpacked(archive)
    everything = b"\n".join(files.values()).decode("utf-8", "replace")
    words = everything + "\n".join(readable(files).values())
    programs = squeezed("\n".join(text for name, text in readable(files).items() if name.endswith((".py", ".ipynb"))))
    assert leaked_programs(programs) == []
    for word in SECRET_WORDS:
        assert word not in words, word
    reasons = [private_half(lesson, name).why for lesson in LESSONS for name in exercises(lesson)]
    assert all(reasons)
    assert not [why for why in reasons if why in words]


def test_questions_are_in_it_and_no_rubric_is(archive: Path) -> None:
    files = unpacked(archive)
    words = b"\n".join(files.values()).decode("utf-8", "replace") + "\n".join(readable(files).values())
    scripts = [paths.SOLUTIONS / f"{lesson}.py" for lesson in LESSONS]
    secrets = [max(re.findall(r"[^*\n]{40,}", text), key=len) for path in scripts for text in rubrics(path).values()]
    assert secrets
    assert "*Write your answer here" in words
    assert not [secret for secret in secrets if secret in words]


def test_stored_data_are_no_programs(archive: Path) -> None:
    stored = {name: data for name, data in unpacked(archive).items() if name.endswith(".bin")}
    assert len(stored) == len(LESSONS)
    for data in stored.values():
        assert b"def " not in data
        assert not re.search(rb"lambda[ \w,*]*:", data)
        assert not re.search(rb"\x80[\x02-\x05](\x95.{8})?(c|\x8c.)[\w.]{3,}", data, re.DOTALL)  # a pickle that imports


def test_the_same_course_gives_the_same_bytes_whenever_and_by_whomever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    made = []
    for n, mask in enumerate((0o022, 0o077)):
        monkeypatch.setenv("TZ", ("UTC", "Asia/Tokyo")[n])
        before = os.umask(mask)
        try:
            write_bundle(tmp_path / f"{n}.zip", FEW)
        finally:
            os.umask(before)
        made.append((tmp_path / f"{n}.zip").read_bytes())
    assert made[0] == made[1]
    names = unpacked(tmp_path / "0.zip")
    assert sorted(Path(name).stem for name in names if name.startswith("torchcourse/notebooks/")) == FEW
    assert not [name for name in names if name.endswith("notebooks/02_autograd.ipynb")]


def test_a_learner_without_the_repository_starts_from_it(archive: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(archive) as opened:
        opened.extractall(tmp_path)
    (wheel,) = (tmp_path / "torchcourse").glob("*.whl")
    with zipfile.ZipFile(wheel) as inner:
        inner.extractall(tmp_path / "site")
    code = (
        "import sys; from pathlib import Path; from torchcourse import cli;"
        "from torchcourse.workspace.working_copy import copy_notebooks as copied;"
        "assert Path(cli.__file__).is_relative_to(sys.argv[1]) and not cli.has_instructor_half();"
        "print(len(copied(Path('notebooks'))), len(copied(Path('elsewhere'))));"
        "sys.argv = ['torchcourse', '--help']; cli.main()"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "site")], cwd=tmp_path / "torchcourse", text=True,
                          env={"PYTHONPATH": str(tmp_path / "site"), "PATH": "/usr/bin"}, capture_output=True,
                          check=False)  # fmt: skip
    copied, _, shown = done.stdout.partition("\n")
    assert copied.split() == ["0", str(len(LESSONS))], done.stderr
    assert "lab" in shown
    assert "grade" not in shown


def test_a_wheel_that_cannot_be_built_is_told_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, "BUILT_BY", ())
    with pytest.raises(BundleError, match="could not be built"):
        write_bundle(tmp_path / "learners.zip", FEW)
    assert list(tmp_path.iterdir()) == []
