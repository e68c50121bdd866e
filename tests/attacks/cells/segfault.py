# Reads address zero.
# verdict: crashed
import ctypes

def row_softmax(x):
    ctypes.string_at(0)
