"""What a worker is shut in: bubblewrap's namespaces, or, where submissions are trusted by name, a process of its own.

This makes the command and what the worker has to know about where it is; it starts nothing but the trial of `blocker`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torchcourse
from autograde.inside import landlock, seccomp
from autograde.settings import FIRST_UID, LIMITS

__all__ = ["TRUST_WEAKENS", "Enclosure", "blocker", "exposed", "gpu_blocker", "kernel", "namespaces_remedy",
           "trust_blocker"]  # fmt: skip

WORKER = Path(__file__).parent / "inside" / "worker.py"
HOLDER = WORKER.with_name("holder.py")
SYSTEM = ("/usr", "/lib", "/lib64", "/lib32", "/bin", "/sbin", "/etc/ld.so.cache", "/etc/ssl", "/etc/alternatives",
          "/etc/fonts", "/etc/localtime", "/etc/mime.types")  # fmt: skip
GPU_DEVICES = ("/dev/nvidia*", "/dev/nvidia-caps/*", "/dev/dri/*", "/dev/kfd")

TRUST_WEAKENS = (
    "Submissions run WITHOUT ISOLATION, because --trust-submissions was given. They run as programs of this machine, "
    "{who}: they can use the network, see its processes, read {what}, and leave processes behind that no limit on time "
    "reaches. Only limits on each process hold. Do this with submissions of people whom you would let log in here; "
    "docs/isolation.md says how to get isolation instead."
)
GPU_WEAKENS = (
    "Submissions get the GPU, because --gpu was given: its driver, a large part of the kernel, is then in reach of "
    "their code, GPU memory is limited by nothing, one learner's kernels can slow or hang another's, what one leaves "
    "in GPU memory the next may read, and numbers may differ between GPU models."
)


@dataclass(frozen=True)
class Enclosure:
    """How workers of a grader are shut in.

    Args:
        trusted: no namespaces; limits on each process, and Landlock and the filter of calls where the kernel can.
        gpu: let the GPU's devices in.
    """

    trusted: bool = False
    gpu: bool = False

    def command(self, number: int, home: str, scratch_bytes: int = LIMITS.scratch_bytes) -> list[str]:
        """What goes before the worker's own command, for the worker of that number with the scratch folder `home`."""
        if not self.trusted:
            return _bubblewrap(number, self.gpu, scratch_bytes, self.variables(home))
        return _as_another(number) if os.geteuid() == 0 else []

    def holding(self, number: int, scratch_bytes: int, told: int) -> list[str]:
        """The command that makes a sandbox which a forked worker can go into: the descriptor `told` is told the id of
        its first process."""
        variables = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
        extra = ["--as-pid-1", "--info-fd", str(told)]
        holder = [sys.executable, "-I", "-S", str(HOLDER)]
        return [*_bubblewrap(number, self.gpu, scratch_bytes, variables, extra), *holder]

    def uid(self, number: int) -> int:
        """The user that root gives a worker of that number; 0 where the grader is not root."""
        return FIRST_UID + number if os.geteuid() == 0 else 0

    def environment(self, home: str) -> dict[str, str]:
        """The environment to start that in; bubblewrap's own can be read from inside, in /proc/1/environ."""
        return self.variables(home) if self.trusted else {"PATH": os.environ.get("PATH", "")}

    def variables(self, home: str) -> dict[str, str]:
        """The worker's environment."""
        accelerator = {} if self.gpu else {"TORCHCOURSE_ACCELERATOR": "simulated"}
        return {
            "HOME": home, "USER": "learner", "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "LANG": "C.UTF-8",
            "MPLBACKEND": "agg", "MPLCONFIGDIR": f"{home}/matplotlib", "IPYTHONDIR": f"{home}/ipython",
            "TMPDIR": home, "TORCHCOURSE_SIMULATED": "off",
            "PYTHONPATH": str(Path(torchcourse.__file__).parent.parent), "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1", "PYTORCH_NVML_BASED_CUDA_CHECK": "1", **accelerator,
            "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",  # large pages: a fork copies fewer entries
        }  # fmt: skip

    def settings(self, home: str) -> dict[str, Any]:
        """What the worker has to know."""
        return {
            "namespaces": not self.trusted, "mounted": _readable(), "home": home,
            "scratch": [home] if self.trusted else ["/tmp", "/dev/shm"],
            "writable": [home, "/dev/shm"],
            "devices": ["/dev"],
            "tcp": not self.trusted,  # with namespaces there is nobody to be reached; a lesson may talk to itself
        }  # fmt: skip

    def make_home(self, number: int) -> str:
        """The worker's scratch folder: in memory, of the sandbox alone, or one that has to be removed later."""
        if not self.trusted:
            return "/tmp"
        home = tempfile.mkdtemp(prefix="torchcourse-")
        if os.geteuid() == 0:
            os.chown(home, FIRST_UID + number, FIRST_UID + number)
        return home

    def remove_home(self, home: str) -> None:
        """Remove what `make_home` made."""
        if self.trusted:
            shutil.rmtree(home, ignore_errors=True)

    def warnings(self) -> list[str]:
        """What has to be said aloud, each time, of what this gives up."""
        who = "as an unprivileged user" if os.geteuid() == 0 else "as you"
        what = "what everybody may read here" if os.geteuid() == 0 else "your files, the course's answers among them"
        said = [TRUST_WEAKENS.format(who=who, what=what)] if self.trusted else []
        said += [GPU_WEAKENS] if self.gpu else []
        if not landlock.version():
            said.append("The kernel has no Landlock, so one layer that guards files is missing.")
        if not seccomp.available():
            said.append("System calls are not filtered here: what one learner leaves in the kernel the next may find.")
        return said


