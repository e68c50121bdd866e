# Blocks every signal and sleeps: it uses no CPU time at all.
# verdict: timeout
import signal, time

def row_softmax(x):
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
    time.sleep(100_000)
