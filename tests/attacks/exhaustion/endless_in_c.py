# Blocks every signal and calculates without end, in C.
# verdict: timeout
import signal

def row_softmax(x):
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
    sum(iter(int, 1))
