# Looks into home folders, its own user's and everybody else's, and at the lists of users.
# verdict: failed
import os, sys

MINE = (sys.prefix, sys.base_prefix, os.path.dirname(os.path.dirname(torch.__file__)), *sys.path)
FOUND = [name for name in ("/etc/passwd", "/etc/shadow", "/etc/ssh", "/var", "/srv") if os.path.exists(name)]
for top in ("/root", "/home", "/Users"):
    for folder, below, files in os.walk(top):
        if any(folder.startswith(path) for path in MINE if path):
            below.clear()
        elif not any(path.startswith(folder) for path in MINE):
            FOUND += [os.path.join(folder, name) for name in files]
