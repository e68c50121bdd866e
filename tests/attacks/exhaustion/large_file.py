# Writes one file larger than a file may be, and a sparse one.
# verdict: error,crashed
def row_softmax(x):
    with open("/tmp/large", "wb") as file:
        file.truncate(1 << 30)
    return x
