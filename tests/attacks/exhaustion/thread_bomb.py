# Starts 2000 threads. It costs the notebook its second device.
# verdict: error
import threading, time

def row_softmax(x):
    for _ in range(2000):
        threading.Thread(target=time.sleep, args=(3,), daemon=True).start()
    return x
