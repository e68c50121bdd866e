"""Examine this machine without changing it, and name a remedy for what the course is missing.

A finding is "ok"; "warning" if the course works, except for what it says; or "blocked" if the course does not work.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packaging.requirements import Requirement

__all__ = ["Finding", "as_json", "examine_grader", "examine_machine", "table"]

GB = 1 << 30
OLDEST_PYTHON = (3, 11)
NATIVE_BF16 = (8, 0)
"""The first compute capability with bfloat16 arithmetic; older GPUs convert to float32 and back."""
SHARED_MEMORY = 256 << 20
"""Bytes in /dev/shm that are enough for loaders with worker processes; containers often have 64 MB."""
DISK, DISK_LEAST = 2 * GB, GB // 4
"""Free bytes below which the disk is a warning, and below which it is "blocked"."""
REMEDIES = {
    "g++": "sudo apt-get install g++, or on macOS: xcode-select --install",
    "ninja": "pip install ninja",
}
"""How to get the tools that building a C++ extension needs."""


@dataclass(frozen=True)
class Finding:
    """One finding: what it is `about`, its `state`, what it `says`, and a `remedy` ("" if there is nothing to do)."""

    about: str
    state: str
    says: str
    remedy: str = ""


Check = Callable[[], Iterator[Finding]]


def examine_machine(more: Iterable[Check] = ()) -> list[Finding]:
    """Run all checks, those in `more` last, and return the findings."""
    return _run((python, torch_build, gpu, compiler, builder, loader_workers, shared_memory, jupyter, extensions,
                 kernel, notebooks, disk, *more))  # fmt: skip


def examine_grader(more: Iterable[Check] = ()) -> list[Finding]:
    """Run the checks of what grading needs, those in `more` last, and return the findings. Imports no torch."""
    return _run((python, packages, compiler, builder, disk, *more))


def _run(checks: Iterable[Check]) -> list[Finding]:
    """Return what checks find. One that raises becomes a finding too."""
    findings: list[Finding] = []
    for check in checks:
        try:
            findings.extend(check())
        except Exception as error:  # whatever a broken installation may raise
            about = check.__name__.strip("_").replace("_", " ")
            findings.append(Finding(about, "warning", f"could not be examined: {type(error).__name__}: {error}"))
    return findings


def python() -> Iterator[Finding]:
    """Check the version of Python."""
    version = platform.python_version()
    if sys.version_info[:2] < OLDEST_PYTHON:
        yield Finding("Python", "blocked", version, "install Python 3.11 or later, then: make setup PYTHON=python3.11")
    else:
        yield Finding("Python", "ok", f"{version} in {sys.prefix}")


def torch_build() -> Iterator[Finding]:
    """Check that PyTorch can be imported, and what it was built for."""
    try:
        import torch
    except (ImportError, OSError) as error:
        remedy = "make setup, or: pip install torch torchvision"
        yield Finding("PyTorch", "blocked", f"cannot be imported: {str(error).splitlines()[0]}", remedy)
        return
    built = f"CUDA {torch.version.cuda}" if torch.version.cuda else "the CPU"
    built = f"ROCm {torch.version.hip}" if getattr(torch.version, "hip", None) else built
    yield Finding("PyTorch", "ok", f"{torch.__version__}, built for {built}")


def gpu() -> Iterator[Finding]:
    """Check GPU, driver and bfloat16. Without a GPU, exercises are checked on a simulated one."""
    import torch

    driver = _driver()
    if torch.cuda.is_available():
        for number in range(torch.cuda.device_count()):
            yield _one_gpu(torch.cuda.get_device_properties(number), driver)
    elif torch.backends.mps.is_available():
        yield Finding("GPU", "ok", "Apple's; the course uses a simulated one as the second device")
    elif driver and torch.version.cuda:
        remedy = f"update NVIDIA's driver to one for CUDA {torch.version.cuda}, or install an older build of PyTorch"
        yield Finding("GPU", "warning", f"{driver}, but PyTorch cannot use it", remedy)
    elif driver:
        remedy = "install a build of PyTorch with CUDA (pytorch.org lists them)"
        yield Finding("GPU", "warning", f"{driver}, but this PyTorch was built without CUDA", remedy)
    else:
        yield Finding("GPU", "ok", "none; the course uses a simulated one")


def _one_gpu(properties: object, driver: str) -> Finding:
    major, minor = getattr(properties, "major", 0), getattr(properties, "minor", 0)
    memory = getattr(properties, "total_memory", 0) / GB
    bf16 = "bfloat16 native" if (major, minor) >= NATIVE_BF16 else "bfloat16 emulated: correct, but slow"
    name = getattr(properties, "name", "a GPU")
    state = "ok" if (major, minor) >= NATIVE_BF16 else "warning"
    remedy = "" if state == "ok" else "on this GPU use float16 with a gradient scaler where speed matters"
    return Finding("GPU", state, f"{name}, {memory:.0f} GB, capability {major}.{minor}, {bf16}; {driver}", remedy)


def _driver() -> str:
    """Return the driver and name of the first GPU that nvidia-smi lists; "" if none."""
    if shutil.which("nvidia-smi") is None:
        return ""
    command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    name, _, version = (done.stdout.splitlines() or [""])[0].partition(", ")
    return f"driver {version} ({name})" if done.returncode == 0 and name else ""


def compiler() -> Iterator[Finding]:
    """Check the C++ compiler that torch.compile calls, and Python's headers, which it includes."""
    install = REMEDIES["g++"]
    chosen = os.environ.get("CXX") or next(filter(shutil.which, ("g++", "clang++")), "")
    if not chosen or shutil.which(chosen) is None:
        says = "none: torch.compile cannot be used, and rms_norm_cpp of lesson 13 counts as not attempted"
        yield Finding("C++ compiler", "warning", says, install)
        return
    command = [chosen, "-x", "c++", "-fsyntax-only", "-"]
    done = subprocess.run(command, input="#include <cmath>\n", capture_output=True, text=True, timeout=10, check=False)
    headers = Path(sysconfig.get_path("include")) / "Python.h"
    if done.returncode:
        reason = (done.stderr.splitlines() or ["it gave no reason"])[0]
        yield Finding("C++ compiler", "warning", f"{chosen} does not work: {reason}", install)
    elif not headers.exists():
        remedy = f"sudo apt-get install python{sys.version_info[0]}.{sys.version_info[1]}-dev"
        yield Finding("C++ compiler", "warning", f"{chosen}, but {headers} is missing: torch.compile needs it", remedy)
    elif shutil.which(os.environ.get("CXX") or "g++") is None:
        says = f"{chosen} and no g++: rms_norm_cpp of lesson 13 counts as not attempted unless CXX={chosen} is set"
        yield Finding("C++ compiler", "warning", says, install)
    else:
        yield Finding("C++ compiler", "ok", str(shutil.which(chosen)))


