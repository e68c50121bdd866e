# A trace function that rewrites the probe's locals.
# verdict: failed,error,crashed
import sys

def trace(frame, event, arg):
    if "result" in frame.f_locals:
        frame.f_locals["result"] = None
    return trace

sys.settrace(trace)
