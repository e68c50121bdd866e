"""The learner's archive: notebooks, the wheel, an environment and a README, and nothing of solutions/ or autograde/.

It is put together from what learners may have, file by file, never by leaving out what they may not. The same course
gives the same bytes.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path

from autograde import course

__all__ = ["BundleError", "write_bundle"]

EARLIEST = (1980, 1, 1, 0, 0, 0)
"""The time of every file in the archive: the first that a zip file can tell."""
EPOCH = 315_532_800
"""The same for the wheel, in seconds."""
PACKAGED = ("*.py", "py.typed", "stored/*.bin", "data/*", "jupyter/labconfig/*.json")
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
    """The archive cannot be made: says why."""


def write_bundle(path: Path, lessons: Sequence[str]) -> list[str]:
    """Write the learner's archive of `lessons` to `path`, a zip file; the names in it.

    Raises:
        BundleError: when the wheel cannot be built, or a notebook has not been.
    """
    for lesson in lessons:
        if not (course.NOTEBOOKS / f"{lesson}.ipynb").is_file():
            raise BundleError(f"notebooks/{lesson}.ipynb is missing: build it with `torchcourse build {lesson}`.")
    readme = _readme(lessons)
    name, wheel = _wheel(lessons, readme)
    files = {"README.md": readme.encode(), "environment.yml": CONDA.encode(), name: wheel}
    files["requirements.txt"] = _requirements(name).encode()
    files |= {f"notebooks/{lesson}.ipynb": (course.NOTEBOOKS / f"{lesson}.ipynb").read_bytes() for lesson in lessons}
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for inside, content in sorted(files.items()):
            entry = zipfile.ZipInfo(f"torchcourse/{inside}", EARLIEST)
            entry.external_attr = 0o100644 << 16
            entry.create_system = 3  # unix, wherever it is made
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(data.getvalue())
    part.replace(path)
    return sorted(files)


def _readme(lessons: Sequence[str]) -> str:
    titles = []
    for lesson in lessons:
        notebook = json.loads((course.NOTEBOOKS / f"{lesson}.ipynb").read_text(encoding="utf-8"))
        first = "".join(notebook["cells"][0]["source"]).splitlines()[0]
        titles.append(f"- `{lesson}.ipynb`: {first.lstrip('# ')}")
    count = "one lesson" if len(lessons) == 1 else f"{len(lessons)} lessons"
    return README.format(count=count, lessons="\n".join(titles))


def _requirements(wheel: str) -> str:
    """What pip installs: the wheel with JupyterLab, and the pins of everything that the two pull in."""
    from tools.pins import needed

    pins = (course.ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    wanted = set().union(*(needed(platform, ("lab",)) for platform in ("linux", "darwin", "win32")))
    lines = [pin for pin in pins if pin and not pin.startswith("#") and re.split("[=<> ]", pin)[0] in wanted]
    return "\n".join([f"./{wheel}[lab]", *lines, ""])


def _wheel(lessons: Sequence[str], readme: str) -> tuple[str, bytes]:
    """The wheel, with the notebooks in it: its name and its bytes. Needs no network."""
    with tempfile.TemporaryDirectory() as folder:
        stage, out = Path(folder) / "stage", Path(folder) / "out"
        package = stage / "src" / "torchcourse"
        for pattern in PACKAGED:
            for source in (course.ROOT / "src" / "torchcourse").rglob(pattern):
                target = package / source.relative_to(course.ROOT / "src" / "torchcourse")
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)
        (package / "notebooks").mkdir()
        for lesson in lessons:
            shutil.copyfile(course.NOTEBOOKS / f"{lesson}.ipynb", package / "notebooks" / f"{lesson}.ipynb")
        (stage / "pyproject.toml").write_text(_project(), encoding="utf-8")
        (stage / "README.md").write_text(readme, encoding="utf-8")
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


def _project() -> str:
    """pyproject.toml as far as a learner's installation needs it."""
    text = (course.ROOT / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)
    lines = ["[build-system]", f"requires = {json.dumps(project['build-system']['requires'])}",
             f"build-backend = {json.dumps(project['build-system']['build-backend'])}", "", "[project]"]  # fmt: skip
    wanted = ("name", "version", "description", "readme", "requires-python", "dependencies")
    lines += [f"{key} = {json.dumps(project['project'][key])}" for key in wanted]
    lines += ["", "[project.optional-dependencies]",
              f"lab = {json.dumps(project['project']['optional-dependencies']['lab'])}",
              "", "[project.scripts]", f"torchcourse = {json.dumps(project['project']['scripts']['torchcourse'])}",
              "", "[tool.setuptools]", 'package-dir = { "" = "src" }',
              "", "[tool.setuptools.packages.find]", 'where = ["src"]',
              "", "[tool.setuptools.package-data]"]  # fmt: skip
    data = [*project["tool"]["setuptools"]["package-data"]["torchcourse"], "notebooks/*.ipynb"]
    return "\n".join([*lines, f"torchcourse = {json.dumps(data)}", ""])
