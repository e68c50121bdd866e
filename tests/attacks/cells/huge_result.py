# Returns far more than an observation may hold.
# verdict: error,memory,failed
def row_softmax(x):
    return torch.zeros(1 << 22)