def kernel() -> tuple[int, ...]:
    """The first two numbers of this kernel's release."""
    return tuple(int(part) for part in re.findall(r"\d+", os.uname().release)[:2])


def blocker() -> str:
    """Why submissions cannot be isolated on this machine, with the remedy; empty where they can."""
    if not sys.platform.startswith("linux"):
        return "Isolation needs Linux: grade on a Linux machine or in a Linux virtual machine."
    if shutil.which("bwrap") is None:
        return "bubblewrap is missing: install it (apt-get install bubblewrap)."
    command = [*_bubblewrap(0, False, LIMITS.scratch_bytes, {}), "/usr/bin/env", "true"]
    trial = subprocess.run(command, capture_output=True, text=True, timeout=20)
    if trial.returncode:
        reason = (trial.stderr.strip().splitlines() or ["it gave no reason"])[-1]
        return f"bubblewrap cannot make a sandbox here ({reason}). {namespaces_remedy()}"
    return ""


def exposed(paths: Iterable[Path]) -> str:
    """Which of these lies where submissions may read, with the remedy; empty where none does."""
    shown = [(path, Path(path).resolve()) for path in _readable()]
    for path in paths:
        for name, place in shown:
            if path.resolve().is_relative_to(place):
                return f"{path} lies in {name}, which submissions may read: it has to be kept elsewhere."
    return ""


def trust_blocker() -> str:
    """Why trusted submissions cannot be run either, with the remedy; empty where they can.

    A grader that runs as root gives their workers an unprivileged user too, who has to be able to start Python.
    """
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return ""
    if not Path("/usr/bin/setpriv").exists():
        return "setpriv, which takes root's rights from a worker, is missing: grade as an ordinary user."
    for path in _readable():
        for above in reversed(Path(path).parents):
            if not above.stat().st_mode & 0o001:
                return f"{path} lies in {above}, which nobody but root may enter: grade as an ordinary user."
    return ""


def namespaces_remedy(root: Path = Path("/")) -> str:
    """What most likely keeps user namespaces from an ordinary user on the machine whose files lie at `root`, and what
    helps."""
    sys_ = root / "proc" / "sys"
    if _holds(sys_ / "kernel" / "apparmor_restrict_unprivileged_userns", "1"):
        return (
            "AppArmor keeps user namespaces from programs without a profile (Ubuntu 24.04 and later). Load "
            "one for bubblewrap, which docs/isolation.md holds, or grade as root: sudo torchcourse grade …"
        )
    if _holds(sys_ / "kernel" / "unprivileged_userns_clone", "0"):
        return "User namespaces are switched off: sudo sysctl kernel.unprivileged_userns_clone=1"
    if _holds(sys_ / "user" / "max_user_namespaces", "0"):
        return "User namespaces are switched off: sudo sysctl user.max_user_namespaces=10000"
    if any((root / path).exists() for path in (".dockerenv", "run/.containerenv")):
        return "This is a container without nested namespaces: docs/isolation.md says how to start one with them."
    return "docs/isolation.md says what can be done."


def _holds(path: Path, value: str) -> bool:
    try:
        return path.read_text().strip() == value
    except OSError:
        return False


def gpu_blocker() -> str:
    """Why no GPU can be let in, with the remedy; empty where one can."""
    from torchcourse.lanes import cuda_is_here

    os.environ.pop("TORCHCOURSE_ACCELERATOR", None)  # the instructor's commands prefer the simulated one, unless told
    if cuda_is_here():
        return ""
    return "--gpu was given, but PyTorch sees no GPU here (torchcourse doctor says more): grade without it."


def _bubblewrap(
    number: int, gpu: bool, scratch_bytes: int, variables: dict[str, str], extra: Sequence[str] = ()
) -> list[str]:
    """The bubblewrap command, up to the program that it runs."""
    present = _readable()
    above = sorted({str(parent) for path in present for parent in Path(path).parents} - {"/", "/usr"})
    folders = [arg for path in above for arg in ("--perms", "0755", "--dir", path)]  # else only their owner may enter
    binds = [arg for path in present for arg in ("--ro-bind", path, path)]
    devices = [arg for path in _gpu_devices() for arg in ("--dev-bind", path, path)] if gpu else []
    base = [
        "bwrap", "--unshare-net", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
        "--die-with-parent", "--new-session", "--hostname", "sandbox",
        "--perms", "1777", "--size", str(scratch_bytes), "--tmpfs", "/tmp", *folders, *binds,
        "--proc", "/proc", "--dev", "/dev", *devices,
        "--perms", "1777", "--size", str(scratch_bytes), "--tmpfs", "/dev/shm",
        "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tmp", "--clearenv",
    ]  # fmt: skip
    for name, value in variables.items():
        base += ["--setenv", name, value]
    base += extra
    if os.geteuid() != 0:
        return [*base, "--unshare-user", "--cap-drop", "ALL"]
    capabilities = ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    return [*base, *capabilities, *_as_another(number)]


def _as_another(number: int) -> list[str]:
    """Root only: what runs a program as the unprivileged user of that worker."""
    uid = FIRST_UID + number
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--inh-caps=-all", "--no-new-privs"]


def _gpu_devices() -> list[str]:
    return sorted(str(path) for pattern in GPU_DEVICES for path in Path("/").glob(pattern[1:]))


def _readable() -> list[str]:
    """What of this machine's files is seen in the sandbox, to be read only."""
    return sorted(path for path in {*SYSTEM, sys.prefix, sys.base_prefix, *_packages()} if Path(path).exists())


def _packages() -> list[str]:
    """Where torchcourse and what it imports lie, and the worker: nothing else of the course."""
    return [str(Path(torchcourse.__file__).parent), sysconfig.get_path("purelib"), str(WORKER.parent)]
