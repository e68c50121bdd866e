# Opens debuggers, after the fact too, and asks for input, where nobody can type.
# verdict: error
import pdb

for ask in (breakpoint, input):
    try:
        ask()
    except BaseException:
        pass

def row_softmax(x):
    pdb.set_trace()
    return x
