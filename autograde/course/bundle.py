"""Make the learners' archive: notebooks, the wheel, an environment and a README, nothing of solutions/ or autograde/.

Its contents are an explicit list of what learners may have. The same course gives the same bytes.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from autograde.files import write_atomically
from autograde.source import paths
from autograde.source.release import check_built
from torchcourse.checking.references import PACKED
from torchcourse.model.files import check_target

__all__ = ["BundleError", "build_wheel", "package_files", "write_bundle"]

EARLIEST = (1980, 1, 1, 0, 0, 0)
"""The time stamp of every file in the archive: the earliest that a zip file allows."""
EPOCH = 315_532_800
"""The same for the wheel, in seconds since 1970."""
BUILT_BY = ("pyproject.toml", "setup.py", "LICENSE")
README = """# torchcourse

Learn PyTorch by building it: {count} in `notebooks/`, each with exercises that check your answers at once.

You need Python 3.11 to 3.14 and about 7 GB of disk (2 GB on macOS and Windows), most of it PyTorch:

    python3 -m venv .venv
    .venv/bin/pip install -r requirements.txt
    .venv/bin/torchcourse lab notebooks

On Windows the last two are `.venv\\Scripts\\pip` and `.venv\\Scripts\\torchcourse`. With conda:

    conda env create -f environment.yml
    conda activate torchcourse
    torchcourse lab notebooks

JupyterLab opens on `notebooks/`. Work there; nothing of yours is ever overwritten. What you hand in is the notebook,
under its own name. `torchcourse doctor` says what this machine has and what is missing.

{lessons}
"""
CONDA = """# conda env create -f environment.yml && conda activate torchcourse && torchcourse lab notebooks
name: torchcourse
channels:
  - conda-forge
dependencies:
  - python=3.11
  - pip
  - pip:
      - -r requirements.txt
"""


class BundleError(RuntimeError):
    """The archive cannot be made; the message says why."""


def write_bundle(path: Path, lessons: Sequence[str]) -> list[str]:
    """Write the learners' archive of `lessons` to `path`, a zip file, and return the names in it.

    Raises:
        BundleError: when the wheel cannot be built.
        CourseError: when a notebook has not been built, or not since its script was changed.
        OSError: when `path` cannot be written.
    """
    check_target(path)  # before the wheel is built, which takes a while
    check_built(*lessons)
    readme = _readme(lessons)
    name, wheel = build_wheel(lessons, readme)
    files = {"README.md": readme.encode(), "environment.yml": CONDA.encode(), name: wheel}
    files["requirements.txt"] = f"-c constraints.txt\n./{name}[lab]\n".encode()
    files["constraints.txt"] = (paths.ROOT / "constraints.txt").read_bytes()
    files |= {f"notebooks/{lesson}.ipynb": paths.notebook(lesson).read_bytes() for lesson in lessons}
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for inside, content in sorted(files.items()):
            entry = zipfile.ZipInfo(f"torchcourse/{inside}", EARLIEST)
            entry.external_attr = 0o100644 << 16
            entry.create_system = 3  # Unix, on whatever system the archive is made
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
    write_atomically(path, data.getvalue())
    return sorted(files)


def _readme(lessons: Sequence[str]) -> str:
    titles = []
    for lesson in lessons:
        notebook = json.loads(paths.notebook(lesson).read_text(encoding="utf-8"))
        first = "".join(notebook["cells"][0]["source"]).splitlines()[0]
        titles.append(f"- `{lesson}.ipynb`: {first.lstrip('# ')}")
    count = "one lesson" if len(lessons) == 1 else f"{len(lessons)} lessons"
    return README.format(count=count, lessons="\n".join(titles))


def package_files() -> list[Path]:
    """Return the package's modules and the data files that pyproject.toml names, without the reference answers."""
    package = paths.ROOT / "src" / "torchcourse"
    project = tomllib.loads((paths.ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = ["**/*.py", *project["tool"]["setuptools"]["package-data"]["torchcourse"]]
    found = {path for pattern in patterns for path in package.glob(pattern) if path.is_file()}
    return sorted(found - {package / PACKED.name})


def build_wheel(lessons: Sequence[str], readme: str, more: Mapping[str, str] | None = None) -> tuple[str, bytes]:
    """Build the wheel with the notebooks of `lessons` in it, without a network. The same course gives the same bytes.

    Args:
        lessons: the lessons whose notebooks go in.
        readme: the description of the package.
        more: the texts of further files of the package, by name.

    Returns:
        The wheel's name and its bytes.

    Raises:
        BundleError: when pip cannot build it, with the end of its output.
    """
    with tempfile.TemporaryDirectory() as folder:
        stage, out = Path(folder) / "stage", Path(folder) / "out"
        package = Path("src", "torchcourse")
        copied = [*package_files(), *(paths.ROOT / name for name in BUILT_BY)]
        into = {path: path.relative_to(paths.ROOT) for path in copied}
        for lesson in lessons:
            into[paths.notebook(lesson)] = Path("notebooks", f"{lesson}.ipynb")
            into[paths.stored(lesson)] = package / "stored" / f"{lesson}.bin"
            public = paths.public_topic(lesson)
            into |= {path: package / "exercises" / public.name / path.name for path in public.glob("*.py")}
        for source, inside in into.items():
            target = stage / inside
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
        for topic in (stage / package / "exercises").iterdir():
            if topic.is_dir():
                (topic / "__init__.py").touch()
        (stage / "README.md").write_text(readme, encoding="utf-8")
        for name, text in (more or {}).items():
            (stage / package / name).write_text(text, encoding="utf-8")
        for path in stage.rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        command = [sys.executable, "-m", "pip", "wheel", str(stage), "--no-deps", "--no-build-isolation",
                   "--no-index", "--disable-pip-version-check", "-q", "-w", str(out)]  # fmt: skip
        env = {**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH), "PIP_CONFIG_FILE": os.devnull}
        mask = 0o022 if os.name == "posix" else -1  # the modes of files are in the wheel too
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=env, stdin=subprocess.DEVNULL, umask=mask
        )
        built = sorted(out.glob("*.whl")) if done.returncode == 0 else []
        if len(built) != 1:
            raise BundleError(f"The wheel could not be built:\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
        return built[0].name, built[0].read_bytes()
