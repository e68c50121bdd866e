"""Keeps the namespaces of a sandbox, as their first process, until whoever made them closes its standard input.

A process that was forked elsewhere joins them (`joining.py`). No signal from within ends the first process of a
namespace unless it asked for it, so killing everybody leaves this one; and nobody of the same user may look into it.
"""

import ctypes
import os
import signal

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NAME = 1, 4, 15

signal.signal(signal.SIGINT, signal.SIG_DFL)  # of the signals that it has no handler for, none comes from inside
libc = ctypes.CDLL(None)
libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # bubblewrap asked for it, and changing the user took it back
libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
libc.prctl(PR_SET_NAME, b"holder", 0, 0, 0)
os.write(1, b"ready")
os.read(0, 1)
