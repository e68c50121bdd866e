"""Build the self-study wheel: the lessons with the reference answers beside them, for people who learn alone.

    python -m tools.selfstudy [FOLDER]

What a class gets is the plain wheel, without the file of references.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from autograde.course.bundle import build_wheel
from autograde.files import write_atomically
from torchcourse.checking.references import PACKED, pack
from torchcourse.model.catalogue import LESSONS, exercises

__all__ = ["write_wheel"]

ROOT = Path(__file__).resolve().parents[1]


def write_wheel(folder: Path) -> Path:
    """Build the wheel into `folder` and return its path.

    Raises:
        BundleError: when pip cannot build it.
    """
    references = pack({lesson: list(exercises(lesson)) for lesson in LESSONS})
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    name, wheel = build_wheel(list(LESSONS), readme, {PACKED.name: references})
    write_atomically(folder / name, wheel)
    return folder / name


def main() -> None:
    """Build the wheel into the folder that the command line names."""
    parser = argparse.ArgumentParser(description="Build the self-study wheel, which holds the reference answers.")
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "dist" / "self-study")
    print(write_wheel(parser.parse_args().folder))


if __name__ == "__main__":
    main()
