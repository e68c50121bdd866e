# Takes private memory, up to 3 GB.
# verdict: memory
def row_softmax(x):
    held = [bytearray(64 << 20) for _ in range(48)]
    return x