def builder() -> Iterator[Finding]:
    """Check what building an operator in C++ needs besides the compiler, in lesson 13 and in grading it."""
    ninja = shutil.which("ninja") or shutil.which("ninja", path=str(Path(sys.executable).parent))
    if ninja is None:
        says = "none: operators in C++ cannot be built, and rms_norm_cpp of lesson 13 counts as not attempted"
        yield Finding("ninja", "warning", says, REMEDIES["ninja"])
    else:
        yield Finding("ninja", "ok", ninja)


def loader_workers() -> Iterator[Finding]:
    """Check how worker processes of a DataLoader are started."""
    method = multiprocessing.get_context().get_start_method()
    if method == "fork":
        yield Finding("DataLoader workers", "ok", "started by fork: they can use what a notebook defines")
    else:
        remedy = "put classes that workers need into a module, or pass multiprocessing_context='fork'"
        says = f"started by {method}: they cannot use classes that a notebook defines"
        yield Finding("DataLoader workers", "warning", says, remedy)


def shared_memory(folder: Path = Path("/dev/shm")) -> Iterator[Finding]:
    """Check the shared memory that worker processes put batches in, on Linux."""
    if not sys.platform.startswith("linux"):
        return
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        remedy = f"mount a tmpfs at {folder}"
        yield Finding("shared memory", "warning", f"{folder} cannot be written: loaders with workers will fail", remedy)
        return
    total = shutil.disk_usage(folder).total
    if total < SHARED_MEMORY:
        remedy = "start the container with --shm-size=1g"
        yield Finding("shared memory", "warning", f"{total >> 20} MB in {folder}: large batches will not fit", remedy)
    else:
        yield Finding("shared memory", "ok", f"{total / GB:.1f} GB in {folder}")


def jupyter() -> Iterator[Finding]:
    """Check the versions of JupyterLab, which shows the notebooks, and nbgrader, which teachers need."""
    from packaging.requirements import Requirement

    wanted = {"jupyterlab": Requirement("jupyterlab>=4"), "nbgrader": Requirement("nbgrader>=0.9.6")}
    for line in metadata.requires("torchcourse") or []:
        requirement = Requirement(line)
        if requirement.name in wanted and requirement.marker and requirement.marker.evaluate({"extra": "lab"}):
            wanted[requirement.name] = requirement
    for name, requirement in wanted.items():
        remedy = f"pip install '{name}{requirement.specifier}'"
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            yield Finding(name, "warning", "not installed", remedy)
            continue
        fits = requirement.specifier.contains(version, prereleases=True)
        yield Finding(name, "ok" if fits else "warning", version if fits else f"{version} is not supported",
                      "" if fits else remedy)  # fmt: skip


