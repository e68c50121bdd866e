# Makes a thousand files in a folder that nobody may enter.
# verdict: failed
import os

def row_softmax(x):
    for number in range(1):
        os.makedirs(f"/tmp/many/{number}", exist_ok=True)
        for name in range(1000):
            os.close(os.open(f"/tmp/many/{number}/{name}", os.O_CREAT | os.O_WRONLY, 0))
        os.chmod(f"/tmp/many/{number}", 0)
    return x
