"""The configuration of sandboxes: bubblewrap's command, and what a worker has to know. Nothing is started here."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torchcourse
from autograde.sandbox.inside import landlock, seccomp
from autograde.settings import FIRST_UID
from torchcourse.model.own_course import VARIABLE, own_course

__all__ = ["INSIDE", "RANKS", "Isolation", "kernel", "readable"]

INSIDE = Path(__file__).parent / "inside"
SYSTEM = ("/usr", "/lib", "/lib64", "/lib32", "/bin", "/sbin", "/etc/ld.so.cache", "/etc/ssl", "/etc/alternatives",
          "/etc/fonts", "/etc/localtime", "/etc/mime.types")  # fmt: skip
GPU_DEVICES = ("/dev/nvidia*", "/dev/nvidia-caps/*", "/dev/dri/*", "/dev/kfd")

COUNTERS = ("stat", "loadavg", "uptime", "vmstat", "interrupts", "softirqs", "schedstat", "diskstats", "zoneinfo",
            "buddyinfo", "swaps", "partitions", "locks", "sys/fs/file-nr", "sys/fs/inode-nr",
            "sys/fs/inode-state", "sys/fs/dentry-state")  # fmt: skip
"""Files of /proc that count what all programs of the machine do. They are masked: through them, a process that knows
hidden inputs could tell them to one that runs later."""
UNSEEN = "greenlet"
"""A library that comes with SQLAlchemy and runs Python where profilers, and so the watch for forbidden calls, see
nothing. Its compiled module is masked."""
LIBRARIES = ("IPython", "matplotlib", "numpy", "sklearn", "torch", "torchvision")

RANKS = "torch.nn.parallel.distributed"
"""The module that a lesson imports if its exercises run on several ranks."""
TRUSTED_WARNING = (
    "Submissions run WITHOUT ISOLATION, because --trust-submissions was given. They run as programs of this machine, "
    "{who}: they can use the network, see its processes, read {what}, and leave processes behind that no time limit "
    "ends. Only the limits on single processes apply. Do this with submissions of people whom you would let log in "
    "here; docs/isolation.md says how to get isolation instead."
)
GPU_WARNING = (
    "Submissions get the GPU, because --gpu was given: their code can then reach its driver, a large part of "
    "the kernel; GPU memory is not limited; one learner's kernels can slow or hang another's; the next one may read "
    "what was left in GPU memory; and numbers may differ between GPU models."
)


@dataclass(frozen=True)
class Isolation:
    """How the workers of a grader are isolated.

    Args:
        trusted: use no namespaces, but only limits on each process and, where the kernel has them, Landlock and the
            filter of system calls.
        gpu: give workers access to the GPU.
    """

    trusted: bool = False
    gpu: bool = False

    def pause_command(self, number: int, scratch_bytes: int, info_descriptor: int) -> list[str]:
        """Return the command that makes the sandbox of a worker around a pause process, which only waits.

        Args:
            number: the number of the worker, which its user id depends on.
            scratch_bytes: the size of each of the two scratch folders.
            info_descriptor: the descriptor that bubblewrap writes the id of the pause process to.
        """
        base = [
            "bwrap", "--unshare-net", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
            "--die-with-parent", "--new-session", "--hostname", "sandbox",
            "--perms", "1777", "--size", str(scratch_bytes), "--tmpfs", "/tmp", *self._mounts(),
            "--perms", "1777", "--size", str(scratch_bytes), "--tmpfs", "/dev/shm",
            "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tmp", "--clearenv",
            "--setenv", "PATH", "/usr/bin:/bin", "--setenv", "LANG", "C.UTF-8",
            "--as-pid-1", "--info-fd", str(info_descriptor), "--cap-drop", "ALL",
        ]  # fmt: skip
        pause = [sys.executable, "-I", "-S", str(INSIDE / "pause_process.py")]
        uid = self.uid(number)
        if not uid:
            return [*base, "--unshare-user", *pause]
        drop = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--inh-caps=-all", "--no-new-privs"]
        return [*base, "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", *drop, *pause]

    def _mounts(self) -> list[str]:
        present = readable()
        parents = sorted({str(parent) for path in present for parent in Path(path).parents} - {"/", "/usr"})
        folders = [arg for path in parents for arg in ("--perms", "0755", "--dir", path)]  # else only root may enter
        binds = [arg for path in present for arg in ("--ro-bind", path, path)]
        gpus = [str(path) for pattern in GPU_DEVICES for path in Path("/").glob(pattern[1:])] if self.gpu else []
        devices = [arg for path in sorted(gpus) for arg in ("--dev-bind", path, path)]
        counters = [f"/proc/{name}" for name in COUNTERS if Path(f"/proc/{name}").is_file()]
        masks = [arg for path in [*counters, *_unseen_modules()] for arg in ("--ro-bind", "/dev/null", path)]
        return [*folders, *binds, "--proc", "/proc", *masks, "--dev", "/dev", *devices]

    def uid(self, number: int) -> int:
        """Return the user id of the worker with this number; 0 (no change of user) where the grader is not root."""
        return FIRST_UID + number if os.geteuid() == 0 else 0

    def environment(self, home: str) -> dict[str, str]:
        """Return a worker's environment variables, given its scratch folder."""
        accelerator = {} if self.gpu else {"TORCHCOURSE_ACCELERATOR": "simulated"}
        return {
            "HOME": home, "USER": "learner", "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "LANG": "C.UTF-8",
            "MPLBACKEND": "agg", "MPLCONFIGDIR": f"{home}/matplotlib", "IPYTHONDIR": f"{home}/ipython",
            "TMPDIR": home, "TORCHCOURSE_SIMULATED": "off",
            "PYTHONPATH": str(Path(torchcourse.__file__).parent.parent), "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1", "PYTORCH_NVML_BASED_CUDA_CHECK": "1", **accelerator, **_own_course(),
            "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",  # huge pages, so that a fork copies a smaller page table
        }  # fmt: skip

    def worker_configuration(self, home: str, ranks: bool = False) -> dict[str, Any]:
        """Return what a worker has to know of its sandbox, given its scratch folder.

        Ranks communicate over TCP, so it stays allowed for them even without isolation.
        """
        return {
            "namespaces": not self.trusted, "environment": self.environment(home), "home": home,
            "mounted": readable(),
            "scratch": [home] if self.trusted else ["/tmp", "/dev/shm"],
            "writable": [home, "/dev/shm"],
            "devices": ["/dev"],
            # the network namespace holds this worker alone, and a lesson may talk to itself
            "tcp": ranks or not self.trusted,
        }  # fmt: skip

    def make_home(self, number: int) -> str:
        """Return a worker's scratch folder: /tmp of its sandbox, or a new folder where submissions are trusted."""
        if not self.trusted:
            return "/tmp"
        home = tempfile.mkdtemp(prefix="torchcourse-")
        if uid := self.uid(number):
            os.chown(home, uid, uid)
        return home

    def remove_home(self, home: str) -> None:
        """Remove the folder if `make_home` made it."""
        if self.trusted:
            shutil.rmtree(home, ignore_errors=True)

    def warnings(self) -> list[str]:
        """Return the warnings to show at each run: what this configuration and this machine leave unprotected."""
        root = os.geteuid() == 0
        who = "as an unprivileged user" if root else "as you"
        what = "what everybody may read here" if root else "your files, the course's answers among them"
        texts = [TRUSTED_WARNING.format(who=who, what=what)] if self.trusted else []
        texts += [GPU_WARNING] if self.gpu else []
        if not landlock.version():
            texts.append("The kernel has no Landlock, so one layer that protects files is missing.")
        if not seccomp.available():
            texts.append("System calls are not filtered here: the next learner may find what one leaves in the kernel.")
        return texts


