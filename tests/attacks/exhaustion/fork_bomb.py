# Forks, and its children fork, up to 1024 processes that each live for some seconds. It costs the notebook its second device.
# verdict: forbidden,error,crashed,failed,timeout
import os, time

def row_softmax(x):
    me = os.getpid()
    for _ in range(10):
        try:
            os.fork()
        except OSError:
            break
    if os.getpid() != me:
        time.sleep(5)
        os._exit(0)
    raise RuntimeError("as many as there may be")
