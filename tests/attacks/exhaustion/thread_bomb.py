# Starts 2000 threads.
# verdict: error
import threading, time

def row_softmax(x):
    for _ in range(2000):
        threading.Thread(target=time.sleep, args=(3,), daemon=True).start()
    return x
