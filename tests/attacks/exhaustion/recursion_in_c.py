# Recurses without end where the interpreter does not count.
# verdict: error,crashed,memory,timeout
import sys

def row_softmax(x):
    sys.setrecursionlimit(1 << 30)
    nested = []
    for _ in range(1_000_000):
        nested = [nested]
    repr(nested)
    return row_softmax(nested)
