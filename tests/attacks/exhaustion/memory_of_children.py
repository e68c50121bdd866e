# Has five children, each of which takes 160 MB: none of them too much.
# verdict: memory
import os, time

def row_softmax(x):
    children = []
    for _ in range(5):
        pid = os.fork()
        if pid == 0:
            held = bytearray(160 << 20)
            time.sleep(20)
            os._exit(0)
        children.append(pid)
    for pid in children:
        os.waitpid(pid, 0)
    return x
