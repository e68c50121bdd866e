"""The system calls that a submission may make, by what they are for; every other call is refused.

`python -m tools.system_calls` makes the filters of `inside/` from this list, with libseccomp. The list is what was
recorded while the reference answers of all lessons were graded, and the near relatives of those calls, which another C
library, another processor or another Python takes in their place.

Left out above all: what outlives a process (shared memory, queues and semaphores of System V, POSIX queues, keys), what
reaches into another process (tracing, its memory, its descriptors), what makes or enters namespaces and mounts, files
in memory that no limit counts, rings of calls that this filter would not see, BPF, counters of the processor, modules,
the clock of the machine, watching files, and locks on files, which only seem to succeed.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ALLOWED", "CONDITIONS", "FAMILIES", "FIRST_UNKNOWN_CALL", "MISSING", "PRETENDED", "Condition"]

ALLOWED = {
    # open, read and list files, and ask about them; Landlock and the mounts decide which
    "reading files": """
        open openat close close_range read readv pread64 preadv preadv2 lseek stat lstat fstat newfstatat statx statfs
        fstatfs access faccessat faccessat2 readlink readlinkat getdents getdents64 getcwd chdir fchdir fadvise64
        readahead getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr
    """,
    # write, rename and remove what lies in the scratch folders
    "writing files": """
        creat write writev pwrite64 pwritev pwritev2 truncate ftruncate fallocate fsync fdatasync sync_file_range
        rename renameat renameat2 link linkat symlink symlinkat unlink unlinkat mkdir mkdirat rmdir chmod fchmod
        fchmodat chown fchown lchown fchownat utime utimes futimesat utimensat umask copy_file_range sendfile
        splice setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr
    """,
    # pipes, and waiting for several files: subprocess, asyncio, DataLoader, process groups
    "descriptors": """
        dup dup2 dup3 ioctl pipe pipe2 eventfd eventfd2 select pselect6 poll ppoll epoll_create epoll_create1
        epoll_ctl epoll_wait epoll_pwait epoll_pwait2
    """,
    # the allocators of libc, Python and torch; mapped files and shared tensors; where memory lies
    "memory": """
        brk mmap munmap mprotect mremap madvise msync mincore membarrier mlock munlock get_mempolicy
    """,
    # start, wait for and end processes: workers of loaders, ranks, compilers. Namespaces and Landlock say which ones
    # can be signalled
    "processes": """
        fork vfork execve exit exit_group wait4 waitid kill tkill tgkill pidfd_open pidfd_send_signal prctl arch_prctl
        getpid getppid gettid getpgrp getpgid setpgid getsid setsid getuid geteuid getgid getegid getresuid getresgid
        getgroups capget
    """,
    # threads and their locks
    "threads": """
        set_tid_address set_robust_list get_robust_list rseq futex sched_yield sched_getaffinity sched_getscheduler
        sched_getparam sched_get_priority_max sched_get_priority_min getpriority getcpu
    """,
    # how cells are interrupted, and how exceptions in C++ and crashes are handled
    "signals": """
        rt_sigaction rt_sigprocmask rt_sigpending rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_sigqueueinfo
        rt_tgsigqueueinfo sigaltstack pause restart_syscall
    """,
    # clocks that are read, and timers of one's own
    "time": """
        clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time times alarm getitimer setitimer
        timer_create timer_settime timer_gettime timer_getoverrun timer_delete timerfd_create timerfd_settime
        timerfd_gettime
    """,
    # ranks talk over loopback, which the network namespace holds alone; `socket` itself has a condition
    "sockets": """
        bind listen accept accept4 connect getsockname getpeername getsockopt setsockopt sendto recvfrom sendmsg
        recvmsg sendmmsg recvmmsg shutdown
    """,
    # what the machine is like, and random numbers
    "the machine": """
        uname sysinfo getrandom getrlimit setrlimit getrusage
    """,
}

FAMILIES = {"unix": 1, "IPv4": 2, "IPv6": 10, "netlink": 16}
"""Families of sockets that a network namespace isolates; netlink lists a namespace's own addresses. Others, such as
vsock, reach the host of a virtual machine."""

NEW_NAMESPACES = 0x7E02_0000
"""The flags of clone(2) that make a namespace."""
FILE_TYPE, PIPE = 0xF000, 0x1000
"""The bits of a mode that say what a file is, and those of a named pipe."""


@dataclass(frozen=True)
class Condition:
    """What a call is allowed for: an argument, of which the bits of `mask` have to be one of `values`.

    Several conditions on one call have to hold together.
    """

    argument: int
    values: tuple[int, ...] = (0,)
    mask: int = 0xFFFF_FFFF


ON_A_DESCRIPTOR = {"DUPFD": 0, "GETFD": 1, "SETFD": 2, "GETFL": 3, "SETFL": 4, "DUPFD_CLOEXEC": 1030,
                   "SETPIPE_SZ": 1031, "GETPIPE_SZ": 1032}  # fmt: skip
"""The commands of fcntl(2) that concern only the caller's descriptor or pipe."""
LOCKING = {"SETLK": 6, "SETLKW": 7, "OFD_SETLK": 37, "OFD_SETLKW": 38}
"""Those that lock a part of a file."""

OWN = Condition(0)
"""The argument that names a process is 0: the caller itself."""
CONDITIONS: dict[str, tuple[Condition, ...]] = {
    "clone": (Condition(0, mask=NEW_NAMESPACES),),
    "fcntl": (Condition(1, tuple(ON_A_DESCRIPTOR.values())),),
    "mknod": (Condition(1, (PIPE,), FILE_TYPE),),
    "mknodat": (Condition(2, (PIPE,), FILE_TYPE),),
    "socket": (Condition(0, tuple(FAMILIES.values())),),
    "socketpair": (Condition(0, (FAMILIES["unix"],)),),
    "prlimit64": (OWN,),
    "sched_setaffinity": (OWN,),
    "sched_setscheduler": (OWN,),
    "sched_setparam": (OWN,),
    "sched_setattr": (OWN,),
    "sched_getattr": (OWN,),
    "setpriority": (OWN, Condition(1)),  # PRIO_PROCESS, and no group or user
    "ioprio_set": (Condition(0, (1,)), Condition(1)),  # IOPRIO_WHO_PROCESS
}
"""Calls that are allowed with some arguments only. The lower half of an argument counts: the kernel reads no more."""

PRETENDED: dict[str, tuple[Condition, ...]] = {"flock": (), "fcntl": (Condition(1, tuple(LOCKING.values())),)}
"""Calls that do nothing and seem to succeed: locks on files. Submissions share the files of Python and torch, and what
one locks another would see. An honest program has its files to itself, and has to wait for nobody."""

MISSING = ("clone3", "memfd_create", "memfd_secret", "io_uring_setup", "openat2", "futex_waitv")
"""Calls that seem not to exist (ENOSYS), so that programs take an older one, whose arguments the filter can see."""
FIRST_UNKNOWN_CALL = 451
"""Calls from this number on, which are younger than this list, seem not to exist either: libraries that know them fall
back then, and would take a refusal as final."""
