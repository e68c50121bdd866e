"""The first process of a sandbox: keeps its namespaces alive until the grader closes its standard input.

A worker that was forked outside enters them. Signals from inside a PID namespace do not reach its first process unless
it has a handler for them, so killing all processes spares this one; and it is not dumpable, so that processes of the
same user cannot trace it.
"""

import ctypes
import os
import signal

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NAME = 1, 4, 15

signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python's handler would let this signal in
libc = ctypes.CDLL(None)
libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # bubblewrap set it before the user changed, which cleared it
libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
libc.prctl(PR_SET_NAME, b"pause", 0, 0, 0)
os.write(1, b"ready")
os.read(0, 1)
