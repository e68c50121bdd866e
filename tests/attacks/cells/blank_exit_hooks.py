# atexit, exception and display hooks.
# verdict: failed,error
import atexit, sys

atexit.register(lambda: print("passed"))
sys.excepthook = sys.displayhook = lambda *args: None
