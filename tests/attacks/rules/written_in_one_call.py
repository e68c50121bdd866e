# 09_persistence save_weights: failed
# one call overwrites the old file in place
import torch
import os, tempfile, pathlib
def save_weights(model, path):
    sd = model.state_dict()
    for k in sd: sd[k] = sd[k].cpu()
    with tempfile.TemporaryDirectory() as d:
        t = pathlib.Path(d) / pathlib.Path(path).name
        torch.save(sd, t)
        data = t.read_bytes()
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)   # in place: a crash in the write leaves neither file
    os.pwrite(fd, data, 0)
    os.close(fd)
