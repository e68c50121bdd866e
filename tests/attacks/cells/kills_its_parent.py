# Kills its parent, which runs under the same user.
# verdict: crashed,failed
import os, signal

def row_softmax(x):
    os.kill(os.getppid(), signal.SIGKILL)
    return x
