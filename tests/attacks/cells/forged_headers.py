# Messages of the right form that say impossible things of tensors: sizes, places, kinds, layouts.
# verdict: crashed,failed
import json, os, struct

import torchcourse.model.codec as codec

honest = codec.pack
BODIES = (
    {"dtype": "float32", "shape": [1 << 40], "at": [0, 4]},
    {"dtype": "float32", "shape": [-1], "at": [0, 4]},
    {"dtype": "float32", "shape": [1], "at": [-8, 4]},
    {"dtype": "quint8", "shape": [1], "at": [0, 1]},
    {"dtype": "float32", "shape": [1], "at": [0, 4], "layout": [[1], 1 << 40]},
    {"dtype": "float32", "shape": [0, 1 << 62], "at": [0, 0]},
    {"dtype": "float32", "shape": [1.0], "at": [0, 4]},
)

def pack(value):
    if not (isinstance(value, dict) and "seen" in value):
        return honest(value)
    header = {"dict": [["seen", {"dict": [["result", {"tensor": BODIES[os.getpid() % len(BODIES)]}]]}]]}
    head = json.dumps(header).encode()
    return struct.pack("<Q", len(head)) + head + bytes(4)

codec.pack = pack
