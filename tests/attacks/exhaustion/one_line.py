# Prints one line of a gigabyte.
# verdict: failed
for _ in range(16):
    print("x" * (64 << 20), end="")

def row_softmax(x):
    return x
