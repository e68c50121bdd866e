# Lists in lists, by the hundred thousand: little to send, and much to build.
# verdict: error,failed,memory,timeout
def row_softmax(x):
    return [[[]] * 90_000 for _ in range(12)]
