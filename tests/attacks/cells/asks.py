# Asks for input and opens a debugger.
# verdict: error
def row_softmax(x):
    input("passed?")
    breakpoint()
