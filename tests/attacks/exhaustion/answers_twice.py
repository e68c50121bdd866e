# Forks in the middle of its answer, so that two processes answer. It may cost its own other answers.
# verdict: forbidden,failed,crashed
import os

def row_softmax(x):
    os.fork()
    return x
