# Takes memory that is shared, which limits on private memory do not see, up to 2 GB.
# verdict: memory
import mmap, time

def row_softmax(x):
    held = []
    for _ in range(32):
        block = mmap.mmap(-1, 64 << 20)
        for at in range(0, 64 << 20, 4096):
            block[at] = 1
        held.append(block)
    time.sleep(1)
    return x
