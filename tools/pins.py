"""Writes the pins: constraints.txt and environment.yml, from what pyproject.toml asks for and `.venv` holds.

An author's tool: `make pins`, after trying newer versions in `.venv`. A package that only some platforms need gets
the marker that says so, found by walking the installed packages' own requirements as each platform would.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

__all__ = ["constraints_text", "environment_text", "needed", "pins"]

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = ("lab", "author", "cluster", "postgres", "test")
PYTHON = "3.11"
PLATFORMS = {
    "linux": {"sys_platform": "linux", "platform_system": "Linux", "platform_machine": "x86_64", "os_name": "posix"},
    "darwin": {"sys_platform": "darwin", "platform_system": "Darwin", "platform_machine": "arm64", "os_name": "posix"},
    "win32": {"sys_platform": "win32", "platform_system": "Windows", "platform_machine": "AMD64", "os_name": "nt"},
}
MARKERS = {
    frozenset({"linux"}): ' ; sys_platform == "linux"',
    frozenset({"linux", "darwin"}): ' ; sys_platform != "win32"',
    frozenset(PLATFORMS): "",
}
ABOUT = """\
# The versions the course is tested with: everything that `torchcourse[test]` pulls in, and nothing else.
# Written by `make pins`; environment.yml repeats them. Three packages that only Windows or macOS need (colorama,
# pywinpty, appnope) are not tested and not pinned.
"""
CONDA = """\
# conda env create -f environment.yml && conda activate torchcourse && torchcourse lab
# About 3.2 GB to download and 6.5 GB on disk (macOS and Windows: 0.5 and 2 GB). Written by `make pins`: the pins are
# those of constraints.txt.
name: torchcourse
channels:
  - conda-forge
dependencies:
  - python={python}
  - pip
  - pip:
{pins}
      - "-e .[test]"
"""


def asked(extras_wanted: Sequence[str] = EXTRAS) -> list[Requirement]:
    """What pyproject.toml itself asks for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [line for extra in extras_wanted for line in project["optional-dependencies"][extra]]
    return [Requirement(line) for line in (*project["dependencies"], *extras) if not line.startswith("torchcourse")]


def needed(platform: str, extras: Sequence[str] = EXTRAS) -> set[str]:
    """The installed packages that the project pulls in on `platform`, through any number of others."""
    environment: dict[str, str] = {**_this_environment(), **PLATFORMS[platform], "python_version": PYTHON}
    seen: set[tuple[str, str]] = set()
    todo = asked(extras)
    while todo:
        requirement = todo.pop()
        for extra in ("", *requirement.extras):
            key = (canonicalize_name(requirement.name), extra)
            if key not in seen and _applies(requirement, environment, ""):
                seen.add(key)
                todo += _pulled_in(*key, environment)
    return {name for name, _ in seen if _version(name)}


def _this_environment() -> dict[str, str]:
    return {name: str(value) for name, value in default_environment().items()}


def _pulled_in(name: str, extra: str, environment: dict[str, str]) -> Iterator[Requirement]:
    try:
        lines = distribution(name).requires or []
    except PackageNotFoundError:  # another platform's package
        return
    for requirement in map(Requirement, lines):
        if _applies(requirement, environment, extra) and (not extra or not _applies(requirement, environment, "")):
            requirement.marker = None
            yield requirement


def _applies(requirement: Requirement, environment: dict[str, str], extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({**environment, "extra": extra})


def _version(name: str) -> str:
    try:
        return distribution(name).version
    except PackageNotFoundError:
        return ""


def pins() -> list[str]:
    """A line for each package: name, version, and where it is not for all platforms, a marker."""
    where = {platform: needed(platform) for platform in PLATFORMS}
    names = sorted(set().union(*where.values()))
    return [f"{name}=={_version(name)}{MARKERS[frozenset(p for p in where if name in where[p])]}" for name in names]


def constraints_text(lines: list[str]) -> str:
    """The content of constraints.txt."""
    return ABOUT + "".join(f"{line}\n" for line in lines)


def environment_text(lines: list[str]) -> str:
    """The content of environment.yml."""
    return CONDA.format(python=PYTHON, pins="\n".join(f"      - '{line}'" for line in lines))


def main() -> None:
    """Write both files."""
    lines = pins()
    (ROOT / "constraints.txt").write_text(constraints_text(lines))
    (ROOT / "environment.yml").write_text(environment_text(lines))
    print(f"{len(lines)} pins written to constraints.txt and environment.yml")


if __name__ == "__main__":
    main()
