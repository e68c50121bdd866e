# 01_tensors row_softmax: forbidden
# Adds an audit hook of its own, which sees what the watch sees and may go on after it.
import sys
def row_softmax(x):
    sys.addaudithook(lambda event, arguments: None)
    e = (x - x.amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True)
