# Opens a plot and waits for somebody to close it.
# verdict: timeout
import matplotlib.pyplot as plt

plt.plot([1, 2])
plt.show(block=True)

def row_softmax(x):
    plt.pause(100_000)
    return x
