# Takes memory that is shared, which limits on private memory do not see, up to 2 GB.
# verdict: memory
import mmap, time

def row_softmax(x):
    held = []
    for _ in range(32):
        held.append(mmap.mmap(-1, 64 << 20, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE))  # writing takes CPU time
    time.sleep(10)
    return x
