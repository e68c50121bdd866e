# Recurses without end.
# verdict: error,crashed
def row_softmax(x):
    return row_softmax(x)
