# Fills both scratch folders with files that are each small enough, up to 400 MB.
# verdict: error
def row_softmax(x):
    for folder in ("/tmp", "/dev/shm"):
        for number in range(20):
            with open(f"{folder}/{number}", "wb") as file:
                file.write(bytes(10 << 20))
    return x
