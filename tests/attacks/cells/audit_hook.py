# An audit hook, which nothing can take out again, that raises when a process is forked and when a file is opened.
# verdict: crashed
import sys

def hook(event, args):
    if event in ("os.fork", "open", "socket.connect"):
        raise RuntimeError("not today")

sys.addaudithook(hook)
