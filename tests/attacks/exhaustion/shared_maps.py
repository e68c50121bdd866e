# Takes memory that is shared, which limits on private memory do not see, up to 2 GB.
# verdict: memory
import mmap, time

TEXT = b"x" * (64 << 20)

def row_softmax(x):
    held = []
    for _ in range(32):
        held.append(mmap.mmap(-1, 64 << 20))
        held[-1].write(TEXT)
    time.sleep(10)
    return x
