# Leaves processes in sessions of their own.
# verdict: failed,error
import subprocess

for _ in range(3):
    subprocess.Popen(["sleep", "600"], start_new_session=True)

def row_softmax(x):
    return x
