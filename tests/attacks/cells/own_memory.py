# Writes to its own memory, and its parent's, through /proc.
# verdict: failed
import os

WRITTEN = []
for pid in ("self", os.getppid(), 1):
    try:
        with open(f"/proc/{pid}/mem", "r+b", buffering=0):
            WRITTEN.append(str(pid))
    except OSError:
        pass

def row_softmax(x):
    if WRITTEN:
        raise SystemError("opened " + WRITTEN[0])
    return x
