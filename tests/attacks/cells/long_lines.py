# A hundred megabytes in one line, and ten thousand displays.
# verdict: failed,error
from IPython.display import display

print("x" * (100 << 20))
for _ in range(10_000):
    display(1)

def row_softmax(x):
    return x
