# Prints one line of a gigabyte.
# verdict: failed,timeout
for _ in range(64):
    print("x" * (16 << 20), end="")
