"""The self-study package: the wheel that `pip wheel .` makes, with the reference answers added as one data file.

    python -m tools.selfstudy OUT

What a class is given is the plain wheel. The file of references is written into a copy of the tree, so that none lies
about here to get into that one.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from torchcourse.exercise import LESSONS, exercises
from torchcourse.references import PACKED, pack

__all__ = ["lay_out", "wheel"]

ROOT = Path(__file__).resolve().parents[1]
LEFT_OUT = (".git", ".venv", ".*_cache", "__pycache__", "*.egg-info", "build", "dist", "work", "solutions", "autograde",
            "tests")  # fmt: skip


def lay_out(folder: Path) -> Path:
    """Copy what the package is built from into the new `folder`, and write the file of references there; its path."""
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*LEFT_OUT))
    path = folder / PACKED.relative_to(ROOT)
    path.write_text(pack({lesson: list(exercises(lesson)) for lesson in LESSONS}), encoding="utf-8")
    return path


def wheel(out: Path) -> Path:
    """Build the self-study wheel into `out`; its path.

    Raises:
        RuntimeError: when pip cannot build it, with the end of what it said.
    """
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch) / "torchcourse"
        lay_out(tree)
        built = Path(scratch) / "built"
        pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
        done = subprocess.run([*pip, "-w", str(built), str(tree)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"pip could not build the wheel:\n{done.stderr[-2000:]}")
        (made,) = built.glob("*.whl")
        out.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy2(made, out))


def main() -> None:
    """Build it where the first argument says."""
    parser = argparse.ArgumentParser(description="Build the self-study wheel, which holds the reference answers.")
    parser.add_argument("out", type=Path, nargs="?", default=ROOT / "dist" / "self-study")
    print(wheel(parser.parse_args().out))


if __name__ == "__main__":
    main()
