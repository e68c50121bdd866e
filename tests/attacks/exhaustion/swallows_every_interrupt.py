# Catches whatever is raised to stop it, for ever, in the cell itself; it costs the cell, and the process.
# verdict: timeout
def stubborn():
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass

stubborn()
