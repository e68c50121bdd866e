# Opens debuggers, after the fact too, where nobody can type.
# verdict: error
import pdb

try:
    breakpoint()
except BaseException:
    pass

def row_softmax(x):
    pdb.set_trace()
    return x
