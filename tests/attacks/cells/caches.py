# Leaves compiled code, modules and settings where the next learner's imports would find them.
# verdict: failed
import os, site, sys

TEXT = "raise SystemExit('left by another')"
FOUND = []
for module in (torch, os, sys.modules["torchcourse"], sys.modules["IPython"]):
    folder = os.path.dirname(module.__file__)
    for name in ("__pycache__/warnings.cpython-311.pyc", "sitecustomize.py", "usercustomize.py"):
        try:
            open(os.path.join(folder, name), "w").write(TEXT)
            FOUND.append(os.path.join(folder, name))
        except OSError:
            pass
for name in ("/tmp/sitecustomize.py", "/tmp/work/torch.py", "/dev/shm/torch.py", "/tmp/matplotlib/matplotlibrc",
             "~/.ipython/profile_default/startup/a.py", "/tmp/ipython/profile_default/startup/a.py"):
    try:  # there it may be written, and has to be gone when the next learner comes
        os.makedirs(os.path.dirname(os.path.expanduser(name)), exist_ok=True)
        open(os.path.expanduser(name), "w").write(TEXT)
    except OSError:
        pass
for place in (*site.getsitepackages(), site.getusersitepackages(), *sys.path, "/etc", "/etc/ipython", "/", "/usr", "/dev"):
    try:
        open(os.path.join(place, "left.pth"), "w").write("import left_by_another")
        FOUND += [] if place.startswith(("/tmp", "/dev/shm")) else [place]
    except OSError:
        pass
