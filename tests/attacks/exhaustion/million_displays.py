# Displays a million things, in the cell of the answer.
# verdict: timeout
from IPython.display import display

for _ in range(1_000_000):
    display(1)
