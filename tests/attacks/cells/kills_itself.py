# Ends itself with the signal that nobody can catch.
# verdict: crashed
import os, signal

def row_softmax(x):
    os.kill(os.getpid(), signal.SIGKILL)
