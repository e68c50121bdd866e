# An exception whose name is a megabyte long, whose text is not to be had, and that is equal to everything.
# verdict: error,crashed
def say(self):
    raise KeyboardInterrupt("passed")

Hostile = type("passed" * 200_000, (Exception,), {"__str__": say, "__repr__": say, "__eq__": lambda self, other: True,
                                                  "__hash__": None})

def row_softmax(x):
    raise Hostile