def packages() -> Iterator[Finding]:
    """Check, without importing any, the packages that the instructor's half needs."""
    from packaging.requirements import Requirement

    wanted = [Requirement(line) for line in metadata.requires("torchcourse") or []]
    needed = [r for r in wanted if r.name != "torchcourse" and _applies(r, ("", "lab", "author"))]
    missing = [r for r in needed if not _is_installed(r)]
    if missing:
        remedy = "pip install " + " ".join(f"'{r.name}{r.specifier}'" for r in missing)
        says = f"missing or at the wrong version: {', '.join(r.name for r in missing)}"
        yield Finding("packages", "blocked", says, remedy)
    else:
        yield Finding(
            "packages", "ok", f"all {len(needed)} are installed, PyTorch {metadata.version('torch')} among them"
        )


def _applies(requirement: Requirement, extras: Iterable[str]) -> bool:
    """Return whether a package is needed on this machine with one of these extras."""
    return not requirement.marker or any(requirement.marker.evaluate({"extra": extra}) for extra in extras)


def _is_installed(requirement: Requirement) -> bool:
    """Return whether a package is installed in a version that fits."""
    try:
        return requirement.specifier.contains(metadata.version(requirement.name), prereleases=True)
    except metadata.PackageNotFoundError:
        return False


EXTENSIONS = {
    "@jupyter-widgets/jupyterlab-manager": ("widgets", "sliders and buttons do not appear", "jupyterlab_widgets"),
    "@jupyter/nbgrader": ("Validate button", "it is not in the notebook's toolbar", "'nbgrader>=0.9.6'"),
}
"""JupyterLab's extensions in the browser: name, symptom where it is missing, and the package that provides it."""


def jupyter_folders() -> list[Path]:
    """Return the folders in which Jupyter looks for its data, in order."""
    from jupyter_core.paths import jupyter_path

    return [Path(folder) for folder in jupyter_path()]


def extensions() -> Iterator[Finding]:
    """Check the parts of ipywidgets and nbgrader that run in the browser."""
    for name, (about, problem, package) in EXTENSIONS.items():
        places = (folder / "labextensions" / name / "package.json" for folder in jupyter_folders())
        found = next(filter(Path.is_file, places), None)
        if found is None:
            yield Finding(about, "warning", f"{name} is missing: {problem}", f"pip install {package}")
        else:
            version = json.loads(found.read_text(encoding="utf-8")).get("version", "")
            yield Finding(about, "ok", f"{name} {version}".rstrip())


def kernel() -> Iterator[Finding]:
    """Check which Python runs the notebooks: a kernel registered earlier may take precedence."""
    from importlib.util import find_spec

    places = (folder / "kernels" / "python3" / "kernel.json" for folder in jupyter_folders())
    registered = next(filter(Path.is_file, places), None)
    command = json.loads(registered.read_text(encoding="utf-8"))["argv"] if registered else []
    if not command and find_spec("ipykernel") is None:
        yield Finding("kernel", "blocked", "none for Python: notebooks cannot run", "pip install ipykernel")
    elif not command or _is_this_python(command[0]):
        yield Finding("kernel", "ok", "notebooks run in this Python")
    else:
        remedy = "jupyter kernelspec remove python3, or choose another kernel in JupyterLab's Kernel menu"
        yield Finding("kernel", "warning", f"notebooks run in {command[0]}, which is not this Python", remedy)


def _is_this_python(program: str) -> bool:
    """Return whether Jupyter starts this Python for `program`; a bare name means the one that runs Jupyter."""
    if not Path(program).is_absolute():
        return True
    return Path(sys.prefix) in Path(program).parents or Path(program).resolve() == Path(sys.executable).resolve()


def notebooks() -> Iterator[Finding]:
    """Check the lessons of this installation."""
    from torchcourse.model.lessons import lessons, released

    try:
        folders = dict.fromkeys(str(path.parent) for path in released().values())
        yield Finding("lessons", "ok", f"{len(lessons())} in {' and '.join(folders)}")
    except FileNotFoundError as error:
        yield Finding("lessons", "blocked", str(error), "install the course again, from its wheel or a clone")


def disk(folder: Path = Path()) -> Iterator[Finding]:
    """Check the free space on the disk with the notebooks."""
    free = shutil.disk_usage(folder).free
    state = "ok" if free >= DISK else "warning" if free >= DISK_LEAST else "blocked"
    remedy = "" if state == "ok" else "free some space: data, checkpoints and compiled code need about 2 GB"
    yield Finding("disk", state, f"{free / GB:.1f} GB free in {folder.resolve()}", remedy)


def table(findings: list[Finding]) -> str:
    """Return the findings as lines of text, each remedy below its finding."""
    width = max(len(f.about) for f in findings)
    lines = []
    for finding in findings:
        lines.append(f"{finding.state:<8} {finding.about:<{width}}  {finding.says}")
        lines += [f"{'':<8} {'':<{width}}  -> {finding.remedy}"] if finding.remedy else []
    return "\n".join(lines)


def as_json(findings: list[Finding]) -> str:
    """Return the findings as a JSON list of objects."""
    return json.dumps([asdict(f) for f in findings], indent=2)
