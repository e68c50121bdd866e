"""Record, through Python's audit events, the threads, processes, profilers and file copies that a block starts.

An audit hook is called on every thread, and Python has no call that removes one.
"""

from __future__ import annotations

import os
import sys
import threading
from functools import cache
from typing import Any

from torchcourse.checking.shared_process import is_shared
from torchcourse.model.own_code import called_by_own_code, file_of, is_own

__all__ = [
    "ADDRESSES",
    "COPIES",
    "PROCESSES",
    "PROFILERS",
    "THREADS",
    "Audit",
    "children",
    "has_prepared",
    "watch_preparations",
]

THREADS, PROCESSES, PROFILERS, COPIES = "threads", "processes", "profilers", "copies of files"
ADDRESSES = "functions by address"
EVENTS = {
    **dict.fromkeys(("_thread.start_new_thread", "_thread.start_joinable_thread"), THREADS),
    **dict.fromkeys(
        ("os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.exec", "os.system", "subprocess.Popen"), PROCESSES
    ),
    **dict.fromkeys(("sys.setprofile", "sys.settrace", "sys.addaudithook"), PROFILERS),
    **dict.fromkeys(
        (
            "ctypes.dlopen",
            "ctypes.dlsym",
            "ctypes.dlsym/handle",
            "ctypes.cdata",
            "ctypes.cdata/buffer",
            "ctypes.call_function",
            "ctypes.string_at",
            "ctypes.wstring_at",
            "ctypes.memoryview_at",
        ),
        ADDRESSES,
    ),
    "shutil.copyfile": COPIES,
}
"""The category of each audit event."""
PREPARATIONS = {
    "sys.addaudithook": ("addaudithook",), "code.__new__": ("replace", "CodeType"), "marshal.loads": ("loads",),
}  # fmt: skip
"""For each audit event, the names by which library code causes it. A cell that causes one may have installed an audit
hook or forged a code object, which no watch sees."""
IN_SOCKET = 1 << 20
"""The bytes that a socket may hold for its other end."""
_running: list[Audit] = []
_prepared: set[str] = set()


class Audit:
    """A context manager that notes what is started in its block: by all threads, unless other work shares the process.

    Attributes:
        used: which of `THREADS`, `PROCESSES`, `PROFILERS`, `COPIES` and, by the learner's own code, `ADDRESSES` were
            used.
        mapped: the bytes of memory maps that were made, and those that sockets may hold.
    """

    def __init__(self) -> None:
        self.all_threads = not is_shared()
        self.used: set[str] = set()
        self.mapped = 0
        self.thread = 0

    def __enter__(self) -> Audit:
        _install()
        self.thread = threading.get_ident()
        _running.append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        _running[:] = [audit for audit in _running if audit is not self]


def children() -> tuple[int, bool]:
    """Return a fingerprint of this process's children: it changes when one is started, however it is started.

    It consists of the page faults of ended children and whether a child exists now; on Windows, and where other work
    shares the process, it is constant.
    """
    if is_shared():
        return 0, False
    try:
        import resource  # not on Windows
    except ImportError:
        return 0, False
    faults = resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return faults, False
    return faults, True


def watch_preparations() -> None:
    """Note from now on what cells prepare; call this in processes that run unreviewed code. See `has_prepared`."""
    _install()


def has_prepared() -> bool:
    """Return whether anything in this process has added an audit hook, or made a code object from another one."""
    return bool(_prepared)


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if event in PREPARATIONS and not _is_by_a_library(PREPARATIONS[event]):
        _prepared.add(event)
    if not _running or not (event in EVENTS or event in ("mmap.__new__", "socket.__new__")):
        return
    if EVENTS.get(event) == ADDRESSES and not called_by_own_code():
        return
    for audit in _running:
        if audit.all_threads or audit.thread == threading.get_ident():
            if event in EVENTS:
                audit.used.add(EVENTS[event])
            else:
                size = arguments[1] if event == "mmap.__new__" else IN_SOCKET
                audit.mapped += size if type(size) is int else 0  # `sys.audit` may be given what adds itself


def _is_by_a_library(names: tuple[str, ...]) -> bool:
    code = sys._getframe(2).f_code
    return not is_own(file_of(code)) and not set(names).isdisjoint(code.co_names)


@cache
def _install() -> None:
    """Install the hook, once in each process; it stays in its forks."""
    sys.addaudithook(_note)
