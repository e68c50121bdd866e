# Stops its parent and itself, as Ctrl-Z does.
# verdict: timeout
import os, signal

def row_softmax(x):
    os.kill(os.getppid(), signal.SIGSTOP)
    os.kill(os.getpid(), signal.SIGSTOP)