def kernel() -> tuple[int, ...]:
    """Return this kernel's major and minor version."""
    return tuple(int(part) for part in re.findall(r"\d+", os.uname().release)[:2])


def readable() -> list[str]:
    """Return the paths of this machine that submissions may read: the system, Python, torchcourse and `inside/`."""
    own = own_course()
    course = [str(Path(torchcourse.__file__).parent), sysconfig.get_path("purelib"), str(INSIDE), *_library_folders()]
    course += [str(own / "exercises")] if own else []
    return sorted(path for path in {*SYSTEM, sys.prefix, sys.base_prefix, *course} if Path(path).exists())


def _own_course() -> dict[str, str]:
    """Return the environment variable that names the instructor's own course, if there is one."""
    own = own_course()
    return {VARIABLE: str(own)} if own else {}


def _unseen_modules() -> list[str]:
    """Return the compiled modules of `UNSEEN`, where it is installed."""
    spec = importlib.util.find_spec(UNSEEN)
    places = (spec and spec.submodule_search_locations) or []
    return [str(path) for place in places for path in Path(place).glob("*.so")]


def _library_folders() -> set[str]:
    """Return the folders of packages that lessons' libraries lie in, which a `.pth` file of an environment may add.

    No other folder is shown to submissions because of a `.pth` file: an editable installation adds whole checkouts.
    """
    specs = (importlib.util.find_spec(name) for name in LIBRARIES)
    origins = (Path(spec.origin) for spec in specs if spec and spec.origin)
    return {str(p) for origin in origins for p in origin.parents if p.name in ("site-packages", "dist-packages")}
