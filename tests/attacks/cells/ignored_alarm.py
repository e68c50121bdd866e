# Ignores the alarm and loops for ever.
# verdict: timeout
import signal

def row_softmax(x):
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    while True:
        pass
