"""Run a template: `python -m inside DESCRIPTOR`, where the descriptor is the socket that its orders come on."""

import os
import socket
import sys

from .template import run_template

del sys.path[0]  # the folder that this package lies in: no learner's `import` should find it
os.chdir("/")
run_template(socket.socket(fileno=int(sys.argv[1])))
